package server

import (
	"encoding/json"
	"encoding/xml"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/journal"
)

// The API describes a workflow: the schema of its input, its picture, and what the reply of a step must be.
func TestWorkflowIsDescribed(t *testing.T) {
	p := newProject(t)
	var detail struct {
		InputSchema  map[string]any `json:"input_schema"`
		OutputSchema map[string]any `json:"output_schema"`
	}
	p.call("GET", "/api/v1/workflows/gated", nil, &detail, 200)
	if properties, _ := detail.InputSchema["properties"].(map[string]any); properties["question"] == nil ||
		detail.OutputSchema["required"] == nil {
		t.Errorf("%+v", detail)
	}
	var step struct {
		Step, Kind string
		Contract   json.RawMessage
	}
	p.call("GET", "/api/v1/workflows/gated/steps/draft", nil, &step, 200)
	if step.Step != "draft" || step.Kind != "skill" || !strings.Contains(string(step.Contract), "answer") {
		t.Errorf("%+v: %s", step, step.Contract)
	}
	p.call("GET", "/api/v1/workflows/gated/steps/nothing", nil, nil, 404)
	var svg []byte
	p.call("GET", "/api/v1/workflows/gated/graph", nil, &svg, 200)
	words := ""
	for decoder := xml.NewDecoder(strings.NewReader(string(svg))); ; {
		token, err := decoder.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("%v: %s", err, svg)
		}
		if text, ok := token.(xml.CharData); ok {
			words += string(text)
		}
	}
	for _, want := range []string{"draft", "check", "done"} {
		if !strings.Contains(words, want) {
			t.Errorf("the picture has no %s: %s", want, words)
		}
	}
}

// The list of runs is filtered by workflow.
func TestRunsAreFiltered(t *testing.T) {
	p := eventProject(t, map[string]string{"waiter.md": waiter, "gated.md": gated})
	var ids []string
	for _, start := range []map[string]any{
		{"workflow": "waiter", "simulate": true},
		{"workflow": "gated", "simulate": true, "input": map[string]any{"question": "why?"}},
		{"workflow": "gated", "simulate": true, "input": map[string]any{"question": "how?"}},
	} {
		var s api.Status
		p.call("POST", "/api/v1/runs", start, &s, 201)
		ids = append(ids, s.ID)
	}
	for query, want := range map[string][]string{
		"": ids, "?workflow=gated": ids[1:], "?workflow=waiter": ids[:1], "?workflow=none": nil, "?children=true": ids,
	} {
		var list runList
		p.call("GET", "/api/v1/runs"+query, nil, &list, 200)
		var got []string
		for _, r := range list.Runs {
			got = append(got, r.ID)
		}
		slices.Sort(got)
		if want = slices.Sorted(slices.Values(want)); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
}

// A list has child runs only if it is asked for them, with their parent.
func TestChildRunsAreListedOnRequest(t *testing.T) {
	p := eventProject(t, map[string]string{
		"calls.yaml": "name: calls\nstates:\n  initial: ask\n  ask: {type: call_workflow, " +
			"workflow: called, on_success: done}\n  done: {type: terminal}\n",
		"called.yaml": "name: called\nstates:\n  initial: done\n  done: {type: terminal}\n",
	})
	var s api.Status
	p.call("POST", "/api/v1/runs", map[string]any{"workflow": "calls", "simulate": true}, &s, 201)
	p.until(s.ID, journal.StateFinished)
	for query, want := range map[string]string{"": "calls", "?children=true": "called calls"} {
		var list runList
		p.call("GET", "/api/v1/runs"+query, nil, &list, 200)
		var got []string
		for _, r := range list.Runs {
			if got = append(got, r.Workflow); r.Workflow == "called" && (r.Parent != s.ID || r.Dollars != nil) {
				t.Errorf("the parent of the child is %q, and has its cost: %v", r.Parent, r.Dollars)
			}
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v", query, got)
		}
	}
}

// The metrics have the runs by state, the length of queues and the clients of live events.
func TestMetricsCountRunsQueuesAndClients(t *testing.T) {
	model := newHeldModel(t)
	defer model.end()
	p := serve(t, heldProject(t, model, "concurrency: {everything: {runs: 1}}\n"))
	start := func() string {
		t.Helper()
		var out api.Status
		p.call("POST", "/api/v1/runs",
			map[string]any{"workflow": "gated", "input": map[string]any{"question": "why?"}}, &out, 201)
		return out.ID
	}
	first := start()
	<-model.asked
	p.place(start(), 1)
	p.place(start(), 2)
	r, err := http.NewRequest(http.MethodGet, p.url+"/api/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+p.token)
	stream, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	if _, err := stream.Body.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	expect := func(clients, running, queued, waiting, queue float64) {
		t.Helper()
		var text string
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			var found map[string]family
			text, found = p.scrape()
			runs := found["espalier_runs"]
			if found["espalier_event_clients"].value("", "") == clients && runs.value("state", "running") == running &&
				runs.value("state", "queued") == queued && runs.value("state", "waiting") == waiting &&
				found["espalier_queue_length"].value("limit", "everything") == queue {
				return
			}
		}
		t.Errorf("%s", text)
	}
	expect(1, 1, 2, 0, 2)
	model.answer <- struct{}{} // the first run waits for a person, which leaves its place to the second
	p.until(first, journal.StateWaiting)
	<-model.asked
	stream.Body.Close()
	expect(0, 1, 1, 1, 1)
}
