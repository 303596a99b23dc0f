package sqlite_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/journaltest"
	"github.com/espalier-run/espalier/internal/journal/sqlite"
)

// Nobody hears that something is written before it is durable, whatever it is,
// and all of it is in the file that was made durable.
func TestDurableBeforeItIsTold(t *testing.T) {
	dir := t.TempDir()
	s := openWith(t, dir, sqlite.Options{})
	defer s.Close()
	var order []string
	s.OnSync(func(f *os.File, sync func(*os.File) error) error {
		mine, err := f.Stat()
		if err != nil {
			return err
		}
		wal, err := os.Stat(filepath.Join(dir, "espalier.db-wal"))
		if err != nil || !os.SameFile(mine, wal) {
			t.Errorf("another file than the WAL is made durable: %v", err)
		}
		err = sync(f)
		order = append(order, "durable")
		return err
	})
	after := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if order = append(order, what); !slices.Equal(order, []string{"durable", what}) {
			t.Errorf("%s: %v", what, order)
		}
		order = nil
	}
	ctx := t.Context()
	journaltest.Append(t, s, journaltest.Start("a", "me"))
	after("begin", nil)
	_, err := s.Post(ctx, "a", journal.Message{Kind: "event"})
	after("post", err)
	_, err = s.Claim(ctx, "a", "you", func(journal.Owner) bool { return true })
	after("claim", err)
	// So many that the WAL is written into the database, and begun again.
	for i := range 600 {
		journaltest.Append(t, s, journaltest.Start(journal.RunID(fmt.Sprintf("run-%d", i)), "me"))
		after("append", nil)
	}
	other := openWith(t, dir, sqlite.Options{})
	journaltest.Append(t, other, journaltest.Start("b", "me"))
	other.Close() // which leaves the WAL alone
	journaltest.Append(t, s, journaltest.Start("c", "me"))
	after("append beside others", nil)
	if _, err := s.Claim(ctx, "nobody", "me", nil); !errors.Is(err, journal.ErrUnknownRun) || len(order) > 0 {
		t.Errorf("what changes nothing: %v, %v", err, order)
	}
}

// Where it is not asked for, nothing waits for the disk.
func TestRelaxedDoesNotSync(t *testing.T) {
	s := openWith(t, t.TempDir(), sqlite.Options{Relaxed: true})
	defer s.Close()
	s.OnSync(func(*os.File, func(*os.File) error) error {
		t.Error("it waits for the disk")
		return nil
	})
	journaltest.Append(t, s, journaltest.Start("a", "me"))
}

// After a disk has failed to keep something nothing is written any more: what
// follows would be built upon what may be lost.
func TestADiskThatFails(t *testing.T) {
	dir := t.TempDir()
	s := openWith(t, dir, sqlite.Options{})
	defer s.Close()
	journaltest.Append(t, s, journaltest.Start("a", "me"))
	syncs := 0
	s.OnSync(func(*os.File, func(*os.File) error) error {
		syncs++
		return syscall.EIO
	})
	for _, id := range []journal.RunID{"b", "c"} {
		told := make(chan error, 1)
		s.Append(journaltest.Start(id, "me"), func(err error) { told <- err })
		if err := <-told; !errors.Is(err, syscall.EIO) || !errors.Is(err, journal.ErrNotKept) {
			t.Errorf("%s: %v", id, err)
		}
	}
	if _, err := s.Claim(t.Context(), "a", "you", nil); !errors.Is(err, syscall.EIO) {
		t.Errorf("a claim: %v", err)
	}
	if syncs != 1 {
		t.Errorf("the disk was tried %d times", syncs)
	}
	s.Close()
	again := openWith(t, dir, sqlite.Options{}) // somebody may look at what there is
	defer again.Close()
	if _, err := again.Entry(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	if _, err := again.Entry(t.Context(), "c"); !errors.Is(err, journal.ErrUnknownRun) {
		t.Errorf("what came after the failure: %v", err)
	}
}
