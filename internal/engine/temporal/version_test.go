//go:build temporal

package temporal_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-run/espalier/internal/engine/enginetest"
	"github.com/espalier-run/espalier/internal/engine/temporal"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/step"
)

// works starts a worker of a version of the workflow's code. stop ends it, after
// its tasks.
func (w *world) works(version int, kind step.Runner) (e *temporal.Engine, stop func()) {
	w.t.Helper()
	w.config.Version = version
	e = w.open(map[string]step.Runner{"test": kind})
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Work(ctx, nil) }()
	return e, func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
		e.Drain()
	}
}

// queues returns the task queues of the workflows of a run, the oldest first.
func queues(t *testing.T, e *temporal.Engine, id journal.RunID) (out []string) {
	t.Helper()
	for _, h := range histories(t, e, id) {
		queue := h.Events[0].GetWorkflowExecutionStartedEventAttributes().GetTaskQueue().GetName()
		out = append([]string{queue}, out...)
	}
	return out
}

// Workers of two versions work at the same time: a run stays with the version that
// it started with while a task runs, and a later version continues it from a
// snapshot. Nothing is done twice, and the facts are those of one version.
func TestLaterVersionsTakeRunsOver(t *testing.T) {
	w := newWorld(t)
	first, second := enginetest.NewKind(), enginetest.NewKind()
	started, end := make(chan struct{}), make(chan struct{})
	first.Hold = func(context.Context, *step.Job) error {
		close(started)
		<-end
		return nil
	}
	old, stop := w.works(1, first)
	p := gated()
	id := start(t, old, p)
	<-started
	later, stopLater := w.works(2, second)
	defer stopLater()
	if err := later.TakeOver(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if got := queues(t, old, id); len(got) != 1 {
		t.Errorf("the run has moved while a task runs: %v", got)
	}
	close(end)
	if entry := rest(t, later, id); entry.Waiting.String() != "approval: g" {
		t.Fatalf("%+v", entry)
	}
	for len(queues(t, later, id)) < 2 {
		time.Sleep(20 * time.Millisecond)
	}
	stop()
	approve(t, later, id)
	if entry := rest(t, later, id); entry.Outcome != journal.OutcomeOK {
		t.Fatalf("%+v", entry)
	}
	if d := cmp.Diff([]string{w.config.TaskQueue, w.config.TaskQueue + "-v2"}, queues(t, later, id)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[string]int{"a#0": 1}, first.Done); d != "" {
		t.Error("first version: " + d)
	}
	if d := cmp.Diff(map[string]int{"b#0": 1}, second.Done); d != "" {
		t.Error("second version: " + d)
	}
	verify(t, w.store, id)
	all := histories(t, later, id)
	replay(t, later, all[:1])
	replay(t, old, all[1:])
}

// Runs that wait are found and taken over without a message for them.
func TestLaterVersionsFindWaitingRuns(t *testing.T) {
	w := newWorld(t)
	old, stop := w.works(1, enginetest.NewKind())
	var ids []journal.RunID
	for range 3 {
		ids = append(ids, start(t, old, gated()))
	}
	for _, id := range ids {
		rest(t, old, id)
	}
	later, stopLater := w.works(2, enginetest.NewKind())
	defer stopLater()
	for _, id := range ids {
		for {
			// Temporal lists new workflows a little later.
			if err := later.TakeOverFrom(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			if len(queues(t, later, id)) == 2 {
				break
			}
		}
	}
	stop()
	for _, id := range ids {
		approve(t, later, id)
		if entry := rest(t, later, id); entry.Outcome != journal.OutcomeOK {
			t.Errorf("%+v", entry)
		}
	}
}

// A process does not wait for ever for workers of another version.
func TestOtherVersionsAreReported(t *testing.T) {
	w := newWorld(t)
	kind := enginetest.NewKind()
	old, stop := w.works(1, kind)
	id := start(t, old, gated())
	rest(t, old, id)
	stop()
	later, stopLater := w.works(2, kind)
	defer stopLater()
	var other *temporal.VersionError
	if err := later.Resume(t.Context(), id); !errors.As(err, &other) || other.Version != 1 {
		t.Errorf("%v", err)
	}
	newer := start(t, later, gated())
	rest(t, later, newer)
	again, stopAgain := w.works(1, kind)
	defer stopAgain()
	if err := again.Resume(t.Context(), newer); !errors.As(err, &other) || other.Version != 2 {
		t.Errorf("%v", err)
	}
}
