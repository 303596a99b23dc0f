package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
)

// visitCap is how often a frame may come back to one step when no budget of
// steps bounds the run: a cycle of jumps ends some time.
const visitCap = 1000

// Start begins a run. With hold, nothing but its beginning is decided.
func Start(p *Program, run journal.RunID, start journal.RunStarted, now journal.Millis, hold bool) (*State, []journal.Event) {
	s := &State{Run: run, Hold: hold}
	d := &decider{s: s, p: p, now: now}
	d.fact(nil, start)
	d.settleAll()
	for !d.full() && d.fireTimers() {
		d.settleAll()
	}
	return s, d.out
}

// Decide turns inputs, and everything that is due by now, into events; they
// belong into one append. It changes the state: if the append fails, throw
// the state away.
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
		d.accept(one)
		if _, gone := one.(Gone); gone && i+1 < len(in) {
			// What one process left is lost together: a task that begins again
			// before the others are given up would keep the clock running.
			if _, gone := in[i+1].(Gone); gone {
				continue
			}
		}
		d.settleAll()
	}
	d.settleAll()
	for !d.full() && d.fireTimers() {
		d.settleAll() // which may set a timer that is due at once
	}
	return d.out
}

// mostAtOnce is about how many facts are decided on at once. Loops in loops in
// which nothing but decisions is made could fill the memory otherwise.
const mostAtOnce = 10_000

func (d *decider) full() bool { return len(d.out) >= mostAtOnce }

// Moving tells whether that was too much for once, and there is more to decide
// on without anything new.
func (s *State) Moving() bool { return s.cut && s.Finished == nil }

type decider struct {
	s   *State
	p   *Program
	now journal.Millis
	out []journal.Event
}

// fact adds an event to the batch and applies it.
func (d *decider) fact(f *Frame, fact journal.Fact) {
	e := journal.Event{Seq: d.s.Seq + 1, At: max(d.now, d.s.At), Run: d.s.RunOf(f), Fact: fact}
	if d.out == nil {
		d.out = make([]journal.Event, 0, 4) // most steps take two
	}
	d.out = append(d.out, e)
	d.s.Apply(&d.out[len(d.out)-1])
}

// settleAll looks at frames until nothing moves any more.
func (d *decider) settleAll() {
	for {
		for len(d.s.moved) > 0 {
			queue := d.s.moved
			d.s.moved = nil
			for i, f := range queue {
				if d.full() {
					d.s.moved = append(queue[i:], d.s.moved...)
					d.s.cut = true
					return
				}
				f.marked = false
				if d.s.Finished == nil && d.s.Frames[f.Path] == f {
					d.settle(f)
				}
			}
		}
		if d.s.Finished != nil || !d.grantPending() {
			return
		}
	}
}

// settle does what there is to do in one frame.
func (d *decider) settle(f *Frame) {
	if f.Cancelled {
		d.settleCancelled(f)
		return
	}
	if d.s.Paused || d.s.Expired {
		return
	}
	switch f.Phase {
	case Beginning:
		d.enter(f, d.block(f).Steps[0].ID, nil, "")
	case Sent:
		d.enter(f, f.Step, nil, "")
	case Ready:
		d.again(f)
	case Lost:
		d.recover(f)
	case Overdue:
		d.timeOut(f)
	case Grouped:
		d.group(f)
	case Ended:
		d.after(f)
	}
}

func (d *decider) unit(f *Frame) *unit      { return d.p.unit(f.Program) }
func (d *decider) block(f *Frame) *ir.Block { return &d.unit(f).ir.Blocks[f.Block] }
func (d *decider) step(f *Frame) *ir.Step   { return d.unit(f).step(f.Block, f.Step) }
func (d *decider) scope(f *Frame) *scope    { return &scope{s: d.s, p: d.p, f: f} }

// holds evaluates a condition in a frame.
func (d *decider) holds(e *expr.Expr, sc *scope) (bool, error) {
	ok, err := e.Bool(sc)
	if sc.err != nil {
		return false, sc.err
	}
	return ok, err
}

