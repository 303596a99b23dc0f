package plan_test

import (
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
)

// A branch or an iteration that writes a namespace and then a part of it has both effects in that order.
func TestNamespaceAndPartAreMerged(t *testing.T) {
	inside := func() []ir.Step {
		whole, part := task("whole"), task("part")
		whole.Writes = []ir.Write{{Path: "output", Reducer: ir.Merge}}
		part.Writes = []ir.Write{{Path: "output.b"}}
		return chain(whole, part)
	}
	for name, around := range map[string]ir.Action{
		"branch":    ir.Parallel{Branches: []ir.Branch{{Name: "x", Block: 1}}},
		"iteration": ir.Loop{Block: 1, Max: 1},
	} {
		for range 20 {
			p := program(ir.Step{ID: "around", Action: around})
			p.Blocks = append(p.Blocks, ir.Block{Steps: inside()})
			w := start(t, p, "")
			w.do = func(w journal.TaskID) plan.Result {
				if w.Step == "whole" {
					return value(`{"a":1,"b":2}`)
				}
				return value(`3`)
			}
			w.run(pickFirst)
			if got := string(w.s.Finished.Output.JSON); got != `{"a":1,"b":3}` {
				t.Fatalf("%s: %s", name, got)
			}
		}
	}
}
