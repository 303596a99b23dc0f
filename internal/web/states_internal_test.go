package web

import (
	"testing"

	"github.com/espalier-run/espalier/internal/graph"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/report/reporttest"
)

// The picture of a run and its story are on one page: they give each step that is open the same state at any time.
func TestPictureAndStoryAgreeOnStates(t *testing.T) {
	t.Chdir("../report/audit") // recordings are found from there
	compared := map[journal.State]int{}
	for _, r := range reporttest.All(t) {
		outline := report.NewOutline(r.Program)
		in := report.NewInterpreter(reporttest.Run, func(string) (*report.Outline, error) { return outline, nil })
		s := newStory(in, reporttest.Run, noStep)
		picture := graph.Build(r.Program, graph.Options{})
		tracker := picture.Track(r.Program, "")
		for _, a := range r.Appends {
			for _, e := range a.Events {
				tracker.Apply(e)
				err := in.Interpret(&e, func(ev *event) error {
					if ev.Run.ID == reporttest.Run {
						s.apply(ev)
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			open := map[string][]journal.State{}
			for _, v := range s.steps {
				if v.Ended.IsZero() {
					open[v.Path] = append(open[v.Path], v.State)
				}
			}
			for _, n := range picture.Nodes {
				states := open[n.Step]
				if n.Step == "" || n.State == "" || len(states) != 1 { // the picture has one state for all items
					continue
				}
				compared[n.State]++
				if n.State != states[0] {
					t.Errorf("%s, append %d: %s is %s in the picture and %s in the story",
						r.Name, a.Pos, n.Step, n.State, states[0])
				}
			}
		}
	}
	for _, state := range []journal.State{
		journal.StateRunning, journal.StateWaiting, journal.StateSleeping, journal.StateUnknown,
	} {
		if compared[state] == 0 {
			t.Errorf("no step was %s in both", state)
		}
	}
}
