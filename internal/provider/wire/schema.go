package wire

import (
	"bytes"
	"encoding/json"
	"io"
)

// Decode reads JSON without rounding its numbers.
func Decode(raw json.RawMessage) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var out any
	if err := d.Decode(&out); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, io.ErrUnexpectedEOF
	}
	return out, nil
}

// Tighten makes a schema that servers can hold a reply to: objects are closed,
// and what they do not understand is left out. A reply that satisfies it may
// still miss the schema itself, which is checked afterwards anyway; ok is
// false when nothing useful is left. strict tells whether every property is
// required, which some servers insist on.
func Tighten(schema json.RawMessage) (tight map[string]any, strict, ok bool) {
	all, err := Decode(schema)
	if err != nil {
		return nil, false, false
	}
	object, isObject := all.(map[string]any)
	if !isObject || object["type"] != "object" {
		return nil, false, false
	}
	t := tightener{strict: true}
	out, ok := t.schema(object)
	if !ok {
		return nil, false, false
	}
	return out, t.strict, true
}

type tightener struct{ strict bool }

// schema copies what every server understands. Keywords that only narrow
// values are dropped; those that change what a value is end it.
func (t *tightener) schema(in map[string]any) (map[string]any, bool) {
	out := map[string]any{}
	for key, value := range in {
		switch key {
		case "type", "enum", "const", "description", "title":
			out[key] = value
		case "properties":
			all, ok := value.(map[string]any)
			if !ok {
				return nil, false
			}
			inner := map[string]any{}
			for name, one := range all {
				kept, ok := t.any(one)
				if !ok {
					return nil, false
				}
				inner[name] = kept
			}
			out[key] = inner
		case "required":
			out[key] = value
		case "items":
			kept, ok := t.any(value)
			if !ok {
				return nil, false
			}
			out[key] = kept
		case "anyOf":
			all, ok := value.([]any)
			if !ok {
				return nil, false
			}
			var inner []any
			for _, one := range all {
				kept, ok := t.any(one)
				if !ok {
					return nil, false
				}
				inner = append(inner, kept)
			}
			out[key] = inner
		case "additionalProperties":
			if value != false && value != true {
				return nil, false // values that the schema describes would be forbidden
			}
		case "oneOf", "allOf", "not", "if", "then", "else", "$ref", "$defs", "definitions", "patternProperties",
			"dependentSchemas", "dependentRequired", "propertyNames", "prefixItems", "contains", "unevaluatedProperties":
			return nil, false
		}
	}
	if out["type"] == "object" {
		properties, _ := out["properties"].(map[string]any)
		if len(properties) == 0 {
			return nil, false // closed, it could only be empty
		}
		required, _ := out["required"].([]any)
		if len(required) != len(properties) {
			t.strict = false
		}
		out["additionalProperties"] = false
	}
	if out["type"] == nil && out["enum"] == nil && out["const"] == nil && out["anyOf"] == nil {
		return nil, false // anything at all
	}
	return out, true
}

func (t *tightener) any(value any) (map[string]any, bool) {
	object, ok := value.(map[string]any)
	if !ok {
		return nil, false
	}
	return t.schema(object)
}
