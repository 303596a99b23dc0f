package temporal

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/xslices"
)

// facts are decisions of a run on their way to the journal.
type facts struct {
	Run journal.RunID `json:"run"`
	// Execution is the workflow execution that has decided them, and Fence is from its claim; empty and 0 in histories
	// of earlier builds.
	Execution string `json:"execution,omitempty"`
	Fence     int64  `json:"fence,omitempty"`
	// After is the last event before these.
	After journal.Seq `json:"after"`
	// Lines are the events as the journal encodes them.
	Lines    string          `json:"lines"`
	Index    journal.Index   `json:"index"` // after the last event
	Children []journal.Entry `json:"children,omitempty"`
	Snapshot string          `json:"snapshot,omitempty"`
	// Blobs are values that the journal keeps for the workflow.
	Blobs []string `json:"blobs,omitempty"`
}

// DivergedError means that the workflow has decided something else than the
// journal has.
type DivergedError struct {
	Run journal.RunID
	Seq journal.Seq
}

func (e *DivergedError) Error() string {
	return fmt.Sprintf("run %s: event %d in the journal differs from the one that the workflow has decided",
		e.Run, e.Seq)
}

// appendFacts appends what the journal does not have yet, and reports what it has
// appended. Several workers may do that at the same time: all append the same bytes.
func appendFacts(ctx context.Context, store Store, f *facts, appended func(*journal.Batch)) error {
	events, err := journal.Decode([]byte(f.Lines))
	if err != nil {
		return err
	}
	blobs := xslices.Map(f.Blobs, func(text string) journal.Blob { return newBlob([]byte(text)) })
	fence, last := cmp.Or(f.Fence, journal.FirstFence), f.After+journal.Seq(len(events))
	// Compare what the journal has with the facts, append the rest, and look again if another worker was faster.
	for {
		known, err := compareFacts(ctx, store, f)
		if err != nil {
			if current := checkFence(ctx, store, f.Run, fence, last); errors.Is(current, errSuperseded) {
				return current
			}
			return err
		}
		rest := events[known:]
		// The journal has all facts, perhaps because a later workflow drives the run: check that this one may go on.
		if len(rest) == 0 {
			return checkFence(ctx, store, f.Run, fence, last, blobs...)
		}
		batch := journal.Batch{
			Run: f.Run, Fence: fence, After: rest[0].Seq - 1, Events: rest, Index: &f.Index,
			Children: f.Children, Blobs: blobs, Release: f.Index.Status == journal.Finished,
		}
		if f.Snapshot != "" {
			batch.Snapshot = []byte(f.Snapshot)
		}
		err = journal.Append(ctx, store, batch)
		if err == nil {
			appended(&batch)
		}
		if !errors.Is(err, journal.ErrConflict) {
			return err
		}
		entry, err := store.Entry(ctx, f.Run)
		if err != nil {
			return err
		}
		if entry.Seq == batch.After {
			return errSuperseded // the fence is an old one
		}
		if entry.Seq < batch.After { // it was not another worker that appended the same events
			return fmt.Errorf("%w: run %s ends at event %d, not %d", journal.ErrConflict, f.Run, entry.Seq, batch.After)
		}
	}
}

// checkFence returns errSuperseded if a fence is not that of the run's claim. A run that has finished is released: then
// last must be its last event. It stores blobs, if there are any.
func checkFence(
	ctx context.Context, store Store, run journal.RunID, fence int64, last journal.Seq, blobs ...journal.Blob,
) error {
	for {
		entry, err := store.Entry(ctx, run)
		if err != nil {
			return err
		}
		if entry.Status == journal.Finished {
			if entry.Seq != last {
				return errSuperseded
			}
			return nil
		}
		// An append without events changes nothing and is refused if the fence is an old one. It is refused, too, if
		// another append came first; then the entry has changed.
		err = journal.Append(ctx, store, journal.Batch{Run: run, Fence: fence, After: entry.Seq, Blobs: blobs})
		if !errors.Is(err, journal.ErrConflict) {
			return err
		}
		now, err := store.Entry(ctx, run)
		if err != nil {
			return err
		}
		if now.Seq == entry.Seq && now.Status == entry.Status {
			return errSuperseded
		}
	}
}

// compareFacts returns how many of the events the journal has. They must be equal.
func compareFacts(ctx context.Context, store journal.EventReader, f *facts) (known int, err error) {
	lines := bytes.SplitAfter([]byte(f.Lines), []byte("\n"))
	for event, err := range store.Events(ctx, f.Run, f.After) {
		if err != nil {
			return known, err
		}
		// SplitAfter leaves an empty line at the end.
		if len(lines[known]) == 0 {
			return known, nil // later events
		}
		line, err := journal.Encode(nil, []journal.Event{event})
		if err != nil {
			return known, err
		}
		if !bytes.Equal(line, lines[known]) {
			return known, &DivergedError{Run: f.Run, Seq: event.Seq}
		}
		known++
	}
	return known, nil
}
