package embedded_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/engine/embedded"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/memory"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/step"
)

// asker is work that asks once before it does anything.
type asker struct {
	*testKind
	within time.Duration
	lives  [][]journal.TaskNoted // what each life of the task found noted
}

func newAsker() *asker {
	a := &asker{testKind: newKind()}
	a.hold = func(ctx context.Context, job *step.Job) error {
		a.lives = append(a.lives, job.History)
		if job.Noted(journal.NoteToolAnswer) > 0 {
			return nil
		}
		if err := job.Log.Note(ctx, step.Note{Kind: "reply", Data: "paid for"}); err != nil {
			return err
		}
		return &step.ApprovalRequired{Call: job.Key + "/call:1", Shows: map[string]json.RawMessage{"arguments": json.RawMessage(`{"to":"eva"}`)}, Within: a.within}
	}
	return a
}

// answers are what the last life of the task was told.
func (a *asker) answers(t *testing.T) []journal.ToolAnswer {
	t.Helper()
	var out []journal.ToolAnswer
	for _, n := range a.lives[len(a.lives)-1] {
		if n.Kind == journal.NoteToolAnswer {
			var one journal.ToolAnswer
			if err := json.Unmarshal(n.Data, &one); err != nil {
				t.Fatal(err)
			}
			out = append(out, one)
		}
	}
	return out
}

// asked is the gate that a run waits at.
func asked(t *testing.T, e *embedded.Engine) (shows map[string]json.RawMessage, decision plan.Decision) {
	t.Helper()
	state, p, _, err := e.Load(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	gates := state.OpenGates()
	if len(gates) != 1 || gates[0].Gate.Kind != journal.GateToolCall {
		t.Fatalf("%d gates", len(gates))
	}
	shows, digest := state.Shown(p, gates[0])
	return shows, plan.Decision{Step: gates[0].Step, Answer: plan.Approve, Digest: digest, By: journal.Actor{User: "eva"}, Note: "fine"}
}

func TestATaskThatAsks(t *testing.T) {
	for name, elsewhere := range map[string]bool{"here": false, "in another process": true} {
		for _, verdict := range []string{plan.Approve, plan.Reject} {
			t.Run(name+" "+verdict, func(t *testing.T) {
				kind, disk := newAsker(), memory.New()
				e := open(t, disk, kind, "one")
				begin(t, e, program([]ir.Step{task("a")}))
				if entry := rest(t, e); entry.Status != journal.Waiting || entry.Waiting != "approval: a" || e.Owns(id) {
					t.Fatalf("%+v", entry)
				}
				shows, decision := asked(t, e)
				if string(shows["arguments"]) != `{"to":"eva"}` {
					t.Errorf("it shows %s", shows)
				}
				decision.Answer = verdict
				if elsewhere {
					stop(e)
					e = open(t, disk, kind, "two")
				}
				if err := e.Send(t.Context(), id, decision, "ref"); err != nil {
					t.Fatal(err)
				}
				if entry := rest(t, e); entry.Outcome != "ok" || kind.done["a#0"] != 1 {
					t.Errorf("%+v, %v", entry, kind.done)
				}
				answers := kind.answers(t)
				want := []journal.ToolAnswer{{
					Call: "a#0/call:1", Digest: decision.Digest, Approved: verdict == plan.Approve, By: journal.Actor{User: "eva"}, Note: "fine",
				}}
				if len(kind.lives) != 2 || !slices.Equal(answers, want) || kind.lives[1][0].Kind != "reply" {
					t.Errorf("%d lives, told %+v, with %+v", len(kind.lives), answers, kind.lives)
				}
				if err := e.Send(t.Context(), id, decision, "again"); err == nil {
					t.Error("the same approval counted twice")
				}
			})
		}
	}
}

// Nothing but exactly what is asked can be decided.
func TestAnAnswerToSomethingElse(t *testing.T) {
	kind := newAsker()
	e := open(t, memory.New(), kind, "one")
	begin(t, e, program([]ir.Step{task("a")}))
	rest(t, e)
	_, good := asked(t, e)
	for name, change := range map[string]func(*plan.Decision){
		"no digest":      func(d *plan.Decision) { d.Digest = "" },
		"another digest": func(d *plan.Decision) { d.Digest = journal.GateDigest(id, "a#0/call:2", journal.GateToolCall, nil) },
		"a doubt's":      func(d *plan.Decision) { d.Answer = plan.AnswerSkip },
		"another step":   func(d *plan.Decision) { d.Step = "b" },
	} {
		d := good
		change(&d)
		var refused *plan.Refusal
		if err := e.Send(t.Context(), id, d, "ref"); !errors.As(err, &refused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if kind.done["a#0"] != 0 || len(kind.lives) != 1 {
		t.Errorf("it went on: %v", kind.done)
	}
}

func TestNobodyAnswers(t *testing.T) {
	kind := newAsker()
	kind.within = time.Millisecond
	e := open(t, memory.New(), kind, "one")
	begin(t, e, program([]ir.Step{task("a")}))
	for { // the clock goes on by itself
		if entry := rest(t, e); entry.Status == journal.Finished {
			break
		}
	}
	if answers := kind.answers(t); len(answers) != 1 || answers[0].Approved || !answers[0].TimedOut {
		t.Errorf("%+v", answers)
	}
}

// An answer that is only recorded loses nothing of what the task had noted.
func TestAnAnswerThatIsLeft(t *testing.T) {
	kind, disk := newAsker(), memory.New()
	e := open(t, disk, kind, "one")
	begin(t, e, program([]ir.Step{task("a")}))
	rest(t, e)
	_, decision := asked(t, e)
	stop(e)
	e = open(t, disk, kind, "two")
	e.Hold()
	if err := e.Send(t.Context(), id, decision, "ref"); err != nil {
		t.Fatal(err)
	}
	stop(e)
	if len(kind.lives) != 1 {
		t.Fatal("it was carried on")
	}
	e = open(t, disk, kind, "three")
	if entry, err := finish(t, e); err != nil || entry.Outcome != "ok" {
		t.Fatalf("%+v, %v", entry, err)
	}
	if len(kind.lives) != 2 || len(kind.answers(t)) != 1 || kind.lives[1][0].Kind != "reply" {
		t.Errorf("%+v", kind.lives)
	}
}

func TestCancelledWhileItAsks(t *testing.T) {
	kind := newAsker()
	e := open(t, memory.New(), kind, "one")
	begin(t, e, program([]ir.Step{task("a"), task("b")}))
	rest(t, e)
	if err := e.Send(t.Context(), id, plan.Cancel{}, "ref"); err != nil {
		t.Fatal(err)
	}
	if entry := rest(t, e); entry.Outcome != "cancelled" || len(kind.lives) != 1 {
		t.Errorf("%+v", entry)
	}
}
