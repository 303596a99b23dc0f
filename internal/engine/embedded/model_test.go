package embedded_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/engine/embedded"
	"github.com/espalier-run/espalier/internal/engine/enginetest"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/memorytest"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/step"
)

// The protocol of claim, inbox, handover, wake-up and crash is tested as a whole: several processes, each with an
// engine of its own, execute commands on one run of one store. Every call that the protocol depends on stops at a
// point until the scheduler of the test lets it go on, so that a list of numbers determines the interleaving. Time is
// that of the bubble, and passes only when the scheduler says so.

// world is the processes of one test and the store that they share.
type world struct {
	store *memorytest.Store
	peers peers
	// recovery is the recovery of a task of a dead process.
	recovery step.Recovery

	mu         sync.Mutex
	all        []*proc
	turn       int
	points     []*point // calls that wait for the scheduler
	active     map[string]string
	done       map[string]int // how often each task has acted
	trace      []string
	violations []string
}

// point is a call that waits for the scheduler.
type point struct {
	p    *proc
	name string
	turn int // of the scheduler, when the call was made
	do   func(alive bool)
}

// proc is a process that executes one command.
type proc struct {
	*peer
	w      *world
	name   string
	e      *embedded.Engine
	ctx    context.Context
	cancel context.CancelFunc

	// What the command returned, unless the process was killed, and whether its message was accepted.
	entry journal.Entry
	err   error
	sent  bool

	// Turns of the scheduler in which the command was called and returned.
	called, returned int

	// w.mu guards these.
	dead   bool // the process has ended
	ended  bool // its command has returned
	killed bool // it has not ended by itself
}

func (w *world) violate(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violations = append(w.violations, fmt.Sprintf(format, args...))
}

// start starts a process. With hold, it only records messages.
func (w *world) start(name string, hold bool) *proc {
	p := &proc{w: w, name: name, peer: w.peers.join(journal.Owner(name))}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.e = newEngine(&scheduled{w.store, p}, p.peer, &modelKind{&enginetest.Kind{Policy: w.recovery}, p})
	if hold {
		p.e.Hold()
	}
	w.mu.Lock()
	w.all = append(w.all, p)
	w.mu.Unlock()
	go p.e.Listen(p.ctx)
	return p
}

// execute runs a command in a process of its own, which ends as the command line
// does: a process that drives releases runs only at rest, a process that records
// does so at once.
func (w *world) execute(name, command string) *proc {
	c := commands[command]
	p := w.start(name, c.records)
	p.called = w.now()
	go func() {
		p.err = c.do(p)
		p.returned = w.now()
		if c.records || command == "work" {
			enginetest.Stop(p.e)
		} else {
			p.e.Drain()
		}
		p.exit()
	}()
	return p
}

// exit ends a process whose command has returned.
func (p *proc) exit() {
	p.halt()
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.ended = true
}

// now returns the turn of the scheduler.
func (w *world) now() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.turn
}

// others reports whether a process other than this one has not ended.
func (w *world) others(p *proc) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.all, func(o *proc) bool { return o != p && !o.ended && !o.is("work") })
}

// moving reports whether the run is runnable.
func (w *world) moving() bool {
	entry, err := w.store.Entry(context.Background(), enginetest.ID)
	return err == nil && entry.Status == journal.Running
}

// is reports whether the process executes a command: its name begins with it.
func (p *proc) is(command string) bool { return strings.TrimRight(p.name, "0123456789") == command }

// at registers a call with the scheduler. do runs when the scheduler lets it, with false once the process is killed.
func (p *proc) at(name string, do func(alive bool)) *point {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	if p.dead {
		go do(false)
		return nil
	}
	x := &point{p, p.name + " " + name, p.w.turn, do}
	p.w.points = append(p.w.points, x)
	return x
}

// pass waits for the scheduler. It reports false once the process is killed.
func (p *proc) pass(name string) bool {
	passed := make(chan bool, 1)
	p.at(name, func(alive bool) { passed <- alive })
	return <-passed
}

