package analysis_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/analysis"
	"github.com/espalier-run/espalier/internal/project"
	"github.com/espalier-run/espalier/internal/registry"
	"github.com/espalier-run/espalier/internal/source"
)

const parent = `---
name: parent
description: Calls another workflow.
kind: agent-flow/workflow
version: 1.0.0
---
## Steps
` + "```step" + `
id: ask
type: skill
skill_ref: helper
description: Ask the helper
reads: [input]
writes: [state.answer]
` + "```" + `
` + "```step" + `
id: call
type: skill
skill_ref: ./child.md
description: Call the child
reads: [state.answer]
writes: [output]
` + "```" + "\n"

const child = `---
name: child
description: Does one thing.
kind: agent-flow/workflow
version: 1.0.0
---
## Steps
` + "```step" + `
id: work
type: transform
description: Work
reads: [input]
writes: [output]
` + "```" + "\n"

const skill = `---
name: helper
description: Helps with everything that is asked.
---
Help.
`

// root is an absolute folder that does not exist on the disk.
var root = func() string {
	abs, err := filepath.Abs(filepath.FromSlash("/nowhere/project"))
	if err != nil {
		panic(err)
	}
	return abs
}()

func at(name string) string { return filepath.Join(root, filepath.FromSlash(name)) }

// analyzer returns an Analyzer of files that exist in memory alone.
func analyzer(t *testing.T, files map[string]string) *analysis.Analyzer {
	t.Helper()
	overlay := project.NewOverlay(nil)
	for name, text := range files {
		overlay.Set(at(name), text)
	}
	return over(t, overlay, root)
}

func over(t *testing.T, overlay *project.Overlay, dir string) *analysis.Analyzer {
	t.Helper()
	a, err := analysis.NewAnalyzer(overlay, dir, "", "", registry.Formats(), registry.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

func result(t *testing.T, a *analysis.Analyzer, path string) *analysis.Result {
	t.Helper()
	r, err := a.File(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func codes(r *analysis.Result) []string {
	var out []string
	for _, d := range r.Diagnostics {
		out = append(out, string(d.Code))
	}
	return out
}

func project3() map[string]string {
	return map[string]string{
		"parent.md": parent, "child.md": child, ".agents/skills/helper/SKILL.md": skill,
		"other.md": strings.ReplaceAll(child, "child", "other"), ".espalier/keep": "",
	}
}

func TestAnalyzesWithoutAFileSystem(t *testing.T) {
	a := analyzer(t, project3())
	r := result(t, a, "parent.md")
	if r.Diagnostics.Errors() || r.Program == nil || len(r.Program.Children) == 0 {
		t.Fatalf("the workflow is not usable: %+v", r.Diagnostics)
	}
	if len(r.Files) != 3 {
		t.Errorf("%d files were read, want 3", len(r.Files))
	}
	_, err := a.File(t.Context(), "missing.md")
	if missing, ok := errors.AsType[*source.RefError](err); !ok || missing.Problem != source.RefMissing {
		t.Errorf("a missing file yields %v", err)
	}
}

func TestUnsavedTextReplacesTheFileOnDisk(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range project3() {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	a := over(t, project.NewOverlay(project.Disk{}), dir)
	file := filepath.Join(dir, "other.md")
	if got := codes(result(t, a, "other.md")); len(got) > 0 {
		t.Fatalf("the file on disk has %v", got)
	}
	a.Edit(file, strings.Replace(child, "type: transform", "type: transfrom", 1))
	if r := result(t, a, "other.md"); !r.Diagnostics.Errors() {
		t.Error("the mistake in the unsaved text is not found")
	}
	a.Discard(file)
	if got := codes(result(t, a, "other.md")); len(got) > 0 {
		t.Errorf("after the text was discarded, the file on disk has %v", got)
	}
	// A file that was never saved.
	a.Edit(filepath.Join(dir, "new", "flow.md"), child)
	if r := result(t, a, "new/flow.md"); r.Diagnostics.Errors() {
		t.Errorf("the new file has %v", codes(r))
	}
}

func TestEditDiscardsOnlyDependentResults(t *testing.T) {
	tests := []struct {
		name, file, text string
		want             []string // the files whose results are discarded
		breaks           bool     // the edit makes parent.md invalid
	}{
		{"itself", "parent.md", strings.Replace(parent, "id: ask", "id: question", 1), []string{"parent.md"}, false},
		{
			"a child workflow", "child.md", strings.Replace(child, "type: transform", "type: nothing", 1),
			[]string{"parent.md", "child.md"},
			true,
		},
		{"a skill", ".agents/skills/helper/SKILL.md", "---\nname: [\n---\n", []string{"parent.md"}, true},
		{"a file of a skill", ".agents/skills/helper/scripts/x.sh", "true", []string{"parent.md"}, false},
		{"another workflow", "other.md", child, []string{"other.md"}, false},
		{"something else", "README.md", "# Hello", nil, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			a := analyzer(t, project3())
			all := []string{"parent.md", "child.md", "other.md"}
			before := map[string]*analysis.Result{}
			for _, name := range all {
				before[name] = result(t, a, name)
			}
			var discarded []string
			for _, abs := range a.Edit(at(test.file), test.text) {
				discarded = append(discarded, filepath.Base(abs))
			}
			slices.Sort(discarded)
			want := slices.Clone(test.want)
			slices.Sort(want)
			if !slices.Equal(discarded, want) {
				t.Errorf("the results of %v were discarded, want %v", discarded, want)
			}
			for _, name := range all {
				if again := result(t, a, name); (again != before[name]) != slices.Contains(want, name) {
					t.Errorf("%s: the result was computed again: %t", name, again != before[name])
				}
			}
			if after := result(t, a, "parent.md"); after.Diagnostics.Errors() != test.breaks {
				t.Errorf("parent.md has %v after the edit", codes(after))
			}
		})
	}
}

func TestNewFileRepairsADanglingReference(t *testing.T) {
	files := project3()
	delete(files, "child.md")
	a := analyzer(t, files)
	if r := result(t, a, "parent.md"); !r.Diagnostics.Errors() {
		t.Fatal("the missing child is not reported")
	}
	a.Edit(at("child.md"), child)
	if r := result(t, a, "parent.md"); r.Diagnostics.Errors() {
		t.Errorf("the child exists, but there is %v", codes(r))
	}
}

func TestCanceledAnalysisKeepsNoResult(t *testing.T) {
	a := analyzer(t, project3())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.File(ctx, "parent.md"); !errors.Is(err, context.Canceled) {
		t.Fatalf("the error is %v", err)
	}
	if r := result(t, a, "parent.md"); r.Diagnostics.Errors() {
		t.Errorf("after a canceled analysis there is %v", codes(r))
	}
}
