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

func TestWords(t *testing.T) {
	for _, c := range []struct{ schema, value, want string }{
		{`{"properties": {"amount": {"type": "number"}}}`, `{"amount": "x"}`, `amount: is text, not a number`},
		{`{"type": ["integer", "null"]}`, `1.5`, `is a number, not a whole number or null`},
		{`{"required": ["name"]}`, `{}`, `is missing "name"`},
		{`{"additionalProperties": false, "properties": {"a": {}}}`, `{"a": 1, "b": 2}`, `b: must not be there`},
		{`{"enum": ["a", 1]}`, `"b"`, `is not one of "a", 1`},
		{`{"const": {"a": 1}}`, `"b"`, `is not {"a":1}`},
		{`{"minimum": 0.01}`, `0`, `is less than 0.01`},
		{`{"maximum": 10}`, `11`, `is more than 10`},
		{`{"exclusiveMinimum": 0}`, `0`, `is not more than 0`},
		{`{"exclusiveMaximum": 1}`, `1.0`, `is not less than 1`},
		{`{"multipleOf": 0.5}`, `1.2`, `is not a multiple of 0.5`},
		{`{"minLength": 1}`, `""`, `is empty`},
		{`{"minLength": 2}`, `"ä"`, `has 1 character, fewer than 2`},
		{`{"maxLength": 1}`, `"äö"`, `has 2 characters, more than 1`},
		{`{"pattern": "^a"}`, `"b"`, `does not match the pattern ^a`},
		{`{"format": "date"}`, `"soon"`, `is not of the format "date"`},
		{`{"minItems": 1}`, `[]`, `has 0 items, fewer than 1`},
		{`{"maxItems": 0}`, `[1]`, `has 1 item, more than 0`},
		{`{"uniqueItems": true}`, `[1, 2, 1.0]`, `has the same item twice, at [0] and [2]`},
		{`{"contains": {"type": "string"}}`, `[1]`, `has 0 items of the form that it must have, fewer than 1`},
		{`{"items": {"items": {"type": "string"}}}`, `[[], ["a", 1]]`, `[1][1]: is a number, not text`},
		{`{"minProperties": 2}`, `{"a": 1}`, `has 1 key, fewer than 2`},
		{`{"propertyNames": {"pattern": "^a"}}`, `{"b": 1}`, `has the key "b", which is not a name that it may have`},
		{`{"dependentRequired": {"a": ["b"]}}`, `{"a": 1}`, `is missing "b", which goes with "a"`},
		{`{"not": {"type": "null"}}`, `null`, `has a form that it must not have`},
		{`{"anyOf": [{"type": "string"}, {"type": "null"}]}`, `1`, `is a number, not text or null`},
		{`{"oneOf": [{"minimum": 1}, {"minimum": 2}]}`, `3`, `fits forms 1 and 2 of those it may have, and may fit only one`},
		{`{"oneOf": [{"required": ["a"], "properties": {"kind": {"const": "x"}, "a": {"type": "string"}}}, {"type": "null"}]}`, `{"kind": "x", "a": 1}`, `a: is a number, not text`},
		{`{"$ref": "#"}`, `1`, `cannot be checked, because its schema refers to itself`},
		{`{"properties": {"0": {"type": "null"}}}`, `{"0": 1}`, `0: is a number, not null`},
	} {
		if got := problems(t, c.schema, c.value); got != c.want {
			t.Errorf("%s against %s\ngot  %s\nwant %s", c.value, c.schema, got, c.want)
		}
	}
}

