package report

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
)

// EventType names what an Event reports.
type EventType string

// Events of runs. All but RunStarted and RunFinished belong to the root run.
const (
	RunStarted      EventType = "run.started"      // Value is the input, Limits the budget
	RunFinished     EventType = "run.finished"     // Ending, Budget
	RunSuspended    EventType = "run.suspended"    // Suspension; nothing happens until a person or a timer acts
	RunResumed      EventType = "run.resumed"      // Suspension
	RunClaimed      EventType = "run.claimed"      // journal.Claimed
	RunPaused       EventType = "run.paused"       // journal.Paused
	RunContinued    EventType = "run.continued"    // journal.Continued
	RunRewound      EventType = "run.rewound"      // journal.Rewound
	CancelRequested EventType = "cancel.requested" // journal.CancelRequested
	StateEdited     EventType = "state.edited"     // journal.StateEdited
	SignalReceived  EventType = "signal.received"  // journal.SignalReceived; nothing waits for it yet
	InputRefused    EventType = "input.refused"    // journal.InputRefused
	DeadlineReached EventType = "deadline.reached" // journal.TimerFired
	BudgetRaised    EventType = "budget.raised"    // journal.BudgetRaised
)

// Events of steps.
const (
	StepStarted     EventType = "step.started"
	StepFinished    EventType = "step.finished"    // Ending, Budget, Branch
	StepSkipped     EventType = "step.skipped"     // its condition was false: it never started
	StepRetrying    EventType = "step.retrying"    // journal.RetrySet; Ending is that of the failed attempt
	StepRouted      EventType = "step.routed"      // journal.Routed
	BranchChosen    EventType = "branch.chosen"    // Name, Decision, Next; Step is nil: the decision has finished
	TaskStarted     EventType = "task.started"     // journal.TaskStarted
	TaskFinished    EventType = "task.finished"    // journal.TaskEnded
	TaskLost        EventType = "task.lost"        // journal.TaskLost; Step is nil when the step is not open
	BranchFinished  EventType = "branch.finished"  // Name, Ending; of a branch or an iteration of Step
	CheckpointSaved EventType = "checkpoint.saved" // Variables; Step is nil: it has finished, and Work names it
	GateOpened      EventType = "gate.opened"      // journal.GateOpened, also in Step.Gate
	GateApproved    EventType = "gate.approved"    // journal.GateApproved: the gate needs more approvals
	GateEscalated   EventType = "gate.escalated"   // journal.TimerFired: more people may decide
	GateExpired     EventType = "gate.expired"     // journal.TimerFired
	GateDecided     EventType = "gate.decided"     // journal.GateDecided; the gate is in Step.Gate
	GateJudged      EventType = "gate.judged"      // journal.TaskEnded: an agent or a program decided
	BudgetReserved  EventType = "budget.reserved"  // journal.Reserved
	BudgetWaiting   EventType = "budget.waiting"   // journal.BudgetWait; Step is nil before the step starts
	BudgetRefused   EventType = "budget.refused"   // journal.BudgetRefused
)

// Events inside a task. Note holds the data, which has the type named here.
const (
	ModelPrompted  EventType = "model.prompted"  // journal.Prompt
	ModelReplied   EventType = "model.replied"   // journal.Reply
	ModelStreamed  EventType = "model.streamed"  // journal.Stream
	ModelFailed    EventType = "model.failed"    // journal.ModelRetry without Wait
	ModelRetried   EventType = "model.retried"   // journal.ModelRetry
	ToolCalled     EventType = "tool.called"     // journal.ToolUse
	ToolProgressed EventType = "tool.progressed" // journal.Progress
	ToolReturned   EventType = "tool.returned"   // journal.ToolUse
	CommandStarted EventType = "command.started" // journal.Command
	CommandWrote   EventType = "command.wrote"   // journal.Output
	CallStarted    EventType = "call.started"    // journal.Call
	CallFinished   EventType = "call.finished"   // journal.CallEnd
	MergeDecided   EventType = "merge.decided"   // journal.MergeDecision
	MessagePrinted EventType = "message.printed" // journal.LogLine
	WorkerChosen   EventType = "worker.chosen"   // journal.DoneBy
	FileMissing    EventType = "file.missing"    // journal.MissingFile
	StepAnnotated  EventType = "step.annotated"  // a kind of note that has no event of its own
)

// Event is what one fact of the journal means to the records of one run. It is
// plain data: encoding/json encodes it as it is.
type Event struct {
	Type EventType      `json:"type"`
	Seq  journal.Seq    `json:"seq"`
	At   journal.Millis `json:"at"`
	Run  *Run           `json:"run"`
	Step *Step          `json:"step,omitempty"` // nil for events of the run
	Work journal.TaskID `json:"work,omitzero"`  // the task or the place that the fact names
	Ending
	By         journal.Actor   `json:"by,omitzero"`        // the user who caused it
	Name       string          `json:"name,omitempty"`     // of a branch
	Decision   *Step           `json:"decision,omitempty"` // that has chosen a branch
	Next       *Step           `json:"next,omitempty"`     // that a decision leads to; nil if it ends its block
	Usage      journal.Usage   `json:"usage,omitzero"`     // spent with this event
	Limits     *journal.Limits `json:"limits,omitempty"`
	Note       *Note           `json:"note,omitempty"`
	Budget     *Budget         `json:"budget,omitempty"` // of the root run
	Branch     *Budget         `json:"branch,omitempty"` // of the innermost branch that has limits
	Variables  []string        `json:"variables,omitempty"`
	Suspension *Suspension     `json:"suspension,omitempty"`
	// Fact is the fact itself, for details that only some readers show.
	Fact journal.Fact `json:"fact,omitempty"`
}

