package embedded_test

import (
	"context"
	"errors"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/memory"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/step"
)

// A task that waits for budget inside of itself does not keep a run from being
// cancelled, also when nobody does the task any more.
func TestCancelledWhileItWaitsForBudget(t *testing.T) {
	for _, where := range []string{"here", "in another process", "and its process dies then"} {
		kind, disk := newKind(), memory.New()
		kind.hold = reserving(40)
		p := program([]ir.Step{task("a"), task("b")})
		p.Budget.Tokens = &ir.Limit{Max: 150}
		e := open(t, disk, kind, "one")
		begin(t, e, p)
		if entry := rest(t, e); entry.Status != journal.Exceeded {
			t.Fatalf("%+v", entry)
		}
		for _, in := range []plan.Input{plan.Edit{Path: "state.x", Value: []byte("1")}, plan.Rewind{Step: "a"}} {
			if r, ok := plan.IsRefusal(e.Send(t.Context(), id, in, "r")); !ok || r.Why != "a step waits for budget: raise it first, or cancel the run" {
				t.Errorf("%T: %v", in, r)
			}
		}
		switch where {
		case "in another process":
			stop(e)
			e = open(t, disk, kind, "two")
		case "and its process dies then":
			stop(e)
			dying := open(t, &stopping{Store: disk, left: 1, after: true}, kind, "two")
			if err := dying.Send(t.Context(), id, plan.Cancel{}, "r"); !errors.Is(err, errStop) {
				t.Fatal(err)
			}
			stop(dying)
			e = open(t, disk, kind, "three")
			if err := e.Resume(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		if where != "and its process dies then" {
			if err := e.Send(t.Context(), id, plan.Cancel{}, "r"); err != nil {
				t.Fatal(err)
			}
		}
		if entry := rest(t, e); entry.Status != journal.Finished || entry.Outcome != "cancelled" {
			t.Errorf("%s: %+v", where, entry)
		}
		if len(kind.done) != 0 {
			t.Errorf("done: %v", kind.done)
		}
	}
}

// When the winner of several branches is known, one that waits for budget is
// given up like all the others, and the run goes on.
func TestABranchThatWaitsForBudgetLoses(t *testing.T) {
	for _, gated := range []bool{false, true} {
		kind := newKind()
		starve := reserving(40)
		starved := make(chan struct{})
		kind.hold = func(ctx context.Context, job *step.Job) error {
			switch job.Step.ID {
			case "slow":
				close(starved)
				return starve(ctx, job)
			case "quick":
				<-starved
			}
			return nil
		}
		quick := []ir.Step{task("quick")}
		if gated {
			quick = []ir.Step{{ID: "g", Type: "gate", Action: ir.Gate{Decider: ir.Person}}}
		}
		p := program(
			[]ir.Step{{ID: "fan", Type: "parallel", Action: ir.Parallel{Join: ir.JoinAny, Branches: []ir.Branch{{Name: "x", Block: 1}, {Name: "y", Block: 2}}}}, task("b")},
			[]ir.Step{task("slow")}, quick)
		p.Budget.Tokens = &ir.Limit{Max: 50}
		e := open(t, memory.New(), kind, "one")
		begin(t, e, p)
		entry := rest(t, e)
		if gated {
			if entry.Status != journal.Exceeded {
				t.Fatalf("%+v", entry)
			}
			answer(t, e)
			entry = rest(t, e)
		}
		if entry.Outcome != "ok" || kind.done["b#0"] != 1 {
			t.Errorf("gated %t: %+v, %v", gated, entry, kind.done)
		}
	}
}
