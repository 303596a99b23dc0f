//go:build unix && clis

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/npmtest"
)

// The programs themselves, at versions that are known to work. They are hundreds
// of megabytes, so "make test-clis" runs these tests, and "make test" does not.

// realCLI is a program, and how it is led to the server.
type realCLI struct {
	name, pkg, program string
	model              string // after --model
	shell              string // what it calls its shell
	argument           string // and the shell's command
	env                func(url string) []string
	// files are written into its home, or into a folder that the variable own
	// names.
	files func(url string) map[string]string
	own   string
	// prepare mends what npm leaves undone without its scripts.
	prepare func(t *testing.T, dir string)
}

func realCLIs() []realCLI {
	return []realCLI{
		{
			name: "claude-code", pkg: "@anthropic-ai/claude-code@2.1.197", program: "claude",
			model: "claude-code/claude-sonnet-4-5", shell: "Bash", argument: "command",
			env: func(url string) []string {
				return []string{"ANTHROPIC_BASE_URL=" + url, "ANTHROPIC_API_KEY=sk-of-nobody"}
			},
			prepare: func(t *testing.T, dir string) {
				install := exec.Command("node",
					filepath.Join(dir, "node_modules/@anthropic-ai/claude-code/install.cjs"))
				if out, err := install.CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
			},
		},
		{
			name: "codex", pkg: "@openai/codex@0.166.0", program: "codex", model: "codex/gpt-5", shell: "exec_command",
			argument: "cmd", env: func(string) []string { return []string{"OPENAI_API_KEY=sk-of-nobody"} },
			own: "CODEX_HOME", // which must not be among the temporary files
			files: func(url string) map[string]string {
				return map[string]string{"config.toml": fmt.Sprintf(
					"model_provider = \"mock\"\n[model_providers.mock]\nname = \"mock\"\nbase_url = %q\n"+
						"env_key = \"OPENAI_API_KEY\"\nwire_api = \"responses\"\n"+
						// Otherwise it leaves folders such as .git among the temporary files of everybody.
						"[sandbox_workspace_write]\nexclude_slash_tmp = true\nexclude_tmpdir_env_var = true\n",
					url+"/v1")}
			},
		},
		{
			name: "gemini-cli", pkg: "@google/gemini-cli@0.61.0", program: "gemini",
			model: "gemini-cli/gemini-2.5-flash", shell: "run_shell_command", argument: "command",
			env: func(url string) []string {
				return []string{"GOOGLE_GEMINI_BASE_URL=" + url, "GEMINI_API_KEY=sk-of-nobody"}
			},
			files: func(string) map[string]string {
				return map[string]string{".gemini/settings.json": `{"security":{"auth":{"selectedType":"gemini-api-key"}},"privacy":{"usageStatisticsEnabled":false},"general":{"enableAutoUpdate":false}}`}
			},
		},
		{
			name: "copilot", pkg: "@github/copilot@1.0.102", program: "copilot", model: "copilot/gpt-5",
			shell: "bash", argument: "command",
			env: func(url string) []string {
				return []string{"COPILOT_PROVIDER_BASE_URL=" + url + "/v1", "COPILOT_PROVIDER_API_KEY=sk-of-nobody"}
			},
		},
	}
}