// Verdict returns the decision that GateDecided and GateApproved report.
func (e *Event) Verdict() Decision {
	gate := cmp.Or(e.Step.Gate, &Gate{})
	d, _ := decisionOf(e.Fact, gate.Kind)
	d.At, d.Event = e.At, cmp.Or(gate.Event, d.Event)
	return d
}

// State returns the state of Step after the event; empty if the event does not change it. A step that runs hooks ends
// as they do, not as its fact says.
func (e *Event) State() journal.State {
	if e.Type == StepFinished || e.Type == StepSkipped {
		return journal.State(e.Outcome)
	}
	return journal.StateAfter(e.Fact)
}

// changes returns the variables that an event changes, and their value. The writes of a task are those of its step.
func (e *Event) changes() ([]journal.Write, journal.Value) {
	switch e.Type {
	case StateEdited:
		x, _ := e.Fact.(journal.StateEdited)
		return []journal.Write{{Path: x.Path}}, x.Value
	case StepFinished:
		return e.Writes, e.Value
	}
	return nil, journal.Value{}
}

// Own returns how the task or the gate of a step has ended that StepFinished or StepSkipped reports, without the hooks
// that the step has run.
func (e *Event) Own() Ending {
	end := e.Ending
	switch x := e.Fact.(type) {
	case journal.TaskEnded:
		end.Outcome, end.Class, end.Reason, end.Error = x.Outcome, x.Class, string(x.Class), x.Error
		end.Value = x.Value
	case journal.GateDecided:
		end.Outcome, end.Class, end.Reason, end.Error = x.Outcome, x.Class, x.Reason, x.Error
		end.Value = x.Value
	}
	if e.Type == StepSkipped {
		end.Reason = ReasonCondition
	}
	return end
}

// Final reports whether TaskFinished ends its step: no further attempt or task of the visit follows.
func (e *Event) Final() bool {
	x, _ := e.Fact.(journal.TaskEnded)
	return x.Final
}

// Ending describes how a run, a step, a task or a branch ended.
type Ending struct {
	Outcome journal.Outcome `json:"outcome,omitempty"`
	Class   ir.Class        `json:"class,omitempty"` // of the error
	Reason  string          `json:"reason,omitempty"`
	Error   string          `json:"error,omitempty"` // from the fact
	// Problem explains in one sentence or word why the outcome is not a success.
	Problem string          `json:"problem,omitempty"`
	Status  int             `json:"status,omitempty"` // exit code that the author chose
	Last    string          `json:"last,omitempty"`   // step that ended a run
	Value   journal.Value   `json:"value,omitzero"`
	Writes  []journal.Write `json:"writes,omitempty"`
}

// Run is a run with records of its own: the root run of a stream or a child of it.
type Run struct {
	ID         journal.RunID   `json:"id"`
	Parent     journal.RunID   `json:"parent,omitempty"` // empty for the root run
	Name       string          `json:"name"`
	Format     string          `json:"format,omitempty"`     // of the root run
	Definition string          `json:"definition,omitempty"` // hash of the pinned definition
	By         journal.Actor   `json:"by,omitzero"`
	From       *journal.Origin `json:"from,omitempty"` // run and step that the root run continues
	Started    journal.Millis  `json:"started"`
	Used       journal.Usage   `json:"used,omitzero"`   // so far, children included
	Steps      int             `json:"steps,omitempty"` // finished steps of its body

	Input   journal.Value   `json:"-"`
	Options json.RawMessage `json:"-"` // of the root run
	Offline journal.Offline `json:"-"` // if models or tools answered offline
	Caller  *Step           `json:"-"` // step of the parent that calls it; nil for the root run
	Program *ir.Program     `json:"-"` // nil when it is not known
	Data    any             `json:"-"` // reserved for the reader
}

// Audits returns the audit settings of all workflows of the root run. What one of them redacts can be in the values of
// any other.
func (r *Run) Audits() []*ir.Audit {
	for r.Caller != nil {
		r = r.Caller.Run
	}
	if r.Program == nil {
		return nil
	}
	return r.Program.Audits()
}

