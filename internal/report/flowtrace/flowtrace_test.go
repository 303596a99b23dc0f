package flowtrace_test

import (
	"encoding/json"
	"iter"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report/flowtrace"
)

func value(raw string) journal.Value { return journal.Value{JSON: json.RawMessage(raw)} }

// flow has an agent that is retried, calls a tool and routes to one that fails.
var flow = &ir.Program{
	Name:   "desk",
	Agents: []ir.Agent{{ID: "sort", Role: "Sorter"}},
	Blocks: []ir.Block{{Steps: []ir.Step{
		{
			ID: "sort", Description: "Sort it", Action: ir.Task{Kind: "prompt"},
			Retry: &ir.Retry{MaxAttempts: 3, On: []ir.Class{"RATE_LIMIT"}},
			Next:  []ir.Edge{{On: []ir.Outcome{ir.OK}, To: ir.Target{Step: "answer"}, Label: "rule 1"}},
		},
		{ID: "answer", Description: "Answer it", Action: ir.Task{Kind: "prompt"}},
	}}},
}

func work(step string, attempt int) journal.TaskID {
	return journal.TaskID{Place: journal.Place{Step: step}, Attempt: attempt}
}

func note(step string, attempt int, kind, data string) journal.TaskNoted {
	return journal.TaskNoted{TaskID: work(step, attempt), Kind: kind, Data: json.RawMessage(data)}
}

var told = []journal.Event{
	{At: 1000, Fact: journal.RunStarted{
		Input: value(`{"ticket":"twice"}`),
		Vars:  map[string]journal.Value{"context.language": value(`"en"`), "agentId": value(`"x"`)},
	}},
	{At: 1000, Fact: journal.TaskStarted{TaskID: work("sort", 0)}},
	{At: 1100, Fact: journal.TaskEnded{
		TaskID: work("sort", 0), Outcome: "failed", Class: "RATE_LIMIT",
		Error: "slow down",
	}},
	{At: 1100, Fact: journal.RetrySet{TaskID: work("sort", 1), Due: 2100}},
	{At: 2150, Fact: journal.TaskStarted{TaskID: work("sort", 1)}},
	{At: 2200, Fact: note("sort", 1, journal.NoteReply, `{"model":"m","offline":"scripted","blocks":[{"type":"text",`+
		`"text":"{\"kind\":"},{"type":"text","text":"1}"}]}`)},
	{At: 2250, Fact: note("sort", 1, journal.NoteToolCall, `{"name":"sum","input":{"a":1}}`)},
	{At: 2300, Fact: journal.TaskEnded{
		TaskID: work("sort", 1), Outcome: "ok", Final: true, Value: journal.Value{Hash: "h"},
		Writes: []journal.Write{{Path: "context.output_sort", Part: "output"}, {Path: "output", Part: "output"}},
	}},
	{At: 2300, Fact: journal.TaskStarted{TaskID: work("answer", 0)}},
	{At: 2400, Fact: journal.TaskEnded{
		TaskID: work("answer", 0), Outcome: "failed", Class: "BAD_REQUEST", Error: "no",
		Final: true,
	}},
}

const document = `{
  "__trace": [
    {
      "step": 1,
      "agentId": "sort",
      "agentName": "Sort it",
      "role": "Sorter",
      "inputContext": {
        "language": "en",
        "ticket": "twice"
      },
      "startedAt": "1970-01-01T00:00:01.000Z",
      "finishedAt": "1970-01-01T00:00:02.300Z",
      "status": "success",
      "attemptCount": 2,
      "attempts": [
        {
          "attempt": 1,
          "status": "error",
          "error": "slow down",
          "errorClass": "transient",
          "errorCode": "RATE_LIMIT",
          "shouldRetry": true,
          "retryReason": "RATE_LIMIT can be tried again",
          "backoffAppliedMs": 1050
        },
        {
          "attempt": 2,
          "status": "success",
          "model": "m",
          "rawOutput": "{\"kind\":1}",
          "shouldRetry": false,
          "offline": "scripted"
        }
      ],
      "retryPolicy": {
        "maxAttempts": 3,
        "retryOn": [
          "RATE_LIMIT"
        ]
      },
      "rawOutput": "{\"kind\":1}",
      "parsedOutput": {
        "kind": 1
      },
      "toolDirectives": [
        {
          "tool": "sum",
          "parameters": {
            "a": 1
          }
        }
      ],
      "tools": {
        "sum": 3
      },
      "rulesEvaluated": [
        {
          "id": "rule 1",
          "from": "sort",
          "to": "answer",
          "condition": "always",
          "result": true
        }
      ],
      "selectedRuleId": "rule 1",
      "nextAgentId": "answer"
    },
    {
      "step": 2,
      "agentId": "answer",
      "agentName": "Answer it",
      "role": "",
      "inputContext": {
        "language": "en",
        "output_sort": {
          "kind": 1
        },
        "ticket": "twice"
      },
      "startedAt": "1970-01-01T00:00:02.300Z",
      "finishedAt": "1970-01-01T00:00:02.400Z",
      "status": "error",
      "attemptCount": 1,
      "attempts": [
        {
          "attempt": 1,
          "status": "error",
          "error": "no",
          "errorClass": "hard",
          "errorCode": "BAD_REQUEST",
          "shouldRetry": false
        }
      ],
      "error": "no",
      "rulesEvaluated": []
    }
  ],
  "language": "en",
  "output_sort": {
    "kind": 1
  },
  "ticket": "twice"
}`

func events(list []journal.Event) iter.Seq2[journal.Event, error] {
	return func(yield func(journal.Event, error) bool) {
		for _, e := range list {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// stored returns values; the one that is stored by hash is the first agent's.
func stored(v journal.Value) (json.RawMessage, error) {
	if v.Hash != "" {
		return json.RawMessage(`{"output":{"kind":1},"agent":"sort","tools":{"sum":3}}`), nil
	}
	return v.JSON, nil
}

func TestDocumentHasContextAndTrace(t *testing.T) {
	got, err := flowtrace.Document(flow, events(told), stored)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(document, string(got)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// The trace of a run that has not finished.
func TestDocumentOfAnOpenRun(t *testing.T) {
	for n := range told {
		got, err := flowtrace.Document(flow, events(told[:n]), stored)
		if err != nil || !json.Valid(got) {
			t.Errorf("after %d events: %s, %v", n, got, err)
		}
	}
}
