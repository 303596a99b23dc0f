package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/xmaps"
)

// Fold applies the events of one or more whole appends. Nothing is left to decide at the end of an append, so no frame
// stays marked.
func (s *State) Fold(events []journal.Event) {
	for i := range events {
		s.Apply(&events[i])
	}
	s.unmarkAll()
}

// unmarkAll makes the next decision look at no frame.
func (s *State) unmarkAll() {
	for _, f := range s.moved {
		f.marked = false
	}
	s.moved = s.moved[:0]
}

// Apply applies one event. It needs no Program: facts contain everything that was decided. Only Apply changes the
// state; deciding goes through it, too. An event that does not follow from the earlier ones makes it panic.
func (s *State) Apply(e *journal.Event) {
	s.Seq, s.At = e.Seq, e.At
	switch x := e.Fact.(type) {
	case journal.TaskStarted:
		s.startTask(&x, e)
	case journal.TaskEnded:
		s.endTask(&x, e.At)
	default:
		s.applyOther(e)
	}
}

// applyOther is the part of Apply for facts that are rarer than once per step. It is separate because its stack frame
// has room for a fact of every type.
func (s *State) applyOther(e *journal.Event) {
	switch x := e.Fact.(type) {
	case journal.RunStarted:
		s.startRun(&x, e.At)
	case journal.RunFinished:
		s.finishRun(x)
	case journal.FrameOpened:
		s.openFrame(&x)
	case journal.FrameClosed:
		s.closeFrame(&x)
	case journal.StepEntered:
		s.enterGroup(&x)
	case journal.StepLeft:
		s.leaveStep(&x)
	case journal.TaskLost:
		s.loseTask(&x, e.At)
	case journal.TaskNoted:
		s.noteTask(&x)
	case journal.Reserved:
		s.reserve(&x)
	case journal.BudgetWait:
		s.waitForBudget(&x)
	case journal.BudgetRefused:
		s.removeWaiter(x.TaskID, x.N)
	case journal.BudgetRaised:
		s.raiseBudget(&x)
	case journal.RetrySet:
		s.setRetry(&x, e.At)
	case journal.TimerFired:
		s.fireTimer(&x)
	case journal.GateOpened:
		s.openGate(&x, e.At)
	case journal.GateApproved:
		g := s.frame(x.Frame).Gate
		g.Approvals = append(g.Approvals, Approval{
			By: x.By, Roles: x.Roles, Note: x.Note, Digest: x.Digest, At: e.At,
		})
	case journal.GateDecided:
		s.decideGate(&x)
	case journal.SignalReceived:
		xmaps.Set(&s.Signals, x.Event, append(s.Signals[x.Event], PendingSignal{Data: x.Data, By: x.By}))
	case journal.CancelRequested:
		s.cancel(&x)
	case journal.CleanupBegun:
		s.startCleanup(&x)
	case journal.Paused:
		s.Paused = true
	case journal.Continued:
		s.Paused = false
		s.MarkAll()
	case journal.StateEdited:
		s.set(s.Root(), journal.Write{Path: x.Path}, x.Value)
	case journal.Rewound:
		s.rewind(&x)
	case journal.ClockJumped:
		s.shiftClocks(x.By)
	case journal.InputRefused, journal.Claimed, journal.Routed:
		// They are for the records only.
	default:
		panic(fmt.Sprintf("plan: a fact of type %T", e.Fact))
	}
}

// startRun creates the frame of the body. A run that continues another one starts at its step instead of at the first.
func (s *State) startRun(x *journal.RunStarted, at journal.Millis) {
	s.Form = SnapshotForm
	s.Name, s.Format, s.Definition, s.Options, s.Started = x.Name, x.Format, x.Definition, x.Options, at
	s.By, s.From, s.Approved = x.By, x.From, slices.Clone(x.Approved)
	root := &Frame{Phase: Beginning, Scope: map[string]journal.Value{}, Ledger: &Ledger{}}
	maps.Copy(root.Scope, x.Vars)
	root.Scope["input"] = x.Input
	if x.Budget != nil {
		root.Ledger.Limits = *x.Budget
	}
	if x.From != nil {
		root.Phase, root.Step = Sent, x.From.Step
	}
	s.Frames = map[string]*Frame{"": root}
	s.mark(root)
}

