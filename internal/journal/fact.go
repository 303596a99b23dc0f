package journal

import (
	"encoding/json"

	"github.com/espalier-run/espalier/internal/ir"
)

// Fact is one of the types below. The set is closed: stores and readers know all
// of them.
type Fact interface{ factName() string }

// Place is a step in a frame.
type Place struct {
	Frame string `json:"f,omitempty"` // path of the frame; empty for the run's body
	Step  string `json:"s"`
	Visit int    `json:"v,omitempty"` // number of the visit, for steps on a cycle; from 1
}

// TaskID identifies a task: a place, the part of the step's work, and the attempt.
// Its Key is stable across crashes and unique in the run.
type TaskID struct {
	Place
	Part    string `json:"p,omitempty"` // empty, "verdict", "combine" or "work"
	Attempt int    `json:"a,omitempty"` // from 0
}

// Usage is an amount that was used or reserved.
type Usage struct {
	Steps        int64 `json:"steps,omitempty"`
	ModelCalls   int64 `json:"model_calls,omitempty"`
	ToolCalls    int64 `json:"tool_calls,omitempty"`
	InputTokens  int64 `json:"input_tokens,omitempty"`
	OutputTokens int64 `json:"output_tokens,omitempty"`
	MicroDollars int64 `json:"micro_dollars,omitempty"`
	// Lost is the part that was charged for model calls without a reply. They may
	// have been billed, so they count with everything that was reserved.
	Lost Lost `json:"lost,omitzero"`
}

// Lost is what model calls without a reply and tool calls without a result were charged.
type Lost struct {
	ModelCalls   int64 `json:"model_calls,omitempty"`
	ToolCalls    int64 `json:"tool_calls,omitempty"`
	InputTokens  int64 `json:"input_tokens,omitempty"`
	OutputTokens int64 `json:"output_tokens,omitempty"`
	MicroDollars int64 `json:"micro_dollars,omitempty"`
}

// Unanswered returns a reservation as it is charged if no reply or result arrived.
func (u Usage) Unanswered() Usage {
	u.Lost = Lost{u.ModelCalls, u.ToolCalls, u.InputTokens, u.OutputTokens, u.MicroDollars}
	return u
}

// Plus returns the sum.
func (u Usage) Plus(v Usage) Usage { return u.combine(v, 1) }

// Minus returns the difference.
func (u Usage) Minus(v Usage) Usage { return u.combine(v, -1) }

func (u Usage) combine(v Usage, sign int64) Usage {
	return Usage{
		Steps:        u.Steps + sign*v.Steps,
		ModelCalls:   u.ModelCalls + sign*v.ModelCalls,
		ToolCalls:    u.ToolCalls + sign*v.ToolCalls,
		InputTokens:  u.InputTokens + sign*v.InputTokens,
		OutputTokens: u.OutputTokens + sign*v.OutputTokens,
		MicroDollars: u.MicroDollars + sign*v.MicroDollars,
		Lost: Lost{
			ModelCalls:   u.Lost.ModelCalls + sign*v.Lost.ModelCalls,
			ToolCalls:    u.Lost.ToolCalls + sign*v.Lost.ToolCalls,
			InputTokens:  u.Lost.InputTokens + sign*v.Lost.InputTokens,
			OutputTokens: u.Lost.OutputTokens + sign*v.Lost.OutputTokens,
			MicroDollars: u.Lost.MicroDollars + sign*v.Lost.MicroDollars,
		},
	}
}

// Write is a variable that a step writes.
type Write struct {
	Path    string `json:"path"`
	Part    string `json:"part,omitempty"`    // key in the value; empty for all of it
	Reducer string `json:"reducer,omitempty"` // empty for "set"
	// Under is the key that a merge adds to a value that is not an object with
	// that key. AsList converts the value to a list first, and Flat replaces each
	// list in it by its elements.
	Under  string `json:"under,omitempty"`
	AsList bool   `json:"as_list,omitempty"`
	Flat   bool   `json:"flat,omitempty"`
	Bare   string `json:"bare,omitempty"` // the key for a value that is not an object
}

