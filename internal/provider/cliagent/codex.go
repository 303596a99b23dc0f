package cliagent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/provider"
)

// Codex is the dialect of OpenAI's codex: codex exec with JSON lines. It does everything in a shell inside its own
// sandbox; the granted tools determine the kind of sandbox.
type Codex struct{}

var codexTools = []string{"Read", "Glob", "Grep", "Write", "Edit", "Bash", "WebSearch", "TodoWrite"}

// Info reports which restrictions cannot be enforced.
func (Codex) Info(name string) provider.AgentInfo {
	return provider.AgentInfo{
		Name: name, Tools: codexTools, Resumes: true, Acts: acts,
		Problem: func(grants []provider.Grant, denied []string) string {
			if slices.Contains(denied, "Bash") {
				return fmt.Sprintf("the program %s does everything in a shell, and the workflow's denylist has %q",
					name, "Bash")
			}
			return narrows(name, grants)
		},
	}
}

// ownTools maps the tools that workflows may name to those of a program that can only enable or disable whole tools.
type ownTools []struct {
	name string
	own  []string
}

// info returns the capabilities of the program.
func (list ownTools) info(name string) provider.AgentInfo {
	info := provider.AgentInfo{
		Name: name, Resumes: true, NamesSession: true, Acts: acts,
		Problem: func(grants []provider.Grant, _ []string) string { return narrows(name, grants) },
	}
	for _, t := range list {
		info.Tools = append(info.Tools, t.name)
	}
	return info
}

// granted reports whether a tool is granted.
func granted(grants []provider.Grant, tool string) bool {
	return slices.ContainsFunc(grants, func(g provider.Grant) bool { return g.Tool == tool })
}

// narrows returns why grants that restrict a tool's arguments cannot be enforced, for an agent that can only enable or
// disable whole tools.
func narrows(name string, grants []provider.Grant) string {
	for _, g := range grants {
		for _, list := range [][]string{g.Only, g.Never} {
			if len(list) > 0 {
				return fmt.Sprintf("the program %s cannot enforce %s: it can only allow or deny whole tools",
					name, list[0])
			}
		}
	}
	return ""
}

// PlainText implements Dialect.
func (Codex) PlainText() bool { return false }

// Call selects a read-only sandbox, or one with write access to the working directory if a granted tool writes. Rules
// of the project are ignored, because they come from an unknown author. The prompt is written to standard input ("-").
func (Codex) Call(req *provider.Request, more []string) (Call, error) {
	call := Call{Stdin: prompt(req, true)}
	add := func(args ...string) { call.Args = append(call.Args, args...) }
	mode := "read-only"
	if acts(req.Task.Grants) {
		mode = "workspace-write"
	}
	add("exec", "--json", "--color", "never", "--skip-git-repo-check", "--ignore-rules", "--sandbox", mode)
	if !granted(req.Task.Grants, "WebSearch") {
		add("--config", `web_search="disabled"`)
	}
	if req.Model != "" {
		add("--model", req.Model)
	}
	add(more...)
	if req.Task.Session != "" {
		add("resume", req.Task.Session)
	}
	add("-")
	return call, nil
}

type codexLine struct {
	Type   string `json:"type"`
	Thread string `json:"thread_id"`
	Item   *struct {
		ID        string          `json:"id"`
		Type      string          `json:"type"`
		Text      string          `json:"text"`
		Message   string          `json:"message"`
		Command   json.RawMessage `json:"command"`
		Output    *string         `json:"aggregated_output"`
		Exit      *int            `json:"exit_code"`
		Status    string          `json:"status"`
		Changes   json.RawMessage `json:"changes"`
		Server    string          `json:"server"`
		Tool      string          `json:"tool"`
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		Result    json.RawMessage `json:"result"`
		Error     *problem        `json:"error"`
		Query     json.RawMessage `json:"query"`
	} `json:"item"`
	Usage *struct {
		Input      int64 `json:"input_tokens"` // includes cached tokens
		CacheRead  int64 `json:"cached_input_tokens"`
		CacheWrite int64 `json:"cache_write_input_tokens"`
		Output     int64 `json:"output_tokens"`
	} `json:"usage"`
	Message string   `json:"message"`
	Error   *problem `json:"error"`
}

// ParseLine implements Dialect.
func (Codex) ParseLine(line []byte, t *Turn) {
	var l codexLine
	if json.Unmarshal(line, &l) != nil {
		return
	}
	switch l.Type {
	case "thread.started":
		t.inSession(l.Thread)
	case "item.started", "item.updated", "item.completed":
		if l.Item != nil {
			codexItem(&l, t, l.Type == "item.completed")
		}
	case "turn.completed":
		t.ended = true
		t.turns++
		if u := l.Usage; u != nil {
			t.usage = provider.Usage{
				Input: max(0, u.Input-u.CacheRead-u.CacheWrite), Output: u.Output, CacheRead: u.CacheRead,
				CacheWrite: u.CacheWrite,
			}
		}
	case "error":
		t.problem = l.Message // the program may retry
	case "turn.failed":
		t.fail(ir.ClassAPI, 0, "%s", l.Error.or(unexplained))
	}
}

// codexItem records an item: texts when they are complete, calls when they start and when they end.
func codexItem(l *codexLine, t *Turn, done bool) {
	i := l.Item
	var input json.RawMessage
	name := i.Type
	switch i.Type {
	case "agent_message", "assistant_message":
		if done {
			t.addBlock(provider.Text, i.Text, "")
		}
		return
	case "reasoning":
		if done {
			t.addBlock(provider.Thinking, i.Text, "")
		}
		return
	case "command_execution":
		input = toJSON(map[string]json.RawMessage{"command": object(i.Command)})
	case "file_change":
		input = toJSON(map[string]json.RawMessage{"changes": object(i.Changes)})
	case "mcp_tool_call":
		name, input = i.Server+"."+i.Tool, i.Arguments
	case "web_search":
		input = toJSON(map[string]json.RawMessage{"query": object(i.Query)})
	case "function_call":
		name, input = i.Name, i.Arguments
	default: // to-do lists, warnings, and types that newer releases add
		return
	}
	t.call(i.ID, name, input)
	if !done {
		return
	}
	var output json.RawMessage
	failed := ""
	switch {
	case i.Output != nil:
		result := map[string]any{"output": withoutNUL(*i.Output)}
		if i.Exit != nil {
			result["exit_code"] = *i.Exit
		}
		output = toJSON(result)
	case len(i.Result) > 0:
		output = i.Result
	}
	if i.Exit != nil && *i.Exit != 0 {
		failed = fmt.Sprintf("exit code %d", *i.Exit)
	}
	states := map[string]string{"failed": "it failed", "declined": "it was not allowed"}
	t.returned(i.ID, name, input, output, i.Error.or(cmp.Or(failed, states[i.Status])))
}
