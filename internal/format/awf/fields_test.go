package awf_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/format/awf"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
)

// facts flattens a program to one "what = value" entry per property, prefixed with the step or
// agent that it belongs to.
func facts(t *testing.T, p *ir.Program) map[string]string {
	t.Helper()
	raw, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	var walk func(prefix string, v any)
	list := func(prefix string, items []any) {
		plain := true
		for i, item := range items {
			m, ok := item.(map[string]any)
			if !ok {
				continue
			}
			plain = false
			switch {
			case m["id"] != nil && prefix == "agents":
				walk("agent "+m["id"].(string), m)
			case m["id"] != nil:
				walk(m["id"].(string), m)
			case m["value"] != nil && m["name"] != nil: // a setting, or metadata
				walk(prefix+"."+m["name"].(string), m["value"])
			case m["to"] != nil:
				line, to := "", m["to"].(map[string]any)
				for _, on := range m["on"].([]any) {
					line += on.(string)[:1]
				}
				line += fmt.Sprint(">", to["step"], to["exit"])
				if m["when"] != nil {
					line += " when " + m["when"].(map[string]any)["text"].(string)
				}
				out[prefix] = strings.TrimSpace(out[prefix] + " " + strings.ReplaceAll(line, "<nil>", ""))
			default:
				walk(fmt.Sprintf("%s.%d", prefix, i), m)
			}
		}
		if raw, err := json.Marshal(items); plain && err == nil {
			out[prefix] = string(raw)
		}
	}
	walk = func(prefix string, v any) {
		switch v := v.(type) {
		case map[string]any:
			if v["dialect"] != nil {
				out[prefix] = fmt.Sprint(v["text"])
				return
			}
			for key, one := range v {
				switch key {
				case "span", "places", "sha256", "children":
				case "task", "settings", "schema", "properties", "blocks", "end":
					if list, ok := one.([]any); !ok || key == "settings" {
						walk(prefix, one)
					} else {
						walk(key, list)
					}
				default:
					walk(strings.TrimPrefix(prefix+"."+key, "."), one)
				}
			}
		case []any:
			list(prefix, v)
		case string:
			out[prefix] = v
		default:
			out[prefix] = fmt.Sprint(v)
		}
	}
	walk("", tree)
	return out
}

// has returns the wanted lines "what = value" that are not facts of a program. A line that
// starts with "no " requires the absence of a fact.
func has(t *testing.T, p *ir.Program, want []string) []string {
	t.Helper()
	got := facts(t, p)
	var wrong []string
	for _, line := range want {
		what, value, _ := strings.Cut(line, " = ")
		if absent, ok := strings.CutPrefix(line, "no "); ok {
			if v, there := got[absent]; there {
				wrong = append(wrong, fmt.Sprintf("%s is %q", absent, v))
			}
		} else if v, there := got[what]; !there || v != value {
			wrong = append(wrong, fmt.Sprintf("%s is %q, not %q", what, v, value))
		}
	}
	return wrong
}

