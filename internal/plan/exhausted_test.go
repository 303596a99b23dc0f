package plan_test

import (
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
)

// A step that is refused because the budget of its branch or child is exhausted
// fails. If the failure leads back to it, the branch ends nevertheless.
func TestRefusedStepsDoNotRepeatForever(t *testing.T) {
	back := func(id, to string) ir.Step {
		s := task(id)
		s.Next = []ir.Edge{on(to, ir.OK, ir.Failed, ir.Skipped)}
		return s
	}
	for name, body := range map[string][]ir.Step{
		"no cycle":         {task("x")},
		"a jump to itself": {back("x", "x")},
		"a cycle of two":   {back("x", "y"), back("y", "x")},
		"a cycle with a choice": {
			back("x", "r"),
			{ID: "r", Action: ir.Route{}, Next: []ir.Edge{on("x", ir.OK, ir.Failed)}},
		},
	} {
		for _, skips := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				steps := append([]ir.Step{}, body...)
				for i := range steps {
					steps[i].SkipOnError = skips
				}
				budget := ir.Budget{Steps: limit(3)}
				for what, p := range map[string]*ir.Program{
					"branch": {
						Blocks: []ir.Block{{Steps: []ir.Step{{ID: "fan", Action: ir.Parallel{
							Join: ir.JoinSettle, Branches: []ir.Branch{{Name: "b", Block: 1, Budget: budget}},
						}}}}, {Steps: steps}},
					},
					"loop in a branch": {
						Blocks: []ir.Block{{Steps: []ir.Step{{ID: "fan", Action: ir.Parallel{
							Join: ir.JoinSettle, Branches: []ir.Branch{{Name: "b", Block: 1, Budget: budget}},
						}}}}, {Steps: []ir.Step{{
							ID: "loop", Action: ir.Loop{Block: 2, While: cond(t, "true")},
						}}}, {Steps: steps}},
					},
					"child": {
						Blocks:   []ir.Block{{Steps: []ir.Step{{ID: "call", Action: ir.Call{PassReads: true}}}}},
						Children: []ir.Program{{Blocks: []ir.Block{{Steps: steps}}, Budget: budget}},
					},
				} {
					w := start(t, p, "")
					w.quick = true
					for range 50_000 {
						if w.s.Finished != nil || len(w.tasks) == 0 && !w.decideRemainder() {
							break
						}
						if len(w.tasks) > 0 {
							w.finishTask(0)
						}
					}
					if w.s.Finished == nil {
						t.Errorf("%s: the run has %d facts and has not finished", what, len(w.log))
					} else if len(w.log) > 10_000 {
						t.Errorf("%s: %d facts", what, len(w.log))
					}
					if n := len(w.done); n > 3 {
						t.Errorf("%s: %d tasks ran with a budget of 3", what, n)
					}
				}
			})
		}
	}
}

// decideRemainder decides what is left after a decision that was cut, and reports whether it produced events.
func (w *world) decideRemainder() bool {
	w.s.MarkAll()
	return len(w.send()) > 0
}
