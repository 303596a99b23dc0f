package embedded

import (
	"cmp"
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
	"github.com/espalier-run/espalier/internal/xmaps"
)

// run is a run that this process owns and has in memory.
type run struct {
	e       *Engine
	id      journal.RunID
	program *plan.Program
	def     *engine.Compiled

	// mu guards everything below. The callback of Append locks it; so no call of
	// Append may wait for that callback while mu is held.
	mu         sync.Mutex
	state      *plan.State // ahead of the store by the append in flight and the held decision
	fence      int64
	owner      journal.Owner // name of this process when it claimed the run
	gone       bool          // released or failed: nothing below counts anymore
	err        error         // why it failed
	timersOnly bool          // decide what is due, start no task

	slot   int64 // number of the run's slot; 0 if it has none
	queued bool  // the run has no slot although it needs one; timersOnly is set, too

	queue    []request
	spare    []request // the previous queue, emptied, for reuse
	inFlight bool      // an append has not called back yet; requests stay in queue until then
	appends  int       // how many appends the store has accepted
	jobs     map[string]*job

	held      *pending        // a decision that waits for the notes of its tasks
	holdTimer *time.Timer     // appends the held decision
	early     map[string]bool // tasks that run before their start is durable

	// skipped is the part of the engine clock's jumps that the run has accounted
	// for, and aheadUntil the jump with which that clock reaches the run's.
	skipped, aheadUntil journal.Millis

	inbox     []journal.InboxMessage         // as load has read it
	delivered journal.InboxID                // the newest message that was delivered
	history   map[string][]journal.TaskNoted // notes of tasks that do not run, by their keys

	index     journal.Index // as last stored
	children  engine.Children
	snapshots engine.Snapshots
	// fresh has the large values of the append in flight, which the store does
	// not have yet.
	fresh map[string]json.RawMessage
}

// request is an input for the run, and how to answer it. done may be called while r.mu is held, so it must neither
// block nor lock: it sends to a channel that has room.
type request struct {
	in    plan.Input
	with  []plan.Input // decided in the same decision
	ref   string
	inbox journal.InboxID // 0 if it is not from the inbox
	blob  *journal.Blob
	done  func(error) // called once the answer is durable; may be nil
}

// newRun returns a run without a state. It is not shared until the caller adds it to e.runs.
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

// setClock starts the clock of a run that was just loaded. If the wall clock was
// set back before this process started, the run's last event is in the future;
// the run then has a clock that continues from that event. The engine remembers
// by how much it is ahead, so that timers advance while the run is not in memory.
// r.mu is held, or the run is not shared yet.
func (r *run) setClock() {
	now, skipped := r.e.clock.read()
	r.skipped = skipped
	r.e.mu.Lock()
	defer r.e.mu.Unlock()
	if ahead := r.state.At - now; ahead >= journal.Millis(jumpTolerance.Milliseconds()) && r.e.ahead[r.id] == 0 {
		r.e.ahead[r.id] = ahead + skipped
	}
	r.aheadUntil = r.e.ahead[r.id]
}

// ahead returns by how much the run's clock is ahead of the engine's. When the
// engine's clock jumps ahead, it catches up. r.mu is held.
func (r *run) ahead() journal.Millis { return max(r.aheadUntil-r.skipped, 0) }

// readClock returns the time of the run's clock, and by how much that has jumped
// ahead since the last call. r.mu is held.
func (r *run) readClock() (now, jump journal.Millis) {
	now, skipped := r.e.clock.read()
	before := r.skipped + r.ahead()
	r.skipped = skipped
	return now + r.ahead(), r.skipped + r.ahead() - before
}

// wake returns when the run's next timer is due on the engine's clock. r.mu is held.
func (r *run) wake() (journal.Millis, bool) {
	wake, ok := r.state.Wake()
	return wake - r.ahead(), ok
}

