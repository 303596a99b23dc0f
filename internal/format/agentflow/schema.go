package agentflow

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/espalier-run/espalier/internal/format"
)

// A shape declares the keys of one kind of block. It is the only list of them: bind parses
// blocks by it, and the JSON Schemas for editors are generated from it.
type shape struct {
	what   string // in messages: "step"
	doc    string
	fields []field
	// open shapes accept other keys.
	open bool
	// guards is set if every key restricts what a run may do.
	guards bool
}

// field is one key of a shape.
type field struct {
	name     string
	kind     kind
	doc      string
	required bool
	choices  []string // of a choice
	min      int      // of a number, or of each of several numbers
	shape    *shape   // of an object, or of each of several objects
	// types are the step types that use the key; nil means all.
	types []string
	// remark keys inform readers only; a run does not depend on them.
	remark bool
	// condition keys contain an expression.
	condition bool
	// guards is set if the key restricts what a run may do. An unknown key that is probably this one is an error: a run
	// without the restriction must not start.
	guards bool
}

// kind is the expected form of a value.
type kind int

const (
	word    kind = iota // string
	release             // string, or a number such as 1.0
	choice              // one of several strings
	number              // integer
	money               // number of dollars, stored in millionths
	flag                // true or false
	words               // list of strings, or one string
	numbers             // list of integers, or one integer
	routes              // map of strings to strings
	object              // map with its own shape
	objects             // a list of such maps
	free                // any map
	tools               // list of strings, or one string separated by commas or spaces
	hint                // string; also accepts the list that an unquoted [x] yields
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
	errorClasses   = []string{"TIMEOUT", "API_ERROR", "RATE_LIMIT", "TOOL_ERROR", "INVALID_OUTPUT"}
	detectors      = []string{"email", "phone", "SSN", "credit_card"}
	recordIDs      = []string{"run_id", "trace_id", "step_id"}
	auditEvents    = []string{
		"run_start", "step_start", "step_output", "step_complete", "step_skipped", "gate_decision", "budget_check",
		"run_complete", "run_failed",
		"checkpoint_saved", "run_suspended", "run_resumed", "waitpoint_timeout", "merge_conflict", "step_retry",
		"gate_opened", "waitpoint_opened", "waitpoint_passed", "doubt_opened", "doubt_decided", "signal_received",
		"input_refused", "merge_duplicate", "worker_skipped", "step_lost", "model_call", "model_error", "tool_call",
		"command_run", "budget_wait", "budget_refused", "budget_raised", "deadline_reached", "run_paused",
		"run_continued", "state_edited", "run_rewound", "cancel_requested", "gate_approval", "gate_escalated",
	}
)

// stepType is one value of a step's `type`.
type stepType struct {
	name, doc string
	// needs are the required keys; one key of each group is enough.
	needs [][]string
}

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

var stepTypeNames = func() (names []string) {
	for _, t := range stepTypes {
		names = append(names, t.name)
	}
	return names
}()

func findStepType(name string) *stepType {
	for i := range stepTypes {
		if stepTypes[i].name == name {
			return &stepTypes[i]
		}
	}
	return nil
}

// Groups of step types, for the keys that only some of them use.
var (
	working  = []string{"transform", "skill", "tool", "gate", "parallel", "subagent_bundle"}
	writing  = append(slices.Clone(working), "end")
	bundling = []string{"parallel", "subagent_bundle"}
)

const workflowKind = "agent-flow/workflow"

