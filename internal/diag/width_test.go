package diag_test

import (
	"testing"

	"github.com/espalier-run/espalier/internal/diag"
)

func TestWidthCountsTerminalColumns(t *testing.T) {
	for text, want := range map[string]int{
		"":           0,
		"abc":        3,
		"é":          1,
		"e\u0301":    1, // a letter and its accent
		"a\u2060b":   2, // joined without room
		"a\u200bb":   2,
		"漢字":         4,
		"ｱ":          1,
		"😀":          2,
		"soft\u00ad": 5, // terminals show a hyphen
	} {
		if got := diag.Width(text); got != want {
			t.Errorf("%q: %d, not %d", text, got, want)
		}
	}
}
