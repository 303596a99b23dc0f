package simulated_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/provider/providertest"
	"github.com/espalier-run/espalier/internal/provider/simulated"
)

func TestSimulatedModelMeetsTheModelContract(t *testing.T) {
	failing := provider.Request{Schema: json.RawMessage("false"), For: provider.Purpose{Step: "impossible"}}
	failures := []providertest.Failure{{Request: failing, Want: provider.Error{Class: ir.ClassBadRequest}}}
	t.Run("with tools", func(t *testing.T) {
		providertest.Run(t, providertest.Subject{
			Model: simulated.Model{Seed: 7, UseTools: true}, Offline: "simulated", Failures: failures,
		})
	})
	t.Run("without tools", func(t *testing.T) {
		providertest.Run(t,
			providertest.Subject{Model: simulated.Model{}, Offline: "simulated", NoTools: true, Failures: failures})
	})
}

func object(t testing.TB, m provider.Model, req provider.Request) map[string]any {
	t.Helper()
	text := reply(t, m, req)
	var out map[string]any
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return out
}

func user(text string) []provider.Message {
	return []provider.Message{{Role: provider.User, Blocks: []provider.Block{{Type: provider.Text, Text: text}}}}
}

func TestProseIsLabeledAsSimulated(t *testing.T) {
	got := reply(t, simulated.Model{}, provider.Request{
		Messages: user("Write the brief.\nHere is the data."),
		For:      provider.Purpose{Step: "draft", Agent: "writer", Expected: "One page of Markdown"},
	})
	for _, want := range []string{"simulated", `step "draft"`, `agent "writer"`, "Asked: Write the brief. …", "Expected: One page of Markdown"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in:\n%s", want, got)
		}
	}
}

func TestSentencesAreLabeledAsSimulated(t *testing.T) {
	got := object(t, simulated.Model{}, provider.Request{For: provider.Purpose{
		Step: "s", Contract: described("Object: { summary, email, confidence, due_date, findings, good_enough }"),
	}})
	if s, _ := got["summary"].(string); !strings.HasPrefix(s, "Simulated summary: ") {
		t.Errorf("summary %q", s)
	}
	if s, _ := got["email"].(string); !strings.Contains(s, "@example.") {
		t.Errorf("email %q", s)
	}
	if n, _ := got["confidence"].(float64); n <= 0 || n >= 1 {
		t.Errorf("confidence %v", got["confidence"])
	}
	if s, _ := got["due_date"].(string); len(s) != len("2026-03-14") {
		t.Errorf("date %q", s)
	}
	if l, _ := got["findings"].([]any); len(l) == 0 || !strings.HasPrefix(fmt.Sprint(l[0]), "Simulated finding: ") {
		t.Errorf("findings %v", got["findings"])
	}
	if _, ok := got["good_enough"].(bool); !ok {
		t.Errorf("good enough: %v", got["good_enough"])
	}
}

// described returns the contract that a description results in.
func described(words string, probes ...contract.Probe) contract.Contract {
	c := contract.Derive(&ir.Program{}, &ir.Step{ID: "s"}, contract.Spec{Expected: []string{words}})
	c.Probes = probes
	return c
}

func probe(at string, values ...string) contract.Probe {
	p := contract.Probe{At: at}
	for _, v := range values {
		p.Values = append(p.Values, json.RawMessage(v))
	}
	return p
}

// For every seed, each value occurs once within as many visits as there are
// values, so that no loop waits forever. A value that is held is repeated up to
// a limit.
func TestVisitsCoverAllProbedValues(t *testing.T) {
	values := []string{`"billing"`, `"technical"`, `"other"`}
	rapid.Check(t, func(rt *rapid.T) {
		m := simulated.Model{Seed: rapid.Uint64Max(1<<60).Draw(rt, "seed")}
		first := rapid.IntRange(0, 50).Draw(rt, "first")
		hold := rapid.Bool().Draw(rt, "hold")
		if hold {
			first = max(first, contract.HoldRounds)
		}
		by := rapid.SampledFrom([]string{"visit", "iteration", "attempt"}).Draw(rt, "by")
		seen := map[any]bool{}
		for n := first; n < first+len(values); n++ {
			p := provider.Purpose{Workflow: "w", Step: "triage", Contract: described(
				"Object: { kind: text, why: text }", probe("kind", values...))}
			p.Contract.Tries = slices.Repeat([]contract.Try{{First: 1, Hold: hold}}, contract.Explored)
			switch by {
			case "visit":
				p.Visit, p.Key = n, fmt.Sprintf("triage~%d#0", n)
			case "iteration":
				p.Iteration, p.Key = n, fmt.Sprintf("each/%d/triage#0", n)
			case "attempt":
				p.Attempt, p.Key = n, fmt.Sprintf("triage#%d", n)
			}
			got := object(t, m, provider.Request{For: p})
			if got["why"] == nil {
				rt.Fatalf("got %v", got)
			}
			seen[got["kind"]] = true
		}
		if len(seen) != len(values) {
			rt.Fatalf("saw only %v", seen)
		}
	})
}

