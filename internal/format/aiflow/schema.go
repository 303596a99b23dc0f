package aiflow

import (
	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/text"
	"github.com/espalier-run/espalier/internal/xslices"
)

// The values that some keys allow.
var (
	outputFormats = []string{"json", "text", "markdown"}
	errorClasses  = []string{"transient", "hard", "unknown", "timeout", "rate_limit", "network"}
	// samplingKeys are the settings of a model that are passed on to its provider.
	samplingKeys = []string{
		"temperature", "top_p", "top_k", "stop", "seed", "presence_penalty", "frequency_penalty",
	}
)

// The keys of a file. Hidden keys have no effect: editors write them. All shapes are open in the JSON
// Schema, because unknown keys are only warnings.
var (
	metadataShape = text.NewShape(append([]text.Field{
		{Name: "name", Doc: "Name of the flow."},
		{Name: "version", Pattern: `^[0-9]+\.[0-9]+\.[0-9]+`, Doc: "MAJOR.MINOR.PATCH."},
		{Name: "description"},
		{Name: "created", Doc: "ISO 8601."},
		{Name: "modified", Doc: "ISO 8601."},
		{Name: "creator"},
	}, hidden("author", "tags", "license")...)...).Open()

	handlingShape = text.NewShape(
		text.Field{
			Name: "retry", Form: text.AnInt, More: atLeast(0), Doc: "Number of retries of a failed agent.",
		},
		text.Field{Name: "fallback_agent", Doc: "The agent that runs after another one failed."},
	).Open()

	flowShape = text.NewShape(append([]text.Field{
		{Name: "start", Doc: "The starting agent."},
		{Name: "entry_agent", Doc: "The starting agent, in exports of the editor."},
		{Name: "variables", Form: text.AMap, Doc: "Initial values of the context."},
		{
			Name: "max_steps", Form: text.AnInt, More: atLeast(1),
			Doc: "Maximum number of steps of a run. Default: 50.",
		},
		{Name: "error_handling", Form: text.Object, Shape: handlingShape},
		{Name: "logic", Form: text.AnyForm, More: reference("logic")},
	}, hidden("agents", "schema_version", "__generator", "name", "description", "id")...)...).Open()

	modelShape = text.NewShape(append([]text.Field{
		{Name: "provider"},
		{Name: "name"},
	}, settings()...)...).Open()

	configShape = text.NewShape(settings()...).Open()

	policyShape = text.NewShape(
		text.Field{Name: "maxAttempts", Form: text.AnInt, More: atLeast(1)},
		text.Field{
			Name: "retryOn", Form: text.AList, More: map[string]any{"items": map[string]any{"enum": errorClasses}},
		},
	).Open()

	agentShape = text.NewShape(append([]text.Field{
		{Name: "id"},
		{Name: "name"},
		{Name: "role"},
		{Name: "provider", Doc: "openai, google, anthropic, or system for a tool step."},
		{Name: "model", Form: text.AnyForm, Shape: modelShape, More: map[string]any{"anyOf": []any{
			map[string]any{"type": "string"}, map[string]any{"$ref": "#/$defs/model"},
		}}},
		{Name: "prompt", Doc: "A key of prompts, a file, or the text itself."},
		{Name: "instructions"},
		{Name: "config", Form: text.Object, Shape: configShape},
		{Name: "output_format", Choices: outputFormats},
		{Name: "tools", Form: text.Strings},
		{Name: "retryPolicy", Form: text.Object, Shape: policyShape},
	}, hidden(
		"memory", "executionStatus", "description", "position", "x", "y", "icon", "color", "type", "label",
	)...)...).Open()

	ruleShape = text.NewShape(append([]text.Field{
		{Name: "id"},
		{Name: "from"},
		{Name: "to", Doc: "An agent, or end."},
		{Name: "then", Doc: "An agent, or end."},
		{Name: "condition"},
		{Name: "if"},
		{Name: "description"},
		{Name: "decisionOwner", Doc: "human: a person must approve."},
	}, hidden("label", "name", "priority", "type", "animated", "sourceHandle", "targetHandle")...)...).Open()

	authShape = text.NewShape(append([]text.Field{
		{Name: "type"},
		{Name: "key"},
		{Name: "header_key"},
		{Name: "token"},
	}, hidden("scopes", "client_id")...)...).Open()

	toolShape = text.NewShape(append([]text.Field{
		{Name: "id"},
		{Name: "name"},
		{Name: "type", Choices: []string{"http", "builtin", "mcp", "project"}},
		{Name: "endpoint"},
		{Name: "url"},
		{Name: "base_url", Doc: "Address that a relative endpoint belongs to."},
		{Name: "method"},
		{Name: "headers", Form: text.AMap},
		{Name: "auth", Form: text.AnyForm, Shape: authShape},
		{Name: "operation", Doc: "Operation of a built-in tool."},
		{Name: "function", Doc: "Another name for operation."},
		{Name: "server", Doc: "MCP server of espalier.yaml, for the type mcp."},
		{Name: "tool", Doc: "Name of the server's tool. Default: the name of this tool."},
		{Name: "description"},
		{Name: "schema", Form: text.AMap},
	}, hidden("category", "icon", "enabled", "parameters", "version")...)...).Open()

	memoryShape = text.NewShape(append([]text.Field{
		{Name: "enabled", Form: text.ABool, Doc: "Whether agents have a persistent notebook."},
	}, hidden("store", "policy", "type")...)...).Open()

	fileShape = text.NewShape(append([]text.Field{
		{Name: "metadata", Form: text.Object, Shape: metadataShape},
		{Name: "flow", Required: true, Form: text.Object, Shape: flowShape},
		{Name: "logic", Form: text.AnyForm, More: reference("logic")},
		{Name: "agents", Required: true, Form: text.AnyForm, More: map[string]any{"anyOf": []any{
			map[string]any{"type": "object", "additionalProperties": reference("agent")},
			map[string]any{"type": "array", "items": map[string]any{"allOf": []any{
				reference("agent"), map[string]any{"required": []string{"id"}},
			}}},
		}}},
		{
			Name: "prompts", Form: text.AMap,
			Doc: "Texts that agents refer to. {{name}} is replaced by a value of the context.",
		},
		{Name: "tools", Form: text.AnyForm, More: mapOrList(reference("tool"))},
		{Name: "memory", Form: text.Object, Shape: memoryShape},
	}, hidden("schema_version", "version", "$schema")...)...).Open()
)

