package plan_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/source"
)

var update = flag.Bool("update", false, "write the facts of testdata/facts anew")

// facts writes down everything that was decided, word for word: a later process,
// the records and the people who look at them have nothing else.
func facts(events []journal.Event) string {
	var b strings.Builder
	at := journal.Millis(1000)
	for _, e := range events {
		if e.At != at {
			fmt.Fprintf(&b, "… %d ms\n", e.At-at)
			at = e.At
		}
		if e.Run != "" {
			fmt.Fprintf(&b, "(%s) ", e.Run)
		}
		raw, err := json.Marshal(e.Fact)
		if err != nil {
			raw = []byte(err.Error())
		}
		fmt.Fprintf(&b, "%s %s\n", strings.TrimPrefix(fmt.Sprintf("%T", e.Fact), "journal."), raw)
	}
	return b.String()
}

// story is a program, and what happens while it runs.
type story struct {
	program *ir.Program
	input   string
	begin   func(w *world) // before anything is decided
	tell    func(w *world)
}

// TestFacts holds stories to the facts in testdata/facts.
func TestFacts(t *testing.T) {
	told := map[string]bool{}
	for name, s := range stories(t) {
		file := filepath.Join("testdata", "facts", strings.ReplaceAll(name, " ", "-")+".txt")
		told[file] = true
		t.Run(name, func(t *testing.T) {
			w := &world{t: t, p: plan.Compile(s.program), now: 1000, done: map[string]int{}}
			if s.begin != nil {
				s.begin(w)
			}
			if s.input == "" {
				s.input = "{}"
			}
			var events []journal.Event
			w.s, events = plan.Start(w.p, "run-1", journal.RunStarted{
				Name: s.program.Name, Input: journal.Value{JSON: json.RawMessage(s.input)}, Vars: plan.InitialVars(s.program), Budget: plan.LimitsOf(s.program),
			}, w.now, false)
			w.took(events)
			if s.tell != nil {
				s.tell(w)
			}
			w.run(first)
			got := facts(w.log)
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	files, err := filepath.Glob("testdata/facts/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !told[file] {
			t.Errorf("%s belongs to no story", file)
		}
	}
}

func no(text string) plan.Result {
	return plan.Result{Outcome: plan.OutcomeFailed, Class: "API_ERROR", Error: text, Exit: 3}
}

func yes() plan.Result       { return value(`{"approved": true}`) }
func rejected() plan.Result  { return value(`{"approved": false, "reason": "not now"}`) }
func cancelled() plan.Result { return plan.Result{Outcome: plan.OutcomeCancelled} }

// critics are branches of one check each, in a branch of their own beside
// another one that goes on whatever comes of them.
func critics(join ir.Join, most int) *ir.Program {
	p := program()
	fan := ir.Parallel{Join: join, MaxConcurrent: most}
	for _, name := range []string{"x", "y", "z"} {
		check := ir.Step{ID: name, Action: ir.Gate{Decider: ir.Work, Verdict: &ir.Task{Kind: "agent"}}, Writes: []ir.Write{{Path: "state." + name}}}
		fan.Branches = append(fan.Branches, ir.Branch{Name: name, Block: p.AddBlock(ir.Block{Steps: []ir.Step{check}})})
	}
	inner := ir.Step{ID: "fan", Action: fan, Writes: []ir.Write{{Path: "state.fan"}}}
	p.Blocks[0].Steps = []ir.Step{{ID: "out", Action: ir.Parallel{Join: ir.JoinSettle, Branches: []ir.Branch{
		{Name: "a", Block: p.AddBlock(ir.Block{Steps: []ir.Step{inner}})},
		{Name: "b", Block: p.AddBlock(ir.Block{Steps: []ir.Step{task("beside")}})},
	}}}}
	return p
}

// ends ends the open tasks of steps, in order.
func ends(results ...any) func(w *world) {
	return func(w *world) {
		w.t.Helper()
		for i := 0; i < len(results); i += 2 {
			w.end(results[i].(string), results[i+1].(plan.Result))
		}
	}
}

func stories(t *testing.T) map[string]story {
	value := func(dialect expr.Dialect, text string) *expr.Expr {
		e, problems := expr.ParseValue(dialect, text, source.Span{})
		if problems.Errors() {
			t.Fatal(problems)
		}
		return e
	}
	out := map[string]story{
		"all must end well and one fails":          {program: critics(ir.JoinAll, 2), tell: ends("y", no("no luck"), "x", no("me too"))},
		"all must end well and one is rejected":    {program: critics(ir.JoinAll, 0), tell: ends("y", rejected(), "x", cancelled(), "z", yes())},
		"all end well":                             {program: critics(ir.JoinAll, 2), tell: ends("y", yes(), "x", yes(), "z", yes())},
		"one is enough":                            {program: critics(ir.JoinAny, 0), tell: ends("x", no("no luck"), "y", yes(), "z", cancelled())},
		"one is enough and it is the first of one": {program: critics(ir.JoinAny, 1), tell: ends("x", yes())},
		"one is enough and it is the last":         {program: critics(ir.JoinAny, 0), tell: ends("x", no("no luck"), "y", rejected(), "z", yes())},
		"one would be enough and all fail":         {program: critics(ir.JoinAny, 0), tell: ends("x", rejected(), "y", no("no luck"), "z", no("me too"))},
		"one would be enough and all are rejected": {program: critics(ir.JoinAny, 0), tell: ends("x", rejected(), "y", rejected(), "z", rejected())},
		"all are waited for and one is rejected":   {program: critics(ir.JoinSettle, 0), tell: ends("x", rejected(), "y", yes(), "z", yes())},
		"all are waited for and two do not work":   {program: critics(ir.JoinSettle, 1), tell: ends("x", rejected(), "y", no("no luck"), "z", yes())},
		"none has to end well":                     {program: critics(ir.JoinBest, 0), tell: ends("x", rejected(), "y", no("no luck"), "z", no("me too"))},
	}
	add := func(name, input string, tell func(w *world), build func(p *ir.Program) []ir.Step) {
		p := program()
		p.Blocks[0].Steps = build(p)
		out[name] = story{program: p, input: input, tell: tell}
	}
	block := func(p *ir.Program, steps ...ir.Step) ir.BlockID { return p.AddBlock(ir.Block{Steps: chain(steps...)}) }

	add("branches with conditions", `{"go": true, "n": 1}`, nil, func(p *ir.Program) []ir.Step {
		return []ir.Step{{ID: "fan", Writes: []ir.Write{{Path: "state.fan"}}, Action: ir.Parallel{Join: ir.JoinSettle, Branches: []ir.Branch{
			{Name: "goes", Block: block(p, task("a")), When: cond(t, "input.go == true")},
			{Name: "skipped", Block: block(p, task("b")), When: cond(t, "input.go == false")},
			{Name: "broken", Block: block(p, task("c")), When: cond(t, `input.n < "x"`)},
			{Name: "limited", Block: block(p, task("d")), Budget: ir.Budget{Steps: limit(1), Tokens: limit(2), ToolCalls: limit(3), MicroDollars: limit(4), ActiveSeconds: limit(5)}},
		}}}}
	})
	add("branches for each item", `{"list": ["p", "q"]}`, nil, func(p *ir.Program) []ir.Step {
		inner := ir.Step{ID: "each", Action: ir.Loop{Block: block(p, task("in")), Each: &ir.Each{Items: items(t, "input.list"), Var: "loop.item"}}}
		return []ir.Step{{ID: "fan", Action: ir.Parallel{Join: ir.JoinAll, Each: &ir.Each{Items: items(t, "input.list"), Var: "item", Block: block(p, inner)}}}}
	})
	add("branches that are put together", "", ends("x", no("no luck")), func(p *ir.Program) []ir.Step {
		fan := branches(p, "fan", ir.JoinBest, 0, "x", "y")
		par := fan.Action.(ir.Parallel)
		par.Combine = &ir.Task{Kind: "combine"}
		fan.Action, fan.Writes = par, []ir.Write{{Path: "state.fan"}}
		return []ir.Step{fan}
	})
	add("branches that are put together again", "", func(w *world) {
		ends("x", plan.Result{Outcome: plan.OutcomeOK}, "y", plan.Result{Outcome: plan.OutcomeOK}, "fan", no("no luck"))(w)
	}, func(p *ir.Program) []ir.Step {
		fan := branches(p, "fan", ir.JoinAll, 0, "x", "y")
		par := fan.Action.(ir.Parallel)
		par.Combine = &ir.Task{Kind: "combine"}
		fan.Action, fan.Retry = par, &ir.Retry{MaxAttempts: 2, Backoff: ir.Constant, Delays: []ir.Millis{10}}
		return []ir.Step{fan}
	})
	add("branches and a result that cannot be made", `{"n": 1}`, nil, func(p *ir.Program) []ir.Step {
		fan := branches(p, "fan", ir.JoinAll, 0, "x")
		fan.Writes, fan.Result, fan.Next = always("fan"), computed(t, `inputs.n > "x"`), []ir.Edge{on("after", ir.Failed)}
		return []ir.Step{fan, task("after")}
	})

	// Loops: how they end.
	loop := func(l ir.Loop, inner ...ir.Step) func(p *ir.Program) []ir.Step {
		return func(p *ir.Program) []ir.Step {
			l.Block = block(p, inner...)
			return []ir.Step{{ID: "loop", Action: l, Writes: always("loop"), Next: []ir.Edge{on("after", ir.OK, ir.Failed)}}, task("after")}
		}
	}
	each := &ir.Each{Items: items(t, "input.list"), Var: "item"}
	const list = `{"list": [1, null, 3], "n": 1}`
	critic := ir.Step{ID: "check", Action: ir.Gate{Decider: ir.Work, Verdict: &ir.Task{Kind: "agent"}}}
	add("a loop that is broken off", list, nil, loop(ir.Loop{Each: each, BreakWhen: cond(t, "loop.index == 1")}, task("in")))
	add("a loop at its limit", list, nil, loop(ir.Loop{While: cond(t, "true"), Max: 2}, task("in")))
	add("a loop that may not reach its limit", list, nil, loop(ir.Loop{While: cond(t, "true"), Max: 1, FailAtMax: true}, task("in")))
	add("a list beyond the limit", list, nil, loop(ir.Loop{Each: each, Max: 2}, task("in")))
	add("a loop with a condition that breaks", list, nil, loop(ir.Loop{While: cond(t, `input.n < "x"`)}, task("in")))
	add("a loop with an end that breaks", list, nil, loop(ir.Loop{Each: each, BreakWhen: cond(t, `input.n < "x"`)}, task("in")))
	add("a loop with an end that is left open", `{"list": [1]}`, nil, loop(ir.Loop{Each: each, BreakWhen: lenient(t, "item > 'x'")}, task("in")))
	add("a loop that is rejected", list, ends("check", rejected()), loop(ir.Loop{Each: each}, critic))
	add("a loop that fails", list, ends("in", no("no luck")), loop(ir.Loop{Each: each}, task("in")))
	add("a loop that ends all", list, nil, loop(ir.Loop{Each: each}, task("in"), ir.Step{ID: "end", Action: ir.End{Failed: true, Message: "enough", Status: 9}}))
	add("a loop that is left for a step", list, nil, loop(ir.Loop{Each: each}, func() ir.Step {
		in := task("in")
		in.Next = []ir.Edge{on("after", ir.OK)}
		return in
	}()))
	add("a loop with no list", `{"list": 1}`, nil, loop(ir.Loop{Each: each}, task("in")))
	add("a loop with an odd limit", `{"most": 1.5}`, nil, loop(ir.Loop{While: cond(t, "true"), MaxExpr: items(t, "input.most")}, task("in")))
	add("a loop with a limit that cannot be computed", list, nil, loop(ir.Loop{While: cond(t, "true"), MaxExpr: value(expr.AWF, `inputs.n > "x"`)}, task("in")))

	// Calls.
	call := func(child *ir.Program, s ir.Step) *ir.Program {
		s.ID, s.Next = "call", []ir.Edge{on("after", ir.OK, ir.Failed, ir.Rejected)}
		p := program(chain(task("before"), s, task("after"))...)
		child.Name = "child"
		p.Children = []ir.Program{*program(task("unused")), *child}
		return p
	}
	called := func(name string, child *ir.Program, s ir.Step, tell func(w *world)) {
		out[name] = story{program: call(child, s), input: `{"n": 1}`, tell: tell}
	}
	reads := []ir.Ref{{Path: "state.before"}, {Path: "state.none", Optional: true}}
	limited := program(task("one"))
	limited.Budget = ir.Budget{Steps: limit(7), ToolCalls: limit(8), MicroDollars: limit(9)}
	limited.Vars = []ir.Var{{Path: "state.begins", Init: json.RawMessage("1")}, {Path: "state.empty"}}
	called("a call with what the step reads", limited, ir.Step{Action: ir.Call{Child: 1, PassReads: true}, Reads: reads}, nil)
	called("a call with what it is given", program(task("one")), ir.Step{Action: ir.Call{Child: 1, Inputs: []ir.Binding{{Name: "n", Value: items(t, "state.before")}}}, Reads: reads}, nil)
	called("a call with an input that breaks", program(task("one")), ir.Step{Action: ir.Call{Child: 1, Inputs: []ir.Binding{{Name: "n", Value: value(expr.AWF, `inputs.n > "x"`)}}}}, nil)
	called("a call with an output that breaks", program(task("one")), ir.Step{Action: ir.Call{
		Child: 1, Inputs: []ir.Binding{{Name: "n", Value: items(t, "input.n")}}, Outputs: []ir.Binding{{Name: "n", Value: value(expr.AWF, `inputs.n > "x"`)}},
	}}, nil)
	called("a call that lacks a part", program(task("one")), ir.Step{Action: ir.Call{Child: 1}, Writes: []ir.Write{{Path: "state.n", Part: "n"}}}, nil)
	called("a call that is finished", program(task("one")), ir.Step{Action: ir.Call{Child: 1, Finish: &ir.Task{Kind: "files"}}, Writes: []ir.Write{{Path: "state.n"}}}, nil)
	called("a call that fails", program(task("one")), ir.Step{Action: ir.Call{Child: 1, Finish: &ir.Task{Kind: "files"}}, Writes: always("call")}, ends("before", plan.Result{Outcome: plan.OutcomeOK}, "one", no("no luck")))
	called("a call that is rejected", program(critic), ir.Step{Action: ir.Call{Child: 1}}, ends("before", plan.Result{Outcome: plan.OutcomeOK}, "check", rejected()))
	called("a call that ends badly", program(chain(task("one"), ir.Step{ID: "end", Action: ir.End{Failed: true, Message: "enough", Status: 9}})...), ir.Step{Action: ir.Call{Child: 1}}, nil)
	out["a call with an input that does not fit"] = story{
		program: call(program(task("one")), ir.Step{Action: ir.Call{Child: 1}, Writes: always("call")}),
		begin: func(w *world) {
			w.p.FillInput = func(*ir.Program, json.RawMessage, bool) (json.RawMessage, error) {
				return nil, errors.New("it does not fit")
			}
		},
	}
	out["outputs that do not fit"] = story{
		program: call(program(task("one")), ir.Step{Action: ir.Call{Child: 1}}),
		begin: func(w *world) {
			w.p.CheckOutput = func(p *ir.Program, output json.RawMessage) error {
				return fmt.Errorf("%s of %s does not fit", output, p.Name)
			}
		},
	}

	// Whatever stands in for a step, or is reached by an edge that can be taken only so often, says so.
	for kind, build := range map[string]func(p *ir.Program) ir.Step{
		"task": func(*ir.Program) ir.Step { return task("spare") },
		"loop": func(p *ir.Program) ir.Step {
			return ir.Step{ID: "spare", Action: ir.Loop{Each: each, Block: block(p, task("in"))}}
		},
		"parallel": func(p *ir.Program) ir.Step { return branches(p, "spare", ir.JoinAll, 0, "x", "y") },
		"call": func(p *ir.Program) ir.Step {
			p.Children = []ir.Program{*program(task("in"))}
			return ir.Step{ID: "spare", Action: ir.Call{}}
		},
		"critic": func(*ir.Program) ir.Step { return ir.Step{ID: "spare", Action: critic.Action} },
		"event": func(*ir.Program) ir.Step {
			return ir.Step{ID: "spare", Action: ir.Gate{Decider: ir.Event, Event: "go"}}
		},
		"route": func(*ir.Program) ir.Step { return ir.Step{ID: "spare", Action: ir.Route{}} },
		"end":   func(*ir.Program) ir.Step { return ir.Step{ID: "spare", Action: ir.End{Message: "that is all"}} },
		"skipped": func(*ir.Program) ir.Step {
			s := task("spare")
			s.When = cond(t, "input.none == true")
			return s
		},
		"condition": func(*ir.Program) ir.Step {
			s := task("spare")
			s.When = cond(t, `input.n < "x"`)
			return s
		},
	} {
		do := func(w *world) {
			if kind == "event" {
				w.tell(plan.Signal{Event: "go", Data: json.RawMessage(`{"n":1}`), By: journal.Actor{User: "eva"}})
			}
			w.do = func(task journal.Work) plan.Result {
				if task.Step == "a" {
					return no("no luck")
				}
				if task.Part == "verdict" {
					return yes()
				}
				return plan.Result{Outcome: plan.OutcomeOK}
			}
		}
		add("stands in as "+kind, list, do, func(p *ir.Program) []ir.Step {
			a := task("a")
			a.Fallback = &ir.Name{Name: "spare"}
			return append(chain(a, task("after")), build(p))
		})
		add("goes there once as "+kind, list, do, func(p *ir.Program) []ir.Step {
			a := task("a")
			a.Next = []ir.Edge{{On: []ir.Outcome{ir.Failed}, To: ir.Target{Step: "spare"}, Limit: 1}}
			return []ir.Step{a, build(p)}
		})
	}
	return out
}
