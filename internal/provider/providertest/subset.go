package providertest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// subset is the part of JSON Schema that a provider documents for structured
// output. A real server answers 400 to anything else.
type subset struct {
	keywords []string
	// formats are the values of "format"; nil accepts every value.
	formats []string
	// closed requires additionalProperties: false in every object.
	closed bool
	// typed requires a type in every schema, except beside anyOf and $ref. The server's error is "schema must have a
	// 'type' key".
	typed bool
	// allRequired requires every property in "required".
	allRequired bool
	// enumTypes are the types that values of enum and const may have.
	enumTypes []string
	// loneRef allows no keywords beside $ref, apart from those that start with $.
	loneRef bool
	// minItems are the accepted values; nil accepts every value.
	minItems []string
	// Limits over the whole schema; 0 is no limit. characters counts names and the values of enum and const.
	depth, properties, enumValues, optional, unions, characters int
	// enumCharacters is the limit of an enum with more than 250 values.
	enumCharacters int
}

var (
	commonFormats = []string{"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
	scalarTypes   = []string{"string", "number", "boolean", "null"}
)

// https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
var openAISubset = subset{
	keywords: []string{
		"type", "enum", "const", "anyOf", "$ref", "$defs", "definitions", "description", "title", "properties",
		"required", "additionalProperties",
		"items", "minItems", "maxItems", "pattern", "format", "multipleOf", "minimum", "maximum", "exclusiveMinimum",
		"exclusiveMaximum",
	},
	formats: commonFormats, closed: true, typed: true, allRequired: true, enumTypes: scalarTypes, depth: 10,
	properties: 5000, enumValues: 1000,
	characters: 120_000, enumCharacters: 15_000,
}

// https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations
var anthropicSubset = subset{
	keywords: []string{
		"type", "enum", "const", "anyOf", "allOf", "$ref", "$defs", "definitions", "default", "description", "title",
		"properties", "required",
		"additionalProperties", "items", "minItems", "format",
	},
	formats: append([]string{"uri"}, commonFormats...), closed: true, enumTypes: scalarTypes,
	minItems: []string{"0", "1"}, optional: 24, unions: 16,
}

// https://ai.google.dev/api/generate-content#generationconfig (responseJsonSchema)
var geminiSubset = subset{
	keywords: []string{
		"$id", "$defs", "$ref", "$anchor", "type", "format", "title", "description", "enum", "items", "prefixItems",
		"minItems", "maxItems",
		"minimum", "maximum", "anyOf", "oneOf", "properties", "additionalProperties", "required", "propertyOrdering",
	},
	enumTypes: []string{"string", "number"}, loneRef: true,
}

// walker counts what a subset limits.
type walker struct {
	subset
	nProperties, nEnum, nOptional, nUnions, nCharacters int
}

// check returns an error if a schema is not in the subset.
func (s subset) check(schema any) error {
	if err := checkSchema(schema); err != nil {
		return err
	}
	object, _ := schema.(map[string]any)
	if object["type"] != "object" || object["anyOf"] != nil {
		return fmt.Errorf(`the root schema must have type "object" and no anyOf`)
	}
	w := walker{subset: s}
	if err := w.walk(object, "$", 1); err != nil {
		return err
	}
	for _, limit := range []struct {
		what       string
		have, most int
	}{
		{"properties", w.nProperties, s.properties},
		{"enum values", w.nEnum, s.enumValues},
		{"optional properties", w.nOptional, s.optional},
		{"union types", w.nUnions, s.unions},
		{"characters in names and values", w.nCharacters, s.characters},
	} {
		if limit.most > 0 && limit.have > limit.most {
			return fmt.Errorf("the schema has %d %s; the limit is %d", limit.have, limit.what, limit.most)
		}
	}
	return nil
}

// walk checks one schema and counts what the subset limits. at is its path, for messages.
func (w *walker) walk(schema map[string]any, at string, depth int) error {
	if w.depth > 0 && depth > w.depth {
		return fmt.Errorf("%s: more than %d levels of nesting", at, w.depth)
	}
	for _, key := range slices.Sorted(maps.Keys(schema)) {
		if !slices.Contains(w.keywords, key) {
			return fmt.Errorf("%s: %q is not permitted", at, key)
		}
		if w.loneRef && schema["$ref"] != nil && !strings.HasPrefix(key, "$") {
			return fmt.Errorf("%s: %q is not permitted beside $ref", at, key)
		}
	}
	if format, ok := schema["format"].(string); ok && w.formats != nil && !slices.Contains(w.formats, format) {
		return fmt.Errorf("%s: format %q is not supported", at, format)
	}
	if n, ok := schema["minItems"].(json.Number); ok && w.minItems != nil && !slices.Contains(w.minItems, n.String()) {
		return fmt.Errorf("%s: minItems %s is not supported", at, n)
	}
	if w.typed && schema["type"] == nil && schema["anyOf"] == nil && schema["$ref"] == nil {
		return fmt.Errorf("%s: schema must have a 'type' key", at)
	}
	if err := w.enum(schema, at); err != nil {
		return err
	}
	if _, several := schema["type"].([]any); several || schema["anyOf"] != nil {
		w.nUnions++
	}
	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	if schema["type"] == "object" || properties != nil {
		if w.closed && schema["additionalProperties"] != false {
			return fmt.Errorf("%s: additionalProperties must be false", at)
		}
		w.nProperties += len(properties)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			if slices.Contains(required, any(name)) {
				continue
			}
			w.nOptional++
			if w.allRequired {
				return fmt.Errorf("%s: required must list every property; %q is missing", at, name)
			}
		}
	}
	return w.inside(schema, at, depth)
}

// enum checks the values of enum and const.
func (w *walker) enum(schema map[string]any, at string) error {
	values, _ := schema["enum"].([]any)
	if value, ok := schema["const"]; ok {
		values = append(values, value)
	}
	w.nEnum += len(values)
	total := 0
	for _, v := range values {
		text, _ := v.(string)
		total += utf8.RuneCountInString(text)
	}
	w.nCharacters += total
	if w.enumCharacters > 0 && len(values) > 250 && total > w.enumCharacters {
		return fmt.Errorf("%s: an enum of more than 250 values has %d characters; the limit is %d", at, total,
			w.enumCharacters)
	}
	for _, v := range values {
		if kind := typeOf(v); !slices.Contains(w.enumTypes, kind) {
			return fmt.Errorf("%s: enum values of type %s are not supported", at, kind)
		}
	}
	return nil
}

func typeOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case json.Number:
		return "number"
	case []any:
		return "array"
	}
	return "object"
}

// inside walks the subschemas.
func (w *walker) inside(schema map[string]any, at string, depth int) error {
	for _, key := range []string{"properties", "$defs", "definitions"} {
		all, _ := schema[key].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			w.nCharacters += utf8.RuneCountInString(name)
			if err := w.any(all[name], strings.Join([]string{at, key, name}, "."), depth+1); err != nil {
				return err
			}
		}
	}
	for _, key := range []string{"anyOf", "allOf", "oneOf", "prefixItems"} {
		all, _ := schema[key].([]any)
		for i, one := range all {
			if err := w.any(one, fmt.Sprintf("%s.%s[%d]", at, key, i), depth); err != nil {
				return err
			}
		}
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if one, ok := schema[key].(map[string]any); ok {
			if err := w.walk(one, at+"."+key, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *walker) any(schema any, at string, depth int) error {
	object, ok := schema.(map[string]any)
	if !ok {
		return fmt.Errorf("%s: a schema must be an object", at)
	}
	return w.walk(object, at, depth)
}
