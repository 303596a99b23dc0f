package embedded_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/engine/embedded"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/memory"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/step"
)

// openAt opens an engine whose clock stands at a moment.
func openAt(t *testing.T, store journal.Store, kind step.Runner, name string, at time.Time) *embedded.Engine {
	t.Helper()
	e := embedded.New(embedded.Config{
		Config: engine.Config{Kinds: map[string]step.Runner{"test": kind}},
		Store:  store, Process: &solo{id: journal.Owner(name), wakes: make(chan struct{}, 1)},
		Now: func() time.Time { return at },
	})
	t.Cleanup(func() { stop(e) })
	return e
}

// until waits until the store says something of the run.
func until(t *testing.T, store journal.Store, holds func(journal.Entry) bool) {
	t.Helper()
	for {
		changed := store.Changed()
		entry, err := store.Entry(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if holds(entry) {
			return
		}
		<-changed
	}
}

func gateUntil(id string, timeout time.Duration, then ir.OnTimeout) ir.Step {
	return ir.Step{ID: id, Type: "gate", Action: ir.Gate{Decider: ir.Person, Timeout: ir.Millis(timeout.Milliseconds()), OnTimeout: then}}
}

// Whoever looks at a run whose gate ran out an hour ago is told so; but
// looking begins nothing.
func TestLookingFiresTimersAndBeginsNothing(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	later := began.Add(time.Hour)
	retried := task("flaky")
	retried.Retry = &ir.Retry{MaxAttempts: 2, Backoff: ir.Constant, Delays: []ir.Millis{60_000}}
	for _, c := range []struct {
		name    string
		steps   []ir.Step
		looked  journal.Index   // when somebody has looked
		outcome journal.Outcome // when somebody has carried it on
		done    map[string]int
	}{
		{
			"nothing follows",
			[]ir.Step{gateUntil("g", time.Minute, "")},
			journal.Index{Status: journal.Finished, Outcome: "failed"},
			"failed",
			map[string]int{},
		},
		{
			"a task follows",
			[]ir.Step{gateUntil("g", time.Minute, ir.TimeoutSkip), task("a")},
			journal.Index{Status: journal.Running},
			"ok",
			map[string]int{"a#0": 1},
		},
		{
			"another gate follows",
			[]ir.Step{gateUntil("g", time.Minute, ir.TimeoutSkip), gateUntil("h", 0, "")},
			journal.Index{Status: journal.Waiting, Waiting: "approval: h"},
			"ok",
			map[string]int{},
		},
		{
			"a retry",
			[]ir.Step{retried},
			journal.Index{Status: journal.Running},
			"ok",
			map[string]int{"flaky#0": 1, "flaky#1": 1},
		},
		{
			"not due yet",
			[]ir.Step{gateUntil("g", 2*time.Hour, "")},
			journal.Index{Status: journal.Waiting, Waiting: "approval: g", Wake: journal.MillisOf(began.Add(2 * time.Hour))},
			"ok",
			map[string]int{},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			kind := newKind()
			kind.fail["flaky"] = 1
			store := memory.New()
			e := openAt(t, store, kind, "one", began)
			begin(t, e, program(c.steps))
			until(t, store, func(e journal.Entry) bool { return e.Status != journal.Running })
			stop(e)
			before := len(kind.done)

			e = openAt(t, store, kind, "two", later)
			for range 2 { // the second time there is nothing left to fire
				if err := e.CatchUp(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			entry, err := store.Entry(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if entry.Index != c.looked || entry.Owner != "" {
				t.Errorf("looked at: %+v", entry)
			}
			if len(kind.done) != before {
				t.Errorf("looking did something: %v", kind.done)
			}
			if e.Owns(id) {
				t.Error("who only looks has kept the run")
			}
			if got, err := finish(t, e); err != nil || got.Outcome != c.outcome {
				t.Errorf("carried on: %+v, %v", got, err)
			}
			if fmt.Sprint(kind.done) != fmt.Sprint(c.done) {
				t.Errorf("done: %v", kind.done)
			}
		})
	}
}

// The time between a crash and the next process is nobody's active time.
func TestACrashDoesNotUseUpTheDeadline(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	kind := newKind()
	started := make(chan struct{}, 2)
	kind.hold = func(ctx context.Context, job *step.Job) error {
		started <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}
	p := program(
		[]ir.Step{{ID: "fan", Type: "parallel", Action: ir.Parallel{Join: ir.JoinAll, Branches: []ir.Branch{{Name: "x", Block: 1}, {Name: "y", Block: 2}}}}},
		[]ir.Step{task("a")}, []ir.Step{task("b")})
	p.Budget.ActiveSeconds = &ir.Limit{Max: 60}
	disk := memory.New()
	dead := &stopping{Store: disk, left: 2} // everything after the beginning is lost
	e := openAt(t, dead, kind, "one", began)
	begin(t, e, p)
	<-started
	<-started
	stop(e)
	kind.hold = nil
	e = openAt(t, disk, kind, "two", began.Add(time.Hour))
	if got, err := finish(t, e); err != nil || got.Outcome != "ok" {
		t.Errorf("%+v, %v", got, err)
	}
}

// peers are processes of one store that can be killed and can wake each other.
type peers struct {
	mu      sync.Mutex
	here    map[journal.Owner]chan struct{}
	leaving map[journal.Owner]bool
}

func (p *peers) join(id journal.Owner) *peer {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.here == nil {
		p.here = map[journal.Owner]chan struct{}{}
		p.leaving = map[journal.Owner]bool{}
	}
	wakes := make(chan struct{}, 1)
	p.here[id] = wakes
	return &peer{p, id, wakes}
}

type peer struct {
	all   *peers
	id    journal.Owner
	wakes chan struct{}
}

func (p *peer) ID() journal.Owner      { return p.id }
func (p *peer) Wakes() <-chan struct{} { return p.wakes }
func (p *peer) Dead(o journal.Owner) bool {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	return p.all.here[o] == nil
}

func (p *peer) Drives(o journal.Owner) bool {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	return p.all.here[o] != nil && !p.all.leaving[o]
}

func (p *peer) StopDriving() {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	p.all.leaving[p.id] = true
}

func (p *peer) Wake(o journal.Owner) {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	for id, wakes := range p.all.here {
		if id == o || o == "" && id != p.id {
			select {
			case wakes <- struct{}{}:
			default:
			}
		}
	}
}

func (p *peer) die() {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	delete(p.all.here, p.id)
}

// Who drives the whole store takes over what others leave: runs that are begun
// and left at once, runs of a process that dies later.
func TestWorkTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		defer store.Close()
		all := &peers{}
		kind := newKind()
		make := func(p *peer, s journal.Store) *embedded.Engine {
			return newEngine(s, p, kind)
		}
		worker := make(all.join("worker"), store)
		ctx, cancel := context.WithCancel(t.Context())
		worked := false
		go func() {
			if err := worker.Work(ctx, nil); err != nil {
				t.Error(err)
			}
			worked = true
		}()
		synctest.Wait()

		left := all.join("left")
		e := make(left, store)
		e.Hold()
		begin(t, e, program([]ir.Step{task("a")}))
		stop(e)
		before := time.Now()
		left.Wake("")
		synctest.Wait()
		if kind.done["a#0"] != 1 || time.Since(before) > 0 {
			t.Errorf("a run that was begun and left: %v after %s", kind.done, time.Since(before))
		}

		// A process dies in the middle of its task.
		const other journal.RunID = "00000000-0000-4000-8000-000000000002"
		dying := all.join("dying")
		var deaf atomic.Bool
		kind.hold = func(ctx context.Context, job *step.Job) error {
			if deaf.Load() {
				return nil
			}
			deaf.Store(true)
			<-ctx.Done()
			return ctx.Err()
		}
		e = make(dying, &stopping{Store: store, left: 2})
		if err := e.Start(t.Context(), other, &engine.Definition{Program: program([]ir.Step{task("b")})}, json.RawMessage("{}"), nil, journal.Actor{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		time.Sleep(5 * time.Second) // of the bubble: the worker looks, and the owner lives
		if entry, err := store.Entry(t.Context(), other); err != nil || entry.Owner != "dying" {
			t.Errorf("while its owner lives: %+v, %v", entry, err)
		}
		dying.die()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if entry, err := store.Entry(t.Context(), other); err != nil || entry.Outcome != "ok" {
			t.Errorf("after its owner died: %+v, %v", entry, err)
		}
		stop(e)
		cancel()
		synctest.Wait()
		if !worked {
			t.Error("the worker works on")
		}
		stop(worker)
	})
}

// A gate that a run waits at may run out while nobody but the worker is there,
// also when another process has brought the run to it.
func TestWorkFiresTimersThatOthersSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		defer store.Close()
		all := &peers{}
		worker := newEngine(store, all.join("worker"), newKind())
		ctx, cancel := context.WithCancel(t.Context())
		go worker.Work(ctx, nil)
		synctest.Wait()
		e := newEngine(store, all.join("other"), newKind())
		begin(t, e, program([]ir.Step{gateUntil("g", time.Minute, ir.TimeoutSkip), task("a")}))
		rest(t, e)
		stop(e)
		time.Sleep(59 * time.Second)
		if entry, err := store.Entry(t.Context(), id); err != nil || entry.Status != journal.Waiting {
			t.Errorf("too early: %+v, %v", entry, err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if entry, err := store.Entry(t.Context(), id); err != nil || entry.Outcome != "ok" {
			t.Errorf("%+v, %v", entry, err)
		}
		cancel()
		stop(worker)
	})
}

// A run that a worker is to leave alone is not touched, whatever comes for it:
// neither when nobody has it, nor when its time comes. Others are driven.
func TestWorkLeavesRunsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		defer store.Close()
		all := &peers{}
		kind := newKind()
		make := func(name journal.Owner) *embedded.Engine {
			return newEngine(store, all.join(name), kind)
		}
		const other journal.RunID = "00000000-0000-4000-8000-000000000002"
		const timed journal.RunID = "00000000-0000-4000-8000-000000000003"
		left := make("left")
		left.Hold()
		for run, steps := range map[journal.RunID][]ir.Step{id: {task("a")}, other: {task("b")}, timed: {gateUntil("g", time.Minute, ir.TimeoutSkip), task("c")}} {
			if err := left.Start(t.Context(), run, &engine.Definition{Program: program(steps)}, json.RawMessage("{}"), nil, journal.Actor{}); err != nil {
				t.Fatal(err)
			}
		}
		stop(left)
		worker := make("worker")
		ctx, cancel := context.WithCancel(t.Context())
		go worker.Work(ctx, func(run journal.RunID) bool { return run != other })
		time.Sleep(2 * time.Minute) // of the bubble
		synctest.Wait()
		if len(kind.done) != 1 || kind.done["b#0"] != 1 {
			t.Errorf("done: %v", kind.done)
		}
		cancel()
		stop(worker)
	})
}

