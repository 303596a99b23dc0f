package temporal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/journal"
)

// Temporal does not report reliably which workers are alive. Therefore every process that
// runs tasks keeps a register in the journal, which is valid as long as the process
// lives.

// presencePrefix is followed by the id of the process.
const presencePrefix = "temporal/process/"

// presence describes a process.
type presence struct {
	// Place is the namespace and the task queue that it uses; empty for earlier builds.
	Place string `json:"place,omitempty"`
	// Server is the address of the server, and Cluster identifies it; empty until it has answered.
	Server  string          `json:"server,omitempty"`
	Cluster string          `json:"cluster,omitempty"`
	All     bool            `json:"all,omitempty"`  // it runs the tasks of all runs
	Runs    []journal.RunID `json:"runs,omitempty"` // that it has started or continued
	Busy    []journal.RunID `json:"busy,omitempty"` // whose tasks are running in it, as of the last second
	// Labels are those of the process: it runs only tasks that need no others.
	Labels []string `json:"labels,omitempty"`
}

// announce saves what this process does, for Driven in other processes. It only
// informs people, so a failure is not an error.
func (e *Engine) announce(ctx context.Context) {
	if e.c.Process == nil {
		return
	}
	e.announcing.Lock()
	defer e.announcing.Unlock()
	cluster := e.knownCluster()
	e.mu.Lock()
	now := presence{
		Place: e.place(), Server: e.c.Address, Cluster: cluster, All: e.all, Runs: slices.Sorted(maps.Keys(e.mine)),
		Labels: e.c.Labels,
	}
	for j := range e.jobs {
		now.Busy = append(now.Busy, j.in.Run)
	}
	slices.Sort(now.Busy)
	now.Busy = slices.Compact(now.Busy)
	gone := e.closed || e.held
	e.mu.Unlock()
	if e.announced.Key == "" {
		e.announced.Key = presencePrefix + string(e.c.Process.ID()) + "/" + e.identity
	}
	// Save only what has changed. Only this engine writes the register, so its version is known; nil data removes it.
	next := e.announced
	next.Data = nil
	if !gone {
		var err error
		if next.Data, err = json.Marshal(now); err != nil {
			e.Log.Warn("process not announced", "error", err)
			return
		}
	}
	if bytes.Equal(next.Data, e.announced.Data) {
		return
	}
	version, err := e.store.Save(ctx, next)
	if err != nil {
		if !errors.Is(err, journal.ErrClosed) {
			e.Log.Warn("process not announced", "error", err)
		}
		return
	}
	next.Version = version
	e.announced = next
}

// announceInterval is how often a worker says which runs it works on.
const announceInterval = time.Second

// announceBusy keeps up to date what other processes know about this one.
func (e *Engine) announceBusy(ctx context.Context) {
	for pause(ctx, announceInterval) {
		e.announce(ctx)
	}
}

// Drivers returns the processes that run tasks of runs, or wait for the next ones of a run that they have started.
func (e *Engine) Drivers(ctx context.Context) (map[journal.RunID][]journal.Owner, error) {
	all, err := e.store.List(ctx, presencePrefix)
	out := map[journal.RunID][]journal.Owner{}
	for _, r := range all {
		owner, _, _ := strings.Cut(strings.TrimPrefix(r.Key, presencePrefix), "/")
		var p presence
		if err := r.Decode(&p); err != nil {
			return nil, err
		}
		runs := p.Busy
		if !p.All {
			runs = p.Runs
		}
		for _, id := range runs {
			out[id] = append(out[id], journal.Owner(owner))
		}
	}
	return out, err
}

// Driven reports whether another living process runs the tasks of a run.
func (e *Engine) Driven(ctx context.Context, run journal.Entry) bool {
	if e.c.Process == nil {
		return false
	}
	all, err := e.store.List(ctx, presencePrefix)
	if err != nil {
		return false
	}
	for _, r := range all {
		owner, engine, _ := strings.Cut(strings.TrimPrefix(r.Key, presencePrefix), "/")
		var p presence
		if engine == e.identity || json.Unmarshal(r.Data, &p) != nil || !p.All && !slices.Contains(p.Runs, run.ID) ||
			!hasAll(p.Labels, e.c.Needs[run.Name]) {
			continue
		}
		if o := journal.Owner(owner); o == e.c.Process.ID() || !e.c.Process.Dead(o) {
			return true
		}
		// Remove the register of a dead process. A conflict means that another process has removed it.
		if _, err := e.store.Save(ctx, journal.Register{Key: r.Key, Version: r.Version}); err != nil {
			e.Log.Debug("presence of a dead process not removed", "error", err)
		}
	}
	return false
}

// place is the namespace and the task queue of this engine.
func (e *Engine) place() string { return e.c.Namespace + "/" + e.c.TaskQueue }

// knownCluster identifies the server, whatever its address; empty until it has answered.
func (e *Engine) knownCluster() string {
	e.connecting.Lock()
	defer e.connecting.Unlock()
	return e.cluster
}

// elsewhere returns the server, namespace and task queue, if they are not those of this engine, of a living process
// that runs a task of a run, or that has started or continued it. With all, it may also be one that would run the next
// task.
func (e *Engine) elsewhere(ctx context.Context, id journal.RunID, all bool) (string, error) {
	if e.c.Process == nil {
		return "", nil
	}
	processes, err := e.store.List(ctx, presencePrefix)
	if err != nil {
		return "", err
	}
	for _, r := range processes {
		owner, _, _ := strings.Cut(strings.TrimPrefix(r.Key, presencePrefix), "/")
		var p presence
		if err := r.Decode(&p); err != nil {
			return "", err
		}
		drives := slices.Contains(p.Busy, id) || p.All && all || !p.All && slices.Contains(p.Runs, id)
		away := p.Cluster != "" && p.Cluster != e.knownCluster()
		if p.Place != "" && (away || p.Place != e.place()) && drives && !e.c.Process.Dead(journal.Owner(owner)) {
			return strings.Join([]string{p.Server, p.Place}, "/"), nil
		}
	}
	return "", nil
}

// isMine reports whether this process has started or continued a run.
func (e *Engine) isMine(id journal.RunID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mine[id]
}