// finishRun keeps the end of the run and what it has used, and drops everything that only a running run needs.
func (s *State) finishRun(x journal.RunFinished) {
	s.Finished, s.Spent = &x, s.Root().Ledger
	clear(s.Frames)
	s.BudgetWaiters, s.timers, s.moved = nil, nil, nil
}

// enterGroup starts a step that consists of frames.
func (s *State) enterGroup(x *journal.StepEntered) {
	f := s.enterStep(x.Place, x.Via, x.For)
	s.countStep(f)
	s.dropWaiters(f.Path)
	f.Phase, f.Part = Grouped, ""
	f.Group = &Group{Mode: x.Mode, Total: x.Total, Max: x.Max, Items: x.Items, Limit: x.Limit}
	for i, r := range f.Kept {
		f.Group.keep(i, r)
	}
	f.Kept = nil
	s.mark(f)
}

// leaveStep ends a step that is not a task. Such a step may start and end with this one fact.
func (s *State) leaveStep(x *journal.StepLeft) {
	f := s.enterStep(x.Place, x.Via, x.For)
	if f.Phase != Grouped {
		if x.Outcome == journal.OutcomeOK || x.Counts { // it starts and ends at once
			s.countStep(f)
		}
		if x.Outcome == journal.OutcomeFailed && x.Class == ir.ClassBudget {
			xmaps.Set(&f.OutOfBudget, x.Step, true)
		}
	}
	// Writes of branches come before those of the step itself.
	if x.Merge && f.Group != nil {
		s.merge(f)
	}
	for _, w := range x.Writes {
		s.write(f, w, x.Value)
	}
	from := f.jumpedFrom(x)
	s.endStep(f, Ending{
		Outcome: x.Outcome, Class: x.Class, Reason: x.Reason, Error: x.Error, Value: x.Value, To: x.To,
		Status: x.Status,
	})
	if from != nil { // the next step follows the one that jumped, not the loop
		f.Last.Class, f.Last.Error, f.Last.Value, f.Last.Step = from.Class, from.Error, from.Value, from.Step
	}
}

// loseTask stops the clocks of a lost task and charges what it may have used. The next decision reruns it or asks.
func (s *State) loseTask(x *journal.TaskLost, at journal.Millis) {
	f := s.frame(x.Frame)
	if x.Until != 0 { // the time between two processes does not count
		at = x.Until
	}
	s.stopClock(f, at)
	s.release(f, x.Charged)
	f.Phase, f.Policy = Lost, x.Policy
	s.mark(f)
}

// noteTask settles the reservation that a note ends: what was reserved is released, and what was used is charged.
func (s *State) noteTask(x *journal.TaskNoted) {
	f := s.frame(x.Frame)
	f.Notes = x.N
	held := f.Reserved[x.Settles]
	delete(f.Reserved, x.Settles)
	s.ledgers(f, func(_ *Frame, l *Ledger) {
		l.Held = l.Held.Minus(held)
		l.Used = l.Used.Plus(x.Usage)
	})
}

// reserve holds the reserved amount in all budgets that the task counts in, until a note settles it or the task ends.
func (s *State) reserve(x *journal.Reserved) {
	f := s.frame(x.Frame)
	s.removeWaiter(x.TaskID, x.N)
	xmaps.Set(&f.Reserved, x.N, x.Amount)
	s.ledgers(f, func(_ *Frame, l *Ledger) { l.Held = l.Held.Plus(x.Amount) })
}

// waitForBudget queues a reservation of a running task, or a task that cannot start yet (N is 0).
func (s *State) waitForBudget(x *journal.BudgetWait) {
	if x.N == 0 {
		f := s.enterStep(x.Place, x.Via, x.For)
		f.Phase, f.Part, f.Attempt, f.Due = AwaitingBudget, x.Part, x.Attempt, 0
	}
	s.BudgetWaiters = append(s.BudgetWaiters, BudgetWaiter{
		Work: x.TaskID, N: x.N, Amount: x.Amount, Least: x.Least, Budget: x.Budget,
	})
}

