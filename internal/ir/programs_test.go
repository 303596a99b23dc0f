package ir

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/source"
)

// The programs below are what the five formats compile to, written by hand. They show that each format's ideas become
// steps, edges and blocks, and that no field serves one format alone.

// cond parses a condition. One dialect is enough here: the shape of a program does not depend on how a format writes
// its conditions.
func cond(text string) *expr.Expr {
	e, diags := expr.ParseValue(expr.AgentFlow, text, source.Span{})
	if diags.Errors() {
		panic(fmt.Sprint(text, diags))
	}
	return e
}

func task(kind string, settings ...any) Task {
	t := Task{Kind: kind}
	for i := 0; i < len(settings); i += 2 {
		t.Settings.Put(settings[i].(string), settings[i+1], source.Span{})
	}
	return t
}

func to(step string) Target { return Target{Step: step} }

// onward returns the sequential edge that most steps have.
func onward(step string) Edge {
	return Edge{On: []Outcome{OK, Skipped}, To: to(step), Sequential: true}
}

// agentFlowProgram has a fallback, a gate that a later condition reads, a decision, and a bundle with a merge.
func agentFlowProgram() *Program {
	p := &Program{Format: "agent-flow", Name: "report", Level: "Layer 2 (graph)", Tools: Tools{AllowAll: true}}
	body := p.AddBlock(Block{})
	actions := p.AddBlock(Block{
		Name:  "W1",
		Steps: []Step{{ID: "W1", Type: "worker", Action: task("agent", "agent", "extractor")}},
	})
	risks := p.AddBlock(Block{
		Name:  "W2",
		Steps: []Step{{ID: "W2", Type: "worker", Action: task("agent", "agent", "extractor")}},
	})
	merge := task("combine", "strategy", "union")
	critic := task("agent", "agent", "critic", "verdict", true)
	p.Agents = []Agent{{ID: "extractor", Role: "Extract"}, {ID: "critic", Role: "Review"}}
	p.Blocks[body].Steps = []Step{
		{
			ID: "extract", Type: "parallel", Writes: []Write{{Path: "state.extracted"}},
			Action: Parallel{
				Branches: []Branch{{Name: "W1", Block: actions}, {Name: "W2", Block: risks}},
				Join:     JoinSettle, Combine: &merge,
			},
			Next: []Edge{onward("review")},
		},
		{
			ID: "review", Type: "gate", When: cond(`workflow.risk_profile != "low"`),
			Reads: []Ref{{Path: "state.extracted"}}, Writes: []Write{{Path: "state.review"}},
			Action: Gate{Decider: Work, Verdict: &critic}, Fallback: &Name{Name: "review_simple"},
			Next: []Edge{{On: []Outcome{OK, Skipped, Rejected}, To: to("route"), Sequential: true}},
		},
		{
			ID: "review_simple", Type: "transform", Writes: []Write{{Path: "state.review"}},
			Action: task("transform", "mode", "model"), Next: []Edge{onward("route")},
		},
		{
			ID: "route", Type: "decision", Reads: []Ref{{Path: "state.review.gate_result"}}, Action: Route{},
			Next: []Edge{
				{
					On: []Outcome{OK}, When: cond(`text(state.review.gate_result) == "approved"`), To: to("publish"),
					Label: "approved",
				},
				{On: []Outcome{OK}, To: Target{Exit: ExitFail, Reason: "NO_BRANCH"}, Label: "no match"},
			},
		},
		{
			ID: "publish", Type: "end", Writes: []Write{{Path: "output", Reducer: Merge}},
			Action: End{Check: cond("output.report != null")},
		},
	}
	return p
}

