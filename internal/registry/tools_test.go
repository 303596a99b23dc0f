package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/npmtest"
	"github.com/espalier-run/espalier/internal/process"
	"github.com/espalier-run/espalier/internal/provider/scripted"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/tool"
)

func TestMain(m *testing.M) {
	process.Confine(os.Args)
	os.Exit(m.Run())
}

// project is a project's tools, as its files say.
func projectTools(t *testing.T, settings, servers string) *Tools {
	t.Helper()
	root := t.TempDir()
	files := map[string]string{config.FileName: settings, config.MCPFileName: servers}
	c, problems, err := config.Find(func(name string) (*source.File, error) {
		if files[name] == "" {
			return nil, fs.ErrNotExist
		}
		return source.NewFile(name, files[name]), nil
	})
	if err != nil || problems.Errors() {
		t.Fatal(problems, err)
	}
	env := map[string]string{"CRM_TOKEN": "hush", "SERVER": os.Getenv("TEST_SERVER")}
	getenv := func(name string) string { return env[name] }
	tools := NewTools(root, c, getenv, Secrets(root, c, getenv))
	t.Cleanup(tools.Close)
	return tools
}

func use(t *testing.T, box toolbox, name, input string) (said string, class ir.Class) {
	t.Helper()
	found := box.Tool(name)
	if found == nil {
		return "", "none"
	}
	result, err := found.Call(t.Context(), tool.Call{Key: "k", Input: json.RawMessage(input), Dir: t.TempDir()})
	var failed *tool.Error
	if errors.As(err, &failed) {
		return failed.Message, failed.Class
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(result.Output) + string(result.Offline), ""
}

func TestToolsOfTheConfiguration(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header.Get("Authorization"))
	}))
	defer web.Close()
	tools := projectTools(t, `
tools:
  crm.read: {url: "`+web.URL+`/records", method: GET, bearer: "secret://crm", requires_approval: true, timeout: 5s}
  look: {use: Read}
  Bash: {enabled: false}
secrets:
  crm: {env: CRM_TOKEN}
`, "")
	program := &ir.Program{ToolDefs: []ir.ToolDef{
		{
			Name: "theirs", URL: web.URL, Method: "GET",
			Headers: []ir.HeaderDef{{Name: "Authorization", Value: "secret://crm"}},
		},
		{Name: "crm.read", URL: "https://evil.example"},
	}}
	box := toolbox{Tools: tools, program: program}
	if got, class := use(t, box, "crm.read", `{}`); got != `"Bearer hush"` || class != "" {
		t.Errorf("what the configuration names is reached: %s %s", class, got)
	}
	if spec := box.Tool("crm.read").Spec(); !spec.RequiresApproval || spec.Timeout.Seconds() != 5 ||
		!strings.HasPrefix(spec.Target, "GET "+web.URL) {
		t.Errorf("%+v", spec)
	}
	if got, class := use(t, box, "theirs", `{}`); class != ir.ClassDenied {
		t.Errorf("what a file names is not, on this machine: %s %s", class, got)
	}
	if got, class := use(t, box, "look", `{"path":"none"}`); class != ir.ClassTool ||
		box.Tool("look").Spec().Name != "look" {
		t.Errorf("another name: %s %s", class, got)
	}
	if box.Tool("Bash") != nil || box.Tool("unknown") != nil {
		t.Error("a disabled or unknown tool is available")
	}
	if got := box.Names("crm.*"); !slices.Equal(got, []string{"crm.read"}) {
		t.Errorf("%v", got)
	}
	box.simulate = true
	if got, class := use(t, box, "crm.read", `{"a":1}`); class != "" || !strings.HasSuffix(got, "simulated") ||
		strings.Contains(got, "hush") {
		t.Errorf("simulated: %s %s", class, got)
	}
	if !box.Tool("crm.read").Spec().RequiresApproval {
		t.Error("a rehearsal asks no person")
	}
}

