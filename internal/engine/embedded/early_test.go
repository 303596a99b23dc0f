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
	"github.com/espalier-run/espalier/internal/engine/enginetest"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/memorytest"
	"github.com/espalier-run/espalier/internal/step"
)

// careful is a write-ahead kind.
type careful struct {
	*enginetest.Kind
	before func(*step.Job) error // called before the note
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
	if job.NoteCount(begun) == 0 {
		if err := job.Log.Note(ctx, step.Note{Kind: begun}); err != nil {
			return step.Result{}, err
		}
	}
	return k.Kind.Run(ctx, job)
}

func asCareful(k *enginetest.Kind) step.Runner { return careful{Kind: k} }

func TestCrashAtEveryAppendOfWriteAheadTasks(t *testing.T) {
	for name, p := range enginetest.Shapes(t) {
		t.Run(name, func(t *testing.T) {
			crashAtEveryAppend(t, name, p, 3, 1, asCareful, func(*testing.T) journal.Store { return memorytest.New() })
		})
	}
}

// However early a task starts, and whenever the process dies: what was done was
// noted before.
func TestWriteAheadTasksActAfterTheirNote(t *testing.T) {
	for name, p := range enginetest.Shapes(t) {
		t.Run(name, func(t *testing.T) {
			for n := 1; ; n++ {
				left := 0
				for _, after := range []bool{false, true} {
					kind := enginetest.NewKind()
					disk := memorytest.New()
					store := &stopping{Store: disk, left: n, after: after}
					e := open(t, store, asCareful(kind), "one")
					if e.Start(
						t.Context(), enginetest.ID, &engine.Definition{Program: p}, json.RawMessage("{}"), nil,
						journal.Actor{},
					) == nil {
						enginetest.Finish(t, e)
					}
					enginetest.Stop(e)
					noted := map[string]bool{}
					for event, err := range disk.Events(t.Context(), enginetest.ID, 0) {
						if err != nil && !errors.Is(err, journal.ErrUnknownRun) {
							t.Fatal(err)
						}
						if x, ok := event.Fact.(journal.TaskNoted); ok && x.Kind == begun {
							noted[x.Key()] = true
						}
					}
					for key := range kind.Done {
						if !noted[key] {
							t.Errorf("append %d, after %t: %s was done, and there is no record of it", n, after, key)
						}
					}
					left = store.left
				}
				if left > 0 {
					return // never reached
				}
			}
		})
	}
}

// A rerun task has written its note before, and writes none: it does not start
// before its start is durable.
func TestRerunTasksDoNotStartEarly(t *testing.T) {
	for n := 1; ; n++ {
		kind := enginetest.NewKind()
		disk := memorytest.New()
		store := &stopping{Store: disk, left: n}
		e := open(t, store, asCareful(kind), "one")
		if e.Start(
			t.Context(), enginetest.ID,
			&engine.Definition{Program: enginetest.Program([]ir.Step{enginetest.Task("a"), enginetest.Task("b")})},
			json.RawMessage("{}"), nil, journal.Actor{},
		) == nil {
			enginetest.Finish(t, e)
		}
		enginetest.Stop(e)
		if store.left > 0 {
			return // never reached
		}
		before := maps.Clone(kind.Done)
		e = open(t, &stopping{Store: disk, left: 1}, asCareful(kind), "two")
		enginetest.Finish(t, e)
		enginetest.Stop(e)
		if !maps.Equal(kind.Done, before) {
			t.Errorf("append %d: %v were done, then %v without a record", n, before, kind.Done)
		}
	}
}

// The end of one task, the start of the next and its note are one write.
func TestOneAppendPerWriteAheadTask(t *testing.T) {
	const tasks = 10
	var steps []ir.Step
	for n := range tasks {
		steps = append(steps, enginetest.Task(fmt.Sprint("s", n)))
	}
	store := memorytest.New()
	e := open(t, store, asCareful(enginetest.NewKind()), "one")
	enginetest.Begin(t, e, enginetest.Program(steps))
	if got, err := enginetest.Finish(t, e); err != nil || got.Outcome != "ok" {
		t.Fatalf("%+v, %v", got, err)
	}
	appends := 0
	for range store.Tail(t.Context(), 0) {
		appends++
	}
	if appends != tasks+2 { // and those of the run's start and end
		t.Errorf("%d appends", appends)
	}
}

// A write-ahead task that takes long to write its note delays neither the
// decision before it nor runs twice.
func TestSlowWriteAheadTaskDelaysNothing(t *testing.T) {
	for name, fails := range map[string]bool{"and goes on": false, "and fails": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				goOn := make(chan struct{})
				kind := careful{Kind: enginetest.NewKind(), before: func(job *step.Job) error {
					if job.Step.ID != "b" {
						return nil
					}
					<-goOn
					if fails {
						return step.Errorf(ir.ClassInput, "no")
					}
					return nil
				}}
				store := memorytest.New()
				e := open(t, store, kind, "one")
				enginetest.Begin(t, e, enginetest.Program([]ir.Step{enginetest.Task("a"), enginetest.Task("b")}))
				synctest.Wait()
				if got := enginetest.Facts(t, store); slices.Contains(got, "TaskEnded") {
					t.Errorf("the decision was not held back: %v", got)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if got := enginetest.Facts(t, store); !slices.Contains(got, "TaskEnded") {
					t.Errorf("the decision was held back for ever: %v", got)
				}
				close(goOn)
				want := journal.OutcomeOK
				if fails {
					want = journal.OutcomeFailed
				}
				if got := enginetest.Rest(t, e); string(got.Outcome) != string(want) {
					t.Errorf("%+v", got)
				}
				if n := kind.Done["b#0"]; n != map[bool]int{false: 1, true: 0}[fails] {
					t.Errorf("it was done %d times", n)
				}
				enginetest.Stop(e)
				store.Close()
			})
		})
	}
}
