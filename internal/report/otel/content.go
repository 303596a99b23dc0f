package otel

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/jsonfast"
	"github.com/espalier-run/espalier/internal/redact"
)

// message and part have the form of messages in the conventions.
type message struct {
	Role   string `json:"role"`
	Parts  []part `json:"parts"`
	Finish string `json:"finish_reason,omitempty"`
}

type part struct {
	Type      string          `json:"type"`
	Content   string          `json:"content,omitempty"` // of text and reasoning
	ID        string          `json:"id,omitempty"`      // of tool calls and their responses
	Name      string          `json:"name,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Response  json.RawMessage `json:"response,omitempty"`
}

// prompted adds a message to the model. Only what is new since the last call is kept: otherwise a conversation of
// twenty turns would be exported twenty times.
func (a *actor) prompted(p *journal.Prompt) {
	if p.System != "" {
		a.System = p.System
	}
	m := message{Role: "user"}
	for _, b := range p.Blocks {
		m.Parts = append(m.Parts, part{Type: "text", Content: b.Text})
	}
	a.Asked = append(a.Asked, m)
}

// returned adds the result of a tool, which the model gets next.
func (a *actor) returned(use *journal.ToolUse) {
	response := use.Output
	if use.Error != "" {
		raw, err := json.Marshal(use.Error)
		if err != nil {
			return // cannot happen: it is a string
		}
		response = raw
	}
	result := part{Type: "tool_call_response", ID: use.CallID, Response: response}
	a.Asked = append(a.Asked, message{Role: "tool", Parts: []part{result}})
}

// replyMessage returns a reply as a message.
func replyMessage(r *journal.Reply) message {
	m := message{Role: "assistant", Finish: finishes[r.Stop]}
	for _, b := range r.Blocks {
		switch b.Type {
		case journal.BlockText:
			m.Parts = append(m.Parts, part{Type: "text", Content: b.Text})
		case journal.BlockThinking:
			m.Parts = append(m.Parts, part{Type: "reasoning", Content: b.Text})
		case journal.BlockToolUse:
			m.Parts = append(m.Parts, part{Type: "tool_call", ID: b.ToolID, Name: b.ToolName, Arguments: b.Input})
		}
	}
	return m
}

// conversation returns the attributes of a model call: what is new of the prompt, and the reply.
func (t *Tracer) conversation(who *actor, r *journal.Reply, rules *redact.Rules) []*commonpb.KeyValue {
	out := []any{}
	if who.System != "" {
		out = append(out, systemInstructions, encoded([]part{{Type: "text", Content: t.text(who.System, rules)}}))
	}
	if len(who.Asked) > 0 {
		out = append(out, inputMessages, encoded(t.hidden(who.Asked, rules)))
	}
	if r != nil {
		out = append(out, outputMessages, encoded(t.hidden([]message{replyMessage(r)}, rules)))
	}
	return t.attrs(out...)
}

// hidden returns messages with redacted texts, each cut to the maximum length.
func (t *Tracer) hidden(in []message, rules *redact.Rules) []message {
	out := make([]message, len(in))
	for i, m := range in {
		out[i] = message{Role: m.Role, Finish: m.Finish, Parts: make([]part, len(m.Parts))}
		for j, p := range m.Parts {
			p.Content = t.text(p.Content, rules)
			p.Arguments, p.Response = t.value(p.Arguments, rules), t.value(p.Response, rules)
			out[i].Parts[j] = p
		}
	}
	return out
}

// text redacts a text, then cuts it: half a secret would not be recognized.
func (t *Tracer) text(text string, rules *redact.Rules) string {
	text, _ = rules.Text(text)
	return cut(strings.ToValidUTF8(text, "\uFFFD"), t.o.MaxBytes)
}

// value redacts a JSON value. One that is too long becomes the start of its text.
func (t *Tracer) value(raw json.RawMessage, rules *redact.Rules) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	hidden, _, err := rules.JSON(raw)
	if err != nil {
		return nil // not JSON, so it is left out
	}
	if most := t.o.MaxBytes; most > 0 && len(hidden) > most {
		short, err := json.Marshal(cut(string(hidden), most))
		if err != nil {
			return nil
		}
		return short
	}
	return hidden
}

// json returns a redacted value as valid UTF-8, which attributes must be.
func (t *Tracer) json(raw json.RawMessage, rules *redact.Rules) string {
	return strings.ToValidUTF8(string(t.value(raw, rules)), "\uFFFD")
}

// cut shortens a text between two characters, and adds an ellipsis.
func cut(text string, most int) string {
	if most <= 0 || len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "…"
}

// encoded returns a value as JSON, or "" for a note with invalid JSON.
func encoded(v any) string {
	raw, _ := jsonfast.Marshal(v)
	return string(raw)
}
