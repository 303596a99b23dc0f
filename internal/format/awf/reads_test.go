package awf_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/check"
	"github.com/espalier-run/espalier/internal/diag"
)

// Variables of the machine are declared once, and unknown ones are reported.
func TestDeclaresVariablesOfTheMachine(t *testing.T) {
	for text, want := range map[string]string{
		"{{.context.User}} {{.context.hostname}} {{.context.User}}": "context.Hostname=host context.User=user " +
			"context.WorkingDir=dir",
		"{{.env.HOME}} {{index .env \"SHELL\"}}": "context.WorkingDir=dir env.HOME=env:HOME " +
			"env.SHELL=env:SHELL",
		"{{.awf.scripts_dir}} {{awf.config_dir}} {{.awf.nothing}}": `awf.config_dir="." ` +
			`awf.scripts_dir="scripts" context.WorkingDir=dir`,
	} {
		p, list := compile("name: f\nstates:\n  initial: x\n  x: {type: step, command: 'echo "+text+
			"', on_success: z}\n  z: {type: terminal}\n", nil)
		var got []string
		for _, v := range p.Vars {
			got = append(got, fmt.Sprint(v.Path, "=", v.From, string(v.Init)))
		}
		if strings.Join(got, " ") != want || list.Errors() {
			t.Errorf("%s: got %q, want %q; %v", text, got, want, list)
		}
	}
}

// The properties of a call are those of every state and the names of its outputs, wherever they
// are read.
func TestChecksPropertiesOfCalls(t *testing.T) {
	child := files{"c.yaml": "name: c\nstates:\n  initial: a\n  a: {type: step, command: x, on_success: z}\n  z: " +
		"{type: terminal}\n"}
	for read, want := range map[string]string{
		"{{.states.call.got}}":              "",
		"{{.states.call.Output}}":           "",
		`{{index .states "call" "got"}}`:    "",
		"{{.states.call.gto}}":              "AWF011 states.call.gto",
		"{{.states.plain.got}}":             "AWF011 states.plain.got",
		`{{index .states "plain" "got"}}`:   `AWF011 "plain" "got"`,
		"{{.states.plain}}":                 "",
		"{{.loop.Item}}":                    "AWF011 loop.Item",
		"{{.loop.Parent}}":                  "AWF011 loop.Parent",
		"{{.states.plain.Response.a.b.c}}":  "AWF011 states.plain.Response.a.b.c",
		"{{.states.call.Response.a.b.c}}":   "",
		"{{.states.bare.got}}":              "AWF011 states.bare.got",
		"{{.states.call.Outputs.anything}}": "",
	} {
		text := "name: f\nstates:\n  initial: plain\n  plain: {type: step, command: x, on_success: call}\n  call: " +
			"{type: call_workflow, workflow: c, outputs: {a: got}, on_success: bare}\n" +
			"  bare: {type: call_workflow, workflow: c, on_success: x}\n  x: {type: step, command: 'echo " + read +
			"', on_success: z}\n  z: {type: terminal}\n"
		if got := strings.Join(diagnose(text, child), ", "); got != want {
			t.Errorf("%s: got %q, want %q", read, got, want)
		}
	}
}

// Names of states in blocks are checked once.
func TestReportsUndefinedStatesInBlocks(t *testing.T) {
	for read, want := range map[string]string{
		"{{with .states}}{{.nope.Output}}{{end}}":              "AWF005 nope.Output",
		"{{with .states}}{{.y.Outpt}}{{end}}":                  "AWF011 y.Outpt",
		"{{with index .states \"nope\"}}{{.Output}}{{end}}":    "AWF005 \"nope\"",
		"{{$s := .states}}{{$s.y.Outpt}}":                      "AWF011 y.Outpt",
		"{{.states.y.JSON.k}}":                                 "AWF011 states.y.JSON.k",
		"{{.states.y.Data.k}}":                                 "AWF011 states.y.Data.k",
		"{{with .states}}{{.y.Output}}{{.y.exit_code}}{{end}}": "",
	} {
		text := "name: f\nstates:\n  initial: y\n  y: {type: step, command: x, on_success: x}\n" +
			"  x: {type: step, command: 'echo " + read + "', on_success: z}\n  z: {type: terminal}\n"
		if got := strings.Join(diagnose(text, nil), ", "); got != want {
			t.Errorf("%s: got %q, want %q", read, got, want)
		}
	}
}

// everything returns what validate reports.
func everything(text string) diag.List {
	p, list := compile(text, nil)
	return append(list, check.Program(p, catalog.Kinds())...)
}

