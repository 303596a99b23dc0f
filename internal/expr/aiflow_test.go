package expr

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/espalier-run/espalier/internal/diag"
)

// The rows are the known results of the reference program.
func TestAIFlowMatchesTheReferenceProgram(t *testing.T) {
	const path = "testdata/aiflow.txtar"
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	env := Values{}
	if err := json.Unmarshal(archive.Files[0].Data, &env); err != nil {
		t.Fatal(err)
	}
	rows(t, path, func(_ *testing.T, left string) string {
		wide, exact := aiflowValue(AIFlow, left, env), aiflowValue(AIFlowReference, left, env)
		if wide == exact {
			return wide
		}
		return wide + " | " + exact
	})
}

func aiflowValue(d Dialect, text string, env Env) string {
	e, list := Parse(d, text, at(text))
	if list.Errors() {
		var codes []string
		for _, one := range list {
			if one.Severity == diag.Error {
				codes = append(codes, string(one.Code))
			}
		}
		return "error " + strings.Join(codes, " ")
	}
	told := ""
	if len(list) > 0 {
		told = map[diag.Severity]string{diag.Warning: " (warning)", diag.Note: " (note)"}[list[0].Severity]
	}
	v, err := e.eval(env)
	switch {
	case err != nil:
		return err.Error()
	case v.kind == kindMissing:
		return "undefined" + told
	case v.kind == kindForeign:
		return "function" + told
	}
	raw, _ := json.Marshal(v.boxed())
	return string(raw) + told
}

func TestEmptyAIFlowConditionHolds(t *testing.T) {
	for _, text := range []string{"", "  ", "\n"} {
		e, list := Parse(AIFlow, text, at(text))
		if ok, err := e.Bool(Values{}); len(list) > 0 || !ok || err != nil {
			t.Errorf("%q: %v, %v, %v", text, ok, err, list)
		}
	}
}

// FuzzAIFlow checks that neither dialect panics, and that conditions that the reference program accepts have the same
// value in the wide dialect, except for names without a root and inherited properties.
func FuzzAIFlow(f *testing.F) {
	for _, seed := range []string{
		"output.a == 'x' and not context.b > 1", "contains(output.l, 5) == always", "a = 1", "-1 in [1, 2]", "not(((",
		"'a\\", "0.", "output.a == 1. and 2.5 > 2.",
	} {
		f.Add(seed)
	}
	env := Values{
		"context": map[string]any{"b": 2.0, "n": nil},
		"output":  map[string]any{"a": "x", "l": []any{5.0, "y"}},
	}
	f.Fuzz(func(t *testing.T, text string) {
		exact, list := Parse(AIFlowReference, text, at(text))
		wide, more := Parse(AIFlow, text, at(text))
		if list.Errors() {
			wide.Bool(env)
			return
		}
		if more.Errors() {
			t.Fatalf("only the reference reads %q: %v", text, more)
		}
		bare := false
		for _, p := range exact.Paths() {
			bare = bare || !slices.Contains(aiflowRoots, p.Written[0])
			for _, segment := range p.Written {
				bare = bare || inherited(segment, nil).kind != kindMissing
			}
		}
		a, _ := exact.Bool(env)
		if b, _ := wide.Bool(env); a != b && !bare {
			t.Fatalf("%q is %t in the reference and %t here", text, a, b)
		}
	})
}

// TestInheritedPropertiesHaveAValue: names that every JavaScript object inherits are functions for the reference
// program, and parts of a condition show them as such.
func TestInheritedPropertiesHaveAValue(t *testing.T) {
	const text = "output.constructor"
	e, list := Parse(AIFlowReference, text, at(text))
	v, err := e.Eval(Values{"output": map[string]any{"a": 1.0}})
	if want := "function constructor() { [native code] }"; len(list) > 0 || err != nil || v != want {
		t.Errorf("got %v, %v, %v", v, err, list)
	}
}
