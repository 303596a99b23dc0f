package embedded_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/espalier-run/espalier/internal/engine/embedded"
	"github.com/espalier-run/espalier/internal/engine/enginetest"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/memorytest"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/step"
)

// hooked is a store whose calls a test can delay. A nil hook delays nothing.
type hooked struct {
	journal.Store
	beforeClaim func()
	afterClaim  func(error)
	afterPost   func()
	// append receives each batch and a function that hands it to the store.
	append func(b journal.Batch, forward func())
}

func (h *hooked) Claim(ctx context.Context, run journal.RunID, me journal.Owner) (journal.Claim, error) {
	if h.beforeClaim != nil {
		h.beforeClaim()
	}
	claim, err := h.Store.Claim(ctx, run, me)
	if h.afterClaim != nil {
		h.afterClaim(err)
	}
	return claim, err
}

func (h *hooked) Enqueue(ctx context.Context, run journal.RunID, m journal.Message) (journal.Owner, error) {
	owner, err := h.Store.Enqueue(ctx, run, m)
	if h.afterPost != nil {
		h.afterPost()
	}
	return owner, err
}

func (h *hooked) Append(b journal.Batch, done func(error)) {
	forward := func() { h.Store.Append(b, done) }
	if h.append == nil {
		forward()
		return
	}
	h.append(b, forward)
}

// rivals are engines over one store.
type rivals struct {
	t     *testing.T
	store *memorytest.Store
	peers peers
	kind  *enginetest.Kind
}

func newRivals(t *testing.T) *rivals {
	r := &rivals{t: t, kind: enginetest.NewKind()}
	r.store = memorytest.NewShared(r.peers.dead)
	return r
}

// open returns an engine that listens for messages until the context ends.
func (r *rivals) open(ctx context.Context, name journal.Owner, hooks *hooked) *embedded.Engine {
	hooks.Store = r.store
	e := newEngine(hooks, r.peers.join(name), r.kind)
	go e.Listen(ctx)
	return e
}

// A run is paused and canceled while its process waits for it: the process
// claims the run again for the second message, but the sender of that message is
// faster and finishes the run. The wait must end.
func TestWaitEndsWhenAnotherProcessFinishesTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newRivals(t)
		defer all.store.Close()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		end, released, refused := make(chan struct{}), make(chan func(), 1), make(chan struct{})
		all.kind.Hold = func(context.Context, *step.Job) error {
			<-end
			return nil
		}
		claimed := make(chan struct{})
		runner := &hooked{append: func(b journal.Batch, forward func()) {
			if b.Release {
				released <- forward
				return
			}
			forward()
		}}
		e := all.open(ctx, "runner", runner)
		enginetest.Begin(t, e, enginetest.Program([]ir.Step{enginetest.Task("a"), enginetest.Task("b")}))
		rested := make(chan journal.Entry, 1)
		go func() {
			if entry, err := e.Wait(ctx, enginetest.ID); err == nil {
				rested <- entry
			}
		}()
		synctest.Wait()

		canceller := &hooked{}
		other := all.open(ctx, "canceller", canceller)
		other.Hold()
		if err := other.Send(ctx, enginetest.ID, plan.Pause{}, "pause"); err != nil {
			t.Fatal(err)
		}
		close(end) // The runner releases the paused run …
		forward := <-released
		runner.append = nil
		canceled := make(chan error, 1)
		go func() { canceled <- other.Send(ctx, enginetest.ID, plan.Cancel{}, "cancel") }()
		synctest.Wait() // … and receives the second message before the release is durable.
		runner.beforeClaim = func() { <-claimed }
		runner.afterClaim = func(error) { close(refused) }
		canceller.afterClaim = func(err error) {
			if err == nil {
				close(claimed)
				<-refused
			}
		}
		forward()
		if err := <-canceled; err != nil {
			t.Error(err)
		}
		select {
		case entry := <-rested:
			if entry.Status != journal.Finished && entry.Status != journal.PausedAt {
				t.Errorf("the wait ends with %+v", entry)
			}
		case <-time.After(time.Minute):
			t.Error("the process waits for a run that is over")
		}
		cancel()
		enginetest.Stop(e)
		enginetest.Stop(other)
	})
}

