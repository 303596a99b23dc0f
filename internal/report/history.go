package report

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/espalier-run/espalier/internal/journal"
)

// History is what has happened in a run, visit by visit. It is built by applying the events in order, and grows with
// the run, which the state of an Interpreter does not.
type History struct {
	Started, Ended time.Time
	Active         time.Duration  // as the budget counts it
	Visited        map[string]int // number of visits of each step, by its path
	Done           int            // visits that have ended
	Edited         []string       // variables that were edited before the first step
	Variables      Variables

	in     *Interpreter
	run    journal.RunID
	open   map[*Step]*StepVisit
	last   time.Time     // of the latest event
	before time.Duration // active time of the root run when this run started
}

// NewHistory returns the history of a root run, with the steps of the runs that it calls, or that of one of these. The
// Interpreter is the source of the events; to know the active time, it has to track budgets.
func NewHistory(in *Interpreter, run journal.RunID) *History {
	return &History{
		in: in, run: run, open: map[*Step]*StepVisit{}, Visited: map[string]int{}, Variables: Variables{},
	}
}

// Apply applies an event of the stream. It returns the visit of its step and the call that it starts or ends; nil if
// there is none, or if the event belongs to another run.
func (h *History) Apply(e *Event) (visit *StepVisit, call *Call) {
	at := e.At.Time()
	// A process has died, and another one has taken over: in between nothing has worked on the run, although no fact
	// says when it stopped. The time since the latest event counts as a wait.
	if e.Type == RunResumed && e.Suspension.Cause == CauseTakenOver {
		h.idle(at)
	}
	if e.Type != RunClaimed { // the process that claimed it has not done anything yet
		h.last = at
	}
	if h.run != h.in.root && h.run != e.Run.ID {
		return nil, nil
	}
	h.Variables.Apply(e)
	switch {
	case e.Type == RunStarted && e.Run.ID == h.run:
		h.Started, h.before = at, h.activeAt(at)
	case e.Type == RunFinished && e.Run.ID == h.run:
		h.Ended, h.Active = at, h.activeAt(at)-h.before
	case e.Type == StateEdited && len(h.Visited) == 0: // so a run starts that continues another one
		changed, _ := e.changes()
		h.Edited = append(h.Edited, changed[0].Path)
	}
	if e.Step == nil {
		return nil, nil
	}
	v := h.open[e.Step]
	if v == nil {
		h.Visited[e.Step.Path]++
		v = &StepVisit{Visit: h.Visited[e.Step.Path], Parent: h.open[e.Step.Parent]}
		if v.Parent != nil {
			v.Parent.Items++
		}
		h.open[e.Step] = v
	}
	call = v.Apply(e)
	if !v.Ended.IsZero() {
		if v.Parent != nil && v.State == journal.StateFailed {
			v.Parent.Failed++
		}
		h.Done++
		delete(h.open, e.Step)
	}
	return v, call
}

// Until completes the history of a run that has not finished at a time. idle reports that no process drives the run:
// then it has been idle since the latest event.
func (h *History) Until(now time.Time, idle bool) {
	if !h.Ended.IsZero() {
		return
	}
	if idle {
		h.idle(now)
		now = h.last
	}
	h.Active = h.activeAt(now) - h.before
}

// idle notes that no process has driven the run between the latest event and a time. A visit that waits already has
// that time in its wait.
func (h *History) idle(until time.Time) {
	for _, v := range h.open {
		if v.Waiting.IsZero() {
			v.Waits = append(v.Waits, Interval{h.last, until})
		}
	}
}

// activeAt returns the active time of the root run, also while a run that it calls is active; 0 if it is not known.
func (h *History) activeAt(now time.Time) time.Duration {
	if h.in.budgets != nil {
		if b := h.in.Budget(journal.MillisOf(now)); b != nil {
			return time.Duration(b.Active) * time.Millisecond
		}
	}
	return 0
}

// StepVisit is one visit of a step: its attempts, waits and calls. A step in a loop, or one that a jump leads back to,
// has several.
type StepVisit struct {
	// A History sets these.
	Visit         int        // of the step, from 1
	Parent        *StepVisit // of the enclosing step; nil if there is none in the history
	Items, Failed int        // visits inside, and those that failed

	State          journal.State
	Started, Ended time.Time
	Error, Class   string
	Attempts       []Attempt
	Waits          []Interval
	Waiting        time.Time       // since when it waits; zero if it does not
	Calls          []*Call         // in the order in which they started
	Offline        journal.Offline // its models, tools or commands are simulated or scripted

	open []*Call
}

