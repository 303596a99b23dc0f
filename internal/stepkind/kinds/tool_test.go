package kinds_test

import (
	"testing"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/step/steptest"
	"github.com/espalier-run/espalier/internal/stepkind"
	"github.com/espalier-run/espalier/internal/stepkind/kinds"
)

func TestToolStepsMeetTheStepContract(t *testing.T) {
	var cases []steptest.Case
	for _, name := range []string{
		"web_search", "files.read", "mcp__github__create_issue", "Read", "github:issues/list", "a-b",
	} {
		cases = append(cases,
			steptest.Case{Name: name, Settings: steptest.Settings{"tool": name, "args": map[string]any{"q": "x"}}})
	}
	for _, name := range []string{"web search", "search(x)", "9lives", "süche", "a\nb"} {
		cases = append(cases, steptest.Case{
			Name: name, Settings: steptest.Settings{"tool": name},
			Codes: []diag.Code{stepkind.CodeToolName}, At: []string{"tool"},
		})
	}
	cases = append(cases,
		steptest.Case{Name: "no tool", Misfit: true},
		steptest.Case{
			Name:     "arguments that are no object",
			Settings: steptest.Settings{"tool": "x", "args": []int{1}}, Misfit: true,
		})
	steptest.Run(t, kinds.Tool{}, cases...)
}
