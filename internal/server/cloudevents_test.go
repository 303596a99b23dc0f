package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/identity"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/npmtest"
)

const subscriber = `---
name: subscriber
kind: agent-flow/workflow
version: 1.0.0
description: Starts for each upload.
triggers: { event: file_uploaded }
input:
  schema:
    type: object
    required: [name]
    properties:
      name: { type: string }
---

~~~step
id: look
type: transform
description: Look at the file
reads: [input.name]
writes: [output]
~~~

~~~step
id: check
type: gate
gate_method: human_review
description: Check the name
reads: [input.name]
~~~
`

const waiter = `---
name: waiter
kind: agent-flow/workflow
version: 1.0.0
description: Waits for an upload.
---

~~~step
id: first
type: transform
description: Say hello
writes: [output]
~~~

~~~runtime
waitpoints:
  - id: upload
    after_step: first
    event: file_uploaded
~~~
`

// eventProject is a server over a project with triggers.
func eventProject(t *testing.T, files map[string]string) *project {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name),
			[]byte(strings.ReplaceAll(text, "~~~", "```")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return serve(t, dir)
}

type answer struct {
	Status                   int `json:"status"`
	Duplicate                bool
	Started, Woken, Problems []string
	Detail                   string `json:"detail"`
}

// sendEvents sends events with the official JavaScript SDK of CloudEvents.
func (p *project) sendEvents(token string, events ...map[string]any) []answer {
	p.t.Helper()
	var in bytes.Buffer
	for _, e := range events {
		raw, err := json.Marshal(e)
		if err != nil {
			p.t.Fatal(err)
		}
		in.Write(append(raw, '\n'))
	}
	script := filepath.Join("testdata", "cloudevents.cjs")
	cmd := exec.Command("node", script, npmtest.Install(p.t, "cloudevents@10.0.0"), p.url+"/api/v1/events", token)
	cmd.Stdin, cmd.Stderr = &in, p.t.Output()
	out, err := cmd.Output()
	if err != nil {
		p.t.Fatal(err)
	}
	var answers []answer
	for line := range strings.Lines(string(out)) {
		var a answer
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			p.t.Fatal(err)
		}
		answers = append(answers, a)
	}
	return answers
}

// Spec: Agent Flow §2.4 event
func TestCloudEventsOfTheOfficialSDKStartRunsOnce(t *testing.T) {
	p := eventProject(t, map[string]string{
		"subscriber.md": subscriber, "espalier.yaml": "triggers: {subscriber: {simulate: true}}\n",
	})
	sender, err := p.auth.Users().Add("uploads", true, []identity.Role{identity.Sender}, 0)
	if err != nil {
		t.Fatal(err)
	}
	event := func(mode, id, kind string, data any) map[string]any {
		return map[string]any{"mode": mode, "id": id, "source": "/bucket", "type": kind, "data": data}
	}
	file := map[string]any{"name": "a.txt", "size": 3}
	got := p.sendEvents(sender,
		event("structured", "1", "file_uploaded", file), event("binary", "2", "file_uploaded", file),
		event("binary", "1", "file_uploaded", file), event("structured", "2", "file_uploaded", file),
		event("binary", "3", "unknown", file), event("structured", "4", "file_uploaded", map[string]any{"size": 1}))
	if len(got) != 6 {
		t.Fatalf("%+v", got)
	}
	for i, want := range []struct {
		status, started int
		duplicate       bool
	}{{202, 1, false}, {202, 1, false}, {202, 1, true}, {202, 1, true}, {202, 0, false}, {422, 0, false}} {
		a := got[i]
		if a.Status != want.status || len(a.Started) != want.started || len(a.Problems) != 0 ||
			a.Duplicate != want.duplicate {
			t.Errorf("event %d: %+v", i, a)
		}
	}
	if !slices.Equal(got[0].Started, got[2].Started) || slices.Equal(got[0].Started, got[1].Started) {
		t.Errorf("runs %v, %v and %v", got[0].Started, got[1].Started, got[2].Started)
	}
	// The approver sees that the input comes from outside, and who sent it is recorded.
	s := p.until(got[0].Started[0], journal.StateWaiting)
	var box inbox
	p.call("GET", "/api/v1/inbox", nil, &box, 200)
	if !s.Untrusted || len(box.Items) == 0 || !box.Items[0].Untrusted {
		t.Errorf("%+v, %+v", s, box)
	}
	var raw []byte
	p.call("GET", "/api/v1/runs/"+s.ID+"/audit", nil, &raw, 200)
	if !strings.Contains(string(raw), "uploads") {
		t.Errorf("the audit log does not name the sender: %s", raw)
	}
	var list runList
	if p.call("GET", "/api/v1/runs", nil, &list, 200); len(list.Runs) != 2 {
		t.Errorf("%d runs", len(list.Runs))
	}
	var triggers triggerList
	p.call("GET", "/api/v1/triggers", nil, &triggers, 200)
	if one := triggers.Triggers[0]; len(one.Missed) != 1 || !strings.Contains(one.Missed[0].Reason, "input") {
		t.Errorf("%+v", one)
	}
}

