package kinds_test

import (
	"testing"

	"github.com/espalier-run/espalier/internal/step/steptest"
	"github.com/espalier-run/espalier/internal/stepkind/kinds"
)

func TestConversationStepsMeetTheStepContract(t *testing.T) {
	steptest.Run(t, kinds.Conversation{},
		steptest.Case{Name: "plain", Settings: steptest.Settings{"agent": "plain", "prompt": "Hello"}},
		steptest.Case{Name: "all", Settings: steptest.Settings{
			"agent": "handy", "prompt": "Hello {{.inputs.x}}", "system": "Be kind", "format": "json",
			"keep": true, "continue_from": "a",
			"skills": []map[string]string{{"name": "s", "text": "t"}}, "provider": "{{.inputs.p}}",
		}},
		steptest.Case{Name: "nobody", Misfit: true},
	)
}
