package kinds_test

import (
	"testing"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/step/steptest"
	"github.com/espalier-run/espalier/internal/stepkind"
	"github.com/espalier-run/espalier/internal/stepkind/kinds"
)

func workers(n int) ir.Action {
	return ir.Parallel{Branches: make([]ir.Branch, n), Join: ir.JoinSettle}
}

func TestCombineStepsMeetTheStepContract(t *testing.T) {
	steptest.Run(t, kinds.Combine{},
		steptest.Case{
			Name: "by type", Action: workers(2),
			Settings: steptest.Settings{"strategy": "combine_by_type", "dedupe_key": []string{"type"}},
		},
		steptest.Case{
			Name: "union", Action: workers(2),
			Settings: steptest.Settings{
				"strategy": "union", "conflict": "first_wins", "required_fields": []string{"a"},
				"format": "f",
			},
		},
		steptest.Case{
			Name: "a critic", Action: workers(2),
			Settings: steptest.Settings{"strategy": "union", "conflict": "send_to_critic", "critic": "plain"},
		},
		steptest.Case{
			Name: "F23: conflicts without a critic", Action: workers(2),
			Settings: steptest.Settings{"strategy": "union", "conflict": "send_to_critic"},
			Codes:    []diag.Code{stepkind.CodeNoCritic}, At: []string{"conflict"},
		},
		steptest.Case{
			Name: "F23: a strategy without a critic", Action: workers(2),
			Settings: steptest.Settings{"strategy": "send_to_critic"},
			Codes:    []diag.Code{stepkind.CodeNoCritic}, At: []string{"strategy"},
		},
		steptest.Case{Name: "F24: three voters", Action: workers(3), Settings: steptest.Settings{"strategy": "vote"}},
		steptest.Case{
			Name: "F24: four voters", Action: workers(4), Settings: steptest.Settings{"strategy": "vote"},
			Codes: []diag.Code{stepkind.CodeEvenVoters}, At: []string{"strategy"},
		},
		steptest.Case{Name: "another strategy", Settings: steptest.Settings{"strategy": "guess"}, Misfit: true},
		steptest.Case{
			Name: "another rule", Settings: steptest.Settings{"strategy": "union", "conflict": "toss"},
			Misfit: true,
		},
	)
}

func TestOnlyACriticCosts(t *testing.T) {
	for _, c := range []struct {
		settings steptest.Settings
		calls    int64
	}{
		{steptest.Settings{"strategy": "vote", "conflict": "fail"}, 0},
		{steptest.Settings{"strategy": "union", "conflict": "send_to_critic", "critic": "plain"}, 0}, // keeps all
		{steptest.Settings{"strategy": "send_to_critic", "critic": "plain"}, 1 + stepkind.RepairCalls},
		{
			steptest.Settings{
				"strategy": "union", "dedupe_key": []string{"id"}, "conflict": "send_to_critic",
				"critic": "handy", // without its tools
			}, 1 + stepkind.RepairCalls,
		},
	} {
		s, task := steptest.Case{Settings: c.settings, Action: workers(2)}.Task("combine")
		b := stepkind.BoundOf(kinds.Combine{}, steptest.Program(), s, task)
		if b.Worst.ModelCalls.N != c.calls || b.Base.ModelCalls.N != 0 {
			t.Errorf("%v: %v", c.settings, b)
		}
	}
}
