package report

import (
	"cmp"
	"slices"
	"strings"

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
	ReasonFailed   = "FAILED"
	ReasonCanceled = "CANCELLED"
	ReasonSkipped  = "SKIPPED"
)

// ReasonCode returns why a step or a run ended: the code that the author of the
// step declared, otherwise that of the specification. A step that replaced
// another has FALLBACK_USED, and the author's code as declared.
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
	if fail != "" && e.Outcome != journal.OutcomeCanceled {
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
	case outcome == journal.OutcomeCanceled:
		return ReasonCanceled
	case ir.Class(class) == ir.ClassBudget:
		return ReasonBudget
	case ir.Class(class) == ir.ClassInvalid, ir.Class(class) == ir.ClassInput:
		return ReasonValidation
	}
	return cmp.Or(class, ReasonFailed)
}

// isGate reports whether a step asks for a decision. A gate that waits for an event does not.
func isGate(s *Step) bool {
	if s.Info == nil {
		return s.Kind == "gate"
	}
	g, ok := s.Info.Step.Action.(ir.Gate)
	return ok && g.Decider != ir.Event
}

// plainReasons are the codes that say no more than the outcome.
var plainReasons = []string{
	ReasonCompleted, ReasonApproved, ReasonRejected, ReasonFailed, ReasonCanceled, ReasonSkipped,
	string(ir.ClassOther), string(ir.ClassEnded),
}

// ownReasons are the codes that no author has chosen, besides plainReasons.
var ownReasons = []string{
	ReasonCondition, ReasonValidation, ReasonBudget, ReasonTimeout, ReasonFallback, string(ir.ClassBudget),
	string(ir.ClassInvalid), string(ir.ClassInput), string(ir.ClassCommand), string(ir.ClassTool),
	string(ir.ClassAPI), string(ir.ClassRateLimit), string(ir.ClassBadRequest),
	string(ir.ClassNoQuota), string(ir.ClassDenied), string(ir.ClassMissing), string(ir.ClassMerge),
	string(ir.ClassInternal), string(ir.ClassChanged), string(ir.ClassCondition),
	string(ir.ClassLoopLimit), string(ir.ClassOutcomeUnknown),
}

// ProblemWords returns the problem of an ending as people read it: without a code that only repeats the outcome.
func ProblemWords(problem string) string {
	outcome, code, ok := strings.Cut(problem, ": ")
	switch journal.Outcome(outcome) {
	case journal.OutcomeFailed, journal.OutcomeRejected, journal.OutcomeCanceled:
		if words := ReasonWords(code); ok && words == "" {
			return outcome
		} else if ok {
			return outcome + ": " + words
		}
	}
	return problem
}

// ReasonWords returns a reason code as people read it: "" if it only repeats the outcome, words for the codes of the
// specification and of the engine, and the code itself if the author of the workflow chose it.
func ReasonWords(code string) string {
	switch {
	case slices.Contains(plainReasons, code):
		return ""
	case code == ReasonCondition:
		return "condition is false"
	case slices.Contains(ownReasons, code):
		return strings.ToLower(strings.ReplaceAll(code, "_", " "))
	}
	return code
}
