package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/source"
)

func parseMCP(text string) (config.MCPFile, []string) {
	f := source.NewFile(config.MCPFileName, text)
	got := config.ParseMCP(f)
	var out []string
	for _, d := range got.Problems {
		at := f.Position(d.Span.Start)
		out = append(out, fmt.Sprintf("%d:%d %s %s %s", at.Line, at.Column, d.Code, d.Severity, d.Message))
	}
	return got, out
}

func TestMCPFilesAreRead(t *testing.T) {
	got, problems := parseMCP(`{"mcpServers":{
		"web":{"type":"http","url":"https://a.example/mcp","headers":{"Authorization":"Bearer ${TOKEN}"}},
		"fs":{"command":"npx","args":["-y","server","${HOME:-/tmp}"],"env":{"B":"2","A":"1"}}}}`)
	if problems != nil || len(got.Servers) != 2 {
		t.Fatalf("%v, %v", got, problems)
	}
	web, fs := got.Servers[0], got.Servers[1]
	if fs.Name.Value != "fs" || len(fs.Is.Command) != 4 || fs.Is.Command[3].Value != "${HOME:-/tmp}" ||
		fs.Is.Env[1].Name != "A" {
		t.Errorf("%+v", fs)
	}
	if web.Is.URL.Value != "https://a.example/mcp" || web.Is.Headers[0].Value.Value != "Bearer ${TOKEN}" {
		t.Errorf("%+v", web)
	}
}

// ParseMCP reports all mistakes with their positions. A server with a mistake is unusable; the others remain usable.
func TestParseMCPReportsAllMistakes(t *testing.T) {
	got, problems := parseMCP(`{
  "mcpServers": {
    "none": {"args": ["x"]},
    "old": {"type": "sse", "url": "https://a.example/sse"},
    "a.b": {"command": "x"},
    "two": {"command": "x", "url": "https://a.example"},
    "open": {"command": "x", "env": {"A": "${B", "C": {}}, "headers": []},
    "odd": {"type": "carrier-pigeon", "command": ["x"]},
    "text": "npx",
    "fine": {"command": "x", "cwd": "/tmp"},
  }
}`)
	want := []string{
		`3:6 CFG002 error The MCP server "none" has neither a command nor a URL.`,
		`4:22 CFG008 warning The MCP server "old" uses the SSE transport, which is deprecated and not supported.`,
		`5:6 CFG004 warning Invalid server name "a.b": tools are written server.tool.`,
		`6:30 CFG007 error "command" and "url" of the MCP server exclude each other.`,
		`7:44 CFG004 error "${B" has a ${ that is not closed.`,
		`7:55 CFG001 error "C" of the env must be a string, but this is a map.`,
		`7:71 CFG001 error "headers" of the MCP server must be a map, but this is a list.`,
		`8:22 CFG004 error "type" of the MCP server cannot be "carrier-pigeon".`,
		`8:50 CFG001 error "command" of the MCP server must be a string, but this is a list.`,
		`9:14 CFG001 error The MCP server must be a map, but this is a string.`,
		`10:31 CFG003 note Unknown key "cwd" in the MCP server.`,
		`10:44 JSON002 error There is a comma with nothing after it.`,
	}
	if diff := cmp.Diff(want, problems); diff != "" {
		t.Error(diff)
	}
	for _, s := range got.Servers {
		if usable := len(s.Is.Wrong) == 0; usable != (s.Name.Value == "fine") {
			t.Errorf("%s: %v", s.Name.Value, s.Is.Wrong)
		}
	}
	for text, want := range map[string]string{
		`{`:              "1:1 CFG002",
		`[]`:             "1:1 CFG001 error The file must be a map",
		`{"servers":{}}`: `1:3 CFG002 error The file has no "mcpServers".`,
	} {
		if _, problems := parseMCP(text); len(problems) == 0 || !strings.HasPrefix(problems[0], want) {
			t.Errorf("%s: %q", text, problems)
		}
	}
}

func TestVariablesAreFoundAndUnclosedOnesReported(t *testing.T) {
	c, problems := parse(`
tools: {look: {url: "https://a.example", headers: {Authorization: "Token ${A}"}}}
mcp:
  one: {command: [x, "${B:-b}"], env: {C: "${C}${A}"}}
  two: {url: "https://b.example?key=${D}", headers: {X: plain}}
`)
	c.MCPFile, _ = parseMCP(`{"mcpServers":{"three":{"command":"${E}"}}}`)
	if got := strings.Join(c.Variables(), " "); got != "A B C D E" || problems != nil {
		t.Errorf("%s %v", got, problems)
	}
	_, problems = parse("tools: {look: {url: 'https://a.example', headers: {A: '${A'}}}\nmcp: {one: {command: " +
		"['${B']}}")
	if len(problems) != 2 || !strings.HasPrefix(problems[0], `1:56 CFG004 "${A" has a ${`) ||
		!strings.HasPrefix(problems[1], "2:24 CFG004") {
		t.Errorf("%q", problems)
	}
}

// The suggested bindings for unbound tools are valid configuration.
func TestPasteIsValidConfiguration(t *testing.T) {
	unbound := []config.Unbound{
		{Tool: "crm.read", Steps: []string{"fetch", "child.fetch"}},
		{Tool: "crm.write", Steps: []string{"store"}},
	}
	for _, before := range []string{"", "allow: {shell: true}\n", "tools:\n  look: {use: Read}\n"} {
		c, _ := parse(before)
		_, paste, _ := strings.Cut(c.Paste(unbound, "use --simulate"), "\n\n")
		after, problems := parse(before + paste)
		if problems != nil || after.Tool("crm.read") == nil || after.Tool("crm.write").Use.Value != "SERVER.TOOL" ||
			!strings.Contains(paste, "# for fetch, child.fetch\n") {
			t.Errorf("%s: %v\n%s", before, problems, paste)
		}
	}
}

func TestExpandUsesValuesThenDefaults(t *testing.T) {
	env := map[string]string{"A": "1", "EMPTY": ""}
	for text, want := range map[string]string{
		"plain": "plain", "${A}": "1", "a${A}b${A}": "a1b1", "${B:-two}": "two", "${B:-}": "", "${EMPTY:-x}": "x",
		"$A": "$A", "${B:-${A}": "${A",
	} {
		if got, err := config.Expand(text, func(name string) string { return env[name] }); err != nil || got != want {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{"${B}": "B is not set", "${A": "not closed"} {
		if _, err := config.Expand(text, func(name string) string { return env[name] }); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
