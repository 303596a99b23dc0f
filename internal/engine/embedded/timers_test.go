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
	"github.com/espalier-run/espalier/internal/engine/enginetest"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/memorytest"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/step"
)

// openAt opens an engine with a clock that does not advance.
func openAt(t *testing.T, store journal.Store, kind step.Runner, name string, at time.Time) *embedded.Engine {
	t.Helper()
	e := embedded.New(embedded.Config{
		Config: engine.Config{Runners: map[string]step.Runner{"test": kind}},
		Store:  store, Process: &solo{id: journal.Owner(name), wakes: make(chan struct{}, 1)},
		Now: func() time.Time { return at },
	})
	t.Cleanup(func() { enginetest.Stop(e) })
	return e
}

// until waits until the run's entry has a property.
func until(t *testing.T, store journal.Store, holds func(journal.Entry) bool) {
	t.Helper()
	for {
		changed := store.Changed()
		entry, err := store.Entry(t.Context(), enginetest.ID)
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
	return ir.Step{ID: id, Type: "gate", Action: ir.Gate{
		Decider: ir.Person, Timeout: ir.Millis(timeout.Milliseconds()), OnTimeout: then,
	}}
}

// Looking at a run decides a gate that timed out an hour ago, and starts no task.
func TestCatchUpFiresTimersAndStartsNoTask(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	later := began.Add(time.Hour)
	retried := enginetest.Task("flaky")
	retried.Retry = &ir.Retry{MaxAttempts: 2, Backoff: ir.Constant, Delays: []ir.Millis{60_000}}
	for _, c := range []struct {
		name    string
		steps   []ir.Step
		looked  journal.Index   // after CatchUp
		outcome journal.Outcome // after the run is continued
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
			[]ir.Step{gateUntil("g", time.Minute, ir.TimeoutSkip), enginetest.Task("a")},
			journal.Index{Status: journal.Running},
			"ok",
			map[string]int{"a#0": 1},
		},
		{
			"another gate follows",
			[]ir.Step{gateUntil("g", time.Minute, ir.TimeoutSkip), gateUntil("h", 0, "")},
			journal.Index{Status: journal.Waiting, Waiting: journal.ParseWait("approval: h")},
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
			journal.Index{
				Status: journal.Waiting, Waiting: journal.ParseWait("approval: g"),
				Wake: journal.MillisOf(began.Add(2 * time.Hour)),
			},
			"ok",
			map[string]int{},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			kind := enginetest.NewKind()
			kind.Fail["flaky"] = 1
			store := memorytest.New()
			e := openAt(t, store, kind, "one", began)
			enginetest.Begin(t, e, enginetest.Program(c.steps))
			until(t, store, func(e journal.Entry) bool { return e.Status != journal.Running })
			enginetest.Stop(e)
			before := len(kind.Done)

			e = openAt(t, store, kind, "two", later)
			for range 2 { // the second call has nothing to decide
				if err := e.CatchUp(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			entry, err := store.Entry(t.Context(), enginetest.ID)
			if err != nil {
				t.Fatal(err)
			}
			if entry.Index != c.looked || entry.Owner != "" {
				t.Errorf("looked at: %+v", entry)
			}
			if len(kind.Done) != before {
				t.Errorf("looking did something: %v", kind.Done)
			}
			if e.Owns(enginetest.ID) {
				t.Error("who only looks has kept the run")
			}
			if got, err := enginetest.Finish(t, e); err != nil || got.Outcome != c.outcome {
				t.Errorf("carried on: %+v, %v", got, err)
			}
			if fmt.Sprint(kind.Done) != fmt.Sprint(c.done) {
				t.Errorf("done: %v", kind.Done)
			}
		})
	}
}

// The time between a crash and the next process is not active time.
func TestTimeAfterACrashIsNotActiveTime(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	kind := enginetest.NewKind()
	started := make(chan struct{}, 2)
	kind.Hold = func(ctx context.Context, job *step.Job) error {
		started <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}
	p := enginetest.Program(
		[]ir.Step{{ID: "fan", Type: "parallel", Action: ir.Parallel{
			Join: ir.JoinAll, Branches: []ir.Branch{{Name: "x", Block: 1}, {Name: "y", Block: 2}},
		}}},
		[]ir.Step{enginetest.Task("a")}, []ir.Step{enginetest.Task("b")})
	p.Budget.ActiveSeconds = &ir.Limit{Max: 60}
	disk := memorytest.New()
	dead := &stopping{Store: disk, left: 2} // everything after the start is lost
	e := openAt(t, dead, kind, "one", began)
	enginetest.Begin(t, e, p)
	<-started
	<-started
	enginetest.Stop(e)
	kind.Hold = nil
	e = openAt(t, disk, kind, "two", began.Add(time.Hour))
	if got, err := enginetest.Finish(t, e); err != nil || got.Outcome != "ok" {
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

func (p *peer) ID() journal.Owner         { return p.id }
func (p *peer) Wakes() <-chan struct{}    { return p.wakes }
func (p *peer) Dead(o journal.Owner) bool { return p.all.dead(o) }

func (p *peers) dead(o journal.Owner) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.here[o] == nil
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

// A process that drives the whole store takes over the runs that others leave:
// runs without a driver, and runs of a process that dies later.
func TestWorkTakesOverAbandonedRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &peers{}
		store := memorytest.NewShared(all.dead)
		defer store.Close()
		kind := enginetest.NewKind()
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
		enginetest.Begin(t, e, enginetest.Program([]ir.Step{enginetest.Task("a")}))
		enginetest.Stop(e)
		before := time.Now()
		left.Wake("")
		synctest.Wait()
		if kind.Done["a#0"] != 1 || time.Since(before) > 0 {
			t.Errorf("a run that was begun and left: %v after %s", kind.Done, time.Since(before))
		}

		// A process dies in the middle of its task.
		const other journal.RunID = "00000000-0000-4000-8000-000000000002"
		dying := all.join("dying")
		var deaf atomic.Bool
		kind.Hold = func(ctx context.Context, job *step.Job) error {
			if deaf.Load() {
				return nil
			}
			deaf.Store(true)
			<-ctx.Done()
			return ctx.Err()
		}
		e = make(dying, &stopping{Store: store, left: 2})
		if err := e.Start(
			t.Context(), other, &engine.Definition{Program: enginetest.Program([]ir.Step{enginetest.Task("b")})},
			json.RawMessage("{}"), nil,
			journal.Actor{},
		); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		time.Sleep(5 * time.Second) // the worker looks; the owner lives
		if entry, err := store.Entry(t.Context(), other); err != nil || entry.Owner != "dying" {
			t.Errorf("while its owner lives: %+v, %v", entry, err)
		}
		dying.die()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if entry, err := store.Entry(t.Context(), other); err != nil || entry.Outcome != "ok" {
			t.Errorf("after its owner died: %+v, %v", entry, err)
		}
		enginetest.Stop(e)
		cancel()
		synctest.Wait()
		if !worked {
			t.Error("the worker works on")
		}
		enginetest.Stop(worker)
	})
}

