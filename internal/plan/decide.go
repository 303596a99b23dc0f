package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
)

// Start starts a run, with edits of its variables before the first step. With hold, no task starts.
func Start(
	p *Program, run journal.RunID, start journal.RunStarted, now journal.Millis, hold bool, edits ...Edit,
) (*State, []journal.Event) {
	s := &State{Run: run, Hold: hold}
	d := &decider{s: s, p: p, now: now}
	d.fact(nil, start)
	for _, edit := range edits {
		d.fact(nil, journal.StateEdited{Path: edit.Path, Value: journal.Value{JSON: edit.Value}, By: edit.By})
	}
	d.decideAll()
	for !d.full() && d.fireTimers() {
		d.decideAll()
	}
	return s, d.out
}

// Decide turns inputs, and timers that are due by now, into events, which belong into one append. It changes the state:
// if the append fails, discard the state.
func (s *State) Decide(p *Program, now journal.Millis, in ...Input) []journal.Event {
	s.cut = false
	d := &decider{s: s, p: p, now: now}
	for i, one := range in {
		if s.Finished != nil {
			break
		}
		if err := s.Check(p, one); err != nil {
			d.refuse(one, err)
			continue
		}
		one.accept(d)
		if _, lost := one.(TaskLost); lost && i+1 < len(in) {
			// Tasks of one process are lost together: a task that is rerun before the others are lost would keep the
			// clock running.
			if _, lost := in[i+1].(TaskLost); lost {
				continue
			}
		}
		d.decideAll()
	}
	d.decideAll()
	for !d.full() && d.fireTimers() {
		d.decideAll() // which may set a timer that is due at once
	}
	return d.out
}

// maxFacts bounds the facts of one decision, approximately. Nested loops without tasks could otherwise fill the
// memory.
const maxFacts = 10_000

// full reports whether the decision has to stop. The next one goes on where it stopped.
func (d *decider) full() bool { return len(d.out) >= maxFacts }

// Moving reports whether the last decision stopped at maxFacts facts: the next one continues without any input.
func (s *State) Moving() bool { return s.cut && s.Finished == nil }

// decider makes one decision. It applies each fact as soon as it is decided, so that what follows sees its effect; out
// has the facts in that order.
type decider struct {
	s   *State
	p   *Program
	now journal.Millis
	out []journal.Event
}

// fact adds an event to the batch and applies it. The times of events never decrease, even if the clock does. f says
// which child run the event belongs to; nil is the run itself. Apply may close f or change its phase.
func (d *decider) fact(f *Frame, fact journal.Fact) {
	e := journal.Event{Seq: d.s.Seq + 1, At: max(d.now, d.s.At), Run: d.s.RunOf(f), Fact: fact}
	if d.out == nil {
		d.out = make([]journal.Event, 0, 4) // most steps need two
	}
	d.out = append(d.out, e)
	d.s.Apply(&d.out[len(d.out)-1])
}

// decideAll decides until no frame has anything left to decide, or the decision is full. Frames are decided in the
// order in which they were marked, which depends on the facts alone, so that every replay decides the same.
func (d *decider) decideAll() {
	for {
		for len(d.s.moved) > 0 {
			queue := d.s.moved
			d.s.moved = nil
			for i, f := range queue {
				// Stop between two frames. Those that are left stay marked, and the next decision starts with them.
				if d.full() {
					d.s.moved = append(queue[i:], d.s.moved...)
					d.s.cut = true
					return
				}
				f.marked = false
				// An earlier frame of the queue may have closed this one, and even opened another one at its path.
				if d.s.Finished == nil && d.s.Frames[f.Path] == f {
					d.decideFrame(f)
				}
			}
		}
		if d.s.Finished != nil || !d.grantPending() {
			return
		}
	}
}

// decideFrame decides what follows from the phase of one frame.
func (d *decider) decideFrame(f *Frame) {
	if f.Canceled {
		d.closeCanceled(f)
		return
	}
	// Frames keep their phase while the run is paused or out of time; Continued and BudgetRaised mark all of them
	// again.
	if d.s.Paused || d.s.Expired {
		return
	}
	switch f.Phase {
	case Beginning:
		d.enter(f, d.block(f).Steps[0].ID, nil, "")
	case Sent:
		d.enter(f, f.Step, nil, "")
	case Ready:
		d.retry(f)
	case Lost:
		d.recoverTask(f)
	case Overdue:
		d.timeOutGate(f)
	case Grouped:
		d.decideGroup(f)
	case Ended:
		d.chooseNext(f)
	}
}

func (d *decider) unit(f *Frame) *unit      { return d.p.unit(f.Program) }
func (d *decider) block(f *Frame) *ir.Block { return &d.unit(f).ir.Blocks[f.Block] }
func (d *decider) step(f *Frame) *ir.Step   { return d.unit(f).step(f.Block, f.Step) }
func (d *decider) scope(f *Frame) *scope    { return &scope{s: d.s, p: d.p, f: f} }