// Another name for a tool requires the approval of the tool, unless the configuration says otherwise: in real,
// simulated and scripted runs, and in what is said before a run.
func TestOtherNamesRequireTheApprovalOfTheirTool(t *testing.T) {
	tools := projectTools(t, `
tools:
  deploy: {use: Bash}
  Bash: {requires_approval: true, approval_timeout: 1h}
  quick: {use: Bash, requires_approval: false}
  slow: {use: Bash, requires_approval: true, approval_timeout: 2h}
  look: {use: Read}
`, "")
	program := &ir.Program{ToolDefs: []ir.ToolDef{
		{Name: "theirs", Use: "Bash"}, {Name: "ours", Use: "deploy"}, {Name: "fast", Use: "quick"},
	}}
	for name, want := range map[string]time.Duration{
		"Bash": time.Hour, "deploy": time.Hour, "slow": 2 * time.Hour, "theirs": time.Hour, "ours": time.Hour,
		"quick": 0, "look": 0, "fast": 0,
	} {
		box := toolbox{Tools: tools, program: program}
		rehearsal := box
		rehearsal.simulate = true
		said, required := Approval(program, tools.config, name)
		for how, spec := range map[string]tool.Spec{
			"real": box.Tool(name).Spec(), "simulated": rehearsal.Tool(name).Spec(),
			"scripted": box.policy(name, tool.Spec{Name: name}),
			"before":   {RequiresApproval: required, ApprovalTimeout: said},
		} {
			if spec.RequiresApproval != (want > 0) || spec.RequiresApproval && spec.ApprovalTimeout != want {
				t.Errorf("%s, %s: %t, %v", name, how, spec.RequiresApproval, spec.ApprovalTimeout)
			}
		}
	}
}

