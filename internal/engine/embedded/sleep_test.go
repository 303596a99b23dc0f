package embedded_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/espalier-run/espalier/internal/engine/embedded"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/memory"
	"github.com/espalier-run/espalier/internal/step"
)

// A task that has to wait sleeps without a process, wakes in another one, and
// goes on from its notes in the same attempt.
func TestSleepingTaskContinuesFromItsNotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		defer store.Close()
		all := &peers{}
		kind := &noting{testKind: newKind(), seen: make(chan string, 2)}
		kind.hold = func(_ context.Context, job *step.Job) error {
			if len(job.History) > 0 {
				return nil
			}
			return &step.Later{After: time.Hour, Why: "rate limit"}
		}
		open := func(name journal.Owner) *embedded.Engine {
			return newEngine(store, all.join(name), kind)
		}
		first := open("first")
		begin(t, first, program([]ir.Step{task("a")}))
		synctest.Wait()
		stop(first)
		entry, err := store.Entry(t.Context(), id)
		if err != nil || entry.Status != journal.Sleeping || entry.Waiting != "retry: a" || entry.Wake.Time().Before(time.Now().Add(59*time.Minute)) {
			t.Fatalf("%+v, %v", entry, err)
		}
		second := open("second")
		ctx, cancel := context.WithCancel(t.Context())
		go second.Work(ctx, nil)
		time.Sleep(61 * time.Minute)
		synctest.Wait()
		if entry, err := store.Entry(t.Context(), id); err != nil || entry.Outcome != "ok" {
			t.Errorf("%+v, %v", entry, err)
		}
		cancel()
		stop(second)
		if before, after := <-kind.seen, <-kind.seen; before != "" || after != "1:begun0 " {
			t.Errorf("the notes were %q, then %q", before, after)
		}
	})
}