// plot is a garden in which a real program works.
func plot(t *testing.T, c realCLI) *cliProject {
	g := newCLIProject(t)
	dir := npmtest.Install(t, c.pkg)
	if c.prepare != nil {
		c.prepare(t, dir)
	}
	program := filepath.Join(dir, "node_modules", ".bin", c.program)
	g.writeFile("espalier.yaml",
		fmt.Sprintf("models: {default: %s, clis: {%s: {command: %q}}}\n", c.model, c.name, program), 0o600)
	pipe := g.makeFIFO("pipe")
	// The first tree takes its time: until espalier is killed, unless a tree
	// was planted before.
	plant := fmt.Sprintf("echo planted >> trees; if [ ! -f hurry ]; then echo x > %s; sleep 1000; fi; cat trees", pipe)
	call := map[string]any{"name": c.shell, "arguments": map[string]any{c.argument: plant}}
	if c.name != "codex" { // which takes no such thing
		call["arguments"].(map[string]any)["description"] = "plant a tree"
	}
	usage := map[string]any{
		"input_tokens": 40, "output_tokens": 8, "prompt_tokens": 40, "completion_tokens": 8, "total_tokens": 48,
		"promptTokenCount": 40, "candidatesTokenCount": 8, "totalTokenCount": 48,
	}
	answer := map[string]any{"content": "The tree is planted.", "usage": usage}
	fixtures, err := json.Marshal(map[string]any{"fixtures": []any{
		map[string]any{"match": map[string]any{"toolResultContains": "planted"}, "response": answer},
		map[string]any{"match": map[string]any{"userMessage": "You were interrupted"}, "response": answer},
		map[string]any{
			"match":    map[string]any{"userMessage": "Plant a tree", "hasToolResult": false},
			"response": map[string]any{"content": "I will plant it.", "toolCalls": []any{call}, "usage": usage},
		},
		map[string]any{"match": map[string]any{"hasToolResult": true}, "response": map[string]any{
			"content": "It did not work.", "usage": usage,
		}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	g.writeFile("fixtures.json", string(fixtures), 0o600)
	g.leads(t, c)
	return g
}

// leads serves the fixtures, and configures the program for them. It returns the program's home.
func (g *cliProject) leads(t *testing.T, c realCLI) string {
	url := serveModels(t, filepath.Join(g.dir, "fixtures.json"))
	g.env = append(g.env, c.env(url)...)
	home := g.dir
	if c.own != "" {
		home = ownHome(t)
		g.env = append(g.env, c.own+"="+home)
	}
	if c.files != nil {
		for name, text := range c.files(url) {
			path := filepath.Join(home, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return home
}

// ownHome is a folder that is gone after the test, and not a temporary one to
// those who look at its path.
func ownHome(t *testing.T) string {
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(cache, "espalier-tests-home-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func serveModels(t *testing.T, fixtures string) string {
	return npmtest.Serve(t, filepath.Join("testdata", "clis", "serve.cjs"), npmtest.ModelServer, fixtures)
}

// Each program does a step with a tool of its own, on record as its account.
func TestRealCLIsWorkWithToolsOfTheirOwn(t *testing.T) {
	for _, c := range realCLIs() {
		t.Run(c.name, func(t *testing.T) {
			g := plot(t, c)
			g.writeFile("hurry", "", 0o600)
			if out := g.mustRun("doctor", "--offline", "--json"); !strings.Contains(out,
				"version "+c.pkg[strings.LastIndex(c.pkg, "@")+1:]) {
				t.Errorf("%s", out)
			}
			out := g.mustRun("run", "plant.md", "--allow-shell", "--model", c.model, "--run-id", cliRunID)
			if !strings.Contains(out, "The tree is planted.") || g.readFile("trees") != "planted\n" {
				t.Errorf("%s\n%s", out, g.readFile("trees"))
			}
			record := g.mustRun("transcript", cliRunID)
			t.Log(record)
			for _, want := range []string{`"type":"tool.call"`, `"type":"tool.result"`, `"fidelity":"agent_emitted"`, "echo planted", `"text":"The tree is planted."`} {
				if !strings.Contains(record, want) {
					t.Errorf("no %s", want)
				}
			}
			if strings.Contains(record, "sk-of-nobody") {
				t.Error("the key is on record")
			}
			g.mustRun("audit", "verify", cliRunID)
			t.Log(g.mustRun("audit", cliRunID))
		})
	}
}

// Espalier is killed while a tool of the program runs. The run goes on with the
// program's session, and the tree that is planted stays the only one.
func TestRealCLIsContinueTheirSessionAfterAKill(t *testing.T) {
	for _, c := range realCLIs() {
		t.Run(c.name, func(t *testing.T) {
			g := plot(t, c)
			g.killWhenOpened(filepath.Join(g.dir, "pipe"), "run", "plant.md", "--allow-shell", "--model",
				c.model, "--run-id", cliRunID)
			if got := g.readFile("trees"); got != "planted\n" {
				t.Fatalf("when it was killed: %q", got)
			}
			out := g.mustRun("resume", cliRunID)
			if !strings.Contains(out, "The tree is planted.") || g.readFile("trees") != "planted\n" {
				t.Errorf("%s\n%s", out, g.readFile("trees"))
			}
			record := g.mustRun("transcript", cliRunID)
			t.Log(record)
			if !strings.Contains(record, "You were interrupted") {
				t.Error("it was not asked to go on")
			}
			g.mustRun("audit", "verify", cliRunID)
			if left := commandsNaming(t, g.dir); len(left) > 0 {
				t.Errorf("still there: %q", left)
			}
		})
	}
}

// commandsNaming are the commands that run and have a text in their arguments,
// where the system tells.
func commandsNaming(t *testing.T, text string) []string {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, file := range files {
		raw, _ := os.ReadFile(file) // it may have ended meanwhile
		if line := strings.ReplaceAll(string(raw), "\x00", " "); strings.Contains(line, text) &&
			!strings.Contains(line, "serve.cjs") {
			out = append(out, line)
		}
	}
	return out
}

// Agent programs cannot use tools that the step does not allow.
func TestRealCLIsCannotUseDeniedTools(t *testing.T) {
	for _, c := range realCLIs() {
		t.Run(c.name, func(t *testing.T) {
			g := plot(t, c)
			g.writeFile("hurry", "", 0o600)
			flow := strings.NewReplacer("allowlist: [Bash]", "allowlist: [Read]",
				"tools: [Bash]", "tools: [Read]").Replace(plantFlow)
			g.writeFile("plant.md", flow, 0o600)
			out := g.mustRun("run", "plant.md", "--allow-shell", "--model", c.model, "--run-id", cliRunID)
			if _, err := os.Stat(filepath.Join(g.dir, "trees")); err == nil ||
				!strings.Contains(out, "It did not work.") {
				t.Errorf("it planted a tree: %s", out)
			}
			record := g.mustRun("transcript", cliRunID)
			t.Log(record)
			// codex does not always tell of a command that fails at once.
			if c.name != "codex" && !strings.Contains(record, `"error":`) {
				t.Error("nothing says that it was not allowed to")
			}
		})
	}
}

// A conversation of AWF is one session of the real program: its own file of the session has both turns.
func TestRealCLIsHoldConversations(t *testing.T) {
	sessions := map[string]string{"claude-code": ".claude/projects", "codex": "sessions"}
	for _, c := range realCLIs() {
		if sessions[c.name] == "" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			g := plot(t, c)
			g.writeFile("fixtures.json", `{"fixtures":[
  {"match":{"userMessage":"Which tree"},"response":{"content":"An oak."}},
  {"match":{"userMessage":"How tall"},"response":{"content":"Forty meters."}}]}`, 0o600)
			home := g.leads(t, c)
			provider := strings.TrimSuffix(c.name, "-code")
			g.writeFile(".awf/workflows/talk.yaml", `name: talk
states:
  initial: chat
  chat: {type: agent, provider: `+provider+`, mode: conversation, prompt: Which tree?, on_success: done}
  done: {type: terminal}
`, 0o600)
			cmd := g.command("run", "talk", "--allow-shell", "--run-id", cliRunID)
			cmd.Stdin = strings.NewReader("How tall?\n\n")
			if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "Forty meters.") {
				t.Fatalf("%v: %s", err, out)
			}
			var files []string
			err := filepath.WalkDir(filepath.Join(home, sessions[c.name]),
				func(path string, d os.DirEntry, err error) error {
					if err == nil && strings.HasSuffix(path, ".jsonl") {
						files = append(files, path)
					}
					return err
				})
			if err != nil || len(files) != 1 {
				t.Fatalf("%q: %v", files, err)
			}
			raw, err := os.ReadFile(files[0])
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"Which tree?", "An oak.", "How tall?", "Forty meters."} {
				if !strings.Contains(string(raw), want) {
					t.Errorf("the session has no %q", want)
				}
			}
		})
	}
}

// Claude Code as a client of the MCP server: it finds the tool of a workflow, calls it and gets the output of the run.
func TestClaudeCodeRunsAWorkflowOverMCP(t *testing.T) {
	claude := realCLIs()[0]
	npm := npmtest.Install(t, claude.pkg)
	claude.prepare(t, npm)
	dir := mcpProject(t)
	const tool = "mcp__espalier__run_hello"
	usage := map[string]any{"input_tokens": 40, "output_tokens": 8}
	fixtures, err := json.Marshal(map[string]any{"fixtures": []any{
		map[string]any{
			"match":    map[string]any{"toolResultContains": `"outcome":"ok"`},
			"response": map[string]any{"content": "Ann is greeted.", "usage": usage},
		},
		map[string]any{
			"match": map[string]any{"userMessage": "Greet Ann", "hasToolResult": false},
			"response": map[string]any{"content": "I greet her.", "usage": usage, "toolCalls": []any{
				map[string]any{"name": tool, "arguments": map[string]any{"who": "Ann"}},
			}},
		},
		map[string]any{
			"match":    map[string]any{"hasToolResult": true},
			"response": map[string]any{"content": "It did not work.", "usage": usage},
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	writeApproved(t, filepath.Join(dir+"-home", "fixtures.json"), string(fixtures))
	writeApproved(t, filepath.Join(dir+"-home", "mcp.json"), `{"mcpServers": {"espalier": {"command": "espalier", "args": ["mcp"]}}}`)
	cmd := exec.Command(filepath.Join(npm, "node_modules", ".bin", claude.program), "-p",
		"Greet Ann", "--strict-mcp-config",
		"--mcp-config", filepath.Join(dir+"-home", "mcp.json"), "--allowedTools", tool, "--model", "claude-sonnet-4-5")
	cmd.Dir = dir
	// It starts without its servers otherwise, and offers their tools later.
	cmd.Env = append(os.Environ(), "HOME="+dir+"-home", "MCP_CONNECTION_NONBLOCKING=false")
	cmd.Env = append(cmd.Env, claude.env(serveModels(t, filepath.Join(dir+"-home", "fixtures.json")))...)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Ann is greeted.") {
		t.Errorf("%v: %s", err, out)
	}
	runs := exec.Command("espalier", "runs", "--json")
	runs.Dir, runs.Env = dir, append(os.Environ(), "HOME="+dir+"-home")
	if out, err := runs.CombinedOutput(); err != nil || strings.Count(string(out), `"outcome"`) != 1 {
		t.Errorf("%v: %s", err, out)
	}
}
