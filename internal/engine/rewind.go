package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
)

// ErrNotReached is when a run is to go back to a step that it has never come to.
var ErrNotReached = errors.New("the run has never come to that step")

// Checkpoint is how things stood when a run last came to a step of its body.
func (e *Engine) Checkpoint(ctx context.Context, id journal.RunID, step string) (plan.Checkpoint, error) {
	was, _, err := e.standing(ctx, id, step, "")
	return was, err
}

// standing looks at a run, or, with the name of another step, at what came
// before the run last reached that one. Earlier is where to look for what came
// before the run: nowhere unless it goes on from another one.
func (e *Engine) standing(ctx context.Context, id journal.RunID, step, before string) (was plan.Checkpoint, earlier *journal.Origin, err error) {
	state := &plan.State{Run: id}
	var latest plan.Checkpoint
	reached, found, came := false, false, before == ""
	for event, err := range e.Store.Events(ctx, id, 0) {
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
	if earlier != nil && !came { // that other step, too, came before this run
		earlier = &journal.Origin{Run: earlier.Run, Step: before}
	}
	return was, earlier, fmt.Errorf("%w: %s", ErrNotReached, step)
}

// inherited is how things stood at a step that a run has come to, or that came
// before it in the runs that it goes on from.
func (e *Engine) inherited(ctx context.Context, id journal.RunID, step string) (plan.Checkpoint, error) {
	was, earlier, never := e.standing(ctx, id, step, "")
	err := never
	for earlier != nil && errors.Is(err, ErrNotReached) {
		was, earlier, err = e.standing(ctx, earlier.Run, step, earlier.Step)
	}
	if never != nil && errors.Is(err, journal.ErrUnknownRun) {
		err = never // the run that it goes on from has been deleted
	}
	return was, err
}

// StartFrom begins a run that goes on from a step of one that is over, with the
// same definition and options and the values of that time. What is over stays
// as it is.
func (e *Engine) StartFrom(ctx context.Context, id, old journal.RunID, step string, by journal.Actor) error {
	_, program, def, err := e.Load(ctx, old)
	if err != nil {
		return err
	}
	if err := program.CheckReturn(step); err != nil {
		return err
	}
	was, err := e.inherited(ctx, old, step)
	if err != nil {
		return err
	}
	var started journal.RunStarted
	for event, err := range e.Store.Events(ctx, old, 0) {
		if err != nil {
			return err
		}
		started, _ = event.Fact.(journal.RunStarted)
		break
	}
	raw, hash, err := def.Encode()
	if err != nil {
		return err
	}
	pin, err := e.pin(hash, func() (*compiledDef, error) { return def.pin, nil })
	if err != nil {
		return err
	}
	started.Definition, started.Vars, started.By = hash, was.Vars, by
	started.Budget = plan.LimitsOf(def.Program)
	started.From = &journal.Origin{Run: old, Step: step}
	blobs := []journal.Blob{{Hash: hash, Data: raw}}
	values := []journal.Value{started.Input}
	for _, v := range was.Vars {
		values = append(values, v)
	}
	for _, v := range values {
		if v.Hash == "" || slices.ContainsFunc(blobs, func(b journal.Blob) bool { return b.Hash == v.Hash }) {
			continue
		}
		data, err := e.Store.Blob(ctx, v.Hash)
		if err != nil {
			return err
		}
		blobs = append(blobs, journal.Blob{Hash: v.Hash, Data: data})
	}
	return e.start(ctx, id, pin, started, blobs)
}