// eval computes a value in a frame. What could not be read comes first: it is
// why an expression found nothing there.
func (d *decider) eval(e *expr.Expr, sc *scope) (any, error) {
	v, err := e.Eval(sc)
	if sc.err != nil {
		return nil, sc.err
	}
	return v, err
}

// enter goes to a step of the frame's block. via is the limited edge that led
// there, standIn the step that it takes the place of.
func (d *decider) enter(f *Frame, id string, via *int, standIn string) {
	u := d.unit(f)
	step := u.step(f.Block, id)
	at := journal.Place{Frame: f.Path, Step: id}
	if step == nil {
		d.close(f, Ending{Outcome: journal.OutcomeFailed, Error: fmt.Sprintf("there is no step %q to go to", id), Step: f.Step})
		return
	}
	if u.again[f.Block][id] || f.Rewound {
		at.Visit = f.Visits[id] + 1
		if at.Visit > visitCap && !d.s.stepsBound(f) {
			over := fmt.Sprintf("step %q has been reached %d times, which is the most where no budget bounds the steps", id, visitCap)
			if at.Visit > visitCap+1 { // the way that failures take leads back here
				d.close(f, Ending{Outcome: journal.OutcomeFailed, Class: journal.ClassBudget, Error: over, Step: id})
				return
			}
			d.left(f, journal.StepLeft{Place: at, Outcome: journal.OutcomeFailed, Class: journal.ClassBudget, Via: via, For: standIn, Error: over})
			return
		}
	}
	if step.When != nil {
		ok, err := d.holds(step.When, d.scope(f))
		if err != nil {
			d.left(f, journal.StepLeft{Place: at, Outcome: journal.OutcomeFailed, Class: journal.ClassCondition, Error: err.Error(), Via: via, For: standIn})
			return
		}
		if !ok {
			d.left(f, journal.StepLeft{Place: at, Outcome: journal.OutcomeSkipped, Reason: ReasonCondition, Via: via, For: standIn})
			return
		}
	}
	d.begin(f, step, journal.Work{Place: at}, via, standIn)
}

// oneStep is what beginning a step draws on a budget of steps.
var oneStep = journal.Usage{Steps: 1}

// begin begins a step whose condition holds, if there is budget for it.
func (d *decider) begin(f *Frame, step *ir.Step, w journal.Work, via *int, standIn string) {
	at := w.Place
	if task, part := opensWith(step); task {
		w.Part = part
		d.startTask(f, w, 0, via, standIn)
		return
	}
	if budget, owner, _ := d.s.short(f, oneStep); budget != "" {
		if owner.Path != "" {
			d.noBudget(f, at, budget, via, standIn)
			return
		}
		d.fact(f, journal.BudgetWait{Work: w, Amount: oneStep, Budget: budget, Via: via, For: standIn})
		return
	}
	limit, err := d.limit(f, step)
	entered := journal.StepEntered{Place: at, Limit: limit, Via: via, For: standIn}
	if err != nil {
		d.notEntered(f, entered, journal.ClassInput, err)
		return
	}
	switch a := step.Action.(type) {
	case ir.Route:
		left := journal.StepLeft{Place: at, Outcome: journal.OutcomeOK, Via: via, For: standIn}
		if class, err := d.deadEnd(f, step); err != nil {
			left.Outcome, left.Class, left.Error = journal.OutcomeFailed, journal.ClassCondition, err.Error()
		} else if class != "" {
			left.Outcome, left.Class, left.Reason = journal.OutcomeFailed, class, string(class)
			left.Error = fmt.Sprintf("none of the ways on from step %q fits", step.ID)
		}
		d.left(f, left)
	case ir.Gate:
		d.enterGate(f, at, &a, via, standIn)
	case ir.End:
		d.enterEnd(f, at, step, &a, via, standIn)
	case ir.Parallel:
		d.enterParallel(f, entered, &a)
	case ir.Loop:
		d.enterLoop(f, entered, &a)
	case ir.Call:
		entered.Mode, entered.Total = ModeCall, 1
		d.fact(f, entered)
	}
}

