package kinds_test

import (
	"testing"

	"github.com/espalier-run/espalier/internal/step/steptest"
	"github.com/espalier-run/espalier/internal/stepkind/kinds"
)

func TestPromptStepsMeetTheStepContract(t *testing.T) {
	steptest.Run(t, kinds.Prompt{},
		steptest.Case{Name: "an agent and a prompt", Settings: steptest.Settings{
			"agent": "plain", "template": "Write it",
		}},
		steptest.Case{Name: "an agent with tools", Settings: steptest.Settings{
			"agent": "handy", "template": "Find it", "format": "json",
		}},
		steptest.Case{Name: "a tool", Settings: steptest.Settings{"tool": "search", "name": "finder"}},
		steptest.Case{Name: "nobody", Misfit: true},
		steptest.Case{Name: "both", Settings: steptest.Settings{"agent": "plain", "tool": "search"}, Misfit: true},
		steptest.Case{
			Name: "another format", Settings: steptest.Settings{"agent": "plain", "format": "yaml"}, Misfit: true,
		},
	)
}
