package awf

import (
	"slices"

	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/text"
)

// The keys of a file. Hidden keys are deprecated spellings, or have no effect. All shapes are open in
// the JSON Schema, because unknown keys are only warnings.
var (
	hookShape = text.NewShape(
		text.Field{Name: "log", Doc: "a template that is logged"},
		text.Field{Name: "command", Doc: "a command that runs"},
		duration("timeout"),
	).Open()

	eventsShape = hooksShape(hookEvents...)
	aroundShape = hooksShape("pre", "post")

	validationShape = text.NewShape(
		text.Field{Name: "pattern", Doc: "a regular expression that a text must match"},
		text.Field{Name: "enum", Doc: "the values that are allowed", Form: text.AList},
		text.Field{Name: "min", Doc: "the least integer", Form: text.AnInt},
		text.Field{Name: "max", Doc: "the greatest integer", Form: text.AnInt},
		text.Field{Name: "file_exists", Doc: "whether the input must be the path of a file", Form: text.ABool},
		text.Field{Name: "file_extension", Doc: "the extensions that the file may have", Form: text.Strings},
	).Open()

	inputShape = text.NewShape(
		text.Field{Name: "name", Doc: "the name in {{.inputs.NAME}}", Required: true},
		text.Field{Name: "description", Doc: "what the input is for"},
		text.Field{Name: "type", Doc: "the type of the value; string if not set", Choices: inputKinds},
		text.Field{Name: "required", Doc: "whether a run needs a value", Form: text.ABool},
		text.Field{Name: "default", Doc: "the value of a run that has none", Form: text.AnyForm},
		text.Field{Name: "validation", Doc: "what the value must be", Form: text.Object, Shape: validationShape},
	).Open()

	outputShape = text.NewShape(
		text.Field{Name: "name", Doc: "the name of the output", Required: true},
		text.Field{Name: "description", Doc: "what the output is"},
		text.Field{Name: "type", Doc: "the type of the value"},
		text.Field{Name: "from", Doc: "a template that gives the value"},
		text.Field{Name: "value", Doc: "another word for from"},
	).Open()

	failureShape = text.NewShape(
		text.Field{Name: "message", Doc: "a template: why the run failed", Required: true},
		text.Field{Name: "status", Doc: "the exit code of the process; 1 if not set", Form: text.AnInt},
	).Open()

	transitionShape = text.NewShape(
		text.Field{Name: "when", Doc: "a condition; always if not set"},
		text.Field{Name: "goto", Doc: "the state that follows", Required: true},
	).Open()

	retryShape = text.NewShape(
		text.Field{
			Name: "max_attempts", Form: text.AnInt, More: map[string]any{"minimum": 1},
			Doc: "how often the step is tried in all",
		},
		duration("initial_delay"),
		duration("max_delay"),
		text.Field{Name: "backoff", Doc: "how the delay grows", Choices: backoffs},
		text.Field{Name: "multiplier", Doc: "by which an exponential delay grows; 2 if not set", Form: text.ANumber},
		text.Field{
			Name: "jitter", Form: text.ANumber, More: map[string]any{"minimum": 0, "maximum": 1},
			Doc: "the share by which delays vary at random, from 0 to 1",
		},
		text.Field{
			Name: "retryable_exit_codes",
			Doc:  "the exit codes after which a command is tried again; any but 0 if not set",
			Form: text.AList,
			More: map[string]any{"items": map[string]any{"type": "integer"}},
		},
	).Open()

	callShape = text.NewShape(
		text.Field{Name: "workflow", Doc: "the workflow to call", Required: true},
		text.Field{Name: "inputs", Doc: "the inputs of the workflow", Form: text.AMap},
		text.Field{
			Name: "outputs", Form: text.AMap,
			Doc: "the outputs of the workflow by the names that they get here",
		},
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

	// readShape declares the options of an agent that Espalier reads itself.
	readShape = text.NewShape(
		text.Field{Name: "model", Doc: "the model of the provider"},
		text.Field{Name: "max_completion_tokens", Form: text.AnInt, Min: 1, Doc: "the token limit of a reply"},
		text.Field{Name: "max_tokens", Form: text.AnInt, Min: 1, Doc: "the same, if max_completion_tokens is not set"},
		text.Field{Name: "system_prompt", Doc: "the system prompt, if the state has none"},
		text.Field{
			Name: "allowed_tools", Form: text.OneOrStrings,
			Doc: "the tools that the program may use, as a list or separated by commas",
		},
		text.Field{Name: "allowedTools", Form: text.OneOrStrings, Hidden: true},
		permission("dangerously_skip_permissions"),
		permission("yolo"),
		permission("full_auto"),
		permission("allow_all_tools"),
	)

	// serverShape declares the options of an OpenAI-compatible server, which have no effect with other providers.
	serverShape = text.NewShape(
		text.Field{Name: "base_url", Doc: "the address of the server, for openai_compatible"},
		text.Field{
			Name: "api_key",
			Doc:  "the key of the server, for openai_compatible: ${NAME}, an environment variable, or secret://NAME",
		},
	)

	// samplingOptions are common options that are passed on to the provider.
	samplingOptions = []text.Field{
		{Name: "temperature", Form: text.ANumber, Doc: "how much the model varies its replies"},
		{Name: "top_p", Form: text.ANumber, Doc: "the share of the most likely tokens to choose from"},
		{Name: "top_k", Form: text.AnInt, Doc: "the number of the most likely tokens to choose from"},
		{Name: "stop", Form: text.OneOrStrings, Doc: "texts at which a reply ends"},
		{Name: "seed", Form: text.AnInt, Doc: "a number with which the model chooses tokens reproducibly"},
		{Name: "presence_penalty", Form: text.ANumber, Doc: "the penalty for tokens that the reply already has"},
		{Name: "frequency_penalty", Form: text.ANumber, Doc: "the penalty for each repetition of a token"},
		{Name: "stream", Form: text.ABool, Doc: "whether the server streams its replies; true if not set"},
	}

	// optionsShape declares the known options of an agent. Providers have more.
	optionsShape = text.NewShape(slices.Concat(readShape.Fields, serverShape.Fields, samplingOptions)...).Open()

	skillShape = text.NewShape(text.Field{Name: "name", Doc: "the name of the skill"},
		text.Field{Name: "path", Doc: "the path of its file"}).Open()

	proxyShape = text.NewShape(
		text.Field{
			Name: "enable", Form: text.ABool,
			Doc: "whether the agent can call Read, Write, Edit, Bash, Glob and Grep",
		},
		text.Field{Name: "intercept_builtins", Form: text.ABool, Hidden: true},
		text.Field{Name: "plugin_tools", Form: text.AnyForm, Hidden: true},
	).Open()

	stateShape = text.NewShape(
		text.Field{Name: "type", Doc: "what the state does", Choices: kinds},
		text.Field{Name: "description", Doc: "what the state is for"},
		text.Field{
			Name: "timeout", Form: text.AnyForm, More: orString("integer"),
			Doc: "seconds, a duration such as 1m30s, or a template that gives one of them",
		},
		text.Field{Name: "on_success", Doc: "the state after a success"},
		text.Field{
			Name: "on_failure", Form: text.AnyForm, Doc: "a state, or {message, status} to end there",
			More: map[string]any{"type": []string{"string", "object"}},
		},
		text.Field{
			Name: "transitions", Form: text.Objects, Shape: transitionShape,
			Doc: "the states that follow, the first whose condition is true",
		},
		text.Field{Name: "continue_on_error", Doc: "whether a failure counts as a success", Form: text.ABool},
		text.Field{
			Name: "retry", Form: text.Object, Shape: retryShape,
			Doc: "whether and when a failed step is tried again",
		},
		text.Field{Name: "hooks", Doc: "what runs before and after the step", Form: text.Object, Shape: aroundShape},
		text.Field{Name: "command", Doc: "the command; values in it are data"},
		text.Field{Name: "script_file", Doc: "a file with the command"},
		text.Field{Name: "dir", Doc: "the folder of the command; the folder in which the run was started if not set"},
		text.Field{Name: "shell", Doc: "the program that runs the command"},
		text.Field{Name: "status", Doc: "how the run ends", Choices: statuses},
		text.Field{Name: "message", Doc: "a template: why the run failed"},
		text.Field{Name: "parallel", Doc: "the states that run at the same time", Form: text.Strings},
		text.Field{Name: "strategy", Doc: "when the parallel step succeeds", Choices: strategies},
		text.Field{
			Name: "max_concurrent", Form: text.AnInt, More: map[string]any{"minimum": 0},
			Doc: "how many branches run at a time",
		},
		text.Field{
			Name: "items", Form: text.AnyForm, More: orString("array"),
			Doc: "a list, or a template that gives one",
		},
		text.Field{Name: "while", Doc: "the condition of the loop"},
		text.Field{Name: "body", Doc: "the states of the loop, in order", Form: text.Strings},
		text.Field{Name: "break_when", Doc: "the condition that ends the loop after an iteration"},
		text.Field{
			Name: "max_iterations", Form: text.AnyForm, More: orString("integer"),
			Doc: "how often the loop runs at most",
		},
		text.Field{Name: "on_complete", Doc: "the state after the loop"},
		text.Field{
			Name: "operation",
			Doc:  "the tool to call: one of AWF, or of espalier.yaml, which can require an approval",
		},
		text.Field{Name: "inputs", Doc: "the inputs of the operation or the called workflow", Form: text.AMap},
		text.Field{Name: "workflow", Doc: "the workflow to call"},
		text.Field{
			Name: "outputs", Form: text.AMap,
			Doc: "the outputs of the called workflow by the names that they get here",
		},
		text.Field{Name: "provider", Doc: "what runs the agent", More: map[string]any{"examples": providers}},
		text.Field{Name: "mode", Doc: "one reply, or a conversation with a person", Choices: agentModes},
		text.Field{Name: "prompt", Doc: "the prompt of the agent, a template"},
		text.Field{Name: "prompt_file", Doc: "a file with the prompt"},
		text.Field{Name: "system_prompt", Doc: "the system prompt"},
		text.Field{Name: "role", Doc: "the name of a role, whose text comes before the system prompt"},
		text.Field{Name: "skills", Doc: "the skills of the agent: names, or {path}", Form: text.AList},
		text.Field{Name: "output_format", Doc: "json requires a reply in JSON", Choices: outputFormats},
		text.Field{
			Name: "conversation", Form: text.Object, Shape: conversationShape,
			Doc: "that the agent continues, or keeps for others",
		},
		text.Field{
			Name: "options", Form: text.Object, Shape: optionsShape,
			Doc: "settings of the provider, such as model and max_tokens",
		},
		text.Field{Name: "mcp_proxy", Doc: "the tools that every model can call", Form: text.Object, Shape: proxyShape},
		text.Field{Name: "use_template", Doc: "a template in .awf/templates"},
		text.Field{Name: "parameters", Doc: "the parameters of the template", Form: text.AMap},

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

	statesShape = text.NewShape(text.Field{Name: "initial", Doc: "the first state", Required: true}).Open()

	workflowShape = text.NewShape(
		text.Field{Name: "name", Doc: "the name of the workflow", Required: true},
		text.Field{Name: "version", Doc: "the version of the workflow"},
		text.Field{Name: "description", Doc: "what the workflow does"},
		text.Field{Name: "author", Doc: "who wrote the workflow"},
		text.Field{Name: "tags", Doc: "words to find the workflow by", Form: text.Strings},
		text.Field{Name: "env", Doc: "the environment variables that the commands need", Form: text.Strings},
		text.Field{Name: "inputs", Doc: "the inputs of a run", Form: text.Objects, Shape: inputShape},
		text.Field{
			Name: "outputs", Form: text.AnyForm, More: map[string]any{"type": []string{"array", "object"}},
			Doc: "what a run returns",
		},
		text.Field{
			Name: "hooks", Form: text.Object, Shape: eventsShape,
			Doc: "what runs at the start and the end of a run",
		},
		text.Field{
			Name: "states", Required: true, Form: text.Object, Shape: statesShape,
			Doc: `the states by their names; "initial" is the first one`,
		},
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

// permission declares an option that permits a CLI program all tools.
func permission(name string) text.Field {
	return text.Field{
		Name: name, Form: text.ABool, Doc: "whether the program may use Read, Write, Edit, Bash, Glob and Grep",
	}
}

// orString returns the schema of a value that may also be a text.
func orString(form string) map[string]any { return map[string]any{"type": []string{form, "string"}} }

// hooksShape declares keys with lists of hooks.
func hooksShape(names ...string) *text.Shape {
	var fields []text.Field
	for _, name := range names {
		fields = append(fields, text.Field{
			Name: name, Form: text.Objects, Shape: hookShape, Doc: "commands and log lines, in order",
		})
	}
	return text.NewShape(fields...).Open()
}

// Schemas returns the JSON Schema of a workflow file for editors.
func (Format) Schemas() []format.Schema {
	schema := workflowShape.Schema()
	states := schema["properties"].(map[string]any)["states"].(map[string]any)
	states["additionalProperties"] = stateShape.Schema() // its other keys are names of states
	return []format.Schema{format.NewSchema("workflow", "AWF workflow", schema)}
}
