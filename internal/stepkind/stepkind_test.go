package stepkind_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/stepkind"
)

func TestAmountsGroupDigits(t *testing.T) {
	for want, a := range map[string]stepkind.Amount{
		"0": {}, "7": stepkind.N(7), "999": stepkind.N(999), "1,000": stepkind.N(1000),
		"1,234,567": stepkind.N(1234567), "-1,234": stepkind.N(-1234),
		"unbounded": {Unbounded: "because"},
	} {
		if a.String() != want {
			t.Errorf("%+v is written %q, want %q", a, a, want)
		}
	}
}

func TestArithmeticKeepsUnboundedAmounts(t *testing.T) {
	none := stepkind.Amount{Unbounded: "no limit"}
	for name, c := range map[string]struct{ got, want stepkind.Amount }{
		"sum":                    {stepkind.N(2).Plus(stepkind.N(3)), stepkind.N(5)},
		"sum without bound":      {stepkind.N(2).Plus(none), none},
		"product":                {stepkind.N(2).Times(3), stepkind.N(6)},
		"nothing without bound":  {stepkind.Amount{}.By(none), stepkind.Amount{}},
		"something without end":  {stepkind.N(2).By(none), none},
		"no bound, never":        {none.Times(0), stepkind.Amount{}},
		"the larger":             {stepkind.N(2).Max(stepkind.N(3)), stepkind.N(3)},
		"the larger has no end":  {stepkind.N(2).Max(none), none},
		"lowered":                {stepkind.N(9).AtMost(4), stepkind.N(4)},
		"no bound, lowered":      {none.AtMost(4), stepkind.N(4)},
		"already low":            {stepkind.N(3).AtMost(4), stepkind.N(3)},
		"too large to be summed": {stepkind.N(1 << 60).Plus(stepkind.N(1 << 60)), stepkind.N(1 << 60)},
	} {
		if c.got != c.want {
			t.Errorf("%s: %+v, want %+v", name, c.got, c.want)
		}
	}
}

func TestAmountsNeverOverflow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, 1<<62)
		a, b := stepkind.N(n.Draw(t, "a")), stepkind.N(n.Draw(t, "b"))
		for _, got := range []stepkind.Amount{a.Plus(b), a.Times(b.N), a.By(b), a.Max(b)} {
			if got.N < 0 {
				t.Fatalf("%v and %v give %v", a, b, got)
			}
		}
	})
}

func TestReadTokensAreBoundedByTheWriters(t *testing.T) {
	agent := func(id string) ir.Task {
		t := ir.Task{Kind: "agent"}
		t.Settings.Put("agent", id, source.Span{File: "f", Start: 1, End: 2})
		return t
	}
	p := &ir.Program{
		Agents: []ir.Agent{{ID: "short", MaxTokens: 300}, {ID: "usual"}},
		Blocks: []ir.Block{
			{Steps: []ir.Step{
				{ID: "a", Action: agent("short"), Writes: []ir.Write{{Path: "state.short"}}},
				{ID: "b", Action: agent("usual"), Writes: []ir.Write{{Path: "state.usual"}, {Path: "state.short"}}},
				{ID: "c", Action: ir.Task{Kind: "tool"}, Writes: []ir.Write{{Path: "state.found"}}},
				{ID: "d", Action: ir.Gate{Decider: ir.Person}, Writes: []ir.Write{{Path: "state.ok"}}},
				{
					ID: "e", Action: ir.Parallel{Branches: []ir.Branch{{Block: 1}, {Block: 1}}},
					Writes: []ir.Write{{Path: "state.both"}},
				},
			}},
			{Steps: []ir.Step{{ID: "w", Action: agent("usual")}}},
		},
	}
	for path, want := range map[string]int64{
		"input":       stepkind.AssumedInputTokens,
		"state.short": stepkind.DefaultReplyTokens, // the largest of its writers
		"state.found": stepkind.AssumedResultTokens,
		"state.ok":    stepkind.AssumedNoteTokens,
		"state.both":  2 * stepkind.DefaultReplyTokens,
	} {
		if got := stepkind.ReadTokens(p, &ir.Step{Reads: []ir.Ref{{Path: path}}}); got != want {
			t.Errorf("%s: %d tokens, want %d", path, got, want)
		}
	}
}
