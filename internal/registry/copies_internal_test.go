package registry

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/espalier-run/espalier/internal/filelock"
	"github.com/espalier-run/espalier/internal/journal/sqlite"
)

// Copies of processes that were killed are removed; those of others, and other folders, are not.
func TestCopiesOfKilledProcessesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("TMP", dir) // of Windows
	folder := func(name string, locked bool) string {
		path := filepath.Join(dir, name)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		lock, err := filelock.Open(filepath.Join(path, copyLock))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { lock.Close() })
		if !locked {
			lock.Close() // as the end of a process does
		} else if err := lock.Exclusive(); err != nil {
			t.Fatal(err)
		}
		return path
	}
	dead, alive, other := folder(copyPrefix+"1", false), folder(copyPrefix+"2", true), folder("something-else", false)
	removeDeadCopies()
	for path, want := range map[string]bool{dead: false, alive: true, other: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// A link in a storage folder that is copied does not change what it leads to.
func TestCopiesLeaveTargetsOfLinksAlone(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(outside, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(outside)
	if err != nil {
		t.Fatal(err)
	}
	storage := filepath.Join(dir, "storage", "audit")
	if err := os.MkdirAll(storage, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(storage, "link")); err != nil {
		t.Skip("links cannot be created here: ", err)
	}
	store, err := sqlite.Open(filepath.Join(dir, JournalFile), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	r := &Runtime{dir: dir}
	if err := r.openCopy(); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(r.copied)
	defer r.copyLock.Close()
	defer r.Store.Close()
	after, err := os.Stat(outside)
	if err != nil || after.Mode() != before.Mode() {
		t.Errorf("%v became %v, %v", before.Mode(), after.Mode(), err)
	}
	if _, err := os.Lstat(filepath.Join(r.copied, "storage", "audit", "link")); err == nil {
		t.Error("the copy has the link")
	}
}
