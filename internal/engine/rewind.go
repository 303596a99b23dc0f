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

// Standing is how things stood when a run last came to a step of its body.
func (e *Engine) Standing(ctx context.Context, id journal.RunID, step string) (plan.Standing, error) {
	state := &plan.State{Run: id}
	var was plan.Standing
	reached := false
	for event, err := range e.Store.Events(ctx, id, 0) {
		if err != nil {
			return was, err
		}
		if at, ok := state.Reaches(&event, step); ok {
			was, reached = at, true
		}
		state.Fold([]journal.Event{event})
	}
	if !reached {
		return was, fmt.Errorf("%w: %s", ErrNotReached, step)
	}
	return was, nil
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
	was, err := e.Standing(ctx, old, step)
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
	pin, err := e.pin(hash, func() (*pinned, error) { return def.pin, nil })
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
