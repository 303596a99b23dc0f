package console

import (
	"testing"

	"github.com/espalier-run/espalier/internal/journal"
)

// The summary shows the last steps, and counts the others.
func TestSummaryShowsLastSteps(t *testing.T) {
	var p Progress
	for i := 1; i <= 5*maxDone; i++ {
		p.remember(&Notice{Seq: journal.Seq(i)})
		shown, before := p.last()
		if want := max(0, i-maxDone); before != want || len(shown) != i-want {
			t.Fatalf("after %d: %d shown, %d before", i, len(shown), before)
		}
		for k := range shown {
			if int(shown[k].Seq) != before+k+1 {
				t.Fatalf("after %d: number %d is %d", i, k, shown[k].Seq)
			}
		}
	}
}
