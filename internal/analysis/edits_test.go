package analysis_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/explain"
	"github.com/espalier-run/espalier/internal/source"
)

// aiflow returns a flow with an agent b that only calls a tool, and a rule.
func aiflow(agent, rule string) string {
	return `{"metadata": {"name": "f", "version": "1.0.0", "description": "d", "creator": "c"},
 "flow": {"entry_agent": "a", "agents": ["a", "b"],
  "logic": [{"id": "r", "from": "a", "to": "b", "condition": "always"` + rule + `}]},
 "agents": [{"id": "a", "name": "A", "role": "r", "prompt": "p", "output_format": "text", "model":
   {"provider": "anthropic", "name": "claude-sonnet-4-5", "temperature": 0, "max_tokens": 9}},
  {"provider": "system", "tools": ["t"]` + agent + `, "id": "b"}],
 "prompts": {"p": "Hi"}, "tools": {"t": {"id": "t", "type": "http"}}}`
}

func awf(states string) string {
	return "name: f\nstates:\n  initial: x\n" + states + "  q: {type: step, command: q, on_success: z}\n" +
		"  z: {type: terminal}\n"
}

// badExample returns the bad example of a page with a part of it replaced by §.
func badExample(code, part string) string {
	page, _ := explain.Lookup(code)
	return strings.Replace(page.Bad[0].Text, part, "§", 1)
}

