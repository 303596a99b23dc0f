package scripted_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/provider/scripted"
	"github.com/espalier-run/espalier/internal/source"
)

func parse(t testing.TB, script string) (*scripted.Script, diag.List) {
	t.Helper()
	f := source.NewFile("demo.yaml", script)
	s, list := scripted.Parse(f)
	for _, d := range list {
		checkSpan(t, f, d.Span)
		for _, r := range d.Related {
			checkSpan(t, f, r.Span)
		}
		if d.Message == "" || d.Help == "" {
			t.Errorf("%s says %q %q", d.Code, d.Message, d.Help)
		}
	}
	return s, list
}

func checkSpan(t testing.TB, f *source.File, s source.Span) {
	t.Helper()
	if s.File != f.Path || s.Start > s.End || s.End > len(f.Text) {
		t.Errorf("the span %+v is not in the file", s)
	}
}

func good(t testing.TB, script string) *scripted.Script {
	t.Helper()
	s, list := parse(t, script)
	for _, d := range list {
		t.Fatalf("%s %s", d.Code, d.Message)
	}
	return s
}

const everything = `
replies:
  - step: research
    attempt: 1-2
    fail: RATE_LIMIT
  - step: research
    attempt: 3
    fail: {class: API_ERROR, status: 529, retry_after: 2s, message: overloaded}
    reply: "half of it"
  - step: research
    thinking: "let me see"
    tools:
      - name: web.search
        input: {query: roses}
      - name: clock
    reply: {found: 3}
    delay: 200ms
    usage: {input: 900, output: 40, cache_read: 10, cache_write: 5}
  - agent: critic
    workflow: demo
    visit: 2+
    iteration: 1
    turn: 1
    reply: {approved: true}
    stop: refused
  - key: "each/*/draft"
    reply: a text
tools:
  web.search:
    - input: {query: roses}
      output: [{title: Roses}]
    - step: research
      fail: {class: TIMEOUT, message: nobody there}
  mail.send:
    description: Sends a mail
    side_effects: true
    takes_key: false
    schema: {type: object}
    answers:
      - error: {message: no such address}
otherwise: simulate
`

