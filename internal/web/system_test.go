package web_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/identity"
)

// mcpVariable makes this program an MCP server.
const mcpVariable = "WEB_TEST_MCP"

// TestServeToolsInAnotherProcess is not a test: TestSystemShowsToolsAndServers starts this program again as a server.
func TestServeToolsInAnotherProcess(t *testing.T) {
	if os.Getenv(mcpVariable) == "" {
		return
	}
	if os.Getenv(mcpVariable) == asksVariable {
		askQuestions(os.Stdin, os.Stdout)
		os.Exit(0)
	}
	s := sdk.NewServer(&sdk.Implementation{Name: "garden", Version: "1"}, nil)
	s.AddTool(&sdk.Tool{
		Name: "prune", Description: "Cuts <b>branches</b>", InputSchema: json.RawMessage(`{"type":"object"}`),
	}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{}, nil
	})
	if err := s.Run(context.Background(), &sdk.StdioTransport{}); err != nil {
		os.Exit(1)
	}
	os.Exit(0) // without the summary of the tests, which is no message of the protocol
}

// asksVariable is the value of mcpVariable that makes this program a server that asks people.
const asksVariable = "asks"

// askQuestions is an MCP server with one tool, which asks a question while it is called. The SDK serves such tools in
// older versions of the protocol only.
func askQuestions(in io.Reader, out io.Writer) {
	type object = map[string]any
	lines := bufio.NewScanner(in)
	write := json.NewEncoder(out)
	send := func(message object) {
		message["jsonrpc"] = "2.0"
		_ = write.Encode(message) // the client may be gone
	}
	for lines.Scan() {
		var m struct {
			ID     any
			Method string
			Params struct{ ProtocolVersion string }
			Result struct {
				Action  string
				Content json.RawMessage
			}
		}
		if json.Unmarshal(lines.Bytes(), &m) != nil {
			continue
		}
		switch m.Method {
		case "initialize":
			send(object{"id": m.ID, "result": object{
				"protocolVersion": m.Params.ProtocolVersion, "capabilities": object{"tools": object{}},
				"serverInfo": object{"name": "garden", "version": "1"},
			}})
		case "tools/list":
			send(object{"id": m.ID, "result": object{"tools": []object{
				{"name": "ask", "inputSchema": object{"type": "object"}},
			}}})
		case "tools/call":
			call := m.ID
			send(object{"id": "question", "method": "elicitation/create", "params": object{
				"message": "How many trees?", "requestedSchema": json.RawMessage(`{"type":"object","required":["trees"],` +
					`"properties":{"trees":{"type":"integer"},"kind":{"type":"string","enum":["apple","pear"]}}}`),
			}})
			for m.Method, m.ID = "", nil; m.ID != "question" && lines.Scan(); {
				_ = json.Unmarshal(lines.Bytes(), &m) // another message is skipped
			}
			text := m.Result.Action + " " + string(m.Result.Content)
			send(object{"id": call, "result": object{"content": []object{{"type": "text", "text": text}}}})
		default:
			if m.ID != nil {
				send(object{"id": m.ID, "error": object{"code": -32601, "message": "no such method"}})
			}
		}
	}
}

// gardenSite serves a project with an approved MCP server, which is this program.
func gardenSite(t *testing.T, files map[string]string) *site {
	t.Helper()
	program, err := json.Marshal(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	s := &site{
		t: t, dir: filepath.Join(t.TempDir(), "orchard-desk"), home: t.TempDir(), addr: "127.0.0.1:0",
		env: map[string]string{"XDG_STATE_HOME": t.TempDir()},
	}
	s.write(files)
	s.write(map[string]string{"espalier.yaml": fmt.Sprintf(
		"mcp:\n  garden: {command: [%s, \"-test.run=^TestServeToolsInAnotherProcess$\"], env: {%s: %s}}\n",
		program, mcpVariable, asksVariable)})
	a := app.New(app.Options{
		Dir: s.dir, Home: s.home, Relaxed: true, Getenv: func(name string) string { return s.env[name] },
	})
	review, err := a.Review(context.Background(), s.dir, catalog.ReadOptions{})
	if err == nil {
		err = a.Approve(review)
	}
	if err = errors.Join(err, a.Close()); err != nil {
		t.Fatal(err)
	}
	s.start() // a server that runs keeps the approvals that it started with
	t.Cleanup(s.stop)
	return s
}

// The page of the system shows the tools and MCP servers of the configuration without starting anything, and on request
// the tools of the servers that a person has approved. A viewer cannot request them.
func TestSystemShowsToolsAndServers(t *testing.T) {
	program, err := json.Marshal(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	s := &site{
		t: t, dir: filepath.Join(t.TempDir(), "orchard-desk"), home: t.TempDir(), addr: "127.0.0.1:0",
		env: map[string]string{"XDG_STATE_HOME": t.TempDir()},
	}
	s.write(map[string]string{
		"gated.md": gated,
		"espalier.yaml": fmt.Sprintf(`tools:
  Bash: {requires_approval: true}
  crm.read: {use: garden.prune}
  crm.write: {url: "https://crm.example/notes", enabled: false}
mcp:
  garden: {command: [%s, "-test.run=^TestServeToolsInAnotherProcess$"], env: {%s: "1"}}
`, program, mcpVariable),
		".mcp.json": `{"mcpServers": {"shed": {"command": "espalier-no-such-program"}}}`,
	})
	s.start()
	t.Cleanup(s.stop)
	b := s.open()
	b.visit("/system")
	for _, want := range []string{
		"Bash", "needs approval", "garden.prune", "POST https://crm.example/notes", "disabled",
	} {
		b.waitText("#tools", want)
	}
	b.waitText("#servers li", "garden")
	b.waitText("#servers li", "not approved")
	b.waitText("#servers li", ".mcp.json")
	b.click("#servers button")
	b.waitText("#servers li", "is not approved on this machine")
	review, err := s.app.Review(context.Background(), s.dir, catalog.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.app.Approve(review); err != nil {
		t.Fatal(err)
	}
	b.visit("/system")
	b.wait(`!document.querySelector("#servers").textContent.includes("not approved")`)
	b.click("#servers button")
	b.waitText("#servers li:has([data-state=ok])", "prune")
	b.waitText("#servers li:has([data-state=ok])", "Cuts <b>branches</b>")
	b.waitText("#servers li:has([data-state=failed])", "cannot be started")
	viewer := s.openAs("vera", identity.Viewer)
	viewer.visit("/system")
	viewer.waitText("#servers", "garden")
	if n := eval[int](viewer, `document.querySelectorAll("#servers form").length`); n != 0 {
		t.Errorf("a viewer sees %d forms", n)
	}
}
