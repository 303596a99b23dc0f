package plan_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/source"
)

// The variables of a branch or an iteration end with it; its writes stay.
func TestVariablesOfAnIterationEndWithIt(t *testing.T) {
	p := program()
	each := &ir.Each{Items: agentFlowValue(t, "input.list"), Var: "item", Block: p.AddBlock(ir.Block{Steps: []ir.Step{
		task("in"),
	}})}
	fan := ir.Step{ID: "fan", Action: ir.Parallel{Join: ir.JoinAll, Each: each}}
	after := task("after")
	after.When = cond(t, `loop.index == 0 and loop.length == 1 and item == "outer"`)
	body := p.AddBlock(ir.Block{Steps: chain(fan, after)})
	items := &ir.Each{Items: agentFlowValue(t, "input.one"), Var: "item"}
	p.Blocks[0].Steps = chain(
		ir.Step{ID: "loop", Action: ir.Loop{Block: body, Each: items}},
		ir.Step{ID: "wait", Action: ir.Gate{Decider: ir.Person}},
	)
	w := start(t, p, `{"list": [1, 2, 3], "one": ["outer"]}`)
	w.run(pickFirst)
	if w.done["loop/0/after#0"] != 1 {
		t.Errorf("what comes after the branches sees theirs\n%s", describe(w.log))
	}
	if w.rootVar("item") != "" || w.rootVar("loop") != "" || w.rootVar("state.in") != `"loop/0/fan/2/in#0"` {
		t.Errorf("%v", w.s.Root().Scope)
	}
}

// Iterations that have finished leave only what later steps can read: after many iterations the state is as large as
// after a few, apart from the digits of its counters.
func TestStateDoesNotGrowWithFinishedIterations(t *testing.T) {
	flaky := task("flaky")
	flaky.Retry = &ir.Retry{MaxAttempts: 2, Backoff: ir.Constant, Delays: []ir.Millis{10}}
	gate := ir.Step{ID: "wait", Action: ir.Gate{Decider: ir.Person}}
	for name, build := range map[string]func(n int) *ir.Program{
		"loop": func(n int) *ir.Program {
			p := program()
			inner := p.AddBlock(ir.Block{Steps: []ir.Step{task("deep")}})
			body := p.AddBlock(ir.Block{Steps: chain(
				task("body"), flaky, ir.Step{ID: "again", Action: ir.Loop{Block: inner, Max: 2}},
				branches(p, "fan", ir.JoinAll, 0, "left", "right"),
			)})
			p.Blocks[0].Steps = chain(ir.Step{ID: "loop", Action: ir.Loop{Block: body, Max: n}}, gate)
			return p
		},
		"cycle": func(int) *ir.Program {
			body := task("body")
			body.Next = []ir.Edge{on("flaky", ir.OK)}
			back := flaky
			back.Next = []ir.Edge{on("body", ir.OK), on("wait", ir.Rejected)}
			return program(body, back, gate)
		},
	} {
		// size returns the size of the state in the last of n iterations, and at the gate after it.
		size := func(n int) (during, after int) {
			w := start(t, build(n), "")
			w.quick = true
			bodies, attempts := 0, 0
			w.do = func(work journal.TaskID) plan.Result {
				switch work.Step {
				case "body":
					if bodies++; bodies == n {
						during = len(w.s.Snapshot())
					}
				case "flaky":
					if attempts++; attempts%2 == 1 {
						return apiError("once")
					}
					if name == "cycle" && bodies == n {
						return plan.Result{Outcome: journal.OutcomeRejected}
					}
				}
				return value(`"done"`)
			}
			w.run(pickFirst)
			w.checkInvariants() // the snapshot is all of the state
			if bodies != n || w.s.Root().Step != "wait" {
				t.Fatalf("%s: after %d of %d iterations, the run is at %q", name, bodies, n, w.s.Root().Step)
			}
			return during, len(w.s.Snapshot())
		}
		during, after := size(10)
		longDuring, longAfter := size(900)
		if longDuring > during+100 || longAfter > after+100 {
			t.Errorf("%s: after 10 iterations the state has %d bytes, and %d at the gate; after 900, %d and %d",
				name, during, after, longDuring, longAfter)
		}
	}
}

