package check_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/check"
	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/format/agentflow"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/ir/irtest"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// unit is a step kind with constant costs: one model call with a prompt of 10 and a reply of 100 tokens, in at most
// 1000 seconds.
type unit struct{}

func (unit) Name() string                                    { return "unit" }
func (unit) Traits(*ir.Program, *ir.Task) ir.Traits          { return ir.Traits{} }
func (unit) Understands(*ir.Task) error                      { return nil }
func (unit) Check(*ir.Program, *ir.Step, *ir.Task) diag.List { return nil }
func (unit) Uses(*ir.Task) stepkind.Uses                     { return stepkind.Uses{} }
func (unit) Bound(_ *ir.Program, s *ir.Step, _ *ir.Task, _ *contract.Contract) stepkind.Bound {
	cost := stepkind.Cost{
		ModelCalls: stepkind.N(1), PromptTokens: stepkind.N(10), ReplyTokens: stepkind.N(100),
		Seconds: stepkind.N(1000),
	}
	return stepkind.Bound{Base: cost, Worst: cost, Reserve: 110, Agent: "someone"}
}

var units = stepkind.NewSet(unit{})

// build edits a step of a test program.
type build func(*ir.Step)

func task(id string, edits ...build) ir.Step {
	s := ir.Step{ID: id, Type: "skill", Action: ir.Task{Kind: "unit"}, Span: source.Span{File: "f", Start: 1, End: 2}}
	for _, edit := range edits {
		edit(&s)
	}
	return s
}

func acts(a ir.Action) build      { return func(s *ir.Step) { s.Action = a } }
func computes(limit string) build { return func(s *ir.Step) { s.TimeoutExpr = cond(limit) } }
func when(text string) build      { return func(s *ir.Step) { s.When = cond(text) } }
func retry(n int, ms ...ir.Millis) build {
	return func(s *ir.Step) { s.Retry = &ir.Retry{MaxAttempts: n, Backoff: ir.List, Delays: ms} }
}
func fallback(id string) build { return func(s *ir.Step) { s.Fallback = &ir.Name{Name: id} } }
func reads(paths ...string) build {
	return func(s *ir.Step) {
		for _, p := range paths {
			s.Reads = append(s.Reads, ir.Ref{Path: p})
		}
	}
}

func writes(paths ...string) build {
	return func(s *ir.Step) {
		for _, p := range paths {
			s.Writes = append(s.Writes, ir.Write{Path: p})
		}
	}
}

func edge(to string, limit int, on ...ir.Outcome) build {
	return func(s *ir.Step) {
		if len(on) == 0 {
			on = []ir.Outcome{ir.OK}
		}
		s.Next = append(s.Next, ir.Edge{On: on, To: ir.Target{Step: to}, Limit: limit})
	}
}

func exits(how ir.Exit, text string) build {
	return func(s *ir.Step) {
		e := ir.Edge{On: []ir.Outcome{ir.OK}, To: ir.Target{Exit: how}}
		if text != "" {
			e.When = cond(text)
		}
		s.Next = append(s.Next, e)
	}
}

func cond(text string) *expr.Expr {
	e, list := expr.ParseValue(expr.AgentFlow, text, source.Span{})
	if list.Errors() {
		panic(fmt.Sprint(list))
	}
	return e
}

// row returns a block of steps in document order, unless a step has edges.
func row(steps ...ir.Step) ir.Block {
	for i := range len(steps) - 1 {
		steps[i].Next = append(steps[i].Next,
			ir.Edge{On: []ir.Outcome{ir.OK, ir.Skipped}, To: ir.Target{Step: steps[i+1].ID}, Sequential: true})
	}
	return ir.Block{Steps: steps}
}

func program(blocks ...ir.Block) *ir.Program { return &ir.Program{Name: "p", Blocks: blocks} }

