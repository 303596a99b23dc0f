package registry

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/provider"
)

// MCP servers and coding agents have the limits of the configuration, as commands have. Each writes its limit on
// memory to a file, after it has received something: its limits are set by then.
func TestServersAndAgentsHaveLimits(t *testing.T) {
	const writes = `read -r _; ulimit -d > "$0"`
	dir := t.TempDir()
	settings := `
commands: {memory_mib: 300}
mcp:
  mine: {command: [sh, -c, '` + writes + `', ` + filepath.Join(dir, "server") + `]}
models:
  clis:
    agent: {speaks: text, command: [sh, -c, '` + writes + `', ` + filepath.Join(dir, "agent") + `]}
`
	tools := projectTools(t, settings, "")
	use(t, toolbox{Tools: tools}, "mine.x", "{}") // it is not a server
	m := models(t, settings, map[string]string{"PATH": os.Getenv("PATH")})
	agent, err := m.agent(m.cli("agent"))
	if err != nil {
		t.Fatal(err)
	}
	said := []provider.Block{{Text: "hi"}}
	for range agent.Generate(t.Context(), provider.Request{Messages: []provider.Message{{
		Role:   provider.User,
		Blocks: said,
	}}}) {
	}
	for _, who := range []string{"server", "agent"} {
		raw, err := os.ReadFile(filepath.Join(dir, who))
		if got := strings.TrimSpace(string(raw)); err != nil || got != "307200" {
			t.Errorf("the %s has %q, %v", who, got, err)
		}
	}
}