var frontmatterShape = &shape{
	what: "frontmatter", open: true,
	doc: "The frontmatter of an Agent Flow workflow or of a SKILL.md.",
	fields: []field{
		{
			name: "name", kind: word, required: true,
			doc: "Identifier in lowercase with hyphens. For a skill, the name of its folder.",
		},
		{name: "description", kind: word, required: true, doc: "What the workflow does and when to use it."},
		{
			name: "kind", kind: choice, choices: []string{workflowKind},
			doc: "Makes the file a workflow. Without it, the file is a plain skill.",
		},
		{name: "version", kind: release, remark: true, doc: "Version of the workflow, such as 1.0.0."},
		{name: "category", kind: word, remark: true, doc: "Category of work, such as document-processing."},
		{name: "icon", kind: word, remark: true, doc: "An emoji or the name of one."},
		{name: "status", kind: choice, choices: statuses, remark: true, doc: "Lifecycle status of the workflow."},
		{name: "owner", kind: word, remark: true, doc: "The team or person responsible."},
		{name: "extends", kind: word, doc: "Path of the base skill that the workflow wraps."},
		{name: "risk_profile", kind: choice, choices: riskProfiles, doc: "Impact of a mistake."},
		{name: "budgets", kind: object, shape: budgetsShape, guards: true, doc: "Hard limits of one run."},
		{name: "triggers", kind: object, shape: triggersShape, doc: "How and when runs start."},
		{name: "tools", kind: object, shape: toolsShape, guards: true, doc: "Tool policy."},
		{name: "input", kind: object, shape: contractShape, doc: "Input contract of a run."},
		{name: "output", kind: object, shape: contractShape, doc: "Output contract of a run."},
		{
			name: "allowed-tools", kind: tools, remark: true,
			doc: "Tools that the skill may use, separated by spaces or commas, or as a list.",
		},
		{
			name: "disable-model-invocation", kind: flag, remark: true,
			doc: "The skill's text is the result. No model is called.",
		},
		{name: "user-invocable", kind: flag, remark: true, doc: "Whether people may start the skill by its name."},
		{
			name: "context", kind: choice, choices: []string{"fork"}, remark: true,
			doc: "\"fork\" runs the skill in its own context.",
		},
		{name: "agent", kind: word, doc: "The agent that the skill is intended for."},
		{name: "model", kind: word, doc: "The model to use. In a workflow, the default for agents."},
		{name: "argument-hint", kind: hint, remark: true, doc: "Hint for the arguments after the skill's name."},
		{
			name: "hooks", kind: object, shape: hooksShape, remark: true,
			doc: "Commands before and after a run of the skill. They run only where commands are allowed.",
		},
		{name: "license", kind: word, remark: true, doc: "License of the skill."},
		{name: "compatibility", kind: word, remark: true, doc: "Environment requirements, in at most 500 characters."},
		{name: "metadata", kind: free, remark: true, doc: "Other data, as a map of names to strings."},
	},
}

var budgetsShape = &shape{
	guards: true, what: "budgets", doc: "Hard limits of one run.",
	fields: []field{
		{name: "max_steps", kind: number, min: 1, doc: "Maximum number of step executions."},
		{name: "max_tool_calls", kind: number, min: 1, doc: "Maximum number of tool calls."},
		{name: "max_tokens", kind: number, min: 1, doc: "Maximum number of tokens over all model calls."},
		{
			name: "deadline_seconds", kind: number, min: 1,
			doc: "Maximum active time in seconds. Waiting for people does not count.",
		},
		{name: "max_cost_usd", kind: money, doc: "Maximum cost of model calls in US dollars. An Espalier extension."},
	},
}

var triggersShape = &shape{
	what: "triggers", doc: "How and when runs start.",
	fields: []field{
		{name: "schedule", kind: word, doc: "Cron expression, such as \"0 6 * * *\"."},
		{name: "timezone", kind: word, doc: "IANA time zone of the schedule. Default: UTC."},
		{name: "manual", kind: flag, doc: "Whether people may start runs. Default: true."},
		{name: "api", kind: flag, doc: "Whether runs may be started through the API. Default: false."},
		{name: "event", kind: word, doc: "Event that starts a run, such as file_uploaded."},
	},
}

var toolsShape = &shape{
	guards: true, what: "tools", doc: "Tool policy.",
	fields: []field{
		{name: "allowlist", kind: words, doc: "Only these tools may be called."},
		{name: "denylist", kind: words, doc: "These tools may never be called."},
		{
			name: "workers_can_call_tools", kind: flag,
			doc: "Whether workers of a bundle may call tools. Default: false.",
		},
	},
}

