package app

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/registry"
)

// Worker is a process that uses the store of a project.
type Worker struct {
	registry.Worker
	Runs     int // that it owns and that have not finished; on Temporal, those whose tasks it runs
	Draining bool
}

// drainPrefix starts the keys of the registers that ask processes to stop.
const drainPrefix = "drain/"

// drainKept is how long a request to a process stays that seems to be dead: it may only be cut off, or suspended.
const drainKept = time.Hour

// drainRequest is the content of such a register.
type drainRequest struct {
	At journal.Millis `json:"at"`
}

// drainPoll is how often a process looks whether it should stop.
const drainPoll = time.Second

// Workers lists the living processes that use the store, the oldest first. This process is not one of them.
func (a *App) Workers(ctx context.Context) ([]Worker, error) {
	env, err := a.runs(ctx)
	if err != nil {
		return nil, err
	}
	processes, err := env.Process.Workers(ctx)
	if err != nil {
		return nil, err
	}
	drivers, err := env.Drivers(ctx)
	if err != nil {
		return nil, err
	}
	// The owner of runs on Temporal is no process, so their drivers are counted from what processes announce.
	load := map[journal.Owner]int{}
	for e, err := range env.Store.Runs(ctx, Filter{Unfinished: true}) {
		if err != nil {
			return nil, err
		}
		load[e.Owner]++
		for _, owner := range drivers[e.ID] {
			load[owner]++
		}
	}
	asked, err := env.Store.List(ctx, drainPrefix)
	if err != nil {
		return nil, err
	}
	all := []Worker{}
	for _, p := range processes {
		if p.ID == env.Process.ID() {
			continue
		}
		all = append(all, Worker{
			Worker: p, Runs: load[p.ID],
			Draining: slices.ContainsFunc(asked, func(r journal.Register) bool {
				return r.Key == drainPrefix+string(p.ID)
			}),
		})
	}
	slices.SortStableFunc(all, func(x, y Worker) int { return x.Since.Compare(y.Since) })
	return all, nil
}

// Drain asks a worker to stop: it claims no more runs, lets running steps finish, and ends. The worker is named by the
// start of its ID.
func (a *App) Drain(ctx context.Context, name string) (*Worker, error) {
	all, err := a.Workers(ctx)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(w Worker) bool { return !strings.HasPrefix(string(w.ID), strings.ToUpper(name)) })
	switch {
	case len(all) == 0 || name == "":
		return nil, fail(NotFound, NoWorker, "unknown worker %q", name)
	case len(all) > 1:
		return nil, fail(InvalidRequest, "", "%d workers start with %q", len(all), name).advise("Write more of the ID.")
	case !all[0].Works:
		return nil, fail(InvalidRequest, NotWorker, "process %d on %s is not a worker", all[0].PID, all[0].Host)
	}
	env, err := a.runs(ctx)
	if err != nil {
		return nil, err
	}
	r := journal.Register{Key: drainPrefix + string(all[0].ID)}
	_, err = journal.SaveJSON(ctx, env.Store, r, drainRequest{journal.MillisOf(time.Now())})
	if err != nil && !errors.Is(err, journal.ErrConflict) { // asked already
		return nil, err
	}
	return &all[0], nil
}

// Drained returns a channel that is closed when Drain has asked this process to stop.
func (a *App) Drained() <-chan struct{} { return a.drained }

// watchDrain waits until this process is asked to stop, or the context ends. It removes requests to processes that
// have ended. That of this process stays for others to see until they find this process dead. A process that has lost
// its lease has another ID afterwards: requests to earlier ones are meant for it, too.
func (a *App) watchDrain(ctx context.Context, env *environment) {
	tick := time.NewTicker(drainPoll)
	defer tick.Stop()
	mine := map[journal.Owner]bool{}
	for {
		mine[env.Process.ID()] = true
		asked, err := env.Store.List(ctx, drainPrefix)
		if err != nil && ctx.Err() == nil {
			a.o.Log.Warn("requests to drain workers could not be read", "error", err)
		}
		for _, r := range asked {
			id := journal.Owner(strings.TrimPrefix(r.Key, drainPrefix))
			if mine[id] {
				close(a.drained)
				return
			}
			var request drainRequest
			_ = json.Unmarshal(r.Data, &request) // one of an earlier release has no time
			if env.Process.Dead(id) && time.Since(request.At.Time()) > drainKept {
				// If this fails, another process removes it.
				_, _ = env.Store.Save(ctx, journal.Register{Key: r.Key, Version: r.Version})
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
