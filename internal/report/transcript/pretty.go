package transcript

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/espalier-run/espalier/internal/report"
)

// PrettyOptions are how Pretty prints.
type PrettyOptions struct {
	Colour bool
	Zone   *time.Location // of the times; nil is UTC
	// Remarks are lines of whoever knows more than a transcript has events for:
	// those up to a moment that were not asked for before, and at the end, when
	// the moment is zero, the rest. Nil knows nothing.
	Remarks func(until time.Time) []string
	// Titles are what people call steps whose names nobody wrote, by these.
	Titles map[string]string
	// Full prints texts and values whole; otherwise only their beginning.
	Full bool
}

// What is printed of texts and values unless all of it is asked for.
const (
	someLines = 12
	someBytes = 400
)

// Pretty prints a transcript for people. A damaged line is told where it stands.
func Pretty(w io.Writer, events iter.Seq2[Event, error], o PrettyOptions) error {
	if o.Zone == nil {
		o.Zone = time.UTC
	}
	p := printer{w: bufio.NewWriter(w), o: o, began: map[begun]time.Time{}}
	for e, err := range events {
		var line *LineError
		switch {
		case errors.As(err, &line):
			p.head(time.Time{}, "", report.Red, "! "+line.Error())
		case err != nil:
			p.w.Flush()
			return err
		default:
			if !e.Timestamp.IsZero() {
				p.remarks(e.Timestamp)
			}
			p.event(&e)
		}
	}
	p.remarks(time.Time{})
	return p.w.Flush()
}

type printer struct {
	w     *bufio.Writer
	o     PrettyOptions
	began map[begun]time.Time // of what is open
}

// begun names a step that is open, as far as a line tells: several iterations
// may be open at the same time.
type begun struct {
	path, child string
	iteration   int
}

// took says how long ago a step began that ends with an event.
func (p *printer) took(e *Event) (time.Duration, bool) {
	key := begun{e.Path, e.ChildRunID, e.Iteration}
	if _, ok := p.began[key]; !ok {
		key.iteration = 0 // outside loops it counts attempts, and the first one began the step
	}
	at, ok := p.began[key]
	delete(p.began, key)
	return e.Timestamp.Sub(at), ok && !at.IsZero() && !e.Timestamp.IsZero()
}

func (p *printer) remarks(until time.Time) {
	if p.o.Remarks == nil {
		return
	}
	for _, line := range p.o.Remarks(until) {
		p.w.WriteString(line + "\n")
	}
}

func (p *printer) event(e *Event) {
	switch e.Type {
	case RunStarted, RunCompleted, StepStarted, StepCompleted, CallStarted, CallCompleted:
		p.step(e)
	case MessageUser, MessageAssistant:
		p.message(e)
	case ToolCall, ToolResult:
		p.tool(e)
	default:
		p.head(e.Timestamp, p.where(e), report.Plain, string(e.Type))
		p.json("  ", e.Payload)
	}
}

// where is the path with the iteration, when there is one to speak of.
func (p *printer) where(e *Event) string {
	path := e.Path
	for name, title := range p.o.Titles {
		if before, ok := strings.CutSuffix(path, name); ok && (before == "" || strings.HasSuffix(before, ".")) {
			path = before + title
			break
		}
	}
	if e.Iteration > 0 {
		return path + "[" + strconv.Itoa(e.Iteration) + "]"
	}
	return path
}

// head prints a line with time and place.
func (p *printer) head(at time.Time, place string, c report.Colour, text string) {
	clock := "        "
	if !at.IsZero() {
		clock = at.In(p.o.Zone).Format("15:04:05")
	}
	p.w.WriteString(p.paint(report.Dim, clock))
	if place != "" {
		p.w.WriteString("  " + p.paint(report.Bold, report.Clean(place)))
	}
	fmt.Fprintf(p.w, "  %s\n", p.paint(c, report.Clean(text)))
}

func (p *printer) paint(c report.Colour, text string) string {
	if !p.o.Colour {
		return text
	}
	return c.Paint(text)
}

