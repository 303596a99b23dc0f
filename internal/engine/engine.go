package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/secret"
	"github.com/espalier-run/espalier/internal/step"
)

// Process is this process among those that share a store: which of them are
// alive, and how to wake them.
type Process interface {
	ID() journal.Owner
	// Dead reports whether another process has certainly ended.
	Dead(journal.Owner) bool
	// Drives reports whether another process is alive and has not called
	// StopDriving: a run that it owns moves on.
	Drives(journal.Owner) bool
	// StopDriving announces that this process begins no more work and releases
	// the runs that it owns.
	StopDriving()
	// Wake makes another process look at its inboxes, if it is there; the
	// empty owner is every process that there is.
	Wake(journal.Owner)
	// Wakes is sent to when another process has woken this one.
	Wakes() <-chan struct{}
}

// Host gives tasks what they need from outside.
type Host interface {
	// Provision fills in a job's model, tools and folder, as the run's options ask.
	Provision(job *step.Job, options json.RawMessage) error
}

// Config is what an Engine is made of.
type Config struct {
	Store   journal.Store
	Process Process
	Kinds   map[string]step.Runner
	Host    Host
	Now     func() time.Time // nil is the clock of the machine
	Log     *slog.Logger     // nil says nothing
	// CheckOutput holds a run's output against its contract; nil checks nothing.
	CheckOutput func(p *ir.Program, output json.RawMessage) error
	// FillInput puts defaults into the input of a child, and holds it against
	// its contract if strict; nil does neither.
	FillInput func(p *ir.Program, input json.RawMessage, strict bool) (json.RawMessage, error)
	// Secrets are kept out of everything that the engine holds and writes.
	Secrets *secret.Registry
	// Machine is what of this machine a variable begins with; nil knows nothing.
	Machine func(from string) (string, bool)
}

// Engine drives runs of one store.
type Engine struct {
	Config

	mu       sync.Mutex
	runs     map[journal.RunID]*run
	loading  map[journal.RunID]chan struct{}
	programs map[string]*loadOnce             // by the definition's hash
	failed   map[journal.RunID]error          // runs that could not be written any more
	sleeping map[journal.RunID]journal.Millis // runs of ours that wait for a time
	redo     map[journal.RunID]bool           // runs whose lost tasks are to be done again
	closed   bool
	held     bool                     // runs are written to, but nothing of them begins
	all      bool                     // drive every run of the store, not only ours
	skip     func(journal.RunID) bool // runs that are not to be claimed; nil for none
	timer    *time.Timer
	timerAt  journal.Millis // 0: not set
	tasks    sync.WaitGroup // goroutines that do tasks
	waiting  map[journal.RunID]*waiter
	emptied  chan struct{} // sent to when no run is left in memory
	kindOf   func(kind string) step.Runner

	notesFirst map[string]bool // kinds that write a note before they act
}

// compiledDef is a definition that has been decoded and indexed once.
type compiledDef struct {
	def     *Definition
	program *plan.Program
	hides   bool // its text has marks of secrets
}

// New makes an engine.
func New(c Config) *Engine {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	e := &Engine{
		Config: c, runs: map[journal.RunID]*run{}, loading: map[journal.RunID]chan struct{}{},
		programs: map[string]*loadOnce{}, waiting: map[journal.RunID]*waiter{}, emptied: make(chan struct{}, 1),
		failed: map[journal.RunID]error{}, sleeping: map[journal.RunID]journal.Millis{},
		redo: map[journal.RunID]bool{}, kindOf: func(kind string) step.Runner { return c.Kinds[kind] },
		notesFirst: map[string]bool{},
	}
	for kind, runner := range c.Kinds {
		_, e.notesFirst[kind] = runner.(step.NotesFirst)
	}
	return e
}

// ErrClosed is returned by an engine that is shutting down.
var ErrClosed = errors.New("the engine is shutting down")

