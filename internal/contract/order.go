package contract

import (
	"encoding/json"
	"maps"
	"slices"
)

// firstKeywords are the keywords of a schema that come before the others.
var firstKeywords = []string{
	"$schema", "$id", "title", "description", "type", "enum", "const", "required", "properties", "items",
}

// Ordered returns a schema in the order in which people write one.
func Ordered(schema json.RawMessage) json.RawMessage { return appendSchema(nil, decode(schema)) }

// appendSchema appends a schema as JSON, ordered as people write one: the type first, and properties
// in the order in which they are required. Models tend to reply in that order.
func appendSchema(out []byte, v any) []byte {
	switch v := v.(type) {
	case []any:
		return appendList(out, '[', ']', len(v), func(out []byte, i int) []byte { return appendSchema(out, v[i]) })
	case map[string]any:
		return appendObject(out, v, firstKeywords, func(out []byte, keyword string) []byte {
			properties, ok := v[keyword].(map[string]any)
			if !ok || keyword != "properties" {
				return appendSchema(out, v[keyword])
			}
			var required []string
			for _, r := range anyList(v["required"]) {
				if name, ok := r.(string); ok {
					required = append(required, name)
				}
			}
			return appendObject(out, properties, required, func(out []byte, name string) []byte {
				return appendSchema(out, properties[name])
			})
		})
	}
	return append(out, encode(v)...)
}

// appendObject appends an object: the named keys first, then the others by name.
func appendObject(out []byte, object map[string]any, first []string, value func([]byte, string) []byte) []byte {
	keys := make([]string, 0, len(object))
	for _, name := range first {
		if _, ok := object[name]; ok && !slices.Contains(keys, name) {
			keys = append(keys, name)
		}
	}
	if len(keys) < len(object) {
		for _, name := range slices.Sorted(maps.Keys(object)) {
			if !slices.Contains(first, name) {
				keys = append(keys, name)
			}
		}
	}
	return appendList(out, '{', '}', len(keys), func(out []byte, i int) []byte {
		return value(append(append(out, encode(keys[i])...), ':'), keys[i])
	})
}

// appendList appends n items between brackets.
func appendList(out []byte, open, end byte, n int, item func([]byte, int) []byte) []byte {
	out = append(out, open)
	for i := range n {
		if i > 0 {
			out = append(out, ',')
		}
		out = item(out, i)
	}
	return append(out, end)
}