func TestParseReportsMistakesInScripts(t *testing.T) {
	good(t, everything)
	good(t, "")
	good(t, "otherwise: fail\n")
	for _, c := range []struct {
		name, script string
		want         string // code and marked text
		says         string
	}{
		{"not YAML", "replies: [", "YAML", ""},
		{"a list", "- step: a\n", "PROV001", "must be a map"},
		{"no list", "replies: {step: a}\n", "PROV001", "must be a list"},
		{"a text for an entry", "replies:\n  - hello\n", "PROV001 hello", "must be a map"},
		{"tools as a list", "tools:\n  - a\n", "PROV001", "must be a map"},
		{"input as a text", "tools:\n  a:\n    - input: x\n      output: 1\n", "PROV001 x", ""},
		{"an empty entry", "replies:\n  - step: a\n    attempt: 1\n", "PROV002 step", "has no"},
		{"no answers", "tools:\n  a: []\n", "PROV002 a", "no answers"},
		{"no answers at all", "tools:\n  a:\n", "PROV002 a", "no answers"},
		{"no answers in a map", "tools:\n  a: {side_effects: true}\n", "PROV002 a", "no answers"},
		{"an answer without content", "tools:\n  a:\n    - step: x\n", "PROV002 step", "has no"},
		{"a call without a name", "replies:\n  - tools: [{input: {}}]\n", "PROV002 input", "name"},
		{"unknown key", "replies:\n  - stepp: a\n    reply: b\n", "PROV003 stepp", `Did you mean "step"?`},
		{"turn of a tool", "tools:\n  a:\n    - turn: 1\n      output: 1\n", "PROV003 turn", ""},
		{"unknown class", "replies:\n  - fail: RATELIMIT\n", "PROV004 RATELIMIT", "RATE_LIMIT"},
		{"class of a tool", "replies:\n  - fail: TOOL_ERROR\n", "PROV004 TOOL_ERROR", ""},
		{"unknown class in a map", "replies:\n  - fail: {class: NOPE}\n", "PROV004 NOPE", "Write one of"},
		{"no class", "replies:\n  - fail: {status: 500}\n", "PROV002 status", "class"},
		{"no exit code", "replies:\n  - {step: a, exit: 256}\n", "PROV004 256", "from 0 to 255"},
		{"exit and fail", "replies:\n  - {step: a, exit: 2, fail: TIMEOUT}\n", "PROV005 exit", "exit code"},
		{"exit and tools", "replies:\n  - {step: a, exit: 2, tools: [{name: x}]}\n", "PROV005 exit", "no tools"},
		{"attempt from 0", "replies:\n  - attempt: 0\n    reply: a\n", "PROV004 0", "from 1"},
		{"attempts backwards", "replies:\n  - attempt: 3-2\n    reply: a\n", "PROV004 3-2", "attempt: 2-3"},
		{"delay without a unit", "replies:\n  - delay: 200\n    reply: a\n", "PROV004 200", "unit"},
		{"delay backwards", "replies:\n  - delay: -2s\n    reply: a\n", "PROV004 -2s", ""},
		{"otherwise", "otherwise: guess\n", "PROV004 guess", "simulate"},
		{"stop", "replies:\n  - reply: a\n    stop: done\n", "PROV004 done", ""},
		{"bad pattern", "replies:\n  - key: \"[a\"\n    reply: a\n", "PROV004 [a", ""},
		{"usage", "replies:\n  - reply: a\n    usage: {input: -1}\n", "PROV004 -1", ""},
		{
			"fail and tools", "replies:\n  - fail: TIMEOUT\n    tools: [{name: a}]\n", "PROV005 tools",
			"exclude each other",
		},
		{"fail and usage", "replies:\n  - fail: TIMEOUT\n    usage: {input: 1}\n", "PROV005 usage", ""},
		{"fail and stop", "replies:\n  - fail: TIMEOUT\n    stop: refused\n", "PROV005 stop", ""},
		{"tools and stop", "replies:\n  - tools: [{name: a}]\n    stop: refused\n", "PROV005 stop", ""},
		{"output and fail", "tools:\n  a:\n    - output: 1\n      fail: TIMEOUT\n", "PROV005 fail", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, list := parse(t, c.script)
			if len(list) != 1 {
				t.Fatalf("got %+v", list)
			}
			d := list[0]
			marked := string(d.Code) + " " + c.script[d.Span.Start:d.Span.End]
			if !strings.HasPrefix(marked, c.want) || strings.Contains(c.want, " ") && marked != c.want {
				t.Errorf("got %q, want %q: %s", marked, c.want, d.Message)
			}
			if !strings.Contains(d.Message+" "+d.Help, c.says) {
				t.Errorf("%s %s", d.Message, d.Help)
			}
		})
	}
}

// Entries that an earlier one always precedes are errors of the check; a run that was started with them continues.
func TestCheckFindsRepeatedEntries(t *testing.T) {
	p := &ir.Program{Name: "demo", Blocks: []ir.Block{{Steps: []ir.Step{{ID: "a", Action: ir.Task{Kind: "agent"}}}}}}
	for _, c := range []struct{ script, marked, says string }{
		{"replies:\n  - step: a\n    reply: 1\n  - step: a\n    reply: 2\n", "step", `step "a"`},
		{
			"replies:\n  - key: a\n    visit: 1+\n    reply: 1\n  - key: a\n    visit: 2\n    reply: 2\n",
			"key", "visit 2",
		},
		{"tools:\n  a:\n    - output: 1\n    - output: 2\n", "output", "anything"},
	} {
		list := good(t, c.script).Check(p, scripted.Facts{Tools: []string{"a"}})
		if len(list) != 1 || list[0].Severity != diag.Error || list[0].Code != scripted.CodeNever ||
			c.script[list[0].Span.Start:list[0].Span.End] != c.marked || !strings.Contains(list[0].Message, c.says) {
			t.Errorf("%q: got %+v", c.script, list)
		}
	}
}