func (e *Engine) now() journal.Millis { return journal.MillisOf(e.Now()) }

// Start begins a run and returns when its beginning is durable. Options are
// the host's business; they are pinned with the run.
func (e *Engine) Start(ctx context.Context, id journal.RunID, def *Definition, input, options json.RawMessage, by journal.Actor) error {
	raw, hash, err := def.Encode()
	if err != nil {
		return err
	}
	ready := func() (*compiledDef, error) { return def.pin, nil }
	if hidden := e.Secrets.Hide(raw); !bytes.Equal(hidden, raw) {
		raw, hash = hidden, hashOf(hidden)
		ready = func() (*compiledDef, error) { return decodeCompiled(hidden) }
	}
	pin, err := e.pin(hash, ready)
	if err != nil {
		return err
	}
	def = pin.def
	blobs := []journal.Blob{{Hash: hash, Data: raw}}
	value, blob := keep(e.Secrets.Hide(input))
	if blob != nil {
		blobs = append(blobs, *blob)
	}
	return e.start(ctx, id, pin, journal.RunStarted{
		Name: def.Program.Name, Format: def.Program.Format, Definition: hash, Input: value, Options: e.Secrets.Hide(options), By: by,
		Vars: e.vars(def.Program), Budget: plan.LimitsOf(def.Program),
	}, blobs)
}

