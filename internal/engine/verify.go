package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
)

// The parts of a journal that Verify checks.
const (
	PartAppends  = "appends"  // the chain of hashes over what was appended
	PartBlobs    = "blobs"    // the large values that the events name
	PartIndex    = "index"    // the row of the run in listings
	PartChildren = "children" // the rows of its child runs
	PartSnapshot = "snapshot" // the cached state that resuming starts from
)

// Parts are all parts that Verify checks, in its order.
var Parts = []string{PartAppends, PartBlobs, PartIndex, PartChildren, PartSnapshot}

// Damage is a part of a journal that is not what its events imply.
type Damage struct {
	Run     journal.RunID
	Part    string
	Message string
}

// Verified is the result of Verify.
type Verified struct {
	Head   journal.ChainHead
	Damage []Damage
}

// VerifySource is what Verify reads.
type VerifySource interface {
	journal.Reader
	journal.ChainReader
}

// Verify checks everything that a store has of a root run: it computes the chain
// of the appends, folds the events, and compares the rest with the result. An
// error means that Verify could not read the store.
func Verify(ctx context.Context, s VerifySource, run journal.RunID) (Verified, error) {
	for {
		out, at, err := verify(ctx, s, run)
		if err != nil || len(out.Damage) == 0 {
			return out, err
		}
		// Rows that were read before and after an append of another process differ.
		if entry, err := s.Entry(ctx, run); err != nil || entry.Seq == at {
			return out, err
		}
	}
}

// verify makes one attempt. It also returns the last event that the index named at its beginning.
func verify(ctx context.Context, s VerifySource, run journal.RunID) (Verified, journal.Seq, error) {
	v := &verifier{s: s, run: run, blobs: map[string]bool{}}
	entry, err := s.Entry(ctx, run)
	if err != nil {
		return v.out, 0, err
	}
	if v.snapshotSeq, v.snapshot, err = s.Snapshot(ctx, run); err != nil {
		return v.out, entry.Seq, err
	}
	v.out.Head, err = journal.VerifyChain(ctx, s, run, func(l journal.Link, _ journal.ChainHash) {
		if l.Seq == v.snapshotSeq {
			v.hashed = len(l.Hash) > 0
		}
	})
	if err == nil {
		err = v.events(ctx, &entry)
	}
	if errors.Is(err, journal.ErrCorrupt) {
		v.damage(run, PartAppends, "%v", err)
		err = nil
	}
	return v.out, entry.Seq, err
}

// verifier checks one run. It collects damage and stops only where the events cannot be read or folded.
type verifier struct {
	s     VerifySource
	run   journal.RunID
	out   Verified
	blobs map[string]bool // blobs that were checked lately
	// The snapshot, and whether the append that it follows has a stored hash.
	snapshotSeq journal.Seq
	snapshot    []byte
	hashed      bool
}

// maxBlobs bounds the blobs that are remembered as checked.
const maxBlobs = 4096

// damage adds a finding.
func (v *verifier) damage(run journal.RunID, part, format string, args ...any) {
	v.out.Damage = append(v.out.Damage, Damage{run, part, fmt.Sprintf(format, args...)})
}

// events folds the events up to the last one that the index names, and compares.
func (v *verifier) events(ctx context.Context, entry *journal.Entry) error {
	// Fold the events and collect what they imply: the rows of the run and its children, and the state at the snapshot.
	state := &plan.State{Run: v.run}
	open, children := Children{}, map[journal.RunID]journal.Entry{}
	want := journal.Entry{ID: v.run}
	var latest journal.Millis
	for e, err := range v.s.Events(ctx, v.run, 0) {
		if err != nil {
			return err
		}
		if e.Seq > entry.Seq { // appended since
			break
		}
		if e.Seq != state.Seq+1 {
			return fmt.Errorf("%w: run %s: event %d follows event %d", journal.ErrCorrupt, v.run, e.Seq, state.Seq)
		}
		if x, ok := e.Fact.(journal.RunStarted); ok && e.Run == "" {
			want.Name, want.Format, want.Definition, want.Started = x.Name, x.Format, x.Definition, e.At
		}
		if err := v.references(ctx, &e); err != nil {
			return err
		}
		if err := fold(state, &e); err != nil {
			return err
		}
		for _, child := range open.Update(state, []journal.Event{e}) {
			children[child.ID] = child
		}
		if e.Seq == v.snapshotSeq {
			v.compareSnapshot(state)
		}
		want.Seq, want.Updated, latest = e.Seq, e.At, max(latest, e.At)
	}
	if want.Seq < entry.Seq {
		return fmt.Errorf("%w: run %s: events %d to %d are missing", journal.ErrCorrupt, v.run, want.Seq+1, entry.Seq)
	}
	if want.Seq < v.snapshotSeq && entry.Seq >= v.snapshotSeq {
		v.damage(v.run, PartSnapshot, "the snapshot is of event %d, which does not exist", v.snapshotSeq)
	}
	if entry.Updated > want.Updated && entry.Updated <= latest { // the clock was set back
		want.Updated = entry.Updated
	}
	want.Index = state.Summary()
	v.compare(PartIndex, *entry, want)
	return v.children(ctx, children)
}

