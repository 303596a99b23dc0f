package formattest

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/espalier-run/espalier/internal/journal"
)

// fifty returns a bundle of fifty workers with replies of about 1,300 tokens each, in a run
// with the given token budget.
func fifty(tokens int, do ...string) *trial {
	var b strings.Builder
	fmt.Fprintf(&b, `---
name: fifty
kind: agent-flow/workflow
version: 1.0.0
description: Fifty workers
budgets:
  max_tokens: %d
---
`+"```agent\nid: one\nrole: One of many\ngoal: Look\nmax_tokens: 1000\n```\n```bundle\nname: many\nworkers:\n", tokens)
	for i := range 50 {
		fmt.Fprintf(&b, "  - {id: W%d, agent: one}\n", i)
	}
	b.WriteString("merge: {strategy: combine_by_type}\n```\n```step\nid: look\ntype: parallel\ndescription: " +
		"Look\nbundle: many\nwrites: [output.all]\n```\n")
	return &trial{
		files:  []txtar.File{{Name: "flow.md", Data: []byte(b.String())}},
		script: "replies:\n  - {reply: seen, delay: 1s, usage: {input: 300, output: 1000}}\n",
		do:     do,
	}
}

func replies(events []journal.Event) (n int, spent int64) {
	for _, e := range events {
		if note, ok := e.Fact.(journal.TaskNoted); ok && note.Kind == journal.NoteReply {
			n++
			spent += note.Usage.InputTokens + note.Usage.OutputTokens
		}
	}
	return n, spent
}

// With fifty concurrent workers and a budget for three calls, exactly three calls happen:
// budgets are reservations, not checks after the fact.
func TestBudgetForThreeCallsAllowsThreeOfFiftyWorkers(t *testing.T) {
	h := fifty(4000).run(t)
	if n, spent := replies(h.events); n != 3 || spent > 4000 {
		t.Errorf("%d calls, %d tokens", n, spent)
	}
	if h.entry.Status != journal.Exceeded {
		t.Errorf("the run is %s", h.entry.Status)
	}
}

// A raised budget lets the other workers continue, and no call is repeated.
func TestRaisedBudgetContinuesWithoutRepeatingCalls(t *testing.T) {
	h := fifty(4000, "raise tokens 8000", "raise tokens 100000").run(t)
	if n, _ := replies(h.events); n != 50 || h.state.Finished == nil || h.state.Finished.Outcome != "ok" {
		t.Errorf("%d calls, %+v", n, h.state.Finished)
	}
	for _, limit := range []struct{ raised, calls int }{{1, 3}, {2, 6}} {
		seen := 0
		for i, e := range h.events {
			if _, ok := e.Fact.(journal.BudgetRaised); ok {
				if seen++; seen == limit.raised {
					if n, _ := replies(h.events[:i]); n != limit.calls {
						t.Errorf("%d calls before the budget was raised for time %d, want %d", n, limit.raised,
							limit.calls)
					}
				}
			}
		}
	}
}

// A reply that does not meet its contract is asked for again only if the budget allows it: otherwise the run waits
// between the bad reply and the next request, and a raised budget continues there.
func TestBudgetEndsBeforeReplyIsAskedForAgain(t *testing.T) {
	flow := "---\nname: flow\nkind: agent-flow/workflow\nversion: 1.0.0\ndescription: Scores\nbudgets:\n  " +
		"max_tokens: 1400\n" +
		"output: {schema: {type: object, required: [score], properties: {score: {type: integer, minimum: 1, " +
		"maximum: 10}}}}\n" +
		"---\n```agent\nid: one\nrole: Judge\ngoal: Score\nmax_tokens: 1000\n```\n" +
		"```step\nid: score\ntype: skill\ndescription: Score it\nagent: one\nwrites: [output.score]\n```\n"
	run := func(do ...string) *happened {
		return (&trial{
			files: []txtar.File{{Name: "flow.md", Data: []byte(flow)}},
			script: "replies:\n  - {step: score, turn: 1, reply: I cannot say., usage: {input: 300, output: 1000}}\n" +
				"  - {step: score, turn: 2, reply: '7', usage: {input: 400, output: 1}}\n",
			do: do,
		}).run(t)
	}
	h := run()
	if n, spent := replies(h.events); n != 1 || spent > 1400 || h.entry.Status != journal.Exceeded {
		t.Errorf("%d calls, %d tokens, the run is %s\n%s", n, spent, h.entry.Status, h.record(t, ""))
	}
	h = run("raise tokens 5000")
	outcome, output := h.ending()
	if n, _ := replies(h.events); n != 2 || outcome != "ok" || string(output) != `{"score":7}` {
		t.Errorf("with a larger budget: %d calls, %s, %s\n%s", n, outcome, output, h.record(t, ""))
	}
}
