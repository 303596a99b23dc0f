package awf_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/format/awf"
	"github.com/espalier-run/espalier/internal/ir"
)

// facts is what a program says, one line for each thing: of its steps and agents
// by their names, of what it is as a whole without one.
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
			case m["value"] != nil && m["name"] != nil: // a setting, or what describes the program
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

// has tells which of the wanted lines "what = value" are no facts of a program. A
// line that begins with "no " is about something of which it must say nothing.
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

// Every key of a state does what it is for, in each of its spellings.
func TestFieldsOfStates(t *testing.T) {
	more := files{
		"c.yaml":                    "name: c\ninputs: [{name: i}, {name: n, type: integer}]\nstates:\n  initial: a\n  a: {type: step, command: x, on_success: z}\n  z: {type: terminal}\noutputs: [{name: r, from: states.a.Output}]\n",
		"s.sh":                      "echo script",
		"p.md":                      "A prompt.",
		"../roles/editor/AGENTS.md": "A role.",
		"review":                    "Skill by name.",
		"deep/SKILL.md":             "Skill by path.",
	}
	for keys, want := range map[string][]string{
		// What every step may have.
		"type: step, command: c, on_success: z":                 {"x.type = step", "x.kind = command", "x.command = c", "x.next = os>z", "no x.timeout", "no x.description"},
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
			"x.next = os>z f>__inline_error_x", "__inline_error_x.message = m", "__inline_error_x.failed = true", "__inline_error_x.status = 1",
		},
		"type: step, command: c, on_success: z, on_failure: {message: m, status: 255}":          {"__inline_error_x.status = 255"},
		"type: step, command: c, on_success: z, continue_on_error: true, on_failure: y":         {"x.next = osf>z"},
		"type: step, command: c, on_success: z, continue_on_error: false, on_failure: y":        {"x.next = os>z f>y"},
		"type: step, command: c, transitions: [{when: inputs.t == 1, goto: y}, {goto: z}]":      {"x.next = osf>y when inputs.t == 1 osf>z"},
		"type: step, command: c, on_success: z, retry: {}":                                      {"x.retry.max_attempts = 1", "x.retry.backoff = constant"},
		"type: step, command: c, on_success: z, retry: {max_attempts: 4, initial_delay: 5ms}":   {"x.retry.max_attempts = 4", "x.retry.delays = [5]", "no x.retry.max_delay", "no x.retry.multiplier"},
		"type: step, command: c, on_success: z, retry: {max_attempts: 2, max_delay: 2s}":        {"x.retry.max_delay = 2000", "no x.retry.delays"},
		"type: step, command: c, on_success: z, retry: {initial_delay: 0s, max_delay: 0}":       {"no x.retry.max_delay", "no x.retry.delays"},
		"type: step, command: c, on_success: z, retry: {backoff: linear, jitter: 0.25}":         {"x.retry.backoff = linear", "x.retry.jitter = 0.25"},
		"type: step, command: c, on_success: z, retry: {backoff: constant, jitter: 0}":          {"x.retry.backoff = constant", "no x.retry.jitter"},
		"type: step, command: c, on_success: z, retry: {backoff: exponential, multiplier: 1.5}": {"x.retry.backoff = exponential", "x.retry.multiplier = 1.5"},
		"type: step, command: c, on_success: z, retry: {jitter: 1, multiplier: 1000}":           {"x.retry.jitter = 1", "x.retry.multiplier = 1000"},
		"type: step, command: c, on_success: z, retry: {retryable_exit_codes: [75, 1]}":         {"x.retry.exit_codes = [75,1]"},
		"type: step, command: c, on_success: z, hooks: {pre: [{log: l}, {command: k, timeout: 2s}]}": {
			"x:pre.hooks.0.log = l", "x:pre.hooks.1.command = k", "x:pre.hooks.1.timeout = 2000", "x:pre.next = osf>x", "x.next = os>z",
		},
		"type: step, command: c, on_success: z, hooks: {post: {log: l, command: k}}": {"x:post.hooks.0.log = l", "no x:post.hooks.0.command", "x.next = os>x:post f>x:post-failed"},
		"type: step, command: c, on_success: z, hooks: {pre: k}":                     {"x:pre.hooks.0.command = k"},
		"type: step, command: c, on_success: z, pre_hook: k, post_hook: [l, m]":      {"x:pre.hooks.0.command = k", "x:post.hooks.0.command = l", "x:post.hooks.1.command = m"},
		"type: step, command: c, on_success: z, pre_hook: {log: k}, hooks: {pre: l, post: m}, post_hook: n": {
			"x:pre.hooks.0.command = l", "x:pre.hooks.1.log = k", "x:post.hooks.0.command = m", "x:post.hooks.1.command = n",
		},

		// Commands.
		"type: step, command: c, on_success: z, dir: /d, shell: /bin/bash": {"x.dir = /d", "x.shell = /bin/bash"},
		"type: step, script_file: s.sh, on_success: z":                     {"x.script = echo script", "no x.command"},
		"type: step, command: c, on_success: z, timeout: '{{.inputs.t}}'":  {"x.timeout = {{.inputs.t}}"},

		// Ends.
		"type: terminal": {"x.type = terminal", "no x.failed"},
		"type: TERMINAL, status: success, message: m":                 {"x.type = terminal", "no x.failed"},
		"type: terminal, status: failure, message: m, description: d": {"x.failed = true", "x.message = m", "x.description = d"},

		// Branches.
		"type: parallel, parallel: [y, w], on_success: z":                     {"x.parallel.join = all", "x.parallel.branches.0.name = y", "x.parallel.branches.1.name = w", "no x.parallel.max_concurrent"},
		"type: parallel, parallel: y, on_success: z":                          {"x.parallel.branches.0.name = y"},
		"type: parallel, parallel: [y], strategy: all_succeed, on_success: z": {"x.parallel.join = all"},
		"type: parallel, parallel: [y], strategy: any_succeed, on_success: z": {"x.parallel.join = any"},
		"type: parallel, parallel: [y], strategy: best_effort, on_success: z": {"x.parallel.join = best"},
		"type: parallel, parallel: [y], max_concurrent: 3, on_success: z":     {"x.parallel.max_concurrent = 3"},
		"type: parallel, parallel: [y], max_concurrent: 0, on_success: z":     {"no x.parallel.max_concurrent"},
		"type: parallel, steps: [y, w], on_success: z":                        {"x.parallel.branches.0.name = y", "x.parallel.branches.1.name = w"},
		"type: parallel, parallel: [{name: n, command: c, dir: /d}, {command: k}], on_success: z": {
			"x.parallel.branches.0.name = n", "n.command = c", "n.dir = /d", "n.type = step", "x.parallel.branches.1.name = x_2", "x_2.command = k",
		},
		"type: parallel, steps: [{name: n, type: agent, provider: claude, prompt: p}], on_success: z": {"x.parallel.branches.0.name = n", "n.type = agent", "n.prompt = p"},

		// Loops.
		"type: for_each, items: [a, 1], body: [y, w], on_complete: z": {
			"x.type = for_each", `x.loop.each.items = ["a",1]`, "x.loop.max = 10000", "x.next = os>z", "y.command = y", "w.command = w", "no x.loop.while",
		},
		"type: for_each, items: 'a, b', body: y, on_success: z":                                      {"x.loop.each.items = a, b", "x.next = os>z"},
		"type: for_each, items: '{{.inputs.t}}', body: [y], on_complete: z, on_success: y":           {"x.loop.each.items = {{.inputs.t}}", "x.next = os>z"},
		"type: for_each, items: [a], body: [y], on_complete: z, on_failure: w":                       {"x.next = os>z f>w"},
		"type: for_each, items: [a], body: [y], on_complete: z, max_iterations: 10000":               {"x.loop.max = 10000", "no x.loop.max_expr"},
		"type: for_each, items: [a], body: [y], on_complete: z, max_iterations: 7":                   {"x.loop.max = 7"},
		"type: for_each, items: [a], body: [y], on_complete: z, max_iterations: '{{.inputs.t}}'":     {"x.loop.max = 10000", "x.loop.max_expr = {{.inputs.t}}"},
		"type: for_each, items: [a], body: [y], on_complete: z, break_when: loop.Index == 1":         {"x.loop.break_when = loop.Index == 1"},
		"type: while, while: loop.Index < 2, body: [y], on_complete: z, break_when: 'inputs.t == 1'": {"x.loop.while = loop.Index < 2", "x.loop.break_when = inputs.t == 1", "x.loop.max = 100"},
		"type: while, while: true, body: [y], on_complete: z, max_iterations: 3":                     {"x.loop.while = true", "x.loop.max = 3"},
		"type: while, until: loop.Index == 2, body: [y], on_complete: z":                             {"no x.loop.while", "x.loop.break_when = loop.Index == 2"},

		// Operations.
		"type: operation, operation: a.b, inputs: {k: v}, on_success: z, timeout: '{{.inputs.t}}'": {"x.kind = operation", "x.operation = a.b", "x.inputs.k = v", "x.timeout = {{.inputs.t}}"},
		"type: operation, operation: a.b, operation_inputs: {k: v}, on_success: z":                 {"x.inputs.k = v"},

		// Calls.
		"type: call_workflow, workflow: c, inputs: {i: v, n: 3}, outputs: {r: got}, timeout: 2s, on_success: z": {
			"x.call.inputs.i = v", "x.call.inputs.n = 3", `x.call.outputs.got = output["r"]`, "x.timeout = 2000",
		},
		"type: call_workflow, call_workflow: {workflow: c, inputs: {i: v}, outputs: {got: r}, timeout: 2s}, on_success: z": {
			"x.call.inputs.i = v", `x.call.outputs.got = output["r"]`, "x.timeout = 2000",
		},

		// Agents.
		"type: agent, provider: claude, prompt: p, on_success: z":                                   {"x.kind = conversation", "agent x.provider = claude", "x.prompt = p", "no x.keep", "no x.format", "no x.system"},
		"type: agent, provider: github_copilot, initial_prompt: p, on_success: z":                   {"agent x.provider = github_copilot", "x.prompt = p"},
		"type: agent, provider: mistral_vibe, prompt_file: p.md, on_success: z":                     {"agent x.provider = mistral_vibe", "x.prompt = A prompt."},
		"type: agent, provider: '{{.inputs.t}}', prompt: p, on_success: z":                          {"no agent x.provider", "agent x.late = true", "x.provider = {{.inputs.t}}"},
		"type: agent, provider: claude, prompt: p, mode: single, on_success: z":                     {"no x.keep"},
		"type: agent, provider: claude, prompt: p, mode: conversation, on_success: z":               {"x.keep = true"},
		"type: agent, provider: claude, prompt: p, conversation: {}, on_success: z":                 {"x.keep = true", "no x.continue_from"},
		"type: agent, provider: claude, prompt: p, conversation: {continue_from: v}, on_success: z": {"x.keep = true", "x.continue_from = v", "v.keep = true"},
		"type: agent, provider: claude, prompt: p, system_prompt: s, on_success: z":                 {"x.system = s"},
		"type: agent, provider: claude, prompt: p, role: editor, on_success: z":                     {"x.system = A role."},
		"type: agent, provider: claude, prompt: p, role: editor, system_prompt: s, on_success: z":   {"x.system = A role.\n\ns"},
		"type: agent, provider: claude, prompt: p, output_format: json, on_success: z":              {"x.format = json"},
		"type: agent, provider: claude, prompt: p, output_format: text, on_success: z":              {"x.format = text"},
		"type: agent, provider: claude, prompt: p, options: {model: m, seed: 4}, on_success: z":     {"agent x.model = m", "agent x.options.seed = 4"},
		"type: agent, provider: claude, prompt: p, skills: [review, {path: deep}, {name: review}], on_success: z": {
			"x.skills.0.name = review", "x.skills.0.text = Skill by name.", "x.skills.1.name = deep", "x.skills.1.text = Skill by path.", "x.skills.2.text = Skill by name.",
		},
		"type: agent, provider: claude, prompt: p, skills: review, on_success: z":                                                 {"x.skills.0.name = review"},
		"type: agent, provider: claude, prompt: p, skills: [{path: deep/SKILL.md, name: other}], on_success: z":                   {"x.skills.0.name = other", "x.skills.0.text = Skill by path."},
		"type: agent, provider: openai_compatible, prompt: p, mcp_proxy: {enable: true, intercept_builtins: true}, on_success: z": {"agent x.tools.5.name = Grep"},
		"type: agent, provider: openai_compatible, prompt: p, on_success: z":                                                      {"no agent x.tools.0.name"},
	} {
		text := "name: f\ninputs: [{name: t, type: integer, default: 1}]\nstates:\n  initial: v\n  v: {type: agent, provider: codex, prompt: q, on_success: x, on_failure: y}\n  x: {" + keys + "}\n" +
			"  y: {type: step, command: y, on_success: z}\n  w: {type: step, command: w, on_success: z}\n  z: {type: terminal}\n"
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

// Every key of a workflow does what it is for, in each of its spellings.
func TestFieldsOfWorkflows(t *testing.T) {
	const states = "states:\n  initial: a\n  a: {type: step, command: x, on_success: z, on_failure: b}\n  b: {type: terminal, status: failure}\n  z: {type: terminal}\n"
	for text, want := range map[string][]string{
		"name: f\n" + states: {"name = f", "no version", "no input.required", "no on_cancel"},
		"name: f\nversion: 1.10\ndescription: d\nauthor: me\ntags: [p, q]\nenv: [HOME]\n" + states: {
			"version = 1.10", "description = d", `meta.tags = ["p","q"]`, "meta.author = me", "meta.version = 1.1",
		},
		states + "version: '1.0'\n" + "name: g\n":                                {"name = g", "version = 1.0", "meta.version = 1.0"},
		"name: f\ninitial: b\nstates:\n  b: {type: terminal, status: failure}\n": {"b.failed = true"},

		// Hooks.
		"name: f\nhooks: {workflow_start: [{command: k}]}\n" + states:              {"workflow:start.hooks.0.command = k", "workflow:start.strict = true", "workflow:start.next = os>a"},
		"name: f\nhooks: {workflow_end: k}\n" + states:                             {"z:pre.hooks.0.command = k", "a.next = os>z:pre f>b"},
		"name: f\nhooks: {workflow_error: {log: l, command: k}}\n" + states:        {"b:pre.hooks.0.log = l", "no b:pre.hooks.0.command", "a.next = os>z f>b:pre"},
		"name: f\nhooks: {workflow_cancel: [{command: k, timeout: 3}]}\n" + states: {"on_cancel = workflow:cancel", "workflow:cancel.hooks.0.command = k", "workflow:cancel.hooks.0.timeout = 3000"},

		// Inputs.
		"name: f\ninputs: [{name: n, type: integer, required: true, description: d}]\n" + states:                {"input.n.type = integer", `input.required = ["n"]`, "input.n.description = d", "no input.n.default"},
		"name: f\ninputs: [{name: n, type: boolean, required: false}]\n" + states:                               {"input.n.type = boolean", "no input.required"},
		"name: f\ninputs: [{name: n, type: string, default: 5, required: true}]\n" + states:                     {"input.n.type = string", "input.n.default = 5", "no input.required"},
		"name: f\ninputs: [{name: n, type: '', default: [1, a]}]\n" + states:                                    {"no input.n.type", `input.n.default = [1,"a"]`},
		"name: f\ninputs: [{name: n, type: integer, default: '7'}]\n" + states:                                  {"input.n.default = 7"},
		"name: f\ninputs: [{name: n, type: boolean, default: 'true'}]\n" + states:                               {"input.n.default = true"},
		"name: f\ninputs: [{name: n, validation: {pattern: '^a+$'}}]\n" + states:                                {"input.n.pattern = ^a+$", "no input.n.enum", "no input.n.minimum", "no input.n.maximum"},
		"name: f\ninputs: [{name: n, type: string, validation: {enum: [a, 1]}}]\n" + states:                     {`input.n.enum = ["a","1"]`},
		"name: f\ninputs: [{name: n, type: integer, validation: {enum: [1, '2'], min: -3, max: 0}}]\n" + states: {"input.n.enum = [1,2]", "input.n.minimum = -3", "input.n.maximum = 0"},
		"name: f\ninputs: [{name: n, validation: {file_extension: [.go, .md]}}]\n" + states:                     {`input.n.pattern = (\.go|\.md)$`},
		"name: f\ninputs: [{name: n, validation: {file_extension: .go, pattern: '^a'}}]\n" + states:             {"input.n.allOf.0.pattern = ^a", `input.n.allOf.1.pattern = (\.go)$`, "no input.n.pattern"},
		"name: f\ninputs: [{name: n, validation: {file_exists: true}}]\n" + states:                              {`inputs:files.files = ["{{.inputs.n}}"]`, "inputs:files.strict = true", "inputs:files.next = os>a"},
		"name: f\ninputs: [{name: n, validation: {file_exists: false}}]\n" + states:                             {"no inputs:files.files"},

		// Outputs.
		"name: f\noutputs: [{name: r, from: states.a.Output, description: d, type: string}]\n" + states: {`z.result = {"r":"states.a.Output"}`},
		"name: f\noutputs: [{name: r, value: states.a.Stderr}]\n" + states:                              {`z.result = {"r":"states.a.Stderr"}`},
		"name: f\noutputs: [{name: a}, {name: r, from: states.a.Output, value: '1'}]\n" + states:        {`z.result = {"a":"states.a.Output","r":"states.a.Output"}`},
		"name: f\noutputs: {r: states.a.ExitCode}\n" + states:                                           {`z.result = {"r":"states.a.ExitCode"}`},
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