// awfProgram has a loop inside a parallel branch with a jump out of it, transitions after failures, ignored failures,
// and an inline end with an exit code.
func awfProgram() *Program {
	p := &Program{Format: "awf", Name: "check-all", Tools: Tools{AllowAll: true}}
	body := p.AddBlock(Block{})
	files := p.AddBlock(Block{Name: "files"})
	each := p.AddBlock(Block{Name: "each_file"})
	docs := p.AddBlock(Block{Name: "docs", Steps: []Step{
		{
			ID: "docs", Type: "step", Action: task("command", "command", "make docs"),
			Writes: []Write{{Path: "states.docs"}},
		},
	}})
	p.Blocks[body].Steps = []Step{
		{
			ID: "prepare", Type: "step", Writes: []Write{{Path: "states.prepare"}},
			Action: task("command", "command", "make prepare"),
			Retry: &Retry{
				MaxAttempts: 3, Backoff: Exponential, Delays: []Millis{1000}, Multiplier: 2,
				ExitCodes: []int{75},
			},
			Next: []Edge{
				{
					On: []Outcome{OK, Failed}, When: cond(`states.prepare.ExitCode == 2`), To: to("both"),
					Label: "nothing to do",
				},
				{On: []Outcome{OK}, To: to("both")},
				{On: []Outcome{Failed}, To: to("prepare_failed")},
			},
		},
		{
			ID: "both", Type: "parallel",
			Action: Parallel{
				Branches:      []Branch{{Name: "files", Block: files}, {Name: "docs", Block: docs}},
				MaxConcurrent: 2, Join: JoinAll,
			},
			Next: []Edge{{On: []Outcome{OK}, To: to("cleanup")}, {On: []Outcome{Failed}, To: to("cleanup")}},
		},
		// continue_on_error: the transition is the same for every outcome.
		{
			ID: "cleanup", Type: "step", Action: task("command", "command", "make clean"),
			Next: []Edge{{On: []Outcome{OK, Failed}, To: to("done")}},
		},
		{ID: "done", Type: "terminal", Action: End{}},
		// on_failure: {message, status} in place of a state's name.
		{ID: "prepare_failed", Type: "terminal", Implied: true, Action: End{
			Failed: true, Message: "cannot prepare",
			Status: 3,
		}},
	}
	p.Blocks[files].Steps = []Step{
		{
			ID: "each_file", Type: "for_each",
			Action: Loop{
				Block: each, Each: &Each{Items: cond("inputs.files"), Var: "loop.Item"},
				BreakWhen: cond("states.test.ExitCode == 9"), Max: 100,
			},
			Next: []Edge{{On: []Outcome{OK}, To: to("summary")}},
		},
		{ID: "summary", Type: "step", Action: task("command", "command", "make summary")},
		// Entered from inside the loop; the loop's own edge is not taken.
		{ID: "quarantine", Type: "step", Action: task("command", "command", "make quarantine")},
	}
	p.Blocks[each].Steps = []Step{
		{
			ID: "lint", Type: "step", Writes: []Write{{Path: "states.lint"}},
			Action: task("command", "command", "lint {{.loop.Item}}"),
			Next: []Edge{
				{On: []Outcome{Failed}, When: cond(`states.lint.Stderr contains "virus"`), To: to("quarantine")},
				{
					On: []Outcome{Failed}, When: cond(`states.lint.ExitCode == 1`), To: Target{Exit: ExitBlock},
					Label: "next file",
				},
				{On: []Outcome{OK}, To: to("test")},
			},
		},
		{
			ID: "test", Type: "step", Writes: []Write{{Path: "states.test"}},
			Action: task("command", "command", "test {{.loop.Item}}"),
			Next:   []Edge{{On: []Outcome{OK}, When: cond("loop.Index > 50"), To: Target{Exit: ExitLoop}}},
		},
	}
	return p
}

