package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/identity"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/source"
)

const gated = `---
name: gated
kind: agent-flow/workflow
version: 1.0.0
description: Asks a person before it answers.
budgets:
  max_steps: 10
input:
  schema:
    type: object
    required: [question]
    properties:
      question: { type: string }
output:
  schema:
    type: object
    required: [answer]
    properties:
      answer: { type: string }
---

# Gated

## Agents

~~~agent
id: writer
role: Writer
goal: Answer the question
max_tokens: 500
~~~

## Steps

~~~step
id: draft
type: skill
agent: writer
description: Answer the question
reads: [input.question]
writes: [output.answer]
~~~

~~~step
id: check
type: gate
gate_method: human_review
description: Look at the answer
reads: [output.answer]
~~~

~~~step
id: done
type: end
description: The answer is approved
~~~
`

// project is a running server over a project in a temporary folder.
type project struct {
	t      *testing.T
	dir    string
	app    *app.App
	server *Server
	url    string
	token  string
	auth   *identity.Authenticator
	log    *bytes.Buffer
	stop   func()
	home   string

	contract *contract
}

func serve(t *testing.T, dir string) *project {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, dir, l, func(*identity.Authenticator) {})
}

// serveHome serves a project for a person with a home folder.
func serveHome(t *testing.T, dir, home string) *project {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveApp(t, l, func(*identity.Authenticator) {}, app.Options{Dir: dir, Home: home})
}

// addr returns the address of the server.
func (p *project) addr() net.Addr {
	p.t.Helper()
	at, err := net.ResolveTCPAddr("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		p.t.Fatal(err)
	}
	return at
}

// serveLabeled serves a project as a worker with labels.
func serveLabeled(t *testing.T, dir string, labels ...string) *project {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, dir, l, func(*identity.Authenticator) {}, labels...)
}

// serveOn serves a project on a listener, with a change of its authentication.
func serveOn(
	t *testing.T, dir string, l net.Listener, change func(*identity.Authenticator), labels ...string,
) *project {
	t.Helper()
	return serveApp(t, l, change, app.Options{Dir: dir, Labels: labels})
}

