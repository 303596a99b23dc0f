package enginetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/step"
)

// Subject is an engine under test.
type Subject struct {
	// New returns an empty world for one test.
	New func(t *testing.T) World
	// Owner owns runs that wait; empty if the engine releases them.
	Owner journal.Owner
}

// World is where the engines of one test run.
type World struct {
	// Journal has the facts of the runs.
	Journal interface {
		journal.Reader
		journal.Admin
	}
	// Open opens an engine on the world. The test has closed the previous one.
	Open func(t *testing.T, kinds map[string]step.Runner) engine.Engine
}

// open opens an engine and closes it at the end of the test.
func (w World) open(t *testing.T, kind step.Runner) engine.Engine {
	t.Helper()
	e := w.Open(t, map[string]step.Runner{"test": kind})
	t.Cleanup(func() { Stop(e) })
	return e
}

// Run runs the suite.
func Run(t *testing.T, s Subject) {
	for name, test := range map[string]func(*testing.T, Subject){
		"a run ends and does each task once":                       runsToTheEnd,
		"starting a run that is running changes nothing":           startsOnce,
		"a waiting run is released":                                releasesWaitingRuns,
		"a lost task that may have acted needs a decision":         asksAboutLostTasks,
		"a lost task can be decided before the run is resumed":     acceptsEarlyDecisions,
		"an exhausted budget parks a run inside its step":          parksWithoutBudget,
		"a call in progress finishes after the deadline":           finishesCallsAfterTheDeadline,
		"a decision about something else is refused":               refusesOtherDecisions,
		"large values are stored once":                             storesLargeValuesOnce,
		"undisturbed tasks run once":                               runsTasksOnce,
		"the ending equals that of the state":                      returnsEndings,
		"a task that needs approval continues from its notes":      continuesAfterApproval,
		"an approval applies to one call":                          bindsApprovals,
		"an approval times out":                                    timesOutApprovals,
		"a held engine records an approval":                        recordsWhileHeld,
		"a run can be cancelled while it waits for approval":       cancelsWaitingTasks,
		"a rewind keeps earlier values and runs later steps again": rewinds,
		"a finished run can be continued by another one":           continuesFinishedRuns,
		"a continued run can start with edited variables":          continuesWithEdits,
		"a continued run can go back before its start":             continuesContinuedRuns,
	} {
		t.Run(name, func(t *testing.T) { test(t, s) })
	}
}

func runsToTheEnd(t *testing.T, s Subject) {
	for name, p := range Shapes(t) {
		t.Run(name, func(t *testing.T) {
			w := s.New(t)
			kind := NewKind()
			kind.Fail["flaky"] = 2
			e := w.open(t, kind)
			Begin(t, e, p)
			got, err := Finish(t, e)
			if err != nil || got.Outcome != "ok" {
				t.Fatalf("%+v, %v: %v", got, err, Facts(t, w.Journal))
			}
			for key, n := range kind.Done {
				if n != 1 {
					t.Errorf("%s was done %d times", key, n)
				}
			}
		})
	}
}

func startsOnce(t *testing.T, s Subject) {
	w := s.New(t)
	kind := NewKind()
	started, proceed := make(chan struct{}), make(chan struct{})
	kind.Hold = func(context.Context, *step.Job) error {
		close(started)
		<-proceed
		return nil
	}
	e := w.open(t, kind)
	p := Program([]ir.Step{Task("a")})
	Begin(t, e, p)
	<-started
	for range 2 {
		err := e.Start(t.Context(), ID, &engine.Definition{Program: p}, nil, nil, journal.Actor{})
		if !errors.Is(err, journal.ErrExists) {
			t.Fatalf("starting again: %v", err)
		}
	}
	if !e.Owns(ID) {
		t.Error("the engine has forgotten the run")
	}
	close(proceed)
	if entry := Rest(t, e); entry.Outcome != "ok" || kind.Done["a#0"] != 1 {
		t.Errorf("%+v, %v", entry, kind.Done)
	}
}

func releasesWaitingRuns(t *testing.T, s Subject) {
	w := s.New(t)
	e := w.open(t, NewKind())
	Begin(t, e, Program([]ir.Step{Task("a"), {ID: "g", Action: ir.Gate{Decider: ir.Person}}, Task("b")}))
	entry := Rest(t, e)
	if entry.Status != journal.Waiting || entry.Waiting.String() != "approval: g" || entry.Owner != s.Owner {
		t.Errorf("%+v", entry)
	}
	if e.Owns(ID) {
		t.Error("a waiting run is still in memory")
	}
}