// A value that is stored by hash and cannot be read is a failure, never null.
func TestUnreadableValuesFail(t *testing.T) {
	lost := value(``)
	lost.Value = journal.Value{Hash: "abc", Size: 3}
	template := func(text string) *expr.Expr {
		e, problems := expr.ParseValue(expr.AWFTemplate, text, source.Span{})
		if problems.Errors() {
			t.Fatal(problems)
		}
		return e
	}
	const why = "the disk is gone"
	for name, build := range map[string]func(p *ir.Program) ir.Step{
		"a condition": func(*ir.Program) ir.Step {
			s := task("x")
			s.When = cond(t, "state.a != null")
			return s
		},
		"the items of a loop": func(p *ir.Program) ir.Step {
			return ir.Step{ID: "x", Action: ir.Loop{
				Block: p.AddBlock(ir.Block{Steps: []ir.Step{task("in")}}),
				Each:  &ir.Each{Items: agentFlowValue(t, "state.a"), Var: "item"},
			}}
		},
		"the limit of a loop": func(p *ir.Program) ir.Step {
			return ir.Step{ID: "x", Action: ir.Loop{
				Block: p.AddBlock(ir.Block{Steps: []ir.Step{task("in")}}), MaxExpr: agentFlowValue(t, "state.a"),
			}}
		},
		"the break condition of a loop": func(p *ir.Program) ir.Step {
			return ir.Step{ID: "x", Action: ir.Loop{
				Block: p.AddBlock(ir.Block{Steps: []ir.Step{task("in")}}), While: cond(t, "loop.index < 1"),
				BreakWhen: cond(t, "state.a == 1"),
			}}
		},
		"the timeout of a step": func(p *ir.Program) ir.Step {
			s := branches(p, "x", ir.JoinAll, 0, "in")
			s.TimeoutExpr = template("{{.state.a}}")
			return s
		},
		"an input of a child": func(p *ir.Program) ir.Step {
			p.Children = []ir.Program{*program(task("in"))}
			input := ir.Binding{Name: "n", Value: agentFlowValue(t, "state.a")}
			return ir.Step{ID: "x", Action: ir.Call{Inputs: []ir.Binding{input}}}
		},
		"the parts of a result": func(*ir.Program) ir.Step {
			s := task("big")
			s.Writes = []ir.Write{{Path: "state.n", Part: "n"}}
			return s
		},
		"the output of a child": func(p *ir.Program) ir.Step {
			p.Children = []ir.Program{*program(task("big"))}
			return ir.Step{ID: "x", Action: ir.Call{}, Result: agentFlowValue(t, "result")}
		},
		"a result": func(p *ir.Program) ir.Step {
			s := branches(p, "x", ir.JoinAll, 0, "in")
			s.Result = agentFlowValue(t, "state.a")
			return s
		},
		"a route": func(*ir.Program) ir.Step {
			return ir.Step{ID: "x", Action: ir.Route{}, Next: []ir.Edge{{
				On: []ir.Outcome{ir.OK}, When: cond(t, "state.a == 1"), To: ir.Target{Exit: ir.ExitBlock},
			}}}
		},
		"a stop condition": func(*ir.Program) ir.Step {
			s := task("x")
			s.StopWhen = cond(t, "state.a == 1")
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := program()
			p.Blocks[0].Steps = chain(task("a"), build(p))
			w := start(t, p, "")
			w.p.Blobs = func(string) (json.RawMessage, error) { return nil, errors.New(why) }
			w.endTask("a", lost)
			if slices.ContainsFunc(w.tasks, func(task journal.TaskID) bool { return task.Step == "big" }) {
				w.endTask("big", lost)
			}
			w.run(pickFirst)
			if f := w.s.Finished; f == nil || f.Outcome != journal.OutcomeFailed || !strings.Contains(f.Error, why) {
				t.Errorf("%+v\n%s", f, describe(w.log))
			}
		})
	}
}

