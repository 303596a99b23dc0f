package kinds_test

import (
	"testing"

	"github.com/espalier-run/espalier/internal/step/steptest"
	"github.com/espalier-run/espalier/internal/stepkind/kinds"
)

func TestNodeStepsMeetTheStepContract(t *testing.T) {
	steptest.Run(t, kinds.Node{},
		steptest.Case{Name: "a function", Settings: steptest.Settings{
			"function": "f", "code": nodeCode("def f(s): return {}"),
			"agents": map[string]any{"plain": map[string]any{}},
		}},
		steptest.Case{Name: "a program", Settings: steptest.Settings{"code": nodeCode("print(1)")}},
		steptest.Case{Name: "no code", Misfit: true},
	)
	steptest.Run(t, kinds.Collect{},
		steptest.Case{Name: "nothing"},
		steptest.Case{Name: "defaults", Settings: steptest.Settings{
			"defaults": map[string]any{"a": 1},
			"reducers": map[string]string{"a": "add"},
		}},
		steptest.Case{Name: "a list", Settings: steptest.Settings{"defaults": []int{1}}, Misfit: true},
	)
}

func nodeCode(text string) []map[string]any { return []map[string]any{{"code": text, "line": 10}} }
