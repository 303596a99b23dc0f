package report

import (
	"fmt"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
)

// What facts say about how something ended, as far as readers tell it apart.
const (
	OutcomeOK        = "ok"
	OutcomeFailed    = "failed"
	OutcomeSkipped   = "skipped"
	OutcomeRejected  = "rejected"
	OutcomeCancelled = "cancelled"
	OutcomeRerun     = "rerun" // of a doubt: the task is done again

	// ReasonCondition is why a step was passed over whose condition was false.
	ReasonCondition = "SKIPPED_CONDITION"

	// What a gate waits for.
	GatePerson = "person"
	GateEvent  = "event"
	GateDoubt  = "doubt" // what became of a task that was lost
	GateCall   = "call"  // a call of a tool that a person has to agree to
)

// Run is a run with records of its own: the stream's run or a child of it.
type Run struct {
	ID     journal.RunID
	Parent journal.RunID // empty for the stream's run
	Name   string
	Began  journal.Millis
	// At is the step of the parent that calls this run; nil for the stream's run.
	At *Step
	// Program is what it runs; nil when it is not known.
	Program *ir.Program
	Used    journal.Usage // so far, by its children too
	Own     any           // what the reader keeps with it
}

// Audits are what the run's workflow says about its records, and those around it.
func (r *Run) Audits() []*ir.Audit {
	var out []*ir.Audit
	for at := r; ; at = at.At.Run {
		if at.Program != nil && at.Program.Audit != nil {
			out = append(out, at.Program.Audit)
		}
		if at.At == nil {
			return out
		}
	}
}

// Step is one visit of a step, from its beginning to its end.
type Step struct {
	Run       *Run
	Name      string
	Path      string // dotted names of the steps around it in its run, and its own
	Kind      string
	Info      *StepInfo // nil when the program is not known
	Up        *Step     // the step around it, also that of a calling run; nil for a step of the body
	For       string    // the step that it stands in for
	Depth     int       // how many steps of its run are around it
	Loop      bool      // it lies in a loop or in a fan-out over a list
	Index     int       // of the innermost one
	Attempt   int       // the last one, from 0
	Began     journal.Millis
	Used      journal.Usage // so far, by everything inside
	Call      bool          // it is a child run
	Child     journal.RunID // of a call; empty as long as the child has not begun
	Own       any           // what the reader keeps with it
	announced bool
}

// Iteration is the index of the innermost loop; outside loops the attempt.
func (s *Step) Iteration() int {
	if s.Loop {
		return s.Index
	}
	return s.Attempt
}

// What happened in a Moment.
type What int

// The moments of a run.
const (
	RunBegan What = iota + 1
	RunEnded
	StepBegan
	StepEnded
	StepSkipped // its condition was false: it never began
	StepNoted   // something happened inside
)

// Moment is what an event means to the records of one run.
type Moment struct {
	What    What
	At      journal.Millis
	Run     *Run
	Step    *Step // nil for RunBegan and RunEnded
	Outcome string
	// Error says in a sentence or a word why it did not end well.
	Error string
	Value journal.Value
	Note  *journal.TaskNoted // until the next event
}

// Trail follows the events of one stream and says what they mean in terms of
// runs and steps. It holds what is open, nothing of what is over.
type Trail struct {
	root    journal.RunID
	outline func(definition string) (*Outline, error)
	program *Outline
	frames  map[string]*frame
	moment  Moment
	note    journal.TaskNoted
	emit    func(*Moment)
}

// frame is an activation of a block.
type frame struct {
	run    *Run
	prefix string // path of the steps around, with a dot at its end
	depth  int
	loop   bool
	index  int
	unit   *unit
	block  int
	up     *Step // that the frame belongs to
	step   *Step // the visit that is open
	each   bool  // frames below the open step are iterations
}

// NewTrail begins before the first event of a run's stream. outline is asked
// once, for the definition that the run has pinned; nil does without.
func NewTrail(root journal.RunID, outline func(definition string) (*Outline, error)) *Trail {
	return &Trail{root: root, outline: outline, frames: map[string]*frame{}}
}

// At is the step that is open in a frame, or nil.
func (t *Trail) At(frame string) *Step {
	if f := t.frames[frame]; f != nil {
		return f.step
	}
	return nil
}

