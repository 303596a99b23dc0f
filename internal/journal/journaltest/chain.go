package journaltest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-run/espalier/internal/journal"
)

// Head returns the head of a chain that must be undamaged.
func Head(t testing.TB, s journal.ChainReader, run journal.RunID) journal.ChainHead {
	t.Helper()
	head, err := journal.VerifyChain(context.Background(), s, run, nil)
	if err != nil {
		t.Fatalf("the chain of %s: %v", run, err)
	}
	return head
}

// expectedHash computes the hash of a chain without the functions of journal.
func expectedHash(t testing.TB, s *Subject, start string, batches ...journal.Batch) string {
	t.Helper()
	hash := sha256.Sum256([]byte(start))
	for _, b := range batches {
		hash = sha256.Sum256(append(hash[:], s.encode(t, b.Events)...))
	}
	return hex.EncodeToString(hash[:])
}

// chained tests that the hash of the last append covers all events of a run, whichever process
// has appended them.
func chained(t *testing.T, s *group) {
	all := []journal.Batch{Start("a", "first"), Steps("a", 1, 1, 3)}
	for _, b := range all {
		Append(t, s, b)
	}
	Append(t, s, Start("b", "first"))
	refused := Steps("a", 1, 4, 1)
	refused.Taken = []journal.InboxID{77}
	wantError(t, journal.Append(t.Context(), s, refused), journal.ErrConflict)
	Append(t, s, journal.Batch{Run: "a", Fence: 1, After: 4, Release: true})
	claim, err := s.Claim(t.Context(), "a", "second")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		b := Steps("a", claim.Fence, journal.Seq(4+2*i), 2)
		all = append(all, b)
		Append(t, s, b)
	}
	head := Head(t, s, "a")
	if want := expectedHash(t, s.subject, "espalier run\na", all...); head.Hash.String() != want || head.Seq != 10 {
		t.Errorf("the head is %s after event %d, not %s", head.Hash, head.Seq, want)
	}
	want := expectedHash(t, s.subject, "espalier run\nb", Start("b", "first"))
	if Head(t, s, "b").Hash.String() != want {
		t.Errorf("the chain of b starts with %s, not %s", Head(t, s, "b").Hash, want)
	}
	_, err = journal.VerifyChain(t.Context(), s, "unknown", nil)
	wantError(t, err, journal.ErrUnknownRun)
}

// tampered tests that changing anything that is stored of an append breaks the chain.
func tampered(t *testing.T, s *group) {
	Append(t, s, Start("a", "me"))
	Append(t, s, Steps("a", 1, 1, 2))
	Append(t, s, Steps("a", 1, 3, 2))
	whole := Head(t, s, "a")
	for link, err := range s.Links(t.Context(), "a") {
		if err != nil {
			t.Fatal(err)
		}
		damaged := func(what string, body, hash []byte) {
			t.Helper()
			s.subject.Tamper(t, s.Store, s.dir, link.Pos, body, hash)
			defer s.subject.Tamper(t, s.Store, s.dir, link.Pos, link.Body, link.Hash)
			_, err := journal.VerifyChain(t.Context(), s, "a", nil)
			var corrupt *journal.CorruptError
			if !errors.As(err, &corrupt) || corrupt.Pos != link.Pos || corrupt.Run != "a" {
				t.Errorf("append %d, %s: %v", link.Pos, what, err)
			}
		}
		changed := bytes.Clone(link.Body)
		changed[len(changed)/2] ^= 1
		damaged("another body", changed, link.Hash)
		damaged("another hash", link.Body, bytes.Repeat([]byte{7}, sha256.Size))
		damaged("half a hash", link.Body, link.Hash[:sha256.Size/2])
	}
	if head := Head(t, s, "a"); head != whole {
		t.Errorf("%+v, not %+v", head, whole)
	}
}