// opensWith tells whether the first thing that a step does is a task, and which
// part of its work that is.
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

// deadEnd finds out whether a choice leads nowhere, and what its author calls
// that: then it is the choosing that failed.
func (d *decider) deadEnd(f *Frame, step *ir.Step) (class journal.Class, err error) {
	sc := d.scope(f)
	for i := range step.Next {
		e := &step.Next[i]
		if !matches(e.On, ir.OK) || e.Limit > 0 && f.Taken[edgeKey(step.ID, i)] >= e.Limit {
			continue
		}
		if e.When != nil {
			ok, err := d.holds(e.When, sc)
			if err != nil {
				return "", err
			}
			if !ok {
				continue
			}
		}
		if e.To.Exit == ir.ExitFail {
			return journal.Class(e.To.Reason), nil
		}
		return "", nil
	}
	return "", nil
}

// enterEnd ends a program; of one that ends well the last result may be made
// out of what the step before gave.
func (d *decider) enterEnd(f *Frame, at journal.Place, step *ir.Step, a *ir.End, via *int, standIn string) {
	left := journal.StepLeft{Place: at, Outcome: journal.OutcomeOK, Via: via, For: standIn}
	if step.Result != nil && !a.Failed {
		v, err := d.result(f, step, journal.OutcomeOK, f.Last.Value, failing{})
		if err != nil {
			left.Outcome, left.Class, left.Error = journal.OutcomeFailed, journal.ClassCondition, err.Error()
		} else {
			left.Value, left.Writes = v, d.writes(f, step)
		}
	}
	if a.Failed && a.MessageExpr != nil { // now, while the step before is still the last
		v, err := d.eval(a.MessageExpr, d.scope(f))
		if left.Error, _ = v.(string); err != nil {
			left.Error = fmt.Sprintf("%s (the message could not be filled in: %v)", a.Message, err)
		}
	}
	d.left(f, left)
}

// The parts of a step's work that are tasks of their own.
const (
	PartVerdict = "verdict" // of a gate that work decides
	PartCombine = "combine" // of a parallel step, or of a call that finishes what the child gave
	PartWork    = "work"    // of an end
)

// ReasonCondition is why a step was skipped whose condition was false.
const ReasonCondition = "SKIPPED_CONDITION"

// ReasonUndecided is of an iteration after which a loop goes on because its
// condition to stop has no value.
const ReasonUndecided = "UNDECIDED"

// TaskOf is the leaf work of an open task.
func (s *State) TaskOf(p *Program, f *Frame) *ir.Task { return s.StepOf(p, f).Task() }

// startTask intends to do a task, if there is budget for it.
func (d *decider) startTask(f *Frame, w journal.Work, rerun int, via *int, standIn string) {
	if d.s.Hold {
		return // the frame stays where it is: whoever goes on decides the same
	}
	step := d.unit(f).step(f.Block, w.Step)
	if spent := d.s.outOfTime(f); spent != nil {
		if spent.Path != "" {
			d.left(f, journal.StepLeft{
				Place: w.Place, Outcome: journal.OutcomeFailed, Class: journal.ClassTimeout, Via: via, For: standIn,
				Error: "there is no time left to do it in",
			})
			return
		}
		// The frame stays where it is, and goes on from there when the deadline is raised.
		d.fact(f, journal.TimerFired{Place: f.Place(), What: TimerDeadline, Run: true})
		return
	}
	if spent := d.s.timeless(f); spent != nil && spent != f {
		d.timeUp(spent)
		return
	}
	if counts(w, rerun) {
		if budget, at, _ := d.s.short(f, oneStep); budget != "" {
			if at.Path != "" {
				d.noBudget(f, w.Place, budget, via, standIn)
				return
			}
			d.fact(f, journal.BudgetWait{Work: w, Amount: oneStep, Budget: budget, Via: via, For: standIn})
			return
		}
	}
	missing := d.s.missing(d.p, f, step)
	d.fact(f, journal.TaskStarted{Work: w, Kind: step.Task().Kind, Rerun: rerun, Via: via, For: standIn, MissingReads: missing})
}

