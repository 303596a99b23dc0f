//go:build temporal

package temporal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/engine/enginetest"
	"github.com/espalier-run/espalier/internal/engine/temporal"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/step"
)

var oldSecret, newSecret = strings.Repeat("old ", 8), strings.Repeat("new ", 8)

// markers are texts of a run: of its input, of a note, a result, an error, a decision and a large result.
var markers = []string{
	"marker-of-the-input", "marker-of-a-note", "marker-of-a-result", "marker-of-an-error", "marker-of-a-decision",
	"marker-of-a-large-result",
}

// secretive is a kind whose tasks handle the markers.
type secretive struct{ *enginetest.Kind }

func (k secretive) Run(ctx context.Context, job *step.Job) (step.Result, error) {
	if err := job.Log.Note(ctx, step.Note{Kind: "reply", Data: markers[1]}); err != nil {
		return step.Result{}, err
	}
	switch {
	case job.Step.ID == "a" && job.Attempt == 0:
		return step.Result{}, step.Errorf(ir.ClassTool, "%s", markers[3])
	case job.Step.ID == "b":
		return step.Result{Value: json.RawMessage(`"` + markers[5] + strings.Repeat("x", 200<<10) + `"`)}, nil
	}
	return step.Result{Value: json.RawMessage(`"` + markers[2] + `"`)}, nil
}

// due are times in facts: when an attempt is repeated, and when a person has decided.
var due = regexp.MustCompile(`"due":\d+|"decided_at":"[^"]*"`)

// requests collects everything that is sent to the server.
type requests struct {
	mu  sync.Mutex
	raw []byte
}

func (r *requests) intercept(
	ctx context.Context, method string, in, out any, c *grpc.ClientConn, invoke grpc.UnaryInvoker, o ...grpc.CallOption,
) error {
	raw, err := proto.Marshal(in.(proto.Message))
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.raw = append(r.raw, raw...)
	r.mu.Unlock()
	return invoke(ctx, method, in, out, c, o...)
}

