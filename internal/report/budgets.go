package report

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
)

// tracker folds the facts of a stream with the rules of the planner, so that
// budgets and suspensions are never computed in a second way. It drops the
// values of variables, unless the reader shows them.
type tracker struct {
	trackerState
	state  plan.State
	facts  [1]journal.Event
	opened func(step *Step, before *plan.State) // values of variables are kept for it; usually nil

	run, branch Budget
	suspension  Suspension
}

// trackerState is the part of a tracker that checkpoints have as it is.
type trackerState struct {
	Names     bool           `json:"names,omitempty"` // some workflow of the run lists its variables at checkpoints
	Suspended bool           `json:"suspended,omitempty"`
	Since     journal.Millis `json:"since,omitempty"`
	ClaimedBy string         `json:"claimed_by,omitempty"` // process that claimed the run while it was suspended
	Cause     string         `json:"cause,omitempty"`      // of the resumption to come
}

// TrackBudgets makes the Interpreter add budgets and variables to its events,
// and emit RunSuspended and RunResumed. It must be called before the first fact.
func (in *Interpreter) TrackBudgets() *Interpreter {
	in.budgets = &tracker{state: plan.State{Run: in.root}}
	return in
}

// TrackValues is TrackBudgets for a reader that shows the values of variables. It calls opened for each step that
// opens, with the state before the fact that opens it.
func (in *Interpreter) TrackValues(opened func(step *Step, before *plan.State)) *Interpreter {
	in.TrackBudgets().budgets.opened = opened
	return in
}

// Values returns the state of the run after the last fact, as the planner folds it. It is only complete after
// TrackValues.
func (in *Interpreter) Values() *plan.State { return &in.budgets.state }

// Budget returns the budget of the root run at a time, which may be later than
// the last fact.
func (in *Interpreter) Budget(now journal.Millis) *Budget {
	t := in.budgets
	ledger := t.state.Spent
	if root := t.state.Root(); root != nil {
		ledger = root.Ledger
	}
	if ledger == nil {
		return nil
	}
	t.run = budgetOf("", ledger, now)
	return &t.run
}

// budgetOf returns the state of a ledger at a time.
func budgetOf(name string, l *plan.Ledger, now journal.Millis) Budget {
	return Budget{name, l.Limits, l.Used, journal.Millis(l.ActiveAt(now).Milliseconds())}
}

// branchBudget returns the budget of the innermost branch around a frame that
// has limits, or nil.
func (t *tracker) branchBudget(frame string, now journal.Millis) *Budget {
	for f := t.state.Frames[frame]; f != nil && f.Path != ""; f = t.state.Frames[f.Parent] {
		if f.Ledger != nil && f.Ledger.Limits != (journal.Limits{}) {
			t.branch = budgetOf(f.Name, f.Ledger, now)
			return &t.branch
		}
	}
	return nil
}

// fold applies the fact and completes the events that it consists of.
func (t *tracker) fold(in *Interpreter) {
	e := in.fact
	t.facts[0] = *e
	t.state.Fold(t.facts[:])
	t.facts[0] = journal.Event{}
	if _, starts := e.Fact.(journal.RunStarted); starts && in.program != nil {
		for _, u := range in.program.units {
			t.Names = t.Names || u.program.CheckpointEvery > 0
		}
	}
	for i := range in.queue {
		out := &in.queue[i]
		switch out.Type {
		case StepFinished:
			out.Budget, out.Branch = in.Budget(e.At), t.branchBudget(out.Work.Frame, e.At)
		case RunFinished:
			out.Budget = in.Budget(e.At)
		case CheckpointSaved:
			if f := t.state.Frames[out.Work.Frame]; f != nil {
				out.Variables = slices.Sorted(maps.Keys(f.Scope))
			}
		}
	}
	if t.opened == nil {
		t.trim(t.state.Frames[in.place])
	}
	t.queueSuspension(in)
}