// A worker decides a gate that times out, also if another process brought the run
// there.
func TestWorkFiresTimersThatOthersSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &peers{}
		store := memorytest.NewShared(all.dead)
		defer store.Close()
		worker := newEngine(store, all.join("worker"), enginetest.NewKind())
		ctx, cancel := context.WithCancel(t.Context())
		go worker.Work(ctx, nil)
		synctest.Wait()
		e := newEngine(store, all.join("other"), enginetest.NewKind())
		enginetest.Begin(t, e, enginetest.Program([]ir.Step{
			gateUntil("g", time.Minute, ir.TimeoutSkip), enginetest.Task("a"),
		}))
		enginetest.Rest(t, e)
		enginetest.Stop(e)
		time.Sleep(59 * time.Second)
		if entry, err := store.Entry(t.Context(), enginetest.ID); err != nil || entry.Status != journal.Waiting {
			t.Errorf("too early: %+v, %v", entry, err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if entry, err := store.Entry(t.Context(), enginetest.ID); err != nil || entry.Outcome != "ok" {
			t.Errorf("%+v, %v", entry, err)
		}
		cancel()
		enginetest.Stop(worker)
	})
}

// A worker does not touch a run that it has to skip, neither one without an owner
// nor one that is due. It drives the others.
func TestWorkSkipsRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &peers{}
		store := memorytest.NewShared(all.dead)
		defer store.Close()
		kind := enginetest.NewKind()
		make := func(name journal.Owner) *embedded.Engine {
			return newEngine(store, all.join(name), kind)
		}
		const other journal.RunID = "00000000-0000-4000-8000-000000000002"
		const timed journal.RunID = "00000000-0000-4000-8000-000000000003"
		left := make("left")
		left.Hold()
		for run, steps := range map[journal.RunID][]ir.Step{enginetest.ID: {enginetest.Task(
			"a",
		)}, other: {enginetest.Task("b")}, timed: {gateUntil(
			"g", time.Minute, ir.TimeoutSkip,
		), enginetest.Task("c")}} {
			if err := left.Start(
				t.Context(), run, &engine.Definition{Program: enginetest.Program(steps)}, json.RawMessage("{}"), nil,
				journal.Actor{},
			); err != nil {
				t.Fatal(err)
			}
		}
		enginetest.Stop(left)
		worker := make("worker")
		ctx, cancel := context.WithCancel(t.Context())
		go worker.Work(ctx, func(run journal.RunID) bool { return run != other })
		time.Sleep(2 * time.Minute) // time of the bubble
		synctest.Wait()
		if len(kind.Done) != 1 || kind.Done["b#0"] != 1 {
			t.Errorf("done: %v", kind.Done)
		}
		cancel()
		enginetest.Stop(worker)
	})
}

