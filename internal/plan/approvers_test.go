package plan_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
)

// atGate returns a run that "starter" has started and that waits at a gate with
// approvers.
func atGate(t *testing.T, g ir.Gate) *world {
	t.Helper()
	g.Decider = ir.Person
	p := program(chain(task("a"), ir.Step{
		ID: "g", Action: g, Reads: []ir.Ref{{Path: "state.a"}}, Writes: []ir.Write{{Path: "state.g"}},
	}, task("b"))...)
	w := start(t, p, "")
	started := w.log[0].Fact.(journal.RunStarted)
	started.By = journal.Actor{User: "starter", Method: "token"}
	w.log[0].Fact, w.s.By = started, started.By
	w.finishTask(0)
	return w
}

// signedDecision returns the decision of an authenticated person about what the gate shows.
func (w *world) signedDecision(answer journal.Answer, user string, roles ...string) plan.GateDecision {
	_, digest := w.s.Shown(w.p, w.s.OpenGates()[0])
	return plan.GateDecision{
		Step: "g", Answer: answer, Digest: digest, By: journal.Actor{User: user, Method: "token"}, Roles: roles,
	}
}

// checkRefused checks that an input is refused with a code, before and when it is sent, and that it leaves the gates
// open.
func (w *world) checkRefused(t *testing.T, in plan.Input, want plan.RefusalCode) {
	t.Helper()
	if r, ok := plan.IsRefusal(w.s.Check(w.p, in)); !ok || r.Code != want {
		t.Errorf("%+v: got %v, want the refusal %s", in, r, want)
	}
	before := len(w.s.OpenGates())
	events := w.send(in)
	if _, ok := events[0].Fact.(journal.InputRefused); !ok || len(w.s.OpenGates()) != before {
		t.Errorf("%+v was not refused: %s", in, describe(events))
	}
}

func TestOnlyApproversDecideAGate(t *testing.T) {
	legal := ir.Gate{Approvers: &ir.Approvers{Roles: []string{"legal", "finance"}}}
	for name, c := range map[string]struct {
		gate    ir.Gate
		roles   []string
		allowed bool
	}{
		"a person with one of the roles":     {legal, []string{"ops", "finance"}, true},
		"the owner of the project":           {legal, []string{plan.AnyRole}, true},
		"a person with another role":         {legal, []string{"ops"}, false},
		"a person without roles":             {legal, nil, false},
		"any approver of a gate for anyone":  {ir.Gate{Approvers: &ir.Approvers{Min: 1}}, []string{"approver"}, true},
		"a program that only sends messages": {ir.Gate{Approvers: &ir.Approvers{Min: 1}}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, answer := range []journal.Answer{journal.AnswerApprove, journal.AnswerReject} {
				w := atGate(t, c.gate)
				if !c.allowed {
					w.checkRefused(t, w.signedDecision(answer, "eva", c.roles...), plan.NotAllowed)
					continue
				}
				w.send(w.signedDecision(answer, "eva", c.roles...))
				if len(w.s.OpenGates()) != 0 {
					t.Error("the decision did not count")
				}
			}
		})
	}
	t.Run("an event needs the role of an approver", func(t *testing.T) {
		g := legal
		g.Event = "go"
		w := atGate(t, g)
		by := journal.Actor{User: "eva", Method: "token"}
		yes := plan.Signal{Event: "go", Data: json.RawMessage(`{"approved": true}`), By: by, Roles: []string{"ops"}}
		w.checkRefused(t, yes, plan.NotAllowed)
		yes.Roles = []string{"legal"}
		if w.send(yes); len(w.s.OpenGates()) != 0 {
			t.Error("the event did not count")
		}
	})
	t.Run("an event at a gate without approvers", func(t *testing.T) {
		w := atGate(t, ir.Gate{Event: "go"})
		by := journal.Actor{User: "nightly", Method: "token"}
		yes := plan.Signal{Event: "go", Data: json.RawMessage(`{"approved": true}`), By: by}
		w.checkRefused(t, yes, plan.NotAllowed)
		yes.Roles = []string{"approver"}
		if w.send(yes); len(w.s.OpenGates()) != 0 {
			t.Error("the event of an approver did not count")
		}
		w = atGate(t, ir.Gate{Event: "go"})
		yes.By, yes.Roles = journal.Actor{User: "root"}, nil // at the terminal, without a server
		if w.send(yes); len(w.s.OpenGates()) != 0 {
			t.Error("the event of the owner did not count")
		}
	})
	t.Run("a claimed name counts without a server", func(t *testing.T) {
		w := atGate(t, legal)
		d := w.signedDecision(journal.AnswerApprove, "root")
		d.By = journal.Actor{User: "root", As: "eva"}
		if w.send(d); len(w.s.OpenGates()) != 0 {
			t.Error("the claim did not count")
		}
	})
}

