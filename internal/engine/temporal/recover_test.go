//go:build temporal

package temporal_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/engine/enginetest"
	"github.com/espalier-run/espalier/internal/engine/temporal"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/temporaltest"
)

// loses are the ways in which an operator makes Temporal lose the workflow of a run.
var loses = map[string]func(*testing.T, *temporal.Engine, journal.RunID){
	"deleted": func(t *testing.T, e *temporal.Engine, id journal.RunID) {
		t.Helper()
		remove(t, dial(t, e), e.WorkflowID(id))
	},
	"terminated": func(t *testing.T, e *temporal.Engine, id journal.RunID) {
		t.Helper()
		if err := dial(t, e).TerminateWorkflow(t.Context(), e.WorkflowID(id), "", "test"); err != nil {
			t.Fatal(err)
		}
	},
	"reset": func(t *testing.T, e *temporal.Engine, id journal.RunID) {
		t.Helper()
		last := int64(0)
		for _, event := range histories(t, e, id)[0].Events {
			if event.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
				last = event.GetEventId()
			}
		}
		if _, err := dial(t, e).ResetWorkflowExecution(t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
			Namespace:         client.DefaultNamespace,
			WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: e.WorkflowID(id)},
			Reason:            "test", WorkflowTaskFinishEventId: last, RequestId: uuid.NewString(),
		}); err != nil {
			t.Fatal(err)
		}
	},
}

// dial returns the connection of an engine.
func dial(t *testing.T, e *temporal.Engine) client.Client {
	t.Helper()
	c, err := e.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func cancelInTemporal(t *testing.T, e *temporal.Engine, id journal.RunID) {
	t.Helper()
	if err := dial(t, e).CancelWorkflow(t.Context(), e.WorkflowID(id), ""); err != nil {
		t.Fatal(err)
	}
}

// remove deletes a workflow, and returns when the server does not know it anymore.
func remove(t *testing.T, c client.Client, id string) {
	t.Helper()
	if _, err := c.WorkflowService().DeleteWorkflowExecution(t.Context(),
		&workflowservice.DeleteWorkflowExecutionRequest{
			Namespace: client.DefaultNamespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: id},
		}); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := c.DescribeWorkflowExecution(t.Context(), id, ""); err != nil {
			return
		}
		time.Sleep(20 * time.Millisecond) // the server deletes it in the background
	}
}

// asking is a kind whose tasks have an effect that must not be repeated. Those called "slow" run until they are
// canceled, the first time.
type asking struct {
	*enginetest.Kind
	started chan struct{}

	mu      sync.Mutex
	effects []string
}

func newAsking() *asking {
	k := &asking{Kind: enginetest.NewKind(), started: make(chan struct{})}
	k.Policy = step.Ask
	k.Hold = func(ctx context.Context, job *step.Job) error {
		k.mu.Lock()
		k.effects = append(k.effects, job.Step.ID)
		first := strings.Join(k.effects, " ") == "slow"
		k.mu.Unlock()
		if first {
			close(k.started)
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
	return k
}

// did returns the effects so far.
func (k *asking) did() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return strings.Join(k.effects, " ")
}

func slowProgram() *ir.Program {
	return enginetest.Program([]ir.Step{enginetest.Task("slow"), enginetest.Task("b")})
}

// If Temporal loses the workflow of a run while a step runs, the step is not repeated: a person decides, and the run
// continues.
func TestLostWorkflowRepeatsNoStep(t *testing.T) {
	for name, lose := range loses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			kind := newAsking()
			e := w.open(map[string]step.Runner{"test": kind})
			id := start(t, e, slowProgram())
			<-kind.started
			lose(t, e, id)
			if entry := rest(t, e, id); entry.Waiting.Label() != "unknown outcome: slow" {
				t.Fatalf("%+v, effects %q", entry, kind.did())
			}
			if err := e.Send(t.Context(), id, plan.GateDecision{
				Step: "slow", Answer: journal.AnswerResult, Value: json.RawMessage(`"told"`), By: actor,
			}, "ref"); err != nil {
				t.Fatal(err)
			}
			if entry := rest(t, e, id); entry.Outcome != journal.OutcomeOK {
				t.Errorf("%+v", entry)
			}
			if got := kind.did(); got != "slow b" {
				t.Errorf("effects: %s", got)
			}
			verify(t, w.store, id)
			replay(t, e, histories(t, e, id)[:1])
		})
	}
}

