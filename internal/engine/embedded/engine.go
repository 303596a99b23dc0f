package embedded

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/step"
)

// Process is this process among those that share a store.
type Process interface {
	ID() journal.Owner
	// Drives reports whether another process is alive and has not called
	// StopDriving: it drives the runs that it owns.
	Drives(journal.Owner) bool
	// StopDriving announces that this process starts no more tasks and releases
	// its runs.
	StopDriving()
	// Wake makes another process read its inboxes, if it is alive. The empty
	// owner wakes every process.
	Wake(journal.Owner)
	// Wakes receives a value when another process has woken this one.
	Wakes() <-chan struct{}
}

// Config configures an Engine.
type Config struct {
	engine.Config
	Store   engine.Store
	Process Process
	// Now is the wall clock, and Monotonic a clock that neither jumps nor
	// advances while the machine is suspended. Nil is the machine's clock; if
	// only Now is set, it never jumps. They are called with locks held and must
	// not block. On a store that several machines share, Now is the store's time.
	Now       func() time.Time
	Monotonic func() time.Duration
	// Slots limits how many runs are driven at the same time; nil does not.
	Slots Slots
}

// Engine drives the runs of one store in this process. It implements engine.Engine.
type Engine struct {
	*engine.Core
	store   engine.Store
	process Process
	clock   *clock

	writeAhead map[string]bool // kinds that write a note before they act

	tasks   sync.WaitGroup // goroutines that run tasks or release slots
	emptied chan struct{}  // sent to when no run is left in memory

	slots    Slots         // nil without limits
	lastSlot atomic.Int64  // number of the newest slot
	freed    chan struct{} // sent to when a queued run of this process may acquire a slot

	// mu guards everything below. It is never held during a call of the store.
	// A goroutine that holds run.mu may lock it, not the other way around.
	mu       sync.Mutex
	runs     map[journal.RunID]*run
	loading  map[journal.RunID]chan struct{}  // runs that one goroutine loads; closed at the end
	failed   map[journal.RunID]error          // runs that could not be written, until Wait returns the error
	sleeping map[journal.RunID]journal.Millis // runs of this process that wait for a time
	rerun    map[journal.RunID]int            // calls of ResumeAgain: lost tasks of these runs run again
	ahead    map[journal.RunID]journal.Millis // runs whose last event is ahead of the clock: see run.setClock
	ending   map[journal.RunID]*ending        // tasks that still run although their run was dropped
	unloaded map[journal.RunID]time.Time      // runs that could not be loaded, and when claimOrphans tries again
	waiting  map[journal.RunID]*waiter
	queued   map[journal.RunID]bool // runs that this process drives when they get a slot
	closed   bool
	held     bool                     // messages are recorded, and no task starts
	all      bool                     // drive every run of the store, not only those of this process
	skip     func(journal.RunID) bool // runs that are not claimed; nil for none
	name     journal.Owner            // name of this process when dropFenced last looked
	timer    *time.Timer
	timerAt  journal.Millis // when timer fires; 0 if it is not set
}

var _ engine.Engine = (*Engine)(nil)

// New returns an engine.
func New(c Config) *Engine {
	e := &Engine{
		Core: engine.NewCore(c.Config, c.Store), store: c.Store, process: c.Process,
		clock: newClock(c.Now, c.Monotonic), slots: c.Slots, freed: make(chan struct{}, 1),
		queued: map[journal.RunID]bool{},
		runs:   map[journal.RunID]*run{}, loading: map[journal.RunID]chan struct{}{},
		waiting: map[journal.RunID]*waiter{}, emptied: make(chan struct{}, 1),
		failed: map[journal.RunID]error{}, sleeping: map[journal.RunID]journal.Millis{},
		rerun: map[journal.RunID]int{}, ending: map[journal.RunID]*ending{}, unloaded: map[journal.RunID]time.Time{},
		ahead: map[journal.RunID]journal.Millis{}, writeAhead: map[string]bool{},
	}
	e.Launch = e.launch
	for kind, runner := range c.Runners {
		_, e.writeAhead[kind] = runner.(step.WriteAhead)
	}
	return e
}

// now returns the time of the engine's clock.
func (e *Engine) now() journal.Millis {
	now, _ := e.clock.read()
	return now
}

// maxFenced is how often in a row a start is repeated.
const maxFenced = 3