// Every key of a state has its effect, in each of its spellings.
func TestStateKeysTakeEffect(t *testing.T) {
	more := files{
		"c.yaml": "name: c\ninputs: [{name: i}, {name: n, type: integer}]\nstates:\n  initial: " +
			"a\n  a: {type: step, command: x, on_success: z}\n  z: {type: terminal}\noutputs: [{name: r, from: " +
			"states.a.Output}]\n",
		".awf/templates/ask.yaml": "name: ask\nstates:\n  s: {type: agent, provider: claude, prompt: of the " +
			"template}\n",
		"s.sh":                      "echo script",
		"p.md":                      "A prompt.",
		"../roles/editor/AGENTS.md": "A role.",
		"review":                    "Skill by name.",
		"deep/SKILL.md":             "Skill by path.",
	}
	for keys, want := range map[string][]string{
		// Keys of every step.
		"type: step, command: c, on_success: z": {
			"x.type = step", "x.kind = command",
			"x.command = c", "x.next = os>z", "no x.timeout", "no x.description",
		},
		"type: command, command: c, on_success: z":              {"x.type = step", "x.kind = command"},
		"type: CoMMand, command: c, on_success: z":              {"x.type = step", "x.kind = command"},
		"type: Step, command: c, on_success: z, description: d": {"x.type = step", "x.description = d"},
		"type: step, command: c, on_success: z, timeout: 90":    {"x.timeout = 90000"},
		"type: step, command: c, on_success: z, timeout: 1m":    {"x.timeout = 60000"},
		"type: step, command: c, on_success: z, timeout: 0":     {"no x.timeout"},
		"type: step, command: c, on_success: z, timeout: '0'":   {"no x.timeout"},
		"type: step, command: c, on_success: z, timeout: 0s":    {"no x.timeout"},
		"type: step, command: c, on_success: z, on_failure: y":  {"x.next = os>z f>y"},
		"type: step, command: c, on_success: z, on_failure: {message: m}": {
			"x.next = os>z f>__inline_error_x", "__inline_error_x.message = m", "__inline_error_x.failed = true",
			"__inline_error_x.status = 1",
		},
		"type: step, command: c, on_success: z, on_failure: {message: m, status: 255}": {
			"__inline_error_x.status = 255",
		},
		"type: step, command: c, on_success: z, continue_on_error: true, on_failure: y":  {"x.next = osf>z"},
		"type: step, command: c, on_success: z, continue_on_error: false, on_failure: y": {"x.next = os>z f>y"},
		"type: step, command: c, transitions: [{when: inputs.t == 1, goto: y}, {goto: z}]": {
			"x.next = osf>y when inputs.t == 1 osf>z",
		},
		"type: step, command: c, on_success: z, retry: {}": {
			"x.retry.max_attempts = 1", "x.retry.backoff = constant",
		},
		"type: step, command: c, on_success: z, retry: {max_attempts: 4, initial_delay: 5ms}": {
			"x.retry.max_attempts = 4", "x.retry.delays = [5]", "no x.retry.max_delay", "no x.retry.multiplier",
		},
		"type: step, command: c, on_success: z, retry: {max_attempts: 2, max_delay: 2s}": {
			"x.retry.max_delay = 2000", "no x.retry.delays",
		},
		"type: step, command: c, on_success: z, retry: {initial_delay: 0s, max_delay: 0}": {
			"no x.retry.max_delay", "no x.retry.delays",
		},
		"type: step, command: c, on_success: z, retry: {backoff: linear, jitter: 0.25}": {
			"x.retry.backoff = linear", "x.retry.jitter = 0.25",
		},
		"type: step, command: c, on_success: z, retry: {backoff: constant, jitter: 0}": {
			"x.retry.backoff = constant", "no x.retry.jitter",
		},
		"type: step, command: c, on_success: z, retry: {backoff: exponential, multiplier: 1.5}": {
			"x.retry.backoff = exponential", "x.retry.multiplier = 1.5",
		},
		"type: step, command: c, on_success: z, retry: {jitter: 1, multiplier: 1000}": {
			"x.retry.jitter = 1", "x.retry.multiplier = 1000",
		},
		"type: step, command: c, on_success: z, retry: {retryable_exit_codes: [75, 1]}": {
			"x.retry.exit_codes = [75,1]",
		},
		"type: step, command: c, on_success: z, hooks: {pre: [{log: l}, {command: k, timeout: 2s}]}": {
			"x:pre.hooks.0.log = l", "x:pre.hooks.1.command = k", "x:pre.hooks.1.timeout = 2000",
			"x:pre.next = osf>x", "x.next = os>z",
		},
		"type: step, command: c, on_success: z, hooks: {post: {log: l, command: k}}": {
			"x:post.hooks.0.log = l",
			"no x:post.hooks.0.command", "x.next = os>x:post f>x:post-failed",
		},
		"type: step, command: c, on_success: z, hooks: {pre: k}": {"x:pre.hooks.0.command = k"},
		"type: step, command: c, on_success: z, pre_hook: k, post_hook: [l, m]": {
			"x:pre.hooks.0.command = k",
			"x:post.hooks.0.command = l", "x:post.hooks.1.command = m",
		},
		"type: step, command: c, on_success: z, pre_hook: {log: k}, hooks: {pre: l, post: m}, post_hook: n": {
			"x:pre.hooks.0.command = l", "x:pre.hooks.1.log = k", "x:post.hooks.0.command = m",
			"x:post.hooks.1.command = n",
		},

		"type: step, command: c, on_success: z, use_template: ~, parameters: ~": {"x.command = c"},

		// Commands.
		"type: step, command: c, on_success: z, dir: /d, shell: /bin/bash": {"x.dir = /d", "x.shell = /bin/bash"},
		"type: step, script_file: s.sh, on_success: z":                     {"x.script = echo script", "no x.command"},
		"type: step, command: c, on_success: z, timeout: '{{.inputs.t}}'":  {"x.timeout = {{.inputs.t}}"},

		// Ends.
		"type: terminal": {"x.type = terminal", "no x.failed"},
		"type: TERMINAL, status: success, message: m": {"x.type = terminal", "no x.failed"},
		"type: terminal, status: failure, message: m, description: d": {
			"x.failed = true", "x.message = m",
			"x.description = d",
		},

		// Branches.
		"type: parallel, parallel: [y, w], on_success: z": {
			"x.parallel.join = all",
			"x.parallel.branches.0.name = y", "x.parallel.branches.1.name = w", "no x.parallel.max_concurrent",
		},
		"type: parallel, parallel: y, on_success: z":                          {"x.parallel.branches.0.name = y"},
		"type: parallel, parallel: [y], strategy: all_succeed, on_success: z": {"x.parallel.join = all"},
		"type: parallel, parallel: [y], strategy: any_succeed, on_success: z": {"x.parallel.join = any"},
		"type: parallel, parallel: [y], strategy: best_effort, on_success: z": {"x.parallel.join = best"},
		"type: parallel, parallel: [y], max_concurrent: 3, on_success: z":     {"x.parallel.max_concurrent = 3"},
		"type: parallel, parallel: [y], max_concurrent: 0, on_success: z":     {"no x.parallel.max_concurrent"},
		"type: parallel, steps: [y, w], on_success: z": {
			"x.parallel.branches.0.name = y",
			"x.parallel.branches.1.name = w",
		},
		"type: parallel, parallel: [{name: n, command: c, dir: /d}, {command: k}], on_success: z": {
			"x.parallel.branches.0.name = n", "n.command = c", "n.dir = /d", "n.type = step",
			"x.parallel.branches.1.name = x_2", "x_2.command = k",
		},
		"type: parallel, steps: [{name: n, type: agent, provider: claude, prompt: p}], on_success: z": {
			"x.parallel.branches.0.name = n", "n.type = agent", "n.prompt = p",
		},

		"type: parallel, steps: [{name: n, use_template: ask}, {name: m, use_template: ask, type: agent, prompt: " +
			"own}], on_success: z": {"n.type = agent", "n.prompt = of the template", "m.prompt = own"},

		// Loops.
		"type: for_each, items: [a, 1], body: [y, w], on_complete: z": {
			"x.type = for_each", `x.loop.each.items = ["a",1]`, "x.loop.max = 10000", "x.next = os>z",
			"y.command = y", "w.command = w", "no x.loop.while",
		},
		"type: for_each, items: 'a, b', body: y, on_success: z": {
			"x.loop.each.items = a, b", "x.next = os>z",
		},
		"type: for_each, items: '{{.inputs.t}}', body: [y], on_complete: z, on_success: y": {
			"x.loop.each.items = {{.inputs.t}}", "x.next = os>z",
		},
		"type: for_each, items: [a], body: [y], on_complete: z, on_failure: w": {
			"x.next = os>z f>w",
		},
		"type: for_each, items: [a], body: [y], on_complete: z, max_iterations: 10000": {
			"x.loop.max = 10000", "no x.loop.max_expr",
		},
		"type: for_each, items: [a], body: [y], on_complete: z, max_iterations: 7": {
			"x.loop.max = 7",
		},
		"type: for_each, items: [a], body: [y], on_complete: z, max_iterations: '{{.inputs.t}}'": {
			"x.loop.max = 10000", "x.loop.max_expr = {{.inputs.t}}",
		},
		"type: for_each, items: [a], body: [y], on_complete: z, break_when: loop.Index == 1": {
			"x.loop.break_when = loop.Index == 1",
		},
		"type: while, while: loop.Index < 2, body: [y], on_complete: z, break_when: 'inputs.t == 1'": {
			"x.loop.while = loop.Index < 2", "x.loop.break_when = inputs.t == 1", "x.loop.max = 100",
		},
		"type: while, while: true, body: [y], on_complete: z, max_iterations: 3": {
			"x.loop.while = true", "x.loop.max = 3",
		},
		"type: while, until: loop.Index == 2, body: [y], on_complete: z": {
			"no x.loop.while", "x.loop.break_when = loop.Index == 2",
		},

		// Operations.
		"type: operation, operation: a.b, inputs: {k: v}, on_success: z, timeout: '{{.inputs.t}}'": {
			"x.kind = operation", "x.operation = a.b", "x.inputs.k = v", "x.timeout = {{.inputs.t}}",
		},
		"type: operation, operation: a.b, operation_inputs: {k: v}, on_success: z": {"x.inputs.k = v"},

		// Calls.
		"type: call_workflow, workflow: c, inputs: {i: v, n: 3}, outputs: {r: got}, timeout: 2s, on_success: z": {
			"x.call.inputs.i = v", "x.call.inputs.n = 3", `x.call.outputs.got = output["r"]`, "x.timeout = 2000",
		},
		"type: call_workflow, call_workflow: {workflow: c, inputs: {i: v}, outputs: {got: r}, timeout: 2s}, " +
			"on_success: z": {
			"x.call.inputs.i = v", `x.call.outputs.got = output["r"]`, "x.timeout = 2000",
		},

		// Agents.
		"type: agent, provider: claude, prompt: p, on_success: z": {
			"x.kind = conversation", "agent x.provider = claude", "x.prompt = p", "no x.keep", "no x.format",
			"no x.system",
		},
		"type: agent, provider: github_copilot, initial_prompt: p, on_success: z": {
			"agent x.provider = github_copilot", "x.prompt = p",
		},
		"type: agent, provider: mistral_vibe, prompt_file: p.md, on_success: z": {
			"agent x.provider = mistral_vibe", "x.prompt = A prompt.",
		},
		"type: agent, provider: '{{.inputs.t}}', prompt: p, on_success: z": {
			"no agent x.provider", "agent x.late = true", "x.provider = {{.inputs.t}}",
		},
		"type: agent, provider: claude, prompt: p, mode: single, on_success: z":       {"no x.keep"},
		"type: agent, provider: claude, prompt: p, mode: conversation, on_success: z": {"x.dialog = x"},
		"type: agent, provider: claude, prompt: p, conversation: {}, on_success: z": {
			"x.keep = true",
			"no x.continue_from",
		},
		"type: agent, provider: claude, prompt: p, conversation: {continue_from: v}, on_success: z": {
			"x.keep = true",
			"x.continue_from = v", "v.keep = true",
		},
		"type: agent, provider: claude, prompt: p, system_prompt: s, on_success: z": {"x.system = s"},
		"type: agent, provider: claude, prompt: p, role: editor, on_success: z": {
			"x.system = A role.",
		},
		"type: agent, provider: claude, prompt: p, role: editor, system_prompt: s, on_success: z": {
			"x.system = A role.\n\ns",
		},
		"type: agent, provider: claude, prompt: p, output_format: json, on_success: z": {
			"x.format = json",
		},
		"type: agent, provider: claude, prompt: p, output_format: text, on_success: z": {
			"x.format = text",
		},
		"type: agent, provider: claude, prompt: p, options: {model: m, seed: 4}, on_success: z": {
			"agent x.model = m", "agent x.options.seed = 4",
		},
		"type: agent, provider: claude, prompt: p, skills: [review, {path: deep}, {name: review}], on_success: z": {
			"x.skills.0.name = review", "x.skills.0.text = Skill by name.", "x.skills.1.name = deep",
			"x.skills.1.text = Skill by path.", "x.skills.2.text = Skill by name.",
		},
		"type: agent, provider: claude, prompt: p, skills: review, on_success: z": {
			"x.skills.0.name = review",
		},
		"type: agent, provider: claude, prompt: p, skills: [{path: deep/SKILL.md, name: other}], on_success: z": {
			"x.skills.0.name = other", "x.skills.0.text = Skill by path.",
		},
		"type: agent, provider: openai_compatible, prompt: p, mcp_proxy: {enable: true, intercept_builtins: " +
			"true}, on_success: z": {"agent x.tools.5.name = Grep"},
		"type: agent, provider: openai_compatible, prompt: p, on_success: z": {"no agent x.tools.0.name"},
	} {
		text := "name: f\ninputs: [{name: t, type: integer, default: 1}]\nstates:\n  initial: v\n  v: {type: " +
			"agent, provider: codex, prompt: q, on_success: x, on_failure: y}\n  x: {" + keys + "}\n" +
			"  y: {type: step, command: y, on_success: z}\n  w: {type: step, command: w, on_success: z}\n  z: " +
			"{type: terminal}\n"
		p, list := compile(text, more)
		for _, d := range list {
			if d.Code != awf.CodeIgnoredWay && d.Code != awf.CodeSeconds {
				t.Errorf("%s: %s %s", keys, d.Code, d.Message)
			}
		}
		if wrong := has(t, p, want); len(wrong) > 0 {
			t.Errorf("%s: %s", keys, strings.Join(wrong, "; "))
		}
	}
}

