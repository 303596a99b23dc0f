package plan

import (
	"maps"
	"slices"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
)

// A rewind takes a run back to a step of its body that it reached before, with the values from then. Usage is not
// refunded. Steps that run again count as new visits, so that no task reuses the key of an earlier one.

// CheckReturn returns why a run of the program cannot continue from a step; nil if it can.
func (p *Program) CheckReturn(step string) error {
	if _, here := p.unit("").index[ir.Body][step]; here {
		return nil
	}
	for _, u := range p.units {
		for _, index := range u.index {
			if _, inside := index[step]; inside {
				return refusal(
					NotAllowed,
					"step %q is inside a branch, a loop or another workflow; a run can only go back to a step of its "+
						"main line",
					step,
				)
			}
		}
	}
	return refusal(Unknown, "unknown step %q", step)
}

// Reaches reports whether an event is about to move the run's body to a step, and returns the checkpoint before that.
func (s *State) Reaches(e *journal.Event, step string) (Checkpoint, bool) {
	var at journal.Place
	switch e.Fact.(type) {
	case journal.TaskStarted, journal.BudgetWait, journal.GateOpened, journal.StepEntered, journal.StepLeft:
		at, _ = journal.PlaceOf(e.Fact)
	}
	root := s.Root()
	if root == nil || at.Frame != "" || at.Step != step || root.Phase != Beginning && root.Phase != Ended &&
		root.Phase != Sent {
		return Checkpoint{}, false
	}
	was := Checkpoint{
		Vars: maps.Clone(root.Scope), Taken: maps.Clone(root.Taken), Approved: slices.Clone(s.Approved),
	}
	delete(was.Vars, "input")
	return was, true
}

// checkRewind returns why a rewind is refused.
func (s *State) checkRewind(p *Program, x *Rewind) error {
	switch {
	case s.Open > 0:
		return s.busy()
	case s.Root().Canceled || s.Root().Cleaning:
		return refusal(TooLate, "the run is being canceled")
	}
	return p.CheckReturn(x.Step)
}

// rewind ends everything that is open, innermost first, and moves the body to the step.
func (d *decider) rewind(x *Rewind) {
	paths := d.s.paths()
	slices.Reverse(paths) // inner frames have longer paths
	for _, path := range paths {
		f := d.s.Frames[path]
		switch f.Phase {
		case Beginning, Ended, Sent:
		default:
			d.leave(f, journal.StepLeft{Place: f.Place(), Outcome: journal.OutcomeCanceled, For: f.For})
		}
		if path != "" {
			d.fact(f, journal.FrameClosed{Frame: path, Outcome: journal.OutcomeCanceled, Step: f.Step})
		}
	}
	d.fact(nil, journal.Rewound{
		Step: x.Step, Vars: x.Was.Vars, Taken: x.Was.Taken, Approved: x.Was.Approved, By: x.By,
	})
}

// rewind replaces the frame of the body. Visits and usage continue; everything else is as it was at the checkpoint.
func (s *State) rewind(x *journal.Rewound) {
	old := s.Root()
	root := &Frame{
		Phase: Sent, Step: x.Step, Rewound: true, Scope: map[string]journal.Value{"input": old.Scope["input"]},
		Visits: old.Visits, Taken: maps.Clone(x.Taken), Ledger: old.Ledger,
	}
	maps.Copy(root.Scope, x.Vars)
	s.Frames[""], s.Approved = root, slices.Clone(x.Approved)
	s.mark(root)
}
