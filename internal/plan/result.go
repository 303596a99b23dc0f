package plan

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
)

// failing is what a step's Result sees of a failure.
type failing struct {
	Error string        `json:"error"`
	Class journal.Class `json:"class,omitempty"`
	Exit  int           `json:"exit,omitempty"`
}

// result is what a step gives whose work gave nothing by itself.
func (d *decider) result(f *Frame, step *ir.Step, outcome journal.Outcome, gathered journal.Value, how failing) (journal.Value, error) {
	if step.Result == nil {
		if outcome == journal.OutcomeOK {
			return gathered, nil
		}
		return journal.Value{JSON: mustJSON(how)}, nil
	}
	raw, err := d.p.raw(gathered)
	if err != nil {
		return journal.Value{}, err
	}
	sc := d.scope(f)
	sc.extra = map[string]journal.Value{
		"result": {JSON: raw}, "outcome": {JSON: mustJSON(outcome)}, "failure": {JSON: mustJSON(how)},
	}
	v, err := d.eval(step.Result, sc)
	if err != nil {
		return journal.Value{}, fmt.Errorf("the result of step %q: %w", step.ID, err)
	}
	return journal.Value{JSON: mustJSON(v)}, nil
}

// outputWrites are the writes that a failed step makes, too.
func (d *decider) outputWrites(f *Frame, step *ir.Step) []journal.Write {
	all := d.writes(f, step)
	var out []journal.Write
	for i, w := range step.Writes {
		if w.Always {
			out = append(out, all[i])
		}
	}
	return out
}

// failureValue fills in what a step leaves that was skipped or did not end well.
func (d *decider) failureValue(f *Frame, step *ir.Step, outcome journal.Outcome, how failing) (journal.Value, []journal.Write) {
	writes := d.outputWrites(f, step)
	if writes == nil {
		return journal.Value{}, nil
	}
	if outcome == journal.OutcomeCancelled {
		how.Error = cmp.Or(how.Error, string(outcome))
	}
	v, err := d.result(f, step, outcome, journal.Value{}, how)
	if err != nil { // it has failed already; this is only about what to show of it
		v = journal.Value{JSON: mustJSON(how)}
	}
	return v, writes
}

// gives ends a step well that gathered something from its frames.
func (d *decider) gives(f *Frame, left journal.StepLeft, gathered journal.Value) {
	step := d.step(f)
	v, err := d.result(f, step, journal.OutcomeOK, gathered, failing{})
	if err != nil {
		left.Outcome, left.Class, left.Error = journal.OutcomeFailed, journal.ClassCondition, err.Error()
	} else {
		left.Value, left.Writes = v, d.writes(f, step)
	}
	d.left(f, left)
}

// left ends a step that is not a task.
func (d *decider) left(f *Frame, x journal.StepLeft) {
	switch x.Outcome {
	case journal.OutcomeFailed, journal.OutcomeSkipped, journal.OutcomeCancelled:
		step := d.unit(f).step(f.Block, x.Step)
		x.Value, x.Writes = d.failureValue(f, step, x.Outcome, failing{Error: x.Error, Class: x.Class, Exit: x.Status})
	}
	d.fact(f, x)
}

// retryGroup plans another attempt at a step that is made of frames.
func (d *decider) retryGroup(f *Frame, step *ir.Step) bool {
	switch step.Action.(type) {
	case ir.Parallel, ir.Loop, ir.Call:
	default:
		return false
	}
	if f.Part != "" || f.Last.Outcome != journal.OutcomeFailed || !retryable(step, f.Attempt, f.Last.Class, f.Last.Status) {
		return false
	}
	next := journal.Work{Place: f.Place(), Attempt: f.Attempt + 1}
	d.fact(f, journal.RetrySet{Work: next, Due: d.now + delay(step.Retry, d.s.Run, next)})
	return true
}

// again begins the next attempt of a step.
func (d *decider) again(f *Frame) {
	switch d.step(f).Action.(type) {
	case ir.Parallel, ir.Loop, ir.Call:
		if f.Part == "" {
			d.begin(f, d.step(f), f.Work(), nil, f.For)
			return
		}
	}
	d.startTask(f, f.Work(), f.Rerun, nil, f.For)
}

// outputs are what a call gives, seen from inside the child.
func (d *decider) outputs(f *Frame, names []ir.Binding) (journal.Value, error) {
	out := map[string]json.RawMessage{}
	for _, b := range names {
		v, err := d.eval(b.Value, d.scope(f))
		if err != nil {
			return journal.Value{}, fmt.Errorf("output %q: %w", b.Name, err)
		}
		out[b.Name] = mustJSON(v)
	}
	return journal.Value{JSON: mustJSON(out)}, nil
}
