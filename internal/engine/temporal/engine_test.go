//go:build temporal

package temporal_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/engine/embedded"
	"github.com/espalier-run/espalier/internal/engine/enginetest"
	"github.com/espalier-run/espalier/internal/engine/temporal"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/memorytest"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/temporaltest"
)

func TestMain(m *testing.M) {
	if isVictim() {
		return
	}
	code := m.Run()
	temporaltest.StopShared()
	os.Exit(code)
}

// world is a journal and a task queue of its own.
type world struct {
	t      *testing.T
	store  journal.Store
	config temporal.Config
}

func newWorld(t *testing.T, change ...func(*temporal.Config)) *world {
	t.Helper()
	store := memorytest.New()
	t.Cleanup(func() { store.Close() })
	w := &world{t: t, store: store, config: temporal.Config{
		Store: store, Address: temporaltest.Shared(t).Address, TaskQueue: uuid.NewString(), Heartbeat: 3 * time.Second,
	}}
	if testing.Verbose() {
		w.config.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	for _, c := range change {
		c(&w.config)
	}
	return w
}

func (w *world) open(kinds map[string]step.Runner) *temporal.Engine {
	w.t.Helper()
	c := w.config
	c.Runners = kinds
	e := temporal.New(c)
	w.t.Cleanup(func() { enginetest.Stop(e) })
	return e
}

var actor = journal.Actor{User: "eva"}

func start(t *testing.T, e engine.Engine, p *ir.Program) journal.RunID {
	t.Helper()
	id := journal.RunID(uuid.NewString())
	if err := e.Start(t.Context(), id, &engine.Definition{Program: p}, json.RawMessage("{}"), nil, actor); err != nil {
		t.Fatal(err)
	}
	return id
}

func rest(t *testing.T, e engine.Engine, id journal.RunID) journal.Entry {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	entry, err := e.Wait(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	return entry
}

// facts returns the facts of a run without what differs between two runs: times
// and ids.
func facts(t *testing.T, store journal.Reader, id journal.RunID) []string {
	t.Helper()
	var out []string
	for event, err := range store.Events(t.Context(), id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		event.At = 0
		line, err := journal.Encode(nil, []journal.Event{event})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, strings.ReplaceAll(string(line), string(id), "RUN"))
	}
	return out
}

// solo is a process that shares its journal with no other.
type solo struct{}

func (solo) ID() journal.Owner         { return "solo" }
func (solo) Drives(journal.Owner) bool { return false }
func (solo) StopDriving()              {}
func (solo) Wake(journal.Owner)        {}
func (solo) Wakes() <-chan struct{}    { return nil }

// embeddedFacts returns the facts of the same program on the embedded engine.
func embeddedFacts(t *testing.T, p *ir.Program, kind step.Runner) []string {
	t.Helper()
	store := memorytest.New()
	t.Cleanup(func() { store.Close() })
	e := embedded.New(embedded.Config{
		Config: engine.Config{Runners: map[string]step.Runner{"test": kind}}, Store: store, Process: solo{},
	})
	t.Cleanup(func() { enginetest.Stop(e) })
	id := start(t, e, p)
	rest(t, e, id)
	return facts(t, store, id)
}

func verify(t *testing.T, store journal.Store, id journal.RunID) {
	t.Helper()
	v, err := engine.Verify(t.Context(), store, id)
	if err != nil || len(v.Damage) > 0 {
		t.Errorf("the journal is damaged: %v, %+v", err, v.Damage)
	}
}

func gated() *ir.Program {
	return enginetest.Program([]ir.Step{
		enginetest.Task("a"), {ID: "g", Type: "gate", Action: ir.Gate{Decider: ir.Person}}, enginetest.Task("b"),
	})
}

func TestChainHasTheFactsOfTheEmbeddedEngine(t *testing.T) {
	p := enginetest.Program([]ir.Step{enginetest.Task("a"), enginetest.Task("b"), enginetest.Task("c")})
	w := newWorld(t)
	kind := enginetest.NewKind()
	e := w.open(map[string]step.Runner{"test": kind})
	id := start(t, e, p)
	if entry := rest(t, e, id); entry.Outcome != journal.OutcomeOK || entry.Owner != "" {
		t.Errorf("%+v", entry)
	}
	if d := cmp.Diff(embeddedFacts(t, p, enginetest.NewKind()), facts(t, w.store, id)); d != "" {
		t.Error(d)
	}
	for _, key := range []string{"a#0", "b#0", "c#0"} {
		if kind.Done[key] != 1 {
			t.Errorf("%s was done %d times", key, kind.Done[key])
		}
	}
	verify(t, w.store, id)
}

func TestEngineKeepsItsPromises(t *testing.T) {
	enginetest.Run(t, enginetest.Subject{
		Owner: journal.Temporal,
		New: func(t *testing.T) enginetest.World {
			w := newWorld(t, func(c *temporal.Config) { c.Namespace = newNamespace(t) })
			return enginetest.World{
				Journal: w.store,
				Open:    func(_ *testing.T, kinds map[string]step.Runner) engine.Engine { return w.open(kinds) },
			}
		},
	})
}

// newNamespace returns a namespace of its own: the suite uses one id for all runs.
func newNamespace(t *testing.T) string {
	t.Helper()
	name := "test-" + uuid.NewString()
	c, err := client.NewNamespaceClient(client.Options{HostPort: temporaltest.Shared(t).Address})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Register(t.Context(), &workflowservice.RegisterNamespaceRequest{
		Namespace: name, WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
	}); err != nil {
		t.Fatal(err)
	}
	return name
}
