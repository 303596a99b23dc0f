package journal

import "encoding/json"

// Fact is one of the types below. The set is closed.
type Fact interface{ factName() string }

// Place is a step in a frame: where something happens.
type Place struct {
	Frame string `json:"f,omitempty"` // path of the frame; empty is the run's body
	Step  string `json:"s"`
	Visit int    `json:"v,omitempty"` // how often the frame had entered the step before
}

// Work is a task: a place, which part of the step's work, and which attempt.
// Its Key is stable across crashes and unique for ever.
type Work struct {
	Place
	Part    string `json:"p,omitempty"` // empty, or "verdict", "combine", "work"
	Attempt int    `json:"a,omitempty"` // from 0
}

// Usage is what has been used, or may be.
type Usage struct {
	Steps        int64 `json:"steps,omitempty"`
	ModelCalls   int64 `json:"model_calls,omitempty"`
	ToolCalls    int64 `json:"tool_calls,omitempty"`
	InputTokens  int64 `json:"input_tokens,omitempty"`
	OutputTokens int64 `json:"output_tokens,omitempty"`
	MicroDollars int64 `json:"micro_dollars,omitempty"`
	// Lost is the part of it for calls of models whose replies nobody got. They
	// may have been paid for, so they count with all that was set aside.
	Lost Lost `json:"lost,omitzero"`
}

// Lost is what calls of models were charged for without a reply.
type Lost struct {
	ModelCalls   int64 `json:"model_calls,omitempty"`
	InputTokens  int64 `json:"input_tokens,omitempty"`
	OutputTokens int64 `json:"output_tokens,omitempty"`
	MicroDollars int64 `json:"micro_dollars,omitempty"`
}

// Unanswered is a reservation as it is charged when no reply has come.
func (u Usage) Unanswered() Usage {
	u.Lost = Lost{u.ModelCalls, u.InputTokens, u.OutputTokens, u.MicroDollars}
	return u
}

// Plus is both together.
func (u Usage) Plus(v Usage) Usage { return u.combine(v, 1) }

// Minus is what is left of it.
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
			InputTokens:  u.Lost.InputTokens + sign*v.Lost.InputTokens,
			OutputTokens: u.Lost.OutputTokens + sign*v.Lost.OutputTokens,
			MicroDollars: u.Lost.MicroDollars + sign*v.Lost.MicroDollars,
		},
	}
}

// Write is a variable that a step set.
type Write struct {
	Path    string `json:"path"`
	Part    string `json:"part,omitempty"`    // key of the value; empty is all of it
	Reducer string `json:"reducer,omitempty"` // empty is "set"
	// Under is the key that a merge puts a value under which is not an object
	// with that key; AsList makes a list of its values first.
	Under  string `json:"under,omitempty"`
	AsList bool   `json:"as_list,omitempty"`
	Bare   string `json:"bare,omitempty"` // the key for a value that is no object at all
}

// Actor is who did something: the operating-system user, and whom they claim to be.
type Actor struct {
	User string `json:"user,omitempty"`
	As   string `json:"as,omitempty"`
	// Method is how a server has established the user; empty when the user is the
	// account of the process that asked.
	Method string `json:"method,omitempty"`
}

// RunStarted begins a stream.
type RunStarted struct {
	Name       string           `json:"name"`
	Format     string           `json:"format"`
	Definition string           `json:"definition"` // hash of the pinned definition
	Input      Value            `json:"input"`
	Options    json.RawMessage  `json:"options,omitempty"` // how the caller asked to run it: the engine's own business
	Vars       map[string]Value `json:"vars,omitempty"`    // what the scope begins with, besides the input
	Budget     *Limits          `json:"budget,omitempty"`
	By         Actor            `json:"by,omitzero"`
	From       *Origin          `json:"from,omitempty"` // another run, which this one goes on from
}

