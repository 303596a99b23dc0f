//go:build temporal

package temporal_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/espalier-run/espalier/internal/engine/enginetest"
	"github.com/espalier-run/espalier/internal/engine/temporal"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/step"
)

var update = flag.Bool("update", false, "store the histories of this build, where there are none")

// recorded is a run whose history is stored.
type recorded struct {
	program *ir.Program
	config  func(*temporal.Config)
	hold    func(ctx context.Context, job *step.Job) error
	// act is done when the run has started.
	act func(t *testing.T, e *temporal.Engine)
}

// recordings returns the runs whose histories are stored: everything that makes a
// workflow decide.
func recordings(t *testing.T) map[string]recorded {
	all := map[string]recorded{}
	for name, p := range enginetest.Shapes(t) {
		all[strings.ReplaceAll(name, " ", "-")] = recorded{program: p}
	}
	all["continued"] = recorded{program: loop(t, 8), config: func(c *temporal.Config) { c.ContinueAfter = 40 }}
	p := enginetest.Program([]ir.Step{enginetest.Task("a"), enginetest.Task("b")})
	p.Budget.Tokens = &ir.Limit{Max: 150}
	all["budget"] = recorded{program: p, hold: enginetest.Reserving(40), act: func(t *testing.T, e *temporal.Engine) {
		if entry := rest(t, e, enginetest.ID); entry.Status != journal.Exceeded {
			t.Fatalf("%+v", entry)
		}
		if err := e.Send(t.Context(), enginetest.ID,
			plan.Raise{Budget: ir.BudgetTokens, To: 10_000}, "r"); err != nil {
			t.Fatal(err)
		}
	}}
	all["cancelled"] = recorded{
		program: enginetest.Program([]ir.Step{
			enginetest.Task("a"), {ID: "g", Type: "gate", Action: ir.Gate{Decider: ir.Person}},
		}),
		act: func(t *testing.T, e *temporal.Engine) {
			rest(t, e, enginetest.ID)
			if err := e.Send(t.Context(), enginetest.ID, plan.Cancel{By: actor}, "c"); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, lose := range loses {
		all[name] = recorded{program: gated(), act: func(t *testing.T, e *temporal.Engine) {
			rest(t, e, enginetest.ID)
			lose(t, e, enginetest.ID)
			approve(t, e, enginetest.ID)
		}}
	}
	all["cancelled-in-temporal"] = recorded{program: gated(), act: func(t *testing.T, e *temporal.Engine) {
		rest(t, e, enginetest.ID)
		cancelInTemporal(t, e, enginetest.ID)
	}}
	slow := enginetest.Task("flaky")
	slow.Retry = &ir.Retry{MaxAttempts: 3, Backoff: ir.Constant, Delays: []ir.Millis{1200}}
	all["timer"] = recorded{program: enginetest.Program([]ir.Step{slow, enginetest.Task("b")})}
	return all
}

// The histories of runs can be stored and replayed in another process. With
// -update they are stored.
func TestHistoriesCanBeStored(t *testing.T) {
	for name, r := range recordings(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := r.record(t)
			if err := s.replay(t, s.histories(t)); err != nil {
				t.Error(err)
			}
			path := filepath.Join(storedDir, temporal.VersionName, name+".json.gz")
			if _, err := os.Stat(path); err == nil || !*update {
				return
			}
			var b bytes.Buffer
			zip := gzip.NewWriter(&b)
			if err := json.NewEncoder(zip).Encode(s); err != nil {
				t.Fatal(err)
			}
			if err := zip.Close(); err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// record runs the program to its end.
func (r recorded) record(t *testing.T) stored {
	t.Helper()
	var all *blobs
	w := newWorld(t, func(c *temporal.Config) {
		all = &blobs{Store: c.Store, all: map[string][]byte{}}
		c.Store = all
		if r.config != nil {
			r.config(c)
		}
	})
	kind := enginetest.NewKind()
	kind.Fail["flaky"], kind.Hold = 2, r.hold
	e := w.open(map[string]step.Runner{"test": kind})
	enginetest.Begin(t, e, r.program)
	if r.act != nil {
		r.act(t, e)
	}
	entry, err := enginetest.Finish(t, e)
	if err != nil || entry.Status != journal.Finished {
		t.Fatalf("%+v %v", entry, err)
	}
	s := stored{Queue: w.config.TaskQueue}
	for _, h := range settled(t, e, enginetest.ID) {
		raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		s.Histories = append(s.Histories, raw)
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, hash := range slices.Sorted(maps.Keys(all.all)) {
		s.Blobs = append(s.Blobs, all.all[hash])
	}
	return s
}

// blobs is a journal that keeps every blob that was appended.
type blobs struct {
	temporal.Store
	mu  sync.Mutex
	all map[string][]byte
}

func (s *blobs) Append(b journal.Batch, done func(error)) {
	s.mu.Lock()
	for _, blob := range b.Blobs {
		s.all[blob.Hash] = blob.Data
	}
	s.mu.Unlock()
	s.Store.Append(b, done)
}
