package server

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/identity"
	"github.com/espalier-run/espalier/internal/journal"
)

// A gate that names approvers takes the decisions of people with their roles, each person once, and shows who has
// approved and how many approvals are missing.
func TestGatesTakeTheApprovalsOfPeopleWithTheirRoles(t *testing.T) {
	dir := t.TempDir()
	text := strings.ReplaceAll(gated, "~~~", "```")
	text = strings.Replace(text, "reads: [output.answer]\n", `reads: [output.answer]
approvers: {roles: [legal, finance], min: 2, four_eyes: true}
`, 1)
	if err := os.WriteFile(filepath.Join(dir, "gated.md"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := serve(t, dir)
	tokens := map[string]string{}
	for name, roles := range map[string][]identity.Role{
		"ann": {"approver:legal"}, "ben": {"approver:finance"}, "cho": {identity.Approver}, "dan": {identity.Admin},
		"eva": {identity.Operator, "approver:legal"},
	} {
		token, err := p.auth.Users().Add(name, false, roles, 0)
		if err != nil {
			t.Fatal(err)
		}
		tokens[name] = "Bearer " + token
	}
	var s api.Status
	p.call("POST", "/api/v1/runs", map[string]any{
		"workflow": "gated", "input": map[string]any{"question": "why?"}, "simulate": true,
	}, &s, 201, "Authorization", tokens["eva"])
	digest := p.until(s.ID, journal.StateWaiting).Gates[0].Digest
	decide := func(name string, decision journal.Answer, want int) string {
		t.Helper()
		var raw []byte
		p.call("POST", "/api/v1/runs/"+s.ID+"/decide", api.DecideBody{Decision: decision, Digest: digest}, &raw, want,
			"Authorization", tokens[name])
		return string(raw)
	}
	for name, want := range map[string]string{
		"cho": "the role legal or finance", "dan": "the role legal or finance", "eva": "has started the run",
	} {
		for _, decision := range []journal.Answer{journal.AnswerApprove, journal.AnswerReject} {
			if got := decide(name, decision, 409); !strings.Contains(got, want) {
				t.Errorf("%s: %s", name, got)
			}
		}
	}
	decide("ann", "approve", 200)
	if got := decide("ann", "approve", 409); !strings.Contains(got, "approved step") {
		t.Error(got)
	}
	claim := journal.Actor{User: "root", As: "ben"}
	if _, err := p.app.Send(t.Context(), journal.RunID(s.ID), claim, app.Approve{}); err == nil ||
		!strings.Contains(err.Error(), "this project has users") {
		t.Errorf("a claim at the terminal: %v", err)
	}
	var box inbox
	p.call("GET", "/api/v1/inbox", nil, &box, 200)
	a := box.Items[0].Gate.Approvers
	if a == nil || a.Missing != 1 || a.Required != 2 || len(a.Approvals) != 1 || a.Approvals[0].User != "ann" ||
		!slices.Equal(a.Roles, []string{"legal", "finance"}) || a.Starter != "eva" {
		t.Fatalf("%+v", a)
	}
	decide("ben", "approve", 200)
	if done := p.until(s.ID, journal.StateFinished); done.Outcome != "ok" {
		t.Errorf("%+v", done)
	}
}