// Origin is a step of a run that is over, from which another run goes on with
// the values of that time.
type Origin struct {
	Run  RunID  `json:"run"`
	Step string `json:"s"`
}

// RunFinished ends a stream; nothing follows it.
type RunFinished struct {
	Outcome string `json:"outcome"` // ok, failed, rejected, cancelled
	Reason  string `json:"reason,omitempty"`
	Error   string `json:"error,omitempty"`
	Status  int    `json:"status,omitempty"` // exit code of the author's choice
	Output  Value  `json:"output,omitzero"`
	Last    string `json:"last,omitempty"` // step that ended it
}

// FrameOpened activates a block.
type FrameOpened struct {
	Frame   string           `json:"f"`
	Parent  string           `json:"parent,omitempty"`
	Step    string           `json:"s"`                 // the parent's step that it belongs to
	Program string           `json:"program,omitempty"` // "0.1": child 1 of child 0; empty is the root's
	Block   int              `json:"b,omitempty"`
	Index   int              `json:"i,omitempty"`
	Name    string           `json:"name,omitempty"`
	Vars    map[string]Value `json:"vars,omitempty"`  // what its scope begins with
	Child   RunID            `json:"child,omitempty"` // a child run: its own id, and a scope that sees nothing outside
	Budget  *Limits          `json:"budget,omitempty"`
}

// Limits are the budgets of a frame; nil is without limit.
type Limits struct {
	Steps         *int64 `json:"steps,omitempty"`
	ToolCalls     *int64 `json:"tool_calls,omitempty"`
	Tokens        *int64 `json:"tokens,omitempty"`
	ActiveSeconds *int64 `json:"active_seconds,omitempty"`
	MicroDollars  *int64 `json:"micro_dollars,omitempty"`
}