// halt ends a process: nothing that it has not yet done happens.
func (p *proc) halt() {
	p.w.mu.Lock()
	p.dead = true
	var left []*point
	p.w.points = slices.DeleteFunc(p.w.points, func(x *point) bool {
		if x.p == p {
			left = append(left, x)
		}
		return x.p == p
	})
	delete(p.w.active, p.name)
	p.w.mu.Unlock()
	p.die()
	p.cancel()
	for _, x := range left {
		go x.do(false)
	}
}

// scheduled is the store as one process sees it.
type scheduled struct {
	journal.Store
	p *proc
}

var errKilled = errors.New("the process was killed")

func (s *scheduled) Append(b journal.Batch, done func(error)) {
	s.p.at("append", func(alive bool) {
		if !alive {
			done(errKilled)
			return
		}
		s.Store.Append(b, func(err error) {
			s.p.at("appended", func(alive bool) {
				if !alive {
					err = errKilled
				}
				done(err)
			})
		})
	})
}

func (s *scheduled) Claim(ctx context.Context, run journal.RunID, me journal.Owner) (journal.Claim, error) {
	if !s.p.pass("claim") {
		return journal.Claim{}, errKilled
	}
	return s.Store.Claim(ctx, run, me)
}

func (s *scheduled) ClaimNext(
	ctx context.Context, me journal.Owner, n int, skip func(journal.RunID) bool,
) ([]journal.RunID, error) {
	return journal.ClaimByScan(ctx, s, me, n, skip, s.p.peer.Dead)
}

func (s *scheduled) Enqueue(ctx context.Context, run journal.RunID, m journal.Message) (journal.Owner, error) {
	if !s.p.pass("post") {
		return "", errKilled
	}
	return s.Store.Enqueue(ctx, run, m)
}

func (s *scheduled) Inbox(ctx context.Context, run journal.RunID) ([]journal.InboxMessage, error) {
	if !s.p.pass("inbox") {
		return nil, errKilled
	}
	return s.Store.Inbox(ctx, run)
}

func (s *scheduled) Entry(ctx context.Context, run journal.RunID) (journal.Entry, error) {
	if !s.p.pass("entry") {
		return journal.Entry{}, errKilled
	}
	return s.Store.Entry(ctx, run)
}

// modelKind is leaf work that acts when the scheduler lets it.
type modelKind struct {
	*enginetest.Kind
	p *proc
}