// launch starts a run. If other processes have declared this one dead, nothing is stored, and it starts the run again
// under the name that it has by then.
func (e *Engine) launch(ctx context.Context, id journal.RunID, b *engine.RunStart) (err error) {
	for range maxFenced {
		if err = e.start(ctx, id, b); !errors.Is(err, journal.ErrFenced) {
			break
		}
	}
	return err
}

// start creates the run in memory, decides its first facts and returns when they are durable.
func (e *Engine) start(ctx context.Context, id journal.RunID, b *engine.RunStart) error {
	r := newRun(e, id, b.Definition)
	// Reserve the id. A concurrent start of the same id fails, and Owns and Drain count the run from here on, although
	// acquireSlot below may block without any lock.
	loading := make(chan struct{})
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return engine.ErrClosed
	}
	if e.runs[id] != nil || e.loading[id] != nil {
		e.mu.Unlock()
		return fmt.Errorf("%w: %s", journal.ErrExists, id)
	}
	e.loading[id] = loading
	e.mu.Unlock()
	var err error
	// A run without a slot is created, too: its first append stores it, and a later load starts its tasks.
	r.slot, r.queued, err = e.acquireSlot(ctx, id, b.Started.Name)
	r.timersOnly = r.queued
	e.mu.Lock()
	// End the reservation and publish the run. The engine may have been closed meanwhile: a run that is added then
	// would be missed by Close.
	delete(e.loading, id)
	close(loading)
	if e.closed && err == nil {
		err = engine.ErrClosed
	}
	if err != nil {
		e.releaseSlot(id, r.slot)
		e.signalIfEmpty()
		e.mu.Unlock()
		return err
	}
	e.runs[id] = r
	e.mu.Unlock()

	// Append the first decision. A canceled ctx ends only the wait for it: the append is in flight, and the run exists
	// if it succeeds. The channel has room for one value, so that the callback of the store never blocks.
	durable := make(chan error, 1)
	r.mu.Lock()
	now, skipped := e.clock.read()
	r.skipped = skipped
	state, events := plan.Start(r.program, id, b.Started, now, e.holding() || r.queued, b.Edits...)
	r.state, r.fence, r.owner = state, journal.FirstFence, e.process.ID()
	r.append(&pending{events: events, blobs: b.Blobs, done: []answer{{to: func(err error) { durable <- err }}}})
	r.mu.Unlock()
	select {
	case err := <-durable:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Resume implements engine.Driver.
func (e *Engine) Resume(ctx context.Context, id journal.RunID) error {
	return e.acquire(ctx, id, false)
}

// ResumeAgain implements engine.Driver. The count in e.rerun matters only while acquire loads the run: continueLoaded
// reads it before loadRun returns. It has no effect on a run that is in memory already.
func (e *Engine) ResumeAgain(ctx context.Context, id journal.RunID) error {
	e.mu.Lock()
	e.rerun[id]++
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		if e.rerun[id]--; e.rerun[id] == 0 {
			delete(e.rerun, id)
		}
		e.mu.Unlock()
	}()
	return e.acquire(ctx, id, false)
}

// reruns reports whether lost tasks of a run run again without a person's decision.
func (e *Engine) reruns(id journal.RunID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.rerun[id] > 0
}

