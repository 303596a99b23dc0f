package registry_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/registry"
)

// Two runs of one second get two seconds, so that ids keep their form.
func TestStampsAreUnique(t *testing.T) {
	root := t.TempDir()
	now := time.Date(2026, 2, 23, 10, 41, 59, 0, time.FixedZone("", 3600))
	for _, want := range []string{"2026-02-23T09-41-59", "2026-02-23T09-42-00", "2026-02-23T09-42-01"} {
		got, ok := registry.Stamp(root, "outputs/w", now)
		if !ok || got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if info, err := os.Stat(filepath.Join(root, "outputs/w", got)); err != nil || !info.IsDir() {
			t.Error(err)
		}
	}
	if _, ok := registry.Stamp(root, "../out", now); ok {
		t.Error("a folder outside of the project")
	}
}

// A link in the project does not lead the folder of a run's outputs out of it, or into configuration.
func TestStampStaysInTheProject(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	for link, target := range map[string]string{"outputs": outside, "hidden": ".git"} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(root, ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"outputs/w", "hidden/w", ".git/w", "outputs"} {
		if got, ok := registry.Stamp(root, dir, time.Now()); ok {
			t.Errorf("%s: %s", dir, got)
		}
	}
	for _, dir := range []string{outside, filepath.Join(root, ".git")} {
		if made, err := os.ReadDir(dir); err != nil || len(made) > 0 {
			t.Errorf("%s has %v, %v", dir, made, err)
		}
	}
}