// Every key of a workflow has its effect, in each of its spellings.
func TestWorkflowKeysTakeEffect(t *testing.T) {
	const states = "states:\n  initial: a\n  a: {type: step, command: x, on_success: z, on_failure: b}\n  b: " +
		"{type: terminal, status: failure}\n  z: {type: terminal}\n"
	for text, want := range map[string][]string{
		"name: f\n" + states: {
			"name = f", "no version", "no input.required", "no on_cancel", "input.type = object",
			"input.additionalProperties = false", "no a.export",
		},
		"name: f\ninputs: [{name: b}, {name: a}]\n" + states: {
			`a.export = ["a","b"]`, "no input.b.description",
			"no input.a.default",
		},
		"name: f\nversion: 1.10\ndescription: d\nauthor: me\ntags: [p, q]\nenv: [HOME]\n" + states: {
			"version = 1.10", "description = d", `meta.tags = ["p","q"]`, "meta.author = me", "meta.version = 1.1",
		},
		states + "version: '1.0'\n" + "name: g\n": {
			"name = g", "version = 1.0",
			"meta.version = 1.0",
		},
		"name: f\ninitial: b\nstates:\n  b: {type: terminal, status: failure}\n": {"b.failed = true"},

		// Hooks.
		"name: f\nhooks: {workflow_start: [{command: k}]}\n" +
			states: {
			"workflow:start.hooks.0.command = k", "workflow:start.strict = true",
			"workflow:start.next = os>a",
		},
		"name: f\nhooks: {workflow_end: k}\n" + states: {
			"z:pre.hooks.0.command = k",
			"a.next = os>z:pre f>b",
		},
		"name: f\nhooks: {workflow_error: {log: l, command: k}}\n" + states: {
			"b:pre.hooks.0.log = l",
			"no b:pre.hooks.0.command", "a.next = os>z f>b:pre",
		},
		"name: f\nhooks: {workflow_cancel: [{command: k, timeout: 3}]}\n" +
			states: {
			"on_cancel = workflow:cancel", "workflow:cancel.hooks.0.command = k",
			"workflow:cancel.hooks.0.timeout = 3000",
		},

		// Inputs.
		"name: f\ninputs: [{name: n, type: integer, required: true, description: d}]\n" +
			states: {
			"input.n.type = integer", `input.required = ["n"]`, "input.n.description = d",
			"no input.n.default",
		},
		"name: f\ninputs: [{name: n, type: boolean, required: false}]\n" +
			states: {"input.n.type = boolean", "no input.required"},
		"name: f\ninputs: [{name: n, type: string, default: 5, required: true}]\n" +
			states: {"input.n.type = string", "input.n.default = 5", "no input.required"},
		"name: f\ninputs: [{name: n, type: '', default: [1, a]}]\n" +
			states: {"no input.n.type", `input.n.default = [1,"a"]`},
		"name: f\ninputs: [{name: n, type: integer, default: '7'}]\n" +
			states: {"input.n.default = 7"},
		"name: f\ninputs: [{name: n, type: boolean, default: 'true'}]\n" +
			states: {"input.n.default = true"},
		"name: f\ninputs: [{name: n, validation: {pattern: '^a+$'}}]\n" +
			states: {
			"input.n.pattern = ^a+$", "no input.n.enum", "no input.n.minimum",
			"no input.n.maximum",
		},
		"name: f\ninputs: [{name: n, type: string, validation: {enum: [a, 1]}}]\n" +
			states: {`input.n.enum = ["a","1"]`},
		"name: f\ninputs: [{name: n, type: integer, validation: {enum: [1, '2'], min: -3, max: 0}}]\n" +
			states: {"input.n.enum = [1,2]", "input.n.minimum = -3", "input.n.maximum = 0"},
		"name: f\ninputs: [{name: n, validation: {file_extension: [.go, .md]}}]\n" +
			states: {`input.n.pattern = (\.go|\.md)$`},
		"name: f\ninputs: [{name: n, validation: {file_extension: .go, pattern: '^a'}}]\n" +
			states: {
			"input.n.allOf.0.pattern = ^a", `input.n.allOf.1.pattern = (\.go)$`,
			"no input.n.pattern",
		},
		"name: f\ninputs: [{name: n, validation: {file_exists: true}}]\n" +
			states: {
			`inputs:files.files = ["{{.inputs.n}}"]`,
			"inputs:files.strict = true", "inputs:files.next = os>a",
		},
		"name: f\ninputs: [{name: n, validation: {file_exists: false}}]\n" +
			states: {"no inputs:files.files"},

		// Outputs.
		"name: f\noutputs: [{name: r, from: states.a.Output, description: d, type: string}]\n" +
			states: {`z.result = {"r":"states.a.Output"}`},
		"name: f\noutputs: [{name: r, value: states.a.Stderr}]\n" +
			states: {`z.result = {"r":"states.a.Stderr"}`},
		"name: f\noutputs: [{name: a}, {name: r, from: states.a.Output}]\n" +
			states: {`z.result = {"a":"states.a.Output","r":"states.a.Output"}`},
		"name: f\noutputs: {a: ~, r: {from: states.a.ExitCode}, s: {value: states.a.Stderr, description: d}}\n" +
			states: {
			`z.result = {"a":"states.a.Output","r":"states.a.ExitCode","s":"states.a.Stderr"}`,
		},
		"name: f\ninitial: a\nstates:\n  initial: ~\n  a: {type: terminal}\n": {"a.type = terminal"},
		"name: f\noutputs: {r: states.a.ExitCode}\n" + states:                 {`z.result = {"r":"states.a.ExitCode"}`},
	} {
		p, list := compile(text, nil)
		for _, d := range list {
			t.Errorf("%s: %s %s", text, d.Code, d.Message)
		}
		if wrong := has(t, p, want); len(wrong) > 0 {
			t.Errorf("%s: %s", text, strings.Join(wrong, "; "))
		}
	}
}

