package plan_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/source"
)

var update = flag.Bool("update", false, "write the facts of testdata/facts anew")

// facts formats events with everything that was decided: later processes and records depend on it alone.
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

// scenario is a program and the inputs of its run. After drive, every task succeeds until the run rests.
type scenario struct {
	program *ir.Program
	input   string
	begin   func(w *world) // before the run starts
	drive   func(w *world)
}

// A scenario produces the facts in testdata/facts that are stored under its name.
func TestScenariosProduceTheirGoldenFacts(t *testing.T) {
	used := map[string]bool{}
	for name, s := range scenarios(t) {
		file := filepath.Join("testdata", "facts", strings.ReplaceAll(name, " ", "-")+".txt")
		used[file] = true
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
				Name: s.program.Name, Input: journal.Value{JSON: json.RawMessage(s.input)},
				Vars: plan.InitialVars(s.program), Budget: plan.LimitsOf(s.program),
			}, w.now, false)
			w.record(events)
			between := ""
			if s.drive != nil {
				s.drive(w)
				if w.s.Finished == nil { // a process that continues from a snapshot decides the same
					index, err := json.Marshal(w.s.Summary())
					if err != nil {
						t.Fatal(err)
					}
					between = fmt.Sprintf("index after event %d: %s\n", w.s.Seq, index)
					if w.s, err = plan.Restore(w.s.Snapshot()); err != nil {
						t.Fatal(err)
					}
				}
			}
			w.run(pickFirst)
			got := facts(w.log) + between
			if w.s.Finished != nil {
				spent, err := json.Marshal(w.s.Spent)
				if err != nil {
					t.Fatal(err)
				}
				got += fmt.Sprintf("in all: %s\n", spent)
			}
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	files, err := filepath.Glob("testdata/facts/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !used[file] {
			t.Errorf("%s belongs to no scenario", file)
		}
	}
}

func apiError(text string) plan.Result {
	return plan.Result{Outcome: journal.OutcomeFailed, Class: "API_ERROR", Error: text, Exit: 3}
}

func approvedReply() plan.Result  { return value(`{"approved": true}`) }
func rejectedReply() plan.Result  { return value(`{"approved": false, "reason": "not now"}`) }
func canceledResult() plan.Result { return plan.Result{Outcome: journal.OutcomeCanceled} }

// critics returns branches of one check each, inside a branch. Another branch beside it is independent of them.
func critics(join ir.Join, most int) *ir.Program {
	p := program()
	fan := ir.Parallel{Join: join, MaxConcurrent: most}
	for _, name := range []string{"x", "y", "z"} {
		check := ir.Step{
			ID: name, Action: ir.Gate{Decider: ir.Work, Verdict: &ir.Task{Kind: "agent"}},
			Writes: []ir.Write{{Path: "state." + name}},
		}
		fan.Branches = append(fan.Branches, ir.Branch{Name: name, Block: p.AddBlock(ir.Block{Steps: []ir.Step{check}})})
	}
	inner := ir.Step{ID: "fan", Action: fan, Writes: []ir.Write{{Path: "state.fan"}}}
	p.Blocks[0].Steps = []ir.Step{{ID: "out", Action: ir.Parallel{Join: ir.JoinSettle, Branches: []ir.Branch{
		{Name: "a", Block: p.AddBlock(ir.Block{Steps: []ir.Step{inner}})},
		{Name: "b", Block: p.AddBlock(ir.Block{Steps: []ir.Step{task("beside")}})},
	}}}}
	return p
}

// endTasks returns a function that ends the running tasks of steps, in order: a name and a result for each.
func endTasks(results ...any) func(w *world) {
	return func(w *world) {
		w.t.Helper()
		for i := 0; i < len(results); i += 2 {
			w.endTask(results[i].(string), results[i+1].(plan.Result))
		}
	}
}

