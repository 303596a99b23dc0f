package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
)

// run is a run that this process owns and has in memory.
type run struct {
	e       *Engine
	id      journal.RunID
	program *plan.Program
	def     *engine.Compiled

	mu        sync.Mutex
	state     *plan.State
	fence     int64
	queue     []request
	spare     []request // what queue was before, empty
	inFlight  bool
	held      *pending        // decided on, and not appended before its tasks have said more
	holdTimer *time.Timer     // appends what is held
	early     map[string]bool // tasks that began before their start is durable
	visit     bool            // only what is due happens, and no task begins
	gone      bool            // given up, or failed
	err       error           // why it failed
	jobs      map[string]*job
	index     journal.Index // as last written
	children  engine.Children

	// What came with loading.
	inbox   []journal.InboxMessage
	heard   journal.InboxID // the newest message that was handed over
	history map[string][]journal.TaskNoted

	// What the last snapshot cost, and what has been written since.
	snapshotSize, written int
	// Large values of the append in flight, before the store has them.
	fresh map[string]json.RawMessage
}

// request is something the world says, and whoever wants to know what came of it.
type request struct {
	in    plan.Input
	with  []plan.Input // decided together with it, before any timer
	ref   string
	inbox journal.InboxID // 0: it did not come through the inbox
	blob  *journal.Blob
	done  func(error) // called once the answer is durable; may be nil
}

func newRun(e *Engine, id journal.RunID, def *engine.Compiled) *run {
	r := &run{e: e, id: id, def: def, jobs: map[string]*job{}, children: engine.Children{}}
	r.program = e.Program(def)
	stored := r.program.Blobs
	r.program.Blobs = func(hash string) (json.RawMessage, error) {
		if raw, ok := r.fresh[hash]; ok { // only called while r.mu is held
			return raw, nil
		}
		return stored(hash)
	}
	return r
}

// begin carries a run on that was just loaded: tasks that its last owner left
// behind, messages, and timers that are due. r.mu is held.
func (r *run) begin(more []request) {
	r.index = r.state.Summary()
	var lost []plan.Input
	starved := map[string]bool{}
	for _, one := range r.state.BudgetWaiters {
		if one.N > 0 {
			starved[one.Work.Key()] = true
		}
	}
	for _, t := range r.state.OpenTasks() {
		if starved[t.Key()] {
			continue // it stood still before a call: it may go on where it was
		}
		gone := r.e.Lost(t.Work, r.state.TaskOf(r.program, t.Frame), r.history[t.Key()], "its process is gone")
		gone.Until = r.state.At
		if gone.Policy == journal.RecoveryAsk && r.e.reruns(r.id) {
			gone.Policy, gone.Why = journal.RecoveryRerun, gone.Why+"; somebody has it done again"
		}
		lost = append(lost, gone)
	}
	var requests []request
	if len(lost) > 0 {
		requests = append(requests, request{in: plan.TakenOver{Owner: string(r.e.process.ID())}, with: lost})
	}
	r.state.MarkAll() // its last owner may have held something back
	r.state.Hold = r.visit || r.e.holding()
	requests = append(requests, r.messages(r.inbox)...)
	r.inbox = nil
	requests = append(requests, more...)
	r.queue = append(r.queue, requests...)
	r.advance()
	for _, t := range r.state.OpenTasks() {
		switch {
		case !starved[t.Key()] || r.gone:
		case t.Frame.Cancelled: // nobody does it who could say so
			r.queue = append(r.queue, request{in: plan.Result{Work: t.Work, Outcome: journal.OutcomeCancelled}})
		case r.jobs[t.Key()] == nil && r.state.Summary().Status != journal.Exceeded:
			r.launch(t)
		}
	}
	if len(r.queue) > 0 {
		r.advance()
	}
}

