package agentflow

import (
	"slices"

	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/text"
	"github.com/espalier-run/espalier/internal/xslices"
)

// newShape declares the keys of one kind of block.
func newShape(what, doc string, fields []text.Field) *text.Shape {
	s := text.NewShape(fields...)
	s.What, s.Doc = what, doc
	return s
}

// Keywords of the JSON Schema that fields add.
var (
	orNumber     = map[string]any{"type": []string{"string", "number"}} // for versions such as 1.0
	positive     = map[string]any{"exclusiveMinimum": 0}
	stringValues = map[string]any{"additionalProperties": map[string]any{"type": "string"}, "minProperties": 1}
)

// The values that the specification and our decisions allow.
var (
	statuses       = []string{"draft", "active", "deprecated"}
	riskProfiles   = []string{"low", "medium", "high", "critical"}
	errorPolicies  = []string{"stop", "skip", "fallback", "retry"}
	gateMethods    = []string{"human_review", "automated", "critic_agent"}
	mergeMethods   = []string{"combine_by_type", "union", "vote", "send_to_critic"}
	conflictRules  = []string{"first_wins", "last_wins", "send_to_critic", "fail"}
	timeoutActions = []string{"stop", "notify_then_stop", "skip", "fallback"}
	errorClasses   = xslices.Map(retryClasses, func(c ir.Class) string { return string(c) })
	detectors      = []string{"email", "phone", "SSN", "credit_card"}
	recordIDs      = []string{"run_id", "trace_id", "step_id"}
)

// retryClasses are the classes of errors after which a step can be retried.
var retryClasses = []ir.Class{ir.ClassTimeout, ir.ClassAPI, ir.ClassRateLimit, ir.ClassTool, ir.ClassInvalid}

// stepType is one value of a step's `type`.
type stepType struct {
	name, doc string
	// needs are the required keys; one key of each group is enough.
	needs [][]string
}

// stepTypes are the types of steps in the order in which messages list them.
var stepTypes = []stepType{
	{"transform", "validate, reshape or compute data", [][]string{{"description"}}},
	{"skill", "run an agent, a skill or another workflow", [][]string{{"description"}}},
	{"tool", "call a tool", [][]string{{"description"}, {"tool", "code"}}},
	{"decision", "branch on the value of the first read", [][]string{{"description"}, {"branches"}, {"reads"}}},
	{"gate", "wait for approval by a person, an agent or a check", [][]string{{"description"}}},
	{"parallel", "fan out to the workers of a bundle", [][]string{{"description"}, {"bundle"}}},
	{"subagent_bundle", "another name for parallel", [][]string{{"description"}, {"bundle"}}},
	{"end", "end the workflow", nil},
}

var stepTypeNames = xslices.Map(stepTypes, func(t stepType) string { return t.name })

// findStepType returns the type with a name, or nil.
func findStepType(name string) *stepType {
	return xslices.FindPointer(stepTypes, func(one *stepType) bool { return one.name == name })
}

// Groups of step types, for the keys that only some of them use.
var (
	working  = []string{"transform", "skill", "tool", "gate", "parallel", "subagent_bundle"}
	writing  = append(slices.Clone(working), "end")
	bundling = []string{"parallel", "subagent_bundle"}
)

const workflowKind = "agent-flow/workflow"

// Keys with a list of names or a text, in several notations.
const (
	allowedTools = "allowed-tools"
	argumentHint = "argument-hint"
)

