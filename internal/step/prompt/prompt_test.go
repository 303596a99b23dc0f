package prompt_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/prompt"
	"github.com/espalier-run/espalier/internal/step/steptest"
	"github.com/espalier-run/espalier/internal/tool"
)

func says(texts ...string) []steptest.Reply {
	var out []steptest.Reply
	for _, t := range texts {
		out = append(out, steptest.Reply{Text: t})
	}
	return out
}

func TestPromptStepsKeepResultsWhenInterrupted(t *testing.T) {
	const p, r, tc, tr = journal.NotePrompt, journal.NoteReply, journal.NoteToolCall, journal.NoteToolResult
	plain := func(format string) steptest.Settings {
		return steptest.Settings{"agent": "plain", "template": "Do it", "format": format}
	}
	handy := steptest.Settings{"agent": "handy", "template": "Find it"}
	tools := map[string]steptest.Tool{"search": {Answer: `["hit"]`}}
	acts := map[string]steptest.Tool{"search": {Spec: tool.Spec{SideEffects: true}, Answer: `1`}}
	steptest.Runs(t, prompt.Runner{},
		steptest.Play{Name: "text", Settings: plain("text"), Replies: says(`{"a": 1}`), Value: `{"agent":"plain","output":"{\"a\": 1}"}`, Notes: []string{p, r}},
		steptest.Play{Name: "JSON", Settings: plain("json"), Replies: says(`{"a": 1}`), Value: `{"agent":"plain","output":{"a":1}}`},
		steptest.Play{Name: "JSON after a mend", Settings: plain("json"), Replies: says(`no`, `[1]`), Value: `{"agent":"plain","output":[1]}`},
		steptest.Play{Name: "never JSON", Settings: plain("json"), Replies: says(`no`, `no`, `no`), Class: ir.ClassInvalid},
		steptest.Play{Name: "A9: a number", Settings: plain(""), Replies: says(`42`), Value: `{"agent":"plain","output":42}`},
		steptest.Play{Name: "A9: the last fence", Settings: plain(""), Replies: says("```json\n{\"a\":1}\n```\nor\n```JSON\n{\"a\":2}\n```"), Value: `{"agent":"plain","output":{"a":2}}`},
		steptest.Play{Name: "A9: a bad last fence", Settings: plain(""), Replies: says("```json\n1\n```\n```json\nx\n```"), Value: `{"agent":"plain","output":"` + "```json\\n1\\n```\\n```json\\nx\\n```" + `"}`},
		steptest.Play{Name: "A9: a plain fence", Settings: plain(""), Replies: says("```\n{\"a\":1}\n```"), Value: `{"agent":"plain","output":{"a":1}}`},
		steptest.Play{Name: "A9: text", Settings: plain(""), Replies: says("Hello"), Value: `{"agent":"plain","output":"Hello"}`},
		steptest.Play{
			Name: "a tool that the output asks for", Settings: handy, Tools: tools, Replies: says(`{"tool_name":"search","params":{"q":1}}`),
			Value: `{"agent":"handy","output":{"tool_name":"search","params":{"q":1}},"tools":{"search":{"ok":true,"data":["hit"]}}}`, Notes: []string{p, r, tc, tr},
		},
		steptest.Play{
			Name: "no tool is asked for", Settings: handy, Tools: tools, Replies: says("Hello"), Notes: []string{p, r},
			Value: `{"agent":"handy","output":"Hello","tools":{}}`,
		},
		steptest.Play{
			Name: "a tool that the model calls itself", Settings: handy, Tools: tools,
			Replies: []steptest.Reply{{Calls: []steptest.Call{{Tool: "search", Input: `{"q":1}`}}}, {Text: "Found"}},
			Value:   `{"agent":"handy","output":"Found","tools":{"search":{"ok":true,"data":["hit"]}}}`, Notes: []string{p, r, tc, tr, r},
		},
		steptest.Play{
			Name: "and that does not work", Settings: handy,
			Tools:   map[string]steptest.Tool{"search": {Fail: &tool.Error{Class: "TIMEOUT", Message: "too slow"}}},
			Replies: []steptest.Reply{{Calls: []steptest.Call{{Tool: "search", Input: `{}`}}}, {Text: "Pity"}},
			Value:   `{"agent":"handy","output":"Pity","tools":{"search":{"ok":false,"data":"too slow","error":"too slow"}}}`,
		},
		steptest.Play{
			Name: "one that acts", Settings: handy, Tools: acts, Replies: says(`{"toolName":"search"}`),
			Value: `{"agent":"handy","output":{"toolName":"search"},"tools":{"search":{"ok":true,"data":1}}}`,
		},
		steptest.Play{
			Name: "calls as code, each once", Settings: handy, Tools: tools, Replies: says(`{"tool_code":"search(q='a, b', n=2); print(search(n=2, q=\"a, b\"))\nsearch(q=x)"}`),
			Notes: []string{p, r, tc, tr, tc, tr},
			Value: `{"agent":"handy","output":{"tool_code":"search(q='a, b', n=2); print(search(n=2, q=\"a, b\"))\nsearch(q=x)"},"tools":{"search":{"ok":true,"data":["hit"]}}}`,
		},
		steptest.Play{
			Name: "a tool of others is not called", Settings: handy, Tools: tools, Replies: says(`{"tool":"delete"}`), Notes: []string{p, r},
			Value: `{"agent":"handy","output":{"tool":"delete"},"tools":{}}`,
		},
		steptest.Play{
			Name: "a tool that does not work", Settings: handy, Replies: says(`{"tool":"search"}`),
			Tools: map[string]steptest.Tool{"search": {Fail: &tool.Error{Class: "TIMEOUT", Message: "too slow"}}},
			Value: `{"agent":"handy","output":{"tool":"search"},"tools":{"search":{"ok":false,"data":null,"error":"too slow"}}}`,
		},
		steptest.Play{
			Name:     "a notebook",
			Settings: steptest.Settings{"agent": "plain", "template": "Do it", "format": "json", "memory": true},
			Tools: map[string]steptest.Tool{
				"notebook.read": {Answer: `["be brief"]`}, "notebook.add": {Spec: tool.Spec{SideEffects: true, TakesKey: true}, Answer: `{"kept":true}`},
			},
			Replies: says(`{"n":1,"remember":"be kind"}`), Value: `{"agent":"plain","output":{"n":1,"remember":"be kind"}}`,
			Notes: []string{tc, tr, p, r, tc, tr},
		},
		steptest.Play{
			Name: "A15: a member that is a tool", Settings: steptest.Settings{"tool": "search", "name": "finder"},
			Tools: tools, Value: `{"agent":"finder","output":["hit"],"tools":{"search":{"ok":true,"data":["hit"]}}}`,
			Notes: []string{tc, tr},
		},
	)
}