// raiseBudget raises a budget of the run. Requests that fit now are granted by the next decision.
func (s *State) raiseBudget(x *journal.BudgetRaised) {
	s.Root().Ledger.raise(x.Budget, x.To)
	s.addTimer(timer{due: s.Root().Ledger.deadline(), limit: true})
	if x.Budget == ir.BudgetDeadline && s.Expired {
		s.Expired = false
		s.MarkAll()
	}
}

// setRetry makes a frame wait for its next attempt, or for the time at which a task that has stopped continues. That
// time counts against the limits of enclosing steps, but not against budgets of active time.
func (s *State) setRetry(x *journal.RetrySet, at journal.Millis) {
	f := s.frame(x.Frame)
	if x.Continues { // the task has stopped and holds no reservation
		s.stopClock(f, at)
		s.release(f, journal.Usage{})
		f.Phase, f.Rerun = Resting, f.Rerun+1
	} else {
		switch f.Phase {
		case Ended: // a step of frames, which had ended
			f.Tried, f.Last = f.Last, f.Before
		case Grouped:
			f.Tried = Ending{Outcome: journal.OutcomeFailed, Class: x.Class, Error: x.Error}
			f.Kept, f.Group = f.Group.Results, nil
			for _, i := range x.Branches {
				delete(f.Kept, i)
			}
		}
		// The next attempt is a new task, even if the last one was rerun.
		f.Phase, f.Attempt, f.Part, f.Rerun, f.Notes = Resting, x.Attempt, x.Part, 0, 0
	}
	// The due time is one of the wall clock; the enclosing steps with a time limit count the wait.
	s.setDue(f, x.Due)
	s.startClocks(f, at)
}

// openGate opens the gate of a step, or one about a task: before a tool call, or because its outcome is unknown.
func (s *State) openGate(x *journal.GateOpened, at journal.Millis) {
	f := s.enterStep(x.Place, x.Via, x.For)
	started := x.Kind != journal.GatePerson && x.Kind != journal.GateEvent // the gate belongs to a task
	if !started && !x.Uncounted {
		s.countStep(f)
	}
	if x.Kind != journal.GateOutcome {
		s.dropWaiters(f.Path)
	}
	f.Phase = Asking
	f.Gate = &Gate{
		Kind: x.Kind, Event: x.Event, Digest: x.Digest, Opened: at, Due: x.Due, Escalates: x.Escalates,
	}
	if x.Kind == journal.GatePerson {
		f.Gate.Paths = slices.Sorted(maps.Keys(x.Shows))
		s.forgetApproval(f) // the gate opens again
	}
	if x.Kind == journal.GateToolCall { // the task has stopped and holds no reservation
		s.stopClock(f, at)
		s.release(f, journal.Usage{})
		f.Gate.Call, f.Gate.Shows = x.Call, x.Shows
	}
	s.setDue(f, f.Gate.nextDue())
}

// nextDue returns when the next timer of a gate fires; 0 is never.
func (g *Gate) nextDue() journal.Millis {
	if g.Escalates == 0 || g.Escalated || g.Due != 0 && g.Due <= g.Escalates {
		return g.Due
	}
	return g.Escalates
}

// decideGate closes a gate. The step ends, or its task runs again.
func (s *State) decideGate(x *journal.GateDecided) {
	f := s.frame(x.Frame)
	// A gate that waits for an event consumes the oldest signal. A signal that approves in place of a person arrived
	// while the gate was open, and is not kept.
	if waiting := s.Signals[x.Event]; len(waiting) > 0 && f.Gate.Kind == journal.GateEvent {
		if s.Signals[x.Event] = waiting[1:]; len(waiting) == 1 {
			delete(s.Signals, x.Event)
		}
	}
	if x.Outcome == journal.OutcomeOK {
		s.keepApproval(f)
	}
	f.Gate, f.Due = nil, 0
	if x.Outcome == journal.OutcomeRerun {
		f.Phase, f.Rerun = Ready, f.Rerun+1
		s.mark(f)
		return
	}
	for _, w := range x.Writes {
		s.write(f, w, x.Value)
	}
	s.endStep(f, Ending{Outcome: x.Outcome, Reason: x.Reason, Class: x.Class, Error: x.Error, Value: x.Value})
}

