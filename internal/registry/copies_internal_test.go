package registry

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/espalier-run/espalier/internal/filelock"
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
