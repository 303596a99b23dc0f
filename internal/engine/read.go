package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
)

// Load implements Inspector. The state is a copy: changing it has no effect.
func (c *Core) Load(ctx context.Context, id journal.RunID) (*plan.State, *plan.Program, *Definition, error) {
	entry, err := c.reader.Entry(ctx, id)
	if err != nil {
		return nil, nil, nil, err
	}
	compiled, err := c.Compiled(ctx, entry.Definition)
	if err != nil {
		return nil, nil, nil, err
	}
	state, err := c.Fold(ctx, id)
	if err != nil {
		return nil, nil, nil, err
	}
	return state, c.Program(compiled), compiled.Definition, nil
}

// Fold rebuilds the state of a run from its newest snapshot, if it has one, and
// the events after that.
func (c *Core) Fold(ctx context.Context, id journal.RunID) (*plan.State, error) {
	state := &plan.State{Run: id}
	seq, snapshot, err := c.reader.Snapshot(ctx, id)
	if err != nil {
		return nil, err
	}
	if seq > 0 {
		state, err = plan.Restore(snapshot)
		if err != nil || state.Seq != seq {
			// A snapshot is only a cache.
			c.Log.Warn("snapshot ignored", "run_id", id, "error", err)
		}
		// Start from the first event. Snapshots of other releases may lack fields and are ignored without a warning.
		if err != nil || state.Seq != seq || state.Form != plan.SnapshotForm {
			state, seq = &plan.State{Run: id}, 0
		}
	}
	for event, err := range c.reader.Events(ctx, id, seq) {
		if err != nil {
			return nil, err
		}
		// A gap would make the fold panic or, worse, continue with a wrong state.
		if event.Seq != state.Seq+1 {
			return nil, fmt.Errorf(
				"%w: run %s: event %d follows event %d", journal.ErrCorrupt, id, event.Seq, state.Seq,
			)
		}
		state.Fold([]journal.Event{event})
	}
	return state, nil
}

// Ending implements Inspector. It does not fold the run: the end is among the
// last events.
func (c *Core) Ending(ctx context.Context, entry journal.Entry) (*journal.RunFinished, error) {
	for event, err := range c.reader.Events(ctx, entry.ID, entry.Seq-1) {
		if err != nil {
			return nil, err
		}
		if end, ok := event.Fact.(journal.RunFinished); ok {
			return &end, nil
		}
	}
	state, err := c.Fold(ctx, entry.ID)
	if err == nil && state.Finished == nil {
		err = fmt.Errorf("run %s has not finished", entry.ID)
	}
	if err != nil {
		return nil, err
	}
	return state.Finished, nil
}

// Raw implements Inspector.
func (c *Core) Raw(v journal.Value) (json.RawMessage, error) {
	return (&plan.Program{Blobs: c.blob}).Raw(v)
}

// blob reads a large value.
func (c *Core) blob(hash string) (json.RawMessage, error) {
	return c.reader.Blob(context.Background(), hash)
}

// Definition implements Inspector.
func (c *Core) Definition(ctx context.Context, hash string) (*Definition, error) {
	compiled, err := c.Compiled(ctx, hash)
	if err != nil {
		return nil, err
	}
	return compiled.Definition, nil
}

// Checkpoint implements Inspector.
func (c *Core) Checkpoint(ctx context.Context, id journal.RunID, step string) (plan.Checkpoint, error) {
	was, _, err := c.checkpoint(ctx, id, step, "")
	return was, err
}

// checkpoint returns the values that a run had when it last reached a step. If
// before is not empty, only what happened before the run last reached the step
// before counts. If the run has not reached the step, earlier is where to look
// next: the run that this one continues, or nil.
func (c *Core) checkpoint(
	ctx context.Context, id journal.RunID, step, before string,
) (was plan.Checkpoint, earlier *journal.Origin, err error) {
	state := &plan.State{Run: id}
	var latest plan.Checkpoint
	reached, found, came := false, false, before == ""
	for event, err := range c.reader.Events(ctx, id, 0) {
		if err != nil {
			return was, nil, err
		}
		if started, ok := event.Fact.(journal.RunStarted); ok {
			earlier = started.From
		}
		if at, ok := state.Reaches(&event, step); ok {
			latest, reached = at, true
		}
		if _, ok := state.Reaches(&event, before); ok || before == "" {
			was, found, came = latest, reached, true
		}
		state.Fold([]journal.Event{event})
	}
	if found {
		return was, nil, nil
	}
	if earlier != nil && !came { // the step before, too, was reached by an earlier run
		earlier = &journal.Origin{Run: earlier.Run, Step: before}
	}
	return was, earlier, fmt.Errorf("%w: %s", ErrNotReached, step)
}

// inherited returns the values at a step that the run, or one of the runs that
// it continues, has reached.
func (c *Core) inherited(ctx context.Context, id journal.RunID, step string) (plan.Checkpoint, error) {
	was, earlier, never := c.checkpoint(ctx, id, step, "")
	err := never
	for earlier != nil && errors.Is(err, ErrNotReached) {
		was, earlier, err = c.checkpoint(ctx, earlier.Run, step, earlier.Step)
	}
	if never != nil && errors.Is(err, journal.ErrUnknownRun) {
		err = never // the run that it continues has been deleted
	}
	return was, err
}