// noBudget fails a step that a branch's own budget has nothing left for.
func (d *decider) noBudget(f *Frame, at journal.Place, budget string, via *int, standIn string) {
	d.left(f, journal.StepLeft{
		Place: at, Outcome: journal.OutcomeFailed, Class: journal.ClassBudget, Via: via, For: standIn,
		Error: fmt.Sprintf("the budget of %s is used up", budget),
	})
}

func (d *decider) enterGate(f *Frame, at journal.Place, g *ir.Gate, via *int, standIn string) {
	kind := journal.GatePerson
	if g.Decider == ir.Event {
		kind = journal.GateEvent
	}
	opened := journal.GateOpened{Place: at, Kind: kind, Event: g.Event, Via: via, For: standIn}
	if g.Timeout > 0 {
		opened.Due = d.now + journal.Millis(g.Timeout)
	}
	if kind == journal.GatePerson {
		reads, digest := d.s.shown(d.p, f, d.unit(f).step(f.Block, at.Step), journal.Work{Place: at}.Key(), kind)
		opened.Shows, opened.Digest = d.s.shows(f, reads), digest
	}
	d.fact(f, opened)
	if waiting := d.s.Signals[g.Event]; kind == journal.GateEvent && len(waiting) > 0 {
		d.pass(f, &Signal{Event: g.Event, Data: waiting[0].Data, By: waiting[0].By})
	}
}

// limit is how long what a step is made of may be at work. The fact of its
// beginning carries it, so that it is computed once for each attempt.
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

// notEntered fails a step that is made of frames and cannot begin.
func (d *decider) notEntered(f *Frame, x journal.StepEntered, class journal.Class, err error) {
	d.left(f, journal.StepLeft{Place: x.Place, Outcome: journal.OutcomeFailed, Class: class, Error: err.Error(), Via: x.Via, For: x.For})
}

func (d *decider) enterParallel(f *Frame, entered journal.StepEntered, a *ir.Parallel) {
	entered.Mode, entered.Total = ModeParallel, len(a.Branches)
	if a.Each != nil {
		items, err := d.items(f, a.Each)
		if err != nil {
			d.notEntered(f, entered, journal.ClassCondition, err)
			return
		}
		entered.Total, entered.Items = len(items), journal.Value{JSON: mustJSON(items)}
	}
	d.fact(f, entered)
}

func (d *decider) enterLoop(f *Frame, entered journal.StepEntered, a *ir.Loop) {
	entered.Mode, entered.Max = ModeLoop, a.Max
	if a.Each != nil {
		items, err := d.items(f, a.Each)
		if err != nil {
			d.notEntered(f, entered, journal.ClassCondition, err)
			return
		}
		entered.Total, entered.Items = len(items), journal.Value{JSON: mustJSON(items)}
	}
	if a.MaxExpr != nil {
		v, err := d.eval(a.MaxExpr, d.scope(f))
		n, ok := v.(float64)
		if err == nil && (!ok || n != float64(int(n)) || n < 1) {
			err = fmt.Errorf("the limit of the loop is %s, not a whole number from 1", mustJSON(v))
		}
		if err == nil && entered.Max > 0 && int(n) > entered.Max {
			err = fmt.Errorf("the limit of the loop is %d, and %d is the most that it can be", int(n), entered.Max)
		}
		if err != nil {
			d.notEntered(f, entered, journal.ClassCondition, err)
			return
		}
		entered.Max = int(n)
	}
	d.fact(f, entered)
}

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