// A run whose workflow Temporal has lost while it waited accepts every message.
func TestLostWorkflowAcceptsMessages(t *testing.T) {
	for name, lose := range loses {
		for message, act := range map[string]func(*testing.T, *temporal.Engine, journal.RunID){
			"approve": func(t *testing.T, e *temporal.Engine, id journal.RunID) {
				t.Helper()
				approve(t, e, id)
			},
			"cancel": func(t *testing.T, e *temporal.Engine, id journal.RunID) {
				t.Helper()
				if err := e.Send(t.Context(), id, plan.Cancel{By: actor}, "ref"); err != nil {
					t.Fatal(err)
				}
			},
		} {
			t.Run(name+" "+message, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				kind := newAsking()
				e := w.open(map[string]step.Runner{"test": kind})
				id := start(t, e, gated())
				if entry := rest(t, e, id); entry.Waiting.String() != "approval: g" {
					t.Fatalf("%+v", entry)
				}
				lose(t, e, id)
				if err := e.Resume(t.Context(), id); err != nil {
					t.Fatal(err)
				}
				if entry := rest(t, e, id); entry.Waiting.String() != "approval: g" {
					t.Fatalf("%+v", entry)
				}
				lose(t, e, id)
				act(t, e, id)
				outcome, effects := journal.OutcomeOK, "a b"
				if message == "cancel" {
					outcome, effects = journal.OutcomeCanceled, "a"
				}
				if entry := rest(t, e, id); entry.Outcome != outcome {
					t.Errorf("%+v", entry)
				}
				if got := kind.did(); got != effects {
					t.Errorf("effects: %s", got)
				}
				verify(t, w.store, id)
			})
		}
	}
}

// A workflow that recovers a run keeps earlier ones, which may be open in another namespace, from appending and from
// starting tasks, even before it has appended anything itself.
func TestRecoveryExcludesEarlierWorkflows(t *testing.T) {
	w := newWorld(t)
	e := w.open(map[string]step.Runner{"test": newAsking()})
	id := start(t, e, gated())
	entry := rest(t, e, id)
	check := func() error {
		return journal.Append(t.Context(), w.store, journal.Batch{Run: id, Fence: journal.FirstFence, After: entry.Seq})
	}
	if err := check(); err != nil {
		t.Fatal(err)
	}
	loses["terminated"](t, e, id)
	if err := e.Resume(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if now := rest(t, e, id); now.Seq != entry.Seq {
		t.Fatalf("recovering has appended: %+v", now)
	}
	if err := check(); !errors.Is(err, journal.ErrConflict) {
		t.Errorf("the first workflow can append: %v", err)
	}
}

// A worker is killed, and Temporal does not have the workflow when the next one starts.
func TestWorkerKilledAndWorkflowDeleted(t *testing.T) {
	t.Parallel()
	v := &victim{
		Dir: t.TempDir(), Address: temporaltest.Shared(t).Address, Queue: uuid.NewString(), counts: map[string]int{},
	}
	if !v.die(t, "after effect 1") {
		t.Fatal("the worker was not killed")
	}
	e, _, leave, err := v.open()
	if err != nil {
		t.Fatal(err)
	}
	remove(t, dial(t, e), e.WorkflowID(enginetest.ID))
	leave()
	v.die(t, "")
	v.check(t)
}

// A run moves to another namespace. The workflow that is still open in the first one does nothing anymore, and ends.
func TestRunMovesToAnotherNamespace(t *testing.T) {
	t.Parallel()
	v := &victim{
		Dir: t.TempDir(), Address: temporaltest.Shared(t).Address, Queue: uuid.NewString(), counts: map[string]int{},
	}
	if !v.die(t, "after effect 1") {
		t.Fatal("the worker was not killed")
	}
	moved := &victim{Dir: v.Dir, Address: v.Address, Queue: v.Queue, Namespace: newNamespace(t)}
	moved.die(t, "")
	moved.check(t)
	e, store, leave, err := v.open()
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	before, err := store.Entry(t.Context(), enginetest.ID)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go e.Work(ctx, nil)
	err = dial(t, e).GetWorkflow(t.Context(), e.WorkflowID(enginetest.ID), "").Get(t.Context(), nil)
	if err == nil || !strings.Contains(err.Error(), "another workflow has continued the run") {
		t.Errorf("the first workflow has ended with: %v", err)
	}
	if after, err := store.Entry(t.Context(), enginetest.ID); err != nil || after.Seq != before.Seq {
		t.Errorf("the first workflow has appended: %+v, %v", after, err)
	}
	if got := len(v.lines("effects")); got != len(victimEffects) {
		t.Errorf("effects: %v", v.lines("effects"))
	}
}

// A cancellation in Temporal cancels the run, whether it waits or a step runs.
func TestCancellationInTemporalCancelsTheRun(t *testing.T) {
	for name, p := range map[string]*ir.Program{"waiting": gated(), "running": slowProgram()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			kind := newAsking()
			e := w.open(map[string]step.Runner{"test": kind})
			id := start(t, e, p)
			if name == "running" {
				<-kind.started
			} else {
				rest(t, e, id)
			}
			cancelInTemporal(t, e, id)
			err := dial(t, e).GetWorkflow(t.Context(), e.WorkflowID(id), "").Get(t.Context(), nil)
			if err == nil || !strings.Contains(err.Error(), "canceled") {
				t.Errorf("the workflow has ended with: %v", err)
			}
			entry, err := w.store.Entry(t.Context(), id)
			if err != nil || entry.Outcome != journal.OutcomeCanceled {
				t.Errorf("%+v, %v", entry, err)
			}
			if all := strings.Join(facts(t, w.store, id), ""); !strings.Contains(all, `"by":{"user":"Temporal"}`) {
				t.Errorf("no record says who has cancelled the run: %s", all)
			}
			verify(t, w.store, id)
			replay(t, e, histories(t, e, id))
		})
	}
}