func TestEstimateGivesBaseAndWorstCase(t *testing.T) {
	limit := func(n int64) *ir.Limit { return &ir.Limit{Max: n} }
	branch := func(b ir.BlockID) ir.Branch { return ir.Branch{Name: fmt.Sprint("b", b), Block: b} }
	withSteps := func(p *ir.Program, n int64) *ir.Program { p.Budget.Steps = limit(n); return p }
	for name, c := range map[string]struct {
		p                     *ir.Program
		steps, calls, seconds string // "base worst"
		waits                 string
	}{
		"one step": {program(row(task("a"))), "1 1", "1 1", "1,000 1,000", "0 0"},
		"three steps": {
			program(row(task("a"), task("b"), task("c"))), "3 3", "3 3", "3,000 3,000",
			"0 0",
		},
		"a conditional step counts": {
			program(row(task("a"), task("b", when("x.y == 1")))), "2 2", "2 2", "2,000 2,000",
			"0 0",
		},
		"retries and their delays": {program(row(task("a", retry(3, 500, 2000)))), "1 3", "1 3", "1,000 3,003", "0 0"},
		"a fallback adds to its step": {
			program(row(task("a", fallback("b"), edge("c", 0, ir.OK, ir.Skipped)), task("b"), task("c"))), "2 3", "2 3",
			"2,000 3,000", "0 0",
		},
		"the dearer branch": {
			program(ir.Block{Steps: []ir.Step{
				task("r", acts(ir.Route{}), func(s *ir.Step) {
					s.Next = []ir.Edge{{On: []ir.Outcome{ir.OK}, When: cond("x.y == 1"), To: ir.Target{Step: "b"}}}
				}, edge("a", 0)),
				task("a", edge("c", 0)), task("b", edge("d", 0)), task("c", edge("d", 0)), task("d"),
			}}), "4 4", "3 3", "3,000 3,000", "0 0",
		},
		"side by side": {
			program(row(task("p",
				acts(ir.Parallel{Branches: []ir.Branch{branch(1), branch(2), branch(3)}, Join: ir.JoinSettle}))),
				row(task("x")), row(task("y")), row(task("z"))), "1 1", "3 3", "1,000 1,000", "0 0",
		},
		"two at a time": {
			program(row(task("p",
				acts(ir.Parallel{
					Branches: []ir.Branch{branch(1), branch(2), branch(3)}, MaxConcurrent: 2,
					Join: ir.JoinSettle,
				}))),
				row(task("x")), row(task("y")), row(task("z"))), "1 1", "3 3", "2,000 2,000", "0 0",
		},
		"a branch within its budget": {
			program(row(task("p",
				acts(ir.Parallel{Branches: []ir.Branch{{
					Name: "b", Block: 1,
					Budget: ir.Budget{ActiveSeconds: limit(1500)},
				}}, Join: ir.JoinSettle}))),
				row(task("x"), task("y"))), "1 1", "2 2", "2,000 2,000", "0 0",
		},
		"a loop with a limit": {
			program(row(task("l", acts(ir.Loop{Block: 1, Max: 5}))), row(task("x"), task("y"))), "3 11", "2 10",
			"2,000 10,000", "0 0",
		},
		"a loop over a list": {
			program(row(task("l", acts(ir.Loop{Block: 1, Each: &ir.Each{Items: cond(`["a", "b", "c"]`), Var: "v"}}))),
				row(task("x"))), "2 4", "1 3", "1,000 3,000", "0 0",
		},
		"a loop without a limit": {
			program(row(task("l", acts(ir.Loop{Block: 1, While: cond("x.y == 1")}))), row(task("x"))), "2 unbounded",
			"1 unbounded", "1,000 unbounded", "0 0",
		},
		"a loop within the budget of steps": {
			withSteps(program(row(task("l", acts(ir.Loop{Block: 1}))), row(task("x"))), 7), "2 7", "1 6", "1,000 6,000",
			"0 0",
		},
		"a fan-out over a list of unknown length": {
			program(row(task("p",
				acts(ir.Parallel{
					Each: &ir.Each{Items: cond("x.list"), Var: "v", Block: 1},
					Join: ir.JoinAll,
				}))), row(task("x"))),
			"1 1", "1 unbounded", "1,000 1,000", "0 0",
		},
		"an edge back with a limit": {
			program(row(task("a"), task("b", edge("a", 3)), task("c"))), "3 9", "3 9", "3,000 9,000", "0 0",
		},
		"an edge back without one": {
			program(row(task("a"), task("b", when("x.y == 1"), edge("a", 0)), task("c"))), "2 2,001", "2 2,001",
			"2,000 2,001,000", "0 0",
		},
		"an edge back within the budget of steps": {
			withSteps(program(row(task("a"), task("b", when("x.y == 1"), edge("a", 0)), task("c"))), 10), "2 10",
			"2 10", "2,000 10,000", "0 0",
		},
		"a jump out of a loop": {
			program(row(task("l", acts(ir.Loop{Block: 1, Max: 2})), task("end", acts(ir.End{}))),
				row(task("x", edge("end", 0, ir.Failed)))), "3 4", "1 2", "1,000 2,000", "0 0",
		},
		"a jump out of a loop and back to it": {
			program(row(task("start"), task("l", acts(ir.Loop{Block: 1, Max: 2}))),
				row(task("x", edge("start", 4, ir.Failed)))), "3 20", "2 15", "2,000 15,000", "0 0",
		},
		"a person with time": {
			program(row(task("g", acts(ir.Gate{Decider: ir.Person, Timeout: 60_000})))), "1 1",
			"0 0", "0 0", "0 60",
		},
		"a person without": {
			program(row(task("g", acts(ir.Gate{Decider: ir.Person})))), "1 1", "0 0", "0 0",
			"0 unbounded",
		},
		"nothing":   {program(ir.Block{}), "0 0", "0 0", "0 0", "0 0"},
		"a timeout": {program(row(task("a", func(s *ir.Step) { s.Timeout = 1500 }))), "1 1", "1 1", "2 2", "0 0"},
		"a child": {
			func() *ir.Program {
				p := program(row(task("c", acts(ir.Call{Child: 0}), retry(2))))
				p.Children = []ir.Program{*program(row(task("x"), task("y")))}
				return p
			}(), "3 6", "2 4", "2,000 4,000", "0 0",
		},
		"a child within its own budget": {
			func() *ir.Program {
				p := program(row(task("c", acts(ir.Call{Child: 0}))))
				p.Children = []ir.Program{*withSteps(program(row(task("x", retry(9)))), 4)}
				return p
			}(), "2 5", "1 4", "1,000 4,000", "0 0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := check.Estimate(c.p, units)
			for what, pair := range map[string]struct {
				got  check.Range
				want string
			}{
				"steps": {r.Steps, c.steps}, "model calls": {r.ModelCalls, c.calls},
				"active seconds": {r.ActiveSeconds, c.seconds}, "waiting seconds": {r.WaitSeconds, c.waits},
			} {
				if got := pair.got.Base.String() + " " + pair.got.Worst.String(); got != pair.want {
					t.Errorf("%s: %s, want %s", what, got, pair.want)
				}
			}
			if got, want := r.Tokens.Base, r.PromptTokens.Base.Plus(r.ReplyTokens.Base); got != want {
				t.Errorf("tokens: base %v, want %v", got, want)
			}
		})
	}
}

