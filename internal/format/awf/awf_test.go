package awf_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/check"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/format/awf"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/ir/irtest"
	"github.com/espalier-run/espalier/internal/source"
)

// files are the other files of a project, by name.
type files map[string]string

func (f files) Read(_ *source.File, ref string) (*source.File, error) {
	if text, ok := f[ref]; ok {
		return source.NewFile(ref, text), nil
	}
	return nil, &source.RefError{Ref: ref, Problem: source.RefMissing}
}

func (f files) Skill(name string) (*source.File, error) { return f.Read(nil, name) }

func (f files) Compile(file *source.File, _ source.Span) (*ir.Program, diag.List) {
	return awf.Format{}.Compile(file, f)
}

var _ format.Files = files{}

func compile(text string, more files) (*ir.Program, diag.List) {
	return awf.Format{}.Compile(source.NewFile("flow.yaml", text), more)
}

// Every mistake is reported in one pass, each at its own position.
func TestReportsAllMistakesAtTheirPositions(t *testing.T) {
	const text = `name: flow
inputs:
  - {name: a, type: strng}
states:
  initial: biuld
  build:
    type: step
    comand: make
    command: echo {{.states.build.Outptu}} {{.loop.Item}}
    on_success: doen
    retry: {max_attempts: 0, backoff: sometimes}
    transitions:
      - when: states.build.ExitCode = 1
        goto: done
  both:
    type: parallel
    parallel: [build, nobody]
  done:
    type: terminal
    status: fine
`
	_, list := compile(text, nil)
	var got []string
	for _, d := range list.Sorted() {
		got = append(got, string(d.Code)+" "+text[d.Span.Start:d.Span.End])
	}
	want := []string{
		"AWF004 strng", "AWF005 biuld", "AWF003 comand", "AWF011 states.build.Outptu", "AWF011 loop.Item",
		"AWF005 doen",
		"AWF004 0", "AWF004 sometimes", "EXPR023 =", "AWF005 nobody", "AWF004 fine",
	}
	for _, one := range want {
		found := false
		for _, g := range got {
			found = found || strings.HasPrefix(g, one)
		}
		if !found {
			t.Errorf("%s is not among\n%s", one, strings.Join(got, "\n"))
		}
	}
}

// The forms of AWF's documentation and of its reference program mean the same.
func TestDocumentedAndReferenceFormsAreEqual(t *testing.T) {
	child := files{"child.yaml": "name: child\ninputs:\n  - {name: x}\nstates:\n  initial: a\n  a: {type: step, " +
		"command: echo, on_success: z}\n  z: {type: terminal}\noutputs:\n  - {name: r, from: states.a.output}\n"}
	for name, states := range map[string]string{
		"flat": "type: call_workflow\n    workflow: child\n    inputs: {x: 1}\n    outputs: {r: got}",
		"nested": "type: call_workflow\n    call_workflow:\n      workflow: child\n      inputs: {x: 1}\n      " +
			"outputs: {r: got}",
		"turned": "type: CALL_WORKFLOW\n    workflow: child\n    inputs: {x: 1}\n    outputs: {got: r}",
	} {
		p, list := compile("name: f\nstates:\n  initial: c\n  c:\n    "+states+
			"\n    on_success: z\n  z: {type: terminal}\n", child)
		if list.Errors() {
			t.Errorf("%s: %v", name, list)
			continue
		}
		call := p.Blocks[0].Steps[0].Action.(ir.Call)
		if len(call.Outputs) != 1 || call.Outputs[0].Name != "got" || len(call.Inputs) != 1 {
			t.Errorf("%s: %+v", name, call)
		}
	}
}

// Inputs that AWF's operations would reject are reported before they run. Names and inputs of
// the user's own tools are not checked.
func TestChecksInputsOfAWFOperations(t *testing.T) {
	for keys, want := range map[string]string{
		"operation: http.request, inputs: {url: 'http://x', method: post, headers: {A: 1}, body: {a: b}, timeout: " +
			"5, retryable_status_codes: [503]}": "",
		"operation: http.request, inputs: {url: '{{.inputs.u}}', method: '{{.inputs.m}}'}":    "",
		"operation: notify.send, inputs: {backend: log, title: t, message: m, priority: low}": "",
		"operation: github.get_issue, inputs: {number: 1}":                                    "",
		"operation: shop.order, inputs: {what: roses}":                                        "",
		"operation: http.requst, inputs: {url: 'http://x'}":                                   `AWF004 Did you mean "http.request"? Your own tools must be configured in espalier.yaml.`,
		"operation: http.request, inputs: {url: 'http://x', methd: GET}":                      `AWF003 Did you mean "method"?`,
		"operation: http.request, inputs: {urll: 'http://x'}":                                 `AWF001 Add "url: …" below "inputs:". AWF003 Did you mean "url"?`,
		"operation: notify.send":                                                              `AWF001 Add "message: …" below "inputs:".`,
		"operation: http.request, inputs: {url: 'http://x', method: DELTE}":                   `AWF004 Did you mean "DELETE"?`,
	} {
		_, list := compile("name: flow\ninputs: [{name: u}, {name: m}]\nstates:\n  initial: a\n  a: {type: "+
			"operation, "+keys+", on_success: done}\n  done: {type: terminal}\n", nil)
		var got []string
		for _, d := range list.Sorted() {
			got = append(got, string(d.Code)+" "+d.Help)
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s: got %q, want %q", keys, text, want)
		}
	}
}

