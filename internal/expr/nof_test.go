package expr_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/source"
)

const nofEnv = `{"score": 0.4, "n": 7, "name": "kg", "errors": ["timeout", ""], "none": [], "values": [1, 5, 9],
"items": [{"p": "high", "w": [1, 2]}, {"p": "low", "w": []}], "done": true}`

// Conditions of NOF are Python expressions, so Python itself is the oracle.
var nofConditions = map[string]bool{
	"0 < score < 0.5": true, "0.4 < score < 0.5": false, "1 <= n <= 7 <= 9": true, "1 < n < 5 < 9": false,
	"0.1 <= score == 0.4": true, "'k' in name != 'x'": true,
	"n + 1 == 8": true, "n - 1 == 6": true, "n -1 == 6": true, "n * 2 - 4 == 10": true, "n - 3 - 2 == 2": true,
	"2 + n * 3 == 23": true, "(2 + n) * 3 == 27": true, "n / 2 == 3.5": true, "n // 2 == 3": true, "n % 4 == 3": true,
	"-n // 2 == -4": true, "-n % 4 == 1": true, "n % -4 == -1": true, "- n < 0": true, "-(n + 1) == -8": true,
	"12 / 3 / 2 == 2": true, "12 / (3 / 2) == 8": true, "n * -1 == -7": true, "len(errors)-1 == 1": true,
	"len(errors) + len(none) > 1": true, "score * 100 >= 40": true, "not n + 1 == 8": false,
	"any(errors)": true, "all(errors)": false, "any(none)": false, "all(none)": true, "any([0, n])": true,
	"any(v > 8 for v in values)": true, "all(v > 8 for v in values)": false, "all(v % 4 == 1 for v in values)": true,
	"any('time' in e for e in errors)": true, "any(i['p'] == 'high' for i in items)": true,
	"all(len(i['w']) > 0 for i in items)": false, "any(any(w == 2 for w in i['w']) for i in items)": true,
	"any(v == n for v in values)": false, "any(v > n for v in values) and done": true,
	"all(v < n + 3 for v in values)": true, "not any(v > 8 for v in values)": false,
}

func TestNOFConditionsMeanWhatPythonMeans(t *testing.T) {
	var env map[string]any
	if err := json.Unmarshal([]byte(nofEnv), &env); err != nil {
		t.Fatal(err)
	}
	_, err := exec.LookPath("python3")
	for text, want := range nofConditions {
		e, list := expr.Parse(expr.NOF, text, source.Span{})
		if list.Errors() {
			t.Errorf("%s: %v", text, list)
			continue
		}
		got, failed := e.Bool(expr.Values(env))
		if failed != nil || got != want {
			t.Errorf("%s is %t, %v", text, got, failed)
		}
		again, list := expr.Parse(expr.NOF, e.String(), source.Span{})
		if other, failed := again.Bool(expr.Values(env)); list.Errors() || failed != nil || other != want {
			t.Errorf("%s is written as %s, which is %t, %v %v", text, e, other, failed, list)
		}
		for _, p := range e.Paths() {
			if env[p.Written[0]] == nil {
				t.Errorf("%s reads %s", text, p)
			}
		}
	}
	if err != nil {
		t.Skip("python3 is not installed")
	}
	var program strings.Builder
	fmt.Fprintf(&program, "import json\nenv = json.loads('''%s''')\n", nofEnv)
	for text, want := range nofConditions {
		fmt.Fprintf(&program, "if bool(eval(%q, dict(env))) is not %s: print(%q)\n", text,
			map[bool]string{true: "True", false: "False"}[want], text)
	}
	if out, err := exec.Command("python3", "-I", "-c", program.String()).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("python3 disagrees: %s %v", out, err)
	}
}