func TestUnboundedNamesTheStep(t *testing.T) {
	p := program(row(task("again", acts(ir.Loop{Block: 1}))), row(task("x")))
	if got := check.Estimate(p, units).ModelCalls.Worst.Unbounded; !strings.Contains(got, `"again"`) {
		t.Errorf("unbounded because %q", got)
	}
	p = program(row(task("ask", acts(ir.Gate{Decider: ir.Person}))))
	if got := check.Estimate(p, units).WaitSeconds.Worst.Unbounded; !strings.Contains(got, `"ask"`) {
		t.Errorf("unbounded because %q", got)
	}
}

func TestCostsAreListedPerStepAndAgent(t *testing.T) {
	p := program(
		row(task("a", retry(2)), task("l", acts(ir.Loop{Block: 1, Max: 3})), task("p", acts(ir.Parallel{
			Branches: []ir.Branch{{Name: "W1", Block: 2}, {Name: "W2", Block: 3}}, Join: ir.JoinAll,
		}))),
		row(task("x")), row(task("W1")), row(task("y"), task("z")),
	)
	r := check.Estimate(p, units)
	var got []string
	for _, s := range r.PerStep {
		got = append(got, fmt.Sprintf("%s %s×%d %s", s.Step, s.Visits, s.Attempts, s.Worst.Tokens))
	}
	want := []string{
		"a 1×2 220", "l 1×1 0", "l/x 3×1 330", "p 1×1 0", "p/W1 1×1 110", "p/W2/y 1×1 110",
		"p/W2/z 1×1 110",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q, want %q", got, want)
	}
	if len(r.PerAgent) != 1 || r.PerAgent[0].Agent != "someone" || r.PerAgent[0].ModelCalls.N != 8 ||
		r.PerAgent[0].Tokens.N != 880 {
		t.Errorf("agents: %+v", r.PerAgent)
	}
}

