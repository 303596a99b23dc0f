package server

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/journal"
)

const nightly = `---
name: nightly
kind: agent-flow/workflow
version: 1.0.0
description: Says hello at night.
triggers: { schedule: "0 3 * * *" }
---

~~~step
id: hello
type: transform
description: Say hello
writes: [output]
~~~
`

// Schedules are listed, paused, resumed and fired over the API.
func TestTriggersAreManagedOverTheAPI(t *testing.T) {
	p := eventProject(t, map[string]string{
		"nightly.md": nightly, "espalier.yaml": "triggers: {nightly: {simulate: true}}\n",
	})
	var list triggerList
	p.call("GET", "/api/v1/triggers", nil, &list, 200)
	if len(list.Triggers) != 1 || list.Triggers[0].Next == "" || list.Triggers[0].Schedule != "0 3 * * *" {
		t.Fatalf("%+v", list)
	}
	id := url.PathEscape(list.Triggers[0].ID)
	var times triggerTimes
	p.call("GET", "/api/v1/triggers/"+id+"/next?count=3", nil, &times, 200)
	if len(times.Times) != 3 || !slices.IsSorted(times.Times) || times.Times[0] != list.Triggers[0].Next {
		t.Errorf("%+v", times)
	}
	for _, at := range times.Times {
		if when, err := time.Parse(time.RFC3339, at); err != nil || when.UTC().Hour() != 3 && when.Hour() != 3 {
			t.Errorf("%s, %v", at, err)
		}
	}
	p.call("GET", "/api/v1/triggers/"+id+"/next?count=0", nil, nil, 422)
	p.call("GET", "/api/v1/triggers/none/next", nil, nil, 404)

	var changed api.TriggerStatus
	p.call("POST", "/api/v1/triggers/"+id+"/pause", nil, &changed, 200)
	if !changed.Paused {
		t.Errorf("%+v", changed)
	}
	p.stop()
	p = serve(t, p.dir) // the pause is durable
	p.call("GET", "/api/v1/triggers", nil, &list, 200)
	if !list.Triggers[0].Paused {
		t.Errorf("after a restart: %+v", list)
	}
	changed = api.TriggerStatus{}
	p.call("POST", "/api/v1/triggers/"+id+"/resume", nil, &changed, 200)
	if changed.Paused {
		t.Errorf("%+v", changed)
	}
	p.call("POST", "/api/v1/triggers/none/pause", nil, nil, 404)

	var run api.Status
	p.call("POST", "/api/v1/triggers/nightly/run", nil, &run, 201)
	if got := p.until(run.ID, journal.StateFinished); got.Workflow != "nightly" || got.Outcome != "ok" {
		t.Errorf("%+v", got)
	}
}

// A delivery of GitHub starts a run once, with an untrusted input. One with a
// wrong signature starts none.
func TestGitHubDeliveriesStartRuns(t *testing.T) {
	const secret = "It's a Secret to Everybody"
	t.Setenv("TEST_STANDARD", standardSecret)
	t.Setenv("TEST_GITHUB", secret)
	p := eventProject(t, map[string]string{"subscriber.md": subscriber, "espalier.yaml": hookConfig})
	const body = `{"ref": "refs/heads/main"}`
	sum := hmac.New(sha256.New, []byte(secret))
	sum.Write([]byte(body))
	headers := []string{
		"X-GitHub-Event", "push", "X-GitHub-Delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958",
		"Content-Type", "application/json",
		"X-Hub-Signature-256", "sha256=" + hex.EncodeToString(sum.Sum(nil)),
	}
	first := p.hook("push", body, headers...)
	if first.Status != 202 || len(first.Started) != 1 {
		t.Fatalf("%+v", first)
	}
	if again := p.hook("push", body, headers...); !again.Duplicate || !slices.Equal(again.Started, first.Started) {
		t.Errorf("the same delivery again: %+v", again)
	}
	if s := p.until(first.Started[0], journal.StateWaiting); !s.Untrusted || s.Workflow != "subscriber" {
		t.Errorf("%+v", s)
	}
	for what, body := range map[string]string{"another body": body + " ", "no body": ""} {
		if a := p.hook("push", body, headers...); a.Status != 401 {
			t.Errorf("%s: %+v", what, a)
		}
	}
	if a := p.hook("push", body, headers[:6]...); a.Status != 401 {
		t.Errorf("no signature: %+v", a)
	}
}
