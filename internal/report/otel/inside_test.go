package otel_test

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report/otel"
	"github.com/espalier-run/espalier/internal/report/reporttest"
	"github.com/espalier-run/espalier/internal/source"
)

// A node calls two agents. The first one's model call fails and is retried; the process is killed during the second
// one's, and another process resumes; a tool never returns; and the task ends without its result.
func TestSpansInsideATask(t *testing.T) {
	work := journal.TaskID{Place: journal.Place{Step: "node"}}
	p := &ir.Program{
		Name: "nodes", Version: "0.1.0", Format: "nof",
		Agents: []ir.Agent{
			{ID: "scout", Role: "Scout", Provider: "gemini", Model: "gemini-flash"},
			{ID: "clerk", Model: "anthropic/claude"},
		},
		Blocks: []ir.Block{{Steps: []ir.Step{{
			ID: "node", Type: "node", Action: ir.Task{Kind: "node"},
			Span: source.Span{},
		}}}},
	}
	n, at, seq := 0, journal.Millis(1_772_000_000_000), journal.Seq(0)
	var events []journal.Event
	add := func(after journal.Millis, f journal.Fact) {
		at += after
		seq++
		events = append(events, journal.Event{Seq: seq, At: at, Fact: f})
	}
	note := func(after journal.Millis, kind string, data any, settles int, u journal.Usage) {
		raw, err := json.Marshal(data)
		if err != nil {
			t.Fatal(err)
		}
		n++
		add(after, journal.TaskNoted{TaskID: work, N: n, Kind: kind, Data: raw, Settles: settles, Usage: u})
	}
	reserve := func(n int) {
		add(0, journal.Reserved{
			TaskID: work, N: n,
			Amount: journal.Usage{ModelCalls: 1, InputTokens: 50, MicroDollars: 900},
		})
	}
	call := func(key, agent string) {
		note(10, journal.NoteCall,
			journal.Call{Key: key, Kind: "worker", Request: json.RawMessage(`{"settings":{"agent":"` + agent + `"}}`)},
			0, journal.Usage{})
		note(0, journal.NotePrompt, journal.Prompt{Blocks: []journal.Block{{Type: "text", Text: "Go."}}}, 0,
			journal.Usage{})
	}
	reply := func(after journal.Millis, settles int, model, provider string) {
		cool := 0.25
		asked := &journal.RequestParams{
			Server: "models.example.com", MaxTokens: 1000, Temperature: &cool,
			JSON: model == "claude-1",
		}
		note(after, journal.NoteReply,
			journal.Reply{
				ID: "msg-" + model, RequestParams: asked, Model: model, Provider: provider, Stop: "done",
				Usage: journal.Tokens{Input: 10, Output: 5, CacheRead: 4},
			}, settles,
			journal.Usage{ModelCalls: 1, InputTokens: 14, OutputTokens: 5, MicroDollars: 200})
	}
	add(0, journal.RunStarted{
		Name: "nodes", Format: "nof", Definition: "definition",
		Input: journal.Value{JSON: json.RawMessage("{}")},
	})
	add(0, journal.TaskStarted{TaskID: work, Kind: "node"})
	call("node#0/call:1", "scout")
	reserve(1)
	note(100, journal.NoteModelRetry,
		journal.ModelRetry{
			ModelError: journal.ModelError{Class: "RATE_LIMIT", Message: "slow down", Status: 429},
			Wait:       500,
		}, 1, journal.Usage{ModelCalls: 1})
	reserve(2)
	reply(1200, 2, "gemini-flash-002", "gemini")
	note(0, journal.NoteCallEnd, journal.CallEnd{Key: "node#0/call:1", Value: json.RawMessage("1")}, 0, journal.Usage{})
	call("node#0/call:2", "clerk")
	reserve(3)
	add(60_000, journal.Claimed{Owner: "another"})
	add(0, journal.TaskLost{
		TaskID: work, Why: "its process has ended", Policy: "rerun",
		Charged: journal.Usage{ModelCalls: 1, InputTokens: 50, MicroDollars: 900}, Until: at - 59_000,
	})
	add(0, journal.TaskStarted{TaskID: work, Kind: "node", Rerun: 1})
	reserve(4)
	reply(300, 4, "claude-1", "")
	note(0, journal.NoteToolCall, journal.ToolUse{Name: "mail.send", CallID: "t"}, 0, journal.Usage{})
	note(20, journal.NoteCallEnd, journal.CallEnd{Key: "node#0/call:2", Class: "TIMEOUT", Error: "too late"}, 0,
		journal.Usage{})
	add(5, journal.TaskEnded{TaskID: work, Outcome: "failed", Class: "TIMEOUT", Error: "too late", Final: true})
	add(0, journal.RunFinished{Outcome: "failed", Reason: "TIMEOUT", Error: "too late", Last: "node"})
	r := &reporttest.Recording{
		Name: "inside", Program: p,
		Appends: []journal.Appended{{Pos: 1, Run: reporttest.Run, Events: events}},
	}
	savedAnywhere(t, p, reporttest.Run, events)
	c := export(t, r, nil, nil)
	golden(t, filepath.Join("testdata", "inside.txt"),
		[]byte(reporttest.Tree(c.Spans(), formatSpan)+metrics(c.Metrics())))
}