// Invalid keys and values are reported once, at their position.
func TestReportsInvalidStateKeys(t *testing.T) {
	for keys, want := range map[string]string{
		// Missing keys.
		"type: step, dir: d": `error AWF001 type: The state "x" has no "command".`,
		"type: step, command: ''": `error AWF001 command: "command" of the state ` +
			`"x" is empty.`,
		"type: step, comand: c": `error AWF001 type: The state "x" has no ` +
			`"command".; warning AWF003 comand: Unknown key "comand" in the state "x".`,
		"type: operation": `error AWF001 type: The state "x" has no ` +
			`"operation".`,
		"type: call_workflow, inputs: {}": `error AWF001 type: The state "x" has no ` +
			`"workflow".`,
		"type: call_workflow, call_workflow: {inputs: {}}": `error AWF001 inputs: The call_workflow has no ` +
			`"workflow".`,
		"type: call_workflow, call_workflow: {workflow: c, k: v}": `warning AWF003 k: Unknown key "k" in the call_workflow.`,
		"type: parallel": `error AWF001 type: The state "x" has no ` +
			`"parallel".`,
		"type: parallel, parallel: []": `error AWF001 parallel: "parallel" of the ` +
			`state "x" is empty.`,
		"type: parallel, steps: []": `error AWF001 steps: "steps" of the state "x" ` +
			`is empty.`,
		"type: parallel, parallel: ''": `error AWF001 parallel: "parallel" of the ` +
			`state "x" is empty.`,
		"type: for_each, items: [1]": `error AWF001 type: The state "x" has no "body".`,
		"type: for_each, items: [1], body: []": `error AWF001 body: "body" of the state "x" is ` +
			`empty.`,
		"type: for_each, body: [y]": `error AWF001 type: The state "x" has no "items".`,
		"type: while, body: [y]":    `error AWF001 type: The state "x" has no "while".`,
		"type: agent, prompt: p": `error AWF001 type: The state "x" has no ` +
			`"provider".`,
		"type: agent, provider: claude": `error AWF001 type: The state "x" has no "prompt".`,
		"type: agent, provider: claude, prompt: ''": `error AWF001 prompt: "prompt" of the state ` +
			`"x" is empty.`,
		"type: agent, provider: claude, prompt: p, skills: [{}]": `error AWF001 {}: The skill has no "name".`,
		"type: step, command: c, transitions: [{when: 'true'}]":  `error AWF001 when: The transition has no "goto".`,
		"type: step, command: c, hooks: {pre: [~]}":              `warning AWF001 ~: The hook has no effect.`,

		"type: step, command: c, transitions: [{when: 'true'}, {goto: ''}]": `error AWF001 when: The transition ` +
			`has no "goto".; error AWF001 goto: "goto" of the transition is empty.`,

		// Unknown keys.
		"type: terminal, timeout: 3": `warning AWF003 timeout: ` +
			`Unknown key "timeout" in the state "x".; warning AWF003 on_success: Unknown key "on_success" in the state "x".`,
		"type: step, command: c, transitions: [{goto: z, wen: 'true'}]": `warning AWF003 wen: Unknown ` +
			`key "wen" in the transition.`,
		"type: step, command: c, on_failure: {message: m, staus: 3}": `warning AWF003 staus: Unknown ` +
			`key "staus" in the on_failure.`,
		"type: step, command: c, retry: {attempts: 3}": `warning AWF003 attempts: ` +
			`Unknown key "attempts" in the retry.`,
		"type: step, command: c, hooks: {pre: [{comand: k, log: l}]}": `warning AWF003 comand: ` +
			`Unknown key "comand" in the pre hook.`,
		"type: step, command: c, hooks: {post: [{log: l, x: 1}]}": `warning AWF003 x: Unknown ` +
			`key "x" in the post hook.`,
		"type: step, command: c, pre_hook: {log: l, x: 1}, post_hook: {log: l, y: 1}": `warning AWF003 x: Unknown ` +
			`key "x" in the pre_hook hook.; warning AWF003 y: Unknown key "y" in the post_hook hook.`,
		"type: step, command: c, hooks: {before: []}": `warning AWF003 before: ` +
			`Unknown key "before" in the block "hooks".`,
		"type: agent, provider: claude, prompt: p, conversation: {from: y}": `warning AWF003 from: Unknown ` +
			`key "from" in the conversation.`,
		"type: agent, provider: claude, prompt: p, skills: [{name: r, pth: x}]": `warning AWF003 pth: Unknown ` +
			`key "pth" in the skill.`,
		"type: agent, provider: claude, prompt: p, mcp_proxy: {enable: true, k: 1}": `error AWF003 k: Unknown ` +
			`key "k" in the mcp_proxy.`,

		"type: agent, provider: claude, prompt: p, mcp_proxy: {enable: true, intercept_builtins: false}": `error ` +
			`AWF004 false: "intercept_builtins: false" leaves the proxy without tools.`,
		"type: agent, provider: claude, prompt: p, mcp_proxy: {plugin_tools: [{plugin: a}, {plugin: a}]}": `warning ` +
			`AWF007 plugin_tools: Tools of AWF plugins are not available.; error AWF009 a: Plugin "a" is listed twice.`,
		"type: for_each, items: [a, b, c], max_iterations: 2, body: [y], on_complete: z": `warning AWF004 [a, b, c]: ` +
			`The list has 3 items, but "max_iterations" is 2, so the loop fails after 2 of them.`,
		`type: for_each, items: [a, b, c], max_iterations: "2", body: [y], on_complete: z`: `warning AWF004 [a, b, c]: ` +
			`The list has 3 items, but "max_iterations" is 2, so the loop fails after 2 of them.`,
		`type: for_each, items: "a, b, c", max_iterations: 2, body: [y], on_complete: z`: `warning AWF004 a, b, c: ` +
			`The list has 3 items, but "max_iterations" is 2, so the loop fails after 2 of them.`,

		// Keys without effect.
		"type: agent, provider: claude, prompt: p, conversation: {max_turns: 1, stop_condition: s, " +
			"max_context_tokens: 1, strategy: s}": `note AWF008 max_turns: "max_turns" has no effect.; ` +
			`note AWF008 stop_condition: "stop_condition" has no effect.; note AWF008 max_context_tokens: ` +
			`"max_context_tokens" has no effect.; note AWF008 strategy: "strategy" has no effect.`,
		"type: agent, provider: claude, prompt: p, initial_prompt: q": `warning AWF008 ` +
			`initial_prompt: "initial_prompt" has no effect: "prompt" takes precedence.`,
		"type: agent, provider: claude, prompt: p, mcp_proxy: {plugin_tools: []}": `warning AWF007 ` +
			`plugin_tools: Tools of AWF plugins are not available.`,
		"type: operation, operation: a.b, inputs: {k: v}, operation_inputs: {k: v}": `warning AWF008 ` +
			`operation_inputs: "operation_inputs" has no effect: "inputs" takes precedence.`,
		"type: parallel, parallel: [y], steps: [z]": `warning AWF008 steps: ` +
			`"steps" has no effect: "parallel" takes precedence.`,
		"type: call_workflow, call_workflow: {workflow: c}, workflow: d": `warning AWF003 workflow: ` +
			`Unknown key "workflow" in the state "x".`,

		// Contradictions.
		"type: while, while: 'true', until: 'true', body: [y]": `error AWF014 until: "until" is ` +
			`combined with another condition.`,
		"type: while, until: 'true', break_when: 'true', body: [y]": `error AWF014 until: "until" is ` +
			`combined with another condition.`,
		"type: parallel, parallel: [{name: y, command: k, on_success: z}]": `error AWF009 y: Duplicate state "y".`,
		"type: parallel, parallel: [{name: v, command: k}]":                `error AWF009 v: Duplicate state "v".`,

		// Invalid values.
		"type: step, command: c, timeout: 1.5": `error AWF004 1.5: "timeout" ` +
			`has an invalid value: "1.5".`,
		"type: step, command: c, timeout: -1": `error AWF004 -1: "timeout" ` +
			`has an invalid value: "-1".`,
		"type: step, command: c, timeout: '-1'": `error AWF004 -1: "timeout" ` +
			`has an invalid value: "-1".`,
		"type: step, command: c, timeout: -1s": `error AWF004 -1s: "timeout" ` +
			`has an invalid value: "-1s".`,
		"type: step, command: c, timeout: soon": `error AWF004 soon: "timeout" ` +
			`has an invalid value: "soon".`,
		"type: step, command: c, timeout: [1]": `error AWF004 [1]: "timeout" ` +
			`has an invalid value: a list.`,
		"type: step, command: c, timeout: 9223372037": `error AWF004 9223372037: ` +
			`"timeout" has an invalid value: "9223372037".`, // exceeds time.Duration
		"type: step, command: c, retry: {initial_delay: '{{.inputs.t}}'}": `error AWF004 {{.inputs.t}}: ` +
			`"initial_delay" cannot be a template.`,
		"type: step, command: c, retry: {multiplier: -0.1}": `error AWF004 -0.1: ` +
			`"multiplier" has an invalid value: "-0.1".`,
		"type: step, command: c, retry: {multiplier: 1000.1}": `error AWF004 1000.1: ` +
			`"multiplier" has an invalid value: "1000.1".`,
		"type: step, command: c, retry: {multiplier: nan}": `error AWF004 nan: ` +
			`"multiplier" has an invalid value: "nan".`,
		"type: step, command: c, retry: {jitter: 1.1}": `error AWF004 1.1: "jitter" ` +
			`has an invalid value: "1.1".`,
		"type: step, command: c, retry: {jitter: much}": `error AWF004 much: "jitter" ` +
			`has an invalid value: "much".`,
		"type: step, command: c, retry: {max_delay: 5, initial_delay: 0}": `note AWF015 5: "max_delay" ` +
			`means 5 seconds.`,
		"type: step, command: c, retry: {retryable_exit_codes: [1, x, '2', 1.5]}": `error AWF002 x: The exit code ` +
			`is not an integer.; error AWF002 2: The exit code is not an integer.; error AWF002 1.5: The exit ` +
			`code is not an integer.`,
		"type: step, command: c, hooks: {pre: [5]}": `error AWF002 5: The pre hook ` +
			`must be a map, but this is an integer.`,
		"type: step, command: c, use_template: [t]": `error AWF002 [t: ` +
			`"use_template" of the state "x" must be a string, but this is a list.`,
		"type: step, command: c, on_failure: {message: m, status: 256}": `warning AWF004 256: 256 is ` +
			`not a valid exit code for a failure, so 1 is used.`,
		"type: step, command: c, on_failure: {message: m, status: bad}": `error AWF002 bad: "status" of ` +
			`the on_failure must be an integer, but this is a string.`,
		"type: parallel, parallel: [y, ~, [z]]": `error AWF002 ~: The branch is ` +
			`not the name of a state.; error AWF002 [z]: The branch is not the name of a state.`,
		"type: parallel, parallel: [y], max_concurrent: -1": `error AWF004 -1: ` +
			`"max_concurrent" of the state "x" must be at least 0.`,
		"type: while, while: 'true', body: [y], max_iterations: true": `error AWF004 true: ` +
			`"max_iterations" has an invalid value: true.`,
		"type: agent, provider: claude, prompt: p, skills: [r, ~, [s]]": `error AWF002 ~: The skill is ` +
			`neither a name nor a map with "path".; error AWF002 [s]: The skill is neither a name nor a map with ` +
			`"path".`,
	} {
		text := "name: f\ninputs: [{name: t}]\nstates:\n  initial: v\n  v: {type: step, command: v, on_success: " +
			"x, on_failure: y}\n  x: {" + keys + ", on_success: z}\n  y: {type: step, command: y, on_success: " +
			"z}\n  z: {type: terminal}\n"
		_, list := compile(text, files{
			"c.yaml": "name: c\nstates:\n  initial: z\n  z: {type: terminal}\n",
			"r":      "A skill.",
		})
		if got := marked(text, list); got != want {
			t.Errorf("%s:\n got %s\nwant %s", keys, got, want)
		}
	}
}

