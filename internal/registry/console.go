package registry

import (
	"context"
	"io"
	"time"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/report/console"
)

// followPoll is how often to look for what other processes have done: people
// do not notice it.
const followPoll = 50 * time.Millisecond

// ConsoleForm is how the progress of a run is shown.
type ConsoleForm int

// The forms.
const (
	ConsoleLines ConsoleForm = iota // one line for each event that matters
	ConsoleLive                     // a status area, redrawn in place
	ConsoleJSON                     // one JSON object for each event
)

// Console shows a run's progress until it is closed. size tells the columns and
// rows of the terminal; it is asked only by the live form.
func (r *Runtime) Console(run journal.RunID, form ConsoleForm, w io.Writer, colour bool, size func() (columns, rows int)) (done func() error, err error) {
	o := console.Options{
		Run: run, Source: r.Store, Style: console.Style{Colour: colour, Zone: time.Local},
		Outline: r.outline,
	}
	var sink report.Sink
	closing := func() error { return nil }
	switch form {
	case ConsoleJSON:
		sink = console.NewJSON(w, o)
	case ConsoleLive:
		live := console.NewLive(w, o, func() console.Size {
			columns, rows := size()
			return console.Size{Columns: columns, Rows: rows}
		}, time.Now)
		sink = live
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					if live.Tick() != nil {
						return // the terminal is gone; the run goes on
					}
				case <-stop:
					return
				}
			}
		}()
		closing = func() error {
			close(stop)
			<-stopped
			return live.Close()
		}
	default:
		sink = console.NewLines(w, o)
	}
	pos, err := r.Store.Last(context.Background())
	if err != nil {
		return nil, err
	}
	f := report.Follow(r.Store, sink, report.FollowOptions{After: pos, Log: r.log, Poll: followPoll})
	return func() error {
		flushed := f.Flush(context.Background())
		f.Close()
		if err := closing(); err != nil {
			return err
		}
		return flushed
	}, nil
}

// outline is the form of a workflow, by its hash.
func (r *Runtime) outline(definition string) (*report.Outline, error) {
	def, err := r.Engine.Definition(context.Background(), definition)
	if err != nil {
		return nil, err
	}
	return report.NewOutline(def.Program), nil
}
