package expr

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
)

var update = flag.Bool("update", false, "rewrite the right sides in testdata")

// rows runs a table of `left ⇒ right` lines; compute returns the right side.
func rows(t *testing.T, path string, compute func(t *testing.T, left string) string) {
	t.Helper()
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, file := range archive.Files {
		if file.Name == "env" {
			continue
		}
		lines := strings.SplitAfter(string(file.Data), "\n")
		t.Run(file.Name, func(t *testing.T) {
			for j, line := range lines {
				left, want, ok := strings.Cut(line, "⇒")
				if !ok {
					continue
				}
				got := compute(t, strings.TrimSpace(left))
				if *update {
					lines[j] = strings.TrimRight(left+"⇒ "+got, " ") + "\n"
					continue
				}
				if want = strings.TrimSpace(want); got != want {
					t.Errorf("%s\n got  %s\n want %s", strings.TrimSpace(left), got, want)
				}
			}
		})
		archive.Files[i].Data = []byte(strings.Join(lines, ""))
	}
	if *update {
		if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func at(text string) source.Span { return source.Span{File: "f", Start: 0, End: len(text)} }

func TestCanonicalFormsParseToTheSameTree(t *testing.T) {
	rows(t, "testdata/forms.txtar", func(t *testing.T, left string) string {
		e, diags := Parse(AgentFlow, left, at(left))
		if len(diags) > 0 {
			t.Errorf("%s: %v", left, diags)
		}
		again, _ := Parse(AgentFlow, e.String(), at(e.String()))
		if !e.root.same(again.root) {
			t.Errorf("%s: %s means something else", left, e)
		}
		return e.String()
	})
}

func TestSyntaxErrorsHaveTheExpectedCodesAndSpans(t *testing.T) {
	rows(t, "testdata/mistakes.txtar", func(t *testing.T, left string) string {
		if strings.HasPrefix(left, `"`) && strings.TrimSpace(strings.Trim(left, `"`)) == "" {
			left = strings.Trim(left, `"`) // the only way to write a row with nothing
		}
		f := source.NewFile("f", left)
		_, diags := Parse(AgentFlow, left, f.Span(0, len(left)))
		var out []string
		for _, d := range diags {
			checkSentences(t, d)
			from, to := f.Position(d.Span.Start).Column, f.Position(d.Span.End).Column
			where := fmt.Sprintf("%d", from)
			if to > from+1 {
				where = fmt.Sprintf("%d-%d", from, to-1)
			}
			out = append(out, fmt.Sprintf("%c%s@%s", ".~!"[d.Severity], d.Code, where))
		}
		return strings.Join(out, " ")
	})
}

func checkSentences(t *testing.T, d diag.Diagnostic) {
	t.Helper()
	for _, s := range []string{d.Message, d.Help} {
		if !strings.HasSuffix(s, ".") && !strings.HasSuffix(s, "?") {
			t.Errorf("%s: not a sentence: %q", d.Code, s)
		}
	}
}

func TestExpressionsHaveTheExpectedValues(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/values.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var env Values
	for _, f := range archive.Files {
		if f.Name == "env" {
			if err := json.Unmarshal(f.Data, &env); err != nil {
				t.Fatal(err)
			}
		}
	}
	rows(t, "testdata/values.txtar", func(t *testing.T, left string) string {
		e, _ := ParseValue(AgentFlow, left, at(left))
		return outcome(e.Eval(env))
	})
}

// outcome returns a value as JSON, or ! and the problem.
func outcome(v any, err error) string {
	var failed *EvalError
	switch {
	case errors.As(err, &failed):
		return "!" + string(failed.Problem)
	case err != nil:
		return "?" + err.Error()
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(b.String())
}

func TestOperatorsOnAllPairsOfTypes(t *testing.T) {
	raw, err := os.ReadFile("testdata/matrix.txt")
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"null", "true", "one", "two", "a", "ab", "list", "object"}
	env := Values{
		"x.null": nil, "x.true": true, "x.one": 1, "x.two": json.Number("2"), "x.a": "a", "x.ab": "ab",
		"x.list": []any{"a"}, "x.object": map[string]any{"a": 1.0},
	}
	operator, cells := "", 0
	for _, line := range strings.Split(strings.TrimSpace(string(raw)), "\n") {
		fields := strings.Fields(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		if len(fields) <= 2 {
			operator = line
			continue
		}
		for i, want := range fields[1:] {
			left := fmt.Sprintf("x.%s %s x.%s", fields[0], operator, names[i])
			e, _ := Parse(AgentFlow, left, at(left))
			got := map[string]string{
				"true": "T", "false": "F", "!type": "E",
				"!not_condition": "E",
			}[outcome(e.Eval(env))]
			if got != want {
				t.Errorf("%s: got %s, want %s", left, got, want)
			}
			cells++
		}
	}
	if want := 12 * len(names) * len(names); cells != want {
		t.Errorf("the table has %d cells, not %d", cells, want)
	}
}

func TestTruthOfEachType(t *testing.T) {
	env := Values{
		"yes": true, "no": false, "null": nil, "zero": 0, "text": "true", "list": []any{}, "object": map[string]any{},
	}
	for name, want := range map[string]string{
		"yes": "true", "no": "false", "nothing": "false",
		"zero": "!not_condition", "text": "!not_condition", "list": "!not_condition", "object": "!not_condition",
	} {
		e, diags := Parse(AgentFlow, name, at(name))
		if len(diags) > 0 {
			t.Errorf("%s: %v", name, diags)
		}
		if got := outcome(e.Bool(env)); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

func TestConditionErrorSaysWhatToWrite(t *testing.T) {
	text := `ready and input.tier`
	e, _ := Parse(AgentFlow, text, source.Span{File: "f", Start: 100, End: 100 + len(text)})
	_, err := e.Bool(Values{"ready": true, "input": map[string]any{"tier": "gold"}})
	var failed *EvalError
	if !errors.As(err, &failed) {
		t.Fatalf("got %v", err)
	}
	want := &EvalError{
		Problem: ProblemNotCondition, Text: "input.tier", Span: source.Span{File: "f", Start: 110, End: 120},
		Message: "input.tier is a string, not true or false.", Help: "Write a comparison such as input.tier != null.",
	}
	if d := cmp.Diff(want, failed); d != "" {
		t.Error(d)
	}
}

func TestNumbersOfEveryGoType(t *testing.T) {
	for _, v := range []any{
		3, int8(3), int16(3), int32(3), int64(3), uint(3), uint8(3), uint16(3), uint32(3), uint64(3),
		float32(3), 3.0, json.Number("3"), json.Number("3.0"), json.Number("30e-1"),
	} {
		e, _ := Parse(AgentFlow, `x == 3 and x in [3] and text(x) == "3" and [x] == [3]`, source.Span{})
		if ok, err := e.Bool(Values{"x": v}); !ok || err != nil {
			t.Errorf("%T: %t, %v", v, ok, err)
		}
	}
	e, _ := Parse(AgentFlow, "x > 1e308", source.Span{})
	if ok, err := e.Bool(Values{"x": json.Number("1e999")}); !ok || err != nil {
		t.Errorf("beyond the range: %t, %v", ok, err)
	}
}

func TestForeignValuesAreErrors(t *testing.T) {
	for _, text := range []string{"x == 1", "text(x) == 'a'", "x in [1]", "text([x.0]) == 'a'", "x == x"} {
		e, _ := Parse(AgentFlow, text, source.Span{})
		for _, v := range []any{struct{}{}, []string{"a"}, json.Number("abc"), func() {}} {
			_, err := e.Eval(Values{"x": v})
			if got := outcome(nil, err); got != "!type" && text != "text([x.0]) == 'a'" {
				t.Errorf("%s with %T: %s", text, v, got)
			}
		}
	}
	inside := Values{"x": []any{struct{}{}}}
	for text, want := range map[string]string{"x == x": "!type", "x contains 1": "false", "text(x) == ''": "!type"} {
		e, _ := Parse(AgentFlow, text, source.Span{})
		if got := outcome(e.Eval(inside)); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func TestLimitsOnExpressions(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("(", n) + "a" + strings.Repeat(")", n) }
	series := func(n int) string { return "a" + strings.Repeat(" or a", n-1) }
	list := func(n int) string { return "a in [0" + strings.Repeat(",1", n-1) + "]" }
	for _, c := range []struct {
		name, text string
		want       diag.Code
	}{
		{"deep enough", nested(maxDepth - 1), ""},
		{"too deep", nested(maxDepth), CodeTooDeep},
		{"nots", strings.Repeat("not ", maxDepth) + "a", CodeTooDeep},
		{"lists", strings.Repeat("[", 2000), CodeTooDeep},
		{"a long series is not deep", series(800), ""},
		{"too long", series(maxText), CodeTooLong},
		{"list", list(maxItems), ""},
		{"long list", list(maxItems + 1), CodeTooLong},
	} {
		e, diags := Parse(AgentFlow, c.text, at(c.text))
		var got diag.Code
		if len(diags) > 0 {
			got = diags[0].Code
		}
		if got != c.want || len(diags) > 1 {
			t.Errorf("%s: %v", c.name, diags)
		}
		if _, err := e.Eval(Values{}); (err != nil) != (c.want != "") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestLargeValuesAreErrors(t *testing.T) {
	circle := map[string]any{}
	circle["a"], circle["b"] = circle, circle
	bushy := []any{1.0}
	for range 40 {
		bushy = []any{bushy, bushy}
	}
	other := []any{1.0}
	for range 40 {
		other = []any{other, other}
	}
	env := Values{
		"circle": circle, "circles": []any{circle}, "bushy": bushy, "other": other,
		"long": strings.Repeat("x", maxResult+1), "longs": []any{strings.Repeat("x", maxResult+1)},
	}
	for text, want := range map[string]string{
		"circle == circle":         "!size",
		"circles contains circle":  "!size",
		"text(circle) == ''":       "!size",
		"bushy == other":           "!size",
		"text(bushy) == ''":        "!size",
		"lower(long) == ''":        "!size",
		"text(longs) == ''":        "!size",
		"long contains 'y'":        "false",
		"long.length > 5":          "true",
		"circle is empty":          "false",
		"len(circle) == 2":         "true",
		"circle.a.b.a.b == null":   "false",
		"text(circle.a.x) == 'no'": "false",
	} {
		e, _ := Parse(AgentFlow, text, source.Span{})
		if got := outcome(e.Eval(env)); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func TestPathsAreListedWithTheirSpans(t *testing.T) {
	text := `tier == "x" and len(state.a.b) > docs.length or input["odd key"].0 in [tier, length, input.length]`
	e, _ := Parse(AgentFlow, text, source.Span{File: "f", Start: 10, End: 10 + len(text)})
	e.Names = map[string]string{"tier": "input.tier", "docs": "input.docs"}
	var got []string
	for _, p := range e.Paths() {
		there := text[p.Span.Start-10 : p.Span.End-10]
		got = append(got, fmt.Sprintf("%s|%s|%t|%s", p, strings.Join(p.Written, "."), p.Length, there))
	}
	want := []string{
		`input.tier|tier|false|tier`,
		`state.a.b|state.a.b|false|state.a.b`,
		`input.docs|docs.length|true|docs.length`,
		`input["odd key"].0|input.odd key.0|false|input["odd key"].0`,
		`input.tier|tier|false|tier`,
		`length|length|false|length`,
		`input|input.length|true|input.length`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestNamesAreAppliedWhenEvaluating(t *testing.T) {
	e, _ := Parse(AgentFlow, `tier == "gold" and docs.length == 2 and other == null`, source.Span{})
	e.Names = map[string]string{"tier": "input.tier", "docs": "state.docs"}
	env := Values{"input": map[string]any{"tier": "gold"}, "state.docs": []any{1, 2}, "tier": "wrong"}
	if ok, err := e.Bool(env); !ok || err != nil {
		t.Error(ok, err)
	}
}

func TestBrokenExpressionsReturnTheirPaths(t *testing.T) {
	for text, want := range map[string]string{
		"a = 1 and b <":     "a b",
		"a b.c d":           "a b.c d",
		"f(a, g(b))":        "a b",
		"1 < a < b":         "a b",
		"(a or b":           "a b",
		"a.startsWith(b.c)": "a.startsWith b.c",
		"a is b":            "a",
	} {
		e, _ := Parse(AgentFlow, text, source.Span{})
		var got []string
		for _, p := range e.Paths() {
			got = append(got, p.String())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v", text, got)
		}
		if got := outcome(e.Eval(Values{})); got != "!not_parsed" {
			t.Errorf("%s: %s", text, got)
		}
		if e.String() != text {
			t.Errorf("%s became %s", text, e)
		}
	}
}

// The span of a quoted or folded scalar differs in length from its text.
func TestSpansFallBackToTheWholeExpression(t *testing.T) {
	whole := source.Span{File: "f", Start: 7, End: 40}
	_, diags := Parse(AgentFlow, "a = (1", whole)
	for _, d := range diags {
		if d.Span != whole {
			t.Error(d)
		}
		for _, r := range d.Related {
			if r.Span != whole {
				t.Error(r)
			}
		}
	}
	if len(diags) != 2 {
		t.Error(diags)
	}
}

func TestUnclosedBracketRefersToItsOpening(t *testing.T) {
	text := "a and (b or [1"
	_, diags := Parse(AgentFlow, text, at(text))
	var got []string
	for _, d := range diags {
		got = append(got, fmt.Sprintf("%s %d %d", d.Code, d.Span.Start, d.Related[0].Span.Start))
	}
	if d := cmp.Diff([]string{"EXPR007 14 6", "EXPR007 14 12"}, got); d != "" {
		t.Error(d)
	}
}

func TestPartsShowEveryIntermediateValue(t *testing.T) {
	text := `not (len(input.docs) > 1) or input.tier`
	e, _ := Parse(AgentFlow, text, at(text))
	var got []string
	for _, p := range e.Parts(Values{"input": map[string]any{"docs": []any{1}, "tier": "x"}}) {
		got = append(got, fmt.Sprintf("%d %s = %s", p.Depth, p.Text, outcome(p.Value, p.Err)))
		if text[p.Span.Start:p.Span.End] != p.Text {
			t.Error(p)
		}
	}
	want := []string{
		"4 input.docs = [1]",
		"3 len(input.docs) = 1",
		"2 len(input.docs) > 1 = false",
		"1 not (len(input.docs) > 1) = true",
		`1 input.tier = "x"`,
		"0 not (len(input.docs) > 1) or input.tier = true",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	constant, _ := Parse(AgentFlow, "true", at("true"))
	if parts := constant.Parts(nil); len(parts) != 1 || parts[0].Value != true {
		t.Error(parts)
	}
}

func TestExpressionsSurviveJSON(t *testing.T) {
	e, _ := Parse(AgentFlow, `tier != "<low>"`, source.Span{File: "f.md", Start: 3, End: 18})
	e.Names = map[string]string{"tier": "input.tier"}
	raw, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"dialect":"agent-flow","text":"tier != \"\u003clow\u003e\"","span":"f.md#3-18",` +
		`"names":{"tier":"input.tier"}}`
	if string(raw) != want {
		t.Errorf("got %s", raw)
	}
	var back *Expr
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(e, back); d != "" {
		t.Error(d)
	}
	if ok, err := back.Bool(Values{"input": map[string]any{"tier": "high"}}); !ok || err != nil {
		t.Error(ok, err)
	}
	for _, bad := range []string{
		`{"dialect":"agent-flow","text":"a ="}`, `{"dialect":"agent-flow","text":""}`, `{"dialect":"basic","text":"a"}`,
		`{"text":"a"}`, `"a"`, `{"dialect":3}`,
	} {
		if err := json.Unmarshal([]byte(bad), new(Expr)); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}

func TestEqualComparesTextNamesAndSpan(t *testing.T) {
	base := func() *Expr { e, _ := Parse(AgentFlow, "a == 1", source.Span{File: "f", Start: 1, End: 7}); return e }
	named := base()
	named.Names = map[string]string{"a": "input.a"}
	moved := base()
	moved.Span.Start = 0
	other, _ := Parse(AgentFlow, "a == 2", base().Span)
	var none *Expr
	for i, c := range []struct {
		a, b *Expr
		want bool
	}{
		{base(), base(), true},
		{base(), named, false},
		{base(), moved, false},
		{base(), other, false},
		{base(), none, false},
		{none, base(), false},
		{none, none, true},
	} {
		if cmp.Equal(c.a, c.b) != c.want {
			t.Errorf("case %d", i)
		}
	}
}

func TestNilAndZeroExpressionsAreUsable(t *testing.T) {
	var none *Expr
	for _, e := range []*Expr{none, {}, {Dialect: AgentFlow, Text: "a"}} {
		if got := outcome(e.Eval(Values{})); got != "!not_parsed" {
			t.Error(got)
		}
		if got := outcome(e.Bool(nil)); got != "!not_parsed" {
			t.Error(got)
		}
		if e.Paths() != nil || e.Parts(nil) != nil {
			t.Error("something was found in nothing")
		}
	}
}

func TestNumberOfDiagnosticsIsLimited(t *testing.T) {
	text := strings.Repeat("# ", 500)
	_, diags := Parse(AgentFlow, text, at(text))
	if len(diags) != maxDiags {
		t.Errorf("got %d", len(diags))
	}
}

var typical = []string{
	`risk_profile != "low"`,
	`input.reference_docs.length > 0`,
	`input.formats contains "pptx"`,
	`state.approved.gate_result == "approved" and input.tier in ["gold", "silver"]`,
}

var typicalEnv = Values{
	"risk_profile":   "high",
	"input":          map[string]any{"reference_docs": []any{"a"}, "formats": []any{"pdf", "pptx"}, "tier": "silver"},
	"state.approved": map[string]any{"gate_result": "approved"},
}

func TestEvaluationDoesNotAllocate(t *testing.T) {
	for _, text := range typical {
		e, _ := Parse(AgentFlow, text, source.Span{})
		allocs := testing.AllocsPerRun(100, func() {
			if ok, err := e.Bool(typicalEnv); !ok || err != nil {
				t.Error(text, ok, err)
			}
		})
		if allocs > 0 {
			t.Errorf("%s: %v allocations", text, allocs)
		}
	}
}

func TestBoundNamesAllocateOnce(t *testing.T) {
	e, _ := Parse(AgentFlow, `tier == "silver"`, source.Span{})
	e.Names = map[string]string{"tier": "input.tier"}
	allocs := testing.AllocsPerRun(100, func() {
		if ok, err := e.Bool(typicalEnv); !ok || err != nil {
			t.Error(ok, err)
		}
	})
	if allocs > 1 {
		t.Errorf("%v allocations", allocs)
	}
}

func BenchmarkBool(b *testing.B) {
	for _, text := range typical {
		e, _ := Parse(AgentFlow, text, source.Span{})
		b.Run(text, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if ok, err := e.Bool(typicalEnv); !ok || err != nil {
					b.Fatal(ok, err)
				}
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	text := typical[3]
	for b.Loop() {
		Parse(AgentFlow, text, at(text))
	}
}

func TestHelpSaysWhatToWrite(t *testing.T) {
	for text, want := range map[string]string{
		`lenn(a) > 0`:         `Did you mean "len"?`,
		`LOWER(a) == "x"`:     `Did you mean "lower"?`,
		`a = 1`:               `Write ==.`,
		`a is not null`:       `Write != null.`,
		`a == 'it's'`:         `Write \' for a quote inside a string.`,
		`"input.tier" == "x"`: `Write input.tier without quotes if you mean the variable.`,
		`"input.tier"`:        `Write input.tier without quotes if you mean the variable.`,
		`len(a) == "3"`:       `Write 3 without quotes.`,
		`text(a) == 3`:        `Write "3".`,
		`a && b`:              `Write and.`,
		`version == 1.2.3`:    `Write numbers like 3, -1.5 or 2e6, and put anything else in quotes: "1.2.3".`,
		`len(a)`:              `Compare it, such as len(a) > 0.`,
		`a .b == 1`:           `Write the name without a space before the dot.`,
		`contains == "x"`: `Write the missing value; a variable of that name needs its namespace, ` +
			`such as input.contains.`,
		`a.b.includes("x")`: `Write functions before their argument, such as len(x). ` +
			`Available: contains, len, lower, text, trim, upper.`,
		`{{ a }} == 1 and b > 3`: `Conditions are not templates: write the name alone, such as input.name.`,
	} {
		_, diags := Parse(AgentFlow, text, at(text))
		if len(diags) == 0 || diags[0].Help != want {
			t.Errorf("%s: %+v", text, diags)
		}
	}
}

// A wrong operator has a fix, and the condition is valid after it.
func TestWrongOperatorsHaveAFix(t *testing.T) {
	for _, text := range []string{
		`a =! "x"`, `a = "x"`, `a === "x"`, `a !== "x"`, `a <> "x"`, `a => 1`, `a =< 1`,
	} {
		f := source.NewFile("f", text)
		_, list := Parse(AgentFlow, text, source.Span{File: "f", End: len(text)})
		list = list.Located(source.Set{"f": f})
		if len(list) != 1 || len(list[0].Fixes) != 1 {
			t.Errorf("%s: %+v", text, list)
			continue
		}
		edit := list[0].Fixes[0].Edits[0]
		fixed := text[:edit.Span.Start] + edit.NewText + text[edit.Span.End:]
		if _, list := Parse(AgentFlow, fixed, source.Span{}); len(list) > 0 {
			t.Errorf("%s becomes %s: %v", text, fixed, list)
		}
	}
}

// Symbols that are accepted in the place of a word have a fix each, with spaces where they are needed.
func TestSymbolsHaveAFix(t *testing.T) {
	for text, want := range map[string]string{
		`a && b || !c`: `a and b or not c`, `a==1&&b==2`: `a==1 and b==2`, `!(a||b)`: `not (a or b)`,
	} {
		for _, dialect := range []Dialect{AgentFlow, AIFlow} {
			f := source.NewFile("f", text)
			_, list := Parse(dialect, text, source.Span{File: "f", End: len(text)})
			all := diag.Fix{}
			for _, d := range list.Located(source.Set{"f": f}) {
				if len(d.Fixes) == 1 {
					all.Edits = append(all.Edits, d.Fixes[0].Edits...)
				}
			}
			if got := all.Apply(f); got != want {
				t.Errorf("%v: %s becomes %s, want %s (%v)", dialect, text, got, want, list)
			}
		}
	}
}

// fixed returns an expression after the first fix of its first diagnostic, or "" if that has none.
func fixed(t *testing.T, d Dialect, file *source.File, span source.Span) string {
	t.Helper()
	_, list := Parse(d, file.Text[span.Start:span.End], span)
	list = list.Located(source.Set{file.Path: file})
	if len(list) == 0 {
		t.Errorf("%s has no diagnostics", file.Text)
	}
	if len(list) == 0 || len(list[0].Fixes) == 0 {
		return ""
	}
	return list[0].Fixes[0].Apply(file)
}

func TestFixesWriteWhatTheHelpSays(t *testing.T) {
	for _, test := range []struct {
		dialect    Dialect
		text, want string
	}{
		{AgentFlow, `a & b`, `a and b`},
		{AgentFlow, `a|b`, `a or b`},
		{AgentFlow, `a≠b`, `a != b`},
		{AgentFlow, `a ≤ b`, `a <= b`},
		{AgentFlow, `a ≥ 1`, `a >= 1`},
		{AgentFlow, `a == None`, `a == null`},
		{AgentFlow, `a == TRUE`, `a == true`},
		{AgentFlow, `$x == 1`, `x == 1`},
		{AgentFlow, `a == $1`, ``}, // an amount, perhaps
		{AgentFlow, `a == “low”`, `a == "low"`},
		{AgentFlow, `a == ‘low’`, `a == "low"`},
		{AgentFlow, `a == “low`, ``},
		{AgentFlow, `a == “it's”`, ``},
		{AgentFlow, `a == ‘it’s fine’`, ``},
		{AgentFlow, `a == ‘it’s’ and b == ‘x’`, ``},
		{AgentFlow, `a == ‘the dogs’ toys’`, ``},
		{AIFlow, `output.a == “it’s”`, ``},
		{AgentFlow, `a == ann@example.com`, ``},
		{AgentFlow, `“low” == a`, ``}, // YAML would read a text
		{AgentFlow, `a .b == 1`, `a.b == 1`},
		{AgentFlow, `1 .b == 1`, ``},
		{AgentFlow, `a is null`, `a == null`},
		{AgentFlow, `a is not "x"`, `a != "x"`},
		{AgentFlow, `a is b`, ``},
		{AgentFlow, `input.a == 1 or "input.b"`, `input.a == 1 or input.b`},
		{AgentFlow, `"input.b" == "x" and a`, `input.b == "x" and a`},
		{AgentFlow, `"input.b" == "input.c"`, ``},
		{AgentFlow, `"input.b+1" == "x"`, ``},
		{AgentFlow, `lower(a) == 1`, `lower(a) == "1"`},
		{AgentFlow, `text(a) == true`, `text(a) == "true"`},
		{AgentFlow, `1 == text(a)`, ``},
		{AgentFlow, `text(a) == 1.0`, ``}, // the text can be 1 or 1.0
		{AgentFlow, `len(a) == "3"`, `len(a) == 3`},
		{AgentFlow, `(a == 1) == "true"`, `(a == 1) == true`},
		{AgentFlow, `len(a) == "three"`, ``},
		{NOF, `a is None`, `a == None`},
		{NOF, `a == nil`, `a == None`},
		{AIFlow, `output.a & output.b`, `output.a and output.b`},
		{AIFlow, `output.a|output.b`, `output.a or output.b`},
		{AIFlowReference, `output.a && output.b`, `output.a and output.b`},
		{AIFlow, `output.a = 1`, `output.a == 1`},
		{AIFlow, `(output.a == 'x=y') ! 1`, `(output.a == 'x=y') != 1`},
		{AIFlow, `output.a == “x”`, `output.a == "x"`},
		{AIFlow, `output.a == 'true'`, `output.a == true`},
		{AIFlow, `'false' != output.a`, `false != output.a`},
	} {
		file := source.NewFile("f", test.text)
		if got := fixed(t, test.dialect, file, file.Span(0, len(test.text))); got != test.want {
			t.Errorf("%s: %s becomes %q, want %q", test.dialect, test.text, got, test.want)
		}
	}
}

// The quotes of a new text differ from those around the expression.
func TestFixesFitIntoQuotes(t *testing.T) {
	for text, want := range map[string]string{
		`when: a == “x”`:     `when: a == "x"`,
		`when: "a == “x”"`:   `when: "a == 'x'"`,
		`when: 'a == “x”'`:   `when: 'a == "x"'`,
		`when: "“x” == a"`:   `when: "'x' == a"`,
		`when: text(a) == 3`: `when: text(a) == "3"`,
	} {
		file := source.NewFile("f", text)
		span := file.Span(len("when: "), len(text))
		if text[span.Start] == text[span.End-1] {
			span = span.Sub(1, span.End-span.Start-1)
		}
		if got := fixed(t, AgentFlow, file, span); got != want {
			t.Errorf("%s becomes %q, want %q", text, got, want)
		}
	}
}

// A condition of NOF has backticks in its file, which are spaces in the text. A fix never removes one of them.
func TestFixesKeepWhatTheTextLacks(t *testing.T) {
	file := source.NewFile("f", "`a` is `None` and b ≠ `c`")
	_, list := Parse(NOF, strings.ReplaceAll(file.Text, "`", " "), file.Span(0, len(file.Text)))
	list = list.Located(source.Set{"f": file})
	if len(list) != 2 || len(list[0].Fixes) > 0 || len(list[1].Fixes) != 1 {
		t.Fatalf("the diagnostics are %+v", list)
	}
	if got, want := list[1].Fixes[0].Apply(file), "`a` is `None` and b != `c`"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestTypesOfNamesHaveFixes(t *testing.T) {
	for text, want := range map[string]string{
		"tags":            "tags is non-empty",
		"a and (tags)":    "a and (tags is non-empty)",
		"not tags":        "tags is empty",
		"a or not (tags)": "a or tags is empty",
		"tags and tags.x": "tags is non-empty and tags.x",
	} {
		file := source.NewFile("f", text)
		e, list := Parse(AgentFlow, text, file.Span(0, len(text)))
		list = append(list, e.CheckTypes(func(path []string) []string {
			return map[string][]string{"tags": {"array", "null"}}[strings.Join(path, ".")]
		})...).Located(source.Set{"f": file})
		if len(list) != 1 || len(list[0].Fixes) != 1 {
			t.Errorf("%s: %+v", text, list)
			continue
		}
		if got := list[0].Fixes[0].Apply(file); got != want {
			t.Errorf("%s becomes %s, want %s", text, got, want)
		}
	}
}

// promised matches help texts that say exactly what to write.
var promised = regexp.MustCompile(`^Write ((==|!=) )?\S+\.$`)

// Every diagnostic of the test cases whose help says what to write has a fix, and every fix removes its diagnostic.
func TestHelpThatSaysWhatToWriteHasAFix(t *testing.T) {
	fixes := 0
	for _, path := range []string{"testdata/mistakes.txtar", "testdata/aiflow.txtar", "testdata/values.txtar"} {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range archive.Files {
			for line := range strings.Lines(string(part.Data)) {
				text, _, _ := strings.Cut(line, "⇒")
				text = strings.TrimSpace(text)
				for _, d := range []Dialect{AgentFlow, AIFlow, AIFlowReference, NOF} {
					fixes += checkFixes(t, d, text)
				}
			}
		}
	}
	if fixes < 100 {
		t.Errorf("the test cases have only %d fixes", fixes)
	}
}

// checkFixes checks the diagnostics of an expression and returns the number of their fixes.
func checkFixes(t *testing.T, d Dialect, text string) int {
	t.Helper()
	file := source.NewFile("f", text)
	_, list := Parse(d, text, file.Span(0, len(text)))
	list = list.Located(source.Set{"f": file})
	fixes := 0
	for _, one := range list {
		if promised.MatchString(one.Help) && len(one.Fixes) == 0 {
			t.Errorf("%s: %s: %s has no fix: %s", d, text, one.Code, one.Help)
		}
		for _, fix := range one.Fixes {
			fixes++
			changed := fix.Apply(file)
			_, after := Parse(d, changed, source.Span{File: "f", End: len(changed)})
			same := func(o diag.Diagnostic) bool {
				return o.Code == one.Code && o.Message == one.Message && o.Span.Start == one.Span.Start
			}
			if slices.ContainsFunc(after, same) || after.Count(diag.Error) > list.Count(diag.Error) {
				t.Errorf("%s: %s becomes %s, which has %v", d, text, changed, after)
			}
		}
	}
	return fixes
}

// An expression with escapes in its file has no fix, because the place of an operator in the file is not known. A fix
// would replace the whole expression.
func TestExpressionsWithEscapesHaveNoFix(t *testing.T) {
	file := source.NewFile("f", `when: "a =! \"x\" && b"`)
	_, list := Parse(AgentFlow, `a =! "x" && b`, source.Span{File: "f", Start: 7, End: len(file.Text) - 1})
	if len(list) == 0 {
		t.Fatal("no diagnostics")
	}
	for _, d := range list.Located(source.Set{"f": file}) {
		for _, fix := range d.Fixes {
			t.Errorf("%s: the file becomes %s", d.Message, fix.Apply(file))
		}
	}
}
