//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// awfClaude notes how it was called, and answers as claude does.
const awfClaude = `#!/bin/sh
prompt=$(cat)
session=
model=
tools=
while [ $# -gt 0 ]; do
  case "$1" in
  --resume) session="$2"; how=resumed; shift;;
  --session-id) session="$2"; how=begun; shift;;
  --model) model="$2"; shift;;
  --allowedTools) tools="$2 $3 $4"; shift;;
  esac
  shift
done
echo "$how $session model=$model prompt=$prompt" >> "$CALLS"
echo '{"type":"system","subtype":"init","session_id":"'$session'","model":"m"}'
echo '{"type":"assistant","message":{"id":"1","model":"m","content":[{"type":"text","text":"it heard: '"$prompt"'"}],"usage":{"input_tokens":5,"output_tokens":3}}}'
echo '{"type":"result","subtype":"success","session_id":"'$session'","result":"it heard: '"$prompt"'","num_turns":1,"total_cost_usd":0.01,"usage":{"input_tokens":5,"output_tokens":3}}'
`

func (p *awfProject) writeFile(name, text string, mode os.FileMode) {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		p.t.Fatal(err)
	}
	approve(p.t, path)
}

// The provider claude is the program; a conversation that goes on is a session
// that goes on, also in a loop, and across runs of the program.
func TestAWFClaudeContinuesItsSession(t *testing.T) {
	p := newAWF(t, `  initial: ask
  ask: {type: agent, provider: claude, prompt: first, options: {model: opus, allowed_tools: "Read,Bash(git log *)"}, conversation: {}, on_success: more}
  more: {type: for_each, items: "second,third", body: [go_on], on_complete: other}
  go_on: {type: agent, provider: claude, prompt: "{{.loop.Item}}", conversation: {continue_from: ask}}
  other: {type: agent, provider: claude, mode: conversation, prompt: "about {{.states.go_on.Output}}", on_success: done}
  done: {type: terminal}
`)
	p.writeFile("bin/claude", awfClaude, 0o700)
	t.Setenv("PATH", filepath.Join(p.dir, "bin")+":"+os.Getenv("PATH"))
	p.writeFile("espalier.yaml", "models: {clis: {claude-code: {pass_env: [CALLS]}}}\n", 0o600)
	t.Setenv("CALLS", filepath.Join(p.dir, "calls"))
	run := p.command("run", "flow", "--allow-shell", "--run-id", awfRunID)
	run.Stdin = strings.NewReader("\n") // an empty line ends the conversation
	if output, err := run.CombinedOutput(); err != nil || !strings.Contains(string(output), "about it heard: third") {
		t.Errorf("%v: %s", err, output)
	}
	raw, err := os.ReadFile(filepath.Join(p.dir, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	var calls [][]string
	for line := range strings.Lines(string(raw)) {
		calls = append(calls, strings.SplitN(strings.TrimSpace(line), " ", 4))
	}
	if len(calls) != 4 {
		t.Fatalf("%q", calls)
	}
	first := calls[0][1]
	for i, want := range [][]string{
		{"begun", first, "model=opus", "prompt=first"},
		{"resumed", first, "model=", "prompt=second"},
		{"resumed", first, "model=", "prompt=third"},
		{"begun", calls[3][1], "model=", "prompt=about it heard: third"},
	} {
		if fmt.Sprint(calls[i]) != fmt.Sprint(want) {
			t.Errorf("call %d: %q, want %q", i, calls[i], want)
		}
	}
	if calls[3][1] == first {
		t.Error("a conversation of its own went on with another one")
	}
	if output := p.wantExit(0, "transcript", awfRunID); !strings.Contains(output, `"path":"more.go_on","iteration":1`) || !strings.Contains(output, `"fidelity":"agent_emitted","text":"it heard: third"`) {
		t.Error(output)
	}
}

// modelRequest is a request that the server received.
type modelRequest struct {
	Key, Path   string
	Model       string           `json:"model"`
	Temperature float64          `json:"temperature"`
	Most        int              `json:"max_tokens"`
	Messages    []requestMessage `json:"messages"`
	Tools       []struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	} `json:"tools"`
	BaseURL any `json:"base_url"`
}

type requestMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// The provider openai_compatible is the server that the options name, with the
// key that they give; JSON in a fence is JSON; tools of the proxy are called.
func TestAWFOpenAICompatibleAsksTheServerOfItsOptions(t *testing.T) {
	var mu sync.Mutex
	var requests []modelRequest
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := modelRequest{Key: r.Header.Get("Authorization"), Path: r.URL.Path}
		if err := json.NewDecoder(r.Body).Decode(&h); err != nil {
			t.Error(err)
		}
		mu.Lock()
		requests = append(requests, h)
		n := len(requests)
		mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		say := func(delta, finish string) {
			fmt.Fprintf(w, "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"model\":\"m\","+
				"\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":%s}]}\n\n", delta, finish)
		}
		if n == 1 {
			say(`{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"Bash","arguments":"{\"command\":\"echo tool-ran\"}"}}]}`, "null")
			say("{}", `"tool_calls"`)
		} else {
			text, _ := json.Marshal("```json\n{\"n\": 7}\n```")
			say(`{"role":"assistant","content":`+string(text)+`}`, "null")
			say("{}", `"stop"`)
		}
		fmt.Fprint(w, "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[],"+
			"\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":4,\"total_tokens\":13}}\n\ndata: [DONE]\n\n")
	}))
	defer server.Close()
	p := newAWF(t, `  initial: ask
  ask:
    type: agent
    provider: openai_compatible
    prompt: How many?
    system_prompt: Be brief, {{.inputs.x}}.
    output_format: json
    mcp_proxy: {enable: true}
    options: {base_url: "`+server.URL+`/v1", model: small, api_key: "${MY_KEY}", temperature: 0.5, max_tokens: 77}
    on_success: tell
  tell: {type: step, command: 'echo "{{.states.ask.JSON.n}} {{.states.ask.Response.n}} {{.states.ask.TokensUsed}} {{.states.ask.TokensEstimated}}"', on_success: done}
  done: {type: terminal}
`)
	t.Setenv("MY_KEY", "key-of-mine-12345")
	t.Setenv("OPENAI_API_KEY", "key-of-openai-999")
	if output := p.wantExit(0, "run", "flow", "--allow-shell", "--run-id", awfRunID); !strings.Contains(output,
		"\n7 7 26 false\n") {
		t.Error(output)
	}
	if len(requests) != 2 {
		t.Fatalf("%d requests", len(requests))
	}
	first := requests[0]
	if first.Key != "Bearer key-of-mine-12345" || first.Path != "/v1/chat/completions" || first.Model != "small" ||
		first.Temperature != 0.5 || first.Most != 77 || len(first.Tools) != 6 || first.BaseURL != nil {
		t.Errorf("%+v", first)
	}
	if first.Messages[0].Role != "system" ||
		!strings.Contains(string(first.Messages[0].Content), "Be brief, {{.inputs.x}}.") {
		t.Errorf("the system prompt is no template: %s", first.Messages[0].Content)
	}
	output := p.wantExit(0, "transcript", awfRunID)
	if !strings.Contains(output, `"name":"Bash","call_id":"c1"`) || !strings.Contains(output, "tool-ran") {
		t.Error(output)
	}
	out, err := exec.Command("grep", "-rl", "key-of-mine-12345", filepath.Join(p.dir, ".espalier")).Output()
	if len(out) > 0 {
		t.Errorf("the key is in %s, %v", out, err)
	}
}