// Folders of the configuration are seen from the project, wherever one stands.
func TestAllowedPathsAreTheProjects(t *testing.T) {
	tools := projectTools(t, "allow: {paths: [../shared]}\n", "")
	shared := filepath.Join(filepath.Dir(tools.root), "shared")
	if err := os.Mkdir(shared, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(shared, "note.txt")
	if err := os.WriteFile(path, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, class := use(t, toolbox{Tools: tools}, "Read", fmt.Sprintf(`{"path":%q}`, path)); class != "" ||
		!strings.Contains(got, "hello") {
		t.Errorf("%s %s", class, got)
	}
}

// The message states why a tool cannot be called.
func TestUnavailableToolsHaveAReason(t *testing.T) {
	tools := projectTools(t, `
tools:
  Write: {enabled: false}
  crm.read: {use: Raed}
  crm.list: {enabled: false, use: Glob}
  shell: {use: Bash}
`, "")
	tools.boxed = func() (map[string]tool.Tool, error) { return nil, process.ErrNoSandbox }
	for name, want := range map[string]string{
		"Write":     `the tool "Write" is disabled | Remove "enabled: false" from its entry in espalier.yaml, or the tool from the workflow.`,
		"crm.list":  `the tool "crm.list" is disabled`,
		"crm.read":  `the tool "crm.read" is bound to the unknown tool "Raed" | Did you mean "Read"?`,
		"Bash":      process.ErrNoSandbox.Error(),
		"shell":     process.ErrNoSandbox.Error(),
		"crm.write": `nothing is bound to the tool "crm.write"`,
	} {
		var settings ir.Settings
		settings.Put("tool", name, source.Span{})
		program := &ir.Program{
			Tools:  ir.Tools{AllowAll: true},
			Blocks: []ir.Block{{Steps: []ir.Step{{ID: "s", Action: ir.Task{Kind: "tool", Settings: settings}}}}},
		}
		lacks := tools.Missing(program, RunOptions{Sandbox: true}, nil)
		if len(lacks) != 1 || !strings.Contains(lacks[0].Message+" | "+lacks[0].Help, want) {
			t.Errorf("%s: %+v", name, lacks)
		}
	}
}

// A tool that a workflow declares as one of an MCP server says which part of that is missing: the server, the consent
// or the tool.
func TestToolsOfServersHaveAReason(t *testing.T) {
	tools := projectTools(t, "mcp:\n  files: {command: [files]}\n  held: {command: [held]}\n", "")
	for i := range tools.config.MCP {
		if one := &tools.config.MCP[i]; one.Name.Value == "held" {
			one.Is.Unapproved = true
		}
	}
	tools.serverOf("files.find") // reads the configuration
	tools.servers.found["files"] = []tool.Tool{}
	for target, want := range map[string]string{
		"flies.find": `the tool "look" is of the MCP server "flies", which is not configured | Did you mean "files"?`,
		"held.find":  `the MCP server "held" is not approved on this machine | Review the file`,
		"files.fnd":  `the MCP server "files" has no tool "files.fnd"`,
		"Raed":       `the tool "look" is bound to the unknown tool "Raed" | Did you mean "Read"?`,
	} {
		var settings ir.Settings
		settings.Put("tool", "look", source.Span{})
		program := &ir.Program{
			Tools:    ir.Tools{AllowAll: true},
			ToolDefs: []ir.ToolDef{{Name: "look", Use: target}},
			Blocks:   []ir.Block{{Steps: []ir.Step{{ID: "s", Action: ir.Task{Kind: "tool", Settings: settings}}}}},
		}
		lacks := tools.Missing(program, RunOptions{}, nil)
		if len(lacks) != 1 || !strings.Contains(lacks[0].Message+" | "+lacks[0].Help, want) {
			t.Errorf("%s: %+v", target, lacks)
		}
	}
}

// Pin turns the sandbox on if the run or the project asks for it, and records how commands are confined.
func TestPinAddsTheSandboxOfTheProject(t *testing.T) {
	models := NewModels(t.TempDir(), &config.Config{}, func(string) string { return "" })
	for _, c := range []struct{ asked, project, want bool }{
		{false, false, false},
		{false, true, true},
		{true, false, true},
	} {
		o := RunOptions{Sandbox: c.asked}
		o.Pin(&config.Config{Sandbox: c.project}, models, nil, process.Confined)
		if o.Sandbox != c.want || (o.Confinement != "") != c.want {
			t.Errorf("%+v: %t", c, o.Sandbox)
		}
	}
}

// A simulated run needs no network and no keys: it starts no server, not even
// to ask what it has.
func TestSimulatedRunsStartNothing(t *testing.T) {
	started := filepath.Join(t.TempDir(), "started")
	tools := projectTools(t, fmt.Sprintf("mcp: {crm: {command: [sh, -c, %q]}}\n", "echo x > "+started), "")
	box := toolbox{Tools: tools, simulate: true}
	if got, class := use(t, box, "crm.read", `{"a":1}`); class != "" ||
		got != `{"input":{"a":1},"simulated":true,"tool":"crm.read"}simulated` {
		t.Errorf("%s %s", class, got)
	}
	if got, class := use(t, box, "Bash", `{"command":"touch x"}`); class != "" ||
		!strings.HasPrefix(got, `{"exit":0,`) || !strings.HasSuffix(got, "simulated") {
		t.Errorf("%s %s", class, got)
	}
	if got := box.Names("crm.*"); len(got) != 0 {
		t.Errorf("%v", got)
	}
	if _, err := os.Stat(started); err == nil {
		t.Error("the server was started")
	}
	// A script that simulates the rest starts nothing either.
	script, list := scripted.Parse(source.NewFile("demo.script.yaml", "replies: []\notherwise: simulate\n"))
	if len(list) > 0 {
		t.Fatal(list)
	}
	plain, _ := scripted.Parse(source.NewFile("demo.script.yaml", "replies: []\n"))
	for script, o := range map[*scripted.Script]RunOptions{script: {}, plain: {Simulate: true}} {
		got, class := use(t, tools.box(o, script), "crm.read", `{"a":1}`)
		if class != "" || !strings.HasSuffix(got, "simulated") {
			t.Errorf("%+v: %s %s", o, class, got)
		}
	}
	if _, err := os.Stat(started); err == nil {
		t.Error("the server was started")
	}
	if box.simulate = false; box.Tool("crm.read") != nil {
		t.Error("a server that says nothing has a tool")
	}
	if _, err := os.Stat(started); err != nil {
		t.Errorf("the server was not started in a real run: %v", err)
	}
}

// A simulated result matches the schema of the configuration, the tool or the workflow, and depends only on the seed.
func TestSimulatedAnswersHaveTheirForm(t *testing.T) {
	tools := projectTools(t, `
tools:
  crm.read: {returns: {type: object, required: [id, tier], properties: {id: {type: integer}, tier: {enum: [gold, silver]}}}}
  crm.odd: {returns: {allOf: [{type: string}, {type: integer}]}}
`, "")
	answer := func(seed uint64, name string, purpose tool.Purpose) string {
		result, err := toolbox{Tools: tools, simulate: true, seed: seed}.Tool(name).Call(t.Context(),
			tool.Call{Input: json.RawMessage(`{}`), For: purpose})
		if err != nil || result.Offline != "simulated" {
			t.Fatal(err, result)
		}
		return string(result.Output)
	}
	var record struct {
		ID   *int   `json:"id"`
		Tier string `json:"tier"`
		Next string `json:"next"`
	}
	step := tool.Purpose{
		Workflow: "w", Step: "s",
		Wants: contract.Contract{Schema: json.RawMessage(
			`{"required":["next"],"properties":{"next":{"type":"string"},"tier":{"const":"silver"}}}`)},
	}
	got := answer(1, "crm.read", step)
	if err := json.Unmarshal([]byte(got), &record); err != nil || record.ID == nil || record.Tier != "silver" ||
		record.Next == "" {
		t.Errorf("%s %v", got, err)
	}
	if again := answer(1, "crm.read", step); again != got {
		t.Errorf("%s, and then %s", got, again)
	}
	// A later step decides by it: each visit moves on, so loops end.
	deciding := tool.Purpose{Workflow: "w", Step: "s", Wants: contract.Contract{
		Probes: []contract.Probe{{Values: []json.RawMessage{json.RawMessage(`"again"`), json.RawMessage(`"done"`)}}},
	}}
	first := answer(1, "unbound", deciding)
	if deciding.Visit = 1; answer(1, "unbound", deciding) == first || first != `"again"` && first != `"done"` {
		t.Errorf("it stays with %s", first)
	}
	if got := answer(1, "crm.odd", tool.Purpose{}); got != `{"input":{},"simulated":true,"tool":"crm.odd"}` {
		t.Errorf("nothing fits, and it says %s", got)
	}
}

// A server in the sandbox sees the project and nothing else.
func TestServersInTheSandbox(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux can confine commands")
	}
	t.Setenv("TEST_SERVER", npmtest.Program(t, "@modelcontextprotocol/server-filesystem@2026.8.31",
		"mcp-server-filesystem"))
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// The program itself lies in the user's cache, outside of the project.
	cache := filepath.Dir(filepath.Dir(filepath.Dir(os.Getenv("TEST_SERVER"))))
	tools := projectTools(t,
		fmt.Sprintf("allow: {paths: [%q]}\nmcp:\n  open: {command: [\"${SERVER}\", /]}\n  boxed: {command: "+
			"[\"${SERVER}\", /], sandbox: true}\n", cache), "")
	if err := os.WriteFile(filepath.Join(tools.root, "notes"), []byte("roses\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	box := toolbox{Tools: tools}
	for name, sees := range map[string]bool{"open": true, "boxed": false} {
		if got, _ := use(t, box, name+".read_text_file", fmt.Sprintf(`{"path":%q}`,
			filepath.Join(tools.root, "notes"))); !strings.Contains(got, "roses") {
			t.Errorf("%s does not see the project: %s", name, got)
		}
		if got, _ := use(t, box, name+".read_text_file", fmt.Sprintf(`{"path":%q}`,
			filepath.Join(outside, "secret"))); strings.Contains(got, "secret\\n") != sees {
			t.Errorf("%s, outside: %s", name, got)
		}
	}
	program := &ir.Program{Blocks: []ir.Block{{}}}
	for _, server := range []string{"open", "boxed"} {
		var settings ir.Settings
		settings.Put("tool", server+".read_text_file", source.Span{})
		program.Blocks[0].Steps = append(program.Blocks[0].Steps,
			ir.Step{ID: server, Action: ir.Task{Kind: "tool", Settings: settings}})
	}
	if got := tools.Unconfined(program); !slices.Equal(got, []string{"open"}) {
		t.Errorf("unconfined: %v", got)
	}
}

// A server that other programs know, too: found, started when it is needed,
// checked before a run.
func TestMCPServersStartOnDemandAndAreChecked(t *testing.T) {
	t.Setenv("TEST_SERVER", npmtest.Program(t, "@modelcontextprotocol/server-everything@2026.8.31",
		"mcp-server-everything"))
	tools := projectTools(t, "tools: {sum: {use: everything.get-sum}}\nmcp: {off: {enabled: false}}\n", `{"mcpServers":{
		"everything":{"command":"${SERVER}","args":["${MODE:-stdio}"]},"off":{"command":"false"},"lost":{"command":"${NOT_SET}"}}}`)
	box := toolbox{Tools: tools}
	if got, class := use(t, box, "everything.echo", `{"message":"roses"}`); class != "" ||
		!strings.Contains(got, "roses") {
		t.Errorf("%s %s", class, got)
	}
	if got, class := use(t, box, "sum", `{"a":1,"b":2}`); class != "" || !strings.Contains(got, "3") {
		t.Errorf("%s %s", class, got)
	}
	// A workflow may have its own name for a tool of a server.
	alias := toolbox{Tools: tools, program: &ir.Program{ToolDefs: []ir.ToolDef{
		{Name: "say", Use: "everything.echo"}, {Name: "everything.echo", Use: "say"}, {Name: "gone", Use: "nobody.x"},
	}}}
	if got, class := use(t, alias, "say", `{"message":"tulips"}`); class != "" || !strings.Contains(got, "tulips") {
		t.Errorf("%s %s", class, got)
	}
	if name := alias.Tool("say").Spec().Name; name != "say" || alias.Tool("gone") != nil {
		t.Errorf("an alias is called %q, or there is one of nothing", name)
	}
	if got := box.Names("everything.get-s*"); !slices.Contains(got, "everything.get-sum") {
		t.Errorf("%v", got)
	}
	program := &ir.Program{Tools: ir.Tools{AllowAll: true, Deny: []ir.Name{{Name: "denied"}}}, Blocks: []ir.Block{{}}}
	for _, name := range []string{"everything.echo", "everything.ecko", "off.x", "lost.x", "nobody.x", "denied"} {
		var settings ir.Settings
		settings.Put("tool", name, source.Span{})
		program.Blocks[0].Steps = append(program.Blocks[0].Steps,
			ir.Step{ID: "step " + name, Action: ir.Task{Kind: "tool", Settings: settings}})
	}
	var got []string
	for _, l := range tools.Missing(program, RunOptions{}, nil) {
		got = append(got, fmt.Sprint(l.Steps, " ", l.Message, " ", l.Help))
	}
	for i, want := range []string{
		`has no tool "everything.ecko" Did you mean "everything.echo"? It has everything.`,
		`disabled Remove "enabled: false" from its entry`, "NOT_SET is not set",
		`nothing is bound to the tool "nobody.x"`,
	} {
		if len(got) != 4 || !strings.Contains(got[i], want) {
			t.Errorf("%d: %q", i, got)
		}
	}
	if tools.Missing(program, RunOptions{Simulate: true}, nil) != nil {
		t.Error("a simulated run lacks something")
	}
}
