package formattest

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"pgregory.net/rapid"

	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/check"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// adversarial returns a workflow of agents and models that cost as much as they
// can: many tools in each turn, replies that have to be repaired, failures after
// most of the work is done, fallbacks, calls that a deadline cuts off, and large
// inputs.
func adversarial(r *rapid.T) *trial {
	var flow, script strings.Builder
	pick := func(name string, most int) int { return rapid.IntRange(0, most).Draw(r, name) }
	deadline := pick("deadline", 3) == 0
	flow.WriteString("---\nname: flow\nkind: agent-flow/workflow\nversion: 1.0.0\ndescription: flow\n" +
		"tools: {allowlist: [web.search]}\n")
	if deadline {
		flow.WriteString("budgets: {deadline_seconds: 4}\n")
	}
	script.WriteString("replies:\n")
	steps := pick("steps", 2) + 1
	flow.WriteString("output: {schema: {type: object, properties: {")
	for i := range 2 * steps {
		fmt.Fprintf(&flow, "n%d: {type: integer}, ", i)
	}
	flow.WriteString("}}}\n---\n")
	// Every reply has as many tokens as its agent allows.
	delay := fmt.Sprintf(", usage: {input: 100, output: %d}", replyTokens)
	if deadline {
		delay += ", delay: 1500ms"
	}
	for i := range steps {
		agent := func(id string) {
			fmt.Fprintf(&flow, "```agent\nid: %s\nrole: r\ngoal: g\nmax_tokens: %d\n", id, replyTokens)
			if pick("tools", 2) > 0 {
				flow.WriteString("tools: [web.search]\n")
			}
			flow.WriteString("```\n")
		}
		step := func(id, agent, result, more string) {
			fmt.Fprintf(&flow, "```step\nid: %s\ntype: skill\nagent: %s\ndescription: d\nreads: [input]\n"+
				"writes: [output.%s]\n%s```\n", id, agent, result, more)
			tools := strings.TrimSuffix(strings.Repeat("{name: web.search, input: {}}, ", rapid.SampledFrom(
				[]int{1, 4, 16, 25}).Draw(r, "calls")), ", ")
			turns := rapid.SampledFrom([]int{0, 1, 3, 19, 25}).Draw(r, "turns")
			for turn := 1; turn <= turns; turn++ {
				fmt.Fprintf(&script, "  - {step: %s, turn: %d, tools: [%s]%s}\n", id, turn, tools, delay)
			}
			switch pick("end", 3) {
			case 0:
				fmt.Fprintf(&script, "  - {step: %s, reply: 7%s}\n", id, delay)
			case 1:
				fmt.Fprintf(&script, "  - {step: %s, reply: not a number%s}\n", id, delay)
			case 2:
				fmt.Fprintf(&script, "  - {step: %s, fail: TIMEOUT}\n", id)
			default:
				fmt.Fprintf(&script, "  - {step: %s, attempt: 1, reply: no number%s}\n"+
					"  - {step: %s, reply: 7%s}\n", id, delay, id, delay)
			}
		}
		agent(fmt.Sprint("a", i))
		more := ""
		if pick("retry", 1) == 1 {
			more = fmt.Sprintf("retry: {max_attempts: %d, backoff_ms: [1]}\n", pick("attempts", 2)+1)
		}
		fallback := pick("fallback", 2) == 0
		if fallback {
			more += fmt.Sprintf("on_error: fallback\nfallback: f%d\n", i)
		} else if pick("skip", 1) == 1 {
			more += "on_error: skip\n"
		}
		step(fmt.Sprint("s", i), fmt.Sprint("a", i), fmt.Sprint("n", i), more)
		if fallback {
			agent(fmt.Sprint("b", i))
			step(fmt.Sprint("f", i), fmt.Sprint("b", i), fmt.Sprint("n", steps+i), "")
		}
	}
	script.WriteString("tools:\n  web.search:\n    - output: {found: [1, 2, 3]}\n")
	tr := &trial{
		files:  []txtar.File{{Name: "flow.md", Data: []byte(flow.String())}},
		script: script.String(),
		input:  fmt.Sprintf(`{"text": %q}`, strings.Repeat("much to read ", pick("input", 3000))),
	}
	if !deadline && pick("crash", 1) == 1 {
		tr.stopAt, tr.stopAfter = pick("write", 40)+1, rapid.Bool().Draw(r, "after")
	}
	for i := range 4 * btoi(deadline) {
		tr.do = append(tr.do, fmt.Sprintf("raise active_seconds %d", 4*(i+2)))
	}
	return tr
}

