package sqlite_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/journaltest"
	"github.com/espalier-run/espalier/internal/journal/sqlite"
)

// Space of removed runs is returned to the file system, while another process has the journal open.
func TestCompactReturnsSpace(t *testing.T) {
	dir := t.TempDir()
	s, other := open(t, dir), open(t, dir)
	defer s.Close()
	defer other.Close()
	size := func() (sum int64) {
		t.Helper()
		for _, name := range []string{"espalier.db", "espalier.db-wal"} {
			info, err := os.Stat(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			sum += info.Size()
		}
		return sum
	}
	const runs = 40
	journaltest.Append(t, s, journaltest.Start("kept", "first"))
	for i := range runs {
		id := journal.RunID(fmt.Sprint("run", i))
		journaltest.Append(t, s, journaltest.Start(id, "first"))
		journaltest.Append(t, s, journaltest.Steps(id, journal.FirstFence, 1, 200))
		journaltest.Append(t, s, journaltest.Finish(id, journal.FirstFence, 201))
	}
	before := size()
	for i := range runs {
		if err := s.Remove(t.Context(), journal.Removal{}, journal.RunID(fmt.Sprint("run", i))); err != nil {
			t.Fatal(err)
		}
	}
	freed, err := s.(journal.Maintainer).Compact(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if after := size(); freed <= 0 || after > before/2 {
		t.Errorf("%d bytes are freed; the files had %d and have %d", freed, before, after)
	}
	journaltest.Append(t, other, journaltest.Steps("kept", journal.FirstFence, 1, 1))
}

// A backup that is made while another process writes is a journal with the first appends of each run, without a gap.
func TestBackupIsConsistentWhileRunsAreWritten(t *testing.T) {
	dir := t.TempDir()
	s, writer := open(t, dir), open(t, dir)
	defer s.Close()
	defer writer.Close()
	const runs = 3
	for i := range runs {
		journaltest.Append(t, writer, journaltest.Start(journal.RunID(fmt.Sprint("run", i)), "first"))
	}
	ctx, stop := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	for i := range runs {
		writing.Go(func() {
			id := journal.RunID(fmt.Sprint("run", i))
			for seq := journal.Seq(1); ctx.Err() == nil; seq += 2 {
				steps := journaltest.Steps(id, journal.FirstFence, seq, 2)
				if err := journal.Append(context.Background(), writer, steps); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for n := range 5 {
		path := filepath.Join(t.TempDir(), "espalier.db")
		if err := s.(journal.Maintainer).Backup(t.Context(), path); err != nil {
			t.Fatal(err)
		}
		copied, err := sqlite.Open(path, sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range runs {
			id := journal.RunID(fmt.Sprint("run", i))
			entry, err := copied.Entry(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if head := journaltest.Head(t, copied, id); head.Seq != entry.Seq || entry.Seq%2 != 1 {
				t.Errorf("backup %d: the chain of %s ends at %d, and the run at %d", n, id, head.Seq, entry.Seq)
			}
		}
		if err := copied.Close(); err != nil {
			t.Error(err)
		}
	}
	stop()
	writing.Wait()
}