// startCleanup lets a canceled frame run its cleanup step as if it were not canceled.
func (s *State) startCleanup(x *journal.CleanupBegun) {
	f := s.frame(x.Frame)
	f.Canceled, f.Cleaning, f.Phase, f.Step = false, true, Sent, x.Step
	s.Paused = s.Paused && x.Frame != "" && !s.Root().Canceled // a canceled run does not stay paused
	s.mark(f)
}

// startTask starts the first attempt of a task, a further one, or the rerun of a lost one, which keeps its notes.
func (s *State) startTask(x *journal.TaskStarted, e *journal.Event) {
	f := s.enterStep(x.Place, x.Via, x.For)
	if x.Rerun == 0 {
		f.Notes, f.Begun = 0, e.Seq
	}
	f.Phase, f.Part, f.Attempt, f.Rerun, f.Due = Working, x.Part, x.Attempt, x.Rerun, 0
	s.removeWaiter(x.TaskID, 0)
	s.Open++
	if counts(x.TaskID, x.Rerun) {
		s.countStep(f)
	}
	// The clocks run, so the time at which they reach their limits is known: set timers for it.
	s.ledgers(f, func(owner *Frame, l *Ledger) {
		l.start(e.At)
		s.addTimer(timer{due: l.deadline(), path: owner.Path, limit: true})
	})
	s.startClocks(f, e.At)
}

// endTask ends an attempt at a task. After the last one, the step ends.
func (s *State) endTask(x *journal.TaskEnded, at journal.Millis) {
	f := s.frame(x.Frame)
	s.stopClock(f, at)
	s.release(f, x.Usage)
	for _, w := range x.Writes {
		s.write(f, w, x.Value)
	}
	if !x.Final { // another attempt follows; the frames of the step stay
		f.Phase, f.Tried = Resting, Ending{Outcome: x.Outcome, Class: x.Class, Error: x.Error}
		return
	}
	s.endStep(f, Ending{Outcome: x.Outcome, Class: x.Class, Error: x.Error, Value: x.Value})
}

// frame returns an open frame, and panics if there is none: then the journal is damaged.
func (s *State) frame(path string) *Frame {
	f := s.Frames[path]
	if f == nil {
		panic(fmt.Sprintf("plan: the journal names frame %q, which is not open", path))
	}
	return f
}

// enterStep moves a frame to a step. via is the limited edge that led there, or nil; standIn is the step that it
// replaces, or empty.
func (s *State) enterStep(at journal.Place, via *int, standIn string) *Frame {
	f := s.frame(at.Frame)
	if via != nil {
		key := f.edgeTaken(*via)
		xmaps.Set(&f.Taken, key, f.Taken[key]+1)
	}
	// Another attempt at the same visit keeps its numbers.
	if at.Step != f.Step || at.Visit != f.Visit {
		f.Part, f.Attempt, f.Rerun = "", 0, 0
	}
	// A chain of fallbacks: the first one replaces the step in For, each later one also the fallback before it.
	skipped := f.Last.Outcome == journal.OutcomeSkipped
	switch {
	case standIn != f.For || standIn == "":
		f.Passed, f.Fallbacks = standIn != "" && skipped, nil
	case at.Step != f.Step:
		f.Fallbacks = append(f.Fallbacks, Fallback{Step: f.Step, Passed: skipped})
	}
	f.Step, f.Visit, f.For = at.Step, at.Visit, standIn
	if at.Visit > 0 {
		xmaps.Set(&f.Visits, at.Step, at.Visit)
	}
	return f
}

// jumpedFrom returns the failed ending whose jump left the loop, or nil.
func (f *Frame) jumpedFrom(x *journal.StepLeft) *Ending {
	if x.Outcome != journal.OutcomeJump || f.Group == nil || f.Group.Results[0] == nil ||
		!f.Group.Results[0].failing() {
		return nil
	}
	return &f.Group.Results[0].Ending
}

