package schema_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/schema"
)

func compiled(t testing.TB, raw string) *schema.Schema {
	t.Helper()
	s, err := schema.Compile(json.RawMessage(raw))
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return s
}

func problems(t testing.TB, raw, value string) string {
	t.Helper()
	found, err := compiled(t, raw).Check(json.RawMessage(value))
	if err != nil {
		t.Fatalf("%s against %s: %v", value, raw, err)
	}
	var out []string
	for _, p := range found {
		out = append(out, p.String())
	}
	return strings.Join(out, "; ")
}

func TestMessagesSayWhatTheValueMustBe(t *testing.T) {
	for _, c := range []struct{ schema, value, want string }{
		{`{"properties": {"amount": {"type": "number"}}}`, `{"amount": "x"}`, `amount: must be a number, not a string`},
		{`{"type": ["integer", "null"]}`, `1.5`, `must be an integer or null, not a number`},
		{`{"required": ["name"]}`, `{}`, `must have the property "name"`},
		{`{"additionalProperties": false, "properties": {"a": {}}}`, `{"a": 1, "b": 2}`, `b: is not allowed`},
		{`{"enum": ["a", 1]}`, `"b"`, `must be one of "a", 1`},
		{`{"const": {"a": 1}}`, `"b"`, `must be {"a":1}`},
		{`{"minimum": 0.01}`, `0`, `must be at least 0.01`},
		{`{"maximum": 10}`, `11`, `must be at most 10`},
		{`{"exclusiveMinimum": 0}`, `0`, `must be greater than 0`},
		{`{"exclusiveMaximum": 1}`, `1.0`, `must be less than 1`},
		{`{"multipleOf": 0.5}`, `1.2`, `must be a multiple of 0.5`},
		{`{"minLength": 1}`, `""`, `must have at least 1 character, not 0`},
		{`{"minLength": 2}`, `"ä"`, `must have at least 2 characters, not 1`},
		{`{"maxLength": 1}`, `"äö"`, `must have at most 1 character, not 2`},
		{`{"pattern": "^a"}`, `"b"`, `must match the pattern ^a`},
		{`{"format": "date"}`, `"soon"`, `must have the format "date"`},
		{`{"minItems": 1}`, `[]`, `must have at least 1 item, not 0`},
		{`{"maxItems": 0}`, `[1]`, `must have at most 0 items, not 1`},
		{`{"uniqueItems": true}`, `[1, 2, 1.0]`, `must not contain duplicates: items [0] and [2] are equal`},
		{`{"contains": {"type": "string"}}`, `[1]`, `must have at least 1 matching item, not 0`},
		{`{"contains": {}, "maxContains": 1}`, `[1, 2]`, `must have at most 1 matching item, not 2`},
		{`{"items": {"items": {"type": "string"}}}`, `[[], ["a", 1]]`, `[1][1]: must be a string, not a number`},
		{`{"minProperties": 2}`, `{"a": 1}`, `must have at least 2 properties, not 1`},
		{`{"propertyNames": {"pattern": "^a"}}`, `{"b": 1}`, `must not have the property name "b"`},
		{`{"dependentRequired": {"a": ["b"]}}`, `{"a": 1}`, `must have the property "b" because it has "a"`},
		{`{"not": {"type": "null"}}`, `null`, `matches a schema that it must not match`},
		{`{"anyOf": [{"type": "string"}, {"type": "null"}]}`, `1`, `must be a string or null, not a number`},
		{`{"oneOf": [{"minimum": 1}, {"minimum": 2}]}`, `3`, `matches alternatives 1 and 2, but only one may match`},
		{
			`{"oneOf": [
				{"required": ["a"], "properties": {"kind": {"const": "x"}, "a": {"type": "string"}}},
				{"type": "null"}]}`,
			`{"kind": "x", "a": 1}`, `a: must be a string, not a number`,
		},
		{`{"$ref": "#"}`, `1`, `cannot be validated because its schema refers to itself`},
		{`{"properties": {"0": {"type": "null"}}}`, `{"0": 1}`, `0: must be null, not a number`},
	} {
		if got := problems(t, c.schema, c.value); got != c.want {
			t.Errorf("%s against %s\ngot  %s\nwant %s", c.value, c.schema, got, c.want)
		}
	}
}

