package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/espalier-run/espalier/internal/cpython"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/step"
)

// NoteClock is the note of the time at which the clock of the code starts. It is
// written when the code reads the clock, so that the code reads the same time when it
// runs again.
const NoteClock = "clock"

type clockNote struct {
	Time time.Time `json:"time"`
}

// evaluate runs the code in the built-in interpreter.
func (h *host) evaluate(ctx context.Context) (json.RawMessage, error) {
	if err := cpython.Prepare(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, step.Errorf(ir.ClassMissing, "%v", err)
	}
	outer := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stdin, toCode := io.Pipe()
	fromCode, stdout := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := cpython.Run(ctx, cpython.Environment{
			Stdin: stdin, Stdout: stdout, Seed: fmt.Sprint(h.job.Run, "/", h.job.Key, "/", h.job.Attempt),
			Now: func() time.Time { return h.clock(outer, cancel) },
		})
		_ = stdout.Close()
		_ = stdin.Close()
		ended <- err
	}()
	t := h.newTimer(cancel)
	// The context ends the code, but not a write or read of a pipe.
	stop := context.AfterFunc(ctx, func() {
		_ = toCode.Close()
		_ = fromCode.Close()
	})
	defer stop()
	value, err := h.converse(ctx, toCode, fromCode, t)
	t.pause()
	failed := context.Cause(ctx)
	if err != nil {
		cancel(nil)
	}
	_ = toCode.Close()
	_ = fromCode.Close()
	exit := <-ended
	switch {
	case failed != nil:
		return nil, failed
	case !errors.Is(err, errEnded):
		return value, err
	case exit == nil:
		exit = err
	}
	return nil, h.failure(exit.Error(), 0, 0)
}

// clock returns the time at which the clock of the code starts.
func (h *host) clock(ctx context.Context, stop func(error)) time.Time {
	var noted clockNote
	for _, n := range h.job.History {
		if n.Kind == NoteClock && json.Unmarshal(n.Data, &noted) == nil {
			return noted.Time
		}
	}
	noted.Time = time.Now().UTC().Truncate(time.Millisecond)
	if err := h.job.Log.Note(ctx, step.Note{Kind: NoteClock, Data: noted}); err != nil {
		stop(err)
	}
	return noted.Time
}
