package nof

import "github.com/espalier-run/espalier/internal/format"

// Schemas returns the JSON Schema of the frontmatter for editors.
func (Format) Schemas() []format.Schema {
	list := func(what string) map[string]any {
		return map[string]any{"type": "array", "items": map[string]any{"type": "string"}, "description": what}
	}
	word := func(what string) map[string]any { return map[string]any{"type": "string", "description": what} }
	keys := map[string]any{
		"format": map[string]any{
			"type": "string", "pattern": `^nof/1\.[0-9]+$`,
			"description": "Always nof/1.0.",
		},
		"name":        word("Name of the workflow, as in the heading."),
		"description": word("What the workflow does, in one line."),
		"agents": map[string]any{
			"type": "array", "minItems": 1, "uniqueItems": true,
			"items": map[string]any{"type": "string"}, "description": "Keys of the agents, in execution order.",
		},
		"crews": map[string]any{
			"type": "object", "additionalProperties": list("Keys of the members."),
			"description": "Agents that run in parallel, by crew name.",
		},
		"state_schema": word("Name of the TypedDict in the section State Schema."),
		"routing": map[string]any{
			"enum":        []string{sequential, hierarchical, dynamic},
			"description": "Whether agents run in order, as the first one delegates, or by the routing rules.",
		},
		"cost_estimate": map[string]any{
			"type": []string{"string", "number"}, "description": "Worst-case cost of a run, such as \"$0.00625\".",
		},
		"created": word("Creation date."),
		"version": word("Version of the workflow."),
		"tags":    list("Search tags."),
	}
	return []format.Schema{{Block: "frontmatter", Schema: mustJSON(map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "NOF frontmatter", "type": "object",
		"required": []string{"format", "name", "description", "agents"}, "properties": keys,
		"additionalProperties": false,
	})}}
}
