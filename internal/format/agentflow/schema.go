package agentflow

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/espalier-run/espalier/internal/format"
)

// A shape is the keys that one kind of block may have. It is the only list of
// them: bind reads blocks by it, and the JSON Schemas for editors are made of it.
type shape struct {
	what   string // in messages: "step"
	doc    string
	fields []field
	// open shapes may have other keys as well.
	open bool
}

// field is one key of a shape.
type field struct {
	name     string
	kind     kind
	doc      string
	required bool
	choices  []string // of a choice
	least    int      // of a number, or of each of several numbers
	shape    *shape   // of an object, or of each of several objects
	// types are the step types that the key means something to; none: all.
	types []string
	// remark keys say something to readers; a run is the same without them.
	remark bool
	// condition keys hold an expression.
	condition bool
}

// kind is what a value must look like.
type kind int

const (
	word    kind = iota // text
	release             // text, also when YAML takes it for a number: 1.0
	choice              // one of a few words
	number              // a whole number
	money               // a number of dollars, kept in millionths
	flag                // true or false
	words               // a list of texts, or one text
	numbers             // a list of whole numbers, or one
	routes              // a map from texts to texts
	object              // a map with a shape of its own
	objects             // a list of such maps
	free                // any map
	tools               // a list of texts, or one text with commas or spaces between them
	hint                // text; the list that an unquoted [x] makes is taken as well
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
	}
)

// stepType is one value of a step's `type`.
type stepType struct {
	name, doc string
	// needs are keys without which the step means nothing; of each group one is enough.
	needs [][]string
}

var stepTypes = []stepType{
	{"transform", "validate, reshape or compute data", [][]string{{"description"}}},
	{"skill", "hand over to an agent, a skill or another workflow", [][]string{{"description"}}},
	{"tool", "call a tool", [][]string{{"description"}, {"tool", "code"}}},
	{"decision", "choose a path by the value of the first read", [][]string{{"description"}, {"branches"}, {"reads"}}},
	{"gate", "wait for an approval, by a person, an agent or a check", [][]string{{"description"}}},
	{"parallel", "fan out to the workers of a bundle", [][]string{{"description"}, {"bundle"}}},
	{"subagent_bundle", "another name for parallel", [][]string{{"description"}, {"bundle"}}},
	{"end", "end the workflow here", nil},
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
		{name: "name", kind: word, required: true, doc: "Identifier in lower case with hyphens; of a skill, the name of its folder."},
		{name: "description", kind: word, required: true, doc: "What this does and when to use it."},
		{name: "kind", kind: choice, choices: []string{workflowKind}, doc: "Makes the file a workflow; without it, it is a plain skill."},
		{name: "version", kind: release, remark: true, doc: "Version of the workflow, such as 1.0.0."},
		{name: "category", kind: word, remark: true, doc: "What sort of work this is, such as document-processing."},
		{name: "icon", kind: word, remark: true, doc: "An emoji or the name of one."},
		{name: "status", kind: choice, choices: statuses, remark: true, doc: "How far along the workflow is."},
		{name: "owner", kind: word, remark: true, doc: "The team or person responsible."},
		{name: "extends", kind: word, doc: "Path of the base skill that this workflow wraps."},
		{name: "risk_profile", kind: choice, choices: riskProfiles, doc: "How much harm a mistake can do."},
		{name: "budgets", kind: object, shape: budgetsShape, doc: "Hard limits of one run."},
		{name: "triggers", kind: object, shape: triggersShape, doc: "How and when runs begin."},
		{name: "tools", kind: object, shape: toolsShape, doc: "Which tools may be called at all."},
		{name: "input", kind: object, shape: contractShape, doc: "What a run must be given."},
		{name: "output", kind: object, shape: contractShape, doc: "What a run gives back."},
		{name: "allowed-tools", kind: tools, remark: true, doc: "Tools that the skill may use, separated by spaces or commas, or as a list."},
		{name: "disable-model-invocation", kind: flag, remark: true, doc: "The skill's text itself is the result; no model is called."},
		{name: "user-invocable", kind: flag, remark: true, doc: "Whether people may start the skill by its name."},
		{name: "context", kind: choice, choices: []string{"fork"}, remark: true, doc: "\"fork\" runs the skill in a context of its own."},
		{name: "agent", kind: word, doc: "The agent that the skill is meant for."},
		{name: "model", kind: word, doc: "The model to use; in a workflow, for agents that name none."},
		{name: "argument-hint", kind: hint, remark: true, doc: "What to write after the skill's name."},
		{name: "hooks", kind: object, shape: hooksShape, remark: true, doc: "Commands around a run of the skill; they run where commands are allowed."},
		{name: "license", kind: word, remark: true, doc: "Licence of the skill."},
		{name: "compatibility", kind: word, remark: true, doc: "What the skill needs around it, in at most 500 characters."},
		{name: "metadata", kind: free, remark: true, doc: "Anything else, as a map from names to text."},
	},
}

