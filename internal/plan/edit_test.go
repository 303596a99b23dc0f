package plan_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
)

// edit returns an edit of a variable by the user "eva".
func edit(path, value string) plan.Edit {
	return plan.Edit{Path: path, Value: json.RawMessage(value), By: journal.Actor{User: "eva"}}
}

// approveGate approves the only open gate.
func (w *world) approveGate() {
	g := w.s.OpenGates()[0]
	_, digest := w.s.Shown(w.p, g)
	w.send(plan.GateDecision{Step: g.Step, Frame: g.Path, Answer: journal.AnswerApprove, Digest: digest})
}

// gateProgram returns a program whose gate shows state.a, before the step b.
func gateProgram() *ir.Program {
	return program(chain(task("a"), ir.Step{
		ID: "g", Action: ir.Gate{Decider: ir.Person}, Reads: []ir.Ref{{Path: "state.a"}, {Path: "input.x"}},
		Writes: []ir.Write{{Path: "state.g"}},
	}, task("b"), task("c"))...)
}

// An approval is for what was shown: nothing of it can be edited afterwards, unless the gate opens again.
func TestApprovedValuesCannotBeEdited(t *testing.T) {
	approved := func(t *testing.T) *world {
		w := start(t, gateProgram(), "")
		w.finishTask(0)
		w.send(plan.Pause{})
		w.approveGate() // as approve --no-continue does, nothing continues
		return w
	}
	t.Run("the value, what contains it, and its parts", func(t *testing.T) {
		w := approved(t)
		for _, path := range []string{"state.a", "state.a.name"} {
			w.checkRefused(t, edit(path, `1`), plan.Approved)
		}
		if err := w.s.Check(w.p, edit("state.a", `1`)); !strings.Contains(err.Error(), `the approval of "g" is for state.a`) {
			t.Error(err)
		}
		if r, _ := plan.IsRefusal(w.s.Check(w.p, edit("state.a", `1`))); r.Step != "g" {
			t.Errorf("the step to go back to is %q", r.Step)
		}
		w.send(edit("state.b", `1`)) // which was not shown
		if got := string(w.s.Root().Scope["state.b"].JSON); got != "1" {
			t.Errorf("state.b is %s", got)
		}
	})
	t.Run("also after a snapshot", func(t *testing.T) {
		w := approved(t)
		restored, err := plan.Restore(w.s.Snapshot())
		if err != nil {
			t.Fatal(err)
		}
		w.s = restored
		w.checkRefused(t, edit("state.a", `1`), plan.Approved)
	})
	t.Run("a rejected gate does not bind", func(t *testing.T) {
		p := gateProgram()
		p.Blocks[0].Steps[1].Next = []ir.Edge{{On: []ir.Outcome{ir.OK, ir.Rejected}, To: ir.Target{Step: "b"}}}
		w := start(t, p, "")
		w.finishTask(0)
		w.send(plan.Pause{})
		_, digest := w.s.Shown(w.p, w.s.OpenGates()[0])
		w.send(plan.GateDecision{Answer: journal.AnswerReject, Digest: digest})
		if err := w.s.Check(w.p, edit("state.a", `1`)); err != nil {
			t.Error(err)
		}
	})
	t.Run("a rewind to the gate opens it again", func(t *testing.T) {
		w := start(t, gateProgram(), "")
		w.finishTask(0)
		var at plan.Checkpoint // of the gate
		state := &plan.State{Run: w.s.Run}
		for _, e := range w.log {
			if was, ok := state.Reaches(&e, "g"); ok {
				at = was
			}
			state.Fold([]journal.Event{e})
		}
		w.send(plan.Pause{})
		w.approveGate()
		w.send(plan.Rewind{Step: "g", Was: at}, plan.Continue{})
		if len(w.s.OpenGates()) != 1 {
			t.Fatal(describe(w.log))
		}
		if w.send(edit("state.a", `"new"`)); string(w.s.Root().Scope["state.a"].JSON) != `"new"` {
			t.Error(describe(w.log))
		}
	})
	t.Run("a rewind to a step before the gate takes the approval back", func(t *testing.T) {
		w := approved(t)
		w.send(plan.Rewind{Step: "a"})
		if err := w.s.Check(w.p, edit("state.a", `1`)); err != nil {
			t.Error(err)
		}
	})
	t.Run("a rewind to a step after the gate keeps the approval", func(t *testing.T) {
		w := start(t, gateProgram(), "")
		w.finishTask(0)
		w.approveGate() // b runs
		was, ok := plan.Checkpoint{}, false
		state := &plan.State{Run: w.s.Run}
		for _, e := range w.log {
			if at, reached := state.Reaches(&e, "b"); reached {
				was, ok = at, true
			}
			state.Fold([]journal.Event{e})
		}
		if !ok || len(was.Approved) != 1 {
			t.Fatalf("%+v", was)
		}
		w.send(plan.Pause{})
		w.finishTask(0)
		w.send(plan.Rewind{Step: "b", Was: was})
		w.checkRefused(t, edit("state.a", `1`), plan.Approved)
	})
}

