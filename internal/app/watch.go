package app

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
)

// followPoll is how often appends of other processes are looked for: people do not notice the delay.
const followPoll = 50 * time.Millisecond

// Event is an event of a run, with its position in the journal.
type Event struct {
	// Pos is the position of the append that has the event. Watching from there yields what follows that append.
	Pos journal.Pos
	// Root is the root run of the event's run.
	Root journal.RunID
	// Event is valid until the next one is asked for; its Run and Step stay valid, and change with the run.
	*report.Event
}

// WatchRequest selects events.
type WatchRequest struct {
	// Run is a root run; empty watches all runs of the project.
	Run journal.RunID
	// After is a position in the journal; zero is its start. See App.Position.
	After journal.Pos
	// Until ends with the events at a position, without waiting for others; zero waits for ever.
	Until journal.Pos
}

// Position returns the current end of the journal, zero if the project has no runs.
func (a *App) Position(ctx context.Context) (journal.Pos, error) {
	env, err := a.runs(ctx)
	if err != nil {
		return 0, err
	}
	return env.Store.Last(ctx)
}

// Ready returns an error if the store or the server that drives runs cannot be reached.
func (a *App) Ready(ctx context.Context) error {
	env, err := a.runs(ctx)
	if err != nil {
		return err
	}
	if _, err := env.Store.Last(ctx); err != nil {
		return err
	}
	return env.engineReady(ctx)
}

// engineReady returns an error if the server that drives runs cannot be reached.
func (env *environment) engineReady(ctx context.Context) error {
	if remote, ok := env.Engine.(engine.Remote); ok {
		return remote.Ready(ctx)
	}
	return nil
}

// Watch yields the events of runs in the order of the journal, without gaps or duplicates, as they happen and whichever
// process appends them. It ends with the error of the context, after the last position asked for, or when the caller
// stops.
func (a *App) Watch(ctx context.Context, req WatchRequest) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		env, err := a.watched(ctx, req.Run)
		if err != nil {
			yield(Event{}, err)
			return
		}
		w := &watcher{
			env: env, outline: a.outline(ctx, env), yield: yield, open: map[journal.RunID]*report.Interpreter{},
		}
		for appended, err := range env.appends(ctx, req) {
			if err == nil {
				err = w.show(ctx, appended)
			}
			switch {
			case errors.Is(err, errStopped):
				return
			case err != nil:
				yield(Event{}, err)
				return
			}
		}
	}
}

// appends yields the appends to the journal that a request asks for.
func (env *environment) appends(ctx context.Context, req WatchRequest) iter.Seq2[journal.Appended, error] {
	all := journal.Follow(ctx, env.Shown, req.After, followPoll)
	if req.Until != 0 {
		all = env.Shown.Tail(ctx, req.After)
	}
	return func(yield func(journal.Appended, error) bool) {
		for appended, err := range all {
			if err == nil && req.Until != 0 && appended.Pos > req.Until {
				return
			}
			asked := (req.Run == "" || appended.Run == req.Run) && len(appended.Events) > 0
			if (err != nil || asked) && !yield(appended, err) {
				return
			}
		}
	}
}

// errStopped ends a loop because its consumer has stopped.
var errStopped = errors.New("the consumer has stopped")

// A watcher turns appends to the journal into events for readers.
type watcher struct {
	env     *environment
	outline func(definition string) (*report.Outline, error)
	yield   func(Event, error) bool
	// open has the runs that are not over. Interpreting an append requires everything that the run recorded before.
	open map[journal.RunID]*report.Interpreter
}

// show yields the events of an append; it returns errStopped if the consumer stops.
func (w *watcher) show(ctx context.Context, appended journal.Appended) error {
	in, err := w.interpreter(ctx, appended.Run, appended.Events[0].Seq-1)
	if err != nil {
		return err
	}
	for i := range appended.Events {
		over := false
		err := in.Interpret(&appended.Events[i], func(e *report.Event) error {
			over = over || e.Type == report.RunFinished && e.Run.Caller == nil
			if !w.yield(Event{appended.Pos, appended.Run, e}, nil) {
				return errStopped
			}
			return nil
		})
		if err != nil {
			return err
		}
		if over {
			delete(w.open, appended.Run)
		}
	}
	return nil
}