var contractShape = &shape{
	what: "contract", doc: "A JSON Schema, inline or in a file.",
	fields: []field{
		{name: "schema", kind: free, doc: "Inline JSON Schema."},
		{name: "schema_ref", kind: word, doc: "Path of a JSON Schema file."},
	},
}

var hooksShape = &shape{
	what: "hooks", doc: "Commands before and after a run of the skill, in its folder. They run only where " +
		"commands are allowed.", open: true,
	fields: []field{
		{name: "onStart", kind: word, doc: "Before the skill starts."},
		{name: "onComplete", kind: word, doc: "After the skill ends."},
	},
}

var stepShape = &shape{
	what: "step", doc: "One step of a workflow.",
	fields: []field{
		{name: "id", kind: word, required: true, doc: "Stable identifier, unique in the workflow, in snake_case."},
		{name: "type", kind: choice, required: true, choices: stepTypeNames, doc: "Type of the step."},
		{name: "description", kind: word, doc: "What the step does, in plain language."},
		{name: "reads", kind: words, doc: "Keys that the step reads: input, input.KEY, state.KEY, output.KEY."},
		{
			name: "writes", kind: words, types: writing,
			doc: "Keys that the step writes: state.KEY, output.KEY, or output for all of it.",
		},
		{name: "when", kind: word, condition: true, doc: "Condition. If false, the step is skipped."},
		{
			name: "on_error", kind: choice, choices: errorPolicies, types: working,
			doc: "What happens on failure. Default: stop.",
		},
		{
			name: "fallback", kind: word, types: working,
			doc: "The step that runs instead if this one fails or is skipped.",
		},
		{name: "retry", kind: object, shape: retryShape, types: working, doc: "Retry policy."},
		{
			name: "expected_output", kind: word, types: writing, remark: true,
			doc: "What the step should produce, for the model and for readers.",
		},
		{
			name: "stop_condition", kind: word, condition: true,
			doc: "Condition. If true after the step, the workflow ends successfully.",
		},
		{name: "reason_code", kind: word, remark: true, doc: "Recorded if the step succeeds, in UPPER_SNAKE_CASE."},
		{
			name: "reason_code_on_fail", kind: word, remark: true,
			doc: "Recorded if the step fails, in UPPER_SNAKE_CASE.",
		},
		{
			name: "agent", kind: word, types: []string{"skill", "gate", "parallel", "subagent_bundle"},
			doc: "The agent that performs the step. For a bundle, the critic.",
		},
		{name: "skill_ref", kind: word, types: []string{"skill"}, doc: "Path or name of the skill or workflow to run."},
		{name: "tool", kind: word, types: []string{"tool", "gate"}, doc: "The tool to call."},
		{
			name: "args", kind: free, types: []string{"tool", "gate"},
			doc: "Arguments of the tool. Default: what the step reads.",
		},
		{
			name: "code", kind: object, shape: codeShape, types: []string{"transform", "tool", "gate"},
			doc: "A script that performs the step.",
		},
		{name: "bundle", kind: word, types: bundling, doc: "The bundle of workers that performs the step."},
		{
			name: "branches", kind: routes, types: []string{"decision"},
			doc: "The next step for each value. \"default\" matches all other values.",
		},
		{name: "goto", kind: word, types: working, doc: "The step to continue with, instead of the next one."},
		{
			name: "gate_method", kind: choice, guards: true, choices: gateMethods, types: []string{"gate"},
			doc: "How the gate is decided. Default: critic_agent if the step has an agent, else human_review.",
		},
		{
			name: "approvers", kind: object, guards: true, shape: approversShape, types: []string{"gate"},
			doc: "Who may decide a human_review gate. An Espalier extension.",
		},
		{name: "output_files", kind: words, types: writing, doc: "Files that the step creates."},
		{
			name: "audit_output", kind: word, types: writing,
			doc: "JSON file that records what the step read, did and wrote.",
		},
	},
}

