package project_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/espalier-run/espalier/internal/project"
)

func TestFoldersOfAnOverlayCannotBeLeft(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		filepath.Join(dir, "a", "in.md"): "in", filepath.Join(dir, "beside.md"): "beside",
		filepath.Join(outside, "out.md"): "out",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(dir, "a", "link")); err != nil {
		if runtime.GOOS == "windows" {
			t.Skip("symbolic links need a privilege on Windows")
		}
		t.Fatal(err)
	}
	overlay := project.NewOverlay(project.Disk{})
	overlay.Set(filepath.Join(dir, "a", "new", "text.md"), "new")
	root, err := overlay.OpenRoot(filepath.Join(dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for name, want := range map[string]string{"in.md": "in", "new/text.md": "new"} {
		if got, err := fs.ReadFile(root.FS(), name); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	for _, name := range []string{"link/out.md", "../beside.md", "link"} {
		if _, err := root.Open(name); err == nil {
			t.Errorf("%s was opened", name)
		}
		if _, err := root.Stat(name); err == nil {
			t.Errorf("%s was found", name)
		}
		if _, err := fs.ReadDir(root.FS(), filepath.ToSlash(filepath.Dir(name))); err == nil && name != "link" {
			t.Errorf("the folder of %s was read", name)
		}
	}
}
