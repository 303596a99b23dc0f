package kinds_test

import (
	"testing"

	"github.com/espalier-run/espalier/internal/step/steptest"
	"github.com/espalier-run/espalier/internal/stepkind/kinds"
)

func TestWorkerStepsMeetTheStepContract(t *testing.T) {
	steptest.Run(t, kinds.Worker{},
		steptest.Case{Name: "a model", Settings: steptest.Settings{"agent": "plain"}},
		steptest.Case{Name: "a command", Settings: steptest.Settings{"agent": "plain", "command": []string{"cat"}}},
		steptest.Case{Name: "nobody", Misfit: true},
	)
}