// evalBool evaluates a condition.
func (d *decider) evalBool(e *expr.Expr, sc *scope) (bool, error) {
	ok, err := e.Bool(sc)
	if sc.err != nil {
		return false, sc.err
	}
	return ok, err
}

// eval evaluates an expression. An error of reading a value takes precedence: it explains why the expression failed.
func (d *decider) eval(e *expr.Expr, sc *scope) (any, error) {
	v, err := e.Eval(sc)
	if sc.err != nil {
		return nil, sc.err
	}
	return v, err
}

// enter enters a step of the frame's block. via is the limited edge that led there, or nil; standIn is the step that it
// replaces, or "".
func (d *decider) enter(f *Frame, id string, via *int, standIn string) {
	u := d.unit(f)
	step := u.step(f.Block, id)
	at := journal.Place{Frame: f.Path, Step: id}
	if step == nil {
		d.close(f, noSuchStep(f.Step, id))
		return
	}
	// Only steps that can be reached again have visits: keys of other steps stay short.
	if u.again[f.Block][id] || f.Rewound {
		at.Visit = f.Visits[id] + 1
		if at.Visit > ir.VisitCap && !d.s.stepsBound(f) {
			over := fmt.Sprintf(
				"step %q has been reached %d times, which is the most where no budget bounds the steps", id,
				ir.VisitCap,
			)
			if at.Visit > ir.VisitCap+1 { // the edge for failures leads back here
				d.close(f, Ending{Outcome: journal.OutcomeFailed, Class: ir.ClassBudget, Error: over, Step: id})
				return
			}
			d.fail(f, at, via, standIn, ir.ClassBudget, over)
			return
		}
	}
	// The condition comes before budgets: a step that is skipped costs nothing.
	if step.When != nil {
		ok, err := d.evalBool(step.When, d.scope(f))
		if err != nil {
			d.fail(f, at, via, standIn, ir.ClassCondition, err.Error())
			return
		}
		if !ok {
			d.leave(f, journal.StepLeft{
				Place: at, Outcome: journal.OutcomeSkipped, Reason: ReasonCondition, Via: via, For: standIn,
			})
			return
		}
	}
	d.startStep(f, step, journal.TaskID{Place: at}, via, standIn)
}

// oneStep is the cost of starting a step.
var oneStep = journal.Usage{Steps: 1}

// startStep starts a step after its condition, if there is budget for it.
func (d *decider) startStep(f *Frame, step *ir.Step, w journal.TaskID, via *int, standIn string) {
	at := w.Place
	if task, part := opensWith(step); task {
		w.Part = part
		d.startTask(f, w, 0, via, standIn)
		return
	}
	// The budget of the run can be raised, so the step waits. That of a branch or a child cannot, so the step fails.
	if budget, owner, _ := d.s.short(f, oneStep); budget != "" && !step.Uncounted {
		if owner.Path != "" {
			d.noBudget(f, at, budget, via, standIn)
			return
		}
		d.fact(f, journal.BudgetWait{TaskID: w, Amount: oneStep, Budget: budget, Via: via, For: standIn})
		return
	}
	limit, err := d.limit(f, step)
	if err != nil {
		d.fail(f, at, via, standIn, ir.ClassInput, err.Error())
		return
	}
	entered := journal.StepEntered{Place: at, Limit: limit, Via: via, For: standIn}
	// Routes, gates and ends take effect with one fact; the others open frames, which the next decisions fill.
	switch a := step.Action.(type) {
	case ir.Route:
		left := journal.StepLeft{Place: at, Outcome: journal.OutcomeOK, Via: via, For: standIn}
		if class, err := d.deadEnd(f, step); err != nil {
			left.Outcome, left.Class, left.Error = journal.OutcomeFailed, ir.ClassCondition, err.Error()
		} else if class != "" {
			left.Outcome, left.Class, left.Reason = journal.OutcomeFailed, class, string(class)
			left.Error, left.Counts = fmt.Sprintf("no edge of step %q matches", step.ID), true
		}
		d.leave(f, left)
	case ir.Gate:
		d.enterGate(f, at, step, &a, via, standIn)
	case ir.End:
		d.enterEnd(f, at, step, &a, via, standIn)
	case ir.Parallel:
		entered.Mode, entered.Total = ModeParallel, len(a.Branches)
		d.enterFrames(f, entered, a.Each, nil)
	case ir.Loop:
		entered.Mode, entered.Max = ModeLoop, a.Max
		d.enterFrames(f, entered, a.Each, a.MaxExpr)
	case ir.Call:
		entered.Mode, entered.Total = ModeCall, 1
		d.fact(f, entered)
	}
}

// opensWith reports whether a step starts with a task, and which part of its work that is.
func opensWith(step *ir.Step) (task bool, part string) {
	switch a := step.Action.(type) {
	case ir.Task:
		return true, ""
	case ir.Gate:
		return a.Decider == ir.Work, PartVerdict
	case ir.End:
		return a.Work != nil, PartWork
	}
	return false, ""
}

