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

// What a branch or an iteration is given ends with it; what it writes does not.
func TestVariablesOfAnItemEndWithIt(t *testing.T) {
	p := program()
	each := &ir.Each{Items: items(t, "input.list"), Var: "item", Block: p.AddBlock(ir.Block{Steps: []ir.Step{task("in")}})}
	fan := ir.Step{ID: "fan", Action: ir.Parallel{Join: ir.JoinAll, Each: each}}
	after := task("after")
	after.When = cond(t, `loop.index == 0 and loop.length == 1 and item == "outer"`)
	body := p.AddBlock(ir.Block{Steps: chain(fan, after)})
	p.Blocks[0].Steps = chain(
		ir.Step{ID: "loop", Action: ir.Loop{Block: body, Each: &ir.Each{Items: items(t, "input.one"), Var: "item"}}},
		ir.Step{ID: "wait", Action: ir.Gate{Decider: ir.Person}},
	)
	w := start(t, p, `{"list": [1, 2, 3], "one": ["outer"]}`)
	w.run(first)
	if w.done["loop/0/after#0"] != 1 {
		t.Errorf("what comes after the branches sees theirs\n%s", describe(w.log))
	}
	if w.seen("item") != "" || w.seen("loop") != "" || w.seen("state.in") != `"loop/0/fan/2/in#0"` {
		t.Errorf("%v", w.s.Root().Scope)
	}
}

// A value that is kept elsewhere and cannot be read is a failure wherever it is
// wanted, never nothing.
func TestValuesThatCannotBeRead(t *testing.T) {
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
			return ir.Step{ID: "x", Action: ir.Loop{Block: p.AddBlock(ir.Block{Steps: []ir.Step{task("in")}}), Each: &ir.Each{Items: items(t, "state.a"), Var: "item"}}}
		},
		"the limit of a loop": func(p *ir.Program) ir.Step {
			return ir.Step{ID: "x", Action: ir.Loop{Block: p.AddBlock(ir.Block{Steps: []ir.Step{task("in")}}), MaxExpr: items(t, "state.a")}}
		},
		"the end of a loop": func(p *ir.Program) ir.Step {
			return ir.Step{ID: "x", Action: ir.Loop{Block: p.AddBlock(ir.Block{Steps: []ir.Step{task("in")}}), While: cond(t, "loop.index < 1"), BreakWhen: cond(t, "state.a == 1")}}
		},
		"the time of a step": func(p *ir.Program) ir.Step {
			s := branches(p, "x", ir.JoinAll, 0, "in")
			s.TimeoutExpr = template("{{.state.a}}")
			return s
		},
		"an input of a child": func(p *ir.Program) ir.Step {
			p.Children = []ir.Program{*program(task("in"))}
			return ir.Step{ID: "x", Action: ir.Call{Inputs: []ir.Binding{{Name: "n", Value: items(t, "state.a")}}}}
		},
		"a result": func(p *ir.Program) ir.Step {
			s := branches(p, "x", ir.JoinAll, 0, "in")
			s.Result = items(t, "state.a")
			return s
		},
		"a choice": func(*ir.Program) ir.Step {
			return ir.Step{ID: "x", Action: ir.Route{}, Next: []ir.Edge{{On: []ir.Outcome{ir.OK}, When: cond(t, "state.a == 1"), To: ir.Target{Exit: ir.ExitBlock}}}}
		},
		"a condition to stop": func(*ir.Program) ir.Step {
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
			w.end("a", lost)
			w.run(first)
			if f := w.s.Finished; f == nil || f.Outcome != plan.OutcomeFailed || !strings.Contains(f.Error, why) {
				t.Errorf("%+v\n%s", f, describe(w.log))
			}
		})
	}
}
