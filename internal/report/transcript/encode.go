package transcript

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"sync"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/jsonfast"
	"github.com/espalier-run/espalier/internal/report"
)

// A busy project has a hundred thousand lines per second, so jsonfast encodes
// their payloads. A test compares the bytes with those of encoding/json.

// encoder encodes events as lines.
type encoder struct {
	// value returns the JSON of a value, which may be stored by hash.
	value func(v journal.Value) (json.RawMessage, error)
}

// types maps the events that a transcript has to the types of their lines.
var types = map[report.EventType]Type{
	report.RunStarted:     RunStarted,
	report.RunFinished:    RunCompleted,
	report.StepStarted:    StepStarted,
	report.StepFinished:   StepCompleted,
	report.TaskStarted:    StepStarted,   // of a retry
	report.StepRetrying:   StepCompleted, // of an attempt that failed
	report.ModelPrompted:  MessageUser,
	report.CommandStarted: MessageUser,
	report.ModelReplied:   MessageAssistant,
	report.ModelStreamed:  MessageAssistant,
	report.ToolCalled:     ToolCall,
	report.ToolReturned:   ToolResult,
}

// callTypes replaces the types of steps that call a workflow.
var callTypes = map[Type]Type{StepStarted: CallStarted, StepCompleted: CallCompleted}

// hookTypes replaces the types of steps that run hooks.
var hookTypes = map[Type]Type{StepStarted: HookStarted, StepCompleted: HookCompleted}

// kindHook is the kind of steps that run hooks.
const kindHook = "hook"

// appendLine appends an event as line seq of a file; head is the part of the
// envelope that all lines of the file share.
func (e *encoder) appendLine(b []byte, t Type, seq int64, head string, ev *report.Event) ([]byte, error) {
	start := len(b)
	b = append(b, `{"seq":`...)
	b = strconv.AppendInt(b, seq, 10)
	b = append(b, head...)
	path, iteration := "", 0
	if s := ev.Step; s != nil {
		if s.Call {
			t = cmp.Or(callTypes[t], t)
			if s.Child != "" {
				b = append(b, `,"child_run_id":`...)
				b = journal.AppendString(b, string(s.Child))
			}
		}
		if s.Kind == kindHook {
			t = cmp.Or(hookTypes[t], t)
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
	b = report.AppendTime(b, ev.At)
	b = append(b, `","payload":`...)
	b, err := e.appendPayload(b, ev)
	if err != nil {
		return b[:start], err
	}
	return append(b, "}\n"...), nil
}

// codecs encode payloads.
var (
	stepCodec    = sync.OnceValue(jsonfast.New[Step])
	messageCodec = sync.OnceValue(jsonfast.New[Message])
	toolCodec    = sync.OnceValue(jsonfast.New[Tool])
)

func (e *encoder) appendPayload(b []byte, ev *report.Event) ([]byte, error) {
	start := len(b)
	var err error
	switch ev.Type {
	case report.ModelPrompted, report.CommandStarted:
		b, err = messageCodec().Append(b, newMessage("user", journal.ByRouter, ev))
	case report.ModelReplied, report.ModelStreamed:
		b, err = messageCodec().Append(b, newMessage("assistant", journal.ByAgent, ev))
	case report.ToolCalled, report.ToolReturned:
		b, err = toolCodec().Append(b, newTool(ev))
	default:
		var step *Step
		if step, err = e.newStep(ev); err == nil {
			b, err = stepCodec().Append(b, step)
		}
	}
	return undoHTMLEscapes(b, start), err
}

func (e *encoder) newStep(ev *report.Event) (*Step, error) {
	out := &Step{Name: ev.Run.Name, Kind: report.KindWorkflow, Error: ev.Problem}
	if s := ev.Step; s != nil {
		out.Name, out.Kind = s.Name, s.Kind
		if s.Kind == kindHook && s.Info != nil {
			out.Name = s.Info.Step.Title() // those before an end belong to the workflow
		}
		if n := s.EarlierAttempts(); n > 0 {
			out.Attempt = n + 1
		}
	}
	if ev.Type == report.RunStarted || ev.Value.IsZero() {
		return out, nil
	}
	raw, err := e.value(ev.Value)
	if out.Result = valid(raw); out.Result == nil {
		out.Result = json.RawMessage("null")
	}
	return out, err
}

// valid returns JSON, or nil if it is not valid.
func valid(raw json.RawMessage) json.RawMessage {
	if !json.Valid(raw) {
		return nil
	}
	return raw
}

func newTool(ev *report.Event) *Tool {
	t := report.Body[journal.ToolUse](ev.Note)
	if ev.Note.Unreadable {
		t = &journal.ToolUse{Input: ev.Note.Data} // so that nothing is lost
	}
	out := &Tool{
		Name: t.Name, CallID: t.CallID, Input: valid(t.Input), Output: valid(t.Output), Error: t.Error,
		Fidelity: cmp.Or(t.Fidelity, journal.ByRouter), Offline: t.Offline,
	}
	if ev.Type == report.ToolCalled {
		out.Output, out.Error = nil, ""
	}
	return out
}

// newMessage returns a message. Data that does not have the form of its kind
// becomes text, so that nothing is lost.
func newMessage(role, fidelity string, ev *report.Event) *Message {
	out := &Message{Role: role, Blocks: []Block{}}
	switch n := ev.Note; {
	case n.Unreadable:
		out.Blocks = []Block{{Type: BlockText, Fidelity: fidelity, Text: string(n.Data)}}
	case ev.Type == report.CommandStarted:
		command := report.Body[journal.Command](n).Command
		out.Blocks = []Block{{Type: BlockCommand, Fidelity: journal.ByRouter, Command: command}}
	case ev.Type == report.ModelStreamed:
		chunk := report.Body[journal.Stream](n).Chunk
		out.Blocks = []Block{{Type: BlockStream, Fidelity: journal.ByAgent, Chunk: chunk}}
	case ev.Type == report.ModelPrompted:
		p := report.Body[journal.Prompt](n)
		out.add(fidelity, p.Blocks...)
		if p.System != "" {
			out.add(fidelity, journal.Block{Type: BlockText, Text: p.System})
		}
	default:
		r := report.Body[journal.Reply](n)
		out.Offline = r.Offline
		out.add(fidelity, r.Blocks...)
	}
	return out
}

func (m *Message) add(fidelity string, blocks ...journal.Block) {
	for _, x := range blocks {
		b := Block{
			Type: x.Type, Fidelity: fidelity, Text: x.Text, ToolName: x.ToolName, ToolID: x.ToolID,
			ToolInput: valid(x.Input), ToolContent: valid(x.Content),
		}
		if x.Type == BlockThinking {
			b.Text, b.Thinking = "", x.Text
		}
		m.Blocks = append(m.Blocks, b)
	}
}

// undoHTMLEscapes replaces the HTML escapes of other encoders from start on, so that all lines are alike.
func undoHTMLEscapes(b []byte, start int) []byte {
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

// htmlEscape returns the character whose HTML escape s starts with, or 0.
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
