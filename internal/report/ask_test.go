package report_test

import (
	"testing"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
)

// The commands are those that the progress of a run, its status and the end of "espalier run" show.
func TestEachAskHasItsCommand(t *testing.T) {
	const run = journal.RunID("12345678-1111-4111-8111-111111111111")
	for _, test := range []struct {
		kind           journal.AskKind
		step, event    string
		command, other string
	}{
		{journal.AskApproval, "check", "", "espalier approve 12345678 check", "espalier reject 12345678 check"},
		{journal.AskApproval, "", "", "espalier approve 12345678", "espalier reject 12345678"},
		{
			journal.AskToolApproval, "gate of a", "", "espalier approve 12345678 'gate of a'",
			"espalier reject 12345678 'gate of a'",
		},
		{journal.AskEvent, "papers", "in", "espalier signal 12345678 in", ""},
		{journal.AskInput, "ask", "text --step ask", "espalier signal 12345678 text --step ask --text TEXT", ""},
		{journal.AskOutcome, "send", "", "espalier resume 12345678 --decide send=rerun", ""},
		{journal.AskOutcome, "a b", "", "espalier resume 12345678 --decide 'a b=rerun'", ""},
		{journal.AskBudget, "", "", "", ""},
	} {
		got := report.AskOf(test.kind, run, test.step, test.event)
		if got.Command != test.command || got.Other != test.other {
			t.Errorf("%s: %q, %q", test.kind, got.Command, got.Other)
		}
		if (got.Waiting == "") != (test.kind == journal.AskBudget) { // which has words of its own
			t.Errorf("%s: waiting is %q", test.kind, got.Waiting)
		}
	}
}