func scenarios(t *testing.T) map[string]scenario {
	value := func(dialect expr.Dialect, text string) *expr.Expr {
		e, problems := expr.ParseValue(dialect, text, source.Span{})
		if problems.Errors() {
			t.Fatal(problems)
		}
		return e
	}
	out := map[string]scenario{
		"join all with failure": {
			program: critics(ir.JoinAll, 2),
			drive:   endTasks("y", apiError("no luck"), "x", apiError("me too")),
		},
		"join all with rejection": {
			program: critics(ir.JoinAll, 0),
			drive:   endTasks("y", rejectedReply(), "x", canceledResult(), "z", approvedReply()),
		},
		"join all succeeds": {
			program: critics(ir.JoinAll, 2),
			drive:   endTasks("y", approvedReply(), "x", approvedReply(), "z", approvedReply()),
		},
		"join any succeeds": {
			program: critics(ir.JoinAny, 0),
			drive:   endTasks("x", apiError("no luck"), "y", approvedReply(), "z", canceledResult()),
		},
		"join any one at a time": {program: critics(ir.JoinAny, 1), drive: endTasks("x", approvedReply())},
		"join any with last success": {
			program: critics(ir.JoinAny, 0),
			drive:   endTasks("x", apiError("no luck"), "y", rejectedReply(), "z", approvedReply()),
		},
		"join any without success": {
			program: critics(ir.JoinAny, 0),
			drive:   endTasks("x", rejectedReply(), "y", apiError("no luck"), "z", apiError("me too")),
		},
		"join any with all rejected": {
			program: critics(ir.JoinAny, 0),
			drive:   endTasks("x", rejectedReply(), "y", rejectedReply(), "z", rejectedReply()),
		},
		"join settle with rejection": {
			program: critics(ir.JoinSettle, 0),
			drive:   endTasks("x", rejectedReply(), "y", approvedReply(), "z", approvedReply()),
		},
		"join settle with rejection and failure": {
			program: critics(ir.JoinSettle, 1),
			drive:   endTasks("x", rejectedReply(), "y", apiError("no luck"), "z", approvedReply()),
		},
		"join best with failures": {
			program: critics(ir.JoinBest, 0),
			drive:   endTasks("x", rejectedReply(), "y", apiError("no luck"), "z", apiError("me too")),
		},
	}
	add := func(name, input string, drive func(w *world), build func(p *ir.Program) []ir.Step) {
		p := program()
		p.Blocks[0].Steps = build(p)
		out[name] = scenario{program: p, input: input, drive: drive}
	}
	block := func(p *ir.Program, steps ...ir.Step) ir.BlockID { return p.AddBlock(ir.Block{Steps: chain(steps...)}) }

	add("branches with conditions", `{"go": true, "n": 1}`, nil, func(p *ir.Program) []ir.Step {
		return []ir.Step{{ID: "fan", Writes: []ir.Write{{
			Path: "state.fan",
		}}, Action: ir.Parallel{Join: ir.JoinSettle, Branches: []ir.Branch{
			{Name: "goes", Block: block(p, task("a")), When: cond(t, "input.go == true")},
			{Name: "skipped", Block: block(p, task("b")), When: cond(t, "input.go == false")},
			{Name: "broken", Block: block(p, task("c")), When: cond(t, `input.n < "x"`)},
			{Name: "limited", Block: block(p, task("d")), Budget: ir.Budget{
				Steps: limit(1), Tokens: limit(2), ToolCalls: limit(3), MicroDollars: limit(4), ActiveSeconds: limit(5),
			}},
		}}}}
	})
	add("branch for each item", `{"list": ["p", "q"]}`, nil, func(p *ir.Program) []ir.Step {
		inner := ir.Step{ID: "each", Action: ir.Loop{Block: block(p, task("in")), Each: &ir.Each{
			Items: agentFlowValue(t, "input.list"), Var: "loop.item",
		}}}
		return []ir.Step{{ID: "fan", Action: ir.Parallel{Join: ir.JoinAll, Each: &ir.Each{
			Items: agentFlowValue(t, "input.list"), Var: "item", Block: block(p, inner),
		}}}}
	})
	add("combine task", "", endTasks("x", apiError("no luck")), func(p *ir.Program) []ir.Step {
		fan := branches(p, "fan", ir.JoinBest, 0, "x", "y")
		par := fan.Action.(ir.Parallel)
		par.Combine = &ir.Task{Kind: "combine"}
		fan.Action, fan.Writes = par, []ir.Write{{Path: "state.fan"}}
		return []ir.Step{fan}
	})
	add("combine task retried", "", func(w *world) {
		endTasks("x", plan.Result{Outcome: journal.OutcomeOK}, "y", plan.Result{
			Outcome: journal.OutcomeOK,
		}, "fan", apiError("no luck"))(w)
	}, func(p *ir.Program) []ir.Step {
		fan := branches(p, "fan", ir.JoinAll, 0, "x", "y")
		par := fan.Action.(ir.Parallel)
		par.Combine = &ir.Task{Kind: "combine"}
		fan.Action, fan.Retry = par, &ir.Retry{MaxAttempts: 2, Backoff: ir.Constant, Delays: []ir.Millis{10}}
		return []ir.Step{fan}
	})
	add("branches with result error", `{"n": 1}`, nil, func(p *ir.Program) []ir.Step {
		fan := branches(p, "fan", ir.JoinAll, 0, "x")
		fan.Writes, fan.Result, fan.Next = alwaysWrites("fan"), awfValue(t, `inputs.n > "x"`), []ir.Edge{
			on("after", ir.Failed),
		}
		return []ir.Step{fan, task("after")}
	})

	add("combine task fails", "", endTasks("x", plan.Result{
		Outcome: journal.OutcomeOK,
	}, "fan", apiError("no luck")), func(p *ir.Program) []ir.Step {
		fan := branches(p, "fan", ir.JoinAll, 0, "x")
		par := fan.Action.(ir.Parallel)
		par.Combine = &ir.Task{Kind: "combine"}
		fan.Action, fan.Retry = par, &ir.Retry{MaxAttempts: 2, Backoff: ir.Constant, ExitCodes: []int{75}}
		return []ir.Step{fan}
	})
	add("loop in branch retried", "", endTasks("in", apiError("no luck")), func(p *ir.Program) []ir.Step {
		loop := ir.Step{
			ID: "loop", Retry: &ir.Retry{MaxAttempts: 2, Backoff: ir.Constant, Delays: []ir.Millis{10}},
			Action: ir.Loop{Block: block(p, task("in")), While: cond(t, "loop.index < 1")},
		}
		return []ir.Step{{ID: "fan", Action: ir.Parallel{Join: ir.JoinAll, Branches: []ir.Branch{{
			Name: "x", Block: block(p, loop),
		}}}}}
	})
	add("condition error is not retried", `{"n": 1}`, nil, func(*ir.Program) []ir.Step {
		a := task("a")
		a.When, a.Retry = cond(t, `input.n < "x"`), &ir.Retry{MaxAttempts: 2, Backoff: ir.Constant}
		return []ir.Step{a}
	})

	// How loops end.
	loop := func(l ir.Loop, inner ...ir.Step) func(p *ir.Program) []ir.Step {
		return func(p *ir.Program) []ir.Step {
			l.Block = block(p, inner...)
			return []ir.Step{
				{ID: "loop", Action: l, Writes: alwaysWrites("loop"), Next: []ir.Edge{on("after", ir.OK, ir.Failed)}},
				task("after"),
			}
		}
	}
	each := &ir.Each{Items: agentFlowValue(t, "input.list"), Var: "item"}
	const list = `{"list": [1, null, 3], "n": 1}`
	critic := ir.Step{ID: "check", Action: ir.Gate{Decider: ir.Work, Verdict: &ir.Task{Kind: "agent"}}}
	add("loop break condition", list, nil, loop(ir.Loop{Each: each, BreakWhen: cond(t, "loop.index == 1")}, task(
		"in",
	)))
	add("loop ends at its limit", list, nil, loop(ir.Loop{While: cond(t, "true"), Max: 2}, task("in")))
	add("loop fails at its limit", list, nil, loop(
		ir.Loop{While: cond(t, "true"), Max: 1, FailAtMax: true}, task("in"),
	))
	add("loop over list longer than limit", list, nil, loop(ir.Loop{Each: each, Max: 2}, task("in")))
	add("loop while condition error", list, nil, loop(ir.Loop{While: cond(t, `input.n < "x"`)}, task("in")))
	add("loop break condition error", list, nil, loop(
		ir.Loop{Each: each, BreakWhen: cond(t, `input.n < "x"`)}, task("in"),
	))
	add("loop break condition undecided", `{"list": [1]}`, nil, loop(
		ir.Loop{Each: each, BreakWhen: lenientCond(t, "item > 'x'")}, task("in"),
	))
	add("loop step rejected", list, endTasks("check", rejectedReply()), loop(ir.Loop{Each: each}, critic))
	add("loop step fails", list, endTasks("in", apiError("no luck")), loop(ir.Loop{Each: each}, task("in")))
	add("loop ends the run", list, nil, loop(ir.Loop{Each: each}, task("in"), ir.Step{ID: "end", Action: ir.End{
		Failed: true, Message: "enough", Status: 9,
	}}))
	add("loop jumps to outer step", list, nil, loop(ir.Loop{Each: each}, func() ir.Step {
		in := task("in")
		in.Next = []ir.Edge{on("after", ir.OK)}
		return in
	}()))
	add("loop over non-list", `{"list": 1}`, nil, loop(ir.Loop{Each: each}, task("in")))
	add("loop limit is not an integer", `{"most": 1.5}`, nil, loop(
		ir.Loop{While: cond(t, "true"), MaxExpr: agentFlowValue(t, "input.most")}, task("in"),
	))
	add("loop limit error", list, nil, loop(
		ir.Loop{While: cond(t, "true"), MaxExpr: value(expr.AWF, `inputs.n > "x"`)}, task("in"),
	))

	// Calls.
	call := func(child *ir.Program, s ir.Step) *ir.Program {
		s.ID, s.Next = "call", []ir.Edge{on("after", ir.OK, ir.Failed, ir.Rejected)}
		p := program(chain(task("before"), s, task("after"))...)
		p.Vars = []ir.Var{{Path: "state.begins", Init: json.RawMessage(`"of the caller"`)}}
		child.Name = "child"
		p.Children = []ir.Program{*program(task("unused")), *child}
		return p
	}
	called := func(name string, child *ir.Program, s ir.Step, drive func(w *world)) {
		out[name] = scenario{program: call(child, s), input: `{"n": 1}`, drive: drive}
	}
	reads := []ir.Ref{{Path: "state.before"}, {Path: "state.none", Optional: true}}
	limited := program(task("one"))
	limited.Budget = ir.Budget{Steps: limit(7), ToolCalls: limit(8), MicroDollars: limit(9)}
	limited.Vars = []ir.Var{{Path: "state.begins", Init: json.RawMessage("1")}, {Path: "state.empty"}}
	called(
		"call passes reads", limited, ir.Step{Action: ir.Call{Child: 1, PassReads: true}, Reads: reads},
		nil,
	)
	called("call with input bindings", program(task("one")), ir.Step{Action: ir.Call{Child: 1, Inputs: []ir.Binding{
		{Name: "n", Value: agentFlowValue(t, "state.before")},
	}}, Reads: reads}, nil)
	called(
		"call with input error", program(task("one")),
		ir.Step{Action: ir.Call{Child: 1, Inputs: []ir.Binding{{Name: "n", Value: value(expr.AWF, `inputs.n > "x"`)}}}},
		nil,
	)
	called("call with output error", program(task("one")), ir.Step{Action: ir.Call{
		Child: 1, Inputs: []ir.Binding{{Name: "n", Value: agentFlowValue(t, "input.n")}},
		Outputs: []ir.Binding{{Name: "n", Value: value(expr.AWF, `inputs.n > "x"`)}},
	}}, nil)
	called(
		"call output lacks written part", program(task("one")),
		ir.Step{Action: ir.Call{Child: 1}, Writes: []ir.Write{{Path: "state.n", Part: "n"}}}, nil,
	)
	called(
		"call with finish task", program(task("one")),
		ir.Step{Action: ir.Call{Child: 1, Finish: &ir.Task{Kind: "files"}}, Writes: []ir.Write{{Path: "state.n"}}}, nil,
	)
	called(
		"call whose child step fails", program(task("one")),
		ir.Step{Action: ir.Call{Child: 1, Finish: &ir.Task{Kind: "files"}}, Writes: alwaysWrites("call")},
		endTasks("before", plan.Result{Outcome: journal.OutcomeOK}, "one", apiError("no luck")),
	)
	called("call whose child is rejected", program(critic), ir.Step{Action: ir.Call{Child: 1}}, endTasks(
		"before", plan.Result{Outcome: journal.OutcomeOK}, "check", rejectedReply(),
	))
	called(
		"call whose child ends in failure",
		program(chain(task("one"), ir.Step{ID: "end", Action: ir.End{Failed: true, Message: "enough", Status: 9}})...),
		ir.Step{Action: ir.Call{Child: 1}, Writes: alwaysWrites("call")}, nil,
	)
	deep := program()
	deep.Blocks[0].Steps = chain(
		ir.Step{ID: "loop", Action: ir.Loop{Block: block(deep, task("in")), While: cond(t, "loop.index < 1")}},
		ir.Step{ID: "fan", Action: ir.Parallel{Join: ir.JoinAll, Branches: []ir.Branch{{
			Name: "x", Block: block(deep, ir.Step{ID: "deeper", Action: ir.Call{}}),
		}}}},
	)
	deep.Children = []ir.Program{*program(task("deepest"))}
	called("nested call", deep, ir.Step{Action: ir.Call{Child: 1}}, nil)
	out["call with invalid input"] = scenario{
		program: call(program(task("one")), ir.Step{Action: ir.Call{Child: 1}, Writes: alwaysWrites("call")}),
		begin: func(w *world) {
			w.p.FillInput = func(*ir.Program, json.RawMessage) (json.RawMessage, error) {
				return nil, errors.New("it does not fit")
			}
		},
	}
	out["invalid outputs"] = scenario{
		program: call(program(task("one")), ir.Step{Action: ir.Call{Child: 1}}),
		begin: func(w *world) {
			w.p.CheckOutput = func(p *ir.Program, output json.RawMessage, _ func(string) string) error {
				return fmt.Errorf("%s of %s does not fit", output, p.Name)
			}
		},
	}

	// Facts name the step that is replaced, and the limited edge that was taken.
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
		"skipped task": func(*ir.Program) ir.Step {
			s := task("spare")
			s.When = cond(t, "input.none == true")
			return s
		},
		"call with input error": func(p *ir.Program) ir.Step {
			p.Children = []ir.Program{*program(task("in"))}
			return ir.Step{ID: "spare", Action: ir.Call{Inputs: []ir.Binding{{
				Name: "n", Value: value(expr.AWF, `inputs.n > "x"`),
			}}}}
		},
		"loop over non-list": func(p *ir.Program) ir.Step {
			return ir.Step{ID: "spare", Action: ir.Loop{Block: block(p, task("in")), Each: &ir.Each{
				Items: agentFlowValue(t, "input.n"), Var: "x",
			}}}
		},
		"task with condition error": func(*ir.Program) ir.Step {
			s := task("spare")
			s.When = cond(t, `input.n < "x"`)
			return s
		},
	} {
		do := func(w *world) {
			if kind == "event" {
				w.send(plan.Signal{Event: "go", Data: json.RawMessage(`{"n":1}`), By: journal.Actor{User: "eva"}})
			}
			w.do = func(task journal.TaskID) plan.Result {
				if task.Step == "a" {
					return apiError("no luck")
				}
				if task.Part == "verdict" {
					return approvedReply()
				}
				return plan.Result{Outcome: journal.OutcomeOK}
			}
		}
		add(kind+" as fallback", list, do, func(p *ir.Program) []ir.Step {
			a := task("a")
			a.Fallback = &ir.Name{Name: "spare"}
			return append(chain(a, task("after")), build(p))
		})
		add("jump once to "+kind, list, do, func(p *ir.Program) []ir.Step {
			a := task("a")
			a.Next = []ir.Edge{{On: []ir.Outcome{ir.Failed}, To: ir.Target{Step: "spare"}, Limit: 1}}
			return []ir.Step{a, build(p)}
		})
	}
	for name, more := range gateScenarios(t) {
		out[name] = more
	}
	for name, more := range limitScenarios(t) {
		out[name] = more
	}
	for name, more := range endScenarios(t) {
		out[name] = more
	}
	return out
}