// edgeTaken returns the key of a limited edge of the current step. A negative number is an edge of a step that the
// current one replaces, as replacedVia encodes it.
func (f *Frame) edgeTaken(via int) string {
	if via >= 0 {
		return edgeKey(f.Step, via)
	}
	edge, nth := (-1-via)/(1+len(f.Fallbacks)), (-1-via)%(1+len(f.Fallbacks))
	if nth == 0 {
		return edgeKey(f.For, edge)
	}
	return edgeKey(f.Fallbacks[nth-1].Step, edge)
}

// replacedVia encodes an edge of a step that the current one replaces: of For if nth is 0, else of the nth of
// Fallbacks.
func (f *Frame) replacedVia(nth, edge int) int { return -1 - (edge*(1+len(f.Fallbacks)) + nth) }

// edgeKey names an edge of a step in Frame.Taken, which snapshots contain.
func edgeKey(step string, edge int) string { return fmt.Sprintf("%s>%d", step, edge) }

// endStep ends the current step of a frame.
func (s *State) endStep(f *Frame, end Ending) {
	if f.Phase == Resting && f.Due != 0 {
		s.rested(f)
	}
	f.Phase, f.Group, f.Gate, f.Due, f.Kept = Ended, nil, nil, 0, nil
	s.dropWaiters(f.Path)
	// A rejection counts until a later step succeeds.
	if f.Part == "" && end.Outcome == journal.OutcomeOK {
		s.top(f).Refused = ""
	}
	if end.Outcome == journal.OutcomeRejected {
		s.top(f).Refused = f.Step
	}
	end.Step = f.Step
	f.Before, f.Last, f.Tried, f.Policy = f.Last, end, Ending{}, ""
	s.mark(f)
}

// openFrame opens a branch, an iteration or the body of a child below the current step of a frame.
func (s *State) openFrame(x *journal.FrameOpened) {
	parent := s.frame(x.Parent)
	f := &Frame{
		Path: x.Frame, Parent: x.Parent, Program: x.Program, Block: ir.BlockID(x.Block), Index: x.Index, Name: x.Name,
		Child: x.Child, Phase: Beginning, Apart: parent.Group.Mode == ModeParallel,
	}
	if len(x.Vars) > 0 {
		f.Scope = maps.Clone(x.Vars)
	}
	if parent.Group.Mode != ModeCall {
		f.Own = slices.Sorted(maps.Keys(x.Vars))
	}
	if parent.Group.Mode != ModeLoop { // branches and children have a ledger of their own
		f.Ledger = &Ledger{}
		if x.Budget != nil {
			f.Ledger.Limits = *x.Budget
		}
	}
	s.Frames[x.Frame] = f
	parent.Group.Live++
	parent.Group.Next = max(parent.Group.Next, x.Index+1)
	s.mark(f)
}

// closeFrame keeps the result of a frame in the group that it belongs to, and removes the frame.
func (s *State) closeFrame(x *journal.FrameClosed) {
	f := s.frame(x.Frame)
	parent := s.frame(f.Parent)
	g := parent.Group
	g.Live--
	end := Ending{
		Outcome: x.Outcome, Class: x.Class, Reason: x.Reason, Error: x.Error, Value: x.Value, To: x.To,
		Status: x.Status, Step: x.Step,
	}
	// A loop or a call keeps only its last result, under 0.
	result := &BranchResult{Name: f.Name, Ending: end, Child: f.Child}
	if f.Ledger != nil {
		result.Used = f.Ledger.Used
	}
	at := 0
	switch g.Mode {
	case ModeLoop:
		// An iteration that ends writes its variables, except its own, into the enclosing scope.
		s.setAll(parent, f.Scope, f.Own)
	case ModeParallel:
		for _, key := range f.Own {
			delete(f.Scope, key)
		}
		at, result.Scope = f.Index, f.Scope
	}
	g.keep(at, result)
	delete(s.Frames, x.Frame)
	s.dropWaiters(x.Frame)
	s.mark(parent)
}

