package plan_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/ir/irtest"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/jsonfast"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/plan/plantest"
	"github.com/espalier-run/espalier/internal/source"
)

// world provides tasks, time and people for a plan, and checks the plan's three invariants after every batch.
type world struct {
	t     irtest.Reporter
	p     *plan.Program
	s     *plan.State
	log   []journal.Event
	now   journal.Millis
	tasks []journal.TaskID // running, in the order of their starts
	done  map[string]int   // executions by task key
	// do returns the result of a task; nil ends every task with its key as value.
	do    func(w journal.TaskID) plan.Result
	quick bool // do not check the invariants
}

// start starts a run of a program; an empty input means no values.
func start(t irtest.Reporter, program *ir.Program, input string) *world {
	t.Helper()
	w := &world{t: t, p: plan.Compile(program), now: 1000, done: map[string]int{}}
	if input == "" {
		input = "{}"
	}
	s, events := plan.Start(w.p, "run-1", journal.RunStarted{
		Name: program.Name, Input: journal.Value{JSON: json.RawMessage(input)}, Vars: plan.InitialVars(program),
		Budget: plan.LimitsOf(program),
	}, w.now, false)
	w.s = s
	w.record(events)
	return w
}

// send decides with inputs, and returns the events.
func (w *world) send(in ...plan.Input) []journal.Event {
	w.t.Helper()
	events := w.s.Decide(w.p, w.now, plantest.Current(w.s, in)...)
	w.record(events)
	return events
}

// record adds events to the log, and the tasks that they start to the running ones.
func (w *world) record(events []journal.Event) {
	w.t.Helper()
	w.log = append(w.log, events...)
	for i, e := range events {
		if want := journal.Seq(len(w.log) - len(events) + i + 1); e.Seq != want {
			w.t.Fatalf("event %d has the number %d", want, e.Seq)
		}
		if x, ok := e.Fact.(journal.TaskStarted); ok {
			w.tasks = append(w.tasks, x.TaskID)
		}
	}
	if !w.quick {
		w.checkInvariants()
	}
}

// checkInvariants checks that the fold equals the live state, that deciding again yields nothing unless the decision
// was cut, and that a snapshot round trip changes nothing.
func (w *world) checkInvariants() {
	w.t.Helper()
	live := string(w.s.Snapshot())
	var whole strings.Builder
	plain := json.NewEncoder(&whole)
	plain.SetEscapeHTML(false)
	if err := plain.Encode(w.s); err != nil {
		w.t.Fatal(err)
	}
	if diff := cmp.Diff(strings.TrimSpace(whole.String()), live); diff != "" {
		w.t.Fatalf("the snapshot is not all of the state:\n%s", diff)
	}
	if !jsonfast.ShapeOf(reflect.TypeFor[plan.State]()).Read([]byte(live), reflect.ValueOf(&plan.State{}).Elem()) {
		w.t.Fatalf("the snapshot is read the long way: %s", live)
	}
	folded := &plan.State{Run: w.s.Run}
	folded.Fold(w.log)
	if diff := cmp.Diff(live, string(folded.Snapshot())); diff != "" {
		w.t.Fatalf("the fold differs from the live state (-live +fold):\n%s", diff)
	}
	restored, err := plan.Restore([]byte(live))
	if err != nil {
		w.t.Fatal(err)
	}
	if diff := cmp.Diff(live, string(restored.Snapshot())); diff != "" {
		w.t.Fatalf("a snapshot round trip changes the state:\n%s", diff)
	}
	for name, s := range map[string]*plan.State{"folded": folded, "restored": restored} {
		liveWake, liveOK := w.s.Wake()
		wake, ok := s.Wake()
		if wake != liveWake || ok != liveOK {
			w.t.Fatalf("the %s state wakes at %d (%t), the live one at %d (%t)", name, wake, ok, liveWake, liveOK)
		}
		s.MarkAll()
		if more := s.Decide(w.p, w.s.At); len(more) > 0 && !w.s.Moving() {
			w.t.Fatalf("deciding again on the %s state yields %v", name, describe(more))
		}
	}
}

// checkpoint returns the latest checkpoint of a step in the log, which a rewind to the step needs. It reports false if
// the run has not reached the step.
func (w *world) checkpoint(step string) (latest plan.Checkpoint, reached bool) {
	s := &plan.State{Run: "run-1"}
	for i := range w.log {
		if at, ok := s.Reaches(&w.log[i], step); ok {
			latest, reached = at, true
		}
		s.Fold(w.log[i : i+1])
	}
	return latest, reached
}

// finishTask ends the n-th running task with the result that do returns.
func (w *world) finishTask(n int) {
	w.t.Helper()
	task := w.tasks[n]
	w.tasks = slices.Delete(w.tasks, n, n+1)
	w.done[task.Key()]++
	r := plan.Result{Outcome: journal.OutcomeOK}
	if w.do != nil {
		r = w.do(task)
	}
	r.Work = task
	if r.Outcome == journal.OutcomeOK && r.Value.IsZero() {
		r.Value = journal.Value{JSON: fmt.Appendf(nil, "%q", task.Key())}
	}
	w.send(r)
}

// run ends tasks and advances the time until the run rests. pick chooses among running tasks.
func (w *world) run(pick func(n int) int) {
	w.t.Helper()
	for range 100_000 {
		if len(w.tasks) > 0 {
			w.finishTask(pick(len(w.tasks)))
			continue
		}
		wake, ok := w.s.Wake()
		if !ok || w.s.Finished != nil || w.s.Paused || w.s.Expired {
			return
		}
		w.now = max(w.now, wake)
		if len(w.send()) == 0 {
			w.t.Fatalf("a timer at %d yields no events", wake)
		}
	}
	w.t.Fatal("the run does not come to rest")
}

// pickFirst makes run end the task that started first.
func pickFirst(int) int { return 0 }

// describe returns events in words, one per line.
func describe(events []journal.Event) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintln(&b, describeEvent(e))
	}
	return b.String()
}