func TestErrorsPoint(t *testing.T) {
	for _, c := range []struct{ schema, pointer, message string }{
		{`{"type": "strin"}`, "/type", `"strin" is not a type`},
		{`{"type": ["string", "nul"]}`, "/type/1", `"nul" is not a type`},
		{`{"required": "a"}`, "/required", `it wants a list there, not text`},
		{`{"required": ["a", "a"]}`, "/required/1", `"a" is there already`},
		{`{"properties": {"a/b": {"pattern": "["}}}`, "/properties/a~1b/pattern", `"[" is not a regular expression`},
		{`{"patternProperties": {"(": true}}`, "/patternProperties/(", `"(" is not a regular expression`},
		{`{"items": {"$ref": "#/$defs/x"}}`, "/items/$ref", `it refers to "#/$defs/x", which it does not have`},
		{`{"$ref": "#x"}`, "/$ref", `it refers to the anchor "x", which it does not have`},
		{`{"$ref": "other.json"}`, "/$ref", `it refers to "other.json", and only references inside the schema itself are followed`},
		{`{"minLength": -1}`, "/minLength", `it wants a whole number there, and none below 0`},
		{`{"multipleOf": 0}`, "/multipleOf", `it wants a number above 0 there`},
		{`{"minimum": 1e20000}`, "/minimum", `the number has too many digits`},
		{`{"allOf": []}`, "/allOf", `it wants at least one schema there`},
		{`{"properties": {"a": 1}}`, "/properties/a", `it wants a schema there (an object, true or false), not a number`},
		{`{"items": [{}]}`, "/items", `it wants a schema there; a list of schemas is called prefixItems`},
		{`{"$schema": "https://example.com/own"}`, "/$schema", `"https://example.com/own" is not a draft of JSON Schema that is known here`},
		{`{`, "", `it is not JSON`},
		{`{} {}`, "", `it is not JSON`},
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

func TestFormats(t *testing.T) {
	for format, c := range map[string]struct{ good, bad string }{
		"date":          {"2024-02-29", "2023-02-29 2024-2-9 x"},
		"time":          {"09:30:00Z 09:30:00.5+02:00", "9:30:00Z 09:30:00 09:30:00,5Z 25:00:00Z"},
		"date-time":     {"2026-03-14T09:30:00Z 2026-03-14t09:30:00z", "2026-03-14 2026-03-14_09:30:00Z 2026-03-14T9:30:00Z"},
		"duration":      {"P1D PT30M P1Y2M3DT4H5M6S P2W", "P PT 1D P1 P1DT P1D2Y P1W2D PD"},
		"email":         {"a@example.com", "a@ @b <a@example.com>"},
		"hostname":      {"example.com a a-b.c", "-a a- a..b a_b ."},
		"ipv4":          {"192.0.2.1", "192.0.2 256.0.0.1 ::1"},
		"ipv6":          {"::1 2001:db8::1", "1.2.3.4 fe80::1%eth0 x"},
		"uri":           {"https://example.com/a?b#c urn:x:y", "/a //example.com https://a/<b>"},
		"uri-reference": {"/a b#c", `\a`},
		"uuid":          {"6b1f0a52-3c1e-4d57-9a64-0f2f6a1c7e11", "6b1f0a523c1e4d579a640f2f6a1c7e11 6b1f0a52-3c1e-4d57-9a64-0f2f6a1c7e1x"},
		"regex":         {"^a+$", "("},
		"of our own":    {"anything", ""},
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

// Older drafts call things differently.
func TestDrafts(t *testing.T) {
	for _, c := range []struct{ schema, good, bad string }{
		{`{"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 3, "exclusiveMinimum": true}`, `4`, `3`},
		{`{"$schema": "http://json-schema.org/draft-04/schema#", "id": "http://x/y", "items": {"$ref": "z"}, "definitions": {"z": {"id": "z", "type": "null"}}}`, `[null]`, `[1]`},
		{`{"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "string"}], "additionalItems": false}`, `["a"]`, `["a", 1]`},
		{`{"$schema": "http://json-schema.org/draft-07/schema#", "dependencies": {"a": ["b"], "c": {"required": ["d"]}}}`, `{"a": 1, "b": 1}`, `{"c": 1}`},
		{`{"$schema": "https://json-schema.org/draft/2019-09/schema", "$recursiveAnchor": true, "properties": {"a": {"$recursiveRef": "#"}}, "additionalProperties": false}`, `{"a": {"a": {}}}`, `{"a": {"b": 1}}`},
		{`{"$dynamicAnchor": "n", "properties": {"a": {"$dynamicRef": "#n"}}, "additionalProperties": false}`, `{"a": {"a": {}}}`, `{"a": {"b": 1}}`},
	} {
		if got := problems(t, c.schema, c.good); got != "" {
			t.Errorf("%s refuses %s: %s", c.schema, c.good, got)
		}
		if problems(t, c.schema, c.bad) == "" {
			t.Errorf("%s takes %s", c.schema, c.bad)
		}
	}
}

// A schema cannot make a check go on for ever, or go too deep.
func TestHostileSchemas(t *testing.T) {
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
		t.Error("what was not checked to its end is accepted")
	}
	for name, raw := range map[string]string{
		"many levels": strings.Repeat(`{"not":`, 5000) + `{}` + strings.Repeat(`}`, 5000),
		"long name":   `{"properties": {"` + strings.Repeat("x", 100_000) + `": {"allOf": [` + strings.Repeat("true,", 50_000) + `true]}}}`,
		"wide":        `{"properties": {"` + strings.Repeat("x", 3_000) + `": {"allOf": [` + strings.Repeat("true,", 50_000) + `true]}}}`,
	} {
		var got *schema.Error
		if _, err := schema.Compile(json.RawMessage(raw)); !errors.As(err, &got) || got.Message != "it is too large, or goes too deep" {
			t.Errorf("%s: %v", name, err)
		}
	}
	list := strings.Repeat(`[`, 9000) + strings.Repeat(`]`, 9000)
	if got := problems(t, `{"items": {"$ref": "#"}}`, list[4500:13500]); got != "" {
		t.Errorf("a list of many levels: %s", got)
	}
	if _, err := compiled(t, `{"items": {"$ref": "#"}}`).Check(json.RawMessage(list)); !errors.Is(err, schema.ErrTooMuch) {
		t.Errorf("a list of too many levels: %v", err)
	}
	long := strings.Repeat("9", 100_000)
	if got := problems(t, `{"minimum": 1}`, long); got != "has too many digits to be compared" {
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
