package kinds_test

import (
	"testing"

	"github.com/espalier-run/espalier/internal/step/steptest"
	"github.com/espalier-run/espalier/internal/stepkind/kinds"
)

func TestOperationStepsMeetTheStepContract(t *testing.T) {
	steptest.Run(t, kinds.Operation{},
		steptest.Case{Name: "call", Settings: steptest.Settings{
			"operation": "http.request", "inputs": map[string]any{"url": "x"},
		}},
		steptest.Case{Name: "nothing", Misfit: true},
	)
}
