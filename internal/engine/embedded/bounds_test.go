package embedded_test

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/espalier-run/espalier/internal/check"
	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/engine/enginetest"
	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/ir/irtest"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/memorytest"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// adversary is a step kind whose tasks use as much as they may, and fail or
// succeed as a seed says.
type adversary struct {
	seed   int
	failOf int // of ten attempts, how many fail
}

const adversaryModelCalls, adversaryToolCalls = 3, 5

func (adversary) Name() string                                    { return "test" }
func (adversary) Traits(*ir.Program, *ir.Task) ir.Traits          { return ir.Traits{} }
func (adversary) Understands(*ir.Task) error                      { return nil }
func (adversary) Check(*ir.Program, *ir.Step, *ir.Task) diag.List { return nil }
func (adversary) Uses(*ir.Task) stepkind.Uses                     { return stepkind.Uses{} }

func (adversary) Bound(*ir.Program, *ir.Step, *ir.Task, *contract.Contract) stepkind.Bound {
	cost := stepkind.Cost{ModelCalls: stepkind.N(adversaryModelCalls), ToolCalls: stepkind.N(adversaryToolCalls)}
	return stepkind.Bound{Base: cost, Worst: cost}
}

func (adversary) Recovery(*ir.Task, []journal.TaskNoted) step.Recovery { return step.Rerun }

func (a adversary) Run(_ context.Context, job *step.Job) (step.Result, error) {
	h := fnv.New64a()
	fmt.Fprint(h, a.seed, job.Key, job.Attempt, job.Visit)
	n := h.Sum64() >> 7
	out := step.Result{
		Value: json.RawMessage(fmt.Sprint(n%3 != 0)),
		Usage: journal.Usage{ModelCalls: adversaryModelCalls, ToolCalls: adversaryToolCalls},
	}
	if int(n/3%10) < a.failOf {
		return out, step.Errorf(ir.ClassTool, "it fails")
	}
	return out, nil
}

func condition(text string) *expr.Expr {
	e, list := expr.ParseValue(expr.AgentFlow, text, source.Span{})
	if list.Errors() {
		panic(fmt.Sprint(list))
	}
	return e
}