// A provider of the configuration is named with its model; other names that AWF does not have are mistakes.
func TestAcceptsProvidersOfTheConfiguration(t *testing.T) {
	for provider, want := range map[string]int{"claude": 0, "local/tiny": 0, "'{{.inputs.u}}'": 0, "cluade": 1} {
		_, list := compile("name: flow\ninputs: [{name: u}]\nstates:\n  initial: a\n  a: {type: agent, provider: "+
			provider+", prompt: Hi, on_success: done}\n  done: {type: terminal}\n", nil)
		if len(list) != want {
			t.Errorf("%s: %v", provider, list)
		}
	}
}

// A few states that contain each other twice per level are rejected instead of expanded
// exponentially. Deep nesting alone is accepted.
func TestBoundsExpandedStates(t *testing.T) {
	for kind, list := range map[string]string{
		"parallel": "type: parallel, parallel: ",
		"for_each": "type: for_each, items: [1], body: ",
	} {
		for twice, want := range map[bool]bool{true: true, false: false} {
			flow := "name: f\nstates:\n  initial: l0\n"
			for i := range 40 {
				more := ""
				if twice {
					more = fmt.Sprintf(", k%d", i)
				}
				flow += fmt.Sprintf("  l%d: {%s[l%d%s], on_success: done}\n  k%d: {%s[l%d], on_success: done}\n", i,
					list, i+1, more, i, list, i+1)
			}
			_, found := compile(flow+"  l40: {type: step, command: x}\n  done: {type: terminal}\n", nil)
			if got := slices.ContainsFunc(found,
				func(d diag.Diagnostic) bool { return d.Code == awf.CodeTooDeep }); got != want {
				t.Errorf("%s, twice %t: %v", kind, twice, got)
			}
		}
	}
}

// Undefined variables of loops and of the machine are reported at any nesting depth.
func TestReportsUndefinedLoopVariables(t *testing.T) {
	for name, want := range map[string]string{
		"loop.Item": "", "loop.item": "", "loop.Index1": "", "loop.Parent.Item": "", "loop.Item.anything": "",
		"loop.parent.index": "", "loop.Parent": "",
		"context.User": "", "context.working_dir": "",
		"loop.Itm":        `"loop.Itm" is not defined. Did you mean "Item"?`,
		"loop.Parent.Itm": `"loop.Parent.Itm" is not defined. Did you mean "Item"?`,
		"loop.Parent.Parent.Item": `"loop.Parent.Parent.Item" is not defined: the loop is not inside another ` +
			`loop. Remove "Parent" to use the item of this loop.`,
		"context.Usr": `"context.Usr" is not defined. Did you mean "User"?`,
	} {
		for _, flow := range []string{
			"command: 'echo {{.%s}}'",
			"command: x, transitions: [{when: '%s == 1', goto: done}]",
		} {
			_, list := compile("name: f\nstates:\n  initial: l\n  l: {type: for_each, items: [1], body: [m], "+
				"on_complete: done}\n  m: {type: for_each, items: [1], body: [b], on_complete: l}\n"+
				"  b: {type: step, "+fmt.Sprintf(flow, name)+", on_success: m}\n  done: {type: terminal}\n", nil)
			got := ""
			for _, d := range list {
				got += d.Message + " " + d.Help
			}
			if got != want {
				t.Errorf("%s in %s: got %q, want %q", name, flow, got, want)
			}
		}
	}
}

// Names in the index function are checked, too.
func TestChecksNamesInIndexFunction(t *testing.T) {
	for template, want := range map[string]string{
		`{{index .states "my-step" "Output"}}`:        "",
		`{{index $.states "my-step" "ExitCode"}}`:     "",
		`{{range split "a" ","}}{{index . 0}}{{end}}`: "",
		`{{index .inputs "x"}}`:                       "",
		`{{index . "inputs" "x"}}`:                    "",
		`{{index $ "states" "my-step" "Output"}}`:     "",
		`{{index . "states" "my-step" "Outptu"}}`: `error "states" "my-step" "Outptu" Did you mean ` +
			`"Output"?`,
		`{{json .}}{{json $}}`:                               "",
		`{{index .states "my-stp" "Output"}}`:                `error "my-stp" "Output" Did you mean "my-step"?`,
		`{{if index .states "my-stp"}}x{{end}}`:              `warning "my-stp" Did you mean "my-step"?`,
		`{{(index .states "my-step" "output") | trimSpace}}`: `error "my-step" "output" Did you mean "Output"?`,
	} {
		flow := "name: f\ninputs: [{name: x}]\nstates:\n  initial: my-step\n  my-step: {type: step, command: x, " +
			"on_success: b}\n  b: {type: step, command: 'echo " + template + "', on_success: done}\n  done: " +
			"{type: terminal}\n"
		_, list := compile(flow, nil)
		var got []string
		for _, d := range list {
			got = append(got, fmt.Sprint(d.Severity, " ", flow[d.Span.Start:d.Span.End], " ", d.Help))
		}
		if text := strings.Join(got, "; "); text != want {
			t.Errorf("%s: got %q, want %q", template, text, want)
		}
	}
}