// continueLoaded continues a run that was just loaded: it handles the tasks that the
// previous owner lost, the messages, and the due timers. r.mu is held.
func (r *run) continueLoaded(more []request) {
	r.index = r.state.Summary()
	var inputs []plan.Input // about lost tasks
	waiting := map[string]bool{}
	// An open task has no process anymore. One that waits for a budget is launched again below: it was between two
	// calls. All others are lost: Policy says whether they run again or a person decides.
	for _, t := range r.state.OpenTasks() {
		if t.Waits > 0 {
			waiting[t.Key()] = true // it can continue there
			continue
		}
		lost := r.e.Lost(t.TaskID, t.Rerun, r.state.TaskOf(r.program, t.Frame),
			r.history[t.Key()], "its process has ended")
		lost.Until = r.state.At
		if lost.Policy == journal.RecoveryAsk && r.e.reruns(r.id) {
			lost.Policy, lost.Why = journal.RecoveryRerun, lost.Why+"; it is rerun on request"
		}
		inputs = append(inputs, lost)
	}
	var requests []request
	// The inputs about lost tasks come first. A message, such as a cancellation, is decided on with their state known.
	if len(inputs) > 0 {
		requests = append(requests, request{in: plan.TakenOver{Owner: string(r.e.process.ID())}, with: inputs})
	}
	r.state.MarkAll() // the previous owner may have held tasks
	r.state.Hold = r.timersOnly || r.e.holding()
	requests = append(requests, r.messages(r.inbox)...)
	r.inbox = nil
	requests = append(requests, more...)
	r.queue = append(r.queue, requests...)
	r.advance()
	for _, t := range r.state.OpenTasks() {
		switch {
		case !waiting[t.Key()] || r.gone:
		case t.Frame.Canceled: // no goroutine runs it that could end it
			r.queue = append(r.queue, request{in: plan.Result{
				Work: t.TaskID, Rerun: t.Rerun, Outcome: journal.OutcomeCanceled,
			}})
		case r.jobs[t.Key()] == nil && r.state.Summary().Status != journal.Exceeded:
			r.launch(t)
		}
	}
	if len(r.queue) > 0 {
		r.advance()
	}
}

// messages returns the requests of inbox messages. r.mu is held.
func (r *run) messages(posted []journal.InboxMessage) []request {
	var out []request
	for _, m := range posted {
		r.delivered = max(r.delivered, m.ID)
		in, ref, err := engine.DecodeMessage(m.Message)
		if err != nil {
			r.e.Log.Error("message ignored", "run_id", r.id, "error", err)
			continue
		}
		out = append(out, request{in: in, ref: ref, inbox: m.ID})
	}
	return out
}

// checkOwner drops the run if the store names another owner: another process has
// considered this one dead, and the next append would be refused. Tasks must not
// run until then. An append in flight reports the loss itself.
func (r *run) checkOwner(owner journal.Owner) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.gone && !r.inFlight && owner != r.owner {
		r.fail(journal.ErrConflict)
	}
}

// accepted returns how many appends of the run the store has accepted since it was loaded; 0 if it is being loaded.
func (r *run) accepted() int {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.appends
}

// push queues requests of a task, or of other senders if j is nil. The run
// decides on all queued requests as soon as the append in flight is durable.
func (r *run) push(j *job, requests ...request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone {
		for _, q := range requests {
			if q.done != nil {
				q.done(errNotHeld)
			}
		}
		return
	}
	r.queue = append(r.queue, requests...)
	r.noteArrived(j)
	r.advance()
}

// errNotHeld means that this process does not hold the run anymore.
var errNotHeld = errors.New("this process does not hold the run anymore")

// pending is a decision that is not durable yet.
type pending struct {
	events []journal.Event
	taken  []journal.InboxID
	blobs  []journal.Blob
	done   []answer
	waits  int // number of tasks that have to write a note before the append
}

// answer is called when a decision is durable or has failed.
type answer struct {
	to      func(error)
	refused error // why the input was refused; nil if it was accepted
}