func TestBudgetVerdictsFollowFromTheRange(t *testing.T) {
	p := program(row(task("a", retry(5)), task("b")))
	for _, c := range []struct {
		steps, tokens int64
		want          string
	}{
		{6, 660, "fits should fit"},
		{5, 200, "may exceed may exceed"},
		{1, 109, "cannot finish cannot finish"},
	} {
		p.Budget = ir.Budget{Steps: &ir.Limit{Max: c.steps}, Tokens: &ir.Limit{Max: c.tokens}}
		lines := check.Estimate(p, units).Budgets
		if got := string(lines[0].Verdict + " " + lines[1].Verdict); got != c.want {
			t.Errorf("%d steps, %d tokens: %s, want %s", c.steps, c.tokens, got, c.want)
		}
		if lines[1].Verdict == check.MayExceed && !strings.Contains(lines[1].Because, `step "a"`) {
			t.Errorf("because %q", lines[1].Because)
		}
	}
}

func TestReportIsJSON(t *testing.T) {
	raw, err := json.Marshal(check.Estimate(program(ir.Block{}), units))
	if err != nil || !strings.Contains(string(raw), `"per_step":[]`) || !strings.Contains(string(raw), `"budgets":[]`) {
		t.Errorf("%s, %v", raw, err)
	}
}

