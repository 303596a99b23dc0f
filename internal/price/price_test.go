package price

import "testing"

func TestParseRate(t *testing.T) {
	for text, want := range map[string]Rate{"3": 3e6, "0.30": 3e5, "0.075": 75e3, "0": 0, "1e-3": 1e3, "18.75": 18_750_000} {
		if got, err := ParseRate(text); err != nil || got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "x", "-1", "1/3", "0.0000001", "100001", "1_0", "0x10", "NaN", "Inf"} {
		if got, err := ParseRate(text); err == nil {
			t.Errorf("%q: %d", text, got)
		}
	}
}

func TestCost(t *testing.T) {
	p := Price{Input: 3e6, Output: 15e6, CacheRead: 3e5, CacheWrite: 3_750_000}
	for _, c := range []struct {
		tokens Tokens
		want   int64
	}{
		{Tokens{}, 0},
		{Tokens{Input: 1}, 3},
		{Tokens{CacheRead: 1}, 1}, // a third of it, rounded up
		{Tokens{Input: 1000, Output: 100, CacheRead: 10_000, CacheWrite: 400}, 3000 + 1500 + 3000 + 1500},
	} {
		if got := p.Cost(c.tokens); got != c.want {
			t.Errorf("%+v: %d, want %d", c.tokens, got, c.want)
		}
	}
	if got := p.Worst(1000, 100); got != 3750+1500 {
		t.Errorf("at worst %d", got)
	}
	if got := p.Cost(Tokens{Input: 1 << 62, Output: 1 << 62}); got != most {
		t.Errorf("too much is %d", got)
	}
}

func TestWriting(t *testing.T) {
	for micro, want := range map[int64]string{0: "$0.00", 420_000: "$0.42", 420_001: "$0.43", 12_345: "$0.0124", 7: "$0.000007", 1_000_000: "$1.00", 95_000: "$0.10", 12_340_000: "$12.34", -420_000: "-$0.42"} {
		if got := Dollars(micro); got != want {
			t.Errorf("%d: %s, want %s", micro, got, want)
		}
	}
	for rate, want := range map[Rate]string{3e6: "3", 75e3: "0.075", 0: "0"} {
		if got := rate.String(); got != want {
			t.Errorf("%d: %s", rate, got)
		}
	}
}