// With stream: false the server is asked for the reply in one piece, which is
// read, and charged once.
func TestAWFWithoutStreamGetsTheReplyInOnePiece(t *testing.T) {
	var mu sync.Mutex
	var bodies []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		bodies = append(bodies, string(raw))
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"seven"},"finish_reason":"stop"}],`+
			`"usage":{"prompt_tokens":9,"completion_tokens":4,"total_tokens":13}}`)
	}))
	defer server.Close()
	p := newAWF(t, `  initial: ask
  ask:
    type: agent
    provider: openai_compatible
    prompt: How many?
    options: {base_url: "`+server.URL+`/v1", model: small, stream: false}
    on_success: tell
  tell: {type: step, command: 'echo "{{.states.ask.Output}} {{.states.ask.TokensUsed}}"', on_success: done}
  done: {type: terminal}
`)
	t.Setenv("OPENAI_API_KEY", "key-of-openai-999")
	if output := p.wantExit(0, "run", "flow", "--allow-shell", "--run-id", awfRunID); !strings.Contains(output,
		"\nseven 13\n") {
		t.Error(output)
	}
	if len(bodies) != 1 || !strings.Contains(bodies[0], `"stream":false`) || strings.Contains(bodies[0], "stream_options") {
		t.Errorf("asked %q", bodies)
	}
}
