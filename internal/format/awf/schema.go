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
		text.Field{Name: "log", Doc: "Template of a line to log."},
		text.Field{Name: "command", Doc: "Command to run."},
		duration("timeout"),
	).Open()

	eventsShape = hooksShape(hookEvents...)
	aroundShape = hooksShape("pre", "post")

	validationShape = text.NewShape(
		text.Field{Name: "pattern", Doc: "Regular expression that a string must match."},
		text.Field{Name: "enum", Doc: "Allowed values.", Form: text.AList},
		text.Field{Name: "min", Doc: "Minimum.", Form: text.AnInt},
		text.Field{Name: "max", Doc: "Maximum.", Form: text.AnInt},
		text.Field{
			Name: "file_exists", Form: text.ABool,
			Doc: "Whether the input must be the path of an existing file.",
		},
		text.Field{Name: "file_extension", Doc: "Allowed extensions of the file.", Form: text.Strings},
	).Open()

	inputShape = text.NewShape(
		text.Field{Name: "name", Doc: "Name of the input, as in {{.inputs.NAME}}.", Required: true},
		text.Field{Name: "description", Doc: "What the input is for."},
		text.Field{Name: "type", Doc: "Type of the value. Default: string.", Choices: inputKinds},
		text.Field{Name: "required", Doc: "Whether a run requires a value.", Form: text.ABool},
		text.Field{Name: "default", Doc: "Value if a run passes none.", Form: text.AnyForm},
		text.Field{Name: "validation", Doc: "Requirements for the value.", Form: text.Object, Shape: validationShape},
	).Open()

	outputShape = text.NewShape(
		text.Field{Name: "name", Doc: "Name of the output.", Required: true},
		text.Field{Name: "description", Doc: "What the output is."},
		text.Field{Name: "type", Doc: "Type of the value."},
		text.Field{Name: "from", Doc: "Template of the value."},
		text.Field{Name: "value", Doc: "Another name for from."},
	).Open()

	failureShape = text.NewShape(
		text.Field{Name: "message", Doc: "Template of the reason why the run failed.", Required: true},
		text.Field{Name: "status", Doc: "Exit code of the process. Default: 1.", Form: text.AnInt},
	).Open()

	transitionShape = text.NewShape(
		text.Field{Name: "when", Doc: "Condition. Without it, the transition always matches."},
		text.Field{Name: "goto", Doc: "Next state.", Required: true},
	).Open()

	retryShape = text.NewShape(
		text.Field{
			Name: "max_attempts", Form: text.AnInt, More: map[string]any{"minimum": 1},
			Doc: "Maximum number of attempts, including the first.",
		},
		duration("initial_delay"),
		duration("max_delay"),
		text.Field{Name: "backoff", Doc: "How the delay grows.", Choices: backoffs},
		text.Field{Name: "multiplier", Doc: "Factor of an exponential delay. Default: 2.", Form: text.ANumber},
		text.Field{
			Name: "jitter", Form: text.ANumber, More: map[string]any{"minimum": 0, "maximum": 1},
			Doc: "Random variation of delays, from 0 to 1.",
		},
		text.Field{
			Name: "retryable_exit_codes",
			Doc:  "Exit codes after which a command is retried. Default: all except 0.",
			Form: text.AList,
			More: map[string]any{"items": map[string]any{"type": "integer"}},
		},
	).Open()

	callShape = text.NewShape(
		text.Field{Name: "workflow", Doc: "Workflow to call.", Required: true},
		text.Field{Name: "inputs", Doc: "Inputs of the called workflow.", Form: text.AMap},
		text.Field{
			Name: "outputs", Form: text.AMap,
			Doc: "Renames outputs of the called workflow.",
		},
		duration("timeout"),
	).Open()

	conversationShape = text.NewShape(
		text.Field{Name: "continue_from", Doc: "State whose conversation continues."},
		text.Field{
			Name: "max_turns", Form: text.AnInt, More: map[string]any{"minimum": 1},
			Doc: "Maximum number of turns in conversation mode.",
		},
		text.Field{Name: "stop_condition", Form: text.AnyForm, Hidden: true},
		text.Field{Name: "max_context_tokens", Form: text.AnyForm, Hidden: true},
		text.Field{Name: "strategy", Form: text.AnyForm, Hidden: true},
	).Open()

	// readShape declares the options of an agent that Espalier reads itself.
	readShape = text.NewShape(
		text.Field{Name: "model", Doc: "Model of the provider."},
		text.Field{Name: "max_completion_tokens", Form: text.AnInt, Min: 1, Doc: "Maximum number of tokens per reply."},
		text.Field{Name: "max_tokens", Form: text.AnInt, Min: 1, Doc: "Used if max_completion_tokens is not set."},
		text.Field{Name: "system_prompt", Doc: "System prompt, if the state has none."},
		text.Field{
			Name: "allowed_tools", Form: text.OneOrStrings,
			Doc: "Tools that the program may use, as a list or separated by commas.",
		},
		text.Field{Name: "allowedTools", Form: text.OneOrStrings, Hidden: true},
		permission("dangerously_skip_permissions"),
		permission("yolo"),
		permission("full_auto"),
		permission("allow_all_tools"),
	)

	// serverShape declares the options of an OpenAI-compatible server, which have no effect with other providers.
	serverShape = text.NewShape(
		text.Field{Name: "base_url", Doc: "Address of the server, for openai_compatible."},
		text.Field{
			Name: "api_key",
			Doc:  "Key of the server, for openai_compatible: ${NAME} for an environment variable, or secret://NAME.",
		},
	)

	// samplingOptions are common options that are passed on to the provider.
	samplingOptions = []text.Field{
		{Name: "temperature", Form: text.ANumber, Doc: "How much the model varies its replies."},
		{Name: "top_p", Form: text.ANumber, Doc: "Probability mass of the most likely tokens to sample from."},
		{Name: "top_k", Form: text.AnInt, Doc: "Number of the most likely tokens to sample from."},
		{Name: "stop", Form: text.OneOrStrings, Doc: "Strings at which a reply ends."},
		{Name: "seed", Form: text.AnInt, Doc: "Seed for reproducible replies."},
		{Name: "presence_penalty", Form: text.ANumber, Doc: "Penalty for tokens that the reply already contains."},
		{Name: "frequency_penalty", Form: text.ANumber, Doc: "Penalty for each repetition of a token."},
		{Name: "stream", Form: text.ABool, Doc: "Whether the server streams its replies. Default: true."},
	}

	// optionsShape declares the known options of an agent. Providers have more.
	optionsShape = text.NewShape(slices.Concat(readShape.Fields, serverShape.Fields, samplingOptions)...).Open()

	skillShape = text.NewShape(text.Field{Name: "name", Doc: "Name of the skill."},
		text.Field{Name: "path", Doc: "Path of the skill's file."}).Open()

	proxyShape = text.NewShape(
		text.Field{
			Name: "enable", Form: text.ABool,
			Doc: "Whether the agent may call Read, Write, Edit, Bash, Glob and Grep.",
		},
		text.Field{Name: "intercept_builtins", Form: text.ABool, Hidden: true},
		text.Field{Name: "plugin_tools", Form: text.AnyForm, Hidden: true},
	).Open()

	stateShape = text.NewShape(
		text.Field{Name: "type", Doc: "What the state does.", Choices: kinds},
		text.Field{Name: "description", Doc: "What the state is for."},
		text.Field{
			Name: "timeout", Form: text.AnyForm, More: orString("integer"),
			Doc: "Seconds, a duration such as 1m30s, or a template that yields one of them.",
		},
		text.Field{Name: "on_success", Doc: "Next state after a success."},
		text.Field{
			Name: "on_failure", Form: text.AnyForm,
			Doc:  "Next state after a failure, or {message, status} to end the run.",
			More: map[string]any{"type": []string{"string", "object"}},
		},
		text.Field{
			Name: "transitions", Form: text.Objects, Shape: transitionShape,
			Doc: "Possible next states. The first one whose condition is true follows.",
		},
		text.Field{Name: "continue_on_error", Doc: "Whether a failure counts as a success.", Form: text.ABool},
		text.Field{
			Name: "retry", Form: text.Object, Shape: retryShape,
			Doc: "Retry policy.",
		},
		text.Field{
			Name: "hooks", Form: text.Object, Shape: aroundShape,
			Doc: "Commands and log lines before and after the step.",
		},
		text.Field{Name: "command", Doc: "Command to run. Values in it are data, not code."},
		text.Field{Name: "script_file", Doc: "Path of a file with the command."},
		text.Field{
			Name: "dir", Doc: "Working folder of the command. Default: the folder in which the run was started.",
		},
		text.Field{Name: "shell", Doc: "Program that runs the command."},
		text.Field{Name: "status", Doc: "How the run ends.", Choices: statuses},
		text.Field{Name: "message", Doc: "Template of the reason why the run failed."},
		text.Field{Name: "parallel", Doc: "States that run in parallel.", Form: text.Strings},
		text.Field{Name: "strategy", Doc: "When the parallel step succeeds.", Choices: strategies},
		text.Field{
			Name: "max_concurrent", Form: text.AnInt, More: map[string]any{"minimum": 0},
			Doc: "Maximum number of concurrent branches.",
		},
		text.Field{
			Name: "items", Form: text.AnyForm, More: orString("array"),
			Doc: "List of items, or a template that yields one.",
		},
		text.Field{Name: "while", Doc: "Condition of the loop."},
		text.Field{Name: "body", Doc: "States of the loop, in order.", Form: text.Strings},
		text.Field{Name: "break_when", Doc: "Condition. If true after an iteration, the loop ends."},
		text.Field{
			Name: "max_iterations", Form: text.AnyForm, More: orString("integer"),
			Doc: "Maximum number of iterations.",
		},
		text.Field{Name: "on_complete", Doc: "Next state after the loop."},
		text.Field{
			Name: "operation",
			Doc:  "Tool to call: a tool of AWF, or of espalier.yaml, which can require an approval.",
		},
		text.Field{Name: "inputs", Doc: "Inputs of the operation or of the called workflow.", Form: text.AMap},
		text.Field{Name: "workflow", Doc: "Workflow to call."},
		text.Field{
			Name: "outputs", Form: text.AMap,
			Doc: "Renames outputs of the called workflow.",
		},
		text.Field{Name: "provider", Doc: "Provider that runs the agent.", More: map[string]any{"examples": providers}},
		text.Field{Name: "mode", Doc: "One reply, or a conversation with a person.", Choices: agentModes},
		text.Field{Name: "prompt", Doc: "Prompt of the agent, as a template."},
		text.Field{Name: "prompt_file", Doc: "Path of a file with the prompt."},
		text.Field{Name: "system_prompt", Doc: "System prompt."},
		text.Field{Name: "role", Doc: "Name of a role, whose text precedes the system prompt."},
		text.Field{Name: "skills", Doc: "Skills of the agent: names, or {path}.", Form: text.AList},
		text.Field{
			Name: "output_format", Choices: outputFormats,
			Doc: "Format of the reply. json requires a reply in JSON.",
		},
		text.Field{
			Name: "conversation", Form: text.Object, Shape: conversationShape,
			Doc: "Conversation that the agent continues or provides to other states.",
		},
		text.Field{
			Name: "options", Form: text.Object, Shape: optionsShape,
			Doc: "Settings of the provider, such as model and max_tokens.",
		},
		text.Field{Name: "mcp_proxy", Doc: "Tools that every model may call.", Form: text.Object, Shape: proxyShape},
		text.Field{Name: "use_template", Doc: "Name of a template in .awf/templates."},
		text.Field{Name: "parameters", Doc: "Parameters of the template.", Form: text.AMap},

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

	statesShape = text.NewShape(text.Field{Name: "initial", Doc: "First state.", Required: true}).Open()

	workflowShape = text.NewShape(
		text.Field{Name: "name", Doc: "Name of the workflow.", Required: true},
		text.Field{Name: "version", Doc: "Version of the workflow."},
		text.Field{Name: "description", Doc: "What the workflow does."},
		text.Field{Name: "author", Doc: "Author of the workflow."},
		text.Field{Name: "tags", Doc: "Keywords for finding the workflow.", Form: text.Strings},
		text.Field{Name: "env", Doc: "Environment variables that the commands need.", Form: text.Strings},
		text.Field{Name: "inputs", Doc: "Inputs of a run.", Form: text.Objects, Shape: inputShape},
		text.Field{
			Name: "outputs", Form: text.AnyForm, More: map[string]any{"type": []string{"array", "object"}},
			Doc: "Outputs of a run.",
		},
		text.Field{
			Name: "hooks", Form: text.Object, Shape: eventsShape,
			Doc: "Commands and log lines at the start and the end of a run.",
		},
		text.Field{
			Name: "states", Required: true, Form: text.Object, Shape: statesShape,
			Doc: `States by their names. "initial" is the name of the first one.`,
		},
		text.Field{Name: "plugins", Form: text.AnyForm, Hidden: true},
		text.Field{Name: "initial", Hidden: true},
	).Open()
)

// duration declares a key whose value is seconds or a duration.
func duration(name string) text.Field {
	return text.Field{
		Name: name, Form: text.AnyForm, Doc: "Seconds, or a duration such as 1m30s.", More: orString("integer"),
	}
}

// permission declares an option that permits a CLI program all tools.
func permission(name string) text.Field {
	return text.Field{
		Name: name, Form: text.ABool, Doc: "Whether the program may use Read, Write, Edit, Bash, Glob and Grep.",
	}
}

// orString returns the schema of a value that may also be a text.
func orString(form string) map[string]any { return map[string]any{"type": []string{form, "string"}} }

// hooksShape declares keys with lists of hooks.
func hooksShape(names ...string) *text.Shape {
	var fields []text.Field
	for _, name := range names {
		fields = append(fields, text.Field{
			Name: name, Form: text.Objects, Shape: hookShape, Doc: "Commands and log lines, in order.",
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