// deadEnd returns the class of a route that leads to an exit marked as a failure, "" if it leads elsewhere. Then the
// route itself fails. Only the edges of the route count, also if it replaces a step whose edges choose tries as well.
func (d *decider) deadEnd(f *Frame, step *ir.Step) (class ir.Class, err error) {
	sc := d.scope(f)
	// The edges that choose will try, in the same order, unless the route replaces a step.
	for i := range step.Next {
		e := &step.Next[i]
		if !slices.Contains(e.On, ir.OK) || e.Limit > 0 && f.Taken[edgeKey(step.ID, i)] >= e.Limit {
			continue
		}
		if e.When != nil {
			ok, err := d.evalBool(e.When, sc)
			if err != nil {
				return "", err
			}
			if !ok {
				continue
			}
		}
		if e.To.Exit == ir.ExitFail {
			return ir.Class(e.To.Reason), nil
		}
		return "", nil
	}
	return "", nil
}

// enterEnd ends a program. If it succeeds, its result may be computed from that of the previous step.
func (d *decider) enterEnd(f *Frame, at journal.Place, step *ir.Step, a *ir.End, via *int, standIn string) {
	left := journal.StepLeft{Place: at, Outcome: journal.OutcomeOK, Via: via, For: standIn}
	if step.Result != nil && !a.Failed {
		v, err := d.result(f, step, journal.OutcomeOK, f.Last.Value, failing{})
		if err != nil {
			left.Outcome, left.Class, left.Error = journal.OutcomeFailed, ir.ClassCondition, err.Error()
		} else {
			left.Value, left.Writes = v, d.writes(f, step)
		}
	}
	if a.Failed && a.MessageExpr != nil { // evaluated while the previous step is still the last one
		v, err := d.eval(a.MessageExpr, d.scope(f))
		if left.Error, _ = v.(string); err != nil {
			left.Error = fmt.Sprintf("%s (the message could not be filled in: %v)", a.Message, err)
		}
	}
	d.leave(f, left)
}

// The parts of a step's work that are separate tasks.
const (
	PartVerdict = "verdict" // of a gate that a task decides
	PartCombine = "combine" // of a parallel step, or of a call that postprocesses the child's result
	PartWork    = "work"    // of an end step
)

// ReasonCondition is the reason of a skipped step: its condition was false.
const ReasonCondition = "SKIPPED_CONDITION"

// ReasonUndecided is the reason of an iteration after which the loop's break condition could not be evaluated. The loop
// continues.
const ReasonUndecided = "UNDECIDED"

// TaskOf returns the task of a frame's current step.
func (s *State) TaskOf(p *Program, f *Frame) *ir.Task { return s.StepOf(p, f).Task() }

// startTask starts a task, if there is time and budget for it.
func (d *decider) startTask(f *Frame, w journal.TaskID, rerun int, via *int, standIn string) {
	step := d.unit(f).step(f.Block, w.Step)
	if d.s.Holds(d.p, step.Task()) {
		return // the frame keeps its phase: the process that continues decides the same
	}
	// Time first: without time left, budget is of no use. As with budgets, only the deadline of the run can be raised.
	if spent := d.s.outOfTime(f); spent != nil {
		if spent.Path != "" {
			d.fail(f, w.Place, via, standIn, ir.ClassTimeout, "deadline exceeded before the step started")
			return
		}
		// The frame keeps its phase and continues when the deadline is raised.
		d.fact(f, journal.TimerFired{Place: f.Place(), What: TimerDeadline, Run: true})
		return
	}
	if spent := d.s.timedOutStep(f); spent != nil && spent != f {
		d.timeOutGroup(spent)
		return
	}
	if counts(w, rerun) {
		if budget, at, _ := d.s.short(f, oneStep); budget != "" {
			if at.Path != "" {
				d.noBudget(f, w.Place, budget, via, standIn)
				return
			}
			d.fact(f, journal.BudgetWait{TaskID: w, Amount: oneStep, Budget: budget, Via: via, For: standIn})
			return
		}
	}
	missing := d.s.missing(d.p, f, step)
	d.fact(f, journal.TaskStarted{
		TaskID: w, Kind: step.Task().Kind, Rerun: rerun, Via: via, For: standIn, MissingReads: missing,
	})
}

// noBudget fails a step because the budget of its branch or child is exhausted.
// The failure may lead on to other steps, but not around in a cycle: no step of it
// can run anymore.
func (d *decider) noBudget(f *Frame, at journal.Place, budget string, via *int, standIn string) {
	why := fmt.Sprintf("the budget of %s is exhausted", budget)
	if f.OutOfBudget[at.Step] || d.inEndlessLoop(f) {
		d.close(f, Ending{Outcome: journal.OutcomeFailed, Class: ir.ClassBudget, Error: why, Step: at.Step})
		return
	}
	d.fail(f, at, via, standIn, ir.ClassBudget, why)
}

// inEndlessLoop reports whether a frame is an iteration of a loop that has no
// limit of its own.
func (d *decider) inEndlessLoop(f *Frame) bool {
	if f.Path == "" || f.Child != "" || f.Apart {
		return false
	}
	loop, ok := d.step(d.s.Frames[f.Parent]).Action.(ir.Loop)
	return ok && loop.Max == 0 && loop.MaxExpr == nil && loop.Each == nil
}