// marked formats diagnostics on one line, with the text that they mark. It omits those about
// transitions out of loops and branches, which these tests do not cover.
func marked(text string, list diag.List) string {
	var out []string
	for _, d := range list {
		if d.Code != awf.CodeIgnoredWay {
			out = append(out, fmt.Sprintf("%s %s %s: %s", d.Severity, d.Code, text[d.Span.Start:d.Span.End], d.Message))
		}
	}
	return strings.Join(out, "; ")
}

// Invalid parts of a whole file are reported once, at their position.
func TestReportsInvalidWorkflows(t *testing.T) {
	const states = "states:\n  initial: z\n  z: {type: terminal}\n"
	for text, want := range map[string]string{
		"- a\n": `error AWF002 - a: The workflow is a list, not a map.`,
		"":      `error AWF002 : The workflow is empty, not a map.`,
		"{}\n": `error AWF001 {}: The workflow has no "name".; error AWF001 {}: The ` +
			`workflow has no "states".`,
		"name: f\nstates: {}\n": `error AWF006 name: The workflow has no states.; error AWF001 states: ` +
			`"states" has no initial state.`,
		"name: f\nauthr: me\n" + states:                            `warning AWF003 authr: Unknown key "authr" in the workflow.`,
		"name: f\nstates:\n  initial:\n  z: {type: terminal}\n":    `error AWF001 states: "states" has no initial state.`,
		"name: f\nstates:\n  initial: ~\n  z: {type: terminal}\n":  `error AWF001 states: "states" has no initial state.`,
		"name: f\nstates:\n  initial: ''\n  z: {type: terminal}\n": `error AWF001 states: "states" has no initial state.`,
		"name: f\nstates:\n  initial: z\n  z:\n":                   `error AWF001 z: The state "z" has no "type".`,
		"name: f\nstates:\n  initial: x\n  x: {type: stp, on_success: nowhere, on_failure: neither}\n": `error AWF004 stp: "stp" is not a step type.; error AWF005 nowhere: State "x" leads to "nowhere", ` +
			`which is not defined.; error AWF005 neither: State "x" leads to "neither", which is not defined.`,
		"name: f\nstates:\n  initial: x\n  x: {use_template: none, on_success: nowhere}\n": `error AWF018 none: Template "none" does not exist.; error AWF005 nowhere: State "x" leads to ` +
			`"nowhere", which is not defined.`,
		"name: f\nstates:\n  initial: [z]\n  z: {type: terminal}\n":         `error AWF002 [z: "initial" of the block "states" must be a string, but this is a list.`,
		"name: f\nstates:\n  initial: z\n  '': {}\n  z: {type: terminal}\n": `error AWF004 : The state has no name.`,
		"name: f\nhooks: {workflow_end: [{log: l, x: 1}], on_end: k}\n" +
			states: `warning AWF003 x: Unknown key "x" in the workflow_end hook.; warning ` +
			`AWF003 on_end: Unknown key "on_end" in the block "hooks".`,

		"name: f\ninputs: [{type: string}]\n" +
			states: `error AWF001 type: The input has no "name".`,
		"name: f\ninputs: [{name: ''}, {name: ''}]\n" +
			states: `error AWF001 name: "name" of the input is empty.; error ` +
			`AWF001 name: "name" of the input is empty.`,
		"name: f\noutputs: [{name: ''}, {name: ''}]\n" +
			states: `error AWF001 name: "name" of the output is empty.; error ` +
			`AWF001 name: "name" of the output is empty.`,
		"name: f\ninputs: [{name: n, requird: true}]\n" +
			states: `warning AWF003 requird: Unknown key "requird" in the input.`,
		"name: f\ninputs: [{name: n, validation: {patern: x}}]\n" +
			states: `warning AWF003 patern: Unknown key "patern" in the validation.`,
		"name: f\ninputs: [{name: n, validation: {pattern: '('}}]\n" +
			states: `error AWF004 (: "(" is not a valid regular expression.`,
		"name: f\ninputs: [{name: n, type: integer, default: many}]\n" +
			states: `error AWF004 many: The default of input "n" is not an integer.`,
		"name: f\ninputs: [{name: n, type: integer, default: [1]}]\n" +
			states: `error AWF004 [1]: The default of input "n" is not an integer.`,
		"name: f\ninputs: [{name: n, type: boolean, default: perhaps}]\n" +
			states: `error AWF004 perhaps: The default of input "n" is not true or false.`,
		"name: f\ninputs: [{name: n, type: boolean, default: {a: 1}}]\n" +
			states: `error AWF004 {a: 1}: The default of input "n" is not true or false.`,
		"name: f\ninputs: [{name: n, type: integer, validation: {enum: [1, two, [3]]}}]\n" +
			states: `warning AWF004 two: Input "n" can never have this value: it is not an integer.; warning ` +
			`AWF004 [3]: Input "n" can never have this value: it is not an integer.`,
		"name: f\ninputs: [{name: n, type: integer, validation: {enum: [two]}}]\n" +
			states: `warning AWF004 two: Input "n" can never have this value: it is not an integer.`,
		"name: f\ninputs: [{name: n, validation: {min: 1}}]\n" +
			states: `warning AWF008 min: "min" has no effect: it applies to integers, ` +
			`and the input "n" is a string.`,
		"name: f\ninputs: [{name: n, type: string, validation: {max: 1}}]\n" +
			states: `warning AWF008 max: "max" has no effect: it applies to integers, and the input ` +
			`"n" is a string.`,
		"name: f\ninputs: [{name: n, type: boolean, validation: {pattern: a, max: 1}}]\n" +
			states: `warning AWF008 pattern: "pattern" has no effect: it applies to strings, and the input "n" is ` +
			`true or false.; warning AWF008 max: "max" has no effect: it applies to integers, and the input ` +
			`"n" is true or false.`,
		"name: f\ninputs: [{name: n, type: integer, validation: {file_extension: .a}}]\n" +
			states: `warning AWF008 file_extension: "file_extension" has no effect: it applies to strings, and ` +
			`the input "n" is an integer.`,
		"name: f\ninputs: [{name: n, type: number, validation: {min: 1}}]\n" +
			states: `error AWF004 number: "type" of the input cannot be "number".`,

		"name: f\noutputs: [{from: '1'}]\n" +
			states: `error AWF001 from: The output has no "name".`,
		"name: f\noutputs: [{name: r, from: '1', form: x}]\n" +
			states: `warning AWF003 form: Unknown key "form" in the output.`,
		"name: f\noutputs: [{name: r, from: '1', value: '2'}]\n" +
			states: `warning AWF008 value: "value" has no effect: "from" takes precedence.`,
		"name: f\noutputs: [{name: r, from: '1'}, {name: r, from: '2'}]\n" +
			states: `warning AWF009 r: Duplicate output "r": this one is ignored.`,
		"name: f\noutputs: {r: {form: '1', from: '1'}}\n" +
			states: `warning AWF003 form: Unknown key "form" in the output.`,
		"name: f\noutputs: {r: ['1']}\n" +
			states: `error AWF002 ['1']: The output must be a map, but this is ` +
			`a list.`,
		"name: f\noutputs: r\n" + states: `error AWF002 r: "outputs" ` +
			`of the workflow is not a list.`,
	} {
		_, list := compile(text, nil)
		if got := marked(text, list); got != want {
			t.Errorf("%s:\n got %s\nwant %s", text, got, want)
		}
	}
}

