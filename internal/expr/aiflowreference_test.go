package expr_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/source"
)

// The file contains conditions with the results that AIFLOW's own program has for them: true, false, or an error. One
// group is left out: the program reports "contains" without two arguments only if it evaluates the call, and Espalier
// reports it in advance.
func TestConditionsHaveTheResultsOfTheReferenceProgram(t *testing.T) {
	raw, err := os.ReadFile("testdata/aiflow-reference.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Context expr.Values
		Results [][2]string
	}
	if err := json.Unmarshal(raw, &file); err != nil || len(file.Results) < 500 {
		t.Fatal(len(file.Results), err)
	}
	for _, one := range file.Results {
		text, want := one[0], one[1]
		e, list := expr.Parse(expr.AIFlowReference, text, source.NewFile("condition", text).Span(0, len(text)))
		got := "error"
		if !list.Errors() {
			switch holds, err := e.Bool(file.Context); {
			case err != nil:
			case holds:
				got = "true"
			default:
				got = "false"
			}
		}
		if got != want {
			t.Errorf("%s: %s, and in the reference program %s", text, got, want)
		}
	}
}
