package awf_test

import (
	"fmt"
	"strings"
	"testing"
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
		"{{.states.plain.Response.a.b.c}}":  "",
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
