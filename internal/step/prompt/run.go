package prompt

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/lazyregexp"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/chat"
	"github.com/espalier-run/espalier/internal/stepkind/kinds"
)

// outcome is the step's result; its parts go to different variables. Tools is set if the agent has tools,
// because the step then writes it.
type outcome struct {
	Agent  string                     `json:"agent"`
	Output json.RawMessage            `json:"output"`
	Tools  map[string]json.RawMessage `json:"tools,omitzero"`
}

// Runner runs tasks of kind "prompt".
type Runner struct {
	chat.Base[kinds.Prompt, settings]
}

type settings kinds.PromptSettings

var _ step.Settings = settings{}

// Run holds the conversation with the agent, or calls the tool.
func (s settings) Run(ctx context.Context, job *step.Job) (step.Result, error) {
	known := newKnown(job)
	ask, isModel := kinds.PromptSettings(s).Ask(job.Workflow)
	if !isModel {
		return s.callTool(ctx, job, known)
	}
	c, err := chat.NewConversation(job, &ask)
	if err != nil {
		return step.Result{}, err
	}
	a, transcript := c.Agent, &chat.Transcript{}
	c.Task, c.Transcript = known.fill(s.Template), transcript
	c.Form.Plain, c.Form.LastFence = !c.Form.Strict(), true
	if len(a.Tools) > 0 { // a reply may ask for a tool in its own words
		c.Form.Accept = func(value json.RawMessage) bool { return len(requests(value, a)) > 0 }
	}
	if s.Format == "markdown" {
		c.Expected = "Markdown"
	}
	if s.Memory {
		if before, err := s.readNotebook(ctx, job, c); err != nil {
			return before, err
		}
	}
	inner := *job
	inner.Reads = withInput(job.Reads)
	inner.History = slices.DeleteFunc(slices.Clone(job.History), isPromptCall) // the conversation replays only its own
	result, err := c.Run(ctx, &inner)
	if err != nil {
		return result, err
	}
	out := outcome{Agent: s.Agent, Output: result.Value}
	if s.Format == "" && !c.Form.Decided(result.Value) {
		out.Output = read(result.Value)
	}
	if len(a.Tools) > 0 {
		out.Tools = called(transcript)
		if err := callAll(ctx, job, a, requests(out.Output, a), &out, &result); err != nil {
			return result, err
		}
	}
	if note := remembered(out.Output); s.Memory && note != nil {
		use, err := callNamed(ctx, job, bookkeeper(a), kinds.NotebookAdd, job.Key+"/notebook:add", firstNotebook+1,
			note, &result)
		if err != nil {
			return result, err
		}
		if use.Error != "" {
			return result, step.Errorf(ir.ClassTool, "cannot keep the note of agent %q: %s", a.ID, use.Error)
		}
	}
	result.Value = step.JSON(out)
	return result, nil
}

// readNotebook adds the agent's notes to the conversation.
func (s settings) readNotebook(ctx context.Context, job *step.Job, c *chat.Conversation) (step.Result, error) {
	var result step.Result
	use, err := callNamed(ctx, job, bookkeeper(c.Agent), kinds.NotebookRead, job.Key+"/notebook:read", firstNotebook,
		json.RawMessage("{}"), &result)
	if err != nil {
		return result, err
	}
	if use.Error == "" {
		c.Data = append(c.Data, chat.Data{Name: "notebook", Value: use.Output})
	}
	c.Task += "\n\nThe data \"notebook\" contains the notes that you kept in earlier runs."
	if s.mayRemember(&c.Form.Contract) {
		c.Task += " If you want to keep a note for later runs, reply with a JSON object and add the note to it " +
			"as a string under the key \"remember\"."
	}
	if len(result.Notes) > 0 {
		err = job.Log.Note(ctx, result.Notes...)
	}
	return result, err
}

// mayRemember reports whether a reply can contain a note besides the answer: if it is an object, or text, which
// may be JSON.
func (s settings) mayRemember(c *contract.Contract) bool {
	switch c.Kind {
	case contract.Object, contract.JSON:
		return true
	case "", contract.Text:
		return s.Format == "" && !c.Strict()
	}
	return false
}