// programOf draws a program with what makes costs hard to predict: retries,
// fallbacks, jumps back, loops, branches and child workflows.
func programOf(t *rapid.T, prefix string, depth int) *ir.Program {
	p := &ir.Program{Name: "test", Format: "test"}
	// A child whose budget is exhausted fails, and its caller may repeat it: only
	// the budget of the run ends a repetition for certain.
	if rapid.IntRange(0, 2).Draw(t, "budget") == 0 {
		p.Budget.Steps = &ir.Limit{Max: rapid.Int64Range(1, 40).Draw(t, "max_steps")}
	}
	// Where a budget bounds the steps, repetitions need no limit.
	least := 1
	if p.Budget.Steps != nil && prefix == "s" {
		least = 0
	}
	var block func(prefix string, depth int) ir.BlockID
	block = func(prefix string, depth int) ir.BlockID {
		id := ir.BlockID(len(p.Blocks))
		p.Blocks = append(p.Blocks, ir.Block{})
		n := rapid.IntRange(1, 4).Draw(t, "steps")
		var steps, apart []ir.Step
		for i := range n {
			name := fmt.Sprint(prefix, i)
			s := ir.Step{
				ID: name, Type: "task", Action: ir.Task{Kind: "test"}, Writes: []ir.Write{{Path: "state." + name}},
			}
			kind := rapid.IntRange(0, 8).Draw(t, "kind")
			switch {
			case depth > 0 && kind == 0:
				s.Action = ir.Loop{Block: block(name+"l", depth-1), Max: rapid.IntRange(least, 3).Draw(t, "rounds")}
			case depth > 0 && kind == 1:
				par := ir.Parallel{Join: rapid.SampledFrom([]ir.Join{ir.JoinAll, ir.JoinSettle}).Draw(t, "join")}
				outer := least
				for b := range rapid.IntRange(1, 3).Draw(t, "branches") {
					least = 1 // the steps of branches do not count against the budget of the run
					branch := ir.Branch{Name: fmt.Sprint("b", b)}
					if rapid.Bool().Draw(t, "branch budget") {
						branch.Budget.Steps = &ir.Limit{Max: rapid.Int64Range(1, 10).Draw(t, "branch steps")}
						least = 0
					}
					branch.Block = block(fmt.Sprint(name, "p", b), depth-1)
					par.Branches = append(par.Branches, branch)
				}
				s.Action, least = par, outer
			case depth > 0 && kind == 2:
				p.Children = append(p.Children, *programOf(t, name+"c", depth-1))
				s.Action = ir.Call{Child: len(p.Children) - 1, PassReads: true}
			case kind == 3 && i > 0: // the first step runs, so that every round has one
				s.When = condition("state." + prefix + "0 != true")
			}
			if _, group := s.Action.(ir.Parallel); group {
				s.Writes = nil
			}
			if rapid.IntRange(0, 2).Draw(t, "retry") == 0 {
				s.Retry = &ir.Retry{
					MaxAttempts: rapid.IntRange(1, 3).Draw(t, "attempts"), Backoff: ir.Constant, Delays: []ir.Millis{1},
				}
			}
			s.SkipOnError = rapid.IntRange(0, 2).Draw(t, "skips") == 0
			switch fallback := rapid.IntRange(0, 5).Draw(t, "fallback"); {
			case fallback == 0: // a step that is entered only as a fallback
				other := ir.Step{ID: name + "f", Type: "task", Action: ir.Task{Kind: "test"}}
				if rapid.Bool().Draw(t, "fallback retry") {
					other.Retry = &ir.Retry{MaxAttempts: 2, Backoff: ir.Constant, Delays: []ir.Millis{1}}
				}
				if rapid.IntRange(0, 2).Draw(t, "fallback jump") == 0 {
					other.Next = []ir.Edge{{
						On:    []ir.Outcome{ir.OK, ir.Failed},
						To:    ir.Target{Step: fmt.Sprint(prefix, rapid.IntRange(0, i).Draw(t, "fallback to"))},
						Limit: rapid.IntRange(least, 2).Draw(t, "fallback limit"),
					}}
				}
				apart = append(apart, other)
				s.Fallback = &ir.Name{Name: other.ID}
			case fallback == 1 && i+1 < n: // a step that may also run by itself
				s.Fallback = &ir.Name{Name: fmt.Sprint(prefix, rapid.IntRange(i+1, n-1).Draw(t, "falls to"))}
			}
			if i > 0 && rapid.IntRange(0, 3).Draw(t, "back") == 0 {
				s.Next = append(s.Next, ir.Edge{
					On:    []ir.Outcome{ir.OK, ir.Failed},
					To:    ir.Target{Step: fmt.Sprint(prefix, rapid.IntRange(0, i-1).Draw(t, "to"))},
					Limit: rapid.IntRange(least, 2).Draw(t, "limit"),
				})
			}
			if i+1 < n {
				on := []ir.Outcome{ir.OK, ir.Skipped}
				if rapid.Bool().Draw(t, "goes on") {
					on = append(on, ir.Failed)
				}
				s.Next = append(s.Next, ir.Edge{On: on, To: ir.Target{Step: fmt.Sprint(prefix, i+1)}, Sequential: true})
			}
			steps = append(steps, s)
		}
		p.Blocks[id].Steps = append(steps, apart...)
		return id
	}
	block(prefix, depth)
	return p
}

// spent is what a run has used.
type spent struct {
	usage  journal.Usage
	starts map[string]int64 // attempts, by step
	// stopped has the budgets of steps that stopped something: "" is that of the run, "fan/w" that of a branch.
	stopped map[string]bool
}

