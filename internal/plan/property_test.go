package plan_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/ir/irtest"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
)

// generator generates programs with all kinds of control flow, nested at random.
type generator struct{ irtest.Generator }

func pick[T any](g *generator, label string, from ...T) T {
	return irtest.Pick(&g.Generator, label, from...)
}

func (g *generator) block(depth int) ir.BlockID {
	var steps []ir.Step
	for range rapid.IntRange(1, 3).Draw(g.T, "steps") {
		steps = append(steps, g.step(depth))
	}
	g.Link(steps, func(s *ir.Step) {
		if g.Chance("on failure", 15) {
			failed := on(steps[len(steps)-1].ID, ir.Failed, ir.Rejected)
			failed.Limit = 1
			s.Next = append(s.Next, failed)
		}
	})
	return g.P.AddBlock(ir.Block{Steps: steps})
}

func (g *generator) step(depth int) ir.Step {
	kinds := []string{"task", "task", "task", "route", "person", "event", "critic"}
	if depth > 0 {
		kinds = append(kinds, "parallel", "fan", "loop", "while", "call")
	}
	s := task(g.ID("s"))
	if g.Chance("when", 15) {
		s.When = cond(g.T, pick(g, "condition", "input.yes == true", "input.no == true", "state.s1 != null"))
	}
	switch pick(g, "kind", kinds...) {
	case "task":
		if g.Chance("retry", 20) {
			s.Retry = &ir.Retry{MaxAttempts: 2, Backoff: ir.Constant, Delays: []ir.Millis{50}}
		}
		s.SkipOnError = g.Chance("skip", 15)
	case "route":
		s.Action, s.Writes = ir.Route{}, nil
	case "person":
		s.Action = ir.Gate{
			Decider: ir.Person, Timeout: ir.Millis(rapid.SampledFrom([]int{0, 1000}).Draw(g.T, "timeout")),
		}
	case "event":
		s.Action = ir.Gate{
			Decider: ir.Event, Event: pick(g, "event", "e1", "e2"), OnTimeout: ir.TimeoutSkip, Timeout: 5000,
		}
	case "critic":
		s.Action = ir.Gate{Decider: ir.Work, Verdict: &ir.Task{Kind: "agent"}}
	case "parallel":
		s.Action = g.Parallel(func() ir.BlockID { return g.block(depth - 1) }, func(b *ir.Branch) {
			if g.Chance("branch budget", 15) {
				b.Budget.Steps = limit(2)
			}
			if g.Chance("branch deadline", 15) {
				b.Budget.ActiveSeconds = limit(1)
			}
		})
	case "fan":
		s.Action = ir.Parallel{Join: ir.JoinAll, Each: &ir.Each{
			Items: agentFlowValue(g.T, "input.list"), Var: "x", Block: g.block(depth - 1),
		}}
	case "loop":
		s.Action = ir.Loop{
			Block: g.block(depth - 1), Each: &ir.Each{Items: agentFlowValue(g.T, "input.list"), Var: "x"},
			Max: rapid.IntRange(0, 3).Draw(g.T, "max"),
		}
	case "while":
		s.Action = ir.Loop{Block: g.block(depth - 1), While: cond(g.T, "loop.index < 2"), BreakWhen: cond(g.T, pick(
			g, "break", "input.yes == true", "input.no == true",
		))}
	case "call":
		child := &generator{irtest.Generator{T: g.T, P: &ir.Program{Name: g.ID("child")}}}
		child.N = g.N
		child.program(depth - 1)
		g.N = child.N
		g.P.Children = append(g.P.Children, *child.P)
		s.Action = ir.Call{Child: len(g.P.Children) - 1, PassReads: true}
	}
	if g.Chance("left behind", 30) {
		for i := range s.Writes {
			s.Writes[i].Always = true
		}
		if g.Chance("result", 50) {
			s.Result = awfValue(g.T, `{"outcome": outcome, "result": result, "failure": failure}`)
		}
	}
	if s.Task() == nil && g.Chance("limit", 25) {
		s.Timeout = ir.Millis(rapid.SampledFrom([]int{1, 100, 1500}).Draw(g.T, "time"))
		if g.Chance("computed", 30) {
			s.Timeout, s.TimeoutExpr = 0, awfValue(g.T, pick(
				g, "limit", `"1ms"`, `"0.1"`, `1.5`, `"soon"`, `inputs.none`,
			))
		}
	}
	if s.Retry == nil && g.Chance("group retry", 10) {
		s.Retry = &ir.Retry{MaxAttempts: 2, Backoff: ir.Constant, Delays: []ir.Millis{20}}
	}
	return s
}

