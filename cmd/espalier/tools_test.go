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
	p := newGatedProject(t)
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
	if out := p.wantExit(6, "tools"); strings.Contains(out, "everything.echo") ||
		!strings.Contains(out, "espalier trust") {
		t.Errorf("before consent: %s", out)
	}
	p.wantExit(0, "trust", "--yes")
	out := p.wantExit(6, "tools")
	for _, want := range []string{"everything.echo", "missing\n", "cannot be started", "1 MCP server cannot be used"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in %s", want, out)
		}
	}
	var list []struct {
		Server string
		Tools  []struct{ Name string }
	}
	raw := p.wantExit(0, "tools", "everything", "--json")
	if err := json.Unmarshal([]byte(raw), &list); err != nil || len(list) != 1 || len(list[0].Tools) < 5 {
		t.Errorf("%v: %s", err, raw)
	}
	p.wantExit(2, "tools", "nothing")
}

// doctor lists the servers and their tools. It starts none that is not approved, and none with --offline.
func TestDoctorListsServersAndTheirTools(t *testing.T) {
	p := newGatedProject(t)
	program := npmtest.Program(t, "@modelcontextprotocol/server-everything@2026.8.31", "mcp-server-everything")
	started := filepath.Join(p.dir, "started")
	config, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
		"everything": map[string]any{"command": "sh", "args": []string{
			"-c", "echo x >> " + started + "; exec " + program + " stdio",
		}},
		"missing": map[string]any{"command": filepath.Join(p.dir, "nothing")},
	}})
	if err != nil {
		t.Fatal(err)
	}
	// put would approve it.
	if err := os.WriteFile(filepath.Join(p.dir, ".mcp.json"), config, 0o600); err != nil {
		t.Fatal(err)
	}
	type finding struct{ What, Name, State, About, Fix string }
	servers := func(args ...string) map[string]finding {
		t.Helper()
		var report struct{ Findings []finding }
		raw := p.wantExit(6, append([]string{"doctor", "--json"}, args...)...) // no model has a key
		if err := json.Unmarshal([]byte(raw), &report); err != nil {
			t.Fatalf("%v: %s", err, raw)
		}
		out := map[string]finding{}
		for _, f := range report.Findings {
			if f.What == "MCP server" {
				out[f.Name] = f
			}
		}
		if len(out) != 2 {
			t.Fatalf("%s", raw)
		}
		return out
	}
	if got := servers()["everything"]; got.State != "broken" || !strings.Contains(got.Fix, "espalier trust") {
		t.Errorf("before consent: %+v", got)
	}
	p.wantExit(0, "trust", "--yes")
	if got := servers("--offline")["everything"]; got.State != "ok" || got.About != "not started to find out" {
		t.Errorf("offline: %+v", got)
	}
	if _, err := os.Stat(started); err == nil {
		t.Error("the server was started")
	}
	got := servers()
	if one := got["everything"]; one.State != "ok" || !strings.Contains(one.About, "everything.echo, ") {
		t.Errorf("%+v", one)
	}
	if one := got["missing"]; one.State != "broken" ||
		!strings.Contains(one.About, "cannot be started") || one.Fix == "" {
		t.Errorf("%+v", one)
	}
}
