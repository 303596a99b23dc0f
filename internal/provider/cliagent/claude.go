package cliagent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/provider"
)

// Claude is the dialect of Claude Code: claude -p with a stream of JSON lines.
type Claude struct{}

// claudeTools are the tools of Claude Code that workflows may name.
var claudeTools = []string{
	"Read", "Write", "Edit", "Glob", "Grep", "Bash", "NotebookEdit", "WebFetch", "WebSearch", "Task", "TodoWrite",
}

// readOnlyTools are the tools, of all agents, that change nothing.
var readOnlyTools = []string{"Read", "Glob", "Grep", "WebFetch", "WebSearch", "TodoWrite"}

// acts reports whether grants allow an agent to change something.
func acts(grants []provider.Grant) bool {
	return slices.ContainsFunc(grants, func(g provider.Grant) bool { return !slices.Contains(readOnlyTools, g.Tool) })
}

// Info reports that every restriction of a step can be enforced.
func (Claude) Info(name string) provider.AgentInfo {
	return provider.AgentInfo{Name: name, Tools: claudeTools, Resumes: true, NamesSession: true, Acts: acts}
}

// PlainText implements Dialect.
func (Claude) PlainText() bool { return false }

// Call grants the program exactly the tools of the step, without confirmation: dontAsk denies everything that is not
// allowed. It ignores the settings of the project (setting-sources), because they come from an unknown author and could
// grant more. Tools that a grant restricts are allowed by their entries alone, such as Bash(git *).
func (Claude) Call(req *provider.Request, more []string) (Call, error) {
	call := Call{Stdin: prompt(req, false)}
	add := func(args ...string) { call.Args = append(call.Args, args...) }
	add("--print", "--output-format", "stream-json", "--verbose")
	add("--permission-mode", "dontAsk", "--setting-sources", "", "--strict-mcp-config", "--disable-slash-commands")
	var tools []string
	var allowed, denied []string
	for _, g := range req.Task.Grants {
		tools = append(tools, g.Tool)
		if len(g.Only) == 0 {
			allowed = append(allowed, g.Tool)
		}
		allowed = append(allowed, g.Only...)
		denied = append(denied, g.Never...)
	}
	add("--tools", strings.Join(tools, ","))
	if len(allowed) > 0 {
		add(append([]string{"--allowedTools"}, allowed...)...)
	}
	add(append([]string{"--disallowedTools", "Read(./" + storage + "/**)", "Edit(./" + storage + "/**)"}, denied...)...)
	if req.Model != "" {
		add("--model", req.Model)
	}
	if req.System != "" {
		call.Files = map[string]string{"system.md": req.System} // a file, because it may be too long for an argument
		add("--append-system-prompt-file", FilesDir+"/system.md")
	}
	if n := req.Task.Turns; n > 0 {
		add("--max-turns", strconv.Itoa(n))
	}
	if m := req.Task.MicroDollars; m > 0 {
		add("--max-budget-usd", strconv.FormatFloat(float64(m)/1e6, 'f', 6, 64))
	}
	switch {
	case req.Task.Session != "":
		add("--resume", req.Task.Session)
	case req.Task.NewSession != "":
		add("--session-id", req.Task.NewSession)
	}
	add(more...)
	call.Env = []string{"DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1"}
	return call, nil
}

// storage is Espalier's folder in the project, which agents must not access.
const storage = ".espalier"

// claudeLine is a line of any type; each type uses some of the fields.
type claudeLine struct {
	Type      string         `json:"type"`
	Subtype   string         `json:"subtype"`
	Session   string         `json:"session_id"`
	Model     string         `json:"model"`
	Message   *claudeMessage `json:"message"`
	Parent    *string        `json:"parent_tool_use_id"` // set for messages of a subagent
	IsError   bool           `json:"is_error"`
	Status    *int           `json:"api_error_status"`
	Result    *string        `json:"result"`
	Errors    []string       `json:"errors"`
	Turns     int            `json:"num_turns"`
	Cost      *float64       `json:"total_cost_usd"`
	Usage     claudeUsage    `json:"usage"`
	ModelsUse map[string]struct {
		Input      int64 `json:"inputTokens"`
		Output     int64 `json:"outputTokens"`
		CacheRead  int64 `json:"cacheReadInputTokens"`
		CacheWrite int64 `json:"cacheCreationInputTokens"`
	} `json:"modelUsage"`
}

type claudeMessage struct {
	ID      string          `json:"id"`
	Model   string          `json:"model"`
	Content json.RawMessage `json:"content"` // a string or blocks
	Usage   claudeUsage     `json:"usage"`
}

type claudeUsage struct {
	Input      int64 `json:"input_tokens"`
	Output     int64 `json:"output_tokens"`
	CacheRead  int64 `json:"cache_read_input_tokens"`
	CacheWrite int64 `json:"cache_creation_input_tokens"`
}

type claudeBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
}