// A run can have the id of one that was removed, although Temporal still has the workflow of that one, open or not.
func TestIDOfARemovedRunIsUsedAgain(t *testing.T) {
	for _, open := range []bool{false, true} {
		t.Run(map[bool]string{false: "closed", true: "open"}[open], func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			kind := newAsking()
			e := w.open(map[string]step.Runner{"test": kind})
			def := &engine.Definition{Program: enginetest.Program([]ir.Step{enginetest.Task("a")})}
			id := journal.RunID(uuid.NewString())
			if open {
				// A workflow of which no worker knows the type stays open.
				if _, err := dial(t, e).ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
					ID: e.WorkflowID(id), TaskQueue: w.config.TaskQueue,
				}, "unknown"); err != nil {
					t.Fatal(err)
				}
			}
			for round := range 2 {
				if err := e.Start(t.Context(), id, def, json.RawMessage("{}"), nil, actor); err != nil {
					t.Fatal(err)
				}
				if entry := rest(t, e, id); entry.Outcome != journal.OutcomeOK {
					t.Fatalf("round %d: %+v", round, entry)
				}
				if err := w.store.Remove(t.Context(), journal.Removal{}, id); err != nil {
					t.Fatal(err)
				}
			}
			if got := kind.did(); got != "a a" {
				t.Errorf("effects: %s", got)
			}
		})
	}
}

// living is a process that shares its journal with others, which are all alive.
type living string

func (l living) ID() journal.Owner     { return journal.Owner(l) }
func (living) Dead(journal.Owner) bool { return false }