var budgetsShape = &shape{
	what: "budgets", doc: "Hard limits of one run.",
	fields: []field{
		{name: "max_steps", kind: number, least: 1, doc: "Most step executions."},
		{name: "max_tool_calls", kind: number, least: 1, doc: "Most tool calls."},
		{name: "max_tokens", kind: number, least: 1, doc: "Most tokens over all model calls."},
		{name: "deadline_seconds", kind: number, least: 1, doc: "Most seconds of active time; waiting for people does not count."},
		{name: "max_cost_usd", kind: money, doc: "Most dollars for model calls; an extension of Espalier's."},
	},
}

var triggersShape = &shape{
	what: "triggers", doc: "How and when runs begin.",
	fields: []field{
		{name: "schedule", kind: word, doc: "Cron expression, such as \"0 6 * * *\"."},
		{name: "timezone", kind: word, doc: "IANA time zone of the schedule; UTC without it."},
		{name: "manual", kind: flag, doc: "Whether people may start runs; true without it."},
		{name: "api", kind: flag, doc: "Whether runs may be started through the API; false without it."},
		{name: "event", kind: word, doc: "Event that starts a run, such as file_uploaded."},
	},
}

var toolsShape = &shape{
	what: "tools", doc: "Which tools may be called at all.",
	fields: []field{
		{name: "allowlist", kind: words, doc: "Only these tools may be called."},
		{name: "denylist", kind: words, doc: "These tools may never be called."},
		{name: "workers_can_call_tools", kind: flag, doc: "Whether workers of a bundle may use tools; false without it."},
	},
}

var contractShape = &shape{
	what: "contract", doc: "A JSON Schema, inline or in a file.",
	fields: []field{
		{name: "schema", kind: free, doc: "JSON Schema, written here."},
		{name: "schema_ref", kind: word, doc: "Path of a JSON Schema file."},
	},
}

var hooksShape = &shape{
	what: "hooks", doc: "Commands around a run of the skill, in its folder; they run where commands are allowed.", open: true,
	fields: []field{
		{name: "onStart", kind: word, doc: "Before the skill starts."},
		{name: "onComplete", kind: word, doc: "After it has ended."},
	},
}

var stepShape = &shape{
	what: "step", doc: "One step of a workflow.",
	fields: []field{
		{name: "id", kind: word, required: true, doc: "Stable identifier, unique in the workflow, in snake_case."},
		{name: "type", kind: choice, required: true, choices: stepTypeNames, doc: "What kind of step this is."},
		{name: "description", kind: word, doc: "What the step does, in words that anybody understands."},
		{name: "reads", kind: words, doc: "Keys that the step needs: input, input.KEY, state.KEY, output.KEY."},
		{name: "writes", kind: words, types: writing, doc: "Keys that the step produces: state.KEY, output.KEY, or output for all of it."},
		{name: "when", kind: word, condition: true, doc: "Condition; the step is skipped when it is false."},
		{name: "on_error", kind: choice, choices: errorPolicies, types: working, doc: "What a failure leads to; stop without it."},
		{name: "fallback", kind: word, types: working, doc: "The step that takes this one's place when it fails or is skipped."},
		{name: "retry", kind: object, shape: retryShape, types: working, doc: "How failed attempts are repeated."},
		{name: "expected_output", kind: word, types: writing, remark: true, doc: "What the step should produce, for the model and for readers."},
		{name: "stop_condition", kind: word, condition: true, doc: "Condition; when it holds after the step, the workflow ends well."},
		{name: "reason_code", kind: word, remark: true, doc: "Recorded when the step ends well, in UPPER_SNAKE_CASE."},
		{name: "reason_code_on_fail", kind: word, remark: true, doc: "Recorded when the step fails, in UPPER_SNAKE_CASE."},
		{name: "agent", kind: word, types: []string{"skill", "gate", "parallel", "subagent_bundle"}, doc: "The agent that does the step; of a bundle, the critic."},
		{name: "skill_ref", kind: word, types: []string{"skill"}, doc: "Path or name of the skill or workflow to run."},
		{name: "tool", kind: word, types: []string{"tool", "gate"}, doc: "The tool to call."},
		{name: "args", kind: free, types: []string{"tool", "gate"}, doc: "Arguments of the tool; without it they are made of what the step reads."},
		{name: "code", kind: object, shape: codeShape, types: []string{"transform", "tool", "gate"}, doc: "A script that does the step."},
		{name: "bundle", kind: word, types: bundling, doc: "The bundle whose workers do the step."},
		{name: "branches", kind: routes, types: []string{"decision"}, doc: "Which step to go to for which value; default catches the rest."},
		{name: "goto", kind: word, types: working, doc: "The step to go on with, instead of the next one."},
		{name: "gate_method", kind: choice, choices: gateMethods, types: []string{"gate"}, doc: "Who decides; without it critic_agent when there is an agent, else human_review."},
		{name: "output_files", kind: words, types: writing, doc: "Files that the step creates."},
		{name: "audit_output", kind: word, types: writing, doc: "JSON file with what the step read, did and wrote."},
	},
}

