package contract

import (
	"encoding/json"
	"maps"
	"slices"
)

// inOrder makes a schema that is written as people write one: the type first,
// and properties in the order in which they are required. Models tend to reply
// in that order.
func inOrder(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = inOrder(v[i])
		}
		return out
	case map[string]any:
		out := ordered{}
		for _, name := range keysFirst(v, "$schema", "$id", "title", "description", "type", "enum", "const", "required", "properties", "items") {
			one := v[name]
			if properties, ok := one.(map[string]any); ok && name == "properties" {
				var required []string
				for _, r := range anyList(v["required"]) {
					if text, ok := r.(string); ok {
						required = append(required, text)
					}
				}
				inner := ordered{}
				for _, key := range keysFirst(properties, required...) {
					inner = append(inner, entry{key, inOrder(properties[key])})
				}
				one = inner
			} else {
				one = inOrder(one)
			}
			out = append(out, entry{name, one})
		}
		return out
	}
	return v
}

// keysFirst are the keys of an object: those named, then the others by name.
func keysFirst(object map[string]any, first ...string) []string {
	var out []string
	for _, name := range slices.Concat(first, slices.Sorted(maps.Keys(object))) {
		if _, there := object[name]; there && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// ordered is a JSON object whose keys keep their order.
type ordered []entry

type entry struct {
	name  string
	value any
}

// MarshalJSON writes the entries in their order.
func (o ordered) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, e := range o {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, encode(e.name)...), ':'), encode(e.value)...)
	}
	return append(out, '}'), nil
}

var _ json.Marshaler = ordered{}