// runProgram runs a program to its end, or to where a budget stops it.
func runProgram(t *testing.T, p *ir.Program, kind step.Runner) (out spent) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := memorytest.New()
		defer store.Close()
		e := newEngine(store, &solo{id: "me", wakes: make(chan struct{}, 1)}, kind)
		defer enginetest.Stop(e)
		if err := e.Start(
			t.Context(), enginetest.ID, &engine.Definition{Program: p}, json.RawMessage("{}"), nil, journal.Actor{},
		); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Wait(t.Context(), enginetest.ID); err != nil {
			t.Fatal(err)
		}
		state, _, _, err := e.Load(t.Context(), enginetest.ID)
		if err != nil {
			t.Fatal(err)
		}
		ledger := state.Spent
		if ledger == nil {
			ledger = state.Frames[""].Ledger
		}
		out.usage = ledger.Used
		out.starts, out.stopped = map[string]int64{}, map[string]bool{}
		state = &plan.State{}
		for e, err := range store.Events(t.Context(), enginetest.ID, 0) {
			if err != nil {
				t.Fatal(err)
			}
			switch x := e.Fact.(type) {
			case journal.TaskStarted:
				out.starts[x.Step]++
			case journal.BudgetWait:
				out.stopped[exhausted(state, x.Frame)] = true
			case journal.StepLeft:
				// A step that contains others fails because of them; they have failed before it.
				if x.Class == ir.ClassBudget && state.Frames[x.Frame].Phase != plan.Grouped {
					out.stopped[exhausted(state, x.Frame)] = true
				}
			}
			state.Apply(&e)
		}
	})
	return out
}

// exhausted returns the innermost budget of steps that has nothing left for a frame.
func exhausted(s *plan.State, path string) string {
	for f := s.Frames[path]; ; f = s.Frames[f.Parent] {
		full := f.Ledger != nil && f.Ledger.Limits.Steps != nil && f.Ledger.Used.Steps >= *f.Ledger.Limits.Steps
		switch {
		case f.Path == "":
			return ""
		case full && f.Apart:
			return s.Frames[f.Parent].Step + "/" + f.Name
		case full || f.Apart:
			return "child" // whose budgets are not part of the report
		}
	}
}

// exceeded returns where a run has used more than the report allows.
func exceeded(report *check.Report, used spent) (over []string) {
	test := func(what string, n int64, most stepkind.Amount) {
		if most.Unbounded == "" && n > most.N {
			over = append(over, fmt.Sprintf("%s: %d, predicted %d", what, n, most.N))
		}
	}
	test("steps", used.usage.Steps, report.Steps.Worst)
	test("model calls", used.usage.ModelCalls, report.ModelCalls.Worst)
	test("tool calls", used.usage.ToolCalls, report.ToolCalls.Worst)
	attempts := map[string]stepkind.Amount{}
	for _, s := range report.PerStep {
		attempts[s.Step[strings.LastIndexByte(s.Step, '/')+1:]] = s.Starts
	}
	for id, n := range used.starts {
		test("attempts of "+id, n, attempts[id])
	}
	for _, line := range report.Budgets {
		if line.Name == "steps" && line.Verdict == check.Fits && used.stopped[scopeOf(line)] {
			over = append(over, fmt.Sprintf("the budget of steps of %q fits, but is exhausted", line.Scope))
		}
	}
	return over
}

// scopeOf returns the step and the branch that a budget belongs to, without what encloses them.
func scopeOf(line check.BudgetLine) string {
	parts := strings.Split(line.Scope, "/")
	return strings.Join(parts[max(0, len(parts)-2):], "/")
}

// No run exceeds what the estimate says it can use at most, whatever its tasks
// do, and no budget that is said to fit stops a run or a worker.
func TestNoRunExceedsItsBounds(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := programOf(r, "s", 2)
		if err := irtest.Sound(p, stepkind.NewSet(adversary{})); err != nil {
			r.Fatal(err)
		}
		report := check.Estimate(p, stepkind.NewSet(adversary{}))
		for range 3 {
			kind := adversary{seed: rapid.Int().Draw(r, "seed"), failOf: rapid.IntRange(0, 10).Draw(r, "fail")}
			if over := exceeded(&report, runProgram(t, p, kind)); over != nil {
				text, _ := json.Marshal(p)
				r.Fatalf("%s\n%s", strings.Join(over, "\n"), text)
			}
		}
	})
}

