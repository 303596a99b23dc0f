package manifest_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/manifest"
)

var now = time.Date(2026, 2, 23, 10, 41, 22, 0, time.UTC)

const run = "2026-02-23T10-41-22"

// stage writes a complete generation.
func stage(t *testing.T, root string) *manifest.Manifest {
	t.Helper()
	dir := manifest.Staged(root, "w", run)
	for name, text := range map[string]string{
		"01-clarification.md": "c", "02-design.md": "d", "03-workflow.yaml": "w", "04-agents/a.md": "a",
		"05-skills/s.md":        "s",
		"06-scripts/cli/run.sh": "r", "06-scripts/ide/steps.md": "i", "07-review.md": "v",
	} {
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m := manifest.New("w", run, "workflow-creator", "make it", now)
	m.Steps = []manifest.Step{{ID: "clarify", Name: "C", Status: manifest.Completed}}
	if err := errors.Join(m.Write(dir),
		m.Register(dir, map[string]string{"04-agents/": "agents", "06-scripts": "scripts", "06-scripts/ide/": "ide"}),
		m.Write(dir)); err != nil {
		t.Fatal(err)
	}
	return m
}

func validated(t *testing.T, root string, m *manifest.Manifest) {
	t.Helper()
	m.Status = manifest.Validated
	if err := m.Write(manifest.Staged(root, "w", run)); err != nil {
		t.Fatal(err)
	}
}

func TestFilesHaveRolesAndProducers(t *testing.T) {
	m := stage(t, t.TempDir())
	roles := map[string]string{}
	for _, f := range m.Files {
		roles[f.Path] = f.Role + " " + f.ProducedBy
		if (f.Checksum == "") != (f.Path == manifest.FileName) {
			t.Errorf("%+v", f)
		}
	}
	for path, want := range map[string]string{
		"manifest.json": "manifest init", "03-workflow.yaml": "workflow_config init",
		"04-agents/a.md": "agent agents", "05-skills/s.md": "skill init",
		"06-scripts/cli/run.sh": "script_cli scripts", "06-scripts/ide/steps.md": "script_ide ide",
		"07-review.md": "review init",
	} {
		if roles[path] != want {
			t.Errorf("%s: %s", path, roles[path])
		}
	}
}

func TestPromotesValidatedGeneration(t *testing.T) {
	root := tempDir(t)
	m := stage(t, root)
	var not *manifest.NotReady
	if _, err := manifest.Promote(root, "w", run, false, now); !errors.As(err, &not) {
		t.Errorf("what was not validated is promoted: %v", err)
	}
	m.Steps[0].Status = manifest.StepFailed
	validated(t, root, m)
	if _, err := manifest.Promote(root, "w", run, false, now); !errors.As(err, &not) {
		t.Errorf("what has failed is promoted: %v", err)
	}
	m.Steps[0].Status = manifest.Completed
	validated(t, root, m)
	changed := filepath.Join(manifest.Staged(root, "w", run), "04-agents/a.md")
	if err := os.WriteFile(changed, []byte("other"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := manifest.Promote(root, "w", run, false, now); !errors.Is(err, manifest.ErrChanged) {
		t.Errorf("what was changed is promoted: %v", err)
	}
	if err := os.WriteFile(changed, []byte("a"), 0o644); err != nil {
		t.Fatal(err)
	}
	done, err := manifest.Promote(root, "w", run, false, now)
	if err != nil || done.Status != manifest.Archived || done.Promotion.ArchivePath != "outputs/w/"+run+"/build" {
		t.Fatalf("%+v %v", done, err)
	}
	for name, want := range map[string]string{
		"workflows/w/workflow.yaml": "w", "workflows/w/agents/a.md": "a", "workflows/w/skills/s.md": "s",
		"workflows/w/scripts/cli/run.sh":                  "r",
		"outputs/w/" + run + "/build/01-clarification.md": "c",
	} {
		if raw, err := os.ReadFile(filepath.Join(root, name)); err != nil || string(raw) != want {
			t.Errorf("%s: %q %v", name, raw, err)
		}
	}
	if _, err := os.Stat(manifest.Staged(root, "w", run)); err == nil {
		t.Error("the staging folder is still there")
	}
	kept, err := manifest.Read(filepath.Join(root, "outputs/w", run, "build"))
	if err != nil || kept.Status != manifest.Archived || kept.Phases.Archival.Status != manifest.Completed {
		t.Errorf("%+v %v", kept, err)
	}
}

// Files that were added or removed after validation prevent promotion, and an incomplete generation leaves nothing
// behind.
func TestPromotesOnlyValidatedFiles(t *testing.T) {
	for name, c := range map[string]struct {
		change func(dir string) error
		force  bool
		want   error
	}{
		"added": {change: func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "04-agents/b.md"), []byte("b"), 0o644)
		}, want: manifest.ErrChanged},
		"removed": {
			change: func(dir string) error { return os.Remove(filepath.Join(dir, "05-skills/s.md")) },
			want:   manifest.ErrChanged,
		},
		"no agent": {
			change: func(dir string) error { return os.Remove(filepath.Join(dir, "04-agents/a.md")) },
			force:  true, want: manifest.ErrIncomplete,
		},
		"no file": {
			change: func(dir string) error { return os.Remove(filepath.Join(dir, "03-workflow.yaml")) },
			force:  true, want: manifest.ErrIncomplete,
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := tempDir(t)
			validated(t, root, stage(t, root))
			if err := c.change(manifest.Staged(root, "w", run)); err != nil {
				t.Fatal(err)
			}
			if _, err := manifest.Promote(root, "w", run, c.force, now); !errors.Is(err, c.want) {
				t.Errorf("got %v", err)
			}
			if _, err := os.Stat(filepath.Join(root, "workflows")); err == nil {
				t.Error("something was promoted")
			}
		})
	}
}