// Checks of constructs that Agent Flow does not have.
func TestConstructsOfOtherFormatsAreChecked(t *testing.T) {
	for name, c := range map[string]struct {
		p    *ir.Program
		want []diag.Code
	}{
		"a loop without an end": {
			program(row(task("l", acts(ir.Loop{Block: 1}))), row(task("x"))),
			[]diag.Code{check.CodeEndless},
		},
		"a loop left by an edge": {program(row(task("l", acts(ir.Loop{Block: 1}))),
			row(task("x", exits(ir.ExitLoop, "v.done == true"), writes("v")))), []diag.Code{check.CodeOnlyCap}},
		"a loop left by a jump": {program(row(task("l", acts(ir.Loop{Block: 1})), task("e", acts(ir.End{}))),
			row(task("x", edge("e", 0, ir.Failed)))), []diag.Code{check.CodeOnlyCap}},
		"a loop with a limit":     {program(row(task("l", acts(ir.Loop{Block: 1, Max: 3}))), row(task("x"))), nil},
		"an edge back with limit": {program(row(task("a"), task("b", edge("a", 3)))), nil},
		"its own loop variable": {program(row(task("l",
			acts(ir.Loop{Block: 1, Each: &ir.Each{Items: cond("[1, 2]"), Var: "item"}}))), row(task("x",
			reads("item.name")))), nil},
		"written in an earlier round": {program(row(task("l", acts(ir.Loop{Block: 1, Max: 3}))),
			row(task("x", reads("v.a"), when("v.a != null")), task("y", writes("v.a")))), nil},
		"written inside a loop": {program(row(task("l", acts(ir.Loop{Block: 1, Max: 3})), task("z", reads("v.a"))),
			row(task("y", writes("v.a")))), nil},
		"written inside a branch": {program(row(task("p",
			acts(ir.Parallel{Branches: []ir.Branch{{Name: "b", Block: 1}}, Join: ir.JoinAll})), task("z",
			reads("v.a"))), row(task("y", writes("v.a")))), nil},
		"written by a sibling branch": {
			program(row(task("p",
				acts(ir.Parallel{
					Branches: []ir.Branch{{Name: "b", Block: 1}, {Name: "c", Block: 2}},
					Join:     ir.JoinAll,
				}))),
				row(task("y", writes("v.a"))), row(task("z", reads("v.a")))), []diag.Code{check.CodeWrittenLater},
		},
		"while what only the loop writes": {
			program(row(task("l", acts(ir.Loop{Block: 1, Max: 3, While: cond("v.more == true")}))),
				row(task("y", writes("v.more")))), []diag.Code{check.CodeWrittenLater},
		},
		"declared beforehand": {
			func() *ir.Program {
				p := program(row(task("a", reads("v.a"))))
				p.Vars = []ir.Var{{Path: "v.a"}}
				return p
			}(), nil,
		},
		"a gate that goes on when rejected": {
			program(ir.Block{Steps: []ir.Step{
				task("g", acts(ir.Gate{Decider: ir.Person}), writes("v.g"), edge("b", 0, ir.OK),
					edge("b", 0, ir.Rejected)),
				task("b", reads("v.g")),
			}}), nil,
		},
		"only on failure": {
			program(ir.Block{Steps: []ir.Step{task("a", edge("mend", 0, ir.Failed)), task("mend")}}), nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := irtest.Sound(c.p, units); err != nil {
				t.Errorf("not sound: %v", err)
			}
			var got []diag.Code
			list := check.Program(c.p, units)
			for _, d := range list {
				got = append(got, d.Code)
			}
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("got %v, want %v", list, c.want)
			}
		})
	}
}

func TestSoundRejectsInvalidPrograms(t *testing.T) {
	for says, p := range map[string]*ir.Program{
		"no blocks":               {},
		"has no steps":            program(ir.Block{}),
		`called "a"`:              program(row(task("a"), task("a"))),
		`continues with "z"`:      program(row(task("a", edge("z", 0)))),
		`falls back to "z"`:       program(row(task("a", fallback("z")))),
		"to itself":               program(row(task("a", fallback("a")))),
		"kind of work":            program(row(task("a", acts(ir.Task{Kind: "magic"})))),
		"only be read":            program(row(task("a", writes("input.x")))),
		"fans out to no branches": program(row(task("a", acts(ir.Parallel{Join: ir.JoinAll})))),
		"event without":           program(row(task("a", acts(ir.Gate{Decider: ir.Event})))),
		"below zero":              program(row(task("a", acts(ir.Gate{Decider: ir.Person, Timeout: -1})))),
		"to nothing": program(row(task("a",
			acts(ir.Gate{Decider: ir.Person, OnTimeout: ir.TimeoutFallback})))),
		"runs block 7": program(row(task("a", acts(ir.Loop{Block: 7, Max: 1})))),
		"runs already": program(row(task("a", acts(ir.Loop{Block: 1, Max: 1})),
			task("b", acts(ir.Loop{Block: 1, Max: 1}))), row(task("x"))),
		"belongs to no step": program(row(task("a")), row(task("x"))),
		"calls child 0":      program(row(task("a", acts(ir.Call{})))),
		"has no action":      program(row(task("a", acts(nil)))),
		"two branches": program(row(task("a",
			acts(ir.Parallel{
				Join: ir.JoinAll,
				Branches: []ir.Branch{
					{Name: "b", Block: 1},
					{Name: "b", Block: 2},
				},
			}))), row(task("x")), row(task("y"))),
		"two agents":    {Blocks: []ir.Block{row(task("a"))}, Agents: []ir.Agent{{ID: "x"}, {ID: "x"}}},
		"a verdict and": program(row(task("a", acts(ir.Gate{Decider: ir.Work})))),
		"edge 0 is for no": program(row(task("a",
			func(s *ir.Step) { s.Next = []ir.Edge{{To: ir.Target{Exit: ir.ExitBlock}}} }))),
		"two timeouts": program(row(task("a", computes("x"), acts(ir.Loop{Block: 1, Max: 1}),
			func(s *ir.Step) { s.Timeout = 1 })), row(task("x"))),
		"its task does not": program(row(task("a", computes("x"),
			acts(ir.Parallel{
				Branches: []ir.Branch{{Name: "b", Block: 1}},
				Combine:  &ir.Task{Kind: "unit"},
			}))), row(task("x"))),
		"holds no others":     program(row(task("a", computes("x")))),
		"an exit, or to noth": program(row(task("a", edge("", 0)))),
	} {
		if err := irtest.Sound(p, units); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v", says, err)
		}
	}
}

