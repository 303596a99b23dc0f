package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/engine/embedded"
	"github.com/espalier-run/espalier/internal/engine/enginetest"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/memorytest"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/step"
)

// noting is a kind whose recovery depends on its notes. Its last note comes with
// its result.
type noting struct {
	*enginetest.Kind
	seen chan string
	hold func(ctx context.Context, job *step.Job) error
}

func (*noting) Recovery(_ *ir.Task, history []journal.TaskNoted) step.Recovery {
	if len(history) > 0 {
		return step.Ask
	}
	return step.Rerun
}

func (k *noting) Run(ctx context.Context, job *step.Job) (step.Result, error) {
	k.seen <- kinds(job.History)
	if err := job.Log.Note(ctx, step.Note{Kind: fmt.Sprintf("begun%d", len(job.History))}); err != nil {
		return step.Result{}, err
	}
	if k.hold != nil {
		if err := k.hold(ctx, job); err != nil {
			return step.Result{}, err
		}
	}
	return step.Result{Value: []byte("1"), Notes: []step.Note{{Kind: "done"}}}, nil
}

func kinds(notes []journal.TaskNoted) string {
	out := ""
	for _, n := range notes {
		out += fmt.Sprintf("%d:%s ", n.N, n.Kind)
	}
	return out
}

// interrupted starts a run of one task, and returns once that waits until it is canceled. Before it waits, it calls
// before, unless that is nil. A task that has notes of an earlier execution ends at once.
func interrupted(
	t *testing.T, disk journal.Store, before func(context.Context, *step.Job) error,
) (*noting, *embedded.Engine) {
	t.Helper()
	begun := make(chan struct{})
	begin := sync.OnceFunc(func() { close(begun) })
	kind := &noting{Kind: enginetest.NewKind(), seen: make(chan string, 2)}
	kind.hold = func(ctx context.Context, job *step.Job) error {
		if len(job.History) > 0 {
			return nil
		}
		if before != nil {
			if err := before(ctx, job); err != nil {
				return err
			}
		}
		begin()
		<-ctx.Done()
		return ctx.Err()
	}
	e := open(t, disk, kind, "one")
	enginetest.Begin(t, e, enginetest.Program([]ir.Step{enginetest.Task("a")}))
	select {
	case <-begun:
	case <-time.After(10 * time.Second):
		t.Fatal("the task does not begin")
	}
	return kind, e
}

// A task that a person reruns in another process has its earlier notes, and its
// new notes come after them.
func TestRerunTaskHasItsNotes(t *testing.T) {
	disk := memorytest.New()
	kind, e := interrupted(t, disk, nil)
	enginetest.Stop(e)
	e = open(t, disk, kind, "two")
	if err := e.Resume(t.Context(), enginetest.ID); err != nil {
		t.Fatal(err)
	}
	if entry := enginetest.Rest(t, e); entry.Waiting.String() != "doubt: a" {
		t.Fatalf("%+v", entry)
	}
	enginetest.Stop(e)
	e = open(t, disk, kind, "three")
	rerun := plan.GateDecision{Step: "a", Answer: journal.AnswerRerun}
	if err := e.Send(t.Context(), enginetest.ID, rerun, "r"); err != nil {
		t.Fatal(err)
	}
	if entry := enginetest.Rest(t, e); entry.Outcome != "ok" {
		t.Fatalf("%+v", entry)
	}
	if first, second := <-kind.seen, <-kind.seen; first != "" || second != "1:begun0 " {
		t.Errorf("first %q, then %q", first, second)
	}
	var notes []journal.TaskNoted
	for event, err := range disk.Events(t.Context(), enginetest.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if n, ok := event.Fact.(journal.TaskNoted); ok {
			notes = append(notes, n)
		}
	}
	if got := kinds(notes); got != "1:begun0 2:begun1 3:done " {
		t.Error(got)
	}
}

// A process that dies while a model call is under way charges what the call had
// reported, not all that was reserved for it.
func TestLostCallIsChargedWhatItReported(t *testing.T) {
	disk := memorytest.New()
	reported := journal.Usage{ModelCalls: 1, InputTokens: 200, OutputTokens: 40}
	kind, first := interrupted(t, disk, func(ctx context.Context, job *step.Job) error {
		if _, err := job.Log.Reserve(
			ctx, journal.Usage{ModelCalls: 20, InputTokens: 64_000, OutputTokens: 33_200},
		); err != nil {
			return err
		}
		return job.Log.Note(ctx, step.Note{Kind: journal.NoteUsage, Data: reported})
	})
	second := open(t, disk, kind, "two") // for which the first one is dead
	if err := second.Resume(t.Context(), enginetest.ID); err != nil {
		t.Fatal(err)
	}
	enginetest.Rest(t, second)
	state, _, _, err := second.Load(t.Context(), enginetest.ID)
	if err != nil {
		t.Fatal(err)
	}
	if used := state.Root().Ledger.Used; used.InputTokens != 200 || used.OutputTokens != 40 || used.ModelCalls != 1 {
		t.Errorf("used %+v", used)
	}
	enginetest.Stop(first)
	enginetest.Stop(second)
}

// claiming is a store whose claims wait.
type claiming struct {
	journal.Store
	begun, claim chan struct{}
	once         sync.Once // closes begun
}

func (s *claiming) Claim(ctx context.Context, id journal.RunID, me journal.Owner) (journal.Claim, error) {
	s.once.Do(func() { close(s.begun) })
	<-s.claim
	return s.Store.Claim(ctx, id, me)
}

// One of two calls that run lost tasks again is canceled while the other loads the run.
func TestCanceledCallKeepsRerunOfAnother(t *testing.T) {
	disk := memorytest.New()
	kind, _ := interrupted(t, disk, nil)
	store := &claiming{Store: disk, begun: make(chan struct{}), claim: make(chan struct{})}
	second := open(t, store, kind, "two") // for which the first one is dead
	loaded := make(chan error, 1)
	go func() { loaded <- second.ResumeAgain(context.Background(), enginetest.ID) }()
	<-store.begun
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := second.ResumeAgain(canceled, enginetest.ID); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(store.claim)
	if err := <-loaded; err != nil {
		t.Fatal(err)
	}
	if entry := enginetest.Rest(t, second); entry.Outcome != "ok" {
		t.Errorf("%+v", entry)
	}
}