// Actor is the originator of something: the operating-system user, and the
// identity that the user claims.
type Actor struct {
	User string `json:"user,omitempty"`
	As   string `json:"as,omitempty"`
	// Method is how a server has established the user; empty when the user is the
	// account of the process that asked.
	Method string `json:"method,omitempty"`
}

// Person returns the name of the person that an actor counts as: the established
// user, or else the claimed one, if there is any.
func (a Actor) Person() string {
	if a.Method == "" && a.As != "" {
		return a.As
	}
	return a.User
}

// RunStarted is the first fact of a stream.
type RunStarted struct {
	Name       string           `json:"name"`
	Format     string           `json:"format"`
	Definition string           `json:"definition"` // hash of the pinned definition
	Input      Value            `json:"input"`
	Options    json.RawMessage  `json:"options,omitempty"` // how the caller asked to run it; opaque to the journal
	Vars       map[string]Value `json:"vars,omitempty"`    // initial variables, except the input
	Budget     *Limits          `json:"budget,omitempty"`
	By         Actor            `json:"by,omitzero"`
	From       *Origin          `json:"from,omitempty"` // the run that this one continues
	// Approved are the gates that were approved before the step that the run starts from.
	Approved []Approved `json:"approved,omitempty"`
}

// Approved is a gate that people have approved.
type Approved struct {
	Gate string `json:"gate"` // the step of the gate
	// At is the place of the gate without iterations and visits: a gate that opens again has the same place.
	At   string `json:"at"`
	Back string `json:"back"` // the step of the main line that the run has to go back to for the gate to open again
	// Shown are the paths of the variables that were shown.
	Shown []string `json:"shown"`
}

// Origin is a step of a finished run that another run continues from.
type Origin struct {
	Run  RunID  `json:"run"`
	Step string `json:"s"`
}

// RunFinished is the last fact of a stream.
type RunFinished struct {
	Outcome Outcome `json:"outcome"` // ok, failed, rejected, cancelled
	Reason  string  `json:"reason,omitempty"`
	Error   string  `json:"error,omitempty"`
	Status  int     `json:"status,omitempty"` // exit code that the author chose
	Output  Value   `json:"output,omitzero"`
	Last    string  `json:"last,omitempty"` // the step that ended it
}

// FrameOpened starts the execution of a block.
type FrameOpened struct {
	Frame   string           `json:"f"`
	Parent  string           `json:"parent,omitempty"`
	Step    string           `json:"s"`                 // the parent's step
	Program string           `json:"program,omitempty"` // "0.1" is child 1 of child 0; empty is the root
	Block   int              `json:"b,omitempty"`
	Index   int              `json:"i,omitempty"`
	Name    string           `json:"name,omitempty"`
	Vars    map[string]Value `json:"vars,omitempty"`  // initial variables
	Child   RunID            `json:"child,omitempty"` // ID of the child run that the frame starts; its scope does not see the enclosing ones
	Budget  *Limits          `json:"budget,omitempty"`
}

// Limits are the budgets of a frame; nil is unlimited.
type Limits struct {
	Steps         *int64 `json:"steps,omitempty"`
	ToolCalls     *int64 `json:"tool_calls,omitempty"`
	Tokens        *int64 `json:"tokens,omitempty"`
	ActiveSeconds *int64 `json:"active_seconds,omitempty"`
	MicroDollars  *int64 `json:"micro_dollars,omitempty"`
}

// FrameClosed ends the execution of a block.
type FrameClosed struct {
	Frame   string   `json:"f"`
	Outcome Outcome  `json:"outcome"` // ok, failed, rejected, cancelled, break, jump, end
	To      string   `json:"to,omitempty"`
	Class   ir.Class `json:"class,omitempty"`
	Reason  string   `json:"reason,omitempty"`
	Error   string   `json:"error,omitempty"`
	Value   Value    `json:"value,omitzero"`   // the frame's result
	Status  int      `json:"status,omitempty"` // exit code that the author chose
	Step    string   `json:"s,omitempty"`      // the step that ended it
}

