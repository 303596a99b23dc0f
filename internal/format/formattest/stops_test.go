package formattest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/samplingtest"
)

// Every workflow in testdata/runs is stopped at its first and every third write to its journal, after it is durable or
// before, and resumed with another engine; the exhaustive tests stop it at every write. It must end like the
// undisturbed run, and no recorded reply may be requested again.
//
// Spec: Agent Flow §8.4 resume
func TestRunsSurviveStops(t *testing.T) {
	names, err := filepath.Glob("testdata/runs/*/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		short := strings.TrimSuffix(filepath.Base(name), ".txtar")
		if different(short) {
			continue
		}
		t.Run(short, func(t *testing.T) {
			a, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			tr := newTrial(a)
			for _, line := range tr.do {
				if strings.HasPrefix(line, "after ") {
					return // it depends on a moment that a stop shifts
				}
			}
			calm := tr.run(t)
			if calm.problems.Errors() {
				return
			}
			want := calm.essence()
			for n := 1; ; n++ {
				if !samplingtest.Includes(n-1+len(short), 3) && n > 1 {
					continue
				}
				stopped := false
				for i, after := range []bool{false, true} {
					if !samplingtest.Includes(n+i, 2) {
						continue
					}
					tr.stopAt, tr.stopAfter = n, after
					h := tr.run(t)
					stopped = stopped || h.stopped
					if got := h.essence(); h.stopped && got != want {
						t.Fatalf("stopped at write %d (after it: %t)\ngot  %s\nwant %s\n%s", n, after, got, want,
							h.record(t, ""))
					}
				}
				if !stopped {
					return
				}
			}
		})
	}
}

// different reports whether a run legitimately ends differently after a stop: a lost call is
// charged in full, its time is spent, and another branch may win a race.
func different(name string) bool {
	return strings.Contains(name, "first-success") || strings.Contains(name, "tokens") ||
		strings.Contains(name, "tool-calls") || strings.Contains(name, "deadline") || strings.Contains(name, "F42")
}

// essence returns what a stop must not change.
func (h *happened) essence() string {
	outcome, output := h.ending()
	n, _ := replies(h.events)
	text := decidedAt.ReplaceAllString(string(output), "")
	return fmt.Sprintf("%s, %s, %d replies", outcome, text, n)
}

var decidedAt = regexp.MustCompile(`"decided_at":"[^"]*"`)

var errStop = errors.New("stopped here")

// stopping is a store whose process dies at its n-th append: before it, or after it without
// reporting it.
type stopping struct {
	journal.Store
	after bool
	died  chan struct{}

	mu   sync.Mutex
	left int
}

func (s *stopping) Append(b journal.Batch, done func(error)) {
	s.mu.Lock()
	s.left--
	left := s.left
	s.mu.Unlock()
	if left == 0 {
		close(s.died)
	}
	switch {
	case left > 0:
		s.Store.Append(b, done)
	case left == 0 && s.after:
		s.Store.Append(b, func(error) { done(errStop) })
	default:
		go done(errStop)
	}
}

func (s *stopping) gone() bool {
	select {
	case <-s.died:
		return true
	default:
		return false
	}
}

// untilDeath returns a context that ends when the process dies.
func (s *stopping) untilDeath(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-s.died:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// playStopped is play with a process that dies, and another one that continues.
func (tr *trial) playStopped(t *testing.T, h *happened, dir string) {
	ctx := t.Context()
	join, over := tr.joining(t, dir)
	defer over()
	dying := &stopping{left: tr.stopAt, after: tr.stopAfter, died: make(chan struct{})}
	e := join(func(s journal.Store) journal.Store {
		dying.Store = s
		return dying
	})
	defer func() {
		tr.settle()
		e.leave()
	}()
	// alive switches to another engine once the first one has died.
	alive := func() {
		tr.settle()
		if h.stopped || !dying.gone() {
			return
		}
		h.stopped = true
		e.leave()
		e = join(unchanged)
		if err := e.Resume(ctx, theRun); errors.Is(err, journal.ErrUnknownRun) {
			if err := tr.start(ctx, e, h); err != nil { // the run had not started
				t.Fatal(err)
			}
		} else if err != nil && !errors.Is(err, journal.ErrFinished) {
			t.Fatal(err)
		}
	}
	rested := func() {
		for range 100 {
			waiting, cancel := ctx, context.CancelFunc(func() {})
			if !h.stopped {
				waiting, cancel = dying.untilDeath(ctx)
			}
			entry, err := e.Wait(waiting, theRun)
			cancel()
			alive()
			if err != nil && !h.stopped {
				t.Fatal(err)
			}
			if err == nil && !resolveDoubt(ctx, e, entry) {
				return
			}
		}
		t.Fatal("it never comes to rest")
	}
	starting, cancel := dying.untilDeath(ctx)
	if err := tr.start(starting, e, h); err != nil && !dying.gone() {
		t.Fatal(err)
	}
	cancel()
	alive()
	for _, line := range tr.do {
		rested()
		before := h.stopped
		acting, cancel := ctx, context.CancelFunc(func() {})
		if !h.stopped {
			acting, cancel = dying.untilDeath(ctx)
		}
		err := act(acting, e, strings.Fields(line))
		cancel()
		alive()
		if err != nil && h.stopped && !before { // it is unknown whether it was recorded, so repeat it
			rested()
			_ = act(ctx, e, strings.Fields(line)) // an error means that it was recorded
		}
	}
	rested()
	h.entry, _ = e.Wait(ctx, theRun)
	tr.seen(t, e.store, h)
	state, _, _, err := e.Load(ctx, theRun)
	if err != nil {
		t.Fatal(err)
	}
	h.state = state
}

// resolveDoubt reruns work with an unknown outcome; the tests' commands have no harmful side
// effects.
func resolveDoubt(ctx context.Context, e engine.Engine, entry journal.Entry) bool {
	if entry.Status == journal.Finished {
		return false
	}
	state, _, _, err := e.Load(ctx, theRun)
	if err != nil {
		return false
	}
	for _, f := range state.OpenGates() {
		if f.Gate.Kind == journal.GateOutcome {
			return e.Send(ctx, theRun, plan.GateDecision{Frame: f.Path, Step: f.Step, Answer: journal.AnswerRerun},
				"doubt") == nil
		}
	}
	return false
}

func end(e engine.Engine) {
	now := make(chan struct{})
	close(now)
	e.Close(now)
}
