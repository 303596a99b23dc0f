//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/espalier-run/espalier/internal/npmtest"
)

// longFlow is a workflow whose one step is a call that takes as long as its input says.
const longFlow = "---\nname: long\nkind: agent-flow/workflow\nversion: 1.0.0\ndescription: Wait.\ninput:\n" +
	"  schema: {type: object, properties: {duration: {type: number}, steps: {type: number}}}\n---\n" +
	"```step\nid: wait\ntype: tool\ndescription: Wait\ntool: everything.trigger-long-running-operation\n" +
	"reads: [input]\nwrites: [output]\n```\n"

// newMCPServerProject returns a project with a third-party MCP server, and a function that waits until all processes of
// that server have ended.
func newMCPServerProject(t *testing.T) (k *chainProject, gone func()) {
	t.Helper()
	k = newChainProject(t, 0)
	alive := filepath.Join(k.dir, "alive")
	if err := syscall.Mkfifo(alive, 0o600); err != nil {
		t.Fatal(err)
	}
	program := npmtest.Program(t, "@modelcontextprotocol/server-everything@2026.8.31", "mcp-server-everything")
	config, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"everything": map[string]any{
		"command": "sh", "args": []string{"-c", `exec 9>"$0"; "$@"`, alive, program, "stdio"},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	writeApproved(t, filepath.Join(k.dir, ".mcp.json"), string(config))
	writeApproved(t, filepath.Join(k.dir, "long.md"), longFlow)
	held, err := os.OpenFile(alive, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { held.Close() })
	return k, func() {
		t.Helper()
		if _, err := io.Copy(io.Discard, held); err != nil { // ends when all writers are gone
			t.Error(err)
		}
	}
}

// The progress of a tool is shown while it runs, and its server ends with the command, however that ends; the records
// contain the call.
func TestMCPServerEndsWithTheRun(t *testing.T) {
	for name, c := range map[string]struct {
		signal syscall.Signal // 0 lets it end
		input  string
		exit   int
	}{
		"well":        {input: `{"duration":2,"steps":10}`},
		"interrupted": {signal: syscall.SIGINT, input: `{"duration":600,"steps":6000}`, exit: 130},
		"terminated":  {signal: syscall.SIGTERM, input: `{"duration":600,"steps":6000}`, exit: 130},
		"killed":      {signal: syscall.SIGKILL, input: `{"duration":600,"steps":6000}`, exit: -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, gone := newMCPServerProject(t)
			writeApproved(t, filepath.Join(k.dir, "in.json"), c.input)
			cmd := k.command("run", "long.md", "--allow-shell", "--input-file", "in.json", "--run-id",
				chainRunID, "--json", "--follow")
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			notes, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			stop := func() {
				if err := cmd.Process.Signal(c.signal); err != nil {
					t.Error(err)
				}
			}
			var reading sync.WaitGroup
			reading.Go(func() {
				for lines := bufio.NewScanner(notes); lines.Scan(); {
					if strings.Contains(lines.Text(), "unning commands and calls") {
						stop() // what is being done is not waited for then
					}
				}
			})
			progress := ""
			for lines := bufio.NewScanner(out); lines.Scan(); {
				if !strings.Contains(lines.Text(), `"event":"tool.progress"`) || progress != "" {
					continue
				}
				progress = lines.Text()
				if c.signal != 0 {
					stop()
				}
			}
			reading.Wait()
			_ = cmd.Wait() // how it ended is looked at below
			if !strings.Contains(progress, `"tool":"everything.trigger-long-running-operation"`) || !strings.Contains(progress, `"total":`) {
				t.Errorf("no progress: %q", progress)
			}
			if got := cmd.ProcessState.ExitCode(); got != c.exit {
				t.Errorf("exit code %d, not %d", got, c.exit)
			}
			gone()
			record, err := k.command("transcript", chainRunID).Output()
			if err != nil || !strings.Contains(string(record), `"name":"everything.trigger-long-running-operation"`) {
				t.Errorf("%v: %s", err, record)
			}
		})
	}
}

// routed is an agent and a step that call the same tools of a server.
const routed = "---\nname: routed\nkind: agent-flow/workflow\nversion: 1.0.0\ndescription: Compute.\n" +
	"tools: {denylist: [everything.echo]}\n---\n" +
	"```agent\nid: clerk\nrole: Computes.\ngoal: Compute.\ntools: [everything.get-sum, everything.echo]\n```\n" +
	"```step\nid: ask\ntype: skill\ndescription: Ask\nagent: clerk\nwrites: [state.said]\n```\n" +
	"```step\nid: add\ntype: tool\ndescription: Add\ntool: everything.get-sum\nargs: {a: 20, b: 3}\n" +
	"writes: [output.sum]\n```\n"