// enterGate opens a gate that a person or an event decides. For a person, the digest of what the gate shows is stored
// with it; a decision has to name the digest, so that it is about what the person has seen.
func (d *decider) enterGate(f *Frame, at journal.Place, step *ir.Step, g *ir.Gate, via *int, standIn string) {
	kind := journal.GatePerson
	if g.Decider == ir.Event {
		kind = journal.GateEvent
	}
	opened := journal.GateOpened{
		Place: at, Kind: kind, Event: g.Event, Uncounted: step.Uncounted, Via: via, For: standIn,
	}
	if g.Timeout > 0 {
		opened.Due = d.now + journal.Millis(g.Timeout)
	}
	if kind == journal.GatePerson {
		reads, digest := d.s.shown(d.p, f, step, journal.TaskID{Place: at}.Key(), kind)
		opened.Shows, opened.Digest = d.s.shows(f, reads), digest
		if a := g.Approvers; a != nil && a.EscalateAfter > 0 {
			opened.Escalates = d.now + journal.Millis(a.EscalateAfter)
		}
	}
	// A signal may have arrived before the gate opened; it decides the gate at once.
	d.fact(f, opened)
	if waiting := d.s.Signals[g.Event]; kind == journal.GateEvent && len(waiting) > 0 {
		d.signalGate(f, &Signal{Event: g.Event, Data: waiting[0].Data, By: waiting[0].By})
	}
}

// limit returns the time limit of a step of frames. StepEntered stores it, so that it is evaluated once per attempt.
func (d *decider) limit(f *Frame, step *ir.Step) (journal.Millis, error) {
	if step.TimeoutExpr == nil {
		return journal.Millis(step.Timeout), nil
	}
	v, err := d.eval(step.TimeoutExpr, d.scope(f))
	if err != nil {
		return 0, fmt.Errorf("the timeout of step %q: %w", step.ID, err)
	}
	text, ok := v.(string)
	if !ok {
		text = string(mustJSON(v))
	}
	limit, err := step.ParseTimeout(text)
	return journal.Millis(limit), err
}

// fail ends a step that cannot start.
func (d *decider) fail(f *Frame, at journal.Place, via *int, standIn string, class ir.Class, why string) {
	d.leave(f, journal.StepLeft{
		Place: at, Outcome: journal.OutcomeFailed, Class: class, Error: why, Via: via, For: standIn,
	})
}

// enterFrames starts a step of frames over the items of a list, or with a limit that is an expression, if it has these.
func (d *decider) enterFrames(f *Frame, entered journal.StepEntered, each *ir.Each, limit *expr.Expr) {
	if each != nil {
		items, err := d.items(f, each)
		if err != nil {
			d.fail(f, entered.Place, entered.Via, entered.For, ir.ClassCondition, err.Error())
			return
		}
		entered.Total, entered.Items = len(items), journal.Value{JSON: mustJSON(items)}
	}
	if limit != nil {
		v, err := d.eval(limit, d.scope(f))
		n, ok := v.(float64)
		if err == nil && (!ok || n != float64(int(n)) || n < 1) {
			err = fmt.Errorf("the limit of the loop is %s, not a whole number from 1", mustJSON(v))
		}
		if err == nil && entered.Max > 0 && int(n) > entered.Max {
			err = fmt.Errorf("the limit of the loop is %d, and %d is the most that it can be", int(n), entered.Max)
		}
		if err != nil {
			d.fail(f, entered.Place, entered.Via, entered.For, ir.ClassCondition, err.Error())
			return
		}
		entered.Max = int(n)
	}
	d.fact(f, entered)
}

// items evaluates the list that a step iterates over. A missing value is an empty list.
func (d *decider) items(f *Frame, each *ir.Each) ([]any, error) {
	v, err := d.eval(each.Items, d.scope(f))
	if err != nil {
		return nil, err
	}
	items, ok := v.([]any)
	if !ok && v != nil {
		return nil, fmt.Errorf("%q is not a list", each.Items.Text)
	}
	return items, nil
}