// Consecutive seeds cover every combination of two values that one condition reads.
func TestSeedsCoverAllCombinations(t *testing.T) {
	c := described("Object: { ok: boolean, score: number }",
		probe("ok", "false", "true"), probe("score", "4", "5", "6"))
	seen := map[string]bool{}
	for seed := range uint64(6) {
		got := object(t, simulated.Model{Seed: seed}, provider.Request{For: provider.Purpose{Step: "s", Contract: c}})
		seen[fmt.Sprint(got["ok"], got["score"])] = true
	}
	if len(seen) != 6 {
		t.Errorf("saw only %v", seen)
	}
	// Each seed begins with the combination that the exploration of the workflow chose for it.
	c = described("Object: { ok: boolean }", probe("ok", "false", "true"))
	c.Tries = slices.Repeat([]contract.Try{{First: 0}, {First: 0}, {First: 1}, {First: 1}, {First: 0}}, 2)
	var all []any
	for seed := range uint64(4) {
		all = append(all, object(t, simulated.Model{Seed: seed + 1},
			provider.Request{For: provider.Purpose{Step: "s", Contract: c}})["ok"])
	}
	if fmt.Sprint(all) != "[false false true true]" {
		t.Errorf("got %v", all)
	}
}

func TestProbedValuesSatisfyTheSchema(t *testing.T) {
	for _, c := range []struct {
		name   string
		schema string
		values []string
		want   any
	}{
		{"one is allowed", `{"properties": {"x": {"enum": ["b", "c"]}}}`, []string{`"a"`, `"b"`}, "b"},
		{"none is allowed", `{"required": ["x"], "properties": {"x": {"enum": ["c"]}}}`, []string{`"a"`, `"b"`}, "c"},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := provider.Request{Schema: json.RawMessage(c.schema), For: provider.Purpose{
				Step: "s", Contract: contract.Contract{Probes: []contract.Probe{probe("x", c.values...)}},
			}}
			for visit := range 3 {
				req.For.Visit = visit
				if got := object(t, simulated.Model{}, req); got["x"] != c.want {
					t.Errorf("visit %d: got %#v, want %#v", visit, got["x"], c.want)
				}
			}
		})
	}
}