// A child whose own budget ends it early takes fewer steps of the run's budget, so that the run can call it more often.
func TestChildrenThatExhaustTheirBudgetAreRepeated(t *testing.T) {
	task := func(id string, next ...ir.Edge) ir.Step {
		return ir.Step{ID: id, Type: "task", Action: ir.Task{Kind: "test"}, Next: next}
	}
	to := func(step string, limit int) ir.Edge {
		return ir.Edge{On: []ir.Outcome{ir.OK, ir.Skipped, ir.Failed}, To: ir.Target{Step: step}, Limit: limit}
	}
	child := ir.Program{
		Format: "test", Name: "test", Budget: ir.Budget{Steps: &ir.Limit{Max: 2}},
		Blocks: []ir.Block{{Steps: []ir.Step{
			task("c0", to("c1", 0)), task("c1", to("c2", 0)), task("c2", to("c3", 0)),
			task("c3", to("c4", 0)), task("c4"),
		}}},
	}
	call := ir.Step{
		ID: "s0", Type: "task", Action: ir.Call{PassReads: true}, SkipOnError: true, Next: []ir.Edge{to("s1", 0)},
	}
	p := &ir.Program{
		Format: "test", Name: "test", Budget: ir.Budget{Steps: &ir.Limit{Max: 8}}, Children: []ir.Program{child},
		Blocks: []ir.Block{{Steps: []ir.Step{call, task("s1", to("s0", 2))}}},
	}
	report := check.Estimate(p, stepkind.NewSet(adversary{}))
	used := runProgram(t, p, adversary{})
	if used.starts["c0"] != 2 {
		t.Fatalf("the child ran %d times", used.starts["c0"])
	}
	if over := exceeded(&report, used); over != nil {
		t.Error(strings.Join(over, "\n"))
	}
}

// outcomes is a step kind whose tasks fail in the steps that it has.
type outcomes struct {
	adversary
	failing []string
}

func (o outcomes) Run(_ context.Context, job *step.Job) (step.Result, error) {
	out := step.Result{
		Value: json.RawMessage("true"),
		Usage: journal.Usage{ModelCalls: adversaryModelCalls, ToolCalls: adversaryToolCalls},
	}
	if slices.Contains(o.failing, job.Step.ID) {
		return out, step.Errorf(ir.ClassTool, "it fails")
	}
	return out, nil
}

// The estimate follows fallbacks as runs do: each of these runs starts a step as often as predicted.
func TestFallbacksStayWithinTheirBounds(t *testing.T) {
	task := func(id, fallback string, next ...ir.Edge) ir.Step {
		s := ir.Step{
			ID: id, Type: "task", Action: ir.Task{Kind: "test"}, Writes: []ir.Write{{Path: "state." + id}}, Next: next,
		}
		if fallback != "" {
			s.Fallback = &ir.Name{Name: fallback}
		}
		return s
	}
	goTo := func(step string, on ...ir.Outcome) ir.Edge { return ir.Edge{On: on, To: ir.Target{Step: step}} }
	then := func(step string) ir.Edge {
		return ir.Edge{On: []ir.Outcome{ir.OK, ir.Skipped}, To: ir.Target{Step: step}, Sequential: true}
	}
	skipped := func(s ir.Step) ir.Step { s.When = condition("state.a != true"); return s }
	loop := task("b", "")
	loop.Action, loop.Writes, loop.SkipOnError = ir.Loop{Block: 1}, nil, true
	for name, c := range map[string]struct {
		body, loop []ir.Step
		steps      int64
		failing    []string
		step       string // with so many starts
		starts     int64
	}{
		"the fallback of a fallback follows the jump of that one": {
			body:  []ir.Step{task("a", "b", then("b")), task("b", "c", goTo("a", ir.OK)), task("c", "")},
			steps: 5, failing: []string{"a", "b"}, step: "c", starts: 1,
		},
		"the fallback of a skipped step does not follow its jump": {
			body: []ir.Step{
				task("a", "", then("b")), skipped(task("b", "f", goTo("a", ir.OK), then("c"))), task("c", ""),
				task("f", ""),
			},
			steps: 9, step: "c", starts: 1,
		},
		"a loop is left for the successors of the step that it replaces": {
			body:  []ir.Step{task("a", "b", then("b")), loop},
			loop:  []ir.Step{task("x", "", ir.Edge{On: []ir.Outcome{ir.OK}, To: ir.Target{Exit: ir.ExitFail}})},
			steps: 9, failing: []string{"a"}, step: "x", starts: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := &ir.Program{
				Format: "test", Name: "test", Budget: ir.Budget{Steps: &ir.Limit{Max: c.steps}},
				Blocks: []ir.Block{{Steps: c.body}},
			}
			if c.loop != nil {
				p.Blocks = append(p.Blocks, ir.Block{Steps: c.loop})
			}
			kinds := stepkind.NewSet(adversary{})
			if err := irtest.Sound(p, kinds); err != nil {
				t.Fatal(err)
			}
			report := check.Estimate(p, kinds)
			used := runProgram(t, p, outcomes{failing: c.failing})
			if over := exceeded(&report, used); over != nil {
				t.Error(strings.Join(over, "\n"))
			}
			at := slices.IndexFunc(report.PerStep, func(s check.StepCost) bool { return path.Base(s.Step) == c.step })
			if got := used.starts[c.step]; got != c.starts || report.PerStep[at].Starts != stepkind.N(c.starts) {
				t.Errorf("step %q started %d times, predicted %v, want %d",
					c.step, got, report.PerStep[at].Starts, c.starts)
			}
		})
	}
}