var frontmatterShape = newShape("frontmatter",
	"The frontmatter of an Agent Flow workflow or of a SKILL.md.",
	[]text.Field{
		{
			Name: "name", Required: true,
			Doc: "Identifier in lowercase with hyphens. For a skill, the name of its folder.",
		},
		{Name: "description", Required: true, Doc: "What the workflow does and when to use it."},
		{
			Name: "kind", Choices: []string{workflowKind},
			Doc: "Makes the file a workflow. Without it, the file is a plain skill.",
		},
		{Name: "version", Remark: true, More: orNumber, Doc: "Version of the workflow, such as 1.0.0."},
		{Name: "category", Remark: true, Doc: "Category of work, such as document-processing."},
		{Name: "icon", Remark: true, Doc: "An emoji or the name of one."},
		{Name: "status", Choices: statuses, Remark: true, Doc: "Lifecycle status of the workflow."},
		{Name: "owner", Remark: true, Doc: "The team or person responsible."},
		{Name: "extends", Doc: "Path of the base skill that the workflow wraps."},
		{Name: "risk_profile", Choices: riskProfiles, Doc: "Impact of a mistake."},
		{Name: "budgets", Form: text.Object, Shape: budgetsShape, Guards: true, Doc: "Hard limits of one run."},
		{Name: "triggers", Form: text.Object, Shape: triggersShape, Doc: "How and when runs start."},
		{Name: "tools", Form: text.Object, Shape: toolsShape, Guards: true, Doc: "Tool policy."},
		{Name: "input", Form: text.Object, Shape: contractShape, Doc: "Input contract of a run."},
		{Name: "output", Form: text.Object, Shape: contractShape, Doc: "Output contract of a run."},
		{
			Name: allowedTools, Form: text.OneOrStrings, Remark: true,
			Doc: "Tools that the skill may use, separated by spaces or commas, or as a list.",
		},
		{
			Name: "disable-model-invocation", Form: text.ABool, Remark: true,
			Doc: "The skill's text is the result. No model is called.",
		},
		{
			Name: "user-invocable", Form: text.ABool,
			Remark: true, Doc: "Whether people may start the skill by its name.",
		},
		{Name: "context", Choices: []string{"fork"}, Remark: true, Doc: "\"fork\" runs the skill in its own context."},
		{Name: "agent", Doc: "The agent that the skill is intended for."},
		{Name: "model", Doc: "The model to use. In a workflow, the default for agents."},
		{
			Name: argumentHint, Form: text.OneOrStrings, Remark: true,
			Doc: "Hint for the arguments after the skill's name.",
		},
		{
			Name: "hooks", Form: text.Object, Shape: hooksShape, Remark: true,
			Doc: "Commands before and after a run of the skill. They run only where commands are allowed.",
		},
		{Name: "license", Remark: true, Doc: "License of the skill."},
		{Name: "compatibility", Remark: true, Doc: "Environment requirements, in at most 500 characters."},
		{Name: "metadata", Form: text.AMap, Remark: true, Doc: "Other data, as a map of names to strings."},
	}).Open()

var budgetsShape = newShape("budgets", "Hard limits of one run.", []text.Field{
	{Name: "max_steps", Form: text.AnInt, Min: 1, Doc: "Maximum number of step executions."},
	{Name: "max_tool_calls", Form: text.AnInt, Min: 1, Doc: "Maximum number of tool calls."},
	{Name: "max_tokens", Form: text.AnInt, Min: 1, Doc: "Maximum number of tokens over all model calls."},
	{
		Name: "deadline_seconds", Form: text.AnInt, Min: 1,
		Doc: "Maximum active time in seconds. Waiting for people does not count.",
	},
	{
		Name: "max_cost_usd", Form: text.ANumber, More: positive,
		Doc: "Maximum cost of model calls in US dollars. An Espalier extension.",
	},
}).Guard()

var triggersShape = newShape("triggers", "How and when runs start.", []text.Field{
	{Name: "schedule", Doc: "Cron expression, such as \"0 6 * * *\"."},
	{Name: "timezone", Doc: "IANA time zone of the schedule. Default: UTC."},
	{Name: "manual", Form: text.ABool, Doc: "Whether people may start runs. Default: true."},
	{Name: "api", Form: text.ABool, Doc: "Whether runs may be started through the API. Default: false."},
	{Name: "event", Doc: "Event that starts a run, such as file_uploaded."},
})

var toolsShape = newShape("tools", "Tool policy.", []text.Field{
	{Name: "allowlist", Form: text.OneOrStrings, Doc: "Only these tools may be called."},
	{Name: "denylist", Form: text.OneOrStrings, Doc: "These tools may never be called."},
	{
		Name: "workers_can_call_tools", Form: text.ABool,
		Doc: "Whether workers of a bundle may call tools. Default: false.",
	},
}).Guard()

var contractShape = newShape("contract", "A JSON Schema, inline or in a file.", []text.Field{
	{Name: "schema", Form: text.AMap, Doc: "Inline JSON Schema."},
	{Name: "schema_ref", Doc: "Path of a JSON Schema file."},
})

var hooksShape = newShape("hooks",
	"Commands before and after a run of the skill, in its folder. They run only where commands are allowed.",
	[]text.Field{
		{Name: "onStart", Doc: "Before the skill starts."},
		{Name: "onComplete", Doc: "After the skill ends."},
	}).Open()

