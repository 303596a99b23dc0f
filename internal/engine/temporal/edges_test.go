//go:build temporal

package temporal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/sdk/client"
	sdktemporal "go.temporal.io/sdk/temporal"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/engine/enginetest"
	"github.com/espalier-run/espalier/internal/engine/temporal"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/step"
)

// A process that has driven a run to its end leaves no open workflow behind, although no worker is there.
func TestWorkflowsOfFinishedRunsEnd(t *testing.T) {
	w := newWorld(t)
	e := w.open(map[string]step.Runner{"test": enginetest.NewKind()})
	id := start(t, e, enginetest.Program([]ir.Step{enginetest.Task("a")}))
	rest(t, e, id)
	e.Drain()
	if got := workflowStatus(t, w.open(nil), id); got != enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED {
		t.Errorf("the workflow is %v", got)
	}
}

// workflowStatus returns the status of the workflow of a run.
func workflowStatus(t *testing.T, e *temporal.Engine, id journal.RunID) enumspb.WorkflowExecutionStatus {
	t.Helper()
	found, err := clientOf(t, e).DescribeWorkflowExecution(t.Context(), e.WorkflowID(id), "")
	if err != nil {
		t.Fatal(err)
	}
	return found.GetWorkflowExecutionInfo().GetStatus()
}

