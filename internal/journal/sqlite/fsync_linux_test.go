package sqlite_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/journaltest"
	"github.com/espalier-run/espalier/internal/journal/sqlite"
)

// failSyncs replaces the descriptors of the WAL in a folder with /dev/null, where writing succeeds and syncing fails.
func failSyncs(t *testing.T, dir string) {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	replaced := 0
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range open {
		path, err := os.Readlink(filepath.Join("/proc/self/fd", fd.Name()))
		if err != nil || !strings.HasPrefix(path, dir) || !strings.HasSuffix(path, "-wal") {
			continue
		}
		n, err := strconv.Atoi(fd.Name())
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Dup3(int(null.Fd()), n, syscall.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		replaced++
	}
	if replaced == 0 {
		t.Fatal("the WAL is not open")
	}
}

// After a sync has failed, the store writes nothing more: later appends would follow one that may be lost.
func TestFailedSyncEndsWriting(t *testing.T) {
	dir := t.TempDir()
	s := openWith(t, dir, sqlite.Options{})
	defer s.Close()
	journaltest.Append(t, s, journaltest.Start("a", "me"))
	failSyncs(t, dir)
	for _, id := range []journal.RunID{"b", "c"} {
		done := make(chan error, 1)
		s.Append(journaltest.Start(id, "me"), func(err error) { done <- err })
		if err := <-done; !errors.Is(err, journal.ErrNotKept) {
			t.Errorf("append of %s: %v", id, err)
		}
	}
	if _, err := s.Claim(t.Context(), "a", "you"); !errors.Is(err, journal.ErrNotKept) {
		t.Errorf("claim: %v", err)
	}
	s.Close()
	again := openWith(t, dir, sqlite.Options{})
	defer again.Close()
	if _, err := again.Entry(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	if _, err := again.Entry(t.Context(), "c"); !errors.Is(err, journal.ErrUnknownRun) {
		t.Errorf("the append after the failure: %v", err)
	}
}

// A relaxed store does not sync its commits.
func TestRelaxedStoreDoesNotSync(t *testing.T) {
	dir := t.TempDir()
	s := openWith(t, dir, sqlite.Options{Relaxed: true})
	defer s.Close()
	journaltest.Append(t, s, journaltest.Start("a", "me"))
	failSyncs(t, dir)
	journaltest.Append(t, s, journaltest.Start("b", "me"))
}
