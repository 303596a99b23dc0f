package app

import (
	"fmt"
	"strings"
	"testing"
)

const (
	// misfit fails: its output does not fit the schema.
	misfit = `---
name: misfit
kind: agent-flow/workflow
version: 1.0.0
description: A test.
triggers: { schedule: "0 * * * *" }
output:
  schema: { type: object, required: [answer], properties: { answer: { type: string } } }
---
` + "```step\nid: ask\ntype: transform\ndescription: Say hello\nwrites: [state.a]\n```\n"
	frugal = `---
name: frugal
kind: agent-flow/workflow
version: 1.0.0
description: A test.
triggers: { schedule: "0 * * * *" }
budgets: { max_steps: 1 }
---
` + "```step\nid: first\ntype: transform\ndescription: Do it\nwrites: [state.a]\n```\n" +
		"```step\nid: second\ntype: transform\ndescription: Do more\nwhen: state.a != null\nreads: [state.a]\n```\n"
)

// A run that fails and one that exceeds a budget are notified once each, with a link to their pages.
func TestFailedRunsAndExceededBudgetsAreNotified(t *testing.T) {
	p, to := notified(t, "skip}\n  misfit: {simulate: true, overlap: skip}\n"+
		"  frugal: {simulate: true, overlap: skip")
	s := p.server()
	s.app.SetPublicURL("https://flows.example.org", true)
	n := &notifier{s.app, s.env}
	p.write("misfit.md", misfit)
	p.write("frugal.md", frugal)
	s.at(t, &p.clock, midnight)
	n.round(t)
	s.at(t, &p.clock, hour(1))
	s.rest(t)
	n.round(t)
	n.round(t)
	sent := map[string][]string{}
	for _, b := range to.bodies {
		for _, kind := range []string{"waiting", "failed", "budget"} {
			if strings.Contains(b, fmt.Sprintf(`"type":%q`, kind)) {
				sent[kind] = append(sent[kind], b)
			}
		}
	}
	// Two targets are for failures: one for everything, and one for failures alone.
	if len(sent["failed"]) != 2 || len(sent["budget"]) != 1 || len(sent["waiting"]) != 1 {
		t.Fatalf("%q", to.bodies)
	}
	runs := map[string]Run{}
	for _, r := range s.runs(t) {
		runs[r.Name] = r
	}
	for kind, want := range map[string][]string{
		"failed": {"of misfit has failed: ", "https://flows.example.org/runs/" + string(runs["misfit"].ID)},
		"budget": {
			"of frugal has stopped: the step budget is exhausted",
			"https://flows.example.org/runs/" + string(runs["frugal"].ID),
		},
	} {
		for _, text := range want {
			if !strings.Contains(sent[kind][0], text) {
				t.Errorf("no %q in %s", text, sent[kind][0])
			}
		}
	}
}
