//go:build temporal

package temporal_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-run/espalier/internal/engine/enginetest"
	"github.com/espalier-run/espalier/internal/engine/temporal"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/step"
)

// The tasks of a workflow that needs labels wait for a worker that has them. Workers without the labels decline at most
// the first task of a run.
func TestTasksGoToWorkersWithTheirLabels(t *testing.T) {
	p := enginetest.Program([]ir.Step{enginetest.Task("a"), enginetest.Task("b"), enginetest.Task("c")})
	p.Name = "train"
	w := newWorld(t, func(c *temporal.Config) { c.Needs = map[string][]string{"train": {"fast", "gpu"}} })
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	plain := enginetest.NewKind()
	for _, labels := range [][]string{nil, {"gpu"}, {"big", "fast"}} {
		w.config.Labels = labels
		go w.open(map[string]step.Runner{"test": plain}).Work(ctx, nil)
	}
	w.config.Labels = nil
	starter := w.open(map[string]step.Runner{"test": plain})
	id := start(t, starter, p)
	count := func() (scheduled, moved int) {
		for _, h := range histories(t, starter, id) {
			for _, event := range h.GetEvents() {
				task := event.GetActivityTaskScheduledEventAttributes()
				if task.GetActivityType().GetName() != "espalier.task" {
					continue
				}
				scheduled++
				if task.GetTaskQueue().GetName() == w.config.TaskQueue+"-labels-fast,gpu" {
					moved++
				}
			}
		}
		return scheduled, moved
	}
	finished := func() bool {
		entry, err := w.store.Entry(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		return entry.Status == journal.Finished
	}
	for moved := 0; moved == 0; _, moved = count() { // the first task has been declined
		if finished() {
			t.Fatalf("workers without the labels did %v", plain.Done)
		}
	}
	able := enginetest.NewKind()
	w.config.Labels = []string{"big", "fast", "gpu"}
	go w.open(map[string]step.Runner{"test": able}).Work(ctx, nil)
	for {
		changed := w.store.Changed()
		if finished() {
			break
		}
		<-changed
	}
	if d := cmp.Diff(map[string]int{"a#0": 1, "b#0": 1, "c#0": 1}, able.Done); d != "" || len(plain.Done) > 0 {
		t.Errorf("%s, and the others did %v", d, plain.Done)
	}
	if scheduled, moved := count(); scheduled != 4 || moved != 3 {
		t.Errorf("%d tasks were scheduled, %d for workers with the labels", scheduled, moved)
	}
}