// after chooses where a frame goes once a step is over.
func (d *decider) after(f *Frame) {
	step, end := d.step(f), f.Last
	end.Step = f.Step
	switch end.Outcome {
	case journal.OutcomeEnd, journal.OutcomeCancelled:
		d.close(f, end)
		return
	case journal.OutcomeJump:
		d.goTo(f, end.To, nil)
		return
	}
	if d.retryGroup(f, step) {
		return
	}
	if _, call := step.Action.(ir.Call); call {
		end.Status = 0 // it was the child's, and has said whether to try again
	}
	outcome := ir.Outcome(end.Outcome)
	passedOver := outcome == ir.Skipped && end.Reason == ReasonCondition
	mends := !stopsAtTimeout(step) // what happens when nobody comes was said apart
	if step.Fallback != nil && (outcome == ir.Failed && mends || passedOver) {
		primary := f.For
		if primary == "" {
			primary = f.Step
		}
		d.enter(f, step.Fallback.Name, nil, primary)
		return
	}
	if outcome == ir.Failed && step.SkipOnError && mends {
		outcome = ir.Skipped
	}
	if outcome == ir.OK {
		if a, isEnd := step.Action.(ir.End); isEnd {
			d.close(f, d.ending(f, step, &a))
			return
		}
		if step.StopWhen != nil {
			stop, err := d.holds(step.StopWhen, d.scope(f))
			if err != nil {
				d.close(f, Ending{Outcome: journal.OutcomeFailed, Class: journal.ClassCondition, Error: err.Error(), Step: f.Step})
				return
			}
			if stop {
				d.close(f, Ending{Outcome: journal.OutcomeEnd, Step: f.Step})
				return
			}
		}
	}
	edge, via, err := d.choose(f, step, outcome)
	switch {
	case err != nil:
		d.close(f, Ending{Outcome: journal.OutcomeFailed, Class: journal.ClassCondition, Error: err.Error(), Step: f.Step})
	case edge == nil:
		if outcome == ir.OK || outcome == ir.Skipped { // a step's reason is not the block's
			end.Outcome, end.Reason, end.Class, end.Error = journal.OutcomeOK, "", "", ""
		}
		d.close(f, end)
	case edge.To.Step != "":
		d.goTo(f, edge.To.Step, via)
	case edge.To.Exit == ir.ExitLoop:
		d.close(f, Ending{Outcome: journal.OutcomeBreak, Value: end.Value, Step: f.Step})
	case edge.To.Exit == ir.ExitFail:
		d.close(f, Ending{
			Outcome: journal.OutcomeFailed, Class: journal.Class(edge.To.Reason), Reason: edge.To.Reason, Step: f.Step,
			Error: fmt.Sprintf("step %q has no matching transition", f.Step),
		})
	default:
		d.close(f, Ending{Outcome: journal.OutcomeOK, Reason: edge.To.Reason, Value: end.Value, Step: f.Step})
	}
}

// stopsAtTimeout tells whether a step fails only because nobody came, and its
// author wants that to be the end.
func stopsAtTimeout(step *ir.Step) bool {
	g, ok := step.Action.(ir.Gate)
	return ok && g.Decider != ir.Work && (g.OnTimeout == ir.TimeoutFail || g.OnTimeout == ir.TimeoutNotify)
}

// choose finds the first edge that matches. A step that stands in for another
// one follows its own jumps first, then what the other would have followed.
func (d *decider) choose(f *Frame, step *ir.Step, outcome ir.Outcome) (*ir.Edge, *int, error) {
	sc := d.scope(f)
	var tried []journal.Tried
	defer func() {
		if len(tried) > 0 {
			d.fact(f, journal.Routed{Place: f.Place(), Tried: tried})
		}
	}()
	of := ""
	try := func(edges []ir.Edge, jumpsOnly bool) (*ir.Edge, *int, error) {
		for i := range edges {
			e := &edges[i]
			if jumpsOnly && e.Sequential || !matches(e.On, outcome) {
				continue
			}
			if e.Limit > 0 && f.Taken[edgeKey(f.Step, i)] >= e.Limit {
				continue
			}
			if e.When != nil {
				ok, err := d.holds(e.When, sc)
				tried = append(tried, journal.Tried{Of: of, Edge: i, Held: ok})
				if err != nil {
					return nil, nil, err
				}
				if !ok {
					continue
				}
			}
			if e.Limit > 0 {
				return e, &i, nil
			}
			return e, nil, nil
		}
		return nil, nil, nil
	}
	if f.For == "" {
		return try(step.Next, false)
	}
	if edge, via, err := try(step.Next, true); edge != nil || err != nil {
		return edge, via, err
	}
	of = f.For
	return try(d.unit(f).step(f.Block, f.For).Next, false)
}