// edits are mistakes in unusual forms of YAML and JSON.
var edits = []struct {
	name, path, text string // § is where the mistake is
	code             diag.Code
	about            string      // a part of the message
	fixed            [][2]string // mistakes, and what the first fix makes of them
	unfixed          []string    // mistakes without a fix
}{
	{
		"output format of an agent that only calls a tool", "f.aiflow", aiflow("§", ""),
		"AIFLOW_BAD_VALUE", "output_format",
		[][2]string{
			{`, "output_format": "raw"`, ""},
			{`, "output_format" : 7 `, ""},
			{`, "output\u005fformat": "r\"}"`, ""},
			{",\r\n\t\"name\": \"é😀\", \"output_format\": \"é\"", ",\r\n\t\"name\": \"é😀\""},
		},
		[]string{
			`, "output_format": "raw", "output_format": "raw"`,
		},
	},
	{
		"max_tokens of an agent that only calls a tool", "f.aiflow", aiflow(`, "config": {§}`, ""),
		"AIFLOW_BAD_VALUE", "max_tokens",
		[][2]string{
			{`"max_tokens": 0`, ""},
			{`"temperature": 1, "max_tokens" : 0e0 `, `"temperature": 1 `},
			{"\r\n\t\"max_tokens\"\t: 0,\r\n\t\"top_p\": 1\r\n", "\r\n\t\"top_p\": 1\r\n"},
		},
		[]string{`"max_tokens": 0, "max_tokens": 0`},
	},
	{
		"decisionOwner", "f.aiflow", aiflow("", "§"),
		"AIFLOW_BAD_VALUE", "decisionOwner",
		[][2]string{
			{`, "decisionOwner": "bob"`, ""},
			{
				",\r\n\t\"description\": \"é\",\r\n\t\"decisionOwner\":\r\n \"b\\\"}\"\r\n",
				",\r\n\t\"description\": \"é\"\r\n",
			},
			{`, "decisionOwner": true, "description": "d"`, `, "description": "d"`},
		},
		[]string{`, "decisionOwner": "bob", "description": "x &a *b"`},
	},
	{
		"key of a conversation", "f.yaml", awf("  x:\n    type: agent\n    provider: claude\n" +
			"    mode: conversation\n    prompt: hi\n    conversation:§\n    on_success: z\n"),
		"AWF008", "strategy",
		[][2]string{
			{"\n      max_turns: 3\n      strategy: s", "\n      max_turns: 3"},
			{"\r\n      \"strategy\" : 'é'\r\n      max_turns: 3\r", "\r\n      max_turns: 3\r"},
			{" {stop_condition: é, strategy: s, max_turns: 3}", " {stop_condition: é, max_turns: 3}"},
			{" {strategy: \"a, }\n      b\"}", " {}"},
			{"\n      max_turns: 3\n      strategy: s\n        # t", "\n      max_turns: 3\n        # t"},
			{"\n      strategy: >-\n        a\n\n        b\n\n      max_turns: 3", "\n\n      max_turns: 3"},
		},
		[]string{
			"\n      strategy: s",
			"\n      max_turns: 3\n      strategy: |\n        a: # b",
			"\n      max_turns: 3\n      strategy: s # why",
			"\n      max_turns: 3\n      strategy: !!str s",
			"\n      max_turns: 3\n      ? strategy\n      : s",
			"\n      <<: {strategy: t}\n      max_turns: 3\n      strategy: s",
			"\n      strategy: s\n      strategy: t\n      max_turns: 3",
			" &c\n      max_turns: 3\n      strategy: s\n    description: *c",
			" {strategy: s,}",
		},
	},
	{
		"mcp_proxy", "f.yaml", awf("  x:§provider: claude, prompt: hi, type: agent, on_success: z}\n"),
		"AWF004", "leaves the proxy without tools",
		[][2]string{
			{" {mcp_proxy: {enable: true, intercept_builtins: false}, ", " {"},
			{
				" {\"mcp_proxy\" : {enable: true,\r\n    intercept_builtins: false}, description: é, ",
				" {description: é, ",
			},
		},
		[]string{
			" {mcp_proxy: &m {enable: true, intercept_builtins: false}, ",
			" {mcp_proxy: {enable: true, # why\n    intercept_builtins: false}, ",
			" {<<: {mcp_proxy: {enable: true, intercept_builtins: false}}, ",
		},
	},
	{
		"mcp_proxy on lines of its own", "f.yaml", awf("  x:\n    type: agent\n§    provider: claude\n" +
			"    prompt: hi\n    on_success: z\n"),
		"AWF004", "leaves the proxy without tools",
		[][2]string{
			{"    mcp_proxy:\r\n      enable: true\r\n\r\n      intercept_builtins: false\r\n", ""},
			{
				"    mcp_proxy: {enable: true,\n      intercept_builtins: false}\n    description: é\n",
				"    description: é\n",
			},
		},
		[]string{"    mcp_proxy: # why\n      enable: true\n      intercept_builtins: false\n"},
	},
	{
		"on_failure that a loop ignores", "f.yaml", awf("  x: {type: for_each, items: [1], body: [y], on_failure: z," +
			" on_complete: z}\n  y:§"),
		"AWF019", "is ignored",
		[][2]string{
			{" {type: step, command: y, 'on_failure' : \"q\"}\n", " {type: step, command: y}\n"},
			{" {type: step, command: é, on_failure: q, on_success: x}\n", " {type: step, command: é, on_success: x}\n"},
			{
				"\r\n    type: step\r\n    command: y\r\n    on_failure: >-\r\n      q\r\n",
				"\r\n    type: step\r\n    command: y\r\n",
			},
			{"\n    on_failure:\n      q\n    type: step\n    command: y\n", "\n    type: step\n    command: y\n"},
		},
		[]string{
			"\n    type: step\n    command: y\n    on_failure: q # why\n",
			"\n    type: step\n    command: &y y\n    on_failure: q\n    description: *y\n",
			"\n    type: step\n    command: y\n    on_failure: &q q\n",
		},
	},
	{
		"on_failure that a loop lacks", "f.yaml", awf("  x:§\n  y: {type: step, command: y, on_failure: 'q'}\n"),
		"AWF019", "is ignored",
		[][2]string{
			{
				" {type: for_each, items: [1], body: [y], on_complete: z}",
				" {on_failure: q, type: for_each, items: [1], body: [y], on_complete: z}",
			},
			{
				" {\"type\": for_each, items: [é], body: [y], on_complete: z}",
				" {\"on_failure\": \"q\", \"type\": for_each, items: [é], body: [y], on_complete: z}",
			},
			{
				" # é\n    type: for_each\n    items: [1]\n    body: [y]\n    on_complete: z",
				" # é\n    on_failure: q\n    type: for_each\n    items: [1]\n    body: [y]\n    on_complete: z",
			},
		},
		[]string{
			"\n    on_failure:\n    type: for_each\n    items: [1]\n    body: [y]\n    on_complete: z",
			" {? type : for_each, items: &i [1], body: [y], on_complete: z, description: *i}",
		},
	},
	{
		"id", "flow.md", badExample("AF008", "id: write the answer"),
		"AF008", "is not a valid id",
		[][2]string{
			{"id: A.b", "id: a_b"},
			{"id: \"ask.me\" # é", "id: ask_me # é"},
			{"\"id\":\t'ask me'\r", "\"id\":\task_me\r"},
			{"id:\n  ask.me", "id:\n  ask_me"},
			{"id: &a ask me", "id: &a ask_me"},
		},
		[]string{
			"id: Größe", // the new id would be "gr_e"
			"id: 1.5",   // 1_5 is a number in YAML 1.1
			"id: on!",
			"id: 'null '",
			"id: !!str ask me",
			"id: &a ask me\noutputs: *a",
			"id: |-\n\n  ask me",
			"id: |\n  ask me",
			"id: ask\n  me",
			"id: ask me\n# why ask me",
			"id: \"ask\\x20me\"",
		},
	},
	{
		"time zone", "flow.md", badExample("AF012", "triggers:\n  timezone: Europe/Paris"),
		"AF012", "time zone",
		[][2]string{
			{"triggers:\n  timezone: Europe/Paris\n  api: true", "triggers:\n  api: true"},
			{"triggers:\r\n  'timezone' :\t\"Europe/Paris\"\r\n  api: true\r", "triggers:\r\n  api: true\r"},
			{"triggers: {timezone: Europe/Paris}", "triggers: {}"},
			{"triggers: {\"é\": 1, \"timezone\":\n  Europe/Paris, api: true}", "triggers: {\"é\": 1, api: true}"},
			{"triggers:\n  api: true\n  timezone: >-\n\n    Europe/Paris\n  # why", "triggers:\n  api: true\n  # why"},
			{
				"triggers:\n  timezone:\n    Europe/Paris\n  # why\n  api: true # because",
				"triggers:\n  # why\n  api: true # because",
			},
		},
		[]string{
			"triggers:\n  timezone: Europe/Paris",
			"triggers:\n  api: true\n  timezone: Europe/Paris # why",
			"triggers: &t\n  api: true\n  timezone: Europe/Paris\nmetadata: *t",
			"triggers:\n  timezone: Europe/Paris\n  timezone: Europe/Rome\n  api: true",
			"triggers:\n  <<: {timezone: Europe/Rome}\n  timezone: Europe/Paris\n  api: true",
		},
	},
	{
		"value with a line break", "flow.md", badExample("AF003", "on_error: ignore"),
		"AF003", "cannot be",
		[][2]string{
			{"on_error: stpo", "on_error: stop"},
			{"on_error: |-\r\n  stpo\r", "on_error: |-\r\n  stop\r"},
		},
		[]string{"on_error: |-\r\n\r\n  stpo\r", "on_error: >\n  stop", "on_error: |\n  stop"},
	},
	{
		"name", "flow.md", badExample("AF003", "name: answer-mail"),
		"AF024", "contains characters",
		[][2]string{
			{"name: 'Answer Mail' # é", "name: 'answer-mail' # é"},
		},
		[]string{"name: No!", "name: Null.", "name: 2006.01.02", "name: >\n  answer-mail"},
	},
	{
		"tool", "f.aiflow", strings.Replace(aiflow("", ""), `"type": "http"}}`, `"type": "http"}§}`, 1),
		"TOOL_UNUSED", "",
		[][2]string{
			{`, "u": {"type": "http"}`, ""},
			{",\r\n\t\"ü\" : {\"type\":\r\n \"http\", \"name\": \"}\"}\r\n", "\r\n"},
		},
		[]string{`, "u": {"type": "http"}, "u": {"type": "http"}`},
	},
	{
		"tool in a list", "f.aiflow", strings.Replace(aiflow("", ""), `{"t": {"id": "t", "type": "http"}}`, "[§]", 1),
		"TOOL_UNUSED", "",
		[][2]string{
			{`{"id": "t", "type": "http"} , {"id": "ü", "type": "http"}`, `{"id": "t", "type": "http"}`},
			{"\r\n {\"id\": \"u\", \"type\": \"]\"},\r\n {\"id\": \"t\"}\r\n", "\r\n {\"id\": \"t\"}\r\n"},
		},
		[]string{`{"id": "u", "type": "http"}`},
	},
	{
		"state that contains itself", "f.yaml", awf("  x:\n    type: for_each\n    items: [1]\n    on_complete: z\n" +
			"    body:§\n  y: {type: step, command: y}\n"),
		"AWF017", "contains itself",
		[][2]string{
			{" [y, 'x']", " [y]"},
			{" [\r\n      \"x\" , y]", " [\r\n      y]"},
			{"\n    - x\n    - y # é\n", "\n    - y # é\n"},
			{"\r\n    - y\r\n    - x\r\n", "\r\n    - y\r\n"},
		},
		[]string{" [x]", "\n    - x", "\n    - y\n    - x # why", "\n    - &x x\n    - y\n    description: *x"},
	},
}

