package cli

import (
	"testing"

	"github.com/espalier-run/espalier/internal/journal"
)

func TestUsageTextCountsStepsTokensAndCost(t *testing.T) {
	three := int64(3)
	for _, c := range []struct {
		used   journal.Usage
		limits journal.Limits
		want   string
	}{
		{journal.Usage{}, journal.Limits{}, "0 steps, 0 tokens, 0 tool calls"},
		{journal.Usage{Steps: 1, OutputTokens: 1, ToolCalls: 2}, journal.Limits{}, "1 step, 1 token, 2 tool calls"},
		{
			journal.Usage{Steps: 1, InputTokens: 1500, MicroDollars: 20_000},
			journal.Limits{Steps: &three},
			"1 of 3 steps, 1,500 tokens, 0 tool calls, $0.0200",
		},
		{ // rounded to the nearest
			journal.Usage{Steps: 1, MicroDollars: 6145}, journal.Limits{}, "1 step, 0 tokens, 0 tool calls, $0.0061",
		},
		{
			journal.Usage{
				Steps: 1, ModelCalls: 1, InputTokens: 700, OutputTokens: 800,
				MicroDollars: 20_000,
			}.Unanswered(),
			journal.Limits{},
			"1 step, 1,500 tokens, 0 tool calls, $0.0200; of these at most 1,500 tokens and $0.0200 for 1 model call " +
				"without a reply",
		},
	} {
		if got := usedWords(c.used, c.limits); got != c.want {
			t.Errorf("%+v: %s", c.used, got)
		}
	}
}
