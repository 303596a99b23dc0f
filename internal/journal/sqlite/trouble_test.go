package sqlite_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/filelock"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/journaltest"
	"github.com/espalier-run/espalier/internal/journal/sqlite"
)

func wantError(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got %v, expected %v", err, want)
	}
}

// edit changes a closed journal behind its back.
func edit(t testing.TB, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

func TestJournalUsesWALAndFullSync(t *testing.T) {
	s := openWith(t, t.TempDir(), sqlite.Options{})
	defer s.Close()
	for name, want := range map[string]any{"synchronous": int64(2), "journal_mode": "wal", "wal_autocheckpoint": int64(
		250,
	), "busy_timeout": int64(0)} {
		if got, err := s.Pragma(name); err != nil || got != want {
			t.Errorf("%s is %v, %v; expected %v", name, got, err, want)
		}
	}
}

func TestOnlyTheOwnerMayRead(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such modes")
	}
	dir := filepath.Join(t.TempDir(), "a", "b")
	s := open(t, dir)
	defer s.Close()
	journaltest.Append(t, s, journaltest.Start("a", "me"))
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) < 3 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", f.Name(), info.Mode(), err)
		}
	}
}

func TestPathsWithSpecialCharacters(t *testing.T) {
	for _, name := range []string{"a b", "100%41", "what?mode=memory", "hash#tag", "é+&=", "it's", "semi;colon"} {
		if runtime.GOOS == "windows" && strings.ContainsAny(name, `?`) {
			continue
		}
		dir := filepath.Join(t.TempDir(), name)
		s := open(t, dir)
		journaltest.Append(t, s, journaltest.Start("a", "me"))
		journaltest.Events(t, s, "a", 0)
		s.Close()
		if info, err := os.Stat(filepath.Join(dir, "espalier.db")); err != nil || info.Size() == 0 {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestOtherFilesAreRefused(t *testing.T) {
	dir := t.TempDir()
	tests := map[string]func(path string){
		"text": func(path string) {
			os.WriteFile(path, []byte(strings.Repeat("not a database ", 100)), 0o600)
		},
		"folder":       func(path string) { os.Mkdir(path, 0o700) },
		"other tables": func(path string) { edit(t, path, "CREATE TABLE t (x)", "INSERT INTO t VALUES (1)") },
		"other program": func(path string) {
			edit(t, path, "PRAGMA application_id = 99", "PRAGMA user_version = 1")
		},
	}
	for name, make := range tests {
		path := filepath.Join(dir, name)
		make(path)
		before, _ := os.ReadFile(path)
		_, err := sqlite.Open(path, sqlite.Options{})
		if !errors.Is(err, journal.ErrNotJournal) || !strings.Contains(fmt.Sprint(err), path) {
			t.Errorf("%s: %v", name, err)
		}
		if after, _ := os.ReadFile(path); string(before) != string(after) {
			t.Errorf("%s: the file was changed", name)
		}
	}
}

func TestNewerJournalIsRefused(t *testing.T) {
	dir := t.TempDir()
	open(t, dir).Close()
	path := filepath.Join(dir, "espalier.db")
	edit(t, path, "PRAGMA user_version = 99")
	_, err := sqlite.Open(path, sqlite.Options{})
	var newer *journal.NewerError
	if !errors.As(err, &newer) || newer.Have != 99 || newer.Expect != 6 {
		t.Fatal(err)
	}
}

func TestFullDiskIsReported(t *testing.T) {
	s := openWith(t, t.TempDir(), sqlite.Options{})
	defer s.Close()
	journaltest.Append(t, s, journaltest.Start("a", "me"))
	journaltest.Append(t, s, journaltest.Start("b", "me"))
	if err := s.Script("PRAGMA max_page_count = 1"); err != nil { // as many as there are
		t.Fatal(err)
	}
	big := journaltest.Steps("a", 1, 1, 1000)
	big.Snapshot = []byte("x")
	big.Index = &journal.Index{Status: journal.Waiting}

	// Beside it, a small batch that fits into what room there is goes in.
	outcomes := make(chan error, 2)
	s.Append(big, func(err error) { outcomes <- err })
	s.Append(journaltest.Steps("b", 1, 1, 1), func(err error) { outcomes <- err })
	wantError(t, <-outcomes, journal.ErrFull)
	if err := <-outcomes; err != nil {
		t.Error(err)
	}
	if e, err := s.Entry(t.Context(), "a"); err != nil || e.Seq != 1 || e.Status != journal.Running {
		t.Errorf("%+v, %v", e, err)
	}
	if len(journaltest.Events(t, s, "a", 0)) != 1 || len(journaltest.Events(t, s, "b", 0)) != 2 {
		t.Error("something of the refused batch is there")
	}
	// With room again, everything continues.
	if err := s.Script("PRAGMA max_page_count = 100000"); err != nil {
		t.Fatal(err)
	}
	journaltest.Append(t, s, big)
}

func TestReadOnlyJournalIsReported(t *testing.T) {
	s := openWith(t, t.TempDir(), sqlite.Options{})
	defer s.Close()
	journaltest.Append(t, s, journaltest.Start("a", "me"))
	if err := s.Script("PRAGMA query_only = 1"); err != nil {
		t.Fatal(err)
	}
	wantError(t, journal.Append(t.Context(), s, journaltest.Steps("a", 1, 1, 1)), journal.ErrReadOnly)
	_, err := s.Enqueue(t.Context(), "a", journal.Message{Kind: "x"})
	wantError(t, err, journal.ErrReadOnly)
	if len(journaltest.Events(t, s, "a", 0)) != 1 {
		t.Error("something was written")
	}
}

func TestReadOnlyFolderIsReported(t *testing.T) {
	if os.Geteuid() == 0 || runtime.GOOS == "windows" {
		t.Skip("nothing is unwritable here")
	}
	dir := t.TempDir()
	os.Chmod(dir, 0o500)
	_, err := sqlite.Open(filepath.Join(dir, "espalier.db"), sqlite.Options{})
	wantError(t, err, journal.ErrReadOnly)
}

func TestLockedJournalIsReported(t *testing.T) {
	dir := t.TempDir()
	s := openWith(t, dir, sqlite.Options{BusyTimeout: 20 * time.Millisecond})
	defer s.Close()
	journaltest.Append(t, s, journaltest.Start("a", "me"))

	db, err := sql.Open("sqlite", filepath.Join(dir, "espalier.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	wantError(t, journal.Append(t.Context(), s, journaltest.Steps("a", 1, 1, 1)), journal.ErrBusy)
	if got := journaltest.Events(t, s, "a", 0); len(got) != 1 { // reading still works
		t.Errorf("%d events", len(got))
	}
	if _, err := db.Exec("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	journaltest.Append(t, s, journaltest.Steps("a", 1, 1, 1))
}

func TestDamageIsLocated(t *testing.T) {
	line := func(seq int) string { return fmt.Sprintf(`{"q":%d,"t":0,"k":"Paused","d":{}}`, seq) + "\n" }
	tests := []struct {
		name, damage string
		pos          journal.Pos
		tail         bool // Tail sees it too
	}{
		{"a body that is no JSON", "UPDATE appends SET body = CAST('{' AS BLOB) WHERE pos = 3", 3, true},
		{"an empty body", "UPDATE appends SET body = x'' WHERE pos = 3", 3, true},
		{
			"an unknown fact",
			`UPDATE appends SET body = CAST(replace(CAST(body AS TEXT), 'TaskStarted', 'TaskSneezed') AS BLOB) WHERE pos = 3`,
			3, true,
		},
		{"a body of other events", "UPDATE appends SET body = CAST('" + line(7) + "' AS BLOB) WHERE pos = 3", 3, true},
		{
			"a gap inside a body",
			"UPDATE appends SET body = CAST('" + line(2) + line(4) + "' AS BLOB), seq = 4 WHERE pos = 3", 3, true,
		},
		{"a row that is gone", "DELETE FROM appends WHERE pos = 3", 4, false},
		{"the first row gone", "DELETE FROM appends WHERE pos = 1", 3, false},
		{"the last row gone", "DELETE FROM appends WHERE pos = 5", 0, false},
		{"a chain to another run", "UPDATE appends SET prev = 2 WHERE pos = 3", 2, false},
		{"a chain that skips", "UPDATE appends SET prev = 1 WHERE pos = 4", 4, false},
		{"a chain that runs forward", "UPDATE appends SET prev = 5 WHERE pos = 4", 4, false},
		{"a chain to itself", "UPDATE appends SET prev = 4 WHERE pos = 4", 4, false},
		{"a run that ends elsewhere", "UPDATE runs SET seq = 9 WHERE id = 'a'", 0, false},
		{"a run that is gone", "DELETE FROM runs WHERE id = 'b'", 2, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			journaltest.Append(t, s, journaltest.Start("a", "me"))
			journaltest.Append(t, s, journaltest.Start("b", "me"))
			journaltest.Append(t, s, journaltest.Steps("a", 1, 1, 2))
			journaltest.Append(t, s, journaltest.Steps("a", 1, 3, 1))
			known := journaltest.Steps("a", 1, 4, 2)
			known.Index = &journal.Index{Status: journal.Running} // so that the run's row names it
			journaltest.Append(t, s, known)
			s.Close()
			edit(t, filepath.Join(dir, "espalier.db"), tt.damage)
			s = open(t, dir)
			defer s.Close()

			check := func(err error) {
				t.Helper()
				var damage *journal.CorruptError
				if !errors.Is(err, journal.ErrCorrupt) || !errors.As(err, &damage) || damage.Pos != tt.pos {
					t.Errorf("got %v, expected damage at %d", err, tt.pos)
				}
			}
			if !strings.Contains(tt.damage, "'b'") {
				var last error
				for _, err := range s.Events(t.Context(), "a", 0) {
					last = err
				}
				check(last)
			}
			var last error
			for _, err := range s.Tail(t.Context(), 0) {
				last = err
			}
			if tt.tail {
				check(last)
			} else if last != nil {
				t.Errorf("the tail: %v", last)
			}
		})
	}
}

func TestDamagedBlobIsFound(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	b := journaltest.Start("a", "me")
	blob := journaltest.Definition("something")
	b.Blobs = []journal.Blob{blob}
	journaltest.Append(t, s, b)
	s.Close()
	edit(t, filepath.Join(dir, "espalier.db"), "UPDATE blobs SET data = x'00'")
	s = open(t, dir)
	defer s.Close()
	_, err := s.Blob(t.Context(), blob.Hash)
	wantError(t, err, journal.ErrCorrupt)
}

// Two stores on one file are what two processes are to each other.
func TestConcurrentOpensOfANewFile(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			s, err := sqlite.Open(filepath.Join(dir, "espalier.db"), sqlite.Options{})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			for n := range 20 {
				id := journal.RunID(fmt.Sprintf("run-%d-%d", i, n))
				if err := journal.Append(t.Context(), s, journaltest.Start(id, "me")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	s := open(t, dir)
	defer s.Close()
	if got := len(journaltest.Tail(t, s, 0)); got != 160 {
		t.Errorf("%d appends", got)
	}
}

// The plan of every query must be the one that it was written for.
func TestQueriesUseIndexes(t *testing.T) {
	dir := t.TempDir()
	open(t, dir).Close()
	db, err := sql.Open("sqlite", filepath.Join(dir, "espalier.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for query, want := range map[string]string{
		sqlite.ListingQuery(journal.Filter{}):                        "SEARCH runs USING INTEGER PRIMARY KEY",
		sqlite.ListingQuery(journal.Filter{Status: journal.Running}): "SEARCH runs USING INDEX runs_by_status",
		sqlite.ListingQuery(journal.Filter{Unfinished: true}):        "SEARCH runs USING INDEX runs_unfinished",
		sqlite.ListingQuery(journal.Filter{Prefix: "ab"}):            "SEARCH runs USING INDEX sqlite_autoindex_runs_1",
		sqlite.ListingQuery(journal.Filter{Root: "ab"}):              "SEARCH runs USING INDEX runs_by_root",
		sqlite.DueQuery:  "SEARCH runs USING INDEX runs_by_wake",
		sqlite.TailQuery: "SEARCH a USING INTEGER PRIMARY KEY",
		sqlite.MailQuery: "SEARCH runs USING INTEGER PRIMARY KEY",
	} {
		rows, err := db.Query("EXPLAIN QUERY PLAN "+query, make([]any, strings.Count(query, "?"))...)
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		var plan []string
		for rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				t.Fatal(err)
			}
			plan = append(plan, detail)
		}
		rows.Close()
		if len(plan) == 0 || !strings.HasPrefix(plan[0], want) {
			t.Errorf("%s\n%s", query, strings.Join(plan, "\n"))
		}
		for _, step := range plan[1:] {
			if strings.HasPrefix(step, "SCAN") && !strings.Contains(step, "inbox") ||
				strings.Contains(step, "TEMP B-TREE") && !strings.Contains(query, "+n") {
				t.Errorf("%s\n%s", query, strings.Join(plan, "\n"))
			}
		}
	}
}

// The lock with which a process waits to write is held as long as it waits, and
// no longer.
func TestWaitingWritersAnnounceThemselves(t *testing.T) {
	dir := t.TempDir()
	s := openWith(t, dir, sqlite.Options{BusyTimeout: time.Minute})
	defer s.Close()
	journaltest.Append(t, s, journaltest.Start("a", "me"))
	want, err := filelock.OpenExisting(filepath.Join(dir, "espalier.db-want"))
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	waiting := func() bool {
		free, err := want.TryExclusive()
		if err != nil {
			t.Fatal(err)
		}
		want.Unlock()
		return !free
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, "espalier.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	if waiting() {
		t.Error("a writer is reported as waiting before there is one")
	}
	outcome := make(chan error, 1)
	s.Append(journaltest.Steps("a", 1, 1, 1), func(err error) { outcome <- err })
	for !waiting() {
		runtime.Gosched()
	}
	if _, err := db.Exec("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if err := <-outcome; err != nil {
		t.Fatal(err)
	}
	if waiting() {
		t.Error("a writer is still reported as waiting")
	}
	// A process that announces itself and never writes does not stop the writer.
	if err := want.Shared(); err != nil {
		t.Fatal(err)
	}
	journaltest.Append(t, s, journaltest.Steps("a", 1, 2, 1))
}

// A write-ahead log that was cut off anywhere yields the first appends, with a chain that verifies, and the run
// continues from there.
func TestCutWALYieldsTheFirstAppends(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	defer s.Close()
	const appends = 20
	journaltest.Append(t, s, journaltest.Start("a", "first"))
	for i := range appends - 1 {
		journaltest.Append(t, s, journaltest.Steps("a", journal.FirstFence, journal.Seq(1+i), 1))
	}
	files := map[string][]byte{}
	for _, name := range []string{"espalier.db", "espalier.db-wal"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = text
	}
	wal := files["espalier.db-wal"]
	seen := map[journal.Seq]bool{}
	for cut := len(wal); cut > 32; cut -= max(1, len(wal)/40) {
		there := t.TempDir()
		for name, text := range files {
			if name == "espalier.db-wal" {
				text = text[:cut]
			}
			if err := os.WriteFile(filepath.Join(there, name), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s := open(t, there)
		entry, err := s.Entry(t.Context(), "a")
		if errors.Is(err, journal.ErrUnknownRun) {
			s.Close()
			continue // its first append is gone, too
		}
		if err != nil {
			t.Fatalf("cut at %d of %d: %v", cut, len(wal), err)
		}
		seen[entry.Seq] = true
		if head := journaltest.Head(t, s, "a"); head.Seq != entry.Seq {
			t.Errorf("cut at %d of %d: the chain ends at %d, the run at %d", cut, len(wal), head.Seq, entry.Seq)
		}
		journaltest.Append(t, s, journaltest.Steps("a", journal.FirstFence, entry.Seq, 1))
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if len(seen) < 5 || !seen[appends] {
		t.Errorf("the cuts yield only %v: the test shows nothing", seen)
	}
}

// Release 0.1.0 imported runs without a mark, so that they could be continued.
func TestUpgradeMarksImportedRuns(t *testing.T) {
	dir := t.TempDir()
	s := openWith(t, t.TempDir(), sqlite.Options{})
	defer s.Close()
	journaltest.Append(t, s, journaltest.Start("imported", "me"))
	journaltest.Append(t, s, journaltest.Finish("imported", 1, 1))
	var file bytes.Buffer
	if err := journal.WriteArchive(t.Context(), &file, s, "imported", nil, nil); err != nil {
		t.Fatal(err)
	}
	archive, err := journal.OpenArchive(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		t.Fatal(err)
	}
	old := openWith(t, dir, sqlite.Options{})
	if err := old.Import(t.Context(), archive.Imported(t.Context())); err != nil {
		t.Fatal(err)
	}
	journaltest.Append(t, old, journaltest.Start("own", "me"))
	old.Close()
	edit(t, filepath.Join(dir, "espalier.db"), "PRAGMA user_version = 5")

	upgraded := openWith(t, dir, sqlite.Options{})
	defer upgraded.Close()
	for run, want := range map[string]bool{"imported": true, "own": false} {
		r, err := upgraded.Load(t.Context(), "imported/"+run)
		if err != nil || (r.Version != 0) != want || want && string(r.Data) != "{}" {
			t.Errorf("%s: %+v, %v", run, r, err)
		}
	}
}
