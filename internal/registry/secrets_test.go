package registry

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/tool"
	"github.com/espalier-run/espalier/internal/tool/notebook"
)

// What agents note for later runs lies on the disk, too.
func TestNotebooksAreStoredWithoutSecrets(t *testing.T) {
	root := t.TempDir()
	c, _ := config.Parse(source.NewFile(config.FileName, "secrets: {vault: {env: VAULT}}"))
	getenv := func(name string) string { return map[string]string{"VAULT": "hush-hush-hush"}[name] }
	tools := NewTools(root, c, getenv, Secrets(root, c, getenv))
	defer tools.Close()
	call := func(name, input string) string {
		result, err := tools.plain[name].Call(t.Context(), tool.Call{
			Key: "k", Input: json.RawMessage(input),
			For: tool.Purpose{Workflow: "w", Agent: "a"},
		})
		if err != nil {
			t.Fatal(err)
		}
		return string(result.Output)
	}
	call(notebook.Add, `{"note":"it is hush-hush-hush"}`)
	if got, want := call(notebook.Read, `{}`), `["it is hush-hush-hush"]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	raw, err := os.ReadFile(filepath.Join(memoryDir(root), "w", "a.jsonl"))
	if err != nil || !strings.Contains(string(raw), "it is [secret vault]") ||
		strings.Contains(string(raw), "hush-hush") {
		t.Errorf("it holds %s (%v)", raw, err)
	}
}

// The keys of models are secrets without being declared as such; one that is
// declared goes by its name there.
func TestKeysAreSecrets(t *testing.T) {
	c, _ := config.Parse(source.NewFile(config.FileName, `
secrets: {openai: {env: OPENAI_API_KEY}}
models: {providers: {mine: {api: openai, base_url: "http://localhost:1/v1", key_env: MY_KEY}}}
`))
	s := Secrets(t.TempDir(), c, func(name string) string { return "value of " + name })
	for env, want := range map[string]string{
		"ANTHROPIC_API_KEY": "[secret ANTHROPIC_API_KEY]", "OPENAI_API_KEY": "[secret openai]",
		"MY_KEY": "[secret MY_KEY]", "PATH": "value of PATH",
	} {
		if got := s.HideText("value of " + env); got != want {
			t.Errorf("%s: got %q, want %q", env, got, want)
		}
	}
}

// So are the variables that servers and tools are given; paths, and what every
// program sees, are none.
func TestVariablesOfServersAreSecrets(t *testing.T) {
	root := t.TempDir()
	c, problems := config.Parse(source.NewFile(config.FileName, `
secrets: {crm: {env: CRM_TOKEN}, taken: {file: x}}
mcp: {crm: {command: [crm, "${FOLDER}", "--as=${HOME}"], env: {A: "${CRM_TOKEN}", B: "${taken}"}}}
tools: {look: {url: "https://a.example", headers: {Authorization: "Bearer ${LOOK_TOKEN}"}}}
`))
	if problems.Errors() {
		t.Fatal(problems)
	}
	c.MCPFile = config.ParseMCP(source.NewFile(config.MCPFileName,
		`{"mcpServers":{"web":{"url":"https://b.example/?key=${WEB_KEY}","headers":{"X":"${MAYBE:-a default value}"}}}}`))
	env := map[string]string{"FOLDER": root, "HOME": "/home/somebody"}
	for _, name := range []string{"CRM_TOKEN", "LOOK_TOKEN", "WEB_KEY", "UNUSED", "taken"} {
		env[name] = "value of " + name
	}
	s := Secrets(root, c, func(name string) string { return env[name] })
	for text, want := range map[string]string{
		"value of CRM_TOKEN": "[secret crm]", "value of LOOK_TOKEN": "[secret LOOK_TOKEN]",
		"value of WEB_KEY": "[secret WEB_KEY]", "value of taken": "[secret variable.taken]",
		"value of UNUSED": "value of UNUSED", "a default value": "a default value", root: root,
		"/home/somebody": "/home/somebody",
	} {
		if got := s.HideText(text); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
	if got, err := s.RevealText(t.Context(), "[secret WEB_KEY]"); got != "value of WEB_KEY" || err != nil {
		t.Errorf("%q %v", got, err)
	}
}

// Common texts, such as names of regions, are not masked although servers receive them.
func TestCommonTextsAreNotSecrets(t *testing.T) {
	there := t.TempDir()
	for value, want := range map[string]bool{
		"production": true, "DEBUG": true, "Europe": true, "https://api.example": true, "http://localhost:8080/": true,
		there:            true,
		"hunter2hunter2": false, "sk-ant-abcdefgh": false, "dQwRtYuIoP": false, "two words": false, "eu-west-1": false,
		"https://hooks.example/T0/B0/x": false, "https://me:pass@api.example": false,
		"https://api.example/?key=x": false, there + "/not-there": false,
		"abcdefghijklmnop": false, "ABCDEFGHIJKLMNOP": false, "//x9f3+kQ": false, // the last is base64, and no server
	} {
		if got := isOrdinary(value); got != want {
			t.Errorf("%s: %t", value, got)
		}
	}
}

// What a tool or its server is sent and is not available is found before a run,
// all of it at once, and without starting a server for it.
func TestToolsLackSecrets(t *testing.T) {
	tools := projectTools(t, `
secrets: {a: {env: NOT_A}, b: {file: not-b}, c: {command: [no-such-command-anywhere]}, there: {env: CRM_TOKEN}}
tools:
  search: {url: "https://a.example/", bearer: secret://a, headers: {X-B: secret://b, X-V: "${NOT_V}", X-There: secret://there}}
  look: {use: crm.look}
  idle: {url: "https://a.example/", bearer: secret://a}
mcp: {crm: {command: [sh, -c, "echo started > started"], env: {TOKEN: secret://c, OTHER: "${NOT_W:-w}"}}}
`, "")
	program := &ir.Program{
		Tools:  ir.Tools{AllowAll: true},
		Agents: []ir.Agent{{ID: "a", Tools: []ir.Name{{Name: "crm.*"}}}}, Blocks: []ir.Block{{}},
	}
	add := func(id, kind, key, value string) {
		task := ir.Task{Kind: kind}
		task.Settings.Put(key, value, source.Span{})
		program.Blocks[0].Steps = append(program.Blocks[0].Steps, ir.Step{ID: id, Action: task})
	}
	add("one", "tool", "tool", "search")
	add("two", "tool", "tool", "look")
	add("three", "agent", "agent", "a")
	var got []string
	for _, l := range tools.Missing(program, RunOptions{}, nil) {
		if l.Help == "" {
			t.Errorf("no help for %s", l.Message)
		}
		got = append(got, fmt.Sprint(l.Steps, " ", l.Message))
	}
	want := []string{
		`[one] X-B of the tool "search" is not available: the file not-b cannot be read`,
		`[one] X-V of the tool "search" is not available: the environment variable NOT_V is not set`,
		`[one] Authorization of the tool "search" is not available: the environment variable NOT_A is empty`,
		`[two three] TOKEN of the MCP server "crm" comes from the command "no-such-command-anywhere", which is not installed`,
	}
	if len(got) != len(want) {
		t.Fatalf("%q", got)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("%q, not %q", got[i], want[i])
		}
	}
	if _, err := os.Stat(filepath.Join(tools.root, "started")); err == nil {
		t.Error("the server was started")
	}
}