// messages makes requests of inbox messages. r.mu is held.
func (r *run) messages(posted []journal.InboxMessage) []request {
	var out []request
	for _, m := range posted {
		r.heard = max(r.heard, m.ID)
		in, ref, err := engine.DecodeMessage(m.Message)
		if err != nil {
			r.e.Log.Error("message ignored", "run", r.id, "error", err)
			continue
		}
		out = append(out, request{in: in, ref: ref, inbox: m.ID})
	}
	return out
}

// checkOwner gives the run up when the store names another owner: this process
// was taken for dead, and its next append would be refused. Tasks must not go on
// until then. An append in flight reports the loss by itself.
func (r *run) checkOwner(owner journal.Owner) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.gone && !r.inFlight && owner != r.e.process.ID() {
		r.fail(journal.ErrConflict)
	}
}

// push hands requests of a task, or of others if j is nil, to the run. They are
// decided on together with everything else that is queued as soon as the append
// in flight is durable.
func (r *run) push(j *job, requests ...request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone {
		for _, q := range requests {
			if q.done != nil {
				q.done(errGivenUp)
			}
		}
		return
	}
	r.queue = append(r.queue, requests...)
	r.noteArrived(j)
	r.advance()
}

// errGivenUp: the run is no longer in this process's hands.
var errGivenUp = errors.New("the run has been given up by this process")

// pending is what has been decided and is not durable yet.
type pending struct {
	events []journal.Event
	taken  []journal.InboxID
	blobs  []journal.Blob
	done   []answer
	waits  int // how many tasks have to say something before it is appended
}

// answer goes to whoever asked, once what was asked for is durable, or is not.
type answer struct {
	to      func(error)
	refused error // why it is not done
}

func (p *pending) answer(err error) {
	for _, a := range p.done {
		if err == nil {
			a.to(a.refused)
		} else {
			a.to(err)
		}
	}
}

// advance decides on everything that has queued up, and appends what follows.
// r.mu is held.
func (r *run) advance() {
	if r.inFlight || r.gone || r.held != nil && r.held.waits > 0 {
		return
	}
	p, waited := r.held, r.held != nil
	if !waited {
		p = &pending{}
	}
	r.held = nil
	asked := r.decide(p)
	if !waited && !asked && (!r.state.Hold || !r.state.Moving()) { // what goes on for long stops there
		p.events = r.state.Decide(r.program, r.e.now())
	}
	if len(p.events) == 0 && len(p.taken) == 0 && !r.resting() {
		p.answer(nil)
		r.e.schedule(r)
		return
	}
	if !waited && r.beginEarly(p) {
		return
	}
	r.append(p)
}

// decide decides on what has queued up; false when nothing has. r.mu is held.
func (r *run) decide(p *pending) bool {
	queue := r.queue
	r.queue, r.spare = r.spare, nil
	defer func() {
		clear(queue)
		r.spare = queue[:0]
	}()
	now := r.e.now()
	for _, q := range queue {
		if q.blob != nil {
			if r.fresh == nil {
				r.fresh = map[string]json.RawMessage{}
			}
			r.fresh[q.blob.Hash] = q.blob.Data
			p.blobs = append(p.blobs, *q.blob)
		}
		over := r.state.Finished != nil
		more := r.state.Decide(r.program, now, append([]plan.Input{q.in}, q.with...)...)
		var refused error
		for i := range more {
			if x, ok := more[i].Fact.(journal.InputRefused); ok && refused == nil {
				refused = &plan.Refusal{Code: plan.RefusalCode(x.Code), Why: x.Why}
				x.Ref = q.ref
				more[i].Fact = x
			}
		}
		if len(more) == 0 && r.state.Finished != nil && q.ref != "" {
			refused = r.state.Check(r.program, q.in)
		}
		if x, ok := q.in.(plan.Reserve); ok && len(more) == 0 && !grants(p.events, x) {
			// It was granted before the task asked again: in an earlier life of it.
			if f := r.state.Frames[x.Work.Frame]; f != nil {
				if amount, granted := f.Reserved[x.N]; granted {
					r.answer(x.Work, x.N, amount, nil)
				}
			}
		}
		if p.events == nil {
			p.events = more
		} else {
			p.events = append(p.events, more...)
		}
		if q.inbox != 0 && !over { // what came too late stays where it is: its sender sees that
			p.taken = append(p.taken, q.inbox)
		}
		if q.done != nil {
			p.done = append(p.done, answer{q.done, refused})
		}
	}
	return len(queue) > 0
}

