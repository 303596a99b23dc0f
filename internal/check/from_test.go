package check_test

import (
	"slices"
	"testing"

	"github.com/espalier-run/espalier/internal/check"
	"github.com/espalier-run/espalier/internal/ir"
)

// What a run can still use depends on the steps that can follow the current one, not on those that are done.
func TestFromKeepsTheStepsThatCanFollow(t *testing.T) {
	p := program(
		row(task("first", acts(ir.Loop{Block: 1, Max: 3})), task("ask", acts(ir.Gate{Decider: ir.Person}),
			edge("again", 0, ir.Rejected)), task("last"), task("done", exits(ir.ExitBlock, "")), task("again",
			edge("ask", 1)), task("tidy")),
		row(task("inner")),
	)
	p.OnCancel = "tidy"
	for _, c := range []struct {
		step   string
		want   []string
		tokens int64
	}{
		{"first", []string{"first", "ask", "last", "done", "again", "tidy", "inner"}, 770},
		{"ask", []string{"ask", "last", "done", "again", "tidy"}, 440},
		{"done", []string{"done", "tidy"}, 110},
		{"unknown", []string{"first", "ask", "last", "done", "again", "tidy", "inner"}, 770},
	} {
		rest := check.From(p, c.step)
		var got []string
		for s := range rest.Steps() {
			got = append(got, s.ID)
		}
		if !slices.Equal(got, c.want) || check.Estimate(rest, units).Tokens.Worst.N != c.tokens {
			t.Errorf("%s: %q with %v tokens", c.step, got, check.Estimate(rest, units).Tokens.Worst)
		}
	}
}
