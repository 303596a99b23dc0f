package report_test

import (
	"slices"
	"testing"

	"github.com/espalier-run/espalier/internal/config"
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
		method  string
		reason  string
		want    report.Answer
	}{
		{journal.GateToolCall, journal.OutcomeRerun, plan.MethodPerson, plan.ReasonApproved, report.Approved},
		{journal.GateToolCall, journal.OutcomeRerun, plan.MethodPerson, plan.ReasonDenied, report.Rejected},
		{journal.GateToolCall, journal.OutcomeRerun, plan.MethodTimeout, plan.ReasonTimedOut, report.TimedOut},
		{"", journal.OutcomeRerun, plan.MethodPerson, plan.ReasonDenied, report.Rejected},
		{journal.GatePerson, journal.OutcomeOK, plan.MethodPerson, "", report.Approved},
		{journal.GatePerson, journal.OutcomeOK, plan.MethodEvent, "", report.Approved},
		{journal.GatePerson, journal.OutcomeRejected, plan.MethodPerson, "", report.Rejected},
		{journal.GatePerson, journal.OutcomeFailed, plan.MethodTimeout, report.ReasonTimeout, report.TimedOut},
		{journal.GatePerson, journal.OutcomeFailed, plan.MethodPerson, "", ""},
		{journal.GateEvent, journal.OutcomeOK, plan.MethodEvent, "", report.Answered},
		{journal.GateEvent, journal.OutcomeSkipped, plan.MethodTimeout, report.ReasonTimeout, report.TimedOut},
		{journal.GateOutcome, journal.OutcomeOK, plan.MethodPerson, "", report.Resolved},
		{journal.GateOutcome, journal.OutcomeRerun, plan.MethodPerson, "", report.Resolved},
		{"", journal.OutcomeRerun, plan.MethodPerson, "", report.Resolved},
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

// The configuration selects notifications by the reasons that report gives.
func TestConfigurationSelectsReasonsForAttention(t *testing.T) {
	var want []string
	for _, reason := range []report.Attention{
		report.AttentionWaiting, report.AttentionFailed, report.AttentionBudget, report.AttentionMissed,
	} {
		want = append(want, string(reason))
	}
	if !slices.Equal(config.NotifyKinds, want) {
		t.Errorf("the configuration knows %q, want %q", config.NotifyKinds, want)
	}
}
