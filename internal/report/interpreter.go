package report

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
)

// Interpreter turns the facts of one stream into Events. It is the only place
// that interprets facts for readers. Its state is what is open: it does not
// grow with the steps that have finished.
type Interpreter struct {
	root    journal.RunID
	outline func(definition string) (*Outline, error)
	program *Outline
	frames  map[string]*frame
	budgets *tracker // nil unless TrackBudgets was called

	// State of the fact being interpreted, reused for the next.
	fact  *journal.Event
	place string // path of the frame that the fact changes
	queue []Event
	note  Note
	cause string // what can end a suspension; empty for most facts
	rests bool   // the run can come to rest after the fact
}

// frame is an activation of a block.
type frame struct {
	position
	run  *Run
	unit *unit
	up   *Step // step that the frame belongs to
	step *Step // open visit

	decision *Step // that has finished, until the next step is known
	held     int   // index of the edge of the decision whose condition was true; -1 if there is none
}

// position is the part of a frame that checkpoints have as it is.
type position struct {
	Parent  string `json:"parent,omitempty"` // path of the frame around it
	Prefix  string `json:"prefix,omitempty"` // path of the enclosing steps, with a trailing dot
	Depth   int    `json:"depth,omitempty"`
	Loop    bool   `json:"loop,omitempty"`
	Index   int    `json:"index,omitempty"`
	Program string `json:"program,omitempty"` // name of the unit; see Outline
	Block   int    `json:"block,omitempty"`
	Name    string `json:"name,omitempty"`    // of a branch
	Each    bool   `json:"each,omitempty"`    // frames below the open step are iterations
	Retried string `json:"retried,omitempty"` // closed step that is attempted again
	Attempt int    `json:"attempt,omitempty"` // of the open step, or of the one that is attempted again; from 0
	// Round numbers the attempts of the enclosing steps of the run, from 0. Numbers of attempts that were not needed
	// are skipped.
	Round int `json:"round,omitempty"`
}

// NewInterpreter returns an Interpreter for the stream of a root run. outline
// is called once, with the definition that the run has pinned; if it is nil,
// events lack what only the definition tells.
func NewInterpreter(root journal.RunID, outline func(definition string) (*Outline, error)) *Interpreter {
	return &Interpreter{root: root, outline: outline, frames: map[string]*frame{}}
}

// Interpret calls emit for each event that a fact consists of, in order. Facts
// must be passed in the order of the stream, from the first one on: an error
// means that they were not, that the definition cannot be read, or that emit
// failed. The Event is valid during the call; its Run and Step may be kept.
func (in *Interpreter) Interpret(e *journal.Event, emit func(*Event) error) error {
	at, _ := journal.PlaceOf(e.Fact)
	in.fact, in.place, in.queue, in.cause, in.rests = e, at.Frame, in.queue[:0], "", false
	in.charge(journal.Spent(e.Fact), in.open(at))
	if err := in.interpret(e); err != nil {
		return err
	}
	if in.budgets != nil {
		in.budgets.fold(in)
	}
	for i := range in.queue {
		if err := emit(&in.queue[i]); err != nil {
			return err
		}
	}
	return nil
}

// charge adds usage to a step, the enclosing steps and the runs.
func (in *Interpreter) charge(used journal.Usage, step *Step) {
	if step == nil || used == (journal.Usage{}) {
		return
	}
	for s := step; s != nil; s = s.Parent {
		s.Used = s.Used.Plus(used)
	}
	for run := step.Run; ; run = run.Caller.Run {
		run.Used = run.Used.Plus(used)
		if run.Caller == nil {
			return
		}
	}
}

// open returns the open step at a place, or nil.
func (in *Interpreter) open(at journal.Place) *Step {
	if f := in.frames[at.Frame]; f != nil {
		return f.step
	}
	return nil
}

// frame returns an open frame. An event of another frame is an error: the run cannot be interpreted.
func (in *Interpreter) frame(path string) (*frame, error) {
	f := in.frames[path]
	if f == nil {
		return nil, fmt.Errorf("an event of frame %q, which is not open", path)
	}
	return f, nil
}

// add queues an event. The pointer is valid until the next call.
func (in *Interpreter) add(t EventType, run *Run, step *Step) *Event {
	in.queue = append(in.queue, Event{})
	e := &in.queue[len(in.queue)-1] // an Event is large: its fields are set in place
	e.Type, e.Seq, e.At, e.Run, e.Step, e.Fact = t, in.fact.Seq, in.fact.At, run, step, in.fact.Fact
	return e
}