// bookkeeper returns the agent with the tools of the notebook, which it need not list.
func bookkeeper(a *ir.Agent) *ir.Agent {
	return &ir.Agent{ID: a.ID, Tools: []ir.Name{{Name: kinds.NotebookRead}, {Name: kinds.NotebookAdd}}}
}

// firstNotebook is the number of the first call of the notebook, apart from those of other calls.
const firstNotebook = 2000

// remembered returns the note that a reply adds to the notebook, as input for the tool.
func remembered(output json.RawMessage) json.RawMessage {
	var reply struct {
		Remember string `json:"remember"`
	}
	if json.Unmarshal(output, &reply) != nil || strings.TrimSpace(reply.Remember) == "" {
		return nil
	}
	return step.JSON(map[string]string{"note": reply.Remember})
}

// isPromptCall reports whether a note is about a call of this kind and not of the conversation.
func isPromptCall(n journal.TaskNoted) bool {
	var use journal.ToolUse
	return (n.Kind == journal.NoteToolCall || n.Kind == journal.NoteToolResult) &&
		json.Unmarshal(n.Data, &use) == nil &&
		(strings.Contains(use.CallID, "/asked:") || strings.Contains(use.CallID, "/notebook:"))
}

// read returns a reply as JSON if it is JSON: all of it, its last JSON fence, or the text between its fences.
// Otherwise it is text.
func read(reply json.RawMessage) json.RawMessage {
	var text string
	if json.Unmarshal(reply, &text) != nil {
		return reply
	}
	try := func(s string) json.RawMessage {
		if s = strings.TrimSpace(s); json.Valid([]byte(s)) {
			return json.RawMessage(s)
		}
		return nil
	}
	if v := try(text); v != nil {
		return v
	}
	if fences := jsonFence().FindAllStringSubmatch(text, -1); len(fences) > 0 {
		if v := try(fences[len(fences)-1][1]); v != nil {
			return v
		}
	}
	stripped := strings.TrimSpace(text)
	if rest, ok := strings.CutPrefix(stripped, "```"); ok {
		rest = strings.TrimPrefix(strings.TrimPrefix(rest, "json"), "JSON")
		if v := try(strings.TrimSuffix(rest, "```")); v != nil {
			return v
		}
	}
	return reply
}

var jsonFence = lazyregexp.New("(?is)```json\\s*\n(.*?)```")

// known holds the values that a template may name: the context, overlaid with the run's input, and the latest
// output.
type known struct {
	context map[string]any
	output  any
}

func newKnown(job *step.Job) *known {
	k := &known{context: map[string]any{}}
	over := func(path string) {
		for _, r := range job.Reads {
			var values map[string]any
			if r.Path == path && json.Unmarshal(r.Value, &values) == nil {
				for name, v := range values {
					k.context[name] = v
				}
			}
		}
	}
	over("context")
	over("input")
	for _, r := range job.Reads {
		if r.Path == "output" && !r.Missing {
			_ = json.Unmarshal(r.Value, &k.output) // anything but JSON is ignored
		}
	}
	return k
}

// withInput returns the reads with the run's input laid over the context, so that templates and conditions see
// the same values.
func withInput(reads []step.Read) []step.Read {
	at := slices.IndexFunc(reads, func(r step.Read) bool { return r.Path == "context" })
	var context, input map[string]json.RawMessage
	if at < 0 || json.Unmarshal(reads[at].Value, &context) != nil {
		return reads
	}
	for _, r := range reads {
		if r.Path == "input" && json.Unmarshal(r.Value, &input) != nil {
			return reads
		}
	}
	changed := false
	for name, was := range context {
		if given, ok := input[name]; ok && !bytes.Equal(given, was) {
			context[name], changed = given, true
		}
	}
	if !changed {
		return reads
	}
	reads = slices.Clone(reads)
	reads[at].Value = step.JSON(context)
	return reads
}

var placeholder = lazyregexp.New(`\{\{\s*([A-Za-z_][A-Za-z0-9_.]*)\s*\}\}`)

