package simulated_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/provider/providertest"
	"github.com/espalier-run/espalier/internal/provider/simulated"
)

// corpus are common schemas and some unusual ones.
var corpus = map[string]string{
	"anything":        `{}`,
	"true":            `true`,
	"string":          `{"type": "string"}`,
	"number":          `{"type": "number"}`,
	"integer":         `{"type": "integer"}`,
	"boolean":         `{"type": "boolean"}`,
	"null":            `{"type": "null"}`,
	"array":           `{"type": "array"}`,
	"object":          `{"type": "object"}`,
	"several types":   `{"type": ["string", "null", "integer"]}`,
	"enum":            `{"enum": ["low", "medium", "high"]}`,
	"enum of types":   `{"type": "integer", "enum": ["x", 3, null, 4.5]}`,
	"const":           `{"const": {"a": [1, 2.50, null]}}`,
	"range":           `{"type": "integer", "minimum": 1, "maximum": 5}`,
	"narrow range":    `{"type": "number", "exclusiveMinimum": 0.1, "exclusiveMaximum": 0.2}`,
	"negative":        `{"type": "number", "maximum": -3.25}`,
	"large":           `{"type": "integer", "minimum": 12345678901234567890}`,
	"above":           `{"type": "integer", "exclusiveMinimum": 99}`,
	"multiple":        `{"type": "number", "multipleOf": 0.05, "minimum": 0.07, "maximum": 0.12}`,
	"whole multiple":  `{"type": "integer", "multipleOf": 2.5, "minimum": 6, "maximum": 10}`,
	"two multiples":   `{"allOf": [{"multipleOf": 4}, {"multipleOf": 6}], "type": "integer", "minimum": 13}`,
	"length":          `{"type": "string", "minLength": 30, "maxLength": 32}`,
	"long":            `{"type": "string", "minLength": 500}`,
	"short":           `{"type": "string", "maxLength": 3}`,
	"empty text":      `{"type": "string", "maxLength": 0}`,
	"pattern":         `{"type": "string", "pattern": "^[A-Z]{2}-[0-9]{4}$"}`,
	"pattern inside":  `{"type": "string", "pattern": "foo|bar"}`,
	"pattern, length": `{"type": "string", "pattern": "^[a-z]+$", "minLength": 12, "maxLength": 12}`,
	"pattern, groups": `{"type": "string", "pattern": "^(?:v(\\d+)\\.)?(\\d+)\\.(\\d+)(-[a-z]+)?$"}`,
	"two patterns":    `{"allOf": [{"pattern": "^a"}, {"pattern": "^[a-c]{4}$"}], "type": "string"}`,
	"unicode classes": `{"type": "string", "pattern": "^\\p{Greek}{3}$"}`,
	"list":            `{"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2}`,
	"unique":          `{"type": "array", "items": {"enum": ["a", "b", "c"]}, "uniqueItems": true, "minItems": 3}`,
	"unique bools":    `{"type": "array", "items": {"type": "boolean"}, "uniqueItems": true, "minItems": 2}`,
	"unique numbers":  `{"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 12}, "uniqueItems": true, "minItems": 12}`,
	"unique texts":    `{"type": "array", "items": {"type": "string"}, "uniqueItems": true, "minItems": 9}`,
	"tuple":           `{"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": false, "minItems": 2}`,
	"old tuple":       `{"$schema": "http://json-schema.org/draft-07/schema#", "type": "array", "items": [{"type": "string"}, {"const": 1}], "additionalItems": false, "minItems": 2}`,
	"contains":        `{"type": "array", "items": {"type": "integer"}, "contains": {"minimum": 100}, "minContains": 2}`,
	"no contains":     `{"type": "array", "contains": {"type": "string"}, "maxContains": 1, "minItems": 3, "items": {"type": ["string", "integer"]}}`,
	"person": `{"type": "object", "required": ["name", "email"], "additionalProperties": false, "properties": {
		"name": {"type": "string"}, "email": {"type": "string", "format": "email"}, "website": {"type": "string", "format": "uri"},
		"born": {"type": "string", "format": "date"}, "id": {"type": "string", "format": "uuid"}, "seen_at": {"type": "string", "format": "date-time"}}}`,
	"formats": `{"type": "object", "required": ["a","b","c","d","e","f","g","h","i","j","k"], "properties": {
		"a": {"format": "ipv4", "type": "string"}, "b": {"format": "ipv6", "type": "string"}, "c": {"format": "hostname", "type": "string"},
		"d": {"format": "time", "type": "string"}, "e": {"format": "duration", "type": "string"}, "f": {"format": "json-pointer", "type": "string"},
		"g": {"format": "regex", "type": "string"}, "h": {"format": "uri-template", "type": "string"}, "i": {"format": "uri-reference", "type": "string"},
		"j": {"format": "idn-email", "type": "string"}, "k": {"format": "relative-json-pointer", "type": "string"}}}`,
	"map":              `{"type": "object", "additionalProperties": {"type": "integer"}}`,
	"named map":        `{"type": "object", "patternProperties": {"^x-[a-z]{3}$": {"type": "boolean"}}, "additionalProperties": false, "minProperties": 2}`,
	"property names":   `{"type": "object", "propertyNames": {"pattern": "^[a-z]{5}$"}, "minProperties": 3}`,
	"few properties":   `{"type": "object", "properties": {"a": {}, "b": {}, "c": {}, "d": {}}, "maxProperties": 2, "required": ["d"]}`,
	"many properties":  `{"type": "object", "minProperties": 7}`,
	"required only":    `{"type": "object", "required": ["type", "items"]}`,
	"impossible extra": `{"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}, "b": false}}`,
	"dependent":        `{"type": "object", "required": ["card"], "dependentRequired": {"card": ["address"]}, "properties": {"card": {"type": "string"}, "address": {"type": "string"}}}`,
	"dependent schema": `{"type": "object", "required": ["card"], "dependentSchemas": {"card": {"required": ["zip"], "properties": {"zip": {"type": "integer"}}}}}`,
	"one of": `{"oneOf": [{"type": "object", "required": ["ok"], "properties": {"ok": {"const": true}}, "additionalProperties": false},
		{"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}, "additionalProperties": false}]}`,
	"one of, exclusive": `{"type": "integer", "oneOf": [{"multipleOf": 2}, {"multipleOf": 3}]}`,
	"any of":            `{"anyOf": [{"type": "string", "maxLength": 4}, {"type": "number", "minimum": 1000}]}`,
	"all of": `{"allOf": [{"type": "object", "required": ["a"], "properties": {"a": {"type": "integer", "minimum": 5}}},
		{"required": ["b"], "properties": {"a": {"maximum": 6}, "b": {"type": "boolean"}}}]}`,
	"not":         `{"type": "string", "not": {"const": "Simulated text"}}`,
	"not a type":  `{"not": {"type": ["string", "number"]}}`,
	"conditional": `{"type": "object", "required": ["kind"], "properties": {"kind": {"enum": ["a", "b"]}}, "if": {"properties": {"kind": {"const": "a"}}}, "then": {"required": ["x"]}, "else": {"required": ["y"]}}`,
	"nested one of": `{"type": "object", "required": ["shape"], "properties": {"shape": {"oneOf": [
		{"type": "object", "required": ["radius"], "properties": {"radius": {"type": "number", "exclusiveMinimum": 0}}, "additionalProperties": false},
		{"type": "object", "required": ["side"], "properties": {"side": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}, "additionalProperties": false}]}}}`,
	"definitions": `{"$ref": "#/$defs/order", "$defs": {
		"order": {"type": "object", "required": ["lines", "total"], "properties": {"lines": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/line"}}, "total": {"$ref": "#/$defs/money"}}},
		"line": {"type": "object", "required": ["sku", "count"], "properties": {"sku": {"type": "string", "pattern": "^[A-Z]{3}[0-9]{3}$"}, "count": {"type": "integer", "minimum": 1}}},
		"money": {"type": "object", "required": ["amount", "currency"], "properties": {"amount": {"type": "number", "minimum": 0, "multipleOf": 0.01}, "currency": {"enum": ["EUR", "GBP"]}}}}}`,
	"tree":           `{"type": "object", "required": ["value", "children"], "properties": {"value": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#"}}}}`,
	"expression":     `{"$defs": {"e": {"anyOf": [{"type": "object", "required": ["left", "right"], "properties": {"left": {"$ref": "#/$defs/e"}, "right": {"$ref": "#/$defs/e"}}}, {"type": "number"}]}}, "$ref": "#/$defs/e"}`,
	"list or end":    `{"oneOf": [{"type": "null"}, {"type": "object", "required": ["head", "tail"], "properties": {"head": {"type": "string"}, "tail": {"$ref": "#"}}}]}`,
	"anchor":         `{"type": "object", "required": ["p"], "properties": {"p": {"$ref": "#point"}}, "$defs": {"x": {"$anchor": "point", "type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}}}`,
	"examples":       `{"type": "string", "examples": ["Acme"], "maxLength": 4}`,
	"bad examples":   `{"type": "string", "examples": [1, "too long"], "maxLength": 4}`,
	"closed by all":  `{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "unevaluatedProperties": false, "allOf": [{"properties": {"b": {"type": "integer"}}}]}`,
	"verdict":        `{"type": "object", "required": ["approved", "problems"], "properties": {"approved": {"type": "boolean"}, "problems": {"type": "array", "items": {"type": "string"}}}}`,
	"default only":   `{"type": "string", "pattern": "^(\\w)\\b\\W\\b\\w$", "default": "a-b"}`,
	"draft 4":        `{"$schema": "http://json-schema.org/draft-04/schema#", "type": "number", "minimum": 3, "exclusiveMinimum": true, "maximum": 4}`,
	"wide and deep":  `{"type": "array", "minItems": 3, "items": {"type": "array", "minItems": 3, "items": {"type": "array", "minItems": 3, "items": {"type": "object", "required": ["a", "b"]}}}}`,
	"string or list": `{"type": "object", "required": ["to"], "properties": {"to": {"type": ["array", "string"], "items": {"type": "string", "format": "email"}}}}`,
}