var approversShape = &shape{
	guards: true, what: "approvers", doc: "Who may decide a gate, and how many of them must approve. An Espalier extension.",
	fields: []field{
		{name: "roles", kind: words, doc: "One of these roles is required. Default: anyone who may decide gates."},
		{name: "min", kind: number, min: 1, doc: "Number of people who must approve. Default: 1."},
		{name: "four_eyes", kind: flag, doc: "Whether the person who started the run may not decide. Default: false."},
		{name: "escalate", kind: object, shape: escalateShape, doc: "Who else may decide after some time."},
	},
}

var escalateShape = &shape{
	guards: true, what: "escalation", doc: "Who else may decide a gate after some time.",
	fields: []field{
		{name: "after_seconds", kind: number, min: 1, required: true, doc: "Seconds after the gate has opened."},
		{name: "roles", kind: words, required: true, doc: "Roles that may then decide, too."},
	},
}

var retryShape = &shape{
	what: "retry", doc: "Retry policy.",
	fields: []field{
		{
			name: "max_attempts", kind: number, min: 1,
			doc: "Maximum number of attempts, including the first. Default: 3.",
		},
		{name: "backoff_ms", kind: numbers, min: 0, doc: "Milliseconds before each retry. The last value repeats."},
		{name: "retry_on", kind: words, doc: "Error classes to retry: TIMEOUT, API_ERROR, RATE_LIMIT, TOOL_ERROR, " +
			"INVALID_OUTPUT. Default: all."},
	},
}

var codeShape = &shape{
	what: "code", doc: "A script that performs a step.",
	fields: []field{
		{name: "language", kind: word, required: true, doc: "Language of the script, such as python."},
		{name: "script", kind: word, required: true, doc: "The script itself."},
		{
			name: "dependencies", kind: words,
			doc: "Required packages. They are checked before the step, but never installed.",
		},
	},
}

var agentShape = &shape{
	what: "agent", doc: "A specialist that steps and workers refer to.",
	fields: []field{
		{name: "id", kind: word, required: true, doc: "Identifier, unique in the workflow, in snake_case."},
		{name: "role", kind: word, required: true, doc: "What the agent does, like a job title."},
		{name: "goal", kind: word, required: true, doc: "The outcome that the agent aims for."},
		{name: "tools", kind: words, doc: "Tools that the agent may call. Default: none."},
		{name: "model", kind: word, doc: "The model to use."},
		{name: "max_tokens", kind: number, min: 1, doc: "Maximum number of tokens per reply."},
		{name: "expected_output", kind: word, remark: true, doc: "What the agent's replies should look like."},
	},
}

var bundleShape = &shape{
	what: "bundle", doc: "Workers that run in parallel, and how their results are merged.",
	fields: []field{
		{name: "name", kind: word, required: true, doc: "Identifier that steps refer to, in snake_case."},
		{name: "version", kind: release, remark: true, doc: "Version of the bundle."},
		{name: "budgets", kind: object, shape: workerBudgetsShape, guards: true, doc: "Limits of each worker."},
		{name: "workers", kind: objects, shape: workerShape, required: true, doc: "The workers."},
		{name: "merge", kind: object, shape: mergeShape, required: true, doc: "How results are merged."},
		{name: "worker_output", kind: object, shape: workerOutputShape, doc: "Requirements for every worker's result."},
		{
			name: "min_success", kind: number, min: 1,
			doc: "Number of workers whose success suffices. An Espalier extension. Default: all.",
		},
	},
}

var workerBudgetsShape = &shape{
	guards: true, what: "budgets", doc: "Limits of each worker.",
	fields: []field{
		{name: "max_steps_per_worker", kind: number, min: 1, doc: "Maximum number of step executions per worker."},
		{name: "deadline_seconds_per_worker", kind: number, min: 1, doc: "Maximum active time per worker in seconds."},
		{name: "max_tokens_per_worker", kind: number, min: 1, doc: "Maximum number of tokens per worker."},
		{
			name: "max_cost_usd_per_worker", kind: money,
			doc: "Maximum cost per worker in US dollars. An Espalier extension.",
		},
	},
}