// StepEntered starts a step that consists of frames.
type StepEntered struct {
	Place
	Mode  string `json:"mode"` // parallel, loop, call
	Total int    `json:"total,omitempty"`
	Max   int    `json:"max,omitempty"`   // maximum number of iterations; 0 is unlimited
	Items Value  `json:"items,omitzero"`  // of a loop or fan-out over a list
	Limit Millis `json:"limit,omitempty"` // of active time; 0 is unlimited
	Via   *int   `json:"via,omitempty"`   // the limited edge that led here; negative: of a replaced step
	For   string `json:"for,omitempty"`   // the step that this one replaces
}

// StepLeft ends a step that is not a task: it consists of frames, is a route or
// an end, or was skipped.
type StepLeft struct {
	Place
	Outcome Outcome  `json:"outcome"`
	Class   ir.Class `json:"class,omitempty"`
	Reason  string   `json:"reason,omitempty"`
	Error   string   `json:"error,omitempty"`
	Value   Value    `json:"value,omitzero"`
	Writes  []Write  `json:"writes,omitempty"`
	Merge   bool     `json:"merge,omitempty"` // the variables of branches are merged in branch order
	To      string   `json:"to,omitempty"`    // target of a jump out of a loop
	Status  int      `json:"status,omitempty"`
	// Counts is set for a failed step without work that counts as an execution.
	Counts bool   `json:"counts,omitempty"`
	Via    *int   `json:"via,omitempty"`
	For    string `json:"for,omitempty"`
}

// Routed records the conditions that were evaluated to choose an edge, in order.
// If one was true, it is the last.
type Routed struct {
	Place
	Tried []Tried `json:"tried,omitempty"`
}

// Tried is one condition that was evaluated.
type Tried struct {
	Of   string `json:"of,omitempty"` // the step of the edge, if it is another one
	Edge int    `json:"edge"`         // index of the edge
	Held bool   `json:"held,omitempty"`
}

// TaskStarted is the intent to run a task. It is durable before the task runs,
// except for write-ahead tasks.
type TaskStarted struct {
	TaskID
	Kind  string `json:"kind"`
	Rerun int    `json:"rerun,omitempty"` // how often it was lost or stopped before
	Via   *int   `json:"via,omitempty"`
	For   string `json:"for,omitempty"`
	// MissingReads are the reads that no step has written.
	MissingReads []string `json:"missing,omitempty"`
}

// TaskEnded is the result of a task. It is durable before anything depends on it.
type TaskEnded struct {
	TaskID
	Outcome Outcome  `json:"outcome"`         // ok, failed, rejected, cancelled, skipped
	Class   ir.Class `json:"class,omitempty"` // of the error
	Error   string   `json:"error,omitempty"`
	Value   Value    `json:"value,omitzero"`
	Writes  []Write  `json:"writes,omitempty"`
	Usage   Usage    `json:"usage,omitzero"`
	// Final is false if another attempt follows.
	Final bool `json:"final,omitempty"`
}

// TaskLost is a task whose outcome is unknown because its process ended.
type TaskLost struct {
	TaskID
	Why     string   `json:"why"`
	Policy  Recovery `json:"policy"`           // rerun, ask
	Charged Usage    `json:"charged,omitzero"` // reservations that may have been spent
	Until   Millis   `json:"until,omitempty"`  // when it was last known to run; 0 is the time of the fact
}

// TaskNoted is something that happened inside a running task: a message, a reply,
// a tool's result. N numbers the notes of a task from 1.
type TaskNoted struct {
	TaskID
	N    int             `json:"n"`
	Kind string          `json:"kind"`
	Data json.RawMessage `json:"data,omitempty"`
	// Settles is the reservation that this note ends, and Usage what was used.
	Settles int   `json:"settles,omitempty"`
	Usage   Usage `json:"usage,omitzero"`
}

// Reserved reserves the worst-case usage of a call inside a task.
type Reserved struct {
	TaskID
	N      int   `json:"n"`
	Amount Usage `json:"amount"`
}

