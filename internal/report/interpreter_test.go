package report_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/ir/irtest"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/report/reporttest"
)

// generator makes random programs with every kind of control flow.
type generator struct{ irtest.Generator }

func pick[T any](g *generator, label string, from ...T) T {
	return irtest.Pick(&g.Generator, label, from...)
}

func (g *generator) steps(depth int) []ir.Step {
	var steps []ir.Step
	for range rapid.IntRange(1, 3).Draw(g.T, "steps") {
		steps = append(steps, g.step(depth))
	}
	return g.Link(steps, func(*ir.Step) {})
}

func (g *generator) step(depth int) ir.Step {
	s := task(g.ID("s"), "", "test")
	if g.Chance("when", 15) {
		s.When = cond(g.T, pick(g, "condition", "input.yes == true", "input.no == true", `input.yes < "x"`))
	}
	kinds := []string{"task", "task", "task", "route", "end", "person", "event", "critic"}
	if depth > 0 {
		kinds = append(kinds, "parallel", "fan", "loop", "while", "call")
	}
	block := func() ir.BlockID { return g.P.AddBlock(ir.Block{Steps: g.steps(depth - 1)}) }
	switch pick(g, "kind", kinds...) {
	case "task":
		if g.Chance("retry", 30) {
			s.Retry = &ir.Retry{MaxAttempts: 2, Backoff: ir.Constant, Delays: []ir.Millis{50}}
		}
		s.SkipOnError = g.Chance("skip", 20)
	case "route":
		s.Action, s.Writes = ir.Route{}, nil
	case "end":
		s.Action = ir.End{Failed: g.Chance("badly", 30)}
	case "person":
		s.Action = ir.Gate{Decider: ir.Person, Timeout: 1000}
	case "event":
		s.Action = ir.Gate{Decider: ir.Event, Event: "e1", OnTimeout: ir.TimeoutSkip, Timeout: 5000}
	case "critic":
		s.Action = ir.Gate{Decider: ir.Work, Verdict: &ir.Task{Kind: "agent"}}
	case "parallel":
		s.Action = g.Parallel(block, func(b *ir.Branch) {
			if g.Chance("branch budget", 20) {
				b.Budget.Steps = &ir.Limit{Max: 1}
			}
		})
	case "fan":
		s.Action = ir.Parallel{
			Join: ir.JoinAll,
			Each: &ir.Each{Items: items(g.T, "input.list"), Var: "x", Block: block()},
		}
	case "loop":
		s.Action = ir.Loop{Block: block(), Each: &ir.Each{Items: items(g.T,
			pick(g, "items", "input.list", "input.yes")), Var: "x"}}
	case "while":
		s.Action = ir.Loop{Block: block(), While: cond(g.T, "loop.index < 2")}
	case "call":
		child := &generator{irtest.Generator{T: g.T, P: &ir.Program{Name: g.ID("s"), Blocks: []ir.Block{{}}}, N: g.N}}
		child.P.Blocks[0].Steps = child.steps(depth - 1)
		g.N = child.N
		g.P.Children = append(g.P.Children, *child.P)
		call := ir.Call{Child: len(g.P.Children) - 1}
		if g.Chance("bad input", 20) {
			call.Inputs = []ir.Binding{{Name: "x", Value: items(g.T, `input.yes < "x"`)}}
		}
		s.Action = call
	}
	return s
}

