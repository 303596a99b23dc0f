package embedded

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
)

// schedule sets the timer for a run in memory. r.mu is held.
func (e *Engine) schedule(r *run) {
	wake, ok := r.wake()
	if !ok {
		return
	}
	e.mu.Lock()
	e.sleeping[r.id] = wake
	e.setTimer(wake)
	e.mu.Unlock()
}

// setTimer makes the engine's only timer fire at this time, or earlier if it is
// set so. e.mu is held.
func (e *Engine) setTimer(at journal.Millis) {
	if e.closed {
		return
	}
	in := min(max(at.Time().Sub(e.now().Time()), 0), maxTimer)
	if e.timer == nil {
		e.timerAt = at
		e.timer = time.AfterFunc(in, e.onTimer)
		return
	}
	if e.timerAt == 0 || at < e.timerAt {
		e.timerAt = at
		e.timer.Reset(in)
	}
}

// maxTimer is the longest interval of the engine's timer. Go's timers do not
// advance while the machine is suspended, but the wall clock does.
const maxTimer = time.Minute

// onTimer wakes the runs that are due and sets the timer again. It runs in the goroutine of the timer. It calls wake
// without e.mu, because wake locks run.mu, which comes first.
func (e *Engine) onTimer() {
	now := e.now()
	var due []journal.RunID
	var next journal.Millis
	e.mu.Lock()
	e.timerAt = 0
	// The timer may fire early, because setTimer never waits for longer than maxTimer: then nothing is due.
	for id, wake := range e.sleeping {
		if wake <= now {
			due = append(due, id)
			delete(e.sleeping, id)
		} else if next == 0 || wake < next {
			next = wake
		}
	}
	if next != 0 {
		e.setTimer(next)
	}
	all := e.all
	e.mu.Unlock()
	for _, id := range due {
		e.wake(id)
	}
	if all {
		e.driveDue()
	}
}

// wake makes a run decide on what is due, and loads it if it is not in memory.
func (e *Engine) wake(id journal.RunID) {
	e.mu.Lock()
	r, skip, busy := e.runs[id], e.skip, e.ending[id] != nil
	e.mu.Unlock()
	if r != nil {
		r.mu.Lock()
		r.advance()
		r.mu.Unlock()
		return
	}
	if skip != nil && skip(id) {
		return
	}
	if busy { // acquire waits for its tasks; other runs must not
		go e.wakeStored(id)
	} else {
		e.wakeStored(id)
	}
}

// wakeStored loads a run and makes it decide on what is due.
func (e *Engine) wakeStored(id journal.RunID) {
	err := e.acquire(context.Background(), id, false)
	if err == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	// Report the error to the waiters now, rather than after their next attempt to load the run. Without waiters, the
	// error is only logged.
	if !isHandledElsewhere(err) {
		e.Log.Error("run not driven", "run_id", id, "error", err)
		e.unloaded[id] = time.Now().Add(unloadedInterval)
		if e.waiting[id] != nil {
			e.failed[id] = err
		}
	}
	// The waiters read the store again.
	e.rested(id)
}

// isHandledElsewhere reports whether an error of acquire means that another
// process drives the run, or that nothing is left to drive.
func isHandledElsewhere(err error) bool {
	var owned *journal.OwnedError
	return errors.As(err, &owned) || errors.Is(err, journal.ErrConflict) || errors.Is(err, journal.ErrFenced) ||
		errors.Is(err, engine.ErrClosed) || errors.Is(err, journal.ErrFinished)
}

// driveDue claims every run of the store that is due.
func (e *Engine) driveDue() {
	ids, next, err := e.store.Due(context.Background(), e.now())
	if err != nil {
		e.Log.Error("cannot list due runs", "error", err)
		return
	}
	if next != 0 {
		e.mu.Lock()
		e.setTimer(next)
		e.mu.Unlock()
	}
	for _, id := range ids {
		e.wake(id)
	}
}

// readInboxes delivers messages of other processes: to runs in memory and, if
// this process drives the whole store, to all others.
func (e *Engine) readInboxes(ctx context.Context) {
	boxes, err := e.store.PendingInboxes(ctx)
	if err != nil {
		e.Log.Error("cannot list inboxes", "error", err)
		return
	}
	for _, box := range boxes {
		e.mu.Lock()
		r, all := e.runs[box.Run], e.all
		e.mu.Unlock()
		if r == nil {
			if all {
				e.wake(box.Run)
			}
			continue
		}
		posted, err := e.store.Inbox(ctx, box.Run)
		if err != nil {
			e.Log.Error("inbox not read", "run_id", box.Run, "error", err)
			continue
		}
		r.deliver(posted)
	}
}