// Waiting for a sleeping run ends also if another process wakes it first; if that
// process dies, the waiting one continues the run.
func TestWaitEndsWhenAnotherProcessWakesTheRun(t *testing.T) {
	for _, dies := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			all := &peers{}
			store := memorytest.NewShared(all.dead)
			defer store.Close()
			kind := enginetest.NewKind()
			kind.Fail["flaky"] = 1
			early := all.join("early")
			var disk journal.Store = store
			if dies {
				disk = &stopping{Store: store, left: 2}
			}
			worker := embedded.New(embedded.Config{
				Config: engine.Config{Runners: map[string]step.Runner{"test": kind}}, Store: disk, Process: early,
				Now: func() time.Time { return time.Now().Add(time.Second) },
			})
			retried := enginetest.Task("flaky")
			retried.Retry = &ir.Retry{MaxAttempts: 2, Backoff: ir.Constant, Delays: []ir.Millis{10_000}}
			e := newEngine(store, all.join("front"), kind)
			enginetest.Begin(t, e, enginetest.Program([]ir.Step{retried}))
			ctx, cancel := context.WithCancel(t.Context())
			go worker.Work(ctx, nil)
			synctest.Wait()

			kind.Hold = func(ctx context.Context, job *step.Job) error {
				time.Sleep(5 * time.Second)
				if dies {
					early.die()
				}
				return nil
			}
			began := time.Now()
			entry := enginetest.Rest(t, e)
			if entry.Outcome != "ok" {
				t.Errorf("%+v", entry)
			}
			if late := time.Since(began); !dies && late > 15*time.Second {
				t.Errorf("heard of after %s", late)
			}
			if n := kind.Done["flaky#1"]; n != 1 && !dies {
				t.Errorf("done %d times", n)
			}
			cancel()
			enginetest.Stop(worker)
			enginetest.Stop(e)
		})
	}
}

// A thousand runs that wait for people cost no goroutine each.
func TestWaitingRunsHaveNoGoroutines(t *testing.T) {
	store := memorytest.New()
	e := open(t, store, enginetest.NewKind(), "one")
	before := runtime.NumGoroutine()
	var all sync.WaitGroup
	for i := range 1000 {
		all.Go(func() {
			run := journal.RunID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i+100))
			p := enginetest.Program([]ir.Step{enginetest.Task("a"), gateUntil("g", time.Hour, "")})
			if err := e.Start(
				t.Context(), run, &engine.Definition{Program: p}, json.RawMessage("{}"), nil, journal.Actor{},
			); err != nil {
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
	for range 1_000_000 { // the goroutines of the last tasks are ending
		if runtime.NumGoroutine() <= before+10 {
			return
		}
		runtime.Gosched()
	}
	t.Errorf("%d goroutines before, %d after", before, runtime.NumGoroutine())
}

// A message that arrives while its run is ending is refused as too late.
func TestMessageToAnEndingRunIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &peers{}
		store := memorytest.NewShared(all.dead)
		defer store.Close()
		kind := enginetest.NewKind()
		end := make(chan struct{})
		kind.Hold = func(context.Context, *step.Job) error {
			<-end
			return nil
		}
		owner := newEngine(store, all.join("owner"), kind) // without a listener
		enginetest.Begin(t, owner, enginetest.Program([]ir.Step{enginetest.Task("a")}))
		synctest.Wait()
		other := newEngine(store, all.join("other"), kind)
		said := make(chan error, 1)
		go func() { said <- other.Send(t.Context(), enginetest.ID, plan.Pause{}, "ref") }()
		synctest.Wait()
		close(end)
		select {
		case err := <-said:
			if r, ok := plan.IsRefusal(err); !ok || r.Code != plan.TooLate {
				t.Errorf("%v", err)
			}
		case <-time.After(time.Minute): // time of the bubble
			t.Error("there is no answer after a minute")
		}
		enginetest.Stop(owner)
		enginetest.Stop(other)
	})
}