func TestRepliesSatisfyTheirSchema(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(corpus)) {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(8) {
				text := reply(t, simulated.Model{Seed: seed},
					provider.Request{Schema: json.RawMessage(corpus[name]), For: provider.Purpose{Step: "s"}})
				if err := satisfies(corpus[name], text); err != nil {
					t.Fatalf("seed %d: %s\n%v", seed, text, err)
				}
				if len(text) > 12_000 {
					t.Errorf("seed %d: %d bytes are too many for a simple answer", seed, len(text))
				}
			}
		})
	}
}

// satisfies validates with another implementation than the model does.
func satisfies(schema, text string) error {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return err
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	c.UseLoader(jsonschema.SchemeURLLoader{}) // knows no scheme: nothing is loaded
	if err := c.AddResource("schema:///", doc); err != nil {
		return err
	}
	compiled, err := c.Compile("schema:///")
	if err != nil {
		return err
	}
	return compiled.Validate(value)
}

func reply(t testing.TB, m provider.Model, req provider.Request) string {
	t.Helper()
	r, err := providertest.Collect(t, m.Generate(t.Context(), req))
	if err != nil {
		t.Fatal(err)
	}
	return r.Text()
}

func TestUnsatisfiableAndInvalidSchemasFail(t *testing.T) {
	for name, schema := range map[string]string{
		"false":           `false`,
		"empty range":     `{"type": "integer", "minimum": 3, "maximum": 2}`,
		"no type left":    `{"allOf": [{"type": "string"}, {"type": "integer"}]}`,
		"endless":         `{"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#"}}}`,
		"itself":          `{"not": {}}`,
		"refers outside":  `{"$ref": "https://example.com/schema.json"}`,
		"refers to file":  `{"$ref": "file:///etc/passwd"}`,
		"not JSON":        `{"type": `,
		"not a schema":    `{"type": "thing"}`,
		"too long":        `{"type": "string", "minLength": 100000000}`,
		"too many":        `{"type": "array", "minItems": 100000000}`,
		"too large":       `{"type": "integer", "minimum": 1e20000}`,
		"unknown pattern": `{"type": "string", "pattern": "(?=a)b"}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := providertest.Collect(t,
				simulated.Model{}.Generate(t.Context(), provider.Request{Schema: json.RawMessage(schema)}))
			var failed *provider.Error
			if !errors.As(err, &failed) || failed.Class != ir.ClassBadRequest || failed.Retryable() {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestRepliesSatisfyGeneratedSchemas(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		schema, err := json.Marshal(anySchema(rt, 3))
		if err != nil {
			rt.Fatal(err)
		}
		m := simulated.Model{Seed: rapid.Uint64().Draw(rt, "seed")}
		r, err := providertest.Collect(t, m.Generate(t.Context(),
			provider.Request{Schema: schema, MaxTokens: rapid.SampledFrom([]int{0, 100_000}).Draw(rt, "most")}))
		if err != nil {
			rt.Fatalf("%s\n%v", schema, err)
		}
		if err := satisfies(string(schema), r.Text()); err != nil {
			rt.Fatalf("%s\n%s\n%v", schema, r.Text(), err)
		}
	})
}

// anySchema generates a satisfiable schema.
func anySchema(t *rapid.T, depth int) any {
	leaf := []string{"string", "integer", "number", "boolean", "null", "enum", "const", "any"}
	if depth > 0 {
		leaf = append(leaf, "array", "object", "object", "oneOf", "anyOf", "allOf", "nullable")
	}
	switch kind := rapid.SampledFrom(leaf).Draw(t, "kind"); kind {
	case "string":
		s := map[string]any{"type": "string"}
		least := rapid.IntRange(0, 40).Draw(t, "least")
		switch rapid.IntRange(0, 3).Draw(t, "form") {
		case 0:
			s["minLength"], s["maxLength"] = least, least+rapid.IntRange(0, 20).Draw(t, "more")
		case 1:
			s["format"] = rapid.SampledFrom([]string{"email", "date", "date-time", "uri", "uuid"}).Draw(t, "format")
		case 2:
			s["pattern"] = rapid.SampledFrom([]string{`^[a-z]+$`, `^\d{3}-\d{2}$`, `x`, `^(a|bc){2,5}$`, `^[^\s]+@[^\s]+$`}).Draw(t, "pattern")
		}
		return s
	case "integer", "number":
		s := map[string]any{"type": kind}
		low := rapid.IntRange(-1000, 1000).Draw(t, "low")
		if rapid.Bool().Draw(t, "low?") {
			s["minimum"] = low
		}
		step := rapid.IntRange(1, 30).Draw(t, "step")
		if rapid.Bool().Draw(t, "step?") {
			s["multipleOf"] = step
		}
		if rapid.Bool().Draw(t, "high?") {
			s["exclusiveMaximum"] = low + step + 1
		}
		return s
	case "boolean", "null":
		return map[string]any{"type": kind}
	case "enum":
		return map[string]any{"enum": rapid.SliceOfN(rapid.SampledFrom([]any{"a", "b", 1, 2.5, true, nil}),
			1, 4).Draw(t, "values")}
	case "const":
		return map[string]any{"const": rapid.SampledFrom([]any{"a", 7, false, []any{1}, map[string]any{"k": "v"}}).
			Draw(t, "value")}
	case "array":
		s := map[string]any{"type": "array", "items": anySchema(t, depth-1)}
		if least := rapid.IntRange(0, 4).Draw(t, "least"); rapid.Bool().Draw(t, "least?") {
			s["minItems"], s["maxItems"] = least, least+rapid.IntRange(0, 3).Draw(t, "more")
		} else {
			s["uniqueItems"] = rapid.Bool().Draw(t, "unique")
		}
		return s
	case "object":
		properties, required := map[string]any{}, []string{}
		for _, name := range rapid.SliceOfNDistinct(
			rapid.SampledFrom([]string{"summary", "email", "confidence", "items", "a", "approved", "due_date"}), 0,
			4, rapid.ID).Draw(t, "names") {
			properties[name] = anySchema(t, depth-1)
			if rapid.Bool().Draw(t, "required") {
				required = append(required, name)
			}
		}
		s := map[string]any{"type": "object", "properties": properties, "required": required}
		if rapid.Bool().Draw(t, "closed") {
			s["additionalProperties"] = false
		} else if rapid.Bool().Draw(t, "more") {
			s["minProperties"] = len(properties) + rapid.IntRange(0, 2).Draw(t, "n")
		}
		return s
	case "oneOf":
		// Told apart by a key, as people do.
		var ways []any
		for i := range rapid.IntRange(1, 3).Draw(t, "ways") {
			ways = append(ways,
				map[string]any{"type": "object", "required": []string{"kind", "value"}, "properties": map[string]any{
					"kind": map[string]any{"const": fmt.Sprint("way", i)}, "value": anySchema(t, depth-1),
				}})
		}
		return map[string]any{"oneOf": ways}
	case "anyOf":
		return map[string]any{"anyOf": []any{anySchema(t, depth-1), anySchema(t, depth-1)}}
	case "allOf":
		return map[string]any{"allOf": []any{
			map[string]any{"type": "object", "required": []string{"left"}, "properties": map[string]any{
				"left": anySchema(t, depth-1),
			}},
			map[string]any{"type": "object", "required": []string{"right"}, "properties": map[string]any{
				"right": anySchema(t, depth-1),
			}},
		}}
	case "nullable":
		return map[string]any{
			"$defs": map[string]any{"x": anySchema(t, 0)}, "type": "object", "description": "with definitions inside",
		}
	}
	return map[string]any{}
}

// Every schema results in a valid reply or an error.
func FuzzSchema(f *testing.F) {
	for _, s := range corpus {
		f.Add(uint64(1), s)
	}
	f.Fuzz(func(t *testing.T, seed uint64, schema string) {
		if strings.ContainsAny(schema, "eE") && hugeNumber.MatchString(schema) {
			t.Skip("numbers with a million digits are slow in the validator itself")
		}
		req := provider.Request{Schema: json.RawMessage(schema), For: provider.Purpose{Step: "s"}}
		r, err := providertest.Collect(t, simulated.Model{Seed: seed}.Generate(t.Context(), req))
		if err != nil {
			var failed *provider.Error
			if !errors.As(err, &failed) {
				t.Fatal(err)
			}
			return
		}
		if len(schema) == 0 {
			return
		}
		if err := providertest.Validate(json.RawMessage(schema), []byte(r.Text())); err != nil {
			t.Fatalf("%s\n%v", r.Text(), err)
		}
	})
}

var hugeNumber = regexp.MustCompile(`[eE][+-]?\d{4,}`)