var retryShape = &shape{
	what: "retry", doc: "How failed attempts are repeated.",
	fields: []field{
		{name: "max_attempts", kind: number, least: 1, doc: "Attempts in all, the first one included; 3 without it."},
		{name: "backoff_ms", kind: numbers, least: 0, doc: "Milliseconds before each retry; the last one repeats."},
		{name: "retry_on", kind: words, doc: "Kinds of errors to retry: TIMEOUT, API_ERROR, RATE_LIMIT, TOOL_ERROR, INVALID_OUTPUT; without it all of them."},
	},
}

var codeShape = &shape{
	what: "code", doc: "A script that does a step.",
	fields: []field{
		{name: "language", kind: word, required: true, doc: "Language of the script, such as python."},
		{name: "script", kind: word, required: true, doc: "The script itself."},
		{name: "dependencies", kind: words, doc: "What must be installed; it is checked before the step, never installed."},
	},
}

var agentShape = &shape{
	what: "agent", doc: "A specialist that steps and workers refer to.",
	fields: []field{
		{name: "id", kind: word, required: true, doc: "Identifier, unique in the workflow, in snake_case."},
		{name: "role", kind: word, required: true, doc: "What this agent does, like a job title."},
		{name: "goal", kind: word, required: true, doc: "What outcome it aims for."},
		{name: "tools", kind: words, doc: "Tools that it may use; without it none."},
		{name: "model", kind: word, doc: "The model to use."},
		{name: "max_tokens", kind: number, least: 1, doc: "Most tokens of one reply."},
		{name: "expected_output", kind: word, remark: true, doc: "What its replies should look like."},
	},
}

var bundleShape = &shape{
	what: "bundle", doc: "Workers that run side by side, and how their results are put together.",
	fields: []field{
		{name: "name", kind: word, required: true, doc: "Identifier that steps refer to, in snake_case."},
		{name: "version", kind: release, remark: true, doc: "Version of the bundle."},
		{name: "budgets", kind: object, shape: workerBudgetsShape, doc: "Limits of each worker."},
		{name: "workers", kind: objects, shape: workerShape, required: true, doc: "Who takes part."},
		{name: "merge", kind: object, shape: mergeShape, required: true, doc: "How results are put together."},
		{name: "worker_output", kind: object, shape: workerOutputShape, doc: "What every worker's result must have."},
	},
}

var workerBudgetsShape = &shape{
	what: "budgets", doc: "Limits of each worker.",
	fields: []field{
		{name: "max_steps_per_worker", kind: number, least: 1, doc: "Most step executions of one worker."},
		{name: "deadline_seconds_per_worker", kind: number, least: 1, doc: "Most seconds of one worker."},
		{name: "max_tokens_per_worker", kind: number, least: 1, doc: "Most tokens of one worker."},
		{name: "max_cost_usd_per_worker", kind: money, doc: "Most dollars of one worker; an extension of Espalier's."},
	},
}

var workerShape = &shape{
	what: "worker", doc: "One worker of a bundle.",
	fields: []field{
		{name: "id", kind: word, required: true, doc: "Identifier, unique in the bundle."},
		{name: "agent", kind: word, doc: "The agent that does the work."},
		{name: "role", kind: word, doc: "What the worker does, when no agent is defined for it."},
		{name: "when", kind: word, condition: true, doc: "Condition; without it the worker always takes part."},
	},
}

