package mcpserver_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/mcpserver"
)

const workflow = `---
name: listed
kind: agent-flow/workflow
version: 1.0.0
description: A test.
---

## Steps

~~~step
id: answer
type: transform
description: Write an answer
writes: [output.answer]
~~~
`

// What an agent writes is untrusted: it cannot make the server open other files of the machine.
func TestClientsReachListedWorkflowsOnly(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	state := filepath.Join(dir, ".espalier")
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		filepath.Join(dir, "listed.md"), filepath.Join(outside, "outside.md"), filepath.Join(state, "server-token"),
	} {
		if err := os.WriteFile(path, []byte(workflow), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a := app.New(app.Options{Dir: dir, Home: t.TempDir()})
	defer a.Close()
	s, err := mcpserver.New(t.Context(), mcpserver.Options{App: a, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	here, there := mcp.NewInMemoryTransports()
	if _, err := s.Connect(t.Context(), there, nil); err != nil {
		t.Fatal(err)
	}
	client, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), here, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	relative, err := filepath.Rel(dir, filepath.Join(outside, "outside.md"))
	if err != nil {
		t.Fatal(err)
	}
	for name, found := range map[string]bool{
		"listed": true, "listed.md": true,
		filepath.Join(outside, "outside.md"): false, relative: false, ".espalier/server-token": false, "/etc/passwd": false,
	} {
		got, err := client.CallTool(t.Context(), &mcp.CallToolParams{
			Name: "validate_workflow", Arguments: map[string]any{"workflow": name},
		})
		if err != nil {
			t.Fatal(err)
		}
		if got.IsError == found {
			t.Errorf("%s: %+v", name, got.Content)
		}
	}
}
