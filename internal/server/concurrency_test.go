package server

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/identity"
	"github.com/espalier-run/espalier/internal/journal"
)

// heldModel is a model whose replies wait for a value in answer.
type heldModel struct {
	*httptest.Server
	asked, left  chan struct{} // a call has arrived, or was given up
	answer, over chan struct{}
	now, most    atomic.Int32
}

// end answers everything, so that servers can stop.
func (m *heldModel) end() { close(m.over) }

func newHeldModel(t *testing.T) *heldModel {
	m := &heldModel{
		asked: make(chan struct{}, 16), left: make(chan struct{}, 16),
		answer: make(chan struct{}), over: make(chan struct{}),
	}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not notice that the client is gone
		now := m.now.Add(1)
		defer m.now.Add(-1)
		for {
			if most := m.most.Load(); now <= most || m.most.CompareAndSwap(most, now) {
				break
			}
		}
		m.asked <- struct{}{}
		select {
		case <-m.answer:
		case <-m.over:
		case <-r.Context().Done():
			m.left <- struct{}{}
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, `data: {"id":"x","object":"chat.completion.chunk","model":"m","choices":[{"index":0,`+
			`"delta":{"role":"assistant","content":"because"},"finish_reason":"stop"}]}`+"\n\n"+
			`data: {"id":"x","object":"chat.completion.chunk","model":"m","choices":[],`+
			`"usage":{"prompt_tokens":100,"completion_tokens":400,"total_tokens":500}}`+"\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(m.Close)
	return m
}

// heldProject writes a project with a gated workflow and a model.
func heldProject(t *testing.T, m *heldModel, settings string) string {
	t.Helper()
	dir := t.TempDir()
	const done = "~~~step\nid: done"
	polished := strings.Replace(gated, done, `~~~step
id: polish
type: skill
agent: writer
description: Polish the answer
reads: [output.answer]
writes: [output.answer]
~~~

`+done, 1)
	for name, text := range map[string]string{"gated.md": strings.ReplaceAll(polished, "~~~", "```"), "espalier.yaml": `
models: {default: till/m, providers: {till: {api: openai, base_url: "` + m.URL + `", max_retries: 0}}}
allow: {hosts: ["127.0.0.1:*"]}
prices: {till/m: {input: 10, output: 100}}
` + settings} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// place asks for a run until it has a place in the queue.
func (p *project) place(run string, position int) api.Status {
	p.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		var s api.Status
		p.call("GET", "/api/v1/runs/"+run, nil, &s, 200)
		if s.Queue != nil && s.Queue.Position == position {
			return s
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("the run is %+v, in the queue %+v", s.Run, s.Queue)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Two servers drive as many runs as the configuration allows, together. The others have a place in the queue, which all
// servers show; they can be canceled and decided there.
func TestConcurrencyLimitQueuesRunsAcrossServers(t *testing.T) {
	model := newHeldModel(t)
	defer model.end()
	dir := heldProject(t, model, "concurrency: {everything: {runs: 1}}\n")
	p, q := serve(t, dir), serve(t, dir)
	start := func(s *project) string {
		t.Helper()
		var out api.Status
		s.call("POST", "/api/v1/runs",
			map[string]any{"workflow": "gated", "input": map[string]any{"question": "why?"}}, &out, 201)
		return out.ID
	}
	first := start(p)
	<-model.asked
	second := start(q)
	q.place(second, 1)
	third := start(p)
	for _, s := range []*project{p, q} {
		if at := s.place(third, 2); at.State != journal.StateQueued || at.Queue.Limit != "everything" {
			t.Errorf("%+v, %+v", at.Run, at.Queue)
		}
	}
	var stats projectStats
	p.call("GET", "/api/v1/stats", nil, &stats, 200)
	if c := stats.Concurrency; len(c) != 1 || c[0].Runs != 1 || c[0].MaxRuns != 1 || c[0].Waiting != 2 {
		t.Errorf("%+v", c)
	}
	var list struct{ Runs []api.Run }
	q.call("GET", "/api/v1/runs", nil, &list, 200)
	places := map[string]int{}
	for _, r := range list.Runs {
		if r.Queue != nil {
			places[r.ID] = r.Queue.Position
		}
	}
	if len(places) != 2 || places[second] != 1 || places[third] != 2 {
		t.Errorf("%v", places)
	}

	p.call("POST", "/api/v1/runs/"+second+"/cancel", nil, nil, 200)
	if s := q.until(second, journal.StateFinished); s.Outcome != "cancelled" {
		t.Errorf("%+v", s.Run)
	}
	p.place(third, 1)
	model.answer <- struct{}{}
	gate := p.until(first, journal.StateWaiting) // which frees its slot
	<-model.asked
	q.until(third, journal.StateRunning)
	q.call("POST", "/api/v1/runs/"+first+"/decide",
		api.DecideBody{Decision: "approve", Digest: gate.Gates[0].Digest}, nil, 200)
	if s := p.place(first, 1); s.State != journal.StateQueued {
		t.Errorf("%+v", s.Run)
	}
	model.answer <- struct{}{}
	p.until(third, journal.StateWaiting)
	<-model.asked
	model.answer <- struct{}{}
	if s := p.until(first, journal.StateFinished); s.Outcome != "ok" {
		t.Errorf("%+v", s.Run)
	}
	if n := model.most.Load(); n != 1 {
		t.Errorf("%d calls at once", n)
	}
}

// A slot is free as soon as the process that holds it has ended.
func TestSlotsOfAServerThatStopsAreFree(t *testing.T) {
	model := newHeldModel(t)
	defer model.end()
	dir := heldProject(t, model, "concurrency: {gated: {workflow: gated, runs: 1}}\n")
	p, q := serve(t, dir), serve(t, dir)
	var first, second api.Status
	start := map[string]any{"workflow": "gated", "input": map[string]any{"question": "why?"}}
	p.call("POST", "/api/v1/runs", start, &first, 201)
	<-model.asked
	q.call("POST", "/api/v1/runs", start, &second, 201)
	q.place(second.ID, 1)
	now := make(chan struct{})
	close(now)
	p.app.Park(now, nil) // as after a signal
	p.stop()
	<-model.left
	<-model.asked
	model.answer <- struct{}{}
	<-model.asked
	model.answer <- struct{}{}
	q.until(first.ID, journal.StateWaiting)
	q.until(second.ID, journal.StateWaiting)
}

// A run of a workflow that needs a label waits for a worker that has it. Until then every process says which label is
// missing, and what people decide about the run is recorded.
func TestRunsWaitForAWorkerWithTheirLabels(t *testing.T) {
	model := newHeldModel(t)
	model.end()
	dir := heldProject(t, model, "needs: {gated: {labels: [gpu, eu]}}\n")
	plain, half := serve(t, dir), serveLabeled(t, dir, "eu")
	var run, canceled api.Status
	start := map[string]any{"workflow": "gated", "input": map[string]any{"question": "why?"}}
	plain.call("POST", "/api/v1/runs", start, &run, 201)
	half.call("POST", "/api/v1/runs", start, &canceled, 201)
	for _, p := range []*project{plain, half} {
		for _, id := range []string{run.ID, canceled.ID} {
			at := p.place(id, 0)
			if at.State != journal.StateQueued || !slices.Contains(at.Queue.Labels, "gpu") || at.Queue.Limit != "" {
				t.Errorf("%+v, %+v", at.Run, at.Queue)
			}
		}
	}
	plain.call("POST", "/api/v1/runs/"+canceled.ID+"/cancel", nil, nil, 200)
	plain.until(canceled.ID, journal.StateFinished)

	able := serveLabeled(t, dir, "eu", "gpu")
	able.until(run.ID, journal.StateWaiting)
	if s := able.until(run.ID, journal.StateWaiting); s.Queue != nil {
		t.Errorf("%+v", s.Queue)
	}
	workers, err := plain.app.Workers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var labels []string
	for _, w := range workers {
		labels = append(labels, strings.Join(w.Labels, " "))
	}
	slices.Sort(labels)
	if !slices.Equal(labels, []string{"eu", "eu gpu"}) {
		t.Errorf("workers with the labels %q", labels)
	}
}

// Runs that different tokens have started have spending limits of their own.
func TestSpendingLimitOfEachToken(t *testing.T) {
	model := newHeldModel(t)
	model.end()
	dir := heldProject(t, model, "spending: {programs: {each: token, dollars_per_day: 0.08}}\n")
	path := filepath.Join(dir, "gated.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	asked := strings.Replace(string(text), "version: 1.0.0\n", "version: 1.0.0\ntriggers: {event: asked}\n", 1)
	if err := os.WriteFile(path, []byte(asked), 0o600); err != nil {
		t.Fatal(err)
	}
	p := serve(t, dir)
	ana, err := p.auth.Users().Add("ana", false, []identity.Role{identity.Operator}, 0)
	if err != nil {
		t.Fatal(err)
	}
	other, err := p.auth.Users().AddToken("ana", "ci", 0)
	if err != nil {
		t.Fatal(err)
	}
	start := func(token string, state journal.State) {
		t.Helper()
		var out api.Status
		p.call("POST", "/api/v1/runs", map[string]any{"workflow": "gated", "input": map[string]any{"question": "why?"}},
			&out, 201, "Authorization", "Bearer "+token)
		p.until(out.ID, state)
	}
	start(ana, journal.StateWaiting)
	start(ana, journal.StateSleeping)
	start(other, journal.StateWaiting)
	// An event starts a run in the name of the token that sends it.
	var sent struct{ Started []string }
	p.call("POST", "/api/v1/events", map[string]any{
		"specversion": "1.0", "id": "1", "source": "/test", "type": "asked", "data": map[string]any{"question": "why?"},
	}, &sent, 202, "Authorization", "Bearer "+other, "Content-Type", "application/cloudevents+json")
	if len(sent.Started) != 1 {
		t.Fatalf("%+v", sent)
	}
	p.until(sent.Started[0], journal.StateSleeping)
	start(p.token, journal.StateWaiting) // the owner of the project is not limited
	start(p.token, journal.StateWaiting)
	var stats projectStats
	p.call("GET", "/api/v1/stats", nil, &stats, 200)
	if len(stats.Spending) != 2 || stats.Spending[0].Of == stats.Spending[1].Of || stats.Spending[0].Of == "" {
		t.Errorf("%+v", stats.Spending)
	}
}
