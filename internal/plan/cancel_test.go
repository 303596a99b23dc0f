package plan_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/ir/irtest"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
)

// cancelTask ends a task as canceled.
func cancelTask(journal.TaskID) plan.Result { return canceledResult() }

// endTask ends the running task of a step.
func (w *world) endTask(step string, r plan.Result) {
	w.t.Helper()
	for i, task := range w.tasks {
		if task.Step == step {
			do := w.do
			w.do = func(journal.TaskID) plan.Result { return r }
			w.finishTask(i)
			w.do = do
			return
		}
	}
	w.t.Fatalf("step %q is not at work\n%s", step, describe(w.log))
}

// writingOutcome makes a step write its outcome and error, whatever they are.
func writingOutcome(t irtest.Reporter, s ir.Step) ir.Step {
	s.Writes = alwaysWrites(s.ID)
	s.Result = awfValue(t, `outcome + " " + failure.error`)
	return s
}

// A child that is canceled because the calling step has no time left still runs its cleanup step.
func TestCleanupRunsAfterATimeout(t *testing.T) {
	child := program(chain(task("one"), task("two"))...)
	child.Blocks[0].Steps = append(child.Blocks[0].Steps, task("tidy"))
	child.OnCancel = "tidy"
	p := program(ir.Step{ID: "call", Timeout: 500, Action: ir.Call{}, Next: []ir.Edge{on("late", ir.Failed)}}, task(
		"late",
	))
	p.Children = []ir.Program{*child}
	w := start(t, p, "")
	w.now = nextWake(t, w)
	w.send()
	w.endTask("one", plan.Result{Outcome: journal.OutcomeCanceled})
	if len(w.tasks) != 1 || w.tasks[0].Key() != "call/call/tidy#0" {
		t.Fatal(describe(w.log))
	}
	w.now += 1000 // cleanup may take its time
	w.run(pickFirst)
	if w.done["call/call/tidy#0"] != 1 || w.done["late#0"] != 1 || w.done["call/call/two#0"] != 0 {
		t.Error(describe(w.log))
	}
}

// Whatever phase a step is in when it is canceled, it makes the writes that it always makes, and earlier writes stay.
func TestCanceledStepsMakeTheirWrites(t *testing.T) {
	inner := func(p *ir.Program, s ...ir.Step) ir.BlockID { return p.AddBlock(ir.Block{Steps: chain(s...)}) }
	retried := writingOutcome(t, task("x"))
	retried.Retry = &ir.Retry{MaxAttempts: 2, Backoff: ir.Constant, Delays: []ir.Millis{1000}}
	asks := writingOutcome(t, ir.Step{ID: "x", Action: ir.Gate{Decider: ir.Person}})
	once := &ir.Each{Items: agentFlowValue(t, "input.list"), Var: "item"}
	for name, c := range map[string]struct {
		step  func(p *ir.Program) ir.Step
		until func(w *world) // brings the step to its phase
		want  string         // states.x and states.g
	}{
		"running task": {
			func(*ir.Program) ir.Step { return writingOutcome(t, task("x")) }, func(*world) {}, "cancelled cancelled|",
		},
		"open gate": {func(*ir.Program) ir.Step { return asks }, func(*world) {}, "cancelled cancelled|"},
		"unknown outcome": {func(*ir.Program) ir.Step { return writingOutcome(t, task("x")) }, func(w *world) {
			lost := w.tasks[0]
			w.tasks = nil
			w.send(plan.TaskLost{Work: lost, Why: "crash", Policy: journal.RecoveryAsk})
		}, "cancelled cancelled|"},
		"waiting for a retry": {func(*ir.Program) ir.Step { return retried }, func(w *world) {
			w.endTask("x", plan.Result{Outcome: journal.OutcomeFailed, Error: "no luck"})
		}, "cancelled cancelled|"},
		"a loop": {func(p *ir.Program) ir.Step {
			return writingOutcome(t, ir.Step{ID: "g", Action: ir.Loop{
				Each: once, Block: inner(p, writingOutcome(t, task("x")), writingOutcome(t, task("y"))),
			}})
		}, func(w *world) { w.endTask("x", value(`"done"`)) }, "done|cancelled cancelled"},
		"branches": {func(p *ir.Program) ir.Step {
			return writingOutcome(t, ir.Step{ID: "g", Action: ir.Parallel{Join: ir.JoinAll, Branches: []ir.Branch{
				{Name: "a", Block: inner(p, writingOutcome(t, task("x")))},
				{Name: "b", Block: inner(p, writingOutcome(t, task("y")))},
			}}})
		}, func(w *world) { w.endTask("x", value(`"done"`)) }, "done|cancelled cancelled"},
		"a loop in a branch": {func(p *ir.Program) ir.Step {
			loop := ir.Step{ID: "loop", Action: ir.Loop{
				Each: once, Block: inner(p, writingOutcome(t, task("x")), writingOutcome(t, task("y"))),
			}}
			return writingOutcome(t, ir.Step{ID: "g", Action: ir.Parallel{Join: ir.JoinAll, Branches: []ir.Branch{{
				Name: "a", Block: inner(p, loop),
			}}}})
		}, func(w *world) { w.endTask("x", value(`"done"`)) }, "done|cancelled cancelled"},
		"a call": {func(p *ir.Program) ir.Step {
			p.Children = []ir.Program{*program(writingOutcome(t, task("x")))}
			return writingOutcome(t, ir.Step{ID: "g", Action: ir.Call{}})
		}, func(*world) {}, "|cancelled cancelled"},
		"branches with a combine task": {func(p *ir.Program) ir.Step {
			return writingOutcome(t, ir.Step{ID: "g", Action: ir.Parallel{Join: ir.JoinSettle, Combine: &ir.Task{
				Kind: "combine",
			}, Branches: []ir.Branch{
				{Name: "a", Block: inner(p, writingOutcome(t, task("x")))},
				{Name: "b", Block: inner(p, writingOutcome(t, task("y")))},
			}}})
		}, func(w *world) { w.endTask("x", value(`"done"`)) }, "|cancelled cancelled"},
	} {
		t.Run(name, func(t *testing.T) {
			p := program()
			before := task("before")
			p.Blocks[0].Steps = append(chain(before, c.step(p)), ir.Step{ID: "tidy", Action: ir.Gate{
				Decider: ir.Person,
			}})
			p.OnCancel = "tidy"
			w := start(t, p, `{"list": [1, 2]}`)
			w.endTask("before", value(`"kept"`))
			c.until(w)
			w.send(plan.Cancel{})
			w.do = cancelTask
			w.run(pickFirst)
			text := func(path string) string { return strings.Trim(w.rootVar(path), `"`) }
			if got := text("states.x") + "|" + text("states.g"); got != c.want || text("state.before") != "kept" ||
				w.s.Root().Step != "tidy" {
				t.Errorf("got %s, want %s\n%s", got, c.want, describe(w.log))
			}
		})
	}
}

