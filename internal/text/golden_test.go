package text_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
)

var update = flag.Bool("update", false, "rewrite the expectations in testdata")

// Every NAME.yaml and NAME.md of the archives parses to NAME.out. In the inputs, ␍ is a carriage return, → a tab and ¶
// removes the newline, so that editors do not change them.
func TestParsedDocumentsMatchGoldenFiles(t *testing.T) {
	archives, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatal("no archives", err)
	}
	for _, path := range archives {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		wanted := map[string]string{}
		for _, f := range archive.Files {
			wanted[f.Name] = string(f.Data)
		}
		rewritten := &txtar.Archive{Comment: archive.Comment}
		for _, f := range archive.Files {
			name, kind, _ := strings.Cut(f.Name, ".")
			if kind == "out" {
				continue
			}
			in := strings.NewReplacer("␍", "\r", "→", "\t", "¶\n", "").Replace(string(f.Data))
			file := source.NewFile(f.Name, in)
			var got string
			if kind == "md" {
				got = describeDocument(file)
			} else {
				got = describeYAML(file)
			}
			rewritten.Files = append(rewritten.Files, f, txtar.File{Name: name + ".out", Data: []byte(got)})
			t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar")+"/"+name, func(t *testing.T) {
				if diff := cmp.Diff(wanted[name+".out"], got); diff != "" && !*update {
					t.Errorf("%s (-wanted +got):\n%s", f.Name, diff)
				}
			})
		}
		if *update {
			if err := os.WriteFile(path, txtar.Format(rewritten), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// promised matches help texts that say exactly what to write.
var promised = regexp.MustCompile(`^(Write (\S+|".*")|Remove the (line|spaces before it))\.$`)

// Every diagnostic of the archives whose help says what to write has a fix, and every fix removes its diagnostic.
func TestHelpThatSaysWhatToWriteHasAFix(t *testing.T) {
	archives, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	fixes := 0
	for _, path := range archives {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range archive.Files {
			if filepath.Ext(f.Name) == ".yaml" {
				fixes += checkFixes(t, strings.NewReplacer("␍", "\r", "→", "\t", "¶\n", "").Replace(string(f.Data)))
			}
		}
	}
	if fixes < 30 {
		t.Errorf("the archives have only %d fixes", fixes)
	}
}

// checkFixes checks the diagnostics of a text and returns the number of their fixes.
func checkFixes(t *testing.T, in string) int {
	t.Helper()
	file := source.NewFile("f.yaml", in)
	_, list := text.ParseYAML(file, 0, len(in))
	fixes := 0
	for _, one := range list {
		if promised.MatchString(one.Help) && len(one.Fixes) == 0 {
			t.Errorf("%s has no fix: %s\n%s", one.Code, one.Help, in)
		}
		for _, fix := range one.Fixes {
			fixes++
			changed := source.NewFile(file.Path, fix.Apply(file))
			_, after := text.ParseYAML(changed, 0, len(changed.Text))
			if after.Count(diag.Error) > list.Count(diag.Error) {
				t.Errorf("%s: %s adds errors: %v", one.Code, fix.Title, after)
			}
			same := func(o diag.Diagnostic) bool {
				return o.Code == one.Code && o.Message == one.Message && o.Span.Start == one.Span.Start
			}
			if slices.ContainsFunc(after, same) {
				t.Errorf("%s: %s makes\n%s\nof\n%s", one.Code, fix.Title, changed.Text, in)
			}
		}
	}
	return fixes
}

func describeYAML(f *source.File) string {
	var b strings.Builder
	n, list := text.ParseYAML(f, 0, len(f.Text))
	if n != nil {
		describeNode(&b, f, n, "")
	}
	printList(&b, f, list)
	if _, repairs, rest := text.ParseYAMLLenient(f, 0, len(f.Text)); len(repairs) > 0 {
		for _, r := range repairs {
			fmt.Fprintf(&b, "repaired %s %s = %q\n", r.Problem.Code, r.Key, r.Value.Value)
		}
		if rest.Errors() {
			b.WriteString("still wrong\n")
		}
	}
	return b.String()
}

func printList(b *strings.Builder, f *source.File, list diag.List) {
	if err := (diag.Printer{Files: source.Set{f.Path: f}}).Print(b, list); err != nil {
		panic(err) // a strings.Builder takes everything
	}
}

// describeNode prints a tree. Scalars are printed with kind, value, and the text at their span if it differs.
func describeNode(b *strings.Builder, f *source.File, n *text.Node, indent string) {
	place := f.Text[n.Span.Start:n.Span.End]
	switch n.Kind {
	case text.Map:
		fmt.Fprintf(b, "map %q\n", place)
		for _, p := range n.Pairs {
			fmt.Fprintf(b, "%s  %s: ", indent, p.Key.Value)
			describeNode(b, f, p.Value, indent+"  ")
		}
	case text.List:
		fmt.Fprintf(b, "list %q\n", place)
		for _, item := range n.Items {
			b.WriteString(indent + "  - ")
			describeNode(b, f, item, indent+"  ")
		}
	default:
		kind := [...]string{"null", "bool", "int", "float", "string"}[n.Kind]
		if n.Exact() {
			fmt.Fprintf(b, "%s %q at %d\n", kind, n.Value, n.Span.Start)
		} else {
			fmt.Fprintf(b, "%s %q written %q\n", kind, n.Value, place)
		}
	}
}

func describeDocument(f *source.File) string {
	var b strings.Builder
	d := text.ParseMarkdown(f)
	d.Repair([]string{"step", "agent"}, func(lines string) (string, int) {
		if at := strings.Index(lines, "id: "); at >= 0 {
			return "step", at
		}
		return "", 0
	})
	region := func(r text.Region) string { return f.Text[r.Start:r.End] }
	if d.HasFrontmatter {
		fmt.Fprintf(&b, "frontmatter %q closed %v\n", region(d.Frontmatter), d.FrontmatterClosed)
	}
	fmt.Fprintf(&b, "body from %d\n", d.Body.Start)
	for i, h := range d.Headings {
		fmt.Fprintf(&b, "heading %d: level %d %q written %q\n", i, h.Level, h.Text, f.Text[h.Span.Start:h.Span.End])
	}
	for _, fence := range d.Fences {
		fmt.Fprintf(&b, "fence %q under %d closed %v quoted %v\n  content %q\n  whole   %q\n", fence.Info,
			fence.Heading,
			fence.Closed, fence.Quoted,
			region(fence.Content), f.Text[fence.Span.Start:fence.Span.End])
	}
	printList(&b, f, d.Problems("step", "agent"))
	return b.String()
}
