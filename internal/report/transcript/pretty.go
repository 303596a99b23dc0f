package transcript

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/espalier-run/espalier/internal/report"
)

// PrettyOptions configure Pretty.
type PrettyOptions struct {
	Color bool
	Zone  *time.Location // of times; nil is UTC
	// Remarks returns additional lines that belong before and after an event, which it has not returned before; for
	// nil, at the end, it returns the rest as those before. It may be nil.
	Remarks func(e *Event) (before, after []string)
	// Titles are labels of steps whose names are generated, by name.
	Titles map[string]string
	// Live prints the parts of a reply as they come; otherwise only those of a reply that was never complete.
	Live bool
}

// How much of texts and values is printed.
const (
	someLines = 12
	someBytes = 400
)

// Pretty prints a transcript for people. A damaged line is reported in its place.
func Pretty(w io.Writer, events iter.Seq2[Event, error], o PrettyOptions) error {
	return NewPrinter(w, o).Print(events)
}

// NewPrinter returns a Printer.
func NewPrinter(w io.Writer, o PrettyOptions) *Printer {
	o.Zone = cmp.Or(o.Zone, time.UTC)
	return &Printer{
		w: bufio.NewWriter(w), o: o, began: map[openStep]time.Time{}, parts: map[openStep]*Event{},
		loops: map[string]bool{}, called: map[openStep]bool{},
	}
}