// serveApp serves the project of an app.
func serveApp(t *testing.T, l net.Listener, change func(*identity.Authenticator), o app.Options) *project {
	t.Helper()
	dir := o.Dir
	o.Worker = true
	if o.Home == "" {
		o.Home = t.TempDir()
	}
	o.Getenv = func(name string) string {
		if strings.HasPrefix(name, "TEST_") {
			return os.Getenv(name)
		}
		return ""
	}
	a := app.New(o)
	ctx, cancel := context.WithCancel(context.Background())
	ended, ready := make(chan error, 2), make(chan struct{})
	go func() {
		ended <- a.Work(ctx, func(string) { close(ready) },
			func(r *app.Run, why *app.Error) { t.Errorf("%s: %v", r.ID, why) })
	}()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	state := filepath.Join(dir, ".espalier")
	auth, err := identity.NewAuthenticator(state)
	if err != nil {
		t.Fatal(err)
	}
	token, err := identity.ProjectToken(state)
	if err != nil {
		t.Fatal(err)
	}
	change(auth)
	log := &bytes.Buffer{}
	s := New(Options{
		App: a, Auth: auth, StateDir: state, Version: "test", Log: slog.New(slog.NewTextHandler(log, nil)),
		MCP: func(func(*http.Request) (journal.Actor, string)) http.Handler {
			return http.HandlerFunc(
				func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
		},
	})
	go func() { ended <- s.Serve(ctx, l, 5*time.Second) }()
	s.SetReady()
	stopped := false
	p := &project{
		t: t, dir: dir, app: a, server: s, url: "http://" + l.Addr().String(), token: token,
		auth: auth, log: log, home: o.Home,
	}
	p.contract = newContract(t, s)
	p.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		for range 2 {
			if err := <-ended; err != nil && err != context.Canceled {
				t.Error(err)
			}
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(p.stop)
	return p
}

// newProject returns a server over a project with one gated workflow.
func newProject(t *testing.T) *project {
	t.Helper()
	dir := t.TempDir()
	text := strings.ReplaceAll(gated, "~~~", "```")
	if err := os.WriteFile(filepath.Join(dir, "gated.md"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return serve(t, dir)
}

// call makes a request and decodes the response, whose status it checks.
func (p *project) call(method, path string, in, out any, want int, headers ...string) http.Header {
	p.t.Helper()
	var content io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			p.t.Fatal(err)
		}
		content = bytes.NewReader(raw)
	}
	r, err := http.NewRequest(method, p.url+path, content)
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+p.token)
	if in != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer w.Body.Close()
	raw, err := io.ReadAll(w.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	p.contract.check(p.t, method, path, w.StatusCode, w.Header.Get("Content-Type"), raw)
	if w.StatusCode != want {
		p.t.Fatalf("%s %s: %d, want %d: %s", method, path, w.StatusCode, want, raw)
	}
	switch out := out.(type) {
	case nil:
	case *[]byte:
		*out = raw
	default:
		if err := json.Unmarshal(raw, out); err != nil {
			p.t.Fatalf("%s: %v", raw, err)
		}
	}
	return w.Header
}

// until asks for a run until it is in a state.
func (p *project) until(run string, state journal.State) api.Status {
	p.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		var s api.Status
		p.call("GET", "/api/v1/runs/"+run, nil, &s, 200)
		if s.State == state {
			return s
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("the run is %+v", s)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// A conversation waits in the inbox, with the reply of the model, and continues with a text.
func TestConversationIsAnsweredThroughTheAPI(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "chat.yaml"), []byte("name: chat\nstates:\n  initial: talk\n"+
		"  talk: {type: agent, provider: claude, mode: conversation, prompt: hi, on_success: done}\n"+
		"  done: {type: terminal}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := serve(t, dir)
	var s api.Status
	p.call("POST", "/api/v1/runs", map[string]any{"workflow": "chat.yaml", "simulate": true}, &s, 201)
	for _, text := range []string{`"Tell me more"`, `""`} {
		p.until(s.ID, journal.StateWaiting)
		var box inbox
		p.call("GET", "/api/v1/inbox", nil, &box, 200)
		if len(box.Items) != 1 || box.Items[0].Gate.Kind != journal.AskInput || box.Items[0].Gate.Event != "talk" ||
			!bytes.Contains(box.Items[0].Gate.Shows["states.talk.Output"], []byte("simulated reply")) {
			t.Fatalf("%+v", box)
		}
		var problem Problem
		p.call("POST", "/api/v1/runs/"+s.ID+"/signal", api.SignalBody{Event: "talk", Data: []byte(`{"n":1}`)}, &problem, 409)
		p.call("POST", "/api/v1/runs/"+s.ID+"/signal", api.SignalBody{Event: "talk", Data: []byte(text)}, nil, 200)
		stale := api.SignalBody{Event: "talk", Step: box.Items[0].Gate.Step, Data: []byte(`"late"`)}
		p.call("POST", "/api/v1/runs/"+s.ID+"/signal", stale, &problem, 409)
	}
	if done := p.until(s.ID, journal.StateFinished); done.Outcome != "ok" {
		t.Fatalf("%+v", done)
	}
}

// A run that asks in one branch while another one works is running, and what it asks is in the inbox.
func TestInboxHasRunsThatWork(t *testing.T) {
	dir := t.TempDir()
	gate := filepath.Join(dir, "open")
	flow := fmt.Sprintf(`name: both
states:
  initial: both
  both: {type: parallel, parallel: [talk, work], strategy: all_succeed, on_success: done, on_failure: done}
  talk: {type: agent, provider: claude, mode: conversation, prompt: hi, on_success: done}
  work: {type: step, command: "until test -e %s; do sleep 0.05; done", on_success: done}
  done: {type: terminal}
`, gate)
	if err := os.WriteFile(filepath.Join(dir, "both.yaml"), []byte(flow), 0o600); err != nil {
		t.Fatal(err)
	}
	p := serve(t, dir)
	an, err := p.app.Analyze(t.Context(), app.AnalyzeRequest{Workflow: "both.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	prepared, err := p.app.Prepare(t.Context(), app.PrepareRequest{
		Workflow: an, Options: app.RunOptions{AllowShell: true},
		Script: source.NewFile("replies.yaml", "replies: [{step: talk, reply: hello}]\n"),
	})
	if err != nil {
		t.Fatal(err)
	}
	id, err := p.app.Start(t.Context(), prepared, "", journal.Actor{User: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := os.WriteFile(gate, nil, 0o600); err != nil {
			t.Error(err)
		}
	}()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		var s api.Status
		p.call("GET", "/api/v1/runs/"+string(id), nil, &s, 200)
		if len(s.Gates) > 0 && s.State == journal.StateRunning {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v", s)
		}
	}
	var box inbox
	p.call("GET", "/api/v1/inbox", nil, &box, 200)
	if len(box.Items) != 1 || box.Items[0].Gate.Kind != journal.AskInput {
		t.Errorf("%+v", box)
	}
}

// hostile controls a terminal that shows it.
const hostile = "why? \u009b31m\u202e"

func TestRunIsStartedApprovedAndReadThroughTheAPI(t *testing.T) {
	p := newProject(t)
	var workflows workflowList
	p.call("GET", "/api/v1/workflows", nil, &workflows, 200)
	if len(workflows.Workflows) != 1 || workflows.Workflows[0].Name != "gated" || workflows.Workflows[0].Errors != 0 {
		t.Fatalf("%+v", workflows)
	}
	var detail workflowDetail
	p.call("GET", "/api/v1/workflows/gated", nil, &detail, 200)
	if len(detail.Steps) != 3 || len(detail.Diagnostics) != 0 {
		t.Fatalf("%+v", detail)
	}
	start := map[string]any{"workflow": "gated", "input": map[string]any{"question": hostile}, "simulate": true}
	var s api.Status
	header := p.call("POST", "/api/v1/runs", start, &s, 201, "Idempotency-Key", "one")
	if got := header.Get("Location"); got != "/api/v1/runs/"+s.ID {
		t.Errorf("Location %q", got)
	}
	var again api.Status
	p.call("POST", "/api/v1/runs", start, &again, 201, "Idempotency-Key", "one")
	if again.ID != s.ID {
		t.Errorf("the same key started %s and %s", s.ID, again.ID)
	}
	waiting := p.until(s.ID, journal.StateWaiting)
	if len(waiting.Gates) != 1 || waiting.Gates[0].Kind != journal.AskApproval ||
		waiting.Gates[0].Digest == "" || waiting.Simulated == "" {
		t.Fatalf("%+v", waiting)
	}
	var box inbox
	p.call("GET", "/api/v1/inbox", nil, &box, 200)
	if len(box.Items) != 1 || box.Items[0].Run.ID != s.ID || box.Items[0].Gate.Digest != waiting.Gates[0].Digest ||
		box.Items[0].Simulated != waiting.Simulated || box.Items[0].Untrusted {
		t.Fatalf("%+v", box)
	}
	var problem Problem
	p.call("POST", "/api/v1/runs/"+s.ID+"/decide",
		api.DecideBody{Decision: "approve", Digest: "sha256:other"}, &problem, 409)
	if problem.Code == "" || problem.Detail == "" || problem.Request == "" {
		t.Errorf("%+v", problem)
	}
	p.call("POST", "/api/v1/runs/"+s.ID+"/decide", map[string]any{"decision": "approve"}, &problem, 422)
	p.call("POST", "/api/v1/runs/"+s.ID[:8]+"/decide",
		api.DecideBody{Decision: "approve", Note: "fine" + hostile, Digest: waiting.Gates[0].Digest}, nil, 200)
	done := p.until(s.ID, journal.StateFinished)
	if done.Outcome != "ok" {
		t.Fatalf("%+v", done)
	}
	var raw []byte
	p.call("GET", "/api/v1/runs/"+s.ID+"/audit", nil, &raw, 200)
	if !strings.Contains(string(raw), identity.OwnerOf().Name) || !strings.Contains(string(raw), "fine") {
		t.Errorf("the audit log does not name who approved: %s", raw)
	}
	p.call("GET", "/api/v1/runs/"+s.ID+"/transcript", nil, &raw, 200)
	if lines := bytes.Count(raw, []byte("\n")); lines < 4 {
		t.Errorf("a transcript of %d lines", lines)
	}
	escaped := func(what string) {
		t.Helper()
		if bytes.ContainsAny(raw, "\u009b\u202e") || !bytes.Contains(raw, []byte(`\u009b31m\u202e`)) {
			t.Errorf("control characters of %s are not escaped: %q", what, raw)
		}
	}
	escaped("the transcript")
	p.call("GET", "/api/v1/runs/"+s.ID+"/steps/check", nil, &raw, 200)
	escaped("a step")
	var verified verification
	p.call("GET", "/api/v1/runs/"+s.ID+"/audit/verify", nil, &verified, 200)
	if !verified.Verified || len(verified.Logs) != 1 {
		t.Errorf("%+v", verified)
	}
	p.call("GET", "/api/v1/runs/"+s.ID+"/graph", nil, &raw, 200)
	if !bytes.Contains(raw, []byte("<svg")) {
		t.Errorf("%.80s", raw)
	}
	var result app.Ending
	p.call("GET", "/api/v1/runs/"+s.ID+"/output", nil, &result, 200)
	if result.Outcome != "ok" || len(result.Output) == 0 {
		t.Errorf("%+v", result)
	}
	p.call("DELETE", "/api/v1/runs/"+s.ID, nil, nil, 204)
	p.call("GET", "/api/v1/runs/"+s.ID, nil, nil, 404)
}

// A key belongs to one request of one identity: the same request again finds its run, another one is refused.
func TestIdempotencyKeyBelongsToOneRequest(t *testing.T) {
	p := newProject(t)
	ana, _ := p.user("ana", false, identity.Operator)
	start := func(question, token string, want int) string {
		t.Helper()
		var s api.Status
		p.call("POST", "/api/v1/runs", map[string]any{
			"workflow": "gated", "input": map[string]any{"question": question}, "simulate": true,
		}, &s, want, "Idempotency-Key", "one", "Authorization", "Bearer "+token)
		return s.ID
	}
	first := start("why?", p.token, 201)
	p.until(first, journal.StateWaiting)
	if again := start("why?", p.token, 201); again != first {
		t.Errorf("%s and %s", first, again)
	}
	start("how?", p.token, 409)
	if other := start("how?", ana, 201); other == first {
		t.Error("two people share a key")
	}
}

// A run has an id in one spelling: others would be other runs, in the same folder on some systems.
func TestRunIDsHaveOneSpelling(t *testing.T) {
	p := newProject(t)
	const id = "aaaaaaaa-1111-4111-8111-111111111111"
	for _, c := range []struct {
		id   string
		want int
	}{
		{strings.ToUpper(id), 422},
		{"{" + id + "}", 422},
		{"urn:uuid:" + id, 422},
		{strings.ReplaceAll(id, "-", ""), 422},
		{"../" + id, 422},
		{id, 201},
		{id, 409},
	} {
		start := simulated()
		start["run_id"] = c.id
		p.call("POST", "/api/v1/runs", start, nil, c.want)
	}
}

// A list says what runs have cost and how long they took, and which were simulated, as that of the command line does.
func TestListedRunsHaveTheirCost(t *testing.T) {
	p := newProject(t)
	var s api.Status
	p.call("POST", "/api/v1/runs", map[string]any{
		"workflow": "gated", "input": map[string]any{"question": "why?"}, "simulate": true,
	}, &s, 201)
	s = p.until(s.ID, journal.StateWaiting)
	var list runList
	p.call("GET", "/api/v1/runs", nil, &list, 200)
	if len(list.Runs) != 1 {
		t.Fatalf("%+v", list)
	}
	if r := list.Runs[0]; r.Simulated != "simulated" || r.Millis == nil || r.Dollars == nil ||
		*r.Dollars != s.Used.Dollars || *r.MicroDollars != s.Used.MicroDollars {
		t.Errorf("%+v", r)
	}
}

func TestListsHavePages(t *testing.T) {
	p := newProject(t)
	want := map[string]bool{}
	for i := range 5 {
		var s api.Status
		start := map[string]any{
			"workflow": "gated", "input": map[string]any{"question": fmt.Sprint(i)}, "simulate": true,
		}
		p.call("POST", "/api/v1/runs", start, &s, 201)
		want[s.ID] = true
	}
	cursor, pages := "", 0
	for {
		var list runList
		p.call("GET", "/api/v1/runs?limit=2&cursor="+cursor, nil, &list, 200)
		pages++
		for _, r := range list.Runs {
			if !want[r.ID] {
				t.Fatalf("%s is listed twice", r.ID)
			}
			delete(want, r.ID)
		}
		if cursor = list.Next; cursor == "" {
			break
		}
	}
	if pages != 3 || len(want) != 0 {
		t.Errorf("%d pages, missing %v", pages, want)
	}
	p.call("GET", "/api/v1/runs?cursor=nonsense", nil, nil, 422)
	p.call("GET", "/api/v1/runs?limit=100000", nil, nil, 422)
}

// The pages of the inbox have each gate once.
func TestInboxHasPages(t *testing.T) {
	p := newProject(t)
	want := map[string]bool{}
	for i := range 5 {
		var s api.Status
		start := map[string]any{
			"workflow": "gated", "input": map[string]any{"question": fmt.Sprint(i)}, "simulate": true,
		}
		p.call("POST", "/api/v1/runs", start, &s, 201)
		p.until(s.ID, journal.StateWaiting)
		want[s.ID] = true
	}
	pages := 0
	for cursor, more := "", true; more; more = cursor != "" {
		var list inbox
		p.call("GET", "/api/v1/inbox?limit=2&cursor="+cursor, nil, &list, 200)
		pages++
		for _, item := range list.Items {
			if !want[item.Run.ID] {
				t.Fatalf("the gate of %s is listed twice", item.Run.ID)
			}
			delete(want, item.Run.ID)
		}
		cursor = list.Next
	}
	if pages != 3 || len(want) != 0 {
		t.Errorf("%d pages, missing %v", pages, want)
	}
	p.call("GET", "/api/v1/inbox?cursor=nonsense", nil, nil, 422)
	p.call("GET", "/api/v1/inbox?limit=501", nil, nil, 422)
}

// A list by state has exactly the runs whose state is that one, on each of its pages.
func TestListsByStateHaveTheRunsInThatState(t *testing.T) {
	p := newProject(t)
	for i, decision := range []journal.Answer{"", "approve", "", "reject", ""} {
		var s api.Status
		p.call("POST", "/api/v1/runs", map[string]any{
			"workflow": "gated", "input": map[string]any{"question": fmt.Sprint(i)}, "simulate": true,
		}, &s, 201)
		waiting := p.until(s.ID, journal.StateWaiting)
		if decision != "" {
			p.call("POST", "/api/v1/runs/"+s.ID+"/decide", api.DecideBody{
				Step: waiting.Gates[0].Step, Decision: decision, Digest: waiting.Gates[0].Digest,
			}, nil, 200)
			p.until(s.ID, journal.StateFinished)
		}
	}
	got := map[app.StateFilter]int{}
	for _, filter := range app.StateFilters {
		for cursor, more := "", true; more; more = cursor != "" {
			var list runList
			p.call("GET", "/api/v1/runs?limit=1&state="+string(filter)+"&cursor="+cursor, nil, &list, 200)
			if n := len(list.Runs); n > 0 {
				got[filter] += n
			}
			cursor = list.Next
		}
	}
	want := map[app.StateFilter]int{"waiting": 3, "unfinished": 3, "finished": 2, "ok": 1, "rejected": 1}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// events reads live events from a position until stop returns true.
func (p *project) events(path, last string, stop func(id, data string) bool) {
	p.t.Helper()
	r, err := http.NewRequest("GET", p.url+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+p.token)
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer w.Body.Close()
	if w.StatusCode != 200 || w.Header.Get("Content-Type") != "text/event-stream" {
		p.t.Fatalf("%d %v", w.StatusCode, w.Header)
	}
	lines := bufio.NewScanner(w.Body)
	id := ""
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			id = text
		}
		if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok && stop(id, text) {
			return
		}
	}
	if err := lines.Err(); err != nil {
		p.t.Fatal(err)
	}
}

// A client is cut off after each single event, and the server is restarted in
// between: all in all, the client gets what an uninterrupted one gets.
func TestLiveEventsHaveNoGapAndNoDuplicate(t *testing.T) {
	p := newProject(t)
	var s api.Status
	start := map[string]any{"workflow": "gated", "input": map[string]any{"question": "why?"}, "simulate": true}
	p.call("POST", "/api/v1/runs", start, &s, 201)
	gate := p.until(s.ID, journal.StateWaiting).Gates[0]
	p.call("POST", "/api/v1/runs/"+s.ID+"/decide", api.DecideBody{Decision: "approve", Digest: gate.Digest}, nil, 200)
	p.until(s.ID, journal.StateFinished)

	var whole []string
	path := "/api/v1/runs/" + s.ID + "/events"
	finished := func(data string) bool { return strings.Contains(data, `"run.finished"`) }
	p.events(path, "0", func(_, data string) bool {
		whole = append(whole, data)
		return finished(data)
	})
	if len(whole) < 6 {
		t.Fatalf("%q", whole)
	}
	var pieces []string
	last := "0"
	for i := 0; len(pieces) == 0 || !finished(pieces[len(pieces)-1]); i++ {
		if i == 3 {
			p.stop()
			p = serve(t, p.dir)
		}
		p.events(path, last, func(id, data string) bool {
			pieces, last = append(pieces, data), id
			return true
		})
	}
	if a, b := strings.Join(whole, "\n"), strings.Join(pieces, "\n"); a != b {
		t.Errorf("in one piece:\n%s\ncut off after each:\n%s", a, b)
	}
}

// A client with a position that the journal does not have, as after a restored backup, gets what happens from now on.
func TestLiveEventsContinueAfterAJournalIsSetBack(t *testing.T) {
	p := newProject(t)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+"/api/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+p.token)
	r.Header.Set("Last-Event-ID", "1000000.1")
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	lines := bufio.NewScanner(w.Body)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "id: ") {
	}
	if at, err := p.app.Position(t.Context()); err != nil || lines.Text() != "id: "+(eventID{pos: at}).String() {
		t.Fatalf("%q at the position %d, %v", lines.Text(), at, err)
	}
	var s api.Status
	p.call("POST", "/api/v1/runs", simulated(), &s, 201)
	for lines.Scan() && !strings.Contains(lines.Text(), s.ID) {
	}
	if err := lines.Err(); err != nil {
		t.Error(err)
	}
}

func TestStoppingServerTellsItsClients(t *testing.T) {
	p := newProject(t)
	r, err := http.NewRequest("GET", p.url+"/api/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+p.token)
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	first := make([]byte, 10)
	if _, err := io.ReadFull(w.Body, first); err != nil {
		t.Fatal(err)
	}
	p.stop()
	rest, err := io.ReadAll(w.Body)
	if err != nil || !strings.Contains(string(rest), "server.stopping") {
		t.Errorf("%q, %v", rest, err)
	}
}

func TestOwnerSignsInWithTheLinkOnce(t *testing.T) {
	p := newProject(t)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	addr, _ := net.ResolveTCPAddr("tcp", strings.TrimPrefix(p.url, "http://"))
	link := p.server.LoginURL(addr)
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	browser := &http.Client{Jar: jar, CheckRedirect: stay}
	get := func(c *http.Client, url string) *http.Response {
		w, err := c.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		w.Body.Close()
		return w
	}
	// Programs that preview or scan links send HEAD first.
	if w, err := browser.Head(link); err != nil || w.StatusCode != 200 || len(w.Cookies()) > 0 {
		t.Fatal(w, err)
	}
	if w := get(browser, link); w.StatusCode != 303 || strings.Contains(w.Header.Get("Location"), "code") {
		t.Fatalf("%d %v", w.StatusCode, w.Header)
	}
	if w := get(browser, p.url+"/"); w.StatusCode != 200 {
		t.Errorf("the page that signing in leads to: %d", w.StatusCode)
	}
	if w := get(browser, p.url+"/login"); w.StatusCode != 403 {
		t.Errorf("a link without a code: %d", w.StatusCode)
	}
	if w := get(browser, p.url+"/nowhere"); w.StatusCode != 404 ||
		w.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("an unknown route: %d %v", w.StatusCode, w.Header)
	}
	if w := get(browser, p.url+"/api/v1/runs"); w.StatusCode != 200 {
		t.Errorf("after signing in: %d", w.StatusCode)
	}
	if w := get(&http.Client{CheckRedirect: stay}, link); w.StatusCode != 403 {
		t.Errorf("the link a second time: %d", w.StatusCode)
	}
	w, err := browser.PostForm(p.url+"/logout", nil)
	if err != nil {
		t.Fatal(err)
	}
	w.Body.Close()
	if w := get(browser, p.url+"/api/v1/runs"); w.StatusCode != 401 {
		t.Errorf("after signing out: %d", w.StatusCode)
	}
	if strings.Contains(p.log.String(), "code=") {
		t.Error("the log holds a login code")
	}
}

// Every route needs credentials, and lets in exactly the roles that have its
// permission.
func TestEveryRouteChecksItsPermission(t *testing.T) {
	p := newProject(t)
	other, err := identity.ProjectToken(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tokens := map[identity.Role]string{}
	for _, role := range []identity.Role{
		identity.Viewer, identity.Operator, identity.Approver, identity.Admin, identity.Sender,
	} {
		if tokens[role], err = p.auth.Users().Add(string(role), false, []identity.Role{role}, 0); err != nil {
			t.Fatal(err)
		}
	}
	expired, err := p.auth.Users().Add("old", false, []identity.Role{identity.Admin}, time.Nanosecond)
	if err != nil {
		t.Fatal(err)
	}
	// Besides the routes of the API, those that only the server itself has.
	routes := append(p.server.Routes(), Route{"GET", "/metrics", identity.Read},
		Route{"POST", "/mcp", identity.Operate})
	if len(routes) < 25 {
		t.Fatalf("%d routes", len(routes))
	}
	status := func(route Route, token string) int {
		path := strings.NewReplacer("{workflow}", "none", "{run}", "none", "{step}", "none", "{path}", "none",
			"{trigger}", "none").Replace(route.Path)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, route.Method, p.url+path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		w, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		w.Body.Close()
		return w.StatusCode
	}
	for _, route := range routes {
		if got := status(route, ""); got != 401 {
			t.Errorf("%s %s without a token: %d", route.Method, route.Path, got)
		}
		for role, token := range tokens {
			allowed := (identity.Identity{Kind: identity.User, Roles: []identity.Role{role}}).May(route.Needs)
			if got := status(route, token); (got == 403) == allowed || got == 401 || got >= 500 {
				t.Errorf("%s %s as %s: %d", route.Method, route.Path, role, got)
			}
		}
	}
	// Wrong tokens are refused on every route; after some of them, for a while.
	for _, route := range routes {
		for what, token := range map[string]string{"another project's": other, "an expired": expired} {
			if got := status(route, token); got != 401 && got != 429 {
				t.Errorf("%s %s with %s token: %d", route.Method, route.Path, what, got)
			}
		}
	}
}

// A method that a route does not have is refused with those that it has; only an unknown route is not found.
func TestWrongMethodsAreRefusedWithTheAllowedOnes(t *testing.T) {
	p := newProject(t)
	allowed := map[string][]string{"/hooks/none": {"POST"}, "/api/v1/none": nil}
	for _, route := range p.server.Routes() {
		path := regexp.MustCompile(`\{\w+\}`).ReplaceAllString(route.Path, "none")
		allowed[path] = append(allowed[path], route.Method)
		if route.Method == http.MethodGet {
			allowed[path] = append(allowed[path], http.MethodHead)
		}
	}
	if len(allowed) < 25 {
		t.Fatalf("%d paths", len(allowed))
	}
	for path, methods := range allowed {
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			if slices.Contains(methods, method) {
				continue
			}
			r, err := http.NewRequest(method, p.url+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+p.token)
			w, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			var problem Problem
			err = json.NewDecoder(w.Body).Decode(&problem)
			w.Body.Close()
			status, code := http.StatusMethodNotAllowed, "method-not-allowed"
			if methods == nil {
				status, code = http.StatusNotFound, "no-route"
			}
			got := strings.FieldsFunc(w.Header.Get("Allow"), func(r rune) bool { return r == ',' || r == ' ' })
			slices.Sort(got)
			slices.Sort(methods)
			if err != nil || w.StatusCode != status || problem.Code != code || !slices.Equal(got, methods) ||
				w.Header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s %s: %d, Allow %q, want %q, %+v, %v",
					method, path, w.StatusCode, got, methods, problem, err)
			}
		}
	}
}