func TestEventsWakeRunsThatWait(t *testing.T) {
	p := eventProject(t, map[string]string{"waiter.md": waiter})
	var s api.Status
	p.call("POST", "/api/v1/runs", map[string]any{"workflow": "waiter", "simulate": true}, &s, 201)
	waiting := p.until(s.ID, journal.StateWaiting)
	event := map[string]any{
		"mode": "structured", "id": "1", "source": "/x", "type": waiting.Gates[0].Event, "data": map[string]any{"n": 1},
	}
	other := map[string]any{"mode": "structured", "id": "2", "source": "/x", "type": "other"}
	got := p.sendEvents(p.token, other, event, event)
	if len(got) != 3 || len(got[0].Woken) != 0 || !slices.Equal(got[1].Woken, []string{s.ID}) || !got[2].Duplicate {
		t.Fatalf("%+v", got)
	}
	if done := p.until(s.ID, journal.StateFinished); done.Outcome != "ok" {
		t.Errorf("%+v", done)
	}
}

func TestMalformedEventsAreRefused(t *testing.T) {
	p := eventProject(t, map[string]string{"subscriber.md": subscriber})
	for _, c := range []struct {
		headers []string
		body    string
		want    int
	}{
		{[]string{"Content-Type", "application/cloudevents+json"}, `{"specversion":"1.0","id":"1","source":"/x"}`, 422},
		{[]string{"Content-Type", "application/cloudevents+json"}, `{`, 422},
		{
			[]string{"Content-Type", "application/cloudevents+json"},
			`{"specversion":"0.3","id":"1","source":"/x","type":"t"}`, 422,
		},
		{[]string{"Content-Type", "application/cloudevents-batch+json"}, `[]`, 415},
		{[]string{"Content-Type", "application/cloudevents+xml"}, `<x/>`, 415},
		{[]string{"Content-Type", "application/json"}, `{}`, 415},
		{[]string{"ce-specversion", "1.0", "ce-id", "1", "ce-source", "%zz", "ce-type", "t"}, ``, 422},
		{[]string{"ce-specversion", "1.0", "ce-id", "1", "ce-source", "/x", "ce-type", "t", "ce-time", "noon"}, ``, 422},
	} {
		r, err := http.NewRequest("POST", p.url+"/api/v1/events", strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+p.token)
		for i := 0; i < len(c.headers); i += 2 {
			r.Header.Set(c.headers[i], c.headers[i+1])
		}
		w, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		w.Body.Close()
		if w.StatusCode != c.want {
			t.Errorf("%v %s: %d, expected %d", c.headers, c.body, w.StatusCode, c.want)
		}
	}
}

// hookConfig has a webhook for each kind of signature.
const hookConfig = `secrets:
  standard: {env: TEST_STANDARD}
  github: {env: TEST_GITHUB}
webhooks:
  paid:
    workflow: subscriber
    verify: standard-webhooks
    secret: secret://standard
    simulate: true
    map: {name: event.data.file.name}
  push:
    workflow: subscriber.md
    verify: github
    secret: secret://github
    simulate: true
    map: {name: event.type}
  open:
    workflow: subscriber
    verify: none
`

const standardSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// hook posts to a webhook.
func (p *project) hook(name, body string, headers ...string) answer {
	p.t.Helper()
	r, err := http.NewRequest("POST", p.url+"/hooks/"+name, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer w.Body.Close()
	var a answer
	if err := json.NewDecoder(w.Body).Decode(&a); err != nil {
		p.t.Fatal(err)
	}
	a.Status = w.StatusCode
	return a
}

func TestWebhooksAcceptWhatStandardWebhooksSigns(t *testing.T) {
	t.Setenv("TEST_STANDARD", standardSecret)
	t.Setenv("TEST_GITHUB", "It's a Secret to Everybody")
	p := eventProject(t, map[string]string{"subscriber.md": subscriber, "espalier.yaml": hookConfig})
	const body = `{"file": {"name": "b.txt"}}`
	sign := func(id string, at time.Time) []string {
		script := filepath.Join("testdata", "webhooks.cjs")
		cmd := exec.Command("node", script, npmtest.Install(t, "standardwebhooks@1.1.1"), standardSecret,
			id, fmt.Sprint(at.Unix()))
		cmd.Stdin, cmd.Stderr = strings.NewReader(body), t.Output()
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return []string{
			"webhook-id", id, "webhook-timestamp", fmt.Sprint(at.Unix()), "webhook-signature",
			strings.TrimSpace(string(out)), "Content-Type", "application/json",
		}
	}
	now := time.Now()
	signed := sign("msg_1", now)
	first := p.hook("paid", body, signed...)
	if first.Status != 202 || len(first.Started) != 1 {
		t.Fatalf("%+v", first)
	}
	if again := p.hook("paid", body, signed...); !again.Duplicate || !slices.Equal(again.Started, first.Started) {
		t.Errorf("a replay: %+v", again)
	}
	if s := p.until(first.Started[0], journal.StateWaiting); !s.Untrusted || string(s.Gates[0].Shows["input.name"]) != `"b.txt"` {
		t.Errorf("%+v", s)
	}
	other := slices.Clone(signed)
	other[1] = "msg_2" // the id is signed
	for what, a := range map[string]answer{
		"another id":   p.hook("paid", body, other...),
		"another body": p.hook("paid", body+" ", signed...),
		"no signature": p.hook("paid", body),
		"too old":      p.hook("paid", body, sign("msg_3", now.Add(-6*time.Minute))...),
		"from ahead":   p.hook("paid", body, sign("msg_4", now.Add(6*time.Minute))...),
	} {
		if a.Status != 401 {
			t.Errorf("%s: %+v", what, a)
		}
	}
	if a := p.hook("nothing", body); a.Status != 404 {
		t.Errorf("%+v", a)
	}
	// Requests without a signature need a person's approval of the configuration.
	if a := p.hook("open", body); a.Status != 424 {
		t.Errorf("%+v", a)
	}
}

// The example of GitHub's documentation, "Validating webhook deliveries".
func TestGitHubSignatureOfTheDocumentedExample(t *testing.T) {
	hook := &app.Webhook{Verify: app.VerifyGitHub, Secret: "It's a Secret to Everybody"}
	const signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
	h := http.Header{}
	// Another spelling of a signature does not make another event of a delivery that is replayed.
	for _, spelling := range []string{signature, "sha256=" + strings.ToUpper(signature[len("sha256="):])} {
		h.Set("X-Hub-Signature-256", spelling)
		e, err := verifyHook(hook, h, []byte("Hello, World!"), time.Now())
		if err != nil || "sha256="+e.ID != signature {
			t.Errorf("%s: %q, %v", spelling, e.ID, err)
		}
	}
	for _, wrong := range []string{"", "sha256=", "sha1=757107ea", signature[:len(signature)-1] + "8"} {
		h.Set("X-Hub-Signature-256", wrong)
		if _, err := verifyHook(hook, h, []byte("Hello, World!"), time.Now()); err == nil {
			t.Errorf("%q was accepted", wrong)
		}
	}
}

// A program starts a workflow only if the workflow says "api: true", whatever its roles. A token with the role
// starter:NAME starts that workflow and nothing else. People start workflows on demand, unless they say "api: false".
//
// Spec: Agent Flow §2.4 api
func TestScopedTokensStartOneWorkflow(t *testing.T) {
	flow := func(name, api string) string {
		return "---\nname: " + name + "\nkind: agent-flow/workflow\nversion: 1.0.0\ndescription: A test.\n" +
			"triggers: { manual: true" + api + " }\n---\n~~~step\nid: a\ntype: transform\ndescription: A\n" +
			"writes: [output]\n~~~\n"
	}
	p := eventProject(t, map[string]string{
		"open.md": flow("open", ", api: true"), "other.md": flow("other", ", api: true"), "plain.md": flow("plain", ""),
		"shut.md": flow("shut", ", api: false"),
	})
	scoped, err := p.auth.Users().Add("ci", true, []identity.Role{"starter:open", "starter:plain", "starter:shut"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	service, err := p.auth.Users().Add("nightly", true, []identity.Role{identity.Operator}, 0)
	if err != nil {
		t.Fatal(err)
	}
	person, err := p.auth.Users().Add("ann", false, []identity.Role{identity.Operator}, 0)
	if err != nil {
		t.Fatal(err)
	}
	owner := p.token
	for _, c := range []struct {
		token, workflow string
		want            int
	}{
		{scoped, "open", 201},
		{service, "open", 201},
		{service, "plain", 403},
		{scoped, "other", 403},
		{scoped, "plain", 403},
		{scoped, "shut", 403},
		{owner, "open", 201},
		{owner, "plain", 201},
		{person, "plain", 201},
		{person, "shut", 403},
		{owner, "shut", 403},
	} {
		var s api.Status
		p.token = c.token
		p.call("POST", "/api/v1/runs", map[string]any{"workflow": c.workflow, "simulate": true}, &s, c.want)
		if c.want == 201 && s.Untrusted != (c.token == scoped) {
			t.Errorf("%s: untrusted is %v", c.workflow, s.Untrusted)
		}
	}
	p.token = scoped
	p.call("GET", "/api/v1/runs", nil, nil, 403)
}

// An event starts a run of every workflow that subscribes to it, although another one cannot start. The same id of
// another source is another event.
func TestEventStartsAllSubscribers(t *testing.T) {
	p := eventProject(t, map[string]string{
		"subscriber.md": subscriber, "second.md": strings.Replace(subscriber, "name: subscriber", "name: second", 1),
		"picky.md": strings.NewReplacer("name: subscriber", "name: picky", "required: [name]", "required: [owner]",
			"name: { type: string }", "owner: { type: string }", "input.name", "input.owner").Replace(subscriber),
		"other.md": strings.NewReplacer("name: subscriber", "name: other",
			"file_uploaded", "file_removed").Replace(subscriber),
		"espalier.yaml": "triggers: {subscriber: {simulate: true}, second: {simulate: true}, picky: {simulate: " +
			"true}, other: {simulate: true}}\n",
	})
	event := func(source string) map[string]any {
		return map[string]any{
			"mode": "binary", "id": "1", "source": source, "type": "file_uploaded",
			"data": map[string]any{"name": "a.txt"},
		}
	}
	got := p.sendEvents(p.token, event("/a"), event("/b"), event("/a"))
	for i, a := range got {
		if len(a.Started) != 2 || a.Duplicate != (i == 2) || i < 2 && len(a.Problems) != 1 {
			t.Errorf("%d: %+v", i, a)
		}
	}
	names := map[string]int{}
	var list runList
	p.call("GET", "/api/v1/runs", nil, &list, 200)
	for _, r := range list.Runs {
		names[r.Workflow]++
	}
	if len(names) != 2 || names["subscriber"] != 2 || names["second"] != 2 {
		t.Errorf("%v", names)
	}
}

// A webhook without a signature takes requests once a person has approved the configuration.
func TestUnsignedWebhookNeedsApproval(t *testing.T) {
	p := eventProject(t, map[string]string{
		"subscriber.md": subscriber,
		"espalier.yaml": "webhooks: {open: {workflow: subscriber, verify: none, simulate: true}}\n",
	})
	const body = `{"name": "c.txt"}`
	if a := p.hook("open", body); a.Status != 424 {
		t.Errorf("before the approval: %+v", a)
	}
	review, err := p.app.Review(context.Background(), p.dir, catalog.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.app.Approve(review); err != nil {
		t.Fatal(err)
	}
	p.stop()
	p = serveHome(t, p.dir, p.home)
	a := p.hook("open", body)
	if a.Status != 202 || len(a.Started) != 1 {
		t.Fatalf("%+v", a)
	}
	if s := p.until(a.Started[0], journal.StateWaiting); !s.Untrusted {
		t.Errorf("%+v", s)
	}
}