// chooseNext chooses what follows a step that has ended. In this order: an ending of the program or a jump; another
// attempt; a fallback; the conversion of a failure into a skip; the end of the program or of the block; and then the
// edges.
func (d *decider) chooseNext(f *Frame) {
	step, end := d.step(f), f.Last
	end.Step = f.Step
	switch end.Outcome {
	case journal.OutcomeEnd, journal.OutcomeCanceled:
		d.close(f, end)
		return
	case journal.OutcomeJump:
		d.jump(f, end.To, nil)
		return
	}
	if d.retryGroup(f, step) {
		return
	}
	if _, call := step.Action.(ir.Call); call {
		end.Status = 0 // the child's status; retryGroup has used it
	}
	outcome := ir.Outcome(end.Outcome)
	passedOver := outcome == ir.Skipped && end.Reason == ReasonCondition
	recovers := !stopsAtTimeout(step) // a gate's timeout has its own setting
	if step.Fallback != nil && (outcome == ir.Failed && recovers || passedOver) {
		primary := cmp.Or(f.For, f.Step)
		d.enter(f, step.Fallback.Name, nil, primary)
		return
	}
	if outcome == ir.Failed && step.SkipOnError && recovers {
		outcome = ir.Skipped
	}
	if outcome == ir.OK {
		if a, isEnd := step.Action.(ir.End); isEnd {
			d.close(f, d.ending(f, step, &a))
			return
		}
		if step.StopWhen != nil {
			stop, err := d.evalBool(step.StopWhen, d.scope(f))
			if err != nil {
				d.close(f, conditionFailed(f.Step, err))
				return
			}
			if stop {
				d.close(f, Ending{Outcome: journal.OutcomeEnd, Step: f.Step})
				return
			}
		}
	}
	// No edge and no exit close the block.
	edge, via, err := d.choose(f, step, outcome)
	switch {
	case err != nil:
		d.close(f, conditionFailed(f.Step, err))
	case edge == nil:
		if outcome == ir.OK || outcome == ir.Skipped { // the reason of a step is not that of its block
			end.Outcome, end.Reason, end.Class, end.Error = journal.OutcomeOK, "", "", ""
		}
		d.close(f, end)
	case edge.To.Step != "":
		d.jump(f, edge.To.Step, via)
	case edge.To.Exit == ir.ExitLoop:
		d.close(f, Ending{Outcome: journal.OutcomeBreak, Value: end.Value, Step: f.Step})
	case edge.To.Exit == ir.ExitFail:
		d.close(f, Ending{
			Outcome: journal.OutcomeFailed, Class: ir.Class(edge.To.Reason), Reason: edge.To.Reason, Step: f.Step,
			Error: fmt.Sprintf("step %q has no matching transition", f.Step),
		})
	default:
		d.close(f, Ending{Outcome: journal.OutcomeOK, Reason: edge.To.Reason, Value: end.Value, Step: f.Step})
	}
}

// stopsAtTimeout reports whether a gate's timeout must fail the step.
func stopsAtTimeout(step *ir.Step) bool {
	g, ok := step.Action.(ir.Gate)
	return ok && g.Decider != ir.Work && (g.OnTimeout == ir.TimeoutFail || g.OnTimeout == ir.TimeoutNotify)
}

// choose returns the first edge that matches, and where its passages are counted if they are limited. A step that
// replaces others follows its own jumps first, then the jumps of the fallbacks that it replaces, the last one first,
// and then the edges of the step in For. If it succeeds, it follows the edges for Skipped of a step that was skipped.
func (d *decider) choose(f *Frame, step *ir.Step, outcome ir.Outcome) (*ir.Edge, *int, error) {
	c := edgeChoice{d: d, frame: f, scope: d.scope(f)}
	err := c.choose(step, outcome)
	if len(c.tried) > 0 { // also when a condition failed: records show which one
		d.fact(f, journal.Routed{Place: f.Place(), Tried: c.tried})
	}
	return c.edge, c.via, err
}

// An edgeChoice looks for the edge by which a frame goes on.
type edgeChoice struct {
	d     *decider
	frame *Frame
	scope *scope
	tried []journal.Tried // the conditions that were evaluated

	edge *ir.Edge // nil until one matches
	via  *int     // key of its passages in Frame.Taken; nil if they are not limited
}

func (c *edgeChoice) choose(step *ir.Step, outcome ir.Outcome) error {
	d, f := c.d, c.frame
	if f.For == "" {
		return c.try("", 0, step.Next, outcome, false)
	}
	if err := c.try("", 0, step.Next, outcome, true); c.edge != nil || err != nil {
		return err
	}
	for i, fallback := range slices.Backward(f.Fallbacks) {
		ended := outcome
		if fallback.Passed && outcome == ir.OK {
			ended = ir.Skipped
		}
		edges := d.unit(f).step(f.Block, fallback.Step).Next
		if err := c.try(fallback.Step, i+1, edges, ended, true); c.edge != nil || err != nil {
			return err
		}
	}
	primary := d.unit(f).step(f.Block, f.For).Next
	if f.Passed && outcome == ir.OK {
		if err := c.try(f.For, 0, primary, ir.Skipped, false); c.edge != nil || err != nil {
			return err
		}
	}
	return c.try(f.For, 0, primary, outcome, false)
}

// try looks for the first matching edge of a step: the frame's own, or the nth one that it replaces.
func (c *edgeChoice) try(of string, nth int, edges []ir.Edge, outcome ir.Outcome, jumpsOnly bool) error {
	for i := range edges {
		e := &edges[i]
		if jumpsOnly && e.Sequential || !slices.Contains(e.On, outcome) {
			continue
		}
		via := i
		if of != "" {
			via = c.frame.replacedVia(nth, i)
		}
		if e.Limit > 0 && c.frame.Taken[c.frame.edgeTaken(via)] >= e.Limit {
			continue
		}
		if e.When != nil {
			ok, err := c.d.evalBool(e.When, c.scope)
			c.tried = append(c.tried, journal.Tried{Of: of, Edge: i, Held: ok})
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
		}
		c.edge = e
		if e.Limit > 0 { // only limited edges are counted, so only they are named in the facts
			c.via = &via
		}
		return nil
	}
	return nil
}