func asksAboutLostTasks(t *testing.T, s Subject) {
	w := s.New(t)
	e, kind := runningTask(t, w)
	Stop(e) // parks the run with task a open
	kind.Hold = nil
	e = w.open(t, kind)
	if err := e.Resume(t.Context(), ID); err != nil {
		t.Fatal(err)
	}
	if entry := Rest(t, e); entry.Waiting.String() != "doubt: a" {
		t.Fatalf("%+v", entry)
	}
	if kind.Done["a#0"] != 0 {
		t.Error("done again without asking")
	}
	if err := e.Send(
		t.Context(), ID,
		plan.GateDecision{Step: "a", Answer: journal.AnswerResult, Value: json.RawMessage(`"told"`)}, "r",
	); err != nil {
		t.Fatal(err)
	}
	if entry := Rest(t, e); entry.Outcome != "ok" {
		t.Errorf("%+v", entry)
	}
	if kind.Done["a#0"] != 0 || kind.Done["b#0"] != 1 {
		t.Errorf("%v", kind.Done)
	}
}

func parksWithoutBudget(t *testing.T, s Subject) {
	w := s.New(t)
	kind := NewKind()
	kind.Hold = Reserving(40)
	p := Program([]ir.Step{Task("a")})
	p.Budget.Tokens = &ir.Limit{Max: 150}
	e := w.open(t, kind)
	Begin(t, e, p)
	if entry := Rest(t, e); entry.Status != journal.Exceeded {
		t.Fatalf("%+v", entry)
	}
	if err := e.Send(t.Context(), ID, plan.Raise{Budget: ir.BudgetTokens, To: 1000}, "r"); err != nil {
		t.Fatal(err)
	}
	if entry := Rest(t, e); entry.Outcome != "ok" {
		t.Fatalf("%+v", entry)
	}
	notes := 0
	for _, f := range Facts(t, w.Journal) {
		if f == "TaskNoted" {
			notes++
		}
	}
	if notes != 3 {
		t.Errorf("%d calls were made, not 3", notes)
	}
}

// finishesCallsAfterTheDeadline tests that a deadline refuses the next call, but does not interrupt the one in
// progress, which would have to be made again.
func finishesCallsAfterTheDeadline(t *testing.T, s Subject) {
	w := s.New(t)
	kind := NewKind()
	calls := 0
	kind.Hold = func(ctx context.Context, job *step.Job) error {
		if job.Rerun > 0 {
			return nil
		}
		end, err := job.BeginCall()
		if err != nil {
			return err
		}
		calls++
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil { // until the deadline passes, and then until the call ends
			<-tick.C
			next, err := job.BeginCall()
			if err != nil {
				break
			}
			next()
		}
		if ctx.Err() != nil {
			t.Errorf("the call was interrupted: %v", context.Cause(ctx))
		}
		end()
		<-ctx.Done()
		return context.Cause(ctx)
	}
	p := Program([]ir.Step{Task("a")})
	p.Budget.ActiveSeconds = &ir.Limit{Max: 1}
	e := w.open(t, kind)
	Begin(t, e, p)
	if entry := Rest(t, e); entry.Status != journal.Exceeded || calls != 1 {
		t.Fatalf("%+v after %d calls", entry, calls)
	}
	if entry := Rest(t, e); entry.Waiting.String() != "budget: "+ir.BudgetDeadline {
		t.Fatalf("%+v", entry)
	}
	state, _, _, err := e.Load(t.Context(), ID)
	if err != nil {
		t.Fatal(err)
	}
	if used := state.Root().Ledger.Used; used.ModelCalls != 0 || used.ToolCalls != 0 {
		t.Errorf("charged for calls that were not cut off: %+v", used)
	}
}

func refusesOtherDecisions(t *testing.T, s Subject) {
	w := s.New(t)
	e := w.open(t, NewKind())
	Begin(t, e, Program([]ir.Step{{ID: "g", Action: ir.Gate{Decider: ir.Person}}}))
	Rest(t, e)
	err := e.Send(t.Context(), ID, plan.GateDecision{Step: "g", Answer: journal.AnswerApprove, Digest: "other"}, "r")
	if r, ok := plan.IsRefusal(err); !ok || r.Code != plan.Changed {
		t.Errorf("%v", err)
	}
	if !Answer(t, e) {
		t.Fatal("nothing asked")
	}
	if entry := Rest(t, e); entry.Outcome != "ok" {
		t.Errorf("%+v", entry)
	}
}