// Whoever waits for a run that sleeps hears of its end also when another process
// wakes up first and carries it on; if that one dies, whoever waits goes on.
func TestARunThatIsCarriedOnElsewhere(t *testing.T) {
	for _, dies := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := memory.New()
			defer store.Close()
			all := &peers{}
			kind := newKind()
			kind.fail["flaky"] = 1
			early := all.join("early")
			var disk journal.Store = store
			if dies {
				disk = &stopping{Store: store, left: 2}
			}
			worker := embedded.New(embedded.Config{
				Config: engine.Config{Kinds: map[string]step.Runner{"test": kind}}, Store: disk, Process: early,
				Now: func() time.Time { return time.Now().Add(time.Second) },
			})
			retried := task("flaky")
			retried.Retry = &ir.Retry{MaxAttempts: 2, Backoff: ir.Constant, Delays: []ir.Millis{10_000}}
			e := newEngine(store, all.join("front"), kind)
			begin(t, e, program([]ir.Step{retried}))
			ctx, cancel := context.WithCancel(t.Context())
			go worker.Work(ctx, nil)
			synctest.Wait()

			kind.hold = func(ctx context.Context, job *step.Job) error {
				time.Sleep(5 * time.Second)
				if dies {
					early.die()
				}
				return nil
			}
			began := time.Now()
			entry := rest(t, e)
			if entry.Outcome != "ok" {
				t.Errorf("%+v", entry)
			}
			if late := time.Since(began); !dies && late > 15*time.Second {
				t.Errorf("heard of after %s", late)
			}
			if n := kind.done["flaky#1"]; n != 1 && !dies {
				t.Errorf("done %d times", n)
			}
			cancel()
			stop(worker)
			stop(e)
		})
	}
}