var stepShape = newShape("step", "One step of a workflow.", []text.Field{
	{Name: "id", Required: true, Doc: "Stable identifier, unique in the workflow, in snake_case."},
	{Name: "type", Required: true, Choices: stepTypeNames, Doc: "Type of the step."},
	{Name: "description", Doc: "What the step does, in plain language."},
	{Name: "reads", Form: text.OneOrStrings, Doc: "Keys that the step reads: input, input.KEY, state.KEY, output.KEY."},
	{
		Name: "writes", Form: text.OneOrStrings, Types: writing,
		Doc: "Keys that the step writes: state.KEY, output.KEY, or output for all of it.",
	},
	{Name: "when", Condition: true, Doc: "Condition. If false, the step is skipped."},
	{Name: "on_error", Choices: errorPolicies, Types: working, Doc: "What happens on failure. Default: stop."},
	{Name: "fallback", Types: working, Doc: "The step that runs instead if this one fails or is skipped."},
	{Name: "retry", Form: text.Object, Shape: retryShape, Types: working, Doc: "Retry policy."},
	{
		Name: "expected_output", Types: writing, Remark: true,
		Doc: "What the step should produce, for the model and for readers.",
	},
	{
		Name: "stop_condition", Condition: true,
		Doc: "Condition. If true after the step, the workflow ends successfully.",
	},
	{Name: "reason_code", Remark: true, Doc: "Recorded if the step succeeds, in UPPER_SNAKE_CASE."},
	{Name: "reason_code_on_fail", Remark: true, Doc: "Recorded if the step fails, in UPPER_SNAKE_CASE."},
	{
		Name: "agent", Types: []string{"skill", "gate", "parallel", "subagent_bundle"},
		Doc: "The agent that performs the step. For a bundle, the critic.",
	},
	{Name: "skill_ref", Types: []string{"skill"}, Doc: "Path or name of the skill or workflow to run."},
	{Name: "tool", Types: []string{"tool", "gate"}, Doc: "The tool to call."},
	{
		Name: "args", Form: text.AMap, Types: []string{"tool", "gate"},
		Doc: "Arguments of the tool. Default: what the step reads.",
	},
	{
		Name: "code", Form: text.Object, Shape: codeShape, Types: []string{"transform", "tool", "gate"},
		Doc: "A script that performs the step.",
	},
	{Name: "bundle", Types: bundling, Doc: "The bundle of workers that performs the step."},
	{
		Name: "branches", Form: text.AMap, Types: []string{"decision"}, More: stringValues,
		Doc: "The next step for each value. \"default\" matches all other values.",
	},
	{Name: "goto", Types: working, Doc: "The step to continue with, instead of the next one."},
	{
		Name: "gate_method", Choices: gateMethods, Types: []string{"gate"}, Guards: true,
		Doc: "How the gate is decided. Default: critic_agent if the step has an agent, else human_review.",
	},
	{
		Name: "approvers", Form: text.Object, Shape: approversShape, Types: []string{"gate"}, Guards: true,
		Doc: "Who may decide a human_review gate. An Espalier extension.",
	},
	{Name: "output_files", Form: text.OneOrStrings, Types: writing, Doc: "Files that the step creates."},
	{Name: "audit_output", Types: writing, Doc: "JSON file that records what the step read, did and wrote."},
})

var approversShape = newShape("approvers",
	"Who may decide a gate, and how many of them must approve. An Espalier extension.",
	[]text.Field{
		{
			Name: "roles", Form: text.OneOrStrings,
			Doc: "One of these roles is required. Default: anyone who may decide gates.",
		},
		{Name: "min", Form: text.AnInt, Min: 1, Doc: "Number of people who must approve. Default: 1."},
		{
			Name: "four_eyes", Form: text.ABool,
			Doc: "Whether the person who started the run may not decide. Default: false.",
		},
		{Name: "escalate", Form: text.Object, Shape: escalateShape, Doc: "Who else may decide after some time."},
	}).Guard()

var escalateShape = newShape("escalation", "Who else may decide a gate after some time.", []text.Field{
	{Name: "after_seconds", Form: text.AnInt, Required: true, Min: 1, Doc: "Seconds after the gate has opened."},
	{Name: "roles", Form: text.OneOrStrings, Required: true, Doc: "Roles that may then decide, too."},
}).Guard()

var retryShape = newShape("retry", "Retry policy.", []text.Field{
	{
		Name: "max_attempts", Form: text.AnInt, Min: 1,
		Doc: "Maximum number of attempts, including the first. Default: 3.",
	},
	{Name: "backoff_ms", Form: text.OneOrInts, Doc: "Milliseconds before each retry. The last value repeats."},
	{
		Name: "retry_on", Form: text.OneOrStrings,
		Doc: "Error classes to retry: TIMEOUT, API_ERROR, RATE_LIMIT, TOOL_ERROR, INVALID_OUTPUT. Default: all.",
	},
})