func (p *printer) step(e *Event) {
	s, err := e.Step()
	if err != nil {
		p.unread(e)
		return
	}
	switch e.Type {
	case RunStarted, StepStarted, CallStarted:
		key := begun{e.Path, e.ChildRunID, e.Iteration}
		if _, open := p.began[key]; open { // two loops around it: nobody can tell which one ends first
			p.began[key] = time.Time{}
		} else {
			p.began[key] = e.Timestamp
		}
		text := s.Kind + " started"
		if e.Type == RunStarted {
			text = fmt.Sprintf("workflow %s started, run %s", s.Name, e.RunID)
			if e.ParentRunID != "" {
				text += ", called by run " + e.ParentRunID
			}
		}
		if e.ChildRunID != "" {
			text += ", run " + e.ChildRunID
		}
		p.head(e.Timestamp, p.where(e), report.KindColour(s.Kind), text)
		return
	}
	text, colour := "done", report.Green
	if e.Type == RunCompleted {
		text = "workflow " + s.Name + " done"
	}
	if s.Error != "" {
		text, colour = "ended: "+s.Error, report.Red
	}
	if d, ok := p.took(e); ok {
		text += " (" + report.Duration(d) + ")"
	}
	p.head(e.Timestamp, p.where(e), colour, text)
	p.json("  ", s.Result)
}

func (p *printer) message(e *Event) {
	m, err := e.Message()
	if err != nil {
		p.unread(e)
		return
	}
	who := m.Role
	if m.Offline != "" {
		who += " (" + m.Offline + ")"
	}
	p.head(e.Timestamp, p.where(e), report.Cyan, who)
	for i, b := range m.Blocks {
		if i > 0 && b.Type == BlockText && m.Blocks[i-1].Type == BlockText {
			p.text("  ", "---") // what is asked ends, and the system prompt begins
		}
		switch b.Type {
		case BlockText:
			p.text("  ", b.Text)
		case BlockThinking:
			p.text("  ~ ", b.Thinking)
		case BlockCommand:
			p.text("  $ ", b.Command)
		case BlockStream:
			p.text("  … ", b.Chunk)
		case BlockToolUse:
			p.text("  → ", b.ToolName)
			p.json("    ", b.ToolInput)
		case BlockToolResult:
			p.text("  ← ", b.ToolName)
			p.json("    ", b.ToolContent)
		default:
			p.text("  ", b.Type)
		}
	}
}

func (p *printer) tool(e *Event) {
	t, err := e.Tool()
	if err != nil {
		p.unread(e)
		return
	}
	by := ""
	if t.Fidelity != "" && t.Fidelity != "router" {
		by = ", reported by the agent"
	}
	if e.Type == ToolCall {
		p.head(e.Timestamp, p.where(e), report.Green, "calls "+t.Name+by)
		p.json("  ", t.Input)
		return
	}
	switch worked := len(t.Output) > 0 && string(t.Output) != "null"; {
	case t.Error != "" && worked:
		p.head(e.Timestamp, p.where(e), report.Amber, t.Name+" returned an error: "+t.Error+by)
	case t.Error != "":
		p.head(e.Timestamp, p.where(e), report.Red, t.Name+" failed: "+t.Error+by)
	default:
		p.head(e.Timestamp, p.where(e), report.Green, t.Name+" returned"+by)
	}
	p.json("  ", t.Output)
}

// unread prints an event whose payload is not what its type promises.
func (p *printer) unread(e *Event) {
	p.head(e.Timestamp, p.where(e), report.Red, string(e.Type))
	p.json("  ", e.Payload)
}

// text prints lines behind a prefix, without characters that command a terminal.
func (p *printer) text(prefix, text string) {
	lines := strings.Split(strings.TrimRightFunc(text, unicode.IsSpace), "\n")
	shown := lines
	if !p.o.Full && len(lines) > someLines {
		shown = lines[:someLines]
	}
	for _, line := range shown {
		if !p.o.Full {
			line = report.Shorten(report.Clean(line), someBytes)
		}
		p.w.WriteString(strings.Repeat(" ", 8) + prefix + report.Clean(line) + "\n")
	}
	if more := len(lines) - len(shown); more > 0 {
		fmt.Fprintf(p.w, "%s%s\n", strings.Repeat(" ", 8)+prefix, p.paint(report.Dim, fmt.Sprintf("… %d more lines", more)))
	}
}

// json prints a value on one line, or whole over several.
func (p *printer) json(prefix string, raw json.RawMessage) {
	if len(raw) == 0 || string(raw) == "null" {
		return
	}
	var b bytes.Buffer
	if p.o.Full && json.Indent(&b, raw, "", "  ") == nil {
		p.text(prefix, b.String())
		return
	}
	p.text(prefix, string(raw))
}