// A thousand runs that wait for people cost no goroutine each.
func TestWaitingRunsHaveNoGoroutines(t *testing.T) {
	store := memory.New()
	e := open(t, store, newKind(), "one")
	before := runtime.NumGoroutine()
	var all sync.WaitGroup
	for i := range 1000 {
		all.Go(func() {
			run := journal.RunID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i+100))
			p := program([]ir.Step{task("a"), gateUntil("g", time.Hour, "")})
			if err := e.Start(t.Context(), run, &engine.Definition{Program: p}, json.RawMessage("{}"), nil, journal.Actor{}); err != nil {
				t.Error(err)
				return
			}
			entry, err := e.Wait(t.Context(), run)
			if err != nil || entry.Status != journal.Waiting || e.Owns(run) {
				t.Errorf("%+v, %v, owned %t", entry, err, e.Owns(run))
			}
		})
	}
	all.Wait()
	for range 1_000_000 { // those that did the last tasks are just ending
		if runtime.NumGoroutine() <= before+10 {
			return
		}
		runtime.Gosched()
	}
	t.Errorf("%d goroutines before, %d after", before, runtime.NumGoroutine())
}

// Something is said to a run whose owner ends it before hearing of it: whoever
// said it is told that it came too late.
func TestSaidToARunThatIsEnding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		defer store.Close()
		all := &peers{}
		kind := newKind()
		end := make(chan struct{})
		kind.hold = func(context.Context, *step.Job) error {
			<-end
			return nil
		}
		owner := newEngine(store, all.join("owner"), kind) // it does not listen
		begin(t, owner, program([]ir.Step{task("a")}))
		synctest.Wait()
		other := newEngine(store, all.join("other"), kind)
		said := make(chan error, 1)
		go func() { said <- other.Send(t.Context(), id, plan.Pause{}, "ref") }()
		synctest.Wait()
		close(end)
		select {
		case err := <-said:
			if r, ok := plan.IsRefusal(err); !ok || r.Code != plan.TooLate {
				t.Errorf("%v", err)
			}
		case <-time.After(time.Minute): // of the bubble
			t.Error("nobody answers")
		}
		stop(owner)
		stop(other)
	})
}

// Two wake-ups at once: while one of them has loaded the run and not begun it,
// the other finds it in memory and must leave it alone. It would begin what is
// due, and the first would take that for left behind and do it again.
func TestARunThatWasJustLoadedIsNotMoved(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	kind := newKind()
	store := memory.New()
	e := openAt(t, store, kind, "one", began)
	begin(t, e, program([]ir.Step{gateUntil("g", time.Minute, ir.TimeoutSkip), task("a")}))
	until(t, store, func(e journal.Entry) bool { return e.Status != journal.Running })
	stop(e)

	e = openAt(t, store, kind, "two", began.Add(time.Hour))
	movable, begin, err := e.Admit(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if !e.Owns(id) || movable() {
		t.Fatal("others can move it before it has begun")
	}
	woken := make(chan error)
	go func() { woken <- e.Resume(t.Context(), id) }()
	begin()
	if err := <-woken; err != nil && !errors.Is(err, journal.ErrFinished) {
		t.Error(err)
	}
	if entry, err := finish(t, e); err != nil || entry.Outcome != "ok" {
		t.Errorf("%+v, %v", entry, err)
	}
	if kind.done["a#0"] != 1 {
		t.Errorf("done: %v", kind.done)
	}
}