// ParseLine implements Dialect.
func (Claude) ParseLine(line []byte, t *Turn) {
	var l claudeLine
	if json.Unmarshal(line, &l) != nil {
		return
	}
	switch l.Type {
	case "system":
		if l.Subtype == "init" {
			t.inSession(l.Session)
			t.model = l.Model
		}
	case "assistant":
		if l.Message != nil {
			claudeAssistant(&l, t)
		}
	case "user":
		if l.Message == nil {
			return
		}
		for _, b := range claudeBlocks(l.Message.Content) {
			if b.Type == "tool_result" {
				claudeToolResult(b, t)
			}
		}
	case "result":
		claudeResult(&l, t)
	}
}

// unexplained is the message for a failure that a program reports without a reason.
const unexplained = "reported a failure without a reason"

// problem is a failure that a program reports.
type problem struct {
	Message string `json:"message"`
}

// or returns the message, or another text without one.
func (p *problem) or(otherwise string) string {
	if p == nil {
		return otherwise
	}
	return cmp.Or(p.Message, otherwise)
}

// synthetic is the model of error messages that the program generates itself; the result repeats them.
const synthetic = "<synthetic>"

// claudeAssistant records a message of the model or of a subagent. Tool calls of subagents are recorded, too, because
// they act; their texts are not part of the reply.
func claudeAssistant(l *claudeLine, t *Turn) {
	m := l.Message
	if m.Model == synthetic {
		return
	}
	if m.Model != "" && l.Parent == nil {
		t.model = m.Model
	}
	for _, b := range claudeBlocks(m.Content) {
		switch {
		case b.Type == "tool_use":
			t.call(b.ID, b.Name, b.Input)
		case l.Parent != nil:
		case b.Type == "text":
			t.addBlock(provider.Text, b.Text, "")
		case b.Type == "thinking":
			t.addBlock(provider.Thinking, b.Thinking, b.Signature)
		}
	}
	t.uses(m.ID, provider.Usage(m.Usage))
}

func claudeToolResult(b claudeBlock, t *Turn) {
	problem := ""
	if b.IsError {
		problem = textOf(b.Content)
	}
	t.returned(b.ToolUseID, "", nil, b.Content, problem)
}

// textOf returns a JSON string, or the text of a list of blocks.
func textOf(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var blocks []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &blocks) == nil {
		var out []string
		for _, b := range blocks {
			out = append(out, b.Text)
		}
		if text = strings.Join(out, "\n"); strings.TrimSpace(text) != "" {
			return text
		}
	}
	return string(raw)
}

// claudeBlocks returns the blocks of a message; a plain string is one block.
func claudeBlocks(raw json.RawMessage) []claudeBlock {
	var blocks []json.RawMessage
	if json.Unmarshal(raw, &blocks) != nil {
		var text string
		if json.Unmarshal(raw, &text) == nil && text != "" {
			return []claudeBlock{{Type: "text", Text: text}}
		}
		return nil
	}
	var out []claudeBlock
	for _, one := range blocks {
		var b claudeBlock
		if json.Unmarshal(one, &b) == nil { // skip malformed blocks
			out = append(out, b)
		}
	}
	return out
}

// claudeResult reads the last line. Its usage covers all models, also those of subagents, and replaces the sum of the
// messages. An error before the work began has no session: the session to resume does not exist.
func claudeResult(l *claudeLine, t *Turn) {
	if !l.IsError || t.begun {
		t.inSession(l.Session)
	}
	t.turns = max(t.turns, l.Turns)
	if u := l.total(); u != (provider.Usage{}) {
		t.usage = u
	}
	if l.Cost != nil {
		t.cost = micro(*l.Cost)
	}
	status := 0
	if l.Status != nil {
		status = *l.Status
	}
	switch {
	case l.Subtype == "error_max_turns":
		t.fail(ir.ClassBadRequest, 0, "reached its limit of %d turns before it finished", t.asked.Turns)
	case l.Subtype == "error_max_budget_usd":
		t.fail(ir.ClassNoQuota, 0, "reached its budget before it finished")
	case l.IsError:
		why := strings.Join(l.Errors, "; ")
		if l.Result != nil && *l.Result != "" {
			why = *l.Result
		}
		if why == "" {
			why = fmt.Sprintf("%s (%s)", unexplained, l.Subtype)
		}
		t.fail(classOf(status), status, "%s", why)
	default:
		t.ended = true
		if l.Result != nil {
			answer := withoutNUL(*l.Result)
			t.answer = &answer
			if t.last == "" { // the result is not among the messages
				t.addBlock(provider.Text, answer, "")
			}
		}
	}
}

// total returns the total usage of all models.
func (l *claudeLine) total() provider.Usage {
	var sum provider.Usage
	for _, u := range l.ModelsUse {
		addUsage(&sum, provider.Usage(u))
	}
	return cmp.Or(sum, provider.Usage(l.Usage))
}
