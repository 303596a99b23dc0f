package report_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/report"
)

// TestWordsOfThePlan: readers may not import the plan, but mean the same.
func TestWordsOfThePlan(t *testing.T) {
	for ours, theirs := range map[string]string{
		report.OutcomeOK: plan.OutcomeOK, report.OutcomeFailed: plan.OutcomeFailed, report.OutcomeSkipped: plan.OutcomeSkipped,
		report.OutcomeRejected: plan.OutcomeRejected, report.OutcomeCancelled: plan.OutcomeCancelled,
		report.OutcomeRerun: plan.OutcomeRerun, report.ReasonCondition: plan.ReasonCondition,
		report.GatePerson: plan.GatePerson, report.GateEvent: plan.GateEvent, report.GateDoubt: plan.GateDoubt,
	} {
		if ours != theirs {
			t.Errorf("%q is %q in the plan", ours, theirs)
		}
	}
}

// generator makes programs of every kind of control flow, nested at random.
type generator struct {
	t *rapid.T
	p *ir.Program
	n int
}

func (g *generator) pick(label string, from ...string) string {
	return rapid.SampledFrom(from).Draw(g.t, label)
}

func (g *generator) chance(label string, percent int) bool {
	return rapid.IntRange(1, 100).Draw(g.t, label) <= percent
}

func (g *generator) id() string {
	g.n++
	return fmt.Sprintf("s%d", g.n)
}

func (g *generator) steps(depth int) []ir.Step {
	var steps []ir.Step
	for range rapid.IntRange(1, 3).Draw(g.t, "steps") {
		steps = append(steps, g.step(depth))
	}
	chain(steps...)
	for i := range steps {
		if i > 0 && g.chance("back", 15) {
			back := ir.Edge{On: []ir.Outcome{ir.OK}, To: ir.Target{Step: steps[rapid.IntRange(0, i).Draw(g.t, "to")].ID}, Limit: 2}
			steps[i].Next = append([]ir.Edge{back}, steps[i].Next...)
		}
		if i+1 < len(steps) && g.chance("fallback", 15) {
			steps[i].Fallback = &ir.Name{Name: steps[i+1].ID}
		}
	}
	return steps
}

func (g *generator) step(depth int) ir.Step {
	s := task(g.id(), "", "test")
	if g.chance("when", 15) {
		s.When = cond(g.t, g.pick("condition", "input.yes == true", "input.no == true", `input.yes < "x"`))
	}
	kinds := []string{"task", "task", "task", "route", "end", "person", "event", "critic"}
	if depth > 0 {
		kinds = append(kinds, "parallel", "fan", "loop", "while", "call")
	}
	block := func() ir.BlockID { return g.p.AddBlock(ir.Block{Steps: g.steps(depth - 1)}) }
	switch g.pick("kind", kinds...) {
	case "task":
		if g.chance("retry", 30) {
			s.Retry = &ir.Retry{MaxAttempts: 2, Backoff: ir.Constant, Delays: []ir.Millis{50}}
		}
		s.SkipOnError = g.chance("skip", 20)
	case "route":
		s.Action, s.Writes = ir.Route{}, nil
	case "end":
		s.Action = ir.End{Failed: g.chance("badly", 30)}
	case "person":
		s.Action = ir.Gate{Decider: ir.Person, Timeout: 1000}
	case "event":
		s.Action = ir.Gate{Decider: ir.Event, Event: "e1", OnTimeout: ir.TimeoutSkip, Timeout: 5000}
	case "critic":
		s.Action = ir.Gate{Decider: ir.Work, Verdict: &ir.Task{Kind: "agent"}}
	case "parallel":
		par := ir.Parallel{Join: ir.Join(g.pick("join", "all", "any", "settle", "best")), MaxConcurrent: rapid.IntRange(0, 2).Draw(g.t, "most")}
		for range rapid.IntRange(1, 3).Draw(g.t, "branches") {
			b := ir.Branch{Name: g.id(), Block: block()}
			if g.chance("branch when", 15) {
				b.When = cond(g.t, "input.no == true")
			}
			if g.chance("branch budget", 20) {
				b.Budget.Steps = &ir.Limit{Max: 1}
			}
			par.Branches = append(par.Branches, b)
		}
		if g.chance("combine", 40) {
			par.Combine = &ir.Task{Kind: "combine"}
		}
		s.Action = par
	case "fan":
		s.Action = ir.Parallel{Join: ir.JoinAll, Each: &ir.Each{Items: items(g.t, "input.list"), Var: "x", Block: block()}}
	case "loop":
		s.Action = ir.Loop{Block: block(), Each: &ir.Each{Items: items(g.t, g.pick("items", "input.list", "input.yes")), Var: "x"}}
	case "while":
		s.Action = ir.Loop{Block: block(), While: cond(g.t, "loop.index < 2")}
	case "call":
		child := &generator{t: g.t, p: &ir.Program{Name: g.id(), Blocks: []ir.Block{{}}}, n: g.n}
		child.p.Blocks[0].Steps = child.steps(depth - 1)
		g.n = child.n
		g.p.Children = append(g.p.Children, *child.p)
		call := ir.Call{Child: len(g.p.Children) - 1}
		if g.chance("bad input", 20) {
			call.Inputs = []ir.Binding{{Name: "x", Value: items(g.t, `input.yes < "x"`)}}
		}
		s.Action = call
	}
	return s
}

