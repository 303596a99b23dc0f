package embedded_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/espalier-run/espalier/internal/engine/embedded"
	"github.com/espalier-run/espalier/internal/engine/enginetest"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/memorytest"
	"github.com/espalier-run/espalier/internal/step"
)

// outage is a store that fails for one append.
type outage struct {
	journal.Store
	err              error
	appends, failing atomic.Int32
}

func (o *outage) Append(b journal.Batch, done func(error)) {
	if o.appends.Add(1) == o.failing.Load() {
		go done(o.err)
		return
	}
	o.Store.Append(b, done)
}

// work starts an engine that drives the whole store. The returned function ends it.
func work(t *testing.T, e *embedded.Engine) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := e.Work(ctx, nil); err != nil {
			t.Error(err)
		}
	}()
	return func() {
		cancel()
		<-ended
		enginetest.Stop(e)
	}
}

// An append that fails drops the run from memory, but this process still owns it
// in the store: no other process may claim it.
func TestWorkTakesBackItsOwnRunAfterAnOutage(t *testing.T) {
	for _, failure := range []error{journal.ErrUnavailable, journal.ErrFull} {
		synctest.Test(t, func(t *testing.T) {
			all := &peers{}
			store := &outage{Store: memorytest.NewShared(all.dead), err: failure}
			defer store.Close()
			store.failing.Store(2)
			e := newEngine(store, all.join("worker"), enginetest.NewKind())
			defer work(t, e)()
			enginetest.Begin(t, e, enginetest.Program([]ir.Step{enginetest.Task("a"), enginetest.Task("b")}))
			time.Sleep(3 * time.Second)
			synctest.Wait()
			if entry, err := store.Entry(t.Context(), enginetest.ID); err != nil || entry.Status != journal.Finished {
				t.Errorf("%v: the run is %s, owned by %q, %v", failure, entry.Status, entry.Owner, err)
			}
		})
	}
}

// The first start after this process was declared dead succeeds: nothing of it was stored under the old name.
func TestStartIsRepeatedAfterTheProcessIsFenced(t *testing.T) {
	all := &peers{}
	store := &outage{Store: memorytest.NewShared(all.dead), err: journal.ErrFenced}
	defer store.Close()
	store.failing.Store(1)
	e := newEngine(store, all.join("worker"), enginetest.NewKind())
	defer enginetest.Stop(e)
	enginetest.Begin(t, e, enginetest.Program([]ir.Step{enginetest.Task("a")}))
	if end, err := enginetest.Finish(t, e); err != nil || end.Outcome != journal.OutcomeOK {
		t.Errorf("%+v, %v", end, err)
	}
}

// renamed is a process that others have declared dead.
type renamed struct {
	*peer
	name atomic.Value
}

func (r *renamed) ID() journal.Owner { return r.name.Load().(journal.Owner) }

// A process that has lost its runs cancels their tasks at once: the next owner
// may already run them.
func TestTasksEndWhenTheProcessIsFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &peers{}
		store := memorytest.NewShared(all.dead)
		defer store.Close()
		kind := enginetest.NewKind()
		var began, canceled atomic.Int32
		kind.Hold = func(ctx context.Context, _ *step.Job) error {
			if began.Add(1) > 1 {
				return nil
			}
			<-ctx.Done()
			canceled.Add(1)
			return ctx.Err()
		}
		process := &renamed{peer: all.join("old")}
		process.name.Store(journal.Owner("old"))
		e := newEngine(store, process, kind)
		defer work(t, e)()
		synctest.Wait()
		enginetest.Begin(t, e, enginetest.Program([]ir.Step{enginetest.Task("a")}))
		synctest.Wait()
		if began.Load() != 1 {
			t.Fatalf("%d tasks began", began.Load())
		}
		all.join("new")
		process.name.Store(journal.Owner("new"))
		process.die() // as "old"
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if canceled.Load() != 1 {
			t.Error("the task goes on")
		}
		if entry, err := store.Entry(t.Context(), enginetest.ID); err != nil || entry.Status != journal.Finished {
			t.Errorf("the run is %s, owned by %q, %v", entry.Status, entry.Owner, err)
		}
	})
}