var workerShape = &shape{
	what: "worker", doc: "One worker of a bundle.",
	fields: []field{
		{name: "id", kind: word, required: true, doc: "Identifier, unique in the bundle."},
		{name: "agent", kind: word, doc: "The agent that performs the work."},
		{name: "role", kind: word, doc: "What the worker does, if it has no agent."},
		{name: "when", kind: word, condition: true, doc: "Condition. Without it, the worker always runs."},
	},
}

var mergeShape = &shape{
	what: "merge", doc: "How the workers' results are merged.",
	fields: []field{
		{name: "strategy", kind: choice, required: true, choices: mergeMethods, doc: "Merge strategy."},
		{name: "dedupe_key", kind: words, doc: "Fields that identify duplicate items."},
		{name: "conflict", kind: choice, choices: conflictRules, doc: "What happens on conflict. Default: fail."},
		{name: "critic", kind: word, doc: "The agent that resolves conflicts."},
	},
}

var workerOutputShape = &shape{
	what: "worker_output", doc: "Requirements for every worker's result.",
	fields: []field{
		{name: "format", kind: word, doc: "Format of the result, such as agent-flow/worker.v1."},
		{name: "required_fields", kind: words, doc: "Required fields of every result."},
	},
}

var observabilityShape = &shape{
	what: "observability", doc: "Requirements for the audit log.",
	fields: []field{
		{
			name: "audit_level", kind: word, remark: true,
			doc: "\"full\" records everything. Any other level still records the required events.",
		},
		{name: "log_format", kind: choice, choices: []string{"ndjson"}, doc: "Format of the log."},
		{name: "required_events", kind: words, doc: "Events that the audit log must contain."},
		{name: "required_ids", kind: words, doc: "Ids that the events must contain."},
		{name: "redaction", kind: object, shape: redactionShape, guards: true, doc: "What to redact from the log."},
	},
}

var redactionShape = &shape{
	guards: true, what: "redaction", doc: "What to redact from the log.",
	fields: []field{
		{name: "pii", kind: flag, doc: "Redact personal data."},
		{name: "secrets", kind: flag, doc: "Redact keys, tokens and passwords."},
		{name: "patterns", kind: words, doc: "Detectors (email, phone, SSN, credit_card) or regular expressions."},
	},
}

var runtimeShape = &shape{
	what: "runtime", doc: "How long-running workflows pause and resume.",
	fields: []field{
		{name: "checkpoint_after_each_step", kind: flag, doc: "Record a checkpoint after every step."},
		{name: "resume_supported", kind: flag, doc: "Whether an interrupted run may be resumed. Default: true."},
		{name: "max_concurrency", kind: number, min: 1, doc: "Maximum number of concurrent workers."},
		{name: "approval_required", kind: flag, guards: true, doc: "Whether a person must approve the start of a run."},
		{
			name: "approvers", kind: object, guards: true, shape: approversShape,
			doc: "Who may approve the start of a run. An Espalier extension.",
		},
		{name: "human_in_the_loop", kind: flag, doc: "Whether people may pause a run and edit its state."},
		{name: "checkpoints", kind: objects, shape: checkpointShape, doc: "Regular checkpoints."},
		{
			name: "waitpoints", kind: objects, shape: waitpointShape,
			doc: "Points where a run waits for an external event.",
		},
	},
}

var checkpointShape = &shape{
	what: "checkpoint", doc: "A regular checkpoint.",
	fields: []field{
		{name: "every", kind: word, required: true, doc: "Interval, such as 3_steps."},
	},
}

var waitpointShape = &shape{
	what: "waitpoint", doc: "A point where a run waits for an external event.",
	fields: []field{
		{name: "id", kind: word, required: true, doc: "Identifier, unique in the workflow."},
		{name: "after_step", kind: word, required: true, doc: "The step after which the run waits."},
		{name: "event", kind: word, doc: "The event that resumes the run."},
		{name: "timeout_seconds", kind: number, min: 1, doc: "Maximum wait in seconds. Default: no limit."},
		{name: "on_timeout", kind: choice, choices: timeoutActions, doc: "What happens on timeout. Default: stop."},
		{
			name: "approvers", kind: object, guards: true, shape: approversShape,
			doc: "Makes the waitpoint an approval by these people. An Espalier extension.",
		},
	},
}