// While one goroutine has loaded a run and not continued it, another one finds it
// in memory and must not advance it: a task that it started would look like one
// that the previous owner lost.
func TestLoadedRunIsNotAdvancedBeforeItContinues(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	kind := enginetest.NewKind()
	store := memorytest.New()
	e := openAt(t, store, kind, "one", began)
	enginetest.Begin(t, e, enginetest.Program([]ir.Step{
		gateUntil("g", time.Minute, ir.TimeoutSkip), enginetest.Task("a"),
	}))
	until(t, store, func(e journal.Entry) bool { return e.Status != journal.Running })
	enginetest.Stop(e)

	e = openAt(t, store, kind, "two", began.Add(time.Hour))
	movable, begin, err := e.Admit(t.Context(), enginetest.ID)
	if err != nil {
		t.Fatal(err)
	}
	if !e.Owns(enginetest.ID) || movable() {
		t.Fatal("others can move it before it has begun")
	}
	woken := make(chan error)
	go func() { woken <- e.Resume(t.Context(), enginetest.ID) }()
	begin()
	if err := <-woken; err != nil && !errors.Is(err, journal.ErrFinished) {
		t.Error(err)
	}
	if entry, err := enginetest.Finish(t, e); err != nil || entry.Outcome != "ok" {
		t.Errorf("%+v, %v", entry, err)
	}
	if kind.Done["a#0"] != 1 {
		t.Errorf("done: %v", kind.Done)
	}
}

// failing is a store that fails one append and works again afterwards.
type failing struct {
	journal.Store
	mu   sync.Mutex
	left int // appends before the failure
}

func (f *failing) Append(b journal.Batch, done func(error)) {
	f.mu.Lock()
	f.left--
	fail := f.left == 0
	f.mu.Unlock()
	if fail {
		go done(journal.ErrBusy)
		return
	}
	f.Store.Append(b, done)
}

// A process that drives the whole store continues its own runs after an append
// has failed. It waits for their tasks: none runs twice at the same time.
func TestWorkContinuesRunsAfterAFailedAppend(t *testing.T) {
	p := enginetest.Program(
		[]ir.Step{{ID: "fan", Type: "parallel", Action: ir.Parallel{Join: ir.JoinAll, Branches: []ir.Branch{
			{Name: "x", Block: 1}, {Name: "y", Block: 2},
		}}}, enginetest.Task("last")},
		[]ir.Step{enginetest.Task("short")}, []ir.Step{enginetest.Task("long")})
	for appends := 2; appends <= 4; appends++ {
		synctest.Test(t, func(t *testing.T) {
			store := memorytest.New()
			defer store.Close()
			kind := enginetest.NewKind()
			var running sync.Map
			kind.Hold = func(_ context.Context, job *step.Job) error {
				if _, twice := running.LoadOrStore(job.Step.ID, true); twice {
					t.Errorf("append %d fails: %s runs twice at the same time", appends, job.Step.ID)
				}
				takes := time.Second
				if job.Step.ID == "long" {
					takes = 5 * time.Second // longer than the worker needs to look again
				}
				time.Sleep(takes)
				running.Delete(job.Step.ID)
				return nil
			}
			e := newEngine(&failing{Store: store, left: appends}, (&peers{}).join("worker"), kind)
			ctx, cancel := context.WithCancel(t.Context())
			worked := make(chan error, 1)
			go func() { worked <- e.Work(ctx, nil) }()
			enginetest.Begin(t, e, p)
			time.Sleep(time.Minute)
			entry, err := store.Entry(t.Context(), enginetest.ID)
			if err != nil || entry.Outcome != journal.OutcomeOK {
				t.Errorf("append %d fails: %+v, %v", appends, entry, err)
			}
			cancel()
			<-worked
			enginetest.Stop(e)
		})
	}
}
