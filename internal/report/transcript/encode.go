package transcript

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
)

// Lines are written by hand, several times faster than by reflection: a busy
// project has a hundred thousand of them in a second. A test holds the bytes
// to those of encoding/json.

// encoder makes lines out of moments.
type encoder struct {
	// value gives a value that may be kept by hash.
	value func(v journal.Value) (json.RawMessage, error)
}

// appendLine writes a moment as line seq of a file; head is the part of the
// envelope that all lines of the file share. Nothing is appended for moments
// that the transcript leaves out.
func (e *encoder) appendLine(b []byte, seq int64, head string, m *report.Moment) ([]byte, error) {
	var t Type
	switch m.What {
	case report.RunBegan:
		t = RunStarted
	case report.RunEnded:
		t = RunCompleted
	case report.StepBegan:
		if t = StepStarted; m.Step.Call {
			t = CallStarted
		}
	case report.StepEnded:
		if t = StepCompleted; m.Step.Call {
			t = CallCompleted
		}
	case report.StepNoted:
		if t = noteTypes[m.Note.Kind]; t == "" {
			return b, nil
		}
	default:
		return b, nil
	}
	start := len(b)
	b = append(b, `{"seq":`...)
	b = strconv.AppendInt(b, seq, 10)
	b = append(b, head...)
	path, iteration := "", 0
	if s := m.Step; s != nil {
		if s.Call && s.Child != "" {
			b = append(b, `,"child_run_id":`...)
			b = journal.AppendString(b, string(s.Child))
		}
		path, iteration = s.Path, s.Iteration()
	}
	b = append(b, `,"type":"`...)
	b = append(b, t...)
	b = append(b, `","path":`...)
	b = journal.AppendString(b, path)
	b = append(b, `,"iteration":`...)
	b = strconv.AppendInt(b, int64(iteration), 10)
	b = append(b, `,"timestamp":"`...)
	b = report.AppendTime(b, m.At)
	b = append(b, `","payload":`...)
	var err error
	if m.What == report.StepNoted {
		b, err = appendNote(b, m.Note)
	} else {
		b, err = e.appendStep(b, m)
	}
	if err != nil {
		return b[:start], err
	}
	return append(b, "}\n"...), nil
}

var noteTypes = map[string]Type{
	journal.NotePrompt:     MessageUser,
	journal.NoteCommand:    MessageUser,
	journal.NoteReply:      MessageAssistant,
	journal.NoteStream:     MessageAssistant,
	journal.NoteToolCall:   ToolCall,
	journal.NoteToolResult: ToolResult,
}

func (e *encoder) appendStep(b []byte, m *report.Moment) ([]byte, error) {
	name, kind := m.Run.Name, report.KindWorkflow
	if m.Step != nil {
		name, kind = m.Step.Name, m.Step.Kind
	}
	b = append(b, `{"name":`...)
	b = journal.AppendString(b, name)
	b = append(b, `,"kind":`...)
	b = journal.AppendString(b, kind)
	if m.Error != "" {
		b = append(b, `,"error":`...)
		b = journal.AppendString(b, m.Error)
	}
	if !m.Value.IsZero() {
		raw, err := e.value(m.Value)
		if err != nil {
			return b, err
		}
		b = append(b, `,"result":`...)
		b = appendRaw(b, raw)
	}
	return append(b, '}'), nil
}

