package report_test

import (
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/report"
)

// A budget of which something is left is not exhausted: the next request needs more.
func TestShortfallNamesWhatTheNextRequestNeeds(t *testing.T) {
	for _, c := range []struct {
		budget     string
		next, left int64
		want       string
	}{
		{
			ir.BudgetMoney, 46_100, 10_000,
			"the next model call may cost $0.0461, and $0.0100 of the cost budget is left",
		},
		{
			ir.BudgetTokens, 8_192, 100,
			"the next model call may use 8,192 tokens, and 100 of the token budget is left",
		},
		{ir.BudgetTools, 3, 1, "the next step may make 3 tool calls, and 1 of the tool call budget is left"},
		{ir.BudgetSteps, 1, 0, ""},
		{ir.BudgetMoney, 5, 5, ""},
		{ir.BudgetMoney, 0, 5, ""},
	} {
		if got := report.ShortfallWords(c.budget, c.next, c.left); got != c.want {
			t.Errorf("%s: got %q", c.budget, got)
		}
	}
}
