package sqlite_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/journaltest"
	"github.com/espalier-run/espalier/internal/journal/queue"
	"github.com/espalier-run/espalier/internal/journal/sqlite"
)

func open(t testing.TB, dir string) journal.Store {
	return openWith(t, dir, sqlite.Options{Dead: everyone})
}

func everyone(journal.Owner) bool { return true }

// subject returns the store for the suite.
func subject(o sqlite.Options) journaltest.Subject {
	return journaltest.Subject{
		Encode: journal.EncodeShort,
		Open: func(t testing.TB, dir string, alive *journaltest.Processes) journal.Store {
			o := o // stores are opened at the same time
			o.Dead = alive.Dead
			return openWith(t, dir, o)
		},
		Tamper: func(t testing.TB, _ journal.Store, dir string, at journal.Pos, body, hash []byte) {
			db, err := sql.Open("sqlite", filepath.Join(dir, "espalier.db"))
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if _, err := db.Exec("UPDATE appends SET body = ?, hash = ? WHERE pos = ?", body, hash, at); err != nil {
				t.Fatal(err)
			}
		},
		Durable: true, Shared: true,
	}
}

func openWith(t testing.TB, dir string, o sqlite.Options) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(filepath.Join(dir, "espalier.db"), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStoreKeepsItsPromises(t *testing.T) {
	journaltest.Run(t, subject(sqlite.Options{}))
}

func TestRelaxedStoreKeepsItsPromises(t *testing.T) {
	relaxed := subject(sqlite.Options{Relaxed: true})
	relaxed.Small = true
	journaltest.Run(t, relaxed)
}

// A large group calls back from another goroutine than a small one; the callbacks
// still run in the order of the appends.
func TestCallbacksKeepTheirOrder(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.Close()
	first, large := make(chan struct{}), make(chan struct{})
	var mu sync.Mutex
	var order []int
	report := func(n int) func(error) {
		return func(err error) {
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			order = append(order, n)
			mu.Unlock()
		}
	}
	committed := func(seq journal.Seq) {
		for {
			changed := s.Changed()
			if e, err := s.Entry(t.Context(), "a"); err == nil && e.Seq >= seq {
				return
			}
			<-changed
		}
	}
	// While the committer reports the first append, many more line up.
	reporting := make(chan struct{})
	s.Append(journaltest.Start("a", "me"), func(error) {
		close(reporting)
		<-first
	})
	<-reporting
	for n := range 10 {
		s.Append(journaltest.Steps("a", 1, journal.Seq(n+1), 1), func(err error) {
			if n == 0 {
				<-large
			}
			report(n)(err)
		})
	}
	close(first)
	committed(11)
	// While those are being reported, single ones are committed. When the
	// second of them is, the committer is done with the first.
	s.Append(journaltest.Steps("a", 1, 11, 1), report(10))
	committed(12)
	s.Append(journaltest.Steps("a", 1, 12, 1), report(11))
	committed(13)
	mu.Lock()
	if len(order) != 0 {
		t.Errorf("%v were reported too early", order)
	}
	mu.Unlock()
	close(large)
	s.Close()
	if !slices.IsSorted(order) || len(order) != 12 {
		t.Errorf("reported in the order %v", order)
	}
}

// The committer knows by heart where the runs are that it appends to. When
// another process has gone on with one, that is found, and leaves nothing.
func TestCachedHeadsAreDroppedWhenAnotherProcessWrites(t *testing.T) {
	dir := t.TempDir()
	ours, theirs := open(t, dir), open(t, dir)
	defer ours.Close()
	defer theirs.Close()
	claim := func(s journal.Store, owner journal.Owner) int64 {
		t.Helper()
		c, err := s.Claim(t.Context(), "a", owner)
		if err != nil {
			t.Fatal(err)
		}
		return c.Fence
	}
	try := func(b journal.Batch) error {
		done := make(chan error)
		ours.Append(b, func(err error) { done <- err })
		return <-done
	}
	journaltest.Append(t, ours, journaltest.Start("a", "us"))
	journaltest.Append(t, ours, journaltest.Steps("a", journal.FirstFence, 1, 2))
	journaltest.Append(t, theirs, journaltest.Steps("a", claim(theirs, "them"), 3, 2))
	for _, after := range []journal.Seq{3, 5} { // as far as we know, and as far as it is
		if err := try(journaltest.Steps("a", journal.FirstFence, after, 2)); !errors.Is(err, journal.ErrConflict) {
			t.Errorf("after %d: %v", after, err)
		}
	}
	journaltest.Append(t, ours, journaltest.Steps("a", claim(ours, "us"), 5, 2))
	if got := journaltest.Events(t, ours, "a", 0); len(got) != 7 {
		t.Errorf("%d events, not 7", len(got))
	}
	if tail := journaltest.Tail(t, ours, 0); len(tail) != 4 || tail[3].Pos != 4 {
		t.Errorf("%d appends, the last one at %d", len(tail), tail[len(tail)-1].Pos)
	}
}

// Many concurrent read transactions do not deadlock, although there are only a
// few connections.
func TestManyReadersDoNotDeadlock(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	journaltest.Append(t, s, journaltest.Start("a", "me"))
	s.Close()
	for range 20 {
		s := open(t, dir)
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() { journaltest.Events(t, s, "a", 0) })
		}
		all.Wait()
		s.Close()
	}
}