// BudgetWait is a reservation or the start of a task that waits for budget.
type BudgetWait struct {
	TaskID
	N      int   `json:"n,omitempty"` // of the reservation; 0 for the start of the task
	Amount Usage `json:"amount"`
	// Least is the number of output tokens that suffices if less than Amount is
	// left; 0 requires all of them.
	Least  int64  `json:"least,omitempty"`
	Budget string `json:"budget"` // the budget that is exhausted
	Via    *int   `json:"via,omitempty"`
	For    string `json:"for,omitempty"`
}

// BudgetRefused is a reservation that can never be granted: the budget of the
// branch or child is exhausted.
type BudgetRefused struct {
	TaskID
	N      int    `json:"n"`
	Amount Usage  `json:"amount"`
	Budget string `json:"budget"`
}

// BudgetRaised raises a limit of the run.
type BudgetRaised struct {
	Budget string `json:"budget"`
	To     int64  `json:"to"`
	By     Actor  `json:"by,omitzero"`
}

// RetrySet schedules another attempt, or the continuation of one.
type RetrySet struct {
	TaskID        // the next attempt
	Due    Millis `json:"due"`
	// Continues is set if the attempt has stopped until Due and then continues
	// from its notes. Why is the reason.
	Continues bool   `json:"continues,omitempty"`
	Why       string `json:"why,omitempty"`
	// Branches are the indexes of the branches that a parallel step repeats. The
	// results of the others stay. Class and Error are those of the first one.
	Branches []int    `json:"branches,omitempty"`
	Class    ir.Class `json:"class,omitempty"`
	Error    string   `json:"error,omitempty"`
}

// TimerFired is a due time that has been reached: of a retry, a gate or a
// deadline.
type TimerFired struct {
	Place
	What string `json:"what"`          // retry, gate, escalation, deadline, limit
	Run  bool   `json:"run,omitempty"` // the deadline is the run's, not the frame's
}

// GateOpened opens a gate: the run waits for a person or an event.
type GateOpened struct {
	Place
	Kind GateKind `json:"kind"`
	// Shows is exactly what a person decides about, by the paths of the
	// variables. Digest binds it to the run and the gate.
	Shows  map[string]Value `json:"shows,omitempty"`
	Digest string           `json:"digest,omitempty"`
	Event  string           `json:"event,omitempty"`
	Due    Millis           `json:"due,omitempty"`
	// Escalates is when more people may decide; 0 is never.
	Escalates Millis `json:"escalates,omitempty"`
	// Task is the task that waits, and Call the key of the tool call that needs
	// an approval.
	Task *TaskID `json:"task,omitempty"`
	Call string  `json:"call,omitempty"`
	// Uncounted is set if the gate is not the execution of a step.
	Uncounted bool   `json:"uncounted,omitempty"`
	Via       *int   `json:"via,omitempty"`
	For       string `json:"for,omitempty"`
}

// GateApproved is an approval of a gate that needs more of them. The last one is
// a GateDecided.
type GateApproved struct {
	Place
	Method Method `json:"method"`
	Event  string `json:"event,omitempty"` // the signal that approved
	By     Actor  `json:"by,omitzero"`
	// Roles are the approver roles that a server has established. The role "*"
	// stands for all of them.
	Roles  []string `json:"roles,omitempty"`
	Note   string   `json:"note,omitempty"`
	Digest string   `json:"digest,omitempty"`
	// Shows is what the approval is about if that has changed since the gate
	// opened.
	Shows map[string]Value `json:"shows,omitempty"`
}

