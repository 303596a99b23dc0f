package plan

import (
	"encoding/json"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
)

// State is where a run stands: the fold of its events, as plain data.
type State struct {
	Run           journal.RunID          `json:"run"`
	Seq           journal.Seq            `json:"seq"`
	Name          string                 `json:"name"`
	Format        string                 `json:"format"`
	Definition    string                 `json:"definition"`
	Options       json.RawMessage        `json:"options,omitempty"`
	Started       journal.Millis         `json:"started"`
	At            journal.Millis         `json:"at"` // of the last event
	Frames        map[string]*Frame      `json:"frames"`
	Open          int                    `json:"open,omitempty"` // tasks that are being done
	Paused        bool                   `json:"paused,omitempty"`
	Expired       bool                   `json:"expired,omitempty"` // the run's deadline has passed
	BudgetWaiters []BudgetWaiter         `json:"starved,omitempty"` // first come, first served
	Signals       map[string][]Signalled `json:"signals,omitempty"` // events that came before anything waited for them
	Spent         *Ledger                `json:"spent,omitempty"`   // of a run that is over
	Finished      *journal.RunFinished   `json:"finished,omitempty"`

	// Hold keeps every task from beginning: this process is ending, or only
	// looks. Everything else goes on. It is not part of the state; whoever
	// loads the run marks all its frames and goes on.
	Hold bool `json:"-"`

	moved  []*Frame // frames that something happened to since they were last looked at
	cut    bool     // the last decision was a piece
	timers timers
}

// Frame is one activation of a block.
type Frame struct {
	Path    string                   `json:"path"`
	Parent  string                   `json:"parent,omitempty"`
	Program string                   `json:"program,omitempty"`
	Block   ir.BlockID               `json:"block,omitempty"`
	Index   int                      `json:"index,omitempty"`
	Name    string                   `json:"name,omitempty"`
	Child   journal.RunID            `json:"child,omitempty"` // it begins a child run
	Scope   map[string]journal.Value `json:"scope,omitempty"`
	Own     []string                 `json:"own,omitempty"` // variables of an iteration or a branch that end with it

	// Where it stands.
	Phase   Phase          `json:"phase"`
	Step    string         `json:"step,omitempty"`
	Visit   int            `json:"visit,omitempty"`
	Part    string         `json:"part,omitempty"`
	Attempt int            `json:"attempt,omitempty"`
	Rerun   int            `json:"rerun,omitempty"`
	For     string         `json:"for,omitempty"` // the step that the current one stands in for
	Due     journal.Millis `json:"due,omitempty"`
	Gate    *Gate          `json:"gate,omitempty"`
	Group   *Group         `json:"group,omitempty"`
	Notes   int            `json:"notes,omitempty"` // number of the task's last note
	Begun   journal.Seq    `json:"begun,omitempty"` // the event that first started the task
	// Reserved is what the task that is being done has set aside, by number.
	Reserved map[int]journal.Usage `json:"reserved,omitempty"`

	// Last is how the last step ended: not the one that is still being tried.
	Last Ending `json:"last,omitzero"`
	// Before is how the step before that ended.
	Before Ending `json:"before,omitzero"`
	// Tried is how the last attempt at the current step ended, when another follows.
	Tried Ending `json:"tried,omitzero"`
	// Policy says what to do about a task that nobody knows the end of.
	Policy journal.Recovery `json:"policy,omitempty"`

	Visits    map[string]int `json:"visits,omitempty"`    // of steps on cycles, and of all once it was taken back
	Rewound   bool           `json:"rewound,omitempty"`   // it was taken back to a step: any may be visited again
	Taken     map[string]int `json:"taken,omitempty"`     // of limited edges
	Refused   string         `json:"refused,omitempty"`   // a gate said no, and no work has been done since
	Cancelled bool           `json:"cancelled,omitempty"` // to be closed as soon as nothing is at work in it
	Cleaning  bool           `json:"cleaning,omitempty"`  // it was cancelled, and does what it ends with
	FailedBy  string         `json:"failed_by,omitempty"` // cancelled, but counts as failed for this reason
	Ledger    *Ledger        `json:"ledger,omitempty"`    // a budget of its own
	// Apart frames are branches: their steps count against their own budget alone.
	Apart bool `json:"apart,omitempty"`

	marked bool
}

// Phase is what a frame is doing.
type Phase string

// The phases.
const (
	Beginning      Phase = "begin"    // nothing yet
	Working        Phase = "task"     // a task is being done
	Resting        Phase = "retry"    // waits for the time of the next attempt
	Ready          Phase = "ready"    // the task may start again
	Asking         Phase = "gate"     // a gate is open
	Overdue        Phase = "overdue"  // a gate's time is up
	Grouped        Phase = "group"    // frames below are at work
	AwaitingBudget Phase = "starving" // the task may not start before there is budget
	Lost           Phase = "lost"     // nobody knows how the task ended
	Ended          Phase = "ended"    // the step is over; where to next?
	Sent           Phase = "sent"     // to a step, by a person
)

