package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/espalier-run/espalier/internal/cli"
)

// A simulation sends no request, also with consent to everything and with the hosts allowed. Without it, the same
// workflows do.
func TestSimulationsSendNoRequests(t *testing.T) {
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"x":1}`))
	}))
	defer server.Close()
	dir, home := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"operation.yaml": "name: operation\nstates:\n  initial: look\n  look: {type: operation, operation: " +
			"http.request, inputs: {url: \"URL/a\", method: GET}, on_success: done}\n  done: {type: terminal}\n",
		"tool.md": "---\nname: tool\nkind: agent-flow/workflow\nversion: 1.0.0\ndescription: Calls a tool.\n---\n" +
			"```step\nid: call\ntype: tool\ndescription: Call\ntool: total\nwrites: [output.x]\n```\n",
		"espalier.yaml":  "tools: {total: {url: \"URL/b\"}}\nallow: {hosts: [\"HOST\"]}\n",
		"otherwise.yaml": "otherwise: simulate\nreplies: []\n",
		"replies.yaml":   "replies: []\n",
	} {
		text = strings.ReplaceAll(text, "URL", server.URL)
		writeApproved(t, filepath.Join(dir, name), strings.ReplaceAll(text, "HOST", server.Listener.Addr().String()))
	}
	espalier := func(args ...string) {
		t.Helper()
		var out bytes.Buffer
		if code := cli.Main(cli.Environment{
			Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Dir: dir,
			Getenv: func(name string) string { return map[string]string{"HOME": home}[name] },
		}, args); code != 0 {
			t.Fatalf("%v: exit code %d\n%s", args, code, out.String())
		}
	}
	espalier("trust", "--yes")
	for _, workflow := range []string{"operation.yaml", "tool.md"} {
		espalier("validate", workflow)
		espalier("run", workflow, "--dry-run")
		espalier("run", workflow, "--simulate", "--allow-shell")
		espalier("run", workflow, "--script", "otherwise.yaml", "--allow-shell")
		if n := requests.Swap(0); n != 0 {
			t.Errorf("%s: %d requests of a simulation", workflow, n)
		}
		espalier("run", workflow, "--script", "replies.yaml")
		if n := requests.Swap(0); n != 1 {
			t.Errorf("%s: %d requests of a run, want 1", workflow, n)
		}
	}
}