// acquire loads a run into memory, if this process does not hold it, and queues requests. A run that has nothing to do
// is released at once. With timersOnly, the run decides what is due and starts no task.
//
// The requests belong to acquire only if it returns nil: then each done is called once, with the answer, with the error
// of a failed append or reload, or with errNotHeld if the run was released. If acquire returns an error, no done is
// called.
func (e *Engine) acquire(ctx context.Context, id journal.RunID, timersOnly bool, requests ...request) error {
	for {
		e.mu.Lock()
		if e.closed {
			e.mu.Unlock()
			return engine.ErrClosed
		}
		if r := e.runs[id]; r != nil {
			e.mu.Unlock()
			r.push(nil, requests...)
			return nil
		}
		// One loader at a time: a second claim would fence off the first.
		if loading := e.loading[id]; loading != nil {
			e.mu.Unlock()
			select {
			case <-loading:
				continue
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		loading := make(chan struct{})
		e.loading[id] = loading
		e.mu.Unlock()
		return e.loadRun(ctx, id, timersOnly, loading, requests)
	}
}

// loadRun claims and loads a run that e.loading reserves for the caller, and
// continues it. On success and on failure, the reservation ends and waiters are
// woken.
func (e *Engine) loadRun(
	ctx context.Context, id journal.RunID, timersOnly bool, loading chan struct{}, requests []request,
) error {
	var r *run
	var slot int64
	var queued bool
	// The order matters. Tasks that an earlier drop has left end before the run is claimed, because continueLoaded
	// would consider them lost. The slot comes before the claim, because a run without one is loaded with timersOnly,
	// which starts no task.
	err := e.waitTasks(ctx, id)
	if err == nil && !timersOnly {
		slot, queued, err = e.acquireStoredSlot(ctx, id)
	}
	if err == nil {
		r, err = e.load(ctx, id)
	}
	if err == nil {
		r.timersOnly, r.slot, r.queued = timersOnly || queued, slot, queued
		if err = e.admit(r); err != nil {
			e.release(r.id, r.fence, r.state.Seq)
		}
	}
	if err != nil {
		e.releaseSlot(id, slot)
	}
	e.mu.Lock()
	// End the reservation after admit has added the run: Owns has no gap, and callers of acquire that wait find the run
	// in memory.
	delete(e.loading, id)
	close(loading)
	if err != nil {
		e.rested(id)
		e.signalIfEmpty()
	}
	e.mu.Unlock()
	if err != nil {
		return err
	}
	if !r.timersOnly {
		e.Log.Info("run claimed", "run_id", id)
	}
	r.continueLoaded(requests)
	r.mu.Unlock()
	return nil
}

// admit adds a run that was just loaded to those in memory, and returns with r.mu
// locked: until the caller has called continueLoaded, no other goroutine may advance the
// run. A task that it started would look like one that the previous owner lost.
func (e *Engine) admit(r *run) error {
	r.mu.Lock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		r.mu.Unlock()
		return engine.ErrClosed
	}
	e.runs[r.id] = r
	return nil
}

// release ends the claim on a run that could not be loaded. If that fails too,
// the run stays claimed until this process ends.
func (e *Engine) release(id journal.RunID, fence int64, last journal.Seq) {
	batch := journal.Batch{Run: id, Fence: fence, After: last, Release: true}
	if err := journal.Append(context.Background(), e.store, batch); err != nil {
		e.Log.Warn("run not released", "run_id", id, "error", err)
	}
}

// load claims a run and reads what is needed to drive it. It reads the inbox
// after the claim, so that this owner or the next one sees each message.
func (e *Engine) load(ctx context.Context, id journal.RunID) (_ *run, err error) {
	// Claim first: from here on no other process appends to the run or answers its messages. If anything below fails,
	// the claim is released, so that another process can try.
	me := e.process.ID()
	claim, err := e.store.Claim(ctx, id, me)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			e.release(id, claim.Fence, claim.Seq)
		}
	}()
	// The definition and the state. The claim has fenced off the previous owner, so the stream cannot grow anymore: it
	// has to end at the event that the claim names.
	def, err := e.Compiled(ctx, claim.Definition)
	if err != nil {
		return nil, err
	}
	r := newRun(e, id, def)
	if r.state, err = e.Fold(ctx, id); err != nil {
		return nil, err
	}
	if r.state.Seq != claim.Seq {
		return nil, fmt.Errorf(
			"%w: run %s: its stream ends at event %d, not %d", journal.ErrCorrupt, id, r.state.Seq, claim.Seq,
		)
	}
	// The clock of the run, and its messages: those that arrive after this read come by Listen or Work.
	r.fence, r.owner = claim.Fence, me
	r.setClock()
	if r.inbox, err = e.store.Inbox(ctx, id); err != nil {
		return nil, err
	}
	// Child runs have rows in the index but no claim: the root's appends update them.
	if r.children, err = e.OpenChildren(ctx, r.state); err != nil {
		return nil, err
	}
	// Notes of the open tasks, from the first event of the oldest one. Tasks that run again continue from them.
	if since, ok := r.state.Resumable(); ok {
		r.history = map[string][]journal.TaskNoted{}
		for event, err := range e.store.Events(ctx, id, since) {
			if err != nil {
				return nil, err
			}
			if note, ok := event.Fact.(journal.TaskNoted); ok {
				key := note.Key()
				r.history[key] = append(r.history[key], note)
			}
		}
	}
	return r, nil
}