// GateDecided is the decision of a gate.
type GateDecided struct {
	Place
	Outcome Outcome `json:"outcome"` // for a lost task also rerun; for a tool call always rerun
	Method  Method  `json:"method"`
	Event   string  `json:"event,omitempty"` // the signal that decided
	By      Actor   `json:"by,omitzero"`
	// Roles are the approver roles of By at a gate that names approvers, as in
	// GateApproved.
	Roles  []string `json:"roles,omitempty"`
	Note   string   `json:"note,omitempty"`
	Digest string   `json:"digest,omitempty"`
	// Shows is what the decision is about if that has changed since the gate
	// opened: a person has edited the state.
	Shows  map[string]Value `json:"shows,omitempty"`
	Class  ir.Class         `json:"class,omitempty"`
	Reason string           `json:"reason,omitempty"`
	Error  string           `json:"error,omitempty"`
	Value  Value            `json:"value,omitzero"`
	Writes []Write          `json:"writes,omitempty"`
	// Notify is set if the workflow asks to notify people of the timeout.
	Notify bool `json:"notify,omitempty"`
}

// SignalReceived is a signal that no gate waits for yet.
type SignalReceived struct {
	Event string          `json:"event"`
	Data  json.RawMessage `json:"data,omitempty"`
	By    Actor           `json:"by,omitzero"`
}

// InputRefused is an input that came too late or was not valid.
type InputRefused struct {
	Input string `json:"input"`
	Code  string `json:"code,omitempty"`
	Why   string `json:"why"`
	Step  string `json:"s,omitempty"`   // that the run would have to go back to
	Ref   string `json:"ref,omitempty"` // of the message
	By    Actor  `json:"by,omitzero"`
}

// CancelRequested cancels a frame and everything below it.
type CancelRequested struct {
	Frame string `json:"f,omitempty"`
	// Below cancels only the frames of the current step, not the frame itself.
	Below bool `json:"below,omitempty"`
	// Failed makes the frame end as failed instead of canceled.
	Failed bool   `json:"failed,omitempty"`
	Reason string `json:"reason,omitempty"`
	By     Actor  `json:"by,omitzero"`
}

// CleanupBegun moves a canceled program, in which no task runs anymore, to its
// cleanup step.
type CleanupBegun struct {
	Frame string `json:"f,omitempty"`
	Step  string `json:"step"`
}

type (
	// Paused prevents new tasks from starting.
	Paused struct {
		By Actor `json:"by,omitzero"`
	}
	// Continued allows new tasks again after Paused.
	Continued struct {
		By Actor `json:"by,omitzero"`
	}
)

// StateEdited is a person's change to a variable.
type StateEdited struct {
	Path  string `json:"path"`
	Value Value  `json:"value"`
	By    Actor  `json:"by,omitzero"`
}

// Rewound takes the run's body back to a step that it had reached before, with
// the values of that time. Everything that was open has been closed before.
type Rewound struct {
	Step  string           `json:"s"`
	Vars  map[string]Value `json:"vars,omitempty"`
	Taken map[string]int   `json:"taken,omitempty"` // how often limited edges were taken
	// Approved are the gates that had been approved at that time.
	Approved []Approved `json:"approved,omitempty"`
	By       Actor      `json:"by,omitzero"`
}

// ClockJumped corrects the active time of everything that is running: the wall
// clock has advanced by this much while no time has passed, because the machine
// was suspended or its clock was set.
type ClockJumped struct {
	By Millis `json:"by"`
}

// Claimed means that another process has taken over the run.
type Claimed struct {
	Owner string `json:"owner"`
}

func (p Place) place() Place { return p }

// PlaceOf returns the step that a fact is about; false if it is about a frame or
// a run.
func PlaceOf(f Fact) (Place, bool) {
	about, ok := f.(interface{ place() Place })
	if !ok {
		return Place{}, false
	}
	at := about.place()
	return at, at.Step != "" // a timer of a frame has no step
}

// Spent returns the usage that a fact records.
func Spent(f Fact) Usage {
	switch x := f.(type) {
	case TaskNoted:
		return x.Usage
	case TaskEnded:
		return x.Usage
	case TaskLost:
		return x.Charged
	}
	return Usage{}
}

// Key returns the task's stable name: frame, step, visit, part and attempt. Tools
// receive it as their idempotency key.
func (w TaskID) Key() string {
	var room [64]byte
	return string(w.appendKey(room[:0]))
}
