package embedded_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/engine/embedded"
	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/memory"
	"github.com/espalier-run/espalier/internal/journal/sqlite"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// effects counts what was done in the world, outside of any engine.
type effects struct {
	mu   sync.Mutex
	done map[string]int
	fail map[string]int // how often a task fails before it works
}

// testKind is leaf work that a test can look at.
type testKind struct {
	*effects
	recovery step.Recovery
	hold     func(ctx context.Context, job *step.Job) error
}

func (*testKind) Name() string                                    { return "test" }
func (*testKind) Understands(*ir.Task) error                      { return nil }
func (*testKind) Check(*ir.Program, *ir.Step, *ir.Task) diag.List { return nil }
func (*testKind) Uses(*ir.Task) stepkind.Uses                     { return stepkind.Uses{} }
func (*testKind) Bound(*ir.Program, *ir.Step, *ir.Task, *contract.Contract) (b stepkind.Bound) {
	return b
}

func (k *testKind) Recovery(*ir.Task, []journal.TaskNoted) step.Recovery { return k.recovery }

func (k *testKind) Run(ctx context.Context, job *step.Job) (step.Result, error) {
	if k.hold != nil {
		if err := k.hold(ctx, job); err != nil {
			return step.Result{}, err
		}
	}
	if strings.HasPrefix(job.Step.ID, "asks") && job.Noted(journal.NoteToolAnswer) < 2 {
		return asking(job), &step.ApprovalRequired{
			Call:  fmt.Sprintf("%s/call:%d", job.Key, job.Noted(journal.NoteToolAnswer)+1),
			Shows: map[string]json.RawMessage{"arguments": json.RawMessage(`{"n":1}`)},
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.done[job.Key]++
	if k.fail[job.Step.ID] > job.Attempt {
		return step.Result{}, step.Errorf(step.ClassTool, "attempt %d", job.Attempt)
	}
	return step.Result{Value: json.RawMessage(fmt.Sprintf("%q", job.Key))}, nil
}

// asking is what a task leaves that stops before a call: it says so once for
// each answer that it has.
func asking(job *step.Job) step.Result {
	if job.Noted("stopped") > job.Noted(journal.NoteToolAnswer) {
		return step.Result{}
	}
	return step.Result{Notes: []step.Note{{Kind: "stopped"}}}
}

// solo is a process that is alone; every other owner is dead.
type solo struct {
	id    journal.Owner
	wakes chan struct{}
}

func (s *solo) ID() journal.Owner         { return s.id }
func (s *solo) Dead(o journal.Owner) bool { return o != s.id }
func (s *solo) Drives(journal.Owner) bool { return false }
func (s *solo) StopDriving()              {}
func (s *solo) Wake(journal.Owner)        {}
func (s *solo) Wakes() <-chan struct{}    { return s.wakes }

// newEngine returns an engine whose tasks all have one kind.
func newEngine(store journal.Store, p embedded.Process, kind step.Runner) *embedded.Engine {
	return embedded.New(embedded.Config{
		Config: engine.Config{Kinds: map[string]step.Runner{"test": kind}}, Store: store, Process: p,
	})
}

func open(t *testing.T, store journal.Store, kind step.Runner, name string) *embedded.Engine {
	t.Helper()
	e := newEngine(store, &solo{id: journal.Owner(name), wakes: make(chan struct{}, 1)}, kind)
	t.Cleanup(func() { stop(e) })
	return e
}

// stop ends an engine without waiting for anything.
func stop(e *embedded.Engine) {
	now := make(chan struct{})
	close(now)
	e.Close(now)
}

func newKind() *testKind {
	return &testKind{effects: &effects{done: map[string]int{}, fail: map[string]int{}}, recovery: step.Rerun}
}

func task(id string) ir.Step {
	return ir.Step{ID: id, Type: "task", Action: ir.Task{Kind: "test"}, Writes: []ir.Write{{Path: "state." + id}}}
}

func program(blocks ...[]ir.Step) *ir.Program {
	p := &ir.Program{Name: "test", Format: "test", MayIntervene: true}
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

func list(t *testing.T, text string) *expr.Expr {
	t.Helper()
	e, problems := expr.ParseValue(expr.AgentFlow, text, source.Span{})
	if problems.Errors() {
		t.Fatal(problems)
	}
	return e
}

const id journal.RunID = "00000000-0000-4000-8000-000000000001"

func begin(t *testing.T, e *embedded.Engine, p *ir.Program) {
	t.Helper()
	if err := e.Start(t.Context(), id, &engine.Definition{Program: p}, json.RawMessage("{}"), nil, journal.Actor{User: "eva"}); err != nil {
		t.Fatal(err)
	}
}

func rest(t *testing.T, e *embedded.Engine) journal.Entry {
	t.Helper()
	entry, err := e.Wait(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return entry
}

// shapes are programs of every kind that has ever been hard to resume, with
// what people say to them whenever they are at rest.
func shapes(t *testing.T) map[string]*ir.Program {
	gate := func(id string) ir.Step { return ir.Step{ID: id, Type: "gate", Action: ir.Gate{Decider: ir.Person}} }
	retried := task("flaky")
	retried.Retry = &ir.Retry{MaxAttempts: 3, Backoff: ir.Constant, Delays: []ir.Millis{1}}
	child := program([]ir.Step{task("c1"), gate("cg"), task("c2")})
	withChild := program([]ir.Step{task("a"), {ID: "call", Type: "call", Action: ir.Call{PassReads: true}}, task("b")})
	withChild.Children = []ir.Program{*child}
	loop := program(
		[]ir.Step{{ID: "each", Type: "loop", Action: ir.Loop{Block: 1, Each: &ir.Each{Items: list(t, "[1, 2, 3]"), Var: "item"}}}, task("after")},
		[]ir.Step{task("body"), gate("ask")})
	fan := func(join ir.Join) *ir.Program {
		return program(
			[]ir.Step{task("a"), {ID: "fan", Type: "parallel", Action: ir.Parallel{Join: join, Branches: []ir.Branch{
				{Name: "x", Block: 1}, {Name: "y", Block: 2},
			}}}, task("b")},
			[]ir.Step{task("x1"), gate("xg"), task("x2")},
			[]ir.Step{task("y1"), gate("yg"), task("y2")})
	}
	return map[string]*ir.Program{
		"chain":            program([]ir.Step{task("a"), task("b"), task("c")}),
		"two pauses":       program([]ir.Step{task("a"), gate("g1"), gate("g2"), task("b")}),
		"pause in a child": withChild,
		"parallel pauses":  fan(ir.JoinAll),
		"join any":         fan(ir.JoinAny),
		"pause in a loop":  loop,
		"asks inside":      program([]ir.Step{task("a"), task("asks"), task("b")}),
		"asks in branches": program(
			[]ir.Step{{ID: "fan", Type: "parallel", Action: ir.Parallel{Join: ir.JoinAll, Branches: []ir.Branch{{Name: "x", Block: 1}, {Name: "y", Block: 2}}}}, task("b")},
			[]ir.Step{task("asks1")}, []ir.Step{task("asks2")}),
		"retries": program([]ir.Step{task("a"), retried, task("b")}),
	}
}

// answer approves whatever a run waits for; false when it waits for nothing.
func answer(t *testing.T, e *embedded.Engine) bool {
	t.Helper()
	state, p, _, err := e.Load(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	gates := state.OpenGates()
	if len(gates) == 0 {
		return false
	}
	_, digest := state.Shown(p, gates[0])
	err = e.Send(t.Context(), id, plan.Decision{Frame: gates[0].Path, Step: gates[0].Step, Answer: plan.Approve, Digest: digest}, "ref")
	if err != nil && !errors.Is(err, errStop) {
		t.Fatalf("approve %s: %v", gates[0].Step, err)
	}
	return true
}

// finish brings a run to its end, answering everything.
func finish(t *testing.T, e *embedded.Engine) (journal.Entry, error) {
	t.Helper()
	for range 1000 {
		if err := e.Resume(t.Context(), id); err != nil && !errors.Is(err, journal.ErrFinished) {
			return journal.Entry{}, err
		}
		entry, err := e.Wait(t.Context(), id)
		if err != nil || entry.Status == journal.Finished {
			return entry, err
		}
		if !answer(t, e) && entry.Status != journal.Running {
			t.Fatalf("at rest, but nothing is asked: %+v", entry)
		}
	}
	t.Fatal("no end")
	return journal.Entry{}, nil
}

func facts(t *testing.T, store journal.Store) []string {
	t.Helper()
	var out []string
	for e, err := range store.Events(t.Context(), id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, strings.TrimPrefix(fmt.Sprintf("%T", e.Fact), "journal."))
	}
	return out
}

// errStop is what an engine gets whose machine has stopped.
var errStop = errors.New("stopped here")

// stopping is a store whose process dies at its n-th append: before it, or
// after it without anybody hearing of it.
type stopping struct {
	journal.Store
	mu    sync.Mutex
	left  int
	after bool
}

func (s *stopping) Append(b journal.Batch, done func(error)) {
	s.mu.Lock()
	s.left--
	left := s.left
	s.mu.Unlock()
	switch {
	case left > 0:
		s.Store.Append(b, done)
	case left == 0 && s.after:
		s.Store.Append(b, func(error) { done(errStop) })
	default:
		go done(errStop)
	}
}

// TestCrashAtEveryAppend stops the engine at every append, before and after
// it, and again during the recovery, and compares what was done and how it
// ended with an undisturbed run.
func TestCrashAtEveryAppend(t *testing.T) {
	for name, p := range shapes(t) {
		t.Run(name, func(t *testing.T) {
			crashAtEveryAppend(t, name, p, 3, plain, func(*testing.T) journal.Store { return memory.New() })
		})
	}
}

// The same in a file, where the second engine finds what the first one left in
// another connection's cache, if anything.
func TestCrashAtEveryAppendInAFile(t *testing.T) {
	for name, p := range shapes(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crashAtEveryAppend(t, name, p, 2, plain, func(t *testing.T) journal.Store {
				s, err := sqlite.Open(filepath.Join(t.TempDir(), "j.db"), sqlite.Options{Relaxed: true})
				if err != nil {
					t.Fatal(err)
				}
				return s
			})
		})
	}
}

// plain is a kind as it is.
func plain(k *testKind) step.Runner { return k }

func crashAtEveryAppend(t *testing.T, name string, p *ir.Program, again int, as func(*testKind) step.Runner, disk func(*testing.T) journal.Store) {
	calm := newKind()
	calm.fail["flaky"] = 2
	store := disk(t)
	defer store.Close()
	e := open(t, store, as(calm), "calm")
	begin(t, e, p)
	want, err := finish(t, e)
	if err != nil || want.Outcome != "ok" {
		t.Fatalf("undisturbed: %+v, %v", want, err)
	}
	appends := 0
	for range store.Tail(t.Context(), 0) {
		appends++
	}
	for first := 1; first <= appends; first++ {
		for _, after := range []bool{false, true} {
			for second := 1; second <= again; second++ {
				label := fmt.Sprintf("append %d, after %t, then %d", first, after, second)
				kind := newKind()
				kind.fail["flaky"] = 2
				disk := disk(t)
				e := open(t, &stopping{Store: disk, left: first, after: after}, as(kind), "one")
				err := e.Start(t.Context(), id, &engine.Definition{Program: p}, json.RawMessage("{}"), nil, journal.Actor{})
				if err == nil {
					finish(t, e)
				}
				stop(e)
				if _, err := disk.Entry(t.Context(), id); errors.Is(err, journal.ErrUnknownRun) {
					disk.Close()
					continue // it never began
				}
				e = open(t, &stopping{Store: disk, left: second, after: !after}, as(kind), "two")
				finish(t, e)
				stop(e)
				e = open(t, disk, as(kind), "three")
				got, err := finish(t, e)
				stop(e)
				if err != nil {
					t.Fatalf("%s: %v", label, err)
				}
				if got.Status != want.Status || got.Outcome != want.Outcome {
					t.Fatalf("%s: %+v, not %+v", label, got, want)
				}
				// A model call may be repeated when nobody knows whether it was
				// made; but nothing may be left out, and nothing that returned
				// may be done again.
				for key := range calm.done {
					if kind.done[key] == 0 {
						t.Fatalf("%s: %s was never done", label, key)
					}
				}
				for key, n := range kind.done {
					if calm.done[key] == 0 && name != "join any" {
						t.Fatalf("%s: %s should not have been done", label, key)
					}
					if n > 3 {
						t.Fatalf("%s: %s was done %d times", label, key, n)
					}
				}
				ended := map[string]int{}
				for e, err := range disk.Events(t.Context(), id, 0) {
					if err != nil {
						t.Fatal(err)
					}
					if x, ok := e.Fact.(journal.TaskEnded); ok {
						ended[x.Key()]++
					}
				}
				for key, n := range ended {
					if n != 1 {
						t.Fatalf("%s: %s has %d results", label, key, n)
					}
				}
				if err := disk.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

func TestRunToTheEnd(t *testing.T) {
	for name, p := range shapes(t) {
		t.Run(name, func(t *testing.T) {
			kind := newKind()
			kind.fail["flaky"] = 2
			store := memory.New()
			e := open(t, store, kind, "one")
			begin(t, e, p)
			got, err := finish(t, e)
			if err != nil || got.Outcome != "ok" {
				t.Fatalf("%+v, %v: %v", got, err, facts(t, store))
			}
			for key, n := range kind.done {
				if n != 1 {
					t.Errorf("%s was done %d times", key, n)
				}
			}
		})
	}
}

func TestWaitingRunsAreForgotten(t *testing.T) {
	store := memory.New()
	e := open(t, store, newKind(), "one")
	begin(t, e, program([]ir.Step{task("a"), {ID: "g", Action: ir.Gate{Decider: ir.Person}}, task("b")}))
	entry := rest(t, e)
	if entry.Status != journal.Waiting || entry.Waiting != "approval: g" || entry.Owner != "" {
		t.Errorf("%+v", entry)
	}
	if e.Owns(id) {
		t.Error("a waiting run is still in memory")
	}
}

// beingDone is an engine in which task a is being done, which nobody may do again
// without being asked, and b comes next.
func beingDone(t *testing.T) (*embedded.Engine, *memory.Store, *testKind) {
	t.Helper()
	k, disk, started := newKind(), memory.New(), make(chan struct{})
	k.recovery = step.Ask
	k.hold = func(ctx context.Context, job *step.Job) error {
		close(started)
		<-ctx.Done()
		return ctx.Err()
	}
	e := open(t, disk, k, "one")
	begin(t, e, program([]ir.Step{task("a"), task("b")}))
	<-started
	return e, disk, k
}

func TestInDoubt(t *testing.T) {
	e, disk, kind := beingDone(t)
	stop(e) // parks the run with task a open
	kind.hold = nil
	e = open(t, disk, kind, "two")
	if err := e.Resume(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if entry := rest(t, e); entry.Waiting != "doubt: a" {
		t.Fatalf("%+v", entry)
	}
	if kind.done["a#0"] != 0 {
		t.Error("done again without asking")
	}
	if err := e.Send(t.Context(), id, plan.Decision{Step: "a", Answer: plan.AnswerResult, Value: json.RawMessage(`"told"`)}, "r"); err != nil {
		t.Fatal(err)
	}
	if entry := rest(t, e); entry.Outcome != "ok" {
		t.Errorf("%+v", entry)
	}
	if kind.done["a#0"] != 0 || kind.done["b#0"] != 1 {
		t.Errorf("%v", kind.done)
	}
}

// Who knows what has become of a task need not wait until somebody asks. While
// it is being done nobody does.
func TestDecidedBeforeItIsAsked(t *testing.T) {
	e, disk, kind := beingDone(t)
	told := func(step string) error {
		return e.Send(t.Context(), id, plan.Decision{Step: step, Answer: plan.AnswerResult, Value: json.RawMessage(`"told"`)}, "r")
	}
	refused := func(err error) {
		t.Helper()
		if r, ok := plan.IsRefusal(err); !ok || r.Code != plan.NoGate {
			t.Errorf("%v", err)
		}
	}
	refused(told("a"))
	stop(e)
	kind.hold = nil
	e = open(t, disk, kind, "two")
	refused(told("b"))
	if err := told("a"); err != nil {
		t.Fatal(err)
	}
	if entry := rest(t, e); entry.Outcome != "ok" || kind.done["a#0"] != 0 || kind.done["b#0"] != 1 {
		t.Errorf("%+v, %v", entry, kind.done)
	}
}

// reserving asks for budget before each of three calls and notes each one.
func reserving(used int64) func(ctx context.Context, job *step.Job) error {
	return func(ctx context.Context, job *step.Job) error {
		for turn := len(job.History); turn < 3; turn++ {
			n, err := job.Log.Reserve(ctx, journal.Usage{OutputTokens: 100})
			if err != nil {
				return err
			}
			if err := job.Log.Note(ctx, step.Note{Kind: "reply", Data: turn, Settles: n, Usage: journal.Usage{OutputTokens: used}}); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestBudgetParksAndGoesOnInsideTheStep(t *testing.T) {
	kind := newKind()
	kind.hold = reserving(40)
	p := program([]ir.Step{task("a")})
	p.Budget.Tokens = &ir.Limit{Max: 150}
	disk := memory.New()
	e := open(t, disk, kind, "one")
	begin(t, e, p)
	if entry := rest(t, e); entry.Status != journal.Exceeded {
		t.Fatalf("%+v", entry)
	}
	if err := e.Send(t.Context(), id, plan.Raise{Budget: plan.BudgetTokens, To: 1000}, "r"); err != nil {
		t.Fatal(err)
	}
	if entry := rest(t, e); entry.Outcome != "ok" {
		t.Fatalf("%+v", entry)
	}
	notes := 0
	for _, f := range facts(t, disk) {
		if f == "TaskNoted" {
			notes++
		}
	}
	if notes != 3 {
		t.Errorf("%d calls were made, not 3", notes)
	}
}

func TestRefusals(t *testing.T) {
	e := open(t, memory.New(), newKind(), "one")
	begin(t, e, program([]ir.Step{{ID: "g", Action: ir.Gate{Decider: ir.Person}}}))
	rest(t, e)
	err := e.Send(t.Context(), id, plan.Decision{Step: "g", Answer: plan.Approve, Digest: "other"}, "r")
	if r, ok := plan.IsRefusal(err); !ok || r.Code != plan.Changed {
		t.Errorf("%v", err)
	}
	if !answer(t, e) {
		t.Fatal("nothing asked")
	}
	if entry := rest(t, e); entry.Outcome != "ok" {
		t.Errorf("%+v", entry)
	}
}

func TestLargeValuesAreKeptOnce(t *testing.T) {
	big := json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)
	disk := memory.New()
	e := open(t, disk, newKind(), "one")
	p := program([]ir.Step{task("a")})
	if err := e.Start(t.Context(), id, &engine.Definition{Program: p}, big, nil, journal.Actor{}); err != nil {
		t.Fatal(err)
	}
	rest(t, e)
	for event, err := range disk.Events(t.Context(), id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if x, ok := event.Fact.(journal.RunStarted); ok && (x.Input.Hash == "" || len(x.Input.JSON) > 0) {
			t.Error("the input stands in the journal")
		}
	}
	if _, _, _, err := e.Load(t.Context(), id); err != nil {
		t.Fatal(err)
	}
}

// How a run ended can be told without folding it, and is what folding tells.
func TestEnding(t *testing.T) {
	for name, p := range shapes(t) {
		t.Run(name, func(t *testing.T) {
			e := open(t, memory.New(), newKind(), "one")
			begin(t, e, p)
			if entry := rest(t, e); entry.Status != journal.Finished {
				if end, err := e.Ending(t.Context(), entry); err == nil {
					t.Errorf("a run that waits has ended: %+v", end)
				}
			}
			entry, err := finish(t, e)
			if err != nil {
				t.Fatal(err)
			}
			state, program, _, err := e.Load(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			want, err := program.Raw(state.Finished.Output)
			if err != nil {
				t.Fatal(err)
			}
			end, err := e.Ending(t.Context(), entry)
			if err != nil {
				t.Fatal(err)
			}
			if output, err := e.Raw(end.Output); err != nil || !bytes.Equal(output, want) {
				t.Errorf("%v\n%s\n%s", err, output, want)
			}
			if d := cmp.Diff(state.Finished, end); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestEffectsOfCalmRuns(t *testing.T) {
	kind := newKind()
	e := open(t, memory.New(), kind, "one")
	begin(t, e, program([]ir.Step{task("a"), task("b")}))
	rest(t, e)
	if diff := cmp.Diff([]string{"a#0", "b#0"}, slices.Sorted(maps.Keys(kind.done))); diff != "" {
		t.Error(diff)
	}
}
