package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/price"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/agent"
	"github.com/espalier-run/espalier/internal/step/steptest"
)

func priced(j *step.Job) {
	j.Price = func(model string) (price.Price, bool) {
		return price.Price{Rates: price.Rates{Input: 3e6, Output: 15e6, CacheRead: 3e5, CacheWrite: 3_750_000}},
			model == "m"
	}
}

// paid is a model that tells exactly what it used, after some attempts that failed.
type paid struct {
	usage provider.Usage
	fails []*provider.Error
	waits func() error // before another attempt; nil does not
}

func (p paid) Generate(_ context.Context, _ provider.Request) iter.Seq2[provider.Chunk, error] {
	return func(yield func(provider.Chunk, error) bool) {
		for _, f := range p.fails {
			if !yield(provider.Chunk{Retried: &provider.Retried{Error: f, Wait: 2 * time.Second}}, nil) {
				return
			}
			if p.waits != nil {
				if err := p.waits(); err != nil {
					yield(provider.Chunk{}, err)
					return
				}
			}
			if !yield(provider.Chunk{NextAttempt: true}, nil) {
				return
			}
		}
		yield(provider.Chunk{Reply: &provider.Reply{
			Blocks: []provider.Block{{Type: provider.Text, Text: "x"}}, Stop: provider.Done,
			Model: "m-1", Usage: p.usage,
		}}, nil)
	}
}

func TestCallsChargeCachedTokens(t *testing.T) {
	log := &steptest.Log{}
	_, err := steptest.Play{Settings: plain, With: func(j *step.Job) {
		priced(j)
		j.Model = paid{usage: provider.Usage{Input: 1000, Output: 100, CacheRead: 10_000, CacheWrite: 400}}
	}}.Done(t, agent.Runner{}, log, &steptest.World{})
	if err != nil {
		t.Fatal(err)
	}
	if got := log.Notes[1].Usage; got.MicroDollars != 3000+1500+3000+1500 ||
		got.InputTokens != 11_400 || got.OutputTokens != 100 {
		t.Errorf("%+v", got)
	}
	if log.Most.MicroDollars < 1000*15 { // the cap of the reply alone
		t.Errorf("set aside: %+v", log.Most)
	}
}

// Each attempt is recorded and paid for on its own: one that had begun counts
// in full, one that was refused counts as a call without a reply.
func TestAttemptsAreRecorded(t *testing.T) {
	log := &steptest.Log{}
	_, err := steptest.Play{Settings: plain, With: func(j *step.Job) {
		priced(j)
		j.Model = paid{usage: provider.Usage{Input: 1, Output: 1}, fails: []*provider.Error{
			{Class: ir.ClassRateLimit, Status: 429, Message: "slow down"},
			{Class: ir.ClassAPI, Message: "cut", Billable: true},
		}}
	}}.Done(t, agent.Runner{}, log, &steptest.World{})
	if err != nil {
		t.Fatal(err)
	}
	var retry journal.ModelRetry
	first, second := log.Notes[1], log.Notes[2]
	if err := json.Unmarshal(first.Data, &retry); err != nil || first.Kind != journal.NoteModelRetry ||
		retry.Status != 429 || retry.Wait != 2000 {
		t.Errorf("%+v, %v", first, err)
	}
	refused := journal.Usage{ModelCalls: 1}.Unanswered()
	if first.Usage != refused || second.Usage != log.Most.Unanswered() ||
		log.Used.Lost != refused.Plus(second.Usage).Lost ||
		log.Used.ModelCalls != 3 || len(log.Open) > 0 {
		t.Errorf("%+v, %+v, used %+v, open %v", first.Usage, second.Usage, log.Used, log.Open)
	}
	// After a crash the attempts do not stand in the way.
	for n := range len(log.Notes) + 1 {
		again := steptest.Resumed(log.Notes[:n:n])
		if _, err := (steptest.Play{Settings: plain, With: func(j *step.Job) {
			j.Model = paid{usage: provider.Usage{Input: 1, Output: 1}}
		}}).Done(t, agent.Runner{}, again, &steptest.World{}); err != nil {
			t.Errorf("after note %d: %v", n, err)
		}
	}
}

// No request is open while a step waits for its next attempt, so a stop at that time costs nothing.
func TestStopBetweenAttemptsIsNotCharged(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	log := &steptest.Log{}
	var result step.Result
	_, err := steptest.Play{Settings: plain, With: func(j *step.Job) {
		priced(j)
		j.Model = paid{fails: []*provider.Error{{Class: ir.ClassRateLimit, Status: 429}}, waits: func() error {
			if len(log.Open) > 0 {
				t.Errorf("set aside while it is waited: %v", log.Open)
			}
			cancel()
			return ctx.Err()
		}}
		var err error
		if result, err = (agent.Runner{}).Run(ctx, j); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		j.Model = paid{}
	}}.Done(t, agent.Runner{}, log, &steptest.World{})
	if err != nil || result.Usage != (journal.Usage{}) {
		t.Errorf("%v, charged for %+v", err, result.Usage)
	}
}

func TestNoBudgetForAnotherAttempt(t *testing.T) {
	log := &steptest.Log{RefuseAfter: 1, Refuse: step.Errorf(ir.ClassBudget, "used up")}
	_, err := steptest.Play{Settings: plain, With: func(j *step.Job) {
		j.Model = paid{fails: []*provider.Error{{Class: ir.ClassAPI, Billable: true}}}
	}}.Done(t, agent.Runner{}, log, &steptest.World{})
	var failure *step.Error
	if !errors.As(err, &failure) || failure.Class != ir.ClassBudget {
		t.Errorf("got %v", err)
	}
}
