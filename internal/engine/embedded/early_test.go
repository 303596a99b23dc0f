package embedded_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/memory"
	"github.com/espalier-run/espalier/internal/step"
)

// careful notes what it does before it does it.
type careful struct {
	*testKind
	before func(*step.Job) error // it notes
}

const begun = "begun"

var _ step.WriteAhead = careful{}

func (careful) WriteAhead() {}

func (k careful) Run(ctx context.Context, job *step.Job) (step.Result, error) {
	if k.before != nil {
		if err := k.before(job); err != nil {
			return step.Result{}, err
		}
	}
	if job.Noted(begun) == 0 {
		if err := job.Log.Note(ctx, step.Note{Kind: begun}); err != nil {
			return step.Result{}, err
		}
	}
	return k.testKind.Run(ctx, job)
}

func asCareful(k *testKind) step.Runner { return careful{testKind: k} }

func TestCrashAtEveryAppendOfCarefulTasks(t *testing.T) {
	for name, p := range shapes(t) {
		t.Run(name, func(t *testing.T) {
			crashAtEveryAppend(t, name, p, 3, asCareful, func(*testing.T) journal.Store { return memory.New() })
		})
	}
}

// However early a task begins, and whenever the machine stops: what was done
// was noted before.
func TestNothingIsDoneBeforeItIsNoted(t *testing.T) {
	for name, p := range shapes(t) {
		t.Run(name, func(t *testing.T) {
			for n := 1; ; n++ {
				left := 0
				for _, after := range []bool{false, true} {
					kind := newKind()
					disk := memory.New()
					store := &stopping{Store: disk, left: n, after: after}
					e := open(t, store, asCareful(kind), "one")
					if e.Start(t.Context(), id, &engine.Definition{Program: p}, json.RawMessage("{}"), nil, journal.Actor{}) == nil {
						finish(t, e)
					}
					stop(e)
					noted := map[string]bool{}
					for event, err := range disk.Events(t.Context(), id, 0) {
						if err != nil && !errors.Is(err, journal.ErrUnknownRun) {
							t.Fatal(err)
						}
						if x, ok := event.Fact.(journal.TaskNoted); ok && x.Kind == begun {
							noted[x.Key()] = true
						}
					}
					for key := range kind.done {
						if !noted[key] {
							t.Errorf("append %d, after %t: %s was done, and nobody knows", n, after, key)
						}
					}
					left = store.left
				}
				if left > 0 {
					return // it was not reached any more
				}
			}
		})
	}
}

// What is done again has noted it in its first life and notes nothing more: it
// does not begin before it is durable that it is done again.
func TestWhatIsDoneAgainDoesNotBeginEarly(t *testing.T) {
	for n := 1; ; n++ {
		kind := newKind()
		disk := memory.New()
		store := &stopping{Store: disk, left: n}
		e := open(t, store, asCareful(kind), "one")
		if e.Start(t.Context(), id, &engine.Definition{Program: program([]ir.Step{task("a"), task("b")})}, json.RawMessage("{}"), nil, journal.Actor{}) == nil {
			finish(t, e)
		}
		stop(e)
		if store.left > 0 {
			return // it was not reached any more
		}
		before := maps.Clone(kind.done)
		e = open(t, &stopping{Store: disk, left: 1}, asCareful(kind), "two")
		finish(t, e)
		stop(e)
		if !maps.Equal(kind.done, before) {
			t.Errorf("append %d: %v were done, then %v, of which nobody knows", n, before, kind.done)
		}
	}
}

// The end of one task, the start of the next and its note are one write.
func TestOneAppendForEachCarefulTask(t *testing.T) {
	const tasks = 10
	var steps []ir.Step
	for n := range tasks {
		steps = append(steps, task(fmt.Sprint("s", n)))
	}
	store := memory.New()
	e := open(t, store, asCareful(newKind()), "one")
	begin(t, e, program(steps))
	if got, err := finish(t, e); err != nil || got.Outcome != "ok" {
		t.Fatalf("%+v, %v", got, err)
	}
	appends := 0
	for range store.Tail(t.Context(), 0) {
		appends++
	}
	if appends != tasks+2 { // with those of the run's start, which nothing is before, and of its end
		t.Errorf("%d appends", appends)
	}
}

// A task that takes its time before it notes anything does not keep what came
// before it from being durable, nor is it done twice.
func TestACarefulTaskThatIsSlow(t *testing.T) {
	for name, fails := range map[string]bool{"and goes on": false, "and fails": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				goOn := make(chan struct{})
				kind := careful{testKind: newKind(), before: func(job *step.Job) error {
					if job.Step.ID != "b" {
						return nil
					}
					<-goOn
					if fails {
						return step.Errorf(step.ClassInput, "no")
					}
					return nil
				}}
				store := memory.New()
				e := open(t, store, kind, "one")
				begin(t, e, program([]ir.Step{task("a"), task("b")}))
				synctest.Wait()
				if got := facts(t, store); slices.Contains(got, "TaskEnded") {
					t.Errorf("the decision was not held back: %v", got)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if got := facts(t, store); !slices.Contains(got, "TaskEnded") {
					t.Errorf("the decision was held back for ever: %v", got)
				}
				close(goOn)
				want := journal.OutcomeOK
				if fails {
					want = journal.OutcomeFailed
				}
				if got := rest(t, e); string(got.Outcome) != string(want) {
					t.Errorf("%+v", got)
				}
				if n := kind.done["b#0"]; n != map[bool]int{false: 1, true: 0}[fails] {
					t.Errorf("it was done %d times", n)
				}
				stop(e)
				store.Close()
			})
		})
	}
}
