package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/npmtest"
)

const mcpFlow = "---\nname: NAME\nkind: agent-flow/workflow\nversion: 1.0.0\ndescription: Say hello.\n" +
	"triggers: { api: API }\ninput:\n  schema:\n    type: object\n    required: [who]\n" +
	"    properties: { who: { type: string } }\n---\n```step\nid: hello\ntype: transform\n" +
	"description: Say hello\nreads: [input.who]\nwrites: [output]\n```\n"

const mcpGate = "```step\nid: ok\ntype: gate\ngate_method: human_review\ndescription: May we\nreads: [input.who]\n```\n"

// mcpProject is a folder with a workflow, one with a gate, and one that agents
// may not start.
func mcpProject(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "project")
	for _, folder := range []string{dir, dir + "-home"} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	flow := func(name, api string) string { return strings.NewReplacer("NAME", name, "API", api).Replace(mcpFlow) }
	for name, text := range map[string]string{
		"hello.md": flow("hello", "true"), "gated.md": flow("gated", "true") + mcpGate,
		"private.md":    flow("private", "false"),
		"espalier.yaml": "triggers: {hello: {simulate: true}, gated: {simulate: true}}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// inspect calls the command line of the MCP Inspector.
func inspect(t *testing.T, dir string, out any, args ...string) {
	t.Helper()
	inspector := npmtest.Program(t, "@modelcontextprotocol/inspector@2.12.0", "mcp-inspector")
	cmd := exec.Command(inspector, append([]string{"--cli"}, args...)...)
	cmd.Dir, cmd.Stderr = dir, t.Output()
	cmd.Env = append(os.Environ(), "HOME="+dir+"-home")
	raw, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	if err := json.Unmarshal(raw, out); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
}

type mcpTools struct {
	Tools []struct {
		Name        string          `json:"name"`
		InputSchema json.RawMessage `json:"inputSchema"`
	} `json:"tools"`
}

type mcpCall struct {
	IsError           bool `json:"isError"`
	StructuredContent struct {
		Run     string `json:"run_id"`
		State   string `json:"state"`
		Outcome string `json:"outcome"`
		Output  any    `json:"output"`
	} `json:"structuredContent"`
}

func TestMCPInspectorRunsWorkflowsOverStdioAndHTTP(t *testing.T) {
	dir := mcpProject(t)
	espalier, err := exec.LookPath("espalier")
	if err != nil {
		t.Fatal(err)
	}
	// A server in another process, which is stopped at the end.
	server := exec.Command(espalier, "serve", "--addr", "127.0.0.1:0", "--json")
	server.Dir, server.Env = dir, append(os.Environ(), "HOME="+dir+"-home")
	stdout, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGTERM)
		_ = server.Wait() // it was interrupted
	})
	var at struct {
		Address string `json:"address"`
	}
	if err := json.NewDecoder(bufio.NewReader(stdout)).Decode(&at); err != nil {
		t.Fatal(err)
	}
	token, err := os.ReadFile(filepath.Join(dir, ".espalier", "server-token"))
	if err != nil {
		t.Fatal(err)
	}
	for name, client := range map[string][]string{
		"stdio": {espalier, "mcp"},
		"http": {
			"http://" + at.Address + "/mcp", "--transport", "http",
			"--header", "Authorization: Bearer " + strings.TrimSpace(string(token)),
		},
	} {
		t.Run(name, func(t *testing.T) {
			where := dir
			if name == "stdio" {
				where = mcpProject(t)
			}
			var tools mcpTools
			inspect(t, where, &tools, append(slices.Clone(client), "--method", "tools/list")...)
			var names []string
			for _, tool := range tools.Tools {
				names = append(names, tool.Name)
			}
			slices.Sort(names)
			want := []string{
				"explain_code", "list_workflows", "run_gated", "run_hello", "run_output", "run_status", "start_run",
				"validate_workflow",
			}
			if !slices.Equal(names, want) { // nothing decides, and run_private is missing
				t.Errorf("the tools are %q", names)
			}
			call := func(tool string, args ...string) (out mcpCall) {
				t.Helper()
				all := append(slices.Clone(client), "--method", "tools/call", "--tool-name", tool)
				for _, arg := range args {
					all = append(all, "--tool-arg", arg)
				}
				inspect(t, where, &out, all...)
				return out
			}
			done := call("run_hello", "who=Ann").StructuredContent
			if done.Outcome != "ok" || done.Output == nil || done.Run == "" {
				t.Errorf("%+v", done)
			}
			if got := call("run_status", "run="+done.Run).StructuredContent; got.Run != done.Run ||
				got.Outcome != "ok" {
				t.Errorf("%+v", got)
			}
			waiting := call("run_gated", "who=Ann").StructuredContent
			if waiting.State != "waiting" || waiting.Outcome != "" {
				t.Errorf("%+v", waiting)
			}
		})
	}
}

