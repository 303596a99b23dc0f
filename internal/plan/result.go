package plan

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
)

// failing is the failure that the expression Step.Result sees.
type failing struct {
	Error string   `json:"error"`
	Class ir.Class `json:"class,omitempty"`
	Exit  int      `json:"exit,omitempty"`
}

// result returns the result of a step that has no result of its own.
func (d *decider) result(f *Frame, step *ir.Step, outcome journal.Outcome, gathered journal.Value, how failing) (
	journal.Value, error,
) {
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

// outputWrites returns the writes that a step makes even if it fails.
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

// failureValue returns the value and the writes of a step that was skipped or failed.
func (d *decider) failureValue(f *Frame, step *ir.Step, outcome journal.Outcome, how failing) (
	journal.Value, []journal.Write,
) {
	writes := d.outputWrites(f, step)
	if writes == nil {
		return journal.Value{}, nil
	}
	if outcome == journal.OutcomeCanceled {
		how.Error = cmp.Or(how.Error, string(outcome))
	}
	v, err := d.result(f, step, outcome, journal.Value{}, how)
	if err != nil { // the step has failed already; the error does not replace that failure
		v = journal.Value{JSON: mustJSON(how)}
	}
	return v, writes
}

// succeed ends a step that consists of frames with success and a value.
func (d *decider) succeed(f *Frame, left journal.StepLeft, gathered journal.Value) {
	step := d.step(f)
	v, err := d.result(f, step, journal.OutcomeOK, gathered, failing{})
	if err != nil {
		left.Outcome, left.Class, left.Error = journal.OutcomeFailed, ir.ClassCondition, err.Error()
	} else {
		left.Value, left.Writes = v, d.writes(f, step)
	}
	d.leave(f, left)
}

// leave ends a step that is not a task.
func (d *decider) leave(f *Frame, x journal.StepLeft) {
	switch x.Outcome {
	case journal.OutcomeFailed, journal.OutcomeSkipped, journal.OutcomeCanceled:
		step := d.unit(f).step(f.Block, x.Step)
		x.Value, x.Writes = d.failureValue(f, step, x.Outcome, failing{Error: x.Error, Class: x.Class, Exit: x.Status})
	}
	d.fact(f, x)
}

// retryGroup schedules the next attempt at a step that consists of frames, if one is left.
func (d *decider) retryGroup(f *Frame, step *ir.Step) bool {
	switch a := step.Action.(type) {
	case ir.Loop, ir.Call:
	case ir.Parallel:
		if a.Combine != nil { // retryBranches has decided
			return false
		}
	default:
		return false
	}
	if f.Part != "" || f.Last.Outcome != journal.OutcomeFailed ||
		!retryable(step, f.Attempt, f.Last.Class, f.Last.Status) {
		return false
	}
	next := journal.TaskID{Place: f.Place(), Attempt: f.Attempt + 1}
	d.fact(f, journal.RetrySet{TaskID: next, Due: d.now + delay(step.Retry, d.s.Run, next)})
	return true
}

// retry starts the next attempt at a step.
func (d *decider) retry(f *Frame) {
	switch d.step(f).Action.(type) {
	case ir.Parallel, ir.Loop, ir.Call:
		if f.Part == "" {
			d.startStep(f, d.step(f), f.Work(), nil, f.For)
			return
		}
	}
	d.startTask(f, f.Work(), f.Rerun, nil, f.For)
}

// outputs evaluates the outputs of a call in the scope of the child.
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