func (e *Engine) start(ctx context.Context, id journal.RunID, pin *compiledDef, started journal.RunStarted, blobs []journal.Blob) error {
	r := newRun(e, id, pin)
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return ErrClosed
	}
	e.runs[id] = r
	e.mu.Unlock()

	begun := make(chan error, 1)
	r.mu.Lock()
	state, events := plan.Start(r.program, id, started, e.now(), e.holding())
	r.state, r.fence = state, journal.FirstFence
	r.append(&pending{events: events, blobs: blobs, done: []answer{{to: func(err error) { begun <- err }}}})
	r.mu.Unlock()
	select {
	case err := <-begun:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// vars are the variables that a run begins with. What its children want of
// the machine is looked up with it: they may begin much later, elsewhere.
func (e *Engine) vars(p *ir.Program) map[string]journal.Value {
	vars := plan.InitialVars(p)
	if e.Machine == nil {
		return vars
	}
	var add func(p *ir.Program)
	add = func(p *ir.Program) {
		for _, v := range p.Vars {
			if v.From == "" {
				continue
			}
			if text, ok := e.Machine(v.From); ok {
				raw, err := encode(text)
				if err == nil { // text always encodes
					vars[v.Path] = journal.Value{JSON: e.Secrets.Hide(raw)}
				}
			}
		}
		for i := range p.Children {
			add(&p.Children[i])
		}
	}
	add(p)
	return vars
}

// pin makes a definition ready, once: runs that begin together, and
// the records that are written of them, wait for one to do it.
func (e *Engine) pin(hash string, ready func() (*compiledDef, error)) (*compiledDef, error) {
	e.mu.Lock()
	p := e.programs[hash]
	if p == nil {
		p = &loadOnce{}
		e.programs[hash] = p
	}
	e.mu.Unlock()
	p.once.Do(func() { p.compiledDef, p.err = ready() })
	if p.err == nil {
		return p.compiledDef, nil
	}
	e.mu.Lock()
	if e.programs[hash] == p { // the next one may have more luck
		delete(e.programs, hash)
	}
	e.mu.Unlock()
	return nil, p.err
}

// loadOnce is a definition that is being decoded, or has been.
type loadOnce struct {
	once sync.Once
	*compiledDef
	err error
}

// stored is a definition that the store has.
func (e *Engine) stored(ctx context.Context, hash string) func() (*compiledDef, error) {
	return func() (*compiledDef, error) {
		raw, err := e.Store.Blob(ctx, hash)
		if err != nil {
			return nil, err
		}
		return decodeCompiled(raw)
	}
}

func decodeCompiled(raw []byte) (*compiledDef, error) {
	def, err := decodeDefinition(raw)
	if err != nil {
		return nil, err
	}
	return compileDef(def, raw), nil
}

func compileDef(def *Definition, raw []byte) *compiledDef {
	return &compiledDef{def: def, program: plan.Compile(def.Program), hides: secret.Hides(raw)}
}

// largeValue is the size from which a value is kept once, by its hash.
const largeValue = 256 << 10

// keep makes a Value of JSON, and a blob of it when it is large.
func keep(raw json.RawMessage) (journal.Value, *journal.Blob) {
	if len(raw) <= largeValue {
		return journal.Value{JSON: raw}, nil
	}
	hash := hashOf(raw)
	return journal.Value{Hash: hash, Size: len(raw)}, &journal.Blob{Hash: hash, Data: raw}
}

// Load folds a run's events without claiming it: for looking, not for writing.
func (e *Engine) Load(ctx context.Context, id journal.RunID) (*plan.State, *plan.Program, *Definition, error) {
	entry, err := e.Store.Entry(ctx, id)
	if err != nil {
		return nil, nil, nil, err
	}
	pin, err := e.pin(entry.Definition, e.stored(ctx, entry.Definition))
	if err != nil {
		return nil, nil, nil, err
	}
	state, err := e.fold(ctx, id)
	if err != nil {
		return nil, nil, nil, err
	}
	return state, e.bind(pin), pin.def, nil
}

// Ending is how a finished run ended. It need not fold the run: the end is among
// the last that was written.
func (e *Engine) Ending(ctx context.Context, entry journal.Entry) (*journal.RunFinished, error) {
	for event, err := range e.Store.Events(ctx, entry.ID, entry.Seq-1) {
		if err != nil {
			return nil, err
		}
		if end, ok := event.Fact.(journal.RunFinished); ok {
			return &end, nil
		}
	}
	state, err := e.fold(ctx, entry.ID)
	if err == nil && state.Finished == nil {
		err = fmt.Errorf("run %s is not over", entry.ID)
	}
	if err != nil {
		return nil, err
	}
	return state.Finished, nil
}

// Raw is the JSON of a value, wherever it is kept.
func (e *Engine) Raw(v journal.Value) (json.RawMessage, error) {
	return (&plan.Program{Blobs: e.blob}).Raw(v)
}

// blob reads a large value.
func (e *Engine) blob(hash string) (json.RawMessage, error) {
	return e.Store.Blob(context.Background(), hash)
}

// Definition reads a pinned definition by its hash.
func (e *Engine) Definition(ctx context.Context, hash string) (*Definition, error) {
	pin, err := e.pin(hash, e.stored(ctx, hash))
	if err != nil {
		return nil, err
	}
	return pin.def, nil
}

// bind gives a program the means to read large values. The index is shared.
func (e *Engine) bind(pin *compiledDef) *plan.Program {
	p := *pin.program
	p.CheckOutput, p.FillInput = e.CheckOutput, e.FillInput
	p.Blobs = e.blob
	return &p
}

// fold rebuilds a run's state: from its newest snapshot if there is one, and
// the events since.
func (e *Engine) fold(ctx context.Context, id journal.RunID) (*plan.State, error) {
	state := &plan.State{Run: id}
	seq, snapshot, err := e.Store.Snapshot(ctx, id)
	if err != nil {
		return nil, err
	}
	if seq > 0 {
		if state, err = plan.Restore(snapshot); err != nil || state.Seq != seq {
			// A snapshot is only a cache.
			e.Log.Warn("snapshot ignored", "run", id, "error", err)
			state, seq = &plan.State{Run: id}, 0
		}
	}
	for event, err := range e.Store.Events(ctx, id, seq) {
		if err != nil {
			return nil, err
		}
		if event.Seq != state.Seq+1 {
			return nil, fmt.Errorf("%w: run %s: event %d follows event %d", journal.ErrCorrupt, id, event.Seq, state.Seq)
		}
		state.Fold([]journal.Event{event})
	}
	return state, nil
}

// Resume claims a run and carries it on. It returns when the run is loaded;
// Wait tells when it has come to rest. A run that another process owns gives
// *journal.OwnedError.
func (e *Engine) Resume(ctx context.Context, id journal.RunID) error {
	return e.acquire(ctx, id, false)
}

// ResumeAgain is Resume for somebody who has decided that tasks whose end
// nobody knows are to be done again.
func (e *Engine) ResumeAgain(ctx context.Context, id journal.RunID) error {
	e.mu.Lock()
	e.redo[id] = true
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		delete(e.redo, id)
		e.mu.Unlock()
	}()
	return e.acquire(ctx, id, false)
}

