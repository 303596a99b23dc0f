package cliagent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/price"
	"github.com/espalier-run/espalier/internal/provider"
)

// Turn collects the output of a program for one request. It is used by one goroutine. Dialects record what a line says
// with its methods, in any order: programs repeat, omit and reorder events.
type Turn struct {
	asked     provider.AgentTask
	maxTokens int

	begun   bool // the program has started to work
	ended   bool // the program has reported its result
	cut     bool // the program has reached its token limit
	session string
	model   string
	blocks  []provider.Block
	calls   map[string]provider.AgentToolEvent // calls without a result
	answer  *string                            // the reply, as reported with the result
	last    string                             // the last text of the program
	stop    provider.StopReason
	usage   provider.Usage
	turns   int
	cost    *int64
	failed  *provider.Error
	skipped int
	// problem is the last problem that the program reported, with the HTTP status if known; it matters only if there is
	// no result.
	problem string
	status  int

	chunks []provider.Chunk          // not yet streamed
	spent  map[string]provider.Usage // by message, during the work
}

func newTurn(req *provider.Request) *Turn {
	t := &Turn{
		maxTokens: req.MaxTokens, model: req.Model, stop: provider.Done, calls: map[string]provider.AgentToolEvent{},
		spent: map[string]provider.Usage{},
	}
	if req.Task != nil {
		t.asked = *req.Task
	}
	return t
}

// over reports whether no further output matters.
func (t *Turn) over() bool { return t.ended || t.cut || t.failed != nil }

// flush streams the new chunks.
func (t *Turn) flush(yield func(provider.Chunk) bool) error {
	chunks := t.chunks
	t.chunks = nil
	for _, c := range chunks {
		if !yield(c) {
			return errConsumerGone
		}
	}
	return nil
}

// inSession records the id of the program's session.
func (t *Turn) inSession(id string) {
	t.begun = true
	if id != "" && id != t.session {
		t.session = id
		t.chunks = append(t.chunks, provider.Chunk{Session: id})
	}
}

// addBlock adds a complete text or reasoning block.
func (t *Turn) addBlock(kind provider.BlockType, text, signature string) {
	text = withoutNUL(text)
	if text == "" {
		return
	}
	t.begun = true
	if kind == provider.Text {
		t.last = text
	}
	t.blocks = append(t.blocks, provider.Block{Type: kind, Text: text, Signature: signature})
	t.chunks = append(t.chunks, provider.Chunk{Type: kind, Text: text})
}

// addDelta appends a piece to the current text.
func (t *Turn) addDelta(text string) {
	n := len(t.blocks)
	if n == 0 || t.blocks[n-1].Type != provider.Text {
		t.addBlock(provider.Text, text, "")
		return
	}
	text = withoutNUL(text)
	t.blocks[n-1].Text += text
	t.last = t.blocks[n-1].Text
	t.chunks = append(t.chunks, provider.Chunk{Type: provider.Text, Text: text})
}

// call records a tool call that the program starts, and returns its id. Some programs report a call twice, reuse ids,
// or have none: an open call of the id is the same call, and otherwise a used or missing id is replaced.
func (t *Turn) call(id, name string, input json.RawMessage) string {
	t.begun = true
	if _, open := t.calls[id]; open {
		return id
	}
	for n := len(t.blocks) + 1; id == "" || t.used(id); n++ {
		id = fmt.Sprintf("call-%d", n)
	}
	did := provider.AgentToolEvent{ID: id, Name: withoutNUL(cmp.Or(name, "tool")), Input: object(input)}
	t.calls[id] = did
	t.blocks = append(t.blocks,
		provider.Block{Type: provider.ToolUse, ToolID: did.ID, ToolName: did.Name, Input: did.Input})
	t.chunks = append(t.chunks, provider.Chunk{ToolEvent: &did})
	return id
}

func (t *Turn) used(id string) bool {
	return slices.ContainsFunc(t.blocks,
		func(b provider.Block) bool { return b.Type == provider.ToolUse && b.ToolID == id })
}