func TestArtifactsStayInTheFolderOfTheRun(t *testing.T) {
	files := os.DirFS(t.TempDir())
	for _, name := range []string{"../x", "/etc/passwd", "a/../../x", "..", "", ".", "a//b", `..\x`} {
		if _, err := readArtifact(files, name); err == nil {
			t.Errorf("%q was read", name)
		}
	}
}

// A program decides gates only with an approver role of its own, although an
// administrator may do everything else.
func TestProgramsDecideOnlyAsApprovers(t *testing.T) {
	p := newProject(t)
	var s api.Status
	start := map[string]any{"workflow": "gated", "input": map[string]any{"question": "why?"}, "simulate": true}
	p.call("POST", "/api/v1/runs", start, &s, 201)
	gate := p.until(s.ID, journal.StateWaiting).Gates[0]
	owner := p.token
	decide := func(name string, want int, roles ...identity.Role) {
		t.Helper()
		token, err := p.auth.Users().Add(name, true, roles, 0)
		if err != nil {
			t.Fatal(err)
		}
		p.token = token
		p.call("POST", "/api/v1/runs/"+s.ID+"/decide",
			api.DecideBody{Decision: "approve", Digest: gate.Digest}, nil, want)
		p.token = owner
	}
	decide("builder", 403, identity.Admin)
	decide("reviewer", 200, identity.Approver)
}
