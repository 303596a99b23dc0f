package check

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/schema"
	"github.com/espalier-run/espalier/internal/source"
)

// keywords are the keywords of JSON Schema draft 2020-12, and some of other drafts that are still common.
var keywords = []string{
	"$anchor", "$comment", "$defs", "$dynamicAnchor", "$dynamicRef", "$id", "$ref", "$schema", "$vocabulary",
	"additionalProperties", "allOf", "anyOf", "const", "contains", "contentEncoding", "contentMediaType",
	"contentSchema",
	"default", "definitions", "dependencies", "dependentRequired", "dependentSchemas", "deprecated", "description",
	"else", "enum",
	"example", "examples", "exclusiveMaximum", "exclusiveMinimum", "format", "if", "items", "maxContains", "maxItems",
	"maxLength",
	"maxProperties", "maximum", "minContains", "minItems", "minLength", "minProperties", "minimum", "multipleOf", "not",
	"oneOf",
	"pattern", "patternProperties", "prefixItems", "properties", "propertyNames", "readOnly", "required", "then",
	"title", "type",
	"unevaluatedItems", "unevaluatedProperties", "uniqueItems", "writeOnly",
}

// lintSchema reports mistakes that a JSON Schema allows: misspelled keywords, required properties that are not
// declared, and defaults that the schema itself rejects.
func (c *checker) lintSchema(contract *ir.Contract, doc any, of string) {
	eachSchema(doc, nil, func(s shape, path []string) {
		at := func(more ...string) source.Span { return contract.At(pointerTo(slices.Concat(path, more)...)) }
		for keyword := range s {
			if slices.Contains(keywords, keyword) {
				continue
			}
			if near := diag.Nearest(keyword, keywords); len(near) > 3 { // "note" is not a misspelled "not"
				c.add(CodeDoubtfulSchema, diag.Warning, at(keyword), fmt.Sprintf("Did you mean %q?", near),
					"JSON Schema has no keyword %q, so it does nothing in the schema of %s.", keyword, of).
					Replace(keyword, near)
			}
		}
		declared := s.properties()
		for i, name := range s.required() {
			if _, ok := declared[name]; ok || len(declared) == 0 || s.open() {
				continue
			}
			c.add(CodeDoubtfulSchema, diag.Warning, at("required", strconv.Itoa(i)),
				fmt.Sprintf("Add %q to the properties, or remove it from the required list.", name),
				"The schema of %s requires %q, which its properties do not have.", of, name).
				SuggestNear(name, slices.Collect(maps.Keys(declared)))
		}
		if value, ok := s["default"]; ok {
			if why := s.refuses(value); why != "" {
				c.add(CodeDoubtfulSchema, diag.Warning, at("default"),
					"Choose a default that the schema allows, or change the schema.",
					"This default does not match its own schema: %s.", why)
			}
		}
	})
}

// refuses returns why a value does not match the type, the list of values, the bounds or the pattern of a schema; "" if
// it matches.
func (s shape) refuses(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		return ""
	}
	if values, ok := s["enum"].([]any); ok && !slices.ContainsFunc(values,
		func(v any) bool { return reflect.DeepEqual(v, value) }) {
		return fmt.Sprintf("%s is not in its enum", raw)
	}
	var types []string
	switch t := s["type"].(type) {
	case string:
		types = []string{t}
	case []any:
		for _, one := range t {
			if name, ok := one.(string); ok {
				types = append(types, name)
			}
		}
	}
	if len(types) > 0 && !slices.ContainsFunc(types, func(t string) bool { return isOfType(value, t) }) {
		return fmt.Sprintf("%s is not of type %s", raw, strings.Join(types, " or "))
	}
	switch v := value.(type) {
	case float64:
		if least, ok := s["minimum"].(float64); ok && v < least {
			return fmt.Sprintf("%s is below its minimum, %s", raw, strconv.FormatFloat(least, 'f', -1, 64))
		}
		if most, ok := s["maximum"].(float64); ok && v > most {
			return fmt.Sprintf("%s is above its maximum, %s", raw, strconv.FormatFloat(most, 'f', -1, 64))
		}
	case string:
		if form, ok := s["pattern"].(string); ok {
			if re, err := regexp.Compile(form); err == nil && !re.MatchString(v) {
				return fmt.Sprintf("%s does not match its pattern, %s", raw, form)
			}
		}
	}
	return ""
}

// isOfType reports whether a value has the type that a schema calls name.
func isOfType(value any, name string) bool {
	switch v := value.(type) {
	case nil:
		return name == "null"
	case bool:
		return name == "boolean"
	case string:
		return name == "string"
	case float64:
		return name == "number" || name == "integer" && v == math.Trunc(v)
	case []any:
		return name == "array"
	}
	return name == "object"
}

// eachSchema calls do for a schema and all schemas in it. The path is valid only until do returns.
func eachSchema(v any, path []string, do func(s shape, path []string)) {
	object, ok := v.(map[string]any)
	if !ok {
		return
	}
	do(object, path)
	for keyword := range object { // the order does not matter: diagnostics are sorted by position
		at := append(path, keyword)
		switch {
		case slices.Contains(schema.MapKeywords, keyword):
			inner, _ := object[keyword].(map[string]any)
			for name := range inner {
				eachSchema(inner[name], append(at, name), do)
			}
		case slices.Contains(schema.SchemaKeywords, keyword):
			eachSchema(object[keyword], at, do)
		case slices.Contains(schema.ListKeywords, keyword):
			inner, _ := object[keyword].([]any)
			for i := range inner {
				eachSchema(inner[i], append(at, strconv.Itoa(i)), do)
			}
		}
	}
}
