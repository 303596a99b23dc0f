package plan_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/source"
)

// alwaysWrites returns a write that a step makes whatever its outcome.
func alwaysWrites(id string) []ir.Write { return []ir.Write{{Path: "states." + id, Always: true}} }

// rootVar returns a variable of the run's body.
func (w *world) rootVar(path string) string {
	if w.s.Root() == nil {
		return ""
	}
	return string(w.s.Root().Scope[path].JSON)
}

// The steps after a failure can read what the failed step wrote.
func TestFailedStepsMakeTheirWrites(t *testing.T) {
	run := task("a")
	run.Writes = append(alwaysWrites("a"), ir.Write{Path: "state.only_if_well"})
	run.Next = []ir.Edge{{On: []ir.Outcome{ir.Failed}, When: awfValue(t, "states.a.ExitCode == 7"), To: ir.Target{
		Step: "b",
	}}}
	gate := ir.Step{ID: "b", Action: ir.Gate{Decider: ir.Person}}
	p := program(run, gate)
	w := start(t, p, "")
	w.do = func(journal.TaskID) plan.Result {
		return plan.Result{
			Outcome: journal.OutcomeFailed, Class: "COMMAND_FAILED", Error: "no", Exit: 7,
			Value: journal.Value{JSON: json.RawMessage(`{"ExitCode":7}`)},
		}
	}
	w.run(pickFirst)
	if len(w.s.OpenGates()) != 1 || w.rootVar("states.a") != `{"ExitCode":7}` || w.rootVar("state.only_if_well") != "" {
		t.Fatalf("%v\n%s", w.s.Root().Scope, describe(w.log))
	}
	// Without a value, the variable has the error.
	w = start(t, p, "")
	w.do = failing("a")
	w.run(pickFirst)
	for _, e := range w.log {
		if x, ok := e.Fact.(journal.TaskEnded); ok &&
			string(x.Value.JSON) != `{"error":"no luck","class":"API_ERROR"}` {
			t.Errorf("%s", x.Value.JSON)
		}
	}
}

func TestStepsComputeTheirResults(t *testing.T) {
	shape := `outcome == "ok" ? {"Output": result, "ok": true} : {"Output": failure.error, "ok": false}`
	step := func(id string, a ir.Action) ir.Step {
		return ir.Step{ID: id, Action: a, Writes: alwaysWrites(id), Result: awfValue(t, shape)}
	}
	for name, c := range map[string]struct {
		action ir.Action
		fails  bool
		want   string
	}{
		"loop": {
			ir.Loop{Block: 1, Each: &ir.Each{Items: agentFlowValue(t, "input.list"), Var: "loop.item"}},
			false,
			`{"Output":{"iterations":2},"ok":true}`,
		},
		"loop that fails": {
			ir.Loop{Block: 1, Each: &ir.Each{Items: agentFlowValue(t, "input.list"), Var: "loop.item"}},
			true,
			`{"Output":"no luck","ok":false}`,
		},
		"parallel": {
			ir.Parallel{Join: ir.JoinAll, Branches: []ir.Branch{{Name: "x", Block: 1}}}, false, `"branch\":\"x\"`,
		},
		"parallel, failed": {
			ir.Parallel{Join: ir.JoinAll, Branches: []ir.Branch{{Name: "x", Block: 1}}},
			true,
			`{"Output":"x: no luck","ok":false}`,
		},
		"call": {
			ir.Call{Outputs: []ir.Binding{{Name: "got", Value: awfValue(t, "state.inner")}}},
			false,
			`{"Output":{"got":"g/call/inner#0"},"ok":true}`,
		},
		"call, failed": {ir.Call{}, true, `{"Output":"no luck","ok":false}`},
	} {
		t.Run(name, func(t *testing.T) {
			g := step("g", c.action)
			wait := ir.Step{ID: "wait", Action: ir.Gate{Decider: ir.Person}}
			g.Next = []ir.Edge{on("wait", ir.OK, ir.Failed)}
			p := program(g, wait)
			p.AddBlock(ir.Block{Steps: []ir.Step{task("inner")}})
			p.Children = []ir.Program{*program(task("inner"))}
			w := start(t, p, `{"list":[1,2]}`)
			if c.fails {
				w.do = failing("inner")
			}
			w.run(pickFirst)
			got := w.rootVar("states.g")
			if strings.HasPrefix(c.want, "{") && got != c.want || !strings.Contains(got, c.want) &&
				!strings.Contains(got, `branch`) {
				t.Errorf("got %s\n%s", got, describe(w.log))
			}
		})
	}
}