// add adds the events of a decision.
func (p *pending) add(events []journal.Event) {
	if p.events == nil {
		p.events = events
	} else {
		p.events = append(p.events, events...)
	}
}

// answer calls all answers of a decision: with err if the append has failed, otherwise with the refusal of each input.
func (p *pending) answer(err error) {
	for _, a := range p.done {
		if err == nil {
			a.to(a.refused)
		} else {
			a.to(err)
		}
	}
}

// advance decides on all queued requests and appends the decision. It does
// nothing while an append is in flight or a decision is held. r.mu is held.
func (r *run) advance() {
	if r.inFlight || r.gone || r.held != nil && r.held.waits > 0 {
		return
	}
	// A held decision whose notes have arrived goes on: the queued notes are added to it, and all is one append.
	p, waited := r.held, r.held != nil
	if !waited {
		p = &pending{}
	}
	r.held = nil
	now, jump := r.readClock()
	if jump > 0 {
		p.add(r.state.Decide(r.program, now, plan.ClockJump{By: jump}))
	}
	// Decide on requests or, without any, on due timers and frames that can move. A decision that waited for notes
	// contains all of that already.
	asked := r.decide(p, now)
	if !waited && !asked && (!r.state.Hold || !r.state.Moving()) { // a long decision stops while the engine holds
		p.add(r.state.Decide(r.program, now))
	}
	// Nothing to store. A run at rest is appended even so, because the append releases it.
	if len(p.events) == 0 && len(p.taken) == 0 && !r.resting() {
		p.answer(nil)
		r.e.schedule(r)
		return
	}
	if !waited && r.startEarly(p) {
		return
	}
	r.append(p)
}

// decide decides on the queued requests and reports whether there were any. r.mu
// is held.
func (r *run) decide(p *pending, now journal.Millis) bool {
	queue := r.queue
	r.queue, r.spare = r.spare, nil
	defer func() {
		clear(queue)
		r.spare = queue[:0]
	}()
	for i := range queue {
		r.decideOne(p, now, &queue[i])
	}
	return len(queue) > 0
}

// decideOne decides on a request. r.mu is held.
func (r *run) decideOne(p *pending, now journal.Millis, q *request) {
	// The plan may read the value while it decides; the store has it only after the append.
	if q.blob != nil {
		xmaps.Set(&r.fresh, q.blob.Hash, q.blob.Data)
		p.blobs = append(p.blobs, *q.blob)
	}
	over := r.state.Finished != nil
	more := r.state.Decide(r.program, now, append([]plan.Input{q.in}, q.with...)...)
	refused := refusal(more, q.ref)
	// A finished run records no refusals, so ask the plan why the message had no effect.
	if len(more) == 0 && r.state.Finished != nil && q.ref != "" {
		refused = r.state.Check(r.program, q.in)
	}
	if len(more) == 0 {
		r.grantAgain(p, q.in)
	}
	p.add(more)
	if q.inbox != 0 && !over { // a message that came too late stays: its sender finds it there
		p.taken = append(p.taken, q.inbox)
	}
	if q.done != nil {
		p.done = append(p.done, answer{q.done, refused})
	}
}

// refusal returns why an input was refused; nil if it was not. It adds the reference of the input to the fact.
func refusal(events []journal.Event, ref string) error {
	for i := range events {
		if x, ok := events[i].Fact.(journal.InputRefused); ok {
			x.Ref = ref
			events[i].Fact = x
			return &plan.Refusal{Code: plan.RefusalCode(x.Code), Why: x.Why, Step: x.Step}
		}
	}
	return nil
}

// grantAgain answers a reservation that led to no event: an earlier attempt of the task has made it, and it was
// granted. r.mu is held.
func (r *run) grantAgain(p *pending, in plan.Input) {
	x, ok := in.(plan.Reserve)
	if !ok || grants(p.events, x) {
		return
	}
	if f := r.state.Frames[x.Work.Frame]; f != nil {
		if amount, granted := f.Reserved[x.N]; granted {
			r.answer(x.Work, x.N, amount, nil)
		}
	}
}