// The diagnostic for a state without a type suggests one.
func TestSuggestsMissingType(t *testing.T) {
	for keys, want := range map[string]string{
		"command: c": "step", "script_file: s.sh": "step", "provider: claude": "agent",
		"prompt: p, provider: claude": "agent", "prompt: p": "agent", "parallel: [z]": "parallel",
		"items: [1], body: [z]": "for_each", "while: 'true', body: [z]": "while", "until: 'true', body: [z]": "while",
		"operation: a.b": "operation", "workflow: c": "call_workflow",
		"call_workflow: {workflow: c}": "call_workflow", "on_success: z": "step", "on_failure: z": "step",
		"transitions: [{goto: z}]": "step", "message: m": "terminal", "": "terminal",
	} {
		_, list := compile("name: f\nstates:\n  initial: z\n  x: {"+keys+"}\n  z: {type: terminal}\n",
			files{"s.sh": "x", "c.yaml": "name: c\nstates:\n  initial: z\n  z: {type: terminal}\n"})
		if len(list) == 0 || list[0].Code != awf.CodeMissing || list[0].Help != fmt.Sprintf("Add \"type: %s\".", want) {
			t.Errorf("%s: %v", keys, list)
		}
	}
}

// A template provides the keys that a state lacks, with parameters substituted everywhere.
// Transitions are the state's own.
func TestTemplatesProvideMissingKeys(t *testing.T) {
	more := files{
		".awf/templates/make.yaml": `name: make
parameters:
  - {name: target, required: true}
  - {name: dir, default: build}
  - {name: times, default: 2}
  - {name: note}
states:
  initial: run
  other: {type: terminal}
  run:
    type: step
    description: Makes {{parameters.target}}.
    command: "make {{parameters.target}} {{ .parameters.target }} {{- parameters.note -}}"
    dir: "{{parameters.dir}}"
    timeout: 3s
    retry: {max_attempts: "{{parameters.times}}", initial_delay: 1s}
    hooks: {pre: [{log: "{{parameters.target}} in {{parameters.dir}}"}]}
    on_success: nowhere
    on_failure: nowhere
    transitions: [{goto: nowhere}]
`,
		".awf/templates/typo.yaml": "name: typo\nstates:\n  s:\n    type: step\n    command: c\n    comand: " +
			"c\n    retry: {attempts: 3}\n",
		"templates/near.yaml": "name: near\nstates:\n  one: {type: step, command: near}\n",
		".awf/templates/each.yaml": "name: each\nparameters: [{name: items}]\nstates:\n  initial: gone\n  " +
			"name: text\n  s: {type: for_each, items: '{{parameters.items}}', body: [y]}\n",
		".awf/templates/empty.yaml":  "name: empty\nstates: {}\n",
		".awf/templates/none.yaml":   "name: none\n",
		".awf/templates/broken.yaml": "name: [\n",
		".awf/templates/nested.yaml": "name: nested\nstates:\n  s: {use_template: near}\n",
		".awf/templates/must.yaml": "name: must\nparameters: [{name: p, required: True}, {name: q, " +
			"required: false}, x]\nstates:\n  s: {type: step, command: '{{parameters.p}}'}\n",
		".awf/templates/undeclared.yaml": "name: undeclared\nparameters: [{name: target}]\nstates:\n  s: {type: " +
			"step, command: '{{parameters.traget}}'}\n",
	}
	for keys, want := range map[string][]string{
		"use_template: make, parameters: {target: all}": {
			"x.type = step", "x.description = Makes all.", "x.command = make all all", "x.dir = build",
			"x.timeout = 3000", "x.retry.max_attempts = 2", "x.retry.delays = [1000]",
			"x:pre.hooks.0.log = all in build", "x.next = os>z",
		},
		"use_template: make, type: step, parameters: {target: all, dir: ~, times: 5, note: n}, timeout: 1s": {
			"x.command = make all alln", "x.timeout = 1000", "x.retry.max_attempts = 5", "x.dir = build",
		},
		"use_template: make, type: step, command: dummy, dir: 'in {{parameters.dir}}', parameters: {target: [a, 1]}": {
			"x.command = dummy", "x.dir = in build", `x.description = Makes ["a",1].`,
		},
		"use_template: make, parameters: {target: '{{.inputs.t}}', note: ''}": {
			"x.command = make {{.inputs.t}} {{.inputs.t}}",
		},
		"use_template: near":                              {"x.command = near", "x.next = os>z"},
		"use_template: each, parameters: {items: [a, 2]}": {`x.loop.each.items = ["a",2]`},
		"use_template: each, parameters: {items: 'a,b'}":  {"x.loop.each.items = a,b"},
		"use_template: make": {
			`error AWF018 make: Template "make" requires the parameter "target".`,
		},
		"use_template: make, parameters: {target: ~}": {
			`error AWF018 make: Template "make" requires the parameter "target".`,
		},
		"use_template: make, parameters: {target: all, tims: 3}": {
			`warning AWF018 tims: Template "make" has no parameter "tims".`,
		},
		"use_template: make, parameters: [all]": {
			`error AWF018 make: Template "make" requires the parameter "target".; error AWF002 [all: "parameters" ` +
				`of the state "x" must be a map, but this is a list.`,
		},
		"use_template: must": {
			`error AWF018 must: Template "must" requires the parameter "p".`,
		},
		"use_template: undeclared": {
			`error AWF018 undeclared: Template "undeclared" does not declare the parameter "traget".`,
		},
		"use_template: typo": {
			`warning AWF003 typo: Unknown key "attempts" in the retry.; warning AWF003 typo: Unknown ` +
				`key "comand" in the state "x".`,
		},
		"use_template: empty": {
			`error AWF018 empty: Template "empty" has no state.`,
		},
		"use_template: none": {`error AWF018 none: Template "none" has no state.`},
		"use_template: nested": {
			`error AWF018 nested: Template "nested" uses another template.`,
		},
		"use_template: 5": {`error AWF018 5: Template "5" does not exist.`},
	} {
		text := "name: f\ninputs: [{name: t}]\nstates:\n  initial: x\n  x: {" + keys +
			", on_success: z}\n  y: {type: step, command: y, on_success: z}\n  z: {type: terminal}\n"
		p, list := compile(text, more)
		got := marked(text, list)
		if strings.Contains(want[0], " AWF0") {
			if got != want[0] {
				t.Errorf("%s:\n got %s\nwant %s", keys, got, want[0])
			}
			continue
		}
		if wrong := has(t, p, want); got != "" || len(wrong) > 0 {
			t.Errorf("%s: %s %s", keys, got, strings.Join(wrong, "; "))
		}
	}
	_, list := compile("name: f\nstates:\n  initial: x\n  x: {use_template: broken, on_success: z}\n  z: {type: "+
		"terminal}\n", more)
	if len(list) == 0 || list[0].Span.File != ".awf/templates/broken.yaml" {
		t.Error(list)
	}
}