// A mistake in a multi-line text is reported on its own line.
func TestReportsMistakesOnTheirLineOfMultilineText(t *testing.T) {
	const text = "name: flow\nstates:\n  initial: a\n  a:\n    type: step\n    command: |\n      set -e\n      if " +
		"true; then\n        echo {{.states.a.Outptu}}\n      fi\n    on_success: b\n" +
		"  b:\n    type: agent\n    provider: claude\n    prompt: >\n      Say\n      {{upper " +
		".states.a.Output}}\n    on_success: z\n  z: {type: terminal}\n"
	f := source.NewFile("flow.yaml", text)
	_, list := awf.Format{}.Compile(f, files{})
	var got []string
	for _, d := range list.Sorted() {
		at := f.Position(d.Span.Start)
		got = append(got, fmt.Sprintf("%d:%d %s", at.Line, at.Column, text[d.Span.Start:d.Span.End]))
	}
	if want := []string{"9:17 states.a.Outptu", "17:9 upper"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Options with an equivalent in ir.Agent are not forwarded, because a provider would reject
// them. The server's address is forwarded only to an OpenAI-compatible endpoint.
func TestForwardsOnlyProviderOptions(t *testing.T) {
	for options, want := range map[string]string{
		"model: m, max_tokens: 9":                                    "m 9 ",
		"model: m, max_completion_tokens: 7, temperature: 0.5":       `m 7 {"temperature":0.5}`,
		"system_prompt: be brief, top_p: 1":                          ` 0 {"top_p":1}`,
		"base_url: 'http://other.example', api_key: '${K}', seed: 2": ` 0 {"api_key":"${K}","base_url":"http://other.example","seed":2}`,
		"api_key: sk-1": ` 0 {"api_key":"sk-1"} AWF021`,
	} {
		p, list := compile("name: flow\nstates:\n  initial: ask\n  ask: {type: agent, provider: "+
			"openai_compatible, prompt: Hello, options: {"+options+"}, on_success: done}\n  done: {type: terminal}\n",
			nil)
		got := fmt.Sprint(p.Agents[0].Model, " ", p.Agents[0].MaxTokens, " ", string(p.Agents[0].Options))
		for _, d := range list {
			got += " " + string(d.Code)
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", options, got, want)
		}
	}
}

// AWF's CLI programs have read-only tools unless their options or the proxy say otherwise.
func TestAgentToolsByProviderAndOptions(t *testing.T) {
	for keys, want := range map[string]string{
		"provider: claude":                            "[Read Glob Grep]",
		"provider: openai_compatible":                 "[]",
		"provider: opencode":                          "[]",
		"provider: codex, options: {full_auto: true}": "[Read Write Edit Bash Glob Grep]",
		"provider: claude, options: {dangerously_skip_permissions: false}":    "[Read Glob Grep]",
		"provider: claude, options: {allowed_tools: 'Read, Bash(git log *)'}": "[Read Bash(git log *)]",
		"provider: claude, options: {allowedTools: [Edit, Bash]}":             "[Edit Bash]",
		"provider: openai_compatible, mcp_proxy: {enable: true}":              "[Read Write Edit Bash Glob Grep]",
		"provider: claude, mcp_proxy: {enable: false}":                        "[Read Glob Grep]",
		"provider: gemini, options: {base_url: 'http://x'}":                   "[Read Glob Grep] AWF008",
	} {
		p, list := compile("name: flow\nstates:\n  initial: ask\n  ask: {type: agent, prompt: Hello, "+keys+
			", on_success: done}\n  done: {type: terminal}\n", nil)
		var names []string
		for _, n := range p.Agents[0].Tools {
			names = append(names, n.Name)
		}
		got := fmt.Sprint(names)
		for _, d := range list {
			got += " " + string(d.Code)
		}
		if got != want || strings.Contains(string(p.Agents[0].Options), "tool") {
			t.Errorf("%s: %s, want %s; %s", keys, got, want, p.Agents[0].Options)
		}
	}
}

// A while loop that reaches its limit succeeds. If nothing follows its success, it fails.
func TestWhileLoopAtItsLimitSucceeds(t *testing.T) {
	for keys, want := range map[string]bool{
		"on_complete: z, on_failure: y":           false,
		"on_success: z, on_failure: y":            false,
		"transitions: [{goto: z}], on_failure: y": false,
		"on_failure: y":                           true,
		"on_failure: {message: no}":               true,
		"description: nothing":                    false, // the run fails in any case
	} {
		p, list := compile("name: f\nstates:\n  initial: w\n  w: {type: while, while: 'true', body: [b], "+keys+
			"}\n  b: {type: step, command: x}\n  y: {type: step, command: x, on_success: z}\n  z: {type: terminal}\n",
			nil)
		if got := p.Blocks[0].Steps[0].Action.(ir.Loop).FailAtMax; got != want || list.Errors() {
			t.Errorf("%s: %t, %v", keys, got, list)
		}
	}
}

// Durations are exact, and plain numbers are seconds.
func TestPlainDurationsAreSeconds(t *testing.T) {
	for text, want := range map[string]ir.Millis{
		"500ms": 500, "30": 30_000, "1m30s": 90_000, `"45"`: 45_000,
		"1us": 1,
	} {
		p, list := compile("name: f\nstates:\n  initial: a\n  a: {type: step, command: x, timeout: "+text+
			", on_success: z}\n  z: {type: terminal}\n", nil)
		if list.Errors() || p.Blocks[0].Steps[0].Timeout != want {
			t.Errorf("%s: %d, %v", text, p.Blocks[0].Steps[0].Timeout, list)
		}
	}
}

// All examples are free of diagnostics and together use every type of step.
func TestExamplesAreCleanAndComplete(t *testing.T) {
	found, err := filepath.Glob("../../../examples/awf/.awf/workflows/*.yaml")
	if err != nil || len(found) < 8 {
		t.Fatal(found, err)
	}
	more := files{}
	for _, pattern := range []string{"workflows", "scripts", "prompts", "templates"} {
		names, _ := filepath.Glob("../../../examples/awf/.awf/" + pattern + "/*")
		for _, name := range names {
			raw, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			more[".awf/"+pattern+"/"+filepath.Base(name)] = string(raw)
		}
	}
	types := map[string]bool{}
	for _, name := range found {
		p, list := compile(more[".awf/workflows/"+filepath.Base(name)], more)
		if p == nil || list.Errors() || list.Count(diag.Warning) > 0 {
			t.Fatalf("%s: %v", name, list)
		}
		for b := range p.Blocks {
			for i := range p.Blocks[b].Steps {
				types[p.Blocks[b].Steps[i].Type] = true
			}
		}
	}
	for _, one := range []string{
		"step", "agent", "terminal", "parallel", "for_each", "while", "operation",
		"call_workflow", "hook",
	} {
		if !types[one] {
			t.Errorf("no example has a step of the type %s", one)
		}
	}
}

// Required and forbidden parts of a file.
func TestReportsMissingAndForbiddenParts(t *testing.T) {
	const done = "states:\n  initial: z\n  z: {type: terminal}\n"
	for text, want := range map[string]string{
		"name: f\nversion: 1.0.0\nauthor: me\ntags: [a]\nenv: [HOME, NO_SUCH]\ndescription: d\n" + done: "",
		done:                "AWF001 states",
		"name: ''\n" + done: "AWF001 name",
		"name: f\n":         "AWF001 name",
		"name: f\nstates:\n  z: {type: terminal}\n":                                      "AWF001 states",
		"name: f\nstates:\n  initial: a\n  z: {type: terminal}\n":                        "AWF005 a",
		"name: f\nstates:\n  initial: a\n  a: {type: step, command: x, on_success: a}\n": "AWF006 a",
		"name: f\nstates:\n  initial: z\n  z: {type: terminal}\n  z: {type: terminal}\n": "YAML008 z",
		"name: f\nname: g\n" + done:                                                      "YAML008 name",
		"name: f\ninputs: {who: {type: string}}\n" + done:                                "AWF002 {who",
		"name: f\ninputs: [{name: a}, {name: a}]\n" + done:                               "AWF009 a",
		"name: f\nstates:\n  initial: z\n  z: {type: terminal}\n  b: x\n":                "AWF002 x",
		"name: f\nplugins: {db: x}\n" + done:                                             "AWF007 plugins",
		"name: f\nhooks: {workflow_strat: [{log: x}]}\n" + done:                          "AWF003 workflow_strat",
		"name: f\nhooks: {workflow_error: [{command: 'eval {{.error.Message}}'}]}\nstates:\n  initial: z\n  z: " +
			"{type: terminal, status: failure}\n": "AWF020 eval {{.error.Message}}",
		"name: f\nhooks: {workflow_error: [{log: 'eval {{.error.Message}}'}]}\nstates:\n  initial: z\n  z: {type: " +
			"terminal, status: failure}\n": "",
		"name: f\nhooks: {workflow_end: [{}]}\n" + done: "AWF001 {}",
		"name: f\nstates:\n  initial: c\n  c: {type: call_workflow, workflow: pack/flow, on_success: z}\n  z: " +
			"{type: terminal}\n": "AWF007 pack/flow",
		"name: f\nstates:\n  initial: s\n  s: {type: step, command: x, script_file: y, on_success: z}\n  z: " +
			"{type: terminal}\n": "AWF014 script_file",
		"name: f\nstates:\n  initial: s\n  s: {type: step, command: x, capture: {stdout: a}, on_success: z}\n  z: " +
			"{type: terminal}\n": "AWF008 capture",
		"name: f\nstates:\n  initial: s\n  s: {type: step, command: x, depends_on: [z], on_success: z}\n  z: " +
			"{type: terminal}\n": "AWF008 depends_on",
		"name: f\nstates:\n  initial: s\n  s: {type: step, command: x, on_success: z, on_failure: {status: 2}}\n  " +
			"z: {type: terminal}\n": "AWF001 status",
		"name: f\nstates:\n  initial: p\n  p: {type: parallel, parallel: [a, a], on_success: z}\n  a: {type: " +
			"step, command: x}\n  z: {type: terminal}\n": "AWF009 a",
	} {
		_, list := compile(text, nil)
		got := ""
		for _, d := range list {
			got += " " + string(d.Code) + " " + text[d.Span.Start:d.Span.End]
			if d.Message == "" || d.Help == "" {
				t.Errorf("%s: %+v", text, d)
			}
		}
		if strings.TrimSpace(got) != want {
			t.Errorf("%s: got%s, want %s", text, got, want)
		}
	}
}

// Keys that would be ignored silently, or that are misleading, are reported.
func TestReportsIneffectiveAndMisleadingKeys(t *testing.T) {
	for keys, want := range map[string]string{
		`type: agent, provider: claude, prompt: hi, timeout: "{{.states.x.Tiemout}}"`:                  "AWF011 states.x.Tiemout",
		`type: operation, operation: http.request, inputs: {url: u}, timeout: "{{.states.x.Tiemout}}"`: "AWF011 states.x.Tiemout",
		`type: step, command: x, hooks: {pre: [{command: x, timeout: "{{.inputs.t}}"}]}`:               "AWF004 {{.inputs.t}}",
		`type: while, while: "true", max_iterations: 2.5, body: [y]`:                                   "AWF004 2.5",
		`type: while, while: "true", max_iterations: 10001, body: [y]`:                                 "AWF004 10001",
		`type: for_each, items: [1], max_iterations: 0, body: [y]`:                                     "AWF004 0",
		`type: for_each, items: [1], body: [y, y]`:                                                     "AWF009 y",
		`type: agent, provider: claude, prompt: hi, mcp_proxy: {enabled: true}`:                        "AWF003 enabled",
		`type: agent, provider: claude, prompt: hi, conversation: {continue_from: w}`:                  "AWF005 w",
		`type: agent, provider: claude, prompt: hi, role: nobody`:                                      "AWF013 nobody",
		`type: agent, provider: claude, prompt: hi, skills: [none]`:                                    "AWF013 none",
		`type: agent, provider: claude, mode: conversation, prompt_file: p.md`:                         "AWF014 prompt_file",
		`type: agent, provider: claude, prompt: hi, prompt_file: p.md`:                                 "AWF014 prompt_file",
		`type: agent, provider: custom, prompt: hi`:                                                    "AWF004 custom",
		`type: for_each, items: {a: 1}, body: [y]`:                                                     "AWF002 {a: 1}",
		`type: call_workflow, workflow: c, inputs: {extra: 1}`:                                         "AWF004 extra",
		`type: step, command: x, on_failure: {message: m, status: 0}`:                                  "AWF004 0",
		`type: step, command: x, on_failure: {message: m, status: 300}`:                                "AWF004 300",
		`type: step, command: "a {{.states.x.Attempt}}"`:                                               "AWF011 states.x.Attempt",
		`type: step, command: "{{.workflow.Nmae}}"`:                                                    "AWF011 workflow.Nmae",
		`type: step, command: x, transitions: [{when: "error.Stat == 1", goto: z}, {goto: z}]`:         "AWF011 error.Stat",
		`type: step, command: x, retry: {max_attempts: 2, initial_delay: 3}`:                           "AWF015 3",
		`type: step, command: x, shell: "{{.states.x.Output}}"`:                                        "AWF020 {{.states.x.Output}}",
		`type: step, command: "eval {{.states.x.Output}}"`:                                             "AWF020 eval {{.states.x.Output}}",
		`type: step, command: "bash -ec 'echo {{.states.x.Output}}'"`:                                  "AWF020 bash -ec 'echo {{.states.x.Output}}'",
		`type: step, command: "ssh host ls '{{.states.x.Output}}'"`:                                    "AWF020 ssh host ls '{{.states.x.Output}}'",
		`type: step, command: "{{.states.x.Output}} now"`:                                              "AWF020 {{.states.x.Output}} now",
		`type: step, command: "sed s/x/{{.states.x.Output}}/ f"`:                                       "AWF020 sed s/x/{{.states.x.Output}}/ f",
		`type: step, command: "python3 -c {{escape .states.x.Output}}"`:                                "AWF020 python3 -c {{escape .states.x.Output}}",
		`type: step, command: "trap 'echo {{.error.Message}}' EXIT"`:                                   "AWF020 trap 'echo {{.error.Message}}' EXIT",
		`type: step, script_file: py.sh`:                                                               "AWF020 py.sh",
		`type: step, command: x, hooks: {pre: [{command: "eval {{.states.x.Output}}"}]}`:               "AWF020 eval {{.states.x.Output}}",
		`type: step, command: x, hooks: {post: [{command: "awk {{.error.Message}}"}]}`:                 "AWF020 awk {{.error.Message}}",
		`type: step, command: x, post_hook: "sh -c 'echo {{.states.x.Output}}'"`:                       "AWF020 sh -c 'echo {{.states.x.Output}}'",
		`type: step, command: x, pre_hook: {command: "{{.states.x.Output}} now"}`:                      "AWF020 {{.states.x.Output}} now",
	} {
		text := "name: f\ninputs: [{name: t}]\nstates:\n  initial: x\n  x: {" + keys +
			", on_success: z}\n  y: {type: step, command: x, on_success: z}\n  z: {type: terminal}\n"
		_, list := compile(text, files{
			"p.md": "Hello.", "c.yaml": "name: c\nstates:\n  initial: z\n  z: {type: terminal}\n",
			"py.sh": "#!/usr/bin/env python3\nprint('{{.states.x.Output}}')",
		})
		var got []string
		for _, d := range list {
			got = append(got, string(d.Code)+" "+text[d.Span.Start:d.Span.End])
		}
		if len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q", keys, got)
		}
	}
}

// The timeout of a state that contains others may be a template, with the same checks as for
// commands.
func TestTemplateTimeoutsOfContainersAreChecked(t *testing.T) {
	const command = `type: step, command: x, TIMEOUT`
	holders := []string{
		`type: parallel, parallel: [y], TIMEOUT`,
		`type: for_each, items: [1], body: [y], TIMEOUT`,
		`type: while, while: 'loop.index < 2', body: [y], TIMEOUT`,
		`type: call_workflow, workflow: c, TIMEOUT`,
		`type: call_workflow, call_workflow: {workflow: c, TIMEOUT}`,
	}
	for template, want := range map[string]string{
		"{{.inputs.t}}":            "",
		"{{.inputs.t}}s":           "",
		"{{.states.a.Output}}":     "",
		"{{.env.LIMIT}}":           "",
		"{{.inputs.tt}}":           "WF005 inputs.tt",
		"{{.states.a.Outptu}}":     "AWF011 states.a.Outptu",
		"{{.states.none.Output}}":  "WF002 states.none.Output",
		"{{.states.later.Output}}": "WF003 states.later.Output",
		"{{.states.x.Output}}":     "WF003 states.x.Output",
		"{{.states.y.Output}}":     "WF003 states.y.Output",
		"{{.states.maybe.Output}}": "WF004 states.maybe.Output",
		"{{.loop.Item}}":           "AWF011 loop.Item",
		"{{.inputs.t":              "EXPR023 {{.inputs.t",
		`{{readFile .inputs.t}}`:   "AWF004 {{readFile .inputs.t}}",
	} {
		for _, keys := range append(holders, command) {
			text := "name: f\ninputs: [{name: t, default: 1s}]\nstates:\n  initial: a\n  a: {type: step, command: " +
				"x, transitions: [{when: states.a.ExitCode == 0, goto: x}], on_success: maybe}\n" +
				"  maybe: {type: step, command: x, on_success: x}\n" +
				"  x: {" + strings.Replace(keys, "TIMEOUT", `timeout: '`+template+`'`, 1) + ", on_success: later}\n" +
				"  later: {type: step, command: x, on_success: z}\n  y: {type: step, command: x, on_success: " +
				"z}\n  z: {type: terminal}\n"
			p, list := compile(text, files{"c.yaml": "name: c\nstates:\n  initial: z\n  z: {type: terminal}\n"})
			list = append(list, check.Program(p, catalog.Kinds())...)
			var got []string
			for _, d := range list {
				if at := text[d.Span.Start:d.Span.End]; d.Code != check.CodeUnreachable &&
					strings.Contains(template, at) {
					got = append(got, string(d.Code)+" "+at)
				}
			}
			want := want
			switch {
			case strings.Contains(template, "readFile") && keys == command: // commands may read files
				want = ""
			case strings.Contains(template, "states.y.") && !strings.Contains(keys, "[y]"): // the state is unreachable
				want = ""
			}
			if strings.Join(got, ", ") != want {
				t.Errorf("%s, %s: got %q, want %q", keys, template, got, want)
			}
			if s := p.Step(ir.Body, "x"); want == "" && s.Task() == nil && (s.Timeout != 0 || s.TimeoutExpr == nil ||
				s.TimeoutExpr.Text != template || irtest.Sound(p, catalog.Kinds()) != nil) {
				t.Errorf("%s, %s: %d, %+v, %v", keys, template, s.Timeout, s.TimeoutExpr,
					irtest.Sound(p, catalog.Kinds()))
			}
		}
	}
	for keys, want := range map[string]string{ // the innermost timeout applies
		`timeout: 1s, call_workflow: {workflow: c, timeout: "{{.inputs.t}}"}`: "0 {{.inputs.t}}",
		`timeout: "{{.inputs.t}}", call_workflow: {workflow: c, timeout: 2s}`: "2000 ",
		`timeout: "{{.inputs.t}}", call_workflow: {workflow: c}`:              "0 {{.inputs.t}}",
		`timeout: 1s, call_workflow: {workflow: c}`:                           "1000 ",
	} {
		p, list := compile("name: f\ninputs: [{name: t}]\nstates:\n  initial: x\n  x: {type: call_workflow, "+keys+
			", on_success: z}\n  z: {type: terminal}\n",
			files{"c.yaml": "name: c\nstates:\n  initial: z\n  z: {type: terminal}\n"})
		s := p.Step(ir.Body, "x")
		if got := fmt.Sprint(int64(s.Timeout), " ", s.TimeoutExpr); list.Errors() ||
			strings.ReplaceAll(got, "<nil>", "") != want {
			t.Errorf("%s: %q, %v", keys, got, list)
		}
	}
}

// A state with a wrong or missing type is one mistake: its transitions and references to it are
// treated as correct.
func TestOneMistakeIsReportedOnce(t *testing.T) {
	for keys, want := range map[string]string{
		`type: stp, command: x, odd: 1`:                                       "AWF004 stp",
		`type: call_workflow, workflow: needs`:                                "WF022 call_workflow",
		`type: call_workflow, workflow: nobody`:                               "AWF012 nobody",
		`use_template: gone`:                                                  "AWF018 gone",
		`use_template: tt`:                                                    "AWF018 tt",
		`use_template: tt, parameters: {what: x}, dir: "{{parameters.whta}}"`: "AWF018 {{parameters.whta}}",
		`type: db.query, query: select`:                                       "AWF007 db.query",
		`command: x`:                                                          "AWF001 x",
		`provider: claude, prompt: hi`:                                        "AWF001 x",
		`items: [1], body: [y]`:                                               "AWF001 x",
		`type: for_each, items: "", body: [y]`:                                "AWF001 items",
		`type: step, command: x, hooks: {pree: [], pre: []}`:                  "AWF003 pree",
	} {
		text := "name: f\nstates:\n  initial: x\n  x: {" + keys + ", on_success: w, on_failure: b}\n" +
			"  w: {type: step, command: 'echo {{.states.x.Output}}', on_success: l}\n" +
			"  l: {type: for_each, items: [1], body: [y], on_complete: z}\n  y: {type: step, command: x}\n" +
			"  z: {type: terminal}\n  b: {type: terminal, status: failure}\n"
		p, list := compile(text, files{"needs.yaml": "name: needs\ninputs: [{name: n, required: " +
			"true}]\nstates:\n  initial: z\n  z: {type: terminal}\n", "tt.yaml": "name: tt\nparameters: [{name: " +
			"what, required: true}]\nstates:\n  initial: s\n  s: {type: step, command: 'echo " +
			"{{parameters.what}}'}\n"})
		list = append(list, check.Program(p, catalog.Kinds())...)
		var got []string
		for _, d := range list {
			got = append(got, string(d.Code)+" "+text[d.Span.Start:d.Span.End])
		}
		if len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %q", keys, got, want)
		}
	}
}

