package analysis_test

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/espalier-run/espalier/internal/analysis"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/explain"
	"github.com/espalier-run/espalier/internal/source"
)

// folder is the files of one case. Those named in main are analyzed.
type folder struct {
	name  string
	files map[string]string
	main  []string
}

// folders returns the bad examples of all pages and the test cases of the formats and checks.
func folders(t *testing.T) []folder {
	t.Helper()
	var out []folder
	for _, code := range explain.Codes() {
		page, _ := explain.Lookup(code)
		one := folder{name: code, files: map[string]string{".espalier/keep": ""}}
		for _, f := range page.Bad {
			one.files[f.Path] = f.Text
		}
		if len(page.Bad) > 0 {
			one.main = []string{page.Bad[0].Path}
			out = append(out, one)
		}
	}
	archives, err := filepath.Glob("../*/testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob("../format/*/testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(archives, more...) {
		archive, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		one := folder{name: name, files: map[string]string{".espalier/keep": ""}}
		for _, f := range archive.Files {
			one.files[f.Name] = string(f.Data)
			switch path.Ext(f.Name) {
			case ".md", ".yaml", ".aiflow":
				one.main = append(one.main, f.Name)
			}
		}
		out = append(out, one)
	}
	return append(out, misspelled(t)...)
}

// misspelled returns the example workflows, each with one word misspelled.
func misspelled(t *testing.T) []folder {
	t.Helper()
	words := map[string][]string{
		"../../examples/agent-flow/contract-review.md": {
			"reads:", "writes:", "type:", "agent:", "description:", "max_tokens:", "summarizer", "state.findings",
			"transform",
		},
		"../../examples/awf/.awf/workflows/*.yaml": {
			"states:", "initial:", "on_success:", "command:", "timeout:",
			"type:", "description:",
		},
	}
	var out []folder
	for name, list := range words {
		files, err := filepath.Glob(name)
		if err != nil || len(files) == 0 {
			t.Fatalf("no files match %s: %v", name, err)
		}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, word := range list {
				bare := strings.TrimSuffix(word, ":")
				swapped := strings.Replace(string(raw), word, bare[:1]+bare[2:3]+bare[1:2]+bare[3:]+word[len(bare):], 1)
				if swapped == string(raw) {
					continue
				}
				base := filepath.Base(file)
				out = append(out, folder{
					name: file + " " + word, main: []string{base},
					files: map[string]string{".espalier/keep": "", base: swapped},
				})
			}
		}
	}
	return out
}

func count(r analysis.Result, d *diag.Diagnostic) (same, errors int) {
	for _, other := range r.Diagnostics {
		if other.Code == d.Code && other.Message == d.Message && other.Span.Start == d.Span.Start {
			same++
		}
		if other.Severity == diag.Error {
			errors++
		}
	}
	return same, errors
}

// TestFixesRemoveTheirDiagnostics applies every fix of every known bad example. The diagnostic must
// disappear, and the file must not have more errors than before.
func TestFixesRemoveTheirDiagnostics(t *testing.T) {
	fixed := map[diag.Code]int{}
	for _, one := range folders(t) {
		for _, main := range one.main {
			t.Run(one.name+"/"+main, func(t *testing.T) {
				before, err := analyze(t.Context(), root, main, one.files)
				if err != nil {
					return // the page is about such a file
				}
				for _, d := range before.Diagnostics {
					for i, fix := range d.Fixes {
						fixed[d.Code]++
						if len(fix.Edits) == 0 || fix.Title == "" {
							t.Fatalf("%s: a fix is empty: %+v", d.Code, fix)
						}
						checkFix(t, one, main, before, &d, i)
					}
				}
			})
		}
	}
	if len(fixed) < 25 {
		t.Errorf("only %d codes have fixes: %v", len(fixed), fixed)
	}
	t.Log(fixed)
}

// fixedText returns a file after the first fix of the first diagnostic with a code, or "" if that has none.
func fixedText(t *testing.T, name, text string, code diag.Code) string {
	t.Helper()
	r := result(t, root, name, map[string]string{".espalier/keep": "", name: text})
	i := slices.IndexFunc(r.Diagnostics, func(d diag.Diagnostic) bool { return d.Code == code })
	if i < 0 {
		t.Fatalf("there is no %s among %v", code, r.Diagnostics)
	}
	if len(r.Diagnostics[i].Fixes) == 0 {
		return ""
	}
	return r.Diagnostics[i].Fixes[0].Apply(source.NewFile(name, text))
}

func TestFixRemovesAnEntryOfAList(t *testing.T) {
	page, _ := explain.Lookup("AF050")
	for list, want := range map[string]string{
		"[TIMEOUT, BUDGET]":                        "[TIMEOUT]",
		"[BUDGET, TIMEOUT]":                        "[TIMEOUT]",
		"[TIMEOUT,BUDGET, API_ERROR]":              "[TIMEOUT, API_ERROR]",
		"\n    - BUDGET\n    - TIMEOUT":            "\n    - TIMEOUT",
		"\n    - TIMEOUT\n    - BUDGET":            "\n    - TIMEOUT",
		"[BUDGET]":                                 "", // without the key, every error would be retried
		"[TIMEOUT, 'BUDGET']":                      "",
		"\n    - TIMEOUT # slow\n    - BUDGET":     "",
		"\n    - TIMEOUT\n    # not\n    - BUDGET": "",
	} {
		if want != "" {
			want = strings.Replace(page.Bad[0].Text, "[NETWORK]", want, 1)
		}
		text := strings.Replace(page.Bad[0].Text, "[NETWORK]", list, 1)
		if got := fixedText(t, page.Bad[0].Path, text, "AF050"); got != want {
			t.Errorf("%s: got\n%s", list, got)
		}
	}
}

func TestFixRenamesAFunctionThatNothingElseNames(t *testing.T) {
	page, _ := explain.Lookup("NOF019")
	bad := page.Bad[0]
	if got := fixedText(t, bad.Path, bad.Text, "NOF019"); got != page.Good[0].Text {
		t.Errorf("got\n%s", got)
	}
	for name, added := range map[string]string{
		"it is used":         "def other(state: CostState) -> dict:\n    return report(state)\n\n",
		"the name is in use": "def run_visual_report() -> int:\n    return 1\n\n",
	} {
		text := strings.Replace(bad.Text, "def report(", added+"def report(", 1)
		if got := fixedText(t, bad.Path, text, "NOF019"); got != "" {
			t.Errorf("%s: got\n%s", name, got)
		}
	}
}

// promised matches help texts that begin with what to do and name an exact text, so that their diagnostics must have a
// fix.
var (
	promised = regexp.MustCompile(`^(Write|Use|Add|Put|Rename) (.* )?("[^"]+"|` + "`[^`]+`" + `|\S+: \S|[=!<>]=|` +
		`\S*[._/:\x60<>$(){}\[\]]\S*\w\S*|true|false|null|and|or)|^(Write|Use) \S+( instead)?\.$|` +
		`^Write a comma here|^Remove |^Rename it to `)
	// examples matches help texts that show a form instead of the text itself.
	examples = regexp.MustCompile(`such as|…|\b[A-Z]{4,}\b|one of:|of the form|\[one, two\]|"key: value"`)
)

// TestHelpThatSaysWhatToWriteHasAFix looks at the diagnostics of all known bad examples.
func TestHelpThatSaysWhatToWriteHasAFix(t *testing.T) {
	used := map[exception]int{}
	for _, one := range folders(t) {
		for _, main := range one.main {
			r, err := analyze(t.Context(), root, main, one.files)
			if err != nil {
				continue // the page is about such a file
			}
			for _, d := range r.Diagnostics {
				if !promised.MatchString(d.Help) || examples.MatchString(d.Help) {
					continue
				}
				i := slices.IndexFunc(unfixed, func(u exception) bool { return u.is(&d) })
				if len(d.Fixes) > 0 {
					if i >= 0 && counted[unfixed[i]] == 0 {
						t.Errorf("%s/%s: %s has a fix, and an exception: %s", one.name, main, d.Code, d.Help)
					}
					continue
				}
				if i < 0 {
					t.Errorf("%s/%s: %s has no fix: %s %s", one.name, main, d.Code, d.Message, d.Help)
					continue
				}
				used[unfixed[i]]++
			}
		}
	}
	for _, u := range unfixed {
		if most := counted[u]; used[u] == 0 || most > 0 && used[u] > most {
			t.Errorf("%s has %d exceptions, want %d: %s", u.code, used[u], max(most, 1), u.help)
		}
	}
}

func checkFix(t *testing.T, one folder, main string, before analysis.Result, d *diag.Diagnostic, i int) {
	t.Helper()
	fix := d.Fixes[i]
	files := map[string]string{}
	for name, text := range one.files {
		files[name] = fix.Apply(source.NewFile(name, text))
	}
	after := result(t, root, main, files)
	same, errors := count(before, d)
	sameAfter, errorsAfter := count(after, d)
	if d.Code == "AF031" || d.Code == "MD003" { // a block was ignored before: now the mistakes in it count
		errorsAfter = errors
	}
	if sameAfter >= same || errorsAfter > errors {
		var list strings.Builder
		for _, d := range after.Diagnostics {
			fmt.Fprintf(&list, "\n  %s %s %s", d.Severity, d.Code, d.Message)
		}
		t.Errorf("%s: %q: %d diagnostics and %d errors became %d and %d.\nThe diagnostic: %s %s\nAfter %+v:%s",
			d.Code, fix.Title, same, errors, sameAfter, errorsAfter, d.Message, d.Help, fix.Edits, list.String())
	}
}
