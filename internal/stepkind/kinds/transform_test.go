package kinds_test

import (
	"testing"

	"github.com/espalier-run/espalier/internal/step/steptest"
	"github.com/espalier-run/espalier/internal/stepkind"
	"github.com/espalier-run/espalier/internal/stepkind/kinds"
)

func TestTransformStepsMeetTheStepContract(t *testing.T) {
	steptest.Run(t, kinds.Transform{},
		steptest.Case{Name: "validate", Settings: steptest.Settings{"mode": "validate"}},
		steptest.Case{Name: "present", Settings: steptest.Settings{"mode": "present"}},
		steptest.Case{Name: "text", Settings: steptest.Settings{"mode": "text", "text": "hello"}},
		steptest.Case{Name: "model", Settings: steptest.Settings{
			"mode": "model", "task": "shorten", "expected": "three lines",
		}},
		steptest.Case{Name: "no mode", Misfit: true},
		steptest.Case{Name: "another mode", Settings: steptest.Settings{"mode": "magic"}, Misfit: true},
	)
}

func TestOnlyAModelCosts(t *testing.T) {
	for mode, calls := range map[string]int64{"validate": 0, "present": 0, "text": 0, "model": 1} {
		s, task := steptest.Case{Settings: steptest.Settings{"mode": mode}}.Task("transform")
		if got := stepkind.BoundOf(kinds.Transform{}, steptest.Program(), s, task).Worst.ModelCalls.N; got != calls {
			t.Errorf("%s: %d model calls, want %d", mode, got, calls)
		}
	}
}