// returned records the result of a tool call. If the call is unknown, returned first records it under the given name; a
// result that is recorded already is ignored.
func (t *Turn) returned(id, name string, input, output json.RawMessage, problem string) {
	if _, open := t.calls[id]; !open {
		if id != "" && t.used(id) {
			return
		}
		id = t.call(id, name, input)
	}
	did := t.calls[id]
	delete(t.calls, id)
	did.Returned, did.Output, did.Error = true, bounded(output), withoutNUL(problem)
	t.chunks = append(t.chunks, provider.Chunk{ToolEvent: &did})
}

// uses records the usage of a message during the work; the last record of a message counts, because programs report a
// message several times while it grows. If the total of output tokens exceeds the limit, the program is stopped.
func (t *Turn) uses(message string, u provider.Usage) {
	t.spent[message] = u
	var sum provider.Usage
	for _, one := range t.spent {
		addUsage(&sum, one)
	}
	t.turns = max(t.turns, len(t.spent))
	if t.usage != sum {
		t.usage = sum
		soFar := &provider.Reply{Usage: sum, Model: t.model, AgentResult: &provider.AgentResult{Turns: t.turns}}
		t.chunks = append(t.chunks, provider.Chunk{Used: soFar})
	}
	if t.maxTokens > 0 && sum.Output > int64(t.maxTokens) {
		t.cut = true
	}
}

func addUsage(sum *provider.Usage, u provider.Usage) {
	sum.Input += u.Input
	sum.Output += u.Output
	sum.CacheRead += u.CacheRead
	sum.CacheWrite += u.CacheWrite
}

// reply returns the reply to the request.
func (t *Turn) reply(name string) *provider.Reply {
	answer := t.last
	if t.answer != nil {
		answer = *t.answer
	}
	r := &provider.Reply{
		Blocks: t.blocks, Stop: t.stop, Usage: t.usage, Model: cmp.Or(t.model, name),
		AgentResult: &provider.AgentResult{Session: t.session, Answer: answer, Turns: t.turns, MicroDollars: t.cost},
	}
	if t.cut {
		r.Stop = provider.CutOff
	}
	return r
}

// partial returns the usage that the program had reported when it was stopped, or nil if it had reported none.
func (t *Turn) partial(name string) *provider.Reply {
	if t.usage == (provider.Usage{}) && t.cost == nil {
		return nil
	}
	return t.reply(name)
}

// fail records an error that the program reports.
func (t *Turn) fail(class ir.Class, status int, format string, args ...any) {
	t.failed = &provider.Error{Class: class, Status: status, Message: withoutNUL(fmt.Sprintf(format, args...))}
}

// classOf returns the error class for an HTTP status.
func classOf(status int) ir.Class {
	switch {
	case status == 429:
		return ir.ClassRateLimit
	case status == 408:
		return ir.ClassTimeout
	case status == 401 || status == 403:
		return ir.ClassMissing
	case status == 402:
		return ir.ClassNoQuota
	case status >= 400 && status < 500:
		return ir.ClassBadRequest
	}
	return ir.ClassAPI
}

// withoutNUL removes zero bytes, which files, arguments and most terminals do not accept.
func withoutNUL(text string) string { return strings.ReplaceAll(text, "\x00", "") }

// object returns the input of a tool; text that is not valid JSON becomes a JSON string.
func object(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || string(raw) == "null" {
		return json.RawMessage("{}")
	}
	return raw
}

// maxToolOutput is the maximum size of a tool's output that is kept.
const maxToolOutput = 1 << 20

// bounded returns a tool's output; one that is larger than maxToolOutput is replaced by an object with its size and its
// beginning.
func bounded(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	if len(raw) <= maxToolOutput {
		return raw
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		text = string(raw)
	}
	end := min(len(text), maxToolOutput/2)
	for end > 0 && end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	return toJSON(map[string]any{"truncated": true, "bytes": len(raw), "beginning": text[:end]})
}

func toJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // cannot happen: strings, numbers and lists
	}
	return raw
}

// micro converts US dollars to millionths.
func micro(dollars float64) *int64 {
	n := price.MicroDollars(dollars)
	return &n
}