func (g *generator) happen(w *world) {
	w.now += journal.Millis(rapid.SampledFrom([]int{0, 0, 1, 60, 1200}).Draw(g.T, "later"))
	if len(w.tasks) > 0 && g.Chance("work", 80) {
		i := rapid.IntRange(0, len(w.tasks)-1).Draw(g.T, "task")
		task := w.tasks[i]
		take := func() { w.tasks = append(w.tasks[:i:i], w.tasks[i+1:]...) }
		switch pick(g, "what", "ok", "ok", "no", "failed", "note", "gone") {
		case "ok":
			take()
			w.tell(plan.Result{
				Work: task, Outcome: journal.OutcomeOK,
				Value: journal.Value{JSON: json.RawMessage(`{"approved": true}`)},
			})
		case "no":
			take()
			w.tell(plan.Result{
				Work: task, Outcome: journal.OutcomeOK,
				Value: journal.Value{JSON: json.RawMessage(`{"approved": false}`)},
			})
		case "failed":
			take()
			w.tell(plan.Result{Work: task, Outcome: journal.OutcomeFailed, Class: "API_ERROR"})
		case "note":
			w.tell(plan.Note{
				Work: task, N: rapid.IntRange(1, 3).Draw(g.T, "n"), Kind: journal.NoteReply,
				Data: json.RawMessage(`{"blocks":[]}`),
			})
		case "gone":
			take()
			w.tell(plan.TaskLost{
				Work: task, Why: "crash",
				Policy: pick(g, "policy", journal.RecoveryRerun, journal.RecoveryAsk),
			})
		}
		return
	}
	switch pick(g, "else", "decide", "signal", "time", "pause", "continue", "cancel", "raise") {
	case "decide":
		for _, f := range w.s.OpenGates() {
			_, digest := w.s.Shown(w.p, f)
			answer := pick(g, "answer", slices.Concat(journal.OutcomeAnswers,
				[]journal.Answer{journal.AnswerApprove, journal.AnswerReject})...)
			w.tell(plan.GateDecision{
				Frame: f.Path, Step: f.Step, Answer: answer, Digest: digest,
				Value: json.RawMessage(`{"approved": true}`),
			})
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
		if g.Chance("really", 15) {
			w.tell(plan.Cancel{})
		}
	case "raise":
		w.tell(plan.Raise{Budget: ir.BudgetSteps, To: 1 << 20})
	}
}

// Each run and each step starts once and then finishes once, and has no events
// outside of that.
func TestRunsAndStepsStartOnceAndFinishOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		random := &ir.Program{Name: "random", MayIntervene: true, Blocks: []ir.Block{{}}}
		g := &generator{irtest.Generator{T: t, P: random}}
		g.P.Blocks[0].Steps = g.steps(2)
		if g.Chance("budget", 30) {
			g.P.Budget.Steps = &ir.Limit{Max: rapid.Int64Range(1, 8).Draw(t, "max steps")}
		}
		g.P.CheckpointEvery = rapid.IntRange(0, 2).Draw(t, "checkpoint every")
		w := start(t, g.P, `{"yes": true, "no": false, "list": [1, 2]}`)
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
		outline := report.NewOutline(g.P)
		in := report.NewInterpreter(run, func(string) (*report.Outline, error) { return outline, nil }).TrackBudgets()
		steps, runs := map[*report.Step]bool{}, map[*report.Run]bool{} // true: open
		suspended := false
		check := func(ev *report.Event) error {
			switch ev.Type {
			case report.RunStarted:
				if _, known := runs[ev.Run]; known {
					t.Fatalf("run %s starts again", ev.Run.Name)
				}
				runs[ev.Run] = true
			case report.RunFinished:
				if !runs[ev.Run] {
					t.Fatalf("run %s finishes, but is not open", ev.Run.Name)
				}
				runs[ev.Run] = false
				for s, open := range steps {
					if open && s.Run == ev.Run {
						t.Fatalf("run %s finishes before its step %s", ev.Run.Name, s.Path)
					}
				}
			case report.RunSuspended, report.RunResumed:
				if suspended == (ev.Type == report.RunSuspended) {
					t.Fatalf("%s at event %d, but suspended is %t", ev.Type, ev.Seq, suspended)
				}
				suspended = !suspended
			case report.StepStarted:
				if _, known := steps[ev.Step]; known || !runs[ev.Run] {
					t.Fatalf("step %s starts again, or outside its run", ev.Step.Path)
				}
				if ev.Step.Info == nil || ev.Step.Kind == "" || ev.Step.Info.Step.ID != ev.Step.Name {
					t.Fatalf("step %s is not known: %+v", ev.Step.Path, ev.Step)
				}
				steps[ev.Step] = true
			case report.StepSkipped:
				if _, known := steps[ev.Step]; known {
					t.Fatalf("step %s is skipped, but has started", ev.Step.Path)
				}
			case report.StepFinished:
				if !steps[ev.Step] || ev.Budget == nil {
					t.Fatalf("step %s finishes, but is not open or has no budget", ev.Step.Path)
				}
				steps[ev.Step] = false
			default:
				if ev.Step != nil && !steps[ev.Step] {
					t.Fatalf("%s of step %s, which is not open", ev.Type, ev.Step.Path)
				}
			}
			if _, err := json.Marshal(ev); err != nil {
				t.Fatal(err)
			}
			return nil
		}
		for _, events := range w.appends {
			for i := range events {
				if err := in.Interpret(&events[i], check); err != nil {
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

func TestFactsOutOfOrderAreErrors(t *testing.T) {
	in := report.NewInterpreter(run, nil)
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
		err := in.Interpret(&journal.Event{Seq: 2, Fact: f}, func(*report.Event) error {
			t.Errorf("%T before the run started has an event", f)
			return nil
		})
		if err == nil {
			t.Errorf("%T before the run started is no error", f)
		}
	}
}

// The events of the recorded runs, as JSON: what an API or a web page gets.
func TestEventsMatchTheGoldenFiles(t *testing.T) {
	for name, scenario := range scenarios {
		t.Run(name, func(t *testing.T) {
			p, w := scenario(t)
			outline := report.NewOutline(p)
			in := report.NewInterpreter(run,
				func(string) (*report.Outline, error) { return outline, nil }).TrackBudgets()
			var got bytes.Buffer
			enc := json.NewEncoder(&got)
			enc.SetEscapeHTML(false)
			for _, events := range w.appends {
				for i := range events {
					if err := in.Interpret(&events[i],
						func(ev *report.Event) error { return enc.Encode(ev) }); err != nil {
						t.Fatal(err)
					}
				}
			}
			reporttest.Golden(t, filepath.Join("testdata", "events", name+".ndjson"), got.String(), *update)
		})
	}
}

// loopRun interprets a loop of n iterations, each of which appends to a list
// and to a fan-out of n branches, and returns the size of what is then in memory.
func loopRun(t *testing.T, mode string, n int) int {
	t.Helper()
	in := report.NewInterpreter(run, nil).TrackBudgets()
	seq, limit := journal.Seq(0), int64(1<<40)
	take := func(f journal.Fact) {
		seq++
		e := &journal.Event{Seq: seq, At: begin + journal.Millis(seq), Fact: f}
		if err := in.Interpret(e, func(*report.Event) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	take(journal.RunStarted{
		Name: "long", Input: journal.Value{JSON: json.RawMessage(`{}`)},
		Budget: &journal.Limits{ActiveSeconds: &limit},
	})
	take(journal.StepEntered{Place: journal.Place{Step: "each"}, Mode: mode, Total: n})
	for i := range n {
		path := fmt.Sprintf("each/%d", i)
		work := journal.TaskID{Place: journal.Place{Frame: path, Step: "do"}}
		item := journal.Value{JSON: json.RawMessage(`"one of many values"`)}
		take(journal.FrameOpened{Frame: path, Step: "each", Index: i, Vars: map[string]journal.Value{"item": item}})
		take(journal.TaskStarted{TaskID: work, Kind: "agent"})
		take(journal.TaskNoted{TaskID: work, N: 1, Kind: journal.NoteReply, Data: json.RawMessage(`{"blocks":[]}`)})
		take(journal.TaskEnded{
			TaskID: work, Outcome: journal.OutcomeOK, Final: true, Value: item,
			Writes: []journal.Write{{Path: "state.all", Reducer: "append"}},
		})
		take(journal.FrameClosed{Frame: path, Outcome: journal.OutcomeOK, Value: item})
	}
	return in.Size()
}

func TestStateDoesNotGrowWithIterations(t *testing.T) {
	for _, mode := range []string{plan.ModeLoop, plan.ModeParallel} {
		short, long := loopRun(t, mode, 10), loopRun(t, mode, 20_000)
		if long > short+100 { // numbers become longer
			t.Errorf("%s: %d bytes after 10 iterations, %d after 20,000", mode, short, long)
		}
	}
}

// The JSON of a provider's reply is the data of a note.
func TestProviderReplyDecodesAsNote(t *testing.T) {
	reply := provider.Reply{
		Blocks: []provider.Block{
			{Type: provider.Thinking, Text: "t", Signature: "s"},
			{Type: provider.ToolUse, ToolID: "i", ToolName: "n", Input: json.RawMessage(`{}`)},
			{Type: provider.ToolResult, ToolID: "i", Content: json.RawMessage(`1`), IsError: true},
		},
		Stop: provider.WantsTool, Usage: provider.Usage{Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4}, Model: "m",
		Offline: "simulated",
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
