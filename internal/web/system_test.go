package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/identity"
)

// mcpVariable makes this program an MCP server.
const mcpVariable = "WEB_TEST_MCP"

// TestServeToolsInAnotherProcess is not a test: TestSystemShowsToolsAndServers starts this program again as a server.
func TestServeToolsInAnotherProcess(t *testing.T) {
	if os.Getenv(mcpVariable) == "" {
		return
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
	for _, want := range []string{"Bash", "needs approval", "garden.prune", "POST https://crm.example/notes", "disabled"} {
		b.waitText("#tools", want)
	}
	b.waitText("#servers li", "garden")
	b.waitText("#servers li", "not approved")
	b.waitText("#servers li", ".mcp.json")
	b.click("#servers button")
	b.waitText("#servers li", "is not approved on this machine")
	review, err := s.app.Review(s.dir, app.Reading{})
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
