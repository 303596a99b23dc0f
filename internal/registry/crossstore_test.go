package registry_test

import (
	"bytes"
	"encoding/hex"
	"path/filepath"
	"slices"
	"testing"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/journaltest"
	"github.com/espalier-run/espalier/internal/journal/postgres"
	"github.com/espalier-run/espalier/internal/journal/sqlite"
	"github.com/espalier-run/espalier/internal/pgtest"
)

// chain returns the hashes of a run's appends, which must verify.
func chain(t *testing.T, s journal.ChainReader, run journal.RunID) (hashes []string) {
	t.Helper()
	for link, err := range s.Links(t.Context(), run) {
		if err != nil {
			t.Fatal(err)
		}
		hashes = append(hashes, hex.EncodeToString(link.Hash))
	}
	return hashes
}

// move exports a run from a store, imports it into another, and compares the chains of hashes and the events.
func move(t *testing.T, from, to journal.Store, run journal.RunID) {
	t.Helper()
	var file bytes.Buffer
	if err := journal.WriteArchive(t.Context(), &file, from, run, nil, nil); err != nil {
		t.Fatal(err)
	}
	archive, err := journal.OpenArchive(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if err := to.Import(t.Context(), archive.Imported(t.Context())); err != nil {
		t.Fatal(err)
	}
	if was, is := chain(t, from, run), chain(t, to, run); len(was) == 0 || !slices.Equal(was, is) {
		t.Errorf("the chain is %q instead of %q", is, was)
	}
	if was, is := len(journaltest.Events(t, from, run, 0)), len(journaltest.Events(t, to, run, 0)); was != is {
		t.Errorf("%d events instead of %d", is, was)
	}
}

// A run moves from SQLite to PostgreSQL and back, and its chain of hashes stays the same.
func TestRunsMoveBetweenKindsOfStores(t *testing.T) {
	server, err := pgtest.Start("fsync=off")
	pgtest.Require(t, err)
	defer server.Remove()
	database, err := postgres.Open(t.Context(), server.URL("postgres"), postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer database.Close()
	open := func() journal.Store {
		s, err := sqlite.Open(filepath.Join(t.TempDir(), "j.db"), sqlite.Options{Relaxed: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	first, last := open(), open()
	const run = journal.RunID("a")
	started := journaltest.Start(run, "me")
	blob := journaltest.Definition("large")
	fact := started.Events[0].Fact.(journal.RunStarted)
	fact.Input = journal.Value{Hash: blob.Hash, Size: len(blob.Data)}
	started.Events[0].Fact, started.Blobs = fact, []journal.Blob{blob}
	journaltest.Append(t, first, started)
	journaltest.Append(t, first, journaltest.Steps(run, 1, 1, 2))
	journaltest.Append(t, first, journaltest.Finish(run, 1, 3))
	move(t, first, database, run)
	move(t, database, last, run)
	for _, s := range []journal.Store{database, last} {
		if data, err := s.Blob(t.Context(), blob.Hash); err != nil || !bytes.Equal(data, blob.Data) {
			t.Errorf("the blob is %q, %v", data, err)
		}
	}
}