// An end step computes the run's result from the previous step, and its message from variables.
func TestEndStepsComputeResultAndMessage(t *testing.T) {
	done := ir.Step{ID: "done", Action: ir.End{}, Result: awfValue(t, "result.Output"), Writes: []ir.Write{{
		Path: "output",
	}}}
	w := start(t, program(chain(task("a"), done)...), "")
	w.do = func(journal.TaskID) plan.Result { return value(`{"Output":"hello"}`) }
	w.run(pickFirst)
	if string(w.s.Finished.Output.JSON) != `"hello"` {
		t.Errorf("%s", w.s.Finished.Output.JSON)
	}
	message, _ := expr.ParseValue(expr.AWFTemplate, "after {{.error.State}}: {{.error.Message}}", source.Span{})
	broken := ir.Step{ID: "broken", Action: ir.End{
		Failed: true, Message: "as it stands", MessageExpr: message, Status: 9,
	}}
	a := task("a")
	a.Next = []ir.Edge{on("broken", ir.Failed)}
	w = start(t, program(a, broken), "")
	w.do = failing("a")
	w.run(pickFirst)
	if f := w.s.Finished; f.Error != "after a: no luck" || f.Status != 9 {
		t.Errorf("%+v", f)
	}
}

// Steps of frames are retried as a whole, with new keys.
func TestStepsOfFramesAreRetried(t *testing.T) {
	for name, action := range map[string]ir.Action{
		"loop":     ir.Loop{Block: 1, Each: &ir.Each{Items: agentFlowValue(t, "input.list"), Var: "x"}},
		"parallel": ir.Parallel{Join: ir.JoinAll, Branches: []ir.Branch{{Name: "x", Block: 1}, {Name: "y", Block: 2}}},
		"call":     ir.Call{},
	} {
		t.Run(name, func(t *testing.T) {
			g := ir.Step{ID: "g", Action: action, Writes: alwaysWrites("g"), Retry: &ir.Retry{
				MaxAttempts: 3, Backoff: ir.Linear, Delays: []ir.Millis{100},
			}}
			p := program(g)
			p.AddBlock(ir.Block{Steps: []ir.Step{task("inner")}})
			p.AddBlock(ir.Block{Steps: []ir.Step{task("other")}})
			p.Children = []ir.Program{*program(task("inner"))}
			tries := 0
			w := start(t, p, `{"list":[1]}`)
			w.do = func(task journal.TaskID) plan.Result {
				if task.Step == "inner" {
					if tries++; tries < 3 {
						return plan.Result{Outcome: journal.OutcomeFailed, Class: "API_ERROR", Error: "no luck"}
					}
				}
				return plan.Result{Outcome: journal.OutcomeOK}
			}
			w.run(pickFirst)
			if w.s.Finished == nil || w.s.Finished.Outcome != "ok" || tries != 3 || w.now != 1300 {
				t.Fatalf("%d tries, time %d\n%s", tries, w.now, describe(w.log))
			}
			for key, n := range w.done {
				if n > 1 {
					t.Errorf("%s was done %d times", key, n)
				}
			}
			// The last attempt fails the step once.
			w = start(t, p, `{"list":[1]}`)
			w.do = failing("inner")
			w.run(pickFirst)
			if w.s.Finished == nil || w.s.Finished.Outcome != "failed" {
				t.Errorf("%s", describe(w.log))
			}
		})
	}
}

// A call is retried only after the exit codes that its step names. The child's exit code does not become that of the
// run.
func TestCallsAreRetriedByExitCode(t *testing.T) {
	for status, want := range map[int]int{75: 3, 3: 1} {
		p := program(ir.Step{ID: "g", Action: ir.Call{}, Retry: &ir.Retry{
			MaxAttempts: 3, Backoff: ir.Constant, Delays: []ir.Millis{1}, ExitCodes: []int{75},
		}})
		p.Children = []ir.Program{
			*program(chain(task("inner"), ir.Step{ID: "end", Action: ir.End{Failed: true, Status: status}})...),
		}
		w := start(t, p, "")
		w.run(pickFirst)
		if len(w.done) != want || w.s.Finished.Outcome != journal.OutcomeFailed || w.s.Finished.Status != 0 {
			t.Errorf("status %d: %v, %+v", status, w.done, w.s.Finished)
		}
	}
}

