package agent_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/agent"
	"github.com/espalier-run/espalier/internal/step/steptest"
	"github.com/espalier-run/espalier/internal/tool"
)

// Some servers give two calls of one reply the same id, or number the calls of
// every reply from 0. Providers reject requests whose ids are not unique, and
// results that do not answer exactly one call.
func TestCallsWithOneIDAreSentWithDistinctIDs(t *testing.T) {
	calls := []steptest.Call{
		{Tool: "search", Input: `{"q":"a"}`, ID: "call_0"}, {Tool: "search", Input: `{"q":"b"}`, ID: "call_0"},
	}
	play := steptest.Play{
		Settings: handy, Tools: search,
		Replies: []steptest.Reply{{Calls: calls}, {Calls: calls[:1]}, {Text: "found"}},
	}
	log, world := &steptest.Log{}, &steptest.World{Replies: play.Replies, Tools: play.Tools}
	if _, err := play.Done(t, agent.Runner{}, log, world); err != nil {
		t.Fatal(err)
	}
	var asked, answered []string
	for _, m := range world.Requests[len(world.Requests)-1].Messages {
		for _, b := range m.Blocks {
			switch b.Type {
			case provider.ToolUse:
				asked = append(asked, b.ToolID)
			case provider.ToolResult:
				answered = append(answered, b.ToolID)
			}
		}
	}
	unique := slices.Compact(slices.Sorted(slices.Values(asked)))
	if len(asked) != 3 || len(unique) != 3 || !slices.Equal(asked, answered) {
		t.Errorf("calls %q, results %q", asked, answered)
	}
	if len(world.Calls) != 3 {
		t.Errorf("%d calls were made", len(world.Calls))
	}
	// After a crash the same ids are sent.
	for n := range len(log.Notes) {
		again := &steptest.World{Replies: play.Replies, Tools: play.Tools}
		if _, err := play.Done(t, agent.Runner{}, steptest.Resumed(slices.Clone(log.Notes[:n])), again); err != nil {
			t.Fatalf("after note %d: %v", n, err)
		}
		if len(again.Requests) == 0 {
			continue
		}
		first, last := world.Requests[len(world.Requests)-1], again.Requests[len(again.Requests)-1]
		if fmt.Sprint(first.Messages) != fmt.Sprint(last.Messages) {
			t.Errorf("after note %d:\n%v\n%v", n, last.Messages, first.Messages)
		}
	}
}

// The schemas of tools are sent without white space, and with their numbers as
// they are written.
func TestToolSchemasAreSentCompact(t *testing.T) {
	written := "{\"type\": \"object\",\n\t\"properties\": {\"n\": {\"type\": \"integer\", \"maximum\": " +
		"9223372036854775807}}}"
	tools := map[string]steptest.Tool{"search": {Answer: "1", Spec: tool.Spec{Schema: json.RawMessage(written)}}}
	world := &steptest.World{Replies: says("done"), Tools: tools}
	play := steptest.Play{Settings: handy, Replies: world.Replies, Tools: tools}
	if _, err := play.Done(t, agent.Runner{}, &steptest.Log{}, world); err != nil {
		t.Fatal(err)
	}
	want := strings.NewReplacer(" ", "", "\n", "", "\t", "").Replace(written)
	if got := string(world.Requests[0].Tools[0].Schema); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A tool's own spans are children of the span of its call.
func TestToolsGetTheSpanOfTheirCall(t *testing.T) {
	world := &steptest.World{Replies: searches(2), Tools: search}
	play := steptest.Play{
		Settings: handy, Replies: world.Replies, Tools: search,
		With: func(j *step.Job) { j.Root, j.Run = "root", "child" },
	}
	if _, err := play.Done(t, agent.Runner{}, &steptest.Log{}, world); err != nil {
		t.Fatal(err)
	}
	want := []string{
		journal.ToolTraceParent("root", "child", "work#0", "t0-0"),
		journal.ToolTraceParent("root", "child", "work#0", "t1-0"),
	}
	if !slices.Equal(world.TraceParents, want) || want[0] == want[1] {
		t.Errorf("got %q, want %q", world.TraceParents, want)
	}
}