// Values that no shell executes, and values that the author marks as code, are not reported.
func TestDataIsNotReportedAsCode(t *testing.T) {
	for _, command := range []string{
		`echo {{.states.x.Output}}`, `sh -c 'echo "$1"' sh "{{.states.x.Output}}"`, `eval {{raw .states.x.Output}}`,
		`{{ raw .states.x.Output }}`, `{{.states.x.Output | raw}} now`,
		`evaluate {{.states.x.Output}}`, `bash build.sh -c {{.states.x.Output}}`, `eval x; echo {{.states.x.Output}}`,
		`sh -c "echo {{escape .states.x.Output}}"`, `ssh host ls {{.states.x.Output | escape}}`,
		`TEXT="{{.states.x.Output}}" awk 'BEGIN { print ENVIRON["TEXT"] }'`,
	} {
		p, list := compile("name: f\nstates:\n  initial: x\n  x: {type: step, command: x, on_success: y}\n  "+
			"y:\n    type: step\n    command: >-\n      "+command+"\n    on_success: z\n  z: {type: terminal}\n", nil)
		if p == nil || len(list) > 0 {
			t.Errorf("%s: %v", command, list)
		}
	}
}

// In loops over step output, items are checked in commands and hooks.
func TestReportsLoopItemsExecutedAsCode(t *testing.T) {
	for items, want := range map[string]int{"[a, b]": 0, `"{{.inputs.i}}"`: 0, `"{{.states.s.Output}}"`: 3} {
		_, list := compile("name: f\ninputs: [{name: i}]\nstates:\n  initial: s\n  s: {type: step, command: x, "+
			"on_success: each}\n  each: {type: for_each, items: "+items+", body: [b], on_complete: z}\n"+
			"  b: {type: step, command: 'eval {{.loop.Item}}', hooks: {pre: [{command: 'eval 1 {{.loop.Item}}'}], "+
			"post: [{command: 'eval 2 {{.loop.Item}}'}]}}\n  z: {type: terminal}\n", nil)
		if len(list) != want || slices.ContainsFunc(list,
			func(d diag.Diagnostic) bool { return d.Code != awf.CodeAsCode }) {
			t.Errorf("%s: %v", items, list)
		}
	}
}