// jump enters a step of this block, or leaves the block for a step of an enclosing one.
func (d *decider) jump(f *Frame, step string, via *int) {
	if _, here := d.unit(f).index[f.Block][step]; here {
		d.enter(f, step, via, "")
		return
	}
	end := Ending{Outcome: journal.OutcomeJump, To: step, Step: f.Step}
	if f.Last.failing() { // the target may read the failure
		end.Class, end.Error, end.Value, end.Step = f.Last.Class, f.Last.Error, f.Last.Value, f.Last.Step
	}
	d.close(f, end)
}

// conditionFailed is the ending at a step whose expression could not be evaluated.
func conditionFailed(step string, err error) Ending {
	return Ending{
		Outcome: journal.OutcomeFailed, Class: ir.ClassCondition, Error: err.Error(), Step: step,
	}
}

// noSuchStep is the ending at a step that leads to a step which does not exist.
func noSuchStep(step, to string) Ending {
	return Ending{Outcome: journal.OutcomeFailed, Error: fmt.Sprintf("step %q does not exist", to), Step: step}
}

// ending returns the ending of a program at an end step.
func (d *decider) ending(f *Frame, step *ir.Step, a *ir.End) Ending {
	end := Ending{Outcome: journal.OutcomeEnd, Status: a.Status, Step: step.ID}
	if !a.Failed {
		end.Reason = a.Message
	} else {
		end.Class, end.Error = ir.ClassEnded, cmp.Or(f.Last.Error, a.Message)
		if end.Error == "" {
			end.Error = fmt.Sprintf("the workflow ended at %q", step.ID)
		}
	}
	if a.Check != nil {
		if ok, err := d.evalBool(a.Check, d.scope(f)); err != nil || !ok {
			end.Reason = ReasonStopNotMet
		}
	}
	return end
}

// ReasonStopNotMet is the reason of a run that ended although its stop condition was false.
const ReasonStopNotMet = "STOP_CONDITION_NOT_MET"

// close closes a frame, or finishes the run if it is the frame of the body. What the ending means depends on the step
// around the frame: an iteration may break its loop or jump out of it, a branch or a child has a final outcome, and a
// child also has an output.
func (d *decider) close(f *Frame, end Ending) {
	// Whatever the cleanup step does, the program was canceled.
	if f.Cleaning {
		end = Ending{Outcome: journal.OutcomeCanceled, Step: end.Step}
	}
	if f.Path == "" {
		d.finish(f, end)
		return
	}
	parent := d.s.Frames[f.Parent]
	mode := parent.Group.Mode
	// A jump may leave loops, and neither branches nor calls.
	if end.Outcome == journal.OutcomeJump && mode != ModeLoop {
		end = noSuchStep(end.Step, end.To)
	}
	if mode != ModeLoop {
		end = d.finalEnding(f, end)
	} else if end.Outcome == journal.OutcomeOK {
		loop := d.step(parent).Action.(ir.Loop)
		if loop.BreakWhen != nil {
			stop, err := d.evalBool(loop.BreakWhen, d.scope(f))
			switch {
			case err != nil && loop.BreakWhen.Dialect.ErrorIsFalse(): // the loop continues; the records have the error
				end.Reason, end.Error = ReasonUndecided, err.Error()
			case err != nil:
				end = conditionFailed(end.Step, err)
			case stop:
				end.Outcome = journal.OutcomeBreak
			}
		}
	}
	if mode == ModeCall && end.Outcome == journal.OutcomeOK {
		end.Value = d.output(f)
		if call := d.step(parent).Action.(ir.Call); len(call.Outputs) > 0 {
			v, err := d.outputs(f, call.Outputs)
			if err != nil {
				end = conditionFailed(end.Step, err)
			}
			end.Value = v
		}
	}
	d.fact(f, journal.FrameClosed{
		Frame: f.Path, Outcome: end.Outcome, To: end.To, Class: end.Class, Reason: end.Reason, Error: end.Error,
		Value: end.Value, Status: end.Status, Step: end.Step,
	})
}

// finalEnding returns the final outcome for an end, a break or a rejection. A program that would succeed is rejected if
// a gate rejected and no later work succeeded, and fails if its output does not satisfy its contract.
func (d *decider) finalEnding(f *Frame, end Ending) Ending {
	switch end.Outcome {
	case journal.OutcomeEnd, journal.OutcomeBreak:
		if end.Class != "" {
			end.Outcome = journal.OutcomeFailed
		} else {
			end.Outcome = journal.OutcomeOK
		}
	}
	if end.Outcome == journal.OutcomeOK && f.Refused != "" && (f.Path == "" || f.Child != "") {
		end.Outcome, end.Step = journal.OutcomeRejected, f.Refused
	}
	if end.Outcome == journal.OutcomeRejected && end.Reason == "" {
		end.Reason = ReasonRejected
	}
	if end.Outcome == journal.OutcomeOK && (f.Path == "" || f.Child != "") && d.p.CheckOutput != nil {
		raw, err := d.p.raw(d.output(f))
		if err == nil {
			err = d.p.CheckOutput(d.unit(f).ir, raw, func(path string) string { return d.origin(f, end.Step, path) })
		}
		if err != nil {
			end.Outcome, end.Class, end.Error = journal.OutcomeFailed, ir.ClassInvalid, err.Error()
		}
	}
	return end
}