// Entries that look redundant but are not cause no error.
func TestEntriesThatMatterAreNotRedundant(t *testing.T) {
	p := &ir.Program{Name: "demo", Agents: []ir.Agent{{ID: "a"}}, Blocks: []ir.Block{{Steps: []ir.Step{
		{ID: "a", Action: ir.Task{Kind: "agent"}, Retry: &ir.Retry{MaxAttempts: 3}},
	}}}}
	for _, script := range []string{
		"replies:\n  - step: a\n    reply: 1\n  - step: a\n    attempt: 2\n    reply: 2\n",
		"replies:\n  - step: a\n    attempt: 2\n    reply: 1\n  - step: a\n    attempt: 1+\n    reply: 2\n",
		"replies:\n  - step: a\n    tools: [{name: x}]\n  - step: a\n    reply: 2\n",
		"replies:\n  - step: a\n    reply: 1\n  - agent: a\n    reply: 2\n",
		"tools:\n  a:\n    - output: 1\n    - input: {x: 1}\n      output: 2\n    - input: {x: 2}\n      output: 3\n",
	} {
		if list := good(t, script).Check(p, scripted.Facts{Tools: []string{"a", "x"}}); len(list) > 0 {
			t.Errorf("%q: got %+v", script, list)
		}
	}
}

func TestCheckFindsEntriesThatCannotAnswer(t *testing.T) {
	script := "replies:\n  - step: reserch\n    reply: 1\n  - step: ask\n    reply: 1\n" +
		"  - step: judge\n    reply: 1\n" +
		"  - agent: nobody\n    reply: 2\n" +
		"  - step: draft\n    workflow: child\n    reply: 3\n" +
		"tools:\n  x:\n    - step: inner\n      output: 1\n    - workflow: other\n      output: 2\n"
	critic := ir.Step{ID: "judge", Action: ir.Gate{Decider: ir.Work, Verdict: &ir.Task{Kind: "agent"}}}
	p := &ir.Program{
		Name: "demo", Agents: []ir.Agent{{ID: "writer"}},
		Blocks: []ir.Block{{
			Steps: []ir.Step{{ID: "research"}, {ID: "draft"}, {ID: "ask", Action: ir.Gate{}}, critic},
		}},
		Children: []ir.Program{{Name: "child", Blocks: []ir.Block{{Steps: []ir.Step{{ID: "inner"}}}}}},
	}
	var got []string
	for _, d := range good(t, script).Check(p, scripted.Facts{Tools: []string{"x"}}) {
		if d.Code != scripted.CodeNoSuch || d.Severity != diag.Error {
			t.Errorf("got %+v", d)
		}
		got = append(got, script[d.Span.Start:d.Span.End]+": "+d.Help)
	}
	want := `reserch: Did you mean "research"?|ask: There are draft, inner, judge and research.|nobody: There is only writer.|other: There are child and demo.`
	if strings.Join(got, "|") != want {
		t.Errorf("got %q", got)
	}
}

