package cliagent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/espalier-run/espalier/internal/provider"
)

// Turn is what a program has said so far about one request.
type Turn struct {
	asked     provider.Work
	maxTokens int

	begun   bool // it has started to work
	ended   bool // it has said that it is done
	cut     bool // it has used all that it may
	session string
	model   string
	blocks  []provider.Block
	calls   map[string]provider.Did // not yet returned
	answer  *string                 // what it says to have come to
	last    string                  // what it said last
	stop    provider.StopReason
	usage   provider.Usage
	turns   int
	cost    *int64
	failed  *provider.Error
	skipped int
	// trouble is what it has complained about, with the status of a server's
	// answer; it counts if nothing came of the work.
	trouble string
	status  int

	chunks []provider.Chunk          // to be told
	spent  map[string]provider.Usage // by message, while it works
}

func newTurn(req *provider.Request) *Turn {
	t := &Turn{maxTokens: req.MaxTokens, model: req.Model, stop: provider.Done, calls: map[string]provider.Did{}, spent: map[string]provider.Usage{}}
	if req.Work != nil {
		t.asked = *req.Work
	}
	return t
}

// over reports whether there is nothing more to hear.
func (t *Turn) over() bool { return t.ended || t.cut || t.failed != nil }

// tell hands over what is new.
func (t *Turn) tell(tell func(provider.Chunk) bool) error {
	chunks := t.chunks
	t.chunks = nil
	for _, c := range chunks {
		if !tell(c) {
			return errLeft
		}
	}
	return nil
}

// inSession is what the program calls its session.
func (t *Turn) inSession(id string) {
	t.begun = true
	if id != "" && id != t.session {
		t.session = id
		t.chunks = append(t.chunks, provider.Chunk{Session: id})
	}
}

// say is a text, or a thought, that is whole.
func (t *Turn) say(kind provider.BlockType, text, signature string) {
	text = plain(text)
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

// sayMore adds a piece to the current text.
func (t *Turn) sayMore(text string) {
	n := len(t.blocks)
	if n == 0 || t.blocks[n-1].Type != provider.Text {
		t.say(provider.Text, text, "")
		return
	}
	text = plain(text)
	t.blocks[n-1].Text += text
	t.last = t.blocks[n-1].Text
	t.chunks = append(t.chunks, provider.Chunk{Type: provider.Text, Text: text})
}

// call records a tool that the program starts to use, and returns its id. Some
// programs tell it twice.
func (t *Turn) call(id, name string, input json.RawMessage) string {
	t.begun = true
	if _, open := t.calls[id]; open {
		return id
	}
	for n := len(t.blocks) + 1; id == "" || t.used(id); n++ {
		id = fmt.Sprintf("call-%d", n)
	}
	did := provider.Did{ID: id, Name: plain(cmp.Or(name, "tool")), Input: object(input)}
	t.calls[id] = did
	t.blocks = append(t.blocks, provider.Block{Type: provider.ToolUse, ToolID: did.ID, ToolName: did.Name, Input: did.Input})
	t.chunks = append(t.chunks, provider.Chunk{Did: &did})
	return id
}

func (t *Turn) used(id string) bool {
	return slices.ContainsFunc(t.blocks, func(b provider.Block) bool { return b.Type == provider.ToolUse && b.ToolID == id })
}

// returned is what came of a tool. One that nobody heard about before is told
// as a call first, under the name given; what was told already is not told
// again.
func (t *Turn) returned(id, name string, input, output json.RawMessage, problem string) {
	if _, open := t.calls[id]; !open {
		if id != "" && t.used(id) {
			return
		}
		id = t.call(id, name, input)
	}
	did := t.calls[id]
	delete(t.calls, id)
	did.Returned, did.Output, did.Error = true, bounded(output), plain(problem)
	t.chunks = append(t.chunks, provider.Chunk{Did: &did})
}

// uses counts tokens while the program works, message by message; the last
// count of a message is the one that holds. Beyond what it may it is stopped.
func (t *Turn) uses(message string, u provider.Usage) {
	t.spent[message] = u
	var sum provider.Usage
	for _, one := range t.spent {
		sum.Input += one.Input
		sum.Output += one.Output
		sum.CacheRead += one.CacheRead
		sum.CacheWrite += one.CacheWrite
	}
	t.turns = max(t.turns, len(t.spent))
	if t.usage != sum {
		t.usage = sum
		soFar := &provider.Reply{Usage: sum, Model: t.model, Worked: &provider.Worked{Turns: t.turns}}
		t.chunks = append(t.chunks, provider.Chunk{Used: soFar})
	}
	if t.maxTokens > 0 && sum.Output > int64(t.maxTokens) {
		t.cut = true
	}
}

// reply returns what the work came to.
func (t *Turn) reply(name string) *provider.Reply {
	answer := t.last
	if t.answer != nil {
		answer = *t.answer
	}
	r := &provider.Reply{
		Blocks: t.blocks, Stop: t.stop, Usage: t.usage, Model: cmp.Or(t.model, name),
		Worked: &provider.Worked{Session: t.session, Answer: answer, Turns: t.turns, MicroDollars: t.cost},
	}
	if t.cut {
		r.Stop = provider.CutOff
	}
	return r
}

// partial returns what the program had reported when it was stopped; nil when it had
// reported no usage.
func (t *Turn) partial(name string) *provider.Reply {
	if t.usage == (provider.Usage{}) && t.cost == nil {
		return nil
	}
	return t.reply(name)
}

// fail is what the program itself says went wrong.
func (t *Turn) fail(class provider.Class, status int, format string, args ...any) {
	t.failed = &provider.Error{Class: class, Status: status, Message: plain(fmt.Sprintf(format, args...))}
}

// classOf returns the class of a failure that has the status of a server's answer.
func classOf(status int) provider.Class {
	switch {
	case status == 429:
		return provider.RateLimit
	case status == 408:
		return provider.Timeout
	case status == 401 || status == 403:
		return provider.NotReady
	case status == 402:
		return provider.NoQuota
	case status >= 400 && status < 500:
		return provider.BadRequest
	}
	return provider.APIError
}

// plain returns a text without zero bytes, which no file, no argument and hardly a
// terminal takes.
func plain(text string) string { return strings.ReplaceAll(text, "\x00", "") }

// object returns the input of a tool: what is no JSON becomes a text.
func object(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || string(raw) == "null" {
		return json.RawMessage("{}")
	}
	return raw
}

// mostOutput is how much is kept of what a tool of the program returned.
const mostOutput = 1 << 20

// bounded returns a tool's output, or the beginning of it.
func bounded(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	if len(raw) <= mostOutput {
		return raw
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		text = string(raw)
	}
	end := min(len(text), mostOutput/2)
	for end > 0 && end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	return toJSON(map[string]any{"truncated": true, "bytes": len(raw), "beginning": text[:end]})
}

func toJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // texts, numbers and lists
	}
	return raw
}

// micro returns an amount of dollars in millionths.
func micro(dollars float64) *int64 {
	n := int64(dollars*1e6 + 0.5)
	return &n
}