// replyTokens is the cap on the replies of adversarial models.
const replyTokens = 300

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// comparison is what a run has used and what was predicted.
type comparison struct {
	what string
	n    int64
	most stepkind.Amount
}

// compareWithEstimate runs a workflow and compares what it has used with its estimate.
func compareWithEstimate(t *testing.T, tr *trial) ([]comparison, error) {
	t.Helper()
	h := tr.run(t)
	if h.problems.Errors() {
		return nil, fmt.Errorf("%v", h.problems)
	}
	ledger := h.state.Spent // of a finished run
	if ledger == nil {
		ledger = h.state.Root().Ledger
	}
	used := ledger.Used
	// An estimate cannot know how often machines fail, so it leaves out what a crash adds (docs/cost.md). What is left
	// out here is limited: for each crash, in a chain of steps, one attempt with either one model call or the tool
	// calls of one turn. At a deadline nothing is lost: the attempt goes on after the limit has been raised, as another
	// start. So both together limit everything that a run has used.
	crashes := int64(btoi(h.stopped))
	starts, reruns, raised, failed := map[string]int64{}, int64(0), int64(0), int64(0)
	for _, e := range h.events {
		switch x := e.Fact.(type) {
		case journal.BudgetRaised:
			raised++
		case journal.TaskEnded:
			if x.Outcome == journal.OutcomeFailed { // its last call may have had no reply
				failed++
			}
		case journal.TaskStarted:
			if x.Rerun == 0 {
				starts[x.Step]++
			} else {
				reruns++
			}
		}
	}
	lost := used.Lost
	if reruns > crashes+raised || lost.ModelCalls > crashes+failed ||
		lost.ToolCalls > crashes*stepkind.MaxCallsPerTurn || lost.ModelCalls > failed && lost.ToolCalls > 0 {
		return nil, fmt.Errorf("%+v was lost and %d attempts were repeated in %d crashes and %d failures", lost, reruns,
			crashes, failed)
	}
	report := check.Estimate(h.program, catalog.Kinds())
	out := []comparison{
		{"steps", used.Steps, report.Steps.Worst},
		{"model calls", used.ModelCalls - used.Lost.ModelCalls, report.ModelCalls.Worst},
		{"tool calls", used.ToolCalls - used.Lost.ToolCalls, report.ToolCalls.Worst},
		{"reply tokens", used.OutputTokens - used.Lost.OutputTokens, report.ReplyTokens.Worst},
	}
	for _, s := range report.PerStep {
		out = append(out, comparison{"attempts of " + s.Step, starts[s.Step], s.Starts})
	}
	return out, nil
}

// No run of a workflow exceeds its estimate, whatever its models do.
func TestNoWorkflowExceedsItsEstimate(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		tr := adversarial(r)
		all, err := compareWithEstimate(t, tr)
		if err != nil {
			r.Fatalf("%v\n%s", err, tr.files[0].Data)
		}
		for _, one := range all {
			if one.most.Unbounded != "" || one.n > one.most.N {
				r.Fatalf("%s: %d, predicted %v\n%s\n%s", one.what, one.n, one.most, tr.files[0].Data, tr.script)
			}
		}
	})
}

