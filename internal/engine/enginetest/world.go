package enginetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/step"
)

// ID is the ID of the run that most tests start.
const ID journal.RunID = "00000000-0000-4000-8000-000000000001"

// ErrStopped is the error of a store that behaves as if its process had died.
var ErrStopped = errors.New("stopped here")

// Effects counts what tasks have done, independently of any engine.
type Effects struct {
	mu   sync.Mutex
	Done map[string]int // by the key of the task
	Fail map[string]int // how often a step fails before it succeeds
}

// Kind is a step.Runner that records its executions. Steps whose name starts with
// "asks" need two approvals.
type Kind struct {
	*Effects
	Policy step.Recovery
	Hold   func(ctx context.Context, job *step.Job) error // called first; an error ends the task
}

// NewKind returns a kind whose tasks can run again.
func NewKind() *Kind {
	return &Kind{Effects: &Effects{Done: map[string]int{}, Fail: map[string]int{}}, Policy: step.Rerun}
}

func (*Kind) Name() string { return "test" }

func (k *Kind) Recovery(*ir.Task, []journal.TaskNoted) step.Recovery { return k.Policy }

func (k *Kind) Run(ctx context.Context, job *step.Job) (step.Result, error) {
	if k.Hold != nil {
		if err := k.Hold(ctx, job); err != nil {
			return step.Result{}, err
		}
	}
	if strings.HasPrefix(job.Step.ID, "asks") && job.NoteCount(journal.NoteToolAnswer) < 2 {
		return asking(job), &step.ApprovalRequired{
			Call:  fmt.Sprintf("%s/call:%d", job.Key, job.NoteCount(journal.NoteToolAnswer)+1),
			Shows: map[string]json.RawMessage{"arguments": json.RawMessage(`{"n":1}`)},
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.Done[job.Key]++
	if k.Fail[job.Step.ID] > job.Attempt {
		return step.Result{}, step.Errorf(ir.ClassTool, "attempt %d", job.Attempt)
	}
	return step.Result{Value: json.RawMessage(fmt.Sprintf("%q", job.Key))}, nil
}

// asking returns the result of a task that needs approval: one note for each
// approval.
func asking(job *step.Job) step.Result {
	if job.NoteCount("stopped") > job.NoteCount(journal.NoteToolAnswer) {
		return step.Result{}
	}
	return step.Result{Notes: []step.Note{{Kind: "stopped"}}}
}

// Drive calls send, which sends a message to a run or resumes it, and then waits for the run as a command does: a
// process that holds a run when it becomes runnable drives it, whatever became of its own message. It returns the error
// of send, if any.
func Drive(ctx context.Context, e engine.Engine, send func(ctx context.Context) error) (journal.Entry, error) {
	sent := send(ctx)
	if sent != nil && !e.Owns(ID) {
		return journal.Entry{}, sent
	}
	entry, err := e.Wait(ctx, ID)
	if sent != nil {
		return entry, sent
	}
	return entry, err
}

// Stop closes an engine without waiting for tasks.
func Stop(e engine.Engine) {
	now := make(chan struct{})
	close(now)
	e.Close(now)
}

// Task returns a step that runs a task of the test kind and writes its result to state.ID.
func Task(id string) ir.Step {
	return ir.Step{ID: id, Type: "task", Action: ir.Task{Kind: "test"}, Writes: []ir.Write{{Path: "state." + id}}}
}

// Program returns a program of these blocks. In each block, steps without edges lead to the next one.
func Program(blocks ...[]ir.Step) *ir.Program {
	p := &ir.Program{Name: "test", Format: "test", MayIntervene: true, Vars: []ir.Var{{Path: "state.x"}}}
	for _, steps := range blocks {
		for i := range steps[:len(steps)-1] {
			if steps[i].Next == nil {
				steps[i].Next = []ir.Edge{{On: []ir.Outcome{ir.OK, ir.Skipped}, To: ir.Target{Step: steps[i+1].ID}}}
			}
		}
		p.Blocks = append(p.Blocks, ir.Block{Steps: steps})
	}
	return p
}

// List parses an expression for a list.
func List(t *testing.T, text string) *expr.Expr {
	t.Helper()
	e, problems := expr.ParseValue(expr.AgentFlow, text, source.Span{})
	if problems.Errors() {
		t.Fatal(problems)
	}
	return e
}

// Begin starts the run ID.
func Begin(t *testing.T, e engine.Engine, p *ir.Program) {
	t.Helper()
	BeginAs(t, e, ID, p)
}

// BeginAs starts a run with an ID of its own.
func BeginAs(t *testing.T, e engine.Engine, id journal.RunID, p *ir.Program) {
	t.Helper()
	if err := e.Start(
		t.Context(), id, &engine.Definition{Program: p}, json.RawMessage("{}"), nil, journal.Actor{User: "eva"},
	); err != nil {
		t.Fatal(err)
	}
}

// Rest waits until the run ID is at rest, and returns its entry.
func Rest(t *testing.T, e engine.Engine) journal.Entry {
	t.Helper()
	entry, err := e.Wait(t.Context(), ID)
	if err != nil {
		t.Fatal(err)
	}
	return entry
}

// Shapes returns programs that cover what is hard to resume.
func Shapes(t *testing.T) map[string]*ir.Program {
	gate := func(id string) ir.Step { return ir.Step{ID: id, Type: "gate", Action: ir.Gate{Decider: ir.Person}} }
	retried := Task("flaky")
	retried.Retry = &ir.Retry{MaxAttempts: 3, Backoff: ir.Constant, Delays: []ir.Millis{1}}
	child := Program([]ir.Step{Task("c1"), gate("cg"), Task("c2")})
	withChild := Program([]ir.Step{Task("a"), {ID: "call", Type: "call", Action: ir.Call{PassReads: true}}, Task("b")})
	withChild.Children = []ir.Program{*child}
	loop := Program(
		[]ir.Step{{ID: "each", Type: "loop", Action: ir.Loop{
			Block: 1, Each: &ir.Each{Items: List(t, "[1, 2, 3]"), Var: "item"},
		}}, Task("after")},
		[]ir.Step{Task("body"), gate("ask")})
	fan := func(join ir.Join) *ir.Program {
		return Program(
			[]ir.Step{Task("a"), {ID: "fan", Type: "parallel", Action: ir.Parallel{Join: join, Branches: []ir.Branch{
				{Name: "x", Block: 1}, {Name: "y", Block: 2},
			}}}, Task("b")},
			[]ir.Step{Task("x1"), gate("xg"), Task("x2")},
			[]ir.Step{Task("y1"), gate("yg"), Task("y2")})
	}
	return map[string]*ir.Program{
		"two people": Program([]ir.Step{Task("a"), {ID: "g", Type: "gate", Action: ir.Gate{
			Decider: ir.Person, Approvers: &ir.Approvers{Min: 2},
		}}, Task("b")}),
		"chain":            Program([]ir.Step{Task("a"), Task("b"), Task("c")}),
		"two pauses":       Program([]ir.Step{Task("a"), gate("g1"), gate("g2"), Task("b")}),
		"pause in a child": withChild,
		"parallel pauses":  fan(ir.JoinAll),
		"join any":         fan(ir.JoinAny),
		"pause in a loop":  loop,
		"asks inside":      Program([]ir.Step{Task("a"), Task("asks"), Task("b")}),
		"asks in branches": Program(
			[]ir.Step{{ID: "fan", Type: "parallel", Action: ir.Parallel{
				Join: ir.JoinAll, Branches: []ir.Branch{{Name: "x", Block: 1}, {Name: "y", Block: 2}},
			}}, Task("b")},
			[]ir.Step{Task("asks1")}, []ir.Step{Task("asks2")}),
		"retries": Program([]ir.Step{Task("a"), retried, Task("b")}),
	}
}

// Answer approves the first open gate, and reports whether there is one.
func Answer(t *testing.T, e engine.Engine) bool {
	t.Helper()
	state, p, _, err := e.Load(t.Context(), ID)
	if err != nil {
		t.Fatal(err)
	}
	gates := state.OpenGates()
	if len(gates) == 0 {
		return false
	}
	_, digest := state.Shown(p, gates[0])
	err = e.Send(
		t.Context(), ID, plan.GateDecision{
			Frame: gates[0].Path, Step: gates[0].Step, Answer: journal.AnswerApprove, Digest: digest,
			By: journal.Actor{User: fmt.Sprintf("user%d", len(gates[0].Gate.Approvals))},
		}, "ref",
	)
	if err != nil && !errors.Is(err, ErrStopped) {
		t.Fatalf("approve %s: %v", gates[0].Step, err)
	}
	return true
}

// Finish resumes a run and approves its gates until it has finished.
func Finish(t *testing.T, e engine.Engine) (journal.Entry, error) {
	t.Helper()
	for range 1000 {
		if err := e.Resume(t.Context(), ID); err != nil && !errors.Is(err, journal.ErrFinished) {
			return journal.Entry{}, err
		}
		entry, err := e.Wait(t.Context(), ID)
		if err != nil || entry.Status == journal.Finished {
			return entry, err
		}
		if !Answer(t, e) && entry.Status != journal.Running {
			t.Fatalf("at rest, but nothing is asked: %+v", entry)
		}
	}
	t.Fatal("no end")
	return journal.Entry{}, nil
}

// Facts returns the types of the events of the run ID.
func Facts(t *testing.T, store journal.EventReader) []string {
	t.Helper()
	var out []string
	for e, err := range store.Events(t.Context(), ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, strings.TrimPrefix(fmt.Sprintf("%T", e.Fact), "journal."))
	}
	return out
}