// grants reports whether events that are not durable yet grant a reservation.
func grants(events []journal.Event, x plan.Reserve) bool {
	return slices.ContainsFunc(events, func(e journal.Event) bool {
		granted, ok := e.Fact.(journal.Reserved)
		return ok && granted.TaskID == x.Work && granted.N == x.N
	})
}

// resting reports whether this process has nothing left to do for the run.
func (r *run) resting() bool {
	if r.state.Finished != nil {
		return true
	}
	return r.state.Open == r.state.Stuck() &&
		(r.state.Hold || !r.state.Moving() && r.state.Summary().Status != journal.Running)
}

// append makes a decision durable: its events, large values, index rows and snapshot, the messages that it answers, and
// the end of the claim if the run rests, all in one batch. The state in memory has the events already, so After is
// computed from its end. appended then applies the effects. r.mu is held.
func (r *run) append(p *pending) {
	events := p.events
	b := journal.Batch{
		Run: r.id, Fence: r.fence, After: r.state.Seq - journal.Seq(len(events)), Events: events, Taken: p.taken,
		Blobs: p.blobs,
	}
	// The first append creates the run, with this process as its owner.
	if b.After == 0 {
		b.Owner = r.owner
	}
	if index := r.state.Summary(); index != r.index || b.After == 0 {
		r.index = index
		b.Index = new(index)
	}
	b.Children = r.children.Update(r.state, events)
	// A run with queued requests is kept: releasing it would only make this process claim it again.
	b.Release = r.resting() && len(r.queue) == 0
	written := 0
	for i := range events {
		written += cost(&events[i])
	}
	b.Snapshot = r.snapshots.Next(r.state, written)
	r.inFlight = true
	r.e.store.Append(b, func(err error) { r.appended(&b, err, p) })
}

// cost estimates the stored size of an event in bytes. Only values of tasks and steps can be large; snapshots are timed
// by the sum.
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

// appended is the callback of Append. On failure it discards the run; otherwise
// it applies the effects of the facts, answers the requests, and continues. The
// store calls it; r.mu is not held.
func (r *run) appended(b *journal.Batch, err error, p *pending) {
	r.mu.Lock()
	r.inFlight = false
	r.fresh = nil
	if err != nil {
		// The state in memory is ahead of the durable one: discard it.
		r.fail(err)
		r.mu.Unlock()
		p.answer(err)
		return
	}
	r.appends++
	r.e.LogAppend(b)
	if b.Release && len(r.queue) > 0 {
		// Messages arrived while the release was in flight: claim the run
		// again for them.
		queue := r.queue
		r.queue = nil
		reload := make(chan struct{})
		r.discard(reload)
		r.mu.Unlock()
		p.answer(nil)
		r.e.reacquire(r.id, reload, queue)
		return
	}
	// Effects come before the next decision: a grant or a cancellation reaches its task before later facts about it.
	for i := range b.Events {
		r.effect(&b.Events[i])
	}
	if b.Release {
		r.discard(nil)
		r.mu.Unlock()
		p.answer(nil)
		return
	}
	// Requests that arrived during the append, and a decision that stopped at the limit of facts, go on now.
	if len(r.queue) > 0 || r.state.Moving() {
		r.advance()
	} else {
		r.e.schedule(r)
	}
	r.mu.Unlock()
	p.answer(nil)
}