// slowModel serves a model that answers when the channel is closed.
func slowModel(t *testing.T) (url string, answer chan struct{}) {
	answer = make(chan struct{})
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-answer:
		case <-r.Context().Done():
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, `data: {"id":"x","object":"chat.completion.chunk","model":"m","choices":[{"index":0,`+
			`"delta":{"role":"assistant","content":"hello"},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(model.Close)
	return model.URL, answer
}

// slowProject is a project whose only workflow calls a model.
func slowProject(t *testing.T, url, more string) *awfProject {
	p := &awfProject{t: t, dir: t.TempDir()}
	writeApproved(t, filepath.Join(p.dir, "slow.md"), "---\nname: slow\nkind: agent-flow/workflow\nversion: 1.0.0\n"+
		"description: Say hello.\ntriggers: {api: true}\ninput:\n"+
		"  schema: {type: object, properties: {who: {type: string}, any: true}}\n"+
		"---\n```agent\nid: writer\nrole: Writes.\ngoal: Write.\n```\n"+
		"```step\nid: hello\ntype: skill\nagent: writer\ndescription: Say hello\n"+
		"reads: [input.who]\nwrites: [output.text]\n```\n")
	writeApproved(t, filepath.Join(p.dir, "espalier.yaml"),
		"models: {default: till/m, providers: {till: {api: openai, base_url: \""+
			url+"\"}}}\n"+more)
	return p
}

// A client of the official TypeScript SDK gets the progress of a run. The run goes on when the client leaves. While it
// takes the only slot, another run has a place in the queue, which the commands show.
func TestMCPClientGetsProgressAndTheRunSurvivesIt(t *testing.T) {
	url, answer := slowModel(t)
	p := slowProject(t, url, "concurrency: {all: {runs: 1}}\n")
	s := startServer(p)
	next := npmtest.Lines(t, filepath.Join("testdata", "mcpclient.mjs"),
		"@modelcontextprotocol/server-everything@2026.8.31", s.url+"/mcp", s.token, "run_slow")
	if line := next(); !strings.Contains(line, `"message":"step.started hello"`) {
		t.Errorf("progress %q", line)
	}
	if line := next(); line != "left" {
		t.Errorf("%q", line)
	}
	p.wantExit(0, "run", "slow", "--input", "who=Ben", "--detach", "--run-id", awfRunID)
	until := func(want string, args ...string) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); ; {
			out, _ := p.command(args...).CombinedOutput() // what it prints is looked at
			if strings.Contains(string(out), want) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("no %q: %s", want, out)
			}
		}
	}
	until("queued (position 1)", "runs")
	until("queued (position 1)", "status", awfRunID)
	close(answer)
	until("hello", "output", awfRunID)
	for end := time.Now().Add(30 * time.Second); ; {
		out := p.wantExit(0, "runs", "--status", "finished", "--json")
		if strings.Count(out, `"outcome": "ok"`)+strings.Count(out, `"outcome":"ok"`) == 2 {
			break
		}
		if time.Now().After(end) {
			t.Fatal(out)
		}
	}
}

// Over stdio, start_run returns while the model still works, and a call reports progress. The runs of a client that
// leaves are parked, and continue.
func TestMCPClientOnStdioStartsRunsThatSurviveIt(t *testing.T) {
	url, answer := slowModel(t)
	p := slowProject(t, url, "")
	next := npmtest.Lines(t, filepath.Join("testdata", "mcpclient.mjs"),
		"@modelcontextprotocol/server-everything@2026.8.31", p.dir, "", "run_slow", "slow")
	var started struct {
		Run   string `json:"run_id"`
		State string `json:"state"`
	}
	if line := next(); json.Unmarshal([]byte(line), &started) != nil || started.Run == "" ||
		started.State == "finished" {
		t.Fatalf("start_run returned %s", line)
	}
	if line := next(); !strings.Contains(line, `"message":"step.started hello"`) {
		t.Errorf("progress %q", line)
	}
	if line := next(); line != "left" {
		t.Errorf("%q", line)
	}
	close(answer)
	p.wantExit(0, "resume", started.Run)
	if out := p.wantExit(0, "output", started.Run); !strings.Contains(out, "hello") {
		t.Error(out)
	}
}