// gateScenarios returns scenarios about gates and messages.
func gateScenarios(t *testing.T) map[string]scenario {
	out := map[string]scenario{}
	eva := journal.Actor{User: "eva", As: "boss"}
	answer := func(w *world, d plan.GateDecision) {
		w.t.Helper()
		if open := w.s.OpenGates(); len(open) > 0 && d.Digest == "" {
			_, d.Digest = w.s.Shown(w.p, open[0])
		}
		d.By = eva
		w.send(d)
	}
	gate := func(g ir.Gate) *ir.Program {
		s := ir.Step{ID: "g", Action: g, Reads: []ir.Ref{{Path: "state.a"}}, Writes: []ir.Write{{Path: "state.g"}}}
		s.Next = []ir.Edge{on("after", ir.OK, ir.Skipped, ir.Failed, ir.Rejected)}
		s.Fallback = &ir.Name{Name: "spare"}
		return program(append(chain(task("a"), s, task("after")), task("spare"))...)
	}
	decide := func(d plan.GateDecision) func(w *world) {
		return func(w *world) { w.finishTask(0); w.now += 70; answer(w, d) }
	}
	out["gate approved"] = scenario{program: gate(ir.Gate{Decider: ir.Person}), drive: decide(plan.GateDecision{
		Answer: journal.AnswerApprove, Note: "fine", Value: json.RawMessage(`{"n":1}`),
	})}
	out["gate rejected"] = scenario{program: gate(ir.Gate{Decider: ir.Person}), drive: decide(plan.GateDecision{
		Answer: journal.AnswerReject, Note: "not fine", Value: json.RawMessage(`{"n":1}`),
	})}
	for _, on := range []ir.OnTimeout{"", ir.TimeoutFail, ir.TimeoutNotify, ir.TimeoutSkip, ir.TimeoutFallback} {
		out["approval timeout "+cmp.Or(string(on), "default")] = scenario{program: gate(ir.Gate{
			Decider: ir.Person, Timeout: 90_000, OnTimeout: on,
		})}
		out["event timeout "+cmp.Or(string(on), "default")] = scenario{program: gate(ir.Gate{
			Decider: ir.Event, Event: "go", Timeout: 90_000, OnTimeout: on,
		})}
	}
	out["event approves gate"] = scenario{program: gate(ir.Gate{Decider: ir.Person, Event: "go"}), drive: func(
		w *world,
	) {
		// before a gate waits for it
		w.send(plan.Signal{Event: "go", Data: json.RawMessage(`{"approved": false, "why": 1}`), By: eva})
		w.finishTask(0)
		w.send(plan.Signal{Event: "go", Data: json.RawMessage(`{"approved": true}`), By: eva})
	}}
	misses := task("a")
	misses.Reads = []ir.Ref{{Path: "input.n"}, {Path: "state.none"}}
	out["task with missing read"] = scenario{program: program(misses), input: `{"n": 1}`}
	again := gate(ir.Gate{Decider: ir.Person, Event: "go"})
	again.Blocks[0].Steps[2] = ir.Step{ID: "after", Action: ir.Gate{Decider: ir.Event, Event: "go"}, Writes: []ir.Write{
		{Path: "state.late"},
	}}
	out["early event is delivered to later gate"] = scenario{program: again, drive: func(w *world) {
		w.send(plan.Signal{Event: "go", Data: json.RawMessage(`"early"`)})
		w.finishTask(0)
		w.send(plan.Signal{Event: "go", Data: json.RawMessage(`{"approved": true}`)})
	}}
	out["two events before gate opens"] = scenario{program: gate(ir.Gate{Decider: ir.Event, Event: "go"}), drive: func(
		w *world,
	) {
		w.send(plan.Signal{Event: "go", Data: json.RawMessage(`1`), By: eva}, plan.Signal{Event: "go"})
	}}

	// A refusal has the reason and the sender.
	out["refused inputs"] = scenario{program: func() *ir.Program {
		p := gate(ir.Gate{Decider: ir.Event, Event: "go"})
		p.Budget = ir.Budget{Steps: limit(50), MicroDollars: limit(2_500_000)}
		return p
	}(), drive: func(w *world) {
		w.send(
			plan.GateDecision{Answer: journal.AnswerApprove, By: eva},
			plan.Continue{By: eva}, plan.Pause{By: eva}, plan.Pause{By: eva}, plan.Continue{By: eva},
			plan.Raise{Budget: "patience", To: 1}, plan.Raise{Budget: ir.BudgetTokens, To: 1},
			plan.Raise{Budget: ir.BudgetSteps, To: 50}, plan.Raise{Budget: ir.BudgetMoney, To: 2_500_000},
			plan.Raise{Budget: ir.BudgetSteps, To: 51, By: eva},
			plan.Edit{Path: "state.a", Value: json.RawMessage("1"), By: eva}, // a task is running
			plan.Rewind{Step: "a"},
			plan.Signal{Event: "gone", By: eva}, plan.Signal{Event: "go", Data: json.RawMessage("{"), By: eva},
			plan.TakenOver{Owner: "me"},
		)
		late := w.tasks[0]
		w.finishTask(0)
		w.send(
			plan.Result{Work: late}, plan.Note{Work: late}, plan.Reserve{Work: late}, plan.TaskLost{Work: late},
			plan.Ask{Work: late}, plan.Sleep{Work: late},
			plan.Result{Work: journal.TaskID{Place: journal.Place{Frame: "nowhere"}}},
			plan.GateDecision{Step: "g", Answer: journal.AnswerApprove, By: eva},
			plan.GateDecision{Step: "h", Answer: journal.AnswerApprove, By: eva},
			plan.Edit{Path: "input.n", Value: json.RawMessage("1")},
			plan.Edit{Path: "input", Value: json.RawMessage("1")}, plan.Edit{Value: json.RawMessage("1")},
			plan.Edit{Path: "state.a", Value: json.RawMessage("{")},
			plan.Edit{Path: "state.a", Value: json.RawMessage("1"), By: eva},
			plan.Rewind{Step: "nowhere"},
			plan.Cancel{Reason: "enough", By: eva}, plan.Cancel{By: eva},
		)
	}}
	two := program()
	two.MayIntervene = false
	fan := ir.Parallel{Join: ir.JoinAll}
	for _, name := range []string{"x", "y"} {
		fan.Branches = append(fan.Branches, ir.Branch{Name: name, Block: two.AddBlock(ir.Block{Steps: []ir.Step{{
			ID: "ask", Action: ir.Gate{Decider: ir.Person},
		}}})})
	}
	two.Blocks[0].Steps = []ir.Step{{ID: "fan", Action: fan}}
	out["gate decision targets"] = scenario{program: two, drive: func(w *world) {
		_, x := w.s.Shown(w.p, w.s.OpenGates()[0])
		_, y := w.s.Shown(w.p, w.s.OpenGates()[1])
		w.send(
			plan.GateDecision{Answer: journal.AnswerApprove},
			plan.GateDecision{Step: "ask", Answer: journal.AnswerApprove},
			plan.GateDecision{Step: "none", Answer: journal.AnswerApprove},
			plan.GateDecision{Frame: "fan/z", Answer: journal.AnswerApprove},
			plan.GateDecision{Frame: "fan/x", Answer: journal.AnswerRerun, Digest: x},
			plan.GateDecision{Frame: "fan/x", Answer: journal.AnswerApprove, Digest: y},
			plan.Signal{Event: "go"}, plan.Edit{Path: "state.a", Value: json.RawMessage("1")}, plan.Rewind{Step: "ask"},
			plan.GateDecision{Frame: "fan/y", Answer: journal.AnswerApprove, Digest: y},
			plan.GateDecision{Step: "fan/x/ask", Answer: journal.AnswerApprove, Digest: x},
			plan.GateDecision{Answer: journal.AnswerApprove},
		)
	}}

	// A task that needs approval, and one whose outcome is unknown.
	asks := func(within journal.Millis, then func(w *world)) scenario {
		return scenario{program: program(task("a")), drive: func(w *world) {
			work := w.tasks[0]
			w.tasks = nil
			w.send(plan.Note{Work: work, N: 1, Kind: "reply", Data: json.RawMessage(`"hm"`), Usage: journal.Usage{
				OutputTokens: 3,
			}}, plan.Note{Work: work, N: 1, Kind: "reply"})
			w.send(plan.Ask{
				Work: work, Call: "a#0/1", Shows: map[string]json.RawMessage{"tool": json.RawMessage(`"rm"`)},
				Within: within,
			})
			then(w)
		}}
	}
	out["sleeping task"] = scenario{program: program(task("a"), task("after")), drive: func(w *world) {
		work := w.tasks[0]
		w.tasks = nil
		w.send(plan.Reserve{Work: work, N: 1, Amount: journal.Usage{OutputTokens: 20, ModelCalls: 1}})
		w.send(plan.Note{
			Work: work, N: 1, Kind: "model_retry", Data: json.RawMessage(`{}`), Settles: 1,
			Usage: journal.Usage{ModelCalls: 1},
		})
		w.send(plan.Sleep{Work: work, For: 3600_000, Why: "rate limit"})
	}}
	out["lost task with recorded usage"] = scenario{program: program(task("a")), drive: func(w *world) {
		lost := w.tasks[0]
		w.tasks = nil
		w.send(plan.Reserve{Work: lost, N: 1, Amount: journal.Usage{
			InputTokens: 64_000, OutputTokens: 33_200, ModelCalls: 1,
		}})
		w.send(plan.TaskLost{Work: lost, Why: "stopped", Policy: journal.RecoveryRerun, Used: &journal.Usage{
			InputTokens: 200, OutputTokens: 40, ModelCalls: 1,
		}})
	}}
	out["tool call approved"] = asks(0, func(w *world) {
		answer(w, plan.GateDecision{
			Answer: journal.AnswerApprove, Note: "go on",
		})
	})
	out["tool call rejected"] = asks(0, func(w *world) { answer(w, plan.GateDecision{Answer: journal.AnswerReject}) })
	out["tool call approval timeout"] = asks(5000, func(*world) {})
	out["tool call approval cancelled"] = asks(0, func(w *world) { w.send(plan.Cancel{}) })
	for _, answered := range journal.OutcomeAnswers {
		a := task("a")
		a.Writes, a.Next = alwaysWrites("a"), []ir.Edge{on("after", ir.OK, ir.Skipped, ir.Failed)}
		a.Result = awfValue(t, `{"outcome": outcome, "failure": failure}`)
		decided := program(a, task("after"))
		out["unknown outcome decided as "+string(answered)] = scenario{program: decided, drive: func(w *world) {
			lost := w.tasks[0]
			w.tasks = nil
			w.send(plan.Reserve{Work: lost, N: 1, Amount: journal.Usage{OutputTokens: 20, ModelCalls: 1}})
			w.send(plan.TaskLost{Work: lost, Why: "killed", Policy: journal.RecoveryAsk, Until: 900})
			answer(w, plan.GateDecision{Answer: journal.AnswerResult, Value: json.RawMessage("{")})
			answer(w, plan.GateDecision{Answer: answered, Note: "looked", Value: json.RawMessage(`{"n":1}`)})
		}}
	}
	critic := ir.Step{ID: "check", Writes: []ir.Write{{Path: "state.check"}}}
	for kind, settings := range map[string]string{"agent": `"agent"`, "tool": `"tool"`, "script": ""} {
		verdict := ir.Task{Kind: kind}
		if settings != "" {
			verdict.Settings.Put(kind, "the "+kind, source.Span{})
		}
		s := critic
		s.Action = ir.Gate{Decider: ir.Work, Verdict: &verdict}
		out[kind+" verdict"] = scenario{program: program(s), drive: endTasks("check", value(
			`{"approved": true, "evidence": "seen", "reason": "because"}`,
		))}
	}
	return out
}

