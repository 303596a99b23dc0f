package analysis_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/analysis"
	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/project"
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

// analyze analyzes a file of a project with texts that are not saved.
func analyze(ctx context.Context, dir, path string, unsaved map[string]string) (analysis.Result, error) {
	space, err := project.NewWorkspace(dir, "", "", unsaved)
	if err != nil {
		return analysis.Result{}, err
	}
	defer space.Close()
	p, f, err := space.File(path)
	if err != nil {
		return analysis.Result{}, err
	}
	return analysis.Run(ctx, p, f, catalog.Formats(), catalog.Kinds())
}

func result(t *testing.T, dir, path string, unsaved map[string]string) analysis.Result {
	t.Helper()
	r, err := analyze(t.Context(), dir, path, unsaved)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func codes(r analysis.Result) []string {
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
	r := result(t, root, "parent.md", project3())
	if r.Diagnostics.Errors() || r.Program == nil || len(r.Program.Children) == 0 {
		t.Fatalf("the workflow is not usable: %+v", r.Diagnostics)
	}
	if len(r.Files) != 3 {
		t.Errorf("%d files were read, want 3", len(r.Files))
	}
	_, err := analyze(t.Context(), root, "missing.md", project3())
	if missing, ok := errors.AsType[*source.RefError](err); !ok || missing.Problem != source.RefMissing {
		t.Errorf("a missing file yields %v", err)
	}
}

func TestUnsavedTextReplacesTheFileOnDisk(t *testing.T) {
	dir := t.TempDir()
	for name, text := range project3() {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := codes(result(t, dir, "parent.md", nil)); len(got) > 0 {
		t.Fatalf("the file on disk has %v", got)
	}
	for _, name := range []string{"child.md", filepath.Join(dir, "child.md")} {
		broken := map[string]string{name: strings.Replace(child, "type: transform", "type: transfrom", 1)}
		for _, path := range []string{"child.md", "parent.md"} {
			if r := result(t, dir, path, broken); !r.Diagnostics.Errors() {
				t.Errorf("%s: the mistake in the unsaved text of %s is not found", path, name)
			}
		}
	}
	created := map[string]string{"new/flow.md": child}
	if r := result(t, dir, "new/flow.md", created); r.Diagnostics.Errors() {
		t.Errorf("the new file has %v", codes(r))
	}
}

func TestNewFileRepairsADanglingReference(t *testing.T) {
	files := project3()
	delete(files, "child.md")
	if r := result(t, root, "parent.md", files); !r.Diagnostics.Errors() {
		t.Fatal("the missing child is not reported")
	}
	files["child.md"] = child
	if r := result(t, root, "parent.md", files); r.Diagnostics.Errors() {
		t.Errorf("the child exists, but there is %v", codes(r))
	}
}

func TestAnalysisCanBeCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := analyze(ctx, root, "parent.md", project3()); !errors.Is(err, context.Canceled) {
		t.Fatalf("the error is %v", err)
	}
}