func TestErrorsNameTheLocation(t *testing.T) {
	for _, c := range []struct{ schema, pointer, message string }{
		{`{"type": "strin"}`, "/type", `"strin" is not a type`},
		{`{"type": ["string", "nul"]}`, "/type/1", `"nul" is not a type`},
		{`{"required": "a"}`, "/required", `expected an array, not a string`},
		{`{"required": ["a", "a"]}`, "/required/1", `"a" is listed twice`},
		{
			`{"properties": {"a/b": {"pattern": "["}}}`, "/properties/a~1b/pattern",
			`"[" is not a valid regular expression`,
		},
		{`{"patternProperties": {"(": true}}`, "/patternProperties/(", `"(" is not a valid regular expression`},
		{`{"items": {"$ref": "#/$defs/x"}}`, "/items/$ref", `the reference "#/$defs/x" has no target`},
		{`{"$ref": "#x"}`, "/$ref", `the anchor "x" is not defined`},
		{`{"$ref": "other.json"}`, "/$ref", `the reference "other.json" leads outside the schema`},
		{`{"minLength": -1}`, "/minLength", `expected a non-negative integer`},
		{`{"multipleOf": 0}`, "/multipleOf", `expected a number greater than 0`},
		{`{"minimum": 1e20000}`, "/minimum", `the number has too many digits`},
		{`{"allOf": []}`, "/allOf", `expected at least one schema`},
		{`{"properties": {"a": 1}}`, "/properties/a", `expected a schema (an object, true or false), not a number`},
		{`{"items": [{}]}`, "/items", `expected a schema; use prefixItems for an array of schemas`},
		{`{"$schema": "https://example.com/own"}`, "/$schema", `unknown JSON Schema draft "https://example.com/own"`},
		{`{`, "", `not valid JSON`},
		{`{} {}`, "", `not valid JSON`},
	} {
		_, err := schema.Compile(json.RawMessage(c.schema))
		var got *schema.Error
		if !errors.As(err, &got) || got.Pointer != c.pointer || got.Message != c.message {
			t.Errorf("%s\ngot  %v\nwant %s: %s", c.schema, err, c.pointer, c.message)
			continue
		}
		if outside := strings.Contains(c.schema, "other.json"); got.Outside != outside {
			t.Errorf("%s: outside %t", c.schema, got.Outside)
		}
	}
}

func TestFormatsAcceptOnlyValidValues(t *testing.T) {
	for format, c := range map[string]struct{ good, bad string }{
		"date": {"2024-02-29", "2023-02-29 2024-2-9 x"},
		"time": {"09:30:00Z 09:30:00.5+02:00", "9:30:00Z 09:30:00 09:30:00,5Z 25:00:00Z"},
		"date-time": {
			"2026-03-14T09:30:00Z 2026-03-14t09:30:00z",
			"2026-03-14 2026-03-14_09:30:00Z 2026-03-14T9:30:00Z",
		},
		"duration":      {"P1D PT30M P1Y2M3DT4H5M6S P2W", "P PT 1D P1 P1DT P1D2Y P1W2D PD"},
		"email":         {"a@example.com", "a@ @b <a@example.com>"},
		"hostname":      {"example.com a a-b.c", "-a a- a..b a_b ."},
		"ipv4":          {"192.0.2.1", "192.0.2 256.0.0.1 ::1"},
		"ipv6":          {"::1 2001:db8::1", "1.2.3.4 fe80::1%eth0 x"},
		"uri":           {"https://example.com/a?b#c urn:x:y", "/a //example.com https://a/<b>"},
		"uri-reference": {"/a b#c", `\a`},
		"uuid": {
			"6b1f0a52-3c1e-4d57-9a64-0f2f6a1c7e11",
			"6b1f0a523c1e4d579a640f2f6a1c7e11 6b1f0a52-3c1e-4d57-9a64-0f2f6a1c7e1x",
		},
		"regex":   {"^a+$", "("},
		"unknown": {"anything", ""},
	} {
		for want, values := range map[bool]string{true: c.good, false: c.bad} {
			for value := range strings.FieldsSeq(values) {
				raw, err := json.Marshal(value)
				if err != nil {
					t.Fatal(err)
				}
				got := problems(t, fmt.Sprintf(`{"format": %q}`, format), string(raw))
				if (got == "") != want {
					t.Errorf("%s %q: %q", format, value, got)
				}
			}
		}
	}
}

