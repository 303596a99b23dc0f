package plan

import (
	"encoding/json"

	"github.com/espalier-run/espalier/internal/journal"
)

// Input is something that the world says. Deciding turns it into facts, or
// into InputRefused with the reason.
type Input interface{ inputName() string }

// The ways in which a step can be made of frames.
const (
	ModeParallel = "parallel"
	ModeLoop     = "loop"
	ModeCall     = "call"
)

// What timers are for.
const (
	TimerRetry    = "retry"
	TimerGate     = "gate"
	TimerDeadline = "deadline"
	TimerLimit    = "limit" // of a step that is made of frames
)

// Result is how a task ended.
type Result struct {
	Work    journal.Work
	Outcome journal.Outcome // ok, failed, cancelled
	Class   journal.Class
	Error   string
	// Exit is a command's exit code, for retries that look at it.
	Exit  int
	Value journal.Value
	Usage journal.Usage // what no note has settled yet
}

// Note is something that happened inside a task. Settles ends a reservation.
type Note struct {
	Work    journal.Work
	N       int
	Kind    string
	Data    json.RawMessage
	Settles int
	Usage   journal.Usage
}

// Reserve asks for budget before a call inside a task.
type Reserve struct {
	Work   journal.Work
	N      int
	Amount journal.Usage
	// Least is how many output tokens would do, when fewer than Amount has may
	// be granted; 0 wants all of them.
	Least int64
}

// Gone says that the process which did a task is gone.
type Gone struct {
	Work   journal.Work
	Why    string
	Policy journal.Recovery
	Until  journal.Millis // when it was last known to be at work; 0 is now
	// Used is what it is known to have used besides its notes; nil charges all
	// that it had reserved.
	Used *journal.Usage
}

// Ask says that a task has stopped before a call that a person has to agree
// to. It goes on from its notes when there is an answer.
type Ask struct {
	Work  journal.Work
	Call  string // key of the call
	Shows map[string]json.RawMessage
	// Within is how long there is for an answer; 0 is for ever.
	Within journal.Millis
}

// Sleep says that a task has stopped because what it needs is not available
// before some time has passed. It goes on from its notes then.
type Sleep struct {
	Work journal.Work
	For  journal.Millis
	Why  string
}

// Decision answers an open gate.
type Decision struct {
	// Frame and Step say which; an empty Step means the only one there is.
	Frame, Step string
	Answer      string // approve, reject; of a doubt: rerun, skip, result, fail
	// Digest is of what the person saw; it must be what is asked now.
	Digest string
	Note   string
	Value  json.RawMessage `json:",omitempty"`
	By     journal.Actor
}

// The answers.
const (
	Approve      = "approve"
	Reject       = "reject"
	AnswerRerun  = "rerun"
	AnswerSkip   = "skip"
	AnswerResult = "result"
	AnswerFail   = "fail"
)

// Signal is an event from outside.
type Signal struct {
	Event string
	Data  json.RawMessage `json:",omitempty"`
	By    journal.Actor
}

// Interventions of a person.
type (
	Cancel struct {
		Reason string
		By     journal.Actor
	}
	Pause    struct{ By journal.Actor }
	Continue struct{ By journal.Actor }
	Raise    struct {
		Budget string
		To     int64
		By     journal.Actor
	}
	Edit struct {
		Path  string
		Value json.RawMessage
		By    journal.Actor
	}
)

// Rewind takes a run back to a step of its body: Was is how things stood when
// it was last reached.
type Rewind struct {
	Step string
	Was  Checkpoint
	By   journal.Actor
}

// Checkpoint is what a run goes back to.
type Checkpoint struct {
	Vars  map[string]journal.Value
	Taken map[string]int `json:",omitempty"`
}

// TakenOver notes that another process owns the run now.
type TakenOver struct{ Owner string }

func (Result) inputName() string    { return "result" }
func (Note) inputName() string      { return "note" }
func (Reserve) inputName() string   { return "reserve" }
func (Gone) inputName() string      { return "gone" }
func (Ask) inputName() string       { return "ask" }
func (Sleep) inputName() string     { return "sleep" }
func (Decision) inputName() string  { return "decision" }
func (Signal) inputName() string    { return "signal" }
func (Cancel) inputName() string    { return "cancel" }
func (Pause) inputName() string     { return "pause" }
func (Continue) inputName() string  { return "continue" }
func (Raise) inputName() string     { return "raise" }
func (Edit) inputName() string      { return "edit" }
func (Rewind) inputName() string    { return "rewind" }
func (TakenOver) inputName() string { return "taken over" }
