package app_test

import (
	"testing"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/ir"
)

// The command line and the pages accept the same limits.
func TestLimitsOfBudgetsAreExactAndNeverNegativeOrZero(t *testing.T) {
	const whole = ` is not a whole number from 1 to 1000000000000000`
	const dollars = ` is not an amount in dollars from 0.000001 to 1000000000`
	for _, test := range []struct {
		budget, text string
		want         app.Raise
		problem      string
	}{
		{"steps", "1,500", app.Raise{Budget: ir.BudgetSteps, To: 1500}, ""},
		{"max_tokens", "20", app.Raise{Budget: ir.BudgetTokens, To: 20}, ""},
		{"deadline_seconds", "60", app.Raise{Budget: ir.BudgetDeadline, To: 60}, ""},
		{"steps", "1e15", app.Raise{Budget: ir.BudgetSteps, To: 1_000_000_000_000_000}, ""},
		{"steps", "1e16", app.Raise{}, `the new limit "1e16"` + whole},
		{"steps", "0.4", app.Raise{}, `the new limit "0.4"` + whole},
		{"steps", "0", app.Raise{}, `the new limit "0"` + whole},
		{"steps", "-1", app.Raise{}, `the new limit "-1"` + whole},
		{"steps", "NaN", app.Raise{}, `the new limit "NaN"` + whole},
		{"steps", "0x10", app.Raise{}, `the new limit "0x10"` + whole},
		{"cost_usd", "2.50", app.Raise{Budget: ir.BudgetMoney, To: 2_500_000}, ""},
		{"max_cost_usd", "1e9", app.Raise{Budget: ir.BudgetMoney, To: 1_000_000_000_000_000}, ""},
		{"micro_dollars", "2500000", app.Raise{Budget: ir.BudgetMoney, To: 2_500_000}, ""},
		{"cost_usd", "0.0000001", app.Raise{}, `the new limit "0.0000001"` + dollars},
		{"cost_usd", "1e15", app.Raise{}, `the new limit "1e15"` + dollars},
		{"cost_usd", "", app.Raise{}, `the new limit ""` + dollars},
		{"token", "3", app.Raise{}, `unknown budget "token"`},
	} {
		got, err := app.ParseRaise(test.budget, test.text)
		switch {
		case test.problem == "" && (err != nil || got != test.want):
			t.Errorf("%s %q: %+v, %v", test.budget, test.text, got, err)
		case test.problem != "" && (err == nil || err.Error() != test.problem):
			t.Errorf("%s %q: %+v, %v, want %s", test.budget, test.text, got, err, test.problem)
		}
	}
}
