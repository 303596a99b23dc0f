package embedded_test

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
)

// stage is how far the run has come, as far as answers of commands depend on it.
type stage string

const (
	absent         stage = "absent"   // not started, or removed
	outcomeUnknown stage = "doubt"    // the outcome of the first task is unknown
	early          stage = "early"    // before the gate
	asking         stage = "asking"   // at the gate
	decided        stage = "decided"  // approved
	rejected       stage = "rejected" // rejected while the run was paused
	over           stage = "over"
)

// progress is the state of the model.
type progress struct {
	stage
	paused bool
}

// start is the progress in each situation.
var start = map[string]progress{
	"new": {stage: absent}, "running": {stage: early}, "running again": {stage: early}, "killed": {stage: early},
	"doubt": {stage: outcomeUnknown},
	"gate":  {stage: asking}, "paused": {asking, true}, "event": {stage: decided}, "finished": {stage: over},
}

// reachable returns the states that the run reaches without a command: tasks end, and processes die while they
// execute one.
func (c progress) reachable() []progress {
	all := []progress{c}
	switch {
	case c.stage == early:
		all = append(all, progress{outcomeUnknown, c.paused}, progress{asking, c.paused})
	case c.stage == decided, c.stage == rejected && !c.paused:
		all = append(all, progress{stage: over})
	}
	return all
}

// answer is what a command returns. A command that was killed has no answer.
type answer int

const (
	unknown answer = iota
	accepted
	refused
)

// after returns the states after a command that is answered like this; none if the answer is wrong.
func (c progress) after(command string, a answer) []progress {
	there := c.stage != absent && c.stage != over
	// either returns the progress after an accepted command if it must be accepted, else the same progress.
	either := func(accept bool, then progress) []progress {
		switch {
		case accept && a == accepted:
			return []progress{then}
		case !accept && a == refused:
			return []progress{c}
		}
		return nil
	}
	switch command {
	case "run":
		return either(c.stage == absent, progress{stage: early})
	case "approve":
		return either(c.stage == asking, progress{decided, c.paused})
	case "reject":
		if c.paused {
			return either(c.stage == asking, progress{rejected, true})
		}
		return either(c.stage == asking, progress{stage: over})
	case "cancel":
		return either(there, progress{stage: over})
	case "rm":
		return either(c.stage == over, progress{stage: absent})
	case "pause":
		return either(there && !c.paused, progress{c.stage, true})
	case "signal":
		return either(there, c)
	case "decide":
		if c.stage == decided { // the outcome of a task after the gate may be unknown
			return []progress{c}
		}
		return either(c.stage == outcomeUnknown, progress{early, c.paused})
	case "resume": // two messages: continue, and claim
		if a == accepted && c.stage == absent {
			return nil
		}
		return []progress{c, {stage: c.stage}}
	case "edit": // only at some of the states that a stage comprises
		if a == accepted && !there {
			return nil
		}
		return []progress{c}
	}
	panic("no model of " + command)
}

// linearizable reports whether the commands have taken effect in some order that explains all answers, each between
// its call and its return.
func (w *world) linearizable(situation string) bool {
	model := porcupine.NondeterministicModel{
		Init: func() []any { return []any{start[situation]} },
		Step: func(state, input, output any) (next []any) {
			for _, c := range state.(progress).reachable() {
				for _, a := range []answer{accepted, refused} {
					if output.(answer) != unknown && output.(answer) != a {
						continue
					}
					for _, then := range c.after(input.(string), a) {
						next = append(next, then)
					}
				}
				if output.(answer) == unknown { // it may not have happened at all
					next = append(next, c)
				}
			}
			return next
		},
	}
	return porcupine.CheckOperations(model.ToModel(), w.history())
}

// history returns the commands that people have executed, with their answers. Their effect is durable before they
// return; a command that drives the run returns later.
func (w *world) history() (operations []porcupine.Operation) {
	for i, p := range w.all {
		command := strings.TrimRight(p.name, "0123456789")
		if p.name == "run" || command == "work" || command == "kill" || command == "interrupt" {
			continue
		}
		o := porcupine.Operation{
			ClientId: i, Input: command, Output: p.answer(), Call: int64(p.called), Return: int64(p.returned),
		}
		if o.Output == unknown {
			o.Return = math.MaxInt64
		}
		operations = append(operations, o)
	}
	return operations
}

// answer classifies what the command returned.
func (p *proc) answer() answer {
	var owned *journal.OwnedError
	_, refusal := plan.IsRefusal(p.err)
	switch {
	case p.killed || !p.ended:
		return unknown
	// removed while the command waited for the run
	case p.err == nil, p.sent && errors.Is(p.err, journal.ErrUnknownRun):
		return accepted
	case refusal, errors.As(p.err, &owned), errors.Is(p.err, journal.ErrFinished), errors.Is(p.err, journal.ErrExists),
		errors.Is(p.err, journal.ErrUnknownRun), errors.Is(p.err, journal.ErrUnfinished):
		return refused
	}
	return unknown
}

// answers describes the history.
func (w *world) answers() string {
	var all []string
	for _, o := range w.history() {
		all = append(all, fmt.Sprintf("%s [%d, %d] %d", o.Input, o.Call, o.Return, o.Output))
	}
	return strings.Join(all, ", ")
}