// A tool call that a reply writes as code is made with its named arguments; other code is ignored.
func TestToolCallsInCodeAreMade(t *testing.T) {
	for code, want := range map[string]string{
		`search(q=1)`:                       `{"q":1}`,
		`search()`:                          `{}`,
		`print(search(q="a"))`:              `{"q":"a"}`,
		` print( search( q = 'a' ) ) `:      `{"q":"a"}`,
		`search(q="a (b); c, d=e")`:         `{"q":"a (b); c, d=e"}`,
		`search(q='it\'s "so"')`:            `{"q":"it's \"so\""}`,
		`search(ids=[1, 2], f={"a": true})`: `{"f":{"a":true},"ids":[1,2]}`,
		"search(\n  q=1,\n  n=None,\n)":     `{"n":null,"q":1}`,
		"# don't\nsearch(q=True)":           `{"q":true}`,
		`search(1)`:                         "",
		`search`:                            "",
		`delete(q=1)`:                       "",
		`search(q=1`:                        "",
	} {
		world := &steptest.World{Replies: says(string(step.JSON(map[string]string{"tool_code": code}))), Tools: map[string]steptest.Tool{"search": {Answer: `1`}}}
		log := &steptest.Log{}
		play := steptest.Play{Settings: steptest.Settings{"agent": "handy", "template": "Find it"}}
		if _, err := play.Done(t, prompt.Runner{}, log, world); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, n := range log.Notes {
			var use journal.ToolUse
			if n.Kind == journal.NoteToolCall && json.Unmarshal(n.Data, &use) == nil {
				got += string(use.Input)
			}
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", code, got, want)
		}
	}
}

