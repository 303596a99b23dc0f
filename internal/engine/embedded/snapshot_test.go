package embedded_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/memory"
)

// counting counts the events that are read, and what snapshots weigh.
type counting struct {
	journal.Store
	snapshots int // bytes of all
	events    int // bytes of all
}

func (c *counting) Append(b journal.Batch, done func(error)) {
	c.snapshots += len(b.Snapshot)
	if body, err := journal.Encode(nil, b.Events); err == nil {
		c.events += len(body)
	}
	c.Store.Append(b, done)
}

// A long run is carried on from its newest snapshot: what has to be read does
// not grow with its history, and snapshots are a share of what it writes.
func TestLongRunsAreResumedFromSnapshots(t *testing.T) {
	const turns = 5000
	for name, p := range map[string]*ir.Program{
		"loop":  program([]ir.Step{{ID: "loop", Type: "loop", Action: ir.Loop{Block: 1, Max: turns}}, {ID: "g", Action: ir.Gate{Decider: ir.Person}}}, []ir.Step{task("turn")}),
		"chain": chain(1500),
	} {
		t.Run(name, func(t *testing.T) {
			store := &counting{Store: memory.New()}
			e := open(t, store, newKind(), "one")
			if err := e.Start(t.Context(), id, &engine.Definition{Program: p}, json.RawMessage("{}"), nil, journal.Actor{}); err != nil {
				t.Fatal(err)
			}
			entry := rest(t, e)
			if entry.Status != journal.Waiting {
				t.Fatalf("%+v", entry)
			}
			stop(e)
			seq, _, err := store.Snapshot(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			// A state that grows with the run has snapshots ever further apart.
			if behind := entry.Seq - seq; behind > entry.Seq*2/3 || name == "loop" && behind > 1000 {
				t.Errorf("%d of %d events have to be read again", behind, entry.Seq)
			}
			if store.snapshots > store.events/2 {
				t.Errorf("snapshots of %d bytes for events of %d bytes", store.snapshots, store.events)
			}
			e = open(t, store, newKind(), "two")
			if !answer(t, e) {
				t.Fatal("nothing is asked")
			}
			if entry := rest(t, e); entry.Outcome != "ok" {
				t.Errorf("%+v", entry)
			}
		})
	}
}

func chain(n int) *ir.Program {
	steps := make([]ir.Step, n, n+1)
	for i := range steps {
		steps[i] = task(fmt.Sprintf("s%d", i))
	}
	return program(append(steps, ir.Step{ID: "g", Action: ir.Gate{Decider: ir.Person}}))
}