func (k *modelKind) Run(ctx context.Context, job *step.Job) (step.Result, error) {
	w, key := k.p.w, job.Key
	w.mu.Lock()
	for other, task := range w.active {
		w.violations = append(w.violations, fmt.Sprintf("%s does %s while %s does %s", k.p.name, key, other, task))
	}
	if !k.p.dead {
		w.active[k.p.name] = key
	}
	w.mu.Unlock()
	acted := make(chan bool, 1)
	x := k.p.at("act "+key, func(alive bool) { acted <- alive })
	var err error
	select {
	case alive := <-acted:
		if !alive {
			err = errKilled
		}
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.points = slices.DeleteFunc(w.points, func(y *point) bool { return y == x })
	delete(w.active, k.p.name)
	if err != nil || k.p.dead {
		return step.Result{}, cmp.Or(err, errKilled)
	}
	w.done[key]++
	return step.Result{Value: json.RawMessage("1")}, nil
}

// commands are what people and machines do to a run at once.
var commands = map[string]struct {
	records bool // it starts no task
	do      func(p *proc) error
}{
	"run":     {do: func(p *proc) error { return p.drive(p.begin) }},
	"resume":  {do: func(p *proc) error { return p.drive(p.resume) }},
	"approve": {do: func(p *proc) error { return p.drive(p.decide(journal.AnswerApprove)) }},
	"reject":  {do: func(p *proc) error { return p.drive(p.decide(journal.AnswerReject)) }},
	"decide":  {do: func(p *proc) error { return p.drive(p.decide(journal.AnswerRerun)) }},
	"signal":  {do: func(p *proc) error { return p.drive(p.send(plan.Signal{Event: "go", By: p.actor()})) }},
	"edit": {records: true, do: func(p *proc) error {
		return p.record(plan.Edit{Path: "state.x", Value: json.RawMessage("1"), By: p.actor()})
	}},
	"pause":  {records: true, do: func(p *proc) error { return p.record(plan.Pause{By: p.actor()}) }},
	"cancel": {records: true, do: func(p *proc) error { return p.record(plan.Cancel{By: p.actor()}) }},
	"rm": {do: func(p *proc) error {
		if !p.pass("delete") {
			return errKilled
		}
		return p.w.store.Remove(p.ctx, journal.Removal{}, enginetest.ID)
	}},
	"work": {do: func(p *proc) error {
		ctx, cancel := context.WithCancel(p.ctx)
		defer cancel()
		go func() { // until the others have ended and the run rests
			for p.w.others(p) || p.w.moving() {
				time.Sleep(time.Second)
			}
			cancel()
		}()
		return p.e.Work(ctx, nil)
	}},
	"kill": {do: func(p *proc) error {
		if victim := p.w.victim(p); p.pass("kill") && victim.stopped() {
			victim.halt()
		}
		return nil
	}},
	"interrupt": {do: func(p *proc) error {
		if victim := p.w.victim(p); p.pass("interrupt") && victim.stopped() {
			enginetest.Stop(victim.e)
		}
		return nil
	}},
}

func (p *proc) actor() journal.Actor { return journal.Actor{User: p.name} }

// drive is a command that drives the run. If it leaves the run to another process, that process must drive it.
func (p *proc) drive(say func(context.Context) error) (err error) {
	p.entry, err = enginetest.Drive(p.ctx, p.e, func(ctx context.Context) error {
		err := say(ctx)
		p.sent = err == nil
		return err
	})
	p.w.mu.Lock()
	killed := p.killed
	p.w.mu.Unlock()
	if err == nil && p.entry.Status == journal.Running && !killed && !p.Drives(p.entry.Owner) {
		p.w.violate("%s leaves the run to %q, which does not drive it", p.name, p.entry.Owner)
	}
	return err
}

func (p *proc) record(in plan.Input) error { return p.send(in)(p.ctx) }

func (p *proc) send(in plan.Input) func(context.Context) error {
	return func(ctx context.Context) error { return p.e.Send(ctx, enginetest.ID, in, p.name) }
}

// begin starts the run.
func (p *proc) begin(ctx context.Context) error {
	def := &engine.Definition{
		Program: enginetest.Program(append([]ir.Step{enginetest.Task("first")}, modelSteps()...)),
	}
	return p.e.Start(ctx, enginetest.ID, def, json.RawMessage("{}"), nil, journal.Actor{})
}

func (p *proc) resume(ctx context.Context) error {
	state, _, _, err := p.e.Load(ctx, enginetest.ID)
	if err == nil && state.Paused {
		err = p.e.Send(ctx, enginetest.ID, plan.Continue{By: p.actor()}, p.name)
	}
	if err != nil {
		return err
	}
	return p.e.Resume(ctx, enginetest.ID)
}

func (p *proc) decide(answer journal.Answer) func(context.Context) error {
	return func(ctx context.Context) error {
		state, program, _, err := p.e.Load(ctx, enginetest.ID)
		if err != nil {
			return err
		}
		d := plan.GateDecision{Answer: answer, By: p.actor()}
		for _, f := range state.OpenGates() {
			d.Step = f.Step
			_, d.Digest = state.Shown(program, f)
		}
		return p.e.Send(ctx, enginetest.ID, d, p.name)
	}
}

// victim returns the process that kill and interrupt end: the first of the others.
func (w *world) victim(by *proc) *proc {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.all {
		if p != by && !p.is("work") && !p.is("kill") && !p.is("interrupt") {
			return p
		}
	}
	return nil
}

// stopped marks a process as killed, and reports whether it was still there.
func (p *proc) stopped() bool {
	if p == nil {
		return false
	}
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	if p.dead || p.ended || p.killed {
		return false
	}
	p.killed = true
	return true
}

// order puts the oldest call first. Goroutines that one step of the scheduler has set free make their calls in any
// order; their names decide. w.mu is held.
func (w *world) order() {
	w.turn++
	slices.SortStableFunc(w.points, func(a, b *point) int {
		return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(a.name, b.name))
	})
}

