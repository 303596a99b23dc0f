package report

import (
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
)

// The reason codes of Agent Flow's specification; ReasonCondition is one, too.
const (
	ReasonCompleted  = "COMPLETED"
	ReasonValidation = "FAILED_VALIDATION"
	ReasonBudget     = "BUDGET_EXCEEDED"
	ReasonTimeout    = "TIMEOUT"
	ReasonFallback   = "FALLBACK_USED"
	ReasonApproved   = "GATE_APPROVED"
	ReasonRejected   = "GATE_REJECTED"
)

// Further reason codes, where the specification has none.
const (
	ReasonFailed    = "FAILED"
	ReasonCancelled = "CANCELLED"
	ReasonSkipped   = "SKIPPED"
)

// Ending is how a fact that ends a step calls what went wrong, and why it ended.
func Ending(f journal.Fact) (class, reason string) {
	switch x := f.(type) {
	case journal.TaskEnded:
		return x.Class, ""
	case journal.StepLeft:
		return x.Class, x.Reason
	case journal.GateDecided:
		return x.Class, x.Reason
	}
	return "", ""
}

// ReasonCode is why a step ended so: the author's word where there is one,
// otherwise the specification's. A step that stood in for another says
// FALLBACK_USED (F45), with the author's word beside it.
func ReasonCode(m *Moment, class, reason string) (code, declared string) {
	var ok, fail string
	if m.Step.Info != nil {
		ok, fail = m.Step.Info.Step.ReasonOK, m.Step.Info.Step.ReasonFail
	}
	switch m.Outcome {
	case OutcomeOK:
		switch {
		case m.Step.For != "":
			return ReasonFallback, ok
		case ok != "":
			return ok, ""
		case isGate(m.Step):
			return ReasonApproved, ""
		}
		return ReasonCompleted, ""
	case OutcomeSkipped:
		if reason == "" {
			reason = ReasonSkipped
		}
		return reason, ""
	}
	if reason == "" {
		reason = class
	}
	if fail != "" && m.Outcome != OutcomeCancelled {
		return fail, ""
	}
	return FailCode(m.Outcome, reason), ""
}

// FailCode is the specification's code for what went wrong, or the word that
// the engine has for it.
func FailCode(outcome, class string) string {
	switch {
	case outcome == OutcomeRejected:
		return ReasonRejected
	case outcome == OutcomeCancelled:
		return ReasonCancelled
	case class == plan.ClassBudget:
		return ReasonBudget
	case class == plan.ClassInvalid, class == "INVALID_INPUT":
		return ReasonValidation
	case class == "":
		return ReasonFailed
	}
	return class
}

func isGate(s *Step) bool {
	if s.Info == nil {
		return s.Kind == "gate"
	}
	g, ok := s.Info.Step.Action.(ir.Gate)
	return ok && g.Decider != ir.Event
}