// A run's row may lag behind its newest appends. Reading, claiming and deleting
// do not depend on it.
func TestRunRowsMayLagBehind(t *testing.T) {
	dir := t.TempDir()
	ours, theirs := open(t, dir), open(t, dir)
	defer ours.Close()
	defer theirs.Close()
	db, err := sql.Open("sqlite", filepath.Join(dir, "espalier.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	journaltest.Append(t, ours, journaltest.Start("a", "us"))
	journaltest.Append(t, ours, journaltest.Start("b", "us"))
	rows, seq := map[int64]bool{}, map[journal.RunID]journal.Seq{"a": 1, "b": 1}
	step := func(run journal.RunID, fence int64) {
		t.Helper()
		b := journaltest.Steps(run, fence, seq[run], 1)
		at := journal.Millis(10_000 + seq[run])
		b.Events[0].At = at
		journaltest.Append(t, ours, b)
		seq[run]++
		entry, err := theirs.Entry(t.Context(), run)
		if err != nil || entry.Seq != seq[run] || entry.Updated != at {
			t.Fatalf("%+v, %v, after event %d", entry, err, seq[run])
		}
		for listed, err := range theirs.Runs(t.Context(), journal.Filter{Unfinished: true}) {
			if err != nil || listed.Seq != seq[listed.ID] {
				t.Fatalf("%+v, %v", listed, err)
			}
		}
		if got := journaltest.Events(t, theirs, run, seq[run]-2); len(got) != 2 || got[1].Seq != seq[run] {
			t.Fatalf("%+v", got)
		}
		var head int64
		if err := db.QueryRow("SELECT head FROM runs WHERE id = ?", run).Scan(&head); err != nil {
			t.Fatal(err)
		}
		rows[head] = true
	}
	const much = 150
	for range much {
		step("a", journal.FirstFence)
	}
	if len(rows) < 2 || len(rows) > much/10 {
		t.Errorf("the row named %d of %d appends", len(rows), much)
	}
	for range much { // so that what a's row names is far behind
		step("b", journal.FirstFence)
	}
	step("a", journal.FirstFence)
	step("a", journal.FirstFence)

	claim, err := theirs.Claim(t.Context(), "a", "them")
	if err != nil || claim.Seq != seq["a"] {
		t.Fatalf("%+v, %v", claim, err)
	}
	refused := make(chan error)
	ours.Append(journaltest.Steps("a", journal.FirstFence, seq["a"], 1), func(err error) { refused <- err })
	if err := <-refused; !errors.Is(err, journal.ErrConflict) {
		t.Errorf("append after the claim was lost: %v, want ErrConflict", err)
	}
	end := journaltest.Steps("a", claim.Fence, seq["a"], 1)
	end.Index = &journal.Index{Status: journal.Finished, Outcome: "ok"}
	journaltest.Append(t, theirs, end)
	if got := journaltest.Events(t, ours, "a", 0); len(got) != int(seq["a"])+1 {
		t.Errorf("%d events, not %d", len(got), seq["a"]+1)
	}
	if err := ours.Remove(t.Context(), journal.Removal{}, "a"); err != nil {
		t.Fatal(err)
	}
	var left int
	if err := db.QueryRow("SELECT count(*) FROM appends WHERE run = 1").Scan(&left); err != nil || left != 0 {
		t.Errorf("%d appends are left, %v", left, err)
	}
}

// An update of the row without events, such as a release, includes the appends
// that the row lagged behind.
func TestReleaseUpdatesTheRunRow(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	defer s.Close()
	journaltest.Append(t, s, journaltest.Start("a", "us"))
	b := journaltest.Steps("a", journal.FirstFence, 1, 3)
	b.Events[2].At = 77_000
	journaltest.Append(t, s, b)
	journaltest.Append(t, s, journal.Batch{
		Run: "a", Fence: journal.FirstFence, After: 4, Release: true, Index: &journal.Index{Status: journal.Waiting},
	})
	entry, err := s.Entry(t.Context(), "a")
	if err != nil || entry.Seq != 4 || entry.Updated != 77_000 || entry.Owner != "" || entry.Status != journal.Waiting {
		t.Errorf("%+v, %v", entry, err)
	}
	if got := journaltest.Events(t, s, "a", 0); len(got) != 4 {
		t.Errorf("%d events", len(got))
	}
}

// Stores of one process over the same file can share a notifier: a commit of one wakes those who wait for another.
func TestCommitsWakeReadersOfOtherStores(t *testing.T) {
	path, changes := filepath.Join(t.TempDir(), "journal.db"), &queue.Notifier{}
	open := func() *sqlite.Store {
		s, err := sqlite.Open(path, sqlite.Options{Changes: changes})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	writer, reader := open(), open()
	changed := reader.Changed()
	writer.Append(journaltest.Start("a", "me"), func(err error) {
		if err != nil {
			t.Error(err)
		}
	})
	select {
	case <-changed:
	case <-time.After(30 * time.Second):
		t.Fatal("the reader is not woken")
	}
}
