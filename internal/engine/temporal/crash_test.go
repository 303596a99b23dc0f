//go:build temporal

package temporal_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/engine/enginetest"
	"github.com/espalier-run/espalier/internal/engine/temporal"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/temporaltest"
)

// The server is killed while a task runs, between tasks and while the run waits;
// it has its database when it comes back.
func TestRunsSurviveTheServer(t *testing.T) {
	server, err := temporaltest.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Remove()
	w := newWorld(t, func(c *temporal.Config) { c.Address, c.Heartbeat = server.Address, 30*time.Second })
	kind := enginetest.NewKind()
	var once sync.Once
	kind.Hold = func(_ context.Context, job *step.Job) error {
		if job.Step.ID == "b" {
			once.Do(func() {
				server.Kill()
				if err := server.Restart(); err != nil {
					t.Error(err)
				}
			})
		}
		return nil
	}
	p := enginetest.Program([]ir.Step{
		enginetest.Task("a"), enginetest.Task("b"),
		{ID: "g", Type: "gate", Action: ir.Gate{Decider: ir.Person}},
		enginetest.Task("c"),
	})
	e := w.open(map[string]step.Runner{"test": kind})
	id := start(t, e, p)
	if entry := rest(t, e, id); entry.Waiting.String() != "approval: g" {
		t.Fatalf("%+v", entry)
	}
	server.Kill()
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	approve(t, e, id)
	if entry := rest(t, e, id); entry.Outcome != journal.OutcomeOK {
		t.Errorf("%+v", entry)
	}
	for _, key := range []string{"a#0", "b#0", "c#0"} {
		if kind.Done[key] != 1 {
			t.Errorf("%s was done %d times", key, kind.Done[key])
		}
	}
	verify(t, w.store, id)
	replay(t, e, histories(t, e, id))
}

// A process that dies between the first append and the start of the workflow
// leaves a run that the next worker starts.
func TestWorkerStartsRunsThatWereOnlyRecorded(t *testing.T) {
	w := newWorld(t)
	def := &engine.Definition{Program: enginetest.Program([]ir.Step{enginetest.Task("a")})}
	core := engine.NewCore(engine.Config{}, w.store)
	core.Launch = func(ctx context.Context, id journal.RunID, b *engine.RunStart) error {
		return journal.Append(ctx, w.store, journal.Batch{
			Run: id, Fence: journal.FirstFence, Owner: journal.Temporal, Blobs: b.Blobs,
			Events: []journal.Event{{Seq: 1, At: journal.MillisOf(time.Now()), Fact: b.Started}},
			Index:  &journal.Index{Status: journal.Running},
		})
	}
	id := journal.RunID(uuid.NewString())
	if err := core.Start(t.Context(), id, def, nil, nil, actor); err != nil {
		t.Fatal(err)
	}
	kind := enginetest.NewKind()
	e := w.open(map[string]step.Runner{"test": kind})
	ctx, stop := context.WithCancel(t.Context())
	working := make(chan error)
	go func() { working <- e.Work(ctx, nil) }()
	other := w.open(map[string]step.Runner{"test": kind})
	if entry := rest(t, other, id); entry.Outcome != journal.OutcomeOK {
		t.Errorf("%+v", entry)
	}
	stop()
	if err := <-working; err != nil {
		t.Error(err)
	}
	if kind.Done["a#0"] != 1 {
		t.Errorf("done: %v", kind.Done)
	}
}

// A worker that cannot run the tasks of a run leaves them to another one.
func TestSkippedTasksGoToAnotherWorker(t *testing.T) {
	w := newWorld(t)
	lacking, able := enginetest.NewKind(), enginetest.NewKind()
	first := w.open(map[string]step.Runner{"test": lacking})
	second := w.open(map[string]step.Runner{"test": able})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go first.Work(ctx, func(journal.RunID) bool { return true })
	go second.Work(ctx, nil)
	starter := w.open(map[string]step.Runner{"test": enginetest.NewKind()})
	starter.Hold()
	id := start(t, starter, enginetest.Program([]ir.Step{enginetest.Task("a"), enginetest.Task("b")}))
	for _, line := range facts(t, w.store, id) {
		if strings.Contains(line, "TaskEnded") {
			t.Error("a held engine has run a task")
		}
	}
	for {
		entry, err := w.store.Entry(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if entry.Status == journal.Finished {
			break
		}
		<-w.store.Changed()
	}
	if d := cmp.Diff(map[string]int{"a#0": 1, "b#0": 1}, able.Done); d != "" || len(lacking.Done) > 0 {
		t.Errorf("%s, and the other one did %v", d, lacking.Done)
	}
}

// A run that waits in the journal may have more to decide: Wait returns after that.
func TestWaitReturnsAfterPendingDecisions(t *testing.T) {
	w := newWorld(t)
	kinds := map[string]step.Runner{"test": enginetest.NewKind()}
	first := w.open(kinds)
	id := start(t, first, gated())
	if entry := rest(t, first, id); entry.Waiting.String() != "approval: g" {
		t.Fatalf("%+v", entry)
	}
	enginetest.Stop(first)
	e := w.open(kinds)
	c, err := e.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// The workflow ignores the signal, but has to look at it. No worker is there yet.
	if err := c.SignalWorkflow(t.Context(), e.WorkflowID(id), "", "test", nil); err != nil {
		t.Fatal(err)
	}
	if entry := rest(t, e, id); entry.Waiting.String() != "approval: g" {
		t.Errorf("%+v", entry)
	}
	found, err := c.DescribeWorkflowExecution(t.Context(), e.WorkflowID(id), "")
	if err != nil || found.GetPendingWorkflowTask() != nil {
		t.Errorf("%v: %v", err, found.GetPendingWorkflowTask())
	}
}

func approve(t *testing.T, e engine.Engine, id journal.RunID) {
	t.Helper()
	state, p, _, err := e.Load(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	gate := state.OpenGates()[0]
	_, digest := state.Shown(p, gate)
	if err := e.Send(t.Context(), id,
		plan.GateDecision{Step: gate.Step, Answer: journal.AnswerApprove, Digest: digest}, "ref"); err != nil {
		t.Fatal(err)
	}
}