// A loop that cannot start is not retried forever.
func TestLoopsThatCannotStartFail(t *testing.T) {
	g := ir.Step{
		ID: "g", Action: ir.Loop{Block: 1, Each: &ir.Each{Items: agentFlowValue(t, "input"), Var: "x"}},
		Retry: &ir.Retry{MaxAttempts: 2},
	}
	p := program(g)
	p.AddBlock(ir.Block{Steps: []ir.Step{task("inner")}})
	w := start(t, p, "")
	w.run(pickFirst)
	if w.s.Finished == nil || w.s.Finished.Outcome != "failed" {
		t.Error(describe(w.log))
	}
}

func TestLoopVariablesHaveTheirParents(t *testing.T) {
	inner := ir.Step{ID: "in", Action: ir.Loop{Block: 2, Each: &ir.Each{
		Items: agentFlowValue(t, "input.b"), Var: "loop.item",
	}}}
	work := task("work")
	work.Next = []ir.Edge{{
		On:   []ir.Outcome{ir.OK},
		When: awfValue(t, `loop.Item == "y" and loop.Parent.Item == "q" and loop.Parent.Index1 == 2`),
		To:   ir.Target{Exit: ir.ExitFail, Reason: "FOUND"},
	}}
	p := program(ir.Step{ID: "out", Action: ir.Loop{Block: 1, Each: &ir.Each{
		Items: agentFlowValue(t, "input.a"), Var: "loop.item",
	}}})
	p.AddBlock(ir.Block{Steps: []ir.Step{inner}})
	p.AddBlock(ir.Block{Steps: []ir.Step{work}})
	w := start(t, p, `{"a":["p","q"],"b":["x","y"]}`)
	w.run(pickFirst)
	if w.s.Finished.Reason != "FOUND" || len(w.done) != 4 {
		t.Errorf("%d\n%s", len(w.done), describe(w.log))
	}
}

// The writes of branches stay if their parallel step fails.
func TestBranchesMergeAfterAFailure(t *testing.T) {
	par := ir.Step{
		ID:     "par",
		Action: ir.Parallel{Join: ir.JoinSettle, Branches: []ir.Branch{{Name: "x", Block: 1}, {Name: "y", Block: 2}}},
		Next:   []ir.Edge{on("wait", ir.Failed)},
	}
	p := program(par, ir.Step{ID: "wait", Action: ir.Gate{Decider: ir.Person}})
	p.AddBlock(ir.Block{Steps: []ir.Step{task("good")}})
	bad := task("bad")
	bad.Writes = alwaysWrites("bad")
	p.AddBlock(ir.Block{Steps: []ir.Step{bad}})
	w := start(t, p, "")
	w.do = failing("bad")
	w.run(pickFirst)
	if w.rootVar("state.good") == "" || w.rootVar("states.bad") == "" {
		t.Error(w.s.Root().Scope)
	}
}

func TestChildInputsAreFilledIn(t *testing.T) {
	p := program(ir.Step{ID: "g", Action: ir.Call{Inputs: []ir.Binding{{Name: "n", Value: awfValue(t, "inputs.n")}}}})
	child := program(task("inner"))
	child.Vars = []ir.Var{{Path: "env.HOME", From: "env:HOME"}, {Path: "env.X", From: "env:X"}}
	p.Children = []ir.Program{*child}
	w := &world{t: t, p: plan.Compile(p), now: 1000, done: map[string]int{}}
	w.p.FillInput = func(_ *ir.Program, input json.RawMessage) (json.RawMessage, error) {
		if string(input) == `{"n":1}` {
			return nil, errors.New("one is too few")
		}
		return json.RawMessage(`{"n":2,"more":true}`), nil
	}
	begin := func(input string) {
		s, events := plan.Start(w.p, "run-1", journal.RunStarted{Input: journal.Value{
			JSON: json.RawMessage(input),
		}, Vars: map[string]journal.Value{"env.HOME": {JSON: json.RawMessage(`"/h"`)}}}, w.now, false)
		w.s, w.log = s, nil
		w.record(events)
	}
	begin(`{"n":1}`)
	if w.s.Finished == nil || w.s.Finished.Reason != string(ir.ClassInput) {
		t.Error(describe(w.log))
	}
	begin(`{"n":2}`)
	scope := w.s.Frames["g/call"].Scope
	if string(scope["input"].JSON) != `{"n":2,"more":true}` || string(scope["env.HOME"].JSON) != `"/h"` ||
		!scope["env.X"].IsZero() {
		t.Error(scope)
	}
}
