package cliagent

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/provider"
)

// Copilot is the dialect of GitHub's copilot, with JSON lines.
type Copilot struct{}

// copilotTools maps the tools that workflows may name to those of the program.
var copilotTools = ownTools{
	{"Read", []string{"view"}},
	{"Write", []string{"create"}},
	{"Edit", []string{"edit"}},
	{"Glob", []string{"glob"}},
	{"Grep", []string{"grep"}},
	{"Bash", []string{"bash", "read_bash", "stop_bash", "list_bash"}},
	{"WebFetch", []string{"web_fetch"}},
}

// Info reports that only whole tools can be enabled or disabled.
func (Copilot) Info(name string) provider.AgentInfo { return copilotTools.info(name) }

// PlainText implements Dialect.
func (Copilot) PlainText() bool { return false }

// Call makes only the granted tools available and allows them all. What is not available cannot be called, so allowing
// all tools does not grant others.
func (Copilot) Call(req *provider.Request, more []string) (Call, error) {
	call := Call{Stdin: prompt(req, true)}
	add := func(args ...string) { call.Args = append(call.Args, args...) }
	add("--output-format", "json", "--stream", "off", "--no-color", "--no-auto-update", "--no-ask-user",
		"--disable-builtin-mcps", "--disallow-temp-dir")
	var seen []string
	for _, t := range copilotTools {
		if granted(req.Task.Grants, t.name) {
			seen = append(seen, t.own...)
		}
	}
	if len(seen) == 0 {
		seen = []string{"none"} // an empty list would make all tools available
	}
	add("--available-tools="+strings.Join(seen, ","), "--allow-all-tools")
	if slices.Contains(seen, "web_fetch") {
		add("--allow-all-urls")
	}
	if req.Model != "" {
		add("--model", req.Model)
	}
	switch {
	case req.Task.Session != "":
		add("--resume=" + req.Task.Session)
	case req.Task.NewSession != "":
		add("--session-id=" + req.Task.NewSession)
	}
	add(more...)
	return call, nil
}

type copilotLine struct {
	Type    string `json:"type"`
	Session string `json:"sessionId"`
	Exit    *int   `json:"exitCode"`
	Data    struct {
		Content   string          `json:"content"`
		Reasoning string          `json:"reasoningText"`
		Model     string          `json:"model"`
		ID        string          `json:"toolCallId"`
		Tool      string          `json:"toolName"`
		Arguments json.RawMessage `json:"arguments"`
		Success   bool            `json:"success"`
		Result    *struct {
			Content json.RawMessage `json:"content"`
		} `json:"result"`
		Error      *problem `json:"error"`
		Message    string   `json:"message"`
		Status     int      `json:"statusCode"`
		Input      int64    `json:"inputTokens"`
		Output     int64    `json:"outputTokens"`
		CacheRead  int64    `json:"cacheReadTokens"`
		CacheWrite int64    `json:"cacheWriteTokens"`
		Call       string   `json:"apiCallId"`
		Parent     *string  `json:"parentToolCallId"` // set for messages of a subagent
	} `json:"data"`
}

// ParseLine implements Dialect.
func (Copilot) ParseLine(line []byte, t *Turn) {
	var l copilotLine
	if json.Unmarshal(line, &l) != nil {
		return
	}
	d := &l.Data
	switch l.Type {
	case "assistant.turn_start":
		t.begun = true
		t.turns++
	case "assistant.message":
		if d.Parent != nil {
			return
		}
		if d.Model != "" {
			t.model = d.Model
		}
		t.addBlock(provider.Thinking, d.Reasoning, "")
		t.addBlock(provider.Text, d.Content, "")
	case "assistant.usage":
		t.uses(d.Call, provider.Usage{
			Input: max(0, d.Input-d.CacheRead), Output: d.Output, CacheRead: d.CacheRead,
			CacheWrite: d.CacheWrite,
		})
	case "tool.execution_start":
		t.call(d.ID, d.Tool, d.Arguments)
	case "tool.execution_complete":
		var output json.RawMessage
		if d.Result != nil {
			output = d.Result.Content
		}
		failed := ""
		if !d.Success {
			failed = d.Error.or("it failed")
		}
		t.returned(d.ID, d.Tool, nil, output, failed)
	case "session.error":
		t.problem, t.status = d.Message, d.Status
	case "result":
		if l.Exit != nil && *l.Exit != 0 {
			why := cmp.Or(t.problem, unexplained)
			t.fail(classOf(t.status), t.status, "%s", why)
			return
		}
		t.inSession(l.Session)
		t.ended = true
	}
}
