package embedded_test

import (
	"context"
	"errors"
	"testing"

	"github.com/espalier-run/espalier/internal/engine/enginetest"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/memorytest"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/step"
)

// A run can be canceled while a task waits for budget, also if no process runs
// the task.
func TestRunCanBeCanceledWhileATaskWaitsForBudget(t *testing.T) {
	for _, where := range []string{"here", "in another process", "and its process dies then"} {
		kind, disk := enginetest.NewKind(), memorytest.New()
		kind.Hold = enginetest.Reserving(40)
		p := enginetest.Program([]ir.Step{enginetest.Task("a"), enginetest.Task("b")})
		p.Budget.Tokens = &ir.Limit{Max: 150}
		e := open(t, disk, kind, "one")
		enginetest.Begin(t, e, p)
		if entry := enginetest.Rest(t, e); entry.Status != journal.Exceeded {
			t.Fatalf("%+v", entry)
		}
		for _, in := range []plan.Input{plan.Edit{Path: "state.x", Value: []byte("1")}, plan.Rewind{Step: "a"}} {
			if r, ok := plan.IsRefusal(e.Send(t.Context(), enginetest.ID, in, "r")); !ok ||
				r.Why != "a step waits for budget: raise it first, or cancel the run" {
				t.Errorf("%T: %v", in, r)
			}
		}
		switch where {
		case "in another process":
			enginetest.Stop(e)
			e = open(t, disk, kind, "two")
		case "and its process dies then":
			enginetest.Stop(e)
			dying := open(t, &stopping{Store: disk, left: 1, after: true}, kind, "two")
			if err := dying.Send(
				t.Context(), enginetest.ID, plan.Cancel{}, "r",
			); !errors.Is(err, enginetest.ErrStopped) {
				t.Fatal(err)
			}
			enginetest.Stop(dying)
			e = open(t, disk, kind, "three")
			if err := e.Resume(t.Context(), enginetest.ID); err != nil {
				t.Fatal(err)
			}
		}
		if where != "and its process dies then" {
			if err := e.Send(t.Context(), enginetest.ID, plan.Cancel{}, "r"); err != nil {
				t.Fatal(err)
			}
		}
		if entry := enginetest.Rest(t, e); entry.Status != journal.Finished || entry.Outcome != "cancelled" {
			t.Errorf("%s: %+v", where, entry)
		}
		if len(kind.Done) != 0 {
			t.Errorf("done: %v", kind.Done)
		}
	}
}

// When the winner of several branches is known, one that waits for budget is
// canceled like the others, and the run continues.
func TestBranchThatWaitsForBudgetIsCanceled(t *testing.T) {
	for _, gated := range []bool{false, true} {
		kind := enginetest.NewKind()
		reserve := enginetest.Reserving(40)
		reserving := make(chan struct{})
		kind.Hold = func(ctx context.Context, job *step.Job) error {
			switch job.Step.ID {
			case "slow":
				close(reserving)
				return reserve(ctx, job)
			case "quick":
				<-reserving
			}
			return nil
		}
		quick := []ir.Step{enginetest.Task("quick")}
		if gated {
			quick = []ir.Step{{ID: "g", Type: "gate", Action: ir.Gate{Decider: ir.Person}}}
		}
		p := enginetest.Program(
			[]ir.Step{{ID: "fan", Type: "parallel", Action: ir.Parallel{
				Join: ir.JoinAny, Branches: []ir.Branch{{Name: "x", Block: 1}, {Name: "y", Block: 2}},
			}}, enginetest.Task("b")},
			[]ir.Step{enginetest.Task("slow")}, quick)
		p.Budget.Tokens = &ir.Limit{Max: 50}
		e := open(t, memorytest.New(), kind, "one")
		enginetest.Begin(t, e, p)
		entry := enginetest.Rest(t, e)
		if gated {
			if entry.Status != journal.Exceeded {
				t.Fatalf("%+v", entry)
			}
			enginetest.Answer(t, e)
			entry = enginetest.Rest(t, e)
		}
		if entry.Outcome != "ok" || kind.Done["b#0"] != 1 {
			t.Errorf("gated %t: %+v, %v", gated, entry, kind.Done)
		}
	}
}
