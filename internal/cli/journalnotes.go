package cli

import (
	"context"
	"time"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report/console"
	"github.com/espalier-run/espalier/internal/report/transcript"
)

// journalNotes are what the journal knows of a run and a transcript has no event for: claims, interruptions, retries,
// decisions and costs. Transcript and journal are two streams of the same run, which around merges. One goroutine uses
// it.
type journalNotes struct {
	run   journal.RunID
	style console.Style
	live  bool // the journal grows
	read  bool
	next  []journalNote
	last  string    // the summary
	seen  time.Time // of the latest event of the transcript
	err   error
	fetch func() error // adds what is new
}

// journalNote is a notice of the journal that is not printed yet. One without a line marks the place of an event that
// the transcript has, too.
type journalNote struct {
	at        time.Time
	line      string          // "" if the transcript says it
	event     transcript.Type // of the transcript that it belongs to; "" if there is none
	path      string
	iteration int
}

// journalOnly are the notices that a transcript has no event for.
var journalOnly = map[console.Event]bool{
	console.RunClaimed: true, console.StepSkipped: true, console.StepRetrying: true, console.StepLost: true,
	console.ModelReplied: true, console.ModelRetried: true, console.WaitStarted: true, console.WaitFinished: true,
	console.SignalReceived: true, console.Paused: true, console.Continued: true, console.Canceling: true,
	console.BudgetRaised: true, console.StateEdited: true, console.Rewound: true, console.InputRefused: true,
}

// transcribed are the notices of what a transcript has an event for, too.
var transcribed = map[console.Event]transcript.Type{
	console.StepStarted: transcript.StepStarted, console.StepFinished: transcript.StepCompleted,
	console.StepRetrying: transcript.StepCompleted, console.ModelReplied: transcript.MessageAssistant,
	console.ToolFinished: transcript.ToolResult,
}

// sameEvents are the types of events that transcribed has under another type.
var sameEvents = map[transcript.Type]transcript.Type{
	transcript.CallStarted: transcript.StepStarted, transcript.CallCompleted: transcript.StepCompleted,
	transcript.HookStarted: transcript.StepStarted, transcript.HookCompleted: transcript.StepCompleted,
}

// notesAround returns the notes that belong before and after an event of the transcript; for nil, the rest. Times alone
// do not decide, because many events happen within a millisecond: notices of the event itself divide the others.
func (m *journalNotes) notesAround(e *transcript.Event) (before, after []string) {
	if !m.read || m.live {
		m.load()
	}
	if e == nil {
		before = m.pop(len(m.next))
		if m.last != "" {
			before = append(before, m.last)
		}
		return before, nil
	}
	if e.Timestamp.After(m.seen) {
		m.seen = e.Timestamp
	}
	if own := m.index(e); own >= 0 {
		return m.pop(own), m.pop(1)
	}
	n := 0
	for n < len(m.next) {
		one := &m.next[n]
		if one.at.After(e.Timestamp) || one.event != "" && !one.at.Before(e.Timestamp) { // its event is yet to come
			break
		}
		n++
	}
	return m.pop(n), nil
}

// now returns the notes that belong after the events so far, if the transcript has no other event yet.
func (m *journalNotes) now() []string {
	m.load()
	n := 0
	for n < len(m.next) && (m.next[n].event == "" || m.next[n].at.Before(m.seen)) {
		n++
	}
	return m.pop(n)
}

// index returns the notice of what an event is about, or -1.
func (m *journalNotes) index(e *transcript.Event) int {
	t := e.Type
	if same := sameEvents[t]; same != "" {
		t = same
	}
	for i := range m.next {
		one := &m.next[i]
		if one.at.After(e.Timestamp) {
			break
		}
		if one.event == t && one.path == e.Path && one.iteration == e.Iteration && one.at.Equal(e.Timestamp) {
			return i
		}
	}
	return -1
}

// pop removes the first notices, and returns their lines.
func (m *journalNotes) pop(n int) (lines []string) {
	for _, one := range m.next[:n] {
		if one.line != "" {
			lines = append(lines, one.line)
		}
	}
	m.next = m.next[n:]
	return lines
}

func (m *journalNotes) load() {
	m.read, m.err = true, m.fetch()
}

// follow makes the notes those of a journal on this machine.
func (m *journalNotes) follow(j *app.Journal, root journal.RunID) {
	progress := console.NewProgress(root, j.Outline)
	m.fetch = func() error {
		for e, err := range j.Events(context.Background(), root, progress.Seq()) {
			if err != nil {
				return err
			}
			notices, err := progress.Apply(&e)
			if err != nil {
				return err
			}
			for i := range notices {
				m.add(&notices[i])
			}
		}
		return nil
	}
}

func (m *journalNotes) add(n *console.Notice) {
	if n.Run != m.run {
		return
	}
	one := journalNote{at: n.At.Time, event: transcribed[n.Event], path: n.Path, iteration: n.Iteration}
	if n.Event == console.RunFinished {
		m.last = n.Remark(m.style)
		return
	}
	if journalOnly[n.Event] {
		one.line = n.Remark(m.style)
	}
	if one.line != "" || one.event != "" {
		m.next = append(m.next, one)
	}
}
