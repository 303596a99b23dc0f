//go:build unix

package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/cli"
	"github.com/espalier-run/espalier/internal/journal"
)

// stale is the store of a process that has not yet noticed what others did to the run: while it is frozen, the entry of
// the run stays as it was.
type stale struct {
	journal.Store
	*staleness
}

type staleness struct {
	mu     sync.Mutex
	last   journal.Entry
	frozen bool
	read   int // times since it was frozen
}

func (s stale) Entry(ctx context.Context, run journal.RunID) (journal.Entry, error) {
	entry, err := s.Store.Entry(ctx, run)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.frozen {
		s.read++
		return s.last, nil
	}
	s.last = entry
	return entry, err
}

// freeze freezes the entry if the run sleeps, and reports whether it does.
func (s *staleness) freeze() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen = s.last.Status == journal.Sleeping
	return s.frozen
}

func (s *staleness) thaw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen = false
}

// thawing is the standard error of the process: it thaws the store once the process stops.
type thawing struct {
	text bytes.Buffer
	thaw func()
}

func (w *thawing) Write(text []byte) (int, error) {
	if bytes.Contains(text, []byte("Press Ctrl-C")) {
		w.thaw()
	}
	return w.text.Write(text)
}

// A process that waits for a run, and is interrupted after another process has finished the run but before it notices,
// reports how the run ended.
func TestInterruptAfterAnotherProcessFinishedTheRun(t *testing.T) {
	for _, args := range [][]string{nil, {"--json"}} {
		p := &jsonProject{T: t, dir: t.TempDir()}
		if err := os.WriteFile(filepath.Join(p.dir, "sleeping.yaml"), []byte(sleepingFlow), 0o600); err != nil {
			t.Fatal(err)
		}
		state, signals, ended := &staleness{}, cli.NewSignals(), make(chan int, 1)
		var stdout bytes.Buffer
		stderr := &thawing{thaw: state.thaw}
		world := p.world(&stdout, stderr, signals)
		world.Journal = func(s journal.Store) journal.Store { return stale{s, state} }
		go func() {
			start := []string{"run", "sleeping.yaml", "--allow-shell", "--run-id", sleepingRun}
			ended <- cli.Main(world, append(start, args...))
		}()
		await(t, "sleeping", state.freeze)
		p.must(0, "cancel", sleepingRun)
		if got := p.state(sleepingRun); got != "finished" {
			t.Fatalf("the run is %s", got)
		}
		state.mu.Lock()
		before := state.read
		state.mu.Unlock()
		await(t, "waited for", func() bool {
			state.mu.Lock()
			defer state.mu.Unlock()
			return state.read > before+1
		})
		signals.Deliver(os.Interrupt)
		code := <-ended
		printed := stderr.text.String()
		if code != 1 || !strings.Contains(printed, "Press Ctrl-C") || !strings.Contains(printed, "was canceled") ||
			strings.Contains(printed, "is interrupted") || strings.Contains(printed, "To continue: ") {
			t.Errorf("%v: exit code %d: %s%s", args, code, &stdout, printed)
		}
		var result struct{ State, Outcome string }
		if args != nil && (json.Unmarshal(stdout.Bytes(), &result) != nil || result.Outcome != "cancelled") {
			t.Errorf("the result is %s", &stdout)
		}
	}
}

// await waits until something holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the run is not %s", what)
		}
	}
}
