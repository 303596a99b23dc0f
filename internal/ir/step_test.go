package ir_test

import (
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
)

func TestDurationsAreWrittenInUnits(t *testing.T) {
	for ms, want := range map[ir.Millis]string{
		0: "0 ms", 500: "500 ms", 1_500: "1 s 500 ms", 5_000: "5 s", 90_000: "1 min 30 s", 3_600_000: "1 h",
		3_600_001: "1 h 1 ms", 86_400_000: "24 h", 100_800_000: "28 h", 604_800_000: "7 days", 1 << 60: "years",
	} {
		if got := ms.Words(); got != want {
			t.Errorf("%d ms is %q, want %q", ms, got, want)
		}
	}
}

// A template produces a timeout in seconds or as a duration, above 0.
func TestParseTimeoutReadsSecondsAndDurations(t *testing.T) {
	s := &ir.Step{ID: "each"}
	for text, want := range map[string]ir.Millis{
		"30": 30_000, "0.5": 500, "1m30s": 90_000, "500ms": 500, " 2s\n": 2000, "1us": 1, "0.00001": 1,
		"1e3": 1_000_000, "2540400h": 9_145_440_000_000,
	} {
		if got, err := s.ParseTimeout(text); err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", " ", "soon", "-3s", "-1", "0", "0s", "NaN", "Inf", "1e9", "30 s", "1d",
		"9999999h",
	} {
		if got, err := s.ParseTimeout(text); err == nil ||
			!strings.Contains(err.Error(), `step "each" has an invalid timeout "`+strings.TrimSpace(text)+
				`": use seconds such as 30, or`) {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}

func TestPathsOverlapWithTheirParents(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"state.a", "state.a", true},
		{"state", "state.a", true},
		{"state.a.b", "state.a", true},
		{"state.a", "state.ab", false},
		{"state.a", "state.b", false},
		{"state.a.b", "state.a.c", false},
	} {
		if ir.Overlap(c.a, c.b) != c.want || ir.Overlap(c.b, c.a) != c.want {
			t.Errorf("%s and %s: want %v", c.a, c.b, c.want)
		}
	}
}