func TestGateNeedsSeveralPeople(t *testing.T) {
	two := ir.Gate{Approvers: &ir.Approvers{Roles: []string{"legal"}, Min: 2}}
	t.Run("each person counts once", func(t *testing.T) {
		w := atGate(t, two)
		w.send(w.signedDecision(journal.AnswerApprove, "ann", "legal"))
		w.checkRefused(t, w.signedDecision(journal.AnswerApprove, "ann", "legal"), plan.Voted)
		gate := w.s.OpenGates()[0]
		if got := w.s.Approvers(w.p, gate).Approvals; len(got) != 1 || got[0].By.User != "ann" || got[0].At != w.now {
			t.Errorf("%+v", got)
		}
		w.send(w.signedDecision(journal.AnswerApprove, "ben", "legal"))
		var value struct {
			Result    string `json:"gate_result"`
			Actor     string
			Approvals []struct{ Actor string }
		}
		if err := json.Unmarshal(w.s.Root().Scope["state.g"].JSON, &value); err != nil || value.Result != "approved" ||
			value.Actor != "ben" || len(value.Approvals) != 1 || value.Approvals[0].Actor != "ann" {
			t.Errorf("%+v, %v", value, err)
		}
	})
	t.Run("a person is the same with a token and at the terminal", func(t *testing.T) {
		w := atGate(t, two)
		w.send(w.signedDecision(journal.AnswerApprove, "ann", "legal"))
		again := w.signedDecision(journal.AnswerApprove, "ann")
		again.By = journal.Actor{User: "root", As: "ann"}
		w.checkRefused(t, again, plan.Voted)
	})
	t.Run("one rejection decides", func(t *testing.T) {
		w := atGate(t, two)
		w.send(w.signedDecision(journal.AnswerApprove, "ann", "legal"))
		w.send(w.signedDecision(journal.AnswerReject, "ben", "legal"))
		if len(w.s.OpenGates()) != 0 || !strings.Contains(describe(w.log), "decided g rejected") {
			t.Error(describe(w.log))
		}
	})
	t.Run("an edit of what was shown discards approvals", func(t *testing.T) {
		w := atGate(t, two)
		w.send(w.signedDecision(journal.AnswerApprove, "ann", "legal"))
		w.send(plan.Edit{Path: "state.a", Value: json.RawMessage(`"changed"`)})
		if got := w.s.Approvers(w.p, w.s.OpenGates()[0]).Approvals; len(got) != 0 {
			t.Errorf("%+v", got)
		}
		w.send(w.signedDecision(journal.AnswerApprove, "ben", "legal"))
		if len(w.s.OpenGates()) != 1 {
			t.Fatal("the gate counted the approval of the old text")
		}
		w.send(w.signedDecision(journal.AnswerApprove, "ann", "legal"))
		if len(w.s.OpenGates()) != 0 {
			t.Error("the gate is still open")
		}
	})
	t.Run("approvals survive a snapshot", func(t *testing.T) {
		w := atGate(t, two)
		w.send(w.signedDecision(journal.AnswerApprove, "ann", "legal"))
		restored, err := plan.Restore(w.s.Snapshot())
		if err != nil {
			t.Fatal(err)
		}
		w.s = restored
		w.checkRefused(t, w.signedDecision(journal.AnswerApprove, "ann", "legal"), plan.Voted)
		if w.send(w.signedDecision(journal.AnswerApprove, "ben", "legal")); len(w.s.OpenGates()) != 0 {
			t.Error("the first approval is lost")
		}
	})
}