func storesLargeValuesOnce(t *testing.T, s Subject) {
	w := s.New(t)
	big := json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)
	e := w.open(t, NewKind())
	p := Program([]ir.Step{Task("a")})
	if err := e.Start(t.Context(), ID, &engine.Definition{Program: p}, big, nil, journal.Actor{}); err != nil {
		t.Fatal(err)
	}
	Rest(t, e)
	for event, err := range w.Journal.Events(t.Context(), ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if x, ok := event.Fact.(journal.RunStarted); ok && (x.Input.Hash == "" || len(x.Input.JSON) > 0) {
			t.Error("the input stands in the journal")
		}
	}
	if _, _, _, err := e.Load(t.Context(), ID); err != nil {
		t.Fatal(err)
	}
}

func runsTasksOnce(t *testing.T, s Subject) {
	w := s.New(t)
	kind := NewKind()
	e := w.open(t, kind)
	Begin(t, e, Program([]ir.Step{Task("a"), Task("b")}))
	Rest(t, e)
	if diff := cmp.Diff([]string{"a#0", "b#0"}, slices.Sorted(maps.Keys(kind.Done))); diff != "" {
		t.Error(diff)
	}
}

// acceptsEarlyDecisions tests that a person who knows what became of a lost task can decide before
// the run is resumed. While the task runs, the decision is refused.
func acceptsEarlyDecisions(t *testing.T, s Subject) {
	w := s.New(t)
	e, kind := runningTask(t, w)
	told := func(step string) error {
		return e.Send(
			t.Context(), ID,
			plan.GateDecision{Step: step, Answer: journal.AnswerResult, Value: json.RawMessage(`"told"`)},
			"r",
		)
	}
	refused := func(err error) {
		t.Helper()
		if r, ok := plan.IsRefusal(err); !ok || r.Code != plan.NoGate {
			t.Errorf("%v", err)
		}
	}
	refused(told("a"))
	Stop(e)
	kind.Hold = nil
	e = w.open(t, kind)
	refused(told("b"))
	if err := told("a"); err != nil {
		t.Fatal(err)
	}
	if entry := Rest(t, e); entry.Outcome != "ok" || kind.Done["a#0"] != 0 || kind.Done["b#0"] != 1 {
		t.Errorf("%+v, %v", entry, kind.Done)
	}
}

// returnsEndings tests that Ending returns what the folded state has, without folding the run.
func returnsEndings(t *testing.T, s Subject) {
	for name, p := range Shapes(t) {
		t.Run(name, func(t *testing.T) {
			w := s.New(t)
			e := w.open(t, NewKind())
			Begin(t, e, p)
			if entry := Rest(t, e); entry.Status != journal.Finished {
				if end, err := e.Ending(t.Context(), entry); err == nil {
					t.Errorf("a run that waits has ended: %+v", end)
				}
			}
			entry, err := Finish(t, e)
			if err != nil {
				t.Fatal(err)
			}
			state, program, _, err := e.Load(t.Context(), ID)
			if err != nil {
				t.Fatal(err)
			}
			want, err := program.Raw(state.Finished.Output)
			if err != nil {
				t.Fatal(err)
			}
			end, err := e.Ending(t.Context(), entry)
			if err != nil {
				t.Fatal(err)
			}
			if output, err := e.Raw(end.Output); err != nil || !bytes.Equal(output, want) {
				t.Errorf("%v\n%s\n%s", err, output, want)
			}
			if d := cmp.Diff(state.Finished, end); d != "" {
				t.Error(d)
			}
		})
	}
}

// runningTask starts a run whose task a is running and must not run again
// without a decision. Task b comes next.
func runningTask(t *testing.T, w World) (engine.Engine, *Kind) {
	t.Helper()
	k, started := NewKind(), make(chan struct{})
	k.Policy = step.Ask
	k.Hold = func(ctx context.Context, _ *step.Job) error {
		close(started)
		<-ctx.Done()
		return ctx.Err()
	}
	e := w.open(t, k)
	Begin(t, e, Program([]ir.Step{Task("a"), Task("b")}))
	<-started
	return e, k
}

