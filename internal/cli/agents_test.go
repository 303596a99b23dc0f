package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/espalier-run/espalier/internal/journal"
)

// bench is a project with a server of models that speaks as a test says.
type bench struct {
	t      *testing.T
	dir    string // of the project
	home   string
	answer func(asked asked) said

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

// said is an answer: text, or calls of tools by name and arguments.
type said struct {
	text  string
	calls [][2]string
}

// Each answer costs this, so that bills can be added up.
const (
	benchInput  = 20
	benchOutput = 3
)

func newBench(t *testing.T, archive string, answer func(asked) said) *bench {
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
			"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": map[bool]any{true: nil, false: finish}[finish == ""]}},
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
	fmt.Fprintf(w, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":%q,\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d,\"total_tokens\":%d}}\n\ndata: [DONE]\n\n",
		request.Model, benchInput, benchOutput, benchInput+benchOutput)
}

// requests is what the server has seen so far.
func (b *bench) requests() []asked {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]asked(nil), b.seen...)
}

func (b *bench) do(wrap func(journal.Store) journal.Store, args ...string) (stdout, stderr string, code int) {
	var out, told strings.Builder
	code = Main(World{
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &told, Dir: b.dir, Journal: wrap,
		Getenv: func(name string) string { return map[string]string{"HOME": b.home}[name] },
	}, args)
	return out.String(), told.String(), code
}

const benchRun = "00000000-0000-4000-8000-0000000000c1"

func TestSkillsOfTheUser(t *testing.T) {
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
`, func(a asked) said {
		switch {
		case len(a.Tools) == 0:
			return said{text: "The word is quince."}
		case a.results() == 0:
			return said{calls: [][2]string{
				{"Read", fmt.Sprintf(`{"path": %q}`, guide)},
				{"Read", fmt.Sprintf(`{"path": %q}`, strings.ReplaceAll(strings.ReplaceAll(guide, "forked", "other"), "guide", "private"))},
			}}
		}
		return said{text: "Done."}
	})
	guide = filepath.ToSlash(filepath.Join(b.home, ".claude/skills/forked/references/guide.md"))
	out, told, code := b.do(nil, "run", "flow.md", "--input", "topic=pears", "--run-id", benchRun)
	seen := b.requests()
	if code != 0 || len(seen) != 3 {
		t.Fatalf("exit %d after %d requests\n%s%s", code, len(seen), out, told)
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
	if !strings.Contains(after, "Mind the gap.") || strings.Contains(after, "Not for everybody") || !strings.Contains(after, "is neither in the project") {
		t.Errorf("what was read: %s", after)
	}
	// context: fork: a conversation of its own, which knows what the step
	// reads and nothing of what was said before.
	if len(opening.Messages) != 2 || !strings.Contains(opening.whole, "pears") || strings.Contains(opening.whole, "quince") {
		t.Errorf("not a conversation of its own: %s", opening.whole)
	}
}

// A model that does not learn is told, and then stopped: the bill is bounded.
func TestLoopOnAFailingTool(t *testing.T) {
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
`, func(a asked) said {
		if learns && strings.Contains(a.whole, "It will fail again") {
			return said{text: "There is no such file."}
		}
		return said{calls: [][2]string{{"Read", `{"path": "nowhere.md"}`}}}
	})
	out, told, code := b.do(nil, "run", "SKILL.md", "--run-id", benchRun, "--json")
	if n := len(b.requests()); code != 1 || n != 5 || !strings.Contains(out+told, "INVALID_OUTPUT") || !strings.Contains(out+told, "failed in the same way each time") {
		t.Errorf("exit %d after %d requests\n%s%s", code, n, out, told)
	}
	record, _, _ := b.do(nil, "transcript", benchRun[:8])
	if !strings.Contains(record, "It will fail again") {
		t.Errorf("nothing is on record:\n%s", record)
	}
	learns = true
	out, told, code = b.do(nil, "run", "SKILL.md", "--json")
	if n := len(b.requests()) - 5; code != 0 || n != 4 || !strings.Contains(out, "There is no such file") {
		t.Errorf("exit %d after %d requests\n%s%s", code, n, out, told)
	}
}

// The first that names a model counts.
func TestWhichModelAnswers(t *testing.T) {
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
		"--model beats an agent":           {agent: "mine/agents", args: []string{"--model", "mine/flags"}, want: "flags"},
		"--model beats a skill":            {skill: "mine/skills", useSkill: true, args: []string{"--model", "mine/flags"}, want: "flags"},
		"--model beats the configuration":  {args: []string{"--model", "mine/flags"}, want: "flags"},
		"an agent beats the configuration": {agent: "mine/agents", want: "agents"},
		"a skill beats the configuration":  {skill: "mine/skills", useSkill: true, want: "skills"},
		"a skill that inherits":            {skill: "inherit", useSkill: true, want: "usual"},
		"a skill beats an agent not asked": {agent: "mine/agents", skill: "mine/skills", useSkill: true, want: "skills"},
		"the configuration, of an agent":   {want: "usual"},
		"the configuration, of a skill":    {useSkill: true, want: "usual"},
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
			b := newBench(t, strings.NewReplacer("SKILL---", line(c.skill)+"---", "STEP", who, "AGENT\n", line(c.agent)).Replace(flow), func(asked) said { return said{text: "Hello."} })
			out, told, code := b.do(nil, append([]string{"run", "flow.md"}, c.args...)...)
			if seen := b.requests(); code != 0 || len(seen) != 1 || seen[0].Model != c.want {
				t.Errorf("exit %d, %+v\n%s%s", code, seen, out, told)
			}
		})
	}
}
