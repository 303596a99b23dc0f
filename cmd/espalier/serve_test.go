//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// serverProcess is a server in a separate process.
type serverProcess struct {
	t     *testing.T
	cmd   *exec.Cmd
	url   string
	token string
}

// startServer starts "espalier serve" in a project and returns when it answers.
func startServer(p *awfProject, more ...string) *serverProcess { return startServerTo(p, nil, more...) }

// startServerTo is startServer with a writer for what the server logs.
func startServerTo(p *awfProject, log io.Writer, more ...string) *serverProcess {
	p.t.Helper()
	cmd := p.command(append([]string{"serve", "--addr", "127.0.0.1:0", "--json"}, more...)...)
	cmd.Stderr = log
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	var at struct{ Address string }
	if err := json.NewDecoder(stdout).Decode(&at); err != nil {
		p.t.Fatal(err)
	}
	go io.Copy(io.Discard, stdout)
	token, err := os.ReadFile(filepath.Join(p.dir, ".espalier", "server-token"))
	if err != nil {
		p.t.Fatal(err)
	}
	return &serverProcess{t: p.t, cmd: cmd, url: "http://" + at.Address, token: strings.TrimSpace(string(token))}
}

// call makes a request and returns the response, whose status it checks.
func (s *serverProcess) call(method, path, body string, want int) map[string]any {
	s.t.Helper()
	r, err := http.NewRequest(method, s.url+path, bytes.NewReader([]byte(body)))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	if path == "/api/v1/events" {
		r.Header.Set("Content-Type", "application/cloudevents+json")
	}
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer w.Body.Close()
	raw, err := io.ReadAll(w.Body)
	if err != nil || w.StatusCode != want {
		s.t.Fatalf("%s %s: %d %s %v", method, path, w.StatusCode, raw, err)
	}
	var out map[string]any
	if err := json.Unmarshal(raw, &out); err != nil {
		s.t.Fatalf("%s: %v", raw, err)
	}
	return out
}

// waitForState asks for a run until it is in a state.
func (s *serverProcess) waitForState(run, state string) {
	s.t.Helper()
	s.waitForAnyState(run, state)
}

// waitReady asks the server until it is ready, for up to a minute.
func (s *serverProcess) waitReady() {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		status, body := s.requestText("GET", "/readyz", "")
		if status == 200 {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("/readyz: %d %s", status, body)
		}
	}
}

// waitForAnyState asks for a run until it is in one of several states.
func (s *serverProcess) waitForAnyState(run string, states ...string) {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		got := s.call("GET", "/api/v1/runs/"+run, "", 200)
		if state, _ := got["state"].(string); slices.Contains(states, state) {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("the run is %v", got)
		}
	}
}

func TestKilledServerContinuesItsRunsAfterARestart(t *testing.T) {
	p := newAWF(t, awfChain)
	writeApproved(t, filepath.Join(p.dir, "espalier.yaml"), "allow: {shell: true}\n")
	writeApproved(t, filepath.Join(p.dir, "hold"), "b")
	s := startServer(p)
	run := s.call("POST", "/api/v1/runs", `{"workflow": "flow"}`, 201)["run_id"].(string)
	// waits for the step
	if held, err := os.ReadFile(filepath.Join(p.dir, "held")); err != nil || string(held) != "b\n" {
		t.Fatalf("%q, %v", held, err)
	}
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.cmd.Wait()
	var log bytes.Buffer
	s = startServerTo(p, &log)
	s.waitForState(run, "unknown") // the command may have done its work
	s.call("POST", "/api/v1/runs/"+run+"/resolve", `{"step": "b", "answer": "rerun"}`, 200)
	s.waitForState(run, "finished")
	p.wantTrace("a", "b", "b", "c")
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.cmd.Wait()
	if code := s.cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit code %d", code)
	}
	if !strings.Contains(log.String(), `msg="run claimed" run_id=`+run) {
		t.Errorf("the log does not say what happens to runs: %s", &log)
	}
}

// What a terminal decides, a server drives, and the other way round.
func TestTerminalAndServerShareRuns(t *testing.T) {
	p := newAWF(t, awfChain)
	writeApproved(t, filepath.Join(p.dir, "espalier.yaml"), "allow: {shell: true}\n")
	s := startServer(p)
	p.wantExit(0, "run", "flow", "--detach", "--run-id", awfRunID)
	s.waitForState(awfRunID, "finished")
	p.wantTrace("a", "b", "c")
	if out := p.wantExit(0, "status", awfRunID, "--json"); !strings.Contains(out, "finished") {
		t.Error(out)
	}
}

// The records of a run that has the id of a removed one are its own, also if one process has written both.
func TestServerWritesRecordsOfAnIDThatIsUsedAgain(t *testing.T) {
	p := newAWF(t, awfChain)
	writeApproved(t, filepath.Join(p.dir, "espalier.yaml"), "allow: {shell: true}\n")
	writeApproved(t, filepath.Join(p.dir, "hold"), "a")
	s := startServer(p)
	p.wantExit(0, "run", "flow", "--detach", "--run-id", awfRunID)
	if _, err := os.ReadFile(filepath.Join(p.dir, "held")); err != nil { // waits for the step
		t.Fatal(err)
	}
	p.wantExit(0, "cancel", awfRunID)
	s.waitForState(awfRunID, "finished")
	p.wantExit(0, "audit", "verify", awfRunID) // which completes the records that the server still has to write
	p.wantExit(0, "runs", "rm", awfRunID)
	p.wantExit(0, "run", "flow", "--detach", "--run-id", awfRunID)
	s.waitForState(awfRunID, "finished")
	p.wantTrace("a", "a", "b", "c") // the first is of the removed run
	p.wantExit(0, "audit", "verify", awfRunID)
}