// Loop items and child inputs that come from steps are tainted.
func TestTaintsItemsAndInputsFromSteps(t *testing.T) {
	child := files{"c.yaml": `name: c
inputs: [{name: i}]
states:
  initial: each
  each: {type: for_each, items: "{{.inputs.i}}", body: [b], on_complete: deeper}
  b: {type: step, command: "echo {{.loop.Item}}"}
  deeper: {type: call_workflow, workflow: d, inputs: {i: "{{.inputs.i}}"}, on_success: z}
  z: {type: terminal}
`, "d.yaml": "name: d\ninputs: [{name: i}]\nstates:\n  initial: b\n  b: {type: step, command: 'echo " +
		"{{.inputs.i}}', on_success: z}\n  z: {type: terminal}\n"}
	untrustedRoots := func(p *ir.Program) (out []string) {
		var walk func(p *ir.Program, name string)
		walk = func(p *ir.Program, name string) {
			for b := range p.Blocks {
				for i := range p.Blocks[b].Steps {
					s := &p.Blocks[b].Steps[i]
					if t := s.Task(); t != nil && t.Kind == "command" {
						out = append(out, name+s.ID+string(t.Settings.Get("doubts")))
					}
					if c, ok := s.Action.(ir.Call); ok {
						walk(&p.Children[c.Child], name+s.ID+".")
					}
				}
			}
		}
		walk(p, "")
		return out
	}
	for text, want := range map[string]string{
		`  a: {type: step, command: x, on_success: each}
  each: {type: for_each, items: "{{.states.a.Output}}", body: [b, inner], on_complete: z}
  b: {type: step, command: "echo {{.loop.Item}}"}
  inner: {type: for_each, items: [1], body: [c]}
  c: {type: step, command: "echo {{.loop.Parent.Item}}"}
`: `[a b["loop"] c["loop"]]`,
		`  a: {type: for_each, items: "*.go, {{.inputs.i}}", body: [b], on_complete: z}
  b: {type: step, command: "echo {{.loop.Item}}"}
`: "[b]",
		`  a: {type: step, command: x, on_success: call}
  call: {type: call_workflow, workflow: c, inputs: {i: "{{.states.a.Output}}"}, on_success: own}
  own: {type: call_workflow, workflow: c, inputs: {i: "{{.inputs.i}}"}, on_success: z}
`: `[a call.deeper.b["loop","inputs"] call.b["loop","inputs"] own.deeper.b own.b]`,
	} {
		p, list := compile("name: f\ninputs: [{name: i}]\nstates:\n  initial: a\n"+text+"  z: {type: terminal}\n",
			child)
		if got := fmt.Sprint(untrustedRoots(p)); got != want || list.Errors() {
			t.Errorf("%s: got %s, want %s; %v", text, got, want, list)
		}
	}
}