// The writes of a canceled branch do not replace those of the branch that won.
func TestCanceledBranchesDoNotOverwriteTheWinner(t *testing.T) {
	p := program()
	var fan ir.Parallel
	fan.Join = ir.JoinAny
	for _, name := range []string{"a", "b", "c"} {
		same := task("same")
		same.Writes = []ir.Write{{Path: "states.same", Always: true}}
		fan.Branches = append(fan.Branches, ir.Branch{Name: name, Block: p.AddBlock(ir.Block{Steps: []ir.Step{same}})})
	}
	p.Blocks[0].Steps = chain(ir.Step{ID: "fan", Action: fan}, ir.Step{ID: "wait", Action: ir.Gate{Decider: ir.Person}})
	for n, want := range []string{`"fan/a/same#0"`, `"fan/b/same#0"`, `"fan/c/same#0"`} {
		w := start(t, p, "")
		w.finishTask(n)
		w.do = cancelTask
		w.run(pickFirst)
		if got := w.rootVar("states.same"); got != want {
			t.Errorf("got %s, want %s\n%s", got, want, describe(w.log))
		}
	}
}

// A result that a person gives for a lost task is validated like that of the task.
func TestResultsFromPeopleAreValidated(t *testing.T) {
	lost := func(s ir.Step) *world {
		w := start(t, program(s), "")
		gone := w.tasks[0]
		w.tasks = nil
		w.send(plan.TaskLost{Work: gone, Why: "crash", Policy: journal.RecoveryAsk})
		return w
	}
	critic := ir.Step{ID: "g", Action: ir.Gate{Decider: ir.Work, Verdict: &ir.Task{Kind: "agent"}}, Writes: []ir.Write{{
		Path: "state.g",
	}}}
	parts := task("g")
	parts.Writes = []ir.Write{{Path: "state.n", Part: "n"}}
	for name, c := range map[string]struct {
		step      ir.Step
		bad, good string
		outcome   journal.Outcome
	}{
		"a verdict":   {critic, `{"approved": "yes"}`, `{"approved": true}`, "ok"},
		"a rejection": {critic, `1`, `{"approved": false}`, "rejected"},
		"its parts":   {parts, `{"m": 1}`, `{"n": 1}`, "ok"},
	} {
		t.Run(name, func(t *testing.T) {
			w := lost(c.step)
			events := w.send(plan.GateDecision{Answer: journal.AnswerResult, Value: json.RawMessage(c.bad)})
			if len(events) != 1 || len(w.s.OpenGates()) != 1 {
				t.Fatalf("taken: %s", describe(events))
			}
			if x, ok := events[0].Fact.(journal.InputRefused); !ok || x.Why == "" {
				t.Errorf("%+v", events[0].Fact)
			}
			w.send(plan.GateDecision{Answer: journal.AnswerResult, Value: json.RawMessage(c.good)})
			if w.s.Finished == nil || w.s.Finished.Outcome != c.outcome {
				t.Error(describe(w.log))
			}
		})
	}
	w := lost(task("g"))
	w.send(plan.GateDecision{Answer: journal.AnswerFail})
	if f := w.s.Finished; f == nil || f.Outcome != journal.OutcomeFailed ||
		f.Reason != string(ir.ClassOutcomeUnknown) ||
		f.Error != "a person decided that it failed" {
		t.Errorf("%+v", f)
	}
}
