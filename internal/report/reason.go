package report

import (
	"cmp"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/plan"
)

// Outcomes, gate kinds and the reason of a false condition, as facts have them.
const (
	OutcomeOK        = plan.OutcomeOK
	OutcomeFailed    = plan.OutcomeFailed
	OutcomeSkipped   = plan.OutcomeSkipped
	OutcomeRejected  = plan.OutcomeRejected
	OutcomeCancelled = plan.OutcomeCancelled
	OutcomeRerun     = plan.OutcomeRerun // the task runs again

	GatePerson = plan.GatePerson
	GateEvent  = plan.GateEvent
	GateDoubt  = plan.GateDoubt // the outcome of a lost task is unknown
	GateCall   = plan.GateCall  // a tool call needs approval

	ReasonCondition = plan.ReasonCondition
)

// Reason codes of the Agent Flow specification; ReasonCondition is one of them.
const (
	ReasonCompleted  = "COMPLETED"
	ReasonValidation = "FAILED_VALIDATION"
	ReasonBudget     = "BUDGET_EXCEEDED"
	ReasonTimeout    = "TIMEOUT"
	ReasonFallback   = "FALLBACK_USED"
	ReasonApproved   = "GATE_APPROVED"
	ReasonRejected   = "GATE_REJECTED"
)

// Reason codes for what the specification does not cover.
const (
	ReasonFailed    = "FAILED"
	ReasonCancelled = "CANCELLED"
	ReasonSkipped   = "SKIPPED"
)

// ReasonCode returns why a step or a run ended: the code that the author of the
// step declared, otherwise that of the specification. A step that replaced
// another has FALLBACK_USED, and the author's code as declared (F45).
func (e *Event) ReasonCode() (code, declared string) {
	if e.Step == nil {
		if e.Outcome == OutcomeOK {
			return ReasonCompleted, ""
		}
		return failCode(e.Outcome, cmp.Or(e.Reason, e.Class)), ""
	}
	var ok, fail string
	if e.Step.Info != nil {
		ok, fail = e.Step.Info.Step.ReasonOK, e.Step.Info.Step.ReasonFail
	}
	switch e.Outcome {
	case OutcomeOK:
		switch {
		case e.Step.FallbackFor != "":
			return ReasonFallback, ok
		case ok != "":
			return ok, ""
		case isGate(e.Step):
			return ReasonApproved, ""
		}
		return ReasonCompleted, ""
	case OutcomeSkipped:
		return cmp.Or(e.Reason, ReasonSkipped), ""
	}
	if fail != "" && e.Outcome != OutcomeCancelled {
		return fail, ""
	}
	return failCode(e.Outcome, cmp.Or(e.Reason, e.Class)), ""
}

// failCode returns the specification's code for a failure, or the engine's
// error class if the specification has none.
func failCode(outcome, class string) string {
	switch {
	case outcome == OutcomeRejected:
		return ReasonRejected
	case outcome == OutcomeCancelled:
		return ReasonCancelled
	case class == plan.ClassBudget:
		return ReasonBudget
	case class == plan.ClassInvalid, class == plan.ClassInput:
		return ReasonValidation
	}
	return cmp.Or(class, ReasonFailed)
}

func isGate(s *Step) bool {
	if s.Info == nil {
		return s.Kind == "gate"
	}
	g, ok := s.Info.Step.Action.(ir.Gate)
	return ok && g.Decider != ir.Event
}
