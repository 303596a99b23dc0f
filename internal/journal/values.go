package journal

import "github.com/espalier-run/espalier/internal/ir"

// Outcome is how a step, a frame or a run ended. Edges of a program match on the first four.
type Outcome = ir.Outcome

// The outcomes.
const (
	OutcomeOK       = ir.OK
	OutcomeFailed   = ir.Failed
	OutcomeSkipped  = ir.Skipped
	OutcomeRejected = ir.Rejected
	OutcomeCanceled = Outcome("cancelled") // the spelling in stored journals
	OutcomeBreak    = Outcome("break")     // of a frame: leave the loop
	OutcomeJump     = Outcome("jump")      // of a frame: continue at a step of an enclosing block
	OutcomeEnd      = Outcome("end")       // of a frame: end the whole program
	OutcomeRerun    = Outcome("rerun")     // of a gate about a lost task: run the task again
)

// RunOutcomes are the outcomes of runs.
var RunOutcomes = []Outcome{OutcomeOK, OutcomeFailed, OutcomeRejected, OutcomeCanceled}

// OutcomeWord returns the outcome as commands print it and take it. Only the word for OutcomeCanceled differs from what
// journals contain.
func OutcomeWord(o Outcome) string {
	if o == OutcomeCanceled {
		return "canceled"
	}
	return string(o)
}

// GateKind is what an open gate waits for.
type GateKind string

// The kinds of gates.
const (
	GatePerson   GateKind = "person"
	GateEvent    GateKind = "event"
	GateOutcome  GateKind = "doubt" // a person decides about a task whose outcome is unknown
	GateToolCall GateKind = "call"  // a person approves a tool call
)

// AskKind is what a run asks for, as commands, the API and pages name it: the kind of an open gate, or a higher limit
// of a budget.
type AskKind string

// The kinds of what runs ask for.
const (
	AskApproval     AskKind = "approval"
	AskToolApproval AskKind = "tool_approval"
	AskEvent        AskKind = "event" // which a program may send
	AskInput        AskKind = "input" // an event that carries text from a person
	AskOutcome      AskKind = "unknown_outcome"
	AskBudget       AskKind = "budget"
)

// Asks returns what a gate asks for. text reports that its event carries text from a person.
func (k GateKind) Asks(text bool) AskKind {
	switch {
	case k == GatePerson:
		return AskApproval
	case k == GateToolCall:
		return AskToolApproval
	case k == GateOutcome:
		return AskOutcome
	case text:
		return AskInput
	}
	return AskEvent
}

// Approves reports whether people approve or reject what is asked for.
func (k AskKind) Approves() bool { return k == AskApproval || k == AskToolApproval }

// Answer is a person's answer to an open gate.
type Answer string

// The answers. Approvals take the first two; a gate about an unknown outcome takes the others.
const (
	AnswerApprove Answer = "approve"
	AnswerReject  Answer = "reject"
	AnswerRerun   Answer = "rerun"
	AnswerSkip    Answer = "skip"
	AnswerFail    Answer = "fail"
	AnswerResult  Answer = "result" // which comes with the result
)

// OutcomeAnswers are the answers about an unknown outcome.
var OutcomeAnswers = []Answer{AnswerRerun, AnswerSkip, AnswerFail, AnswerResult}

// Method is how a gate was decided, for the records.
type Method string

// The methods.
const (
	MethodPerson      Method = "human_review"
	MethodEvent       Method = "event"
	MethodCritic      Method = "critic_agent"
	MethodAutomated   Method = "automated"
	MethodTimeout     Method = "timeout"
	MethodAutoApprove Method = "auto_approve" // no person: the run approves its own gates
)

// Offline says that no real model or tool answered.
type Offline string

// The ways to answer offline.
const (
	OfflineSimulated Offline = "simulated"
	OfflineScripted  Offline = "scripted"
)

// Attention is why people should look at a run.
type Attention string

// The reasons.
const (
	AttentionWaiting Attention = "waiting" // for a decision
	AttentionReply   Attention = "reply"   // waits for an event, which may be the reply of a person
	AttentionTimeout Attention = "timeout" // of a gate whose workflow asks to notify people
	AttentionBudget  Attention = "budget"
	AttentionFailed  Attention = "failed"
	AttentionMissed  Attention = "missed" // a trigger has started no run, so that there is no fact
)

// Recovery is what happens to a task whose outcome is unknown because its process ended.
type Recovery string

// The recoveries.
const (
	RecoveryRerun Recovery = "rerun" // the task runs again
	RecoveryAsk   Recovery = "ask"   // a person decides
)