// addRun queues an event of the root run, if it has started.
func (in *Interpreter) addRun(t EventType) *Event {
	root := in.frames[""]
	if root == nil {
		return &Event{}
	}
	return in.add(t, root.run, nil)
}

// addWork queues an event about a task: of its step or, if that is not open,
// of the root run.
func (in *Interpreter) addWork(t EventType, w journal.TaskID) *Event {
	var e *Event
	if step := in.open(w.Place); step != nil {
		e = in.add(t, step.Run, step)
	} else {
		e = in.addRun(t)
	}
	e.Work, e.Usage = w, journal.Spent(in.fact.Fact)
	return e
}

// addStep queues an event of the step at a place, if it is open.
func (in *Interpreter) addStep(t EventType, w journal.TaskID) *Event {
	if in.open(w.Place) == nil {
		return &Event{}
	}
	return in.addWork(t, w)
}

// interpret updates the open frames and steps by a fact, and queues the events that the fact consists of. It notes what
// budgets.fold needs: whether the run can come to rest after the fact (rests), and what the fact can end a suspension
// with (cause). It ignores facts without events.
func (in *Interpreter) interpret(e *journal.Event) error {
	switch x := e.Fact.(type) {
	case journal.RunStarted:
		return in.onRunStarted(&x)
	case journal.RunFinished:
		return in.finishRun("", Ending{
			Outcome: x.Outcome, Reason: x.Reason, Error: x.Error, Status: x.Status, Last: x.Last, Value: x.Output,
		})
	case journal.FrameOpened:
		return in.onFrameOpened(&x)
	case journal.FrameClosed:
		in.rests = true
		return in.onFrameClosed(&x)
	case journal.StepEntered:
		return in.onStepEntered(&x)
	case journal.StepLeft:
		in.rests = true
		return in.onStepLeft(&x)
	case journal.TaskStarted:
		return in.onTaskStarted(&x)
	case journal.TaskEnded:
		in.rests = true
		return in.onTaskEnded(&x)
	case journal.TaskLost:
		in.rests = true // after the deadline of the run, nothing continues the step
		in.addWork(TaskLost, x.TaskID)
	case journal.TaskNoted:
		return in.onTaskNoted(&x)
	case journal.RetrySet:
		in.rests = true
		return in.onRetrySet(&x)
	case journal.Routed:
		in.onRouted(&x)
	case journal.GateOpened:
		in.rests = true
		return in.onGateOpened(&x)
	case journal.GateApproved:
		in.rests, in.cause = true, string(x.Method)
		in.addStep(GateApproved, journal.TaskID{Place: x.Place}).By = x.By
	case journal.GateDecided:
		in.rests, in.cause = true, string(x.Method)
		return in.onGateDecided(&x)
	case journal.TimerFired:
		in.rests, in.cause = true, "timer"
		in.onTimerFired(&x)
	case journal.Reserved:
		in.addWork(BudgetReserved, x.TaskID)
	case journal.BudgetWait:
		in.rests = true
		in.addWork(BudgetWaiting, x.TaskID)
	case journal.BudgetRefused:
		in.rests = true
		in.addStep(BudgetRefused, x.TaskID)
	case journal.BudgetRaised:
		in.cause = "budget_raised"
		in.addRun(BudgetRaised).By = x.By
	case journal.Continued:
		in.cause = "continued"
		in.addRun(RunContinued).By = x.By
	case journal.CancelRequested:
		in.cause = string(journal.OutcomeCanceled)
		in.addRun(CancelRequested).By = x.By
	case journal.Paused:
		in.rests = true
		in.addRun(RunPaused).By = x.By
	case journal.Rewound:
		in.addRun(RunRewound).By = x.By
	case journal.StateEdited:
		in.addRun(StateEdited).By = x.By
	case journal.SignalReceived:
		in.addRun(SignalReceived).By = x.By
	case journal.InputRefused:
		in.addRun(InputRefused).By = x.By
	case journal.Claimed:
		in.addRun(RunClaimed)
	}
	return nil
}

