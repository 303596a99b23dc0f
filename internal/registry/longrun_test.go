package registry_test

import (
	"context"
	"encoding/json"
	"iter"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/engine/enginetest"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/registry"
	"github.com/espalier-run/espalier/internal/step"
)

// countingStore counts the events that are read.
type countingStore struct {
	journal.Store
	events *atomic.Int64
}

func (c countingStore) Events(
	ctx context.Context, run journal.RunID, after journal.Seq,
) iter.Seq2[journal.Event, error] {
	return func(yield func(journal.Event, error) bool) {
		for e, err := range c.Store.Events(ctx, run, after) {
			c.events.Add(1)
			if !yield(e, err) {
				return
			}
		}
	}
}

// What a process reads to act on a long run does not grow with the run: the engine starts from a snapshot, and the
// records continue from checkpoints.
func TestActingOnALongRunReadsOnlyItsEnd(t *testing.T) {
	const turns = 4000
	p := enginetest.Program([]ir.Step{
		{ID: "loop", Type: "loop", Action: ir.Loop{Block: 1, Max: turns}},
		{ID: "gate", Action: ir.Gate{Decider: ir.Person}},
	}, []ir.Step{enginetest.Task("turn")})
	for name, act := range map[string]plan.Input{
		"approve": plan.GateDecision{Step: "gate", Answer: journal.AnswerApprove},
		"cancel":  plan.Cancel{}, "pause": plan.Pause{},
	} {
		t.Run(name, func(t *testing.T) {
			var read atomic.Int64
			dir := filepath.Join(t.TempDir(), ".espalier")
			open := func() *registry.Runtime {
				r, err := registry.OpenRuntime(dir, registry.RuntimeOptions{
					Relaxed: true, Runners: []step.Runner{enginetest.NewKind()},
					Getenv:  func(string) string { return "" },
					Journal: func(s journal.Store) journal.Store { return countingStore{s, &read} },
				})
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			r := open()
			err := r.Engine.Start(
				t.Context(), enginetest.ID, &engine.Definition{Program: p}, json.RawMessage("{}"), nil, journal.Actor{},
			)
			if err != nil {
				t.Fatal(err)
			}
			entry, err := r.Engine.Wait(t.Context(), enginetest.ID)
			if err != nil || entry.Status != journal.Waiting {
				t.Fatalf("%+v, %v", entry, err)
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			read.Store(0)
			r = open()
			if d, ok := act.(plan.GateDecision); ok {
				state, program, _, err := r.Engine.Load(t.Context(), enginetest.ID)
				if err != nil {
					t.Fatal(err)
				}
				_, d.Digest = state.Shown(program, state.OpenGates()[0])
				act = d
			}
			if err := r.Engine.Send(t.Context(), enginetest.ID, act, "ref"); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Engine.Wait(t.Context(), enginetest.ID); err != nil {
				t.Fatal(err)
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			if got, most := read.Load(), int64(entry.Seq)/4; got > most {
				t.Errorf("%d events of %d were read, and %d suffice", got, entry.Seq, most)
			}
		})
	}
}