// origin describes where a part of the output of a program comes from. It returns "" if that is not known. last is the
// last step.
func (d *decider) origin(top *Frame, last, path string) string {
	if _, ok := d.written(top); !ok {
		if d.unwrittenParts(top) {
			return "no step has written to output"
		}
		return fmt.Sprintf("the result of step %q, because no step has written to output", last)
	}
	if i := strings.IndexAny(path, ".["); i >= 0 {
		path = path[:i]
	}
	step := cmp.Or(top.Writers["output."+path], top.Writers["output"])
	if path == "" || step == "" {
		return ""
	}
	return fmt.Sprintf("written by step %q", step)
}

// ReasonRejected is the reason of a run that a gate has rejected.
const ReasonRejected = "GATE_REJECTED"

// output returns the output of a program: what its steps wrote to "output", else the result of its last step. If the
// program declares its output and the steps that write parts of it did not run, the output is an empty object.
func (d *decider) output(top *Frame) journal.Value {
	if v, ok := d.written(top); ok {
		return v
	}
	if d.unwrittenParts(top) {
		return journal.Value{JSON: json.RawMessage("{}")}
	}
	return top.Last.Value
}

// unwrittenParts reports whether a program without output declares one and has steps that write parts of it.
func (d *decider) unwrittenParts(top *Frame) bool {
	p := d.unit(top).ir
	return p.Output != nil && slices.ContainsFunc(p.Blocks, func(b ir.Block) bool {
		return slices.ContainsFunc(b.Steps, func(s ir.Step) bool {
			return slices.ContainsFunc(s.Writes, func(w ir.Write) bool { return strings.HasPrefix(w.Path, "output.") })
		})
	})
}

// written returns what steps wrote to "output", as a whole or by keys.
func (d *decider) written(top *Frame) (journal.Value, bool) {
	whole, ok := top.Scope["output"]
	return d.p.gathered(whole, "output", top.Scope), ok || len(below("output", top.Scope)) > 0
}

// finish ends the run. Output that steps have written is kept even if the run fails.
func (d *decider) finish(root *Frame, end Ending) {
	if end.Outcome == journal.OutcomeJump {
		end = noSuchStep(end.Step, end.To)
	}
	end = d.finalEnding(root, end)
	done := journal.RunFinished{
		Outcome: end.Outcome, Reason: end.Reason, Error: end.Error, Status: end.Status, Last: end.Step,
	}
	done.Reason = cmp.Or(done.Reason, string(end.Class))
	if v, ok := d.written(root); ok {
		done.Output = v
	} else if end.Outcome == journal.OutcomeOK {
		done.Output = d.output(root)
	}
	d.fact(nil, done)
}

// closeCanceled closes a canceled frame as soon as no task runs in it.
func (d *decider) closeCanceled(f *Frame) {
	// A running task and open frames below end first; their end marks this frame again.
	switch f.Phase {
	case Working:
		return
	case Grouped:
		if f.Group.Live > 0 {
			return
		}
		d.leave(f, journal.StepLeft{
			Place: f.Place(), Outcome: journal.OutcomeCanceled, For: f.For, Merge: d.merges(f),
		})
	case Resting, Ready, Asking, Overdue, Lost, AwaitingBudget:
		d.leave(f, journal.StepLeft{Place: f.Place(), Outcome: journal.OutcomeCanceled, For: f.For})
	}
	if d.mayCleanUp(f) {
		d.fact(f, journal.CleanupBegun{Frame: f.Path, Step: d.unit(f).ir.OnCancel})
		return
	}
	end := Ending{Outcome: journal.OutcomeCanceled, Step: f.Step}
	if f.FailedBy != "" {
		end = Ending{
			Outcome: journal.OutcomeFailed, Class: ir.Class(f.FailedBy), Reason: f.FailedBy, Step: f.Step,
			Error: "the time limit was reached",
		}
	}
	d.close(f, end)
}

// mayCleanUp reports whether a canceled program has a cleanup step, and time and budget to run it.
func (d *decider) mayCleanUp(f *Frame) bool {
	if f.Path != "" && f.Child == "" || f.Cleaning || f.FailedBy != "" || d.unit(f).ir.OnCancel == "" || d.s.Expired {
		return false
	}
	short, _, _ := d.s.short(f, oneStep)
	return short == "" && d.s.outOfTime(f) == nil
}

// recoverTask handles a lost task: it reruns the task or asks a person.
func (d *decider) recoverTask(f *Frame) {
	if f.Policy == journal.RecoveryRerun {
		d.startTask(f, f.Work(), f.Rerun+1, nil, f.For)
		return
	}
	d.fact(f, journal.GateOpened{Place: f.Place(), Kind: journal.GateOutcome, For: f.For})
}