// onRunStarted opens the body of the root run. It reads the outline of the definition, which all further facts need.
func (in *Interpreter) onRunStarted(x *journal.RunStarted) error {
	run := &Run{
		ID: in.root, Name: x.Name, Format: x.Format, Definition: x.Definition, By: x.By, From: x.From,
		Started: in.fact.At,
		Input:   x.Input, Options: x.Options,
	}
	f := &frame{run: run}
	if in.outline != nil {
		o, err := in.outline(x.Definition)
		if err != nil {
			return fmt.Errorf("definition of run %s: %w", in.root, err)
		}
		in.program, f.unit = o, o.units[""]
		run.Program = f.unit.program
	}
	in.frames[""] = f
	started := in.add(RunStarted, run, nil)
	started.Value, started.Limits = x.Input, x.Budget
	return nil
}

// finishRun ends the run whose body is the frame at a path.
func (in *Interpreter) finishRun(path string, end Ending) error {
	f, err := in.frame(path)
	if err != nil {
		return err
	}
	in.choose(f, nil)
	end.Problem = problem(&end)
	in.add(RunFinished, f.run, nil).Ending = end
	if path == "" {
		clear(in.frames)
	}
	return nil
}

// onFrameOpened opens a branch or an iteration of the open step of the frame around it, or the child run of a call.
func (in *Interpreter) onFrameOpened(x *journal.FrameOpened) error {
	parent, err := in.frame(x.Parent)
	if err != nil {
		return err
	}
	if parent.step == nil {
		return fmt.Errorf("frame %q belongs to step %q, which is not open", x.Frame, x.Step)
	}
	f := &frame{run: parent.run, up: parent.step, position: position{
		Parent: x.Parent, Prefix: parent.Prefix + x.Step + ".", Depth: parent.Depth + 1, Loop: parent.Loop,
		Index: parent.Index, Program: x.Program, Block: x.Block, Name: x.Name,
	}}
	if in.program != nil {
		f.unit = in.program.units[x.Program]
	}
	if parent.Each {
		f.Loop, f.Index = true, x.Index
	}
	in.frames[x.Frame], in.place = f, x.Frame
	if x.Child == "" {
		f.Round = parent.Round*parent.step.attempts() + parent.Attempt
		return nil
	}
	parent.step.Child = x.Child
	in.announce(parent)
	f.run = &Run{
		ID: x.Child, Parent: parent.run.ID, Name: x.Name, Definition: parent.run.Definition, By: parent.run.By,
		Started: in.fact.At, Caller: parent.step, Input: x.Vars["input"],
	}
	if f.unit != nil {
		f.run.Program = f.unit.program
	}
	f.Prefix, f.Depth, f.Loop, f.Index = "", 0, false, 0
	started := in.add(RunStarted, f.run, nil)
	started.Value, started.Limits = x.Vars["input"], x.Budget
	return nil
}

// onFrameClosed closes a frame: it finishes the child run whose body the frame is, or a branch of a step.
func (in *Interpreter) onFrameClosed(x *journal.FrameClosed) error {
	f, err := in.frame(x.Frame)
	if err != nil {
		return err
	}
	end := Ending{
		Outcome: x.Outcome, Class: x.Class, Reason: x.Reason, Error: x.Error, Status: x.Status, Last: x.Step,
		Value: x.Value,
	}
	if f.run.Caller != nil && f.Depth == 0 { // the body of a child run
		err = in.finishRun(x.Frame, end)
	} else if f.up != nil {
		in.choose(f, nil)
		finished := in.add(BranchFinished, f.run, f.up)
		finished.Name, finished.Ending = f.Name, end
	}
	delete(in.frames, x.Frame)
	in.place = f.Parent
	return err
}

// onStepEntered opens a step with blocks. A call is announced by its child, whose ID the event names.
func (in *Interpreter) onStepEntered(x *journal.StepEntered) error {
	f, err := in.openStep(x.Place, x.Mode, x.For)
	if err != nil {
		return err
	}
	f.Each = x.Mode == plan.ModeLoop || !x.Items.IsZero()
	if f.step.Call = x.Mode == plan.ModeCall; f.step.Call {
		return nil // it starts with its child
	}
	f.step.Branches, f.step.MaxRounds = x.Total, x.Max
	in.announce(f)
	return nil
}