// TestMCPToolsPassTheGate: tools of a server pass the same checks as all
// others for every caller: lists, schema, and approval of exactly one call with its
// arguments.
func TestMCPToolsPassTheGate(t *testing.T) {
	k, gone := newMCPServerProject(t)
	writeApproved(t, filepath.Join(k.dir, "routed.md"), routed)
	writeApproved(t, filepath.Join(k.dir, "espalier.yaml"), "tools:\n  everything.get-sum: {requires_approval: true}\n")
	writeApproved(t, filepath.Join(k.dir, "ask.script.yaml"), "replies:\n"+
		"  - step: ask\n    turn: 1\n    tools:\n      - {name: everything.echo, input: {message: x}}\n"+
		"      - {name: everything.get-sum, input: {a: one, b: 2}}\n      - {name: Bash, input: {command: 'true'}}\n"+
		"  - step: ask\n    turn: 2\n    tools: [{name: everything.get-sum, input: {a: 5, b: 2}}]\n"+
		"  - {step: ask, turn: 3, reply: Done.}\n")
	espalier := func(exit int, args ...string) string {
		t.Helper()
		cmd := k.command(args...)
		out, _ := cmd.CombinedOutput() // how it ended is looked at
		if got := cmd.ProcessState.ExitCode(); got != exit {
			t.Fatalf("espalier %s: exit code %d, not %d\n%s", strings.Join(args, " "), got, exit, out)
		}
		return string(out)
	}
	has := func(text string, wants ...string) {
		t.Helper()
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in %s", want, text)
			}
		}
	}
	espalier(4, "run", "routed.md", "--allow-shell", "--script", "ask.script.yaml", "--run-id", chainRunID)
	has(espalier(0, "status", chainRunID), "everything.get-sum", `"a": 5`, `"b": 2`, "digest")
	has(espalier(0, "transcript", chainRunID), `denylist has the tool \"everything.echo\"`, "is invalid", `agent \"clerk\" has no tool \"Bash\"`)
	espalier(4, "approve", chainRunID) // the first call; the step's own asks again
	has(espalier(0, "status", chainRunID), `"a": 20`, `"b": 3`)
	espalier(1, "reject", chainRunID, "--note", "not today")
	has(espalier(0, "transcript", chainRunID), "The sum of 5 and 2 is 7", "not today")
	gone()
}

// summing is an AIFLOW file with a tool of an MCP server.
const summing = `{"flow": {"name": "sum", "entry_agent": "a",
  "logic": [{"id": "r", "from": "a", "to": "b", "condition": "always"}]},
"metadata": {"name": "sum", "version": "1.0.0", "description": "d"},
"agents": [
  {"id": "a", "name": "A", "role": "r", "model": {"provider": "google", "name": "m"}, "prompt": "p", "tools": ["plus"]},
  {"id": "b", "name": "B", "role": "r", "model": {"provider": "google", "name": "m"}, "prompt": "p", "output_format": "text"}],
"prompts": {"p": "Add the numbers."},
"tools": {"plus": {"type": "mcp", "server": "everything", "tool": "get-sum"}}}`

// A tool of an AIFLOW file may be a tool of an MCP server. The agent calls it by the name in the file, and the trace
// has its result.
func TestAIFlowCallsToolsOfMCPServers(t *testing.T) {
	k, gone := newMCPServerProject(t)
	writeApproved(t, filepath.Join(k.dir, "sum.aiflow"), summing)
	writeApproved(t, filepath.Join(k.dir, "sum.script.yaml"), "replies:\n"+
		"  - {step: a, turn: 1, tools: [{name: plus, input: {a: 5, b: 2}}]}\n"+
		"  - {step: a, turn: 2, reply: '{\"ok\": true}'}\n  - {step: b, reply: Done.}\n")
	run := k.command("run", "sum.aiflow", "--allow-shell", "--script", "sum.script.yaml", "--run-id", chainRunID)
	if out, err := run.CombinedOutput(); err != nil || !strings.Contains(string(out), "Done.") {
		t.Fatalf("%v: %s", err, out)
	}
	out, err := k.command("transcript", chainRunID).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "The sum of 5 and 2 is 7") {
		t.Errorf("%v: %s", err, out)
	}
	gone()
}

// asking is a workflow with a tool that asks a person, an agent that calls it, and a tool that asks the model.
const asking = "---\nname: asking\nkind: agent-flow/workflow\nversion: 1.0.0\ndescription: Ask.\n" +
	"budgets: {max_tokens: 6000}\n---\n" +
	"```agent\nid: clerk\nrole: Asks.\ngoal: Ask.\n" +
	"tools: [everything.trigger-elicitation-request, everything.trigger-sampling-request, everything.get-sum]\n```\n" +
	"```step\nid: form\ntype: tool\ndescription: Ask\ntool: everything.trigger-elicitation-request\nargs: {}\n" +
	"writes: [output.form]\n```\n" +
	"```step\nid: poem\ntype: tool\ndescription: Sample\ntool: everything.trigger-sampling-request\n" +
	"args: {prompt: a haiku, maxTokens: 40}\nwrites: [output.poem]\n```\n" +
	"```step\nid: chat\ntype: skill\ndescription: Ask\nagent: clerk\nwrites: [output.said]\n```\n"

