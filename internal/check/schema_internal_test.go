package check

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/espalier-run/espalier/internal/ir"
)

// What is taken for a schema at a glance is one for the library, too.
func TestPlainSchemasAreSchemas(t *testing.T) {
	plain := 0
	rapid.Check(t, func(t *rapid.T) {
		raw, err := json.Marshal(drawSchema(t, 3))
		if err != nil {
			t.Fatal(err)
		}
		if !isPlainSchema(decoded(raw)) {
			return
		}
		plain++
		if p := compileSchema(raw); p != nil {
			t.Fatalf("%s: %+v", raw, *p)
		}
	})
	if plain == 0 {
		t.Error("no schema was plain")
	}
}

// drawSchema draws something like a schema: each keyword mostly has a value
// that it may have.
func drawSchema(t *rapid.T, depth int) any {
	if depth == 0 || rapid.IntRange(0, 9).Draw(t, "form") == 0 {
		return rapid.SampledFrom([]any{true, false, map[string]any{}, nil, "text", 1}).Draw(t, "leaf")
	}
	schema := map[string]any{}
	for range rapid.IntRange(0, 3).Draw(t, "keywords") {
		keyword := rapid.SampledFrom([]string{
			"type", "properties", "$defs", "items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else", "allOf", "anyOf", "oneOf", "prefixItems",
			"required", "enum", "examples", "const", "default", "title", "description", "$comment", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
			"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "uniqueItems", "deprecated", "readOnly", "writeOnly",
			"$ref", "$id", "$schema", "$anchor", "pattern", "patternProperties", "definitions", "dependencies", "multipleOf", "x-own", "unevaluatedProperties",
		}).Draw(t, "keyword")
		switch rapid.IntRange(0, 3).Draw(t, "value") {
		case 0:
			schema[keyword] = drawSchema(t, depth-1)
		case 1:
			schema[keyword] = map[string]any{rapid.SampledFrom([]string{"a", "$ref", "type"}).Draw(t, "name"): drawSchema(t, depth-1)}
		case 2:
			schema[keyword] = []any{drawSchema(t, depth-1)}
		default:
			schema[keyword] = rapid.SampledFrom([]any{
				"string", "strng", []any{"string", "null"}, []any{"string", "string"}, []any{}, []any{"a", "b"}, []any{"a", 1}, 0, 3, -1, 2.5, 1e300, true, nil, "#/$defs/a", "[", []any{true},
			}).Draw(t, "plain")
		}
	}
	return schema
}

// And what workflows usually have is plain.
func TestUsualSchemasArePlain(t *testing.T) {
	for _, raw := range []string{
		`{"type":"object","required":["a"],"properties":{"a":{"type":"string","description":"d"},"b":{"type":"array","items":{"type":"integer","minimum":1}},"c":{"enum":["x",1]}},"additionalProperties":false}`,
		`true`, `{}`, `{"type":["string","null"],"format":"date"}`, `{"anyOf":[{"type":"string"},{"const":3}],"default":"x"}`,
	} {
		if !isPlainSchema(decoded(json.RawMessage(raw))) {
			t.Error(raw)
		}
	}
	for _, raw := range []string{`{"type":"strng"}`, `{"required":"a"}`, `{"$ref":"#/$defs/a"}`, `{"minLength":-1}`, `{"minLength":1.5}`, `[]`, `nothing`, `{"allOf":[]}`} {
		if isPlainSchema(decoded(json.RawMessage(raw))) {
			t.Error(raw)
		}
	}
}

func BenchmarkSchema(b *testing.B) {
	c := &checker{}
	contract := &ir.Contract{Schema: json.RawMessage(`{"type":"object","required":["a"],"properties":{"a":{"type":"string"},"b":{"type":"integer"}}}`)}
	b.ReportAllocs()
	for b.Loop() {
		c.schema(contract, decoded(contract.Schema), "it")
	}
}