// Parts of a program have the positions of their source.
func TestProgramPartsHaveSourcePositions(t *testing.T) {
	text := "name: f\ninputs: [{name: n, type: integer, default: 5, validation: {max: 3, enum: [5, " +
		"two]}}]\nstates:\n  initial: x\n" +
		"  x: {type: agent, provider: claude, prompt: p, mcp_proxy: {enable: true}, on_success: z, on_failure: " +
		"{message: m}}\n  z: {type: terminal}\n"
	p, _ := compile(text, nil)
	for want, at := range map[string]source.Span{
		"inputs": p.Input.Span, "n": p.Input.At("/properties/n/type"), "5": p.Input.At("/properties/n/default"),
		"mcp_proxy":  p.Agents[0].Tools[0].Span,
		"on_failure": p.Step(ir.Body, "__inline_error_x").Span, "x": p.Step(ir.Body, "x").Span, "f": p.Span,
	} {
		if got := text[at.Start:at.End]; got != want {
			t.Errorf("%q is marked for %q", got, want)
		}
	}
	if got := facts(t, p)["input.n.enum"]; got != `[5,"\"two\""]` { // an invalid value is never allowed
		t.Error(got)
	}
	if p, _ := compile("version: 1\nstates:\n  initial: z\n  z: {type: terminal}\n", nil); p.Input.Span != p.Span ||
		p.Name != "flow" {
		t.Error(p.Input.Span, p.Span, p.Name)
	}
	if p, list := compile("name: [", nil); p != nil || !list.Errors() {
		t.Error(p, list)
	}
}

// near maps references as written in a workflow to the path and text of files.
type near map[string][2]string

func (f near) Read(_ *source.File, ref string) (*source.File, error) {
	if one, ok := f[ref]; ok {
		return source.NewFile(one[0], one[1]), nil
	}
	return nil, &source.RefError{Ref: ref, Problem: source.RefMissing}
}

func (f near) Skill(name string) (*source.File, error) { return f.Read(nil, name) }

func (f near) Compile(file *source.File, _ source.Span) (*ir.Program, diag.List) {
	return awf.Format{}.Compile(file, f)
}

// The configuration of the AWF folder that contains a workflow takes precedence over the
// project's. Other files with that name are ignored.
func TestConfigurationOfTheAWFFolderTakesPrecedence(t *testing.T) {
	const text = "name: f\ninputs: [{name: site, default: own, required: true}, {name: other, required: " +
		"true}]\nstates:\n  initial: z\n  z: {type: terminal}\n"
	for name, c := range map[string]struct {
		files near
		want  []string
	}{
		"none": {nil, []string{"input.site.default = own", "no files.0.path", `input.required = ["other"]`}},
		"nearest": {
			near{
				"../config.yaml":   {"sub/.awf/config.yaml", "inputs: {site: near, other: x}"},
				".awf/config.yaml": {".awf/config.yaml", "inputs: {site: far}"},
			},
			[]string{
				"input.site.default = near", "files.0.path = sub/.awf/config.yaml", "files.0.role = config",
				"no input.required",
			},
		},
		"project's": {
			near{
				"../config.yaml":   {"config.yaml", "inputs: {site: wrong}"},
				".awf/config.yaml": {".awf/config.yaml", "inputs: {site: far}"},
			},
			[]string{"input.site.default = far", `input.required = ["other"]`},
		},
		"not AWF's": {
			near{"../config.yaml": {"config.yaml", "inputs: {site: wrong}"}},
			[]string{"input.site.default = own"},
		},
		"no inputs": {near{".awf/config.yaml": {".awf/config.yaml", "log: x"}}, []string{"input.site.default = own"}},
		"empty":     {near{".awf/config.yaml": {".awf/config.yaml", ""}}, []string{"input.site.default = own"}},
	} {
		p, list := awf.Format{}.Compile(source.NewFile("flow.yaml", text), c.files)
		if wrong := has(t, p, c.want); len(list) > 0 || len(wrong) > 0 {
			t.Errorf("%s: %v %v", name, list, wrong)
		}
	}
	_, list := awf.Format{}.Compile(source.NewFile("flow.yaml", text),
		near{".awf/config.yaml": {".awf/config.yaml", "inputs: ["}})
	if len(list) != 1 || list[0].Span.File != ".awf/config.yaml" {
		t.Error(list)
	}
}

// {{.awf.…}} is resolved at compile time.
func TestResolvesAWFFolders(t *testing.T) {
	for name, want := range map[string]string{
		"scripts_dir": "p/.awf/scripts", "prompts_dir": "p/.awf/prompts", "templates_dir": "p/.awf/templates",
		"workflows_dir": "p/.awf/workflows", "config_dir": "p/.awf", "plugins_dir": "",
	} {
		f := source.NewFile("p/.awf/workflows/f.yaml",
			"name: f\nstates:\n  initial: a\n  a: {type: step, command: 'echo {{.awf."+name+
				"}}', on_success: z}\n  z: {type: terminal}\n")
		p, _ := awf.Format{}.Compile(f, files{})
		got := ""
		for _, v := range p.Vars {
			if v.Path == "awf."+name {
				got = strings.Trim(filepath.ToSlash(string(v.Init)), `"`)
			}
		}
		if got != want {
			t.Errorf("%s: got %q, want %q in %v", name, got, want, p.Vars)
		}
	}
}

// AWF files are recognized by their location or structure.
func TestMatchByLocationAndStructure(t *testing.T) {
	const flow = "name: f\nstates:\n  initial: a\n"
	for _, c := range []struct {
		path, abs, text string
		want            format.Match
	}{
		{"f.yaml", "", flow, format.Certain},
		{"f.YML", "", flow, format.Certain},
		{"f.json", "", flow, format.No},
		{"f.md", "", flow, format.No},
		{".awf/workflows/f.yaml", "", "nothing", format.Certain},
		{"p/.awf/workflows/f.yml", "", "", format.Certain},
		{".awf/workflows/f.txt", "", flow, format.No},
		{"p.awf/workflows/f.yaml", "", "", format.No},
		{".awf/workflows/deep/f.yaml", "", "", format.No},
		{"f.yaml", "/home/p/.awf/workflows/f.yaml", "", format.Certain},
		{"f.yaml", `C:\p\.awf\workflows\f.yaml`, "", format.Certain},
		{".awf/workflows/f.yaml", "/home/p/elsewhere/f.yaml", "", format.No}, // the real location counts
		{".awf/templates/f.yaml", "", flow, format.No},
		{"templates/f.yaml", "", flow, format.Certain},
		{"f.yaml", "", "initial: a\nstates:\n  a: {}\n", format.Certain},
		{"f.yaml", "", "\"states\":\n    'initial' : a\n", format.Certain},
		{"f.yaml", "", "states:\r\n  # initial: no\r\n\r\n  a:\r\n    type: step\r\n  initial: a\r\n", format.Certain},
		{"f.yaml", "", "states:\n  a:\n    initial: a\n", format.No},
		{"f.yaml", "", "states:\n  a: {}\nother:\n  initial: a\n", format.No},
		{"f.yaml", "", "other:\n    x: y\nstates:\n  initial: a\n", format.Certain},
		{"f.yaml", "", "# states:\n- states:\n#  initial: a\n: x\nstates\n", format.No},
		{"f.yaml", "", "initial: a\n", format.No},
		{"f.yaml", "", "", format.No},
	} {
		f := source.NewFile(c.path, c.text)
		f.Abs = c.abs
		if got := (awf.Format{}).Match(f); got != c.want {
			t.Errorf("%s, %s, %q: %v", c.path, c.abs, c.text, got)
		}
	}
}

