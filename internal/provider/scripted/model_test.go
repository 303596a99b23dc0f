package scripted_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/provider/providertest"
	"github.com/espalier-run/espalier/internal/provider/scripted"
	"github.com/espalier-run/espalier/internal/provider/simulated"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/tool"
)

func TestScriptedModelMeetsTheModelContract(t *testing.T) {
	s := good(t, `
replies:
  - step: text
    thinking: "They want to know about trees."
    reply: "Hello! An espalier is a tree that is trained along a frame: the frame is fixed, the growth is free."
  - step: json
    reply: {answer: yes it is, score: 7}
  - step: short
    reply: "This goes on for far longer than anybody who asked for a few words would like."
  - step: tool
    tools: [{name: weather, input: {city: Leeds}}]
    reply: "It rains in Leeds."
  - step: busy
    fail: {class: RATE_LIMIT, status: 429, retry_after: 1.5s}
  - step: broken
    reply: "The line is going"
    fail: API_ERROR
`)
	ask := func(step string) provider.Request {
		return provider.Request{For: provider.Purpose{Step: step}}
	}
	providertest.Run(t, providertest.Subject{
		Model: s.Model(scripted.Options{}), Offline: "scripted",
		Failures: []providertest.Failure{
			{
				Request: ask("busy"),
				Want:    provider.Error{Class: ir.ClassRateLimit, Status: 429, RetryAfter: 1500 * time.Millisecond},
			},
			{Request: ask("broken"), Want: provider.Error{Class: ir.ClassAPI}},
			{Request: ask("unknown"), Want: provider.Error{Class: ir.ClassBadRequest}},
		},
	})
}

func answer(t testing.TB, s *scripted.Script, p provider.Purpose) string {
	t.Helper()
	r, err := providertest.Collect(t,
		s.Model(scripted.Options{Simulate: simulated.Model{}}).Generate(t.Context(), provider.Request{For: p}))
	if err != nil {
		return err.Error()
	}
	return r.Text()
}

func TestMostSpecificEntryAnswers(t *testing.T) {
	s := good(t, `
replies:
  - reply: anything
  - agent: writer
    reply: the writer
  - agent: writer
    turn: 2
    reply: the writer's second turn
  - workflow: child
    reply: the child
  - step: draft
    reply: draft
  - step: draft
    attempt: 1
    fail: TIMEOUT
  - step: draft
    visit: 2-3
    attempt: 1
    reply: draft once more
  - step: draft
    agent: critic
    reply: the critic's draft
  - key: each/*/draft
    reply: draft in the loop
  - key: each/3/draft
    step: draft
    reply: the fourth
  - step: judge
    iteration: 3+
    reply: enough
`)
	type p = provider.Purpose
	for _, c := range []struct {
		where p
		want  string
	}{
		{p{Step: "x"}, "anything"},
		{p{}, "anything"},
		{p{Step: "x", Agent: "writer"}, "the writer"},
		{p{Step: "x", Agent: "writer", Turn: 1}, "the writer's second turn"},
		{p{Step: "x", Agent: "writer", Turn: 2}, "the writer"},
		{p{Step: "x", Workflow: "child"}, "the child"},
		{p{Step: "x", Workflow: "child", Agent: "writer"}, "the writer"},
		{p{Step: "draft", Agent: "writer", Attempt: 1}, "draft"},
		{p{Step: "draft"}, "TIMEOUT: the script says so"},
		{p{Step: "draft", Visit: 1}, "draft once more"},
		{p{Step: "draft", Visit: 2}, "draft once more"},
		{p{Step: "draft", Visit: 3}, "TIMEOUT: the script says so"},
		{p{Step: "draft", Agent: "critic"}, "the critic's draft"},
		{p{Step: "draft", Key: "each/2/draft#0"}, "draft in the loop"},
		{p{Step: "draft", Key: "each/2/draft~1#0"}, "draft in the loop"},
		{p{Step: "draft", Key: "each/3/draft#4"}, "the fourth"},
		{p{Step: "judge", Iteration: 1}, "anything"},
		{p{Step: "judge", Iteration: 2}, "enough"},
		{p{Step: "judge", Iteration: 20}, "enough"},
	} {
		if got := answer(t, s, c.where); got != c.want {
			t.Errorf("%+v: got %q, want %q", c.where, got, c.want)
		}
	}
}

