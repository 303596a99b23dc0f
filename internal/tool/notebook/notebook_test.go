package notebook_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/protected"
	"github.com/espalier-run/espalier/internal/tool"
	"github.com/espalier-run/espalier/internal/tool/notebook"
	"github.com/espalier-run/espalier/internal/tool/tooltest"
	"github.com/espalier-run/espalier/internal/usertest"
)

func TestToolsMeetTheToolContract(t *testing.T) {
	call := func(input string) tool.Call {
		return tool.Call{
			Key: "k1", Input: json.RawMessage(input), For: tool.Purpose{Workflow: "w", Agent: "a"},
		}
	}
	tools := notebook.Tools(t.TempDir())
	tooltest.Run(t, tooltest.Subject{Tool: tools[0], Works: call(`{}`)})
	tooltest.Run(t, tooltest.Subject{
		Tool: tools[1], Works: call(`{"note":"x"}`),
		Fails: []tooltest.Failure{{Call: call(`{"note":7}`), Class: ir.ClassInput}},
	})
}

func TestNotebooksKeepTheNotesOfEachAgent(t *testing.T) {
	dir := t.TempDir()
	tools := map[string]tool.Tool{}
	for _, one := range notebook.Tools(dir) {
		tools[one.Spec().Name] = one
	}
	call := func(name, key, agent, input string) (string, error) {
		t.Helper()
		result, err := tools[name].Call(t.Context(),
			tool.Call{Key: key, Input: json.RawMessage(input), For: tool.Purpose{Workflow: "../flow", Agent: agent}})
		return string(result.Output), err
	}
	must := func(want, name, key, agent, input string) {
		t.Helper()
		if got, err := call(name, key, agent, input); err != nil || got != want {
			t.Errorf("%s %s: %s %v", name, input, got, err)
		}
	}
	must(`[]`, notebook.Read, "k0", "a", `{}`)
	must(`{"kept":true}`, notebook.Add, "k1", "a", `{"note":"one"}`)
	must(`{"kept":true}`, notebook.Add, "k1", "a", `{"note":"one"}`) // the same call, made again
	must(`{"kept":true}`, notebook.Add, "k2", "b", `{"note":"of another"}`)
	must(`["one"]`, notebook.Read, "k3", "a", `{}`)

	// A line that a crash has torn is no note, and does not spoil the next.
	name := filepath.Join(dir, "%2E%2E%2F%66%6C%6F%77", "a.jsonl")
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"note":"to`); err != nil {
		t.Fatal(err)
	}
	f.Close()
	must(`{"kept":true}`, notebook.Add, "k4", "a", `{"note":"two"}`)
	must(`["one","two"]`, notebook.Read, "k5", "a", `{}`)

	var failed *tool.Error
	if _, err := call(notebook.Add, "k6", "a", `{"note":"`+strings.Repeat("x", 5000)+`"}`); !errors.As(err, &failed) ||
		failed.Class != ir.ClassInput {
		t.Errorf("too long a note: %v", err)
	}
	books, err := notebook.Books(dir)
	if err != nil || len(books) != 2 || books[0].Workflow != "../flow" || books[0].Agent != "a" ||
		len(books[0].Notes) != 2 {
		t.Errorf("%+v %v", books, err)
	}
	if found, err := notebook.Forget(dir, "../flow", "a"); !found || err != nil {
		t.Error(found, err)
	}
	must(`[]`, notebook.Read, "k7", "a", `{}`)
	must(`["of another"]`, notebook.Read, "k8", "b", `{}`)
}

// The names of workflows and agents come from files of others: no notebook has the name of configuration, and none is
// read, written or removed through a link.
func TestNotebooksAreNeverConfiguration(t *testing.T) {
	usertest.Run(t, "^TestNotebooksAreNeverConfiguration$")
	dir, outside := filepath.Join(t.TempDir(), "notes"), t.TempDir()
	tools := notebook.Tools(dir)
	add := func(workflow, agent string) error {
		_, err := tools[1].Call(t.Context(), tool.Call{
			Key: "k", Input: json.RawMessage(`{"note":"x"}`), For: tool.Purpose{Workflow: workflow, Agent: agent},
		})
		return err
	}
	names := []string{
		"", ".", "..", "...", ".git", ".GIT", ".g\u200cit", "\u200b.git", "\uff0egit",
		".git::$DATA", ".git/config", `.git\config`,
		"GIT~1", "HEAD", "head.", "espalier.yaml", "Espalier.YML", "e\u017fpalier.yaml",
		".mcp.json", ".claude/settings.json",
		"agents.md", "../../x", "/etc/x", "%2Egit", "_", "x", "plain name", ".",
	}
	known := map[string]bool{}
	for _, name := range names {
		known[name] = true
		if err := add(name, "a"); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if err := add("x", name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		if !d.IsDir() {
			files++
		}
		rel, err := filepath.Rel(dir, path)
		return errors.Join(err, protected.Path(rel))
	})
	if want := 2 * (len(known) - 1); err != nil || files != want { // "" and "_" share a file
		t.Errorf("%d files, want %d: %v", files, want, err)
	}
	books, err := notebook.Books(dir)
	if err != nil || len(books) != files {
		t.Errorf("%d books of %d files: %v", len(books), files, err)
	}
	for _, b := range books {
		if !known[b.Workflow] && b.Workflow != "_" || !known[b.Agent] && b.Agent != "a" || len(b.Notes) != 1 {
			t.Errorf("%+v", b)
		}
	}
	if err := os.WriteFile(filepath.Join(outside, "a.jsonl"), []byte(`{"note":"old"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{
		"folder": outside, "near/a.jsonl": "../x/x.jsonl", "far/a.jsonl": filepath.Join(outside, "a.jsonl"),
		"new/a.jsonl": filepath.Join(outside, "new"), "inside": "x",
	} {
		workflow, _, _ := strings.Cut(name, "/")
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.Symlink(to, name)); err != nil {
			t.Fatal(err)
		}
		if err := add(workflow, "a"); err == nil {
			t.Errorf("a note was written through the link %s", name)
		}
		if result, err := tools[0].Call(t.Context(), tool.Call{
			For: tool.Purpose{Workflow: workflow, Agent: "a"},
		}); err == nil {
			t.Errorf("%s was read through the link %s", result.Output, name)
		}
	}
	if _, err := notebook.Forget(dir, "folder", "a"); err == nil {
		t.Error("a notebook was removed through a link")
	}
	left, err := os.ReadFile(filepath.Join(outside, "a.jsonl"))
	if err != nil || string(left) != `{"note":"old"}`+"\n" {
		t.Errorf("%q, %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(outside, "new")); err == nil {
		t.Error("a file was created through a link")
	}
}