// Step is one visit of a step, from its start to its end.
type Step struct {
	Name        string         `json:"name"`
	Path        string         `json:"path"` // dotted names of the enclosing steps of its run, and its own
	Kind        string         `json:"kind"`
	Agent       string         `json:"agent,omitempty"`
	FallbackFor string         `json:"fallback_for,omitempty"` // step that it replaces
	Depth       int            `json:"depth,omitempty"`        // number of enclosing steps of its run
	Loop        bool           `json:"loop,omitempty"`         // inside a loop or a fan-out over a list
	Index       int            `json:"index,omitempty"`        // of the innermost one
	Attempt     int            `json:"attempt,omitempty"`      // the current one, from 0
	Earlier     int            `json:"earlier,omitempty"`      // attempts before, while enclosing steps were retried
	Branches    int            `json:"branches,omitempty"`     // branches or items; 0 if unknown
	MaxRounds   int            `json:"max_rounds,omitempty"`   // of a loop; 0 if unlimited
	Started     journal.Millis `json:"started"`
	Used        journal.Usage  `json:"used,omitzero"`   // so far, by everything inside
	Call        bool           `json:"call,omitempty"`  // it calls a child run
	Child       journal.RunID  `json:"child,omitempty"` // the child run; empty before it starts
	Gate        *Gate          `json:"gate,omitempty"`  // nil unless a gate is open

	Run    *Run          `json:"-"`
	Place  journal.Place `json:"-"`
	Info   *StepInfo     `json:"-"` // nil when the program is not known
	Parent *Step         `json:"-"` // enclosing step, across calls; nil for a step of the root's body
	Data   any           `json:"-"` // reserved for the reader

	hooks     *journal.Hooks // that the step has run
	announced bool           // StepStarted has been emitted
	failed    *Ending        // of the last attempt that another one follows
}

// Title returns the name of the step as people know it.
func (s *Step) Title() string {
	if s.Info == nil {
		return s.Name
	}
	return s.Info.Step.Title()
}

// Label returns the path of the step as people know it, after those of the steps that called its run.
func (s *Step) Label() string {
	label := strings.TrimSuffix(s.Path, s.Name) + s.Title()
	if s.Loop {
		label += "[" + strconv.Itoa(s.Index) + "]"
	}
	if s.Run.Caller != nil {
		return s.Run.Caller.Label() + " › " + label
	}
	return label
}

// Iteration returns the index of the innermost loop; outside loops, the number of earlier attempts.
func (s *Step) Iteration() int {
	if s.Loop {
		return s.Index
	}
	return s.EarlierAttempts()
}

// EarlierAttempts returns the number of attempts before this one. It counts those of earlier attempts of enclosing
// steps as if all of them had been needed, so that numbers do not repeat.
func (s *Step) EarlierAttempts() int { return s.Earlier + s.Attempt }

// Asks returns what the open gate of the step asks for; empty if none is open. Only the definition tells whether the
// event of a gate carries text from a person.
func (s *Step) Asks() journal.AskKind {
	if s.Gate == nil {
		return ""
	}
	var gate ir.Gate
	if s.Info != nil {
		gate, _ = s.Info.Step.Action.(ir.Gate)
	}
	return s.Gate.Kind.Asks(gate.Text)
}

// attempts returns the maximum number of attempts of one visit.
func (s *Step) attempts() int {
	if s.Info == nil {
		return 1
	}
	return s.Info.Step.Attempts()
}

// Gate is a gate that is open.
type Gate struct {
	journal.GateOpened
	At journal.Millis `json:"at"`
}

// Note is the data of an event inside a task.
type Note struct {
	Kind    string          `json:"kind"`
	Settles int             `json:"settles,omitempty"` // the reservation that it settles
	Data    json.RawMessage `json:"data,omitempty"`    // from the journal
	// Unreadable reports that Data does not have the form of its kind; what
	// could be read of it is in the value that Body returns.
	Unreadable bool `json:"unreadable,omitempty"`

	body any
}

// Body returns the data of a note, whose type the event's type determines.
func Body[T any](n *Note) *T { return n.body.(*T) }

// Offline returns how the answer that is noted was given if no real model or tool gave it, or if the command was not
// started; empty for other notes.
func (n *Note) Offline() journal.Offline {
	switch x := n.body.(type) {
	case *journal.Reply:
		return x.Offline
	case *journal.ToolUse:
		return x.Offline
	case *journal.Command:
		if strings.HasPrefix(x.Command, journal.SimulatedMark) {
			return journal.OfflineSimulated
		}
	}
	return ""
}

// Budget is a budget and what has been used of it.
type Budget struct {
	Name   string         `json:"name,omitempty"` // of the branch; empty for a run
	Limits journal.Limits `json:"limits,omitzero"`
	Used   journal.Usage  `json:"used,omitzero"`
	Active journal.Millis `json:"active_ms"` // time during which tasks were running
}

// Suspension describes why a run came to rest, or what made it move again.
type Suspension struct {
	Status  journal.Status `json:"status,omitempty"`
	Waiting journal.Wait   `json:"waiting_for,omitzero"`
	Expired bool           `json:"expired,omitempty"` // the deadline has passed
	Cause   string         `json:"cause,omitempty"`   // what made the run move again
	Rested  journal.Millis `json:"rested_ms,omitempty"`
	Process string         `json:"process,omitempty"` // that claimed the run
}

// CauseTakenOver is the cause of a resumption after the process of a run that
// was not at rest has died.
const CauseTakenOver = "taken_over"
