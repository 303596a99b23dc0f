package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/espalier-run/espalier/internal/engine/enginetest"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/memorytest"
	"github.com/espalier-run/espalier/internal/step"
)

// A failed append cancels the tasks of its run. A task that takes its time to end
// must not overlap with its successor, however the run is continued.
func TestContinuingAfterAFailedAppendWaitsForTheOldTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &peers{}
		store := &outage{Store: memorytest.NewShared(all.dead), err: journal.ErrFull}
		defer store.Close()
		store.failing.Store(2)
		kind := enginetest.NewKind()
		var active, most, began atomic.Int32
		kind.Hold = func(ctx context.Context, job *step.Job) error {
			n := active.Add(1)
			defer active.Add(-1)
			if job.Step.ID == "slow" {
				most.Store(max(most.Load(), n))
				if began.Add(1) == 1 {
					<-ctx.Done()
					time.Sleep(time.Minute) // a command that ignores signals
					return ctx.Err()
				}
			}
			return nil
		}
		e := newEngine(store, all.join("me"), kind)
		defer enginetest.Stop(e)
		slow, quick := enginetest.Task("slow"), enginetest.Task("quick")
		p := enginetest.Program([]ir.Step{{ID: "both", Type: "parallel", Action: ir.Parallel{
			Join: ir.JoinAll, Branches: []ir.Branch{{Name: "slow", Block: 1}, {Name: "quick", Block: 2}},
		}}}, []ir.Step{slow}, []ir.Step{quick})
		enginetest.Begin(t, e, p)
		if _, err := e.Wait(t.Context(), enginetest.ID); !errors.Is(err, journal.ErrFull) {
			t.Fatalf("the append did not fail: %v", err)
		}
		if err := e.Resume(t.Context(), enginetest.ID); err != nil {
			t.Fatal(err)
		}
		entry, err := e.Wait(t.Context(), enginetest.ID)
		if err != nil || entry.Outcome != journal.OutcomeOK {
			t.Errorf("%+v, %v", entry, err)
		}
		if began.Load() != 2 || most.Load() != 1 {
			t.Errorf("the task began %d times, %d at once", began.Load(), most.Load())
		}
	})
}

// unreadable is a store in which the definition of some runs is missing.
type unreadable struct {
	journal.Store
	claims, attempts atomic.Int32
	hidden           string
}

func (u *unreadable) Blob(ctx context.Context, hash string) ([]byte, error) {
	if hash == u.hidden {
		u.attempts.Add(1)
		return nil, journal.ErrUnknownBlob
	}
	return u.Store.Blob(ctx, hash)
}

func (u *unreadable) ClaimNext(
	ctx context.Context, me journal.Owner, n int, skip func(journal.RunID) bool,
) ([]journal.RunID, error) {
	u.claims.Add(1)
	return u.Store.ClaimNext(ctx, me, n, skip)
}

// Runs that cannot be loaded neither keep a worker busy nor stand in the way of
// others.
func TestWorkDrivesRunsBehindThoseThatCannotBeLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &peers{}
		store := &unreadable{Store: memorytest.NewShared(all.dead)}
		defer store.Close()
		first := newEngine(store, all.join("first"), enginetest.NewKind())
		first.Hold()
		broken, whole := enginetest.Program([]ir.Step{enginetest.Task("a")}),
			enginetest.Program([]ir.Step{enginetest.Task("b")})
		const runs = 80
		for i := range runs {
			enginetest.BeginAs(t, first,
				journal.RunID(fmt.Sprintf("00000000-0000-4000-8000-0000000001%02d", i)), broken)
		}
		entry, err := store.Entry(t.Context(), "00000000-0000-4000-8000-000000000100")
		if err != nil {
			t.Fatal(err)
		}
		enginetest.Begin(t, first, whole)
		enginetest.Stop(first)
		store.hidden = entry.Definition
		e := newEngine(store, all.join("worker"), enginetest.NewKind())
		defer work(t, e)()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if entry, err := store.Entry(t.Context(), enginetest.ID); err != nil || entry.Status != journal.Finished {
			t.Errorf("the run behind them is %s, %v", entry.Status, err)
		}
		if n := store.attempts.Load(); n > runs {
			t.Errorf("%d runs were loaded %d times in 10 seconds", runs, n)
		}
		if n := store.claims.Load(); n > 15 {
			t.Errorf("the worker claimed %d times in 10 seconds", n)
		}
	})
}