// onStepLeft finishes a step that has no task of its own. One that its condition skips never starts.
func (in *Interpreter) onStepLeft(x *journal.StepLeft) error {
	f, err := in.frame(x.Frame)
	if err != nil {
		return err
	}
	if f.step == nil && x.Outcome == journal.OutcomeSkipped && x.Reason == ReasonCondition {
		step := in.newStep(f, x.Place, "", x.For)
		in.choose(f, step)
		in.add(StepSkipped, f.run, step).Outcome = x.Outcome
		return nil
	}
	return in.end(journal.TaskID{Place: x.Place}, x.For, Ending{
		Outcome: x.Outcome, Class: x.Class, Reason: x.Reason, Error: x.Error, Status: x.Status,
		Value: x.Value, Writes: x.Writes,
	})
}

// onTaskEnded finishes a task and, if no further attempt or task of the visit follows, its step. The verdict of a
// critic is an event of its own.
func (in *Interpreter) onTaskEnded(x *journal.TaskEnded) error {
	end := Ending{Outcome: x.Outcome, Class: x.Class, Error: x.Error, Value: x.Value, Writes: x.Writes}
	if step := in.open(x.Place); step != nil {
		if !x.Final {
			step.failed = &Ending{Outcome: x.Outcome, Class: x.Class, Error: x.Error}
		}
		in.addStep(TaskFinished, x.TaskID).Ending = end
		if x.Final && x.Part == plan.PartVerdict && (x.Outcome == journal.OutcomeOK ||
			x.Outcome == journal.OutcomeRejected) {
			judged := in.add(GateJudged, step.Run, step)
			judged.Work, judged.Ending = x.TaskID, end
		}
	}
	if !x.Final {
		return nil
	}
	return in.end(x.TaskID, "", end)
}

// onTaskStarted opens the step of a task and sets its attempt.
func (in *Interpreter) onTaskStarted(x *journal.TaskStarted) error {
	f, err := in.openStep(x.Place, x.Kind, x.For)
	if err != nil {
		return err
	}
	f.step.Gate = nil
	if x.Part != plan.PartCombine || x.Attempt > f.step.Attempt { // others belong to the attempt of the step
		f.step.Attempt = x.Attempt
	}
	in.announce(f)
	in.addWork(TaskStarted, x.TaskID)
	return nil
}

// onRetrySet remembers the number of the next attempt, and queues why the open step needs it.
func (in *Interpreter) onRetrySet(x *journal.RetrySet) error {
	f, err := in.frame(x.Frame)
	if err != nil {
		return err
	}
	f.Attempt = x.Attempt
	if f.step == nil {
		f.Retried = x.Step
		return nil
	}
	ev := in.addStep(StepRetrying, x.TaskID)
	if x.Continues { // the attempt continues later; it has not failed
		ev.Ending = Ending{Error: x.Why}
	} else if x.Error != "" {
		ev.Ending = Ending{Outcome: journal.OutcomeFailed, Class: x.Class, Error: x.Error}
	} else if f.step.failed != nil {
		ev.Ending = *f.step.failed
		ev.Problem = problem(f.step.failed)
	}
	return nil
}

// onRouted remembers which edge of a decision held: choose names the branch by it. An edge of the step that a fallback
// replaces does not belong to the decision.
func (in *Interpreter) onRouted(x *journal.Routed) {
	if f := in.frames[x.Frame]; f != nil && len(x.Tried) > 0 {
		if last := x.Tried[len(x.Tried)-1]; last.Held && last.Of == "" {
			f.held = last.Edge
		}
	}
	in.addWork(StepRouted, journal.TaskID{Place: x.Place})
}

// onGateOpened opens the step of a gate, or a gate about the task of the open step.
func (in *Interpreter) onGateOpened(x *journal.GateOpened) error {
	f, err := in.openStep(x.Place, "gate", x.For)
	if err != nil {
		return err
	}
	f.step.Gate = &Gate{*x, in.fact.At}
	in.announce(f)
	in.addStep(GateOpened, journal.TaskID{Place: x.Place})
	return nil
}

// onTimerFired queues the event of a timer that means something to readers. Others continue steps, as further facts
// show.
func (in *Interpreter) onTimerFired(x *journal.TimerFired) {
	switch x.What {
	case plan.TimerGate:
		in.addStep(GateExpired, journal.TaskID{Place: x.Place})
	case plan.TimerEscalation:
		in.addStep(GateEscalated, journal.TaskID{Place: x.Place})
	case plan.TimerDeadline:
		in.addRun(DeadlineReached)
	}
}

