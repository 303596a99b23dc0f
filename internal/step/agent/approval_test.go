package agent_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/agent"
	"github.com/espalier-run/espalier/internal/step/steptest"
	"github.com/espalier-run/espalier/internal/tool"
)

// An agent that wants to make two calls, each of which a person has to agree
// to: no model call is made twice, and the model receives the refusal.
func TestCallsThatNeedApproval(t *testing.T) {
	act := steptest.Tool{Spec: tool.Spec{RequiresApproval: true, SideEffects: true}, Answer: `"sent"`}
	p := steptest.Play{
		Settings: steptest.Settings{"agent": "handy", "task": "Send it."},
		Tools:    map[string]steptest.Tool{"search": act},
		Replies: []steptest.Reply{
			{Calls: []steptest.Call{{Tool: "search", Input: `{"n":1}`}, {Tool: "search", Input: `{"n":2}`}}},
			{Text: "done"},
		},
		With: func(j *step.Job) { j.Root = "root" },
	}
	log, world := &steptest.Log{}, &steptest.World{Replies: p.Replies, Tools: p.Tools}
	answer := func(approved bool) *step.ApprovalRequired {
		t.Helper()
		_, err := p.Done(t, agent.Runner{}, log, world)
		var q *step.ApprovalRequired
		if !errors.As(err, &q) {
			t.Fatalf("%v", err)
		}
		notes := append(slices.Clone(log.Notes),
			journal.TaskNoted{N: len(log.Notes) + 1, Kind: journal.NoteToolAnswer, Data: step.JSON(journal.ToolAnswer{
				Call: q.Call, Digest: journal.GateDigest("root", q.Call, "call", q.Shows),
				Approved: approved, Note: "not twice",
			})})
		log = steptest.Resumed(notes)
		return q
	}
	if q := answer(true); string(q.Shows["arguments"]) != `{"n":1}` || len(world.Calls) != 0 {
		t.Errorf("first: %s, %v", q.Shows, world.Calls)
	}
	if q := answer(false); string(q.Shows["arguments"]) != `{"n":2}` || world.Calls["root/work#0/call:1"] != 1 {
		t.Errorf("second: %s, %v", q.Shows, world.Calls)
	}
	result, err := p.Done(t, agent.Runner{}, log, world)
	if err != nil || string(result.Value) != `"done"` {
		t.Fatalf("%s, %v", result.Value, err)
	}
	if len(world.Calls) != 1 || world.Calls["root/work#0/call:1"] != 1 || len(world.Requests) != 2 {
		t.Errorf("calls %v, %d model calls", world.Calls, len(world.Requests))
	}
	last := world.Requests[1].Messages[len(world.Requests[1].Messages)-1].Blocks
	if len(last) != 2 || last[0].IsError || !last[1].IsError ||
		!strings.Contains(string(last[1].Content), "not twice") {
		t.Errorf("the model was told %+v", last)
	}
}
