package nof

import (
	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/text"
)

// frontmatterShape declares the keys of the frontmatter.
var frontmatterShape = text.NewShape(
	text.Field{Name: "format", Required: true, Pattern: `^nof/1\.[0-9]+$`, Doc: "Always nof/1.0."},
	text.Field{Name: "name", Required: true, Doc: "Name of the workflow, as in the heading."},
	text.Field{Name: "description", Required: true, Doc: "What the workflow does, in one line."},
	text.Field{
		Name: "agents", Required: true, Form: text.Strings, Doc: "Keys of the agents, in execution order.",
		More: map[string]any{"minItems": 1, "uniqueItems": true},
	},
	text.Field{
		Name: "crews", Form: text.AMap, Doc: "Agents that run in parallel, by crew name.",
		More: map[string]any{"additionalProperties": map[string]any{
			"type": "array", "items": map[string]any{"type": "string"}, "description": "Keys of the members.",
		}},
	},
	text.Field{Name: "state_schema", Doc: "Name of the TypedDict in the section State Schema."},
	text.Field{
		Name: "routing", Choices: []string{sequential, hierarchical, dynamic},
		Doc: "Whether agents run in order, as the first one delegates, or by the routing rules.",
	},
	text.Field{
		Name: "cost_estimate", Doc: "Worst-case cost of a run, such as \"$0.00625\".",
		More: map[string]any{"type": []string{"string", "number"}},
	},
	text.Field{Name: "created", Doc: "Creation date."},
	text.Field{Name: "version", Doc: "Version of the workflow."},
	text.Field{Name: "tags", Form: text.Strings, Doc: "Search tags."},
)

// Schemas returns the JSON Schema of the frontmatter for editors.
func (Format) Schemas() []format.Schema {
	return []format.Schema{format.NewSchema("frontmatter", "NOF frontmatter", frontmatterShape.Schema())}
}