var codeShape = newShape("code", "A script that performs a step.", []text.Field{
	{Name: "language", Required: true, Doc: "Language of the script, such as python."},
	{Name: "script", Required: true, Doc: "The script itself."},
	{
		Name: "dependencies", Form: text.OneOrStrings,
		Doc: "Required packages. They are checked before the step, but never installed.",
	},
})

var agentShape = newShape("agent", "A specialist that steps and workers refer to.", []text.Field{
	{Name: "id", Required: true, Doc: "Identifier, unique in the workflow, in snake_case."},
	{Name: "role", Required: true, Doc: "What the agent does, like a job title."},
	{Name: "goal", Required: true, Doc: "The outcome that the agent aims for."},
	{Name: "tools", Form: text.OneOrStrings, Doc: "Tools that the agent may call. Default: none."},
	{Name: "model", Doc: "The model to use."},
	{Name: "max_tokens", Form: text.AnInt, Min: 1, Doc: "Maximum number of tokens per reply."},
	{Name: "expected_output", Remark: true, Doc: "What the agent's replies should look like."},
})

var bundleShape = newShape("bundle", "Workers that run in parallel, and how their results are merged.", []text.Field{
	{Name: "name", Required: true, Doc: "Identifier that steps refer to, in snake_case."},
	{Name: "version", Remark: true, More: orNumber, Doc: "Version of the bundle."},
	{Name: "budgets", Form: text.Object, Shape: workerBudgetsShape, Guards: true, Doc: "Limits of each worker."},
	{Name: "workers", Form: text.Objects, Required: true, Shape: workerShape, Doc: "The workers."},
	{Name: "merge", Form: text.Object, Required: true, Shape: mergeShape, Doc: "How results are merged."},
	{
		Name: "worker_output", Form: text.Object, Shape: workerOutputShape,
		Doc: "Requirements for every worker's result.",
	},
	{
		Name: "min_success", Form: text.AnInt, Min: 1,
		Doc: "Number of workers whose success suffices. An Espalier extension. Default: all.",
	},
})

var workerBudgetsShape = newShape("budgets", "Limits of each worker.", []text.Field{
	{Name: "max_steps_per_worker", Form: text.AnInt, Min: 1, Doc: "Maximum number of step executions per worker."},
	{Name: "deadline_seconds_per_worker", Form: text.AnInt, Min: 1, Doc: "Maximum active time per worker in seconds."},
	{Name: "max_tokens_per_worker", Form: text.AnInt, Min: 1, Doc: "Maximum number of tokens per worker."},
	{
		Name: "max_cost_usd_per_worker", Form: text.ANumber, More: positive,
		Doc: "Maximum cost per worker in US dollars. An Espalier extension.",
	},
}).Guard()

var workerShape = newShape("worker", "One worker of a bundle.", []text.Field{
	{Name: "id", Required: true, Doc: "Identifier, unique in the bundle."},
	{Name: "agent", Doc: "The agent that performs the work."},
	{Name: "role", Doc: "What the worker does, if it has no agent."},
	{Name: "when", Condition: true, Doc: "Condition. Without it, the worker always runs."},
})

var mergeShape = newShape("merge", "How the workers' results are merged.", []text.Field{
	{Name: "strategy", Required: true, Choices: mergeMethods, Doc: "Merge strategy."},
	{Name: "dedupe_key", Form: text.OneOrStrings, Doc: "Fields that identify duplicate items."},
	{Name: "conflict", Choices: conflictRules, Doc: "What happens on conflict. Default: fail."},
	{Name: "critic", Doc: "The agent that resolves conflicts."},
})

var workerOutputShape = newShape("worker_output", "Requirements for every worker's result.", []text.Field{
	{Name: "format", Doc: "Format of the result, such as agent-flow/worker.v1."},
	{Name: "required_fields", Form: text.OneOrStrings, Doc: "Required fields of every result."},
})

var observabilityShape = newShape("observability", "Requirements for the audit log.", []text.Field{
	{
		Name: "audit_level", Remark: true,
		Doc: "\"full\" records everything. Any other level still records the required events.",
	},
	{Name: "log_format", Choices: []string{"ndjson"}, Doc: "Format of the log."},
	{Name: "required_events", Form: text.OneOrStrings, Doc: "Events that the audit log must contain."},
	{Name: "required_ids", Form: text.OneOrStrings, Doc: "Ids that the events must contain."},
	{Name: "redaction", Form: text.Object, Shape: redactionShape, Guards: true, Doc: "What to redact from the log."},
})