// The schema for editors agrees with the parser: some type of state accepts each of its keys
// and values.
func TestParserAcceptsWhatSchemaLists(t *testing.T) {
	schemas := awf.Format{}.Schemas()
	if len(schemas) != 1 || schemas[0].Block != "workflow" {
		t.Fatal(schemas)
	}
	type shape struct {
		Type       any               `json:"type"`
		Enum       []string          `json:"enum"`
		Required   []string          `json:"required"`
		Properties map[string]*shape `json:"properties"`
		Items      *shape            `json:"items"`
		More       *shape            `json:"additionalProperties"`
	}
	var top shape
	if err := json.Unmarshal(schemas[0].Schema, &top); err != nil {
		t.Fatal(err)
	}
	unknown := func(text, key string) bool {
		_, list := compile(text, nil)
		return slices.ContainsFunc(list, func(d diag.Diagnostic) bool {
			return d.Code == awf.CodeUnknownKey && text[d.Span.Start:d.Span.End] == key
		})
	}
	refused := func(text, value string) bool {
		_, list := compile(text, nil)
		return slices.ContainsFunc(list, func(d diag.Diagnostic) bool {
			return d.Code == awf.CodeBadValue && text[d.Span.Start:d.Span.End] == value
		})
	}
	const end = "states:\n  initial: z\n  z: {type: terminal}\n"
	for key := range top.Properties {
		if key != "states" && key != "name" && unknown("name: f\n"+key+": v\n"+end, key) {
			t.Errorf("the workflow has no %q", key)
		}
	}
	input := top.Properties["inputs"].Items
	for key := range input.Properties {
		if unknown("name: f\ninputs: [{"+key+": v}]\n"+end, key) {
			t.Errorf("inputs have no %q", key)
		}
	}
	for key := range input.Properties["validation"].Properties {
		if unknown("name: f\ninputs: [{name: n, validation: {"+key+": v}}]\n"+end, key) {
			t.Errorf("validations have no %q", key)
		}
	}
	for key, hook := range top.Properties["hooks"].Properties {
		for inner := range hook.Items.Properties {
			if text := "name: f\nhooks: {" + key + ": [{" + inner + ": v}]}\n" + end; unknown(text, key) ||
				unknown(text, inner) {
				t.Errorf("hooks have no %q with %q", key, inner)
			}
		}
	}
	keys := top.Properties["states"].More.Properties
	kinds := keys["type"].Enum
	if len(keys) < 40 || len(kinds) != 9 {
		t.Fatal(len(keys), kinds)
	}
	state := func(keys string) string {
		return "name: f\nstates:\n  initial: x\n  x: {" + keys + "}\n  z: {type: terminal}\n"
	}
	for _, kind := range kinds {
		if refused(state("type: "+kind), kind) {
			t.Errorf("there is no type %q", kind)
		}
	}
	for key, shape := range keys {
		if key == "type" {
			continue
		}
		in := "" // a type that has the key
		for _, kind := range kinds {
			if !unknown(state("type: "+kind+", "+key+": v"), key) {
				in = kind
			}
		}
		if in == "" {
			t.Errorf("no state has %q", key)
		}
		for _, value := range shape.Enum {
			if refused(state("type: "+in+", "+key+": "+value), value) {
				t.Errorf("%q cannot be %q", key, value)
			}
		}
		for inner, values := range shape.Properties {
			text := state("type: " + in + ", " + key + ": {" + inner + ": v}")
			if unknown(text, inner) {
				t.Errorf("%q has no %q", key, inner)
			}
			for _, value := range values.Enum {
				if refused(strings.Replace(text, inner+": v", inner+": "+value, 1), value) {
					t.Errorf("%q of %q cannot be %q", inner, key, value)
				}
			}
		}
	}
}

// Editors complete the options of an agent, and their schema accepts options that only a provider knows.
func TestSchemaListsAgentOptions(t *testing.T) {
	type object struct {
		Properties map[string]struct{ Type any } `json:"properties"`
		More       any                           `json:"additionalProperties"`
	}
	var schema struct {
		Properties struct {
			States struct {
				More struct {
					Properties struct{ Options object } `json:"properties"`
				} `json:"additionalProperties"`
			} `json:"states"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(awf.Format{}.Schemas()[0].Schema, &schema); err != nil {
		t.Fatal(err)
	}
	options := schema.Properties.States.More.Properties.Options
	for key, want := range map[string]string{
		"model": "string", "max_tokens": "integer", "max_completion_tokens": "integer", "system_prompt": "string",
		"base_url": "string", "api_key": "string", "dangerously_skip_permissions": "boolean", "yolo": "boolean",
		"full_auto": "boolean", "allow_all_tools": "boolean", "temperature": "number", "seed": "integer",
	} {
		if got := options.Properties[key].Type; got != want {
			t.Errorf("%s is of type %v, want %s", key, got, want)
		}
	}
	if _, ok := options.Properties["allowed_tools"]; !ok || options.More != nil {
		t.Errorf("the options have allowed_tools: %t, and others: %v", ok, options.More)
	}
}

// An option that resembles a known one gets a note. Others are for the provider alone to judge.
func TestNotesMisspelledAgentOptions(t *testing.T) {
	for options, want := range map[string]string{
		"max_token: 9":                             `note AWF003 max_token: Did you mean "max_tokens"?`,
		"alowed_tools: Read":                       `note AWF003 alowed_tools: Did you mean "allowed_tools"?`,
		"baseURL: 'http://x'":                      `note AWF003 baseURL: Did you mean "base_url"?`,
		"disallowed_tools: Bash, max_turns: 3":     "",
		"max_tokens: 9, max_token: 9":              "",
		"reasoning_effort: low, safe_prompt: true": "",
		"allowedTools: Read, stop: [x], top_k: 4":  "",
		"model: m, 7: x":                           "",
	} {
		text := "name: f\nstates:\n  initial: x\n  x: {type: agent, provider: claude, prompt: Hi, options: {" +
			options + "}, on_success: z}\n  z: {type: terminal}\n"
		_, list := compile(text, nil)
		got := ""
		for _, d := range list {
			got += fmt.Sprintf("%s %s %s: %s", d.Severity, d.Code, text[d.Span.Start:d.Span.End], d.Help)
			if len(d.Fixes) > 0 {
				t.Errorf("%s: has the fix %q, which may be wrong", options, d.Fixes[0].Title)
			}
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", options, got, want)
		}
	}
}

// Editors explain every key: the documentation promises a description for each.
func TestSchemaDescribesEveryKey(t *testing.T) {
	var walk func(path string, schema map[string]any)
	walk = func(path string, schema map[string]any) {
		for name, one := range schema {
			inner, ok := one.(map[string]any)
			if !ok {
				continue
			}
			if name != "properties" {
				walk(path, inner)
				continue
			}
			for key, v := range inner {
				property := v.(map[string]any)
				if property["description"] == nil && property["deprecated"] == nil {
					t.Errorf("%s.%s has no description", path, key)
				}
				walk(path+"."+key, property)
			}
		}
	}
	for _, s := range (awf.Format{}).Schemas() {
		var schema map[string]any
		if err := json.Unmarshal(s.Schema, &schema); err != nil {
			t.Fatal(err)
		}
		walk(s.Block, schema)
	}
}
