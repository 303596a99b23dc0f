package manifest

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/usertest"
)

// killed ends a promotion in the middle.
type killed struct{}

// A promotion is stopped before every change that it makes. Promoting again yields the same files as an undisturbed
// promotion.
func TestInterruptedPromotionCanBeRepeated(t *testing.T) {
	calm := staging(t)
	changes := 0
	if _, err := promote(calm, "w", stagedAt, false, promotedAt, func() { changes++ }); err != nil {
		t.Fatal(err)
	}
	want := contents(t, calm)
	if changes < 15 || len(want) < 10 {
		t.Fatalf("%d changes, %d files", changes, len(want))
	}
	for stop := 1; stop <= changes; stop++ {
		root := staging(t)
		interrupted(root, stop)
		m, err := Promote(root, "w", stagedAt, false, promotedAt)
		if err != nil {
			t.Errorf("stopped before change %d: %v", stop, err)
			continue
		}
		if got := contents(t, root); !maps.Equal(got, want) || m.Status != Archived {
			t.Errorf("stopped before change %d: status %s, files\n%q, not\n%q", stop, m.Status, got, want)
		}
	}
}

// The staging folder is kept if the archive was modified in the meantime.
func TestModifiedArchiveKeepsStagingFolder(t *testing.T) {
	root := staging(t)
	copied := filepath.Join(root, "outputs", "w", stagedAt, "build", "01-clarification.md")
	_, err := promote(root, "w", stagedAt, false, promotedAt, func() {
		if _, err := os.Stat(copied); err == nil {
			if err := os.WriteFile(copied, []byte("something else"), 0o644); err != nil {
				t.Error(err)
			}
		}
	})
	if err == nil || !strings.Contains(err.Error(), "01-clarification.md") {
		t.Fatalf("got %v", err)
	}
	if raw, err := os.ReadFile(filepath.Join(Staged(root, "w", stagedAt), "01-clarification.md")); err != nil ||
		string(raw) != "01-clarification.md" {
		t.Errorf("what was staged is gone: %q, %v", raw, err)
	}
	if _, err := Promote(root, "w", stagedAt, false, promotedAt); err != nil {
		t.Errorf("once more: %v", err)
	}
}

// Neither files nor folders of the archive can be changed, and an interrupted promotion can still be repeated by a user
// whom permissions bind.
func TestArchiveIsReadOnly(t *testing.T) {
	usertest.Run(t, "^(TestArchiveIsReadOnly|TestInterruptedPromotionCanBeRepeated)$")
	root := staging(t)
	if _, err := Promote(root, "w", stagedAt, false, promotedAt); err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(root, "outputs", "w", stagedAt, "build")
	seen := 0
	err := filepath.WalkDir(archive, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		seen++
		if runtime.GOOS != "windows" && info.Mode()&0o222 != 0 { // Windows has no such bits for folders
			t.Errorf("%s can be written: %s", name, info.Mode())
		}
		return nil
	})
	if err != nil || seen < 13 {
		t.Errorf("%d files and folders, %v", seen, err)
	}
}

func interrupted(root string, stop int) {
	defer func() {
		if r := recover(); r != (killed{}) {
			panic(r)
		}
	}()
	_, _ = promote(root, "w", stagedAt, false, promotedAt, func() {
		if stop--; stop == 0 {
			panic(killed{})
		}
	})
}

const stagedAt = "2026-02-23T10-41-22"

var promotedAt = time.Date(2026, 2, 23, 11, 0, 0, 0, time.UTC)

// staging returns a project with a validated generation.
func staging(t *testing.T) string {
	t.Helper()
	root := tempDir(t)
	dir := Staged(root, "w", stagedAt)
	for _, name := range []string{
		"01-clarification.md", "02-design.md", "03-workflow.yaml", "04-agents/a.md",
		"05-skills/s.md", "06-scripts/cli/run.sh", "07-review.md",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m := New("w", stagedAt, "workflow-creator", "Do it", promotedAt)
	m.Status = Validated
	m.Phases.Validation.Enter(Completed, promotedAt)
	if err := m.Register(dir, nil); err != nil {
		t.Fatal(err)
	}
	if err := m.Write(dir); err != nil {
		t.Fatal(err)
	}
	return root
}

func contents(t *testing.T, root string) map[string]string {
	t.Helper()
	names, err := Files(root)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, name := range names {
		raw, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		out[name] = string(raw)
	}
	return out
}

// tempDir returns a temporary folder that can be removed although it contains an archive.
func tempDir(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	t.Cleanup(func() {
		if err := (&promotion{before: func() {}}).chmodFolders(filepath.Join(root, "outputs"), 0o755); err != nil {
			t.Error(err)
		}
	})
	return root
}
