package kinds_test

import (
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/step/steptest"
	"github.com/espalier-run/espalier/internal/stepkind"
	"github.com/espalier-run/espalier/internal/stepkind/kinds"
)

func TestAgentStepsMeetTheStepContract(t *testing.T) {
	steptest.Run(t, kinds.Agent{},
		steptest.Case{Name: "an agent and a task", Settings: steptest.Settings{"agent": "plain", "task": "Write it"}},
		steptest.Case{Name: "a critic", Settings: steptest.Settings{"agent": "plain", "verdict": true}},
		steptest.Case{Name: "everything", Settings: steptest.Settings{
			"agent": "handy", "task": "t", "expected": "e", "schema": map[string]any{"type": "object"},
			"verdict": true, "max_turns": 3,
		}},
		steptest.Case{Name: "an agent that does not exist", Settings: steptest.Settings{"agent": "nobody"}},
		steptest.Case{Name: "nobody", Misfit: true},
		steptest.Case{
			Name: "a task of another type", Settings: steptest.Settings{"agent": "plain", "task": 7}, Misfit: true,
		},
		steptest.Case{
			Name: "fewer than no turns", Settings: steptest.Settings{"agent": "plain", "max_turns": -1}, Misfit: true,
		},
	)
}

func TestBoundCountsTurnsAndRepairs(t *testing.T) {
	calls := func(settings steptest.Settings) stepkind.Bound {
		s, task := steptest.Case{Settings: settings}.Task("agent")
		return stepkind.BoundOf(kinds.Agent{}, steptest.Program(), s, task)
	}
	for name, c := range map[string]struct {
		got          stepkind.Bound
		model, tools int64
	}{
		"one call without tools":   {calls(steptest.Settings{"agent": "plain"}), 1, 0},
		"two repairs of a verdict": {calls(steptest.Settings{"agent": "plain", "verdict": true}), 3, 0},
		"default turns with tools": {
			calls(steptest.Settings{"agent": "handy"}), stepkind.DefaultMaxTurns,
			(stepkind.DefaultMaxTurns - 1) * stepkind.MaxCallsPerTurn,
		},
		"own turns with tools": {
			calls(steptest.Settings{"agent": "handy", "max_turns": 3}), 3, 2 * stepkind.MaxCallsPerTurn,
		},
		"turns mean nothing without any": {calls(steptest.Settings{"agent": "plain", "max_turns": 9}), 1, 0},
	} {
		if c.got.Worst.ModelCalls.N != c.model || c.got.Worst.ToolCalls.N != c.tools {
			t.Errorf("%s: %v model calls, %v tool calls; want %d, %d",
				name, c.got.Worst.ModelCalls, c.got.Worst.ToolCalls, c.model, c.tools)
		}
	}

	// "Writes" + "Good text" + "Write it" are 23 characters, 6 tokens in two
	// roundings; state.a is a result of unknown size; the reply is capped at 1000.
	b := calls(steptest.Settings{"agent": "plain", "task": "Write it"})
	if got, want := b.Worst.PromptTokens.N, int64(2+4+stepkind.AssumedResultTokens); got != want {
		t.Errorf("prompt: %d tokens, want %d", got, want)
	}
	if b.Worst.ReplyTokens.N != 1000 || b.Reserve != 1006 || b.Agent != "plain" || b.Model != "m" {
		t.Errorf("got %+v", b)
	}
}

func TestPromptGrowsWithTheConversation(t *testing.T) {
	s, task := steptest.Case{Settings: steptest.Settings{"agent": "handy", "max_turns": 3}}.Task("agent")
	b := stepkind.BoundOf(kinds.Agent{}, steptest.Program(), s, task)
	first := b.Base.PromptTokens.N
	const reply, result = stepkind.DefaultReplyTokens, stepkind.MaxCallsPerTurn * stepkind.AssumedResultTokens
	if got, want := b.Worst.PromptTokens.N, first+(first+reply+result)+(first+2*reply+2*result); got != want {
		t.Errorf("three turns: %d tokens, want %d", got, want)
	}
}

// What a run may do, an estimate has to count: the worst of these is two repairs.
func TestBoundCountsRepairsOfParts(t *testing.T) {
	s, task := steptest.Case{Settings: steptest.Settings{"agent": "plain", "task": "Write it"}}.Task("agent")
	s.Writes = []ir.Write{{Path: "state.a", Part: "a"}, {Path: "state.b", Part: "b"}}
	if got := stepkind.BoundOf(kinds.Agent{}, steptest.Program(), s, task).Worst.ModelCalls.N; got != 1+
		stepkind.RepairCalls {
		t.Errorf("%d model calls", got)
	}
}