func TestEditsSuitTheFormOfTheFile(t *testing.T) {
	for _, c := range edits {
		t.Run(c.name, func(t *testing.T) {
			cases := c.fixed
			for _, mistake := range c.unfixed {
				cases = append(cases, [2]string{mistake, mistake})
			}
			for _, change := range cases {
				mistake, want := change[0], change[1]
				written := strings.Replace(c.text, "§", mistake, 1)
				one := folder{files: map[string]string{".espalier/keep": "", c.path: written}}
				r := result(t, root, c.path, one.files)
				i := slices.IndexFunc(r.Diagnostics, func(d diag.Diagnostic) bool {
					return d.Code == c.code && strings.Contains(d.Message, c.about)
				})
				if i < 0 {
					t.Errorf("%q has no %s: %v", mistake, c.code, r.Diagnostics)
					continue
				}
				got := written
				if d := &r.Diagnostics[i]; len(d.Fixes) > 0 {
					got = d.Fixes[0].Apply(source.NewFile(c.path, written))
					checkFix(t, one, c.path, r, d, 0)
				}
				if want = strings.Replace(c.text, "§", want, 1); got != want {
					t.Errorf("%q becomes\n%s", mistake, got)
				}
			}
		})
	}
}

// TestEditsStayInTheFile looks at the fixes of random changes of the samples.
func TestEditsStayInTheFile(t *testing.T) {
	all := slices.DeleteFunc(folders(t), func(one folder) bool { return len(one.main) == 0 })
	pieces := []string{
		" ", "\t", "\n", "\r\n", "\r", "\"", "'", "# é", " &a ", " *a", "!!str ", "{", "}", "[", "]", ", ", ": ",
		"- ", "? ",
		"|\n", ">-\n", "<<: ", "---\n", "```\n", "> ", "😀", "\ufeff", "\x00", "\xff", "\\", "null", "true", "1",
	}
	rapid.Check(t, func(t *rapid.T) {
		one := all[rapid.IntRange(0, len(all)-1).Draw(t, "folder")]
		main := rapid.SampledFrom(one.main).Draw(t, "main")
		text := one.files[main]
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			start := rapid.IntRange(0, len(text)).Draw(t, "start")
			end := min(len(text), start+rapid.IntRange(0, 20).Draw(t, "length"))
			piece := rapid.OneOf(rapid.SampledFrom(pieces), rapid.Just(text[start:end])).Draw(t, "piece")
			if rapid.Bool().Draw(t, "insert") {
				end = start
			}
			text = text[:start] + piece + text[end:]
		}
		if rapid.Bool().Draw(t, "crlf") {
			text = strings.ReplaceAll(text, "\n", "\r\n")
		}
		files := maps.Clone(one.files)
		files[main] = text
		r, err := analyze(t.Context(), root, main, files)
		if err != nil {
			return
		}
		for _, d := range r.Diagnostics {
			for _, fix := range d.Fixes {
				checkEdits(t, files, d, fix)
			}
		}
	})
}

func checkEdits(t *rapid.T, files map[string]string, d diag.Diagnostic, fix diag.Fix) {
	t.Helper()
	for i, e := range fix.Edits {
		text, ok := files[e.Span.File]
		if !ok || e.Span.Start < 0 || e.Span.Start > e.Span.End || e.Span.End > len(text) {
			t.Fatalf("%s: %q is outside the file: %+v", d.Code, fix.Title, e)
		}
		for _, other := range fix.Edits[:i] {
			if e.Span.File == other.Span.File && e.Span.Start < other.Span.End && other.Span.Start < e.Span.End {
				t.Fatalf("%s: %q changes a place twice: %+v", d.Code, fix.Title, fix.Edits)
			}
		}
	}
	for name, text := range files {
		fix.Apply(source.NewFile(name, text))
	}
}