// The estimates of steps, attempts, model calls, tool calls and reply tokens are exact: a run attains them.
func TestEstimatesAreAttained(t *testing.T) {
	var script strings.Builder
	script.WriteString("replies:\n  - {step: s, reply: not a number, usage: {output: 300}}\n")
	calls := strings.TrimSuffix(strings.Repeat("{name: web.search, input: {}}, ", stepkind.MaxCallsPerTurn+9), ", ")
	for turn := 1; turn < stepkind.DefaultMaxTurns; turn++ {
		fmt.Fprintf(&script, "  - {step: s, turn: %d, tools: [%s], usage: {output: 300}}\n", turn, calls)
	}
	script.WriteString("tools:\n  web.search:\n    - output: {found: [1, 2, 3]}\n")
	all, err := compareWithEstimate(t, &trial{script: script.String(), files: []txtar.File{{Name: "flow.md", Data: []byte(`---
name: flow
kind: agent-flow/workflow
version: 1.0.0
description: flow
output: {schema: {type: object, properties: {n: {type: integer}}}}
---
` + "```agent\nid: a\nrole: r\ngoal: g\nmax_tokens: 300\ntools: [web.search]\n```\n" +
		"```step\nid: s\ntype: skill\nagent: a\ndescription: d\nreads: [input]\nwrites: [output.n]\n" +
		"retry: {max_attempts: 3, backoff_ms: [1]}\n```\n")}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		if one.n != one.most.N || one.n == 0 {
			t.Errorf("%s: %d, predicted %v", one.what, one.n, one.most)
		}
	}
}

// The attempts of a step in a cycle are those that the step budget allows: retries count, too.
func TestAttemptsInACycleAreAttained(t *testing.T) {
	all, err := compareWithEstimate(t, &trial{
		script: "replies:\n  - {step: work, attempt: 3, reply: again}\n  - {step: work, fail: TIMEOUT}\n",
		files: []txtar.File{{Name: "flow.md", Data: []byte(`---
name: flow
kind: agent-flow/workflow
version: 1.0.0
description: flow
budgets: {max_steps: 10}
---
` + "```agent\nid: a\nrole: r\ngoal: g\n```\n" +
			"```step\nid: work\ntype: skill\nagent: a\ndescription: d\nwrites: [state.x]\n" +
			"retry: {max_attempts: 3, backoff_ms: [1]}\n```\n" +
			"```step\nid: choose\ntype: decision\ndescription: d\nreads: [state.x]\n" +
			"branches: {again: work, default: done}\n```\n```step\nid: done\ntype: end\n```\n")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int64{"steps": 10, "attempts of work": 8}
	for _, one := range all {
		if n, ok := want[one.what]; ok && (one.n != n || one.most != stepkind.N(n)) {
			t.Errorf("%s: %d, predicted %v, want %d", one.what, one.n, one.most, n)
		}
	}
}

// A conditional step that jumps back counts in every round of its cycle: a skipped step does not jump.
func TestRoundsOfAConditionalJumpAreAttained(t *testing.T) {
	all, err := compareWithEstimate(t, &trial{
		script: "replies:\n  - {reply: more}\n",
		files: []txtar.File{{Name: "flow.md", Data: []byte(`---
name: flow
kind: agent-flow/workflow
version: 1.0.0
description: flow
budgets: {max_steps: 9}
---
` + "```step\nid: work\ntype: transform\ndescription: d\nwrites: [state.x]\n```\n" +
			"```step\nid: check\ntype: transform\ndescription: d\nreads: [state.x]\nwrites: [state.more]\n```\n" +
			"```step\nid: back\ntype: transform\ndescription: d\nwhen: state.more == \"more\"\n" +
			"writes: [state.n]\ngoto: work\n```\n" +
			"```step\nid: use\ntype: transform\ndescription: d\nreads: [state.x]\nwrites: [output.r]\n```\n")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int64{
		"steps": 9, "model calls": 9, "attempts of work": 3, "attempts of check": 3, "attempts of back": 3,
	}
	for _, one := range all {
		if n, ok := want[one.what]; ok && (one.n != n || one.most != stepkind.N(n)) {
			t.Errorf("%s: %d, predicted %v, want %d", one.what, one.n, one.most, n)
		}
		delete(want, one.what)
	}
	if len(want) > 0 {
		t.Errorf("not compared: %v", want)
	}
}

// cyclic returns a workflow with jumps back, conditions, retries and fallbacks, which only its step budget ends, and
// models that choose at random how it goes on. It is valid: a step that jumps back can be skipped, so that every step
// can be reached, and the budget suffices for all steps in order.
func cyclic(r *rapid.T) *trial {
	var flow, script strings.Builder
	pick := func(name string, most int) int { return rapid.IntRange(0, most).Draw(r, name) }
	steps := pick("steps", 3) + 2
	fmt.Fprintf(&flow, "---\nname: flow\nkind: agent-flow/workflow\nversion: 1.0.0\ndescription: flow\n"+
		"budgets: {max_steps: %d}\n---\n", steps+pick("max_steps", 10))
	script.WriteString("replies:\n")
	step := func(id, more string) {
		fmt.Fprintf(&flow, "```step\nid: %s\ntype: transform\ndescription: d\nwrites: [state.%s]\n%s```\n",
			id, id, more)
		for visit := range 6 {
			reply := rapid.SampledFrom([]string{"reply: more", "reply: more", "reply: enough", "fail: TIMEOUT"}).
				Draw(r, "reply")
			fmt.Fprintf(&script, "  - {step: %s, visit: %d, %s}\n", id, visit+1, reply)
		}
	}
	for i := range steps {
		more, onError := "", pick("on_error", 2)
		when := i > 0 && pick("when", 1) == 1
		if when {
			more += fmt.Sprintf("when: state.s%d == \"more\"\n", pick("condition", i-1))
		}
		if i > 0 && (when || onError == 0 && i < steps-1) && pick("goto", 2) > 0 {
			more += fmt.Sprintf("goto: s%d\n", pick("target", i))
		}
		if pick("retry", 2) == 0 {
			more += "retry: {max_attempts: 2, backoff_ms: [1]}\n"
		}
		switch onError {
		case 0:
			more += "on_error: skip\n"
		case 1:
			step(fmt.Sprint("s", i), more+fmt.Sprintf("on_error: fallback\nfallback: f%d\n", i))
			other := ""
			if i > 0 && pick("fallback when", 2) == 0 {
				other += fmt.Sprintf("when: state.s%d == \"more\"\n", pick("fallback condition", i-1))
				if pick("fallback goto", 1) == 0 {
					other += fmt.Sprintf("goto: s%d\n", pick("fallback target", i))
				}
			}
			switch pick("fallback on_error", 3) {
			case 0:
				other += "on_error: skip\n"
			case 1:
				step(fmt.Sprint("f", i), other+fmt.Sprintf("on_error: fallback\nfallback: g%d\n", i))
				step(fmt.Sprint("g", i), "")
				continue
			}
			step(fmt.Sprint("f", i), other)
			continue
		}
		step(fmt.Sprint("s", i), more)
	}
	script.WriteString("  - {reply: enough}\n")
	return &trial{files: []txtar.File{{Name: "flow.md", Data: []byte(flow.String())}}, script: script.String()}
}

// No run of a workflow with cycles exceeds its estimate.
func TestNoCycleExceedsItsEstimate(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		tr := cyclic(r)
		all, err := compareWithEstimate(t, tr)
		if err != nil {
			r.Fatalf("%v\n%s", err, tr.files[0].Data)
		}
		for _, one := range all {
			if one.most.Unbounded != "" || one.n > one.most.N {
				r.Fatalf("%s: %d, predicted %v\n%s\n%s", one.what, one.n, one.most, tr.files[0].Data, tr.script)
			}
		}
	})
}