// A run that continues another one inherits its approvals.
func TestContinuedRunsKeepApprovals(t *testing.T) {
	p := plan.Compile(gateProgram())
	was := plan.Checkpoint{Approved: []journal.Approved{{Gate: "g", At: "g", Back: "g", Shown: []string{"state.a"}}}}
	x := edit("state.a", `1`)
	if r, ok := plan.IsRefusal(was.CheckEdit(p, &x)); !ok || r.Code != plan.Approved || r.Step != "g" {
		t.Errorf("%+v", r)
	}
	if err := (&plan.Checkpoint{}).CheckEdit(p, &x); err != nil { // from the gate, or from a step before it
		t.Error(err)
	}
	s, _ := plan.Start(p, "run-1", journal.RunStarted{
		From: &journal.Origin{Run: "run-0", Step: "b"}, Approved: was.Approved,
	}, 0, true)
	if r, ok := plan.IsRefusal(s.Check(p, x)); !ok || r.Code != plan.Approved {
		t.Errorf("%+v", r)
	}
}

// A gate in a loop opens again in the next iteration; the value can be edited there.
func TestGateInALoopForgetsItsApprovalWhenItOpensAgain(t *testing.T) {
	p := program()
	p.Blocks = append(p.Blocks, ir.Block{Steps: chain(task("a"), ir.Step{
		ID: "g", Action: ir.Gate{Decider: ir.Person}, Reads: []ir.Ref{{Path: "state.a"}},
	}, task("b"))})
	p.Blocks[0].Steps = []ir.Step{{ID: "again", Action: ir.Loop{Block: 1, Max: 2}}}
	w := start(t, p, "")
	w.finishTask(0)
	w.send(plan.Pause{})
	w.approveGate()
	w.checkRefused(t, edit("state.a", `1`), plan.Approved)
	if r, _ := plan.IsRefusal(w.s.Check(w.p, edit("state.a", `1`))); r.Step != "again" {
		t.Errorf("the step to go back to is %q, which is not on the main line", r.Step)
	}
	w.send(plan.Continue{})
	w.finishTask(0) // b, and then a of the second iteration
	w.finishTask(0)
	if len(w.s.OpenGates()) != 1 {
		t.Fatal(describe(w.log))
	}
	if err := w.s.Check(w.p, edit("state.a", `1`)); err != nil {
		t.Error(err)
	}
}

// An approval in one parallel branch is not forgotten when the same gate opens in another one.
func TestParallelGatesKeepTheirApprovals(t *testing.T) {
	p := program()
	fan := ir.Parallel{Join: ir.JoinAll, MaxConcurrent: 1}
	for _, name := range []string{"x", "y"} {
		fan.Branches = append(fan.Branches, ir.Branch{Name: name, Block: p.AddBlock(ir.Block{Steps: []ir.Step{{
			ID: "ask", Action: ir.Gate{Decider: ir.Person}, Reads: []ir.Ref{{Path: "state.a"}},
		}}})})
	}
	p.Blocks[0].Steps = []ir.Step{{ID: "fan", Action: fan}}
	w := start(t, p, "")
	w.approveGate()
	if len(w.s.OpenGates()) != 1 {
		t.Fatal(describe(w.log))
	}
	w.checkRefused(t, edit("state.a", `1`), plan.Approved)
}

func TestEditsNameVariablesOfTheProgram(t *testing.T) {
	p := gateProgram()
	p.Vars = []ir.Var{{Path: "state.limit"}}
	p.Blocks[0].Steps = append(p.Blocks[0].Steps, ir.Step{
		ID: "d", Action: ir.Task{Kind: "test"}, Reads: []ir.Ref{{Path: "state.registry"}},
		Writes: []ir.Write{{Path: "output"}},
	})
	compiled := plan.Compile(p)
	compiled.CheckVariable = func(_ *ir.Program, path string, value json.RawMessage) error {
		if path == "state.limit" && value[0] == '"' {
			return errors.New("it is not a number")
		}
		return nil
	}
	for _, c := range []struct{ path, value, want string }{
		{"state.a", `1`, ""},
		{"state.a.part", `1`, ""},
		{"state.registry", `"prod"`, ""},
		{"output.anything", `1`, ""},
		{"state.limit", `3`, ""},
		{"state.limit", `"3"`, "it is not a number"},
		{"state.registr", `1`, `no step of this workflow reads or writes "state.registr": did you mean "state.registry"?`},
		{"registry", `1`, `did you mean "state.registry"?`},
		{"state.h", `1`, `did you mean "state.a"?`}, // not state.g, which cannot be edited
		{"run.id", `1`, "Espalier sets it for each run"},
		{"state.g", `{}`, `records the decision of step "g"`},
		{"state", `{}`, `records the decision of step "g"`},
	} {
		x := edit(c.path, c.value)
		err := compiled.CheckEdit(&x)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s=%s: %v, want %q", c.path, c.value, err, c.want)
		}
	}
}

// Old snapshots do not know which gates were approved, so they have another form.
func TestSnapshotsHaveAForm(t *testing.T) {
	w := start(t, gateProgram(), "")
	restored, err := plan.Restore(w.s.Snapshot())
	if err != nil || restored.Form != plan.SnapshotForm {
		t.Errorf("%v, %v", restored, err)
	}
	if old, err := plan.Restore([]byte(`{"run":"run-1","seq":1}`)); err != nil || old.Form == plan.SnapshotForm {
		t.Errorf("%v, %v", old, err)
	}
}