func TestKeywordsOfOlderDraftsAreChecked(t *testing.T) {
	const (
		draft4    = `{"$schema": "http://json-schema.org/draft-04/schema#", `
		draft7    = `{"$schema": "http://json-schema.org/draft-07/schema#", `
		draft2019 = `{"$schema": "https://json-schema.org/draft/2019-09/schema", `
	)
	for _, c := range []struct{ schema, good, bad string }{
		{draft4 + `"minimum": 3, "exclusiveMinimum": true}`, `4`, `3`},
		{
			draft4 + `"id": "http://x/y", "items": {"$ref": "z"}, "definitions": {"z": {"id": "z", "type": "null"}}}`,
			`[null]`, `[1]`,
		},
		{draft7 + `"items": [{"type": "string"}], "additionalItems": false}`, `["a"]`, `["a", 1]`},
		{draft7 + `"dependencies": {"a": ["b"], "c": {"required": ["d"]}}}`, `{"a": 1, "b": 1}`, `{"c": 1}`},
		{
			draft2019 + `"$recursiveAnchor": true, "properties": {"a": {"$recursiveRef": "#"}}, ` +
				`"additionalProperties": false}`,
			`{"a": {"a": {}}}`, `{"a": {"b": 1}}`,
		},
		{
			`{"$dynamicAnchor": "n", "properties": {"a": {"$dynamicRef": "#n"}}, "additionalProperties": false}`,
			`{"a": {"a": {}}}`, `{"a": {"b": 1}}`,
		},
	} {
		if got := problems(t, c.schema, c.good); got != "" {
			t.Errorf("%s rejects %s: %s", c.schema, c.good, got)
		}
		if problems(t, c.schema, c.bad) == "" {
			t.Errorf("%s accepts %s", c.schema, c.bad)
		}
	}
}

func TestHostileSchemasAreBounded(t *testing.T) {
	var doubling strings.Builder
	doubling.WriteString(`{"$ref": "#/$defs/d0", "$defs": {"d60": {"type": "string"}`)
	for i := range 60 {
		fmt.Fprintf(&doubling, `, "d%d": {"anyOf": [{"$ref": "#/$defs/d%d"}, {"$ref": "#/$defs/d%d"}]}`, i, i+1, i+1)
	}
	doubling.WriteString(`}}`)
	if _, err := compiled(t, doubling.String()).Check(json.RawMessage(`1`)); !errors.Is(err, schema.ErrTooMuch) {
		t.Errorf("doubling references: %v", err)
	}
	if compiled(t, doubling.String()).Root().Accepts("text") {
		t.Error("an aborted validation accepts the value")
	}
	wide := func(name int) string {
		return `{"properties": {"` + strings.Repeat("x", name) + `": {"allOf": [` +
			strings.Repeat("true,", 50_000) + `true]}}}`
	}
	for name, raw := range map[string]string{
		"many levels": strings.Repeat(`{"not":`, 5000) + `{}` + strings.Repeat(`}`, 5000),
		"long name":   wide(100_000),
		"wide":        wide(3_000),
	} {
		var got *schema.Error
		_, err := schema.Compile(json.RawMessage(raw))
		if !errors.As(err, &got) || got.Message != "the schema is too large or nested too deeply" {
			t.Errorf("%s: %v", name, err)
		}
	}
	list := strings.Repeat(`[`, 9000) + strings.Repeat(`]`, 9000)
	if got := problems(t, `{"items": {"$ref": "#"}}`, list[4500:13500]); got != "" {
		t.Errorf("a deeply nested array: %s", got)
	}
	if _, err := compiled(t, `{"items": {"$ref": "#"}}`).Check(json.RawMessage(list)); !errors.Is(err,
		schema.ErrTooMuch) {
		t.Errorf("an array nested too deeply: %v", err)
	}
	long := strings.Repeat("9", 100_000)
	if got := problems(t, `{"minimum": 1}`, long); got != "has too many digits" {
		t.Errorf("a long number: %s", got)
	}
}

func FuzzCheck(f *testing.F) {
	f.Add(`{"type": "object", "properties": {"a": {"$ref": "#"}}, "unevaluatedProperties": false}`, `{"a": {}}`)
	f.Add(`{"$id": "x", "$defs": {"a": {"$anchor": "b", "$dynamicRef": "#b"}}, "items": [{}], "oneOf": [true]}`, `[1]`)
	f.Fuzz(func(t *testing.T, raw, value string) {
		s, err := schema.Compile(json.RawMessage(raw))
		if err != nil {
			return
		}
		v, err := schema.Decode([]byte(value))
		if err != nil {
			return
		}
		problems, err := s.Check(json.RawMessage(value))
		if valid := len(problems) == 0 && err == nil; valid != s.Root().Accepts(v) {
			t.Errorf("problems %v, %v; accepted %t", problems, err, s.Root().Accepts(v))
		}
		s.Fill(json.RawMessage(value))
	})
}
