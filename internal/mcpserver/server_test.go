package mcpserver_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/journal"
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

// The schema of a workflow's input is what its author wrote: one that no arguments can have does not end the server.
func TestWorkflowsWithAnyInputAreServed(t *testing.T) {
	dir := t.TempDir()
	for name, schema := range map[string]string{
		"object": "{type: object}", "untyped": "{oneOf: [{type: object}]}", "nullable": `{type: [object, "null"]}`,
		"string": "{type: string}", "list": `{type: [array, "null"]}`,
	} {
		text := strings.Replace(workflow, "name: listed\n",
			"name: "+name+"\ntriggers: {api: true}\ninput: {schema: "+schema+"}\n", 1)
		if err := os.WriteFile(filepath.Join(dir, name+".md"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a := app.New(app.Options{Dir: dir, Home: t.TempDir()})
	defer a.Close()
	client := connect(t, a)
	listed, err := client.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, one := range listed.Tools {
		if name, ok := strings.CutPrefix(one.Name, "run_"); ok && name != "status" && name != "output" {
			got = append(got, name)
		}
	}
	slices.Sort(got)
	if want := []string{"nullable", "object", "untyped"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// connect returns a client of a server for an app.
func connect(t *testing.T, a *app.App) *mcp.ClientSession {
	t.Helper()
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
	t.Cleanup(func() { client.Close() })
	return client
}

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
	client := connect(t, a)
	relative, err := filepath.Rel(dir, filepath.Join(outside, "outside.md"))
	if err != nil {
		t.Fatal(err)
	}
	for name, found := range map[string]bool{
		"listed": true, "listed.md": true,
		filepath.Join(outside, "outside.md"): false, relative: false,
		".espalier/server-token": false, "/etc/passwd": false,
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

// Every workflow that agents may start has a tool of its own, with the schema of its output, whatever its name.
func TestToolsHaveNamesAndOutputSchemasOfTheirOwn(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("long-", 20)
	for file, name := range map[string]string{
		"a.md": "a b", "b.md": "a/b", "c.md": "status", "d.md": long + "1", "e.md": long + "2",
	} {
		text := strings.Replace(workflow, "name: listed\n", "name: "+name+"\ntriggers: {api: true}\n"+
			"output: {schema: {type: object, required: [answer], properties: {answer: {type: string}}}}\n", 1)
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a := app.New(app.Options{Dir: dir, Home: t.TempDir()})
	defer a.Close()
	listed, err := connect(t, a).ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, one := range listed.Tools {
		if one.Title == "" { // a tool of the server itself
			continue
		}
		got = append(got, one.Name)
		schema, err := json.Marshal(one.OutputSchema)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(schema), `"output":{"properties":{"answer":{"type":"string"}}`) {
			t.Errorf("%s returns %s", one.Name, schema)
		}
	}
	slices.Sort(got)
	long = "run_" + long[:60]
	want := []string{"run_a_b", "run_a_b_2", long[:62] + "_2", long, "run_status_2"}
	if !slices.Equal(got, want) {
		t.Errorf("the tools are %q, want %q", got, want)
	}
}

// start_run returns before the run ends, and starts only what agents may start.
func TestStartReturnsTheRunAtOnce(t *testing.T) {
	dir := t.TempDir()
	for name, more := range map[string]string{"open": "triggers: {api: true}\n", "closed": ""} {
		text := strings.Replace(workflow, "name: listed\n", "name: "+name+"\n"+more, 1)
		if err := os.WriteFile(filepath.Join(dir, name+".md"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config := []byte("triggers: {open: {simulate: true}}\n")
	if err := os.WriteFile(filepath.Join(dir, "espalier.yaml"), config, 0o600); err != nil {
		t.Fatal(err)
	}
	a := app.New(app.Options{Dir: dir, Home: t.TempDir()})
	defer a.Close()
	client := connect(t, a)
	start := func(name string) *mcp.CallToolResult {
		t.Helper()
		got, err := client.CallTool(t.Context(), &mcp.CallToolParams{
			Name: "start_run", Arguments: map[string]any{"workflow": name, "input": map[string]any{}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := start("closed"); !got.IsError {
		t.Errorf("%+v", got.StructuredContent)
	}
	got := start("open")
	state, _ := got.StructuredContent.(map[string]any)
	id, _ := state["run_id"].(string)
	if got.IsError || id == "" || state["state"] == nil {
		t.Fatalf("%+v", got.Content[0])
	}
	if _, err := a.Wait(t.Context(), journal.RunID(id)); err != nil {
		t.Fatal(err)
	}
	call := func(tool string, arguments map[string]any) (map[string]any, bool) {
		t.Helper()
		got, err := client.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
		if err != nil {
			t.Fatal(err)
		}
		content, _ := got.StructuredContent.(map[string]any)
		return content, !got.IsError
	}
	end, ok := call("run_output", map[string]any{"run": id})
	output, _ := end["output"].(map[string]any)
	if !ok || end["outcome"] != "ok" || end["run_id"] != id || output["answer"] == nil {
		t.Errorf("the output of the run: %v", end)
	}
	if _, ok := call("run_output", map[string]any{"run": "00000000-0000-4000-8000-000000000000"}); ok {
		t.Error("a run that does not exist has an output")
	}
	list, ok := call("list_workflows", nil)
	if workflows, _ := list["workflows"].([]any); !ok || len(workflows) != 2 {
		t.Errorf("the workflows: %v", list)
	}
}

// An agent that has been told a code can look it up.
func TestCodesOfDiagnosticsAreExplained(t *testing.T) {
	a := app.New(app.Options{Dir: t.TempDir(), Home: t.TempDir()})
	defer a.Close()
	client := connect(t, a)
	for code, found := range map[string]bool{"AF001": true, "XX999": false, "": false} {
		got, err := client.CallTool(t.Context(), &mcp.CallToolParams{
			Name: "explain_code", Arguments: map[string]any{"code": code},
		})
		if err != nil {
			t.Fatal(err)
		}
		page, err := json.Marshal(got.StructuredContent)
		if err != nil {
			t.Fatal(err)
		}
		if got.IsError == found || found && (!strings.Contains(string(page), code) || len(page) < 200) {
			t.Errorf("%q: %s %+v", code, page, got.Content)
		}
	}
}

// Standard output can be a terminal: what a workflow contains does not control it.
func TestMessagesOnStandardOutputControlNoTerminal(t *testing.T) {
	dir := t.TempDir()
	text := strings.Replace(workflow, "A test.", "\"A \u009b31m\u202e test.\"\ntriggers: {api: true}", 1)
	if err := os.WriteFile(filepath.Join(dir, "listed.md"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	a := app.New(app.Options{Dir: dir, Home: t.TempDir()})
	defer a.Close()
	in, requests := io.Pipe()
	replies, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- mcpserver.ServeStdio(t.Context(), mcpserver.Options{App: a}, in, out)
		out.Close()
	}()
	lines := bufio.NewReader(replies)
	call := func(id int, method, params string) string {
		t.Helper()
		fmt.Fprintf(requests, `{"jsonrpc":"2.0","id":%d,"method":"%s","params":%s}`+"\n", id, method, params)
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return line
	}
	call(1, "initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`)
	fmt.Fprintln(requests, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	line := call(2, "tools/list", "{}")
	if strings.ContainsAny(line, "\u009b\u202e") || !strings.Contains(line, `A \u009b31m\u202e test.`) {
		t.Errorf("%q", line)
	}
	requests.Close()
	<-ended
}
