package embedded_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/engine/enginetest"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/memorytest"
	"github.com/espalier-run/espalier/internal/step"
)

// A process that ends lets a call in progress finish, because its reply is paid for. Its task makes no further call,
// and runs again later.
func TestCallsFinishWhenTheProcessEnds(t *testing.T) {
	store := memorytest.New()
	defer store.Close()
	kind := enginetest.NewKind()
	kind.Policy = step.Rerun
	started := make(chan struct{})
	kind.Hold = func(ctx context.Context, job *step.Job) error {
		end, err := job.BeginCall()
		if err != nil {
			return err
		}
		close(started)
		for err == nil && ctx.Err() == nil { // until further calls are refused
			time.Sleep(time.Millisecond)
			var next func()
			if next, err = job.BeginCall(); err == nil {
				next()
			}
		}
		if !errors.Is(err, step.ErrNoCall) || ctx.Err() != nil {
			t.Errorf("the call was cut off: %v, %v", err, context.Cause(ctx))
		}
		end()
		<-ctx.Done()
		return context.Cause(ctx)
	}
	e := open(t, store, kind, "first")
	enginetest.Begin(t, e, enginetest.Program([]ir.Step{enginetest.Task("a"), enginetest.Task("b")}))
	<-started
	e.Close(nil)
	kind.Hold = nil
	e = open(t, store, kind, "second")
	if err := e.Resume(t.Context(), enginetest.ID); err != nil {
		t.Fatal(err)
	}
	if entry := enginetest.Rest(t, e); entry.Outcome != journal.OutcomeOK || kind.Done["a#0"] != 1 {
		t.Errorf("%+v, %v", entry, kind.Done)
	}
}
