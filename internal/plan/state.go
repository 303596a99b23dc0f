package plan

import (
	"encoding/json"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
)

// State is the state of a run: the fold of its events, as plain data. Its JSON form is that of snapshots, which other
// processes and later releases read: a field that changes its meaning needs another SnapshotForm.
type State struct {
	Form          int                        `json:"form,omitempty"` // SnapshotForm of the release that folded it
	Run           journal.RunID              `json:"run"`            // the root run
	Seq           journal.Seq                `json:"seq"`            // the last event that was applied
	Name          string                     `json:"name"`
	Format        string                     `json:"format"`
	Definition    string                     `json:"definition"`
	Options       json.RawMessage            `json:"options,omitempty"` // of the run; the plan does not read them
	By            journal.Actor              `json:"by,omitzero"`       // who started it
	From          *journal.Origin            `json:"from,omitempty"`    // the run that it continues; nil if none
	Started       journal.Millis             `json:"started"`
	At            journal.Millis             `json:"at"`                // time of the last event
	Frames        map[string]*Frame          `json:"frames"`            // the open ones, by path; "" is the body
	Open          int                        `json:"open,omitempty"`    // number of running tasks
	Paused        bool                       `json:"paused,omitempty"`  // by a person
	Expired       bool                       `json:"expired,omitempty"` // the run's deadline has passed
	BudgetWaiters []BudgetWaiter             `json:"starved,omitempty"` // in the order of their requests
	Signals       map[string][]PendingSignal `json:"signals,omitempty"` // signals that no gate has consumed yet
	Approved      []journal.Approved         `json:"approved,omitempty"`
	Spent         *Ledger                    `json:"spent,omitempty"` // of a finished run
	Finished      *journal.RunFinished       `json:"finished,omitempty"`

	// Hold prevents tasks from starting: the process is ending, or only records. Everything else is decided. Hold is
	// not part of the state. The process that loads the run next calls MarkAll.
	Hold bool `json:"-"`
	// FinishInstant lets tasks start in spite of Hold that Program.Instant accepts. It is not part of the state.
	FinishInstant bool `json:"-"`

	moved  []*Frame // frames that the next decision has to look at
	cut    bool     // the last decision stopped at maxFacts facts
	timers timers
}

// SnapshotForm is the version of the encoding of a State. Snapshots of other versions are ignored, because they may
// lack data: version 0 does not record which gates were approved.
const SnapshotForm = 1

// Frame is one activation of a block.
type Frame struct {
	Path    string                   `json:"path"`              // unique in the run; "" is the body
	Parent  string                   `json:"parent,omitempty"`  // path of the frame around it
	Program string                   `json:"program,omitempty"` // path of the program; "" is the run's own
	Block   ir.BlockID               `json:"block,omitempty"`
	Index   int                      `json:"index,omitempty"` // of the branch or iteration, from 0
	Name    string                   `json:"name,omitempty"`  // of the branch or child
	Child   journal.RunID            `json:"child,omitempty"` // the frame is the body of this child run
	Scope   map[string]journal.Value `json:"scope,omitempty"` // its own variables, and what its steps wrote
	// variables of an iteration or a branch; they end with the frame
	Own []string `json:"own,omitempty"`
	// Writers are the steps that last wrote to the output, by the key of the property, such as "output.report".
	// "output" is for properties of unknown name.
	Writers map[string]string `json:"writers,omitempty"`

	// The current step.
	Phase   Phase  `json:"phase"`
	Step    string `json:"step,omitempty"`
	Visit   int    `json:"visit,omitempty"`   // from 1 for steps that can be reached again; otherwise 0
	Part    string `json:"part,omitempty"`    // which task of the step runs; see PartVerdict
	Attempt int    `json:"attempt,omitempty"` // from 0
	Rerun   int    `json:"rerun,omitempty"`   // how often the attempt was started again
	For     string `json:"for,omitempty"`     // the step that the current one replaces
	Passed  bool   `json:"passed,omitempty"`  // the step in For was skipped
	// Fallbacks are the fallbacks of the step in For that the current step replaces as well, the first one first.
	Fallbacks []Fallback     `json:"fallbacks,omitempty"`
	Due       journal.Millis `json:"due,omitempty"`   // of the retry or the gate; 0 is never
	Gate      *Gate          `json:"gate,omitempty"`  // that is open; nil if none
	Group     *Group         `json:"group,omitempty"` // of a step of frames; otherwise nil
	// Kept are the results of branches that the next attempt does not repeat.
	Kept  map[int]*BranchResult `json:"kept,omitempty"`
	Notes int                   `json:"notes,omitempty"` // number of the task's last note
	Begun journal.Seq           `json:"begun,omitempty"` // event that first started the task
	// Reserved is what the running task has reserved, by number.
	Reserved map[int]journal.Usage `json:"reserved,omitempty"`

	// Last is how the last step ended. The current step, which may be retried, is not included.
	Last Ending `json:"last,omitzero"`
	// Before is how the step before Last ended.
	Before Ending `json:"before,omitzero"`
	// Tried is how the last attempt at the current step ended, if another follows.
	Tried Ending `json:"tried,omitzero"`
	// Policy is what happens to a lost task.
	Policy journal.Recovery `json:"policy,omitempty"`

	Visits  map[string]int `json:"visits,omitempty"`  // of steps on cycles; of all steps after a rewind
	Rewound bool           `json:"rewound,omitempty"` // the frame was rewound: any step may be visited again
	Taken   map[string]int `json:"taken,omitempty"`   // how often limited edges were taken
	// OutOfBudget has the steps that did not start because a budget was exhausted.
	OutOfBudget map[string]bool `json:"starved,omitempty"`
	Refused     string          `json:"refused,omitempty"`   // step of a gate that rejected, until later work succeeds
	Canceled    bool            `json:"cancelled,omitempty"` // the frame closes as soon as no task runs in it
	Cleaning    bool            `json:"cleaning,omitempty"`  // the frame was canceled and runs its cleanup step
	FailedBy    string          `json:"failed_by,omitempty"` // the frame was canceled but fails, for this reason
	Ledger      *Ledger         `json:"ledger,omitempty"`    // of a run, a branch or a child
	// Apart is set for branches: their steps count against their own budget only.
	Apart bool `json:"apart,omitempty"`

	marked bool
}