func TestFourEyesExcludeThePersonWhoStartedTheRun(t *testing.T) {
	w := atGate(t, ir.Gate{Approvers: &ir.Approvers{FourEyes: true}})
	w.checkRefused(t, w.signedDecision(journal.AnswerApprove, "starter", plan.AnyRole), plan.NotAllowed)
	w.checkRefused(t, w.signedDecision(journal.AnswerReject, "starter", plan.AnyRole), plan.NotAllowed)
	own := w.signedDecision(journal.AnswerApprove, "")
	own.By = journal.Actor{User: "starter"}
	w.checkRefused(t, own, plan.NotAllowed)
	if w.send(w.signedDecision(journal.AnswerApprove, "eva", "approver")); len(w.s.OpenGates()) != 0 {
		t.Error("another person cannot decide")
	}
}

func TestGatesEscalate(t *testing.T) {
	escalating := ir.Gate{Timeout: 10_000, OnTimeout: ir.TimeoutFail, Approvers: &ir.Approvers{
		Roles: []string{"legal"}, EscalateAfter: 4_000, EscalateTo: []string{"board"},
	}}
	t.Run("others may decide after the escalation", func(t *testing.T) {
		w := atGate(t, escalating)
		opened := w.now
		w.checkRefused(t, w.signedDecision(journal.AnswerApprove, "cho", "board"), plan.NotAllowed)
		if wake, ok := w.s.Wake(); !ok || wake != opened+4_000 {
			t.Errorf("the run wakes at %d", wake)
		}
		w.now = opened + 4_000
		w.send()
		if n := countTimers(w.log, plan.TimerEscalation); n != 1 {
			t.Errorf("it escalated %d times", n)
		}
		if wake, ok := w.s.Wake(); !ok || wake != opened+10_000 {
			t.Errorf("the run wakes at %d", wake)
		}
		if w.send(w.signedDecision(journal.AnswerApprove, "cho", "board")); len(w.s.OpenGates()) != 0 {
			t.Error("the board cannot decide")
		}
	})
	t.Run("the first approvers may still decide", func(t *testing.T) {
		w := atGate(t, escalating)
		w.now += 4_000
		w.send()
		if w.send(w.signedDecision(journal.AnswerApprove, "ann", "legal")); len(w.s.OpenGates()) != 0 {
			t.Error("they cannot decide")
		}
	})
	t.Run("the timeout follows the escalation", func(t *testing.T) {
		w := atGate(t, escalating)
		w.now += 60_000 // both timers are late
		w.send()
		if e, g := countTimers(w.log, plan.TimerEscalation), countTimers(w.log, plan.TimerGate); e != 1 || g != 1 {
			t.Errorf("%d escalations, %d timeouts", e, g)
		}
	})
	t.Run("no escalation after the timeout", func(t *testing.T) {
		late := escalating
		late.Approvers = &ir.Approvers{Roles: []string{"legal"}, EscalateAfter: 10_000, EscalateTo: []string{"board"}}
		w := atGate(t, late)
		w.now += 60_000
		w.send()
		if e, g := countTimers(w.log, plan.TimerEscalation), countTimers(w.log, plan.TimerGate); e != 0 || g != 1 {
			t.Errorf("%d escalations, %d timeouts", e, g)
		}
	})
}

func countTimers(log []journal.Event, what string) int {
	return len(slices.DeleteFunc(slices.Clone(log), func(e journal.Event) bool {
		x, ok := e.Fact.(journal.TimerFired)
		return !ok || x.What != what
	}))
}

func TestOnlyNotifyThenStopNotifies(t *testing.T) {
	for then, want := range map[ir.OnTimeout]bool{
		ir.TimeoutFail: false, ir.TimeoutNotify: true,
		ir.TimeoutSkip: false,
	} {
		w := atGate(t, ir.Gate{Timeout: 1000, OnTimeout: then})
		w.now += 1000
		var got bool
		for _, e := range w.send() {
			if x, ok := e.Fact.(journal.GateDecided); ok {
				got = x.Notify
			}
		}
		if got != want {
			t.Errorf("%s: %t", then, got)
		}
	}
}
