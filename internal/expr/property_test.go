package expr

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/espalier-run/espalier/internal/source"
)

// written draws an expression with words in any case, redundant parentheses and both kinds of quotes.
func written(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		if depth == 0 {
			return drawLeaf(t)
		}
		sub := written(depth - 1)
		a := "(" + sub.Draw(t, "a") + ")"
		b := "(" + sub.Draw(t, "b") + ")"
		switch rapid.IntRange(0, 9).Draw(t, "form") {
		case 0:
			return drawLeaf(t)
		case 1:
			return a + " " + drawWord(t, "and", "or") + " " + b
		case 2:
			return sub.Draw(t, "x") + " " + drawWord(t, "and", "or") + " " + sub.Draw(t, "y") // precedence as it comes
		case 3:
			return drawWord(t, "not") + " " + a
		case 4:
			return a + rapid.SampledFrom([]string{"==", "!=", " < ", " <= ", ">", ">="}).Draw(t, "op") + b
		case 5:
			return drawLeaf(t) + " " + drawWord(t, "contains", "in", "not in", "not contains") + " " + b
		case 6:
			return a + " " + drawWord(t, "is empty", "is not empty", "is non-empty")
		case 7:
			return "[" + strings.Join(rapid.SliceOfN(sub, 0, 3).Draw(t, "items"), " , ") + "]"
		case 8:
			function := rapid.SampledFrom([]string{"len", "text", "lower", "upper", "trim"}).Draw(t, "function")
			return function + "(" + sub.Draw(t, "argument") + ")"
		default:
			return "contains(" + sub.Draw(t, "whole") + ", " + sub.Draw(t, "part") + ")"
		}
	})
}

func drawWord(t *rapid.T, words ...string) string {
	w := rapid.SampledFrom(words).Draw(t, "word")
	if rapid.Bool().Draw(t, "upper") {
		return strings.ToUpper(w)
	}
	return w
}

func drawLeaf(t *rapid.T) string {
	switch rapid.IntRange(0, 4).Draw(t, "leaf") {
	case 0:
		return rapid.SampledFrom([]string{"null", "true", "false"}).Draw(t, "constant")
	case 1:
		return formatNumber(rapid.OneOf(rapid.Float64(), rapid.Float64Range(-9, 9)).Draw(t, "number"))
	case 2:
		s := rapid.StringN(0, 8, -1).Draw(t, "text")
		if rapid.Bool().Draw(t, "single") {
			return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(strings.ToValidUTF8(s, "")) + "'"
		}
		return quote(s)
	default:
		roots := []string{"a", "b", "input", "state", "input.list", "state.flag", "größe"}
		path := rapid.SampledFrom(roots).Draw(t, "first")
		for range rapid.IntRange(0, 3).Draw(t, "more") {
			segments := []string{".a", ".b", ".0", "[1]", `["odd key"]`, ".length", ".x-y", `[""]`}
			path += rapid.SampledFrom(segments).Draw(t, "segment")
		}
		return path
	}
}

// Formats generate conditions with texts from files, which they quote as JSON.
func TestJSONStringsAreValidStrings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.String().Draw(t, "text")
		raw, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		e, diags := ParseValue(AgentFlow, string(raw), at(string(raw)))
		if len(diags) > 0 {
			t.Fatal(diags)
		}
		if got, err := e.Eval(nil); err != nil || got != want {
			t.Fatalf("%s became %q, %v", raw, got, err)
		}
	})
}

// plain draws a value for an environment.
func plain(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		most := 6
		if depth == 0 {
			most = 4
		}
		switch rapid.IntRange(0, most).Draw(t, "kind") {
		case 0:
			return nil
		case 1:
			return rapid.Bool().Draw(t, "bool")
		case 2:
			return rapid.Float64().Draw(t, "number")
		case 3:
			return rapid.StringN(0, 6, -1).Draw(t, "text")
		case 4:
			return rapid.IntRange(-3, 3).Draw(t, "int")
		case 5:
			return rapid.SliceOfN(plain(depth-1), 0, 3).Draw(t, "list")
		default:
			keys := rapid.SampledFrom([]string{"a", "b", "list", "flag", "length", "odd key", "x-y", ""})
			return rapid.MapOfN(keys, plain(depth-1), 0, 4).Draw(t, "object")
		}
	})
}

func environment() *rapid.Generator[Values] {
	keys := rapid.SampledFrom([]string{"a", "b", "input", "input.list", "state", "state.flag", "state.flag.a", "größe"})
	return rapid.Map(rapid.MapOfN(keys, plain(3), 0, 6), func(m map[string]any) Values { return m })
}

func TestCanonicalTextParsesToTheSameTree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := written(4).Draw(t, "text")
		e, p := parse(AgentFlow, text, at(text))
		if e.broken && len(text) <= maxText {
			t.Fatalf("%s: %v", text, p.diags)
		}
		if e.broken {
			t.Skip("too long")
		}
		canonical := e.String()
		again, p := parse(AgentFlow, canonical, at(canonical))
		if again.broken && len(canonical) <= maxText {
			t.Fatalf("%s became %s: %v", text, canonical, p.diags)
		}
		if again.broken {
			t.Skip("too long")
		}
		if !e.root.same(again.root) {
			t.Fatalf("%s became %s", text, canonical)
		}
		if again.String() != canonical {
			t.Fatalf("%s is not stable", canonical)
		}
	})
}

func TestEvaluationIsDeterministicAndRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := written(3).Draw(t, "text")
		env := environment().Draw(t, "env")
		e, _ := ParseValue(AgentFlow, text, source.Span{File: "f", Start: 5, End: 5 + len(text)})
		e.Names = map[string]string{"a": "input.a"}
		first := result(e, env)
		if again := result(e, env); again != first {
			t.Fatalf("%s: %s, then %s", text, first, again)
		}
		for _, part := range e.Parts(env) {
			if part.Err == nil != (outcome(part.Value, part.Err)[0] != '!') {
				t.Fatal(part)
			}
		}
		if e.broken {
			t.Skip("too long")
		}
		raw, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var back *Expr
		if err := json.Unmarshal(raw, &back); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(e, back); d != "" {
			t.Fatal(d)
		}
		if got := result(back, env); got != first {
			t.Fatalf("%s: %s, and %s after a round trip", text, first, got)
		}
	})
}

// result formats the value or the error of an evaluation.
func result(e *Expr, env Env) string {
	v, err := e.Eval(env)
	ok, boolErr := e.Bool(env)
	return fmt.Sprintf("%#v %v %t %v", v, err, ok, boolErr)
}

// This holds for all values but texts.
func TestTextFunctionReturnsJSON(t *testing.T) {
	e, _ := ParseValue(AgentFlow, "text([a])", source.Span{})
	rapid.Check(t, func(t *rapid.T) {
		v := plain(3).Draw(t, "value")
		got, err := e.Eval(Values{"a": v})
		if err != nil {
			t.Fatal(err)
		}
		var back []any
		if err := json.Unmarshal([]byte(got.(string)), &back); err != nil {
			t.Fatalf("%s: %v", got, err)
		}
		same, problem := strictEqual(of(back), of([]any{v}))
		if !same || problem != "" {
			t.Fatalf("%s is not %#v", got, v)
		}
	})
}

func FuzzExpr(f *testing.F) {
	env := `{"input": {"formats": ["pdf", "pptx"], "pages": null, "n": 3},
		"state.approved": {"gate_result": "approved"}, "risk_profile": "low"}`
	for _, text := range []string{
		`risk_profile != "low"`, `service_tier != "starter"`, `input.reference_docs.length > 0`, `input.pages != null`,
		`input.formats contains "pptx"`, `state.approved.gate_result == "approved"`, `output.report != null`,
		`text(input.n) == "3" and not (a or b)`, `contains(input.formats, 'x') == false`,
		`x not in [1, -2.5e3, [null]]`,
		`a["odd key"][0].length is not empty`, `!a && b || c`, `lower(trim(x)) == "\u00e9\ud83d\ude00"`, `1 < a < 3`,
		`a = (b`,
		`{{ x }} == “y”`, `a is null`, `version == 1.2.3`, "a == \"\xff\"", "\x00", `((((((`, `[[[[`, `not not not`,
		`a.b.`, `x.f(`,
	} {
		f.Add(text, env)
	}
	f.Fuzz(func(t *testing.T, text, envText string) {
		file := source.NewFile("f", "when: "+text+"\n")
		e, diags := Parse(AgentFlow, text, file.Span(6, 6+len(text)))
		for _, d := range diags {
			if d.Span.File != "f" || d.Span.Start < 6 || d.Span.End > 6+len(text) || d.Span.End < d.Span.Start {
				t.Fatalf("%s points outside: %v", d.Code, d.Span)
			}
			if d.Message == "" || d.Help == "" {
				t.Fatalf("%s says too little", d.Code)
			}
		}
		var env Values
		if json.Unmarshal([]byte(envText), &env) != nil {
			env = Values{}
		}
		for _, p := range e.Paths() {
			if len(p.Segments) == 0 || p.Span.Start < 6 || p.Span.End > 6+len(text) {
				t.Fatalf("path %v", p)
			}
		}
		first := result(e, env)
		e.Parts(env)
		if again := result(e, env); first != again {
			t.Fatalf("%s, then %s", first, again)
		}
		if e.broken {
			return
		}
		canonical := e.String()
		again, p := parse(AgentFlow, canonical, source.Span{})
		if len(canonical) <= maxText && (again.broken || !e.root.same(again.root)) {
			t.Fatalf("%q became %q: %v", text, canonical, p.diags)
		}
		raw, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		back := new(Expr)
		if err := json.Unmarshal(raw, back); err != nil || !e.Equal(back) {
			t.Fatalf("%q does not survive JSON: %v", text, err)
		}
	})
}

// same reports whether two trees are equal, ignoring their positions.
func (n *node) same(o *node) bool {
	if n.op != o.op || n.name != o.name || len(n.kids) != len(o.kids) || len(n.path) != len(o.path) {
		return false
	}
	for i := range n.path {
		if n.path[i] != o.path[i] {
			return false
		}
	}
	for i := range n.kids {
		if !n.kids[i].same(o.kids[i]) {
			return false
		}
	}
	if n.op != opConstant {
		return true
	}
	return n.value.kind == o.value.kind && n.value.num == o.value.num && n.value.str == o.value.str
}
