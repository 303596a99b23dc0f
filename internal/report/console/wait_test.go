package console

import (
	"slices"
	"testing"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
)

func TestWaitPutsLongCommandsOnTheirOwnLine(t *testing.T) {
	const id = "cd24ce57-0000-4000-8000-000000000000"
	for _, c := range []struct {
		place string
		n     Notice
		width int
		want  []string
	}{
		{"ok", Notice{For: journal.AskApproval, Step: "ok", root: id}, 79, []string{
			"  ? ok  waiting for approval: espalier approve cd24ce57 ok",
		}},
		{"gate of draft", Notice{For: journal.AskApproval, Step: "draft", root: id}, 60, []string{
			"  ? gate of draft  waiting for approval:",
			"      espalier approve cd24ce57 draft",
		}},
		{"work", Notice{For: journal.AskOutcome, Step: "work", root: id}, 79, []string{
			"  ? work  waiting for a decision:",
			"      espalier resume cd24ce57 --decide work=rerun",
			"      (instead of rerun: skip, fail or result=JSON)",
		}},
		{"work", Notice{For: journal.AskOutcome, Step: "work", root: id}, uncut, []string{
			"  ? work  waiting for a decision: espalier resume cd24ce57 --decide work=rerun   " +
				"(instead of rerun: skip, fail or result=JSON)",
		}},
	} {
		if got := waitLines(&Style{}, c.place, &c.n, report.Plain, c.width); !slices.Equal(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