// awfCallProgram has a child workflow with bound inputs and named outputs, in a loop with a computed bound.
func awfCallProgram() *Program {
	child := Program{Format: "awf", Name: "build-one", Tools: Tools{AllowAll: true}, Blocks: []Block{{Steps: []Step{
		{
			ID: "build", Type: "step", Writes: []Write{{Path: "outputs.image"}},
			Action: task("command", "command", "make"),
		},
	}}}}
	p := &Program{Format: "awf", Name: "build", Tools: Tools{AllowAll: true}, Children: []Program{child}}
	body := p.AddBlock(Block{})
	loop := p.AddBlock(Block{Name: "until_green", Steps: []Step{{
		ID: "one", Type: "call_workflow", Timeout: 300_000, Writes: []Write{{Path: "states.one.image", Part: "image"}},
		Action: Call{Child: 0, Inputs: []Binding{{Name: "target", Value: cond("inputs.target")}}},
	}}})
	p.Blocks[body].Steps = []Step{{
		ID: "until_green", Type: "while", TimeoutExpr: cond("inputs.patience"),
		Action: Loop{
			Block: loop, While: cond("states.one.image == null"), MaxExpr: cond("inputs.tries"), Max: 10_000,
			FailAtMax: true,
		},
	}}
	return p
}

// nofProgram has a crew that appends to one list, a back edge with a limit, and a conditional route.
func nofProgram() *Program {
	p := &Program{
		Format: "nof", Name: "insights", Tools: Tools{AllowAll: true},
		Vars: []Var{
			{Path: "insights", Reducer: Append, Init: json.RawMessage(`[]`)},
			{Path: "quality", Init: json.RawMessage(`0`)},
			{Path: "final"},
		},
	}
	body := p.AddBlock(Block{})
	var crew []Branch
	for _, key := range []string{"scout", "kg-completer"} {
		p.Agents = append(p.Agents, Agent{ID: key})
		block := p.AddBlock(Block{Name: key, Steps: []Step{{
			ID: key, Type: "agent", Writes: []Write{{Path: "insights", Part: "insights"}},
			Action: task("agent", "agent", key),
		}}})
		crew = append(crew, Branch{Name: key, Block: block})
	}
	p.Blocks[body].Steps = []Step{
		{ID: "research", Type: "crew", Action: Parallel{Branches: crew, Join: JoinAll}, Next: []Edge{onward("judge")}},
		{
			ID: "judge", Type: "agent", Reads: []Ref{{Path: "insights"}},
			Writes: []Write{{Path: "quality", Part: "quality"}},
			Action: task("agent", "agent", "scout"),
			Next: []Edge{
				{
					On: []Outcome{OK}, When: cond("quality < 0.8 and insights is non-empty"), To: to("research"),
					Limit: 3, Label: "cycle",
				},
				{On: []Outcome{OK}, When: cond("len(insights) > 10"), To: to("condense")},
				{On: []Outcome{OK, Skipped}, To: to("write")},
			},
		},
		{
			ID: "condense", Type: "agent", Writes: []Write{{Path: "insights", Reducer: Set}},
			Action: task("agent", "agent", "scout"), Next: []Edge{onward("write")},
		},
		{ID: "write", Type: "agent", Writes: []Write{{Path: "final"}}, Action: task("agent", "agent", "scout")},
	}
	return p
}