// features returns what makes the costs of a program hard to predict.
func features(p *ir.Program) map[string]bool {
	out := map[string]bool{"budget": p.Budget.Steps != nil}
	for _, b := range p.Blocks {
		for i := range b.Steps {
			s := &b.Steps[i]
			switch s.Action.(type) {
			case ir.Loop:
				out["loop"] = true
			case ir.Parallel:
				out["branches"] = true
			case ir.Call:
				out["child"] = true
			}
			out["retry"] = out["retry"] || s.Attempts() > 1
			out["fallback"] = out["fallback"] || s.Fallback != nil
			for _, edge := range s.Next {
				out["jump"] = out["jump"] || edge.To.Step <= s.ID
			}
		}
	}
	return out
}

// For each feature of programs there is a run that uses at least nine tenths of what the estimate allows: of steps, of
// model calls and of tool calls at the same time, and of the attempts of some step. The programs are random, but always
// the same.
func TestBoundsAreAttained(t *testing.T) {
	const programs, tries = 150, 4
	programAt := rapid.Custom(func(r *rapid.T) *ir.Program { return programOf(r, "s", 1) })
	best := map[string]float64{}
	var workersFit, workersStopped int
	reach := func(key string, n int64, most stepkind.Amount) float64 {
		if most.Unbounded != "" || most.N == 0 {
			return 0
		}
		best[key] = max(best[key], float64(n)/float64(most.N))
		return float64(n) / float64(most.N)
	}
	for seed := range programs {
		p := programAt.Example(seed)
		report := check.Estimate(p, stepkind.NewSet(adversary{}))
		for try := range tries {
			used := runProgram(t, p, adversary{seed: try, failOf: []int{0, 10, 5, 8}[try]})
			if over := exceeded(&report, used); over != nil {
				t.Fatalf("program %d: %s", seed, strings.Join(over, "\n"))
			}
			for _, line := range report.Budgets {
				switch {
				case line.Scope != "" && line.Verdict == check.Fits:
					workersFit++
				case line.Scope != "" && used.stopped[scopeOf(line)]:
					workersStopped++
				}
			}
			for feature, has := range features(p) {
				if !has {
					continue
				}
				all := min(
					reach(feature+": steps", used.usage.Steps, report.Steps.Worst),
					reach(feature+": model calls", used.usage.ModelCalls, report.ModelCalls.Worst),
					reach(feature+": tool calls", used.usage.ToolCalls, report.ToolCalls.Worst),
				)
				best[feature+": all of them"] = max(best[feature+": all of them"], all)
				for _, s := range report.PerStep {
					id := s.Step[strings.LastIndexByte(s.Step, '/')+1:]
					reach(feature+": attempts", used.starts[id], s.Starts)
				}
			}
		}
	}
	if workersFit == 0 || workersStopped == 0 {
		t.Errorf("%d budgets of workers fit, and %d stopped one", workersFit, workersStopped)
	}
	for _, feature := range []string{"budget", "loop", "branches", "child", "retry", "fallback", "jump"} {
		for _, bound := range []string{"steps", "model calls", "tool calls", "all of them", "attempts"} {
			if got := best[feature+": "+bound]; got < 0.9 {
				t.Errorf("no run of a program with the feature %q uses nine tenths of its %s, only %.2f",
					feature, bound, got)
			}
		}
	}
}
