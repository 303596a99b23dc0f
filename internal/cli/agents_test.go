package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/registry"
)

// bench is a project with a server of models that speaks as a test says.
type bench struct {
	t      *testing.T
	dir    string // of the project
	home   string
	answer func(asked asked) modelReply

	mu   sync.Mutex
	seen []asked // by the server, whole requests only
}

// asked is a request as the server understands it.
type asked struct {
	Model    string `json:"model"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	Tools []struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	} `json:"tools"`
	whole string
}

// results is how many results of tools the request holds.
func (a asked) results() int {
	n := 0
	for _, m := range a.Messages {
		if m.Role == "tool" {
			n++
		}
	}
	return n
}

// modelReply is an answer: text, or calls of tools by name and arguments.
type modelReply struct {
	text  string
	calls [][2]string
}

// Each answer costs this, so that bills can be added up.
const (
	benchInput  = 20
	benchOutput = 3
)

func newBench(t *testing.T, archive string, answer func(asked) modelReply) *bench {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, dir: filepath.Join(dir, "project"), home: filepath.Join(dir, "home"), answer: answer}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	settings := fmt.Sprintf(`models:
  default: mine/usual
  providers: {mine: {api: openai, base_url: "%s", max_retries: 0}}
prices: {usual: {input: 1, output: 10}}
`, server.URL)
	files := txtar.Parse([]byte(archive)).Files
	for _, f := range append(files, txtar.File{Name: "project/espalier.yaml", Data: []byte(settings)}) {
		at := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func (b *bench) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	request := asked{whole: string(raw)}
	if err == nil {
		err = json.Unmarshal(raw, &request)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return // who sent it was stopped before it was all there
	}
	if err != nil {
		b.t.Errorf("a request cannot be read: %v", err)
		return
	}
	b.mu.Lock()
	b.seen = append(b.seen, request)
	b.mu.Unlock()
	say := b.answer(request)
	w.Header().Set("Content-Type", "text/event-stream")
	chunk := func(delta any, finish string) {
		raw, err := json.Marshal(map[string]any{
			"id": "c", "object": "chat.completion.chunk", "created": 1, "model": request.Model,
			"choices": []any{map[string]any{
				"index": 0, "delta": delta,
				"finish_reason": map[bool]any{true: nil, false: finish}[finish == ""],
			}},
		})
		if err != nil {
			b.t.Error(err)
		}
		fmt.Fprintf(w, "data: %s\n\n", raw)
	}
	chunk(map[string]any{"role": "assistant", "content": say.text}, "")
	finish := "stop"
	for i, call := range say.calls {
		finish = "tool_calls"
		chunk(map[string]any{"tool_calls": []any{map[string]any{
			"index": i, "id": fmt.Sprintf("call_%d_%d", len(request.Messages), i), "type": "function",
			"function": map[string]any{"name": call[0], "arguments": call[1]},
		}}}, "")
	}
	chunk(map[string]any{}, finish)
	fmt.Fprintf(w,
		"data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":%q,\"choices\":[],"+
			"\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d,\"total_tokens\":%d}}\n\ndata: [DONE]\n\n",
		request.Model, benchInput, benchOutput, benchInput+benchOutput)
}

// requests is what the server has seen so far.
func (b *bench) requests() []asked {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]asked(nil), b.seen...)
}

func (b *bench) do(wrap func(journal.Store) journal.Store, args ...string) (stdout, stderr string, code int) {
	var out, problems strings.Builder
	code = Main(Environment{
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &problems, Dir: b.dir, Journal: wrap,
		Getenv: func(name string) string { return map[string]string{"HOME": b.home}[name] },
	}, args)
	return out.String(), problems.String(), code
}

const benchRun = "00000000-0000-4000-8000-0000000000c1"

func TestSkillsOfTheUserApplyToRuns(t *testing.T) {
	guide := ""
	b := newBench(t, `
-- project/.git/HEAD --
-- project/flow.md --
---
name: flow
description: Two skills, one after the other
kind: agent-flow/workflow
---
`+"```step"+`
id: first
type: skill
description: Say the word
agent: speaker
writes: [state.word]
`+"```"+`
`+"```step"+`
id: second
type: skill
description: Use the skill
skill_ref: forked
reads: [input.topic]
writes: [output.text]
`+"```"+`
`+"```agent"+`
id: speaker
role: Speaks
goal: A word
`+"```"+`
-- home/.claude/skills/forked/SKILL.md --
---
name: forked
description: Looks things up
allowed-tools: Read
model: mine/of-the-skill
context: fork
---
Follow references/guide.md.
-- home/.claude/skills/forked/references/guide.md --
Mind the gap.
-- home/.claude/skills/other/SKILL.md --
---
name: other
description: Is none of its business
---
Other.
-- home/.claude/skills/other/references/private.md --
Not for everybody.
`, func(a asked) modelReply {
		switch {
		case len(a.Tools) == 0:
			return modelReply{text: "The word is quince."}
		case a.results() == 0:
			return modelReply{calls: [][2]string{
				{"Read", fmt.Sprintf(`{"path": %q}`, guide)},
				{"Read", fmt.Sprintf(`{"path": %q}`, strings.ReplaceAll(strings.ReplaceAll(guide, "forked", "other"),
					"guide", "private"))},
			}}
		}
		return modelReply{text: "Done."}
	})
	guide = filepath.ToSlash(filepath.Join(b.home, ".claude/skills/forked/references/guide.md"))
	out, stderr, code := b.do(nil, "run", "flow.md", "--input", "topic=pears", "--run-id", benchRun)
	seen := b.requests()
	if code != 0 || len(seen) != 3 {
		t.Fatalf("exit %d after %d requests\n%s%s", code, len(seen), out, stderr)
	}
	opening, after := seen[1], seen[2].whole
	// model and allowed-tools are the skill's; its files are named as Read takes them.
	if opening.Model != "of-the-skill" || len(opening.Tools) != 1 || opening.Tools[0].Function.Name != "Read" {
		t.Errorf("asked %s with %+v", opening.Model, opening.Tools)
	}
	if !strings.Contains(opening.whole, "- "+guide) || strings.Contains(opening.whole, "private.md") {
		t.Errorf("the files are not listed: %s", opening.whole)
	}
	// The skill's own files can be read, another skill's cannot.
	if !strings.Contains(after, "Mind the gap.") || strings.Contains(after, "Not for everybody") ||
		!strings.Contains(after, "is neither in the project") {
		t.Errorf("what was read: %s", after)
	}
	// context: fork: a conversation of its own, which knows what the step
	// reads and nothing of what was said before.
	if len(opening.Messages) != 2 || !strings.Contains(opening.whole, "pears") ||
		strings.Contains(opening.whole, "quince") {
		t.Errorf("not a conversation of its own: %s", opening.whole)
	}
}

// A model that repeats a failing call gets a warning and is then stopped, which bounds the cost.
func TestLoopOnAFailingToolIsStopped(t *testing.T) {
	learns := false
	b := newBench(t, `
-- project/.git/HEAD --
-- project/SKILL.md --
---
name: project
description: Reads
allowed-tools: Read
---
Read it.
`, func(a asked) modelReply {
		if learns && strings.Contains(a.whole, "It will fail again") {
			return modelReply{text: "There is no such file."}
		}
		return modelReply{calls: [][2]string{{"Read", `{"path": "nowhere.md"}`}}}
	})
	out, stderr, code := b.do(nil, "run", "SKILL.md", "--run-id", benchRun, "--json")
	if n := len(b.requests()); code != 1 || n != 5 || !strings.Contains(out+stderr, "INVALID_OUTPUT") ||
		!strings.Contains(out+stderr, "failed in the same way each time") {
		t.Errorf("exit %d after %d requests\n%s%s", code, n, out, stderr)
	}
	record, _, _ := b.do(nil, "transcript", benchRun[:8])
	if !strings.Contains(record, "It will fail again") ||
		!strings.Contains(record, `the same tool 3 times with the arguments {`) {
		t.Errorf("nothing is on record:\n%s", record)
	}
	learns = true
	out, stderr, code = b.do(nil, "run", "SKILL.md", "--json")
	if n := len(b.requests()) - 5; code != 0 || n != 4 || !strings.Contains(out, "There is no such file") {
		t.Errorf("exit %d after %d requests\n%s%s", code, n, out, stderr)
	}
}

// The first setting that names a model applies.
func TestFirstConfiguredModelApplies(t *testing.T) {
	const flow = `
-- project/.git/HEAD --
-- project/skills/s/SKILL.md --
---
name: s
description: A skill
SKILL---
Say something.
-- project/flow.md --
---
name: flow
description: One step
kind: agent-flow/workflow
---
` + "```step" + `
id: one
type: skill
description: Say something
STEP
writes: [output.text]
` + "```" + `
` + "```agent" + `
id: speaker
role: Speaks
goal: A word
AGENT
` + "```" + `
`
	for name, c := range map[string]struct {
		agent, skill string // models that they name
		useSkill     bool
		args         []string
		want         string
	}{
		"--model beats an agent": {
			agent: "mine/agents", args: []string{"--model", "mine/flags"},
			want: "flags",
		},
		"--model beats a skill": {
			skill: "mine/skills", useSkill: true,
			args: []string{"--model", "mine/flags"}, want: "flags",
		},
		"--model beats the configuration":  {args: []string{"--model", "mine/flags"}, want: "flags"},
		"an agent beats the configuration": {agent: "mine/agents", want: "agents"},
		"a skill beats the configuration":  {skill: "mine/skills", useSkill: true, want: "skills"},
		"a skill that inherits":            {skill: "inherit", useSkill: true, want: "usual"},
		"a skill beats an agent not asked": {
			agent: "mine/agents", skill: "mine/skills", useSkill: true,
			want: "skills",
		},
		"the configuration, of an agent": {want: "usual"},
		"the configuration, of a skill":  {useSkill: true, want: "usual"},
	} {
		t.Run(name, func(t *testing.T) {
			line := func(model string) string {
				if model == "" {
					return ""
				}
				return "model: " + model + "\n"
			}
			who := "agent: speaker"
			if c.useSkill {
				who = "skill_ref: skills/s/SKILL.md"
			}
			b := newBench(t, strings.NewReplacer("SKILL---", line(c.skill)+"---", "STEP", who, "AGENT\n",
				line(c.agent)).Replace(flow), func(asked) modelReply { return modelReply{text: "Hello."} })
			out, stderr, code := b.do(nil, append([]string{"run", "flow.md"}, c.args...)...)
			if seen := b.requests(); code != 0 || len(seen) != 1 || seen[0].Model != c.want {
				t.Errorf("exit %d, %+v\n%s%s", code, seen, out, stderr)
			}
		})
	}
}

var errStopped = errors.New("stopped here")

// stopping is a journal whose process dies at its n-th append: before it, or
// after it without hearing of it.
type stopping struct {
	journal.Store
	left  *atomic.Int64
	after bool
}

func (s stopping) Append(b journal.Batch, done func(error)) {
	switch left := s.left.Add(-1); {
	case left > 0:
		s.Store.Append(b, done)
	case left == 0 && s.after:
		s.Store.Append(b, func(error) { done(errStopped) })
	default:
		go done(errStopped)
	}
}

// kept counts what the journal holds: replies of models and results of tools.
func (b *bench) kept() (replies, results, appends int) {
	b.t.Helper()
	r, err := registry.OpenRuntime(filepath.Join(b.dir, ".espalier"), registry.RuntimeOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	defer r.Close()
	for one, err := range r.Store.Runs(b.t.Context(), journal.Filter{Children: true}) {
		if err != nil {
			b.t.Fatal(err)
		}
		for e, err := range r.Store.Events(b.t.Context(), one.ID, 0) {
			if err != nil {
				b.t.Fatal(err)
			}
			if n, ok := e.Fact.(journal.TaskNoted); ok && n.Kind == journal.NoteReply {
				replies++
			} else if ok && n.Kind == journal.NoteToolResult {
				results++
			}
		}
	}
	for _, err := range r.Store.Tail(b.t.Context(), 0) {
		if err != nil {
			b.t.Fatal(err)
		}
		appends++
	}
	return replies, results, appends
}

// bill is what a run says that it has used.
type bill struct {
	Calls  int `json:"model_calls"`
	Tools  int `json:"tool_calls"`
	Input  int `json:"input_tokens"`
	Output int `json:"output_tokens"`
	Micro  int `json:"micro_dollars"`
}

func (b *bench) bill() bill {
	b.t.Helper()
	out, stderr, _ := b.do(nil, "status", benchRun[:8], "--json")
	var status struct {
		Used bill `json:"used"`
	}
	if err := json.Unmarshal([]byte(out), &status); err != nil {
		b.t.Fatalf("%v\n%s%s", err, out, stderr)
	}
	return status.Used
}

const twoAndOne = `
-- project/.git/HEAD --
-- project/notes.md --
Quinces are sour.
-- project/flow.md --
---
name: flow
description: Two at the same time, then one with tools
kind: agent-flow/workflow
---
` + "```step" + `
id: both
type: parallel
description: Look at it from two sides
bundle: sides
writes: [state.views]
` + "```" + `
` + "```step" + `
id: sum
type: skill
description: Sum it up
agent: clerk
reads: [state.views]
writes: [output.text]
` + "```" + `
` + "```agent" + `
id: left
role: Looks from the left
goal: A view
` + "```" + `
` + "```agent" + `
id: right
role: Looks from the right
goal: A view
` + "```" + `
` + "```agent" + `
id: clerk
role: Sums up
goal: A text
tools: [Read, Grep]
` + "```" + `
` + "```bundle" + `
name: sides
workers:
  - id: left
    agent: left
  - id: right
    agent: right
merge:
  strategy: union
` + "```" + `
`

func twoAndOneAnswer(a asked) modelReply {
	switch {
	case len(a.Tools) == 0:
		return modelReply{text: `{"items": [{"view": "sour"}], "summary": "sour", "type": "view"}`}
	case a.results() == 0:
		return modelReply{calls: [][2]string{{"Read", `{"path": "notes.md"}`}, {"Grep", `{"pattern": "sour"}`}}}
	}
	return modelReply{text: "They are sour."}
}

// Stopped at every fact and resumed, a run asks for each reply that it has not
// kept once more, for no other again, and its bill covers every call that the
// server saw.
func TestAgentsStoppedAtAnyFactAskForNoReplyTwice(t *testing.T) {
	calm := newBench(t, twoAndOne, twoAndOneAnswer)
	if out, stderr, code := calm.do(nil, "run", "flow.md", "--run-id", benchRun); code != 0 {
		t.Fatalf("exit %d\n%s%s", code, out, stderr)
	}
	all := len(calm.requests())
	replies, results, appends := calm.kept()
	want := bill{
		Calls: all, Tools: results, Input: all * benchInput, Output: all * benchOutput,
		Micro: all * (benchInput + 10*benchOutput),
	}
	if got := calm.bill(); all != 4 || replies != all || results != 2 || got != want {
		t.Fatalf("%d requests, %d replies, %d results, %+v, not %+v", all, replies, results, got, want)
	}
	for at := 1; at <= appends; at++ {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("append %d, after %t", at, after), func(t *testing.T) {
				b := newBench(t, twoAndOne, twoAndOneAnswer)
				left := new(atomic.Int64)
				left.Store(int64(at))
				wrap := func(s journal.Store) journal.Store { return stopping{s, left, after} }
				b.do(wrap, "run", "flow.md", "--run-id", benchRun)
				before := len(b.requests())
				kept, returned, appended := b.kept()
				if appended == 0 {
					return // it never began
				}
				if _, stderr, code := b.do(nil, "resume", benchRun[:8]); code != 0 && kept < all {
					t.Fatalf("exit %d\n%s", code, stderr)
				}
				seen := len(b.requests())
				if again := seen - before; again != all-kept {
					t.Errorf("%d of %d replies were kept, and %d were asked for", kept, all, again)
				}
				if n, made, _ := b.kept(); n != all || made != results || returned > made {
					t.Errorf("%d replies and %d results on record", n, made)
				}
				// A call that was set aside when the process died may have been
				// made: it counts, and at its worst.
				got := b.bill()
				if lost := got.Calls - all; got.Calls < seen || lost > 2 || lost < 0 || lost == 0 &&
					got.Micro != want.Micro || lost > 0 && got.Micro <= want.Micro {
					t.Errorf("the server saw %d calls, the bill is %+v", seen, got)
				}
				out, stderr, code := b.do(nil, "audit", "verify", benchRun[:8])
				if code != 0 {
					t.Errorf("exit %d\n%s%s", code, out, stderr)
				}
			})
		}
	}
}