// Entries that their step can never ask for are errors.
func TestCheckFindsUnreachableEntries(t *testing.T) {
	flow := &ir.Program{Name: "demo", Agents: []ir.Agent{{ID: "writer"}}, Blocks: []ir.Block{{Steps: []ir.Step{
		{ID: "draft", Action: ir.Task{Kind: "agent"}},
		{ID: "build", Action: ir.Task{Kind: "command"}, Retry: &ir.Retry{MaxAttempts: 3}},
		{ID: "node", Action: ir.Task{Kind: "node"}},
	}}}}
	loops := &ir.Program{Name: "demo", Blocks: []ir.Block{
		{Steps: []ir.Step{{ID: "again", Action: ir.Loop{Block: 1}}}}, flow.Blocks[0],
	}}
	calls := &ir.Program{Name: "demo", Blocks: flow.Blocks, Children: []ir.Program{{Blocks: flow.Blocks[:1]}}}
	callsOthers := &ir.Program{Name: "demo", Blocks: flow.Blocks, Children: []ir.Program{
		{Blocks: []ir.Block{{Steps: []ir.Step{{ID: "inner"}}}}},
	}}
	known := scripted.Facts{
		Bounds: []scripted.Bound{
			{Step: "draft", Visits: 3, Turns: 2}, {Step: "build", Agent: "writer", Visits: 1, Turns: 1}, {Step: "node"},
		},
		Tools: []string{"web.search", "notes.*"}, OtherTools: []string{"Bash"},
		Activities: map[string][]scripted.Activity{
			"draft": {{Asks: true, Agents: []string{"writer"}}}, "build": {{Command: true}},
			"node": {{Command: true, Asks: true}}, "program": {{Command: true, Agents: []string{"coder"}}},
		},
	}
	for _, c := range []struct {
		entry string
		p     *ir.Program
		want  string
	}{
		{"{step: draft, attempt: 2, reply: x}", flow, `Step "draft" has no attempt 2, so this entry is never used.`},
		{"{step: build, attempt: 4+, exit: 1}", flow, `Step "build" has no attempt 4+, so this entry is never used.`},
		{"{step: build, attempt: 3, exit: 1}", flow, ""},
		{
			"{step: draft, iteration: 7, reply: x}", flow,
			`The workflow has no loop, and step "draft" no iteration 7, so this entry is never used.`,
		},
		{"{step: draft, iteration: 7, reply: x}", loops, ""},
		{
			"{step: draft, call: 3, reply: x}", flow,
			`Step "draft" has no code that calls agents, so this entry is never used.`,
		},
		{"{step: node, call: 3, reply: x}", flow, ""},
		{
			"{step: draft, exit: 7}", flow,
			`step: There is no command and no exit code for step "draft", so this entry is never used. ` +
				`Replace "exit" with "reply" or "fail".`,
		},
		{
			"{step: draft, visit: 4, reply: x}", flow,
			"4: There is no visit 4: a run comes here at most 3 times, so this entry is never used. " +
				"Use a visit from 1 to 3.",
		},
		{"{step: draft, visit: 3+, turn: 2, reply: x}", flow, ""},
		{
			"{step: draft, turn: 3+, reply: x}", flow,
			"3+: There is no turn 3+: an attempt asks its model at most 2 times, so this entry is never used. " +
				"Use a turn from 1 to 2.",
		},
		{
			"{agent: writer, turn: 2, reply: x}", flow,
			"2: There is no turn 2: an attempt asks its model once, so this entry is never used. The only turn is 1.",
		},
		{"{turn: 9, visit: 9, reply: x}", flow, ""}, // no bound of the node is known
		{"{step: draft, turn: 9, reply: x}", calls, ""},
		{"{turn: 9, reply: x}", callsOthers, ""},
		{
			"{step: draft, visit: 4, reply: x}", callsOthers,
			"4: There is no visit 4: a run comes here at most 3 times, so this entry is never used. " +
				"Use a visit from 1 to 3.",
		},
		{
			"{key: drafts, reply: x}", flow,
			`drafts: No step of the workflow has the key "drafts", so this entry is never used. ` +
				`A key ends with the id of a step. Did you mean "draft"?`,
		},
		{
			"{key: again/*/nothing#1, reply: x}", loops,
			`again/*/nothing#1: No step of the workflow has the key "again/*/nothing#1", so this entry is never used. ` +
				"A key ends with the id of a step. There are again, build, draft and node.",
		},
		{`{key: "again/*/draft~2#0", reply: x}`, loops, ""},
		{`{key: "again/*/d*", reply: x}`, loops, ""},
		{`{key: "again/*/x*", reply: x}`, loops, `again/*/x*: No step of the workflow has the key "again/*/x*", ` +
			"so this entry is never used. A key ends with the id of a step. There are again, build, draft and node."},
		{
			"{step: draft, tools: [{name: web.serch}], reply: x}", flow,
			`web.serch: The workflow calls no tool "web.serch", so this call never reaches one. Did you mean "web.search"?`,
		},
		{"{step: draft, tools: [{name: web.search}, {name: notes.find}, {name: Bash}], reply: x}", flow, ""},
	} {
		got := ""
		script := "replies:\n  - " + c.entry + "\notherwise: simulate\n"
		for _, d := range good(t, script).Check(c.p, known) {
			if strings.HasPrefix(d.Message, "There is no") || d.Code == scripted.CodeNoSuch {
				got += script[d.Span.Start:d.Span.End] + ": " + d.Message + " " + d.Help
			} else {
				got += d.Message
			}
		}
		if got != c.want {
			t.Errorf("%s: got %q", c.entry, got)
		}
	}
}

