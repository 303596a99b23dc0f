package ir

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/jsonfast"
	"github.com/espalier-run/espalier/internal/source"
)

// encode writes JSON without HTML escaping, so that a condition keeps its < and >.
func encode(t rapid.TB, v any) []byte {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// roundTrip checks that a program is unchanged after encoding and decoding, and that encoding it again yields the same
// bytes.
func roundTrip(t rapid.TB, p *Program) {
	t.Helper()
	raw := encode(t, p)
	back := new(Program)
	if err := decodeStrict(raw, back); err != nil {
		t.Fatalf("%v\n%s", err, raw)
	}
	if d := cmp.Diff(p, back); d != "" {
		t.Fatalf("%s\n%s", d, raw)
	}
	if again := encode(t, back); !bytes.Equal(raw, again) {
		t.Fatalf("not stable:\n%s\n%s", raw, again)
	}
	sameWithCodec(t, p, raw)
}

// sameWithCodec checks that package jsonfast encodes the program to the same bytes and decodes its own output without
// falling back to encoding/json.
func sameWithCodec(t rapid.TB, p *Program, want []byte) {
	t.Helper()
	shape := jsonfast.ShapeOf(reflect.TypeFor[Program]())
	got, err := shape.Append(nil, reflect.ValueOf(p).Elem())
	if want := bytes.TrimSpace(want); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("jsonfast writes other bytes: %v\n%s\n%s", err, got, want)
	}
	back := new(Program)
	if !shape.Read(got, reflect.ValueOf(back).Elem()) {
		t.Fatalf("jsonfast cannot read its own output:\n%s", got)
	}
	if d := cmp.Diff(p, back); d != "" {
		t.Fatalf("%s\n%s", d, got)
	}
}

// fill draws values by type, so that fields added later are covered too.
func TestProgramsRoundTrip(t *testing.T) {
	filled := map[string]bool{}
	rapid.Check(t, func(t *rapid.T) {
		p := new(Program)
		fill(t, reflect.ValueOf(p).Elem(), 4, filled)
		roundTrip(t, p)
	})
	for _, of := range []any{
		Program{},
		Block{},
		Meta{},
		Contract{},
		Var{},
		Trigger{},
		Limit{},
		Budget{},
		Tools{},
		Name{},
		Agent{},
		Audit{},
		File{},
		Step{},
		Ref{},
		Write{},
		Edge{},
		Target{},
		Retry{},
		Setting{},
		Task{},
		Gate{},
		Parallel{},
		Branch{},
		Each{},
		Loop{},
		Call{},
		Binding{},
		End{},
	} {
		typ := reflect.TypeOf(of)
		for i := range typ.NumField() {
			if name := typ.Name() + "." + typ.Field(i).Name; !filled[name] {
				t.Errorf("%s was never drawn", name)
			}
		}
	}
}

var (
	rawType    = reflect.TypeFor[json.RawMessage]()
	exprType   = reflect.TypeFor[*expr.Expr]()
	spanType   = reflect.TypeFor[source.Span]()
	actionType = reflect.TypeFor[Action]()
	actions    = []reflect.Type{
		reflect.TypeFor[Task](), reflect.TypeFor[Route](), reflect.TypeFor[Gate](), reflect.TypeFor[Parallel](),
		reflect.TypeFor[Loop](), reflect.TypeFor[Call](), reflect.TypeFor[End](),
	}
)