// The empty key is the whole reply.
func TestProbeOfTheEmptyKeyIsTheWholeReply(t *testing.T) {
	for value, want := range map[string]string{`"billing"`: "billing", `"two words"`: "two words", "true": "true", "7": "7"} {
		p := provider.Purpose{Step: "s", Contract: contract.Contract{Probes: []contract.Probe{probe("", value)}}}
		if got := reply(t, simulated.Model{}, provider.Request{For: p}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestVerdictsAgreeWithTheirProblems(t *testing.T) {
	c := contract.Derive(&ir.Program{}, &ir.Step{ID: "review"},
		contract.Spec{Verdict: true, Expected: []string{"Object: { approved: boolean, problems: list of strings }"}})
	seen := map[bool]int{}
	for seed := range uint64(10) {
		got := object(t, simulated.Model{Seed: seed},
			provider.Request{For: provider.Purpose{Step: "review", Contract: c}})
		approved, ok := got["approved"].(bool)
		if !ok {
			t.Fatalf("got %v", got)
		}
		seen[approved]++
		if problems, _ := got["problems"].([]any); (len(problems) == 0) != approved {
			t.Fatalf("approved %t with the problems %v", approved, problems)
		}
	}
	if seen[true] < 4 || seen[false] < 4 {
		t.Errorf("it approves and rejects %v", seen)
	}
}

// A value that is held is repeated, so that a loop with a limit reaches it, and changes after some rounds.
func TestHeldValuesAreRepeated(t *testing.T) {
	c := contract.Contract{
		Probes: []contract.Probe{probe("", `"no"`, `"yes"`)},
		Tries:  slices.Repeat([]contract.Try{{Hold: true}}, contract.Explored),
	}
	for n := range contract.HoldRounds {
		p := provider.Purpose{Step: "poll", Visit: n, Contract: c}
		if got := reply(t, simulated.Model{Seed: 9}, provider.Request{For: p}); got != "no" {
			t.Errorf("visit %d: got %q", n, got)
		}
	}
	p := provider.Purpose{Step: "poll", Visit: contract.HoldRounds + 1, Contract: c}
	if got := reply(t, simulated.Model{Seed: 9}, provider.Request{For: p}); got != "yes" {
		t.Errorf("after the last round: got %q", got)
	}
}

// Loops that wait for true and loops that wait for false end.
func TestFlagsTakeBothValues(t *testing.T) {
	for _, name := range []string{"good_enough", "needs_revision", "whatever"} {
		seen := map[any]bool{}
		for visit := range 4 {
			p := provider.Purpose{Step: "judge", Visit: visit, Contract: described("Object: { " + name + ": boolean }")}
			seen[object(t, simulated.Model{Seed: 3}, provider.Request{For: p})[name]] = true
		}
		if len(seen) != 2 {
			t.Errorf("%s is always %v", name, seen)
		}
	}
}

// Prompts can contain varying data such as the time of an approval.
func TestReplyDoesNotDependOnThePrompt(t *testing.T) {
	p := provider.Purpose{Step: "s", Key: "s#0", Contract: described(
		"Object: { summary, count: integer, ok: boolean }")}
	a := reply(t, simulated.Model{}, provider.Request{Messages: user("at 10:00"), For: p})
	b := reply(t, simulated.Model{}, provider.Request{Messages: user("at 11:00"), For: p})
	if a != b {
		t.Errorf("%s\n%s", a, b)
	}
}

func TestSeedsDiffer(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(20) {
		p := provider.Purpose{Step: "s", Contract: described(
			"Object: { summary, owner, count: integer, kind: a | b | c }")}
		seen[reply(t, simulated.Model{Seed: seed}, provider.Request{For: p})] = true
	}
	if len(seen) < 10 {
		t.Errorf("20 seeds have %d replies", len(seen))
	}
}

// A reply that exceeds the token limit is generated with required properties only.
func TestRepliesFitTheTokenLimit(t *testing.T) {
	schema := json.RawMessage(`{"type": "object", "required": ["ok"], "properties": {
		"ok": {"type": "boolean"}, "summary": {"type": "string"}, "notes": {"type": "array", "items": {"type": "string"}}}}`)
	for _, most := range []int{10, 30, 1000} {
		r, err := providertest.Collect(t,
			simulated.Model{}.Generate(t.Context(), provider.Request{Schema: schema, MaxTokens: most}))
		if err != nil {
			t.Fatal(err)
		}
		if err := providertest.Validate(schema, []byte(r.Text())); err != nil || r.Stop != provider.Done ||
			r.Usage.Output > int64(most) {
			t.Errorf("%d: %s %+v %v", most, r.Stop, r.Usage, err)
		}
	}
	r, err := providertest.Collect(t,
		simulated.Model{}.Generate(t.Context(), provider.Request{Schema: schema, MaxTokens: 1}))
	if err != nil || r.Stop != provider.CutOff || r.Usage.Output > 1 {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestEachToolIsCalledOnce(t *testing.T) {
	req := provider.Request{Messages: user("Go."), Tools: []provider.Tool{
		{Name: "a", Schema: json.RawMessage(`{"type": "object", "required": ["q"], "properties": {"q": {"type": "string", "minLength": 3}}}`)}, {Name: "b"},
	}}
	m := simulated.Model{UseTools: true}
	r, err := providertest.Collect(t, m.Generate(t.Context(), req))
	if err != nil || r.Stop != provider.WantsTool || len(r.Blocks) != 2 {
		t.Fatalf("got %+v, %v", r, err)
	}
	providertest.Check(t, req, r)
	req.Messages = append(req.Messages, provider.Message{Role: provider.Assistant, Blocks: r.Blocks[:1]})
	if r, err = providertest.Collect(t, m.Generate(t.Context(), req)); err != nil || len(r.Blocks) != 1 ||
		r.Blocks[0].ToolName != "b" {
		t.Fatalf("got %+v, %v", r, err)
	}
	req.Messages = append(req.Messages, provider.Message{Role: provider.Assistant, Blocks: r.Blocks})
	if r, err = providertest.Collect(t, m.Generate(t.Context(), req)); err != nil || r.Stop != provider.Done {
		t.Fatalf("got %+v, %v", r, err)
	}
}

func BenchmarkText(b *testing.B) {
	req := provider.Request{Messages: user("Go."), For: provider.Purpose{Step: "s"}}
	for b.Loop() {
		for range (simulated.Model{}).Generate(b.Context(), req) {
		}
	}
}

func BenchmarkObject(b *testing.B) {
	req := provider.Request{For: provider.Purpose{Step: "s", Contract: described("Object: { kind: a | b, why: text }", probe("kind", `"a"`, `"b"`))}}
	for b.Loop() {
		for range (simulated.Model{}).Generate(b.Context(), req) {
		}
	}
}
