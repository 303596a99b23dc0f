package agent_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/agent"
	"github.com/espalier-run/espalier/internal/step/steptest"
)

// busy rejects the second call of a conversation once.
type busy struct {
	provider.Model
	wait time.Duration
	done bool
}

func (b *busy) Generate(ctx context.Context, req provider.Request) iter.Seq2[provider.Chunk, error] {
	if req.For.Turn == 1 && !b.done {
		b.done = true
		return func(yield func(provider.Chunk, error) bool) {
			yield(provider.Chunk{},
				&provider.Error{Class: ir.ClassRateLimit, Status: 429, RetryAfter: b.wait, Message: "try again later"})
		}
	}
	return b.Model.Generate(ctx, req)
}

// A long wait that the provider asks for ends the task for now. It goes on from
// its notes: no tool is called again.
func TestLongRateLimitIsWaitedForDurably(t *testing.T) {
	log, world := &steptest.Log{}, &steptest.World{Replies: searches(1), Tools: search}
	model := &busy{Model: world, wait: 2 * time.Hour}
	play := steptest.Play{
		Settings: handy, Replies: searches(1), Tools: search, With: func(j *step.Job) { j.Model = model },
	}
	result, err := play.Done(t, agent.Runner{}, log, world)
	var later *step.PostponedError
	if !errors.As(err, &later) || later.After != 2*time.Hour {
		t.Fatalf("%+v, %v", result, err)
	}
	if kinds := log.Kinds(); kinds[len(kinds)-1] != journal.NoteModelRetry ||
		!slices.Contains(kinds, journal.NoteToolResult) {
		t.Fatalf("noted %v", kinds)
	}
	calls := len(world.Calls)
	result, err = play.Done(t, agent.Runner{}, steptest.Resumed(log.Notes), world)
	if err != nil || string(result.Value) != `"found"` || len(world.Calls) != calls {
		t.Errorf("%s, %v, %d calls", result.Value, err, len(world.Calls))
	}
	// A short one is an error that the step's own retries are about.
	model.wait, model.done = time.Minute, false
	if _, err := play.Done(t, agent.Runner{}, &steptest.Log{},
		&steptest.World{Replies: searches(1), Tools: search}); errors.As(err, &later) || err == nil {
		t.Error(err)
	}
}

// overloaded rejects each call twice before it answers.
type overloaded struct {
	provider.Model
	failed map[int]int // by turn
}

func (o *overloaded) Generate(ctx context.Context, req provider.Request) iter.Seq2[provider.Chunk, error] {
	if o.failed[req.For.Turn]++; o.failed[req.For.Turn] > 2 {
		return o.Model.Generate(ctx, req)
	}
	return func(yield func(provider.Chunk, error) bool) {
		yield(provider.Chunk{}, &provider.Error{Class: ir.ClassAPI, Status: 529, Message: "overloaded"})
	}
}

// A call that the provider rejects and that is repeated counts as a call without a reply, so that the calls with a
// reply stay within what was predicted.
func TestRepeatedCallsAreCountedApart(t *testing.T) {
	log, world := &steptest.Log{}, &steptest.World{Replies: searches(2), Tools: search}
	model := provider.Retry{
		Model: &overloaded{Model: world, failed: map[int]int{}}, Times: 4, Jitter: func() float64 { return 0 },
		Pause: func(context.Context, time.Duration) error { return nil },
	}
	play := steptest.Play{Settings: handy, With: func(j *step.Job) { j.Model = model }}
	if _, err := play.Done(t, agent.Runner{}, log, world); err != nil {
		t.Fatal(err)
	}
	if got := log.Used; got.ModelCalls != 9 || got.Lost.ModelCalls != 6 {
		t.Errorf("%+v, not nine calls of which six have no reply", got)
	}

	log, model.Times = &steptest.Log{}, 1
	model.Model = &overloaded{Model: world, failed: map[int]int{}}
	if _, err := play.Done(t, agent.Runner{}, log, world); err == nil {
		t.Fatal("the call succeeds")
	}
	if got := log.Used; got.ModelCalls != 2 || got.Lost.ModelCalls != 2 {
		t.Errorf("%+v, not two calls without a reply: the last one has none either", got)
	}
}