// grants tells whether events that are not durable yet grant a reservation.
func grants(events []journal.Event, x plan.Reserve) bool {
	return slices.ContainsFunc(events, func(e journal.Event) bool {
		granted, ok := e.Fact.(journal.Reserved)
		return ok && granted.Work == x.Work && granted.N == x.N
	})
}

// resting tells whether nothing is left for this process to do but wait.
func (r *run) resting() bool {
	if r.state.Finished != nil {
		return true
	}
	return r.state.Open == r.state.Stuck() && (r.state.Hold || !r.state.Moving() && r.state.Summary().Status != journal.Running)
}

// append makes a decision durable and then lets it have its effect. r.mu is held.
func (r *run) append(p *pending) {
	events := p.events
	b := journal.Batch{Run: r.id, Fence: r.fence, After: r.state.Seq - journal.Seq(len(events)), Events: events, Taken: p.taken, Blobs: p.blobs}
	if b.After == 0 {
		b.Owner = r.e.process.ID()
	}
	if index := r.state.Summary(); index != r.index || b.After == 0 {
		r.index = index
		b.Index = new(index)
	}
	b.Children = r.children.Update(r.state, events)
	b.Release = r.resting() && len(r.queue) == 0
	for i := range events {
		r.written += cost(&events[i])
	}
	if r.written > 64<<10 && r.written > snapshotShare*r.snapshotSize && r.state.Finished == nil {
		if size := r.state.Size(); r.written <= snapshotShare*size {
			r.snapshotSize = size // the state has grown: it is not time yet
		} else {
			b.Snapshot = r.state.Snapshot()
			r.snapshotSize, r.written = len(b.Snapshot), 0
		}
	}
	r.inFlight = true
	r.e.store.Append(b, func(err error) { r.appended(&b, err, p) })
}

// snapshotShare is how many times its size has to be written before a snapshot
// is worth another write: so that all snapshots together cost a share of what
// the run writes anyway.
const snapshotShare = 4

// cost is roughly how many bytes an event takes.
func cost(e *journal.Event) int {
	const plain = 120
	switch x := e.Fact.(type) {
	case journal.TaskEnded:
		return plain + len(x.Value.JSON)
	case journal.TaskNoted:
		return plain + len(x.Data)
	case journal.StepLeft:
		return plain + len(x.Value.JSON)
	}
	return plain
}

// appended is called when a batch is durable, or is not.
func (r *run) appended(b *journal.Batch, err error, p *pending) {
	r.mu.Lock()
	r.inFlight = false
	r.fresh = nil
	if err != nil {
		// The state in memory is ahead of the truth: it is worth nothing now.
		r.fail(err)
		r.mu.Unlock()
		p.answer(err)
		return
	}
	if b.Release && len(r.queue) > 0 {
		// Messages arrived while the release was in flight: claim the run
		// again for them.
		queue := r.queue
		r.queue = nil
		reload := make(chan struct{})
		r.giveUp(reload)
		r.mu.Unlock()
		p.answer(nil)
		r.e.reacquire(r.id, reload, queue)
		return
	}
	for i := range b.Events {
		r.effect(&b.Events[i])
	}
	if b.Release {
		r.giveUp(nil)
		r.mu.Unlock()
		p.answer(nil)
		return
	}
	if len(r.queue) > 0 || r.state.Moving() {
		r.advance()
	} else {
		r.e.schedule(r)
	}
	r.mu.Unlock()
	p.answer(nil)
}