// aiflowProgram has ordered rules of which the first match wins, one rule that a person must confirm, and an end for
// the case that no rule matches.
func aiflowProgram() *Program {
	p := &Program{
		Format: "aiflow", Dialect: "C", Name: "support", Tools: Tools{AllowAll: true},
		Vars:   []Var{{Path: "context.language", Init: json.RawMessage(`"nl"`)}},
		Budget: Budget{Steps: &Limit{Max: 50}},
		Agents: []Agent{{ID: "triage", Provider: "google", Model: "m"}, {ID: "billing"}, {ID: "backup"}},
	}
	last := []Edge{
		{On: []Outcome{OK}, When: cond(`output.type == "billing"`), To: to("billing"), Label: "r2"},
		{On: []Outcome{OK}, To: to("no_transition")},
	}
	refused := slices.Clone(last) // a rule that a person refused does not match: continue with the next ones
	for i := range refused {
		refused[i].On = []Outcome{Rejected}
	}
	p.AddBlock(Block{Steps: []Step{
		{
			ID: "triage", Type: "agent", Writes: []Write{{Path: "context.output_triage"}, {Path: "output"}},
			Action: task("agent", "agent", "triage"),
			Retry:  &Retry{MaxAttempts: 2, Backoff: Constant, Delays: []Millis{1000}, On: []Class{"transient"}},
			Next: append([]Edge{
				{On: []Outcome{OK}, When: cond(`output.type == "refund"`), To: to("triage:r1"), Label: "r1"},
			}, append(last, Edge{On: []Outcome{Failed}, To: to("backup"), Limit: 1})...),
		},
		{
			ID: "triage:r1", Type: "decision owner", Implied: true, Reads: []Ref{{Path: "output"}},
			Action: Gate{Decider: Person},
			Next:   append([]Edge{{On: []Outcome{OK}, To: to("billing"), Label: "r1"}}, refused...),
		},
		{
			ID: "billing", Type: "agent", Writes: []Write{{Path: "context.output_billing"}, {Path: "output"}},
			Action: task("agent", "agent", "billing"),
			Next: []Edge{
				{On: []Outcome{OK}, When: cond(`contains(output.reply, "unclear")`), To: to("triage"), Label: "r3"},
				{On: []Outcome{OK}, To: Target{Exit: ExitBlock}, Label: "r4"},
			},
		},
		{ID: "backup", Type: "agent", Writes: []Write{{Path: "output"}}, Action: task("agent", "agent", "backup")},
		{ID: "no_transition", Type: "end", Implied: true, Action: End{Message: "no_transition"}},
	}})
	return p
}

// agentfileProgram has a step that writes a file, and a gate that a person must approve.
func agentfileProgram() *Program {
	p := &Program{
		Format: "agentfile", Name: "write-up", Version: "1.0.0", Tools: Tools{AllowAll: true},
		Agents: []Agent{{ID: "analyst", Instructions: "…"}},
	}
	p.AddBlock(Block{Steps: []Step{
		{
			ID: "analyse", Type: "agent", Reads: []Ref{{Path: "input"}}, Writes: []Write{{Path: "artifacts.analyse"}},
			Action: task("agent", "agent", "analyst"), Produces: []Name{{Name: "outputs/01-analysis.md"}},
			Next: []Edge{onward("analyse:gate")},
		},
		{
			ID: "analyse:gate", Type: "gate", Implied: true, Reads: []Ref{{Path: "artifacts.analyse"}},
			Action: Gate{Decider: Person},
			Next:   []Edge{onward("publish")},
		},
		{
			ID: "publish", Type: "shell", Reads: []Ref{{Path: "artifacts.analyse"}},
			Action: task("command", "bash", "scripts/publish.sh"),
		},
	}})
	return p
}

func TestProgramsOfAllFormats(t *testing.T) {
	for name, build := range map[string]func() *Program{
		"agent flow": agentFlowProgram, "awf": awfProgram, "awf call": awfCallProgram,
		"nof": nofProgram, "aiflow": aiflowProgram, "agentfile": agentfileProgram,
	} {
		t.Run(name, func(t *testing.T) {
			p := build()
			for _, problem := range broken(p) {
				t.Error(problem)
			}
			roundTrip(t, p)
		})
	}
}

// Each change breaks one guarantee of ir, so that broken is shown to detect it.
func TestBrokenFindsEachViolation(t *testing.T) {
	for want, damage := range map[string]func(p *Program){
		`both → nowhere: no such step`: func(p *Program) { p.Blocks[0].Steps[1].Next[0].To = to("nowhere") },
		// A branch is concurrent with others: it cannot jump into an enclosing block.
		`summary → cleanup: no such step`: func(p *Program) {
			p.Step(1, "summary").Next = []Edge{{On: []Outcome{OK}, To: to("cleanup")}}
		},
		`lint → cleanup: no such step`: func(p *Program) { p.Step(2, "lint").Next[0].To = to("cleanup") },
		`summary leaves a loop that it is not in`: func(p *Program) {
			p.Step(1, "summary").Next = []Edge{{On: []Outcome{OK}, To: Target{Exit: ExitLoop}}}
		},
		`block 9 does not exist`: func(p *Program) {
			p.Blocks[0].Steps[1].Action.(Parallel).Branches[1].Block = 9
		},
		`block 1 is used 2 times`: func(p *Program) {
			p.Blocks[0].Steps[1].Action.(Parallel).Branches[1].Block = 1
		},
		`block 0 has two steps "done"`: func(p *Program) { p.Blocks[0].Steps[2].ID = "done" },
		`done falls back to missing: no such step`: func(p *Program) {
			p.Step(0, "done").Fallback = &Name{Name: "missing"}
		},
		`test has an edge for no outcome`:            func(p *Program) { p.Step(2, "test").Next[0].On = nil },
		`test goes to a step and an exit`:            func(p *Program) { p.Step(2, "test").Next[0].To.Step = "lint" },
		`done calls program 0, which does not exist`: func(p *Program) { p.Step(0, "done").Action = Call{} },
	} {
		p := awfProgram()
		damage(p)
		if !slices.Contains(broken(p), want) {
			t.Errorf("%s: got %q", want, broken(p))
		}
	}
}