// interpreter returns the interpreter of a run that has read its events up to a sequence number.
func (w *watcher) interpreter(ctx context.Context, run journal.RunID, upTo journal.Seq) (*report.Interpreter, error) {
	if in := w.open[run]; in != nil {
		return in, nil
	}
	in := report.NewInterpreter(run, w.outline).TrackBudgets()
	if err := w.env.catchUp(ctx, in, run, upTo); err != nil {
		return nil, w.env.runError(run, err)
	}
	w.open[run] = in
	return in, nil
}

// watched returns an environment whose store has the runs to watch.
func (a *App) watched(ctx context.Context, run journal.RunID) (*environment, error) {
	if run != "" {
		return a.reader(ctx, run)
	}
	return a.runs(ctx)
}

// catchUp interprets the facts of a run up to a sequence number, and drops their events.
func (env *environment) catchUp(
	ctx context.Context, in *report.Interpreter, run journal.RunID, last journal.Seq,
) error {
	if last == 0 {
		return nil
	}
	var after journal.Seq
	if c, err := env.checkpoint(ctx, run); err == nil && c != nil && c.Seq <= last {
		if in.Restore(c.State, report.ReaderData{}) == nil {
			after = c.Seq
		}
	}
	for e, err := range env.Shown.Events(ctx, run, after) {
		if err != nil || e.Seq > last {
			return err
		}
		if err := in.Interpret(&e, func(*report.Event) error { return nil }); err != nil {
			return err
		}
	}
	return nil
}

// outline returns a function with which interpreters read the structure of definitions.
func (a *App) outline(ctx context.Context, env *environment) func(definition string) (*report.Outline, error) {
	return func(definition string) (*report.Outline, error) {
		p, err := env.Program(ctx, definition)
		if err != nil {
			return nil, err
		}
		return report.NewOutline(p), nil
	}
}

// Journal gives renderers of progress and of records access to the facts of runs.
type Journal struct {
	app *App
	env *environment
}

// Journal returns the journal that has a run.
func (a *App) Journal(ctx context.Context, id journal.RunID) (*Journal, error) {
	env, err := a.reader(ctx, id)
	if err != nil {
		return nil, err
	}
	return &Journal{a, env}, nil
}

// Journal returns the journal that will have the run. Open the storage first.
func (p *Prepared) Journal() *Journal { return &Journal{p.env.app, p.env} }

// Events yields the facts of a run after a sequence number, redacted.
func (j *Journal) Events(ctx context.Context, id journal.RunID, after journal.Seq) iter.Seq2[journal.Event, error] {
	return j.env.Shown.Events(ctx, id, after)
}

// Checkpoint returns a checkpoint of a run's audit log, nil if there is none. A reader that continues there need not
// read what happened before.
func (j *Journal) Checkpoint(ctx context.Context, id journal.RunID) (*report.Checkpoint, error) {
	return j.env.checkpoint(ctx, id)
}

// checkpoint returns a checkpoint of a run's audit log, nil if there is none. A checkpoint has facts as the journal has
// them, so runs with redaction are read from their start.
func (env *environment) checkpoint(ctx context.Context, id journal.RunID) (*report.Checkpoint, error) {
	if rules, err := env.Shown.Rules(ctx, id); err != nil || rules != nil {
		return nil, err
	}
	return env.Audits.Checkpoint(ctx, id)
}

// Outline returns the structure of a workflow, by the hash of its definition.
func (j *Journal) Outline(definition string) (*report.Outline, error) {
	return j.app.outline(context.Background(), j.env)(definition)
}

// Follow feeds a renderer with everything that is appended from now on, redacted.
func (j *Journal) Follow(sink report.Sink) (*report.Follower, error) {
	pos, err := j.env.Store.Last(context.Background())
	if err != nil {
		return nil, err
	}
	return report.Follow(j.env.Shown, sink, report.FollowOptions{After: pos, Log: j.app.o.Log, Poll: followPoll}), nil
}
