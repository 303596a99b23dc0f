package kinds_test

import (
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/step/steptest"
	"github.com/espalier-run/espalier/internal/stepkind"
	"github.com/espalier-run/espalier/internal/stepkind/kinds"
)

func TestScriptStepsMeetTheStepContract(t *testing.T) {
	cases := []steptest.Case{
		{Name: "needs", Settings: steptest.Settings{
			"language": "python", "script": "print(1)", "dependencies": []string{"pandas"},
		}},
		{
			Name: "unknown language", Settings: steptest.Settings{"language": "cobol", "script": "x"},
			Codes: []diag.Code{stepkind.CodeLanguage}, At: []string{"language"},
		},
		{
			Name: "only comments", Settings: steptest.Settings{"language": "bash", "script": "# later\n\n"},
			Codes: []diag.Code{stepkind.CodeEmptyScript}, At: []string{"script"},
		},
		{
			Name: "both", Settings: steptest.Settings{"language": "perl", "script": "  \n"},
			Codes: []diag.Code{stepkind.CodeLanguage, stepkind.CodeEmptyScript}, At: []string{"language", "script"},
		},
		{Name: "neither", Misfit: true},
	}
	for _, language := range kinds.ScriptLanguages() {
		cases = append(cases,
			steptest.Case{Name: language, Settings: steptest.Settings{"language": language, "script": "echo hi"}})
	}
	steptest.Run(t, kinds.Script{}, cases...)
}

func TestUsualNamesOfLanguagesGetASuggestion(t *testing.T) {
	for written, meant := range map[string]string{
		"py": "python", "Python3": "python", "js": "javascript", "node": "javascript",
		"shell": "sh", "pyhton": "python",
	} {
		s, task := steptest.Case{Settings: steptest.Settings{"language": written, "script": "x"}}.Task("script")
		list := kinds.Script{}.Check(steptest.Program(), s, task)
		if len(list) != 1 || !strings.Contains(list[0].Help, `"`+meant+`"`) {
			t.Errorf("%s: got %v, want a hint at %s", written, list, meant)
		}
	}
}