// Inputs in the project's configuration are checked, and reported there.
func TestChecksConfiguredInputs(t *testing.T) {
	config := "inputs:\n  n: many\n"
	_, list := compile("name: f\ninputs:\n  - {name: n, type: integer}\nstates:\n  initial: z\n  z: {type: "+
		"terminal}\n", files{".awf/config.yaml": config})
	if len(list) != 1 || list[0].Code != awf.CodeBadValue || list[0].Span.File != ".awf/config.yaml" ||
		config[list[0].Span.Start:list[0].Span.End] != "many" {
		t.Error(list)
	}
}

// Calls may be ten levels deep, but not more.
func TestBoundsCallDepth(t *testing.T) {
	more := files{}
	for i := range 12 {
		inner := "terminal"
		if i < 11 {
			inner = fmt.Sprintf("call_workflow, workflow: w%d, on_success: done", i+1)
		}
		more[fmt.Sprintf("w%d.yaml", i)] = fmt.Sprintf(
			"name: w%d\nstates:\n  initial: in\n  in: {type: %s}\n  done: {type: terminal}\n", i, inner)
	}
	for name, want := range map[string]bool{"w0.yaml": true, "w1.yaml": false} {
		_, list := compile(more[name], more)
		found := false
		for _, d := range list {
			found = found || d.Code == awf.CodeTooDeep
		}
		if found != want || list.Errors() != want {
			t.Errorf("%s: %v", name, list)
		}
	}
}

