package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/journal"
)

const subscribing = `---
name: upload
kind: agent-flow/workflow
version: 1.0.0
description: A test.
triggers: { event: uploaded }
input:
  schema:
    type: object
    required: [name]
    properties: { name: { type: string } }
---
`

const watching = `specVersion: "1.0"
name: inbox
version: 1.0.0
description: Handles new files
trigger:
  type: file
  paths: [inbox/*.csv]
steps:
  - id: handle
    name: Handle
    agent: agents/worker.md
    input: $AGENT_INPUT
    goal: Look at the file.
    produces: outputs/result.md
`

// started returns the first fact of a run.
func (s *triggerService) started(t *testing.T, id journal.RunID) journal.RunStarted {
	t.Helper()
	for e, err := range s.env.Store.Events(t.Context(), id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		return e.Fact.(journal.RunStarted)
	}
	t.Fatal("the run has no facts")
	return journal.RunStarted{}
}

// What strangers send is data: it names no secrets of the project.
func TestUntrustedInputDoesNotNameSecrets(t *testing.T) {
	p := newTriggered(t, map[string]string{
		"upload.md":     subscribing + answering,
		"espalier.yaml": "secrets: {key: {env: HOME}}\ntriggers: {upload: {simulate: true}}\n",
	})
	s := p.server()
	s.at(t, &p.clock, midnight)
	d, err := s.app.Receive(t.Context(), Incoming{
		ID: "1", Source: "x", Type: "uploaded", Data: json.RawMessage(`{"name": "secret://key"}`),
	}, journal.Actor{User: "x"})
	if err != nil || len(d.Started) != 1 {
		t.Fatalf("%+v, %v", d, err)
	}
	first := s.started(t, d.Started[0])
	if got := string(first.Input.JSON); got != `{"name":"secret://key"}` {
		t.Errorf("the input is %s", got)
	}
	if !strings.Contains(string(first.Options), `"untrusted":true`) || first.By.As != "event 1 from x" {
		t.Errorf("%s by %+v", first.Options, first.By)
	}
}

func TestPausedTriggersRecordTheEventsThatTheyMissed(t *testing.T) {
	p := newTriggered(t, map[string]string{
		"upload.md": subscribing + answering, "espalier.yaml": "triggers: {upload: {simulate: true}}\n",
	})
	s := p.server()
	s.at(t, &p.clock, midnight)
	if _, err := s.app.PauseTrigger(t.Context(), "upload", true); err != nil {
		t.Fatal(err)
	}
	e := Incoming{ID: "1", Source: "x", Type: "uploaded", Data: json.RawMessage(`{"name": "a"}`)}
	d, err := s.app.Receive(t.Context(), e, journal.Actor{})
	if err != nil || len(d.Started) != 0 || len(d.Problems) != 1 {
		t.Errorf("%+v, %v", d, err)
	}
	if got := s.trigger(t, "upload.md#event"); len(got.Missed) != 1 ||
		got.Missed[0].Reason != "the trigger was paused" {
		t.Errorf("%+v", got.Missed)
	}
}

// failing is a store that loses one save of an event.
type failing struct {
	journal.Store
	saves, fail int
}

func (f *failing) Save(ctx context.Context, r journal.Register) (int64, error) {
	if strings.HasPrefix(r.Key, eventPrefix) {
		if f.saves++; f.saves >= f.fail && f.fail > 0 {
			return 0, errCrash
		}
	}
	return f.Store.Save(ctx, r)
}