// FrameClosed ends the activation of a block.
type FrameClosed struct {
	Frame   string `json:"f"`
	Outcome string `json:"outcome"` // ok, failed, rejected, cancelled, break, jump, end
	To      string `json:"to,omitempty"`
	Class   string `json:"class,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Error   string `json:"error,omitempty"`
	Value   Value  `json:"value,omitzero"`   // what it gives back
	Status  int    `json:"status,omitempty"` // exit code of the author's choice
	Step    string `json:"s,omitempty"`      // that ended it
}

// StepEntered begins a step that is made of frames.
type StepEntered struct {
	Place
	Mode  string `json:"mode"` // parallel, loop, call
	Total int    `json:"total,omitempty"`
	Max   int    `json:"max,omitempty"`   // iterations at most; 0 is without limit
	Items Value  `json:"items,omitzero"`  // of a loop or fan-out over a list
	Limit Millis `json:"limit,omitempty"` // of the time at work in it; 0 is without limit
	Via   *int   `json:"via,omitempty"`   // the limited edge that led here
	For   string `json:"for,omitempty"`   // the step that it stands in for
}

// StepLeft ends a step that is not a task: made of frames, a mere choice, or skipped.
type StepLeft struct {
	Place
	Outcome string  `json:"outcome"`
	Class   string  `json:"class,omitempty"`
	Reason  string  `json:"reason,omitempty"`
	Error   string  `json:"error,omitempty"`
	Value   Value   `json:"value,omitzero"`
	Writes  []Write `json:"writes,omitempty"`
	Merge   bool    `json:"merge,omitempty"` // the branches' scopes are laid over this one, in order
	To      string  `json:"to,omitempty"`    // a jump out of a loop goes here
	Status  int     `json:"status,omitempty"`
	Via     *int    `json:"via,omitempty"`
	For     string  `json:"for,omitempty"`
}

// Routed is a choice among ways on: which conditions were looked at, in order,
// and what each came to. The one that held, if any, is the last.
type Routed struct {
	Place
	Tried []Tried `json:"tried,omitempty"`
}

// Tried is one way on that was looked at.
type Tried struct {
	Of   string `json:"of,omitempty"` // the step whose way it is, when that is another one
	Edge int    `json:"edge"`         // its number among that step's ways
	Held bool   `json:"held,omitempty"`
}

// TaskStarted is the intent to do a task: durable before it is done.
type TaskStarted struct {
	Work
	Kind  string `json:"kind"`
	Rerun int    `json:"rerun,omitempty"` // how often it was lost before
	Via   *int   `json:"via,omitempty"`
	For   string `json:"for,omitempty"`
	// MissingReads are the reads that no step had written.
	MissingReads []string `json:"missing,omitempty"`
}

// TaskEnded is the result of a task: durable before anybody sees it.
type TaskEnded struct {
	Work
	Outcome string  `json:"outcome"`         // ok, failed, rejected, cancelled, skipped
	Class   string  `json:"class,omitempty"` // of the error: TIMEOUT, API_ERROR, …
	Error   string  `json:"error,omitempty"`
	Value   Value   `json:"value,omitzero"`
	Writes  []Write `json:"writes,omitempty"`
	Usage   Usage   `json:"usage,omitzero"`
	// Final is false when another attempt follows.
	Final bool `json:"final,omitempty"`
}

// TaskLost is a task whose outcome nobody knows: its process is gone.
type TaskLost struct {
	Work
	Why     string `json:"why"`
	Policy  string `json:"policy"`           // rerun, ask
	Charged Usage  `json:"charged,omitzero"` // reservations that may have been spent
	Until   Millis `json:"until,omitempty"`  // when it was last known to be at work; 0 is now
}

// TaskNoted is something that happened inside a running task: a message, a
// reply, a tool's result. N numbers the notes of one task from 1.
type TaskNoted struct {
	Work
	N    int             `json:"n"`
	Kind string          `json:"kind"`
	Data json.RawMessage `json:"data,omitempty"`
	// Settles is the reservation that this note ends, and Usage what it came to.
	Settles int   `json:"settles,omitempty"`
	Usage   Usage `json:"usage,omitzero"`
}

// Reserved sets aside what a call inside a task may use at worst.
type Reserved struct {
	Work
	N      int   `json:"n"`
	Amount Usage `json:"amount"`
}

// BudgetWait is a reservation or a start that has to wait for budget.
type BudgetWait struct {
	Work
	N      int   `json:"n,omitempty"` // of the reservation; 0 is the start of the task
	Amount Usage `json:"amount"`
	// Least is how many output tokens would do, when the amount may be smaller; 0: it may not.
	Least  int64  `json:"least,omitempty"`
	Budget string `json:"budget"` // which one is short
	Via    *int   `json:"via,omitempty"`
	For    string `json:"for,omitempty"`
}

// BudgetRefused is a reservation that can never be granted: the branch's own
// budget is used up.
type BudgetRefused struct {
	Work
	N      int    `json:"n"`
	Amount Usage  `json:"amount"`
	Budget string `json:"budget"`
}

// BudgetRaised changes a limit of the run.
type BudgetRaised struct {
	Budget string `json:"budget"`
	To     int64  `json:"to"`
	By     Actor  `json:"by,omitzero"`
}

// RetrySet plans another attempt, or the continuation of one.
type RetrySet struct {
	Work        // the attempt to come
	Due  Millis `json:"due"`
	// Continues is set when the attempt itself has stopped until Due, and then
	// goes on from its notes. Why is the reason.
	Continues bool   `json:"continues,omitempty"`
	Why       string `json:"why,omitempty"`
}

// TimerFired is a moment that has come: of a retry, a gate, or a deadline.
type TimerFired struct {
	Place
	What string `json:"what"`          // retry, gate, deadline, limit
	Run  bool   `json:"run,omitempty"` // the deadline is the run's, not the frame's
}

// GateOpened asks somebody, or waits for something.
type GateOpened struct {
	Place
	Kind string `json:"kind"` // person, event, doubt, call
	// Shows is exactly what a person is asked about, by the paths of the
	// variables; Digest binds it to the run and the gate.
	Shows  map[string]Value `json:"shows,omitempty"`
	Digest string           `json:"digest,omitempty"`
	Event  string           `json:"event,omitempty"`
	Due    Millis           `json:"due,omitempty"`
	// Task is the one that has to wait, and Call the key of the call of a
	// tool that it may not make without an answer.
	Task *Work  `json:"task,omitempty"`
	Call string `json:"call,omitempty"`
	Via  *int   `json:"via,omitempty"`
	For  string `json:"for,omitempty"`
}

// GateDecided is the answer.
type GateDecided struct {
	Place
	Outcome string `json:"outcome"` // ok, rejected, failed, skipped; of a doubt also rerun; of a call always
	Method  string `json:"method"`
	Event   string `json:"event,omitempty"` // the signal that did it
	By      Actor  `json:"by,omitzero"`
	Note    string `json:"note,omitempty"`
	Digest  string `json:"digest,omitempty"`
	// Shows is what was decided on when it is no longer what the gate showed
	// when it opened: somebody has edited the state in between.
	Shows  map[string]Value `json:"shows,omitempty"`
	Class  string           `json:"class,omitempty"`
	Reason string           `json:"reason,omitempty"`
	Error  string           `json:"error,omitempty"` // in words, when it failed
	Value  Value            `json:"value,omitzero"`
	Writes []Write          `json:"writes,omitempty"`
}

// Signalled is an event from outside that nothing waits for yet.
type Signalled struct {
	Event string          `json:"event"`
	Data  json.RawMessage `json:"data,omitempty"`
	By    Actor           `json:"by,omitzero"`
}

// InputRefused is something the world said that came too late or did not fit.
type InputRefused struct {
	Input string `json:"input"`
	Code  string `json:"code,omitempty"`
	Why   string `json:"why"`
	Ref   string `json:"ref,omitempty"` // of the message that it answers
	By    Actor  `json:"by,omitzero"`
}

// CancelRequested stops a frame and everything below it.
type CancelRequested struct {
	Frame string `json:"f,omitempty"`
	// Below spares the frame itself: only what its current step opened stops.
	Below bool `json:"below,omitempty"`
	// Failed makes the frame end as failed instead of cancelled.
	Failed bool   `json:"failed,omitempty"`
	Reason string `json:"reason,omitempty"`
	By     Actor  `json:"by,omitzero"`
}

// CleanupBegun sends a program that was cancelled, and in which nothing is at work
// any more, to the step that it ends with.
type CleanupBegun struct {
	Frame string `json:"f,omitempty"`
	Step  string `json:"step"`
}

// Paused holds back new tasks; Continued lets them go on.
type (
	Paused struct {
		By Actor `json:"by,omitzero"`
	}
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
// the values of that time. Whatever was open has ended before it.
type Rewound struct {
	Step  string           `json:"s"`
	Vars  map[string]Value `json:"vars,omitempty"`
	Taken map[string]int   `json:"taken,omitempty"` // how often limited edges had been taken
	By    Actor            `json:"by,omitzero"`
}

// Claimed is another process taking the run over.
type Claimed struct {
	Owner string `json:"owner"`
}

func (p Place) place() Place { return p }

// PlaceOf is the step that a fact is about; false when it is about a frame or a
// run.
func PlaceOf(f Fact) (Place, bool) {
	about, ok := f.(interface{ place() Place })
	if !ok {
		return Place{}, false
	}
	at := about.place()
	return at, at.Step != "" // the timer of a frame has none
}

// Spent is what has been used by what a fact tells.
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

// Key is the task's stable name: frame, step, visit, part and attempt. Tools
// get it as their idempotency key.
func (w Work) Key() string {
	var room [64]byte
	return string(w.appendKey(room[:0]))
}
