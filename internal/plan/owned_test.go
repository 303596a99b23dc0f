package plan_test

import (
	"encoding/json"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/plan"
)

// Values that Espalier sets are not for people to change: the name of a run's folder, what the machine says, and what
// expressions read about the run. This holds for parts of them and for what holds them.
func TestOwnedValuesCannotBeEdited(t *testing.T) {
	program := plan.Compile(&ir.Program{
		MayIntervene: true, Blocks: []ir.Block{{}},
		Vars: []ir.Var{
			{Path: "agentfile.run", From: "stamp:outputs/w"}, {Path: "context.User", From: "user"},
			{Path: "env.LANG", From: "env:LANG"}, {Path: "state.n", Init: json.RawMessage("1")},
		},
		Children: []ir.Program{{Vars: []ir.Var{{Path: "child.run", From: "stamp:outputs/v"}}, Blocks: []ir.Block{{}}}},
	})
	for path, owned := range map[string]bool{
		"agentfile.run": true, "agentfile": true, "agentfile.run.x": true, "context.User": true, "context": true,
		"child.run": true, "run.id": true, "workflow.name": true, "last": true,
		"env.LANG": false, "state.n": false, "state": false, "agentfile.runs": false, "running": false,
	} {
		err := program.CheckEdit(&plan.Edit{Path: path, Value: json.RawMessage(`"../../hack"`)})
		if refused, ok := plan.IsRefusal(err); owned != (ok && refused.Code == plan.NotAllowed) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
