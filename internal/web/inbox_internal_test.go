package web

import (
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/report"
)

// What a call of a tool returns is marked as untrusted, whatever the format calls the step.
func TestCallsOfToolsAreUntrustedInAllFormats(t *testing.T) {
	tool := ir.Task{Kind: "prompt", Traits: &ir.Traits{Nature: ir.Acts, Tool: "http.get"}}
	agent := ir.Task{Kind: "prompt", Traits: &ir.Traits{Nature: ir.Asks, Agent: "a"}}
	for _, c := range []struct {
		action ir.Action
		want   bool
	}{{tool, true}, {agent, false}, {ir.Gate{Verdict: &tool}, false}} {
		s := &report.Step{Kind: "agent", Info: &report.StepInfo{Step: &ir.Step{Type: "agent", Action: c.action}}}
		if got := callsTool(s); got != c.want {
			t.Errorf("%#v: %t, want %t", c.action, got, c.want)
		}
	}
	if callsTool(&report.Step{Kind: "tool"}) {
		t.Error("a step of an unknown program is a call")
	}
}