func appendNote(b []byte, n *journal.TaskNoted) ([]byte, error) {
	switch n.Kind {
	case journal.NotePrompt:
		var p journal.Prompt
		if journal.ReadNote(n.Data, &p) != nil {
			return appendUnread(b, "user", journal.ByRouter, n.Data), nil
		}
		if p.System != "" {
			p.Blocks = append(p.Blocks, journal.Block{Type: BlockText, Text: p.System})
		}
		return appendMessage(b, "user", journal.ByRouter, p.Blocks, ""), nil
	case journal.NoteReply:
		var r journal.Reply
		if journal.ReadNote(n.Data, &r) != nil {
			return appendUnread(b, "assistant", journal.ByAgent, n.Data), nil
		}
		return appendMessage(b, "assistant", journal.ByAgent, r.Blocks, r.Offline), nil
	case journal.NoteCommand:
		var c journal.Command
		if journal.ReadNote(n.Data, &c) != nil {
			return appendUnread(b, "user", journal.ByRouter, n.Data), nil
		}
		b = append(b, `{"role":"user","blocks":[{"type":"command","fidelity":"router","command":`...)
		return append(journal.AppendString(b, c.Command), "}]}"...), nil
	case journal.NoteStream:
		var s journal.Stream
		if journal.ReadNote(n.Data, &s) != nil {
			return appendUnread(b, "assistant", journal.ByAgent, n.Data), nil
		}
		b = append(b, `{"role":"assistant","blocks":[{"type":"stream","fidelity":"agent_emitted","chunk":`...)
		return append(journal.AppendString(b, s.Chunk), "}]}"...), nil
	}
	var t journal.ToolUse
	if journal.ReadNote(n.Data, &t) != nil {
		t = journal.ToolUse{Input: n.Data} // whatever it is, it is not lost
	}
	if n.Kind == journal.NoteToolCall {
		t.Output, t.Error = nil, ""
	}
	b = append(b, `{"name":`...)
	b = journal.AppendString(b, t.Name)
	b = append(b, `,"call_id":`...)
	b = journal.AppendString(b, t.CallID)
	b = append(b, `,"input":`...)
	b = appendRaw(b, t.Input)
	b = append(b, `,"output":`...)
	b = appendRaw(b, t.Output)
	if t.Error != "" {
		b = append(b, `,"error":`...)
		b = journal.AppendString(b, t.Error)
	}
	b = append(b, `,"fidelity":`...)
	if t.Fidelity == "" {
		t.Fidelity = journal.ByRouter
	}
	b = journal.AppendString(b, t.Fidelity)
	if t.Offline != "" {
		b = append(b, `,"offline":`...)
		b = journal.AppendString(b, t.Offline)
	}
	return append(b, '}'), nil
}

// appendUnread writes data whose form is not what its kind promises as text,
// so that a mistake in a step kind loses nothing.
func appendUnread(b []byte, role, fidelity string, data json.RawMessage) []byte {
	return appendMessage(b, role, fidelity, []journal.Block{{Type: BlockText, Text: string(data)}}, "")
}

func appendMessage(b []byte, role, fidelity string, blocks []journal.Block, offline string) []byte {
	b = append(b, `{"role":"`...)
	b = append(b, role...)
	b = append(b, `","blocks":[`...)
	for i := range blocks {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendBlock(b, fidelity, &blocks[i])
	}
	b = append(b, ']')
	if offline != "" {
		b = append(b, `,"offline":`...)
		b = journal.AppendString(b, offline)
	}
	return append(b, '}')
}

func appendBlock(b []byte, fidelity string, x *journal.Block) []byte {
	b = append(b, `{"type":`...)
	b = journal.AppendString(b, x.Type)
	b = append(b, `,"fidelity":"`...)
	b = append(b, fidelity...)
	b = append(b, '"')
	text := func(key, s string) {
		if s != "" {
			b = append(b, key...)
			b = journal.AppendString(b, s)
		}
	}
	raw := func(key string, r json.RawMessage) {
		if len(r) > 0 {
			b = append(b, key...)
			b = appendRaw(b, r)
		}
	}
	if x.Type == BlockThinking {
		text(`,"thinking":`, x.Text)
	} else {
		text(`,"text":`, x.Text)
	}
	text(`,"tool_name":`, x.ToolName)
	text(`,"tool_id":`, x.ToolID)
	raw(`,"tool_input":`, x.Input)
	raw(`,"tool_content":`, x.Content)
	return append(b, '}')
}

// appendRaw copies JSON; none at all is null. What the journal holds is JSON.
// Values that went through an encoder with escapes for HTML lose those, so
// that all lines are alike.
func appendRaw(b []byte, raw json.RawMessage) []byte {
	start := len(b)
	b, err := journal.AppendRaw(b, raw)
	if err != nil {
		return append(b[:start], "null"...)
	}
	if !bytes.Contains(b[start:], []byte(`\u00`)) {
		return b
	}
	end := start
	for i := start; i < len(b); i++ {
		if b[i] == '\\' && i+1 < len(b) {
			if c := htmlEscape(b[i:]); c != 0 {
				b[end] = c
				end, i = end+1, i+5
				continue
			}
			b[end], b[end+1] = b[i], b[i+1]
			end, i = end+2, i+1
			continue
		}
		b[end] = b[i]
		end++
	}
	return b[:end]
}

// htmlEscape is the character whose escape for HTML s begins with, or 0.
func htmlEscape(s []byte) byte {
	if len(s) < 6 {
		return 0
	}
	switch strings.ToLower(string(s[:6])) {
	case `\u003c`:
		return '<'
	case `\u003e`:
		return '>'
	case `\u0026`:
		return '&'
	}
	return 0
}