// fill draws a value. levels bounds the nesting of slices and pointers; filled records which fields were ever non-zero.
func fill(t *rapid.T, v reflect.Value, levels int, filled map[string]bool) {
	switch v.Type() {
	case rawType:
		v.SetBytes([]byte(rapid.SampledFrom([]string{
			`null`, `{"type":"object","a":[1,2.50,"x"]}`, `"<&>"`, `0`, `[]`,
			`{}`, `false`,
		}).Draw(t, "raw")))
		return
	case exprType:
		if rapid.Bool().Draw(t, "expr") {
			text := rapid.SampledFrom([]string{
				`a < 3 and b > "<&>"`, `tier in ["x", 1]`,
				`text(state.kind) == "other"`,
			}).Draw(t, "text")
			e, diags := expr.Parse(expr.AgentFlow, text, source.Span{File: "f.md", Start: 2, End: 2 + len(text)})
			if len(diags) > 0 {
				t.Fatal(diags)
			}
			if rapid.Bool().Draw(t, "names") {
				e.Names = map[string]string{"tier": "input.tier", "a": "state.a"}
			}
			v.Set(reflect.ValueOf(e))
		}
		return
	case spanType:
		if rapid.Bool().Draw(t, "span") {
			start := rapid.IntRange(0, 9).Draw(t, "start")
			v.Set(reflect.ValueOf(source.Span{File: rapid.SampledFrom([]string{"f.md", "a#1-2/b.md", ""}).Draw(t,
				"file"), Start: start, End: start + 3}))
		}
		return
	case actionType:
		action := reflect.New(rapid.SampledFrom(actions).Draw(t, "action")).Elem()
		fill(t, action, levels, filled)
		v.Set(action)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			optional := strings.Contains(field.Tag.Get("json"), ",omitempty") && field.Type == rawType
			if field.Type == reflect.TypeFor[Callers]() { // derived, and not encoded
				filled[v.Type().Name()+"."+field.Name] = true
				continue
			}
			if optional && rapid.Bool().Draw(t, "absent") {
				continue
			}
			fill(t, v.Field(i), levels, filled)
			if !v.Field(i).IsZero() {
				filled[v.Type().Name()+"."+field.Name] = true
			}
		}
	case reflect.Pointer:
		if levels > 0 && rapid.Bool().Draw(t, "pointer") {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, v.Elem(), levels-1, filled)
		}
	case reflect.Slice:
		if n := rapid.IntRange(0, 2).Draw(t, "length"); levels > 0 && n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				fill(t, v.Index(i), levels-1, filled)
			}
		}
	case reflect.Map:
		if n := rapid.IntRange(0, 2).Draw(t, "entries"); levels > 0 && n > 0 {
			v.Set(reflect.MakeMap(v.Type()))
			for range n {
				key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
				fill(t, key, levels-1, filled)
				fill(t, value, levels-1, filled)
				v.SetMapIndex(key, value)
			}
		}
	case reflect.String:
		v.SetString(rapid.StringN(0, 6, -1).Draw(t, "string"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, "int"))
	case reflect.Float64:
		v.SetFloat(rapid.Float64().Draw(t, "float"))
	default:
		t.Fatalf("fill cannot draw a %s: add a case for it", v.Type())
	}
}

func TestStepNeedsExactlyOneAction(t *testing.T) {
	for _, raw := range []string{
		`{"id":"a","type":"x"}`,
		`{"id":"a","type":"x","task":null}`,
		`{"id":"a","type":"x","task":{"kind":"agent"},"end":{}}`,
	} {
		if err := json.Unmarshal([]byte(raw), new(Step)); err == nil {
			t.Errorf("%s was accepted", raw)
		}
	}
	if _, err := json.Marshal(Step{ID: "a"}); err == nil {
		t.Error("a step without an action was written")
	}
}

// A condition that does not parse must not decode as "no condition".
func TestUnmarshalRejectsInvalidCondition(t *testing.T) {
	raw := `{"id":"a","type":"x","when":{"dialect":"agent-flow","text":"a ="},"route":{}}`
	if err := json.Unmarshal([]byte(raw), new(Step)); err == nil {
		t.Error("an invalid condition was accepted")
	}
}