// trim drops what the planner keeps for its decisions: values of variables,
// results of branches and timers that no longer count. They would grow with
// the length of a run.
func (t *tracker) trim(frame *plan.Frame) {
	t.state.Wake() // discards timers
	if frame == nil {
		return
	}
	frame.Last.Value, frame.Before.Value = journal.Value{}, journal.Value{}
	if frame.Group != nil {
		frame.Group.Items = journal.Value{}
	}
	if t.Names {
		for name, v := range frame.Scope {
			frame.Scope[name] = journal.Value{JSON: null, Hash: v.Hash}
		}
		return
	}
	frame.Scope = nil
	if frame.Group != nil {
		frame.Group.Results = nil
	}
}

// null stands for values that budgets do not depend on, which can be large.
var null = json.RawMessage("null")

// queueSuspension queues RunSuspended when nothing happens any more until a person or a
// timer acts, and RunResumed when the run moves again: before what happens
// then, but after the decision that caused it.
func (t *tracker) queueSuspension(in *Interpreter) {
	if in.cause != "" {
		t.Cause = in.cause
	}
	root := in.frames[""]
	switch x, claimed := in.fact.Fact.(journal.Claimed); {
	case claimed && t.Suspended:
		t.ClaimedBy = x.Owner
	case claimed && root != nil:
		t.suspension = Suspension{Cause: CauseTakenOver, Process: x.Owner}
		in.add(RunResumed, root.run, nil).Suspension = &t.suspension
	case t.Suspended:
		if _, resting := t.resting(in); resting {
			return
		}
		t.Suspended = false
		if root == nil { // the run is over
			return
		}
		t.suspension = Suspension{Cause: t.Cause, Rested: in.fact.At - t.Since, Process: t.ClaimedBy}
		t.ClaimedBy = ""
		resumed := *in.add(RunResumed, root.run, nil)
		resumed.Suspension = &t.suspension
		at := len(in.queue) - 1
		if in.cause == "" {
			at = 0
		}
		in.queue = slices.Insert(in.queue[:len(in.queue)-1], at, resumed)
	case in.rests && !t.continuesAtOnce(in.fact.Fact):
		index, resting := t.resting(in)
		if !resting {
			return
		}
		t.Suspended, t.Since = true, in.fact.At
		t.suspension = Suspension{Status: index.Status, Waiting: index.Waiting, Expired: t.state.Expired}
		in.add(RunSuspended, root.run, nil).Suspension = &t.suspension
	}
}

// continuesAtOnce reports whether a fact has ended a step after which the run
// takes the next one at once, as most steps do. This check keeps a fan-out over
// thousands of items linear.
func (t *tracker) continuesAtOnce(f journal.Fact) bool {
	s := &t.state
	if s.Expired || s.Paused || len(s.BudgetWaiters) > 0 {
		return false
	}
	at, ok := journal.PlaceOf(f)
	frame := s.Frames[at.Frame]
	return ok && frame != nil && frame.Phase == plan.Ended
}

// resting reports whether nothing is being done, and what the run waits for.
func (t *tracker) resting(in *Interpreter) (journal.Index, bool) {
	s := &t.state
	if s.Finished != nil || s.Root() == nil || s.Open > 0 && len(s.BudgetWaiters) == 0 && !s.Expired {
		return journal.Index{}, false
	}
	index := s.Summary()
	switch index.Status {
	case journal.PausedAt:
		index.Waiting = journal.Wait{Kind: journal.WaitContinue} // as records have always said
		return index, true
	case journal.Exceeded:
		return index, true
	case journal.Waiting:
	default:
		return index, false
	}
	for _, f := range s.Frames {
		if f.Phase == plan.Grouped && groupCanContinue(f, in.open(f.Place())) {
			return index, false
		}
	}
	return index, true
}

// groupCanContinue reports whether a step that consists of frames continues at once: its last frame has closed, or
// there is room for the next one.
func groupCanContinue(f *plan.Frame, step *Step) bool {
	g := f.Group
	if g.Live == 0 {
		return true
	}
	if g.Mode != plan.ModeParallel || g.Stopped || g.Next >= g.Total || step == nil || step.Info == nil {
		return false
	}
	par, ok := step.Info.Step.Action.(ir.Parallel)
	return ok && (par.MaxConcurrent == 0 || g.Live < par.MaxConcurrent)
}
