package awf_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/format/awf"
	"github.com/espalier-run/espalier/internal/ir"
)

// diagnose returns the diagnostics of a file, each with the text that it marks.
func diagnose(text string, more files) []string {
	_, list := compile(text, more)
	out := []string{}
	for _, d := range list.Sorted() {
		out = append(out, string(d.Code)+" "+text[d.Span.Start:d.Span.End])
	}
	return out
}

// Every reference to a state is checked, and a file without states is one mistake.
func TestChecksReferencesToStates(t *testing.T) {
	const states = "name: f\nstates:\n  initial: a\n  a: {type: step, command: x, on_success: z, KEYS}\n  z: " +
		"{type: terminal}\n"
	for keys, want := range map[string]string{
		"transitions: [{when: 'true', goto: z}, {goto: zz}]": "AWF005 zz",
		"on_failure: zz": "AWF005 zz",
		"on_failure: z":  "",
	} {
		if got := strings.Join(diagnose(strings.Replace(states, "KEYS", keys, 1), nil), ", "); got != want {
			t.Errorf("%s: got %q, want %q", keys, got, want)
		}
	}
	if got := diagnose("name: f\nstates:\n  initial: a\n", nil); !slices.Equal(got, []string{"AWF006 name"}) {
		t.Errorf("no states: %q", got)
	}
}