func TestTemplatesPreferInputsOverTheContext(t *testing.T) {
	values := map[string]string{
		"context": `{"language":"nl","output_a":{"n":1},"text":"x"}`, "input": `{"ticket":"T1","language":"de","letter":"Dear\nyou"}`, "output": `{"n":2}`,
	}
	for template, want := range map[string]string{
		"plain":                        "plain",
		"{{ticket}} in {{ language }}": "T1 in de", // what the run was given comes first
		"{{output_a.n}}/{{output.n}}":  "1/2",
		"{{output_a}}":                 `{"n":1}`,
		"{{context.text}}":             "x",
		"Sort {{letter}} by kind":      "Sort\n<data>\nDear\nyou\n</data>\nby kind",
		"Sort this:\n{{ticket}}":       "Sort this:\n<data>\nT1\n</data>",
		"{{letter}}":                   "Task: Dear\nyou",
		"{{nobody}} {{text.deep}}":     "{{nobody}} {{text.deep}}",
		"{{ not a name }} {{}}":        "{{ not a name }} {{}}",
	} {
		log := &steptest.Log{}
		world := &steptest.World{Replies: says("ok")}
		_, err := steptest.Play{
			Settings: steptest.Settings{"agent": "plain", "template": template, "format": "text"},
			With: func(j *step.Job) {
				j.Reads = nil
				for path, v := range values {
					j.Reads = append(j.Reads, step.Read{Path: path, Value: []byte(v)})
				}
			},
		}.Done(t, prompt.Runner{}, log, world)
		if err != nil {
			t.Fatal(err)
		}
		var asked strings.Builder
		for _, block := range world.Requests[0].Messages[0].Blocks {
			asked.WriteString(block.Text + "\n")
		}
		if !strings.Contains(asked.String(), want) {
			t.Errorf("%s: the prompt does not have %q:\n%s", template, want, asked.String())
		}
		// The data of the context does not contradict what the run was given.
		if data := `{"language":"de","output_a":{"n":1},"text":"x"}`; !strings.Contains(asked.String(), data) ||
			strings.Contains(asked.String(), `"nl"`) {
			t.Errorf("%s: the prompt does not have %s:\n%s", template, data, asked.String())
		}
	}
}

// The prompt asks for a note only where the contract of the reply leaves room for
// one: not beside a choice or a text.
func TestNotesAreAskedForWhereTheReplyHasRoom(t *testing.T) {
	choice := func(j *step.Job) {
		j.Step.Writes = []ir.Write{{Path: "state.verdict", Part: "output"}}
		when, list := expr.Parse(expr.AgentFlow, `state.verdict == "yes"`, source.Span{})
		if list.Errors() {
			t.Fatal(list)
		}
		j.Step.Next = []ir.Edge{
			{On: []ir.Outcome{ir.OK}, To: ir.Target{Step: "a"}, When: when}, {To: ir.Target{Step: "b"}},
		}
		j.Workflow.Blocks[0].Steps = append(j.Workflow.Blocks[0].Steps, *j.Step, ir.Step{ID: "a"}, ir.Step{ID: "b"})
	}
	for name, c := range map[string]struct {
		format, reply string
		with          func(*step.Job)
		want          bool
	}{
		"free": {"", "fine", nil, true}, "json": {"json", "{}", nil, true}, "text": {"text", "fine", nil, false},
		"choice": {"", "yes", choice, false},
	} {
		play := steptest.Play{
			Settings: steptest.Settings{"agent": "plain", "template": "Do it", "format": c.format, "memory": true},
			Tools:    map[string]steptest.Tool{"notebook.read": {Answer: "[]"}}, With: c.with,
		}
		world := &steptest.World{Replies: says(c.reply), Tools: play.Tools}
		if _, err := play.Done(t, prompt.Runner{}, &steptest.Log{}, world); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var asked string
		for _, b := range world.Requests[0].Messages[0].Blocks {
			asked += b.Text + "\n"
		}
		if strings.Contains(asked, "remember") != c.want || !strings.Contains(asked, "notebook") {
			t.Errorf("%s: the prompt is %s", name, asked)
		}
	}
}

// bomb is an error that panics.
type bomb struct{}

func (bomb) Error() string { panic("tick") }

// A tool that panics while several are called fails the task. It does not end the process, with every other run.
func TestPanicOfOneOfSeveralToolsIsAnError(t *testing.T) {
	call := steptest.Call{Tool: "search", Input: `{"q":1}`}
	p := steptest.Play{
		Settings: steptest.Settings{"agent": "handy", "template": "Find it"},
		Tools:    map[string]steptest.Tool{"search": {Fail: bomb{}}},
		Replies:  []steptest.Reply{{Calls: []steptest.Call{call, call}}, {Text: "Found"}},
	}
	_, err := p.Done(t, prompt.Runner{}, &steptest.Log{}, &steptest.World{Tools: p.Tools, Replies: p.Replies})
	failed, ok := errors.AsType[*step.Error](err)
	if !ok || failed.Class != ir.ClassInternal || !strings.Contains(failed.Message, "tick") {
		t.Error(err)
	}
}
