package cli

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/check"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/explain"
	"github.com/espalier-run/espalier/internal/project"
	"github.com/espalier-run/espalier/internal/registry"
	"github.com/espalier-run/espalier/internal/source"
)

// Every code has a page, and every page a code.
func TestCodesAndPagesMatch(t *testing.T) {
	declared := declaredCodes(t)
	if len(declared) < 10 {
		t.Fatalf("found only %d codes", len(declared))
	}
	pages := explain.Codes()
	for _, code := range slices.Sorted(maps.Keys(declared)) {
		if !slices.Contains(pages, code) {
			t.Errorf("%s has no page (declared in %s)", code, declared[code])
		}
	}
	for _, code := range pages {
		if declared[code] == "" {
			t.Errorf("the page %s explains a code that does not exist", code)
		}
	}
}

// A code without digits, as in AIFLOW, is not taken for the letters of a family.
func TestExplainShowsThePageOfEveryCode(t *testing.T) {
	for _, code := range explain.Codes() {
		var out bytes.Buffer
		exit := Main(Environment{
			Stdin: strings.NewReader(""), Stdout: &out, Stderr: io.Discard,
			Getenv: func(string) string { return "" }, Dir: t.TempDir(),
		}, []string{"explain", code})
		page, _ := explain.Lookup(code)
		if want := code + ": " + page.Title + "\n"; exit != 0 || !strings.HasPrefix(out.String(), want) {
			t.Errorf("explain %s ends with %d and starts with %.60q", code, exit, out.String())
		}
	}
}

// declaredCodes reads every constant of type diag.Code from the source: code →
// where.
func declaredCodes(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	root := filepath.Join("..") // internal
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			general, ok := decl.(*ast.GenDecl)
			if !ok || general.Tok != token.CONST {
				continue
			}
			for _, spec := range general.Specs {
				values := spec.(*ast.ValueSpec)
				if !isCode(values.Type) {
					continue
				}
				for _, v := range values.Values {
					literal, ok := v.(*ast.BasicLit)
					if !ok {
						t.Errorf("%s: a code is not a plain string", name)
						continue
					}
					code, err := strconv.Unquote(literal.Value)
					if err != nil {
						return err
					}
					if other := out[code]; other != "" {
						t.Errorf("%s is declared twice: in %s and %s", code, other, name)
					}
					out[code] = filepath.ToSlash(name)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func isCode(t ast.Expr) bool {
	selector, ok := t.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := selector.X.(*ast.Ident)
	return ok && pkg.Name == "diag" && selector.Sel.Name == "Code"
}

// Each page's bad example produces its code, its good example has no error and
// not that code.
func TestExamplesOfDiagnosticPagesMatchTheirCode(t *testing.T) {
	for _, code := range explain.Codes() {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			page, _ := explain.Lookup(code)
			var as catalog.ReadOptions
			if strings.Contains(page.Text, "--compat reference") { // the code exists only then
				as.Compat = "reference"
			}
			if code == string(check.CodeTooLarge) { // the page shows one of the steps
				text := &page.Bad[0].Text
				step := (*text)[strings.LastIndex(*text, "```step"):]
				for i := range 8000 {
					*text += strings.Replace(step, "id: write", fmt.Sprint("id: write", i), 1)
				}
			}
			bad, shown := validateExample(t, page.Bad, as)
			if !has(bad, code) {
				t.Errorf("the bad example does not produce %s, but:\n%s", code, shown)
			}
			for _, d := range bad {
				if d.Span.IsZero() {
					t.Errorf("%s has no place: %s", d.Code, d.Message)
				}
			}
			good, shown := validateExample(t, page.Good, as)
			if good.Errors() || has(good, code) {
				t.Errorf("the good example is not good:\n%s", shown)
			}
		})
	}
}

func has(l diag.List, code string) bool {
	return slices.ContainsFunc(l, func(d diag.Diagnostic) bool { return string(d.Code) == code })
}

// validateExample writes an example's files into a folder, which is the
// project, and validates the first one.
func validateExample(t *testing.T, files []explain.File, as catalog.ReadOptions) (diag.List, string) {
	t.Helper()
	dir := t.TempDir()
	for _, f := range files {
		name := filepath.Join(dir, filepath.FromSlash(f.Path))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(f.Text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, ".espalier"), 0o755); err != nil {
		t.Fatal(err) // where the project begins
	}
	space, err := project.NewWorkspace(dir, "", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer space.Close()
	p, f, err := space.File(files[0].Path)
	if err != nil {
		t.Fatal(err)
	}
	an, err := app.AnalyzeFile(t.Context(), p, f, as)
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case app.IsConfig(f.Path):
		an = app.AnalyzeConfig(f)
	case strings.HasSuffix(f.Path, ".script.yaml"):
		an = analyzeScript(t, space, f, files[1:])
	}
	checkSpans(t, an.Diagnostics, an.Files)
	var shown strings.Builder
	if err := (diag.Printer{Files: an.Files}).Print(&shown, an.Diagnostics); err != nil {
		t.Fatal(err)
	}
	return an.Diagnostics, shown.String()
}

// analyzeScript reads a script of replies; a file beside it is the workflow
// that it is for.
func analyzeScript(t *testing.T, space *project.Workspace, f *source.File, beside []explain.File) *app.Analysis {
	t.Helper()
	script, list := registry.Script(f)
	an := &app.Analysis{File: f, Diagnostics: list, Files: source.Set{}}
	an.Files.Add(f)
	if len(beside) > 0 {
		p, flow, err := space.File(beside[0].Path)
		if err != nil {
			t.Fatal(err)
		}
		workflow, err := app.AnalyzeFile(t.Context(), p, flow, catalog.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		program := workflow.Program
		var known registry.ScriptFacts
		known.Tools, known.OtherTools = registry.ToolNames(program)
		an.Diagnostics = append(an.Diagnostics, script.Check(program, known)...)
	}
	return an
}

// checkSpans holds that every diagnostic can be shown: its places lie in files
// that were read.
func checkSpans(t *testing.T, list diag.List, files source.Set) {
	t.Helper()
	check := func(d diag.Diagnostic, s source.Span) {
		f := files[s.File]
		if s.IsZero() || f == nil || s.Start > s.End || s.End > len(f.Text) {
			t.Errorf("%s points at %+v, which cannot be shown: %s", d.Code, s, d.Message)
		}
	}
	for _, d := range list {
		check(d, d.Span)
		for _, r := range d.Related {
			check(d, r.Span)
		}
		if d.Message == "" || d.Help == "" {
			t.Errorf("%s does not say what is wrong and what to do: %q %q", d.Code, d.Message, d.Help)
		}
	}
}

// validate.md names the area of every code.
func TestValidatePageListsAllCodeFamilies(t *testing.T) {
	page, err := os.ReadFile("../../docs/validate.md")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("../explain/pages/*.txtar")
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	for _, path := range pages {
		code := strings.TrimSuffix(filepath.Base(path), ".txtar")
		family := strings.TrimRight(code, "0123456789")
		if family != code && !strings.Contains(string(page), "`"+family+"`") {
			t.Errorf("no area of %s", code)
		}
	}
	if !strings.Contains(string(page), "words such as `AGENT_INVALID`") {
		t.Error("no area of codes in words")
	}
}