// Wait implements engine.Driver. A run that waits only for a timer does not rest;
// another process may fire the timer first.
//
// No wake-up is needed for progress: each iteration of the loop ends after a
// bounded time, and the next one reads the store.
func (e *Engine) Wait(ctx context.Context, id journal.RunID) (journal.Entry, error) {
	driven, polled := false, false // this engine has driven the run; the last iteration ended without a wake-up
	appends := -1                  // of the run in memory, at the last iteration that ended without a wake-up
	for {
		e.mu.Lock()
		// A run that could not be written reports that to one waiter; the next call tries to load it.
		if err := e.failed[id]; err != nil {
			delete(e.failed, id)
			e.mu.Unlock()
			return journal.Entry{}, err
		}
		r, here := e.runs[id], e.runs[id] != nil || e.loading[id] != nil
		_, timed := e.sleeping[id]
		driven = driven || e.queued[id]
		idle := e.closed || e.held
		w := e.join(id) // before reading the store: a later release closes w.rested
		e.mu.Unlock()

		var entry journal.Entry
		var err error
		over, poll := false, pollOwn
		switch {
		// The run is in memory, and pollOwn has passed without a wake-up: look whether another process has claimed it.
		case here && polled:
			// An append that the store has accepted shows that this process still owns the run.
			if n := r.accepted(); n != appends {
				appends = n
			} else if entry, err = e.store.Entry(ctx, id); err == nil {
				over = entry.Status == journal.Finished
				r.checkOwner(entry.Owner)
			} else if errors.Is(err, journal.ErrUnknownRun) {
				err = nil // its first append is still in flight
			}
		// The run is not in memory. It is over for this call if it rests, if this engine cannot drive it, or if its
		// living owner drives it and this engine never has.
		case !here:
			entry, err = e.store.Entry(ctx, id)
			sleeps := entry.Status == journal.Sleeping
			elsewhere := entry.Owner != "" && entry.Owner != e.process.ID()
			over = idle || entry.Status.AtRest() ||
				!sleeps && !driven && elsewhere && e.process.Drives(entry.Owner)
			// Claim what no living process drives. If this engine has set a timer for the run, the timer claims it when
			// it is due.
			if err == nil && !over && !(sleeps && timed) {
				var acquired bool
				if acquired, err = e.tryAcquire(ctx, &entry); acquired {
					e.leave(id, w)
					continue
				}
				// The attempt has woken the waiters of the run.
				w, poll = e.rejoin(id, w), pollElsewhere
			}
			// A run that sleeps counts as driven here: when it wakes up elsewhere, the call waits for it to rest.
			here = sleeps
		}
		driven = driven || here
		if err == nil && !over {
			again := time.NewTimer(poll)
			select {
			case <-w.rested:
				polled = false
			case <-again.C:
				polled = true
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
			again.Stop()
		}
		e.leave(id, w)
		if over || err != nil {
			return entry, err
		}
	}
}

// The intervals at which Wait and Listen read the store without a wake-up.
const (
	pollOwn       = time.Second           // for a run that this process drives
	pollElsewhere = 50 * time.Millisecond // for a run that another process drives
)

// tryAcquire claims a run that is not in memory, if it is runnable and no living
// process owns it. It reports whether this process holds the run now.
func (e *Engine) tryAcquire(ctx context.Context, entry *journal.Entry) (bool, error) {
	if now := e.now(); entry.Status == journal.Sleeping && entry.Wake > now && entry.Updated <= now {
		return false, nil // a run whose last event is in the future has a clock of its own: see run.setClock
	}
	if turn, err := e.hasTurn(ctx, entry); !turn || err != nil {
		return false, err
	}
	err := e.acquire(ctx, entry.ID, false)
	if err != nil && isHandledElsewhere(err) {
		return false, nil
	}
	return err == nil, err
}

// waiter is shared by all calls that wait for one run. Each call joins before it reads the store and leaves afterwards;
// a closed waiter is not reused. Engine.mu guards n.
type waiter struct {
	rested chan struct{} // closed when the run rests
	n      int
}

// join returns the waiter of a run, for one more call. e.mu is held.
func (e *Engine) join(id journal.RunID) *waiter {
	w := e.waiting[id]
	if w == nil {
		w = &waiter{rested: make(chan struct{})}
		e.waiting[id] = w
	}
	w.n++
	return w
}

// rejoin replaces a waiter that may be closed already.
func (e *Engine) rejoin(id journal.RunID, w *waiter) *waiter {
	e.leave(id, w)
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.join(id)
}

// leave ends a call's use of a waiter. The last one removes it, unless rested has replaced it already.
func (e *Engine) leave(id journal.RunID, w *waiter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if w.n--; w.n == 0 && e.waiting[id] == w {
		delete(e.waiting, id)
	}
}

// drop removes a run that rests or has failed from memory. A non-nil reload
// reserves the run for loading at the same time, so that Owns stays true. r.mu is
// held.
func (e *Engine) drop(r *run, reload chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.runs[r.id] == r {
		delete(e.runs, r.id)
	}
	if reload != nil {
		e.loading[r.id] = reload
	}
	// Keep the error for Wait, except where waiting goes on: another process drives the run, or the store may come
	// back.
	if r.err != nil && !errors.Is(r.err, journal.ErrFenced) && !errors.Is(r.err, journal.ErrUnavailable) &&
		!errors.Is(r.err, journal.ErrExists) { // Start has returned it
		e.failed[r.id] = r.err
	}
	// discard has canceled these tasks, but they may take a while to end. Until then, waitTasks keeps the run from
	// being loaded.
	if len(r.jobs) > 0 {
		if e.ending[r.id] == nil {
			e.ending[r.id] = &ending{over: make(chan struct{})}
		}
		e.ending[r.id].n += len(r.jobs)
	}
	delete(e.sleeping, r.id)
	e.releaseSlot(r.id, r.slot)
	// A queued run that rests or has failed gives up its place, so that the runs behind it do not wait for it.
	if r.queued && e.queued[r.id] && (r.err != nil || r.state == nil || r.state.Summary().Status != journal.Running) {
		e.leaveQueue(r.id)
	}
	// A timer survives the drop in e.sleeping. A run that was loaded with timersOnly sets none, unless it is queued:
	// this process does not drive it.
	if r.err == nil && r.state != nil && !e.closed && (!r.timersOnly || r.queued) {
		if wake, ok := r.wake(); ok {
			if !e.all || r.ahead() > 0 { // otherwise driveDue finds it in the store
				e.sleeping[r.id] = wake
			}
			e.setTimer(wake)
		}
	}
	e.rested(r.id)
	e.signalIfEmpty()
}

// signalIfEmpty wakes Close and Drain if no run is in memory. e.mu is held.
func (e *Engine) signalIfEmpty() {
	if len(e.runs) == 0 && len(e.loading) == 0 {
		select {
		case e.emptied <- struct{}{}:
		default:
		}
	}
}

// rested wakes the waiters of a run. e.mu is held.
func (e *Engine) rested(id journal.RunID) {
	if w := e.waiting[id]; w != nil {
		close(w.rested)
		delete(e.waiting, id)
	}
}

// Hold implements engine.Driver. The engine leaves its runs to other processes: a
// process that has sent a message drives the run if the process that has accepted
// the message does not.
func (e *Engine) Hold() {
	e.mu.Lock()
	e.held = true
	e.mu.Unlock()
	e.process.StopDriving()
}

// holding reports whether Hold was called.
func (e *Engine) holding() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.held
}

