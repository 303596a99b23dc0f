package report

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
)

// Events interprets the whole stream of a root run, without its definition. An Event is valid until the next one.
func Events(ctx context.Context, r journal.EventReader, root journal.RunID) iter.Seq2[*Event, error] {
	return NewInterpreter(root, nil).Events(r.Events(ctx, root, 0))
}

// Events interprets a stream. An Event is valid until the next one.
func (in *Interpreter) Events(stream iter.Seq2[journal.Event, error]) iter.Seq2[*Event, error] {
	return func(yield func(*Event, error) bool) {
		for e, err := range stream {
			if err == nil {
				err = in.Interpret(&e, func(ev *Event) error {
					if !yield(ev, nil) {
						return errStop
					}
					return nil
				})
			}
			if err == errStop {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// errStop ends the reading of events early. It does not reach a caller.
var errStop = errors.New("the caller wants no more events")

// Started returns how a root run has started.
func Started(ctx context.Context, r journal.EventReader, root journal.RunID) (journal.RunStarted, error) {
	for e, err := range r.Events(ctx, root, 0) {
		started, _ := e.Fact.(journal.RunStarted)
		return started, err
	}
	return journal.RunStarted{}, nil
}

// The functions below interpret single facts, for readers that do not read a run from its start.

// Decision is what a person, a program or a timeout has decided about a gate, or one of several approvals.
type Decision struct {
	Gate         journal.Place
	Kind         journal.GateKind // of the gate; empty if only later facts were read
	Event        string           // that the gate waits for, or that has decided
	Outcome      journal.Outcome  // empty for an approval that others have to follow
	Answer       Answer
	By           journal.Actor
	Method       journal.Method
	Note, Digest string
	At           journal.Millis
}

// Answer is how a gate was answered, as people read it; empty if its step failed instead.
type Answer string

// The answers.
const (
	Approved Answer = plan.ReasonApproved
	Rejected Answer = plan.ReasonDenied
	TimedOut Answer = plan.ReasonTimedOut
	Answered Answer = "answered" // by the event that it waited for
	Resolved Answer = "resolved" // what becomes of a step with an unknown outcome
)

// ResolutionWords returns how a person has resolved a step with an unknown outcome, by the outcome of the decision.
func ResolutionWords(o journal.Outcome) string {
	if o == journal.OutcomeOK {
		return "result given"
	}
	return journal.OutcomeWord(o)
}

// decisionOf returns the decision that a fact records about a gate of a kind, without its time.
func decisionOf(f journal.Fact, kind journal.GateKind) (d Decision, ok bool) {
	switch x := f.(type) {
	case journal.GateApproved:
		return Decision{
			Gate: x.Place, Kind: kind, Event: x.Event, Answer: Approved, By: x.By, Method: x.Method, Note: x.Note,
			Digest: x.Digest,
		}, true
	case journal.GateDecided:
		return Decision{
			Gate: x.Place, Kind: kind, Event: x.Event, Outcome: x.Outcome, Answer: answerOf(&x, kind), By: x.By,
			Method: x.Method, Note: x.Note, Digest: x.Digest,
		}, true
	}
	return Decision{}, false
}

// answerOf returns how a gate was decided. The order matters: a timeout has an outcome too.
func answerOf(x *journal.GateDecided, kind journal.GateKind) Answer {
	switch {
	case x.Method == journal.MethodTimeout:
		return TimedOut
	case kind == journal.GateEvent, kind == "" && x.Method == journal.MethodEvent:
		return Answered
	case kind == journal.GateOutcome, x.Outcome == journal.OutcomeRerun && x.Reason == "":
		return Resolved
	case x.Outcome == journal.OutcomeRerun: // the task of a tool call runs on in any case: the reason is the answer
		return Answer(x.Reason)
	case x.Outcome == journal.OutcomeOK:
		return Approved
	case x.Outcome == journal.OutcomeRejected:
		return Rejected
	}
	return ""
}

// Decisions returns the decisions that end gates in a stream, which need not start with the first fact.
func Decisions(stream iter.Seq2[journal.Event, error]) iter.Seq2[Decision, error] {
	return func(yield func(Decision, error) bool) {
		kinds := map[string]journal.GateKind{}
		for e, err := range stream {
			if err != nil {
				yield(Decision{}, err)
				return
			}
			if x, ok := e.Fact.(journal.GateOpened); ok {
				kinds[x.Key()] = x.Kind
			}
			at, _ := journal.PlaceOf(e.Fact)
			if d, ok := decisionOf(e.Fact, kinds[at.Key()]); ok && d.Outcome != "" {
				d.At = e.At
				if !yield(d, nil) {
					return
				}
			}
		}
	}
}

// ChildStarted returns the child run that a fact starts, with the name of its program and the frame of its body; empty
// if it starts none.
func ChildStarted(f journal.Fact) (child journal.RunID, program, frame string) {
	x, _ := f.(journal.FrameOpened)
	return x.Child, x.Program, x.Frame
}

// Pending reports whether a run that has recorded a fact has something to do that no process has begun. known is false
// if the fact does not decide that.
func Pending(f journal.Fact) (pending, known bool) {
	switch x := f.(type) {
	case journal.RunStarted, journal.GateApproved, journal.GateDecided, journal.SignalReceived, journal.BudgetRaised,
		journal.StateEdited, journal.Rewound, journal.Continued:
		return true, true
	case journal.TaskNoted:
		return x.Kind == journal.NoteToolAnswer, true // which is recorded with the decision
	case journal.TaskStarted, journal.TaskEnded, journal.TaskLost, journal.Reserved:
		return false, true
	}
	return false, false
}

// Action returns the command or the tool call that a fact records, as people read it; empty if it records neither.
func Action(f journal.Fact) string {
	n, _ := f.(journal.TaskNoted)
	switch n.Kind {
	case journal.NoteCommand:
		var c journal.Command
		if journal.ReadNote(n.Data, &c) == nil {
			return "the command: " + CommandLine(c.Command)
		}
	case journal.NoteToolCall:
		var use journal.ToolUse
		if journal.ReadNote(n.Data, &use) == nil {
			return "the tool " + use.Name + ": " + ToolInput(use.Input)
		}
	}
	return ""
}

// maxAction is how many columns of a command or of the input of a tool are shown.
const maxAction = 100

// CommandLine returns a command in one line, with a mark between its lines.
func CommandLine(command string) string {
	return Shorten(Clean(strings.ReplaceAll(strings.TrimSpace(command), "\n", " ⏎ ")), maxAction)
}

// ToolInput returns the input of a tool in one line: its command, or else the whole input.
func ToolInput(input json.RawMessage) string {
	var shell struct {
		Command string `json:"command"`
	}
	if json.Unmarshal(input, &shell) == nil && shell.Command != "" {
		return CommandLine(shell.Command)
	}
	return Shorten(Clean(string(input)), maxAction)
}

// NeedsAttention returns why people should look at a run after a fact, and what the run does, as the end of a sentence.
// The reason is empty if they need not. An event that a run waits for is reported as a reply: only the definition tells
// whether a person writes it.
func NeedsAttention(f journal.Fact) (journal.Attention, string) {
	name := func() string {
		at, _ := journal.PlaceOf(f)
		return journal.PlaceName(at.Key())
	}
	switch x := f.(type) {
	case journal.GateOpened:
		switch x.Kind {
		case journal.GatePerson, journal.GateToolCall:
			return journal.AttentionWaiting, "waits for an approval: " + name()
		case journal.GateOutcome:
			return journal.AttentionWaiting, "waits for a decision: the outcome of " + name() + " is unknown"
		case journal.GateEvent:
			return journal.AttentionReply, "waits for a reply: " + name()
		}
	case journal.TimerFired:
		if x.What == plan.TimerEscalation {
			return journal.AttentionWaiting, "still waits for an approval, and more people may decide now: " + name()
		}
	case journal.GateDecided:
		if x.Notify {
			return journal.AttentionTimeout, "stops at " + name() + ": " + x.Error
		}
	case journal.GateApproved:
		return journal.AttentionWaiting, "waits for another approval: " + name()
	case journal.BudgetWait:
		if x.Budget == ir.BudgetMoney || x.Budget == ir.BudgetTokens { // some of it may be left
			return journal.AttentionBudget, "has stopped: the " + journal.BudgetWords(x.Budget) +
				" does not suffice for the next model call"
		}
		return journal.AttentionBudget, "has stopped: the " + journal.BudgetWords(x.Budget) + " is exhausted"
	case journal.RunFinished:
		if x.Outcome == journal.OutcomeFailed {
			return journal.AttentionFailed, "has failed: " + x.Error
		}
	}
	return "", ""
}
