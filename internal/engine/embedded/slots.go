package embedded

import (
	"context"
	"maps"
	"slices"

	"github.com/espalier-run/espalier/internal/journal"
)

// Slots limits how many runs the processes of a store drive at the same time. A run that gets no slot waits in a queue:
// its messages and timers are recorded, and no task of it starts.
type Slots interface {
	// Acquire gives a run a slot of this process, or adds the run to the queue and returns false. If this process has a
	// slot for the run already, the slot gets the new number.
	Acquire(ctx context.Context, run journal.RunID, workflow string, slot int64) (bool, error)
	// Queue adds a run to the queue, unless it is there, and reports whether Acquire would succeed.
	Queue(ctx context.Context, run journal.RunID, workflow string) (bool, error)
	// Release releases a slot, unless it has another number by now, and returns the processes that may acquire one.
	Release(ctx context.Context, run journal.RunID, slot int64) ([]journal.Owner, error)
	// Leave removes a run of this process from the queue, and returns the processes that may acquire a slot.
	Leave(ctx context.Context, run journal.RunID) ([]journal.Owner, error)
}

// acquireSlot acquires a slot for a run, and returns its number. The number is 0 if slots are not limited. If there is
// no slot, the run is queued.
func (e *Engine) acquireSlot(
	ctx context.Context, id journal.RunID, workflow string,
) (slot int64, queued bool, err error) {
	if e.slots == nil || e.holding() {
		return 0, false, nil
	}
	slot = e.lastSlot.Add(1)
	acquired, err := e.slots.Acquire(ctx, id, workflow, slot)
	if err != nil {
		return 0, false, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !acquired {
		e.queued[id] = true
		return 0, true, nil
	}
	delete(e.queued, id)
	return slot, false, nil
}

// acquireStoredSlot is acquireSlot for a run that is not in memory.
func (e *Engine) acquireStoredSlot(ctx context.Context, id journal.RunID) (slot int64, queued bool, err error) {
	if e.slots == nil || e.holding() {
		return 0, false, nil
	}
	entry, err := e.store.Entry(ctx, id)
	if err != nil || entry.Root != "" || entry.Status == journal.Finished {
		return 0, false, nil // loading it reports why that is impossible
	}
	return e.acquireSlot(ctx, id, entry.Name)
}

// hasTurn queues a run that is not in memory, and reports whether it could acquire a slot.
func (e *Engine) hasTurn(ctx context.Context, entry *journal.Entry) (bool, error) {
	if e.slots == nil || e.holding() || entry.Status != journal.Running {
		return true, nil
	}
	// Queue gives the run its place even if it could acquire a slot at once: another process may be faster, and the run
	// must not lose its turn. acquireSlot forgets the entry in e.queued when it gets the slot.
	turn, err := e.slots.Queue(ctx, entry.ID, entry.Name)
	if err == nil {
		e.mu.Lock()
		e.queued[entry.ID] = true
		e.mu.Unlock()
	}
	return turn, err
}

// releaseSlot releases the slot of a run, in the background, so that callers may hold e.mu. The run may acquire a slot
// again before that happens; its number then differs, and Release leaves it alone. Close and Drain wait for the
// release.
func (e *Engine) releaseSlot(id journal.RunID, slot int64) {
	if slot == 0 {
		return
	}
	e.tasks.Go(func() {
		next, err := e.slots.Release(context.Background(), id, slot)
		if err != nil {
			e.Log.Error("slot not released", "run_id", id, "error", err)
		}
		e.wakeNext(next)
	})
}

// leaveQueue removes a run from the queue, in the background. e.mu is held.
func (e *Engine) leaveQueue(id journal.RunID) {
	delete(e.queued, id)
	e.tasks.Go(func() {
		next, err := e.slots.Leave(context.Background(), id)
		if err != nil {
			e.Log.Error("run not removed from the queue", "run_id", id, "error", err)
		}
		e.wakeNext(next)
	})
}

// wakeNext wakes the processes that may acquire a slot.
func (e *Engine) wakeNext(next []journal.Owner) {
	for _, owner := range next {
		if owner != e.process.ID() {
			e.process.Wake(owner)
			continue
		}
		// freed has room for one signal; a second one adds nothing, because retryQueued looks at every queued run.
		select {
		case e.freed <- struct{}{}:
		default:
		}
	}
}

// retryQueued drives the queued runs of this process that have their turn, and forgets those that need no slot anymore.
func (e *Engine) retryQueued(ctx context.Context) {
	e.mu.Lock()
	ids := slices.Sorted(maps.Keys(e.queued))
	e.mu.Unlock()
	for _, id := range ids {
		entry, err := e.store.Entry(ctx, id)
		if err != nil {
			continue // its first append may be in flight
		}
		// The place in the queue is given up if the run rests, or if another process drives it.
		driven := entry.Owner != "" && entry.Owner != e.process.ID() && e.process.Drives(entry.Owner)
		e.mu.Lock()
		if e.closed {
			e.mu.Unlock()
			return
		}
		here := e.runs[id] != nil || e.loading[id] != nil
		if !here && (entry.Status != journal.Running || driven) {
			e.leaveQueue(id)
			here = true
		}
		e.mu.Unlock()
		if here {
			continue
		}
		if turn, err := e.hasTurn(ctx, &entry); turn && err == nil {
			e.wake(id)
		}
	}
}

// queueOrphans replaces ClaimNext if slots are limited: it queues the runnable runs that have no living owner, the
// oldest first, and drives those that have their turn.
func (e *Engine) queueOrphans(ctx context.Context) error {
	var found []journal.Entry
	for entry, err := range e.store.Runs(ctx, journal.Filter{Status: journal.Running}) {
		if err != nil {
			return err
		}
		driven := entry.Owner != "" && entry.Owner != e.process.ID() && e.process.Drives(entry.Owner)
		if !driven && entry.Owner != journal.Temporal {
			found = append(found, entry)
		}
	}
	// Runs returns the newest run first.
	for _, entry := range slices.Backward(found) {
		if e.skips(entry.ID) {
			continue
		}
		turn, err := e.hasTurn(ctx, &entry)
		if err != nil {
			return err
		}
		if turn {
			e.wake(entry.ID)
		}
	}
	return nil
}
