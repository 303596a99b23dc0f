package builtin_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/tool"
	"github.com/espalier-run/espalier/internal/tool/builtin"
)

func TestCalculatorFollowsTheRulesOfArithmetic(t *testing.T) {
	for input, want := range map[string]string{
		`{"expression":"(2 + 3) * 4 - 6/4"}`:                "18.5",
		`{"expression":"2^3^2"}`:                            "512",
		`{"expression":"-2^2"}`:                             "-4",
		`{"expression":"7 % 4 + +1"}`:                       "4",
		`{"expression":"--3"}`:                              "3",
		`{"operation":"add","a":1,"b":2.5}`:                 "3.5",
		`{"operation":"divide","a":1,"b":8}`:                "0.125",
		`{"operation":"multiply","numbers":[2,3,4]}`:        "24",
		`{"operation":"remainder","a":7,"b":4}`:             "3",
		`{"expression":"1/0"}`:                              "error division by zero",
		`{"expression":"2 +"}`:                              "error a number is missing at character 4",
		`{"expression":"2 2"}`:                              `error "2" is not expected at character 3`,
		`{"expression":"(1"}`:                               "error a parenthesis is never closed",
		`{"expression":"10^999"}`:                           "error the result is not a number",
		`{"expression":"` + strings.Repeat("(", 500) + `"}`: "error the expression is nested too deeply",
		`{"operation":"add","a":1}`:                         "error add needs at least two numbers",
		`{}`:                                                "error there is neither",
	} {
		result, err := builtin.Calculator("calc", "").Call(t.Context(), tool.Call{Input: json.RawMessage(input)})
		var failed *tool.Error
		switch message, wantsError := strings.CutPrefix(want, "error "); {
		case wantsError &&
			(!errors.As(err, &failed) || !strings.Contains(failed.Message, message) || failed.Class != ir.ClassInput):
			t.Errorf("%s: %s, %v", input, result.Output, err)
		case !wantsError && (err != nil || string(result.Output) != want):
			t.Errorf("%s: %s, %v", input, result.Output, err)
		}
	}
	result, err := builtin.Calculator("sum", "add").Call(t.Context(),
		tool.Call{Input: json.RawMessage(`{"a":1,"b":2}`)})
	if err != nil || string(result.Output) != "3" {
		t.Errorf("%s %v", result.Output, err)
	}
}