func matches(on []ir.Outcome, outcome ir.Outcome) bool {
	for _, o := range on {
		if o == outcome {
			return true
		}
	}
	return false
}

// goTo enters a step of this block, or leaves it for one around it.
func (d *decider) goTo(f *Frame, step string, via *int) {
	if _, here := d.unit(f).index[f.Block][step]; here {
		d.enter(f, step, via, "")
		return
	}
	end := Ending{Outcome: journal.OutcomeJump, To: step, Step: f.Step}
	if f.Last.failing() { // where it leads may want to know of what
		end.Class, end.Error, end.Value, end.Step = f.Last.Class, f.Last.Error, f.Last.Value, f.Last.Step
	}
	d.close(f, end)
}

// ending is how an end step ends its program.
func (d *decider) ending(f *Frame, step *ir.Step, a *ir.End) Ending {
	end := Ending{Outcome: journal.OutcomeEnd, Status: a.Status, Step: step.ID}
	if !a.Failed {
		end.Reason = a.Message
	} else {
		end.Class, end.Error = journal.ClassEnded, cmp.Or(f.Last.Error, a.Message)
		if end.Error == "" {
			end.Error = fmt.Sprintf("the workflow ended at %q", step.ID)
		}
	}
	if a.Check != nil {
		if ok, err := d.holds(a.Check, d.scope(f)); err != nil || !ok {
			end.Reason = ReasonStopNotMet
		}
	}
	return end
}

// ReasonStopNotMet is noted when a run ended although its condition for that did not hold.
const ReasonStopNotMet = "STOP_CONDITION_NOT_MET"

// close ends a frame; of the body, the run.
func (d *decider) close(f *Frame, end Ending) {
	if f.Cleaning {
		end = Ending{Outcome: journal.OutcomeCancelled, Step: end.Step}
	}
	if f.Path == "" {
		d.finish(f, end)
		return
	}
	parent := d.s.Frames[f.Parent]
	mode := parent.Group.Mode
	if end.Outcome == journal.OutcomeJump && mode != ModeLoop {
		end = Ending{Outcome: journal.OutcomeFailed, Error: fmt.Sprintf("there is no step %q to go to", end.To), Step: end.Step}
	}
	if mode != ModeLoop {
		end = d.concluded(f, end)
	} else if end.Outcome == journal.OutcomeOK {
		loop := d.step(parent).Action.(ir.Loop)
		if loop.BreakWhen != nil {
			stop, err := d.holds(loop.BreakWhen, d.scope(f))
			switch {
			case err != nil && loop.BreakWhen.Dialect.ErrorIsFalse(): // the loop continues; the records have the error
				end.Reason, end.Error = ReasonUndecided, err.Error()
			case err != nil:
				end = Ending{Outcome: journal.OutcomeFailed, Class: journal.ClassCondition, Error: err.Error(), Step: end.Step}
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
				end = Ending{Outcome: journal.OutcomeFailed, Class: journal.ClassCondition, Error: err.Error(), Step: end.Step}
			}
			end.Value = v
		}
	}
	d.fact(f, journal.FrameClosed{
		Frame: f.Path, Outcome: end.Outcome, To: end.To, Class: end.Class, Reason: end.Reason, Error: end.Error,
		Value: end.Value, Status: end.Status, Step: end.Step,
	})
}