// onGateDecided finishes the step of a gate, unless the decision is to run its task again.
func (in *Interpreter) onGateDecided(x *journal.GateDecided) error {
	end := Ending{
		Outcome: x.Outcome, Class: x.Class, Reason: x.Reason, Error: x.Error, Value: x.Value, Writes: x.Writes,
	}
	decided := in.addStep(GateDecided, journal.TaskID{Place: x.Place})
	decided.Ending, decided.By = end, x.By
	if x.Outcome != journal.OutcomeRerun {
		return in.end(journal.TaskID{Place: x.Place}, "", end)
	}
	return nil
}

// openStep opens a step, unless it is open already: another attempt, or the
// combine task of a parallel step, belongs to the same visit.
func (in *Interpreter) openStep(at journal.Place, kind, fallbackFor string) (*frame, error) {
	f, err := in.frame(at.Frame)
	if err == nil && f.step == nil {
		f.step = in.newStep(f, at, kind, fallbackFor)
		in.choose(f, f.step)
		if f.Retried != at.Step {
			f.Attempt = 0
		}
		f.step.Attempt, f.Retried = f.Attempt, ""
	}
	return f, err
}

// newStep returns a step that begins with the current event. kind is used if the definition does not have the step.
func (in *Interpreter) newStep(f *frame, at journal.Place, kind, fallbackFor string) *Step {
	s := &Step{
		Run: f.run, Place: at, Name: at.Step, Path: at.Step, Kind: kind, FallbackFor: fallbackFor, Parent: f.up,
		Depth: f.Depth, Loop: f.Loop, Index: f.Index, Started: in.fact.At,
	}
	if f.Prefix != "" {
		s.Path = f.Prefix + at.Step
	}
	if s.Info = f.unit.step(f.Block, at.Step); s.Info != nil {
		s.Kind, s.Agent = s.Info.Kind, s.Info.Agent
		s.Call = s.Kind == KindCall
	}
	s.Earlier = f.Round * s.attempts()
	if t := in.budgets; t != nil && t.opened != nil {
		t.opened(s, &t.state)
	}
	return s
}

// choose queues BranchChosen if the last step of a frame was a decision.
func (in *Interpreter) choose(f *frame, next *Step) {
	if f.decision == nil {
		return
	}
	chosen := in.add(BranchChosen, f.run, nil)
	chosen.Decision, chosen.Next = f.decision, next
	edges := f.decision.Info.Step.Next
	switch {
	case f.held >= 0 && f.held < len(edges):
		chosen.Name = edges[f.held].Label
	case next != nil:
		for i := range edges {
			if edges[i].When == nil && edges[i].To.Step == next.Name {
				chosen.Name = edges[i].Label
				break
			}
		}
	}
	f.decision = nil
}

// announce queues StepStarted, once for each visit.
func (in *Interpreter) announce(f *frame) {
	if !f.step.announced {
		f.step.announced = true
		in.add(StepStarted, f.run, f.step)
	}
}

// end closes a step. One that never started, because it could not or because
// it takes no time, starts and finishes at once.
func (in *Interpreter) end(w journal.TaskID, fallbackFor string, end Ending) error {
	f, err := in.openStep(w.Place, "step", fallbackFor)
	if err != nil {
		return err
	}
	in.announce(f)
	step := f.step
	f.step, f.Each = nil, false
	// Otherwise the value tells who rejected it, and why.
	if end.Outcome != journal.OutcomeRejected || end.Value.IsZero() {
		end.Problem = problem(&end)
	}
	if step.hooks != nil {
		end = step.hookEnding(end)
	}
	finished := in.add(StepFinished, f.run, step)
	finished.Work, finished.Ending = w, end
	if step.Info != nil && end.Outcome == journal.OutcomeOK {
		if _, ok := step.Info.Step.Action.(ir.Route); ok {
			f.decision, f.held = step, -1
		}
	}
	uncounted := step.Info != nil && step.Info.Step.Uncounted
	if step.Depth == 0 && !uncounted {
		f.run.Steps++
		if p := f.run.Program; p != nil && p.CheckpointEvery > 0 && f.run.Steps%p.CheckpointEvery == 0 {
			in.add(CheckpointSaved, f.run, nil).Work = w
		}
	}
	return nil
}

