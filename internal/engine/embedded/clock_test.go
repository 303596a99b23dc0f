package embedded_test

import (
	"context"
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
	"github.com/espalier-run/espalier/internal/step"
)

// clocks are a wall clock that can be set, and the monotonic clock.
type clocks struct {
	start time.Time
	set   chan time.Duration // holds by how much the wall clock is off
}

func newClocks() *clocks {
	c := &clocks{start: time.Now(), set: make(chan time.Duration, 1)}
	c.set <- 0
	return c
}

func (c *clocks) jump(by time.Duration) { c.set <- <-c.set + by }

func (c *clocks) wall() time.Time {
	off := <-c.set
	c.set <- off
	return time.Now().Add(off)
}

func (c *clocks) mono() time.Duration { return time.Since(c.start) }

func openWithClocks(store journal.Store, kind step.Runner, name string, c *clocks) *embedded.Engine {
	return embedded.New(embedded.Config{
		Config: engine.Config{Runners: map[string]step.Runner{"test": kind}},
		Store:  store, Process: &solo{id: journal.Owner(name), wakes: make(chan struct{}, 1)},
		Now: c.wall, Monotonic: c.mono,
	})
}

// working is a kind whose tasks take some time.
func working(takes time.Duration) *enginetest.Kind {
	kind := enginetest.NewKind()
	kind.Hold = func(ctx context.Context, _ *step.Job) error {
		select {
		case <-time.After(takes):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return kind
}

// limits are programs with 60 seconds of active time: of the run, of a child's
// own budget, and of a loop.
func limits(t *testing.T) map[string]*ir.Program {
	run := enginetest.Program([]ir.Step{enginetest.Task("a"), enginetest.Task("b")})
	run.Budget.ActiveSeconds = &ir.Limit{Max: 60}
	child := enginetest.Program([]ir.Step{{ID: "call", Type: "call", Action: ir.Call{}}})
	child.Children = []ir.Program{*enginetest.Program([]ir.Step{enginetest.Task("a"), enginetest.Task("b")})}
	child.Children[0].Budget.ActiveSeconds = &ir.Limit{Max: 60}
	each := ir.Loop{Block: 1, Each: &ir.Each{Items: enginetest.List(t, "[1, 2]"), Var: "item"}}
	loop := enginetest.Program(
		[]ir.Step{{ID: "each", Type: "loop", Timeout: 60_000, Action: each}}, []ir.Step{enginetest.Task("body")},
	)
	return map[string]*ir.Program{"run": run, "child": child, "loop": loop}
}

// A suspended machine, or a wall clock that is set, does not use up active time.
func TestJumpsOfTheWallClockAreNotActiveTime(t *testing.T) {
	for name, p := range limits(t) {
		for _, jump := range []time.Duration{2 * time.Hour, -2 * time.Hour} {
			t.Run(name+" "+jump.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c, store := newClocks(), memorytest.New()
					defer store.Close()
					e := openWithClocks(store, working(20*time.Second), "one", c)
					defer enginetest.Stop(e)
					enginetest.Begin(t, e, p)
					time.Sleep(10 * time.Second)
					c.jump(jump)
					if got := enginetest.Rest(t, e); got.Outcome != journal.OutcomeOK {
						t.Errorf("%+v", got)
					}
					if took := c.mono(); took != 40*time.Second {
						t.Errorf("it took %s", took)
					}
				})
			})
		}
	}
}

// Active time counts after a jump, too.
func TestDeadlinesHoldAfterAJump(t *testing.T) {
	for name, p := range limits(t) {
		for _, jump := range []time.Duration{2 * time.Hour, -2 * time.Hour} {
			t.Run(name+" "+jump.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c, store := newClocks(), memorytest.New()
					defer store.Close()
					e := openWithClocks(store, working(50*time.Second), "one", c)
					defer enginetest.Stop(e)
					enginetest.Begin(t, e, p)
					time.Sleep(10 * time.Second)
					c.jump(jump)
					if got := enginetest.Rest(t, e); got.Outcome == journal.OutcomeOK {
						t.Errorf("%+v", got)
					}
					if took := c.mono(); took != 60*time.Second {
						t.Errorf("it took %s", took)
					}
				})
			})
		}
	}
}

// A retry is due after its delay, whether or not the wall clock is set back, in
// the same process or before the next one starts.
func TestTimersDoNotStallWhenTheClockIsSetBack(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c, store := newClocks(), memorytest.New()
			defer store.Close()
			kind := enginetest.NewKind()
			kind.Fail["flaky"] = 1
			flaky := enginetest.Task("flaky")
			flaky.Retry = &ir.Retry{MaxAttempts: 2, Backoff: ir.Constant, Delays: []ir.Millis{30_000}}
			e := openWithClocks(store, kind, "one", c)
			enginetest.Begin(t, e, enginetest.Program([]ir.Step{flaky}))
			synctest.Wait()
			c.jump(-2 * time.Hour)
			if restarted {
				enginetest.Stop(e)
				c = &clocks{start: time.Now(), set: c.set}
				e = openWithClocks(store, kind, "two", c)
			}
			defer enginetest.Stop(e)
			if got := enginetest.Rest(t, e); got.Outcome != journal.OutcomeOK {
				t.Errorf("restarted %t: %+v", restarted, got)
			}
			if took := c.mono(); took > 31*time.Second {
				t.Errorf("restarted %t: it took %s", restarted, took)
			}
		})
	}
}