// describeEvent returns the part of an event that tests compare. Other facts have their type alone.
func describeEvent(e journal.Event) string {
	switch x := e.Fact.(type) {
	case journal.TaskStarted:
		return withReplaced("start "+x.Key(), x.For)
	case journal.TaskEnded:
		return strings.TrimSpace(fmt.Sprintf("end %s %s %s", x.Key(), x.Outcome, x.Class))
	case journal.StepLeft:
		return withReplaced(
			strings.TrimSpace(fmt.Sprintf("left %s %s %s%s", x.Place.Key(), x.Outcome, x.Class, x.To)), x.For,
		)
	case journal.StepEntered:
		return fmt.Sprintf("enter %s %s", x.Place.Key(), x.Mode)
	case journal.FrameOpened:
		return "open " + x.Frame
	case journal.FrameClosed:
		return strings.TrimSpace(fmt.Sprintf("close %s %s %s", x.Frame, x.Outcome, x.Class))
	case journal.GateOpened:
		return fmt.Sprintf("ask %s %s", x.Place.Key(), x.Kind)
	case journal.GateDecided:
		return fmt.Sprintf("decided %s %s %s", x.Place.Key(), x.Outcome, x.Method)
	case journal.RetrySet:
		return fmt.Sprintf("retry %s at %d", x.Key(), x.Due)
	case journal.TimerFired:
		return fmt.Sprintf("timer %s %s", x.Place.Key(), x.What)
	case journal.RunFinished:
		return strings.TrimSpace(fmt.Sprintf("finished %s %s", x.Outcome, x.Reason))
	case journal.BudgetWait:
		return fmt.Sprintf("short %s %s", x.Key(), x.Budget)
	case journal.BudgetRefused:
		return fmt.Sprintf("refused %s %s", x.Key(), x.Budget)
	case journal.Reserved:
		return fmt.Sprintf("reserved %s %d", x.Key(), x.N)
	case journal.Routed:
		var tried []string
		for _, one := range x.Tried {
			tried = append(tried, fmt.Sprintf("%d %s", one.Edge, map[bool]string{true: "yes", false: "no"}[one.Held]))
		}
		return fmt.Sprintf("routed %s [%s]", x.Step, strings.Join(tried, ", "))
	case journal.InputRefused:
		return "no: " + x.Why
	case journal.TaskLost:
		return fmt.Sprintf("lost %s %s", x.Key(), x.Policy)
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", e.Fact), "journal.")
}

// withReplaced adds the step that a fallback replaces.
func withReplaced(text, replaced string) string {
	if replaced != "" {
		return text + " for " + replaced
	}
	return text
}

// Builders of programs.

func program(steps ...ir.Step) *ir.Program {
	return &ir.Program{Name: "test", MayIntervene: true, Blocks: []ir.Block{{Steps: steps}}}
}

func on(to string, outcomes ...ir.Outcome) ir.Edge {
	return ir.Edge{On: outcomes, To: ir.Target{Step: to}}
}

func task(id string) ir.Step {
	return ir.Step{ID: id, Type: "task", Action: ir.Task{Kind: "test"}, Writes: []ir.Write{{Path: "state." + id}}}
}

var (
	chain          = irtest.Chain
	cond           = irtest.Cond
	lenientCond    = irtest.LenientCond
	agentFlowValue = irtest.Value
	awfValue       = irtest.AWFValue
)

// failing returns the results of tasks of which those of the steps, or with the keys, fail.
func failing(ids ...string) func(journal.TaskID) plan.Result {
	return func(w journal.TaskID) plan.Result {
		if slices.Contains(ids, w.Step) || slices.Contains(ids, w.Key()) {
			return plan.Result{Outcome: journal.OutcomeFailed, Class: "API_ERROR", Error: "no luck"}
		}
		return plan.Result{Outcome: journal.OutcomeOK}
	}
}

// value returns the result of a task that succeeds with a value.
func value(text string) plan.Result {
	return plan.Result{Outcome: journal.OutcomeOK, Value: journal.Value{JSON: json.RawMessage(text)}}
}

func limit(n int64) *ir.Limit { return &ir.Limit{Max: n} }

// TestProgramsTakeTheirPaths compares programs with the events that they lead to.
func TestProgramsTakeTheirPaths(t *testing.T) {
	edit := irtest.Edit
	for _, c := range []struct {
		name    string
		program func() *ir.Program
		input   string
		do      func(journal.TaskID) plan.Result
		want    string
	}{
		{
			name:    "one append carries the end of a step and the start of the next",
			program: func() *ir.Program { return program(chain(task("a"), task("b"))...) },
			want:    "start a#0; end a#0 ok; start b#0; end b#0 ok; finished ok",
		},
		{
			name: "a false condition skips",
			program: func() *ir.Program {
				return program(chain(task("a"), edit(task("b"), func(s *ir.Step) {
					s.When = cond(t, `state.a == "x"`)
				}), task("c"))...)
			},
			want: "start a#0; end a#0 ok; left b skipped; start c#0; end c#0 ok; finished ok",
		},
		{
			name: "a condition that cannot be evaluated fails the step",
			program: func() *ir.Program {
				return program(edit(task("a"), func(s *ir.Step) { s.When = cond(t, `input.n < "x"`) }))
			},
			input: `{"n": 1}`,
			want:  "left a failed CONDITION; finished failed CONDITION",
		},
		{
			name:    "a failure without anything else fails the run",
			program: func() *ir.Program { return program(chain(task("a"), task("b"))...) },
			do:      failing("a"),
			want:    "start a#0; end a#0 failed API_ERROR; finished failed API_ERROR",
		},
		{
			name: "skip on error",
			program: func() *ir.Program {
				return program(chain(edit(task("a"), func(s *ir.Step) { s.SkipOnError = true }), task("b"))...)
			},
			do:   failing("a"),
			want: "start a#0; end a#0 failed API_ERROR; start b#0; end b#0 ok; finished ok",
		},
		{
			name: "a fallback replaces a failed step and takes its transitions",
			program: func() *ir.Program {
				steps := chain(edit(task("a"), func(s *ir.Step) { s.Fallback = &ir.Name{Name: "spare"} }), task("b"))
				return program(append(steps, task("spare"))...)
			},
			do: failing("a"),
			want: "start a#0; end a#0 failed API_ERROR; start spare#0 for a; end spare#0 ok; start b#0; end b#0 ok; " +
				"finished ok",
		},
		{
			name: "a fallback replaces a skipped step",
			program: func() *ir.Program {
				steps := chain(edit(task("a"), func(s *ir.Step) {
					s.Fallback = &ir.Name{Name: "spare"}
					s.When = cond(t, "input.go == true")
				}), task("b"))
				return program(append(steps, task("spare"))...)
			},
			want: "left a skipped; start spare#0 for a; end spare#0 ok; start b#0; end b#0 ok; finished ok",
		},
		{
			name: "a fallback shared by two steps returns to each one's own successor",
			program: func() *ir.Program {
				spare := func(s *ir.Step) { s.Fallback = &ir.Name{Name: "spare"} }
				steps := chain(edit(task("a"), spare), task("b"), edit(task("c"), spare), task("d"))
				return program(append(steps, task("spare"))...)
			},
			do: failing("a", "c"),
			want: "start a#0; end a#0 failed API_ERROR; start spare~1#0 for a; end spare~1#0 ok; start b~1#0; end " +
				"b~1#0 ok; " +
				"start c~1#0; end c~1#0 failed API_ERROR; start spare~2#0 for c; end spare~2#0 ok; start d#0; end " +
				"d#0 ok; finished ok",
		},
		{
			name: "the fallback of a failed fallback follows its jump",
			program: func() *ir.Program {
				other := edit(task("other"), func(s *ir.Step) {
					s.Fallback, s.Next = &ir.Name{Name: "spare"}, []ir.Edge{on("c", ir.OK)}
				})
				a := edit(task("a"), func(s *ir.Step) { s.Fallback = &ir.Name{Name: "other"} })
				return program(append(chain(a, task("b"), task("c")), other, task("spare"))...)
			},
			do: failing("a", "other"),
			want: "start a#0; end a#0 failed API_ERROR; start other#0 for a; end other#0 failed API_ERROR; " +
				"start spare~1#0 for a; end spare~1#0 ok; start c#0; end c#0 ok; finished ok",
		},
		{
			name: "the fallback of a skipped fallback does not follow its jump",
			program: func() *ir.Program {
				other := edit(task("other"), func(s *ir.Step) {
					s.When = cond(t, "input.go == true")
					s.Fallback, s.Next = &ir.Name{Name: "spare"}, []ir.Edge{on("c", ir.OK)}
				})
				a := edit(task("a"), func(s *ir.Step) { s.Fallback = &ir.Name{Name: "other"} })
				return program(append(chain(a, task("b"), task("c")), other, task("spare"))...)
			},
			do: failing("a"),
			want: "start a#0; end a#0 failed API_ERROR; left other skipped for a; start spare~1#0 for a; " +
				"end spare~1#0 ok; start b#0; end b#0 ok; start c#0; end c#0 ok; finished ok",
		},
		{
			name: "the limits of edges count for all steps that take them",
			program: func() *ir.Program {
				once := func(to string) []ir.Edge {
					return []ir.Edge{{On: []ir.Outcome{ir.OK}, To: ir.Target{Step: to}, Limit: 1}}
				}
				a := edit(task("a"), func(s *ir.Step) { s.Fallback, s.Next = &ir.Name{Name: "other"}, once("b") })
				other := edit(task("other"), func(s *ir.Step) {
					s.Fallback, s.Next = &ir.Name{Name: "spare"}, once("a")
				})
				return program(a, task("b"), other, task("spare"))
			},
			do: failing("a", "other~1#0"),
			want: "start a~1#0; end a~1#0 failed API_ERROR; start other~1#0 for a; end other~1#0 failed API_ERROR; " +
				"start spare~1#0 for a; end spare~1#0 ok; " + // follows the edge of "other"
				"start a~2#0; end a~2#0 failed API_ERROR; start other~2#0 for a; end other~2#0 ok; " + // that of "a"
				"start b#0; end b#0 ok; finished ok",
		},
		{
			name: "the first edge that holds is taken",
			program: func() *ir.Program {
				pick := ir.Step{ID: "pick", Action: ir.Route{}, Next: []ir.Edge{
					{On: []ir.Outcome{ir.OK}, When: cond(t, `input.kind == "x"`), To: ir.Target{Step: "b"}},
					{On: []ir.Outcome{ir.OK}, When: cond(t, `input.kind == "y"`), To: ir.Target{Step: "a"}},
					{On: []ir.Outcome{ir.OK}, To: ir.Target{Exit: ir.ExitFail, Reason: "NO_BRANCH"}},
				}}
				return program(pick, task("a"), task("b"))
			},
			input: `{"kind": "y"}`,
			want:  "left pick ok; routed pick [0 no, 1 yes]; start a#0; end a#0 ok; finished ok",
		},
		{
			name: "no edge matches",
			program: func() *ir.Program {
				return program(ir.Step{ID: "pick", Action: ir.Route{}, Next: []ir.Edge{{
					On: []ir.Outcome{ir.OK}, To: ir.Target{Exit: ir.ExitFail, Reason: "NO_BRANCH"},
				}}})
			},
			want: "left pick failed NO_BRANCH; finished failed NO_BRANCH",
		},
		{
			name: "a limited edge is taken up to its limit",
			program: func() *ir.Program {
				b := task("b")
				b.Next = []ir.Edge{{On: []ir.Outcome{ir.OK}, To: ir.Target{Step: "a"}, Limit: 2}}
				return program(chain(task("a"), b)...)
			},
			want: "start a~1#0; end a~1#0 ok; start b~1#0; end b~1#0 ok; start a~2#0; end a~2#0 ok; start b~2#0; end " +
				"b~2#0 ok; " +
				"start a~3#0; end a~3#0 ok; start b~3#0; end b~3#0 ok; finished ok",
		},
		{
			name: "a step fails after its retries",
			program: func() *ir.Program {
				return program(edit(task("a"), func(s *ir.Step) {
					s.Retry = &ir.Retry{MaxAttempts: 3, Backoff: ir.List, Delays: []ir.Millis{500, 2000}}
				}))
			},
			do: failing("a"),
			want: "start a#0; end a#0 failed API_ERROR; retry a#1 at 1500; timer a retry; start a#1; end a#1 failed " +
				"API_ERROR; " +
				"retry a#2 at 3500; timer a retry; start a#2; end a#2 failed API_ERROR; finished failed API_ERROR",
		},
		{
			name: "an error class that is not listed is not retried",
			program: func() *ir.Program {
				return program(edit(task("a"), func(s *ir.Step) {
					s.Retry = &ir.Retry{MaxAttempts: 3, Backoff: ir.Constant, On: []ir.Class{"TIMEOUT"}}
				}))
			},
			do:   failing("a"),
			want: "start a#0; end a#0 failed API_ERROR; finished failed API_ERROR",
		},
		{
			name: "an error of a permanent class is not retried",
			program: func() *ir.Program {
				return program(edit(task("a"), func(s *ir.Step) {
					s.Retry = &ir.Retry{
						MaxAttempts: 3, Backoff: ir.Constant,
					}
				}))
			},
			do: func(journal.TaskID) plan.Result {
				return plan.Result{Outcome: journal.OutcomeFailed, Class: "NOT_READY"}
			},
			want: "start a#0; end a#0 failed NOT_READY; finished failed NOT_READY",
		},
		{
			name: "a result without a written part is invalid",
			program: func() *ir.Program {
				return program(edit(task("a"), func(s *ir.Step) {
					s.Writes = []ir.Write{{Path: "state.x", Part: "x"}, {Path: "state.y", Part: "y"}}
				}))
			},
			do:   func(journal.TaskID) plan.Result { return value(`{"x": 1}`) },
			want: "start a#0; end a#0 failed INVALID_OUTPUT; finished failed INVALID_OUTPUT",
		},
		{
			name: "a critic approves",
			program: func() *ir.Program {
				return program(chain(ir.Step{ID: "g", Action: ir.Gate{Decider: ir.Work, Verdict: &ir.Task{
					Kind: "agent",
				}}}, task("b"))...)
			},
			do:   func(w journal.TaskID) plan.Result { return value(`{"approved": true}`) },
			want: "start g:verdict#0; end g:verdict#0 ok; start b#0; end b#0 ok; finished ok",
		},
		{
			name: "a critic rejects and ends the run as rejected",
			program: func() *ir.Program {
				return program(chain(ir.Step{ID: "g", Action: ir.Gate{Decider: ir.Work, Verdict: &ir.Task{
					Kind: "agent",
				}}}, task("b"))...)
			},
			do:   func(w journal.TaskID) plan.Result { return value(`{"approved": false}`) },
			want: "start g:verdict#0; end g:verdict#0 rejected; finished rejected GATE_REJECTED",
		},
		{
			name: "an invalid verdict is never an approval",
			program: func() *ir.Program {
				return program(ir.Step{ID: "g", Action: ir.Gate{Decider: ir.Work, Verdict: &ir.Task{Kind: "agent"}}})
			},
			do:   func(w journal.TaskID) plan.Result { return value(`{"approved": "yes"}`) },
			want: "start g:verdict#0; end g:verdict#0 failed INVALID_OUTPUT; finished failed INVALID_OUTPUT",
		},
		{
			name: "an end step before other steps ends the run",
			program: func() *ir.Program {
				return program(chain(task("a"), ir.Step{ID: "stop", Action: ir.End{}}, task("b"))...)
			},
			want: "start a#0; end a#0 ok; left stop ok; finished ok",
		},
		{
			name: "a stop condition",
			program: func() *ir.Program {
				return program(
					chain(edit(task("a"), func(s *ir.Step) { s.StopWhen = cond(t, `state.a == "a#0"`) }), task("b"))...,
				)
			},
			want: "start a#0; end a#0 ok; finished ok",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := start(t, c.program(), c.input)
			w.do = c.do
			w.run(pickFirst)
			got := strings.ReplaceAll(strings.TrimSpace(describe(w.log[1:])), "\n", "; ")
			if diff := cmp.Diff(strings.ReplaceAll(c.want, "; ", "\n"), strings.ReplaceAll(
				got, "; ", "\n",
			)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// branches returns a parallel step with branches of one task each.
func branches(p *ir.Program, id string, join ir.Join, most int, names ...string) ir.Step {
	par := ir.Parallel{Join: join, MaxConcurrent: most}
	for _, n := range names {
		par.Branches = append(par.Branches, ir.Branch{Name: n, Block: p.AddBlock(ir.Block{Steps: []ir.Step{task(n)}})})
	}
	return ir.Step{ID: id, Action: par}
}

func TestJoinsDecideTheOutcome(t *testing.T) {
	for _, c := range []struct {
		name string
		join ir.Join
		most int
		do   func(journal.TaskID) plan.Result
		pick func(int) int
		want string
	}{
		{name: "all", join: ir.JoinAll, want: "finished ok"},
		{name: "one at a time", join: ir.JoinAll, most: 1, want: "finished ok"},
		{name: "all, one fails", join: ir.JoinAll, do: failing("y"), want: "finished failed API_ERROR"},
		{name: "any, one fails", join: ir.JoinAny, do: failing("x"), want: "finished ok"},
		{name: "any, all fail", join: ir.JoinAny, do: failing("x", "y", "z"), want: "finished failed API_ERROR"},
		{name: "settle, one fails", join: ir.JoinSettle, do: failing("x"), want: "finished failed API_ERROR"},
		{name: "best effort", join: ir.JoinBest, do: failing("x", "y", "z"), want: "finished ok"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := program()
			p.Blocks[0].Steps = chain(branches(p, "fan", c.join, c.most, "x", "y", "z"), task("after"))
			w := start(t, p, "")
			w.do = func(task journal.TaskID) plan.Result {
				if f := w.s.Frames[task.Frame]; f != nil && f.Canceled {
					return plan.Result{Outcome: journal.OutcomeCanceled}
				}
				if c.do == nil {
					return plan.Result{Outcome: journal.OutcomeOK}
				}
				return c.do(task)
			}
			w.run(pickFirst)
			if got := describeEvent(w.log[len(w.log)-1]); got != c.want {
				t.Errorf("got %s, want %s\n%s", got, c.want, describe(w.log))
			}
			started, ended := 0, 0
			for _, e := range w.log {
				switch e.Fact.(type) {
				case journal.FrameOpened, journal.TaskStarted:
					started++
				case journal.FrameClosed, journal.TaskEnded:
					ended++
				}
			}
			if started != ended {
				t.Errorf("%d frames and tasks began, %d ended\n%s", started, ended, describe(w.log))
			}
		})
	}
}

func TestBranchesMergeInBranchOrder(t *testing.T) {
	p := program()
	fan := branches(p, "fan", ir.JoinAll, 0, "x", "y")
	for b := 1; b <= 2; b++ {
		p.Blocks[b].Steps[0].Writes = []ir.Write{{Path: "state.same"}}
	}
	p.Blocks[0].Steps = chain(fan, task("after"))
	for _, order := range [][]int{{0, 0}, {1, 0}} {
		w := start(t, p, "")
		w.finishTask(order[0])
		w.finishTask(order[1])
		if got := string(w.s.Root().Scope["state.same"].JSON); got != `"fan/y/y#0"` {
			t.Errorf("order %v: the last branch wins, got %s", order, got)
		}
	}
}

func TestBranchesDoNotSeeEachOther(t *testing.T) {
	p := program()
	fan := branches(p, "fan", ir.JoinAll, 0, "x", "y")
	p.Blocks[2].Steps[0].When = cond(t, `state.x != null`)
	p.Blocks[0].Steps = []ir.Step{fan}
	w := start(t, p, "")
	w.run(pickFirst)
	if w.done["fan/y/y#0"] != 0 {
		t.Error("branch y saw what branch x wrote")
	}
}

func TestLoopsExitEarly(t *testing.T) {
	p := program()
	body := p.AddBlock(ir.Block{Steps: []ir.Step{{
		ID: "body", Action: ir.Task{Kind: "test"}, Writes: []ir.Write{{Path: "state.seen", Reducer: ir.Append}},
		Next: []ir.Edge{{On: []ir.Outcome{ir.OK}, When: cond(t, `item == "c"`), To: ir.Target{Step: "found"}}},
	}}})
	loop := ir.Step{
		ID: "each", Action: ir.Loop{Block: body, Each: &ir.Each{Items: agentFlowValue(t, "input.list"), Var: "item"}},
		Next: []ir.Edge{on("none", ir.OK)},
	}
	p.Blocks[0].Steps = []ir.Step{loop, task("found"), task("none")}
	w := start(t, p, `{"list": ["a", "b", "c", "d"]}`)
	w.run(pickFirst)
	if w.done["each/2/body#0"] != 1 || w.done["each/3/body#0"] != 0 || w.done["found#0"] != 1 || w.done["none#0"] != 0 {
		t.Errorf("done: %v", w.done)
	}

	w = start(t, p, `{"list": ["a", "b"]}`)
	w.run(pickFirst)
	if w.done["found#0"] != 0 || w.done["none#0"] != 1 {
		t.Errorf("done: %v", w.done)
	}
}

func TestLoopsStopAtTheirLimits(t *testing.T) {
	loop := func(l ir.Loop) *ir.Program {
		p := program()
		l.Block = p.AddBlock(ir.Block{Steps: []ir.Step{task("body")}})
		p.Blocks[0].Steps = []ir.Step{{ID: "loop", Action: l}}
		return p
	}
	each := &ir.Each{Items: agentFlowValue(t, "input.list"), Var: "item"}
	for _, c := range []struct {
		name string
		loop ir.Loop
		want string
		n    int
	}{
		{"while", ir.Loop{While: cond(t, "loop.index < 3")}, "finished ok", 3},
		{"while reaches its limit and ends well", ir.Loop{While: cond(t, "loop.index < 30"), Max: 2}, "finished ok", 2},
		{
			"or fails",
			ir.Loop{While: cond(t, "loop.index < 30"), Max: 2, FailAtMax: true},
			"finished failed LOOP_LIMIT", 2,
		},
		{"a list is never cut short in silence", ir.Loop{Each: each, Max: 2}, "finished failed LOOP_LIMIT", 2},
		{"a list that just fits", ir.Loop{Each: each, Max: 3}, "finished ok", 3},
		{"break", ir.Loop{Each: each, BreakWhen: cond(t, "item == 2")}, "finished ok", 2},
		{
			"a condition to stop that has no value",
			ir.Loop{Each: each, BreakWhen: lenientCond(t, "item > 'x'")},
			"finished ok", 3,
		},
		{
			"a computed limit",
			ir.Loop{While: cond(t, "loop.index < 30"), MaxExpr: agentFlowValue(t, "input.most")},
			"finished ok", 1,
		},
		{
			"a computed limit beyond what there can be",
			ir.Loop{While: cond(t, "loop.index < 30"), Max: 10, MaxExpr: agentFlowValue(t, "input.many")},
			"finished failed CONDITION", 0,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := start(t, loop(c.loop), `{"list": [1, 2, 3], "most": 1, "many": 11}`)
			w.run(pickFirst)
			if got := describeEvent(w.log[len(w.log)-1]); got != c.want || len(w.done) != c.n {
				t.Errorf("got %s after %d iterations, want %s after %d", got, len(w.done), c.want, c.n)
			}
		})
	}
}

// Delays with jitter differ between attempts and between runs, stay within their share, and are the same when the same
// run is decided again.
func TestJitterIsDeterministic(t *testing.T) {
	retried := task("send")
	retried.Retry = &ir.Retry{MaxAttempts: 6, Backoff: ir.Constant, Delays: []ir.Millis{10_000}, Jitter: 0.2}
	p := plan.Compile(program(retried))
	delays := func(run journal.RunID) (out []journal.Millis) {
		s, events := plan.Start(p, run, journal.RunStarted{}, 1000, false)
		for s.Finished == nil {
			for _, e := range events {
				switch x := e.Fact.(type) {
				case journal.TaskStarted:
					events = s.Decide(p, s.At, plan.Result{Work: x.TaskID, Outcome: journal.OutcomeFailed, Error: "no"})
				case journal.RetrySet:
					out = append(out, x.Due-e.At)
					events = s.Decide(p, x.Due)
				}
			}
		}
		return out
	}
	seen := map[journal.Millis]bool{}
	const runs = 20
	for i := range runs {
		run := journal.RunID(fmt.Sprintf("run-%d", i))
		first := delays(run)
		if diff := cmp.Diff(first, delays(run)); diff != "" || len(first) != 5 {
			t.Fatalf("%d delays, decided again:\n%s", len(first), diff)
		}
		for _, d := range first {
			if d < 8000 || d > 12_000 {
				t.Errorf("a delay of %d", d)
			}
			seen[d] = true
		}
	}
	if len(seen) < runs*5*9/10 {
		t.Errorf("of %d delays only %d differ", runs*5, len(seen))
	}
}

// A cycle ends, whatever its steps do and whichever edges lead back, including edges for failures.
func TestCyclesEnd(t *testing.T) {
	caught := func(s ir.Step, next ...ir.Edge) ir.Step {
		s.Next = next
		return s
	}
	pick := ir.Step{ID: "pick", Action: ir.Route{}}
	for name, steps := range map[string][]ir.Step{
		"a step that fails":                      {caught(task("a"), on("a", ir.Failed))},
		"a step that leads back however it ends": {caught(task("a"), on("a", ir.OK, ir.Failed))},
		"two steps that fail": {
			caught(task("a"), on("b", ir.Failed)), caught(task("b"), on("a", ir.Failed)),
		},
		"nothing but choices": {caught(pick, on("pick", ir.OK, ir.Failed))},
		"a failure that has a way out of its own": {
			caught(task("a"), on("a", ir.OK), on("out", ir.Failed)), task("out"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, program(steps...), "")
			w.quick = true
			if strings.Contains(name, "that fail") {
				w.do = func(journal.TaskID) plan.Result {
					return plan.Result{
						Outcome: journal.OutcomeFailed, Error: "no",
					}
				}
			}
			w.run(pickFirst)
			w.checkInvariants()
			if w.s.Finished == nil || len(w.log) > 10_000 {
				t.Fatalf("%d events, finished: %v", len(w.log), w.s.Finished)
			}
			ok := w.done["out#0"] == 1
			if over := strings.Contains(w.s.Finished.Error, "has been reached 1000 times"); over == ok ||
				ok != (w.s.Finished.Outcome == journal.OutcomeOK) {
				t.Errorf("%+v", w.s.Finished)
			}
		})
	}
}

func TestChildRunsReturnTheirOutput(t *testing.T) {
	child := program(chain(task("one"), task("two"))...)
	child.Blocks[0].Steps[1].Writes = []ir.Write{{Path: "output", Reducer: ir.Merge, Under: "result"}}
	p := program(chain(
		task("before"),
		ir.Step{
			ID: "call", Action: ir.Call{PassReads: true}, Reads: []ir.Ref{{Path: "state.before"}},
			Writes: []ir.Write{{Path: "state.got"}},
		},
		task("after"))...)
	p.Children = []ir.Program{*child}
	w := start(t, p, "")
	w.run(pickFirst)
	if got := string(w.s.Finished.Output.JSON); w.s.Finished.Outcome != "ok" {
		t.Fatalf("%s\n%s", got, describe(w.log))
	}
	var runs []journal.RunID
	for _, e := range w.log {
		if x, ok := e.Fact.(journal.StepLeft); ok && x.Step == "call" {
			if string(x.Value.JSON) != `{"result":"call/call/two#0"}` {
				t.Errorf("the child gave %s", x.Value.JSON)
			}
		}
		if x, ok := e.Fact.(journal.TaskStarted); ok {
			runs = append(runs, e.Run)
			_ = x
		}
	}
	id := plan.ChildID("run-1", "call/call")
	if diff := cmp.Diff([]journal.RunID{"", id, id, ""}, runs); diff != "" {
		t.Errorf("events carry the run they belong to:\n%s", diff)
	}
}

func TestGatesTakeOneDecision(t *testing.T) {
	gate := func(g ir.Gate) *ir.Program {
		return program(chain(task("a"), ir.Step{ID: "g", Action: g, Reads: []ir.Ref{{
			Path: "state.a",
		}}, Writes: []ir.Write{{Path: "state.g"}}}, task("b"))...)
	}
	digest := func(w *world) string {
		_, d := w.s.Shown(w.p, w.s.OpenGates()[0])
		return d
	}
	t.Run("approve once", func(t *testing.T) {
		w := start(t, gate(ir.Gate{Decider: ir.Person}), "")
		w.run(pickFirst)
		if s := w.s.Summary(); s.Status != journal.Waiting || s.Waiting.String() != "approval: g" {
			t.Errorf("%+v", s)
		}
		d := digest(w)
		yes := plan.GateDecision{Step: "g", Answer: journal.AnswerApprove, Digest: d, By: journal.Actor{User: "eva"}}
		w.send(yes, yes)
		w.run(pickFirst)
		if got := describe(w.log); !strings.Contains(got, "decided g ok human_review") ||
			!strings.Contains(got, "no: nothing is waiting") {
			t.Error(got)
		}
	})
	t.Run("a claimed name never replaces the actor", func(t *testing.T) {
		w := start(t, gate(ir.Gate{Decider: ir.Person}), "")
		w.run(pickFirst)
		w.send(plan.GateDecision{
			Answer: journal.AnswerApprove, Digest: digest(w), By: journal.Actor{User: "eva", As: "boss"},
		})
		var got struct{ Actor, Claimed string }
		if err := json.Unmarshal(w.s.Root().Scope["state.g"].JSON, &got); err != nil || got.Actor != "eva" ||
			got.Claimed != "boss" {
			t.Errorf("%+v, %v", got, err)
		}
	})
	t.Run("a decision with another digest is refused", func(t *testing.T) {
		w := start(t, gate(ir.Gate{Decider: ir.Person}), "")
		w.run(pickFirst)
		d := digest(w)
		w.send(plan.Edit{Path: "state.a", Value: json.RawMessage(`"changed"`)})
		err := w.s.Check(w.p, plan.GateDecision{Step: "g", Answer: journal.AnswerApprove, Digest: d})
		if r, ok := plan.IsRefusal(err); !ok || r.Code != plan.Changed {
			t.Errorf("got %v", err)
		}
	})
	t.Run("the facts have what was shown, and its digest can be computed from them", func(t *testing.T) {
		w := start(t, gate(ir.Gate{Decider: ir.Person}), "")
		w.run(pickFirst)
		w.send(plan.Edit{Path: "state.a", Value: json.RawMessage(`{"text": "<b>", "n": 1.0}`)})
		w.send(plan.GateDecision{Answer: journal.AnswerApprove, Digest: digest(w)})
		var opened journal.GateOpened
		var decided journal.GateDecided
		for _, e := range w.log {
			switch x := e.Fact.(type) {
			case journal.GateOpened:
				opened = x
			case journal.GateDecided:
				decided = x
			}
		}
		for _, c := range []struct {
			got         string
			shows       map[string]journal.Value
			want, value string
		}{
			{
				opened.Digest, opened.Shows, `{"gate":"g#0","kind":"person","reads":{"state.a":"a#0"},"run":"run-1"}`,
				`"a#0"`,
			},
			{
				decided.Digest, decided.Shows,
				`{"gate":"g#0","kind":"person","reads":{"state.a":{"n":1,"text":"<b>"}},"run":"run-1"}`,
				`{"n":1,"text":"\u003cb\u003e"}`,
			},
		} {
			sum := sha256.Sum256([]byte(c.want))
			if c.got != hex.EncodeToString(sum[:]) || string(c.shows["state.a"].JSON) != c.value {
				t.Errorf("%s of %s", c.got, c.shows["state.a"].JSON)
			}
		}
	})
	t.Run("approval and timeout race: the first input counts", func(t *testing.T) {
		w := start(t, gate(ir.Gate{Decider: ir.Person, Timeout: 100}), "")
		w.run(func(n int) int { return 0 })
		if w.s.Finished == nil || w.s.Finished.Reason != "TIMEOUT" {
			t.Errorf("%+v", w.s.Finished)
		}
		w = start(t, gate(ir.Gate{Decider: ir.Person, Timeout: 100}), "")
		w.finishTask(0)
		w.now += 500 // after the deadline, but the decision arrives before the timer
		w.send(plan.GateDecision{Answer: journal.AnswerApprove, Digest: digest(w)})
		w.run(pickFirst)
		if w.s.Finished.Outcome != "ok" {
			t.Errorf("%+v", w.s.Finished)
		}
	})
	t.Run("an event may arrive before its gate opens", func(t *testing.T) {
		w := start(t, gate(ir.Gate{Decider: ir.Event, Event: "papers"}), "")
		w.send(plan.Signal{Event: "papers", Data: json.RawMessage(`{"n":1}`)})
		w.run(pickFirst)
		if w.s.Finished == nil || w.done["b#0"] != 1 {
			t.Error(describe(w.log))
		}
		if err := w.s.Check(w.p, plan.Signal{Event: "papers"}); err == nil {
			t.Error("a run that is over takes no signals")
		}
	})
	t.Run("an unknown event is refused", func(t *testing.T) {
		w := start(t, gate(ir.Gate{Decider: ir.Event, Event: "papers"}), "")
		if r, ok := plan.IsRefusal(w.s.Check(w.p, plan.Signal{Event: "paper"})); !ok || r.Code != plan.Unknown {
			t.Error("not refused")
		}
	})
	t.Run("an event on an approval needs a verdict", func(t *testing.T) {
		w := start(t, gate(ir.Gate{Decider: ir.Person, Event: "ok"}), "")
		w.run(pickFirst)
		if r, ok := plan.IsRefusal(w.s.Check(w.p, plan.Signal{Event: "ok"})); !ok || r.Code != plan.WrongKind {
			t.Error("not refused")
		}
		w.send(plan.Signal{Event: "ok", Data: json.RawMessage(`{"approved": false}`)})
		if w.s.Finished == nil || w.s.Finished.Outcome != "rejected" {
			t.Error(describe(w.log))
		}
	})
	t.Run("skip on timeout", func(t *testing.T) {
		w := start(t, gate(ir.Gate{Decider: ir.Event, Event: "e", Timeout: 100, OnTimeout: ir.TimeoutSkip}), "")
		w.run(pickFirst)
		if w.s.Finished == nil || w.s.Finished.Outcome != "ok" {
			t.Error(describe(w.log))
		}
	})
}

func TestLostTasksFollowTheirRecovery(t *testing.T) {
	lost := func(policy journal.Recovery) *world {
		w := start(t, program(chain(task("a"), task("b"))...), "")
		task := w.tasks[0]
		w.tasks = nil
		w.send(plan.TaskLost{Work: task, Why: "crash", Policy: policy})
		return w
	}
	w := lost(journal.RecoveryRerun)
	if len(w.tasks) != 1 || w.tasks[0].Key() != "a#0" {
		t.Fatalf("the same task again, with the same key: %v", w.tasks)
	}
	w.run(pickFirst)
	if w.s.Spent.Used.Steps != 2 {
		t.Errorf("a rerun does not count as a step: %d", w.s.Spent.Used.Steps)
	}
	for answer, want := range map[journal.Answer]journal.Outcome{
		journal.AnswerRerun: "ok", journal.AnswerSkip: "ok", journal.AnswerResult: "ok", journal.AnswerFail: "failed",
	} {
		w := lost(journal.RecoveryAsk)
		if w.s.Summary().Waiting.String() != "doubt: a" {
			t.Errorf("%+v", w.s.Summary())
		}
		refused, _ := plan.IsRefusal(w.s.Check(w.p, plan.GateDecision{Step: "a", Answer: journal.AnswerApprove}))
		if refused == nil || refused.Code != plan.OutcomeUnknown || refused.Step != "a" ||
			refused.Why != `step "a" has an unknown outcome: it takes rerun or skip or fail or result, not approve` {
			t.Errorf("got %+v", refused)
		}
		w.send(plan.GateDecision{Step: "a", Answer: journal.AnswerApprove})
		if len(w.tasks) > 0 {
			t.Fatal("a doubt cannot be approved")
		}
		w.send(plan.GateDecision{Step: "a", Answer: answer, Value: json.RawMessage("1")})
		w.run(pickFirst)
		if w.s.Finished.Outcome != want {
			t.Errorf("%s: %+v", answer, w.s.Finished)
		}
	}
}

// Late messages of a lost execution of a task are not mistaken for those of its rerun.
func TestInputsOfALostExecutionAreRefused(t *testing.T) {
	w := start(t, program(task("a")), "")
	work := w.tasks[0]
	w.send(plan.TaskLost{Work: work, Why: "crash", Policy: journal.RecoveryRerun})
	const lost, rerun = -1, 1
	late := []plan.Input{
		plan.Note{Work: work, Rerun: lost, N: 1, Kind: "reply"},
		plan.Reserve{Work: work, Rerun: lost, N: 1, Amount: journal.Usage{OutputTokens: 1}},
		plan.Ask{Work: work, Rerun: lost, Call: "a#0/call:1"},
		plan.Sleep{Work: work, Rerun: lost, For: 1},
		plan.TaskLost{Work: work, Rerun: lost, Policy: journal.RecoveryRerun},
		plan.Result{Work: work, Rerun: lost, Outcome: journal.OutcomeOK},
	}
	for _, in := range late {
		events := w.send(in)
		if len(events) != 1 {
			t.Fatalf("%+v: %s", in, describe(events))
		}
		if x, ok := events[0].Fact.(journal.InputRefused); !ok || x.Code != string(plan.TooLate) {
			t.Errorf("%+v: %+v", in, events[0].Fact)
		}
	}
	w.send(plan.Note{Work: work, Rerun: rerun, N: 1, Kind: "reply"})
	w.send(plan.Result{Work: work, Rerun: rerun, Outcome: journal.OutcomeOK})
	if w.s.Finished == nil || w.s.Finished.Outcome != journal.OutcomeOK {
		t.Error(describe(w.log))
	}
}

// The attempt after a lost one is a new task: its notes count from the first one, and it counts as a step.
func TestAttemptAfterALostOneIsANewTask(t *testing.T) {
	step := task("a")
	step.Retry = &ir.Retry{MaxAttempts: 2, Backoff: ir.Constant, Delays: []ir.Millis{5}}
	w := start(t, program(chain(step)...), "")
	w.send(plan.Note{Work: w.tasks[0], N: 1, Kind: "command"})
	lost := w.tasks[0]
	w.tasks = nil
	w.send(plan.TaskLost{Work: lost, Why: "crash", Policy: journal.RecoveryRerun})
	w.do = func(journal.TaskID) plan.Result { return plan.Result{Outcome: journal.OutcomeFailed, Class: "TOOL"} }
	w.finishTask(0)
	w.now, _ = w.s.Wake()
	w.send()
	if len(w.tasks) != 1 || w.tasks[0].Key() != "a#1" {
		t.Fatalf("%v", w.tasks)
	}
	noted := w.send(plan.Note{Work: w.tasks[0], N: 1, Kind: "command"})
	if len(noted) != 1 {
		t.Errorf("the note of the second attempt is lost: %v", describe(noted))
	}
	if used := w.s.Root().Ledger.Used.Steps; used != 2 {
		t.Errorf("two attempts are %d steps", used)
	}
}

func TestBudgetsAreReservations(t *testing.T) {
	t.Run("an exhausted step budget stops the run until it is raised", func(t *testing.T) {
		p := program(chain(task("a"), task("b"), task("c"))...)
		p.Budget.Steps = limit(2)
		w := start(t, p, "")
		w.run(pickFirst)
		if s := w.s.Summary(); s.Status != journal.Exceeded || s.Waiting.String() != "budget: steps" {
			t.Fatalf("%+v\n%s", s, describe(w.log))
		}
		w.send(plan.Raise{Budget: ir.BudgetSteps, To: 2})
		w.send(plan.Raise{Budget: ir.BudgetSteps, To: 3})
		w.run(pickFirst)
		if w.s.Finished == nil || w.s.Finished.Outcome != "ok" {
			t.Error(describe(w.log))
		}
	})
	t.Run("parallel tasks never reserve more than the budget", func(t *testing.T) {
		p := program()
		var names []string
		for i := range 50 {
			names = append(names, fmt.Sprintf("w%d", i))
		}
		p.Blocks[0].Steps = []ir.Step{branches(p, "fan", ir.JoinAll, 0, names...)}
		p.Budget.Tokens = limit(300)
		w := start(t, p, "")
		for _, task := range w.tasks {
			w.send(plan.Reserve{Work: task, N: 1, Amount: journal.Usage{InputTokens: 60, OutputTokens: 40}})
			if held := w.s.Root().Ledger.Held; held.InputTokens+held.OutputTokens > 300 {
				t.Fatal("overshot")
			}
		}
		// Each granted call uses 30: others can continue, in order, until 300 are used.
		granted := 0
		for {
			f := slices.IndexFunc(w.tasks, func(task journal.TaskID) bool {
				return w.s.Frames[task.Frame].Reserved != nil
			})
			if f < 0 {
				break
			}
			granted++
			task := w.tasks[f]
			w.tasks = slices.Delete(w.tasks, f, f+1)
			w.send(plan.Note{Work: task, N: 1, Kind: "reply", Settles: 1, Usage: journal.Usage{OutputTokens: 30}},
				plan.Result{Work: task, Outcome: journal.OutcomeOK, Value: journal.Value{JSON: json.RawMessage("1")}})
		}
		used := w.s.Root().Ledger.Used
		if granted != 7 || used.OutputTokens != 210 || w.s.Summary().Status != journal.Exceeded {
			t.Errorf("%d granted, %d used, %+v", granted, used.OutputTokens, w.s.Summary())
		}
		w.send(plan.Raise{Budget: ir.BudgetTokens, To: 1 << 30})
		for _, task := range slices.Clone(w.tasks) {
			if w.s.Frames[task.Frame].Reserved == nil {
				t.Fatal("still waiting after the raise")
			}
		}
		w.run(pickFirst)
		if w.s.Finished.Outcome != "ok" {
			t.Error(describe(w.log[len(w.log)-3:]))
		}
	})
	t.Run("a branch's own budget fails the branch, not the others", func(t *testing.T) {
		p := program()
		fan := branches(p, "fan", ir.JoinBest, 0, "x", "y")
		par := fan.Action.(ir.Parallel)
		par.Branches[0].Budget.Tokens = limit(10)
		fan.Action = par
		p.Blocks[0].Steps = []ir.Step{fan}
		w := start(t, p, "")
		events := w.send(plan.Reserve{Work: w.tasks[0], N: 1, Amount: journal.Usage{OutputTokens: 20}})
		if got := describe(events); got != "refused fan/x/x#0 tokens\n" {
			t.Error(got)
		}
	})
	t.Run("a lost reservation is charged", func(t *testing.T) {
		p := program(task("a"))
		p.Budget.Tokens = limit(100)
		w := start(t, p, "")
		task := w.tasks[0]
		w.send(plan.Reserve{Work: task, N: 1, Amount: journal.Usage{OutputTokens: 70}})
		w.send(plan.TaskLost{Work: task, Policy: journal.RecoveryRerun})
		if l := w.s.Root().Ledger; l.Used.OutputTokens != 70 || l.Held.OutputTokens != 0 {
			t.Errorf("%+v", l)
		}
	})
	t.Run("the deadline counts active time and can be raised", func(t *testing.T) {
		p := program(chain(task("a"), ir.Step{ID: "g", Action: ir.Gate{Decider: ir.Event, Event: "e"}}, task("b"))...)
		p.Budget.ActiveSeconds = limit(10)
		w := start(t, p, "")
		w.now += 4000
		w.finishTask(0)
		w.now += 3_600_000 // waiting does not count
		w.send(plan.Signal{Event: "e"})
		wake, ok := w.s.Wake()
		if !ok || wake != w.now+6000 {
			t.Fatalf("wakes at %d, now %d", wake, w.now)
		}
		w.now = wake
		w.send()
		if s := w.s.Summary(); s.Status != journal.Running { // the task may finish its call
			t.Fatalf("%+v", s)
		}
		task := w.tasks[0]
		w.tasks = nil
		w.send(plan.TaskLost{Work: task, Why: "deadline", Policy: journal.RecoveryRerun})
		if s := w.s.Summary(); s.Status != journal.Exceeded {
			t.Fatalf("%+v", s)
		}
		w.send(plan.Raise{Budget: ir.BudgetDeadline, To: 20})
		w.run(pickFirst)
		if w.s.Finished == nil || w.s.Finished.Outcome != "ok" {
			t.Error(describe(w.log))
		}
	})
}

func TestCancelWaitsForTasksAndPauseHoldsThem(t *testing.T) {
	p := program()
	p.Blocks[0].Steps = chain(branches(p, "fan", ir.JoinAll, 0, "x", "y"), task("after"))
	w := start(t, p, "")
	w.send(plan.Cancel{Reason: "enough"})
	if w.s.Finished != nil {
		t.Fatal("a run is over only when its tasks are")
	}
	w.do = func(journal.TaskID) plan.Result { return plan.Result{Outcome: journal.OutcomeCanceled} }
	w.run(pickFirst)
	if w.s.Finished == nil || w.s.Finished.Outcome != "cancelled" {
		t.Error(describe(w.log))
	}

	w = start(t, program(chain(task("a"), task("b"))...), "")
	w.send(plan.Pause{})
	w.finishTask(0)
	if len(w.tasks) > 0 || w.s.Summary().Status != journal.PausedAt {
		t.Errorf("%+v", w.s.Summary())
	}
	w.send(plan.Continue{})
	w.run(pickFirst)
	if w.s.Finished == nil {
		t.Error(describe(w.log))
	}
}

// A step of frames has a time limit, exact to the millisecond. Running tasks and waiting for retries count; time
// without a process does not.
func TestStepTimeLimitsCountActiveTime(t *testing.T) {
	inside := task("body")
	inside.Retry = &ir.Retry{MaxAttempts: 3, Backoff: ir.Constant, Delays: []ir.Millis{200}}
	p := program()
	body := p.AddBlock(ir.Block{Steps: []ir.Step{inside}})
	loop := ir.Step{
		ID: "loop", Timeout: 500, Action: ir.Loop{Block: body, While: cond(t, "loop.index < 3")},
		Next: []ir.Edge{on("late", ir.Failed), on("fine", ir.OK)},
	}
	p.Blocks[0].Steps = []ir.Step{loop, task("late"), task("fine")}
	last := func(w *world) string { return describeEvent(w.log[len(w.log)-1]) }

	w := start(t, p, "")
	w.now += 300
	w.finishTask(0)
	w.now += 100
	until := w.now
	w.now += 3_600_000 // without a process
	gone := w.tasks[0]
	w.tasks = w.tasks[1:]
	w.send(plan.TaskLost{Work: gone, Why: "killed", Policy: journal.RecoveryRerun, Until: until})
	wake, ok := w.s.Wake()
	if at := w.log[len(w.log)-1].At; !ok || wake != at+100 {
		t.Fatalf("wakes at %d, begun at %d\n%s", wake, at, describe(w.log))
	}
	w.now = wake
	w.send()
	w.do = func(journal.TaskID) plan.Result { return plan.Result{Outcome: journal.OutcomeCanceled} }
	w.finishTask(0)
	if got := last(w); got != "start late#0" {
		t.Error(describe(w.log))
	}

	// Waiting for a retry counts, and no task starts without time left.
	w = start(t, p, "")
	w.do = failing("body")
	w.now += 100
	w.finishTask(0)
	w.now = nextWake(t, w)
	w.send()
	w.now += 150
	w.finishTask(0)
	w.now = nextWake(t, w) // after 500, before the third attempt
	w.send()
	if got := last(w); got != "start late#0" || w.done["loop/0/body#2"] > 0 {
		t.Error(describe(w.log))
	}
}

// The time limit of a step of frames can be an expression. It is evaluated when the step starts; later changes have no
// effect. An invalid value fails the step.
func TestStepTimeLimitsCanBeExpressions(t *testing.T) {
	holding := func(kind string, limit *expr.Expr) *ir.Program {
		p := program()
		s := ir.Step{
			ID: "hold", TimeoutExpr: limit, Next: []ir.Edge{on("late", ir.Failed), on("fine", ir.OK)},
			Retry: &ir.Retry{MaxAttempts: 2, Backoff: ir.Constant, Delays: []ir.Millis{1}},
		}
		switch kind {
		case "parallel":
			s.Action = ir.Parallel{Branches: []ir.Branch{{Name: "b", Block: p.AddBlock(ir.Block{
				Steps: chain(task("body"), task("more")),
			})}}, Join: ir.JoinAll}
		case "loop":
			s.Action = ir.Loop{
				Block: p.AddBlock(ir.Block{Steps: chain(task("body"), task("more"))}), While: cond(t, "loop.index < 1"),
			}
		case "call":
			p.Children = []ir.Program{*program(chain(task("body"), task("more"))...)}
			s.Action = ir.Call{}
		}
		p.Blocks[0].Steps = []ir.Step{s, task("late"), task("fine")}
		return p
	}
	last := func(w *world) string { return describeEvent(w.log[len(w.log)-1]) }
	entered := func(w *world) (limits []journal.Millis) {
		for _, e := range w.log {
			if x, ok := e.Fact.(journal.StepEntered); ok {
				limits = append(limits, x.Limit)
			}
		}
		return limits
	}
	filled := func(text string) *expr.Expr {
		e, problems := expr.ParseValue(expr.AWFTemplate, text, source.Span{})
		if problems.Errors() {
			t.Fatal(problems)
		}
		return e
	}
	for _, kind := range []string{"parallel", "loop", "call"} {
		p := holding(kind, filled("{{.inputs.limit}}"))
		for limit, want := range map[string]journal.Millis{
			`"500ms"`: 500, `"2"`: 2000, `2`: 2000, `" 1m30s\n"`: 90_000, `"1.5"`: 1500, `"0.0001"`: 1, `"3us"`: 1,
			`0.25`: 250, `"1e3"`: 1_000_000,
		} {
			w := start(t, p, `{"limit": `+limit+`}`)
			if got := entered(w); len(got) != 1 || got[0] != want || nextWake(t, w) != w.now+want {
				t.Errorf("%s, %s: %v\n%s", kind, limit, got, describe(w.log))
			}
			w.run(pickFirst)
			if got := w.done["fine#0"]; got != 1 {
				t.Errorf("%s, %s: not in time\n%s", kind, limit, describe(w.log))
			}
		}
		for limit, says := range map[string]string{
			`"soon"`: `"soon": use`, `""`: `"": use`, `"-3s"`: `"-3s": use`, `"0"`: `"0": use`, `-1`: `"-1": use`,
			`"NaN"`: `"NaN": use`, `"1e9"`: `"1e9": use`, `null`: ": use seconds",
			`"` + strings.Repeat("long", 100) + `"`: "longlong…",
		} {
			w := start(t, p, `{"limit": `+limit+`}`)
			x, ok := w.log[len(w.log)-2].Fact.(journal.StepLeft)
			if !ok || x.Class != ir.ClassInput || !strings.Contains(x.Error, says) ||
				!strings.HasPrefix(x.Error, `step "hold" has an invalid timeout `) || last(w) != "start late#0" ||
				len(entered(w)) > 0 {
				t.Errorf("%s, %s: %+v\n%s", kind, limit, x, describe(w.log))
			}
		}
		w := start(t, p, "") // the value is missing
		if x, ok := w.log[len(w.log)-2].Fact.(journal.StepLeft); !ok || x.Class != ir.ClassInput ||
			!strings.HasPrefix(x.Error, `the timeout of step "hold": `) || last(w) != "start late#0" {
			t.Error(kind, describe(w.log))
		}

		// Each attempt evaluates it when it starts, and stores the value for later processes.
		p = holding(kind, filled("{{.states.limit}}"))
		p.Vars = []ir.Var{{Path: "states.limit", Init: json.RawMessage(`"500ms"`)}}
		w = start(t, p, "")
		w.now += 100
		w.send(plan.Pause{})
		w.finishTask(0)
		w.now += 3_600_000
		w.send(plan.Edit{Path: "states.limit", Value: json.RawMessage(`"200ms"`)}, plan.Continue{})
		if due := nextWake(t, w); due != w.now+400 {
			t.Errorf("%s: due at %d, at %d\n%s", kind, due, w.now, describe(w.log))
		}
		w.now += 400
		w.send()
		w.do = func(journal.TaskID) plan.Result { return plan.Result{Outcome: journal.OutcomeCanceled} }
		w.finishTask(0)
		w.now = nextWake(t, w)
		w.send()
		if got := fmt.Sprint(entered(w)); got != "[500 200]" || nextWake(t, w) != w.now+200 {
			t.Error(kind, got, describe(w.log))
		}
	}
}

// nextWake returns the time of the next timer.
func nextWake(t *testing.T, w *world) journal.Millis {
	t.Helper()
	at, ok := w.s.Wake()
	if !ok {
		t.Fatal("the run has no timer")
	}
	return at
}

// A canceled program, also a child, ends with its cleanup step. Canceling again does not run it twice.
func TestCanceledProgramsCleanUp(t *testing.T) {
	child := program(chain(task("one"), task("two"))...)
	child.Blocks[0].Steps = append(child.Blocks[0].Steps, task("tidy"))
	child.OnCancel = "tidy"
	p := program(chain(ir.Step{ID: "call", Action: ir.Call{}}, task("after"))...)
	p.Blocks[0].Steps = append(p.Blocks[0].Steps, task("tell"))
	p.Children, p.OnCancel = []ir.Program{*child}, "tell"

	w := start(t, p, "")
	w.send(plan.Cancel{Reason: "enough"})
	w.do = func(task journal.TaskID) plan.Result {
		if task.Step == "one" {
			return plan.Result{Outcome: journal.OutcomeCanceled}
		}
		return plan.Result{Outcome: journal.OutcomeFailed} // the outcome does not matter
	}
	w.run(pickFirst)
	if w.done["call/call/tidy#0"] != 1 || w.done["tell#0"] != 1 || len(w.done) != 3 ||
		w.s.Finished.Outcome != "cancelled" {
		t.Error(describe(w.log))
	}

	w = start(t, p, "")
	w.send(plan.Pause{})
	w.send(plan.Cancel{})
	w.do = func(journal.TaskID) plan.Result { return plan.Result{Outcome: journal.OutcomeCanceled} }
	w.finishTask(0)
	w.send(plan.Cancel{})
	w.finishTask(0)
	w.send(plan.Cancel{})
	if w.run(pickFirst); w.s.Finished == nil || w.s.Finished.Outcome != "cancelled" {
		t.Error(describe(w.log))
	}

	w = start(t, p, "") // without a cancellation it does not run
	w.run(pickFirst)
	if w.done["tell#0"] != 0 || w.done["call/call/tidy#0"] != 0 || w.s.Finished.Outcome != "ok" {
		t.Error(describe(w.log))
	}
}

// TestAnyOrderOfTheSameResultsEndsTheSame checks the invariant that makes crashes, races and slow machines harmless.
func TestAnyOrderOfTheSameResultsEndsTheSame(t *testing.T) {
	p := program()
	inner := branches(p, "inner", ir.JoinSettle, 2, "p", "q", "r")
	outer := p.AddBlock(ir.Block{Steps: chain(task("first"), inner, task("last"))})
	retried := task("retried")
	retried.Retry = &ir.Retry{MaxAttempts: 3, Backoff: ir.Exponential, Delays: []ir.Millis{100}, Jitter: 0.5}
	body := p.AddBlock(ir.Block{Steps: chain(task("in1"), retried)})
	loop := p.AddBlock(ir.Block{Steps: []ir.Step{{ID: "loop", Action: ir.Loop{Block: body, Each: &ir.Each{
		Items: agentFlowValue(t, "[1, 2, 3]"), Var: "item",
	}}}}})
	p.Blocks[0].Steps = chain(task(
		"begin",
	), ir.Step{ID: "fan", Action: ir.Parallel{Join: ir.JoinAll, Branches: []ir.Branch{
		{Name: "a", Block: outer}, {Name: "b", Block: loop},
	}}}, task("end"))
	do := func(w journal.TaskID) plan.Result {
		if w.Step == "retried" && w.Attempt < 2 {
			return plan.Result{Outcome: journal.OutcomeFailed, Class: "TIMEOUT"}
		}
		return plan.Result{Outcome: journal.OutcomeOK}
	}
	final := ""
	for seed := range uint64(200) {
		w := start(t, p, "")
		w.quick = seed > 20
		w.do = do
		r := rand.New(rand.NewPCG(seed, 1))
		w.run(func(n int) int { return r.IntN(n) })
		keys := make([]string, 0, len(w.done))
		for key, n := range w.done {
			if n != 1 {
				t.Fatalf("seed %d: %s was done %d times", seed, key, n)
			}
			keys = append(keys, key)
		}
		slices.Sort(keys)
		got := fmt.Sprint(keys, w.s.Finished, w.s.Spent.Used)
		if final == "" {
			final = got
		}
		if got != final {
			t.Fatalf("seed %d ends otherwise:\n%s\n%s", seed, got, final)
		}
	}
}

func TestLongChainsStayLinear(t *testing.T) {
	var steps []ir.Step
	for i := range 20_000 {
		steps = append(steps, task(fmt.Sprintf("s%d", i)))
	}
	w := start(t, program(chain(steps...)...), "")
	w.quick = true
	w.run(pickFirst)
	if w.s.Finished.Outcome != "ok" || len(w.done) != 20_000 {
		t.Error("not done")
	}
}

// Decisions without tasks are cut: otherwise they would have to fit into memory, and could not be stopped.
func TestLongDecisionsAreCut(t *testing.T) {
	p := program()
	route := p.AddBlock(ir.Block{Steps: []ir.Step{{ID: "on", Action: ir.Route{}}}})
	inner := p.AddBlock(ir.Block{Steps: []ir.Step{{ID: "inner", Action: ir.Loop{
		Block: route, Max: 200, While: cond(t, "true"),
	}}}})
	p.Blocks[0].Steps = []ir.Step{{ID: "outer", Action: ir.Loop{Block: inner, Max: 200, While: cond(t, "true")}}}
	w := start(t, p, "")
	w.quick = true
	pieces := 1
	for ; w.s.Finished == nil; pieces++ {
		if n := len(w.send()); n == 0 || n > 11_000 || !w.s.Moving() && w.s.Finished == nil {
			t.Fatalf("%d facts at once, more: %t", n, w.s.Moving())
		}
		if pieces%5 == 0 {
			folded := &plan.State{Run: w.s.Run}
			folded.Fold(w.log)
			folded.MarkAll()
			w.s = folded // another process continues
		}
	}
	if w.s.Finished == nil || w.s.Finished.Outcome != journal.OutcomeOK || pieces < 10 {
		t.Errorf("%d pieces, %+v", pieces, w.s.Finished)
	}
	iterations := 0
	for _, e := range w.log {
		if x, ok := e.Fact.(journal.StepLeft); ok && x.Step == "on" {
			iterations++
		}
	}
	if iterations != 200*200 {
		t.Errorf("%d iterations", iterations)
	}
}