// Gate is a question that is open.
type Gate struct {
	Kind   journal.GateKind `json:"kind"` // person, event, doubt, call
	Event  string           `json:"event,omitempty"`
	Digest string           `json:"digest,omitempty"`
	Opened journal.Millis   `json:"opened"`
	// Of a call: its key, and what a person has to agree to.
	Call  string                   `json:"call,omitempty"`
	Shows map[string]journal.Value `json:"shows,omitempty"`
}

// Ending is how a step or a frame ended.
type Ending struct {
	Outcome journal.Outcome `json:"outcome,omitempty"`
	Class   journal.Class   `json:"class,omitempty"` // of an error
	Reason  string          `json:"reason,omitempty"`
	Error   string          `json:"error,omitempty"`
	Value   journal.Value   `json:"value,omitzero"`
	To      string          `json:"to,omitempty"`     // outcome jump: a step of an enclosing block
	Status  int             `json:"status,omitempty"` // exit code of the author's choice
	Step    string          `json:"step,omitempty"`   // that said so
}

// failing tells whether a step failed, also one that led out of loops since.
func (e *Ending) failing() bool {
	return e.Outcome == journal.OutcomeFailed || e.Outcome == journal.OutcomeJump && (e.Class != "" || e.Error != "")
}

// Group is a step that is made of frames.
type Group struct {
	Mode    string `json:"mode"` // parallel, loop, call
	Total   int    `json:"total,omitempty"`
	Max     int    `json:"max,omitempty"`
	Next    int    `json:"next,omitempty"` // index of the next frame to open
	Live    int    `json:"live,omitempty"`
	Stopped bool   `json:"stopped,omitempty"` // the rest has been cancelled
	// Limit is the most that Clock may come to; 0 is without limit.
	Limit    journal.Millis `json:"limit,omitempty"`
	Clock    Clock          `json:"clock,omitzero"`
	TimedOut bool           `json:"timed_out,omitempty"`
	Items    journal.Value  `json:"items,omitzero"`
	// Results of parallel branches by index; of a loop or a call the last one.
	Results  map[int]*BranchResult `json:"results,omitempty"`
	OK       int                   `json:"ok,omitempty"`
	Failed   int                   `json:"failed,omitempty"`
	Rejected int                   `json:"rejected,omitempty"`

	items []json.RawMessage // Items taken apart, once
}

// BranchResult is how a frame below ended, and what it had written.
type BranchResult struct {
	Name string `json:"name,omitempty"`
	Ending
	Scope map[string]journal.Value `json:"scope,omitempty"`
	Used  journal.Usage            `json:"used,omitzero"`
	Child journal.RunID            `json:"child,omitempty"`
}

// Signalled is an event that nothing has waited for yet.
type Signalled struct {
	Data json.RawMessage `json:"data,omitempty"`
	By   journal.Actor   `json:"by,omitzero"`
}

// BudgetWaiter is a task that waits for budget: to start (N is 0) or to go on.
type BudgetWaiter struct {
	Work   journal.Work  `json:"work"`
	N      int           `json:"n,omitempty"`
	Amount journal.Usage `json:"amount"`
	Least  int64         `json:"least,omitempty"`
	Budget string        `json:"budget"`
}

// Root is the frame of the run's body; nil before the run has started.
func (s *State) Root() *Frame { return s.Frames[""] }

// Work is the task that a frame is doing, or is about to.
func (f *Frame) Work() journal.Work {
	return journal.Work{Place: f.Place(), Part: f.Part, Attempt: f.Attempt}
}

// Place is where a frame stands.
func (f *Frame) Place() journal.Place {
	return journal.Place{Frame: f.Path, Step: f.Step, Visit: f.Visit}
}

// mark notes that deciding has to look at a frame.
func (s *State) mark(f *Frame) {
	if f != nil && !f.marked {
		f.marked = true
		s.moved = append(s.moved, f)
	}
}

// MarkAll makes the next decision look at every frame. After a complete
// batch there is nothing to find; it is how a law of the plan is tested, and
// how work that was held back goes on.
func (s *State) MarkAll() {
	for _, path := range s.paths() {
		s.mark(s.Frames[path])
	}
}

// RunOf is the run that a frame belongs to in the records: the run itself or
// a child; empty stands for the run itself.
func (s *State) RunOf(f *Frame) journal.RunID {
	for ; f != nil && f.Path != ""; f = s.Frames[f.Parent] {
		if f.Child != "" {
			return f.Child
		}
	}
	return ""
}

// top is the frame in which the program of f began.
func (s *State) top(f *Frame) *Frame {
	for f.Path != "" && f.Child == "" {
		f = s.Frames[f.Parent]
	}
	return f
}