// broken lists the violations of what ir guarantees to its readers: every name resolves, and blocks form a tree.
func broken(p *Program) []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }

	used := make([]int, len(p.Blocks))
	around := map[BlockID]BlockID{} // the block that a loop's block may jump into
	use := func(b BlockID) {
		if int(b) >= len(p.Blocks) {
			say("block %d does not exist", b)
			return
		}
		used[b]++
	}
	use(Body)
	for b := range p.Blocks {
		for _, s := range p.Blocks[b].Steps {
			switch a := s.Action.(type) {
			case Parallel:
				for _, branch := range a.Branches {
					use(branch.Block)
				}
				if a.Each != nil {
					use(a.Each.Block)
				}
			case Loop:
				use(a.Block)
				around[a.Block] = BlockID(b)
			case Call:
				if a.Child >= len(p.Children) {
					say("%s calls program %d, which does not exist", s.ID, a.Child)
				} else {
					out = append(out, broken(&p.Children[a.Child])...)
				}
			case nil:
				say("%s does nothing", s.ID)
			}
		}
	}
	for b, n := range used {
		if n != 1 {
			say("block %d is used %d times", b, n)
		}
	}

	inside := func(b BlockID) (out []BlockID) { // b and the blocks that it may jump into
		for {
			out = append(out, b)
			outer, ok := around[b]
			if !ok || len(out) > len(p.Blocks) {
				return out
			}
			b = outer
		}
	}
	for b := range p.Blocks {
		scope := inside(BlockID(b))
		ids := map[string]bool{}
		for _, s := range p.Blocks[b].Steps {
			if ids[s.ID] {
				say("block %d has two steps %q", b, s.ID)
			}
			ids[s.ID] = true
			if s.Fallback != nil && p.Step(BlockID(b), s.Fallback.Name) == nil {
				say("%s falls back to %s: no such step", s.ID, s.Fallback.Name)
			}
			for _, edge := range s.Next {
				found := slices.ContainsFunc(scope, func(b BlockID) bool { return p.Step(b, edge.To.Step) != nil })
				switch {
				case len(edge.On) == 0:
					say("%s has an edge for no outcome", s.ID)
				case edge.To.Step != "" && edge.To.Exit != "":
					say("%s goes to a step and an exit", s.ID)
				case edge.To.Exit == ExitLoop && len(scope) == 1:
					say("%s leaves a loop that it is not in", s.ID)
				case edge.To.Exit == "" && !found:
					say("%s → %s: no such step", s.ID, edge.To.Step)
				}
			}
		}
	}
	return out
}

// The order of edges is the order of the author's rules.
func TestEdgesKeepTheirOrder(t *testing.T) {
	p := aiflowProgram()
	back := new(Program)
	if err := json.Unmarshal(encode(t, p), back); err != nil {
		t.Fatal(err)
	}
	var labels []string
	for _, e := range back.Step(Body, "triage").Next {
		labels = append(labels, e.Label)
	}
	if d := cmp.Diff([]string{"r1", "r2", "", ""}, labels); d != "" {
		t.Error(d)
	}
}
