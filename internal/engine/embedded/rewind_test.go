package embedded_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/engine/embedded"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/memory"
	"github.com/espalier-run/espalier/internal/plan"
)

// back takes the run back to a step.
func back(t *testing.T, e *embedded.Engine, step string) error {
	t.Helper()
	was, err := e.Checkpoint(t.Context(), id, step)
	if err != nil {
		return err
	}
	return e.Send(t.Context(), id, plan.Rewind{Step: step, Was: was, By: journal.Actor{User: "eva"}}, "back")
}

// A run that waits, deep inside a parallel step, goes back to a step before
// it: what earlier steps wrote is kept, what came later is done again, and no
// task has the key of an earlier one.
func TestGoingBack(t *testing.T) {
	gate := func(id string) ir.Step { return ir.Step{ID: id, Type: "gate", Action: ir.Gate{Decider: ir.Person}} }
	p := program(
		[]ir.Step{task("a"), task("b"), {ID: "fan", Type: "parallel", Action: ir.Parallel{Join: ir.JoinAll, Branches: []ir.Branch{
			{Name: "x", Block: 1}, {Name: "y", Block: 2},
		}}}, task("never")},
		[]ir.Step{task("x1"), gate("xg")}, []ir.Step{task("y1"), gate("yg")})
	kind := newKind()
	store := memory.New()
	e := open(t, store, kind, "one")
	begin(t, e, p)
	rest(t, e)

	for step, want := range map[string]string{
		"never": "the run has never come to that step: never", "x1": "a branch, a loop", "other": "there is no step",
	} {
		err := back(t, e, step)
		if step != "never" {
			err = e.Send(t.Context(), id, plan.Rewind{Step: step}, "back")
		}
		if err == nil || !strings.Contains(err.Error(), want) || step == "never" && !errors.Is(err, engine.ErrNotReached) {
			t.Errorf("back to %s: %v", step, err)
		}
	}

	if err := back(t, e, "b"); err != nil {
		t.Fatal(err)
	}
	if entry := rest(t, e); entry.Status != journal.Waiting {
		t.Fatalf("%+v", entry)
	}
	state, _, _, err := e.Load(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(state.Root().Scope["state.a"].JSON); got != `"a#0"` {
		t.Errorf("state.a is %s", got)
	}
	if got := string(state.Root().Scope["state.b"].JSON); got != `"b~1#0"` {
		t.Errorf("state.b is %s", got)
	}
	if err := back(t, e, "b"); err != nil {
		t.Fatal(err)
	}
	rest(t, e)
	got, err := finish(t, e)
	if err != nil || got.Outcome != "ok" {
		t.Fatalf("%+v, %v", got, err)
	}
	want := []string{
		"a#0", "b#0", "b~1#0", "b~2#0", "fan/x/x1#0", "fan/y/y1#0", "fan~1/x/x1#0", "fan~1/y/y1#0", "fan~2/x/x1#0", "fan~2/y/y1#0", "never~1#0",
	}
	var done []string
	for key, n := range kind.done {
		done = append(done, key)
		if n != 1 {
			t.Errorf("%s was done %d times", key, n)
		}
	}
	slices.Sort(done)
	if !slices.Equal(done, want) {
		t.Errorf("done: %q", done)
	}
	// Every step that was begun has ended, as the records need it.
	open := map[string]bool{}
	for event, err := range store.Events(t.Context(), id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		switch x := event.Fact.(type) {
		case journal.GateOpened:
			open[x.Place.Key()] = true
		case journal.GateDecided:
			delete(open, x.Place.Key())
		case journal.StepLeft:
			delete(open, x.Place.Key())
		}
	}
	if len(open) > 0 {
		t.Errorf("never ended: %v", open)
	}
}

// A run that is over stays as it is; another one goes on from its step.
func TestGoingOnFromARunThatIsOver(t *testing.T) {
	kind := newKind()
	kind.fail["c"] = 1
	store := memory.New()
	e := open(t, store, kind, "one")
	begin(t, e, program([]ir.Step{task("a"), task("b"), task("c")}))
	if entry := rest(t, e); entry.Outcome != "failed" {
		t.Fatalf("%+v", entry)
	}
	over, err := store.Entry(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	kind.fail["c"] = 0
	const next journal.RunID = "00000000-0000-4000-8000-000000000002"
	if err := e.StartFrom(t.Context(), next, id, "c", journal.Actor{User: "eva"}); err != nil {
		t.Fatal(err)
	}
	entry, err := e.Wait(t.Context(), next)
	if err != nil || entry.Outcome != "ok" {
		t.Fatalf("%+v, %v", entry, err)
	}
	if kind.done["a#0"] != 1 || kind.done["b#0"] != 1 || kind.done["c#0"] != 2 {
		t.Errorf("done: %v", kind.done)
	}
	if after, err := store.Entry(t.Context(), id); err != nil || after != over {
		t.Errorf("the run that was over is now %+v, %v", after, err)
	}
	for event, err := range store.Events(t.Context(), next, 0) {
		if err != nil {
			t.Fatal(err)
		}
		started, ok := event.Fact.(journal.RunStarted)
		if !ok || started.From == nil || *started.From != (journal.Origin{Run: id, Step: "c"}) || string(started.Vars["state.b"].JSON) != `"b#0"` {
			t.Errorf("%+v", event.Fact)
		}
		break
	}
	if err := e.StartFrom(t.Context(), "00000000-0000-4000-8000-000000000003", id, "d", journal.Actor{}); err == nil {
		t.Error("went on from a step that is not there")
	}
}

// What came before in the run that another one goes on from is a part of its
// past, what came after in it is not.
func TestGoingFurtherBackThanARunThatGoesOn(t *testing.T) {
	kind := newKind()
	kind.fail["d"] = 9
	store := memory.New()
	e := open(t, store, kind, "one")
	begin(t, e, program([]ir.Step{task("a"), task("b"), task("c"), task("d")}))
	rest(t, e)
	runs := []journal.RunID{id, "00000000-0000-4000-8000-000000000002", "00000000-0000-4000-8000-000000000003", "00000000-0000-4000-8000-000000000004"}
	from := func(old, next journal.RunID, step string) error {
		t.Helper()
		if err := e.StartFrom(t.Context(), next, old, step, journal.Actor{User: "eva"}); err != nil {
			return err
		}
		_, err := e.Wait(t.Context(), next)
		return err
	}
	if err := from(runs[0], runs[1], "d"); err != nil {
		t.Fatal(err)
	}
	kind.fail["c"] = 9
	if err := from(runs[1], runs[2], "c"); err != nil {
		t.Fatal(err)
	}
	if err := from(runs[2], runs[3], "d"); !errors.Is(err, engine.ErrNotReached) {
		t.Errorf("to a step that came only after the one that the run goes on from: %v", err)
	}
	if err := from(runs[2], runs[3], "b"); err != nil {
		t.Fatal(err)
	}
	if kind.done["a#0"] != 1 || kind.done["b#0"] != 2 || kind.done["c#0"] != 3 || kind.done["d#0"] != 2 {
		t.Errorf("done: %v", kind.done)
	}
	for event, err := range store.Events(t.Context(), runs[3], 0) {
		if err != nil {
			t.Fatal(err)
		}
		started, ok := event.Fact.(journal.RunStarted)
		if !ok || *started.From != (journal.Origin{Run: runs[2], Step: "b"}) || string(started.Vars["state.a"].JSON) != `"a#0"` || started.Vars["state.b"].JSON != nil {
			t.Errorf("%+v", event.Fact)
		}
		break
	}
	if err := store.Delete(t.Context(), runs[0]); err != nil {
		t.Fatal(err)
	}
	if err := from(runs[3], "00000000-0000-4000-8000-000000000005", "a"); !errors.Is(err, engine.ErrNotReached) {
		t.Errorf("to a step of a run that has been deleted: %v", err)
	}
}