// Notes of a call without a child run belong to no span.
func TestCallWithoutChildRun(t *testing.T) {
	work := journal.TaskID{Place: journal.Place{Step: "call"}}
	tracer := otel.NewTracer(reporttest.Run, otel.TracerOptions{})
	var out otel.Yield
	for i, f := range []journal.Fact{
		journal.RunStarted{Name: "caller"},
		journal.StepEntered{Place: work.Place, Mode: "call"},
		journal.BudgetWait{TaskID: work},
		journal.RetrySet{TaskID: work},
		journal.TaskLost{TaskID: work},
		journal.StepLeft{Place: work.Place, Outcome: "failed"},
		journal.RunFinished{Outcome: "failed"},
	} {
		if err := tracer.Apply(&journal.Event{Seq: journal.Seq(i + 1), At: journal.Millis(i), Fact: f},
			&out); err != nil {
			t.Fatal(err)
		}
	}
	if len(out.Spans) != 2 {
		t.Errorf("%+v", out.Spans)
	}
}

// The traceparent that a tool gets leads to the span of its call, also if the call is made inside of another one. Of
// two calls with one ID it is the first.
func TestTraceParentLeadsToTheToolCall(t *testing.T) {
	const root = reporttest.Run
	work := journal.TaskID{Place: journal.Place{Step: "node"}}
	inner := work.Key() + "/call:1"
	noted := func(kind string, data any) journal.Fact {
		raw, err := json.Marshal(data)
		if err != nil {
			t.Fatal(err)
		}
		return journal.TaskNoted{TaskID: work, Kind: kind, Data: raw}
	}
	use := journal.ToolUse{Name: "search", CallID: "t"}
	tracer := otel.NewTracer(root, otel.TracerOptions{})
	var out otel.Yield
	var events []journal.Event
	for i, f := range []journal.Fact{
		journal.RunStarted{Name: "nodes"},
		journal.TaskStarted{TaskID: work, Kind: "node"},
		noted(journal.NoteToolCall, use), noted(journal.NoteToolResult, use),
		noted(journal.NoteToolCall, use), noted(journal.NoteToolResult, use),
		noted(journal.NoteCall, journal.Call{Key: inner, Kind: "worker", Request: json.RawMessage(`{}`)}),
		noted(journal.NoteToolCall, use), noted(journal.NoteToolResult, use),
		noted(journal.NoteCallEnd, journal.CallEnd{Key: inner}),
		journal.TaskEnded{TaskID: work, Outcome: "ok", Final: true},
		journal.RunFinished{Outcome: "ok"},
	} {
		events = append(events, journal.Event{Seq: journal.Seq(i + 1), At: journal.Millis(i), Fact: f})
		if err := tracer.Apply(&events[i], &out); err != nil {
			t.Fatal(err)
		}
	}
	savedAnywhere(t, &ir.Program{Name: "nodes", Blocks: []ir.Block{{Steps: []ir.Step{{ID: "node"}}}}}, root, events)
	var spans []otel.SpanID
	for _, s := range out.Spans {
		if s.Name == "execute_tool search" {
			spans = append(spans, otel.SpanID(s.SpanId))
		}
	}
	if len(spans) != 3 || spans[1] == spans[0] || spans[1] == spans[2] {
		t.Fatalf("got the spans %x", spans)
	}
	for key, span := range map[string]otel.SpanID{work.Key(): spans[0], inner: spans[2]} {
		link, ok := otel.ParseTraceParent(journal.ToolTraceParent(root, root, key, "t"))
		if !ok || link.Trace != otel.TraceOf(root) || link.Span != span {
			t.Errorf("the traceparent of %s leads to %x, not to %x", key, link.Span, span)
		}
	}
}
