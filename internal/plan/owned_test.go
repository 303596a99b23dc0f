package plan_test

import (
	"encoding/json"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
)

// Values that Espalier sets are not for people to change: the name of a run's folder, what the machine says, and what
// expressions read about the run. This holds for parts of them and for what holds them.
func TestOwnedValuesCannotBeEdited(t *testing.T) {
	program := plan.Compile(&ir.Program{
		MayIntervene: true, Blocks: []ir.Block{{}},
		Vars: []ir.Var{
			{Path: "agentfile.run", From: "stamp:outputs/w"},
			{Path: "context.User", From: "user"},
			{Path: "env.LANG", From: "env:LANG"},
			{Path: "state.n", Init: json.RawMessage("1")},
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

// A decision that no person makes is recorded as such, also in what the gate writes. A server has established who sends
// it; anywhere else, the name of an account would look like a person.
func TestAutomatedApprovalIsNoPerson(t *testing.T) {
	for _, c := range []struct {
		by   journal.Actor
		want string
	}{
		{journal.Actor{User: "root"}, plan.AutoApprove},
		{journal.Actor{User: "root", As: "ann"}, plan.AutoApprove},
		{journal.Actor{User: "ann", Method: "token"}, "ann"},
	} {
		w := atGate(t, ir.Gate{})
		decision := w.signedDecision(journal.AnswerApprove, "")
		decision.By, decision.Automated = c.by, true
		var decided journal.GateDecided
		for _, e := range w.send(decision) {
			if x, ok := e.Fact.(journal.GateDecided); ok {
				decided = x
			}
		}
		var value struct {
			Actor, Claimed string
			Method         journal.Method
		}
		if err := json.Unmarshal(decided.Value.JSON, &value); err != nil {
			t.Fatal(err)
		}
		method := journal.MethodAutoApprove
		if decided.Outcome != journal.OutcomeOK || decided.Method != method || decided.By.User != c.want ||
			decided.By.As != "" || value.Actor != c.want || value.Method != method || value.Claimed != "" {
			t.Errorf("%+v: %+v %+v", c.by, decided, value)
		}
	}
}