// Fallback is a fallback that another one replaces.
type Fallback struct {
	Step   string `json:"step"`
	Passed bool   `json:"passed,omitempty"` // it was skipped
}

// Phase is the phase of a frame. Its values are in snapshots.
type Phase string

// The phases.
const (
	Beginning      Phase = "begin"    // no step has started
	Working        Phase = "task"     // a task runs
	Resting        Phase = "retry"    // waits for the due time of the next attempt
	Ready          Phase = "ready"    // the next attempt may start
	Asking         Phase = "gate"     // a gate is open
	Overdue        Phase = "overdue"  // the gate has timed out
	Grouped        Phase = "group"    // frames below are open
	AwaitingBudget Phase = "starving" // the task waits for budget to start
	Lost           Phase = "lost"     // the outcome of the task is unknown
	Ended          Phase = "ended"    // the step has ended; the next one is not chosen yet
	Sent           Phase = "sent"     // to a step, by a rewind or a cleanup
)

// Gate is an open gate.
type Gate struct {
	Kind   journal.GateKind `json:"kind"`
	Event  string           `json:"event,omitempty"`
	Digest string           `json:"digest,omitempty"`
	Opened journal.Millis   `json:"opened"`
	// Due is when the gate times out, and Escalates when more people may decide;
	// 0 is never.
	Due       journal.Millis `json:"due,omitempty"`
	Escalates journal.Millis `json:"escalates,omitempty"`
	Escalated bool           `json:"escalated,omitempty"`
	Approvals []Approval     `json:"approvals,omitempty"` // in the order in which they were given
	// Paths are the variables that a person's gate shows.
	Paths []string `json:"paths,omitempty"`
	// Call is the key of the tool call that the gate is about, and Shows what a
	// person approves.
	Call  string                   `json:"call,omitempty"`
	Shows map[string]journal.Value `json:"shows,omitempty"`
}

// Approval is one of several approvals that a gate needs.
type Approval struct {
	By     journal.Actor  `json:"by,omitzero"`
	Roles  []string       `json:"roles,omitempty"`
	Note   string         `json:"note,omitempty"`
	Digest string         `json:"digest,omitempty"`
	At     journal.Millis `json:"at"`
}

// Ending is how a step or a frame ended.
type Ending struct {
	Outcome journal.Outcome `json:"outcome,omitempty"`
	Class   ir.Class        `json:"class,omitempty"` // of an error
	Reason  string          `json:"reason,omitempty"`
	Error   string          `json:"error,omitempty"`
	Value   journal.Value   `json:"value,omitzero"`
	To      string          `json:"to,omitempty"`     // for a jump: a step of an enclosing block
	Status  int             `json:"status,omitempty"` // exit code that the author chose
	Step    string          `json:"step,omitempty"`   // the step that ended it
}