// Edited files are not overwritten, but generated ones are.
func TestPromotionKeepsEditedFiles(t *testing.T) {
	root := tempDir(t)
	target := filepath.Join(root, "workflows/w/workflow.yaml")
	again := func(force bool) error {
		stage(t, root)
		staged := filepath.Join(manifest.Staged(root, "w", run), "03-workflow.yaml")
		raw, _ := os.ReadFile(target)
		if err := os.WriteFile(staged, append(raw, "more"...), 0o644); err != nil { // different content each time
			t.Fatal(err)
		}
		validated(t, root, stageAsIs(t, root))
		_, err := manifest.Promote(root, "w", run, force, now)
		return err
	}
	for range 2 {
		if err := again(false); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(target, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := again(false); !errors.Is(err, manifest.ErrEdited) {
		t.Errorf("got %v", err)
	}
	if raw, err := os.ReadFile(target); err != nil || string(raw) != "mine" {
		t.Errorf("%q %v", raw, err)
	}
	if err := again(true); err != nil {
		t.Error(err)
	}
	if err := again(false); err != nil {
		t.Error(err)
	}
}

// stageAsIs registers the staged files as they are.
func stageAsIs(t *testing.T, root string) *manifest.Manifest {
	t.Helper()
	dir := manifest.Staged(root, "w", run)
	m, err := manifest.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Register(dir, nil); err != nil {
		t.Fatal(err)
	}
	return m
}

// If interrupted between promotion and archival, it is repeated from the staged files.
func TestPromotionResumesFromStagedFiles(t *testing.T) {
	root := tempDir(t)
	m := stage(t, root)
	m.Status = manifest.Registered
	m.Phases.Validation.Status = manifest.Completed
	if err := m.Write(manifest.Staged(root, "w", run)); err != nil {
		t.Fatal(err)
	}
	if done, err := manifest.Promote(root, "w", run, false, now); err != nil || done.Status != manifest.Archived {
		t.Errorf("%+v %v", done, err)
	}
}

func TestIgnoreKeepsExistingLines(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, ".gitignore")
	if err := os.WriteFile(name, []byte("mine\noutputs/"), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := manifest.Ignore(dir, "artifacts/*/", "outputs/"); err != nil {
			t.Fatal(err)
		}
	}
	if raw, err := os.ReadFile(name); err != nil || string(raw) != "mine\noutputs/\nartifacts/*/\n" {
		t.Errorf("%q %v", raw, err)
	}
}

// What a model has put into a generation does not become configuration, and a link in the project does not lead a
// promotion elsewhere.
func TestPromoteTakesOnlyWorkflowFiles(t *testing.T) {
	for _, name := range []string{
		"04-agents/.git/config", "05-skills/espalier.yaml", "06-scripts/.envrc", "06-scripts/node_modules/x.node",
		"05-skills/CLAUDE.md", "04-agents/GIT~1/a.md", "06-scripts/HEAD", "04-agents/a.exe", "05-skills/s.sh",
	} {
		t.Run(name, func(t *testing.T) {
			root := tempDir(t)
			m := stage(t, root)
			full := filepath.Join(manifest.Staged(root, "w", run), name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(full), 0o755),
				os.WriteFile(full, []byte("x"), 0o644)); err != nil {
				t.Fatal(err)
			}
			validated(t, root, m)
			// Hidden files are left out.
			_, err := manifest.Promote(root, "w", run, true, now)
			if !errors.Is(err, manifest.ErrNotPromotable) && filepath.Base(name)[0] != '.' {
				t.Errorf("it was promoted: %v", err)
			}
			if _, err := os.Stat(filepath.Join(root, "workflows/w", name[3:])); err == nil {
				t.Error("it is in the workflow's folder")
			}
		})
	}
	root := tempDir(t)
	validated(t, root, stage(t, root))
	if err := errors.Join(os.MkdirAll(filepath.Join(root, ".git"), 0o755),
		os.MkdirAll(filepath.Join(root, "workflows"), 0o755),
		os.Symlink("../.git", filepath.Join(root, "workflows/w"))); err != nil {
		t.Fatal(err)
	}
	if _, err := manifest.Promote(root, "w", run, false, now); err == nil {
		t.Error("a link led the promotion into .git")
	}
}

// tempDir returns a temporary folder that can be removed although it contains an archive.
func tempDir(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	t.Cleanup(func() {
		_ = filepath.WalkDir(filepath.Join(root, "outputs"), func(name string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return err
			}
			return os.Chmod(name, 0o755)
		})
	})
	return root
}