// deliver passes messages to the run, each once. They stay in the inbox until the
// append that answers them is durable.
func (r *run) deliver(posted []journal.InboxMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone {
		return
	}
	fresh := posted[:0]
	// Ids of an inbox grow, and Inbox returns messages in their order. Those up to delivered are queued or in the
	// append in flight.
	for _, m := range posted {
		if m.ID > r.delivered {
			r.delivered = m.ID
			fresh = append(fresh, m)
		}
	}
	if len(fresh) > 0 {
		r.queue = append(r.queue, r.messages(fresh)...)
		r.advance()
	}
}

// Listen implements engine.Driver. It reads the inboxes when another process
// wakes this one, and at regular intervals in case a wake-up is lost.
func (e *Engine) Listen(ctx context.Context) {
	poll := time.NewTicker(pollOwn)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.process.Wakes():
		case <-e.freed:
		case <-poll.C:
		}
		// Drop lost runs first: a message must not be decided on by a process that does not own the run anymore.
		e.dropFenced()
		e.readInboxes(ctx)
		e.retryQueued(ctx)
	}
}

// orphanInterval is how often a process that drives the whole store looks for runs of
// dead owners: a death causes no wake-up.
const orphanInterval = time.Second

// moreInterval replaces orphanInterval after a look that has left runs to other
// processes.
const moreInterval = 20 * time.Millisecond

// Work implements engine.Driver. It drives runs of dead owners, due timers,
// messages, and runs that were started without a driver.
func (e *Engine) Work(ctx context.Context, skip func(journal.RunID) bool) error {
	e.mu.Lock()
	e.all, e.skip = true, skip
	e.mu.Unlock()
	look := time.NewTimer(orphanInterval)
	defer look.Stop()
	for {
		// A process whose journal was removed or replaced writes where no other process reads: stop working.
		if store, ok := e.store.(journal.Presence); ok {
			if err := store.Present(); err != nil {
				return err
			}
		}
		e.dropFenced()
		// Runs without a living owner, due timers and messages: of all runs of the store, not only of those in memory.
		more, err := e.claimOrphans(ctx)
		if err != nil {
			return err
		}
		e.driveDue()
		e.readInboxes(ctx)
		if more {
			look.Reset(moreInterval)
		} else {
			look.Reset(orphanInterval)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-e.process.Wakes():
		case <-e.freed:
		case <-look.C:
		}
	}
}

// ending counts the tasks of one run that still run although the run was dropped.
type ending struct {
	n    int
	over chan struct{} // closed when n is 0
}

// taskEnded counts a task that has ended after its run was dropped.
func (e *Engine) taskEnded(id journal.RunID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.ending[id]
	if t == nil {
		return
	}
	if t.n--; t.n == 0 {
		close(t.over)
		delete(e.ending, id)
	}
}

