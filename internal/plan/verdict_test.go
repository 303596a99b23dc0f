package plan_test

import (
	"encoding/json"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
)

func TestTraitsDecideWhoGivesAVerdict(t *testing.T) {
	for _, c := range []struct {
		traits ir.Traits
		method journal.Method
		author string
	}{
		{ir.Traits{Nature: ir.Asks, Agent: "judge"}, journal.MethodCritic, "judge"},
		{ir.Traits{Nature: ir.Asks}, journal.MethodCritic, "any"},
		{ir.Traits{Nature: ir.Acts, Tool: "lint"}, journal.MethodAutomated, "lint"},
	} {
		w := start(t, program(ir.Step{
			ID: "g", Action: ir.Gate{Decider: ir.Work, Verdict: &ir.Task{Kind: "any", Traits: &c.traits}},
			Writes: []ir.Write{{Path: "state.g"}},
		}), "")
		w.endTask("g", value(`{"approved": true}`))
		var got struct {
			Method journal.Method `json:"method"`
			Actor  string         `json:"actor"`
		}
		for _, e := range w.log {
			if ended, ok := e.Fact.(journal.TaskEnded); ok {
				if err := json.Unmarshal(ended.Value.JSON, &got); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got.Method != c.method || got.Actor != c.author {
			t.Errorf("%+v: decided by %+v", c.traits, got)
		}
	}
}