// concluded turns a wish to end, to break or to be over into a final outcome.
func (d *decider) concluded(f *Frame, end Ending) Ending {
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
			err = d.p.CheckOutput(d.unit(f).ir, raw)
		}
		if err != nil {
			end.Outcome, end.Class, end.Error = journal.OutcomeFailed, journal.ClassInvalid, err.Error()
		}
	}
	return end
}

// ReasonRejected is why a run ended that a gate did not let pass.
const ReasonRejected = "GATE_REJECTED"

// output is what a program gives back: what it has written to its output, else
// what its last step gave.
func (d *decider) output(top *Frame) journal.Value {
	if v, ok := d.written(top); ok {
		return v
	}
	return top.Last.Value
}

// written is the output of a program as far as steps have written it, all at
// once or key by key.
func (d *decider) written(top *Frame) (journal.Value, bool) {
	whole, ok := top.Scope["output"]
	return d.p.gathered(whole, "output", top.Scope), ok || len(below("output", top.Scope)) > 0
}

func (d *decider) finish(root *Frame, end Ending) {
	if end.Outcome == journal.OutcomeJump {
		end = Ending{Outcome: journal.OutcomeFailed, Error: fmt.Sprintf("there is no step %q to go to", end.To), Step: end.Step}
	}
	end = d.concluded(root, end)
	done := journal.RunFinished{Outcome: end.Outcome, Reason: end.Reason, Error: end.Error, Status: end.Status, Last: end.Step}
	if done.Reason == "" {
		done.Reason = string(end.Class)
	}
	if v, ok := d.written(root); ok {
		done.Output = v
	} else if end.Outcome == journal.OutcomeOK {
		done.Output = root.Last.Value
	}
	d.fact(nil, done)
}

// settleCancelled closes a frame that is to stop, as soon as nothing is at work in it.
func (d *decider) settleCancelled(f *Frame) {
	switch f.Phase {
	case Working:
		return
	case Grouped:
		if f.Group.Live > 0 {
			return
		}
		d.left(f, journal.StepLeft{Place: f.Place(), Outcome: journal.OutcomeCancelled, For: f.For, Merge: d.merges(f)})
	case Resting, Ready, Asking, Overdue, Lost, AwaitingBudget:
		d.left(f, journal.StepLeft{Place: f.Place(), Outcome: journal.OutcomeCancelled, For: f.For})
	}
	if d.mayCleanUp(f) {
		d.fact(f, journal.CleanupBegun{Frame: f.Path, Step: d.unit(f).ir.OnCancel})
		return
	}
	end := Ending{Outcome: journal.OutcomeCancelled, Step: f.Step}
	if f.FailedBy != "" {
		end = Ending{Outcome: journal.OutcomeFailed, Class: journal.Class(f.FailedBy), Reason: f.FailedBy, Step: f.Step, Error: "it had no time left"}
	}
	d.close(f, end)
}

// mayCleanUp tells whether a program that was cancelled has a step to end with,
// and time and budget to do it.
func (d *decider) mayCleanUp(f *Frame) bool {
	if f.Path != "" && f.Child == "" || f.Cleaning || f.FailedBy != "" || d.unit(f).ir.OnCancel == "" || d.s.Expired {
		return false
	}
	short, _, _ := d.s.short(f, oneStep)
	return short == "" && d.s.outOfTime(f) == nil
}

// recover deals with a task that nobody knows the end of.
func (d *decider) recover(f *Frame) {
	if f.Policy == journal.RecoveryRerun {
		d.startTask(f, f.Work(), f.Rerun+1, nil, f.For)
		return
	}
	d.fact(f, journal.GateOpened{Place: f.Place(), Kind: journal.GateInDoubt, For: f.For})
}

