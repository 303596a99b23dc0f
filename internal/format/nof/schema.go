package nof

import "github.com/espalier-run/espalier/internal/format"

// Schemas describes the frontmatter for editors.
func (Format) Schemas() []format.Schema {
	list := func(what string) map[string]any {
		return map[string]any{"type": "array", "items": map[string]any{"type": "string"}, "description": what}
	}
	word := func(what string) map[string]any { return map[string]any{"type": "string", "description": what} }
	keys := map[string]any{
		"format":       map[string]any{"type": "string", "pattern": `^nof/1\.[0-9]+$`, "description": "Always nof/1.0."},
		"name":         word("What people call the workflow; the heading repeats it."),
		"description":  word("One line about what it does."),
		"agents":       map[string]any{"type": "array", "minItems": 1, "uniqueItems": true, "items": map[string]any{"type": "string"}, "description": "Keys of the agents, in the order in which they run."},
		"crews":        map[string]any{"type": "object", "additionalProperties": list("Keys of the members."), "description": "Agents that work side by side, by the name of the crew."},
		"state_schema": word("The TypedDict in the section State Schema."),
		"routing":      map[string]any{"enum": []string{sequential, hierarchical, dynamic}, "description": "Whether agents run in their order, as the first one delegates, or as the rules say."},
		"cost_estimate": map[string]any{
			"type": []string{"string", "number"}, "description": "What a run costs at worst, such as \"$0.00625\".",
		},
		"created": word("The day it was written."),
		"version": word("Version of this workflow."),
		"tags":    list("Words to find it by."),
	}
	return []format.Schema{{Block: "frontmatter", Schema: mustJSON(map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "NOF frontmatter", "type": "object",
		"required": []string{"format", "name", "description", "agents"}, "properties": keys, "additionalProperties": false,
	})}}
}