// Whatever a template calls the states, what it reads from them is checked like {{.states.NAME}}.
func TestFollowsStatesThroughVariablesAndBlocks(t *testing.T) {
	for read, want := range map[string]string{
		"{{.states.later.Output}}":                                                    "error",
		"{{$s := .states}}{{$s.later.Output}}":                                        "error",
		"{{$s := states}}{{index $s \"later\" \"Output\"}}":                           "error",
		"{{$s := .}}{{$s.states.later.Output}}":                                       "error",
		"{{$s := .inputs}}{{$s = .states}}{{$s.later.Output}}":                        "error",
		"{{(index .states \"later\").Output}}":                                        "error",
		"{{with .states.later}}{{.Output}}{{end}}":                                    "error",
		"{{if $s := .states}}{{$s.later.Output}}{{end}}":                              "warning",
		"{{define \"t\"}}{{.later.Output}}{{end}}{{template \"t\" .states}}":          "error",
		"{{with .states}}{{.later.Output}}{{end}}":                                    "warning",
		"{{with $s := .states}}{{$s.later.Output}}{{end}}":                            "warning",
		"{{with index .states \"later\"}}{{.Output}}{{end}}":                          "warning",
		"{{$s := index .states \"later\"}}{{if $s}}{{$s.Output}}{{end}}":              "warning",
		"{{if index .states \"later\"}}{{.states.later.Output}}{{end}}":               "warning",
		"{{if and .states (index .states \"later\")}}{{.states.later.Output}}{{end}}": "warning",
		"{{range .states}}{{.Output}}{{end}}":                                         "warning",
		"{{range $k, $v := .states}}{{$k}}{{$v.Output}}{{end}}":                       "warning",
		"{{$s := .states}}{{range $s}}{{.Output}}{{end}}":                             "warning",
		"{{with .states}}{{json .}}{{end}}":                                           "warning",
		"{{json .states}}{{len .states}}":                                             "",
		"{{range .inputs}}{{.later}}{{end}}":                                          "",
		"{{$s := .inputs}}{{json $s}}":                                                "",
	} {
		// The initial state reads; "later" runs afterwards.
		text := "name: f\nstates:\n  initial: x\n  x: {type: step, command: 'echo " + read +
			"', on_success: later}\n  later: {type: step, command: x, on_success: z}\n  z: {type: terminal}\n"
		got := ""
		for _, d := range everything(text) {
			if d.Code == check.CodeWrittenLater && got != "error" {
				got = d.Severity.String()
			}
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", read, got, want)
		}
		// Afterwards there are states.
		text = strings.Replace(text, "initial: x", "initial: later", 1)
		text = strings.Replace(text, "on_success: later", "on_success: z", 1)
		text = strings.Replace(text, "command: x, on_success: z", "command: x, on_success: x", 1)
		for _, d := range everything(text) {
			t.Errorf("%s, afterwards: %v", read, d)
		}
	}
}

// TestComputedNamesOfStatesAreReported: validate cannot tell whether a state has run whose name is computed.
func TestComputedNamesOfStatesAreReported(t *testing.T) {
	for read, want := range map[string]string{
		`states[inputs.w].ExitCode == 0`:          "AWF005 states",
		`get(states, inputs.w) != nil`:            "AWF005 states",
		`all(["y"], states[#].ExitCode == 0)`:     "AWF005 states",
		`let n = "y"; states[n].ExitCode == 0`:    "AWF005 states",
		`states["y"].ExitCode == 0`:               "",
		`inputs.w in states`:                      "",
		`any([1, 2], # > 1) && inputs.w[0] == 12`: "",
	} {
		text := "name: f\ninputs: [{name: w, type: string}]\nstates:\n  initial: y\n" +
			"  y: {type: step, command: x, transitions: [{when: '" + read + "', goto: z}, {goto: e}]}\n" +
			"  z: {type: terminal}\n  e: {type: terminal}\n"
		if got := strings.Join(diagnose(text, nil), ", "); got != want {
			t.Errorf("%s: got %q, want %q", read, got, want)
		}
	}
}

// TestLoopConditionsOnTheirOwnBodyAreReported: the states of the body have not run before the first iteration.
func TestLoopConditionsOnTheirOwnBodyAreReported(t *testing.T) {
	for _, cond := range []string{
		`states.s.ExitCode != 0`, `states.s.ExitCode == 0`, `states.s.ExitCode > 0 || true`,
		`trim(states.s.Output) != \"done\"`, `!(states.s.ExitCode > 0)`, `not (len(states.s.Output) > 0)`,
		`states.s.Output not contains \"x\"`, `states[\"s\"].Output == nil`, `get(states, \"s\") == nil`,
		`\"s\" in states`, `(let x = states.s; x.ExitCode == 0)`, `'{{.states.s.Output}}' == ''`,
		`{{.states.s.ExitCode}} != 0`, `states.s?.ExitCode == 0`, `states.l.Output == nil`,
		`(let x = states.s.Output; x == \"a\" || x == \"b\")`, `states.s.ExitCode > 0 && states.s.Output != \"\"`,
	} {
		loop := "  l: {type: while, while: \"" + cond + "\", body: [s], max_iterations: 3, on_complete: z}\n" +
			"  s: {type: step, command: x, on_success: l}\n  z: {type: terminal}\n"
		got := "" // one warning for each state that the condition reads
		for _, d := range everything("name: f\nstates:\n  initial: l\n" + loop) {
			got += d.Severity.String() + " " + string(d.Code) + " "
		}
		if got != "warning WF003 " {
			t.Errorf("%s: got %q", cond, got)
		}
		// Another state's result is there before the loop starts.
		other := strings.NewReplacer("states.s", "states.b", "states.l", "states.b", `\"s\"`, `\"b\"`).Replace(loop)
		text := "name: f\nstates:\n  initial: b\n  b: {type: step, command: x, on_success: l}\n" + other
		for _, d := range everything(text) {
			t.Errorf("%s of an earlier state: %v", cond, d)
		}
		// The body tests its own states after they have run.
		text = strings.Replace("name: f\nstates:\n  initial: l\n"+loop, "max_iterations: 3",
			"max_iterations: 3, break_when: \""+cond+"\"", 1)
		text = strings.Replace(text, "while: \""+cond+"\"", "while: \"true\"", 1)
		for _, d := range everything(text) {
			t.Errorf("break_when: %s: %v", cond, d)
		}
		// The condition distinguishes the first iteration.
		for _, first := range []string{"loop.First or ", "loop.Index == 0 || "} {
			text = strings.Replace("name: f\nstates:\n  initial: l\n"+loop, "while: \"", "while: \""+first, 1)
			for _, d := range everything(text) {
				t.Errorf("%s%s: %v", first, cond, d)
			}
		}
	}
}
