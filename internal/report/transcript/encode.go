package transcript

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"
	"sync"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/jsonfast"
	"github.com/espalier-run/espalier/internal/lazyregexp"
	"github.com/espalier-run/espalier/internal/redact"
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

// line is an Event as it is encoded: its time always has milliseconds.
type line struct {
	Seq         int64           `json:"seq"`
	RunID       journal.RunID   `json:"run_id"`
	ParentRunID journal.RunID   `json:"parent_run_id,omitempty"`
	ChildRunID  journal.RunID   `json:"child_run_id,omitempty"`
	Type        Type            `json:"type"`
	Path        string          `json:"path"`
	Iteration   int             `json:"iteration"`
	Timestamp   string          `json:"timestamp"`
	Payload     json.RawMessage `json:"payload"`
}

// codecs encode lines and their payloads.
var (
	lineCodec    = sync.OnceValue(jsonfast.New[line])
	stepCodec    = sync.OnceValue(jsonfast.New[Step])
	messageCodec = sync.OnceValue(jsonfast.New[Message])
	toolCodec    = sync.OnceValue(jsonfast.New[Tool])
)

// appendLine appends an event as line seq of a file. The rules apply to the payload: the other members are names,
// numbers and times.
func (e *encoder) appendLine(b []byte, t Type, seq int64, rules *redact.Rules, ev *report.Event) ([]byte, error) {
	payload, err := e.payload(ev)
	if err != nil {
		return b, err
	}
	if rules != nil {
		if hidden, found, err := rules.Ordered(payload); err == nil && found {
			payload = hidden
		}
	}
	out := line{
		Seq: seq, RunID: ev.Run.ID, ParentRunID: ev.Run.Parent, Type: t,
		Timestamp: string(report.AppendTime(nil, ev.At)), Payload: payload,
	}
	if s := ev.Step; s != nil {
		out.Path, out.Iteration = s.Path, s.Iteration()
		if s.Call {
			out.Type, out.ChildRunID = cmp.Or(callTypes[t], t), s.Child
		}
		if s.Kind == ir.TypeHook {
			out.Type = cmp.Or(hookTypes[out.Type], out.Type)
		}
	}
	b, err = lineCodec().Append(b, &out)
	return append(b, '\n'), err
}

// payload returns the payload of a line, whose type follows from that of the event.
func (e *encoder) payload(ev *report.Event) (b []byte, err error) {
	switch ev.Type {
	case report.ModelPrompted, report.CommandStarted:
		b, err = messageCodec().Append(nil, newMessage("user", journal.ByRouter, ev))
	case report.ModelReplied, report.ModelStreamed:
		b, err = messageCodec().Append(nil, newMessage("assistant", journal.ByAgent, ev))
	case report.ToolCalled, report.ToolReturned:
		b, err = toolCodec().Append(nil, newTool(ev))
	default:
		var step *Step
		if step, err = e.newStep(ev); err == nil {
			b, err = stepCodec().Append(nil, step)
		}
	}
	return undoHTMLEscapes(b), err
}

// newStep returns a step or a run. A result that is not valid JSON becomes null: the line must stay readable.
func (e *encoder) newStep(ev *report.Event) (*Step, error) {
	out := &Step{Name: ev.Run.Name, Kind: report.KindWorkflow, Error: ev.Problem}
	if s := ev.Step; s != nil {
		out.Name, out.Kind = s.Name, s.Kind
		if s.Kind == ir.TypeHook && s.Info != nil {
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

// newTool returns a tool call. The line of its start has no result yet.
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

// add adds blocks to a message, with their source.
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

// escapes matches an HTML escape, or any other escape: those are matched too, so that the second backslash of \\ is not
// mistaken for the start of one.
var escapes = lazyregexp.New(`\\(u003[cCeE]|u0026|.)`)

// undoHTMLEscapes replaces the HTML escapes of other encoders, so that all lines are alike.
func undoHTMLEscapes(b []byte) []byte {
	if !bytes.Contains(b, []byte(`\u00`)) {
		return b
	}
	return escapes().ReplaceAllFunc(b, func(escape []byte) []byte {
		switch strings.ToLower(string(escape)) {
		case `\u003c`:
			return []byte("<")
		case `\u003e`:
			return []byte(">")
		case `\u0026`:
			return []byte("&")
		}
		return escape
	})
}