// Reserving returns a function that reserves budget for three calls and notes
// each one.
func Reserving(used int64) func(ctx context.Context, job *step.Job) error {
	return func(ctx context.Context, job *step.Job) error {
		for turn := len(job.History); turn < 3; turn++ {
			n, err := job.Log.Reserve(ctx, journal.Usage{OutputTokens: 100})
			if err != nil {
				return err
			}
			if err := job.Log.Note(
				ctx, step.Note{Kind: "reply", Data: turn, Settles: n, Usage: journal.Usage{OutputTokens: used}},
			); err != nil {
				return err
			}
		}
		return nil
	}
}

// asker is a kind that needs one approval before it acts.
type asker struct {
	*Kind
	within     time.Duration
	executions [][]journal.TaskNoted // the notes that each execution of the task found
}

func newAsker() *asker {
	a := &asker{Kind: NewKind()}
	a.Hold = func(ctx context.Context, job *step.Job) error {
		a.executions = append(a.executions, job.History)
		if job.NoteCount(journal.NoteToolAnswer) > 0 {
			return nil
		}
		if err := job.Log.Note(ctx, step.Note{Kind: "reply", Data: "paid for"}); err != nil {
			return err
		}
		return &step.ApprovalRequired{
			Call: job.Key + "/call:1", Shows: map[string]json.RawMessage{"arguments": json.RawMessage(`{"to":"eva"}`)},
			Within: a.within,
		}
	}
	return a
}

// answers returns the answers that the last execution found.
func (a *asker) answers(t *testing.T) []journal.ToolAnswer {
	t.Helper()
	var out []journal.ToolAnswer
	for _, n := range a.executions[len(a.executions)-1] {
		if n.Kind == journal.NoteToolAnswer {
			var one journal.ToolAnswer
			if err := json.Unmarshal(n.Data, &one); err != nil {
				t.Fatal(err)
			}
			out = append(out, one)
		}
	}
	return out
}

// asked returns what the open gate shows, and an approval of it.
func asked(t *testing.T, e engine.Engine) (shows map[string]json.RawMessage, decision plan.GateDecision) {
	t.Helper()
	state, p, _, err := e.Load(t.Context(), ID)
	if err != nil {
		t.Fatal(err)
	}
	gates := state.OpenGates()
	if len(gates) != 1 || gates[0].Gate.Kind != journal.GateToolCall {
		t.Fatalf("%d gates", len(gates))
	}
	shows, digest := state.Shown(p, gates[0])
	return shows, plan.GateDecision{
		Step: gates[0].Step, Answer: journal.AnswerApprove, Digest: digest, By: journal.Actor{User: "eva"},
		Note: "fine",
	}
}

func continuesAfterApproval(t *testing.T, s Subject) {
	for name, elsewhere := range map[string]bool{"here": false, "in another process": true} {
		for _, verdict := range []journal.Answer{journal.AnswerApprove, journal.AnswerReject} {
			t.Run(name+" "+string(verdict), func(t *testing.T) {
				w := s.New(t)
				kind := newAsker()
				e := w.open(t, kind)
				Begin(t, e, Program([]ir.Step{Task("a")}))
				if entry := Rest(t, e); entry.Status != journal.Waiting || entry.Waiting.String() != "approval: a" ||
					e.Owns(ID) {
					t.Fatalf("%+v", entry)
				}
				shows, decision := asked(t, e)
				if string(shows["arguments"]) != `{"to":"eva"}` {
					t.Errorf("it shows %s", shows)
				}
				decision.Answer = verdict
				if elsewhere {
					Stop(e)
					e = w.open(t, kind)
				}
				if err := e.Send(t.Context(), ID, decision, "ref"); err != nil {
					t.Fatal(err)
				}
				if entry := Rest(t, e); entry.Outcome != "ok" || kind.Done["a#0"] != 1 {
					t.Errorf("%+v, %v", entry, kind.Done)
				}
				answers := kind.answers(t)
				want := []journal.ToolAnswer{{
					Call: "a#0/call:1", Digest: decision.Digest, Approved: verdict == journal.AnswerApprove,
					By: journal.Actor{User: "eva"}, Note: "fine",
				}}
				if len(kind.executions) != 2 || !reflect.DeepEqual(answers, want) ||
					kind.executions[1][0].Kind != "reply" {
					t.Errorf("%d executions, answers %+v, notes %+v", len(kind.executions), answers, kind.executions)
				}
				if err := e.Send(t.Context(), ID, decision, "again"); err == nil {
					t.Error("the same approval counted twice")
				}
			})
		}
	}
}