// StepOf is the step that a fact is about, if it is open.
func (t *Trail) StepOf(f journal.Fact) *Step {
	if at, ok := journal.PlaceOf(f); ok {
		return t.At(at.Frame)
	}
	return nil
}

// charge adds what a fact says was used to its step, to all around it, and to
// the runs.
func (t *Trail) charge(f journal.Fact) {
	used := journal.Spent(f)
	if used == (journal.Usage{}) {
		return
	}
	step := t.StepOf(f)
	if step == nil {
		return
	}
	for s := step; s != nil; s = s.Up {
		s.Used = s.Used.Plus(used)
	}
	for run := step.Run; ; run = run.At.Run {
		run.Used = run.Used.Plus(used)
		if run.At == nil {
			return
		}
	}
}

// Root is the run whose stream this is; nil before it has begun.
func (t *Trail) Root() *Run {
	if f := t.frames[""]; f != nil {
		return f.run
	}
	return nil
}

// Take takes one event and calls emit for each moment that it is made of. The
// moment must not be kept, its Run and Step may be. Events must come in order
// and from the first one on: an error means that they did not, or that the
// definition cannot be read.
func (t *Trail) Take(e *journal.Event, emit func(*Moment)) error {
	t.emit = emit
	t.moment.At = e.At
	t.charge(e.Fact)
	switch x := e.Fact.(type) {
	case journal.RunStarted:
		return t.start(e.At, &x)
	case journal.RunFinished:
		f, err := t.frame("")
		if err != nil {
			return err
		}
		t.send(RunEnded, f.run, nil, x.Outcome, problem(x.Outcome, x.Error, "", x.Reason), x.Output)
		clear(t.frames)
	case journal.FrameOpened:
		return t.open(e.At, &x)
	case journal.FrameClosed:
		f, err := t.frame(x.Frame)
		if err != nil {
			return err
		}
		delete(t.frames, x.Frame)
		if f.run.At != nil && f.depth == 0 { // the body of a child run
			t.send(RunEnded, f.run, nil, x.Outcome, problem(x.Outcome, x.Error, x.Class, x.Reason), x.Value)
		}
	case journal.StepEntered:
		f, err := t.begin(e.At, x.Place, x.Mode, x.For, x.Mode != modeCall)
		if err != nil {
			return err
		}
		f.each = x.Mode == modeLoop || !x.Items.IsZero()
		f.step.Call = x.Mode == modeCall
	case journal.StepLeft:
		return t.left(e.At, &x)
	case journal.TaskStarted:
		f, err := t.begin(e.At, x.Place, x.Kind, x.For, true)
		if err != nil {
			return err
		}
		f.step.Attempt = x.Attempt
	case journal.TaskEnded:
		if x.Final {
			return t.end(e.At, x.Place, "", x.Outcome, problem(x.Outcome, x.Error, x.Class, ""), x.Value)
		}
	case journal.TaskNoted:
		f, err := t.frame(x.Frame)
		if err != nil {
			return err
		}
		if f.step == nil {
			return fmt.Errorf("a note of step %q, which is not open", x.Step)
		}
		t.note = x
		t.moment = Moment{What: StepNoted, At: e.At, Run: f.run, Step: f.step, Note: &t.note}
		emit(&t.moment)
	case journal.GateOpened:
		_, err := t.begin(e.At, x.Place, "gate", x.For, true)
		return err
	case journal.GateDecided:
		if x.Outcome != OutcomeRerun {
			return t.end(e.At, x.Place, "", x.Outcome, problem(x.Outcome, x.Error, x.Class, x.Reason), x.Value)
		}
	}
	return nil
}

// How a step is made of frames.
const (
	modeLoop = "loop"
	modeCall = "call"
)

func (t *Trail) send(what What, run *Run, step *Step, outcome, problem string, v journal.Value) {
	t.moment = Moment{What: what, At: t.moment.At, Run: run, Step: step, Outcome: outcome, Error: problem, Value: v}
	t.emit(&t.moment)
}

func (t *Trail) frame(path string) (*frame, error) {
	f := t.frames[path]
	if f == nil {
		return nil, fmt.Errorf("an event of frame %q, which is not open", path)
	}
	return f, nil
}