// A delivery that a crash interrupts after it has woken a run is completed, and
// the run is not woken twice.
func TestInterruptedDeliveryIsCompletedOnce(t *testing.T) {
	p := newTriggered(t, map[string]string{
		"waits.md": "---\nname: waits\nkind: agent-flow/workflow\nversion: 1.0.0\ndescription: A test.\n---\n" +
			answering + strings.Replace(answering, "id: ask", "id: again", 1) + "```runtime\nwaitpoints:\n" +
			"  - {id: v, after_step: ask, event: uploaded}\n  - {id: w, after_step: again, event: uploaded}\n```\n",
		"upload.md":     subscribing + answering,
		"espalier.yaml": "triggers: {upload: {simulate: true}}\n",
	})
	var stores []*failing
	p.journal = func(s journal.Store) journal.Store {
		stores = append(stores, &failing{Store: s})
		return stores[len(stores)-1]
	}
	s := p.server()
	s.at(t, &p.clock, midnight)
	an, err := s.app.Analyze(t.Context(), AnalyzeRequest{Workflow: "waits"})
	if err != nil {
		t.Fatal(err)
	}
	run := NewRunID()
	request := PrepareRequest{Workflow: an, Options: RunOptions{Simulate: true}}
	if err := s.app.startPrepared(t.Context(), request, run, journal.Actor{}); err != nil {
		t.Fatal(err)
	}
	s.rest(t)
	e := Incoming{ID: "1", Source: "x", Type: "uploaded", Data: json.RawMessage(`{"name": "a"}`)}
	for _, store := range stores {
		store.fail = 2 // the first save claims the event
	}
	if _, err := s.app.Receive(t.Context(), e, journal.Actor{User: "x"}); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	p.journal = nil
	other := p.server()
	other.at(t, &p.clock, midnight)
	_, err = other.app.Receive(t.Context(), e, journal.Actor{User: "x"})
	if failed, ok := errors.AsType[*Error](err); !ok || failed.Reason != EventUnderWay {
		t.Fatalf("a delivery under way: %v", err)
	}
	p.clock.set(midnight.Add(time.Minute))
	d, err := other.app.Receive(t.Context(), e, journal.Actor{User: "x"})
	if err != nil || d.Duplicate || len(d.Started) != 1 || len(d.Woken) != 1 {
		t.Fatalf("%+v, %v", d, err)
	}
	signals := 0
	for e, err := range other.env.Store.Events(t.Context(), run, 0) {
		if err != nil {
			t.Fatal(err)
		}
		switch e.Fact.(type) {
		case journal.GateDecided, journal.SignalReceived:
			signals++
		}
	}
	if signals != 1 || len(other.runs(t)) != 2 {
		t.Errorf("%d signals, %d runs", signals, len(other.runs(t)))
	}
	if d, err = other.app.Receive(t.Context(), e, journal.Actor{User: "x"}); err != nil || !d.Duplicate {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestFileTriggerStartsOneRunPerVersion(t *testing.T) {
	p := newTriggered(t, map[string]string{
		"workflows/inbox/workflow.yaml":    watching,
		"workflows/inbox/agents/worker.md": "# Agent: Worker\n## Persona\nWorks.\n",
		"espalier.yaml":                    "triggers: {inbox: {simulate: true}}\n",
		"inbox/old.csv":                    "old",
	})
	s := p.server()
	look := func(s *triggerService) int {
		t.Helper()
		s.at(t, &p.clock, midnight)
		if err := s.fireFiles(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.rest(t)
		return len(s.runs(t))
	}
	if n := look(s) + look(s); n != 0 {
		t.Fatalf("files that were there before started %d runs", n)
	}
	p.write("inbox/a.csv", "half")
	p.write("inbox/a.txt", "no match")
	if n := look(s); n != 0 {
		t.Fatal("a file that is being written started a run")
	}
	p.write("inbox/a.csv", "half and the rest")
	if n := look(s); n != 0 {
		t.Fatal("a file that is being written started a run")
	}
	if n := look(s); n != 1 {
		t.Fatalf("%d runs after the file has settled", n)
	}
	first := s.started(t, s.runs(t)[0].ID)
	if got := string(first.Input.JSON); !strings.Contains(got, `"inbox/a.csv"`) || !strings.Contains(string(first.Options), "untrusted") {
		t.Errorf("input %s, options %s", got, first.Options)
	}
	// Touching a file changes nothing; another server and a restart start nothing again.
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(filepath.Join(p.dir, "inbox/a.csv"), later, later); err != nil {
		t.Fatal(err)
	}
	other := p.server()
	for range 3 {
		if a, b := look(s), look(other); a != 1 || b != 1 {
			t.Fatalf("%d and %d runs", a, b)
		}
	}
	// A new version does, once, also if it was written while no server was running.
	p.write("inbox/a.csv", "second version")
	third := p.server()
	for range 3 {
		look(third)
		look(other)
	}
	if n := look(s); n != 2 {
		t.Errorf("%d runs of two versions", n)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if said := strings.Join(p.notices, "\n"); strings.Contains(said, "started no run") {
		t.Errorf("the runs started, and it is said: %s", said)
	}
}

func TestOldEventsAreForgotten(t *testing.T) {
	p := newTriggered(t, map[string]string{"upload.md": subscribing + answering})
	s := p.server()
	s.at(t, &p.clock, midnight)
	for n := range 3 {
		p.clock.set(midnight.Add(time.Duration(n) * 4 * 24 * time.Hour))
		e := Incoming{ID: fmt.Sprint(n), Source: "x", Type: "other"}
		if _, err := s.app.Receive(t.Context(), e, journal.Actor{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.env.forgetEvents(t.Context()); err != nil {
		t.Fatal(err)
	}
	if kept, err := s.env.Store.List(t.Context(), eventPrefix); err != nil || len(kept) != 2 {
		t.Errorf("%d events are kept, %v", len(kept), err)
	}
}

func TestCommandsOfAgentfilesNameTheirWorkflow(t *testing.T) {
	p := newTriggered(t, map[string]string{
		"workflows/inbox/workflow.yaml": strings.Replace(watching, "  type: file\n  paths: [inbox/*.csv]\n",
			"  type: command\n  commands: [sort-inbox, /tidy]\n", 1),
		"workflows/inbox/agents/worker.md": "# Agent: Worker\n## Persona\nWorks.\n",
	})
	s := p.server()
	for _, name := range []string{"inbox", "sort-inbox", "tidy"} {
		an, err := s.app.Analyze(t.Context(), AnalyzeRequest{Workflow: name})
		if err != nil || an.Name() != "inbox" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.app.Analyze(t.Context(), AnalyzeRequest{Workflow: "tidier"}); err == nil {
		t.Error("a command that no workflow declares names one")
	}
}

// A delivery that starts no run is reported, and succeeds when it is sent again after the reason is gone.
func TestDeliveriesWithoutARunCanBeRepeated(t *testing.T) {
	const hooks = "webhooks: {push: {workflow: upload, verify: none}}\n"
	p := newTriggered(t, map[string]string{"upload.md": subscribing + answering, "espalier.yaml": hooks})
	event := Incoming{ID: "1", Source: "x", Type: "uploaded", Data: json.RawMessage(`{"name": "a"}`)}
	request := Incoming{ID: "2", Source: "/hooks/push", Data: json.RawMessage(`{"name": "a"}`)}
	s := p.server()
	s.at(t, &p.clock, midnight)
	_, atEvent := s.app.Receive(t.Context(), event, journal.Actor{User: "x"})
	_, atHook := s.app.ReceiveHook(t.Context(), "push", request)
	for _, err := range []error{atEvent, atHook} {
		if failed, ok := errors.AsType[*Error](err); !ok || failed.Kind != NotReady {
			t.Errorf("%v", err)
		}
	}
	p.mu.Lock()
	said := strings.Join(p.notices, "\n")
	p.mu.Unlock()
	for _, id := range []string{"upload.md#event", "upload.md#webhook:push"} {
		if !strings.Contains(said, "Trigger "+id+" started no run: the models are not ready: ") {
			t.Errorf("it is not reported for %s: %s", id, said)
		}
	}
	// The settings of the workflow's triggers apply to its webhooks, too.
	p.write("espalier.yaml", hooks+"triggers: {upload: {simulate: true}}\n")
	other := p.server()
	other.at(t, &p.clock, midnight)
	for range 2 {
		d, err := other.app.Receive(t.Context(), event, journal.Actor{User: "x"})
		if err != nil || len(d.Started) != 1 {
			t.Errorf("%+v, %v", d, err)
		}
		if d, err = other.app.ReceiveHook(t.Context(), "push", request); err != nil || len(d.Started) != 1 {
			t.Errorf("%+v, %v", d, err)
		}
	}
	if n := len(other.runs(t)); n != 2 {
		t.Errorf("%d runs", n)
	}
}