func (g *generator) happen(w *world) {
	w.now += journal.Millis(rapid.SampledFrom([]int{0, 0, 1, 60, 1200}).Draw(g.t, "later"))
	if len(w.tasks) > 0 && g.chance("work", 80) {
		i := rapid.IntRange(0, len(w.tasks)-1).Draw(g.t, "task")
		task := w.tasks[i]
		take := func() { w.tasks = append(w.tasks[:i:i], w.tasks[i+1:]...) }
		switch g.pick("what", "ok", "ok", "no", "failed", "note", "gone") {
		case "ok":
			take()
			w.tell(plan.Result{Work: task, Outcome: plan.OutcomeOK, Value: journal.Value{JSON: json.RawMessage(`{"approved": true}`)}})
		case "no":
			take()
			w.tell(plan.Result{Work: task, Outcome: plan.OutcomeOK, Value: journal.Value{JSON: json.RawMessage(`{"approved": false}`)}})
		case "failed":
			take()
			w.tell(plan.Result{Work: task, Outcome: plan.OutcomeFailed, Class: "API_ERROR"})
		case "note":
			w.tell(plan.Note{Work: task, N: rapid.IntRange(1, 3).Draw(g.t, "n"), Kind: journal.NoteReply, Data: json.RawMessage(`{"blocks":[]}`)})
		case "gone":
			take()
			w.tell(plan.Gone{Work: task, Why: "crash", Policy: g.pick("policy", plan.PolicyRerun, plan.PolicyAsk)})
		}
		return
	}
	switch g.pick("else", "decide", "signal", "time", "pause", "continue", "cancel", "raise") {
	case "decide":
		for _, f := range w.s.OpenGates() {
			_, digest := w.s.Shown(w.p, f)
			answer := g.pick("answer", plan.Approve, plan.Reject, plan.AnswerRerun, plan.AnswerSkip, plan.AnswerFail, plan.AnswerResult)
			w.tell(plan.Decision{Frame: f.Path, Step: f.Step, Answer: answer, Digest: digest, Value: json.RawMessage(`{"approved": true}`)})
			return
		}
	case "signal":
		w.tell(plan.Signal{Event: "e1"})
	case "time":
		w.tell()
	case "pause":
		w.tell(plan.Pause{})
	case "continue":
		w.tell(plan.Continue{})
	case "cancel":
		if g.chance("really", 15) {
			w.tell(plan.Cancel{})
		}
	case "raise":
		w.tell(plan.Raise{Budget: plan.BudgetSteps, To: 1 << 20})
	}
}

