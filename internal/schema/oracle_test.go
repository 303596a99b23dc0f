package schema_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/espalier-run/espalier/internal/schema"
)

type refuse struct{}

func (refuse) Load(url string) (any, error) { return nil, errOutside(url) }

type errOutside string

func (e errOutside) Error() string { return string(e) + " is outside of the schema" }

// oracle compiles a schema with the library.
func oracle(doc string) (*jsonschema.Schema, error) {
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(doc))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(refuse{})
	c.AssertFormat()
	if err := c.AddResource("schema:///", v); err != nil {
		return nil, err
	}
	return c.Compile("schema:///")
}

// For random schemas, both implementations accept the schema or neither does, and both accept the same values.
func TestAgreesWithLibrary(t *testing.T) {
	compiled, valid, invalid := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		raw := encode(t, drawSchema(t, 3))
		if strings.Contains(raw, "draft-07") && strings.Contains(raw, `"$ref"`) {
			return // the library does not ignore a const beside $ref
		}
		ours, err := schema.Compile(json.RawMessage(raw))
		theirs, theirErr := oracle(raw)
		if (err == nil) != (theirErr == nil) && strings.Contains(raw, `"$schema"`) {
			return // the meta-schemas of older drafts are stricter in details
		}
		if (err == nil) != (theirErr == nil) {
			t.Fatalf("%s\nours:   %v\ntheirs: %v", raw, err, theirErr)
		}
		if err != nil {
			return
		}
		compiled++
		for range 5 {
			value := encode(t, drawValue(t, 3))
			problems, err := ours.Check(json.RawMessage(value))
			if err != nil {
				t.Fatal(err)
			}
			v, err := jsonschema.UnmarshalJSON(strings.NewReader(value))
			if err != nil {
				t.Fatal(err)
			}
			err = theirs.Validate(v)
			if (len(problems) == 0) != (err == nil) {
				t.Fatalf("schema %s\nvalue %s\nours:   %v\ntheirs: %v", raw, value, problems, err)
			}
			if accepts := ours.Root().Accepts(v); accepts != (err == nil) {
				t.Fatalf("schema %s\nvalue %s\naccepted: %t\ntheirs: %v", raw, value, accepts, err)
			}
			if err == nil {
				valid++
			} else {
				invalid++
			}
		}
	})
	if compiled == 0 || valid == 0 || invalid == 0 {
		t.Errorf("too few samples: %d schemas, %d valid and %d invalid values", compiled, valid, invalid)
	}
}

func encode(t *rapid.T, v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

var names = []string{"a", "b", "ab"}

// drawSchema draws a document in which most keywords have a valid value.
func drawSchema(t *rapid.T, depth int) any {
	if depth == 0 || rapid.IntRange(0, 9).Draw(t, "form") == 0 {
		return rapid.SampledFrom([]any{
			true, true, false, map[string]any{}, map[string]any{"type": "string"}, map[string]any{"const": 1}, nil,
		}).Draw(t, "leaf")
	}
	out := map[string]any{}
	if depth == 3 && rapid.IntRange(0, 3).Draw(t, "draft") == 0 {
		out["$schema"] = rapid.SampledFrom([]string{
			"http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2019-09/schema",
		}).Draw(t, "name")
	}
	for range rapid.IntRange(1, 4).Draw(t, "keywords") {
		name := rapid.SampledFrom(keywordNames).Draw(t, "keyword")
		out[name] = drawKeyword(t, name, depth)
		if _, ok := out["if"]; !ok && (name == "then" || name == "else") {
			out["if"] = drawKeyword(t, "if", depth) // without it, the library does not compile them
		}
		if name != "$ref" && rapid.IntRange(0, 30).Draw(t, "broken") == 0 {
			wrong := []any{"x", -1, 1.5, nil, []any{}, []any{1}, map[string]any{"a": 1}}
			out[name] = rapid.SampledFrom(wrong).Draw(t, "wrong")
		}
	}
	if depth == 3 { // the library does not resolve unused references, so all references need a target
		out["$defs"] = map[string]any{"a": drawSchema(t, 1)}
	}
	return out
}

var keywordNames = []string{
	"type", "type", "enum", "const",
	"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern",
	"items", "prefixItems", "contains", "minContains", "maxContains", "minItems", "maxItems", "uniqueItems",
	"unevaluatedItems", "additionalItems", "properties", "properties", "patternProperties", "additionalProperties",
	"propertyNames", "unevaluatedProperties", "required", "minProperties", "maxProperties",
	"dependentSchemas", "dependentRequired", "dependencies", "allOf", "anyOf", "oneOf", "not", "if", "then", "else",
	"definitions", "$ref", "default", "title",
}

func drawKeyword(t *rapid.T, name string, depth int) any {
	sub := func() any { return drawSchema(t, depth-1) }
	pick := func(from ...any) any { return rapid.SampledFrom(from).Draw(t, name) }
	switch name {
	case "type":
		return pick("string", "number", "integer", "object", "array", "null", "boolean",
			[]any{"string", "null"}, []any{"object", "array"})
	case "enum":
		return pick([]any{"a", 1, nil}, []any{2.5, map[string]any{"a": 1}}, []any{[]any{}, true, "ab"})
	case "const", "default":
		return drawValue(t, 2)
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum":
		return pick(0, 1, 1.5, 3)
	case "multipleOf":
		return pick(1, 0.5, 2, 0.1)
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains",
		"maxContains":
		return pick(0, 1, 2, 2.0)
	case "uniqueItems":
		return pick(true, false)
	case "pattern":
		return pick("a", "^a$", "^[ab]+$", `\d`, "(")
	case "title":
		return "x"
	case "items", "contains", "unevaluatedItems", "additionalItems", "additionalProperties", "propertyNames",
		"unevaluatedProperties", "not", "if", "then", "else":
		return sub()
	case "prefixItems", "allOf", "anyOf", "oneOf":
		out := []any{sub()}
		for rapid.Bool().Draw(t, "more") && len(out) < 3 {
			out = append(out, sub())
		}
		return out
	case "required":
		return rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 2, rapid.ID).Draw(t, "required")
	case "dependentRequired":
		return map[string]any{"a": []any{"b"}}
	case "$ref":
		return pick("#", "#/$defs/a")
	case "patternProperties":
		return map[string]any{pick("a", "^b", "b$").(string): sub()}
	}
	out := map[string]any{} // properties, $defs, dependencies and the like
	for _, n := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 3, rapid.ID).Draw(t, "names") {
		out[n] = sub()
	}
	return out
}

func drawValue(t *rapid.T, depth int) any {
	kind := rapid.IntRange(0, 6).Draw(t, "kind")
	switch {
	case kind >= 5 && depth > 0:
		out := map[string]any{}
		for _, n := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 3, rapid.ID).Draw(t, "names") {
			out[n] = drawValue(t, depth-1)
		}
		return out
	case kind == 4 && depth > 0:
		return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) any { return drawValue(t, depth-1) }), 0, 3).Draw(t,
			"items")
	}
	return rapid.SampledFrom([]any{
		nil, true, false, "", "a", "ab", "b1", 0, 1, json.Number("1.0"), 2, 2.5, -1, json.Number("1e2"),
	}).Draw(t, "plain")
}