// failing reports whether a step failed, including one that has jumped out of loops since.
func (e *Ending) failing() bool {
	return e.Outcome == journal.OutcomeFailed || e.Outcome == journal.OutcomeJump && (e.Class != "" || e.Error != "")
}

// Group is the state of a step that consists of frames.
type Group struct {
	Mode    string `json:"mode"`              // ModeParallel, ModeLoop or ModeCall
	Total   int    `json:"total,omitempty"`   // number of branches or items; 1 for a call, 0 for other loops
	Max     int    `json:"max,omitempty"`     // most iterations of a loop; 0 is unlimited
	Next    int    `json:"next,omitempty"`    // index of the next frame to open
	Live    int    `json:"live,omitempty"`    // number of open frames
	Stopped bool   `json:"stopped,omitempty"` // the remaining frames have been canceled
	// Limit is the most active time that Clock may reach; 0 is unlimited.
	Limit    journal.Millis `json:"limit,omitempty"`
	Clock    Clock          `json:"clock,omitzero"` // runs only if Limit is set
	TimedOut bool           `json:"timed_out,omitempty"`
	Items    journal.Value  `json:"items,omitzero"` // list that is iterated over; always inline
	// Results are the results of branches by index. A loop or a call has only the last one, at 0.
	Results  map[int]*BranchResult `json:"results,omitempty"`
	OK       int                   `json:"ok,omitempty"` // number of results with this outcome, as Failed and Rejected
	Failed   int                   `json:"failed,omitempty"`
	Rejected int                   `json:"rejected,omitempty"`

	items []json.RawMessage // Items, decoded once
}

// BranchResult is how a frame of a group ended, and what it wrote.
type BranchResult struct {
	Name string `json:"name,omitempty"`
	Ending
	Scope map[string]journal.Value `json:"scope,omitempty"`
	Used  journal.Usage            `json:"used,omitzero"`
	Child journal.RunID            `json:"child,omitempty"`
}

// PendingSignal is a signal that no gate has consumed yet.
type PendingSignal struct {
	Data json.RawMessage `json:"data,omitempty"`
	By   journal.Actor   `json:"by,omitzero"`
}

// BudgetWaiter is a task that waits for budget: to start (N is 0) or to continue.
type BudgetWaiter struct {
	Work   journal.TaskID `json:"work"`
	N      int            `json:"n,omitempty"`
	Amount journal.Usage  `json:"amount"`
	Least  int64          `json:"least,omitempty"`
	Budget string         `json:"budget"`
}

// Root returns the frame of the run's body; nil before the run has started.
func (s *State) Root() *Frame { return s.Frames[""] }

// Work returns the task that a frame runs or is about to run.
func (f *Frame) Work() journal.TaskID {
	return journal.TaskID{Place: f.Place(), Part: f.Part, Attempt: f.Attempt}
}

// Place returns the place of a frame's current step.
func (f *Frame) Place() journal.Place {
	return journal.Place{Frame: f.Path, Step: f.Step, Visit: f.Visit}
}

// mark makes the next call of Decide examine a frame.
func (s *State) mark(f *Frame) {
	if f != nil && !f.marked {
		f.marked = true
		s.moved = append(s.moved, f)
	}
}

// Holds reports whether Hold prevents a task from starting.
func (s *State) Holds(p *Program, t *ir.Task) bool {
	return s.Hold && !(s.FinishInstant && p.Instant != nil && p.Instant(t))
}

// MarkAll makes the next call of Decide examine every frame. After a complete batch it yields nothing, as tests check;
// after Hold it may start the tasks that were held.
func (s *State) MarkAll() {
	for _, path := range s.paths() {
		s.mark(s.Frames[path])
	}
}

// RunOf returns the child run that a frame belongs to; empty for the run itself.
func (s *State) RunOf(f *Frame) journal.RunID {
	for ; f != nil && f.Path != ""; f = s.Frames[f.Parent] {
		if f.Child != "" {
			return f.Child
		}
	}
	return ""
}

// top returns the frame of the program that f belongs to.
func (s *State) top(f *Frame) *Frame {
	for f.Path != "" && f.Child == "" {
		f = s.Frames[f.Parent]
	}
	return f
}
