package web

import (
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
)

// Steps that a run has not come to are not done, whatever else has ended; what it inherits is.
func TestProgressCountsStepsOfTheFile(t *testing.T) {
	p := &ir.Program{Blocks: []ir.Block{{Steps: []ir.Step{
		{ID: "notes"}, {ID: "brief"}, {ID: "brief:gate", Implied: true}, {ID: "announce"},
	}}}}
	for name, c := range map[string]struct {
		ended []string
		from  *journal.Origin
		want  int
	}{
		"rejected at the gate": {ended: []string{"notes", "brief", "brief:gate"}, want: 2},
		"complete":             {ended: []string{"notes", "brief", "brief:gate", "announce"}, want: 3},
		"continued":            {ended: []string{"announce"}, from: &journal.Origin{Step: "announce"}, want: 3},
		"not yet":              {from: &journal.Origin{Step: "brief:gate"}, want: 2},
	} {
		var s story
		for _, path := range c.ended {
			v := &stepView{StepVisit: &report.StepVisit{}}
			v.Path, v.Ended, v.State = path, time.Unix(1, 0), "ok"
			s.steps = append(s.steps, v)
		}
		if done, of := s.doneOf(p, c.from); done != c.want || of != 3 {
			t.Errorf("%s: %d of %d, want %d of 3", name, done, of, c.want)
		}
	}
}