// A tool of an MCP server can ask a person and the model of the run. The question is a gate: the run waits without a
// process, the answer must fit the schema of the question, and the call is made again with it. Replies of the model
// count toward the budget, and none is generated twice.
func TestToolsOfMCPServersAskPeopleAndModels(t *testing.T) {
	k := newChainProject(t, 0)
	program := npmtest.Program(t, "@modelcontextprotocol/server-everything@2026.8.31", "mcp-server-everything")
	writeApproved(t, filepath.Join(k.dir, "espalier.yaml"),
		"mcp: {everything: {command: ["+program+", stdio], sampling: true}}\n")
	writeApproved(t, filepath.Join(k.dir, "asking.md"), asking)
	writeApproved(t, filepath.Join(k.dir, "replies.yaml"), "replies:\n"+
		"  - {step: poem, reply: autumn moonlight, usage: {input: 900, output: 11}}\n"+
		"  - step: chat\n    turn: 1\n    usage: {input: 1, output: 1}\n    tools:\n"+
		"      - {name: everything.get-sum, input: {a: 5, b: 2}}\n"+
		"      - {name: everything.trigger-elicitation-request, input: {}}\n"+
		"  - {step: chat, turn: 2, reply: Done., usage: {input: 1, output: 1}}\n")
	espalier := func(exit int, args ...string) string {
		t.Helper()
		cmd := k.command(args...)
		out, _ := cmd.CombinedOutput() // how it ended is looked at
		if got := cmd.ProcessState.ExitCode(); got != exit {
			t.Fatalf("espalier %s: exit code %d, not %d\n%s", strings.Join(args, " "), got, exit, out)
		}
		return string(out)
	}
	has := func(text string, wants ...string) {
		t.Helper()
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in %s", want, text)
			}
		}
	}
	espalier(4, "run", "asking.md", "--allow-shell", "--script", "replies.yaml", "--run-id", chainRunID)
	has(espalier(0, "status", chainRunID), "form asks a question", "Please provide inputs", "legal name",
		"--value JSON")
	has(espalier(2, "approve", chainRunID, "--value", `{"name": 7}`), "does not fit its schema")
	has(espalier(2, "approve", chainRunID, "--value", `{"name"`), "not JSON")
	// The agent asks in the next step, beside a call that needs no answer.
	espalier(4, "approve", chainRunID, "--value", `{"name": "Ada", "integer": 7}`)
	status := espalier(0, "status", chainRunID)
	has(status, "chat asks a question", "clerk")
	has(espalier(0, "reject", chainRunID), "Done.")
	record := espalier(0, "transcript", chainRunID)
	has(record, "autumn moonlight", `\"name\": \"Ada\"`, "decline", "The sum of 5 and 2 is 7")
	if n := strings.Count(record, `"type":"tool_result"`); strings.Count(record, "The sum of 5 and 2 is 7") > 2 {
		t.Errorf("the sum was computed again, with %d results: %s", n, record)
	}
	var state struct {
		Used struct {
			ToolCalls    int `json:"tool_calls"`
			ModelCalls   int `json:"model_calls"`
			InputTokens  int `json:"input_tokens"`
			OutputTokens int `json:"output_tokens"`
		} `json:"used"`
	}
	if err := json.Unmarshal([]byte(espalier(0, "status", chainRunID, "--json")), &state); err != nil {
		t.Fatal(err)
	}
	if u := state.Used; u.ToolCalls != 4 || u.ModelCalls != 3 || u.InputTokens != 902 || u.OutputTokens != 13 {
		t.Errorf("used %+v", u)
	}
}

// A tool that asks the model does not exceed the budget of the run.
func TestSamplingStaysWithinTheBudget(t *testing.T) {
	k := newChainProject(t, 0)
	program := npmtest.Program(t, "@modelcontextprotocol/server-everything@2026.8.31", "mcp-server-everything")
	writeApproved(t, filepath.Join(k.dir, "espalier.yaml"),
		"mcp: {everything: {command: ["+program+", stdio], sampling: true}}\n")
	writeApproved(t, filepath.Join(k.dir, "poem.md"), "---\nname: poem\nkind: agent-flow/workflow\nversion: 1.0.0\n"+
		"description: Ask.\nbudgets: {max_tokens: 10}\n---\n"+
		"```step\nid: poem\ntype: tool\ndescription: Sample\ntool: everything.trigger-sampling-request\n"+
		"args: {prompt: a haiku, maxTokens: 40}\nwrites: [output.poem]\n```\n")
	writeApproved(t, filepath.Join(k.dir, "replies.yaml"), "replies:\n  - {step: poem, reply: autumn moonlight}\n")
	run := k.command("run", "poem.md", "--allow-shell", "--script", "replies.yaml", "--run-id", chainRunID)
	out, _ := run.CombinedOutput() // how it ended is looked at
	if code := run.ProcessState.ExitCode(); code == 0 || strings.Contains(string(out), "autumn moonlight") {
		t.Errorf("exit code %d: %s", code, out)
	}
	if status, err := k.command("status", chainRunID).CombinedOutput(); err != nil ||
		!strings.Contains(string(status), "tokens") {
		t.Errorf("%v: %s", err, status)
	}
}