// anyProgram draws programs that may be invalid in every way that JSON can express.
func anyProgram(t *rapid.T, depth int) *ir.Program {
	p := &ir.Program{Name: "p"}
	n := rapid.IntRange(0, 5).Draw(t, "blocks")
	names := []string{"a", "b", "c", "d", "e"}
	paths := []string{"input", "input.x", "v", "v.a", "v.b", "workflow.name"}
	name := rapid.SampledFrom(names)
	block := rapid.IntRange(-1, n)
	each := func() *ir.Each {
		if !rapid.Bool().Draw(t, "each") {
			return nil
		}
		return &ir.Each{
			Items: cond(rapid.SampledFrom([]string{"v.a", "[1, 2]", "input.x"}).Draw(t, "items")), Var: "v",
			Block: ir.BlockID(block.Draw(t, "block")),
		}
	}
	for range n {
		var b ir.Block
		for range rapid.IntRange(0, 5).Draw(t, "steps") {
			s := task(name.Draw(t, "id"))
			switch rapid.IntRange(0, 6).Draw(t, "action") {
			case 1:
				s.Action = ir.Route{}
			case 2:
				s.Action = ir.Gate{Decider: rapid.SampledFrom([]ir.Decider{ir.Person, ir.Event, ir.Work}).Draw(t,
					"decider"), Timeout: ir.Millis(rapid.Int64Range(-1, 1<<50).Draw(t,
					"timeout")), OnTimeout: ir.TimeoutSkip}
			case 3:
				par := ir.Parallel{Each: each(), MaxConcurrent: rapid.IntRange(-1, 3).Draw(t, "most"), Join: ir.JoinAll}
				for range rapid.IntRange(0, 3).Draw(t, "branches") {
					par.Branches = append(par.Branches,
						ir.Branch{
							Name: name.Draw(t, "branch"), Block: ir.BlockID(block.Draw(t, "block")),
							Budget: ir.Budget{Tokens: &ir.Limit{Max: 50}},
						})
				}
				s.Action = par
			case 4:
				s.Action = ir.Loop{
					Block: ir.BlockID(block.Draw(t, "block")), Each: each(),
					Max: rapid.IntRange(-1, 9).Draw(t, "max"),
				}
			case 5:
				s.Action = ir.Call{Child: rapid.IntRange(-1, 1).Draw(t, "child"), PassReads: true}
			case 6:
				s.Action = ir.End{Failed: rapid.Bool().Draw(t, "failed")}
			}
			for range rapid.IntRange(0, 3).Draw(t, "edges") {
				e := ir.Edge{
					On: []ir.Outcome{rapid.SampledFrom([]ir.Outcome{
						ir.OK, ir.Failed, ir.Skipped,
						ir.Rejected,
					}).Draw(t, "on")}, Limit: rapid.IntRange(0, 3).Draw(t, "limit"),
					Sequential: rapid.Bool().Draw(t, "sequential"),
				}
				e.To.Step = name.Draw(t, "to")
				if rapid.IntRange(0, 4).Draw(t, "exit") == 0 {
					e.To = ir.Target{Exit: rapid.SampledFrom([]ir.Exit{ir.ExitBlock, ir.ExitLoop, ir.ExitFail}).Draw(t,
						"exit")}
				}
				s.Next = append(s.Next, e)
			}
			if rapid.Bool().Draw(t, "when") {
				s.When = cond("v.a == 1")
			}
			if rapid.Bool().Draw(t, "fallback") {
				s.Fallback = &ir.Name{Name: name.Draw(t, "fallback")}
			}
			if rapid.Bool().Draw(t, "retry") {
				s.Retry = &ir.Retry{
					MaxAttempts: rapid.IntRange(-1, 1<<40).Draw(t, "attempts"), Backoff: ir.Exponential,
					Delays: []ir.Millis{1000}, Multiplier: 1e9,
				}
			}
			s.SkipOnError = rapid.Bool().Draw(t, "skip")
			reads(rapid.SliceOfN(rapid.SampledFrom(paths), 0, 2).Draw(t, "reads")...)(&s)
			writes(rapid.SliceOfN(rapid.SampledFrom(paths), 0, 2).Draw(t, "writes")...)(&s)
			b.Steps = append(b.Steps, s)
		}
		p.Blocks = append(p.Blocks, b)
	}
	if rapid.Bool().Draw(t, "budget") {
		p.Budget = ir.Budget{
			Steps:  &ir.Limit{Max: rapid.Int64Range(-1, 1<<62).Draw(t, "max")},
			Tokens: &ir.Limit{Max: 1000}, ToolCalls: &ir.Limit{Max: 1},
		}
	}
	if depth > 0 && rapid.Bool().Draw(t, "child") {
		p.Children = []ir.Program{*anyProgram(t, depth-1)}
	}
	return p
}

