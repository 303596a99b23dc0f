package simulated_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/provider/providertest"
	"github.com/espalier-run/espalier/internal/provider/simulated"
)

func TestSuite(t *testing.T) {
	failing := provider.Request{Schema: json.RawMessage("false"), For: provider.Purpose{Step: "impossible"}}
	failures := []providertest.Failure{{Request: failing, Want: provider.Error{Class: provider.BadRequest}}}
	t.Run("with tools", func(t *testing.T) {
		providertest.Run(t, providertest.Subject{Model: simulated.Model{Seed: 7, UseTools: true}, Offline: "simulated", Failures: failures})
	})
	t.Run("without tools", func(t *testing.T) {
		providertest.Run(t, providertest.Subject{Model: simulated.Model{}, Offline: "simulated", NoTools: true, Failures: failures})
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

// A text never looks like somebody's work.
func TestTextsSayWhatTheyAre(t *testing.T) {
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

func TestSentencesSayWhatTheyAre(t *testing.T) {
	got := object(t, simulated.Model{}, provider.Request{For: provider.Purpose{Step: "s", Expected: "Object: { summary, email, confidence, due_date, findings, good_enough }"}})
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

func TestKeysAreThere(t *testing.T) {
	got := object(t, simulated.Model{}, provider.Request{For: provider.Purpose{Step: "s", Keys: []string{"title", "body", "meta.author"}}})
	meta, _ := got["meta"].(map[string]any)
	if got["title"] == nil || got["body"] == nil || meta["author"] == nil {
		t.Errorf("got %v", got)
	}
	got = object(t, simulated.Model{}, provider.Request{For: provider.Purpose{Step: "s", Keys: []string{"a"}, Expected: "List of objects: { b }"}})
	if got["a"] == nil {
		t.Errorf("what the flow needs gives way to what the author wrote: %v", got)
	}
}

// Within as many visits as there are branches each is taken once, whatever
// the seed: no loop that waits for one of them goes on for ever.
func TestChoicesGoRound(t *testing.T) {
	branches := []string{"billing", "technical", "other"}
	rapid.Check(t, func(rt *rapid.T) {
		m := simulated.Model{Seed: rapid.Uint64().Draw(rt, "seed")}
		first := rapid.IntRange(0, 50).Draw(rt, "first")
		by := rapid.SampledFrom([]string{"visit", "iteration", "attempt"}).Draw(rt, "by")
		seen := map[any]bool{}
		for n := first; n < first+len(branches); n++ {
			p := provider.Purpose{Workflow: "w", Step: "triage", Choices: map[string][]string{"kind": branches}, Expected: "Object: { kind: text, why: text }"}
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
		if len(seen) != len(branches) {
			rt.Fatalf("saw only %v", seen)
		}
	})
}

func TestChoicesHaveTheTypeOfTheirKey(t *testing.T) {
	for _, c := range []struct {
		name    string
		req     provider.Request
		choices []string
		want    any
	}{
		{"described as boolean", provider.Request{For: provider.Purpose{Expected: "Object: { x: boolean }"}}, []string{"true"}, true},
		{"described as text", provider.Request{For: provider.Purpose{Expected: "Object: { x: text }"}}, []string{"true"}, "true"},
		{"a number", provider.Request{}, []string{"5"}, 5.0},
		{"no number", provider.Request{}, []string{"05"}, "05"},
		{"schema of texts", provider.Request{Schema: json.RawMessage(`{"properties": {"x": {"type": "string"}}}`)}, []string{"5"}, "5"},
		{"schema allows one", provider.Request{Schema: json.RawMessage(`{"properties": {"x": {"enum": ["b", "c"]}}}`)}, []string{"a", "b"}, "b"},
		{"schema allows none", provider.Request{Schema: json.RawMessage(`{"required": ["x"], "properties": {"x": {"enum": ["c"]}}}`)}, []string{"a", "b"}, "c"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.req.For.Step = "s"
			c.req.For.Choices = map[string][]string{"x": c.choices}
			for visit := range 3 {
				c.req.For.Visit = visit
				if got := object(t, simulated.Model{}, c.req); got["x"] != c.want {
					t.Errorf("visit %d: got %#v, want %#v", visit, got["x"], c.want)
				}
			}
		})
	}
}

// The empty key is the reply itself: a step that decides by a whole value.
func TestChoiceOfTheWholeReply(t *testing.T) {
	for _, branch := range []string{"billing", "two words", "true", "7"} {
		p := provider.Purpose{Step: "s", Choices: map[string][]string{"": {branch}}}
		if got := reply(t, simulated.Model{}, provider.Request{For: p}); got != branch {
			t.Errorf("got %q, want %q", got, branch)
		}
	}
}

func TestVerdicts(t *testing.T) {
	p := provider.Purpose{Step: "review", Verdict: true, Expected: "Object: { approved: boolean, problems: list of strings }"}
	for _, c := range []struct {
		rejects   float64
		no, among int
	}{{0, 0, 100}, {1, 100, 100}, {0.5, 50, 100}} {
		no := 0
		for seed := range uint64(c.among) {
			got := object(t, simulated.Model{Seed: seed, Rejects: c.rejects}, provider.Request{For: p})
			approved, ok := got["approved"].(bool)
			if !ok {
				t.Fatalf("got %v", got)
			}
			if !approved {
				no++
			}
			if problems, _ := got["problems"].([]any); (len(problems) == 0) != approved {
				t.Fatalf("approved %t with the problems %v", approved, problems)
			}
		}
		if no < c.no-20 || no > c.no+20 || c.no == 0 && no > 0 || c.no == 100 && no < 100 {
			t.Errorf("with %v it rejects %d of %d", c.rejects, no, c.among)
		}
	}
	p.Expected = ""
	if got := object(t, simulated.Model{}, provider.Request{For: p}); got["approved"] != true || !strings.Contains(fmt.Sprint(got["comment"]), "Simulated") {
		t.Errorf("got %v", got)
	}
}

// Loops that wait for a yes or for a no both end.
func TestYesAndNoComeRound(t *testing.T) {
	for _, name := range []string{"good_enough", "needs_revision", "whatever"} {
		seen := map[any]bool{}
		for visit := range 4 {
			p := provider.Purpose{Step: "judge", Visit: visit, Expected: "Object: { " + name + ": boolean }"}
			seen[object(t, simulated.Model{Seed: 3}, provider.Request{For: p})[name]] = true
		}
		if len(seen) != 2 {
			t.Errorf("%s is always %v", name, seen)
		}
	}
}

// What a prompt says may hold the time of an approval; the reply is the same.
func TestContentDoesNotCount(t *testing.T) {
	p := provider.Purpose{Step: "s", Key: "s#0", Expected: "Object: { summary, count: integer, ok: boolean }"}
	a := reply(t, simulated.Model{}, provider.Request{Messages: user("at 10:00"), For: p})
	b := reply(t, simulated.Model{}, provider.Request{Messages: user("at 11:00"), For: p})
	if a != b {
		t.Errorf("%s\n%s", a, b)
	}
}

func TestSeedsDiffer(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(20) {
		p := provider.Purpose{Step: "s", Expected: "Object: { summary, owner, count: integer, kind: a | b | c }"}
		seen[reply(t, simulated.Model{Seed: seed}, provider.Request{For: p})] = true
	}
	if len(seen) < 10 {
		t.Errorf("20 seeds have %d replies", len(seen))
	}
}

// A reply that would be too long says less rather than break off, if it can.
func TestShortRepliesAreWhole(t *testing.T) {
	schema := json.RawMessage(`{"type": "object", "required": ["ok"], "properties": {
		"ok": {"type": "boolean"}, "summary": {"type": "string"}, "notes": {"type": "array", "items": {"type": "string"}}}}`)
	for _, most := range []int{10, 30, 1000} {
		r, err := providertest.Collect(t, simulated.Model{}.Generate(t.Context(), provider.Request{Schema: schema, MaxTokens: most}))
		if err != nil {
			t.Fatal(err)
		}
		if err := providertest.Validate(schema, []byte(r.Text())); err != nil || r.Stop != provider.Done || r.Usage.Output > int64(most) {
			t.Errorf("%d: %s %+v %v", most, r.Stop, r.Usage, err)
		}
	}
	r, err := providertest.Collect(t, simulated.Model{}.Generate(t.Context(), provider.Request{Schema: schema, MaxTokens: 1}))
	if err != nil || r.Stop != provider.CutOff || r.Usage.Output > 1 {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestToolsAreAskedForOnce(t *testing.T) {
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
	if r, err = providertest.Collect(t, m.Generate(t.Context(), req)); err != nil || len(r.Blocks) != 1 || r.Blocks[0].ToolName != "b" {
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
	req := provider.Request{For: provider.Purpose{Step: "s", Expected: "Object: { kind: a | b, why: text }", Choices: map[string][]string{"kind": {"a", "b"}}}}
	for b.Loop() {
		for range (simulated.Model{}).Generate(b.Context(), req) {
		}
	}
}
