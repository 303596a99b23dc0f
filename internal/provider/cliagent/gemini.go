package cliagent

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/provider"
)

// Gemini is the dialect of Google's gemini, with a stream of JSON lines.
type Gemini struct{}

// geminiTools maps the tools that workflows may name to those of the program.
var geminiTools = ownTools{
	{"Read", []string{"read_file", "read_many_files", "list_directory"}},
	{"Write", []string{"write_file"}},
	{"Edit", []string{"replace"}},
	{"Glob", []string{"glob"}},
	{"Grep", []string{"grep_search", "search_file_content"}},
	{"Bash", []string{"run_shell_command"}},
	{"WebFetch", []string{"web_fetch"}},
	{"WebSearch", []string{"google_web_search"}},
	{"TodoWrite", []string{"write_todos"}},
}

// Info reports that only whole tools can be enabled or disabled.
func (Gemini) Info(name string) provider.AgentInfo { return geminiTools.info(name) }

// PlainText implements Dialect.
func (Gemini) PlainText() bool { return false }

// Call passes a policy that overrides those of the user and of the project.
func (Gemini) Call(req *provider.Request, more []string) (Call, error) {
	call := Call{Stdin: prompt(req, true), Files: map[string]string{"policy.toml": geminiPolicy(req.Task.Grants)}}
	add := func(args ...string) { call.Args = append(call.Args, args...) }
	add("--output-format", "stream-json", "--skip-trust", "--admin-policy", FilesDir+"/policy.toml")
	if req.Model != "" {
		add("--model", req.Model)
	}
	switch {
	case req.Task.Session != "":
		add("--resume", req.Task.Session)
	case req.Task.NewSession != "":
		add("--session-id", req.Task.NewSession)
	}
	add(more...)
	return call, nil
}

// geminiPolicy denies everything that is not granted, in the format of the program's policy engine: of the rules that
// match, the one with the highest priority counts.
func geminiPolicy(grants []provider.Grant) string {
	var b strings.Builder
	rule := func(tool, decision string, priority int) {
		fmt.Fprintf(&b, "[[rule]]\ntoolName = %q\ndecision = %q\npriority = %d\n", tool, decision, priority)
	}
	rule("*", "deny", 100)
	for _, t := range geminiTools {
		if !granted(grants, t.name) {
			continue
		}
		for _, own := range t.own {
			rule(own, "allow", 200)
			if t.name == "Bash" {
				b.WriteString("allowRedirection = true\n")
			}
		}
	}
	return b.String()
}

type geminiLine struct {
	Type    string          `json:"type"`
	Session string          `json:"session_id"`
	Model   string          `json:"model"`
	Role    string          `json:"role"`
	Content string          `json:"content"`
	Delta   bool            `json:"delta"`
	Tool    string          `json:"tool_name"`
	ID      string          `json:"tool_id"`
	Input   json.RawMessage `json:"parameters"`
	Status  string          `json:"status"`
	Output  json.RawMessage `json:"output"`
	Error   *problem        `json:"error"`
	Stats   *struct {
		Input     int64 `json:"input_tokens"`
		Output    int64 `json:"output_tokens"`
		CacheRead int64 `json:"cached"`
		Calls     int   `json:"tool_calls"`
	} `json:"stats"`
}

// ParseLine implements Dialect.
func (Gemini) ParseLine(line []byte, t *Turn) {
	var l geminiLine
	if json.Unmarshal(line, &l) != nil {
		return
	}
	switch l.Type {
	case "init":
		t.inSession(l.Session)
		t.model = l.Model
	case "message":
		switch {
		case l.Role != "assistant":
		case l.Delta:
			t.addDelta(l.Content)
		default:
			t.addBlock(provider.Text, l.Content, "")
		}
	case "tool_use":
		t.call(l.ID, l.Tool, l.Input)
	case "tool_result":
		failed := ""
		if l.Status == "error" {
			failed = l.Error.or("it failed")
		}
		t.returned(l.ID, l.Tool, nil, l.Output, failed)
	case "result":
		if s := l.Stats; s != nil {
			t.usage = provider.Usage{Input: max(0, s.Input-s.CacheRead), Output: s.Output, CacheRead: s.CacheRead}
			t.turns = s.Calls + 1
		}
		if l.Status == "error" {
			t.fail(ir.ClassAPI, 0, "%s", l.Error.or(unexplained))
			return
		}
		t.ended = true
	}
}
