package agent_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/agent"
	"github.com/espalier-run/espalier/internal/step/steptest"
	"github.com/espalier-run/espalier/internal/tool"
)

// box is a tool that is called by a function.
type box func(ctx context.Context, call tool.Call) (tool.Result, error)

func (b box) Tool(name string) tool.Tool {
	if name != "search" {
		return nil
	}
	return b
}

func (b box) Names(string) []string { return []string{"search"} }

func (b box) Spec() tool.Spec { return tool.Spec{Name: "search"} }

func (b box) Call(ctx context.Context, call tool.Call) (tool.Result, error) { return b(ctx, call) }

var twoAtOnce = []steptest.Reply{
	{Calls: []steptest.Call{{Tool: "search", Input: `{"q":1}`}, {Tool: "search", Input: `{"q":2}`}}}, {Text: "found"},
}

// Calls of one turn run concurrently: each of these waits for the other. The model gets the results in the order of
// the calls.
func TestCallsOfOneTurnRunConcurrently(t *testing.T) {
	begun := map[string]chan struct{}{"1": make(chan struct{}), "2": make(chan struct{})}
	second := make(chan struct{})
	log, world := &steptest.Log{}, &steptest.World{Replies: twoAtOnce}
	_, err := steptest.Play{Settings: handy, With: func(j *step.Job) {
		j.Tools = box(func(_ context.Context, call tool.Call) (tool.Result, error) {
			var in struct{ Q json.Number }
			if err := json.Unmarshal(call.Input, &in); err != nil {
				return tool.Result{}, err
			}
			q := in.Q.String()
			close(begun[q])
			if q == "1" {
				<-begun["2"]
				<-second // the later one returns first
			} else {
				<-begun["1"]
				defer close(second)
			}
			return tool.Result{Output: json.RawMessage(`"answer ` + q + `"`)}, nil
		})
	}}.Done(t, agent.Runner{}, log, world)
	if err != nil {
		t.Fatal(err)
	}
	messages := world.Requests[1].Messages
	blocks := messages[len(messages)-1].Blocks
	if len(blocks) != 2 || string(blocks[0].Content) != `"answer 1"` || string(blocks[1].Content) != `"answer 2"` {
		t.Errorf("tool results %+v", blocks)
	}
	if log.Used.ToolCalls != 2 || len(log.Open) > 0 {
		t.Errorf("used %+v, open %v", log.Used, log.Open)
	}
}

// A result that was recorded before the process died is not requested again, even if another call of the same turn was
// still running.
func TestRecordedToolResultIsNotRequestedAgain(t *testing.T) {
	var mu sync.Mutex // both calls of a turn are made at once
	var calls []string
	count := func(j *step.Job) {
		j.Tools = box(func(_ context.Context, call tool.Call) (tool.Result, error) {
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, call.Key)
			return tool.Result{Output: call.Input}, nil
		})
	}
	use := func(kind, id, input, output string) journal.TaskNoted {
		u := journal.ToolUse{Name: "search", CallID: id, Input: json.RawMessage(input), Repeatable: true}
		if output != "" {
			u.Output = json.RawMessage(output)
		}
		return journal.TaskNoted{Kind: kind, Data: step.JSON(u)}
	}
	log, world := &steptest.Log{}, &steptest.World{Replies: twoAtOnce}
	if _, err := (steptest.Play{Settings: handy, With: count}).Done(t, agent.Runner{}, log, world); err != nil {
		t.Fatal(err)
	}
	calls = nil
	history := append(log.Notes[:2:2],
		use(journal.NoteToolCall, "t0-0", `{"q":1}`, ""), use(journal.NoteToolCall, "t0-1", `{"q":2}`, ""),
		use(journal.NoteToolResult, "t0-1", `{"q":2}`, `"kept"`))
	again := &steptest.World{Replies: twoAtOnce}
	if _, err := (steptest.Play{Settings: handy, With: count}).Done(t, agent.Runner{},
		steptest.Resumed(history), again); err != nil {
		t.Fatal(err)
	}
	if strings.Join(calls, " ") != "/work#0/call:1" {
		t.Errorf("called: %v", calls)
	}
	last := again.Requests[len(again.Requests)-1].Messages
	if blocks := last[len(last)-1].Blocks; string(blocks[1].Content) != `"kept"` {
		t.Errorf("tool result %s", blocks[1].Content)
	}
}

// All canceled calls are charged, because they may have acted.
func TestCanceledConcurrentCallsAreCharged(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	log, world := &steptest.Log{}, &steptest.World{Replies: twoAtOnce}
	p := steptest.Play{Settings: handy, With: func(j *step.Job) {
		j.Tools = box(func(ctx context.Context, call tool.Call) (tool.Result, error) {
			cancel(context.Canceled)
			<-ctx.Done()
			return tool.Result{}, ctx.Err()
		})
	}}
	job := p.Job("agent", t.TempDir(), log, world)
	result, err := agent.Runner{}.Run(ctx, job)
	if err == nil || result.Usage.ToolCalls != 2 {
		t.Errorf("%v, %+v", err, result.Usage)
	}
}
