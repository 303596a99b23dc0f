package transcript

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
)

// Lines are encoded by hand, several times faster than by reflection: a busy
// project has a hundred thousand of them per second. A test compares the bytes
// with those of encoding/json.

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

func (e *encoder) appendPayload(b []byte, ev *report.Event) ([]byte, error) {
	switch ev.Type {
	case report.ModelPrompted, report.CommandStarted:
		return appendMessage(b, "user", journal.ByRouter, ev), nil
	case report.ModelReplied, report.ModelStreamed:
		return appendMessage(b, "assistant", journal.ByAgent, ev), nil
	case report.ToolCalled, report.ToolReturned:
		return appendTool(b, ev), nil
	}
	return e.appendStep(b, ev)
}

func (e *encoder) appendStep(b []byte, ev *report.Event) ([]byte, error) {
	name, kind := ev.Run.Name, report.KindWorkflow
	if ev.Step != nil {
		name, kind = ev.Step.Name, ev.Step.Kind
		if kind == kindHook && ev.Step.Info != nil {
			name = ev.Step.Info.Step.Title() // those before an end belong to the workflow
		}
	}
	b = append(b, `{"name":`...)
	b = journal.AppendString(b, name)
	b = append(b, `,"kind":`...)
	b = journal.AppendString(b, kind)
	if ev.Step != nil && ev.Step.EarlierAttempts() > 0 {
		b = append(b, `,"attempt":`...)
		b = strconv.AppendInt(b, int64(ev.Step.EarlierAttempts())+1, 10)
	}
	b = appendText(b, `,"error":`, ev.Problem)
	if ev.Type != report.RunStarted && !ev.Value.IsZero() {
		raw, err := e.value(ev.Value)
		if err != nil {
			return b, err
		}
		b = append(b, `,"result":`...)
		b = appendRaw(b, raw)
	}
	return append(b, '}'), nil
}

// appendText appends a member unless its text is empty.
func appendText(b []byte, key, text string) []byte {
	if text == "" {
		return b
	}
	return journal.AppendString(append(b, key...), text)
}

func appendTool(b []byte, ev *report.Event) []byte {
	t := *report.Body[journal.ToolUse](ev.Note)
	if ev.Note.Unreadable {
		t = journal.ToolUse{Input: ev.Note.Data} // so that nothing is lost
	}
	if ev.Type == report.ToolCalled {
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
	b = appendText(b, `,"error":`, t.Error)
	b = appendText(b, `,"fidelity":`, cmp.Or(t.Fidelity, journal.ByRouter))
	b = appendText(b, `,"offline":`, t.Offline)
	return append(b, '}')
}

// appendMessage appends a message. Data that does not have the form of its kind
// becomes text, so that nothing is lost.
func appendMessage(b []byte, role, fidelity string, ev *report.Event) []byte {
	b = append(b, `{"role":"`...)
	b = append(b, role...)
	b = append(b, `","blocks":[`...)
	var blocks []journal.Block
	offline := ""
	switch n := ev.Note; {
	case n.Unreadable:
		blocks = []journal.Block{{Type: BlockText, Text: string(n.Data)}}
	case ev.Type == report.CommandStarted:
		b = append(b, `{"type":"command","fidelity":"router","command":`...)
		b = append(journal.AppendString(b, report.Body[journal.Command](n).Command), '}')
	case ev.Type == report.ModelStreamed:
		b = append(b, `{"type":"stream","fidelity":"agent_emitted","chunk":`...)
		b = append(journal.AppendString(b, report.Body[journal.Stream](n).Chunk), '}')
	case ev.Type == report.ModelPrompted:
		p := report.Body[journal.Prompt](n)
		blocks = p.Blocks
		if p.System != "" {
			blocks = append(blocks, journal.Block{Type: BlockText, Text: p.System})
		}
	default:
		r := report.Body[journal.Reply](n)
		blocks, offline = r.Blocks, r.Offline
	}
	for i := range blocks {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendBlock(b, fidelity, &blocks[i])
	}
	b = append(b, ']')
	b = appendText(b, `,"offline":`, offline)
	return append(b, '}')
}

func appendBlock(b []byte, fidelity string, x *journal.Block) []byte {
	b = append(b, `{"type":`...)
	b = journal.AppendString(b, x.Type)
	b = append(b, `,"fidelity":"`...)
	b = append(b, fidelity...)
	b = append(b, '"')
	key := `,"text":`
	if x.Type == BlockThinking {
		key = `,"thinking":`
	}
	b = appendText(b, key, x.Text)
	b = appendText(b, `,"tool_name":`, x.ToolName)
	b = appendText(b, `,"tool_id":`, x.ToolID)
	if len(x.Input) > 0 {
		b = appendRaw(append(b, `,"tool_input":`...), x.Input)
	}
	if len(x.Content) > 0 {
		b = appendRaw(append(b, `,"tool_content":`...), x.Content)
	}
	return append(b, '}')
}

// appendRaw appends JSON, or null if there is none. It undoes the HTML escapes
// of encoders, so that all lines are alike.
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