// timeOutGate handles a gate that has timed out.
func (d *decider) timeOutGate(f *Frame) {
	if f.Gate != nil && f.Gate.Kind == journal.GateToolCall {
		d.answerCall(f, journal.ToolAnswer{TimedOut: true}, journal.MethodTimeout)
		return
	}
	step := d.step(f)
	g, _ := step.Action.(ir.Gate)
	decided := journal.GateDecided{
		Place: f.Place(), Outcome: journal.OutcomeFailed, Method: journal.MethodTimeout, Class: ir.ClassTimeout,
		Reason: string(ir.ClassTimeout), Notify: g.OnTimeout == ir.TimeoutNotify,
	}
	decided.Error = fmt.Sprintf("no decision within %s", g.Timeout.Words())
	if f.Gate != nil && f.Gate.Kind == journal.GateEvent {
		decided.Error = fmt.Sprintf("the event %q did not arrive within %s", g.Event, g.Timeout.Words())
	}
	if g.OnTimeout == ir.TimeoutSkip {
		decided.Outcome, decided.Class, decided.Error = journal.OutcomeSkipped, "", ""
		decided.Value = journal.Value{JSON: json.RawMessage("null")}
		decided.Writes = d.writes(f, step)
	}
	d.fact(f, decided)
}

// fireTimers fires all timers that are due, by due time and then by path, and reports whether there were any.
func (d *decider) fireTimers() (fired bool) {
	for d.s.Finished == nil {
		t, f, ok := d.s.nextTimer()
		// The timers of one frame that are due at the same time come in the order of the heap, which a replay repeats,
		// because it adds the same timers in the same order.
		if !ok || t.due > d.now {
			return fired
		}
		fired = true
		switch {
		case t.group:
			d.timeOutGroup(f)
		case t.limit:
			d.fact(f, journal.TimerFired{Place: f.Place(), What: TimerDeadline, Run: f.Path == ""})
			if f.Path != "" {
				d.fact(f, journal.CancelRequested{Frame: f.Path, Failed: true, Reason: string(ir.ClassTimeout)})
			}
		case f.Phase == Resting:
			d.fact(f, journal.TimerFired{Place: f.Place(), What: TimerRetry})
		case f.Gate != nil && f.Due != f.Gate.Due:
			d.fact(f, journal.TimerFired{Place: f.Place(), What: TimerEscalation})
		default:
			d.fact(f, journal.TimerFired{Place: f.Place(), What: TimerGate})
		}
	}
	return fired
}

// timeOutGroup ends a step of frames that has no time left.
func (d *decider) timeOutGroup(f *Frame) {
	d.fact(f, journal.TimerFired{Place: f.Place(), What: TimerLimit})
	d.fact(f, journal.CancelRequested{Frame: f.Path, Below: true, Reason: string(ir.ClassTimeout)})
}

// grantPending grants the first request that waits for budget, if it fits, and reports whether it decided anything.
// Only the first one is considered: otherwise small requests could keep a large one waiting forever.
func (d *decider) grantPending() bool {
	if d.s.Expired || len(d.s.BudgetWaiters) == 0 {
		return false
	}
	head := d.s.BudgetWaiters[0]
	f := d.s.Frames[head.Work.Frame]
	if head.N == 0 && (d.s.Paused || d.s.Hold) {
		return false
	}
	granted, budget, at, later := d.s.grant(f, head.Amount, head.Least)
	// The request fits: start the step or the task, or grant the reservation. Or a budget of a branch or a child will
	// never have room for it: fail. Otherwise it goes on waiting.
	switch {
	case budget == "" && head.N == 0:
		step := d.unit(f).step(f.Block, head.Work.Step)
		if task, _ := opensWith(step); !task && head.Work.Part == "" {
			d.startStep(f, step, head.Work, nil, f.For)
			return true
		}
		missing := d.s.missing(d.p, f, step)
		d.fact(f, journal.TaskStarted{TaskID: head.Work, Kind: step.Task().Kind, For: f.For, MissingReads: missing})
	case budget == "":
		d.fact(f, journal.Reserved{TaskID: head.Work, N: head.N, Amount: granted})
	case at.Path != "" && !later && head.N == 0:
		d.noBudget(f, head.Work.Place, budget, nil, f.For)
	case at.Path != "" && !later:
		d.fact(f, journal.BudgetRefused{TaskID: head.Work, N: head.N, Amount: head.Amount, Budget: budget})
	default:
		return false
	}
	return true
}

// framePath returns the path of a frame below a frame's current step. It contains the visit and the attempt, so that no
// two frames of a run have the same path, and the same facts give the same paths in every process.
func framePath(f *Frame, last string) string {
	path := journal.Place{Frame: f.Path, Step: journal.KeySegment(f.Step), Visit: f.Visit}.Key()
	if f.Attempt > 0 {
		path += "@" + strconv.Itoa(f.Attempt)
	}
	return path + "/" + last
}