func (t *Trail) start(at journal.Millis, x *journal.RunStarted) error {
	f := &frame{run: &Run{ID: t.root, Name: x.Name, Began: at}}
	if t.outline != nil {
		o, err := t.outline(x.Definition)
		if err != nil {
			return fmt.Errorf("definition of run %s: %w", t.root, err)
		}
		t.program, f.unit = o, o.units[""]
		f.run.Program = f.unit.program
	}
	t.frames[""] = f
	t.send(RunBegan, f.run, nil, "", "", journal.Value{})
	return nil
}

func (t *Trail) open(at journal.Millis, x *journal.FrameOpened) error {
	parent, err := t.frame(x.Parent)
	if err != nil {
		return err
	}
	if parent.step == nil {
		return fmt.Errorf("frame %q belongs to step %q, which is not open", x.Frame, x.Step)
	}
	f := &frame{run: parent.run, prefix: parent.prefix + x.Step + ".", depth: parent.depth + 1, loop: parent.loop, index: parent.index, block: x.Block, up: parent.step}
	if t.program != nil {
		f.unit = t.program.units[x.Program]
	}
	if parent.each {
		f.loop, f.index = true, x.Index
	}
	t.frames[x.Frame] = f
	if x.Child == "" {
		return nil
	}
	parent.step.Child = x.Child
	t.announce(parent)
	f.run = &Run{ID: x.Child, Parent: parent.run.ID, Name: x.Name, Began: at, At: parent.step}
	if f.unit != nil {
		f.run.Program = f.unit.program
	}
	f.prefix, f.depth, f.loop, f.index = "", 0, false, 0
	t.send(RunBegan, f.run, nil, "", "", journal.Value{})
	return nil
}

// begin opens a step, unless it is open already: a further attempt, or the
// combining at the end of a parallel step, belongs to the same visit.
func (t *Trail) begin(at journal.Millis, place journal.Place, kind, standIn string, announce bool) (*frame, error) {
	f, err := t.frame(place.Frame)
	if err != nil {
		return nil, err
	}
	if f.step == nil {
		f.step = t.step(f, place.Step, kind, at)
		f.step.For = standIn
	}
	if announce {
		t.announce(f)
	}
	return f, nil
}

func (t *Trail) step(f *frame, name, kind string, at journal.Millis) *Step {
	s := &Step{Run: f.run, Name: name, Path: name, Kind: kind, Up: f.up, Depth: f.depth, Loop: f.loop, Index: f.index, Began: at}
	if f.prefix != "" {
		s.Path = f.prefix + name
	}
	if s.Info = f.unit.step(f.block, name); s.Info != nil {
		s.Kind = s.Info.Kind
		s.Call = s.Kind == KindCall
	}
	return s
}

func (t *Trail) announce(f *frame) {
	if !f.step.announced {
		f.step.announced = true
		t.send(StepBegan, f.run, f.step, "", "", journal.Value{})
	}
}

func (t *Trail) left(at journal.Millis, x *journal.StepLeft) error {
	f, err := t.frame(x.Frame)
	if err != nil {
		return err
	}
	if f.step == nil && x.Outcome == OutcomeSkipped && x.Reason == ReasonCondition {
		t.send(StepSkipped, f.run, t.step(f, x.Step, "", at), x.Outcome, "", journal.Value{})
		return nil
	}
	return t.end(at, x.Place, x.For, x.Outcome, problem(x.Outcome, x.Error, x.Class, x.Reason), x.Value)
}

// end closes a step. One that never began, because it could not or because it
// takes no time, begins and ends at once.
func (t *Trail) end(at journal.Millis, place journal.Place, standIn, outcome, problem string, v journal.Value) error {
	f, err := t.begin(at, place, "step", standIn, true)
	if err != nil {
		return err
	}
	step := f.step
	f.step, f.each = nil, false
	if outcome == OutcomeRejected && !v.IsZero() {
		problem = "" // who rejected it, and why, is its result
	}
	t.send(StepEnded, f.run, step, outcome, problem, v)
	return nil
}

// problem says why something did not end well; "" when it did.
func problem(outcome, text, class, reason string) string {
	switch {
	case text != "":
		return text
	case outcome != OutcomeFailed && outcome != OutcomeRejected && outcome != OutcomeCancelled:
		return ""
	case reason != "":
		return outcome + ": " + reason
	case class != "":
		return outcome + ": " + class
	}
	return outcome
}
