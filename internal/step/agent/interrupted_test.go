package agent_test

import (
	"context"
	"iter"
	"testing"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/agent"
	"github.com/espalier-run/espalier/internal/step/steptest"
)

// interrupted has reported its usage when it is canceled.
type interrupted struct{ cancel context.CancelFunc }

func (i interrupted) Generate(ctx context.Context, _ provider.Request) iter.Seq2[provider.Chunk, error] {
	return func(yield func(provider.Chunk, error) bool) {
		i.cancel()
		yield(provider.Chunk{}, &provider.Interrupted{Cause: ctx.Err(), Partial: &provider.Reply{
			Usage: provider.Usage{Input: 200, Output: 40}, AgentResult: &provider.AgentResult{Turns: 2},
		}})
	}
}

// A call that is canceled is charged what the model had reported, not all that
// was reserved for it.
func TestInterruptedCallIsChargedWhatItReported(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	job := steptest.Play{Settings: plain, With: func(j *step.Job) { j.Model = interrupted{cancel} }}.Job("agent",
		t.TempDir(), &steptest.Log{}, &steptest.World{})
	result, err := agent.Runner{}.Run(ctx, job)
	if want := (journal.Usage{ModelCalls: 2, InputTokens: 200, OutputTokens: 40}); err == nil || result.Usage != want {
		t.Errorf("%+v, %v", result.Usage, err)
	}
}

// reporting says what it has used before it is done.
type reporting struct{}

func (reporting) Generate(context.Context, provider.Request) iter.Seq2[provider.Chunk, error] {
	return func(yield func(provider.Chunk, error) bool) {
		used := &provider.Reply{
			Usage: provider.Usage{Input: 200, Output: 40}, AgentResult: &provider.AgentResult{Turns: 2},
		}
		_ = yield(provider.Chunk{Used: used}, nil) && yield(provider.Chunk{Reply: &provider.Reply{
			Blocks: []provider.Block{{Type: provider.Text, Text: "x"}}, Stop: provider.Done,
			Model: "m", Usage: provider.Usage{Input: 300, Output: 50},
		}}, nil)
	}
}

// What a call reports is durable while it is under way, for the case that the
// process dies, and charged once.
func TestReportedUsageIsDurable(t *testing.T) {
	log := &steptest.Log{}
	if _, err := (steptest.Play{Settings: plain, With: func(j *step.Job) { j.Model = reporting{} }}).Done(t,
		agent.Runner{}, log, &steptest.World{}); err != nil {
		t.Fatal(err)
	}
	last := len(log.Notes) - 1
	if used := journal.Reported(log.Notes[:last]); used == nil ||
		*used != (journal.Usage{ModelCalls: 2, InputTokens: 200, OutputTokens: 40}) {
		t.Errorf("reported before the reply: %+v", used)
	}
	if used := journal.Reported(log.Notes); used != nil || log.Used.InputTokens != 300 || log.Used.OutputTokens != 50 {
		t.Errorf("after the reply %+v is reported, and %+v charged", used, log.Used)
	}
}