// unhashed tests that the hashes of new appends cover those of a release that stored no hashes.
func unhashed(t *testing.T, s *group) {
	Append(t, s, Start("a", "me"))
	Append(t, s, Steps("a", 1, 1, 2))
	Append(t, s, Start("b", "me"))
	Append(t, s, Finish("b", 1, 1))
	want := map[journal.RunID]journal.ChainHash{"a": Head(t, s, "a").Hash, "b": Head(t, s, "b").Hash}
	var first journal.Link
	for run := range want {
		for link, err := range s.Links(t.Context(), run) {
			if err != nil {
				t.Fatal(err)
			}
			if run == "a" && first.Body == nil {
				first = link
			}
			s.subject.Tamper(t, s.Store, s.dir, link.Pos, link.Body, []byte{})
		}
		if head := Head(t, s, run); head.Hash != want[run] || head.Unhashed != 2 {
			t.Errorf("%+v, not %s", head, want[run])
		}
	}
	if s.subject.Durable { // a process that knows nothing of the runs
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s.Store = s.subject.Open(t, s.dir, s.processes)
	}
	b := Steps("a", 1, 3, 1)
	Append(t, s, b)
	body := s.subject.encode(t, b.Events)
	if head := Head(t, s, "a"); head.Hash != want["a"].Next(body) || head.Unhashed != 2 {
		t.Errorf("%+v, not %s", head, want["a"].Next(body))
	}
	changed := bytes.Clone(first.Body)
	changed[len(changed)/2] ^= 1
	s.subject.Tamper(t, s.Store, s.dir, first.Pos, changed, []byte{})
	_, err := journal.VerifyChain(t.Context(), s, "a", nil)
	wantError(t, err, journal.ErrCorrupt)

	if err := s.Remove(t.Context(), journal.Removal{}, "b"); err != nil {
		t.Fatal(err)
	}
	if got := Tombstones(t, s); len(got) != 1 || got[0].Hash != want["b"].String() {
		t.Errorf("%+v", got)
	}
}

// Tombstones returns the tombstones of a store, whose chain must be undamaged.
func Tombstones(t testing.TB, s journal.ChainReader) (all []journal.Tombstone) {
	t.Helper()
	_, err := journal.VerifyTombstones(context.Background(), s, func(one journal.Tombstone, _ journal.ChainHash) {
		all = append(all, one)
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// tombstones tests that a removed run leaves a tombstone with its final hash, and that a refused
// removal leaves none.
func tombstones(t *testing.T, s *group) {
	why := journal.Removal{By: journal.Actor{User: "ann", As: "ops"}, At: 1234, Why: "older than 30 days"}
	var want []journal.Tombstone
	for _, id := range []journal.RunID{"a", "b", "c"} {
		Append(t, s, Start(id, "me"))
		Append(t, s, Finish(id, 1, 1))
		want = append(want, journal.Tombstone{
			Run: id, Name: "demo", Seq: 2, Hash: Head(t, s, id).Hash.String(), Removal: why,
		})
	}
	Append(t, s, Start("unfinished", "me"))
	if got := Tombstones(t, s); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	if err := s.Remove(t.Context(), why, "a", "b"); err != nil {
		t.Fatal(err)
	}
	wantError(t, s.Remove(t.Context(), why, "unfinished"), journal.ErrUnfinished)
	wantError(t, s.Remove(t.Context(), why, "a"), journal.ErrUnknownRun)
	wantError(t, s.Remove(t.Context(), why, "c", "unfinished"), journal.ErrUnfinished)
	// A damaged run cannot be finished, and can be removed.
	damaged := why
	damaged.Damaged = true
	want = append(want, journal.Tombstone{
		Run: "unfinished", Name: "demo", Seq: 1, Hash: Head(t, s, "unfinished").Hash.String(), Removal: damaged,
	})
	if err := s.Remove(t.Context(), damaged, "unfinished"); err != nil {
		t.Fatal(err)
	}
	_, err := s.Entry(t.Context(), "unfinished")
	wantError(t, err, journal.ErrUnknownRun)
	if diff := cmp.Diff(want, Tombstones(t, s)); diff != "" {
		t.Error(diff)
	}
}