// A state in several others is compiled for each of them, but its mistakes are reported once.
func TestSharedStateReportsMistakesOnce(t *testing.T) {
	got := diagnose(`name: f
states:
  initial: one
  one: {type: for_each, items: [1], body: [b], on_complete: two}
  two: {type: parallel, parallel: [b], on_success: z}
  b: {type: step, command: 'echo {{upper .loop.Item}} {{.states.b.Outptu}}'}
  z: {type: terminal}
`, nil)
	if want := []string{"EXPR023 upper"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The number of concurrent branches has a default limit.
func TestLimitsConcurrentBranches(t *testing.T) {
	for _, c := range []struct {
		branches int
		most     string
		want     int
	}{{32, "", 0}, {33, "", 32}, {40, "max_concurrent: 36,", 36}, {3, "max_concurrent: 2,", 2}} {
		var names []string
		states := ""
		for i := range c.branches {
			names = append(names, fmt.Sprintf("b%d", i))
			states += fmt.Sprintf("  b%d: {type: step, command: x}\n", i)
		}
		p, list := compile(fmt.Sprintf("name: f\nstates:\n  initial: p\n  p: {type: parallel, %s parallel: [%s], "+
			"on_success: z}\n%s  z: {type: terminal}\n", c.most, strings.Join(names, ", "), states), nil)
		if got := p.Step(ir.Body, "p").Action.(ir.Parallel); got.MaxConcurrent != c.want ||
			len(got.Branches) != c.branches || len(list) > 0 {
			t.Errorf("%+v: %d at once of %d, %v", c, got.MaxConcurrent, len(got.Branches), list)
		}
	}
}

// Loops and parallel steps that contain themselves, directly or indirectly, are reported where
// they do, and the rest of their content is compiled.
func TestReportsStatesThatContainThemselves(t *testing.T) {
	for states, want := range map[string]string{
		"  a: {type: parallel, parallel: [b, a], on_success: z}\n":          "AWF017 a",
		"  a: {type: for_each, items: [1], body: [a, b], on_complete: z}\n": "AWF017 a",
		"  a: {type: while, while: 'true', body: [c, b], on_complete: z}\n  c: {type: parallel, parallel: [b, a], " +
			"on_success: a}\n": "AWF017 a",
		"  a: {type: parallel, parallel: [b, c], on_success: z}\n  c: {type: for_each, items: [1], body: [b, a, " +
			"c], on_complete: z}\n": "AWF017 a, AWF017 c",
	} {
		text := "name: f\nstates:\n  initial: a\n" + states + "  b: {type: step, command: x}\n  z: {type: terminal}\n"
		if got := strings.Join(diagnose(text, nil), ", "); got != want {
			t.Errorf("%s: got %q, want %q", states, got, want)
		}
		p, _ := compile(text, nil)
		held := 0
		for _, b := range p.Blocks[1:] {
			if slices.ContainsFunc(b.Steps, func(s ir.Step) bool { return s.ID == "b" }) {
				held++
			}
		}
		if held == 0 {
			t.Errorf("%s: nothing holds b", states)
		}
	}
}

// A state inside a loop or a parallel step is also part of the body if a transition leads to it
// from there, or out of a loop at any depth.
func TestInnerStatesReachableFromOutsideArePartOfTheBody(t *testing.T) {
	const others = "  b: {type: step, command: x, on_success: z}\n  c: {type: step, command: x}\n  z: {type: " +
		"terminal}\n"
	for states, want := range map[string]string{
		"  a: {type: parallel, parallel: [b, c], on_success: z}\n": "a z",
		"  a: {type: parallel, parallel: [b, c], on_success: b}\n": "a b z",
		"  a: {type: parallel, parallel: [b, c], on_success: d}\n  d: {type: step, command: x, transitions: " +
			"[{when: 'true', goto: b}], on_success: z}\n": "a b d z",
		"  a: {type: for_each, items: [1], body: [b, c], on_complete: z}\n": "a z",
		"  a: {type: for_each, items: [1], body: [i], on_complete: p}\n  i: {type: while, while: 'true', body: " +
			"[w]}\n  w: {type: step, command: x, on_failure: b}\n  p: {type: parallel, parallel: [b, c], " +
			"on_success: z}\n": "a b p z",
		"  a: {type: for_each, items: [1], body: [i, b, c], on_complete: z}\n  i: {type: while, while: 'true', " +
			"body: [w], on_complete: a}\n  w: {type: step, command: x, on_success: i, on_failure: b, transitions: " +
			"[{when: 'true', goto: a}]}\n": "a z",
		"  a: {type: parallel, parallel: [i, c], on_success: z}\n  i: {type: while, while: 'true', body: [w, " +
			"b]}\n  w: {type: step, command: x, on_failure: a}\n": "a z",
	} {
		p, list := compile("name: f\nstates:\n  initial: a\n"+states+others, nil)
		var got []string
		for _, s := range p.Blocks[ir.Body].Steps {
			got = append(got, s.ID)
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want || list.Errors() {
			t.Errorf("%s: got %q, want %q; %v", states, got, want, list)
		}
	}
}

// A call's outputs are available under the author's names in every documented form. Outputs
// that the child lacks are reported.
func TestCallOutputsInEveryForm(t *testing.T) {
	child := files{"c.yaml": "name: c\nstates:\n  initial: a\n  a: {type: step, command: echo, on_success: z}\n  " +
		"z: {type: terminal}\noutputs:\n  - {name: r, from: states.a.output}\n"}
	for outputs, want := range map[string]string{
		"{r: got}":                         `got = output["r"]`,
		"{got: r}":                         `got = output["r"]`,
		"{a: got}":                         `got = states["a"].Output`,
		"{got: a}":                         `got = states["a"].Output`,
		"{r: ''}":                          `r = output["r"]`,
		"{a: }":                            `a = states["a"].Output`,
		"{got: states.a.ExitCode}":         "got = states.a.ExitCode",
		"{got: '{{.states.a.Output}}'}":    "got = {{.states.a.Output}}",
		"{got: nope}":                      "AWF004 got",
		"{z: got}":                         "AWF004 z",
		"{got: states.nope.Output}":        "AWF004 states.nope.Output",
		"{got: '{{.states.nope.Output}}'}": "AWF004 {{.states.nope.Output}}",
		"{got: states.a.Outptu}":           "AWF011 states.a.Outptu",
		"{got: '{{.outputs.r}}'}":          "AWF004 {{.outputs.r}}",
		"{r: {x: 1}}":                      "AWF002 {x: 1}",
		"{r: [x]}":                         "AWF002 [x]",
	} {
		text := "name: f\nstates:\n  initial: c\n  c: {type: call_workflow, workflow: c, outputs: " + outputs +
			", on_success: z}\n  z: {type: terminal}\n"
		got := strings.Join(diagnose(text, child), ", ")
		if p, list := compile(text, child); !list.Errors() {
			for _, b := range p.Step(ir.Body, "c").Action.(ir.Call).Outputs {
				got += b.Name + " = " + b.Value.Text
			}
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", outputs, got, want)
		}
	}
}

// Control flow cannot depend on files, which is reported at compile time.
func TestReportsControlFlowThatReadsFiles(t *testing.T) {
	child := files{"c.yaml": "name: c\ninputs: [{name: i}]\nstates:\n  initial: z\n  z: {type: terminal}\n"}
	const read = `{{readFile "l.txt"}}`
	for keys, want := range map[string]string{
		"type: step, command: 'cat READ', on_success: z":               "",
		"type: agent, provider: claude, prompt: 'READ', on_success: z": "",
		"type: for_each, items: 'READ', body: [y], on_complete: z": `error The list ` +
			`of items of "x" cannot`,
		"type: for_each, items: ['a', 'READ'], body: [y], on_complete: z": `error The list ` +
			`of items of "x" cannot`,
		"type: while, while: 'true', max_iterations: 'READ', body: [y], on_complete: z": `error The limit ` +
			`of "x" cannot`,
		"type: call_workflow, workflow: c, inputs: {i: 'READ'}, on_success: z": `error The input ` +
			`"i" cannot`,
		"type: parallel, parallel: [y], timeout: 'READ', on_success: z": `error The timeout of "x" cannot`,
		"type: terminal, status: failure, message: 'READ'": "warning The " +
			"message cannot",
		"type: step, command: x, on_success: z, on_failure: {message: 'READ', status: 3}": "warning The " +
			"message cannot",
		"type: step, command: x, on_success: z, on_failure: {message: 'as you see', status: 3}": "",
	} {
		text := "name: f\nstates:\n  initial: x\n  x: {" + strings.ReplaceAll(keys, "READ", read) +
			"}\n  y: {type: step, command: x, on_success: z}\n  z: {type: terminal}\n"
		_, list := compile(text, child)
		var got []string
		for _, d := range list {
			got = append(got, fmt.Sprint(d.Severity, " ", strings.TrimSuffix(d.Message, " be read from a file.")))
			if !strings.Contains(text[d.Span.Start:d.Span.End], read) || d.Code != awf.CodeBadValue {
				t.Errorf("%s: %+v", keys, d)
			}
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: got %q, want %q", keys, got, want)
		}
	}
}

// After a loop ends, its variables are undefined and values are no longer tainted by it.
func TestLoopScopeEndsWithLoop(t *testing.T) {
	p, list := compile(`name: f
states:
  initial: a
  a: {type: step, command: x, on_success: each}
  each: {type: for_each, items: "{{.states.a.Output}}", body: [b], on_complete: c}
  b: {type: step, command: "echo {{.loop.Item}}"}
  c: {type: step, command: "echo {{.loop.Item}}", on_success: z}
  z: {type: terminal}
`, nil)
	if len(list) != 1 || list[0].Code != awf.CodeNoProperty {
		t.Error(list)
	}
	if got := p.Step(ir.Body, "c").Task().Settings.Get("doubts"); got != nil {
		t.Errorf("%s", got)
	}
}

// A child's inputs are tainted if they come from a step: directly, from its error, or from the
// items of a loop over its output.
func TestTaintsInputsOfChildren(t *testing.T) {
	child := files{"c.yaml": "name: c\ninputs: [{name: i}, {name: n, type: integer}]\nstates:\n  initial: b\n  b: " +
		"{type: step, command: 'echo {{.inputs.i}}', hooks: {pre: [{command: x}]}, on_success: z}\n  z: {type: " +
		"terminal}\n"}
	for keys, want := range map[string]bool{
		"items: [1], body: [call]|i: '{{.loop.Item}}'":                           false,
		"items: '{{.inputs.l}}', body: [call]|i: '{{.loop.Item}}'":               false,
		"items: '{{.states.a.Output}}', body: [call]|i: '{{.loop.Item}}'":        true,
		"items: '{{.states.a.Output}}', body: [call]|i: '{{.loop.Index}}'":       true,
		"items: '{{.states.a.Output}}', body: [call]|i: plain":                   false,
		"items: [1], body: [call]|i: '{{.error.Message}}'":                       true,
		"items: [1], body: [call]|n: '{{.states.a.ExitCode}}'":                   true,
		"items: [1], body: [call]|i: '{{.workflow.Name}} {{.inputs.l}}', n: '3'": false,
	} {
		loop, given, _ := strings.Cut(keys, "|")
		p, list := compile("name: f\ninputs: [{name: l}]\nstates:\n  initial: a\n  a: {type: step, command: x, "+
			"on_success: l}\n  l: {type: for_each, "+loop+", on_complete: z}\n  call: {type: call_workflow, "+
			"workflow: c, inputs: {"+given+"}}\n  z: {type: terminal}\n", child)
		call := p.Step(p.Step(ir.Body, "l").Action.(ir.Loop).Block, "call").Action.(ir.Call)
		for _, name := range []string{"b", "b:pre"} {
			settings := p.Children[call.Child].Step(ir.Body, name).Task().Settings
			if got := string(settings.Get("doubts")); got != map[bool]string{true: `["loop","inputs"]`}[want] ||
				list.Errors() {
				t.Errorf("%s, %s: %s, %v", keys, name, got, list)
			}
		}
	}
}

// A branch is one state: its ignored transitions are reported, unless they lead to an end.
func TestReportsIgnoredTransitionsOfBranches(t *testing.T) {
	for keys, want := range map[string]string{
		"type: step, command: x, on_success: y":                                    "AWF019 y",
		"type: step, command: x, on_success: z, on_failure: y":                     "AWF019 y",
		"type: step, command: x, transitions: [{when: 'true', goto: y}]":           "AWF019 y",
		"type: step, command: x, transitions: [{when: 'true &&', goto: z}]":        "EXPR023 &",
		"type: step, command: x, on_success: z":                                    "",
		"type: step, command: x, on_success: p":                                    "",
		"type: step, command: x, on_success: yy":                                   "AWF005 yy",
		"type: for_each, items: [1], body: [quiet], on_complete: y":                "",
		"type: while, while: 'true', body: [quiet], on_complete: y, on_failure: y": "",
		"type: while, while: 'true', body: [leaves], on_complete: y":               "AWF019 y",
	} {
		text := "name: f\nstates:\n  initial: p\n  p: {type: parallel, parallel: [a], on_success: y}\n  a: {" + keys +
			"}\n  w: {type: while, while: 'true', body: [quiet], on_complete: z}\n  quiet: {type: step, command: " +
			"x}\n  leaves: {type: step, command: x, on_success: y}\n  y: {type: step, command: x, on_success: " +
			"z}\n  z: {type: terminal}\n"
		if got := strings.Join(diagnose(text, nil), ", "); got != want {
			t.Errorf("%s: got %q, want %q", keys, got, want)
		}
	}
}