var redactionShape = newShape("redaction", "What to redact from the log.", []text.Field{
	{Name: "pii", Form: text.ABool, Doc: "Redact personal data."},
	{Name: "secrets", Form: text.ABool, Doc: "Redact keys, tokens and passwords."},
	{
		Name: "patterns", Form: text.OneOrStrings,
		Doc: "Detectors (email, phone, SSN, credit_card) or regular expressions.",
	},
}).Guard()

var runtimeShape = newShape("runtime", "How long-running workflows pause and resume.", []text.Field{
	{Name: "checkpoint_after_each_step", Form: text.ABool, Doc: "Record a checkpoint after every step."},
	{Name: "resume_supported", Form: text.ABool, Doc: "Whether an interrupted run may be resumed. Default: true."},
	{Name: "max_concurrency", Form: text.AnInt, Min: 1, Doc: "Maximum number of concurrent workers."},
	{
		Name: "approval_required", Form: text.ABool, Guards: true,
		Doc: "Whether a person must approve the start of a run.",
	},
	{
		Name: "approvers", Form: text.Object, Shape: approversShape, Guards: true,
		Doc: "Who may approve the start of a run. An Espalier extension.",
	},
	{Name: "human_in_the_loop", Form: text.ABool, Doc: "Whether people may pause a run and edit its state."},
	{Name: "checkpoints", Form: text.Objects, Shape: checkpointShape, Doc: "Regular checkpoints."},
	{
		Name: "waitpoints", Form: text.Objects, Shape: waitpointShape,
		Doc: "Points where a run waits for an external event.",
	},
})

var checkpointShape = newShape("checkpoint", "A regular checkpoint.", []text.Field{
	{Name: "every", Required: true, Doc: "Interval, such as 3_steps."},
})

var waitpointShape = newShape("waitpoint", "A point where a run waits for an external event.", []text.Field{
	{Name: "id", Required: true, Doc: "Identifier, unique in the workflow."},
	{Name: "after_step", Required: true, Doc: "The step after which the run waits."},
	{Name: "event", Doc: "The event that resumes the run."},
	{Name: "timeout_seconds", Form: text.AnInt, Min: 1, Doc: "Maximum wait in seconds. Default: no limit."},
	{Name: "on_timeout", Choices: timeoutActions, Doc: "What happens on timeout. Default: stop."},
	{
		Name: "approvers", Form: text.Object, Shape: approversShape, Guards: true,
		Doc: "Makes the waitpoint an approval by these people. An Espalier extension.",
	},
})

var overrideShape = newShape("override", "Replaces a property of the base skill.", []text.Field{
	{Name: "target", Required: true, Doc: "base_skill.output or base_skill.input."},
	{Name: "replace_with", Required: true, Doc: "Path of a JSON Schema file."},
})

// blockShapes are the shapes of the labeled fences, in the order in which Schemas lists them.
var blockShapes = []*text.Shape{stepShape, agentShape, bundleShape, runtimeShape, observabilityShape, overrideShape}

var blockNames = xslices.Map(blockShapes, func(s *text.Shape) string { return s.What })

// Schemas returns a JSON Schema for the frontmatter and for each block.
func (Format) Schemas() []format.Schema {
	var out []format.Schema
	for _, s := range slices.Concat([]*text.Shape{frontmatterShape}, blockShapes) {
		schema := s.Schema()
		switch s {
		case frontmatterShape:
			schema["if"] = map[string]any{"required": []string{"kind"}}
			schema["then"] = map[string]any{"required": []string{"version"}}
		case stepShape:
			schema["allOf"] = stepConditions()
		}
		out = append(out, format.NewSchema(s.What, "Agent Flow: "+s.What, schema))
	}
	return out
}

// stepConditions returns the schema of the keys that each type of step requires.
func stepConditions() []any {
	var all []any
	for _, t := range stepTypes {
		var needs []any
		for _, group := range t.needs {
			either := xslices.Map(group, func(key string) any { return map[string]any{"required": []string{key}} })
			needs = append(needs, map[string]any{"anyOf": either})
		}
		if needs == nil {
			continue
		}
		all = append(all, map[string]any{
			"if":   map[string]any{"properties": map[string]any{"type": map[string]any{"const": t.name}}},
			"then": map[string]any{"allOf": needs},
		})
	}
	return all
}
