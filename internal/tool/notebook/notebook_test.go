package notebook_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/tool"
	"github.com/espalier-run/espalier/internal/tool/notebook"
)

func TestNotebook(t *testing.T) {
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
	name := filepath.Join(dir, "..%2Fflow", "a.jsonl")
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
		failed.Class != tool.ClassInput {
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