// timeOut deals with a gate that nobody came to.
func (d *decider) timeOut(f *Frame) {
	if f.Gate != nil && f.Gate.Kind == journal.GateToolCall {
		d.answerCall(f, journal.ToolAnswer{TimedOut: true}, MethodTimeout)
		return
	}
	step := d.step(f)
	g, _ := step.Action.(ir.Gate)
	decided := journal.GateDecided{Place: f.Place(), Outcome: journal.OutcomeFailed, Method: MethodTimeout, Class: journal.ClassTimeout, Reason: string(journal.ClassTimeout)}
	decided.Error = fmt.Sprintf("nobody decided within %s", g.Timeout.Words())
	if f.Gate != nil && f.Gate.Kind == journal.GateEvent {
		decided.Error = fmt.Sprintf("the event %q did not come within %s", g.Event, g.Timeout.Words())
	}
	if g.OnTimeout == ir.TimeoutSkip {
		decided.Outcome, decided.Class, decided.Error = journal.OutcomeSkipped, "", ""
		decided.Value = journal.Value{JSON: json.RawMessage("null")}
		decided.Writes = d.writes(f, step)
	}
	d.fact(f, decided)
}

// How gates are decided, for the records.
const (
	MethodPerson    = "human_review"
	MethodEvent     = "event"
	MethodCritic    = "critic_agent"
	MethodAutomated = "automated"
	MethodTimeout   = "timeout"
)

// fireTimers lets everything that is due by now happen, in the order of the times.
func (d *decider) fireTimers() (fired bool) {
	for d.s.Finished == nil {
		t, f, ok := d.s.nextTimer()
		if !ok || t.due > d.now {
			return fired
		}
		fired = true
		switch {
		case t.group:
			d.timeUp(f)
		case t.limit:
			d.fact(f, journal.TimerFired{Place: f.Place(), What: TimerDeadline, Run: f.Path == ""})
			if f.Path != "" {
				d.fact(f, journal.CancelRequested{Frame: f.Path, Failed: true, Reason: string(journal.ClassTimeout)})
			}
		case f.Phase == Resting:
			d.fact(f, journal.TimerFired{Place: f.Place(), What: TimerRetry})
		default:
			d.fact(f, journal.TimerFired{Place: f.Place(), What: TimerGate})
		}
	}
	return fired
}

// timeUp ends a step that is made of frames because it has no time left.
func (d *decider) timeUp(f *Frame) {
	d.fact(f, journal.TimerFired{Place: f.Place(), What: TimerLimit})
	d.fact(f, journal.CancelRequested{Frame: f.Path, Below: true, Reason: string(journal.ClassTimeout)})
}

// grantPending grants what waits for budget, first come, first served, and reports
// whether it did anything.
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
	switch {
	case budget == "" && head.N == 0:
		step := d.unit(f).step(f.Block, head.Work.Step)
		if task, _ := opensWith(step); !task && head.Work.Part == "" {
			d.begin(f, step, head.Work, nil, f.For)
			return true
		}
		missing := d.s.missing(d.p, f, step)
		d.fact(f, journal.TaskStarted{Work: head.Work, Kind: step.Task().Kind, For: f.For, MissingReads: missing})
	case budget == "":
		d.fact(f, journal.Reserved{Work: head.Work, N: head.N, Amount: granted})
	case at.Path != "" && !later && head.N == 0:
		d.noBudget(f, head.Work.Place, budget, nil, f.For)
	case at.Path != "" && !later:
		d.fact(f, journal.BudgetRefused{Work: head.Work, N: head.N, Amount: head.Amount, Budget: budget})
	default:
		return false
	}
	return true
}

// framePath is the path of a frame below a step.
func framePath(f *Frame, last string) string {
	var b strings.Builder
	if f.Path != "" {
		b.WriteString(f.Path)
		b.WriteByte('/')
	}
	b.WriteString(segment(f.Step))
	if f.Visit > 0 {
		b.WriteByte('~')
		b.WriteString(strconv.Itoa(f.Visit))
	}
	if f.Attempt > 0 {
		b.WriteByte('@')
		b.WriteString(strconv.Itoa(f.Attempt))
	}
	b.WriteByte('/')
	b.WriteString(last)
	return b.String()
}