// A repeated request gets the same reply, so retries survive a crash.
func TestRepeatedRequestGetsTheSameReply(t *testing.T) {
	s := good(t, "replies:\n  - step: a\n    attempt: 1-2\n    fail: TIMEOUT\n  - step: a\n    reply: at last\n")
	for range 3 {
		for attempt, want := range []string{
			"TIMEOUT: the script says so", "TIMEOUT: the script says so", "at last",
			"at last",
		} {
			if got := answer(t, s, provider.Purpose{Step: "a", Attempt: attempt}); got != want {
				t.Errorf("attempt %d: %q", attempt, got)
			}
		}
	}
}

func TestRepliesAreSentAsWritten(t *testing.T) {
	s := good(t, "replies:\n  - step: a\n    reply: {b: [1, 2.50, null], c: \"x\"}\n  - step: b\n    reply: "+
		"\"true\"\n  - step: c\n    reply: 5\n  - step: d\n    reply: |\n      two\n      lines\n")
	for step, want := range map[string]string{
		"a": `{"b":[1,2.50,null],"c":"x"}`, "b": "true", "c": "5",
		"d": "two\nlines\n",
	} {
		if got := answer(t, s, provider.Purpose{Step: step}); got != want {
			t.Errorf("%s: got %q, want %q", step, got, want)
		}
	}
}

func TestEntriesSetUsageAndStop(t *testing.T) {
	s := good(t, "replies:\n  - step: a\n    reply: x\n    usage: {input: 900, output: 40, cache_read: 7}\n    stop: "+
		"refused\n  - step: b\n    reply: abcdefgh\n    usage: {input: 3}\n")
	r, err := providertest.Collect(t,
		s.Model(scripted.Options{}).Generate(t.Context(), provider.Request{For: provider.Purpose{Step: "a"}}))
	if err != nil || r.Stop != provider.Refused || r.Usage != (provider.Usage{Input: 900, Output: 40, CacheRead: 7}) {
		t.Errorf("got %+v, %v", r, err)
	}
	r, err = providertest.Collect(t,
		s.Model(scripted.Options{}).Generate(t.Context(), provider.Request{For: provider.Purpose{Step: "b"}}))
	if err != nil || r.Stop != provider.Done || r.Usage != (provider.Usage{Input: 3, Output: 2}) {
		t.Errorf("got %+v, %v", r, err)
	}
}

// Several entries may call tools in one conversation; each does so once.
func TestEachEntryCallsItsToolsOnce(t *testing.T) {
	s := good(t, "replies:\n  - step: a\n    turn: 1\n    tools: [{name: x}, {name: y, input: {n: 1}}]\n  - step: a\n"+
		"    tools: [{name: z}]\n  - agent: b\n    reply: done\n")
	req := provider.Request{For: provider.Purpose{Step: "a", Agent: "b"}}
	var asked []string
	for turn := range 3 {
		req.For.Turn = turn
		r, err := providertest.Collect(t, s.Model(scripted.Options{}).Generate(t.Context(), req))
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range r.Blocks {
			asked = append(asked, b.ToolName+string(b.Input)+b.Text)
		}
		req.Messages = append(req.Messages, provider.Message{Role: provider.Assistant, Blocks: r.Blocks})
	}
	if got := strings.Join(asked, " "); got != `x{} y{"n":1} z{} done` {
		t.Errorf("got %s", got)
	}
}

// The chunks before a failure are streamed, and there is no reply.
func TestFailureAfterChunksHasNoReply(t *testing.T) {
	s := good(t, "replies:\n  - reply: \"half of it\"\n    fail: {class: API_ERROR, message: cut}\n")
	text := ""
	var failed error
	for c, err := range s.Model(scripted.Options{}).Generate(t.Context(), provider.Request{}) {
		text, failed = text+c.Text, err
	}
	var e *provider.Error
	if text != "half of it" || !errors.As(failed, &e) || e.Message != "cut" || !e.Retryable() {
		t.Errorf("%q %v", text, failed)
	}
}