func clientOf(t *testing.T, e *temporal.Engine) client.Client {
	t.Helper()
	c, err := e.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A worker that stops takes no workflow task with it: none has to time out before another worker continues.
func TestStoppedWorkersTakeNoWorkflowTaskWithThem(t *testing.T) {
	w := newWorld(t)
	const runs = 8
	kind := enginetest.NewKind()
	started, end := make(chan struct{}, runs), make(chan struct{})
	kind.Hold = func(context.Context, *step.Job) error {
		started <- struct{}{}
		<-end
		return nil
	}
	one := w.open(map[string]step.Runner{"test": kind})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go one.Work(ctx, nil)
	p := enginetest.Program([]ir.Step{enginetest.Task("a"), enginetest.Task("b")})
	var ids []journal.RunID
	for range runs {
		ids = append(ids, start(t, one, p))
		<-started
	}
	one.Park()
	closed := make(chan struct{})
	go func() {
		one.Close(nil)
		close(closed)
	}()
	close(end)
	<-closed
	other := w.open(map[string]step.Runner{"test": enginetest.NewKind()})
	go other.Work(ctx, nil)
	for _, id := range ids {
		if entry := rest(t, other, id); entry.Outcome != journal.OutcomeOK {
			t.Fatalf("%+v", entry)
		}
		for _, event := range histories(t, other, id)[0].GetEvents() {
			timeout := event.GetWorkflowTaskTimedOutEventAttributes()
			if timeout != nil && timeout.GetTimeoutType() == enumspb.TIMEOUT_TYPE_START_TO_CLOSE {
				t.Errorf("a workflow task was lost: %v", event)
			}
		}
	}
}

// Temporal shows how a run has ended: alerts for failed workflows find failed runs. A rejection is not a failure.
func TestWorkflowsEndAsTheirRunsDo(t *testing.T) {
	w := newWorld(t)
	kind := enginetest.NewKind()
	kind.Fail["c"] = 9
	e := w.open(map[string]step.Runner{"test": kind})
	failing := enginetest.Program([]ir.Step{enginetest.Task("c")})
	const completed = enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
	for name, one := range map[string]struct {
		program *ir.Program
		send    plan.Input
		want    enumspb.WorkflowExecutionStatus
	}{
		"ok":        {gated(), plan.GateDecision{Step: "g", Answer: journal.AnswerApprove}, completed},
		"rejected":  {gated(), plan.GateDecision{Step: "g", Answer: journal.AnswerReject}, completed},
		"cancelled": {gated(), plan.Cancel{By: actor}, enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED},
		"failed":    {failing, nil, enumspb.WORKFLOW_EXECUTION_STATUS_FAILED},
	} {
		id := start(t, e, one.program)
		entry := rest(t, e, id)
		if one.send != nil {
			if x, ok := one.send.(plan.GateDecision); ok {
				state, p, _, err := e.Load(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				_, x.Digest = state.Shown(p, state.OpenGates()[0])
				one.send = x
			}
			if err := e.Send(t.Context(), id, one.send, "ref"); err != nil {
				t.Fatal(err)
			}
			entry = rest(t, e, id)
		}
		if string(entry.Outcome) != name {
			t.Fatalf("%s: %+v", name, entry)
		}
		replay(t, e, settled(t, e, id))
		if got := workflowStatus(t, e, id); got != one.want {
			t.Errorf("%s: the workflow is %v", name, got)
		}
	}
}

// A namespace may have a search attribute of that name with another type. Runs work without search attributes then, and
// a notice says so.
func TestSearchAttributesOfAnotherTypeAreLeftAlone(t *testing.T) {
	var notices []string
	w := newWorld(t, func(c *temporal.Config) {
		c.Namespace = newNamespace(t)
		c.Notice = func(text string) { notices = append(notices, text) }
	})
	c, err := client.Dial(client.Options{HostPort: w.config.Address, Namespace: w.config.Namespace})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.OperatorService().AddSearchAttributes(t.Context(), &operatorservice.AddSearchAttributesRequest{
		Namespace:        w.config.Namespace,
		SearchAttributes: map[string]enumspb.IndexedValueType{"EspalierStatus": enumspb.INDEXED_VALUE_TYPE_INT},
	}); err != nil {
		t.Fatal(err)
	}
	e := w.open(map[string]step.Runner{"test": enginetest.NewKind()})
	id := start(t, e, enginetest.Program([]ir.Step{enginetest.Task("a")}))
	if entry := rest(t, e, id); entry.Outcome != journal.OutcomeOK {
		t.Fatalf("%+v", entry)
	}
	const want = "EspalierStatus has type Int, not Keyword"
	if len(notices) != 1 || !strings.Contains(notices[0], want) {
		t.Errorf("%q", notices)
	}
	_, limited, err := temporal.Reach(t.Context(), client.Options{
		HostPort: w.config.Address, Namespace: w.config.Namespace,
	})
	if err != nil || !strings.Contains(limited, want) {
		t.Errorf("%q, %v", limited, err)
	}
}

// The log says once that Temporal has a run that the store does not have.
func TestStrayRunsAreLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	w := newWorld(t, func(c *temporal.Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	e := w.open(nil)
	for range 3 {
		var failed *sdktemporal.ApplicationError
		if err := e.Publish(t.Context(), "stray"); !errors.As(err, &failed) ||
			failed.Category() != sdktemporal.ApplicationErrorCategoryBenign {
			t.Errorf("the library logs %v", err)
		}
	}
	if n := strings.Count(log.String(), "share a task queue"); n != 1 {
		t.Errorf("%d times: %s", n, &log)
	}
}

// An engine whose settings cannot be used, or whose namespace does not exist, says so before it records a run.
func TestUnusableServersAreNamed(t *testing.T) {
	for want, change := range map[string]func(*temporal.Config){
		"cannot be set up": func(c *temporal.Config) {
			c.Client = func(context.Context, *client.Options) error { return errors.New("no such file") }
		},
		`has no namespace "nowhere"`:                 func(c *temporal.Config) { c.Namespace = "nowhere" },
		"the Temporal server cannot be reached: 127": func(c *temporal.Config) { c.Address = "127.0.0.1:1" },
	} {
		w := newWorld(t, change)
		e := w.open(map[string]step.Runner{"test": enginetest.NewKind()})
		err := e.Start(t.Context(), enginetest.ID,
			&engine.Definition{Program: gated()}, json.RawMessage("{}"), nil, actor)
		if _, ok := errors.AsType[*engine.UnavailableError](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
		if _, err := w.store.Entry(t.Context(), enginetest.ID); !errors.Is(err, journal.ErrUnknownRun) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// A process that stops while it sends a message waits for the answer, so that it can tell what came of it.
func TestClosingWaitsForSentMessages(t *testing.T) {
	w := newWorld(t)
	e := w.open(map[string]step.Runner{"test": newAsking()})
	id := start(t, e, gated())
	rest(t, e, id)
	sent := make(chan error, 1)
	go func() { sent <- e.Send(t.Context(), id, plan.Cancel{By: actor}, "ref") }()
	for temporal.Sending(e) == 0 {
		time.Sleep(time.Millisecond) // nothing announces that a message is sent
	}
	e.Close(nil)
	if err := <-sent; err != nil {
		t.Error(err)
	}
	if entry, err := w.store.Entry(t.Context(), id); err != nil || entry.Outcome != journal.OutcomeCanceled {
		t.Errorf("%+v, %v", entry, err)
	}
	if err := e.Send(t.Context(), id, plan.Pause{By: actor}, "ref"); err == nil {
		t.Error("a closed engine has sent a message")
	}
}
