package console

import (
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
	drew func() error          // after each append; nil does nothing
}

// Record takes one append; it is a report.Sink. Appends of other runs pass by.
func (f *follower) Record(ctx context.Context, a journal.Appended) error {
	if a.Run != f.o.Run || len(a.Events) == 0 {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if first := a.Events[0].Seq; first > f.p.seq+1 {
		for e, err := range f.o.Source.Events(ctx, f.o.Run, f.p.seq) {
			if err != nil {
				return err
			}
			if e.Seq >= first {
				break
			}
			if _, err := f.p.Take(&e); err != nil {
				return err
			}
		}
	}
	var failed error
	for i := range a.Events {
		if a.Events[i].Seq <= f.p.seq {
			continue
		}
		notices, err := f.p.Take(&a.Events[i])
		if err != nil {
			return err
		}
		for j := range notices {
			if f.tell != nil {
				failed = errors.Join(failed, f.tell(&notices[j]))
			}
		}
	}
	if f.drew != nil {
		failed = errors.Join(failed, f.drew())
	}
	return failed
}

func newFollower(o Options) *follower { return &follower{o: o, p: NewProgress(o.Run, o.Outline)} }

// Lines prints one line for each thing that matters.
type Lines struct{ *follower }

// NewLines prints to w.
func NewLines(w io.Writer, o Options) *Lines {
	l := &Lines{newFollower(o)}
	l.tell = func(n *Notice) error {
		line := n.Line(o.Style)
		if line == "" {
			return nil
		}
		_, err := io.WriteString(w, line+"\n")
		return err
	}
	return l
}

// JSON prints one JSON object for each notice.
type JSON struct{ *follower }

// NewJSON prints to w.
func NewJSON(w io.Writer, o Options) *JSON {
	j := &JSON{newFollower(o)}
	j.tell = func(n *Notice) error {
		line, err := n.JSON()
		if err == nil {
			_, err = w.Write(line)
		}
		return err
	}
	return j
}

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
	l.drew = l.draw
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
