package app_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/identity"
	"github.com/espalier-run/espalier/internal/journal"
)

// A gate accepts the names of roles that a user can have, and no others.
func TestGatesAndUsersHaveTheSameRoles(t *testing.T) {
	const flow = `---
name: demo
description: A demonstration.
kind: agent-flow/workflow
version: 1.0.0
---

` + "```" + `step
id: ok
type: gate
description: Approve
gate_method: human_review
approvers: {roles: [%q]}
` + "```" + `
`
	for _, role := range []string{
		"legal", "L", "9", "a.b_c-D", strings.Repeat("r", 64), strings.Repeat("r", 65), "-a", "_a", "a b", "é", "a:b",
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "flow.md")
		if err := os.WriteFile(path, fmt.Appendf(nil, flow, role), 0o600); err != nil {
			t.Fatal(err)
		}
		a := app.New(app.Options{Dir: dir, Getenv: os.Getenv})
		got, err := a.Analyze(t.Context(), app.AnalyzeRequest{Workflow: path})
		if err != nil {
			t.Fatal(err)
		}
		_, refused := identity.ParseRole("approver:" + role)
		if got.Diagnostics.Errors() != (refused != nil) {
			t.Errorf("%q: users: %v, gates: %v", role, refused, got.Diagnostics)
		}
	}
}

func TestGatesWithRolesTakeOnlyTheirApprovers(t *testing.T) {
	for _, c := range []struct {
		kind  identity.Kind
		roles []identity.Role
		gate  []string
		want  bool
	}{
		{identity.User, []identity.Role{identity.Approver}, nil, true},
		{identity.User, []identity.Role{identity.Admin}, nil, true},
		{identity.User, []identity.Role{identity.Operator}, nil, false},
		{identity.User, []identity.Role{identity.Approver}, []string{"legal"}, false},
		{identity.User, []identity.Role{identity.Admin}, []string{"legal"}, false},
		{identity.User, []identity.Role{"approver:legal"}, []string{"legal"}, true},
		{identity.User, []identity.Role{"approver:legal"}, []string{"finance", "legal"}, true},
		{identity.User, []identity.Role{"approver:legal"}, []string{"finance"}, false},
		{identity.User, []identity.Role{"approver:legal"}, nil, true},
		{identity.Service, []identity.Role{identity.Admin}, nil, false},
		{identity.Service, []identity.Role{identity.Approver}, nil, true},
		{identity.Service, []identity.Role{identity.Operator}, nil, false},
		{identity.Owner, []identity.Role{"*"}, []string{"legal"}, true},
	} {
		id := identity.Identity{Name: "ann", Kind: c.kind, Roles: c.roles}
		by := journal.Actor{User: id.Name, Method: "token"}
		for _, gate := range []app.Gate{{Approvers: &app.Approvers{Roles: c.gate, Required: 1}}, {}} {
			if gate.Approvers == nil && c.gate != nil {
				continue // a gate without approvers
			}
			if got := gate.MayDecide(by, id.ApproverRoles()); got != c.want {
				t.Errorf("%s %v decides a gate of %v: %v", c.kind, c.roles, c.gate, got)
			}
		}
	}
	fourEyes := app.Gate{Approvers: &app.Approvers{FourEyes: true, Starter: "ann"}}
	if by := (journal.Actor{User: "ann", Method: "token"}); fourEyes.MayDecide(by, []string{"approver"}) {
		t.Error("the person who started the run decides")
	}
}
