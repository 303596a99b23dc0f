package analysis_test

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
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
	if d.Code == "AF031" { // it labels a block that was ignored before: now the mistakes in it count
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