// Owns implements engine.Driver. A run that is being loaded counts.
func (e *Engine) Owns(id journal.RunID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.runs[id] != nil || e.loading[id] != nil
}

// Park implements engine.Driver. Tasks that can run again are canceled at once.
func (e *Engine) Park() {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return
	}
	e.closed = true
	if e.timer != nil {
		e.timer.Stop()
	}
	for id := range e.waiting {
		if e.runs[id] == nil { // it sleeps, and this process will not wake it
			e.rested(id)
		}
	}
	runs := slices.Collect(maps.Values(e.runs))
	e.mu.Unlock()
	e.process.StopDriving()
	for _, r := range runs {
		r.park(false)
	}
}

// Close implements engine.Driver. The runs are released as they are. Park has closed the engine, so no run is added to
// those in memory: the loop ends when the last of them has been dropped.
func (e *Engine) Close(now <-chan struct{}) {
	e.Park()
	for {
		e.mu.Lock()
		runs, loading := slices.Collect(maps.Values(e.runs)), len(e.loading)
		e.mu.Unlock()
		if len(runs)+loading == 0 {
			break
		}
		select {
		case <-e.emptied:
		case <-now:
			// A closed channel would be selected again and again.
			now = nil
			for _, r := range runs {
				r.park(true)
			}
		}
	}
	e.tasks.Wait()
}

// Drain implements engine.Driver. It closes the engine in the same critical
// section in which it finds no run in memory: earlier timers and messages are
// handled, and later ones cannot claim a run. A process that ends by itself calls
// it, so that it releases runs only at rest.
func (e *Engine) Drain() {
	for {
		e.mu.Lock()
		if len(e.runs)+len(e.loading) == 0 {
			e.closed = true
			if e.timer != nil {
				e.timer.Stop()
			}
			e.mu.Unlock()
			e.tasks.Wait()
			return
		}
		e.mu.Unlock()
		<-e.emptied
	}
}
