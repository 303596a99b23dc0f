package embedded_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/engine/enginetest"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/memorytest"
)

// counting counts the bytes of snapshots and of events that are read.
type counting struct {
	journal.Store
	snapshots int
	events    int
}

func (c *counting) Append(b journal.Batch, done func(error)) {
	c.snapshots += len(b.Snapshot)
	if body, err := journal.Encode(nil, b.Events); err == nil {
		c.events += len(body)
	}
	c.Store.Append(b, done)
}

// A long run is resumed from its newest snapshot: what has to be read does not
// grow with its history, and snapshots are a constant share of what it writes.
func TestLongRunsAreResumedFromSnapshots(t *testing.T) {
	const turns = 5000
	for name, p := range map[string]*ir.Program{
		"loop": enginetest.Program([]ir.Step{{
			ID: "loop", Type: "loop", Action: ir.Loop{Block: 1, Max: turns},
		}, {ID: "g", Action: ir.Gate{Decider: ir.Person}}}, []ir.Step{enginetest.Task("turn")}),
		"chain": chain(1500),
	} {
		t.Run(name, func(t *testing.T) {
			store := &counting{Store: memorytest.New()}
			e := open(t, store, enginetest.NewKind(), "one")
			if err := e.Start(
				t.Context(), enginetest.ID, &engine.Definition{Program: p}, json.RawMessage("{}"), nil, journal.Actor{},
			); err != nil {
				t.Fatal(err)
			}
			entry := enginetest.Rest(t, e)
			if entry.Status != journal.Waiting {
				t.Fatalf("%+v", entry)
			}
			enginetest.Stop(e)
			seq, _, err := store.Snapshot(t.Context(), enginetest.ID)
			if err != nil {
				t.Fatal(err)
			}
			// If the state grows with the run, the distance of snapshots grows,
			// too.
			if behind := entry.Seq - seq; behind > entry.Seq*2/3 || name == "loop" && behind > 1000 {
				t.Errorf("%d of %d events have to be read again", behind, entry.Seq)
			}
			if store.snapshots > store.events/2 {
				t.Errorf("snapshots of %d bytes for events of %d bytes", store.snapshots, store.events)
			}
			e = open(t, store, enginetest.NewKind(), "two")
			if !enginetest.Answer(t, e) {
				t.Fatal("nothing is asked")
			}
			if entry := enginetest.Rest(t, e); entry.Outcome != "ok" {
				t.Errorf("%+v", entry)
			}
		})
	}
}

func chain(n int) *ir.Program {
	steps := make([]ir.Step, n, n+1)
	for i := range steps {
		steps[i] = enginetest.Task(fmt.Sprintf("s%d", i))
	}
	return enginetest.Program(append(steps, ir.Step{ID: "g", Action: ir.Gate{Decider: ir.Person}}))
}
