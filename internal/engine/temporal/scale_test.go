//go:build temporal

package temporal_test

import (
	"encoding/json"
	"testing"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/engine/enginetest"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/step"
)

// each returns a program that repeats a block for each of many items.
func each(t *testing.T, items int, block ...ir.Step) *ir.Program {
	t.Helper()
	return withItems(t, items, enginetest.Program(
		[]ir.Step{{ID: "each", Type: "loop", Action: ir.Loop{
			Block: 1, Each: &ir.Each{Items: enginetest.List(t, "state.items"), Var: "item"},
		}}, enginetest.Task("z")}, block,
	))
}

// withItems adds the variable state.items to a program: a list with more items
// than an expression may have.
func withItems(t *testing.T, n int, p *ir.Program) *ir.Program {
	t.Helper()
	list, err := json.Marshal(make([]int, n))
	if err != nil {
		t.Fatal(err)
	}
	p.Vars = append(p.Vars, ir.Var{Path: "state.items", Init: list})
	return p
}

// finish waits for the end of a long run.
func finish(t *testing.T, e engine.Engine, id journal.RunID) journal.Entry {
	t.Helper()
	entry, err := e.Wait(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return entry
}

// A loop of 10,000 turns has more events than one workflow may have: the server
// suggests to continue as a new one, and every turn happens once.
func TestLoopOfTenThousandTurnsEnds(t *testing.T) {
	const turns = 10_000
	w := newWorld(t)
	kind := enginetest.NewKind()
	e := w.open(map[string]step.Runner{"test": kind})
	id := start(t, e, each(t, turns, enginetest.Task("x")))
	if entry := finish(t, e, id); entry.Outcome != journal.OutcomeOK {
		t.Fatalf("%+v", entry)
	}
	if len(kind.Done) != turns+1 {
		t.Errorf("%d tasks", len(kind.Done))
	}
	for key, n := range kind.Done {
		if n != 1 {
			t.Errorf("%s was done %d times", key, n)
		}
	}
	verify(t, w.store, id)
	all := settled(t, e, id)
	longest := 0
	for _, h := range all {
		longest = max(longest, len(h.Events))
	}
	if len(all) < 2 || longest > 30_000 {
		t.Errorf("%d workflows, the longest has %d events", len(all), longest)
	}
	t.Logf("%d workflows, the longest has %d events", len(all), longest)
	replay(t, e, all[:1])
}

// A workflow accepts 2,000 updates and no more; people decide more often than that
// in one run.
func TestTwoThousandDecisionsAreTaken(t *testing.T) {
	const turns = 2100
	w := newWorld(t)
	e := w.open(map[string]step.Runner{"test": enginetest.NewKind()})
	id := start(t, e, each(t, turns, ir.Step{ID: "g", Type: "gate", Action: ir.Gate{Decider: ir.Person}}))
	for range turns {
		if entry := rest(t, e, id); entry.Status == journal.Finished {
			t.Fatalf("%+v", entry)
		}
		state, p, _, err := e.Load(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		gate := state.OpenGates()[0]
		_, digest := state.Shown(p, gate)
		if err := e.Send(t.Context(), id, plan.GateDecision{
			Frame: gate.Path, Step: gate.Step, Answer: journal.AnswerApprove, Digest: digest, By: actor,
		}, "ref"); err != nil {
			t.Fatal(err)
		}
	}
	if entry := finish(t, e, id); entry.Outcome != journal.OutcomeOK {
		t.Fatalf("%+v", entry)
	}
	decided := 0
	for event, err := range w.store.Events(t.Context(), id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := event.Fact.(journal.GateDecided); ok {
			decided++
		}
	}
	if decided != turns {
		t.Errorf("%d decisions", decided)
	}
	verify(t, w.store, id)
	t.Logf("%d workflows", len(settled(t, e, id)))
}