// keep stores the result of a branch and counts its outcome.
func (g *Group) keep(at int, r *BranchResult) {
	switch r.Outcome {
	case journal.OutcomeFailed:
		g.Failed++
	case journal.OutcomeRejected:
		g.Rejected++
	case journal.OutcomeCanceled, journal.OutcomeSkipped:
	default:
		g.OK++
	}
	xmaps.Set(&g.Results, at, r)
}

// merge applies the writes of branches to the enclosing scope in branch order. Writes of canceled branches never
// replace those of the others.
func (s *State) merge(f *Frame) {
	for _, canceled := range []bool{true, false} {
		for i := range f.Group.Next {
			if r := f.Group.Results[i]; r != nil && (r.Outcome == journal.OutcomeCanceled) == canceled {
				s.setAll(f, r.Scope, nil)
			}
		}
	}
}

// stopClock stops the active time of a task and of the steps around it.
func (s *State) stopClock(f *Frame, at journal.Millis) {
	s.Open--
	s.ledgers(f, func(_ *Frame, l *Ledger) { l.stop(at) })
	s.stopClocks(f, at)
}

// rested ends the time that a frame waits for its next attempt. Time after Due does not count: no process was running.
func (s *State) rested(f *Frame) { s.stopClocks(f, min(s.At, f.Due)) }

// release ends all reservations of a frame's task and charges the usage that no note has settled.
func (s *State) release(f *Frame, used journal.Usage) {
	var held journal.Usage
	for _, amount := range f.Reserved {
		held = held.Plus(amount)
	}
	f.Reserved = nil
	s.ledgers(f, func(_ *Frame, l *Ledger) {
		l.Held = l.Held.Minus(held)
		l.Used = l.Used.Plus(used)
	})
	s.dropWaiters(f.Path)
}

// removeWaiter removes a reservation, or the start of a task (n is 0), from the queue for budget.
func (s *State) removeWaiter(w journal.TaskID, n int) {
	s.dropWaitersIf(func(one BudgetWaiter) bool { return one.N == n && one.Work == w })
}

// dropWaiters removes everything of a frame from the queue for budget.
func (s *State) dropWaiters(frame string) {
	s.dropWaitersIf(func(one BudgetWaiter) bool { return one.Work.Frame == frame })
}

// dropWaitersIf removes requests from the queue for budget. An empty queue is nil, as it is after a snapshot.
func (s *State) dropWaitersIf(drop func(BudgetWaiter) bool) {
	if s.BudgetWaiters = slices.DeleteFunc(s.BudgetWaiters, drop); len(s.BudgetWaiters) == 0 {
		s.BudgetWaiters = nil
	}
}

// fireTimer records that a time has come. The next decision acts on it.
func (s *State) fireTimer(x *journal.TimerFired) {
	switch x.What {
	case TimerRetry:
		f := s.frame(x.Frame)
		s.rested(f)
		f.Phase, f.Due = Ready, 0
		s.mark(f)
	case TimerGate:
		f := s.frame(x.Frame)
		f.Phase, f.Due = Overdue, 0
		s.mark(f)
	case TimerEscalation:
		f := s.frame(x.Frame)
		f.Gate.Escalated = true
		s.setDue(f, f.Gate.nextDue())
	case TimerLimit:
		s.frame(x.Frame).Group.TimedOut = true
	case TimerDeadline:
		s.Expired = s.Expired || x.Run
	}
}

// cancel marks frames as canceled: all of the run if Frame is empty, or a frame and those below it, or only those
// below.
func (s *State) cancel(x *journal.CancelRequested) {
	if x.Below {
		s.frame(x.Frame).Group.Stopped = true
	}
	prefix := x.Frame + "/"
	for _, path := range s.paths() {
		if path == x.Frame && x.Below || path != x.Frame && x.Frame != "" && !strings.HasPrefix(path, prefix) {
			continue
		}
		f := s.Frames[path]
		f.Canceled = true
		if path == x.Frame && x.Failed {
			f.FailedBy = x.Reason
		}
		s.mark(f)
	}
}