// bindsApprovals tests that a decision is accepted only if it is about exactly what is shown.
func bindsApprovals(t *testing.T, s Subject) {
	w := s.New(t)
	kind := newAsker()
	e := w.open(t, kind)
	Begin(t, e, Program([]ir.Step{Task("a")}))
	Rest(t, e)
	_, good := asked(t, e)
	for name, change := range map[string]func(*plan.GateDecision){
		"no digest": func(d *plan.GateDecision) { d.Digest = "" },
		"another digest": func(d *plan.GateDecision) {
			d.Digest = journal.GateDigest(ID, "a#0/call:2", journal.GateToolCall, nil)
		},
		"a doubt's":    func(d *plan.GateDecision) { d.Answer = journal.AnswerSkip },
		"another step": func(d *plan.GateDecision) { d.Step = "b" },
	} {
		d := good
		change(&d)
		var refused *plan.Refusal
		if err := e.Send(t.Context(), ID, d, "ref"); !errors.As(err, &refused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if kind.Done["a#0"] != 0 || len(kind.executions) != 1 {
		t.Errorf("it went on: %v", kind.Done)
	}
}

func timesOutApprovals(t *testing.T, s Subject) {
	w := s.New(t)
	kind := newAsker()
	kind.within = time.Millisecond
	e := w.open(t, kind)
	Begin(t, e, Program([]ir.Step{Task("a")}))
	for { // the gate times out
		if entry := Rest(t, e); entry.Status == journal.Finished {
			break
		}
	}
	if answers := kind.answers(t); len(answers) != 1 || answers[0].Approved || !answers[0].TimedOut {
		t.Errorf("%+v", answers)
	}
}

// recordsWhileHeld tests that an approval that a held engine records loses none of the task's notes.
func recordsWhileHeld(t *testing.T, s Subject) {
	w := s.New(t)
	kind := newAsker()
	e := w.open(t, kind)
	Begin(t, e, Program([]ir.Step{Task("a")}))
	Rest(t, e)
	_, decision := asked(t, e)
	Stop(e)
	e = w.open(t, kind)
	e.Hold()
	if err := e.Send(t.Context(), ID, decision, "ref"); err != nil {
		t.Fatal(err)
	}
	Stop(e)
	if len(kind.executions) != 1 {
		t.Fatal("it was carried on")
	}
	e = w.open(t, kind)
	if entry, err := Finish(t, e); err != nil || entry.Outcome != "ok" {
		t.Fatalf("%+v, %v", entry, err)
	}
	if len(kind.executions) != 2 || len(kind.answers(t)) != 1 || kind.executions[1][0].Kind != "reply" {
		t.Errorf("%+v", kind.executions)
	}
}

func cancelsWaitingTasks(t *testing.T, s Subject) {
	w := s.New(t)
	kind := newAsker()
	e := w.open(t, kind)
	Begin(t, e, Program([]ir.Step{Task("a"), Task("b")}))
	Rest(t, e)
	if err := e.Send(t.Context(), ID, plan.Cancel{}, "ref"); err != nil {
		t.Fatal(err)
	}
	if entry := Rest(t, e); entry.Outcome != "cancelled" || len(kind.executions) != 1 {
		t.Errorf("%+v", entry)
	}
}

// back rewinds the run to a step.
func back(t *testing.T, e engine.Engine, step string) error {
	t.Helper()
	was, err := e.Checkpoint(t.Context(), ID, step)
	if err != nil {
		return err
	}
	return e.Send(t.Context(), ID, plan.Rewind{Step: step, Was: was, By: journal.Actor{User: "eva"}}, "back")
}

// rewinds tests that a run that waits inside a parallel step can be rewound to an earlier step: the
// values of earlier steps are kept, later steps run again, and no task has the key of an earlier one.
func rewinds(t *testing.T, s Subject) {
	w := s.New(t)
	gate := func(id string) ir.Step { return ir.Step{ID: id, Type: "gate", Action: ir.Gate{Decider: ir.Person}} }
	p := Program(
		[]ir.Step{Task("a"), Task(
			"b",
		), {ID: "fan", Type: "parallel", Action: ir.Parallel{Join: ir.JoinAll, Branches: []ir.Branch{
			{Name: "x", Block: 1}, {Name: "y", Block: 2},
		}}}, Task("never")},
		[]ir.Step{Task("x1"), gate("xg")}, []ir.Step{Task("y1"), gate("yg")})
	kind := NewKind()
	e := w.open(t, kind)
	Begin(t, e, p)
	Rest(t, e)

	for step, want := range map[string]string{
		"never": "the run has never reached that step: never", "x1": "a branch, a loop", "other": "unknown step",
	} {
		err := back(t, e, step)
		if step != "never" {
			err = e.Send(t.Context(), ID, plan.Rewind{Step: step}, "back")
		}
		if err == nil || !strings.Contains(err.Error(), want) || step == "never" &&
			!errors.Is(err, engine.ErrNotReached) {
			t.Errorf("back to %s: %v", step, err)
		}
	}

	if err := back(t, e, "b"); err != nil {
		t.Fatal(err)
	}
	if entry := Rest(t, e); entry.Status != journal.Waiting {
		t.Fatalf("%+v", entry)
	}
	state, _, _, err := e.Load(t.Context(), ID)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(state.Root().Scope["state.a"].JSON); got != `"a#0"` {
		t.Errorf("state.a is %s", got)
	}
	if got := string(state.Root().Scope["state.b"].JSON); got != `"b~1#0"` {
		t.Errorf("state.b is %s", got)
	}
	if err := back(t, e, "b"); err != nil {
		t.Fatal(err)
	}
	Rest(t, e)
	got, err := Finish(t, e)
	if err != nil || got.Outcome != "ok" {
		t.Fatalf("%+v, %v", got, err)
	}
	want := []string{
		"a#0", "b#0", "b~1#0", "b~2#0", "fan/x/x1#0", "fan/y/y1#0", "fan~1/x/x1#0", "fan~1/y/y1#0", "fan~2/x/x1#0",
		"fan~2/y/y1#0", "never~1#0",
	}
	var done []string
	for key, n := range kind.Done {
		done = append(done, key)
		if n != 1 {
			t.Errorf("%s was done %d times", key, n)
		}
	}
	slices.Sort(done)
	if !slices.Equal(done, want) {
		t.Errorf("done: %q", done)
	}
	// Every step that has started has ended, as the records require.
	open := map[string]bool{}
	for event, err := range w.Journal.Events(t.Context(), ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		switch x := event.Fact.(type) {
		case journal.GateOpened:
			open[x.Place.Key()] = true
		case journal.GateDecided:
			delete(open, x.Place.Key())
		case journal.StepLeft:
			delete(open, x.Place.Key())
		}
	}
	if len(open) > 0 {
		t.Errorf("never ended: %v", open)
	}
}

// continuesFinishedRuns tests that another run can continue from a step of a finished run, which does
// not change.
func continuesFinishedRuns(t *testing.T, s Subject) {
	w := s.New(t)
	kind := NewKind()
	kind.Fail["c"] = 1
	e := w.open(t, kind)
	Begin(t, e, Program([]ir.Step{Task("a"), Task("b"), Task("c")}))
	if entry := Rest(t, e); entry.Outcome != "failed" {
		t.Fatalf("%+v", entry)
	}
	over, err := w.Journal.Entry(t.Context(), ID)
	if err != nil {
		t.Fatal(err)
	}
	kind.Fail["c"] = 0
	const next journal.RunID = "00000000-0000-4000-8000-000000000002"
	if err := e.StartFrom(t.Context(), next, ID, "c", journal.Actor{User: "eva"}); err != nil {
		t.Fatal(err)
	}
	entry, err := e.Wait(t.Context(), next)
	if err != nil || entry.Outcome != "ok" {
		t.Fatalf("%+v, %v", entry, err)
	}
	if kind.Done["a#0"] != 1 || kind.Done["b#0"] != 1 || kind.Done["c#0"] != 2 {
		t.Errorf("done: %v", kind.Done)
	}
	if after, err := w.Journal.Entry(t.Context(), ID); err != nil || after != over {
		t.Errorf("the run that was over is now %+v, %v", after, err)
	}
	for event, err := range w.Journal.Events(t.Context(), next, 0) {
		if err != nil {
			t.Fatal(err)
		}
		started, ok := event.Fact.(journal.RunStarted)
		if !ok || started.From == nil || *started.From != (journal.Origin{Run: ID, Step: "c"}) ||
			string(started.Vars["state.b"].JSON) != `"b#0"` {
			t.Errorf("%+v", event.Fact)
		}
		break
	}
	if err := e.StartFrom(t.Context(), "00000000-0000-4000-8000-000000000003", ID, "d", journal.Actor{}); err == nil {
		t.Error("went on from a step that is not there")
	}
}

// continuesWithEdits tests that a run that continues another one can start with edited variables, and that the edits
// are recorded with the user.
func continuesWithEdits(t *testing.T, s Subject) {
	w := s.New(t)
	kind := NewKind()
	kind.Fail["c"] = 1
	e := w.open(t, kind)
	Begin(t, e, Program([]ir.Step{Task("a"), Task("b"), Task("c")}))
	Rest(t, e)
	kind.Fail["c"] = 0
	const next journal.RunID = "00000000-0000-4000-8000-000000000002"
	by := journal.Actor{User: "eva"}
	edit := plan.Edit{Path: "state.b", Value: json.RawMessage(`"corrected"`), By: by}
	if err := e.StartFrom(t.Context(), next, ID, "c", by, edit); err != nil {
		t.Fatal(err)
	}
	if entry, err := e.Wait(t.Context(), next); err != nil || entry.Outcome != "ok" {
		t.Fatalf("%+v, %v", entry, err)
	}
	var facts []journal.Fact
	for event, err := range w.Journal.Events(t.Context(), next, 0) {
		if err != nil {
			t.Fatal(err)
		}
		facts = append(facts, event.Fact)
	}
	edited, ok := facts[1].(journal.StateEdited)
	if !ok || edited.Path != "state.b" || string(edited.Value.JSON) != `"corrected"` || edited.By != by {
		t.Errorf("the second fact is %+v", facts[1])
	}
	input := plan.Edit{Path: "input.x", Value: json.RawMessage("1"), By: by}
	if err := e.StartFrom(t.Context(), "00000000-0000-4000-8000-000000000003", ID, "c", by, input); err == nil {
		t.Error("an edit of the input was accepted")
	}
}

// continuesContinuedRuns tests that a continued run can go back to steps of the run that it continues,
// up to the step from which it continues.
func continuesContinuedRuns(t *testing.T, s Subject) {
	w := s.New(t)
	kind := NewKind()
	kind.Fail["d"] = 9
	e := w.open(t, kind)
	Begin(t, e, Program([]ir.Step{Task("a"), Task("b"), Task("c"), Task("d")}))
	Rest(t, e)
	runs := []journal.RunID{
		ID, "00000000-0000-4000-8000-000000000002", "00000000-0000-4000-8000-000000000003",
		"00000000-0000-4000-8000-000000000004",
	}
	from := func(old, next journal.RunID, step string) error {
		t.Helper()
		if err := e.StartFrom(t.Context(), next, old, step, journal.Actor{User: "eva"}); err != nil {
			return err
		}
		_, err := e.Wait(t.Context(), next)
		return err
	}
	if err := from(runs[0], runs[1], "d"); err != nil {
		t.Fatal(err)
	}
	kind.Fail["c"] = 9
	if err := from(runs[1], runs[2], "c"); err != nil {
		t.Fatal(err)
	}
	if err := from(runs[2], runs[3], "d"); !errors.Is(err, engine.ErrNotReached) {
		t.Errorf("to a step that came only after the one that the run goes on from: %v", err)
	}
	if err := from(runs[2], runs[3], "b"); err != nil {
		t.Fatal(err)
	}
	if kind.Done["a#0"] != 1 || kind.Done["b#0"] != 2 || kind.Done["c#0"] != 3 || kind.Done["d#0"] != 2 {
		t.Errorf("done: %v", kind.Done)
	}
	for event, err := range w.Journal.Events(t.Context(), runs[3], 0) {
		if err != nil {
			t.Fatal(err)
		}
		started, ok := event.Fact.(journal.RunStarted)
		if !ok || *started.From != (journal.Origin{Run: runs[2], Step: "b"}) ||
			string(started.Vars["state.a"].JSON) != `"a#0"` || started.Vars["state.b"].JSON != nil {
			t.Errorf("%+v", event.Fact)
		}
		break
	}
	if err := w.Journal.Remove(t.Context(), journal.Removal{}, runs[0]); err != nil {
		t.Fatal(err)
	}
	if err := from(runs[3], "00000000-0000-4000-8000-000000000005", "a"); !errors.Is(err, engine.ErrNotReached) {
		t.Errorf("to a step of a run that has been deleted: %v", err)
	}
}
