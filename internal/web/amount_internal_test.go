package web

import (
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
)

func TestAmountsOfFormsAreNeverNegativeOrZero(t *testing.T) {
	for _, test := range []struct {
		budget, text string
		want         int64 // 0 if the amount is refused
	}{
		{"steps", "1,500", 1500},
		{"steps", "0.4", 0},
		{"steps", "-1", 0},
		{"steps", "NaN", 0},
		{"steps", "1e15", 1_000_000_000_000_000},
		{"steps", "1e16", 0},
		{ir.BudgetMoney, "2.50", 2_500_000},
		{ir.BudgetMoney, "0.0000001", 0},
		{ir.BudgetMoney, "1e9", 1_000_000_000_000_000},
		{ir.BudgetMoney, "1e15", 0},
	} {
		got, err := amount(test.budget, test.text)
		if got != test.want || (err == nil) != (test.want > 0) {
			t.Errorf("%s %q: %d, %v", test.budget, test.text, got, err)
		}
	}
}