// A value that is stored by hash is read if the step or the variable has a reducer.
func TestReducersReadLargeValues(t *testing.T) {
	for _, reducer := range []ir.Reducer{ir.Append, ir.Merge} {
		for _, declared := range []bool{true, false} {
			a, b := task("a"), task("b")
			a.Writes, b.Writes = []ir.Write{{Path: "state.all"}}, []ir.Write{{Path: "state.all"}}
			p := program(chain(a, b, ir.Step{ID: "wait", Action: ir.Gate{Decider: ir.Person}})...)
			if declared {
				p.Vars = []ir.Var{{Path: "state.all", Reducer: reducer}}
			} else {
				p.Blocks[0].Steps[0].Writes[0].Reducer, p.Blocks[0].Steps[1].Writes[0].Reducer = reducer, reducer
			}
			w := start(t, p, "")
			w.p.Blobs = func(hash string) (json.RawMessage, error) { return json.RawMessage(`{"` + hash + `":1}`), nil }
			for _, step := range []string{"a", "b"} {
				r := value("")
				r.Value = journal.Value{Hash: step, Size: 1 << 20}
				w.endTask(step, r)
			}
			want := map[ir.Reducer]string{ir.Append: `[{"a":1},{"b":1}]`, ir.Merge: `{"a":1,"b":1}`}[reducer]
			if got := w.rootVar("state.all"); got != want {
				t.Errorf("%s, declared %t: got %s, want %s", reducer, declared, got, want)
			}
		}
	}
}

// A combine task sees the outcome, the usage and the value of each branch; null and the error if the value cannot be
// read.
func TestCombineTasksSeeAllBranches(t *testing.T) {
	p := program()
	fan := branches(p, "fan", ir.JoinBest, 0, "x", "y", "z")
	par := fan.Action.(ir.Parallel)
	par.Combine = &ir.Task{Kind: "combine"}
	fan.Action = par
	p.Blocks[0].Steps = []ir.Step{fan}
	w := start(t, p, "")
	w.p.Blobs = func(hash string) (json.RawMessage, error) { return nil, errors.New("lost: " + hash) }
	for _, name := range []string{"y", "x"} {
		w.endTask(name, plan.Result{
			Outcome: journal.OutcomeOK, Value: journal.Value{Hash: name, Size: 1 << 20},
			Usage: journal.Usage{OutputTokens: 5},
		})
	}
	w.endTask("z", apiError("no luck"))
	got, err := w.s.BranchValues(w.p, w.s.Root())
	if err == nil || err.Error() != "lost: x" {
		t.Errorf("the first that is missing counts: %v", err)
	}
	null := json.RawMessage("null")
	used := journal.Usage{OutputTokens: 5, Steps: 1}
	want := []plan.BranchValue{
		{Branch: "x", Outcome: "ok", Value: null, Used: used},
		{Branch: "y", Outcome: "ok", Value: null, Used: used},
		{Branch: "z", Outcome: "failed", Error: "no luck", Value: null, Used: journal.Usage{Steps: 1}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	// A call has one result: that of the child, with its run ID.
	p = program(ir.Step{ID: "call", Action: ir.Call{Finish: &ir.Task{Kind: "files"}}})
	p.Children = []ir.Program{*program(task("in"))}
	p.Children[0].Name = "child"
	w = start(t, p, "")
	w.endTask("in", value("1"))
	got, err = w.s.BranchValues(w.p, w.s.Root())
	want = []plan.BranchValue{{
		Branch: "child", Outcome: "ok", Value: json.RawMessage("1"), Used: journal.Usage{Steps: 1},
		Child: plan.ChildID("run-1", "call/call"),
	}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
}