// fill replaces known names and leaves others as they are.
func (k *known) fill(template string) string {
	var parts []expr.TextPart
	add := func(text string, value bool) {
		if text != "" || value {
			parts = append(parts, expr.TextPart{Text: text, Value: value})
		}
	}
	at := 0
	for _, m := range placeholder().FindAllStringSubmatchIndex(template, -1) {
		value, ok := k.lookup(strings.Split(template[m[2]:m[3]], "."))
		if !ok {
			continue
		}
		text, isText := value.(string)
		if !isText {
			text = string(step.JSON(value))
		}
		add(template[at:m[0]], false)
		add(text, true)
		at = m[1]
	}
	add(template[at:], false)
	prompt, _ := chat.Insert(parts)
	return prompt
}

// lookup returns the value that a template names.
func (k *known) lookup(path []string) (value any, ok bool) {
	ok = true
	switch {
	case path[0] == "output" && k.output != nil:
		value = k.output
	case path[0] == "context" && len(path) > 1:
		path = path[1:]
		value, ok = k.context[path[0]]
	default:
		value, ok = k.context[path[0]]
	}
	for _, name := range path[1:] {
		object, isObject := value.(map[string]any)
		if !ok || !isObject {
			return nil, false
		}
		value, ok = object[name]
	}
	return value, ok
}

// request is a tool call that a reply requests in its text.
type request struct {
	name  string
	input json.RawMessage
}

// requests returns the tool calls that a reply requests: {"tool_name": …, "parameters": …}, or {"tool_code":
// "name(k=v)"}. Only tools that the agent lists count.
func requests(output json.RawMessage, a *ir.Agent) []request {
	var object map[string]json.RawMessage
	if json.Unmarshal(output, &object) != nil {
		return nil
	}
	var out []request
	add := func(name string, input json.RawMessage) {
		one := request{name: name, input: input}
		listed := slices.ContainsFunc(a.Tools, func(t ir.Name) bool { return t.Name == name })
		if listed && !slices.ContainsFunc(out,
			func(o request) bool { return o.name == name && string(o.input) == string(input) }) {
			out = append(out, one)
		}
	}
	for _, key := range []string{"tool_name", "toolName", "tool"} {
		var name string
		if json.Unmarshal(object[key], &name) != nil || name == "" {
			continue
		}
		input := json.RawMessage("{}")
		for _, key := range []string{"parameters", "params", "input"} {
			if raw := object[key]; len(raw) > 0 && string(raw) != "null" {
				input = raw
				break
			}
		}
		add(name, input)
		break
	}
	var lines []string
	var one string
	if json.Unmarshal(object["tool_code"], &one) == nil {
		lines = []string{one}
	} else {
		_ = json.Unmarshal(object["tool_code"], &lines) // anything else asks for nothing
	}
	for _, text := range lines {
		for _, one := range split(text, "\n;") {
			if name, input, ok := parseCall(one); ok {
				add(name, input)
			}
		}
	}
	return out
}

var callForm = lazyregexp.New(`(?s)^([A-Za-z_][A-Za-z0-9_.\-]*)\((.*)\)$`)

// parseCall parses name(k=v, …), also inside print().
func parseCall(text string) (string, json.RawMessage, bool) {
	m := callForm().FindStringSubmatch(strings.TrimSpace(text))
	if m != nil && m[1] == "print" {
		m = callForm().FindStringSubmatch(strings.TrimSpace(m[2]))
	}
	if m == nil {
		return "", nil, false
	}
	input := map[string]any{}
	for _, pair := range split(m[2], ",") {
		name, raw, ok := strings.Cut(pair, "=")
		if !ok {
			return "", nil, false
		}
		input[strings.TrimSpace(name)] = argument(strings.TrimSpace(raw))
	}
	return m[1], step.JSON(input), true
}

// split splits at separators outside of quotes and brackets, and omits empty parts. Quotes end with their line.
func split(s, separators string) []string {
	var out []string
	add := func(part string) {
		if strings.TrimSpace(part) != "" {
			out = append(out, part)
		}
	}
	start, quote, depth := 0, byte(0), 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if quote != 0 && c != '\n' {
			switch c {
			case '\\':
				i++
			case quote:
				quote = 0
			}
			continue
		}
		quote = 0
		switch {
		case c == '\'' || c == '"':
			quote = c
		case strings.IndexByte("([{", c) >= 0:
			depth++
		case strings.IndexByte(")]}", c) >= 0:
			depth = max(0, depth-1)
		case depth == 0 && strings.IndexByte(separators, c) >= 0:
			add(s[start:i])
			start = i + 1
		}
	}
	add(s[start:])
	return out
}

