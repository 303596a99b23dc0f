package tool_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/steptest"
	"github.com/espalier-run/espalier/internal/step/tool"
	seam "github.com/espalier-run/espalier/internal/tool"
)

// gated returns a play whose tool wants a person to agree.
func gated(spec seam.Spec) steptest.Play {
	spec.RequiresApproval = true
	return steptest.Play{
		Settings: steptest.Settings{"tool": "search", "args": map[string]any{"q": "roses"}},
		Tools:    with(steptest.Tool{Spec: spec, Answer: `"found"`}),
		With:     func(j *step.Job) { j.Root = "root" },
	}
}

// ask runs the play until it asks.
func ask(t *testing.T, p steptest.Play, log *steptest.Log, world *steptest.World) *step.ApprovalRequired {
	t.Helper()
	_, err := p.Done(t, tool.Runner{}, log, world)
	var q *step.ApprovalRequired
	if !errors.As(err, &q) || len(world.Calls) > 0 {
		t.Fatalf("%v, calls %v", err, world.Calls)
	}
	return q
}

// told returns a person's answer among the notes.
func told(log *steptest.Log, answer journal.ToolAnswer) *steptest.Log {
	return &steptest.Log{Notes: append(slices.Clone(log.Notes),
		journal.TaskNoted{N: len(log.Notes) + 1, Kind: journal.NoteToolAnswer, Data: step.JSON(answer)})}
}

func TestCallWaitsForApproval(t *testing.T) {
	p := gated(seam.Spec{Target: "POST https://crm.example"})
	log, world := &steptest.Log{}, &steptest.World{Tools: p.Tools}
	q := ask(t, p, log, world)
	if got := string(step.JSON(q.Shows)); got != `{"arguments":{"q":"roses"},"target":"POST https://crm.example","tool":"search"}` || q.Call != "work#0/call:1" {
		t.Errorf("it shows %s for %s", got, q.Call)
	}
	yes := journal.ToolAnswer{Call: q.Call, Digest: journal.GateDigest("root", q.Call, "call", q.Shows), Approved: true}
	after := told(log, yes)
	result, err := p.Done(t, tool.Runner{}, after, world)
	if err != nil || string(result.Value) != `"found"` || world.Calls["root/work#0/call:1"] != 1 {
		t.Errorf("%s, %v, calls %v", result.Value, err, world.Calls)
	}
	if want := []string{journal.NoteToolAnswer, journal.NoteToolCall, journal.NoteToolResult}; !slices.Equal(
		after.Kinds(), want) {
		t.Errorf("notes: %v", after.Kinds())
	}

	for name, c := range map[string]struct {
		answer journal.ToolAnswer
		says   string
	}{
		"a no":             {journal.ToolAnswer{Call: q.Call, Digest: yes.Digest}, "rejected"},
		"a no with reason": {journal.ToolAnswer{Call: q.Call, Digest: yes.Digest, Note: "too dear"}, "too dear"},
		"timed out":        {journal.ToolAnswer{Call: q.Call, Digest: yes.Digest, TimedOut: true}, "in time"},
	} {
		log, world := told(log, c.answer), &steptest.World{Tools: p.Tools}
		_, err := p.Done(t, tool.Runner{}, log, world)
		var failed *step.Error
		if !errors.As(err, &failed) || failed.Class != ir.ClassDenied ||
			!strings.Contains(failed.Message, c.says) || len(world.Calls) > 0 {
			t.Errorf("%s: %v, calls %v", name, err, world.Calls)
		}
		if !slices.Contains(log.Kinds(), journal.NoteToolResult) {
			t.Errorf("%s: the refusal is not recorded: %v", name, log.Kinds())
		}
	}
}

// An approval is for one call with these arguments, in this run, and with this target of the tool.
func TestApprovalIsForOneCallOnly(t *testing.T) {
	p := gated(seam.Spec{Target: "one"})
	log, world := &steptest.Log{}, &steptest.World{Tools: p.Tools}
	q := ask(t, p, log, world)
	digest := func(run journal.RunID, call string, change func(map[string]json.RawMessage)) string {
		shows := map[string]json.RawMessage{}
		for k, v := range q.Shows {
			shows[k] = v
		}
		change(shows)
		return journal.GateDigest(run, call, "call", shows)
	}
	same := func(map[string]json.RawMessage) {}
	for name, wrong := range map[string]string{
		"another run":     digest("other", q.Call, same),
		"another call":    digest("root", "work#0/call:2", same),
		"other arguments": digest("root", q.Call, func(s map[string]json.RawMessage) { s["arguments"] = json.RawMessage(`{"q":"tulips"}`) }),
		"another tool":    digest("root", q.Call, func(s map[string]json.RawMessage) { s["tool"] = json.RawMessage(`"find"`) }),
		"another target":  digest("root", q.Call, func(s map[string]json.RawMessage) { s["target"] = json.RawMessage(`"two"`) }),
	} {
		t.Run(name, func(t *testing.T) {
			ask(t, p, told(log, journal.ToolAnswer{Call: q.Call, Digest: wrong, Approved: true}),
				&steptest.World{Tools: p.Tools})
		})
	}
}
