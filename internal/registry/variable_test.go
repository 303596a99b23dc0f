package registry_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/registry"
)

// A new value of a variable has to fit what the program declares about it. What it is not about may be missing.
func TestEditedValuesFitTheirSchemas(t *testing.T) {
	p := &ir.Program{
		Vars: []ir.Var{{Path: "state.limit", Schema: json.RawMessage(`{"type": "integer"}`)}, {Path: "state.free"}},
		Output: &ir.Contract{Schema: json.RawMessage(`{
			"type": "object", "required": ["card", "published"], "properties": {
				"card": {"type": "string"}, "list": {"type": "array", "items": {"$ref": "#/$defs/entry"}},
				"published": {"type": "object", "properties": {"url": {"type": "string"}}}
			}, "$defs": {"entry": {"type": "integer"}}
		}`)},
	}
	for _, c := range []struct{ path, value, want string }{
		{"state.limit", `3`, ""},
		{"state.limit", `"3"`, "the new value of state.limit does not match its schema: must be an integer, not a string"},
		{"state.free", `"3"`, ""},
		{"state.other", `3`, ""},
		{"output", `{"note": 1}`, ""},
		{"output.card", `"text"`, ""},
		{"output.card", `5`, "card: must be a string, not a number"},
		{"output.published", `{}`, ""},
		{"output.published.url", `5`, "published.url: must be a string, not a number"},
		{"output.list", `[1, "x"]`, "list[1]: must be an integer, not a string"},
		{"output.list", `[1]`, ""},
	} {
		err := registry.CheckVariable(p, c.path, json.RawMessage(c.value))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s=%s: %v, want %q", c.path, c.value, err, c.want)
		}
	}
}