// redoing tells whether lost tasks of a run are to be done again.
func (e *Engine) redoing(id journal.RunID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.redo[id]
}

// acquire makes sure that a run is in memory and owned by this process, and
// hands requests to it. A run without requests that has nothing to do is
// released again at once. With visit, only what is due happens and no task of
// the run begins.
func (e *Engine) acquire(ctx context.Context, id journal.RunID, visit bool, requests ...request) error {
	for {
		e.mu.Lock()
		if e.closed {
			e.mu.Unlock()
			return ErrClosed
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
		return e.loadRun(ctx, id, visit, loading, requests)
	}
}

// loadRun claims and loads a run that e.loading reserves for the caller, and
// begins it. Whatever comes of it, the reservation ends and everyone who waits
// for the run looks at it again.
func (e *Engine) loadRun(ctx context.Context, id journal.RunID, visit bool, loading chan struct{}, requests []request) error {
	r, err := e.load(ctx, id)
	if err == nil {
		r.visit = visit
		if err = e.admit(r); err != nil {
			e.release(r.id, r.fence, r.state.Seq)
		}
	}
	e.mu.Lock()
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
	r.begin(requests)
	r.mu.Unlock()
	return nil
}

// admit puts a run that was just loaded among those in memory, and leaves its
// mutex locked: until the caller has begun the run, no other goroutine may move
// it. Otherwise a task that another goroutine starts would look like one that
// the previous owner left behind.
func (e *Engine) admit(r *run) error {
	r.mu.Lock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		r.mu.Unlock()
		return ErrClosed
	}
	e.runs[r.id] = r
	return nil
}

// release gives up a claim on a run that could not be loaded. When that fails
// too, the run stays claimed until this process ends.
func (e *Engine) release(id journal.RunID, fence int64, last journal.Seq) {
	batch := journal.Batch{Run: id, Fence: fence, After: last, Release: true}
	if err := journal.Append(context.Background(), e.Store, batch); err != nil {
		e.Log.Warn("run not released", "run", id, "error", err)
	}
}

