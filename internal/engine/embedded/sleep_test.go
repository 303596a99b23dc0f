package embedded_test

import (
	"context"
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

// A task that waits sleeps without a process, wakes in another one, and continues
// from its notes in the same attempt.
func TestSleepingTaskContinuesFromItsNotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &peers{}
		store := memorytest.NewShared(all.dead)
		defer store.Close()
		kind := &noting{Kind: enginetest.NewKind(), seen: make(chan string, 2)}
		kind.hold = func(_ context.Context, job *step.Job) error {
			if len(job.History) > 0 {
				return nil
			}
			return &step.PostponedError{After: time.Hour, Why: "rate limit"}
		}
		open := func(name journal.Owner) *embedded.Engine {
			return newEngine(store, all.join(name), kind)
		}
		first := open("first")
		enginetest.Begin(t, first, enginetest.Program([]ir.Step{enginetest.Task("a")}))
		synctest.Wait()
		enginetest.Stop(first)
		entry, err := store.Entry(t.Context(), enginetest.ID)
		if err != nil || entry.Status != journal.Sleeping || entry.Waiting.String() != "retry: a" ||
			entry.Wake.Time().Before(time.Now().Add(59*time.Minute)) {
			t.Fatalf("%+v, %v", entry, err)
		}
		second := open("second")
		ctx, cancel := context.WithCancel(t.Context())
		go second.Work(ctx, nil)
		time.Sleep(61 * time.Minute)
		synctest.Wait()
		if entry, err := store.Entry(t.Context(), enginetest.ID); err != nil || entry.Outcome != "ok" {
			t.Errorf("%+v, %v", entry, err)
		}
		cancel()
		enginetest.Stop(second)
		if before, after := <-kind.seen, <-kind.seen; before != "" || after != "1:begun0 " {
			t.Errorf("the notes were %q, then %q", before, after)
		}
	})
}