// A process does not take a run from a living one that uses another namespace.
func TestRunOfAnotherNamespaceIsLeftAlone(t *testing.T) {
	w := newWorld(t, func(c *temporal.Config) { c.Process = living("one") })
	kind := newAsking()
	e := w.open(map[string]step.Runner{"test": kind})
	id := start(t, e, slowProgram())
	<-kind.started
	w.config.Process, w.config.Namespace = living("two"), newNamespace(t)
	other := w.open(map[string]step.Runner{"test": kind})
	for name, err := range map[string]error{
		"resume": other.Resume(t.Context(), id),
		"cancel": other.Send(t.Context(), id, plan.Cancel{By: actor}, "ref"),
	} {
		owned, ok := errors.AsType[*journal.OwnedError](err)
		if !ok || owned.Place != w.config.Address+"/"+client.DefaultNamespace+"/"+w.config.TaskQueue {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := e.Send(t.Context(), id, plan.Cancel{By: actor}, "ref"); err != nil {
		t.Fatal(err)
	}
	if entry := rest(t, e, id); entry.Outcome != journal.OutcomeCanceled {
		t.Errorf("%+v", entry)
	}
}

// A process does not take a run from a living one that uses another server.
func TestRunOfAnotherServerIsLeftAlone(t *testing.T) {
	server, err := temporaltest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Remove)
	w := newWorld(t, func(c *temporal.Config) { c.Process = living("one") })
	kind := newAsking()
	e := w.open(map[string]step.Runner{"test": kind})
	id := start(t, e, slowProgram())
	<-kind.started
	place := w.config.Address + "/" + client.DefaultNamespace + "/" + w.config.TaskQueue
	w.config.Process, w.config.Address = living("two"), server.Address
	other := w.open(map[string]step.Runner{"test": kind})
	err = other.Resume(t.Context(), id)
	if owned, ok := errors.AsType[*journal.OwnedError](err); !ok || owned.Place != place {
		t.Errorf("%v", err)
	}
	if err := e.Send(t.Context(), id, plan.Cancel{By: actor}, "ref"); err != nil {
		t.Fatal(err)
	}
	if entry := rest(t, e, id); entry.Outcome != journal.OutcomeCanceled {
		t.Errorf("%+v", entry)
	}
}

// A workflow that is reset to an earlier gate does not answer for the run, which waits at a later one.
func TestResetToAnEarlierGate(t *testing.T) {
	w := newWorld(t)
	kind := newAsking()
	e := w.open(map[string]step.Runner{"test": kind})
	gate := func(id string) ir.Step { return ir.Step{ID: id, Type: "gate", Action: ir.Gate{Decider: ir.Person}} }
	id := start(t, e, enginetest.Program([]ir.Step{
		enginetest.Task("a"), gate("g1"), enginetest.Task("b"), gate("g2"), enginetest.Task("c"),
	}))
	rest(t, e, id)
	first := int64(0)
	for _, event := range histories(t, e, id)[0].Events {
		if event.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			first = event.GetEventId()
		}
	}
	approve(t, e, id)
	if entry := rest(t, e, id); entry.Waiting.String() != "approval: g2" {
		t.Fatalf("%+v", entry)
	}
	if _, err := dial(t, e).ResetWorkflowExecution(t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: client.DefaultNamespace, Reason: "test", RequestId: uuid.NewString(),
		WorkflowExecution:         &commonpb.WorkflowExecution{WorkflowId: e.WorkflowID(id)},
		WorkflowTaskFinishEventId: first,
		ResetReapplyExcludeTypes: []enumspb.ResetReapplyExcludeType{
			enumspb.RESET_REAPPLY_EXCLUDE_TYPE_UPDATE, enumspb.RESET_REAPPLY_EXCLUDE_TYPE_SIGNAL,
		},
	}); err != nil {
		t.Fatal(err)
	}
	approve(t, e, id)
	if entry := rest(t, e, id); entry.Outcome != journal.OutcomeOK {
		t.Errorf("%+v", entry)
	}
	if got := kind.did(); got != "a b c" {
		t.Errorf("effects: %s", got)
	}
	verify(t, w.store, id)
}

// A worker that starts while the server is down waits for it.
func TestWorkersWaitForTheServer(t *testing.T) {
	server, err := temporaltest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Remove)
	w := newWorld(t, func(c *temporal.Config) { c.Address = server.Address })
	e := w.open(map[string]step.Runner{"test": newAsking()})
	id := start(t, e, gated())
	rest(t, e, id)
	e.Close(nil)
	server.Kill()
	e = w.open(map[string]step.Runner{"test": newAsking()})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Work(ctx, nil) }()
	for { // until it has asked the server
		err := e.Ready(t.Context())
		if err == nil {
			t.Fatal("the server answers")
		}
		select {
		case err := <-ended:
			t.Fatalf("the worker has ended: %v", err)
		case <-time.After(time.Second):
		}
		if temporal.IsDown(e) {
			break
		}
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	for e.Ready(t.Context()) != nil {
		time.Sleep(50 * time.Millisecond) // the server starts
	}
	approve(t, e, id)
	if entry := rest(t, e, id); entry.Outcome != journal.OutcomeOK {
		t.Errorf("%+v", entry)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// stalled is a store whose next append, once it stalls, waits until it is released.
type stalled struct {
	temporal.Store
	stalls  atomic.Bool
	waits   chan struct{} // closed when an append waits
	release chan struct{}
}

func (s *stalled) Append(b journal.Batch, done func(error)) {
	if !s.stalls.CompareAndSwap(true, false) {
		s.Store.Append(b, done)
		return
	}
	close(s.waits)
	go func() {
		<-s.release
		s.Store.Append(b, done)
	}()
}

// A message that a workflow had accepted when it was terminated is sent again to the one that recovers the run.
func TestTerminatedWorkflowLosesNoMessage(t *testing.T) {
	s := &stalled{waits: make(chan struct{}), release: make(chan struct{})}
	w := newWorld(t, func(c *temporal.Config) { s.Store, c.Store = c.Store, s })
	e := w.open(map[string]step.Runner{"test": newAsking()})
	id := start(t, e, gated())
	rest(t, e, id)
	s.stalls.Store(true)
	sent := make(chan error, 1)
	go func() { sent <- e.Send(t.Context(), id, plan.Cancel{By: actor}, "ref") }()
	<-s.waits
	loses["terminated"](t, e, id)
	err := <-sent
	close(s.release)
	if err != nil {
		t.Fatal(err)
	}
	if entry := rest(t, e, id); entry.Outcome != journal.OutcomeCanceled {
		t.Errorf("%+v", entry)
	}
	verify(t, w.store, id)
}