// program generates the blocks; block 0 is the body.
func (g *generator) program(depth int) {
	g.P.Blocks = []ir.Block{{}}
	body := g.block(depth)
	g.P.Blocks[0] = g.P.Blocks[body]
	if g.Chance("end", 30) {
		steps := g.P.Blocks[0].Steps
		last := &steps[len(steps)-1]
		end := ir.Step{ID: g.ID("end"), Action: ir.End{Failed: g.Chance("badly", 30)}}
		last.Next = append(last.Next, on(end.ID, ir.OK, ir.Skipped))
		g.P.Blocks[0].Steps = append(steps, end)
	}
	if g.Chance("cleanup", 30) {
		last := task(g.ID("cancel"))
		g.P.OnCancel = last.ID
		g.P.Blocks[0].Steps = append(g.P.Blocks[0].Steps, last)
	}
}

// TestInvariantsHoldForRandomPrograms applies random inputs to random programs and checks the plan's invariants after
// every batch. Every run must be able to finish.
func TestInvariantsHoldForRandomPrograms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := &generator{irtest.Generator{T: t, P: &ir.Program{Name: "random", MayIntervene: true}}}
		g.program(2)
		if g.Chance("budget", 30) {
			g.P.Budget.Steps = limit(rapid.Int64Range(1, 12).Draw(t, "max steps"))
		}
		if g.Chance("tokens", 30) {
			g.P.Budget.Tokens = limit(rapid.Int64Range(10, 100).Draw(t, "max tokens"))
		}
		if g.Chance("deadline", 20) {
			g.P.Budget.ActiveSeconds = limit(2)
		}
		w := start(t, g.P, `{"yes": true, "no": false, "list": [1, 2]}`)
		for range rapid.IntRange(5, 80).Draw(t, "events") {
			if w.s.Finished != nil {
				break
			}
			w.now += journal.Millis(rapid.SampledFrom([]int{0, 0, 1, 60, 700}).Draw(t, "later"))
			g.applyRandomInput(w)
			w.checkCounters()
		}
		g.driveToFinish(w)
	})
}

func (g *generator) result(w journal.TaskID) plan.Result {
	r := plan.Result{
		Work:    w,
		Outcome: pick(g, "outcome", journal.OutcomeOK, journal.OutcomeOK, journal.OutcomeOK, journal.OutcomeFailed),
		Class:   "API_ERROR",
	}
	if r.Outcome == journal.OutcomeOK {
		r.Class = ""
		r.Value = journal.Value{
			JSON: json.RawMessage(pick(g, "value", `{"approved": true}`, `{"approved": false}`, `1`)),
		}
	}
	return r
}

// applyRandomInput applies one random input.
func (g *generator) applyRandomInput(w *world) {
	// Tasks of canceled frames and of finished runs may still report.
	if len(w.tasks) > 0 && g.Chance("work", 75) {
		i := rapid.IntRange(0, len(w.tasks)-1).Draw(g.T, "task")
		task := w.tasks[i]
		gone := func() { w.tasks = slices.Delete(w.tasks, i, i+1) }
		switch pick(g, "what", "result", "result", "result", "reserve", "note", "gone") {
		case "result":
			gone()
			w.send(g.result(task))
		case "reserve":
			w.send(plan.Reserve{Work: task, N: rapid.IntRange(1, 2).Draw(g.T, "n"), Amount: journal.Usage{
				OutputTokens: 20, ModelCalls: 1,
			}})
		case "note":
			w.send(plan.Note{
				Work: task, N: rapid.IntRange(1, 3).Draw(g.T, "n"), Kind: "reply", Settles: 1,
				Usage: journal.Usage{OutputTokens: 7},
			})
		case "gone":
			gone()
			w.send(plan.TaskLost{
				Work: task, Why: "crash", Policy: pick(g, "policy", journal.RecoveryRerun, journal.RecoveryAsk),
			})
		}
		return
	}
	switch pick(
		g, "else", "decide", "decide", "signal", "time", "pause", "continue", "cancel", "edit", "raise", "late", "back",
		"jump",
	) {
	case "decide":
		for _, f := range w.s.OpenGates() {
			answer := pick(g, "answer", slices.Concat(journal.OutcomeAnswers,
				[]journal.Answer{journal.AnswerApprove, journal.AnswerReject})...)
			_, digest := w.s.Shown(w.p, f)
			w.send(plan.GateDecision{
				Frame: f.Path, Step: f.Step, Answer: answer, Digest: digest, Value: json.RawMessage(`{"approved": true}`),
			})
			return
		}
	case "signal":
		w.send(plan.Signal{Event: pick(g, "event", "e1", "e2")})
	case "time":
		if wake, ok := w.s.Wake(); ok {
			w.now = max(w.now, wake)
		}
		w.send()
	case "jump":
		w.now += 5000
		w.send(plan.ClockJump{By: 5000})
	case "pause":
		w.send(plan.Pause{})
	case "continue":
		w.send(plan.Continue{})
	case "cancel":
		if g.Chance("really", 20) {
			w.send(plan.Cancel{})
		}
	case "edit":
		w.send(plan.Edit{Path: "state.s1", Value: json.RawMessage("5")})
	case "raise":
		w.send(plan.Raise{Budget: pick(g, "budget", ir.Budgets...), To: 1 << 20})
	case "back":
		g.rewind(w)
	case "late":
		w.send(plan.Result{
			Work: journal.TaskID{Place: journal.Place{Step: "s1"}, Attempt: 7}, Outcome: journal.OutcomeOK,
		})
	}
}