// waitTasks waits for the tasks that a dropped run has left. Loading the run
// earlier would start them a second time while they still run.
func (e *Engine) waitTasks(ctx context.Context, id journal.RunID) error {
	e.mu.Lock()
	t := e.ending[id]
	e.mu.Unlock()
	if t == nil {
		return nil
	}
	select {
	case <-t.over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// unloadedInterval is how long claimOrphans skips a run that could not be loaded.
// Otherwise such runs would fill every claim, and those behind them would wait
// forever.
const unloadedInterval = 30 * time.Second

// maxClaims is the number of runs that a process claims before other processes
// get their turn.
const maxClaims = 32

// claimOrphans claims runnable runs that have no living owner, and those that
// this process has abandoned. It reports whether there may be more of them.
func (e *Engine) claimOrphans(ctx context.Context) (more bool, err error) {
	e.mu.Lock()
	maps.DeleteFunc(e.unloaded, func(_ journal.RunID, until time.Time) bool { return !time.Now().Before(until) })
	e.mu.Unlock()
	var ids []journal.RunID
	// With limited slots, a run may be claimed only when it gets one, so queueOrphans replaces ClaimNext.
	if e.slots == nil {
		ids, err = e.store.ClaimNext(ctx, e.process.ID(), maxClaims, e.skips)
	} else {
		e.retryQueued(ctx)
		err = e.queueOrphans(ctx)
	}
	if err != nil {
		if ctx.Err() != nil || errors.Is(err, journal.ErrUnavailable) || errors.Is(err, journal.ErrFenced) {
			return false, nil // Work tries again, with the name that the process has then
		}
		return false, err
	}
	for _, id := range ids {
		e.wake(id)
	}
	return len(ids) == maxClaims, nil
}

// skips reports whether claimOrphans skips a run: it is in memory, or a task of it
// still runs, or it could not be loaded, or the caller of Work skips it. A run that this process owns and
// does not skip is abandoned: the process has dropped it after a failed append.
func (e *Engine) skips(id journal.RunID) bool {
	e.mu.Lock()
	_, unloaded := e.unloaded[id]
	here, skip := e.runs[id] != nil || e.loading[id] != nil || e.ending[id] != nil, e.skip
	e.mu.Unlock()
	return here || unloaded || skip != nil && skip(id)
}

// dropFenced drops every run in memory after this process has lost its runs to
// others. Otherwise their tasks would continue until an append is refused.
func (e *Engine) dropFenced() {
	id := e.process.ID()
	e.mu.Lock()
	fenced := e.name != "" && e.name != id
	e.name = id
	var runs []*run
	if fenced {
		runs = slices.Collect(maps.Values(e.runs))
	}
	e.mu.Unlock()
	for _, r := range runs {
		r.mu.Lock()
		// An append in flight reports the loss itself. A run with the new name was claimed after the loss.
		if !r.inFlight && r.owner != id {
			r.fail(journal.ErrFenced)
		}
		r.mu.Unlock()
	}
}

// CatchUp implements engine.Driver. A gate that has timed out is decided, and the
// next process that drives the run continues from there.
func (e *Engine) CatchUp(ctx context.Context) error {
	ids, _, err := e.store.Due(ctx, e.now())
	if err != nil {
		return err
	}
	for _, id := range ids {
		// With timersOnly, the run decides what is due and is released by the append of that decision.
		err := e.acquire(ctx, id, true)
		if err == nil {
			err = e.waitReleased(ctx, id)
		}
		if err != nil && !isHandledElsewhere(err) {
			// A failure of one run does not affect the others.
			e.Log.Warn("cannot fire due timers of run", "run_id", id, "error", err)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// waitReleased waits until a run is not in memory anymore.
func (e *Engine) waitReleased(ctx context.Context, id journal.RunID) error {
	for {
		e.mu.Lock()
		if e.runs[id] == nil {
			err := e.failed[id]
			delete(e.failed, id)
			e.mu.Unlock()
			return err
		}
		w := e.join(id)
		e.mu.Unlock()
		select {
		case <-w.rested:
		case <-ctx.Done():
		}
		e.leave(id, w)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// enqueue enqueues an input for the owner of a run and waits for the answer.
func (e *Engine) enqueue(ctx context.Context, id journal.RunID, in plan.Input, ref string) error {
	m, err := engine.EncodeMessage(in, ref, e.now())
	if err != nil {
		return err
	}
	// The position is read before the message is stored: the answer is among the events after it.
	entry, err := e.store.Entry(ctx, id)
	if err != nil {
		return err
	}
	owner, err := e.store.Enqueue(ctx, id, m)
	if err != nil {
		return err
	}
	if owner != "" {
		e.process.Wake(owner)
	}
	return e.awaitAnswer(ctx, id, in, ref, entry.Seq)
}

// awaitAnswer polls the store until the message has left the inbox, and returns the
// answer. If the owner dies or releases the run, this process claims it. A
// message that stays in the inbox of a finished run was too late.
func (e *Engine) awaitAnswer(
	ctx context.Context, id journal.RunID, in plan.Input, ref string, after journal.Seq,
) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		entry, err := e.store.Entry(ctx, id)
		if err != nil {
			return err
		}
		// The inbox is read after the entry. If the entry says that the run has finished and the message is still here,
		// no append will take it anymore.
		posted, err := e.store.Inbox(ctx, id)
		if err != nil {
			return err
		}
		waiting := false
		for _, m := range posted {
			if _, r, err := engine.DecodeMessage(m.Message); err == nil && r == ref {
				waiting = true
			}
		}
		// The append that took the message also stored the answer: a refusal with its ref, or facts.
		if !waiting {
			for event, err := range e.store.Events(ctx, id, after) {
				if err != nil {
					return err
				}
				if x, ok := event.Fact.(journal.InputRefused); ok && x.Ref == ref {
					return &plan.Refusal{Code: plan.RefusalCode(x.Code), Why: x.Why, Step: x.Step}
				}
			}
			return nil
		}
		if entry.Status == journal.Finished {
			return e.Check(ctx, id, in)
		}
		// A closed engine cannot claim the run, so the answer may never come.
		err = e.acquire(ctx, id, false)
		if errors.Is(err, engine.ErrClosed) || err != nil && !isHandledElsewhere(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// reacquire passes requests to a run that was released while they arrived. drop
// has reserved the run for loading.
func (e *Engine) reacquire(id journal.RunID, loading chan struct{}, requests []request) {
	requests = slices.DeleteFunc(requests, func(q request) bool { return q.inbox != 0 }) // load reads messages again
	go func() {
		err := e.loadRun(context.Background(), id, false, loading, requests)
		if err == nil {
			return
		}
		if !isHandledElsewhere(err) {
			e.Log.Error("run not driven", "run_id", id, "error", err)
		}
		for _, q := range requests {
			if q.done != nil {
				q.done(err)
			}
		}
	}()
}