var mergeShape = &shape{
	what: "merge", doc: "How the workers' results are put together.",
	fields: []field{
		{name: "strategy", kind: choice, required: true, choices: mergeMethods, doc: "How results are combined."},
		{name: "dedupe_key", kind: words, doc: "Fields that make two items the same one."},
		{name: "conflict", kind: choice, choices: conflictRules, doc: "What a contradiction leads to; fail without it."},
		{name: "critic", kind: word, doc: "The agent that settles contradictions."},
	},
}

var workerOutputShape = &shape{
	what: "worker_output", doc: "What every worker's result must have.",
	fields: []field{
		{name: "format", kind: word, doc: "Name of the result's format, such as agent-flow/worker.v1."},
		{name: "required_fields", kind: words, doc: "Fields that every result must have."},
	},
}

var observabilityShape = &shape{
	what: "observability", doc: "What the audit log must hold.",
	fields: []field{
		{name: "audit_level", kind: word, remark: true, doc: "\"full\" records everything; any other level still records the required events."},
		{name: "log_format", kind: choice, choices: []string{"ndjson"}, doc: "How the log is written."},
		{name: "required_events", kind: words, doc: "Events that the audit log must contain."},
		{name: "required_ids", kind: words, doc: "Ids that the events must carry."},
		{name: "redaction", kind: object, shape: redactionShape, doc: "What must not reach the log."},
	},
}

var redactionShape = &shape{
	what: "redaction", doc: "What must not reach the log.",
	fields: []field{
		{name: "pii", kind: flag, doc: "Hide personal data."},
		{name: "secrets", kind: flag, doc: "Hide keys, tokens and passwords."},
		{name: "patterns", kind: words, doc: "Detectors (email, phone, SSN, credit_card) or regular expressions."},
	},
}

var runtimeShape = &shape{
	what: "runtime", doc: "How long-running workflows pause and go on.",
	fields: []field{
		{name: "checkpoint_after_each_step", kind: flag, doc: "Note a checkpoint after every step."},
		{name: "resume_supported", kind: flag, doc: "Whether a stopped run may be carried on; true without it."},
		{name: "max_concurrency", kind: number, least: 1, doc: "Most workers at the same time."},
		{name: "approval_required", kind: flag, doc: "Whether somebody must approve before a run begins."},
		{name: "human_in_the_loop", kind: flag, doc: "Whether people may pause a run and edit its state."},
		{name: "checkpoints", kind: objects, shape: checkpointShape, doc: "Checkpoints each so many steps."},
		{name: "waitpoints", kind: objects, shape: waitpointShape, doc: "Where a run waits for something from outside."},
	},
}

var checkpointShape = &shape{
	what: "checkpoint", doc: "A regular checkpoint.",
	fields: []field{
		{name: "every", kind: word, required: true, doc: "How often, such as 3_steps."},
	},
}

var waitpointShape = &shape{
	what: "waitpoint", doc: "A place where a run waits for something from outside.",
	fields: []field{
		{name: "id", kind: word, required: true, doc: "Identifier, unique in the workflow."},
		{name: "after_step", kind: word, required: true, doc: "The step after which to wait."},
		{name: "event", kind: word, doc: "The event that lets the run go on."},
		{name: "timeout_seconds", kind: number, least: 1, doc: "Longest wait; without it there is no limit."},
		{name: "on_timeout", kind: choice, choices: timeoutActions, doc: "What happens then; stop without it."},
	},
}

var overrideShape = &shape{
	what: "override", doc: "Replaces a property of the base skill.",
	fields: []field{
		{name: "target", kind: word, required: true, doc: "base_skill.output or base_skill.input."},
		{name: "replace_with", kind: word, required: true, doc: "Path of a JSON Schema file."},
	},
}

// blockShapes are the fences that mean something, in the order in which
// Schemas lists them.
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
		panic(fmt.Sprintf("agentflow: schema of %s: %v", s.what, err)) // only plain data goes in
	}
	return raw
}

// stepConditions says which keys each type of step needs.
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
		out = map[string]any{"type": "integer", "minimum": f.least}
	case money:
		out = map[string]any{"type": "number", "exclusiveMinimum": 0}
	case flag:
		out = map[string]any{"type": "boolean"}
	case numbers:
		one := map[string]any{"type": "integer", "minimum": f.least}
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