// rewind rewinds the run to a random step of its body, if it has reached it.
func (g *generator) rewind(w *world) {
	body := w.p.Root().Blocks[ir.Body].Steps
	step := body[rapid.IntRange(0, len(body)-1).Draw(g.T, "to")].ID
	if was, reached := w.checkpoint(step); reached && w.s.Finished == nil {
		w.send(plan.Rewind{Step: step, Was: was})
	}
}

// driveToFinish ends tasks, decides gates, raises budgets and advances the time until the run has finished.
func (g *generator) driveToFinish(w *world) {
	for range 2000 {
		if w.s.Finished != nil {
			return
		}
		switch {
		case w.s.Paused:
			w.send(plan.Continue{})
		case w.s.Expired || w.s.Summary().Status == journal.Exceeded:
			for _, budget := range ir.Budgets {
				w.send(plan.Raise{Budget: budget, To: 1 << 40})
			}
			if w.s.Finished == nil && w.s.Summary().Status == journal.Exceeded {
				w.t.Fatalf("still short of budget: %+v", w.s.BudgetWaiters)
			}
		case len(w.tasks) > 0:
			task := w.tasks[0]
			w.tasks = w.tasks[1:]
			r := plan.Result{Work: task, Outcome: journal.OutcomeOK, Value: journal.Value{
				JSON: json.RawMessage(`{"approved": true}`),
			}}
			if f := w.s.Frames[task.Frame]; f != nil && f.Canceled {
				r = plan.Result{Work: task, Outcome: journal.OutcomeCanceled}
			}
			w.send(r)
		case len(w.s.OpenGates()) > 0:
			f := w.s.OpenGates()[0]
			_, digest := w.s.Shown(w.p, f)
			switch f.Gate.Kind {
			case journal.GatePerson:
				w.send(plan.GateDecision{Frame: f.Path, Step: f.Step, Answer: journal.AnswerApprove, Digest: digest})
			case journal.GateOutcome:
				w.send(plan.GateDecision{Frame: f.Path, Step: f.Step, Answer: journal.AnswerRerun})
			default:
				w.send(plan.Signal{Event: f.Gate.Event})
			}
		default:
			wake, ok := w.s.Wake()
			if !ok {
				w.t.Fatalf("nothing is left to do and the run is not over\n%s\n%s", w.s.Snapshot(), describe(w.log))
			}
			w.now = max(w.now, wake)
			w.send()
		}
		w.checkCounters()
	}
	w.t.Fatalf("the run does not come to an end\n%s", w.s.Snapshot())
}

// checkCounters checks the counters of the state: nothing is counted twice or missing, and no budget is exceeded.
func (w *world) checkCounters() {
	if w.s.Finished != nil {
		return
	}
	open := len(w.s.OpenTasks())
	if open != w.s.Open {
		w.t.Fatalf("%d tasks are open, the state says %d", open, w.s.Open)
	}
	for path, f := range w.s.Frames {
		live := 0
		for _, other := range w.s.Frames {
			if other.Path != "" && other.Parent == path {
				live++
			}
		}
		if f.Group != nil && f.Group.Live != live || f.Group == nil && live > 0 {
			w.t.Fatalf("frame %q has %d frames below it; it says %+v", path, live, f.Group)
		}
		if g := f.Group; g != nil && g.Limit > 0 {
			counted := 0
			for _, other := range w.s.Frames {
				if (other == f || strings.HasPrefix(other.Path, path+"/") || path == "") &&
					(other.Phase == plan.Working || other.Phase == plan.Resting && other.Due != 0) {
					counted++
				}
			}
			if g.Clock.Open != counted {
				w.t.Fatalf(
					"in frame %q %d are at work or wait to be, and the clock says %d\n%s", path, counted, g.Clock.Open,
					describe(w.log),
				)
			}
		}
		if l := f.Ledger; l != nil {
			if l.Held.OutputTokens < 0 || l.Open < 0 || l.Held.ModelCalls < 0 {
				w.t.Fatalf("frame %q: %+v", path, l)
			}
			if max := l.Limits.Steps; max != nil && l.Used.Steps > *max {
				w.t.Fatalf("frame %q: %d of %d steps used", path, l.Used.Steps, *max)
			}
		}
	}
}
