package formattest

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// stepBlock returns a step block of an Agent Flow file.
func stepBlock(id, kind string, more ...string) string {
	return fmt.Sprintf("```step\nid: %s\ntype: %s\ndescription: %s\n%s\n```\n", id, kind, id, strings.Join(more, "\n"))
}

const flowHead = "---\nname: flow\nkind: agent-flow/workflow\nversion: 1.0.0\ndescription: flow\n---\n"

// F35: what counts as a step of a run.
func TestStepsOfARunAreCounted(t *testing.T) {
	waits := "```runtime\napproval_required: true\nwaitpoints:\n  - {id: WP, after_step: one, event: papers}\n```\n"
	for name, c := range map[string]struct {
		flow    string
		steps   int64
		outcome string
	}{
		"steps and an end": {
			stepBlock("one", "transform", "writes: [state.a]") + stepBlock("done", "end"), 2, "ok",
		},
		"a decision with a match": {
			stepBlock("one", "transform", "writes: [state.a]") +
				stepBlock("route", "decision", "reads: [state.a]",
					"branches: {said: done}") + stepBlock("done", "end"), 3, "ok",
		},
		"a decision without a match": {
			stepBlock("one", "transform", "writes: [state.a]") +
				stepBlock("route", "decision", "reads: [state.a]",
					"branches: {other: done}") + stepBlock("done", "end"), 2, "failed",
		},
		"a skipped step": {
			stepBlock("one", "transform", "writes: [state.a]") + stepBlock("two", "transform", "when: state.a == null"),
			1, "ok",
		},
		"an approval of the start and a waitpoint": {
			stepBlock("one", "transform", "writes: [state.a]") + stepBlock("two", "transform") + waits, 2, "ok",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := (&trial{
				files:  []txtar.File{{Name: "flow.md", Data: []byte(flowHead + c.flow)}},
				script: "replies:\n  - {reply: said}\n", agreeable: true,
			}).run(t)
			if h.problems.Errors() {
				t.Fatal(h.problems)
			}
			outcome, _ := h.ending()
			if used := h.state.Spent.Used.Steps; used != c.steps || outcome != c.outcome {
				t.Errorf("%s after %d steps, want %s after %d:\n%s", outcome, used, c.outcome, c.steps, h.record(t, ""))
			}
		})
	}
}