// hookEnding returns the ending of a step that runs hooks: their results. The outcome of the
// step before, which control flow continues with, is not theirs.
func (s *Step) hookEnding(end Ending) Ending {
	raw, err := json.Marshal(s.hooks)
	if err != nil {
		return end // unreachable: plain data encodes
	}
	end.Value = journal.Value{JSON: raw}
	if s.Info == nil || !s.Info.Step.InheritOutcome ||
		end.Outcome != journal.OutcomeFailed && end.Outcome != journal.OutcomeOK {
		return end
	}
	end.Outcome, end.Class, end.Reason, end.Error, end.Problem = journal.OutcomeOK, "", "", "", ""
	for _, h := range s.hooks.Hooks {
		if h.Error != "" {
			end.Outcome, end.Error, end.Problem = journal.OutcomeFailed, h.Error, h.Error
		}
	}
	return end
}

// problem explains why something did not succeed; "" when it did.
func problem(e *Ending) string {
	switch {
	case e.Error != "":
		return e.Error
	case e.Outcome != journal.OutcomeFailed && e.Outcome != journal.OutcomeRejected &&
		e.Outcome != journal.OutcomeCanceled:
		return ""
	case e.Reason != "":
		return string(e.Outcome) + ": " + e.Reason
	case e.Class != "":
		return string(e.Outcome) + ": " + string(e.Class)
	}
	return string(e.Outcome)
}

// noteTypes maps the kinds of notes to event types and the form of their data.
var noteTypes = map[string]struct {
	event EventType
	body  func() any
}{
	journal.NotePrompt:      {ModelPrompted, body[journal.Prompt]},
	journal.NoteReply:       {ModelReplied, body[journal.Reply]},
	journal.NoteStream:      {ModelStreamed, body[journal.Stream]},
	journal.NoteModelError:  {ModelFailed, body[journal.ModelRetry]},
	journal.NoteModelRetry:  {ModelRetried, body[journal.ModelRetry]},
	journal.NoteToolCall:    {ToolCalled, body[journal.ToolUse]},
	journal.NoteProgress:    {ToolProgressed, body[journal.Progress]},
	journal.NoteToolResult:  {ToolReturned, body[journal.ToolUse]},
	journal.NoteCommand:     {CommandStarted, body[journal.Command]},
	journal.NoteOutput:      {CommandWrote, body[journal.Output]},
	journal.NoteCall:        {CallStarted, body[journal.Call]},
	journal.NoteCallEnd:     {CallFinished, body[journal.CallEnd]},
	journal.NoteMerge:       {MergeDecided, body[journal.MergeDecision]},
	journal.NoteLogLine:     {MessagePrinted, body[journal.LogLine]},
	journal.NoteHooks:       {StepAnnotated, body[journal.Hooks]},
	journal.NoteDone:        {WorkerChosen, body[journal.DoneBy]},
	journal.NoteMissingFile: {FileMissing, body[journal.MissingFile]},
}

// body returns an empty body for a kind of notes.
func body[T any]() any { return new(T) }

// onTaskNoted queues the event of a note about a running task. Notes of unknown kinds annotate the step.
func (in *Interpreter) onTaskNoted(x *journal.TaskNoted) error {
	f, err := in.frame(x.Frame)
	if err != nil {
		return err
	}
	if f.step == nil {
		return fmt.Errorf("a note of step %q, which is not open", x.Step)
	}
	in.note = Note{Kind: x.Kind, Settles: x.Settles, Data: x.Data}
	t, known := noteTypes[x.Kind]
	if !known {
		t.event = StepAnnotated
	} else {
		in.note.body = t.body()
		in.note.Unreadable = journal.ReadNote(x.Data, in.note.body) != nil
		if root := in.frames[""].run; x.Kind != journal.NoteCommand || root.Offline == "" {
			root.Offline = cmp.Or(in.note.Offline(), root.Offline)
		}
	}
	if hooks, ok := in.note.body.(*journal.Hooks); ok && !in.note.Unreadable {
		f.step.hooks = hooks
	}
	in.addWork(t.event, x.TaskID).Note = &in.note
	return nil
}

// Shortfall returns how much of a budget the request that waits for it needs, and how much is left.
func (in *Interpreter) Shortfall() (next, left int64) {
	_, next, left = in.budgets.state.Shortfall()
	return next, left
}

// PauseState returns whether the run is paused, and the name of the budget that it waits for, if any.
func (in *Interpreter) PauseState() (paused bool, budget string) {
	state := &in.budgets.state
	if len(state.BudgetWaiters) > 0 {
		budget = state.BudgetWaiters[0].Budget
	}
	return state.Paused, budget
}