// Keys and iterations that no task of the workflow has are errors, and the message says which ones there are.
func TestCheckFindsKeysAndIterationsThatNoTaskHas(t *testing.T) {
	agent := ir.Task{Kind: "agent"}
	step := func(id string) ir.Step { return ir.Step{ID: id, Action: agent} }
	retried := step("b")
	retried.Retry = &ir.Retry{MaxAttempts: 3}
	p := &ir.Program{
		Name: "c", Blocks: []ir.Block{
			{Steps: []ir.Step{
				step("a"), retried,
				{ID: "review", Action: ir.Loop{Block: 1, Max: 3}},
				{ID: "poll", Action: ir.Loop{Block: 2}},
				{ID: "ok", Action: ir.Gate{Decider: ir.Work, Verdict: &agent}},
				{ID: "fan", Action: ir.Parallel{Branches: []ir.Branch{{Name: "left", Block: 3}}}},
				{ID: "call", Action: ir.Call{}},
				{ID: "ask", Action: ir.Gate{}},
			}},
			{Steps: []ir.Step{step("judge")}},
			{Steps: []ir.Step{step("look")}},
			{Steps: []ir.Step{step("side")}},
		},
		Children: []ir.Program{{Name: "child", Blocks: []ir.Block{{Steps: []ir.Step{step("inner")}}}}},
	}
	known := scripted.Facts{Bounds: []scripted.Bound{
		{Step: "a", Visits: 1}, {Step: "b", Visits: 2}, {Step: "judge", Visits: 3}, {Step: "look"},
	}}
	for _, entry := range []string{
		"key: a", "key: /a", "key: a#0", "key: /a#0", "key: a~1#0", "key: b#2", "key: b~2#1", "key: review/0/judge",
		"key: review/2/judge#0", "key: /review/*/judge", `key: "review/[01]/judge"`, `key: "review.judge[2]"`,
		"key: poll/99/look", `key: "poll.look[99]"`, "key: ok", "key: ok:verdict#0", "key: fan/left/side",
		"key: fan.side", "key: call/call/inner", "key: call › inner", `key: "call/call/inner#0"`, `key: "*"`,
		"key: '*/*/*'", "key: 'b~*'", "step: judge, iteration: 3", "step: judge, iteration: 3+",
		"step: judge, iteration: 2-9", "step: look, iteration: 99", "step: a, iteration: 1", "iteration: 99",
	} {
		for _, d := range good(t, "replies: [{"+entry+", reply: x}]\n").Check(p, known) {
			t.Errorf("%s: %s %s", entry, d.Message, d.Help)
		}
	}
	const review = `The key of step "judge" is "review/*/judge", where * is the number of the iteration: 0 to 2.`
	for _, c := range []struct{ entry, says string }{
		{"key: a#9", `Step "a" has no attempt #9, so this entry is never used. Keys count attempts from 0: use #0.`},
		{"key: /a#1", `Step "a" has no attempt #1, so this entry is never used. Keys count attempts from 0: use #0.`},
		{"key: b#3", `Step "b" has no attempt #3, so this entry is never used. Keys count attempts from 0: use #0 to #2.`},
		{"key: a~2", `key "a~2", so this entry is never used. The key of step "a" is "a".`},
		{"key: b~3", `key "b~3", so this entry is never used. The key of step "b" is "b".`},
		{"key: c/a", `key "c/a", so this entry is never used. The key of step "a" is "a".`},
		{"key: a/1/b", `The key of step "b" is "b".`},
		{`key: "a[2]"`, `The key of step "a" is "a".`},
		{"key: judge", review},
		{"key: review/3/judge", review},
		{"key: review/99/judge", review},
		{"key: review/x/judge", review},
		{"key: review/01/judge", review},
		{`key: "review/[3-9]/judge"`, review},
		{`key: "review.judge[3]"`, review},
		{`key: "review.judge[1]#0"`, review},
		{"key: poll/x/look", `"poll/*/look", where * is the number of the iteration, counted from 0.`},
		{"key: fan/right/side", `The key of step "side" is "fan/left/side".`},
		{"key: inner", `The key of step "inner" is "call/call/inner".`},
		{"key: ok:work", `The key of step "ok" is "ok".`},
		{"key: review", "A key ends with the id of a step."},
		{"key: ask", "A key ends with the id of a step."},
		{
			"step: judge, iteration: 99", `There is no iteration 99: the loop around step "judge" ends after at most 3, ` +
				"so this entry is never used. Use an iteration from 1 to 3.",
		},
		{"step: judge, iteration: 4", "There is no iteration 4: "},
		{"step: judge, iteration: 4+", "There is no iteration 4+: "},
		{"step: a, iteration: 2", `There is no iteration 2: step "a" runs in at most one, so`},
	} {
		list := good(t, "replies: [{"+c.entry+", reply: x}]\n").Check(p, known)
		if len(list) != 1 || list[0].Severity != diag.Error ||
			!strings.Contains(list[0].Message+" "+list[0].Help, c.says) {
			t.Errorf("%s: got %+v", c.entry, list)
		}
	}
}