// The process whose decision is refused has claimed the run and finds the
// decision of another process in the inbox. It accepts that decision, so it
// drives the run to its end. The other process learns that its decision counts.
func TestRefusedDecisionStillDrivesTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newRivals(t)
		defer all.store.Close()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		all.kind.Hold = func(context.Context, *step.Job) error {
			time.Sleep(time.Hour)
			return nil
		}
		first := all.open(ctx, "first", &hooked{})
		enginetest.Begin(t, first, enginetest.Program([]ir.Step{gate("g"), enginetest.Task("a")}))
		enginetest.Rest(t, first)

		claimed, posted := make(chan struct{}), make(chan struct{})
		loser := all.open(ctx, "loser", &hooked{afterClaim: func(error) {
			close(claimed)
			<-posted
		}})
		winner := all.open(ctx, "winner", &hooked{afterPost: func() { close(posted) }})
		decide := func(e *embedded.Engine, answer journal.Answer, ref string) func(context.Context) error {
			return func(ctx context.Context) error { return e.Send(ctx, enginetest.ID, decision(t, e, answer), ref) }
		}
		refused := make(chan error, 1)
		go func() {
			entry, err := enginetest.Drive(ctx, loser, decide(loser, journal.AnswerReject, "loser"))
			if entry.Status != journal.Finished {
				t.Errorf("the process that holds the run gives it up as %+v", entry)
			}
			refused <- err
		}()
		<-claimed
		entry, err := enginetest.Drive(ctx, winner, decide(winner, journal.AnswerApprove, "winner"))
		if err != nil || entry.Status != journal.Running || entry.Owner != "loser" {
			t.Errorf("the accepted decision: %+v, %v", entry, err)
		}
		if r, ok := plan.IsRefusal(<-refused); !ok || r.Code != plan.NoGate {
			t.Errorf("the refused decision: %v", r)
		}
		if entry, err := all.store.Entry(ctx, enginetest.ID); err != nil || entry.Outcome != journal.OutcomeOK ||
			all.kind.Done["a#0"] != 1 {
			t.Errorf("%+v, %v, done %v", entry, err, all.kind.Done)
		}
		cancel()
		enginetest.Stop(first)
		enginetest.Stop(loser)
		enginetest.Stop(winner)
	})
}

// A process that only records accepts the message of another process and starts
// nothing: the sender drives the run.
func TestSenderDrivesARunThatAHeldEngineAccepts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newRivals(t)
		defer all.store.Close()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		first := all.open(ctx, "first", &hooked{})
		enginetest.Begin(t, first, enginetest.Program([]ir.Step{gate("g"), enginetest.Task("a")}))
		enginetest.Rest(t, first)

		claimed, posted := make(chan struct{}), make(chan struct{})
		recorder := all.open(ctx, "recorder", &hooked{afterClaim: func(error) {
			close(claimed)
			<-posted
		}})
		recorder.Hold()
		approver := all.open(ctx, "approver", &hooked{afterPost: func() { close(posted) }})
		edited := make(chan error, 1)
		edit := plan.Edit{Path: "state.x", Value: []byte("1")}
		go func() { edited <- recorder.Send(ctx, enginetest.ID, edit, "edit") }()
		<-claimed
		entry, err := enginetest.Drive(ctx, approver, func(ctx context.Context) error {
			return approver.Send(ctx, enginetest.ID, decision(t, approver, journal.AnswerApprove), "approve")
		})
		if err != nil || entry.Status != journal.Finished {
			t.Errorf("the approved run is left as %+v, %v", entry, err)
		}
		if err := <-edited; err != nil {
			t.Error(err)
		}
		cancel()
		enginetest.Stop(first)
		enginetest.Stop(recorder)
		enginetest.Stop(approver)
	})
}

func gate(id string) ir.Step {
	return ir.Step{ID: id, Type: "gate", Action: ir.Gate{Decider: ir.Person}}
}

// decision returns a decision about what the open gate shows.
func decision(t *testing.T, e *embedded.Engine, answer journal.Answer) plan.GateDecision {
	state, program, _, err := e.Load(t.Context(), enginetest.ID)
	if err != nil {
		t.Fatal(err)
	}
	d := plan.GateDecision{Answer: answer}
	for _, f := range state.OpenGates() {
		d.Step = f.Step
		_, d.Digest = state.Shown(program, f)
	}
	return d
}