// effect applies the effect of a durable fact outside of the state. It does not
// concern tasks that started early. r.mu is held.
func (r *run) effect(e *journal.Event) {
	switch x := e.Fact.(type) {
	case journal.TaskStarted:
		if key := x.Key(); r.early[key] {
			delete(r.early, key)
			return
		}
		f := r.state.Frames[x.Frame]
		if f == nil || f.Phase != plan.Working || f.Work() != x.TaskID {
			return
		}
		if r.state.Holds(r.program, r.state.TaskOf(r.program, f)) { // the task has not started
			r.queue = append(r.queue, request{in: plan.TaskLost{
				Work: x.TaskID, Rerun: x.Rerun, Why: engine.ErrParked.Error(), Policy: journal.RecoveryRerun,
			}})
			return
		}
		r.launch(plan.OpenTask{TaskID: x.TaskID, Rerun: x.Rerun, Frame: f})
	case journal.TaskNoted:
		if x.Kind == journal.NoteToolAnswer { // the answer of a person; the task does not run
			xmaps.Set(&r.history, x.Key(), append(r.history[x.Key()], x))
		}
	case journal.Reserved:
		r.answer(x.TaskID, x.N, x.Amount, nil)
	case journal.BudgetRefused:
		r.answer(x.TaskID, x.N, journal.Usage{}, engine.BudgetError(x.Budget))
	// Tasks that started early and whose start is not durable yet belong to a decision after this one: it was made with
	// the cancellation known.
	case journal.CancelRequested:
		for key, j := range r.jobs {
			if !r.early[key] && (x.Frame == "" || strings.HasPrefix(j.Work.Frame+"/", x.Frame+"/")) {
				j.cancel(engine.ErrCanceled)
			}
		}
	case journal.TimerFired:
		if x.What == plan.TimerDeadline && x.Run {
			for key, j := range r.jobs {
				if !r.early[key] {
					j.Job.Calls.Stop(engine.ErrDeadline)
				}
			}
		}
	}
}

// fail drops a run that cannot be written anymore. r.mu is held.
func (r *run) fail(err error) {
	r.err = err
	r.discard(nil)
}

// discard drops the run and cancels its running tasks: their results are not
// recorded. A non-nil reload reserves the run for loading. r.mu is held.
func (r *run) discard(reload chan struct{}) {
	if r.gone {
		return
	}
	r.gone = true
	for _, j := range r.jobs {
		j.cancel(engine.ErrParked)
	}
	// Drop the run before answering: a sender that tries again at once must not find this run in memory.
	queue := r.queue
	r.queue = nil
	err := cmp.Or(r.err, errNotHeld)
	r.e.drop(r, reload)
	for _, q := range queue {
		if q.done != nil {
			q.done(err)
		}
	}
}

// park stops a run because the process is ending. Tasks that can run again stop
// between their calls of models and tools. If all is set, every task is canceled.
func (r *run) park(all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone {
		return
	}
	// At the first park, tasks that neither wait nor act may still start: a run whose last command has ended is
	// finished, and not left for the next process.
	r.state.FinishInstant = !all && !r.state.Hold
	r.state.Hold = true
	for _, j := range r.jobs {
		switch {
		case all:
			j.cancel(engine.ErrParked)
		case j.recovery() == journal.RecoveryRerun && r.state.Holds(r.program, j.Job.Task):
			j.Job.Calls.Stop(engine.ErrStopped)
		}
	}
	r.advance()
}

// Send implements engine.Driver. The input goes to the run in memory, to its
// owner through the inbox or, if it has no owner, to the run after a claim.
func (e *Engine) Send(ctx context.Context, id journal.RunID, in plan.Input, ref string) error {
	in, err := e.Hide(in)
	if err != nil {
		return err
	}
	// Refuse at once what cannot be accepted; the run may still refuse it later.
	if err := e.Check(ctx, id, in); err != nil {
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
		// Another process may claim the run before this one does, or after it has
		// released it.
		var owned *journal.OwnedError
		switch {
		case errors.As(err, &owned) && owned.Owner == journal.Temporal:
			return err // it does not read inboxes
		case errors.As(err, &owned):
			return e.enqueue(ctx, id, in, ref)
		case !errors.Is(err, errNotHeld):
			return err
		}
	}
}
