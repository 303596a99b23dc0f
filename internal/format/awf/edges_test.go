package awf_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
)

// An unconditional transition applies after the failure of a command, and of no other step: a failure is no success.
func TestUnconditionalTransitionsFollowOnlyFailedCommands(t *testing.T) {
	for kind, always := range map[string]bool{
		"type: step, command: x":                       true,
		"type: agent, provider: claude, prompt: Hi":    false,
		"type: parallel, parallel: [b]":                false,
		"type: for_each, items: [1], body: [b]":        false,
		"type: operation, operation: o.p, inputs: {}":  false,
		"type: call_workflow, workflow: c, inputs: {}": false,
		"type: while, while: 'false', body: [b]":       false,
	} {
		for _, keys := range []string{
			"description: none", "on_failure: z", "on_failure: {message: m}", "continue_on_error: true, on_success: z",
		} {
			p, list := compile("name: f\nstates:\n  initial: x\n  x: {"+kind+
				", transitions: [{when: 'true', goto: y}, {goto: z}], "+keys+
				"}\n  y: {type: step, command: x, on_success: z}\n  b: {type: step, command: x, on_success: "+
				"z}\n  z: {type: terminal}\n",
				files{"c.yaml": "name: c\nstates:\n  initial: z\n  z: {type: terminal}\n"})
			next := p.Step(ir.Body, "x").Next
			if list.Errors() || len(next) < 2 || next[0].When == nil || next[0].Label != "true" ||
				!slices.Contains(next[0].On, ir.Failed) {
				t.Fatalf("%s, %s: %+v, %v", kind, keys, next, list)
			}
			if got := slices.Contains(next[1].On, ir.Failed); got != always ||
				next[1].When != nil || !slices.Contains(next[1].On, ir.OK) {
				t.Errorf("%s, %s: after a failure, too: %t, want %t", kind, keys, got, always)
			}
		}
	}
}

// A state without a successor is reported, with the key that its type uses for it.
func TestReportsStatesWithoutSuccessor(t *testing.T) {
	for keys, want := range map[string]string{
		"type: step, command: x": `Add "on_success:" with the name of ` +
			`the next state.`,
		"type: parallel, parallel: [b]": `Add "on_success:" with the name of ` +
			`the next state.`,
		"type: for_each, items: [1], body: [b]": `Add "on_complete:" with the name of ` +
			`the next state.`,
		"type: while, while: 'false', body: [b]": `Add "on_complete:" with the name of ` +
			`the next state.`,
		"type: step, command: x, transitions: [{when: a, goto: z}]":       "",
		"type: for_each, items: [1], body: [b], transitions: [{goto: z}]": "",
	} {
		p, list := compile("name: f\nstates:\n  initial: x\n  x: {"+keys+
			"}\n  b: {type: step, command: x, on_success: z}\n  z: {type: terminal}\n", nil)
		var got []string
		for _, d := range list {
			got = append(got, d.Help)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %q, want %q", keys, got, want)
		}
		fails := slices.ContainsFunc(p.Step(ir.Body, "x").Next,
			func(e ir.Edge) bool { return e.To.Exit == ir.ExitFail && e.To.Reason == "NO_TRANSITION" })
		if fails == strings.Contains(keys, "[{goto") {
			t.Errorf("%s: fails when it leads nowhere: %t", keys, fails)
		}
	}
}

// State names may end like the IDs of hook steps.
func TestStateNamesMayResembleHookSteps(t *testing.T) {
	for _, name := range []string{"a:pre", "a:post", "a:post-failed", "a:nowhere", "a:next"} {
		p, list := compile("name: f\nhooks: {workflow_error: [{log: x}]}\nstates:\n  initial: \""+name+"\"\n  \""+name+
			"\": {type: step, command: x, transitions: [{when: 'false', goto: z}], hooks: {pre: [{log: x}], post: "+
			"[{log: x}]}}\n  z: {type: terminal}\n", nil)
		if list.Errors() || p == nil {
			t.Errorf("%s: %v", name, list)
		}
	}
}