// TestEverythingThatBeginsEnds: whatever happens, each step and each run has
// one beginning and then one end, and nothing is told of a step outside them.
func TestEverythingThatBeginsEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := &generator{t: t, p: &ir.Program{Name: "random", MayIntervene: true, Blocks: []ir.Block{{}}}}
		g.p.Blocks[0].Steps = g.steps(2)
		if g.chance("budget", 30) {
			g.p.Budget.Steps = &ir.Limit{Max: rapid.Int64Range(1, 8).Draw(t, "max steps")}
		}
		w := start(t, g.p, `{"yes": true, "no": false, "list": [1, 2]}`)
		for range rapid.IntRange(5, 60).Draw(t, "events") {
			if w.s.Finished != nil {
				break
			}
			g.happen(w)
		}
		if w.s.Finished == nil {
			w.tell(plan.Cancel{})
			w.run()
		}
		if w.s.Finished == nil {
			t.Fatal("the run does not end")
		}
		outline := report.NewOutline(g.p)
		trail := report.NewTrail(run, func(string) (*report.Outline, error) { return outline, nil })
		steps, runs := map[*report.Step]bool{}, map[*report.Run]bool{} // true: open
		for _, events := range w.appends {
			for i := range events {
				err := trail.Take(&events[i], func(m *report.Moment) {
					switch m.What {
					case report.RunBegan:
						if _, known := runs[m.Run]; known {
							t.Fatalf("run %s begins again", m.Run.Name)
						}
						runs[m.Run] = true
					case report.RunEnded:
						if !runs[m.Run] {
							t.Fatalf("run %s ends, but is not open", m.Run.Name)
						}
						runs[m.Run] = false
						for s, open := range steps {
							if open && s.Run == m.Run {
								t.Fatalf("run %s ends before its step %s", m.Run.Name, s.Path)
							}
						}
					case report.StepBegan:
						if _, known := steps[m.Step]; known || !runs[m.Run] {
							t.Fatalf("step %s begins again, or outside its run", m.Step.Path)
						}
						if m.Step.Info == nil || m.Step.Kind == "" || m.Step.Info.Step.ID != m.Step.Name {
							t.Fatalf("step %s is not known: %+v", m.Step.Path, m.Step)
						}
						steps[m.Step] = true
					case report.StepEnded, report.StepNoted:
						if !steps[m.Step] {
							t.Fatalf("step %s is not open", m.Step.Path)
						}
						steps[m.Step] = m.What == report.StepNoted
					case report.StepSkipped:
						if _, known := steps[m.Step]; known {
							t.Fatalf("step %s was skipped and has begun", m.Step.Path)
						}
					}
				})
				if err != nil {
					t.Fatalf("event %d: %v", events[i].Seq, err)
				}
			}
		}
		for s, open := range steps {
			if open {
				t.Fatalf("step %s never ended", s.Path)
			}
		}
		for r, open := range runs {
			if open {
				t.Fatalf("run %s never ended", r.Name)
			}
		}
	})
}

func TestEventsOutOfPlaceAreErrors(t *testing.T) {
	trail := report.NewTrail(run, nil)
	for _, f := range []journal.Fact{
		journal.TaskStarted{},
		journal.TaskEnded{Final: true},
		journal.TaskNoted{},
		journal.StepLeft{},
		journal.StepEntered{},
		journal.FrameOpened{},
		journal.FrameClosed{},
		journal.GateOpened{},
		journal.GateDecided{},
		journal.RunFinished{},
	} {
		if err := trail.Take(&journal.Event{Seq: 2, Fact: f}, func(*report.Moment) { t.Error("a moment") }); err == nil {
			t.Errorf("%T before the run began", f)
		}
	}
}

// TestRepliesAreNotedAsTheyAre: a provider's reply is a note without translation.
func TestRepliesAreNotedAsTheyAre(t *testing.T) {
	reply := provider.Reply{
		Blocks: []provider.Block{
			{Type: provider.Thinking, Text: "t", Signature: "s"},
			{Type: provider.ToolUse, ToolID: "i", ToolName: "n", Input: json.RawMessage(`{}`)},
			{Type: provider.ToolResult, ToolID: "i", Content: json.RawMessage(`1`), IsError: true},
		},
		Stop: provider.WantsTool, Usage: provider.Usage{Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4}, Model: "m", Offline: "simulated",
	}
	want, err := json.Marshal(reply)
	if err != nil {
		t.Fatal(err)
	}
	var note journal.Reply
	dec := json.NewDecoder(bytes.NewReader(want))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&note); err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(note)
	if err != nil || string(got) != string(want) {
		t.Errorf("%s\n%s\n%v", want, got, err)
	}
}
