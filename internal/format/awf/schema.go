package awf

import "github.com/espalier-run/espalier/internal/text"

// The keys of a file. Hidden keys are deprecated spellings, or have no effect. All shapes are open in
// the JSON Schema, because unknown keys are only warnings.
var (
	hookShape = text.NewShape(
		text.Field{Name: "log"},
		text.Field{Name: "command"},
		duration("timeout"),
	).Open()

	eventsShape = hooksShape(hookEvents...)
	aroundShape = hooksShape("pre", "post")

	validationShape = text.NewShape(
		text.Field{Name: "pattern"},
		text.Field{Name: "enum", Form: text.AList},
		text.Field{Name: "min", Form: text.AnInt},
		text.Field{Name: "max", Form: text.AnInt},
		text.Field{Name: "file_exists", Form: text.ABool},
		text.Field{Name: "file_extension", Form: text.Strings},
	).Open()

	inputShape = text.NewShape(
		text.Field{Name: "name", Required: true},
		text.Field{Name: "description"},
		text.Field{Name: "type", Choices: inputKinds},
		text.Field{Name: "required", Form: text.ABool},
		text.Field{Name: "default", Form: text.AnyForm},
		text.Field{Name: "validation", Form: text.Object, Shape: validationShape},
	).Open()

	outputShape = text.NewShape(
		text.Field{Name: "name", Required: true},
		text.Field{Name: "description"},
		text.Field{Name: "type"},
		text.Field{Name: "from"},
		text.Field{Name: "value"},
	).Open()

	failureShape = text.NewShape(
		text.Field{Name: "message", Required: true},
		text.Field{Name: "status", Form: text.AnInt},
	).Open()

	transitionShape = text.NewShape(
		text.Field{Name: "when"},
		text.Field{Name: "goto", Required: true},
	).Open()

	retryShape = text.NewShape(
		text.Field{Name: "max_attempts", Form: text.AnInt, More: map[string]any{"minimum": 1}},
		duration("initial_delay"),
		duration("max_delay"),
		text.Field{Name: "backoff", Choices: backoffs},
		text.Field{Name: "multiplier", Form: text.ANumber},
		text.Field{Name: "jitter", Form: text.ANumber, More: map[string]any{"minimum": 0, "maximum": 1}},
		text.Field{
			Name: "retryable_exit_codes", Form: text.AList,
			More: map[string]any{"items": map[string]any{"type": "integer"}},
		},
	).Open()

	callShape = text.NewShape(
		text.Field{Name: "workflow", Required: true},
		text.Field{Name: "inputs", Form: text.AMap},
		text.Field{Name: "outputs", Form: text.AMap},
		duration("timeout"),
	).Open()

	conversationShape = text.NewShape(
		text.Field{Name: "continue_from", Doc: "the state whose conversation continues"},
		text.Field{
			Name: "max_turns", Form: text.AnInt, More: map[string]any{"minimum": 1},
			Doc: "in the mode conversation: the turns after which it ends",
		},
		text.Field{Name: "stop_condition", Form: text.AnyForm, Hidden: true},
		text.Field{Name: "max_context_tokens", Form: text.AnyForm, Hidden: true},
		text.Field{Name: "strategy", Form: text.AnyForm, Hidden: true},
	).Open()

	skillShape = text.NewShape(text.Field{Name: "name"}, text.Field{Name: "path"}).Open()

	proxyShape = text.NewShape(
		text.Field{Name: "enable", Form: text.ABool},
		text.Field{Name: "intercept_builtins", Form: text.ABool, Hidden: true},
		text.Field{Name: "plugin_tools", Form: text.AnyForm, Hidden: true},
	).Open()

	stateShape = text.NewShape(
		text.Field{Name: "type", Choices: kinds},
		text.Field{Name: "description"},
		text.Field{
			Name: "timeout", Form: text.AnyForm, More: orString("integer"),
			Doc: "seconds, a duration such as 1m30s, or a template that gives one of them",
		},
		text.Field{Name: "on_success"},
		text.Field{
			Name: "on_failure", Form: text.AnyForm, Doc: "a state, or {message, status} to end there",
			More: map[string]any{"type": []string{"string", "object"}},
		},
		text.Field{Name: "transitions", Form: text.Objects, Shape: transitionShape},
		text.Field{Name: "continue_on_error", Form: text.ABool},
		text.Field{Name: "retry", Form: text.Object, Shape: retryShape},
		text.Field{Name: "hooks", Form: text.Object, Shape: aroundShape},
		text.Field{Name: "command"},
		text.Field{Name: "script_file"},
		text.Field{Name: "dir"},
		text.Field{Name: "shell"},
		text.Field{Name: "status", Choices: statuses},
		text.Field{Name: "message"},
		text.Field{Name: "parallel", Form: text.Strings},
		text.Field{Name: "strategy", Choices: strategies},
		text.Field{Name: "max_concurrent", Form: text.AnInt, More: map[string]any{"minimum": 0}},
		text.Field{Name: "items", Form: text.AnyForm, More: orString("array")},
		text.Field{Name: "while"},
		text.Field{Name: "body", Form: text.Strings},
		text.Field{Name: "break_when"},
		text.Field{Name: "max_iterations", Form: text.AnyForm, More: orString("integer")},
		text.Field{Name: "on_complete"},
		text.Field{Name: "operation"},
		text.Field{Name: "inputs", Form: text.AMap},
		text.Field{Name: "workflow"},
		text.Field{Name: "outputs", Form: text.AMap},
		text.Field{Name: "provider", More: map[string]any{"examples": providers}},
		text.Field{Name: "mode", Choices: agentModes},
		text.Field{Name: "prompt"},
		text.Field{Name: "prompt_file"},
		text.Field{Name: "system_prompt"},
		text.Field{Name: "role"},
		text.Field{Name: "skills", Form: text.AList},
		text.Field{Name: "output_format", Choices: outputFormats},
		text.Field{Name: "conversation", Form: text.Object, Shape: conversationShape},
		text.Field{Name: "options", Form: text.AMap},
		text.Field{Name: "mcp_proxy", Form: text.Object, Shape: proxyShape},
		text.Field{Name: "use_template"},
		text.Field{Name: "parameters", Form: text.AMap},

		text.Field{Name: "pre_hook", Form: text.AnyForm, Hidden: true},
		text.Field{Name: "post_hook", Form: text.AnyForm, Hidden: true},
		text.Field{Name: "capture", Form: text.AnyForm, Hidden: true},
		text.Field{Name: "depends_on", Form: text.AnyForm, Hidden: true},
		text.Field{Name: "operation_inputs", Form: text.AMap, Hidden: true},
		text.Field{Name: "steps", Form: text.AnyForm, Hidden: true},
		text.Field{Name: "until", Hidden: true},
		text.Field{Name: "call_workflow", Form: text.AMap, Hidden: true},
		text.Field{Name: "initial_prompt", Hidden: true},
	).Open()

	statesShape = text.NewShape(text.Field{Name: "initial", Required: true}).Open()

	workflowShape = text.NewShape(
		text.Field{Name: "name", Required: true},
		text.Field{Name: "version"},
		text.Field{Name: "description"},
		text.Field{Name: "author"},
		text.Field{Name: "tags", Form: text.Strings},
		text.Field{Name: "env", Form: text.Strings},
		text.Field{Name: "inputs", Form: text.Objects, Shape: inputShape},
		text.Field{Name: "outputs", Form: text.AnyForm, More: map[string]any{"type": []string{"array", "object"}}},
		text.Field{Name: "hooks", Form: text.Object, Shape: eventsShape},
		text.Field{Name: "states", Required: true, Form: text.Object, Shape: statesShape},
		text.Field{Name: "plugins", Form: text.AnyForm, Hidden: true},
		text.Field{Name: "initial", Hidden: true},
	).Open()
)

// duration declares a key whose value is seconds or a duration.
func duration(name string) text.Field {
	return text.Field{
		Name: name, Form: text.AnyForm, Doc: "seconds, or a duration such as 1m30s", More: orString("integer"),
	}
}

func orString(form string) map[string]any { return map[string]any{"type": []string{form, "string"}} }

// hooksShape declares keys with lists of hooks.
func hooksShape(names ...string) *text.Shape {
	var fields []text.Field
	for _, name := range names {
		fields = append(fields, text.Field{Name: name, Form: text.Objects, Shape: hookShape})
	}
	return text.NewShape(fields...).Open()
}

// workflowSchema returns the JSON Schema for editors.
func workflowSchema() map[string]any {
	schema := workflowShape.Schema()
	schema["$schema"], schema["title"] = "https://json-schema.org/draft/2020-12/schema", "AWF workflow"
	states := schema["properties"].(map[string]any)["states"].(map[string]any)
	states["additionalProperties"] = stateShape.Schema() // its other keys are names of states
	return schema
}