func TestRepliesWaitForTheirDelay(t *testing.T) {
	s := good(t, "replies:\n  - reply: late\n    delay: 1h\ntools:\n  x:\n    - output: 1\n      delay: 2h\n")
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if got := answer(t, s, provider.Purpose{}); got != "late" || time.Since(began) != time.Hour {
			t.Errorf("%q after %s", got, time.Since(began))
		}
		if _, err := s.Tools(scripted.Options{})[0].Call(t.Context(), tool.Call{}); err != nil ||
			time.Since(began) != 3*time.Hour {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began = time.Now()
		_, err := providertest.Collect(t, s.Model(scripted.Options{}).Generate(ctx, provider.Request{}))
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Minute {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
	var waited time.Duration
	quick := scripted.Options{Sleep: func(_ context.Context, d time.Duration) error { waited += d; return nil }}
	if r, err := providertest.Collect(t, s.Model(quick).Generate(t.Context(), provider.Request{})); err != nil ||
		r.Text() != "late" || waited != time.Hour {
		t.Errorf("%v after %s", err, waited)
	}
}

func TestMissNamesTheNearestEntry(t *testing.T) {
	s := good(t, "replies:\n  - step: research\n    reply: x\n  - step: draft\n    attempt: 1\n    reply: y\n")
	req := provider.Request{
		Messages: []provider.Message{{
			Role:   provider.User,
			Blocks: []provider.Block{{Type: provider.Text, Text: "Write\nthe brief."}},
		}},
		For: provider.Purpose{Step: "draft", Agent: "writer", Attempt: 1},
	}
	_, err := providertest.Collect(t, s.Model(scripted.Options{}).Generate(t.Context(), req))
	want := `BAD_REQUEST: demo.yaml has no reply for step "draft", agent "writer", visit 1, iteration 1, attempt 2, ` +
		`turn 1, ` +
		`whose prompt starts with "Write the brief.". The nearest entry, in line 4, is for step "draft", attempt 1.`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	req.For = provider.Purpose{Step: "reserch"}
	if _, err = providertest.Collect(t, s.Model(scripted.Options{}).Generate(t.Context(), req)); err == nil ||
		!strings.HasSuffix(err.Error(), `in line 2, is for step "research".`) {
		t.Errorf("got %v", err)
	}
	if got := answer(t, good(t, ""), provider.Purpose{Step: "a"}); !strings.HasSuffix(got, "It has no entries.") {
		t.Errorf("got %q", got)
	}
}

func TestUnscriptedRequestsCanBeSimulated(t *testing.T) {
	s := good(t, "replies:\n  - step: a\n    reply: x\notherwise: simulate\n")
	req := provider.Request{For: provider.Purpose{Step: "b"}}
	r, err := providertest.Collect(t, s.Model(scripted.Options{Simulate: simulated.Model{}}).Generate(t.Context(), req))
	if err != nil || r.Offline != "simulated" {
		t.Errorf("got %+v, %v", r, err)
	}
	if _, err = providertest.Collect(t, s.Model(scripted.Options{}).Generate(t.Context(), req)); err == nil {
		t.Error("simulated without a simulator")
	}
	if r, err = providertest.Collect(t,
		s.Model(scripted.Options{Simulate: simulated.Model{}}).Generate(t.Context(),
			provider.Request{For: provider.Purpose{Step: "a"}})); err != nil || r.Offline != "scripted" {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestScriptedToolsAnswerByInputAndStep(t *testing.T) {
	tools := good(t, `
tools:
  web.search:
    - output: [none]
    - input: {query: roses, deep: {a: 1}}
      output: [{title: Roses}]
    - step: research
      attempt: 1
      fail: {class: TIMEOUT, message: nobody there}
  mail.send:
    description: Sends a mail
    side_effects: true
    takes_key: true
    schema: {type: object}
    answers:
      - step: send
        error: {message: no such address}
`).Tools(scripted.Options{})
	if len(tools) != 2 {
		t.Fatalf("%d tools", len(tools))
	}
	spec := tools[1].Spec()
	if spec.Name != "mail.send" || spec.Description != "Sends a mail" || !spec.SideEffects || !spec.TakesKey ||
		string(spec.Schema) != `{"type":"object"}` {
		t.Errorf("got %+v", spec)
	}
	if spec := tools[0].Spec(); spec.Name != "web.search" || spec.SideEffects || spec.Description == "" {
		t.Errorf("got %+v", spec)
	}
	type p = tool.Purpose
	for _, c := range []struct {
		tool  int
		input string
		where p
		want  string
	}{
		{0, `{}`, p{}, `["none"] false scripted`},
		{0, `{"query": "tulips"}`, p{}, `["none"] false scripted`},
		{0, `{"query": "roses", "deep": {"a": 1.0, "b": 2}, "x": 1}`, p{}, `[{"title":"Roses"}] false scripted`},
		{0, `{"query": "roses"}`, p{}, `["none"] false scripted`},
		{0, `not JSON`, p{}, `["none"] false scripted`},
		{0, `{}`, p{Step: "research"}, `TIMEOUT: nobody there`},
		{0, `{}`, p{Step: "research", Attempt: 1}, `["none"] false scripted`},
		{1, `{}`, p{Step: "send"}, `{"message":"no such address"} true scripted`},
		{
			1, `{"to": "x"}`,
			p{Step: "sent"},
			`TOOL_ERROR: demo.yaml has no answer of the tool "mail.send" for step "sent", key "k", visit 1, ` +
				`iteration 1, attempt 1, ` +
				`with the input {"to": "x"}. The nearest entry, in line 16, is for step "send".`,
		},
	} {
		r, err := tools[c.tool].Call(t.Context(), tool.Call{Key: "k", Input: json.RawMessage(c.input), For: c.where})
		got := fmt.Sprintf("%s %t %s", r.Output, r.IsError, r.Offline)
		if err != nil {
			var failed *tool.Error
			if !errors.As(err, &failed) {
				t.Errorf("%v is a %T", err, err)
			}
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v: got %s, want %s", c, got, c.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tools[0].Call(ctx, tool.Call{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// The order of entries matters only among equals: in any order, each request gets the same reply as long as no two
// entries are equally specific.
func TestOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seen := map[string]bool{}
		var entries []string
		for i := range rapid.IntRange(1, 8).Draw(rt, "entries") {
			// Entries form chains of increasing specificity: of two equally specific entries that match, the first
			// would win.
			var e strings.Builder
			depth := rapid.IntRange(0, 3).Draw(rt, "depth")
			for _, key := range []string{"step", "agent", "attempt"}[:depth] {
				fmt.Fprintf(&e, "    %s: %s\n", key, rapid.SampledFrom([]string{"1", "2"}).Draw(rt, key))
			}
			if !seen[e.String()] {
				seen[e.String()] = true
				entries = append(entries, "  - delay: 0s\n"+e.String()+fmt.Sprintf("    reply: \"reply %d\"\n", i))
			}
		}
		script := func(list []string) *scripted.Script {
			s, diags := scripted.Parse(source.NewFile("demo.yaml", "replies:\n"+strings.Join(list, "")))
			if len(diags) > 0 {
				rt.Fatalf("%+v", diags)
			}
			return s
		}
		one, other := script(entries), script(rapid.Permutation(entries).Draw(rt, "shuffled"))
		p := provider.Purpose{
			Step:    rapid.SampledFrom([]string{"1", "2"}).Draw(rt, "of step"),
			Agent:   rapid.SampledFrom([]string{"1", "2"}).Draw(rt, "of agent"),
			Attempt: rapid.IntRange(0, 1).Draw(rt, "at attempt"),
		}
		a, b := answer(t, one, p), answer(t, other, p)
		if a != b && !strings.Contains(a, "has no reply") {
			rt.Fatalf("%q and %q", a, b)
		}
	})
}

// A key may be the key of a task, with or without a slash before it, or the name that people see.
func TestKeySelectsTasks(t *testing.T) {
	for _, c := range []struct {
		pattern, key string
		want         bool
	}{
		{"a", "a#0", true},
		{"/a", "a#0", true},
		{"/a#0", "a#0", true},
		{"a#0", "a#1", false},
		{"a", "a~2#0", true},
		{"a#0", "a~2#0", true},
		{"a~1", "a~2#0", false},
		{"a", "a:verdict#0", true},
		{"a", "a:gate#0", false},
		{"review/1/judge", "review/1/judge~1#0", true},
		{"review/1/judge", "review~1/1/judge#3", true},
		{"review/1/judge", "review~2@1/1/judge~3#0", true},
		{"review.judge[1]", "review/1/judge#2", true},
		{"review.judge[1]", "review/2/judge#0", false},
		{"call › a", "call/call/a#0", true},
		{"a", "call/call/a#0", false},
		{"*", "review/1/judge#0", false},
	} {
		s := good(t, "replies:\n  - key: '"+c.pattern+"'\n    reply: hit\n  - reply: miss\n")
		if got := answer(t, s, provider.Purpose{Key: c.key}); (got == "hit") != c.want {
			t.Errorf("%s on %s: got %s", c.pattern, c.key, got)
		}
	}
}

// The key of a tool call has the run before the key of the task, and the number of the call behind it.
func TestKeySelectsToolCalls(t *testing.T) {
	s := good(t, "tools:\n  x:\n    - key: /each/2/a\n      output: hit\n")
	r, err := s.Tools(scripted.Options{})[0].Call(t.Context(), tool.Call{Key: "run/each/2/a#0/call:1"})
	if err != nil || string(r.Output) != `"hit"` {
		t.Errorf("got %s, %v", r.Output, err)
	}
}