// A process that waits notices within maxIdle passes of time that the run has finished. The longest interval of the
// engine is a second; workers stop a second after the others.
const (
	pass    = 20 * time.Millisecond
	maxIdle = int(5 * time.Second / pass)
)

// finished reports whether the run has finished or was removed.
func (w *world) finished() bool {
	entry, err := w.store.Entry(context.Background(), enginetest.ID)
	return err != nil || entry.Status == journal.Finished
}

// schedule lets the commands run to their end. choose picks one of n calls that wait, or n to let time pass.
func (w *world) schedule(choose func(n int) int) {
	const most = 4000
	idle := 0 // passes of time since the run finished in which no process had anything to do
	for range most {
		synctest.Wait()
		w.mu.Lock()
		w.order()
		n, over := len(w.points), !slices.ContainsFunc(w.all, func(p *proc) bool { return !p.ended })
		w.mu.Unlock()
		if over {
			return
		}
		i := 0
		if n > 0 {
			i = choose(n)
		}
		if i >= n {
			if n == 0 && w.finished() {
				idle++
			}
			if idle > maxIdle {
				break
			}
			time.Sleep(pass)
			continue
		}
		w.mu.Lock()
		x := w.points[i]
		w.points = slices.Delete(w.points, i, i+1)
		w.trace = append(w.trace, x.name)
		w.mu.Unlock()
		go x.do(true)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.all {
		if !p.ended && idle > maxIdle {
			w.violations = append(w.violations, p.name+" waits for a run that has finished")
		} else if !p.ended {
			w.violations = append(w.violations, p.name+" does not end")
		}
	}
}

// situations are the states of the run before the commands start.
var situations = map[string]func(t *testing.T, w *world){
	"gate": func(t *testing.T, w *world) { w.prepare(t, nil) },
	"event": func(t *testing.T, w *world) {
		w.prepare(t, func(e *embedded.Engine) error {
			return e.Send(t.Context(), enginetest.ID, decision(t, e, journal.AnswerApprove), "")
		})
	},
	"paused": func(t *testing.T, w *world) {
		w.prepare(t, func(e *embedded.Engine) error { return e.Send(t.Context(), enginetest.ID, plan.Pause{}, "") })
	},
	"finished": func(t *testing.T, w *world) {
		w.prepare(t, func(e *embedded.Engine) error { return e.Send(t.Context(), enginetest.ID, plan.Cancel{}, "") })
	},
	"new":     func(*testing.T, *world) {},
	"running": func(t *testing.T, w *world) { w.run() },
	"running again": func(t *testing.T, w *world) {
		w.recovery = step.Rerun
		w.run()
	},
	"killed": func(t *testing.T, w *world) { w.lose(t) },
	"doubt": func(t *testing.T, w *world) {
		w.lose(t)
		e := newEngine(w.store, w.peers.join("setup"), &enginetest.Kind{Policy: step.Ask})
		if err := e.Resume(t.Context(), enginetest.ID); err != nil {
			t.Error(err)
		}
		enginetest.Rest(t, e)
		enginetest.Stop(e)
	},
}

// lose starts the run in a process that dies before the result of its first task is durable.
func (w *world) lose(t *testing.T) {
	setup := w.peers.join("lost")
	e := newEngine(&stopping{Store: w.store, left: 2}, setup, enginetest.NewKind())
	enginetest.Begin(t, e, enginetest.Program(append([]ir.Step{enginetest.Task("first")}, modelSteps()...)))
	synctest.Wait() // The task has acted.
	w.done["first#0"]++
	enginetest.Stop(e)
	setup.die()
}

// modelSteps ask for a decision and an event, with a task after each.
func modelSteps() []ir.Step {
	event := ir.Step{ID: "wait", Type: "gate", Action: ir.Gate{Decider: ir.Event, Event: "go"}}
	return []ir.Step{gate("ask"), enginetest.Task("a"), event, enginetest.Task("b")}
}

// run starts the run in a process that drives it, up to its first task.
func (w *world) run() {
	p := w.start("run", false)
	go func() {
		p.err = p.drive(p.begin)
		p.returned = w.now()
		p.e.Drain()
		p.exit()
	}()
	w.until("run act first#0")
}

// prepare brings the run to rest before the commands begin.
func (w *world) prepare(t *testing.T, then func(*embedded.Engine) error) {
	e := newEngine(w.store, w.peers.join("setup"), &enginetest.Kind{
		Effects: &enginetest.Effects{Done: w.done}, Policy: step.Ask,
	})
	enginetest.Begin(t, e, enginetest.Program(modelSteps()))
	enginetest.Rest(t, e)
	if then != nil {
		if err := then(e); err != nil {
			t.Error(err)
		}
		enginetest.Rest(t, e)
	}
	enginetest.Stop(e)
}

// until lets calls proceed, oldest first, until one with this name waits.
func (w *world) until(name string) {
	reached := false
	for !reached {
		synctest.Wait()
		w.mu.Lock()
		w.order()
		reached = slices.ContainsFunc(w.points, func(x *point) bool { return x.name == name })
		var x *point
		if !reached && len(w.points) > 0 {
			x, w.points = w.points[0], w.points[1:]
		}
		w.mu.Unlock()
		if x != nil {
			go x.do(true)
		}
	}
}

// play executes commands in a situation and returns what is wrong with the outcome.
func play(t *testing.T, situation string, names []string, choose func(n int) int) (violations []string) {
	var w *world
	defer func() {
		if len(violations) == 0 && !w.linearizable(situation) {
			violations = append(violations, "no order of the commands explains their answers: "+
				w.answers(), "trace: "+w.steps())
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		w = &world{recovery: step.Ask, active: map[string]string{}, done: map[string]int{}}
		w.store = memorytest.NewShared(w.peers.dead)
		situations[situation](t, w)
		before, err := w.store.Entry(t.Context(), enginetest.ID)
		if err != nil && situation != "new" {
			t.Fatal(err)
		}
		for i, name := range names {
			w.execute(fmt.Sprint(name, i), name)
		}
		w.schedule(choose)
		w.check(before)
		w.recover(before)
		for _, p := range w.all { // so that the goroutines of killed or stuck processes end
			p.halt()
			enginetest.Stop(p.e)
		}
		w.store.Close()
		violations = w.violations
		if len(violations) > 0 {
			violations = append(violations, "trace: "+w.steps())
		}
	})
	return violations
}

// steps describes what the scheduler has let happen.
func (w *world) steps() string { return strings.Join(w.trace[:min(len(w.trace), 80)], ", ") }

// recover resumes a run that killed processes have left, and checks that it comes to rest with every task done once.
func (w *world) recover(before journal.Entry) {
	entry, err := w.store.Entry(context.Background(), enginetest.ID)
	if err != nil || entry.Status != journal.Running || len(w.violations) > 0 {
		return
	}
	p := w.execute("resume", "resume")
	w.schedule(func(int) int { return 0 })
	if p.err != nil {
		w.violate("a later resume: %v", p.err)
	}
	w.check(before)
	if entry, err = w.store.Entry(context.Background(), enginetest.ID); err == nil && entry.Status == journal.Running {
		w.violate("the run does not come to rest when it is resumed")
	}
}

// check compares the outcome with the promises of the protocol.
func (w *world) check(before journal.Entry) {
	ctx := context.Background()
	removed, killed, worked := false, false, false
	for _, p := range w.all {
		removed = removed || p.is("rm") && p.err == nil
		killed = killed || p.killed
		worked = worked || p.is("work")
	}
	facts, reruns, losses := map[string][]string{}, 0, 0
	if !removed {
		for event, err := range w.store.Events(ctx, enginetest.ID, 0) {
			if errors.Is(err, journal.ErrUnknownRun) && before.ID == "" {
				break // no command has started it
			}
			if err != nil {
				w.violate("reading: %v", err)
				return
			}
			by, what := "", ""
			switch x := event.Fact.(type) {
			case journal.GateDecided:
				by, what = x.By.User, "decided "+string(x.Outcome)
				if x.Outcome == journal.OutcomeRerun {
					reruns++
				}
			case journal.TaskLost:
				if event.Seq > before.Seq {
					losses++
				}
			case journal.SignalReceived:
				by, what = x.By.User, "signaled"
			case journal.StateEdited:
				by, what = x.By.User, "edited"
			case journal.Paused:
				by, what = x.By.User, "paused"
			case journal.Continued:
				by, what = x.By.User, "continued"
			case journal.CancelRequested:
				by, what = x.By.User, "canceled"
			}
			if by != "" && !slices.Contains(facts[by], "signaled") { // an early signal decides later
				facts[by] = append(facts[by], what)
			}
		}
	}
	for _, p := range w.all {
		w.checkAnswer(p, facts[p.name], removed)
	}
	// The first owner of a lost task has died before the commands started.
	if died := before.Owner == "lost"; losses > 0 && !killed && !died {
		w.violate("a process has given a run up while it did a task")
	}
	for key, n := range w.done {
		if n > 1+reruns && !(killed && w.recovery == step.Rerun) {
			w.violate("task %s acted %d times", key, n)
		}
	}
	entry, err := w.store.Entry(ctx, enginetest.ID)
	switch untouched := entry.Seq == before.Seq; {
	case errors.Is(err, journal.ErrUnknownRun) && (removed || before.ID == ""):
	case err != nil:
		w.violate("the run: %v", err)
	case entry.Status == journal.Running && (worked || !killed && !untouched):
		w.violate("the run is left moving, owned by %q", entry.Owner)
	case entry.Status != journal.Running && entry.Owner != "" && !killed:
		w.violate("the run is at rest, and still owned by %q", entry.Owner)
	}
}

// checkAnswer compares what a command returned with its effect: an accepted
// message takes effect exactly once, a refused one never, and its error has the
// reason.
func (w *world) checkAnswer(p *proc, did []string, removed bool) {
	says := !p.is("run") && !p.is("rm") && !p.is("work") && !p.is("kill") && !p.is("interrupt") && !p.is("resume")
	var owned *journal.OwnedError
	refusal, refused := plan.IsRefusal(p.err)
	switch {
	case p.killed:
		if len(did) > 1 {
			w.violate("%s was killed and took effect as %v", p.name, did)
		}
	case !p.ended:
	case p.err == nil && says && !removed && len(did) != 1:
		w.violate("%s was accepted and took effect as %v", p.name, did)
	case p.err == nil:
	case refused && refusal.Why == "":
		w.violate("%s was refused without a reason", p.name)
	case errors.Is(p.err, journal.ErrExists) && p.is("run"), errors.Is(p.err, journal.ErrConflict) && removed:
	case refused, errors.Is(p.err, journal.ErrFinished), errors.Is(p.err, journal.ErrUnknownRun), errors.Is(
		p.err, journal.ErrUnfinished,
	), errors.As(p.err, &owned) && p.is("resume"):
		if says && len(did) > 0 {
			w.violate("%s was refused (%v) and took effect as %v", p.name, p.err, did)
		}
	default:
		w.violate("%s: %v", p.name, p.err)
	}
}

// TestRandomInterleavingsLeaveNoRunStuck draws situations, commands and interleavings.
func TestRandomInterleavingsLeaveNoRunStuck(t *testing.T) {
	names := slices.Sorted(maps.Keys(commands))
	rapid.Check(t, func(rt *rapid.T) {
		situation := rapid.SampledFrom(slices.Sorted(maps.Keys(situations))).Draw(rt, "situation")
		some := rapid.SliceOfN(rapid.SampledFrom(names), 2, 3).Draw(rt, "commands")
		choices := rapid.SliceOfN(rapid.IntRange(0, 9), 0, 80).Draw(rt, "choices")
		for _, v := range play(t, situation, some, follow(choices)) {
			rt.Errorf("%s, %v: %s", situation, some, v)
		}
	})
}

// follow returns the choices of a list, and then always the oldest call.
func follow(choices []int) func(n int) int {
	return func(n int) int {
		if len(choices) == 0 {
			return 0
		}
		i := choices[0]
		choices = choices[1:]
		return i % (n + 1)
	}
}

var (
	protocolDepth = flag.Int(
		"protocol.depth", defaultDepth, "try every order of this many choices for the pairs that meet most often",
	)
	protocolPairs   = flag.Int("protocol.pairs", defaultPairs, "try every order of this many choices for every pair")
	protocolTriples = flag.Int("protocol.triples", defaultTriples,
		"try every order of this many choices for every triple")
)

// TestEveryInterleaving tries all orders of the first calls of two commands that often meet.
func TestEveryInterleaving(t *testing.T) {
	for situation, all := range map[string][][]string{
		"gate": {
			{"approve", "approve"},
			{"approve", "reject"},
			{"approve", "cancel"},
			{"approve", "edit"},
			{"resume", "approve"},
		},
		"running":       {{"pause", "cancel"}, {"signal", "interrupt"}},
		"running again": {{"signal", "interrupt"}},
		"killed":        {{"resume", "resume"}, {"resume", "decide"}},
		"doubt":         {{"decide", "decide"}, {"resume", "decide"}},
		"paused":        {{"resume", "resume"}},
	} {
		for _, pair := range all {
			t.Run(situation+"/"+strings.Join(pair, "+"), func(t *testing.T) {
				playAll(t, situation, pair, *protocolDepth)
			})
		}
	}
}

// TestEveryPairAndTriple tries all orders of the first calls of all pairs and triples of commands in all situations.
func TestEveryPairAndTriple(t *testing.T) {
	names := slices.Sorted(maps.Keys(commands))
	for situation := range situations {
		t.Run(situation, func(t *testing.T) {
			t.Parallel()
			for i, a := range names {
				for j, b := range names[i:] {
					playAll(t, situation, []string{a, b}, *protocolPairs)
					for _, c := range names[i+j:] {
						playAll(t, situation, []string{a, b, c}, *protocolTriples)
					}
				}
			}
		})
	}
}

// playAll tries every order of the first choices. The order in which the commands start is one of them.
func playAll(t *testing.T, situation string, names []string, depth int) {
	for next := []int{}; next != nil && !t.Failed(); {
		var violations []string
		next = enumerate(next, depth, func(choose func(int) int) { violations = play(t, situation, names, choose) })
		for _, v := range violations {
			t.Errorf("%s, %v: %s", situation, names, v)
		}
	}
}

// enumerate plays once, with choices that start with a list and continue with 0.
// It returns the list for the next call, up to a depth; nil after the last.
func enumerate(begin []int, depth int, play func(choose func(n int) int)) []int {
	var taken, widths []int
	play(func(n int) int {
		if n == 1 || len(taken) == depth {
			return 0
		}
		i := 0
		if len(taken) < len(begin) {
			i = begin[len(taken)]
		}
		taken, widths = append(taken, i), append(widths, n)
		return i
	})
	for i := len(taken) - 1; i >= 0; i-- {
		if taken[i]+1 < widths[i] {
			taken[i]++
			return taken[:i+1]
		}
	}
	return nil
}
