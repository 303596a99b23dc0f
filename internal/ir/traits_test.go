package ir_test

import (
	"encoding/json"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
)

// Programs that were stored without traits look and decide as they did then.
func TestTasksOfStoredProgramsKeepTheirTraits(t *testing.T) {
	for stored, want := range map[string]ir.Traits{
		`{"kind":"agent","settings":[{"name":"agent","value":"critic"}]}`: {
			Nature: ir.Asks, Agent: "critic", Record: "agent",
		},
		`{"kind":"tool","settings":[{"name":"tool","value":"a.b"}]}`: {Nature: ir.Acts, Tool: "a.b", PassReads: true},
		`{"kind":"script","settings":[{"name":"language","value":"sh"}]}`: {
			Nature: ir.Computes, Language: "sh", PassReads: true,
		},
		`{"kind":"transform"}`: {Nature: ir.Computes},
		`{"kind":"combine"}`:   {Nature: ir.Combines},
		`{"kind":"command"}`:   {Nature: ir.Acts, Record: "command"},
		`{"kind":"operation","settings":[{"name":"operation","value":"a.b"}]}`: {
			Nature: ir.Acts, Tool: "a.b", Record: "operation",
		},
		`{"kind":"conversation","settings":[{"name":"agent","value":"a"},{"name":"dialog","value":"a"}]}`: {
			Nature: ir.Acts, Agent: "a", Dialog: true,
		},
		`{"kind":"prompt","settings":[{"name":"agent","value":7}]}`: {Nature: ir.Acts},
		`{"kind":"agent","traits":{"nature":"computes"}}`:           {Nature: ir.Computes},
	} {
		var task ir.Task
		if err := json.Unmarshal([]byte(stored), &task); err != nil {
			t.Fatal(err)
		}
		if got := task.Describe(); got != want {
			t.Errorf("%s: %+v, want %+v", stored, got, want)
		}
	}
}