// An explicit null differs from an absent value: the variable exists.
func TestNullAndAbsentInitStayDistinct(t *testing.T) {
	p := &Program{Vars: []Var{{Path: "state.a", Init: json.RawMessage("null")}, {Path: "state.b"}}}
	roundTrip(t, p)
	back := new(Program)
	if err := json.Unmarshal(encode(t, p), back); err != nil {
		t.Fatal(err)
	}
	if back.Vars[0].Init == nil || back.Vars[1].Init != nil {
		t.Errorf("%q and %q", back.Vars[0].Init, back.Vars[1].Init)
	}
}

func TestConditionsAreNotHTMLEscaped(t *testing.T) {
	when, _ := expr.Parse(expr.AgentFlow, `a < 3 and b > 1`, source.Span{})
	p := &Program{Blocks: []Block{{Steps: []Step{{ID: "a", When: when, Action: Route{}}}}}}
	if raw := string(encode(t, p)); !strings.Contains(raw, `"a < 3 and b > 1"`) {
		t.Error(raw)
	}
}

func TestSettingsDecodeStrictly(t *testing.T) {
	var s Settings
	at := source.Span{File: "f", Start: 1, End: 2}
	s.Put("z", 1, at)
	s.Put("a", []string{"x", "y"}, source.Span{})
	if string(s.Get("z")) != "1" || s.Get("b") != nil || s.At("z") != at || !s.At("b").IsZero() {
		t.Error(s)
	}
	if s[0].Name != "z" || s[1].Name != "a" {
		t.Error("the order of the file was lost")
	}
	var into struct {
		A []string `json:"a"`
		Z int      `json:"z"`
	}
	if err := s.Decode(&into); err != nil || into.Z != 1 || len(into.A) != 2 {
		t.Error(into, err)
	}
	for name, v := range map[string]any{"unknown": 1, "z": "text"} {
		var bad Settings
		bad.Put(name, v, at)
		if err := bad.Decode(&into); err == nil {
			t.Errorf("%s: %v was accepted", name, v)
		}
	}
	if err := Settings(nil).Decode(&into); err != nil {
		t.Error(err)
	}
}

func TestContractAtFindsNearestPlace(t *testing.T) {
	at := func(n int) source.Span { return source.Span{File: "f", Start: n, End: n + 1} }
	c := &Contract{Span: at(0), Places: map[string]source.Span{
		"/properties": at(1), "/properties/a": at(2),
		"/properties/a/type": at(3),
	}}
	for pointer, want := range map[string]int{
		"": 0, "/": 0, "/properties": 1, "/properties/b": 1, "/properties/b/c/d": 1, "/properties/a/type": 3,
		"/properties/a/enum/0": 2, "/required/0": 0, "properties": 0,
	} {
		if got := c.At(pointer); got != at(want) {
			t.Errorf("%s: %v", pointer, got)
		}
	}
}

func TestLookupsFindOnlyWhatExists(t *testing.T) {
	p := &Program{Agents: []Agent{{ID: "writer"}}}
	p.AddBlock(Block{})
	inner := p.AddBlock(Block{Steps: []Step{{ID: "a", Action: Route{}}, {ID: "b", Action: End{}}}})
	if s := p.Step(inner, "b"); s == nil || ActionName(s.Action) != "end" {
		t.Error(s)
	}
	if p.Step(Body, "b") != nil || p.Step(inner, "c") != nil {
		t.Error("a step was found where there is none")
	}
	if p.Agent("writer") == nil || p.Agent("reader") != nil {
		t.Error("agents")
	}
	if ActionName(nil) != "" {
		t.Error("no action has no name")
	}
	for attempts, s := range map[int]Step{1: {}, 3: {Retry: &Retry{MaxAttempts: 3}}} {
		if s.Attempts() != attempts {
			t.Errorf("%d attempts, not %d", s.Attempts(), attempts)
		}
	}
	if none := (&Step{Retry: &Retry{}}); none.Attempts() != 1 {
		t.Error("a retry without attempts still has the first")
	}
}