func TestServeRefusesToBeReachedWithoutUsersAndEncryption(t *testing.T) {
	p := newAWF(t, awfChain)
	for _, c := range []struct {
		args []string
		tell string
	}{
		{[]string{"serve", "--addr", "0.0.0.0:0"}, "not encrypted"},
		{[]string{"serve", "--addr", "0.0.0.0:0", "--trusted-proxy"}, "no users"},
		{[]string{"serve", "--public-url", "flows"}, "not the address"},
		{[]string{"serve", "--tls-cert", "x"}, "belong together"},
		{[]string{"serve", "--log-format", "xml"}, "log format"},
		{[]string{"user", "add", "ana"}, "needs a role"},
		{[]string{"user", "add", "ana", "--role", "boss"}, "unknown role"},
		{[]string{"user", "remove", "ana"}, "unknown user"},
	} {
		cmd := p.command(c.args...)
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != 2 || !strings.Contains(string(out), c.tell) {
			t.Errorf("%v: exit %d: %s", c.args, code, out)
		}
	}
	// Without an address, only this machine reaches the server.
	if taken, err := net.Listen("tcp", "127.0.0.1:7477"); err == nil { // or another program has it
		defer taken.Close()
	}
	if out := p.wantExit(6, "serve"); !strings.Contains(out, "cannot listen on 127.0.0.1:7477") {
		t.Error(out)
	}
	p.wantExit(0, "user", "add", "ana", "--role", "viewer")
	p.wantExit(0, "user", "roles", "ana", "operator", "approver:legal")
	p.wantExit(0, "user", "logout", "ana")
	if out := p.wantExit(0, "user", "list"); !strings.Contains(out, "ana  operator, approver:legal") {
		t.Error(out)
	}
	p.wantExit(0, "user", "remove", "ana")
	if out := p.wantExit(0, "user", "list"); strings.Contains(out, "ana") {
		t.Error(out)
	}
}

// TestTriggersOfAgentfileReachTheServerAndAgents lists the command names of an Agentfile workflow through the API of
// the server, starts runs by them, and calls a workflow with the trigger natural-language as a tool of MCP.
func TestTriggersOfAgentfileReachTheServerAndAgents(t *testing.T) {
	p := newAWF(t, awfChain)
	const steps = "steps:\n" +
		"  - {id: one, name: One, agent: agents/a.md, goal: Greet, input: $TOPIC, produces: outputs/x.md}\n"
	for name, trigger := range map[string]string{
		"maker":  `{type: command, input_var: TOPIC, commands: {create: "/agentfile:create <name>", list: "/agentfile:list"}}`,
		"talker": `{type: natural-language, input_var: TOPIC}`,
	} {
		p.writeFile("workflows/"+name+"/agents/a.md", "# A\n", 0o600)
		p.writeFile("workflows/"+name+"/workflow.yaml", "specVersion: \"1.0\"\nname: "+name+
			"\nversion: 1.0.0\ndescription: Greet people\ntrigger: "+trigger+"\n"+steps, 0o600)
	}
	p.writeFile("espalier.yaml", "triggers: {talker: {simulate: true}}\n", 0o600)

	found := map[string]any{}
	server := startServer(p)
	for _, one := range server.call("GET", "/api/v1/triggers", "", 200)["triggers"].([]any) {
		trigger := one.(map[string]any)
		found[trigger["workflow"].(string)] = []any{trigger["kind"], trigger["commands"]}
	}
	if got := fmt.Sprint(found); got != "map[maker:[command [create list]] talker:[natural-language <nil>]]" {
		t.Error(got)
	}
	for _, name := range []string{"create", "list", "/create", "/list"} {
		run := server.call("POST", "/api/v1/runs", `{"workflow": "`+name+`", "simulate": true, "input": {"TOPIC": "x"}}`, 201)
		if run["workflow"] != "maker" {
			t.Errorf("%s started %v", name, run["workflow"])
		}
	}
	for _, name := range []string{"/never", "//create", "/workflows/maker/workflow.yaml"} {
		server.call("POST", "/api/v1/runs", `{"workflow": "`+name+`", "simulate": true, "input": {"TOPIC": "x"}}`, 404)
	}

	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: p.command("mcp")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	tools, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range tools.Tools {
		names = append(names, tool.Name+": "+tool.Description)
	}
	if !slices.ContainsFunc(names, func(s string) bool { return strings.HasPrefix(s, "run_talker: Greet people") }) ||
		slices.ContainsFunc(names, func(s string) bool { return strings.HasPrefix(s, "run_maker") }) {
		t.Error(names)
	}
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{
		Name: "run_talker", Arguments: map[string]any{"TOPIC": "Ann"},
	})
	if err != nil || result.IsError {
		t.Fatalf("%v: %+v", err, result)
	}
}