func TestWorstCaseIsAtLeastTheBase(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyProgram(t, 1)
		check.Program(p, units)
		_ = irtest.Sound(p, units)
		r := check.Estimate(p, units)
		for name, one := range map[string]check.Range{
			"steps": r.Steps, "model calls": r.ModelCalls, "tool calls": r.ToolCalls, "prompt": r.PromptTokens,
			"reply": r.ReplyTokens, "tokens": r.Tokens, "active": r.ActiveSeconds, "wait": r.WaitSeconds,
		} {
			if one.Worst.Unbounded == "" && (one.Base.Unbounded != "" || one.Worst.N < one.Base.N || one.Base.N < 0) {
				t.Fatalf("%s: base %v, worst %v", name, one.Base, one.Worst)
			}
		}
	})
}

// A budget below zero leaves nothing to a child, and nothing is subtracted from the run.
func TestNegativeBudgetsCountAsZero(t *testing.T) {
	p := program(row(task("a", writes("v.a"))))
	child := program(ir.Block{})
	child.Budget.Steps, child.Budget.Tokens = &ir.Limit{Max: -1}, &ir.Limit{Max: -1}
	p.Children = []ir.Program{*child}
	p.Blocks[0].Steps = append(p.Blocks[0].Steps, ir.Step{ID: "call", Action: ir.Call{Child: 0}})
	r := check.Estimate(p, units)
	for name, one := range map[string]check.Range{"steps": r.Steps, "tokens": r.Tokens} {
		if one.Base.N < 0 || one.Worst.N < one.Base.N {
			t.Errorf("%s: base %v, worst %v", name, one.Base, one.Worst)
		}
	}
}

