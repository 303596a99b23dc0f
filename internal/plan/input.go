package plan

import (
	"encoding/json"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
)

// Input is something that happens to a run. Deciding turns it into facts, or into InputRefused with the reason.
type Input interface {
	inputName() string
	accept(d *decider) // turns an input that State.Check accepts into facts
}

// taskInput is an input from a running task, or about one. It names the task and its rerun, so that late messages of a
// lost execution are not mistaken for those of its rerun.
type taskInput interface {
	Input
	task() (w journal.TaskID, rerun int)
}

func (x Result) task() (journal.TaskID, int)   { return x.Work, x.Rerun }
func (x Note) task() (journal.TaskID, int)     { return x.Work, x.Rerun }
func (x Reserve) task() (journal.TaskID, int)  { return x.Work, x.Rerun }
func (x TaskLost) task() (journal.TaskID, int) { return x.Work, x.Rerun }
func (x Ask) task() (journal.TaskID, int)      { return x.Work, x.Rerun }
func (x Sleep) task() (journal.TaskID, int)    { return x.Work, x.Rerun }

// The modes of a step that consists of frames.
const (
	ModeParallel = "parallel"
	ModeLoop     = "loop"
	ModeCall     = "call"
)

// The purposes of timers.
const (
	TimerRetry      = "retry"
	TimerGate       = "gate"
	TimerEscalation = "escalation" // of a gate
	TimerDeadline   = "deadline"
	TimerLimit      = "limit" // of a step that consists of frames
)

// Result is the end of a task.
type Result struct {
	Work    journal.TaskID  // which attempt at which task
	Rerun   int             // of the attempt; see taskInput
	Outcome journal.Outcome // ok, failed, cancelled
	Class   ir.Class
	Error   string
	// Exit is the exit code of a command. Retries can depend on it.
	Exit  int
	Value journal.Value
	Usage journal.Usage // usage that no note has settled
}

// Note is something that happened inside a task. Settles is the reservation that it ends.
type Note struct {
	Work    journal.TaskID
	Rerun   int
	N       int // from 1; a note that the run has is ignored
	Kind    string
	Data    json.RawMessage
	Settles int // 0 for none
	Usage   journal.Usage
}

// Reserve requests budget before a call inside a task.
type Reserve struct {
	Work   journal.TaskID
	Rerun  int
	N      int // from 1, for all executions of the attempt
	Amount journal.Usage
	// Least is the number of output tokens that suffices if fewer than Amount are left; 0 requires all of them.
	Least int64
}

// TaskLost reports that a task has lost its process, so that its outcome is unknown.
type TaskLost struct {
	Work   journal.TaskID
	Rerun  int
	Why    string
	Policy journal.Recovery // whether the task runs again or a person decides
	Until  journal.Millis   // when the task was last known to run; 0 is now
	// Used is what the task is known to have used in addition to its notes; nil charges everything that it had
	// reserved.
	Used *journal.Usage
}

// Ask reports that a task has stopped before a tool call that needs a person's approval. After the answer it continues
// from its notes.
type Ask struct {
	Work  journal.TaskID
	Rerun int
	Call  string // key of the call
	Shows map[string]json.RawMessage
	// Within is the time for an answer; 0 is unlimited.
	Within journal.Millis
}

// Sleep reports that a task has stopped because something that it needs is not available for some time. Then it
// continues from its notes.
type Sleep struct {
	Work  journal.TaskID
	Rerun int
	For   journal.Millis
	Why   string
}

// GateDecision is a person's answer to an open gate. Decide records it as journal.GateDecided.
type GateDecision struct {
	// Frame and Step select the gate; an empty Step is the only open one.
	Frame, Step string
	Answer      journal.Answer
	// Digest is the digest of what the person saw. It must match what the gate shows now.
	Digest string
	Note   string
	Value  json.RawMessage `json:",omitempty"`
	By     journal.Actor
	// Roles are the approver roles of By, as authenticated by a server. The role "*" includes all roles.
	Roles []string `json:",omitempty"`
	// Automated reports that the run approves its own gates.
	Automated bool `json:",omitempty"`
}

// AutoApprove is the actor of automated decisions, unless a server has authenticated one. It is the name of the option
// that enables them.
const AutoApprove = "--auto-approve"

// decidedBy returns the actor and the method of a decision, for the records.
func (x *GateDecision) decidedBy() (by journal.Actor, method journal.Method) {
	switch {
	case !x.Automated:
		return x.By, journal.MethodPerson
	case x.By.Method != "":
		return x.By, journal.MethodAutoApprove
	}
	return journal.Actor{User: AutoApprove}, journal.MethodAutoApprove
}

// Signal is an event from outside. Without a Step, every gate that waits for the event receives it. A Step, named by
// its id or its key, limits it to one gate, which must be open.
type Signal struct {
	Event string
	Step  string          `json:",omitempty"`
	Data  json.RawMessage `json:",omitempty"`
	By    journal.Actor
	Roles []string `json:",omitempty"` // as in GateDecision
	// Automated reports that a program sends the signal. Gates that wait for text from a person ignore it.
	Automated bool `json:",omitempty"`
}

// Inputs by which a person controls a run.
type (
	// Cancel cancels the run.
	Cancel struct {
		Reason string
		By     journal.Actor
	}
	// Pause prevents new tasks from starting.
	Pause struct{ By journal.Actor }
	// Continue allows new tasks after a Pause.
	Continue struct{ By journal.Actor }
	// Raise raises a budget.
	Raise struct {
		Budget string
		To     int64
		By     journal.Actor
	}
	// Edit changes the value of a variable.
	Edit struct {
		Path  string
		Value json.RawMessage
		By    journal.Actor
	}
)

// Rewind takes a run back to a step of its body. Was is the checkpoint from when the run last reached the step.
type Rewind struct {
	Step string
	Was  Checkpoint
	By   journal.Actor
}

// Checkpoint is the part of a run's state that a rewind restores.
type Checkpoint struct {
	Vars     map[string]journal.Value
	Taken    map[string]int     `json:",omitempty"`
	Approved []journal.Approved `json:",omitempty"`
}

// TakenOver reports that another process owns the run now.
type TakenOver struct{ Owner string }

// ClockJump reports that the wall clock has advanced by this much while no time has passed. It does not count as active
// time.
type ClockJump struct{ By journal.Millis }

func (Result) inputName() string       { return "result" }
func (Note) inputName() string         { return "note" }
func (Reserve) inputName() string      { return "reserve" }
func (TaskLost) inputName() string     { return "task lost" }
func (Ask) inputName() string          { return "ask" }
func (Sleep) inputName() string        { return "sleep" }
func (GateDecision) inputName() string { return "decision" }
func (Signal) inputName() string       { return "signal" }
func (Cancel) inputName() string       { return "cancel" }
func (Pause) inputName() string        { return "pause" }
func (Continue) inputName() string     { return "continue" }
func (Raise) inputName() string        { return "raise" }
func (Edit) inputName() string         { return "edit" }
func (Rewind) inputName() string       { return "rewind" }
func (TakenOver) inputName() string    { return "taken over" }
func (ClockJump) inputName() string    { return "clock jump" }
