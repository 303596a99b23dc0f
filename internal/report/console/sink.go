package console

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"sync"
	"time"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
)

// Source is what a console needs of a journal.Store.
type Source interface {
	Events(ctx context.Context, run journal.RunID, after journal.Seq) iter.Seq2[journal.Event, error]
}

// Options are what all consoles have in common.
type Options struct {
	Run    journal.RunID
	Source Source
	// Outline gives the steps of the definition that the run has pinned; nil
	// does without.
	Outline func(definition string) (*report.Outline, error)
	Style   Style
}

// follower keeps Progress in step with the journal. What happened before the
// first append that came is taken in silence.
type follower struct {
	o    Options
	mu   sync.Mutex
	p    *Progress
	tell func(n *Notice) error // nil tells nothing
	show func() error          // after appends that came together
}

// Record takes one append; it is a report.Sink. Appends of other runs pass by.
func (f *follower) Record(ctx context.Context, a journal.Appended) error {
	return f.RecordAll(ctx, []journal.Appended{a})
}

// RecordAll takes appends that came together; it makes a report.Batcher.
func (f *follower) RecordAll(ctx context.Context, appends []journal.Appended) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var failed error
	for i := range appends {
		if a := &appends[i]; a.Run == f.o.Run && len(a.Events) > 0 {
			failed = errors.Join(failed, f.take(ctx, a.Events))
		}
	}
	return errors.Join(failed, f.show())
}

func (f *follower) take(ctx context.Context, events []journal.Event) error {
	if first := events[0].Seq; first > f.p.seq+1 {
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
			if f.tell != nil {
				failed = errors.Join(failed, f.tell(&notices[j]))
			}
		}
	}
	return failed
}

func newFollower(o Options) *follower { return &follower{o: o, p: NewProgress(o.Run, o.Outline)} }

// printer is a follower that prints the lines of appends that came together at
// once: whoever reads is woken once.
type printer struct {
	*follower
	w     io.Writer
	lines bytes.Buffer
}

// mostHeld is how much is printed at once: what a pipe takes as a whole, so that
// the lines of others who print to the same one do not fall into ours.
const mostHeld = 4096

func newPrinter(w io.Writer, o Options, line func(n *Notice) ([]byte, error)) *printer {
	p := &printer{follower: newFollower(o), w: w}
	p.show = p.print
	p.tell = func(n *Notice) error {
		text, err := line(n)
		if p.lines.Len()+len(text) > mostHeld {
			err = errors.Join(err, p.print())
		}
		p.lines.Write(text)
		return err
	}
	return p
}

func (p *printer) print() error {
	defer p.lines.Reset()
	if p.lines.Len() == 0 {
		return nil
	}
	_, err := p.w.Write(p.lines.Bytes())
	return err
}

// Lines prints one line for each thing that matters.
type Lines struct{ *printer }

// NewLines prints to w.
func NewLines(w io.Writer, o Options) *Lines {
	return &Lines{newPrinter(w, o, func(n *Notice) ([]byte, error) {
		line := n.Line(o.Style)
		if line == "" {
			return nil, nil
		}
		return []byte(line + "\n"), nil
	})}
}

// JSON prints one JSON object for each notice.
type JSON struct{ *printer }

// NewJSON prints to w.
func NewJSON(w io.Writer, o Options) *JSON { return &JSON{newPrinter(w, o, (*Notice).JSON)} }

// Live redraws a status area in place.
type Live struct {
	*follower
	screen Screen
	size   func() Size
	now    func() time.Time
	closed bool
}

// NewLive draws to w, a terminal. size and now are asked at each drawing. Call
// Tick several times a second, and Close at the end.
func NewLive(w io.Writer, o Options, size func() Size, now func() time.Time) *Live {
	l := &Live{follower: newFollower(o), screen: Screen{w: w}, size: size, now: now}
	l.show = l.draw
	return l
}

// interval is the shortest time between two drawings: faster than anybody reads.
const interval = 50 * time.Millisecond

func (l *Live) draw() error {
	now := l.now()
	if l.closed || now.Sub(l.screen.drawn) < interval {
		return nil // the next tick will
	}
	l.screen.drawn = now
	size := l.size()
	return l.screen.Draw(l.p.Area(now, size, l.o.Style), size)
}

// Tick draws the area again, so that clocks go on and a new size counts.
func (l *Live) Tick() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.draw()
}

// Close takes the area away, leaves the summary, and gives the cursor back.
// Closing again does nothing.
func (l *Live) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	style := l.o.Style
	size := l.size()
	style.Width = size.orUsual().Columns - 1
	return l.screen.Finish(l.p.Summary(style), size)
}
