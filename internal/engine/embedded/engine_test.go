package embedded_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/engine/embedded"
	"github.com/espalier-run/espalier/internal/engine/enginetest"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/memorytest"
	"github.com/espalier-run/espalier/internal/journal/sqlite"
	"github.com/espalier-run/espalier/internal/samplingtest"
	"github.com/espalier-run/espalier/internal/step"
)

// solo is the only living process: every other owner is dead.
type solo struct {
	id    journal.Owner
	wakes chan struct{}
}

func (s *solo) ID() journal.Owner         { return s.id }
func (s *solo) Dead(o journal.Owner) bool { return o != s.id }
func (s *solo) Drives(journal.Owner) bool { return false }
func (s *solo) StopDriving()              {}
func (s *solo) Wake(journal.Owner)        {}
func (s *solo) Wakes() <-chan struct{}    { return s.wakes }

// newEngine returns an engine whose tasks all have one kind.
func newEngine(store journal.Store, p embedded.Process, kind step.Runner) *embedded.Engine {
	return embedded.New(embedded.Config{
		Config: engine.Config{Runners: map[string]step.Runner{"test": kind}}, Store: store, Process: p,
	})
}

func open(t *testing.T, store journal.Store, kind step.Runner, name string) *embedded.Engine {
	t.Helper()
	e := newEngine(store, &solo{id: journal.Owner(name), wakes: make(chan struct{}, 1)}, kind)
	t.Cleanup(func() { enginetest.Stop(e) })
	return e
}

func TestEngineKeepsItsPromises(t *testing.T) {
	enginetest.Run(t, enginetest.Subject{New: func(t *testing.T) enginetest.World {
		store := memorytest.New()
		t.Cleanup(func() { store.Close() })
		opened := 0
		return enginetest.World{Journal: store, Open: func(_ *testing.T, kinds map[string]step.Runner) engine.Engine {
			opened++
			p := &solo{id: journal.Owner(fmt.Sprint("process ", opened)), wakes: make(chan struct{}, 1)}
			return embedded.New(embedded.Config{Config: engine.Config{Runners: kinds}, Store: store, Process: p})
		}}
	}})
}

// stopping is a store that fails from its n-th append on, as if its process had
// died before that append or right after it.
type stopping struct {
	journal.Store
	mu    sync.Mutex
	left  int
	after bool
}

func (s *stopping) Append(b journal.Batch, done func(error)) {
	s.mu.Lock()
	s.left--
	left := s.left
	s.mu.Unlock()
	switch {
	case left > 0:
		s.Store.Append(b, done)
	case left == 0 && s.after:
		s.Store.Append(b, func(error) { done(enginetest.ErrStopped) })
	default:
		go done(enginetest.ErrStopped)
	}
}

// TestCrashAtEveryAppend stops the engine at every append, before and after
// it, and again during the recovery, and compares what was done and how it
// ended with an undisturbed run.
func TestCrashAtEveryAppend(t *testing.T) {
	for name, p := range enginetest.Shapes(t) {
		t.Run(name, func(t *testing.T) {
			crashAtEveryAppend(t, name, p, 3, 1, plain, func(*testing.T) journal.Store { return memorytest.New() })
		})
	}
}

// The same in a file, where the second engine has its own connection and cache: at every third append, or at all in the
// exhaustive tests.
func TestCrashAtEveryAppendInAFile(t *testing.T) {
	for name, p := range enginetest.Shapes(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crashAtEveryAppend(t, name, p, 2, 3, plain, func(t *testing.T) journal.Store {
				s, err := sqlite.Open(filepath.Join(t.TempDir(), "j.db"),
					sqlite.Options{Relaxed: true, Dead: func(journal.Owner) bool { return true }})
				if err != nil {
					t.Fatal(err)
				}
				return s
			})
		})
	}
}

// plain returns the kind itself.
func plain(k *enginetest.Kind) step.Runner { return k }

// crashAtEveryAppend tests one of every few stops, each followed by so many others.
func crashAtEveryAppend(
	t *testing.T, name string, p *ir.Program, again, every int, as func(*enginetest.Kind) step.Runner,
	disk func(*testing.T) journal.Store,
) {
	calm := enginetest.NewKind()
	calm.Fail["flaky"] = 2
	store := disk(t)
	defer store.Close()
	e := open(t, store, as(calm), "calm")
	enginetest.Begin(t, e, p)
	want, err := enginetest.Finish(t, e)
	if err != nil || want.Outcome != "ok" {
		t.Fatalf("undisturbed: %+v, %v", want, err)
	}
	appends := 0
	for range store.Tail(t.Context(), 0) {
		appends++
	}
	tried := 0
	for first := 1; first <= appends; first++ {
		for _, after := range []bool{false, true} {
			for second := 1; second <= again; second++ {
				if tried++; !samplingtest.Includes(tried, every) {
					continue
				}
				label := fmt.Sprintf("append %d, after %t, then %d", first, after, second)
				kind := enginetest.NewKind()
				kind.Fail["flaky"] = 2
				disk := disk(t)
				e := open(t, &stopping{Store: disk, left: first, after: after}, as(kind), "one")
				err := e.Start(
					t.Context(), enginetest.ID, &engine.Definition{Program: p}, json.RawMessage("{}"), nil,
					journal.Actor{},
				)
				if err == nil {
					enginetest.Finish(t, e)
				}
				enginetest.Stop(e)
				if _, err := disk.Entry(t.Context(), enginetest.ID); errors.Is(err, journal.ErrUnknownRun) {
					disk.Close()
					continue // it never started
				}
				e = open(t, &stopping{Store: disk, left: second, after: !after}, as(kind), "two")
				enginetest.Finish(t, e)
				enginetest.Stop(e)
				e = open(t, disk, as(kind), "three")
				got, err := enginetest.Finish(t, e)
				enginetest.Stop(e)
				if err != nil {
					t.Fatalf("%s: %v", label, err)
				}
				if got.Status != want.Status || got.Outcome != want.Outcome {
					t.Fatalf("%s: %+v, not %+v", label, got, want)
				}
				// A task may be repeated if its outcome is unknown. But none may
				// be missing, and none that has returned may run again.
				for key := range calm.Done {
					if kind.Done[key] == 0 {
						t.Fatalf("%s: %s was never done", label, key)
					}
				}
				for key, n := range kind.Done {
					if calm.Done[key] == 0 && name != "join any" {
						t.Fatalf("%s: %s should not have been done", label, key)
					}
					if n > 3 {
						t.Fatalf("%s: %s was done %d times", label, key, n)
					}
				}
				ended := map[string]int{}
				for e, err := range disk.Events(t.Context(), enginetest.ID, 0) {
					if err != nil {
						t.Fatal(err)
					}
					if x, ok := e.Fact.(journal.TaskEnded); ok {
						ended[x.Key()]++
					}
				}
				for key, n := range ended {
					if n != 1 {
						t.Fatalf("%s: %s has %d results", label, key, n)
					}
				}
				if err := disk.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}
