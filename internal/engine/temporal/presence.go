package temporal

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/journal"
)

// Temporal does not tell reliably which workers are alive. So every process that
// runs tasks has a register in the journal, which counts as long as the process
// lives.

// presencePrefix is followed by the id of the process.
const presencePrefix = "temporal/process/"

// presence is what a process says about itself.
type presence struct {
	All  bool            `json:"all,omitempty"` // it runs the tasks of all runs
	Runs []journal.RunID `json:"runs,omitempty"`
}

// announce saves what this process does, for Driven in other processes. It only
// informs people, so a failure is not an error.
func (e *Engine) announce(ctx context.Context) {
	if e.c.Process == nil {
		return
	}
	e.announcing.Lock()
	defer e.announcing.Unlock()
	e.mu.Lock()
	now := presence{All: e.all, Runs: slices.Sorted(maps.Keys(e.mine))}
	gone := e.closed || e.held
	e.mu.Unlock()
	if e.announced.Key == "" {
		e.announced.Key = presencePrefix + string(e.c.Process.ID()) + "/" + e.identity
	}
	next := e.announced
	next.Data = nil
	if !gone {
		var err error
		if next.Data, err = json.Marshal(now); err != nil {
			e.Log.Warn("process not announced", "error", err)
			return
		}
	}
	if next.Data == nil && next.Version == 0 {
		return
	}
	version, err := e.store.Save(ctx, next)
	if err != nil {
		if !errors.Is(err, journal.ErrClosed) {
			e.Log.Warn("process not announced", "error", err)
		}
		return
	}
	e.announced.Version = version
}

// Driven reports whether another living process runs the tasks of a run.
func (e *Engine) Driven(ctx context.Context, id journal.RunID) bool {
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
		if engine == e.identity || json.Unmarshal(r.Data, &p) != nil || !p.All && !slices.Contains(p.Runs, id) {
			continue
		}
		if o := journal.Owner(owner); o == e.c.Process.ID() || !e.c.Process.Dead(o) {
			return true
		}
		if _, err := e.store.Save(ctx, journal.Register{Key: r.Key, Version: r.Version}); err != nil {
			e.Log.Debug("presence of a dead process not removed", "error", err)
		}
	}
	return false
}

// isMine reports whether this process has started or continued a run.
func (e *Engine) isMine(id journal.RunID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mine[id]
}
