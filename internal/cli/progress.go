package cli

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/report/console"
	"github.com/espalier-run/espalier/internal/terminal"
)

// redrawEvery is how often the status area of a terminal is redrawn.
const redrawEvery = 100 * time.Millisecond

// showProgress shows the progress of a run until done is called: as JSON with --follow, as a status area on a terminal,
// or else one line for each event. done waits until everything that was appended is shown, and returns the first error
// of showing it. Progress starts after the fact a.shown.
func (a *invocation) showProgress(j *app.Journal, run journal.RunID) (done func() error, err error) {
	o := console.Options{
		Run: run, Source: j, Style: console.Style{Color: a.colorErr && !a.follow, Zone: time.Local},
		Outline: j.Outline, Shown: a.shown,
		Checkpoint: func(ctx context.Context) (*report.Checkpoint, error) { return j.Checkpoint(ctx, run) },
	}
	var sink report.Sink
	closing := func() error { return nil }
	switch {
	case a.json && a.follow:
		sink = console.NewJSON(terminal.JSON(a.stdout), o)
	case a.quiet:
		return func() error { return nil }, nil
	case a.IsTerminal(a.Stderr) && !a.verbose:
		live := console.NewLive(a.paintedErr(), o, a.consoleSize, time.Now)
		stop := redraw(live)
		a.live.Store(live)
		sink, closing = live, func() error {
			defer a.live.Store(nil)
			return stop()
		}
	default:
		if a.IsTerminal(a.Stderr) {
			o.Columns = func() int { return a.consoleSize().Columns }
		}
		sink = console.NewLines(a.paintedErr(), o)
	}
	f, err := j.Follow(sink)
	if err != nil {
		return nil, errors.Join(err, closing())
	}
	return func() error {
		flushed := f.Flush(context.Background())
		f.Close()
		if err := closing(); err != nil {
			return err
		}
		return flushed
	}, nil
}

// redraw redraws a status area at regular intervals, until the returned function is called.
func redraw(live *console.Live) (closing func() error) {
	ctx, stop := context.WithCancel(context.Background())
	var loop sync.WaitGroup
	loop.Go(func() {
		tick := time.NewTicker(redrawEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if live.Tick() != nil {
					return // the terminal is gone; the run continues
				}
			case <-ctx.Done():
				return
			}
		}
	})
	return func() error {
		stop()
		loop.Wait()
		return live.Close()
	}
}

func (a *invocation) consoleSize() console.Size {
	if columns, rows := terminalSize(a.Stderr); columns > 0 {
		return console.Size{Columns: columns, Rows: rows}
	}
	return console.Size{Columns: a.columns(), Rows: 24}
}