// Parsing terminates for any input, and every diagnostic is inside the file.
func TestAnyInputGetsDiagnosticsInsideTheFile(t *testing.T) {
	value := rapid.SampledFrom([]string{
		"a", "b", "step", "parallel", "for_each", "while", "call_workflow", "terminal", "agent", "operation",
		"[a, b]", "[b]", "{a: b}", "5", "-1", "true", "null",
		`"{{.states.a.Output}}"`, `"{{"`, "states.a.ExitCode ==", "'1s'", "[{name: x, command: y}]", "{message: x}",
		"~", `""`,
	})
	keys := []string{
		"type", "command", "on_success", "on_failure", "transitions", "parallel", "body", "items", "while", "until",
		"max_iterations", "break_when",
		"workflow", "inputs", "outputs", "retry", "hooks", "timeout", "provider", "prompt", "conversation", "skills",
		"operation", "status", "message", "use_template", "steps", "strategy",
	}
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		b.WriteString("name: f\nstates:\n  initial: a\n")
		for _, name := range []string{"a", "b", "c"} {
			b.WriteString("  " + name + ":\n")
			for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom(keys), 1, 6, rapid.ID).Draw(t, "keys") {
				b.WriteString("    " + key + ": " + value.Draw(t, key) + "\n")
			}
		}
		text := b.String()
		_, list := compile(text, files{"a.yaml": "name: a\nstates: {}\n"})
		for _, d := range list {
			if d.Span.File == "flow.yaml" && (d.Span.Start < 0 || d.Span.End > len(text) || d.Span.Start > d.Span.End) {
				t.Fatalf("%v in\n%s", d, text)
			}
		}
	})
}

// All unknown template functions are reported, each at its position.
func TestReportsUnknownTemplateFunctions(t *testing.T) {
	text := "name: x\nstates:\n  initial: a\n  a: {type: step, command: 'echo {{upper .inputs.n | trimspace}} " +
		"{{printf \"%s\" .inputs.n}}', on_success: b}\n  b: {type: terminal}\ninputs:\n  - {name: n}\n"
	_, list := compile(text, nil)
	var got []string
	for _, d := range list.Sorted() {
		got = append(got, string(d.Code)+" "+text[d.Span.Start:d.Span.End]+": "+d.Help)
	}
	want := []string{
		"EXPR023 upper: Besides the functions of Go templates there are escape, join, json, raw, readFile, split, " +
			"trimSpace. Let a command do the rest.",
		`EXPR023 trimspace: Did you mean "trimSpace"?`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