func TestNOFCalculationsFail(t *testing.T) {
	for text, want := range map[string]expr.Problem{
		"n / zero > 1": expr.ProblemZero, "n % zero == 1": expr.ProblemZero, "n + word > 1": expr.ProblemType,
		"any(v > 1 for v in n)": expr.ProblemType, "any(n)": expr.ProblemType,
		"any(v for v in [1, 2])": expr.ProblemNotCondition,
	} {
		e, _ := expr.Parse(expr.NOF, text, source.Span{})
		_, err := e.Bool(expr.Values{"n": 1.0, "zero": 0.0, "word": "x"})
		failed, ok := err.(*expr.EvalError)
		if !ok || failed.Problem != want || failed.Message == "" || failed.Help == "" {
			t.Errorf("%s: %#v", text, err)
		}
	}
	for text, code := range map[string]diag.Code{
		"any(v > 1 for in values)": expr.CodeUnexpected, "any(v > 1 for v values)": expr.CodeUnexpected,
		"n +":         expr.CodeOperand,
		"'a' + 1 > 2": expr.CodeOperandType, "0 < n is empty": expr.CodeChained, "n ** 2 > 1": expr.CodeCharacter,
		"a" + strings.Repeat(" + a", 300) + " > 1": expr.CodeTooLong,
	} {
		if _, list := expr.Parse(expr.NOF, text, source.Span{}); len(list) == 0 || list[0].Code != code {
			t.Errorf("%.30s: %v, want %s", text, list, code)
		}
	}
}

// The types of names find conditions that cannot hold.
func TestTypesOfNamesAreChecked(t *testing.T) {
	types := map[string][]string{
		"errors": {"array"}, "errors.*": {"string"}, "objects": {"array"}, "objects.*": {"object"},
		"score": {"number"}, "name": {"string"}, "done": {"boolean"},
		"note": {"string", "null"}, "rating": {"number", "null"},
	}
	for text, want := range map[string]string{
		"errors":               "EXPR019: errors is a list, not true or false. Write errors is non-empty.",
		"score":                "Compare it, such as score > 0.",
		"score < 'x'":          "A number and a string cannot be ordered.",
		"score == 'x'":         "are never equal",
		"not errors":           "Write errors is empty, without not.",
		"errors > 3":           "cannot be ordered",
		"score contains 'x'":   "cannot contain anything",
		"name + 1 > 2":         "Arithmetic is not defined for a string.",
		"len(score) > 1":       "len() does not accept a number",
		"any(x for x in name)": "is not a list",
		// The value may be null, but every other value fails.
		"rating contains 'x'":    "A number cannot contain anything.",
		"len(rating) > 1":        "len() does not accept a number.",
		"note + 1 > 2":           "Arithmetic is not defined for a string.",
		"any(x for x in rating)": "A number is not a list.",
		"note contains rating":   "A string cannot contain a number.",
		"rating is non-empty":    "A number is never empty, so this only checks whether rating has a value. Compare it",
		"rating is empty":        "A number is never empty",
		"note is non-empty":      "", "rating + 1 > 2": "", "len(note) > 1": "", "note contains 'x'": "",
		"errors is non-empty": "", "done": "", "score < 1": "", "note == None": "", "len(errors) > 1": "",
		"any(e.x == 'x' for e in errors)":                             `A string has no property "x", so this is always null. Compare e itself.`,
		"all(e > 3 for e in errors)":                                  "A string and a number cannot be ordered.",
		"any(o contains 'a' for o in objects)":                        "",
		"any(o.x == 'x' for o in objects)":                            "",
		"any(e == 'x' for e in errors)":                               "",
		"all(len(e) > 3 for e in errors)":                             "",
		"any(any(e == o.x for e in errors) and o.y for o in objects)": "",
		"other < 'x'": "", "any(errors)": "", "done and score + 1 > 2": "",
	} {
		e, list := expr.Parse(expr.NOF, text, source.Span{})
		if list.Errors() {
			t.Errorf("%s: %v", text, list)
		}
		got := ""
		for _, d := range e.CheckTypes(func(path []string) []string { return types[strings.Join(path, ".")] }) {
			got += fmt.Sprintf("%s: %s %s", d.Code, d.Message, d.Help)
		}
		if !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}