// Print prints the events and everything that follows them.
func (p *Printer) Print(events iter.Seq2[Event, error]) error {
	for e, err := range events {
		var line *LineError
		switch {
		case errors.As(err, &line):
			p.head(time.Time{}, "", report.Red, "! "+line.Error())
		case err != nil:
			p.w.Flush()
			return err
		default:
			p.printWithRemarks(&e)
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(p.parts), openStep.compare) {
		p.message(p.parts[key])
	}
	p.printWithRemarks(nil)
	return p.w.Flush()
}

// Pause prints lines and makes everything visible that was printed so far, while there is no other event.
func (p *Printer) Pause(lines []string) {
	p.lines(lines)
	p.w.Flush() // Print returns the error
}

// lines prints lines as they are.
func (p *Printer) lines(lines []string) {
	for _, line := range lines {
		p.w.WriteString(line + "\n")
	}
}

// Printer prints a transcript for people, as Pretty does.
type Printer struct {
	w     *bufio.Writer
	o     PrettyOptions
	began map[openStep]time.Time // start times of open steps
	parts map[openStep]*Event    // of replies that are not complete, joined
	loops map[string]bool        // runs and paths of loops
	// called has the open steps whose latest event is the result of a tool.
	called map[openStep]bool
}

// openStep identifies an open step, as far as a line allows: several iterations
// may be open at the same time.
type openStep struct {
	path, child string
	iteration   int
}

// compare orders open steps by path, child run and iteration.
func (s openStep) compare(other openStep) int {
	return cmp.Or(strings.Compare(s.path, other.path), strings.Compare(s.child, other.child),
		cmp.Compare(s.iteration, other.iteration))
}

// join keeps the parts of a reply together until the whole reply follows, and reports whether an event is such a part.
func (p *Printer) join(e *Event) bool {
	key := openStep{e.Path, e.ChildRunID, e.Iteration}
	if p.o.Live || e.Type == MessageUser {
		return false
	}
	if e.Type != MessageAssistant {
		if before := p.parts[key]; before != nil && e.Type == StepCompleted {
			delete(p.parts, key)
			p.message(before)
		}
		return false
	}
	m, err := e.Message()
	if err != nil || len(m.Blocks) != 1 || m.Blocks[0].Type != BlockStream {
		delete(p.parts, key)
		return false
	}
	if before := p.parts[key]; before != nil {
		if all, err := before.Message(); err == nil && len(all.Blocks) == 1 {
			m.Blocks[0].Chunk = all.Blocks[0].Chunk + m.Blocks[0].Chunk
		}
	}
	joined := *e
	if joined.Payload, err = json.Marshal(m); err != nil {
		return false
	}
	p.parts[key] = &joined
	return true
}

// took returns the duration of a step that ends with an event.
func (p *Printer) took(e *Event) (time.Duration, bool) {
	key := openStep{e.Path, e.ChildRunID, e.Iteration}
	if _, ok := p.began[key]; !ok {
		key.iteration = 0 // outside loops it counts attempts, and the step started with the first
	}
	at, ok := p.began[key]
	delete(p.began, key)
	return e.Timestamp.Sub(at), ok && !at.IsZero() && !e.Timestamp.IsZero()
}

// printWithRemarks prints an event, which is nil at the end, with the remarks around it.
func (p *Printer) printWithRemarks(e *Event) {
	var before, after []string
	if p.o.Remarks != nil && (e == nil || !e.Timestamp.IsZero() && !e.streamed()) {
		before, after = p.o.Remarks(e)
	}
	p.lines(before)
	if e != nil {
		p.event(e)
	}
	p.lines(after)
}

// streamed reports whether an event is a part of a reply.
func (e *Event) streamed() bool {
	if e.Type != MessageAssistant {
		return false
	}
	m, err := e.Message()
	return err == nil && len(m.Blocks) == 1 && m.Blocks[0].Type == BlockStream
}

// event prints an event. A type that the Printer does not know is not an error: a later release may have written it.
func (p *Printer) event(e *Event) {
	if p.join(e) {
		return
	}
	defer p.follow(e)
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

// follow notes whether the next message of a step follows the result of a tool.
func (p *Printer) follow(e *Event) {
	key := openStep{e.Path, e.ChildRunID, e.Iteration}
	if e.Type == ToolResult {
		p.called[key] = true
	} else {
		delete(p.called, key)
	}
}

// where returns the path, with the iteration inside a loop. Inside a fan-out, whose branches may be those of a list,
// and for attempts, it is there unless it is 0.
func (p *Printer) where(e *Event) string {
	path := report.Titled(e.Path, p.o.Titles)
	if e.Iteration > 0 || p.inLoop(e) {
		return path + "[" + strconv.Itoa(e.Iteration) + "]"
	}
	return path
}

// inLoop reports whether a step around the one of an event is a loop.
func (p *Printer) inLoop(e *Event) bool {
	for i, r := range e.Path {
		if r == '.' && p.loops[e.RunID+" "+e.Path[:i]] {
			return true
		}
	}
	return false
}

// head prints a line with time and place.
func (p *Printer) head(at time.Time, place string, c report.Color, text string) {
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

// paint returns a text in a color, if there are colors.
func (p *Printer) paint(c report.Color, text string) string {
	return report.Palette(p.o.Color).Paint(c, text)
}

// step prints the start or the end of a run, a step or a call.
func (p *Printer) step(e *Event) {
	s, err := e.Step()
	if err != nil {
		p.unread(e)
		return
	}
	switch e.Type {
	case RunStarted, StepStarted, CallStarted:
		key := openStep{e.Path, e.ChildRunID, e.Iteration}
		if _, open := p.began[key]; open { // nested loops: which one ends first is unknown
			p.began[key] = time.Time{}
		} else {
			p.began[key] = e.Timestamp
		}
		if s.Kind == report.KindForEach || s.Kind == report.KindWhile {
			p.loops[e.RunID+" "+e.Path] = true
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
		p.head(e.Timestamp, p.where(e), report.KindColor(s.Kind), text)
		return
	}
	text, color := "done", report.Green
	if e.Type == RunCompleted {
		text = "workflow " + s.Name + " done"
	}
	if s.Error != "" {
		text, color = "ended: "+report.ProblemWords(s.Error), report.Red
	}
	if d, ok := p.took(e); ok {
		text += " (" + report.Duration(d) + ")"
	}
	p.head(e.Timestamp, p.where(e), color, text)
	p.json("  ", s.Result)
}

// message prints a message of a model, or to one.
func (p *Printer) message(e *Event) {
	m, err := e.Message()
	if err != nil {
		p.unread(e)
		return
	}
	who := m.Role
	if m.Offline != "" {
		who += " (" + string(m.Offline) + ")"
	}
	blocks := m.Blocks
	if system := p.system(e, &m); system != "" {
		p.head(e.Timestamp, p.where(e), report.Cyan, "system")
		p.text("  ", system)
		blocks = blocks[:len(blocks)-1]
	}
	p.head(e.Timestamp, p.where(e), report.Cyan, who)
	for _, b := range blocks {
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

// system returns the system prompt of a request. Records have it as the last text of the first message, after one text
// or more. Later messages have one text, unless they are warnings that follow results of tools.
func (p *Printer) system(e *Event, m *Message) string {
	n := len(m.Blocks)
	if e.Type != MessageUser || n < 2 || p.called[openStep{e.Path, e.ChildRunID, e.Iteration}] {
		return ""
	}
	for _, b := range m.Blocks {
		if b.Type != BlockText {
			return ""
		}
	}
	return m.Blocks[n-1].Text
}

// tool prints a tool call or its result.
func (p *Printer) tool(e *Event) {
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

// unread prints an event whose payload does not have the form of its type.
func (p *Printer) unread(e *Event) {
	p.head(e.Timestamp, p.where(e), report.Red, string(e.Type))
	p.json("  ", e.Payload)
}

// text prints lines with a prefix, without control characters.
func (p *Printer) text(prefix, text string) {
	lines := strings.Split(strings.TrimRightFunc(text, unicode.IsSpace), "\n")
	shown := lines
	if len(lines) > someLines {
		shown = lines[:someLines]
	}
	for _, line := range shown {
		p.w.WriteString(strings.Repeat(" ", 8) + prefix + report.Shorten(report.Clean(line), someBytes) + "\n")
	}
	if more := len(lines) - len(shown); more > 0 {
		rest := p.paint(report.Dim, fmt.Sprintf("… %d more lines", more))
		fmt.Fprintf(p.w, "%s%s\n", strings.Repeat(" ", 8)+prefix, rest)
	}
}

// json prints a value on one line.
func (p *Printer) json(prefix string, raw json.RawMessage) {
	if len(raw) == 0 || string(raw) == "null" {
		return
	}
	p.text(prefix, string(raw))
}
