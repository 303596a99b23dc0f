package app_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/identity"
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