// load claims a run and reads what is needed to drive it. It reads the inbox
// after the claim, so that each message is seen by the owner or by the next one.
func (e *Engine) load(ctx context.Context, id journal.RunID) (_ *run, err error) {
	claim, err := e.Store.Claim(ctx, id, e.Process.ID(), e.Process.Dead)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			e.release(id, claim.Fence, claim.Seq)
		}
	}()
	pin, err := e.pin(claim.Definition, e.stored(ctx, claim.Definition))
	if err != nil {
		return nil, err
	}
	r := newRun(e, id, pin)
	if r.state, err = e.fold(ctx, id); err != nil {
		return nil, err
	}
	if r.state.Seq != claim.Seq {
		return nil, fmt.Errorf("%w: run %s: its stream ends at event %d, not %d", journal.ErrCorrupt, id, r.state.Seq, claim.Seq)
	}
	r.fence = claim.Fence
	if r.inbox, err = e.Store.Inbox(ctx, id); err != nil {
		return nil, err
	}
	for _, f := range r.state.Frames {
		if f.Child == "" {
			continue
		}
		if r.children[f.Child], err = e.Store.Entry(ctx, f.Child); err != nil {
			return nil, err
		}
	}
	if since, ok := r.state.Resumable(); ok {
		r.history = map[string][]journal.TaskNoted{}
		for event, err := range e.Store.Events(ctx, id, since) {
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

// Drive says something to a run and then drives it to its next resting point.
// A process that holds a run when it becomes runnable drives it, whatever
// became of the process's own message: while say waits for an answer, this
// engine may have claimed the run and accepted the message of another process.
// Drive returns the run as Wait does, and the error of say, if any.
func (e *Engine) Drive(ctx context.Context, id journal.RunID, say func(ctx context.Context) error) (journal.Entry, error) {
	said := say(ctx)
	if said != nil && !e.Owns(id) {
		return journal.Entry{}, said
	}
	entry, err := e.Wait(ctx, id)
	if said != nil {
		return entry, said
	}
	return entry, err
}

// Wait returns when a run has come to rest: finished, or waiting for a person
// or an event. A run that waits only for a time is not at rest; when its time
// comes, another process may be quicker, and is waited for like this one.
//
// Wait drives the run if no other process does. It returns a run that is not at
// rest only when another process has driven it all along, or when this engine
// is closed or held.
//
// No wake-up is needed for progress: each turn of the loop ends after a bounded
// time, and the next one reads the store.
func (e *Engine) Wait(ctx context.Context, id journal.RunID) (journal.Entry, error) {
	driven, polled := false, false // this engine has driven the run; the last turn ended without a wake-up
	for {
		e.mu.Lock()
		if err := e.failed[id]; err != nil {
			delete(e.failed, id)
			e.mu.Unlock()
			return journal.Entry{}, err
		}
		r, here := e.runs[id], e.runs[id] != nil || e.loading[id] != nil
		_, timed := e.sleeping[id]
		idle := e.closed || e.held
		w := e.join(id) // before the store is read: a release after that closes w.rested
		e.mu.Unlock()

		var entry journal.Entry
		var err error
		over, poll := false, pollOwn
		switch {
		case here && polled:
			if entry, err = e.Store.Entry(ctx, id); err == nil {
				over = entry.Status == journal.Finished
				r.checkOwner(entry.Owner)
			} else if errors.Is(err, journal.ErrUnknownRun) {
				err = nil // its first append is still in flight
			}
		case !here:
			entry, err = e.Store.Entry(ctx, id)
			sleeps := entry.Status == journal.Sleeping
			elsewhere := entry.Owner != "" && entry.Owner != e.Process.ID()
			over = idle || !sleeps && entry.Status != journal.Running ||
				!sleeps && !driven && elsewhere && e.Process.Drives(entry.Owner)
			if err == nil && !over && !(sleeps && timed) {
				var acquired bool
				if acquired, err = e.tryAcquire(ctx, &entry); acquired {
					e.leave(id, w)
					continue
				}
				// The attempt itself has woken those who wait for the run.
				w, poll = e.rejoin(id, w), pollElsewhere
			}
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

// How often Wait and Listen read the store when nothing wakes them.
const (
	pollOwn       = time.Second           // for a run that this process drives
	pollElsewhere = 50 * time.Millisecond // for a run that another process drives
)

// tryAcquire claims a run that is not in memory, if it could go on and no
// living process owns it. It reports whether this process has the run now.
func (e *Engine) tryAcquire(ctx context.Context, entry *journal.Entry) (bool, error) {
	if entry.Status == journal.Sleeping && entry.Wake > e.now() {
		return false, nil
	}
	err := e.acquire(ctx, entry.ID, false)
	if err != nil && isHandledElsewhere(err) {
		return false, nil
	}
	return err == nil, err
}

// waiter is those who wait for one run.
type waiter struct {
	rested chan struct{} // closed when the run comes to rest
	n      int
}

// join adds somebody to those who wait for a run. e.mu is held.
func (e *Engine) join(id journal.RunID) *waiter {
	w := e.waiting[id]
	if w == nil {
		w = &waiter{rested: make(chan struct{})}
		e.waiting[id] = w
	}
	w.n++
	return w
}

// rejoin replaces a waiter that may have been woken already.
func (e *Engine) rejoin(id journal.RunID, w *waiter) *waiter {
	e.leave(id, w)
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.join(id)
}

func (e *Engine) leave(id journal.RunID, w *waiter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if w.n--; w.n == 0 && e.waiting[id] == w {
		delete(e.waiting, id)
	}
}

// drop forgets a run that has come to rest or has failed. A non-nil reload
// reserves the run for loading in the same step, so that Owns stays true. The
// run's mutex is held.
func (e *Engine) drop(r *run, reload chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.runs[r.id] == r {
		delete(e.runs, r.id)
	}
	if reload != nil {
		e.loading[r.id] = reload
	}
	if r.err != nil {
		e.failed[r.id] = r.err
	}
	delete(e.sleeping, r.id)
	if r.err == nil && r.state != nil && !e.closed && !r.visit {
		if wake, ok := r.state.Wake(); ok {
			if !e.all { // else it is found in the store when its time comes
				e.sleeping[r.id] = wake
			}
			e.setTimer(wake)
		}
	}
	e.rested(r.id)
	e.signalIfEmpty()
}

// signalIfEmpty wakes Close when no run is left in memory. e.mu is held.
func (e *Engine) signalIfEmpty() {
	if len(e.runs) == 0 && len(e.loading) == 0 {
		select {
		case e.emptied <- struct{}{}:
		default:
		}
	}
}

// rested tells those who wait for a run to look at it again. e.mu is held.
func (e *Engine) rested(id journal.RunID) {
	if w := e.waiting[id]; w != nil {
		close(w.rested)
		delete(e.waiting, id)
	}
}

// Hold makes the engine record messages and begin no task: it leaves the runs
// to other processes. A process that has sent a message drives the run if the
// process that has accepted the message does not.
func (e *Engine) Hold() {
	e.mu.Lock()
	e.held = true
	e.mu.Unlock()
	e.Process.StopDriving()
}

func (e *Engine) holding() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.held
}

// Owns reports whether a run is in this process's memory, or on its way there.
func (e *Engine) Owns(id journal.RunID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.runs[id] != nil || e.loading[id] != nil
}

// Close parks every run: no new task begins. Tasks that may be done again are
// cancelled at once. Those that may not are waited for, until now is closed;
// then they are cancelled too. The runs are given up as they are, for
// whoever comes next.
func (e *Engine) Close(now <-chan struct{}) {
	e.mu.Lock()
	e.closed = true
	runs := make([]*run, 0, len(e.runs))
	for _, r := range e.runs {
		runs = append(runs, r)
	}
	if e.timer != nil {
		e.timer.Stop()
	}
	for id := range e.waiting {
		if e.runs[id] == nil { // it sleeps, and nobody here will wake it
			e.rested(id)
		}
	}
	e.mu.Unlock()
	e.Process.StopDriving()
	for _, r := range runs {
		r.park(false)
	}
	for {
		e.mu.Lock()
		left := len(e.runs) + len(e.loading)
		e.mu.Unlock()
		if left == 0 {
			break
		}
		select {
		case <-e.emptied:
		case <-now:
			now = nil
			for _, r := range runs {
				r.park(true)
			}
		}
	}
	e.tasks.Wait()
}

// Drain waits until no run is in memory and then closes the engine, in one
// step: a timer or a message that arrives before is still dealt with, and none
// can claim a run after. A process that ends by itself calls it, so that it
// gives runs up only at rest.
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
