package app

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/journal"
)

const conversation = "name: chat\nstates:\n  initial: talk\n  talk: {type: agent, provider: claude, mode: " +
	"conversation, prompt: hi, on_success: done}\n  done: {type: terminal}\n"

// begin starts a simulated run and waits until it is at rest.
func (s *triggerService) begin(t *testing.T, workflow, input string) journal.RunID {
	t.Helper()
	an, err := s.app.Analyze(t.Context(), AnalyzeRequest{Workflow: workflow, Reading: catalog.ReadOptions{Run: true}})
	if err != nil {
		t.Fatal(err)
	}
	prepared, err := s.app.Prepare(t.Context(), PrepareRequest{
		Workflow: an, Input: json.RawMessage(input), Options: RunOptions{Simulate: true},
	})
	if err == nil {
		err = prepared.Err()
	}
	if err != nil {
		t.Fatal(err)
	}
	id, err := s.app.Start(t.Context(), prepared, NewRunID(), journal.Actor{User: "tester"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.app.Wait(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	return id
}

// Everything that the inbox lists is notified: approvals of steps and tool calls, unknown outcomes, and the turn of a
// person in a conversation, once for each turn. A waitpoint for an event is not: no person is asked.
func TestEverythingThatWaitsForAPersonIsNotified(t *testing.T) {
	p, to := notified(t, "skip")
	p.write("chat.yaml", conversation)
	s := p.server()
	n := &notifier{s.app, s.env}
	n.round(t)
	run := s.begin(t, "chat.yaml", "{}")
	n.round(t)
	n.round(t)
	if len(to.bodies) != 1 || !strings.Contains(to.bodies[0], `"type":"waiting"`) || !strings.Contains(to.bodies[0], "waits for a reply: talk") {
		t.Fatalf("%q", to.bodies)
	}
	if _, err := s.app.Send(t.Context(), run, journal.Actor{User: "ana"}, Signal{Event: "talk", Data: []byte(`"more"`)}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.app.Wait(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	n.round(t)
	if len(to.bodies) != 2 || to.ids[0] == to.ids[1] || !strings.Contains(to.bodies[1], "waits for a reply: talk") {
		t.Errorf("the second turn: %q %q", to.ids, to.bodies)
	}
	for i, c := range []struct {
		kind journal.GateKind
		want string
	}{
		{journal.GatePerson, "waits for an approval: x"},
		{journal.GateToolCall, "waits for an approval: x"},
		{journal.GateOutcome, "the outcome of x is unknown"},
		{journal.GateEvent, ""},
	} {
		before := len(to.bodies)
		fact := journal.GateOpened{Place: journal.Place{Step: "x"}, Kind: c.kind}
		if err := n.fact(t.Context(), run, &journal.Event{Seq: journal.Seq(1000 + i), Fact: fact}); err != nil {
			t.Fatal(err)
		}
		if err := n.send(t.Context()); err != nil {
			t.Fatal(err)
		}
		sent := to.bodies[before:]
		if c.want == "" && len(sent) != 0 || c.want != "" && (len(sent) != 1 || !strings.Contains(sent[0], c.want)) {
			t.Errorf("%s: %q", c.kind, sent)
		}
	}
}

// A notification can be for some workflows only.
func TestNotificationsOfSomeWorkflows(t *testing.T) {
	p, to := notified(t, "skip")
	p.write("espalier.yaml", "triggers:\n  gated: {simulate: true}\n  other: {simulate: true}\n"+
		"secrets: {hook: {env: HOOK}}\nnotifications:\n"+
		"  one: {webhook: '"+to.url+"', secret: 'secret://hook', workflows: [other, third]}\n")
	p.write("other.md", fmt.Sprintf(scheduled, "other", "0 * * * *")+waiting)
	p.approve()
	s := p.server()
	n := &notifier{s.app, s.env}
	n.round(t)
	s.at(t, &p.clock, midnight)
	s.at(t, &p.clock, hour(1))
	s.rest(t)
	n.round(t)
	if len(s.runs(t)) != 2 || len(to.bodies) != 1 ||
		!strings.Contains(to.bodies[0], " of other waits for an approval") {
		t.Errorf("%d runs: %q", len(s.runs(t)), to.bodies)
	}
}

// A message has no secret, and nothing that the workflow redacts.
func TestNotificationsAreRedacted(t *testing.T) {
	p, to := notified(t, "skip")
	secret := p.env["HOOK"]
	p.write("leaky.md", "---\nname: leaky\nkind: agent-flow/workflow\nversion: 1.0.0\ndescription: A test.\n---\n"+
		"```step\nid: say\ntype: transform\ndescription: Say hello\nwrites: [state.a]\n```\n"+
		"```step\nid: wait\ntype: gate\ngate_method: human_review\ndescription: Wait\nreads: [state.a]\n```\n"+
		"```observability\nredaction: {pii: true, patterns: [\"ZX-[0-9]+\"]}\n```\n")
	s := p.server()
	n := &notifier{s.app, s.env}
	n.round(t)
	run := s.begin(t, "leaky.md", "{}")
	n.round(t)
	before := len(to.bodies)
	if _, err := s.app.Send(t.Context(), run, journal.Actor{User: "ana"}, Reject{
		Step: "wait", Note: "ask bob@example.com about ZX-4711 and " + secret,
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.app.Wait(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	n.round(t)
	// An error of another system that quotes the secret.
	fact := journal.RunFinished{Outcome: journal.OutcomeFailed, Error: "no access with " + secret}
	if err := n.fact(t.Context(), run, &journal.Event{Seq: 1000, Fact: fact}); err != nil {
		t.Fatal(err)
	}
	if err := n.send(t.Context()); err != nil {
		t.Fatal(err)
	}
	sent := strings.Join(to.bodies[before:], "\n")
	if !strings.Contains(sent, "no access with ") {
		t.Fatalf("%q", sent)
	}
	for _, hidden := range []string{secret, "bob@example", "ZX-4711"} {
		if strings.Contains(sent, hidden) {
			t.Errorf("%s is in %s", hidden, sent)
		}
	}
}
