package report_test

import (
	"testing"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/report"
)

// A decision has its answer, for gates of all kinds: the outcome of a tool call's gate is always to run the task again.
func TestDecisionsHaveTheirAnswer(t *testing.T) {
	place := journal.Place{Step: "send"}
	for _, c := range []struct {
		kind    journal.GateKind
		outcome journal.Outcome
		method  journal.Method
		reason  string
		want    report.Answer
	}{
		{journal.GateToolCall, journal.OutcomeRerun, journal.MethodPerson, plan.ReasonApproved, report.Approved},
		{journal.GateToolCall, journal.OutcomeRerun, journal.MethodPerson, plan.ReasonDenied, report.Rejected},
		{journal.GateToolCall, journal.OutcomeRerun, journal.MethodTimeout, plan.ReasonTimedOut, report.TimedOut},
		{"", journal.OutcomeRerun, journal.MethodPerson, plan.ReasonDenied, report.Rejected},
		{journal.GatePerson, journal.OutcomeOK, journal.MethodPerson, "", report.Approved},
		{journal.GatePerson, journal.OutcomeOK, journal.MethodEvent, "", report.Approved},
		{journal.GatePerson, journal.OutcomeRejected, journal.MethodPerson, "", report.Rejected},
		{journal.GatePerson, journal.OutcomeFailed, journal.MethodTimeout, report.ReasonTimeout, report.TimedOut},
		{journal.GatePerson, journal.OutcomeFailed, journal.MethodPerson, "", ""},
		{journal.GateEvent, journal.OutcomeOK, journal.MethodEvent, "", report.Answered},
		{journal.GateEvent, journal.OutcomeSkipped, journal.MethodTimeout, report.ReasonTimeout, report.TimedOut},
		{journal.GateOutcome, journal.OutcomeOK, journal.MethodPerson, "", report.Resolved},
		{journal.GateOutcome, journal.OutcomeRerun, journal.MethodPerson, "", report.Resolved},
		{"", journal.OutcomeRerun, journal.MethodPerson, "", report.Resolved},
	} {
		var facts []journal.Event
		if c.kind != "" {
			facts = append(facts, journal.Event{Fact: journal.GateOpened{Place: place, Kind: c.kind}})
		}
		facts = append(facts, journal.Event{Fact: journal.GateDecided{
			Place: place, Outcome: c.outcome, Method: c.method, Reason: c.reason,
		}})
		stream := func(yield func(journal.Event, error) bool) {
			for _, e := range facts {
				if !yield(e, nil) {
					return
				}
			}
		}
		for d, err := range report.Decisions(stream) {
			if err != nil || d.Answer != c.want {
				t.Errorf("%+v: the answer is %q, %v", c, d.Answer, err)
			}
		}
	}
}

// All readers name the resolutions of a step with an unknown outcome in the same way.
func TestResolutionsHaveWords(t *testing.T) {
	for outcome, want := range map[journal.Outcome]string{
		journal.OutcomeRerun: "rerun", journal.OutcomeSkipped: "skipped", journal.OutcomeFailed: "failed",
		journal.OutcomeOK: "result given",
	} {
		if got := report.ResolutionWords(outcome); got != want {
			t.Errorf("%s: %q, want %q", outcome, got, want)
		}
	}
}
