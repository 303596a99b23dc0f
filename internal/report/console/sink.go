package console

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
)

// Options configure a console.
type Options struct {
	Run    journal.RunID
	Source journal.EventReader
	// Outline returns the steps of the pinned definition; nil if they are unknown.
	Outline func(definition string) (*report.Outline, error)
	Style   Style
	// Shown is the last event that an earlier console has shown. The status area and the summary leave out the steps
	// that finished until then.
	Shown journal.Seq
	// Checkpoint returns where the audit log of the run can be continued, nil if that is not known. Then only what
	// follows is read.
	Checkpoint func(ctx context.Context) (*report.Checkpoint, error)
	// Columns returns the width of the terminal that Lines prints to; nil if it is none.
	Columns func() int
}

// follower keeps Progress up to date with the journal. Events before the first append that it gets have no notices.
type follower struct {
	o      Options
	mu     sync.Mutex
	p      *Progress
	notify func(n *Notice) error // nil if notices are not shown
	show   func() error          // called after each group of appends
}

// Record implements report.Sink. It ignores appends of other runs.
func (f *follower) Record(ctx context.Context, appends ...journal.Appended) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var failed error
	for i := range appends {
		if a := &appends[i]; a.Run == f.o.Run && len(a.Events) > 0 {
			failed = errors.Join(failed, f.apply(ctx, a.Events))
		}
	}
	return errors.Join(failed, f.show())
}

// apply applies events. If events before them are missing, it reads those from the journal without notices, from a
// checkpoint on if there is one: they happened before the program was started.
func (f *follower) apply(ctx context.Context, events []journal.Event) error {
	if first := events[0].Seq; first > f.p.seq+1 {
		if f.p.seq == 0 && f.o.Checkpoint != nil {
			if c, err := f.o.Checkpoint(ctx); err == nil && c != nil && c.Seq < first {
				f.p.restore(c)
			}
		}
		for e, err := range f.o.Source.Events(ctx, f.o.Run, f.p.seq) {
			if err != nil {
				return err
			}
			if e.Seq >= first {
				break
			}
			if _, err := f.p.Apply(&e); err != nil {
				return err
			}
		}
	}
	var failed error
	for i := range events {
		if events[i].Seq <= f.p.seq {
			continue
		}
		notices, err := f.p.Apply(&events[i])
		if err != nil {
			return err
		}
		for j := range notices {
			if f.notify != nil {
				failed = errors.Join(failed, f.notify(&notices[j]))
			}
		}
	}
	return failed
}

// newFollower returns a follower of a run.
func newFollower(o Options) *follower {
	p := NewProgress(o.Run, o.Outline)
	p.shown = o.Shown
	return &follower{o: o, p: p}
}

// printer is a follower that prints the lines of a group of appends by one write, which wakes the reader once.
type printer struct {
	*follower
	w     io.Writer
	lines bytes.Buffer
}

// maxWrite is how much is written at once: what a pipe takes atomically, so that lines of other programs are not mixed
// into these.
const maxWrite = 4096

// newPrinter returns a printer that writes the line of each notice.
func newPrinter(w io.Writer, o Options, line func(n *Notice) ([]byte, error)) *printer {
	p := &printer{follower: newFollower(o), w: w}
	p.show = p.print
	p.notify = func(n *Notice) error {
		text, err := line(n)
		if p.lines.Len()+len(text) > maxWrite {
			err = errors.Join(err, p.print())
		}
		p.lines.Write(text)
		return err
	}
	return p
}

// print writes the lines so far. Lines that cannot be written are dropped.
func (p *printer) print() error {
	defer p.lines.Reset()
	if p.lines.Len() == 0 {
		return nil
	}
	_, err := p.w.Write(p.lines.Bytes())
	return err
}

// Lines prints one line for each notice that is worth one.
type Lines struct{ *printer }

// NewLines returns a Lines that prints to w.
func NewLines(w io.Writer, o Options) *Lines {
	return &Lines{newPrinter(w, o, func(n *Notice) ([]byte, error) {
		line := n.Line(o.Style)
		if line == "" {
			return nil, nil
		}
		what, command := n.waitsFor(&o.Style)
		if n.Event == WaitStarted && command != "" && o.Columns != nil &&
			report.Width(withoutColors(line)) > o.Columns() {
			line = o.Style.line(n, what+":", report.Amber) + "\n  " + o.Style.paint(report.Amber, report.Clean(command))
		}
		return []byte(line + "\n"), nil
	})}
}

// JSON prints one JSON object for each notice.
type JSON struct{ *printer }

// NewJSON returns a JSON that prints to w.
func NewJSON(w io.Writer, o Options) *JSON { return &JSON{newPrinter(w, o, (*Notice).JSON)} }

// Live redraws a status area in place.
type Live struct {
	*follower
	screen Screen
	size   func() Size
	now    func() time.Time
	closed bool
}

// NewLive returns a Live that draws to w, a terminal. It calls size and now for each drawing. Call Tick several times a
// second, and Close at the end.
func NewLive(w io.Writer, o Options, size func() Size, now func() time.Time) *Live {
	l := &Live{follower: newFollower(o), screen: Screen{w: w}, size: size, now: now}
	l.show = l.draw
	return l
}

// interval is the shortest time between two drawings.
const interval = 50 * time.Millisecond

// draw draws the area, unless it was drawn a moment ago.
func (l *Live) draw() error {
	now := l.now()
	if l.closed || now.Sub(l.screen.drawn) < interval {
		return nil // the next tick draws
	}
	l.screen.drawn = now
	size := l.size()
	return l.screen.Draw(l.p.Area(now, size, l.o.Style), size)
}

// Tick draws the area again, with the current time and size.
func (l *Live) Tick() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.draw()
}

// Print prints lines above the area, which the next Tick draws again. Other output would be overwritten by the area.
func (l *Live) Print(lines ...string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.screen.drawn = time.Time{}
	return l.screen.Print(lines, l.size())
}

// Close replaces the area by the summary and shows the cursor. It may be called again.
func (l *Live) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	style := l.o.Style
	size := l.size()
	style.Width = size.withDefaults().Columns - 1
	return l.screen.Finish(l.p.Summary(style), size)
}
