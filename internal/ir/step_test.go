package ir_test

import (
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
)

func TestDurationInWords(t *testing.T) {
	for ms, want := range map[ir.Millis]string{
		0: "0 ms", 500: "500 ms", 5_000: "5 s", 90_000: "1 min 30 s", 3_600_000: "1 h", 86_400_000: "24 h", 100_800_000: "28 h", 604_800_000: "7 days", 1 << 60: "years",
	} {
		if got := ms.Words(); got != want {
			t.Errorf("%d ms is %q, want %q", ms, got, want)
		}
	}
}