// Estimate and Program handle a long chain, and one in which every step leads back to the first.
func TestLongProgramsAreChecked(t *testing.T) {
	const n = 2000
	var chain, knot []ir.Step
	for i := range n {
		chain = append(chain, task(fmt.Sprint("s", i), reads("v.a"), writes("v.a")))
		knot = append(knot, task(fmt.Sprint("s", i), when("v.a == 1"), edge("s0", 0)))
	}
	for _, p := range []*ir.Program{program(row(chain...)), program(row(knot...))} {
		check.Estimate(p, units)
	}
	if got := check.Estimate(program(row(chain...)), units).Steps.Worst.N; got != n {
		t.Errorf("%d steps, want %d", got, n)
	}
}

// A budget just below maxWalk: the steps of a long program are still estimated quickly.
func TestLongProgramsAreEstimatedWithinTheirBudget(t *testing.T) {
	const n, most = 4000, 1999
	var knot []ir.Step
	for i := range n {
		knot = append(knot, task(fmt.Sprint("s", i), when("v.a == 1"), edge("s0", 0)))
	}
	p := program(row(knot...))
	p.Budget.Steps = &ir.Limit{Max: most}
	r := check.Estimate(p, units)
	if r.ModelCalls.Worst != stepkind.N(most) || len(r.PerStep) != n {
		t.Errorf("%s model calls in %d steps", r.ModelCalls.Worst, len(r.PerStep))
	}
	for _, s := range r.PerStep {
		if s.Visits.Exceeds(most) || s.Starts.Exceeds(most) || s.Visits.N < 1 {
			t.Fatalf("step %s: %s visits and %s starts", s.Step, s.Visits, s.Starts)
		}
	}
}

// Steps that can be skipped take no time, however many are skipped in a row.
func TestSkippedStepsLeaveTheBudgetToOthers(t *testing.T) {
	const n, most = 2000, 100
	var chain []ir.Step
	var want int64 // the last steps are the most expensive ones
	for i := range n {
		last := func(s *ir.Step) { s.Timeout = ir.Millis(100 * (i + 1)) }
		chain = append(chain, task(fmt.Sprint("s", i), when("v.a == 1"), last))
		if i >= n-most {
			want += int64(i/10 + 1)
		}
	}
	p := program(row(chain...))
	p.Budget.Steps = &ir.Limit{Max: most}
	if got := check.Estimate(p, units).ActiveSeconds.Worst; got != stepkind.N(want) {
		t.Errorf("%s seconds, want %d", got, want)
	}
}

func BenchmarkTwelveSteps(b *testing.B) {
	var text strings.Builder
	text.WriteString("---\nname: bench\ndescription: d\nkind: agent-flow/workflow\nversion: 1.0.0\nbudgets:\n  " +
		"max_steps: 40\n  max_tokens: 900000\n---\n## Steps\n")
	for i := range 12 {
		read := "input"
		if i > 0 {
			read = fmt.Sprintf("state.k%d", i-1)
		}
		more := ""
		if i == 6 {
			more = "when: state.k3.more == true\ngoto: s4\n"
		}
		fmt.Fprintf(&text, "```step\nid: s%d\ntype: skill\ndescription: Do it\nagent: writer\nreads: [%s]\nwrites: "+
			"[state.k%d]\n%s```\n", i, read, i, more)
	}
	text.WriteString("## Agents\n```agent\nid: writer\nrole: r\ngoal: g\ntools: [search]\n```\n")
	f := source.NewFile("flow.md", text.String())
	p, list := agentflow.Format{}.Compile(f, files{})
	if list.Errors() {
		b.Fatal(list)
	}
	kinds := catalog.Kinds()
	b.Run("Program", func(b *testing.B) {
		for b.Loop() {
			check.Program(p, kinds)
		}
	})
	b.Run("Estimate", func(b *testing.B) {
		for b.Loop() {
			check.Estimate(p, kinds)
		}
	})
	p.Input = &ir.Contract{Schema: json.RawMessage(
		`{"type":"object","properties":{"a":{"type":"string"},"b":{"enum":["x","y"]}},"required":["a"]}`,
	)}
	b.Run("Program with a schema", func(b *testing.B) {
		for b.Loop() {
			check.Program(p, kinds)
		}
	})
}