var overrideShape = &shape{
	what: "override", doc: "Replaces a property of the base skill.",
	fields: []field{
		{name: "target", kind: word, required: true, doc: "base_skill.output or base_skill.input."},
		{name: "replace_with", kind: word, required: true, doc: "Path of a JSON Schema file."},
	},
}

// blockShapes are the shapes of the labeled fences, in the order in which Schemas lists them.
var blockShapes = []*shape{stepShape, agentShape, bundleShape, runtimeShape, observabilityShape, overrideShape}

var blockNames = func() (names []string) {
	for _, s := range blockShapes {
		names = append(names, s.what)
	}
	return names
}()

func (s *shape) field(name string) *field {
	for i := range s.fields {
		if s.fields[i].name == name {
			return &s.fields[i]
		}
	}
	return nil
}

// Schemas returns a JSON Schema for the frontmatter and for each block.
func (Format) Schemas() []format.Schema {
	out := []format.Schema{{Block: frontmatterShape.what, Schema: schemaDocument(frontmatterShape)}}
	for _, s := range blockShapes {
		out = append(out, format.Schema{Block: s.what, Schema: schemaDocument(s)})
	}
	return out
}

func schemaDocument(s *shape) json.RawMessage {
	schema := s.schema()
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	schema["title"] = "Agent Flow: " + s.what
	switch s {
	case frontmatterShape:
		schema["if"] = map[string]any{"required": []string{"kind"}}
		schema["then"] = map[string]any{"required": []string{"version"}}
	case stepShape:
		schema["allOf"] = stepConditions()
	}
	raw, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("agentflow: schema of %s: %v", s.what, err)) // unreachable: a schema is plain data
	}
	return raw
}

// stepConditions returns the schema of the keys that each type of step requires.
func stepConditions() []any {
	var all []any
	for _, t := range stepTypes {
		var needs []any
		for _, group := range t.needs {
			var either []any
			for _, key := range group {
				either = append(either, map[string]any{"required": []string{key}})
			}
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

func (s *shape) schema() map[string]any {
	properties := map[string]any{}
	var required []string
	for i := range s.fields {
		f := &s.fields[i]
		properties[f.name] = f.schema()
		if f.required {
			required = append(required, f.name)
		}
	}
	out := map[string]any{"type": "object", "description": s.doc, "properties": properties}
	if required != nil {
		out["required"] = required
	}
	if !s.open {
		out["additionalProperties"] = false
	}
	return out
}

func (f *field) schema() map[string]any {
	list := func(item map[string]any) map[string]any { return map[string]any{"type": "array", "items": item} }
	text := func() map[string]any { return map[string]any{"type": "string"} }
	var out map[string]any
	switch f.kind {
	case word:
		out = text()
	case release:
		out = map[string]any{"type": []string{"string", "number"}}
	case choice:
		out = map[string]any{"type": "string", "enum": f.choices}
	case number:
		out = map[string]any{"type": "integer", "minimum": f.min}
	case money:
		out = map[string]any{"type": "number", "exclusiveMinimum": 0}
	case flag:
		out = map[string]any{"type": "boolean"}
	case numbers:
		one := map[string]any{"type": "integer", "minimum": f.min}
		out = map[string]any{"anyOf": []any{one, list(one)}}
	case routes:
		out = map[string]any{"type": "object", "additionalProperties": text(), "minProperties": 1}
	case object:
		out = f.shape.schema()
	case objects:
		out = list(f.shape.schema())
	case free:
		out = map[string]any{"type": "object"}
	case words, tools, hint:
		out = map[string]any{"anyOf": []any{text(), list(text())}}
	}
	out["description"] = f.doc
	return out
}