// endScenarios returns scenarios about the end of a run.
func endScenarios(t *testing.T) map[string]scenario {
	out := map[string]scenario{}
	after := func(s ir.Step, edges ...ir.Edge) ir.Step { s.Next = edges; return s }
	end := func(name string, e ir.End, change func(s *ir.Step)) {
		s := ir.Step{ID: "end", Action: e}
		if change != nil {
			change(&s)
		}
		out[name] = scenario{program: program(chain(task("a"), s)...), input: `{"n": 1}`}
	}
	message, _ := expr.ParseValue(expr.AWFTemplate, "{{.inputs.n}} is enough", source.Span{})
	broken, _ := expr.ParseValue(expr.AWFTemplate, "{{index .inputs.n 7}}", source.Span{})
	end("end with message", ir.End{Message: "that is all", Status: 4, Check: cond(t, "input.n == 1")}, nil)
	end("end check is false", ir.End{Message: "that is all", Check: cond(t, "input.n == 2")}, nil)
	end("end check error", ir.End{Check: cond(t, `input.n < "x"`)}, nil)
	end("failing end", ir.End{Failed: true}, nil)
	end("failing end with computed message", ir.End{Failed: true, Message: "as it is", MessageExpr: message}, nil)
	end("failing end with message error", ir.End{Failed: true, Message: "as it is", MessageExpr: broken}, nil)
	end("successful end with computed message", ir.End{Message: "as it is", MessageExpr: message}, nil)
	end("end with result", ir.End{}, func(s *ir.Step) {
		s.Result, s.Writes = awfValue(t, `{"n": inputs.n, "before": result}`), []ir.Write{{Path: "output"}}
	})
	end("end with result error", ir.End{}, func(s *ir.Step) { s.Result = awfValue(t, `inputs.n > "x"`) })
	end("end with task", ir.End{Work: &ir.Task{Kind: "last"}}, func(s *ir.Step) {
		s.Writes = []ir.Write{{
			Path: "output.text",
		}}
	})
	stop := func(name, text string) {
		a := task("a")
		a.StopWhen = cond(t, text)
		out[name] = scenario{program: program(chain(a, task("b"))...), input: `{"n": 1}`}
	}
	stop("stop condition is true", "input.n == 1")
	stop("stop condition is false", "input.n == 2")
	stop("stop condition error", `input.n < "x"`)
	no2 := cond(t, "input.n == 2")
	breaks := cond(t, `input.n < "x"`)
	way := func(name string, s ir.Step, do func(w *world), edges ...ir.Edge) {
		out[name] = scenario{program: program(after(s, edges...), task("b")), input: `{"n": 1}`, drive: do}
	}
	ok := []ir.Outcome{ir.OK}
	route := ir.Step{ID: "pick", Action: ir.Route{}}
	way("transition condition error", task("a"), nil, ir.Edge{On: ok, When: breaks, To: ir.Target{Step: "b"}})
	way("no matching transition", task("a"), nil, ir.Edge{On: ok, When: no2, To: ir.Target{Step: "b"}}, ir.Edge{
		On: ok, To: ir.Target{Exit: ir.ExitFail, Reason: "NO_BRANCH"},
	})
	way("step exits with reason", task("a"), nil, ir.Edge{On: ok, To: ir.Target{Exit: ir.ExitBlock, Reason: "ENOUGH"}})
	way("transition to missing step", task("a"), nil, on("nowhere", ir.OK))
	way("route condition error", route, nil, ir.Edge{On: ok, When: breaks, To: ir.Target{Step: "b"}})
	way(
		"route without matching transition", route, nil, ir.Edge{On: []ir.Outcome{ir.Failed}, To: ir.Target{Step: "b"}},
		ir.Edge{On: ok, When: no2, To: ir.Target{Step: "b"}},
		ir.Edge{On: ok, To: ir.Target{Exit: ir.ExitFail, Reason: "NO_BRANCH"}},
	)
	way(
		"route exits", route, nil,
		ir.Edge{On: ok, When: no2, To: ir.Target{Exit: ir.ExitFail, Reason: "NO_BRANCH"}},
		ir.Edge{On: ok, To: ir.Target{Exit: ir.ExitBlock}},
	)
	way("jump limit exhausted", route, nil, ir.Edge{On: ok, To: ir.Target{Step: "pick"}, Limit: 1}, ir.Edge{
		On: ok, To: ir.Target{Exit: ir.ExitFail, Reason: "NO_BRANCH"},
	})
	inBranch := func(s ir.Step) *ir.Program {
		p := program()
		p.Blocks[0].Steps = []ir.Step{{ID: "fan", Action: ir.Parallel{Join: ir.JoinAll, Branches: []ir.Branch{{
			Name: "x", Block: p.AddBlock(ir.Block{Steps: []ir.Step{s}}),
		}}}}, task("b")}
		return p
	}
	out["jump out of branch"] = scenario{program: inBranch(after(task("a"), on("b", ir.OK)))}
	out["end step in branch"] = scenario{program: inBranch(ir.Step{ID: "end", Action: ir.End{
		Failed: true, Message: "no", Status: 7,
	}})}
	leaves := program()
	leaves.Blocks[0].Steps = chain(ir.Step{ID: "loop", Writes: alwaysWrites("loop"), Action: ir.Loop{Each: &ir.Each{
		Items: agentFlowValue(t, "[1, 2]"), Var: "x",
	}, Block: leaves.AddBlock(ir.Block{
		Steps: []ir.Step{after(task("in"), ir.Edge{On: ok, To: ir.Target{Exit: ir.ExitLoop}})},
	})}}, task("b"))
	out["loop exit transition"] = scenario{program: leaves}
	spare := task("spare")
	spare.Next = []ir.Edge{{On: ok, When: no2, To: ir.Target{Step: "c"}}}
	primary := after(task("a"), ir.Edge{On: ok, When: no2, To: ir.Target{Step: "c"}}, on("b", ir.OK))
	primary.Fallback = &ir.Name{Name: "spare"}
	out["transitions of fallback and step"] = scenario{
		program: program(primary, task("b"), spare, task("c")), input: `{"n": 1}`, drive: endTasks("a", apiError("no luck")),
	}
	second := task("second")
	next := task("first")
	next.Fallback = &ir.Name{Name: "second"}
	primary = after(task("a"), on("b", ir.OK))
	primary.Fallback = &ir.Name{Name: "first"}
	out["fallback of fallback"] = scenario{
		program: program(primary, task("b"), next, second),
		drive:   endTasks("a", apiError("no luck"), "first", apiError("nor there")),
	}

	// Exhausted budgets and time limits.
	short := func(limit *int64, s ir.Step) *ir.Program {
		p := program(chain(task("a"), s, task("after"))...)
		p.Children = []ir.Program{*program(task("in"))}
		p.AddBlock(ir.Block{Steps: []ir.Step{task("in")}})
		if limit != nil {
			p.Budget.Steps = &ir.Limit{Max: *limit}
		}
		return p
	}
	one := int64(1)
	more := func(w *world) {
		w.run(pickFirst)
		w.send(plan.Raise{Budget: ir.BudgetSteps, To: 2, By: journal.Actor{User: "eva"}})
		w.run(pickFirst)
		w.send(plan.Raise{Budget: ir.BudgetSteps, To: 20})
	}
	for kind, action := range map[string]ir.Action{
		"task": ir.Task{Kind: "test"}, "call": ir.Call{}, "loop": ir.Loop{Block: 1, Each: &ir.Each{
			Items: agentFlowValue(t, "[1, 2]"), Var: "x",
		}}, "gate": ir.Gate{Decider: ir.Event, Event: "go"},
	} {
		out["step budget exhausted before "+kind] = scenario{
			program: short(&one, ir.Step{ID: "x", Action: action}), drive: more,
		}
		p := program()
		p.Children = []ir.Program{*program(task("in"))}
		p.AddBlock(ir.Block{Steps: []ir.Step{task("in")}})
		p.Blocks[0].Steps = []ir.Step{{ID: "fan", Action: ir.Parallel{Join: ir.JoinSettle, Branches: []ir.Branch{
			{
				Name: "x", Block: p.AddBlock(ir.Block{Steps: chain(task("a"), ir.Step{ID: "x", Action: action})}),
				Budget: ir.Budget{Steps: limit(1)},
			},
			{Name: "y", Block: p.AddBlock(ir.Block{Steps: chain(task("c"), task("d"))})},
		}}}}
		out["branch step budget exhausted before "+kind] = scenario{program: p}
	}
	slow := func(w *world) {
		w.now += 1000
		w.send()
		w.do = cancelTask
	}
	late := program()
	late.Blocks[0].Steps = []ir.Step{{ID: "fan", Action: ir.Parallel{Join: ir.JoinSettle, Branches: []ir.Branch{
		{Name: "x", Block: late.AddBlock(ir.Block{Steps: chain(task("a"), task("b"))}), Budget: ir.Budget{
			ActiveSeconds: limit(1),
		}},
		{Name: "y", Block: late.AddBlock(ir.Block{Steps: []ir.Step{task("c")}})},
	}}}}
	out["branch active time exhausted"] = scenario{
		program: late, drive: func(w *world) { slow(w); w.endTask("a", canceledResult()); w.do = nil },
	}
	out["branch active time exhausted between tasks"] = scenario{
		program: late, drive: func(w *world) { w.now += 1000; w.endTask("a", plan.Result{Outcome: journal.OutcomeOK}) },
	}
	all := program(chain(task("a"), task("b"))...)
	all.Budget.ActiveSeconds = limit(1)
	out["run active time exhausted"] = scenario{program: all, drive: func(w *world) {
		w.now += 1000
		w.endTask("a", plan.Result{Outcome: journal.OutcomeOK})
		w.send(plan.Raise{Budget: ir.BudgetDeadline, To: 2})
	}}
	timed := program()
	timed.Blocks[0].Steps = chain(ir.Step{ID: "fan", Timeout: 500, Writes: alwaysWrites("fan"), Fallback: &ir.Name{
		Name: "spare",
	}, Action: ir.Parallel{Join: ir.JoinAll, Branches: []ir.Branch{
		{Name: "x", Block: timed.AddBlock(ir.Block{Steps: chain(task("a"), task("b"))})},
		{Name: "y", Block: timed.AddBlock(ir.Block{Steps: []ir.Step{task("c")}})},
	}}}, task("after"))
	timed.Blocks[0].Steps = append(timed.Blocks[0].Steps, ir.Step{ID: "spare", Timeout: 400, Action: ir.Loop{
		Block: timed.AddBlock(ir.Block{Steps: []ir.Step{task("in")}}), While: cond(t, "loop.index < 2"),
	}})
	out["step timeouts"] = scenario{program: timed, drive: func(w *world) {
		w.endTask("a", plan.Result{Outcome: journal.OutcomeOK})
		w.endTask("c", plan.Result{Outcome: journal.OutcomeOK})
		slow(w)
		w.endTask("b", canceledResult())
		slow(w)
	}}

	// Canceled in every phase.
	tidy := program(chain(task("a"), task("b"))...)
	tidy.Blocks[0].Steps = append(tidy.Blocks[0].Steps, task("tidy"))
	tidy.OnCancel, tidy.Budget.Steps = "tidy", limit(1)
	out["cancel without step budget for cleanup"] = scenario{
		program: tidy, drive: func(w *world) { w.run(pickFirst); w.send(plan.Cancel{Reason: "enough"}) },
	}
	standIn := task("spare")
	standIn.Retry = &ir.Retry{MaxAttempts: 2, Backoff: ir.Constant, Delays: []ir.Millis{1000}}
	primary = after(task("a"), on("b", ir.OK))
	primary.Fallback = &ir.Name{Name: "spare"}
	out["fallback cancelled"] = scenario{program: program(primary, task("b"), standIn), drive: func(w *world) {
		endTasks("a", apiError("no luck"), "spare", apiError("nor there"))(w)
		w.send(plan.Cancel{})
	}}
	items := &ir.Each{Items: agentFlowValue(t, "[1, 2]"), Var: "x"}
	standIn = ir.Step{ID: "spare", Action: ir.Loop{Block: 1, Each: items}}
	group := program(primary, task("b"), standIn)
	group.AddBlock(ir.Block{Steps: []ir.Step{task("in")}})
	out["fallback loop cancelled"] = scenario{program: group, drive: func(w *world) {
		w.endTask("a", apiError("no luck"))
		w.send(plan.Cancel{})
		w.do = cancelTask
	}}
	lost := program(primary, task("b"), task("spare"))
	out["fallback with unknown outcome"] = scenario{program: lost, drive: func(w *world) {
		w.endTask("a", apiError("no luck"))
		gone := w.tasks[0]
		w.tasks = nil
		w.send(plan.TaskLost{Work: gone, Why: "killed", Policy: journal.RecoveryAsk})
		w.send(plan.GateDecision{Answer: journal.AnswerRerun})
	}}
	many := program()
	many.Blocks[0].Steps = []ir.Step{branches(many, "fan", ir.JoinAll, 0, "x", "y", "z")}
	many.Budget.Tokens = limit(100)
	out["tasks of one process lost together"] = scenario{program: many, drive: func(w *world) {
		var in []plan.Input
		for i, work := range w.tasks {
			w.send(plan.Reserve{
				Work: work, N: 1, Amount: journal.Usage{OutputTokens: 60, ModelCalls: 1}, Least: int64(10 * i),
			})
			in = append(in, plan.TaskLost{Work: work, Why: "killed", Policy: journal.RecoveryRerun, Until: 1500})
		}
		w.tasks, w.now = nil, 9000
		w.send(in...)
	}}
	for backoff, r := range map[string]ir.Retry{
		"exponential": {Backoff: ir.Exponential, Delays: []ir.Millis{100}}, "exponential with multiplier": {
			Backoff: ir.Exponential, Delays: []ir.Millis{100}, Multiplier: 3, MaxDelay: 400,
		},
		"linear": {Backoff: ir.Linear, Delays: []ir.Millis{100}, MaxDelay: 250}, "list": {
			Backoff: ir.List, Delays: []ir.Millis{100, 7},
		}, "constant": {Backoff: ir.Constant, Delays: []ir.Millis{100, 7}, Jitter: 0.5}, "none": {Backoff: ir.Constant},
	} {
		a := task("a")
		r.MaxAttempts = 4
		a.Retry, a.Writes = &r, alwaysWrites("a")
		out["retry delays "+backoff] = scenario{program: program(a), drive: func(w *world) {
			w.do = func(journal.TaskID) plan.Result { return apiError("no luck") }
		}}
	}
	// Facts name the replaced step and the limited edge also if the budget is exhausted.
	for kind, action := range map[string]ir.Action{"task": ir.Task{Kind: "test"}, "loop": ir.Loop{Block: 1, While: cond(
		t, "loop.index < 1",
	)}} {
		for way, edge := range map[string]func(s *ir.Step){
			"fallback to ": func(s *ir.Step) { s.Fallback = &ir.Name{Name: "x"} },
			"limited jump to ": func(s *ir.Step) {
				s.Next = []ir.Edge{{On: []ir.Outcome{ir.Failed}, To: ir.Target{Step: "x"}, Limit: 1}}
			},
		} {
			build := func(budget ir.Budget, inBranch bool) *ir.Program {
				a := task("a")
				edge(&a)
				steps := []ir.Step{a, {ID: "x", Action: action}}
				p := program(steps...)
				p.AddBlock(ir.Block{Steps: []ir.Step{task("in")}})
				if p.Budget = budget; inBranch {
					p.Budget = ir.Budget{}
					p.Blocks[0].Steps = []ir.Step{{ID: "fan", Action: ir.Parallel{
						Join:     ir.JoinAll,
						Branches: []ir.Branch{{Name: "b", Block: p.AddBlock(ir.Block{Steps: steps}), Budget: budget}},
					}}}
				}
				return p
			}
			out[way+kind+" with exhausted step budget"] = scenario{
				program: build(ir.Budget{Steps: limit(1)}, false),
				drive: func(w *world) {
					w.endTask("a", apiError("no luck"))
					w.send(plan.Raise{Budget: ir.BudgetSteps, To: 20})
				},
			}
			out[way+kind+" with exhausted branch step budget"] = scenario{
				program: build(ir.Budget{Steps: limit(1)}, true), drive: endTasks("a", apiError("no luck")),
			}
			out[way+kind+" with exhausted branch active time"] = scenario{program: build(ir.Budget{
				ActiveSeconds: limit(1),
			}, true), drive: func(w *world) {
				w.now += 1000
				w.endTask("a", apiError("no luck"))
			}}
		}
	}
	bounded := program(task("a"))
	bounded.Budget.Steps = limit(1)
	out["rerun without step budget"] = scenario{program: bounded, drive: func(w *world) {
		gone := w.tasks[0]
		w.tasks = nil
		w.send(plan.TaskLost{Work: gone, Why: "killed", Policy: journal.RecoveryRerun})
	}}
	used := program()
	used.Blocks[0].Steps = []ir.Step{{ID: "loop", TimeoutExpr: awfValue(t, "0.5"), Action: ir.Loop{
		Block: used.AddBlock(ir.Block{Steps: chain(task("a"), task("b"))}), While: cond(t, "true"),
	}}}
	out["step timeout between tasks"] = scenario{
		program: used, drive: func(w *world) { w.now += 500; w.endTask("a", plan.Result{Outcome: journal.OutcomeOK}) },
	}
	listless := program()
	listless.Blocks[0].Steps = []ir.Step{{ID: "fan", Action: ir.Parallel{Join: ir.JoinAll, Each: &ir.Each{
		Items: agentFlowValue(t, "input.n"), Var: "x", Block: listless.AddBlock(ir.Block{Steps: []ir.Step{task("in")}}),
	}}}}
	out["branches over non-list"] = scenario{program: listless, input: `{"n": 1}`}
	just := program()
	just.Blocks[0].Steps = []ir.Step{{ID: "loop", Action: ir.Loop{
		Block: just.AddBlock(ir.Block{Steps: []ir.Step{task("in")}}), While: cond(t, "true"), Max: 2,
		MaxExpr: agentFlowValue(t, "input.n"),
	}}}
	out["computed loop limit equals maximum"] = scenario{program: just, input: `{"n": 2}`}
	out["jump limit exhausted from another step"] = scenario{program: program(
		after(
			route, ir.Edge{On: ok, To: ir.Target{Step: "b"}, Limit: 1},
			ir.Edge{On: ok, To: ir.Target{Exit: ir.ExitFail, Reason: "NO_BRANCH"}}, on("c", ir.Failed),
		),
		after(task("b"), on("pick", ir.OK)), task("c"),
	)}
	out["route exits with reason"] = scenario{program: program(after(route, ir.Edge{On: ok, To: ir.Target{
		Exit: ir.ExitBlock, Reason: "ENOUGH",
	}}))}
	out["missing fallback"] = scenario{program: func() *ir.Program {
		a := task("a")
		a.Fallback = &ir.Name{Name: "nowhere"}
		return program(a)
	}(), drive: endTasks("a", apiError("no luck"))}
	jumps := after(task("spare"), on("c", ir.OK))
	primary = after(task("a"), on("b", ir.OK))
	primary.Fallback = &ir.Name{Name: "spare"}
	out["fallback with own transition"] = scenario{
		program: program(primary, task("b"), jumps, task("c")), drive: endTasks("a", apiError("no luck")),
	}
	jumps = after(task("spare"), on("c", ir.OK))
	jumps.Next[0].Sequential = true
	out["fallback with sequential transition"] = scenario{
		program: program(primary, task("b"), jumps, task("c")), drive: endTasks("a", apiError("no luck")),
	}
	jumps = after(task("spare"), ir.Edge{On: ok, When: breaks, To: ir.Target{Step: "c"}})
	out["fallback with transition error"] = scenario{
		program: program(primary, task("b"), jumps, task("c")), input: `{"n": 1}`, drive: endTasks("a", apiError("no luck")),
	}
	out["branch exits with reason"] = scenario{program: inBranch(after(task("a"), ir.Edge{On: ok, To: ir.Target{
		Exit: ir.ExitBlock, Reason: "ENOUGH",
	}}))}
	unmatched := ir.Edge{On: ok, To: ir.Target{Exit: ir.ExitFail, Reason: "NO_BRANCH"}}
	out["branch without matching transition"] = scenario{program: inBranch(after(task("a"), unmatched))}
	check := after(ir.Step{ID: "check", Action: ir.Gate{Decider: ir.Work, Verdict: &ir.Task{
		Kind: "agent",
	}, OnTimeout: ir.TimeoutFail}}, on("b", ir.OK))
	check.Fallback = &ir.Name{Name: "spare"}
	out["fallback of critic"] = scenario{
		program: program(check, task("b"), task("spare")), drive: endTasks("check", apiError("no luck")),
	}

	gathering := program()
	gathering.Vars = []ir.Var{{Path: "state.other", Reducer: ir.Set}, {Path: "state.list", Reducer: ir.Append}}
	for i, write := range []ir.Write{
		{Path: "state.list"},
		{Path: "state.list", Reducer: ir.Set, Part: "n"},
		{Path: "output", Reducer: ir.Merge, Under: "u", AsList: true},
		{Path: "output", Reducer: ir.Merge, NonObjectKey: "b"},
		{Path: "state.other"},
	} {
		s := task(fmt.Sprintf("s%d", i))
		s.Writes = []ir.Write{write}
		gathering.Blocks[0].Steps = append(gathering.Blocks[0].Steps, s)
	}
	chain(gathering.Blocks[0].Steps...)
	out["reducers"] = scenario{program: gathering, drive: func(w *world) {
		w.do = func(journal.TaskID) plan.Result {
			r := value(`{"n": [1]}`)
			r.Usage = journal.Usage{OutputTokens: 5}
			return r
		}
	}}
	return out
}

