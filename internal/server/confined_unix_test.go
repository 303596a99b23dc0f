//go:build unix

package server

import (
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/espalier-run/espalier/internal/usertest"
)

const commands = `name: commands
states:
  initial: act
  act: {type: step, command: "touch MADE", on_success: done}
  done: {type: terminal}
`

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestRequestsReachListedWorkflowsOnly asks for files that are no workflows of the project: outside of it, in its state
// folder, behind links, and other files of it.
func TestRequestsReachListedWorkflowsOnly(t *testing.T) {
	usertest.Run(t, "^TestRequestsReachListedWorkflowsOnly$")
	p := newProject(t)
	outside, made := t.TempDir(), filepath.Join(t.TempDir(), "made")
	hostile := strings.ReplaceAll(commands, "MADE", made)
	writeFile(t, filepath.Join(outside, "flow.yaml"), hostile)
	writeFile(t, filepath.Join(outside, "secret.txt"), "hidden\n")
	writeFile(t, filepath.Join(p.dir, ".espalier", "runs", "r1", "flow.yaml"), hostile)
	writeFile(t, filepath.Join(p.dir, ".hidden", "flow.yaml"), hostile)
	writeFile(t, filepath.Join(p.dir, ".env"), "KEY=hidden\n")
	writeFile(t, filepath.Join(p.dir, "notes.txt"), "hidden\n")
	if err := os.Symlink(filepath.Join(outside, "flow.yaml"), filepath.Join(p.dir, "link.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(p.dir, "linked")); err != nil {
		t.Fatal(err)
	}
	rel, err := filepath.Rel(p.dir, outside)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		filepath.Join(outside, "flow.yaml"), filepath.Join(rel, "flow.yaml"), outside,
		filepath.Join(outside, "secret.txt"), filepath.Join(outside, "missing.yaml"), ".espalier/runs/r1/flow.yaml",
		".espalier/runs/r1", ".hidden/flow.yaml", filepath.Join(p.dir, ".espalier/runs/r1/flow.yaml"),
		".espalier/server-token", ".env", "notes.txt", "link.yaml", "linked/flow.yaml", "linked", "/etc/passwd",
	} {
		at := "/api/v1/workflows/" + url.PathEscape(name)
		for _, path := range []string{at, at + "/source", at + "/cost", at + "/graph", at + "/steps/act"} {
			p.call("GET", path, nil, nil, 404)
		}
		p.call("POST", "/api/v1/runs", map[string]any{"workflow": name}, nil, 404)
	}
	for _, path := range []string{
		filepath.Join(outside, "new.yaml"), filepath.Join(rel, "new.yaml"), "linked/new.yaml", "linked/sub/new.yaml",
		".espalier/new.yaml", "/new.yaml",
	} {
		p.call("POST", "/api/v1/validate", map[string]any{"path": path, "text": hostile}, nil, 404)
	}
	if _, err := os.Stat(made); err == nil {
		t.Error("a command of a file that is no workflow of the project was executed")
	}
	// Listed workflows are found by name and by path.
	for _, name := range []string{"gated", "gated.md", "./gated.md", filepath.Join(p.dir, "gated.md")} {
		p.call("GET", "/api/v1/workflows/"+url.PathEscape(name)+"/source", nil, nil, 200)
	}
	p.call("POST", "/api/v1/validate", map[string]any{"path": "sub/new.yaml", "text": hostile}, nil, 200)
}

// TestArtifactsStayInTheRunFolder asks for links and pipes that a command has left in the folder of its run.
func TestArtifactsStayInTheRunFolder(t *testing.T) {
	usertest.Run(t, "^TestArtifactsStayInTheRunFolder$")
	p := newProject(t)
	secret := filepath.Join(t.TempDir(), "secret.txt")
	writeFile(t, secret, "hidden\n")
	var run struct {
		ID string `json:"run_id"`
	}
	p.call("POST", "/api/v1/runs", map[string]any{
		"workflow": "gated", "simulate": true, "input": map[string]any{"question": "Why?"},
	}, &run, 201)
	dir := filepath.Join(p.dir, ".espalier", "runs", run.ID)
	writeFile(t, filepath.Join(dir, "sub", "own.txt"), "own\n")
	for name, target := range map[string]string{
		"absolute": secret, "token": "../../server-token", "folder": filepath.Dir(secret), "inside": "sub/own.txt",
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	at := "/api/v1/runs/" + run.ID + "/artifacts"
	get := func(name string) (status int, content string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "GET", p.url+at+"/"+name, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+p.token)
		w, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Body.Close()
		raw, err := io.ReadAll(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		return w.StatusCode, string(raw)
	}
	for _, name := range []string{"absolute", "token", "folder/secret.txt", "pipe", "..%2f..%2fserver-token"} {
		if status, content := get(name); status != 404 {
			t.Errorf("%s: %d %q", name, status, content)
		}
	}
	for _, name := range []string{"sub/own.txt", "inside"} {
		if status, content := get(name); status != 200 || content != "own\n" {
			t.Errorf("%s: %d %q", name, status, content)
		}
	}
	// The folder itself is replaced by a link.
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Dir(secret), dir); err != nil {
		t.Fatal(err)
	}
	if status, content := get("secret.txt"); status != 404 {
		t.Errorf("%d %q", status, content)
	}
}