// effect does what a durable fact asks for. Tasks whose start comes later, and
// that have begun all the same, are not concerned. r.mu is held.
func (r *run) effect(e *journal.Event) {
	switch x := e.Fact.(type) {
	case journal.TaskStarted:
		if key := x.Key(); r.early[key] {
			delete(r.early, key)
			return
		}
		f := r.state.Frames[x.Frame]
		if f == nil || f.Phase != plan.Working || f.Work() != x.Work {
			return
		}
		if r.state.Hold { // it was intended and never begun
			r.queue = append(r.queue, request{in: plan.Gone{Work: x.Work, Why: engine.ErrParked.Error(), Policy: journal.RecoveryRerun}})
			return
		}
		r.launch(plan.OpenTask{Work: x.Work, Rerun: x.Rerun, Frame: f})
	case journal.TaskNoted:
		if x.Kind == journal.NoteToolAnswer { // not the task's own: it does not run just now
			if r.history == nil {
				r.history = map[string][]journal.TaskNoted{}
			}
			r.history[x.Key()] = append(r.history[x.Key()], x)
		}
	case journal.Reserved:
		r.answer(x.Work, x.N, x.Amount, nil)
	case journal.BudgetRefused:
		r.answer(x.Work, x.N, journal.Usage{}, engine.BudgetError(x.Budget))
	case journal.CancelRequested:
		for key, j := range r.jobs {
			if !r.early[key] && (x.Frame == "" || strings.HasPrefix(j.Work.Frame+"/", x.Frame+"/")) {
				j.cancel(engine.ErrCancelled)
			}
		}
	case journal.TimerFired:
		if x.What == plan.TimerDeadline && x.Run {
			for key, j := range r.jobs {
				if !r.early[key] {
					j.cancel(engine.ErrDeadline)
				}
			}
		}
	}
}

// fail gives a run up that cannot be written any more. r.mu is held.
func (r *run) fail(err error) {
	r.err = err
	r.giveUp(nil)
}

// giveUp forgets the run and cancels tasks that still run: their results are
// not recorded. A non-nil reload reserves the run for loading. r.mu is held.
func (r *run) giveUp(reload chan struct{}) {
	if r.gone {
		return
	}
	r.gone = true
	for _, j := range r.jobs {
		j.cancel(engine.ErrParked)
	}
	queue := r.queue
	r.queue = nil
	err := r.err
	if err == nil {
		err = errGivenUp
	}
	r.e.drop(r, reload)
	for _, q := range queue {
		if q.done != nil {
			q.done(err)
		}
	}
}

// park begins to stop a run because the process is ending: what may be done
// again is cancelled, or, if all is set, everything.
func (r *run) park(all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone {
		return
	}
	r.state.Hold = true
	for _, j := range r.jobs {
		if all || j.recovery() == journal.RecoveryRerun {
			j.cancel(engine.ErrParked)
		}
	}
	r.advance()
}

// Send says something to a run, wherever it is: to this process if it has the
// run, to its owner through the inbox, or, if it has no owner, by claiming it.
// Afterwards this engine may hold the run, even if its message was refused:
// call Send through Drive unless the engine only records.
// A refusal is a *plan.Refusal. When it returns, the answer is durable.
func (e *Engine) Send(ctx context.Context, id journal.RunID, in plan.Input, ref string) error {
	in, err := e.Hide(in)
	if err != nil {
		return err
	}
	// Refuse at once what cannot fit; it may still be refused later.
	state, program, _, err := e.Load(ctx, id)
	if err != nil {
		return err
	}
	if err := state.Check(program, in); err != nil && !state.MayBeInDoubt(in) {
		return err
	}
	for {
		answer := make(chan error, 1)
		err := e.acquire(ctx, id, false, request{in: in, ref: ref, done: func(err error) { answer <- err }})
		if err == nil {
			select {
			case err = <-answer:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		// The run may be lost to another process before or after it is claimed.
		var owned *journal.OwnedError
		switch {
		case errors.As(err, &owned):
			return e.post(ctx, id, in, ref)
		case !errors.Is(err, errGivenUp):
			return err
		}
	}
}