// limitScenarios returns scenarios about refusals, checks and rewinds.
func limitScenarios(t *testing.T) map[string]scenario {
	out := map[string]scenario{}
	eva := journal.Actor{User: "eva"}

	// A rejection ends the program as rejected, unless later work succeeds. Rejections inside a child or a branch do
	// not.
	check := ir.Step{ID: "check", Action: ir.Gate{Decider: ir.Work, Verdict: &ir.Task{Kind: "agent"}}}
	check.Next = []ir.Edge{{On: []ir.Outcome{ir.Rejected}, To: ir.Target{Exit: ir.ExitBlock}}}
	out["rejection ends run"] = scenario{program: program(check), drive: endTasks("check", rejectedReply())}
	inside := program(ir.Step{ID: "call", Action: ir.Call{}, Next: []ir.Edge{on("after", ir.OK)}}, task("after"))
	inside.Children = []ir.Program{*program(check)}
	out["rejection jumps out of child"] = scenario{program: inside, drive: endTasks("check", rejectedReply())}
	branch := program()
	branch.Blocks[0].Steps = chain(ir.Step{ID: "fan", Action: ir.Parallel{Join: ir.JoinAll, Branches: []ir.Branch{{
		Name: "x", Block: branch.AddBlock(ir.Block{Steps: []ir.Step{check}}),
	}}}}, task("after"))
	out["rejection jumps out of branch"] = scenario{program: branch, drive: endTasks("check", rejectedReply())}

	// Only outputs of successful programs are checked.
	checks := func(say error) func(w *world) {
		return func(w *world) {
			w.p.CheckOutput = func(*ir.Program, json.RawMessage, func(string) string) error { return say }
		}
	}
	fits := program()
	fits.Blocks[0].Steps = []ir.Step{branches(fits, "fan", ir.JoinAll, 0, "x")}
	out["valid output"] = scenario{program: fits, begin: checks(nil)}
	out["only the run output is validated"] = scenario{program: fits, begin: checks(errors.New("it does not fit"))}
	out["output of failed run is not validated"] = scenario{
		program: program(task("a")), begin: checks(errors.New("it does not fit")),
		drive: endTasks("a", apiError("no luck")),
	}

	// Cleanup takes time, too.
	tidy := program(append(chain(task("a"), task("b")), task("tidy"))...)
	tidy.OnCancel, tidy.Budget.ActiveSeconds = "tidy", limit(1)
	out["cancel after active time exhausted"] = scenario{program: tidy, drive: func(w *world) {
		w.now += 1000
		w.send()
		w.send(plan.Cancel{Reason: "enough", By: eva}, plan.Cancel{By: eva})
		w.do = cancelTask
	}}
	late := program(ir.Step{ID: "call", Action: ir.Call{}})
	late.Children = []ir.Program{*tidy}
	out["child active time exhausted"] = scenario{
		program: late, drive: func(w *world) { w.now += 1000; w.send(); w.do = cancelTask },
	}

	namesakes := program()
	namesakes.Blocks[0].Steps = []ir.Step{branches(namesakes, "fan", ir.JoinSettle, 0, "x", "xy")}
	namesakes.Blocks[0].Steps[0].Action.(ir.Parallel).Branches[0].Budget.ActiveSeconds = limit(1)
	out["clock jump is not active time"] = scenario{program: late, drive: func(w *world) {
		w.now += 900
		w.send()
		w.now += 7_200_000
		w.send(plan.ClockJump{By: 7_200_000})
		w.now += 99
		w.send()
		w.do = cancelTask
	}}
	out["branch deadline ignores branch with same prefix"] = scenario{
		program: namesakes, drive: func(w *world) { w.now += 1000; w.send(); w.endTask("x", canceledResult()) },
	}
	again := task("a")
	again.Retry = &ir.Retry{MaxAttempts: 2, Backoff: ir.Constant}
	fresh := program()
	fresh.Blocks[0].Steps = chain(again, ir.Step{ID: "loop", Action: ir.Loop{
		While: cond(t, "loop.index < 1"), Block: fresh.AddBlock(ir.Block{Steps: []ir.Step{task("in")}}),
	}})
	out["loop after retried step"] = scenario{program: fresh, drive: endTasks("a", apiError("no luck"))}

	// Budgets of tasks.
	money := program()
	money.Budget.Tokens = limit(100)
	fan := branches(money, "fan", ir.JoinAll, 0, "x", "y")
	par := fan.Action.(ir.Parallel)
	par.Branches[1].Budget.Tokens = limit(50)
	money.Blocks[0].Steps = []ir.Step{fan}
	out["budget reservations"] = scenario{program: money, drive: func(w *world) {
		x, y := w.tasks[0], w.tasks[1]
		ask := func(work journal.TaskID, n int, tokens, least int64) {
			w.send(plan.Reserve{
				Work: work, N: n, Amount: journal.Usage{OutputTokens: tokens, ModelCalls: 1}, Least: least,
			})
		}
		ask(x, 1, 80, 0)
		ask(x, 1, 80, 0) // granted
		ask(y, 1, 60, 0) // exceeds the branch's budget
		ask(y, 2, 40, 0) // waits for x
		ask(y, 2, 40, 0) // the same request again
		ask(x, 2, 10, 0) // would fit, but y waits in front
		w.send(plan.Edit{Path: "state.n", Value: json.RawMessage("1")})
		w.send(plan.Note{Work: x, N: 1, Kind: "reply", Settles: 1, Usage: journal.Usage{OutputTokens: 70}})
		w.send(plan.Edit{Path: "state.n", Value: json.RawMessage("1")})
		w.send(plan.Raise{Budget: ir.BudgetTokens, To: 120})
		w.send(plan.Note{Work: y, N: 1, Kind: "reply", Settles: 2, Usage: journal.Usage{OutputTokens: 30}})
		ask(y, 3, 40, 10) // fewer tokens suffice
	}}
	waits := program(
		ir.Step{ID: "z", Action: ir.Gate{Decider: ir.Event, Event: "z"}, Next: []ir.Edge{on("a", ir.OK)}},
		ir.Step{ID: "a", Action: ir.Gate{Decider: ir.Event, Event: "a"}},
	)
	out["clock jump while no task runs"] = scenario{program: waits, drive: func(w *world) {
		w.now += 7_200_000
		w.send(plan.ClockJump{By: 7_200_000})
	}}
	out["signals of unknown and expected events"] = scenario{program: waits, drive: func(w *world) {
		w.send(plan.Signal{Event: "b"}, plan.Signal{Event: "z"}, plan.Signal{Event: "a"})
	}}
	parts := task("a")
	parts.Writes = []ir.Write{{Path: "state.n", Part: "n"}}
	out["null result has no parts"] = scenario{program: program(parts), drive: endTasks("a", value("null"))}
	critic := ir.Task{Kind: "agent"}
	critic.Settings.Put("agent", "", source.Span{})
	critic.Settings.Put("tool", "the tool", source.Span{})
	out["verdict with empty evidence"] = scenario{
		program: program(ir.Step{ID: "check", Action: ir.Gate{Decider: ir.Work, Verdict: &critic}}),
		drive:   endTasks("check", value(`{"approved": true, "evidence": "", "reason": "because"}`)),
	}

	// A rewind restores the values of the step, whatever is open, and keeps the usage.
	back := program()
	back.Vars = []ir.Var{{Path: "state.edited"}}
	loop := ir.Step{ID: "loop", Writes: alwaysWrites("loop"), Action: ir.Loop{
		Each: &ir.Each{Items: agentFlowValue(t, "[1, 2]"), Var: "n"},
		Block: back.AddBlock(ir.Block{Steps: chain(task("in"), ir.Step{ID: "ask", Action: ir.Gate{
			Decider: ir.Person,
		}})}),
	}}
	wait := ir.Step{ID: "wait", Action: ir.Gate{Decider: ir.Event, Event: "go", Timeout: 5000}}
	b := task("b")
	b.Next = []ir.Edge{
		{On: []ir.Outcome{ir.OK}, When: cond(t, "state.fan == null"), To: ir.Target{Step: "a"}, Limit: 1},
		on("fan", ir.OK),
	}
	back.Blocks[0].Steps = chain(task("a"), b, ir.Step{ID: "fan", Writes: alwaysWrites(
		"fan",
	), Action: ir.Parallel{Join: ir.JoinAll, Branches: []ir.Branch{
		{Name: "x", Block: back.AddBlock(ir.Block{Steps: []ir.Step{loop}})},
		{Name: "y", Block: back.AddBlock(ir.Block{Steps: []ir.Step{wait}})},
	}}}, task("after"))
	for _, step := range []string{"a", "b", "fan"} {
		out["rewind to "+step] = scenario{program: back, input: `{"n": 1}`, drive: func(w *world) {
			for range 5 {
				w.finishTask(0)
			}
			w.send(plan.Edit{Path: "state.edited", Value: json.RawMessage("1")})
			rewindTo(w, step, eva)
			if step == "fan" {
				return // to see the state then
			}
			for len(w.tasks) > 0 {
				w.finishTask(0)
			}
			w.send(plan.Signal{Event: "go"})
			for range 2 {
				_, digest := w.s.Shown(w.p, w.s.OpenGates()[0])
				w.send(plan.GateDecision{Answer: journal.AnswerApprove, Digest: digest})
				for len(w.tasks) > 0 && w.s.Finished == nil {
					w.finishTask(0)
				}
			}
		}}
	}
	for _, step := range []string{"choose", "wait", "work"} {
		p := program(chain(ir.Step{ID: "choose", Action: ir.Route{}}, wait, task("work"))...)
		p.Blocks[0].Steps[0].Next = []ir.Edge{on("wait", ir.OK)}
		p.Budget.Steps = limit(2)
		out["rewind from exhausted step budget to "+step] = scenario{program: p, drive: func(w *world) {
			w.send(plan.Signal{Event: "go"})
			rewindTo(w, step, eva)
		}}
	}
	ends := program(
		append(chain(task("a"), task("b")), ir.Step{ID: "tidy", Action: ir.Gate{Decider: ir.Event, Event: "go"}})...,
	)
	ends.OnCancel = "tidy"
	out["rewind refused while cancelling"] = scenario{program: ends, drive: func(w *world) {
		w.send(plan.Cancel{})
		w.endTask("a", canceledResult())
		rewindTo(w, "a", eva)
	}}
	return out
}

// rewindTo rewinds a run to a step that it had reached.
func rewindTo(w *world, step string, by journal.Actor) {
	w.t.Helper()
	was, reached := w.checkpoint(step)
	if !reached {
		w.t.Fatalf("step %q was not reached\n%s", step, describe(w.log))
	}
	w.send(plan.Rewind{Step: step, Was: was, By: by})
}