// With secrets no request to the server has a text of a run, and the facts are the same. Without them all have, except
// for large values, which are in the journal.
func TestPayloadsAreEncrypted(t *testing.T) {
	p := enginetest.Program([]ir.Step{
		enginetest.Task("a"), {ID: "g", Type: "gate", Action: ir.Gate{Decider: ir.Person}}, enginetest.Task("b"),
	})
	p.Blocks[0].Steps[0].Retry = &ir.Retry{MaxAttempts: 2, Backoff: ir.Constant, Delays: []ir.Millis{1}}
	var all [][]string
	for _, secrets := range [][]string{nil, {oldSecret}} {
		sent := &requests{}
		w := newWorld(t, func(c *temporal.Config) {
			c.Client = func(_ context.Context, o *client.Options) error {
				o.ConnectionOptions.DialOptions = append(
					o.ConnectionOptions.DialOptions, grpc.WithChainUnaryInterceptor(sent.intercept),
				)
				if len(secrets) == 0 {
					return nil
				}
				return temporal.Encrypt(o, secrets...)
			}
		})
		e := w.open(map[string]step.Runner{"test": secretive{enginetest.NewKind()}})
		const id = enginetest.ID
		input := json.RawMessage(`{"text":"` + markers[0] + `"}`)
		if err := e.Start(t.Context(), id, &engine.Definition{Program: p}, input, nil, actor); err != nil {
			t.Fatal(err)
		}
		rest(t, e, id)
		state, program, _, err := e.Load(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		_, digest := state.Shown(program, state.OpenGates()[0])
		if err := e.Send(t.Context(), id, plan.GateDecision{
			Step: "g", Answer: journal.AnswerApprove, Digest: digest, Note: markers[4],
		}, "ref"); err != nil {
			t.Fatal(err)
		}
		if entry := rest(t, e, id); entry.Outcome != journal.OutcomeOK {
			t.Fatalf("%+v", entry)
		}
		all = append(all, strings.Split(due.ReplaceAllString(strings.Join(facts(t, w.store, id), ""), ""), "\n"))
		sent.mu.Lock()
		for _, marker := range markers {
			clear := len(secrets) == 0 && marker != markers[5]
			if got := bytes.Contains(sent.raw, []byte(marker)); got != clear {
				t.Errorf("with %d secrets, the server got %q: %v", len(secrets), marker, got)
			}
		}
		sent.mu.Unlock()
		for _, h := range histories(t, e, id) {
			raw, err := proto.Marshal(h)
			if err != nil {
				t.Fatal(err)
			}
			if len(secrets) > 0 && bytes.Contains(raw, []byte("marker-of")) {
				t.Error("the history has a text of the run")
			}
		}
	}
	if d := cmp.Diff(all[0], all[1]); d != "" {
		t.Error(d)
	}
}

// openEncrypted opens an engine with secrets.
func (w *world) openEncrypted(secrets ...string) *temporal.Engine {
	w.config.Client = func(_ context.Context, o *client.Options) error { return temporal.Encrypt(o, secrets...) }
	return w.open(map[string]step.Runner{"test": enginetest.NewKind()})
}

// A run that waits continues with a new secret as long as the old one is listed.
func TestSecretsCanBeReplaced(t *testing.T) {
	w := newWorld(t, func(c *temporal.Config) { c.Namespace = newNamespace(t) })
	e := w.openEncrypted(oldSecret)
	enginetest.Begin(t, e, enginetest.Shapes(t)["two pauses"])
	enginetest.Rest(t, e)
	enginetest.Stop(e)
	entry, err := enginetest.Finish(t, w.openEncrypted(newSecret, oldSecret))
	if err != nil || entry.Outcome != journal.OutcomeOK {
		t.Fatalf("%+v, %v", entry, err)
	}
}

// A worker without the secret of a run cannot decide anything about it. The run stays open for workers with the secret.
func TestWorkersWithoutTheSecretEndNoRun(t *testing.T) {
	w := newWorld(t)
	first := w.openEncrypted(oldSecret)
	enginetest.Begin(t, first, enginetest.Shapes(t)["two pauses"])
	enginetest.Rest(t, first)
	enginetest.Stop(first)

	e := w.openEncrypted(newSecret)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go e.Work(ctx, nil)
	c, err := e.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// The workflow ignores the signal, but has to look at it.
	if err := c.SignalWorkflow(ctx, e.WorkflowID(enginetest.ID), "", "test", nil); err != nil {
		t.Fatal(err)
	}
	for {
		found, err := c.DescribeWorkflowExecution(ctx, e.WorkflowID(enginetest.ID), "")
		if err != nil {
			t.Fatal(err)
		}
		if now := found.GetWorkflowExecutionInfo().GetStatus(); now != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
			t.Fatalf("the workflow is %v", now)
		}
		if found.GetPendingWorkflowTask().GetAttempt() > 1 {
			break
		}
		time.Sleep(50 * time.Millisecond) // the server does not announce attempts
	}
	enginetest.Stop(e)
	entry, err := enginetest.Finish(t, w.openEncrypted(oldSecret))
	if err != nil || entry.Outcome != journal.OutcomeOK {
		t.Fatalf("%+v, %v", entry, err)
	}
}

func TestShortSecretsAreRefused(t *testing.T) {
	if err := temporal.Encrypt(&client.Options{}, "short"); err == nil {
		t.Error("a secret of five characters encrypts")
	}
}

// A message from a process with another secret fails at once and says why. If only later messages of the run were
// encrypted with another secret, the message fails when the workflow has failed to decide.
func TestMessageWithAnotherSecretFailsAtOnce(t *testing.T) {
	w := newWorld(t)
	e := w.openEncrypted(oldSecret)
	p := enginetest.Program([]ir.Step{
		{ID: "g", Type: "gate", Action: ir.Gate{Decider: ir.Person}},
		{ID: "h", Type: "gate", Action: ir.Gate{Decider: ir.Person}},
	})
	id := start(t, e, p)
	rest(t, e, id)
	enginetest.Stop(e)
	named := func(e *temporal.Engine, want string) {
		t.Helper()
		err := e.Send(t.Context(), id, plan.Cancel{By: actor}, "c")
		failed, ok := errors.AsType[*engine.UnavailableError](err)
		if !ok || !strings.Contains(failed.What, want) || !strings.Contains(failed.Help, `secret under "encryption"`) {
			t.Errorf("%v", err)
		}
		enginetest.Stop(e)
	}
	named(w.openEncrypted(newSecret), "cannot be read")
	later := w.openEncrypted(newSecret, oldSecret)
	approve(t, later, id)
	rest(t, later, id)
	enginetest.Stop(later)
	named(w.openEncrypted(oldSecret), "keeps failing")
}
