package journaltest

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-run/espalier/internal/journal"
)

// links reads a chain that must be readable, without positions.
func links(t testing.TB, s journal.ChainReader, run journal.RunID) []journal.Link {
	t.Helper()
	var all []journal.Link
	for l, err := range s.Links(t.Context(), run) {
		if err != nil {
			t.Fatal(err)
		}
		l.Pos = 0
		all = append(all, l)
	}
	return all
}

// imports tests that an archived run is imported unchanged, and that readers of the tail do not get it.
func imports(t *testing.T, s *group) {
	blob := Definition("large")
	first := Start("a", "me")
	started := first.Events[0].Fact.(journal.RunStarted)
	started.Input = journal.Value{Hash: blob.Hash, Size: len(blob.Data)}
	first.Events[0].Fact, first.Blobs = started, []journal.Blob{blob}
	Append(t, s, first)
	Append(t, s, Start("other", "me"))
	const appends = 600
	for i := range appends {
		Append(t, s, Steps("a", 1, journal.Seq(1+2*i), 2))
	}
	last := Finish("a", 1, 1+2*appends)
	child := journal.Entry{ID: "a-child", Root: "a", Parent: "a", Name: "part", Started: 1000, Updated: 1001}
	child.Index = journal.Index{Status: journal.Finished, Outcome: "ok"}
	last.Children, last.Release = []journal.Entry{child}, true
	Append(t, s, last)

	var file bytes.Buffer
	unfinished := journal.WriteArchive(t.Context(), io.Discard, s, "other", nil, nil)
	wantError(t, unfinished, journal.ErrUnfinished)
	if err := journal.WriteArchive(t.Context(), &file, s, "a", nil, nil); err != nil {
		t.Fatal(err)
	}
	archive, err := journal.OpenArchive(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, s.Import(t.Context(), archive.Imported(t.Context())), journal.ErrExists)
	chain, entry, events := links(t, s, "a"), entryOf(t, s, "a"), Events(t, s, "a", 0)
	head := Head(t, s, "a")
	if err := s.Remove(t.Context(), journal.Removal{At: 1}, "a"); err != nil {
		t.Fatal(err)
	}
	before := len(Tail(t, s, 0))

	broken := archive.Imported(t.Context())
	broken.Links = cutOff(broken.Links, 300)
	wantError(t, s.Import(t.Context(), broken), errCutOff)
	if ids := Runs(t, s, journal.Filter{Children: true}); len(ids) != 1 {
		t.Fatalf("a failed import left %v", ids)
	}
	if err := s.Import(t.Context(), archive.Imported(t.Context())); err != nil {
		t.Fatal(err)
	}
	wantError(t, s.Import(t.Context(), archive.Imported(t.Context())), journal.ErrExists)
	for name, diff := range map[string]string{
		"chain": cmp.Diff(chain, links(t, s, "a")), "entry": cmp.Diff(entry, entryOf(t, s, "a")),
		"events": cmp.Diff(events, Events(t, s, "a", 0)), "child": cmp.Diff(child, entryOf(t, s, "a-child")),
		"events from the middle": cmp.Diff(events[500:], Events(t, s, "a", 500)),
		"head":                   cmp.Diff(head, Head(t, s, "a")),
	} {
		if diff != "" {
			t.Errorf("the imported %s differs (-was +is):\n%s", name, diff)
		}
	}
	if data, err := s.Blob(t.Context(), blob.Hash); err != nil || !bytes.Equal(data, blob.Data) {
		t.Errorf("the blob is %q, %v", data, err)
	}
	if got := len(Tail(t, s, 0)); got != before {
		t.Errorf("the tail has %d appends more", got-before)
	}
	Append(t, s, Steps("other", 1, 1, 2))
	if got := Tail(t, s, 0); len(got) != before+1 || got[before].Run != "other" {
		t.Errorf("the tail does not continue: %d appends", len(got))
	}
	// An imported run is removed like any other.
	if err := s.Remove(t.Context(), journal.Removal{At: 2}, "a"); err != nil {
		t.Fatal(err)
	}
	hashes := map[string]int{}
	if _, err := journal.VerifyTombstones(t.Context(), s, func(x journal.Tombstone, _ journal.ChainHash) {
		hashes[x.Hash]++
	}); err != nil || hashes[head.Hash.String()] != 2 {
		t.Errorf("the tombstones have %v, %v", hashes, err)
	}
	if _, err := s.Blob(t.Context(), blob.Hash); !errors.Is(err, journal.ErrUnknownBlob) {
		t.Errorf("the blob is left: %v", err)
	}
}

func entryOf(t testing.TB, s journal.Reader, run journal.RunID) journal.Entry {
	t.Helper()
	e, err := s.Entry(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

var errCutOff = errors.New("the file ends here")

// cutOff fails after n links.
func cutOff(all iter.Seq2[journal.Link, error], n int) iter.Seq2[journal.Link, error] {
	return func(yield func(journal.Link, error) bool) {
		for l, err := range all {
			if n--; n < 0 {
				l, err = journal.Link{}, errCutOff
			}
			if !yield(l, err) || err != nil {
				return
			}
		}
	}
}