// Without "otherwise: simulate", commands are real and a script has no say about them.
func TestCheckFindsEntriesForRealCommands(t *testing.T) {
	steps := []ir.Step{{ID: "build", Action: ir.Task{Kind: "command"}}, {ID: "node", Action: ir.Task{Kind: "node"}}}
	p := &ir.Program{Name: "demo", Agents: []ir.Agent{{ID: "coder"}}, Blocks: []ir.Block{{Steps: steps}}}
	known := scripted.Facts{Activities: map[string][]scripted.Activity{
		"build": {{Command: true}}, "node": {{Command: true, Asks: true}},
		"program": {{Command: true, Agents: []string{"coder"}}},
	}}
	for entry, want := range map[string]string{
		"{step: build, exit: 3}":         `The command of step "build" is real, so this entry is never used.`,
		"{step: build, reply: x}":        `The command of step "build" is real, so this entry is never used.`,
		"{key: /build#0, fail: TIMEOUT}": `The command of key "/build#0" is real, so this entry is never used.`,
		"{agent: coder, reply: x}":       `The command of agent "coder" is real, so this entry is never used.`,
		"{step: node, reply: x}":         "",
		"{reply: x}":                     "",
		"{exit: 1}":                      "This entry selects no command, so it is never used.",
	} {
		got := ""
		for _, d := range good(t, "replies: ["+entry+"]\n").Check(p, known) {
			got += d.Message
			if d.Severity != diag.Error {
				t.Errorf("%s: got %+v", entry, d)
			}
		}
		if got != want {
			t.Errorf("%s: got %q", entry, got)
		}
	}
}

// A tool that the workflow does not call never answers, unless its entries are for another workflow.
func TestCheckFindsUnknownTools(t *testing.T) {
	steps := []ir.Step{{ID: "draft", Action: ir.Task{Kind: "agent"}}}
	p := &ir.Program{Name: "demo", Blocks: []ir.Block{{Steps: steps}}}
	script := "replies:\n  - {step: draft, tools: [{name: mine}]}\ntools:\n  web.serch: [{output: 1}]\n" +
		"  notes.find: [{output: 1}]\n  mine: [{output: 1}]\n  Bash: [{output: 1}]\n" +
		"  other: [{workflow: else, output: 1}]\n"
	workflows := func() []string { return []string{"else"} }
	var got []string
	for _, d := range good(t, script).Check(p, scripted.Facts{
		Tools: []string{"web.search(x)", "notes.*"}, OtherTools: []string{"Bash"}, OtherWorkflows: workflows,
	}) {
		if d.Severity == diag.Error {
			got = append(got, script[d.Span.Start:d.Span.End]+": "+d.Message+" "+d.Help)
		}
	}
	want := []string{
		`web.serch: The workflow calls no tool "web.serch", so its answers are never used. Did you mean "web.search"?`,
		`mine: The workflow calls no tool "mine", so its answers are never used. There are notes.* and web.search.`,
		`Bash: The workflow calls no tool "Bash", so its answers are never used. There are notes.* and web.search.`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(everything)
	f.Add("replies:\n  - step: a\n    fail: {class: x}\n")
	f.Add("tools: {a: {answers: [{output: 1}, {error: 2, fail: TIMEOUT}]}}\n")
	f.Fuzz(func(t *testing.T, script string) {
		if s, _ := parse(t, script); s == nil {
			t.Fatal("no script")
		}
	})
}