// Attempt is one try of a step.
type Attempt struct {
	N              int // counts every start of a task
	Number         int // counts an attempt that runs again after a crash once
	Started, Ended time.Time
	Error, Class   string
	OK             bool
	Lost           bool     // its process ended before it did
	MissingReads   []string // what it reads and no step has written
}

// Interval is a part of the time of a run.
type Interval struct{ Start, End time.Time }

// Call is a call of a model or a tool. Its end is zero while it runs, and if it has no result.
type Call struct {
	Interval
	Model bool
	Tool  string // its name
	ID    string // of the call of a tool
}

// Apply applies an event of the visit. It returns the call that the event starts or ends, if any.
func (v *StepVisit) Apply(e *Event) *Call {
	at := e.At.Time()
	if v.Started.IsZero() {
		v.Started, v.State = at, journal.StateRunning
	}
	if e.Note != nil && !e.Note.Unreadable {
		v.Offline = cmp.Or(e.Note.Offline(), v.Offline)
	}
	v.State = cmp.Or(e.State(), v.State)
	switch e.Type {
	case StepFinished, StepSkipped:
		v.Ended, v.Error, v.Class = at, e.Error, string(e.Class)
		if v.Error == "" && v.State == journal.StateFailed {
			v.Error = e.Problem
		}
		v.endWait(at)
	case TaskStarted: // no event of its own ends the wait before a retry
		v.endWait(at)
		x, _ := e.Fact.(journal.TaskStarted)
		v.Attempts = append(v.Attempts, Attempt{
			N: len(v.Attempts) + 1, Number: e.Work.Attempt + 1, Started: at, MissingReads: x.MissingReads,
		})
	case TaskFinished:
		if n := len(v.Attempts); n > 0 {
			a := &v.Attempts[n-1]
			a.Ended, a.Error, a.Class, a.OK = at, e.Error, string(e.Class), e.Outcome == journal.OutcomeOK
		}
	case TaskLost:
		if n := len(v.Attempts); n > 0 {
			v.Attempts[n-1].Lost = true
		}
	// What makes a step wait. The next events end the wait: the next attempt, a decision, or a reservation.
	case StepRetrying, GateOpened, BudgetWaiting:
		v.Waiting = at
	case GateDecided, GateExpired, BudgetReserved:
		v.endWait(at)
	case ModelPrompted: // another prompt without a reply in between starts the call anew
		v.open = slices.DeleteFunc(v.open, func(c *Call) bool { return c.Model })
		return v.startCall(&Call{Interval: Interval{Start: at}, Model: true})
	case ModelReplied:
		return v.endCall(true, "", at)
	case ToolCalled:
		use := Body[journal.ToolUse](e.Note)
		return v.startCall(&Call{Interval: Interval{Start: at}, Tool: use.Name, ID: use.CallID})
	case ToolReturned:
		return v.endCall(false, Body[journal.ToolUse](e.Note).CallID, at)
	}
	return nil
}

// endWait ends the wait of the visit, if it waits.
func (v *StepVisit) endWait(at time.Time) {
	if !v.Waiting.IsZero() {
		v.Waits, v.Waiting = append(v.Waits, Interval{v.Waiting, at}), time.Time{}
	}
}

// startCall adds a call that is open.
func (v *StepVisit) startCall(c *Call) *Call {
	v.Calls, v.open = append(v.Calls, c), append(v.open, c)
	return c
}

// endCall ends the newest open call with an identifier; nil if there is none, because an external agent made it and
// only reports its result.
func (v *StepVisit) endCall(model bool, id string, at time.Time) *Call {
	for i, c := range slices.Backward(v.open) {
		if c.Model == model && c.ID == id {
			v.open = slices.Delete(v.open, i, i+1)
			c.End = at
			return c
		}
	}
	return nil
}

// Variables are the variables that steps and people have changed in a run, by their paths. Those that it started with
// are not among them.
type Variables map[string]Variable

// Variable is the last value of a variable, and who wrote it.
type Variable struct {
	Value, Before json.RawMessage // Before is nil unless it was changed before
	Edited        bool            // a person has written the value
	Step          *Step           // that has last written the variable; nil if no step has
	Written       json.RawMessage // by Step
}

// Apply applies an event. What a step writes counts when the step finishes, so that an attempt that another one follows
// writes nothing.
func (v Variables) Apply(e *Event) {
	changed, value := e.changes()
	for _, w := range changed {
		x := v[w.Path]
		if x.Value != nil {
			x.Before = x.Value
		}
		if x.Value, x.Edited = value.JSON, e.Step == nil; e.Step != nil {
			x.Step, x.Written = e.Step, value.JSON
		}
		v[w.Path] = x
	}
}