// unescaped replaces the usual escapes in quotes.
var unescaped = strings.NewReplacer(`\\`, `\`, `\'`, `'`, `\"`, `"`, `\n`, "\n", `\t`, "\t")

func argument(s string) any {
	if len(s) > 1 && (s[0] == '\'' || s[0] == '"') && s[len(s)-1] == s[0] {
		return unescaped.Replace(s[1 : len(s)-1])
	}
	var v any
	switch s {
	case "True":
		return true
	case "False":
		return false
	case "None":
		return nil
	}
	if json.Unmarshal([]byte(s), &v) == nil {
		return v
	}
	return s
}

// callAll calls the tools one after the other, except for calls that an earlier execution of this attempt made.
func callAll(
	ctx context.Context, job *step.Job, a *ir.Agent, calls []request, out *outcome, result *step.Result,
) error {
	for i, c := range calls {
		id := fmt.Sprintf("%s/asked:%d", job.Key, i+1)
		use, err := callNamed(ctx, job, a, c.name, id, firstAsked+i, c.input, result)
		if err != nil {
			return err
		}
		out.Tools[c.name] = answer(use)
	}
	return nil
}

// firstAsked is the number of the first call that a reply requests, apart from those of the conversation.
const firstAsked = 1000

// callNamed makes one call, or returns its outcome if an earlier execution of this attempt made it.
func callNamed(
	ctx context.Context, job *step.Job, a *ir.Agent, name, id string, n int, input json.RawMessage, result *step.Result,
) (journal.ToolUse, error) {
	made, returned, answer := job.PastCall(id, n)
	if returned != nil {
		return *returned, nil
	}
	notes := result.Notes
	result.Notes = nil
	done, err := job.UseTool(ctx,
		step.ToolCall{Name: name, CallID: id, N: n, Agent: a, Input: input, Made: made, Answer: answer}, notes...)
	if err != nil {
		result.Usage = done.InFlight
		return done.Use, err
	}
	result.Notes = done.Notes
	if done.Use.Class == ir.ClassMissing {
		return done.Use, step.Errorf(ir.ClassMissing,
			"step %q needs the tool %q, which does not exist", job.Step.ID, name)
	}
	return done.Use, nil
}

// record is a call as conditions see it.
type record struct {
	OK    bool            `json:"ok"`
	Data  json.RawMessage `json:"data"`
	Error string          `json:"error,omitempty"`
}

func answer(use journal.ToolUse) json.RawMessage {
	return step.JSON(record{OK: use.Error == "", Data: use.Output, Error: use.Error})
}

// called returns the outcomes of the tools that the model called during the conversation.
func called(t *chat.Transcript) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for _, m := range t.Messages {
		for _, b := range m.Blocks {
			if b.Type != provider.ToolResult {
				continue
			}
			one := record{OK: !b.IsError, Data: b.Content}
			if b.IsError && json.Unmarshal(b.Content, &one.Error) != nil {
				one.Error = string(b.Content)
			}
			out[b.ToolName] = step.JSON(one)
		}
	}
	return out
}

// callTool calls the tool with the latest output.
func (s settings) callTool(ctx context.Context, job *step.Job, known *known) (step.Result, error) {
	input := step.JSON(known.output)
	if _, isObject := known.output.(map[string]any); !isObject {
		input = step.JSON(map[string]any{"input": known.output})
	}
	var result step.Result
	use, err := callNamed(ctx, job, nil, s.Tool, job.Key+"/call:1", 1, input, &result)
	if err != nil {
		return result, err
	}
	if use.Error != "" {
		return result, step.Errorf(cmp.Or(use.Class, ir.ClassTool), "the tool %q of step %q: %s",
			s.Tool, job.Step.ID, use.Error)
	}
	result.Value = step.JSON(
		outcome{Agent: s.Name, Output: use.Output, Tools: map[string]json.RawMessage{s.Tool: answer(use)}})
	return result, nil
}
