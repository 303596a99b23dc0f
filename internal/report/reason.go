package report

import (
	"cmp"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
)

// ReasonCondition is the reason of a step that was skipped because its condition is false.
const ReasonCondition = plan.ReasonCondition

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
		if e.Outcome == journal.OutcomeOK {
			return ReasonCompleted, ""
		}
		return failCode(e.Outcome, cmp.Or(e.Reason, string(e.Class))), ""
	}
	var ok, fail string
	if e.Step.Info != nil {
		ok, fail = e.Step.Info.Step.ReasonOK, e.Step.Info.Step.ReasonFail
	}
	switch e.Outcome {
	case journal.OutcomeOK:
		switch {
		case e.Step.FallbackFor != "":
			return ReasonFallback, ok
		case ok != "":
			return ok, ""
		case isGate(e.Step):
			return ReasonApproved, ""
		}
		return ReasonCompleted, ""
	case journal.OutcomeSkipped:
		return cmp.Or(e.Reason, ReasonSkipped), ""
	}
	if fail != "" && e.Outcome != journal.OutcomeCancelled {
		return fail, ""
	}
	return failCode(e.Outcome, cmp.Or(e.Reason, string(e.Class))), ""
}

// failCode returns the specification's code for a failure, or the engine's
// error class if the specification has none.
func failCode(outcome journal.Outcome, class string) string {
	switch {
	case outcome == journal.OutcomeRejected:
		return ReasonRejected
	case outcome == journal.OutcomeCancelled:
		return ReasonCancelled
	case journal.Class(class) == journal.ClassBudget:
		return ReasonBudget
	case journal.Class(class) == journal.ClassInvalid, journal.Class(class) == journal.ClassInput:
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