// fold applies an event. An event that cannot follow the others makes a fold panic.
func fold(state *plan.State, e *journal.Event) (err error) {
	defer func() {
		if recover() != nil {
			err = fmt.Errorf("%w: run %s: event %d does not follow from those before it",
				journal.ErrCorrupt, state.Run, e.Seq)
		}
	}()
	state.Fold([]journal.Event{*e})
	return nil
}

// compare compares a row of the index with what the events imply. The owner of a
// run does not depend on them.
func (v *verifier) compare(part string, have, want journal.Entry) {
	for _, f := range []struct {
		name       string
		have, want any
	}{
		{"root", have.Root, want.Root},
		{"parent", have.Parent, want.Parent},
		{"name", have.Name, want.Name},
		{"format", have.Format, want.Format},
		{"definition", have.Definition, want.Definition},
		{"started", have.Started, want.Started},
		{"updated", have.Updated, want.Updated},
		{"status", have.Status, want.Status},
		{"outcome", have.Outcome, want.Outcome},
		{"wake", have.Wake, want.Wake},
		{"waiting", have.Waiting.String(), want.Waiting.String()},
	} {
		if f.have != f.want {
			v.damage(have.ID, part, "%s is %q in the list of runs, but the events imply %q",
				f.name, fmt.Sprint(f.have), fmt.Sprint(f.want))
		}
	}
}

// children compares the rows of child runs with those that the events imply.
func (v *verifier) children(ctx context.Context, want map[journal.RunID]journal.Entry) error {
	for have, err := range v.s.Runs(ctx, journal.Filter{Root: v.run, Children: true}) {
		if err != nil {
			return err
		}
		child, ok := want[have.ID]
		if !ok {
			v.damage(v.run, PartChildren, "the list of runs has a child %s, which the events do not have", have.ID)
			continue
		}
		v.compare(PartChildren, have, child)
		delete(want, have.ID)
	}
	for id := range want {
		v.damage(v.run, PartChildren, "the child %s is missing in the list of runs", id)
	}
	return nil
}

// references checks that the blobs of an event exist and have their hashes.
func (v *verifier) references(ctx context.Context, e *journal.Event) error {
	for hash := range journal.References(e.Fact) {
		if v.blobs[hash] {
			continue
		}
		if len(v.blobs) >= maxBlobs {
			clear(v.blobs)
		}
		v.blobs[hash] = true
		switch _, err := v.s.Blob(ctx, hash); {
		case errors.Is(err, journal.ErrUnknownBlob):
			v.damage(v.run, PartBlobs, "event %d names the value %s, which is missing", e.Seq, hash)
		case errors.Is(err, journal.ErrCorrupt):
			v.damage(v.run, PartBlobs, "event %d names the value %s, whose content was changed", e.Seq, hash)
		case err != nil:
			return err
		}
	}
	return nil
}

// compareSnapshot compares the snapshot with the state at its event. A release that
// stored no hashes may have had another form of snapshots.
func (v *verifier) compareSnapshot(state *plan.State) {
	if !v.hashed {
		return
	}
	restored, err := plan.Restore(v.snapshot)
	if err == nil && restored.Form < plan.SnapshotForm {
		return // resuming ignores it
	}
	if err != nil || !bytes.Equal(restored.Snapshot(), state.Snapshot()) {
		v.damage(v.run, PartSnapshot,
			"the snapshot of event %d is not the state that the events imply; resuming starts from it", state.Seq)
	}
}