// hidden declares keys that are accepted and not offered to authors.
func hidden(names ...string) []text.Field {
	return xslices.Map(names, func(name string) text.Field {
		return text.Field{Name: name, Form: text.AnyForm, Hidden: true}
	})
}

// settings declares the settings of a model.
func settings() []text.Field {
	out := []text.Field{{Name: "max_tokens", Form: text.AnInt, More: atLeast(1)}}
	for _, name := range samplingKeys {
		form := text.ANumber
		if name == "stop" {
			form = text.AnyForm
		}
		out = append(out, text.Field{Name: name, Form: form})
	}
	return out
}

// atLeast returns the schema of a number with a minimum.
func atLeast(n int) map[string]any { return map[string]any{"minimum": n} }

// reference returns a reference to a definition of the schema.
func reference(name string) map[string]any { return map[string]any{"$ref": "#/$defs/" + name} }

// mapOrList returns the schema of entries under names or in a list.
func mapOrList(entry map[string]any) map[string]any {
	return map[string]any{"anyOf": []any{
		map[string]any{"type": "object", "additionalProperties": entry},
		map[string]any{"type": "array", "items": entry},
	}}
}

// Schemas returns the JSON Schema of files of all generations for editors.
func (Format) Schemas() []format.Schema {
	schema := fileShape.Schema()
	schema["description"] = "Agents, and rules that select the next agent. Accepts files of all three generations."
	rules := map[string]any{"type": "array", "items": reference("rule")}
	schema["$defs"] = map[string]any{
		"agent": agentShape.Schema(), "model": modelShape.Schema(), "rule": ruleShape.Schema(),
		"tool": toolShape.Schema(),
		"logic": map[string]any{"anyOf": []any{
			map[string]any{"type": "object", "additionalProperties": rules}, rules,
		}},
	}
	return []format.Schema{format.NewSchema("aiflow", "AIFLOW file", schema)}
}
