package embedded_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/espalier-run/espalier/internal/engine/embedded"
	"github.com/espalier-run/espalier/internal/engine/enginetest"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/memorytest"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/step"
)

// cancelElsewhere cancels the run from another process, which wakes no process.
func cancelElsewhere(t *testing.T, all *rivals) {
	t.Helper()
	other := newEngine(all.store, all.peers.join("canceller"), all.kind)
	defer enginetest.Stop(other)
	other.Hold()
	if err := other.Send(t.Context(), enginetest.ID, plan.Cancel{}, "cancel"); err != nil {
		t.Error(err)
	}
}

// A process waits for a run, and the run ends in another process. The waiting process receives no wake-up. The wait
// must end all the same, in each of the situations in which a process can wait.
func TestWaitEndsWithoutAWakeUp(t *testing.T) {
	// Each situation returns the engine that waits, after it has brought the run into the situation, and a function
	// that finishes the run.
	situations := map[string]func(t *testing.T, all *rivals) (e *embedded.Engine, finish func()){
		// The waiting process drives the run. Another process declares it dead, claims the run and cancels it.
		"in memory": func(t *testing.T, all *rivals) (*embedded.Engine, func()) {
			all.kind.Hold = func(ctx context.Context, _ *step.Job) error {
				<-ctx.Done()
				return ctx.Err()
			}
			process := all.peers.join("waiter")
			e := newEngine(all.store, process, all.kind)
			enginetest.Begin(t, e, enginetest.Program([]ir.Step{enginetest.Task("a")}))
			return e, func() {
				process.die()
				cancelElsewhere(t, all)
			}
		},
		// The run sleeps for an hour, and the timer belongs to the waiting process.
		"sleeping": func(t *testing.T, all *rivals) (*embedded.Engine, func()) {
			all.kind.Hold = func(context.Context, *step.Job) error {
				return &step.PostponedError{After: time.Hour, Why: "rate limit"}
			}
			e := newEngine(all.store, all.peers.join("waiter"), all.kind)
			enginetest.Begin(t, e, enginetest.Program([]ir.Step{enginetest.Task("a")}))
			return e, func() { cancelElsewhere(t, all) }
		},
		// Another process owns the run and has stopped driving. It finishes the run before it ends.
		"elsewhere": func(t *testing.T, all *rivals) (*embedded.Engine, func()) {
			process := all.peers.join("owner")
			owner := newEngine(all.store, process, all.kind)
			end := make(chan struct{})
			all.kind.Hold = func(context.Context, *step.Job) error {
				<-end
				return nil
			}
			enginetest.Begin(t, owner, enginetest.Program([]ir.Step{enginetest.Task("a")}))
			process.StopDriving()
			t.Cleanup(func() { enginetest.Stop(owner) })
			return newEngine(all.store, all.peers.join("waiter"), all.kind), func() { close(end) }
		},
	}
	for name, situation := range situations {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := newRivals(t)
				defer all.store.Close()
				e, finish := situation(t, all)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var entry journal.Entry
				var err error
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					entry, err = e.Wait(ctx, enginetest.ID)
				}()
				time.Sleep(5*time.Second + time.Millisecond) // on the fake clock, between two polls
				select {
				case <-ended:
					t.Errorf("the wait ends before the run: %+v, %v", entry, err)
				default:
				}
				finish()
				select {
				case <-ended:
					if err != nil || entry.Status != journal.Finished {
						t.Errorf("the wait ends with %+v, %v", entry, err)
					}
				case <-time.After(time.Minute):
					t.Error("the process waits for a run that is over")
				}
				cancel()
				<-ended
				enginetest.Stop(e)
			})
		})
	}
}

// counted is a store that counts how often runs are looked up.
type counted struct {
	journal.Store
	looks atomic.Int32
}

func (c *counted) Entry(ctx context.Context, id journal.RunID) (journal.Entry, error) {
	c.looks.Add(1)
	return c.Store.Entry(ctx, id)
}

// A wait for a run that makes progress in the same process reads the store when the run is over, and not again and
// again until then: a thousand waits on one database would slow down the runs that they wait for.
func TestWaitForAMovingRunReadsTheStoreOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &peers{}
		store := &counted{Store: memorytest.NewShared(all.dead)}
		defer store.Close()
		kind := enginetest.NewKind()
		kind.Hold = func(context.Context, *step.Job) error {
			time.Sleep(300 * time.Millisecond)
			return nil
		}
		e := newEngine(store, all.join("worker"), kind)
		defer enginetest.Stop(e)
		var steps []ir.Step
		for i := range 100 {
			steps = append(steps, enginetest.Task(fmt.Sprintf("s%d", i)))
		}
		enginetest.Begin(t, e, enginetest.Program(steps))
		before := store.looks.Load()
		if entry, err := e.Wait(t.Context(), enginetest.ID); err != nil || entry.Status != journal.Finished {
			t.Fatalf("the wait ends with %+v, %v", entry, err)
		}
		if n := store.looks.Load() - before; n != 1 {
			t.Errorf("the wait read the store %d times", n)
		}
	})
}
