package check_test

import (
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/check"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/format/agentflow"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/ir/irtest"
	"github.com/espalier-run/espalier/internal/source"
)

var update = flag.Bool("update", false, "rewrite the expected diagnostics")

// files is an in-memory folder that serves as a project.
type files map[string]*source.File

func (f files) Read(from *source.File, ref string) (*source.File, error) {
	if file := f[path.Join(path.Dir(from.Path), ref)]; file != nil {
		return file, nil
	}
	return nil, &source.RefError{Ref: ref, Problem: source.RefMissing}
}

func (f files) Skill(name string) (*source.File, error) {
	return nil, &source.RefError{Ref: name, Problem: source.RefMissing}
}

func (f files) Compile(file *source.File, _ source.Span) (*ir.Program, diag.List) {
	return agentflow.Format{}.Compile(file, f)
}

func (f files) read(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		at := filepath.ToSlash(name)
		f[at] = source.NewFile(at, string(raw))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Each archive holds workflows and, in the file "want", the expected diagnostics: "file:line:column severity CODE
// message". Files named broken-… do not compile.
func TestCasesGetTheExpectedDiagnostics(t *testing.T) {
	archives, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatal("no cases", err)
	}
	for _, name := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			project := files{}
			want := -1
			for i, f := range archive.Files {
				if f.Name == "want" {
					want = i
					continue
				}
				project[f.Name] = source.NewFile(f.Name, string(f.Data))
			}
			if want < 0 {
				archive.Files = append(archive.Files, txtar.File{Name: "want"})
				want = len(archive.Files) - 1
			}
			var got strings.Builder
			for _, f := range archive.Files {
				if file := project[f.Name]; file != nil && strings.HasSuffix(f.Name, ".md") {
					say(t, &got, project, file)
				}
			}
			if *update {
				archive.Files[want].Data = []byte(got.String())
				if err := os.WriteFile(name, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if wanted := string(archive.Files[want].Data); got.String() != wanted {
				t.Errorf("got\n%s\nwant\n%s", got.String(), wanted)
			}
		})
	}
}

func say(t *testing.T, into *strings.Builder, project files, file *source.File) {
	t.Helper()
	p, list := agentflow.Format{}.Compile(file, project)
	// Files that are broken on purpose must list all of their diagnostics.
	broken := strings.HasPrefix(file.Path, "broken-")
	if list.Errors() && !broken {
		t.Fatalf("%s does not compile: %v", file.Path, list)
	}
	if err := irtest.Sound(p, catalog.Kinds()); err != nil && !broken {
		t.Errorf("%s: %v", file.Path, err)
	}
	found := check.Program(p, catalog.Kinds())
	if broken {
		found = append(found, list...)
	}
	for _, d := range found.Sorted() {
		at := project[d.Span.File].Position(d.Span.Start)
		fmt.Fprintf(into, "%s:%d:%d %s %s %s\n", d.Span.File, at.Line, at.Column, d.Severity, d.Code, d.Message)
		for _, r := range d.Related {
			at := project[r.Span.File].Position(r.Span.Start)
			fmt.Fprintf(into, "    %s:%d:%d %s\n", r.Span.File, at.Line, at.Column, r.Message)
		}
		if d.Span.IsZero() || d.Help == "" || !strings.HasSuffix(d.Message, ".") {
			t.Errorf("%s: %+v has no place, no help or no full stop", file.Path, d)
		}
	}
}

// The examples are correct, so the checks report nothing.
func TestExamplesHaveNoDiagnostics(t *testing.T) {
	project := files{}
	project.read(t, "../../examples/agent-flow")
	checked := 0
	for name, file := range project {
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		p, list := agentflow.Format{}.Compile(file, project)
		if list.Errors() {
			t.Errorf("%s: %v", name, list)
			continue
		}
		checked++
		if err := irtest.Sound(p, catalog.Kinds()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, d := range check.Program(p, catalog.Kinds()) {
			if d.Severity > diag.Note {
				t.Errorf("%s: %s %s", name, d.Code, d.Message)
			}
		}
	}
	if checked < 6 {
		t.Errorf("only %d examples were checked", checked)
	}
}