// A gate times out at a time of the wall clock, also if the machine was
// suspended in between: timers of a process do not advance then.
func TestGatesFollowTheWallClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, store := newClocks(), memorytest.New()
		defer store.Close()
		e := openWithClocks(store, enginetest.NewKind(), "one", c)
		defer enginetest.Stop(e)
		enginetest.Begin(t, e, enginetest.Program([]ir.Step{
			gateUntil("g", 2*time.Hour, ir.TimeoutSkip), enginetest.Task("a"),
		}))
		time.Sleep(time.Minute)
		c.jump(2 * time.Hour)
		until(t, store, func(entry journal.Entry) bool { return entry.Status == journal.Finished })
		if took := c.mono(); took > 3*time.Minute {
			t.Errorf("it took %s", took)
		}
	})
}

// A clock that was behind and is corrected does not make a run's clock run ahead.
func TestCorrectedClockCatchesUpWithTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, store := newClocks(), memorytest.New()
		defer store.Close()
		e := openWithClocks(store, enginetest.NewKind(), "one", c)
		enginetest.Begin(t, e, enginetest.Program([]ir.Step{
			gateUntil("g", 3*time.Hour, ir.TimeoutSkip), enginetest.Task("a"),
		}))
		enginetest.Rest(t, e)
		enginetest.Stop(e)
		c.jump(-2 * time.Hour) // the machine starts with a wrong clock,
		c = &clocks{start: time.Now(), set: c.set}
		e = openWithClocks(store, enginetest.NewKind(), "two", c)
		defer enginetest.Stop(e)
		if err := e.Resume(t.Context(), enginetest.ID); err != nil {
			t.Fatal(err)
		}
		enginetest.Rest(t, e)
		time.Sleep(time.Minute)
		c.jump(2 * time.Hour) // which is corrected soon
		time.Sleep(150 * time.Minute)
		if entry, err := store.Entry(t.Context(), enginetest.ID); err != nil || entry.Status == journal.Finished {
			t.Errorf("after %s: %+v, %v", c.mono(), entry, err)
		}
		time.Sleep(35 * time.Minute)
		if entry, err := store.Entry(t.Context(), enginetest.ID); err != nil || entry.Status != journal.Finished {
			t.Errorf("after %s: %+v, %v", c.mono(), entry, err)
		}
	})
}

// The active time of a run stays right while the clock catches up with it.
func TestDeadlinesHoldWhileTheClockIsCorrected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, store := newClocks(), memorytest.New()
		defer store.Close()
		kind := working(50 * time.Second)
		e := openWithClocks(store, kind, "one", c)
		enginetest.Begin(t, e, limits(t)["run"])
		synctest.Wait()
		enginetest.Stop(e)
		c.jump(-2 * time.Hour)
		c = &clocks{start: time.Now(), set: c.set}
		e = openWithClocks(store, kind, "two", c)
		defer enginetest.Stop(e)
		if err := e.Resume(t.Context(), enginetest.ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		c.jump(2 * time.Hour)
		if got := enginetest.Rest(t, e); got.Status != journal.Exceeded || c.mono() != 60*time.Second {
			t.Errorf("after %s: %+v", c.mono(), got)
		}
	})
}

// Whenever and however often the wall clock jumps, active time is what the tasks take, retries are due after their
// delay, and the run finishes.
func TestClocksMayJumpAnyTime(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		jumps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) [2]time.Duration {
			wait := rapid.IntRange(0, 20).Draw(rt, "seconds until the jump")
			by := rapid.IntRange(-7200, 7200).Draw(rt, "seconds of the jump")
			return [2]time.Duration{time.Duration(wait) * time.Second, time.Duration(by) * time.Second}
		}), 0, 6).Draw(rt, "jumps")
		synctest.Test(t, func(t *testing.T) {
			c, store := newClocks(), memorytest.New()
			defer store.Close()
			kind := working(20 * time.Second)
			kind.Fail["flaky"] = 1
			flaky := enginetest.Task("flaky")
			flaky.Retry = &ir.Retry{MaxAttempts: 2, Backoff: ir.Constant, Delays: []ir.Millis{5_000}}
			p := enginetest.Program([]ir.Step{flaky, enginetest.Task("b")})
			p.Budget.ActiveSeconds = &ir.Limit{Max: 80}
			e := openWithClocks(store, kind, "one", c)
			defer enginetest.Stop(e)
			enginetest.Begin(t, e, p)
			jumped := make(chan struct{})
			defer func() { <-jumped }()
			go func() {
				defer close(jumped)
				for _, j := range jumps {
					time.Sleep(j[0])
					c.jump(j[1])
				}
			}()
			if got := enginetest.Rest(t, e); got.Outcome != journal.OutcomeOK {
				rt.Errorf("%+v", got)
			}
			// A jump ahead makes a retry due at once, and one back does not delay it: the engine looks every minute.
			if took := c.mono(); took > 3*time.Minute {
				rt.Errorf("it took %s", took)
			}
		})
	})
}
