package embedded

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
)

// schedule makes sure that a run in memory is looked at when its time comes.
// The run's mutex is held.
func (e *Engine) schedule(r *run) {
	wake, ok := r.state.Wake()
	if !ok {
		return
	}
	e.mu.Lock()
	e.sleeping[r.id] = wake
	e.setTimer(wake)
	e.mu.Unlock()
}

// setTimer keeps the engine's one timer at the earliest moment. e.mu is held.
func (e *Engine) setTimer(at journal.Millis) {
	if e.closed {
		return
	}
	in := max(at.Time().Sub(e.clock()), 0)
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

// onTimer wakes the runs whose time has come and sets the timer again.
func (e *Engine) onTimer() {
	now := e.now()
	var due []journal.RunID
	var next journal.Millis
	e.mu.Lock()
	e.timerAt = 0
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

// wake makes a run decide on what is due by now, in memory or not.
func (e *Engine) wake(id journal.RunID) {
	e.mu.Lock()
	r, skip := e.runs[id], e.skip
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
	err := e.acquire(context.Background(), id, false)
	if err == nil {
		return
	}
	// Waiters read the store again.
	e.mu.Lock()
	defer e.mu.Unlock()
	if !isHandledElsewhere(err) {
		e.Log.Error("run not driven", "run", id, "error", err)
		if e.waiting[id] != nil {
			e.failed[id] = err
		}
	}
	e.rested(id)
}

// isHandledElsewhere reports whether an error of acquire means that another
// process drives the run, or that nothing is left to drive.
func isHandledElsewhere(err error) bool {
	var owned *journal.OwnedError
	return errors.As(err, &owned) || errors.Is(err, journal.ErrConflict) || errors.Is(err, engine.ErrClosed) || errors.Is(err, journal.ErrFinished)
}

// driveDue claims every run of the store whose time has come.
func (e *Engine) driveDue() {
	ids, next, err := e.store.Due(context.Background(), e.now())
	if err != nil {
		e.Log.Error("due runs not found", "error", err)
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

// readInboxes accepts messages of other processes: for runs in memory, and for
// all others when this process drives the whole store.
func (e *Engine) readInboxes(ctx context.Context) {
	boxes, err := e.store.PendingInboxes(ctx)
	if err != nil {
		e.Log.Error("mail not read", "error", err)
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
			e.Log.Error("inbox not read", "run", box.Run, "error", err)
			continue
		}
		r.deliver(posted)
	}
}

// deliver hands messages to the run, each once: they stay visible in the inbox
// until the append that takes them is durable.
func (r *run) deliver(posted []journal.InboxMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone {
		return
	}
	fresh := posted[:0]
	for _, m := range posted {
		if m.ID > r.heard {
			r.heard = m.ID
			fresh = append(fresh, m)
		}
	}
	if len(fresh) > 0 {
		r.queue = append(r.queue, r.messages(fresh)...)
		r.advance()
	}
}

// Listen reads messages of other processes until the context ends: when one of
// them wakes this process, and at regular intervals in case a wake-up is lost.
// Every engine that runs tasks needs one listener.
func (e *Engine) Listen(ctx context.Context) {
	poll := time.NewTicker(pollOwn)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.process.Wakes():
		case <-poll.C:
		}
		e.readInboxes(ctx)
	}
}

// lookEvery is how often a process that drives the whole store looks for runs
// whose owner has died, which causes no wake-up.
const lookEvery = time.Second

// Work drives every run of the store until the context ends: runs whose owner
// has ended, timers, messages, runs that were started and left. It claims no run
// for which skip returns true; skip may be called repeatedly and concurrently.
// Nil skips none.
func (e *Engine) Work(ctx context.Context, skip func(journal.RunID) bool) error {
	e.mu.Lock()
	e.all, e.skip = true, skip
	e.mu.Unlock()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		if err := e.claimOrphans(ctx); err != nil {
			return err
		}
		e.driveDue()
		e.readInboxes(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-e.process.Wakes():
		case <-look.C:
		}
	}
}

// claimOrphans claims the runs that could go on and have no living owner.
func (e *Engine) claimOrphans(ctx context.Context) error {
	dead := map[journal.Owner]bool{"": true, e.process.ID(): false}
	for entry, err := range e.store.Runs(ctx, journal.Filter{Status: journal.Running}) {
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		gone, known := dead[entry.Owner]
		if !known {
			gone = e.process.Dead(entry.Owner)
			dead[entry.Owner] = gone
		}
		if gone {
			e.wake(entry.ID)
		}
	}
	return nil
}

// CatchUp brings runs without an owner up to the present, without beginning a
// task: a gate whose time is up is decided, and the run is ready for the next
// process that drives it. Commands that only read call it first.
func (e *Engine) CatchUp(ctx context.Context) error {
	ids, _, err := e.store.Due(ctx, e.now())
	if err != nil {
		return err
	}
	for _, id := range ids {
		err := e.acquire(ctx, id, true)
		if err == nil {
			err = e.waitReleased(ctx, id)
		}
		if err != nil && !isHandledElsewhere(err) {
			// A failure of one run does not concern the others.
			e.Log.Warn("run not brought up to date", "run", id, "error", err)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// waitReleased waits until a run is no longer in memory.
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

// post puts an input in a run's inbox and waits until the owner, or the next
// one, has answered.
func (e *Engine) post(ctx context.Context, id journal.RunID, in plan.Input, ref string) error {
	m, err := engine.EncodeMessage(in, ref, e.now())
	if err != nil {
		return err
	}
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
	return e.answered(ctx, id, in, ref, entry.Seq)
}

// answered polls the store until the message has left the inbox, and returns
// the answer. If the owner dies or releases the run, this process claims it. A
// message in the inbox of a finished run came too late.
func (e *Engine) answered(ctx context.Context, id journal.RunID, in plan.Input, ref string, after journal.Seq) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		entry, err := e.store.Entry(ctx, id)
		if err != nil {
			return err
		}
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
		if !waiting {
			for event, err := range e.store.Events(ctx, id, after) {
				if err != nil {
					return err
				}
				if x, ok := event.Fact.(journal.InputRefused); ok && x.Ref == ref {
					return &plan.Refusal{Code: plan.RefusalCode(x.Code), Why: x.Why}
				}
			}
			return nil
		}
		if entry.Status == journal.Finished {
			state, program, _, err := e.Load(ctx, id)
			if err != nil {
				return err
			}
			return state.Check(program, in)
		}
		// A closed engine cannot take the run over, so the answer may never come.
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

// reacquire hands requests to a run that was released while they arrived, and
// that drop has reserved for loading.
func (e *Engine) reacquire(id journal.RunID, loading chan struct{}, requests []request) {
	requests = slices.DeleteFunc(requests, func(q request) bool { return q.inbox != 0 }) // load reads them again
	go func() {
		err := e.loadRun(context.Background(), id, false, loading, requests)
		if err == nil {
			return
		}
		if !isHandledElsewhere(err) {
			e.Log.Error("run not driven", "run", id, "error", err)
		}
		for _, q := range requests {
			if q.done != nil {
				q.done(err)
			}
		}
	}()
}
