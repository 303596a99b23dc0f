//go:build unix

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/npmtest"
)

// TestToolsListsServersAndTheirTools lists the tools of a real MCP server. The command does not start a server that is
// not approved, and reports why a server cannot be used.
func TestToolsListsServersAndTheirTools(t *testing.T) {
	p := newGated(t)
	program := npmtest.Program(t, "@modelcontextprotocol/server-everything@2026.8.31", "mcp-server-everything")
	config, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
		"everything": map[string]any{"command": program, "args": []string{"stdio"}},
		"missing":    map[string]any{"command": filepath.Join(p.dir, "nothing")},
	}})
	if err != nil {
		t.Fatal(err)
	}
	// put would approve it.
	if err := os.WriteFile(filepath.Join(p.dir, ".mcp.json"), config, 0o600); err != nil {
		t.Fatal(err)
	}
	if out := p.exits(6, "tools"); strings.Contains(out, "everything.echo") || !strings.Contains(out, "espalier trust") {
		t.Errorf("before consent: %s", out)
	}
	p.exits(0, "trust", "--yes")
	out := p.exits(6, "tools")
	for _, want := range []string{"everything.echo", "missing\n", "cannot be started", "1 MCP server cannot be used"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in %s", want, out)
		}
	}
	var list []struct {
		Server string
		Tools  []struct{ Name string }
	}
	raw := p.exits(0, "tools", "everything", "--json")
	if err := json.Unmarshal([]byte(raw), &list); err != nil || len(list) != 1 || len(list[0].Tools) < 5 {
		t.Errorf("%v: %s", err, raw)
	}
	p.exits(2, "tools", "nothing")
}
