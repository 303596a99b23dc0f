package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/steptest"
	"github.com/espalier-run/espalier/internal/step/tool"
	seam "github.com/espalier-run/espalier/internal/tool"
)

func with(t steptest.Tool) map[string]steptest.Tool { return map[string]steptest.Tool{"search": t} }

var call = steptest.Settings{"tool": "search"}

func TestToolStepsKeepResultsWhenInterrupted(t *testing.T) {
	notes := []string{journal.NoteToolCall, journal.NoteToolResult}
	acts := seam.Spec{SideEffects: true}
	steptest.Runs(t, tool.Runner{},
		steptest.Play{Name: "a call", Settings: call, Tools: with(steptest.Tool{Answer: `{"hits":2}`}), Value: `{"hits":2}`, Notes: notes},
		steptest.Play{Name: "a call that acts", Settings: call, Tools: with(steptest.Tool{Spec: acts, Answer: `1`}), Value: `1`, Notes: notes},
		steptest.Play{Name: "nothing to say", Settings: call, Tools: with(steptest.Tool{}), Value: `null`},
		steptest.Play{Name: "what is not JSON", Settings: call, Tools: with(steptest.Tool{Answer: `x`}), Class: ir.ClassTool},
		steptest.Play{Name: "a no", Settings: call, Tools: with(steptest.Tool{Answer: `"not found"`, No: true}), Class: ir.ClassTool, Notes: notes},
		steptest.Play{Name: "a failure", Settings: call, Tools: with(steptest.Tool{
			Fail: &seam.Error{Class: "RATE_LIMIT", Message: "later"},
		}), Class: "RATE_LIMIT", Notes: notes},
		steptest.Play{Name: "a tool that does not take it", Settings: call, Tools: with(steptest.Tool{
			Fail: &seam.Error{Class: ir.ClassInput, Message: "not a file"},
		}), Class: ir.ClassInput, Notes: notes},
		steptest.Play{Name: "a tool that is not ready", Settings: call, Tools: with(steptest.Tool{
			Fail: &seam.Error{Class: ir.ClassMissing, Message: "no server"},
		}), Class: ir.ClassMissing, Notes: notes},
		steptest.Play{
			Name: "a failure of no class", Settings: call,
			Tools: with(steptest.Tool{Fail: errors.New("broken")}), Class: ir.ClassTool,
		},
		steptest.Play{Name: "no such tool", Settings: call, Class: ir.ClassMissing},
		steptest.Play{
			Name: "F26: denied", Settings: call, Tools: with(steptest.Tool{}), Class: ir.ClassDenied,
			With: func(j *step.Job) { j.Workflow.Tools.Deny = []ir.Name{{Name: "search"}} },
		},
		steptest.Play{
			Name: "F39: what does not fit", Settings: call, Class: ir.ClassInput, Notes: []string{},
			Tools: with(steptest.Tool{Spec: seam.Spec{Schema: json.RawMessage(`{"required":["q"]}`)}}),
		},
	)
}

// box is a tool that is called by a function.
type box func(call seam.Call) (seam.Result, error)

func (b box) Tool(string) seam.Tool                                       { return b }
func (b box) Names(string) []string                                       { return nil }
func (b box) Spec() seam.Spec                                             { return seam.Spec{} }
func (b box) Call(_ context.Context, call seam.Call) (seam.Result, error) { return b(call) }

// A caller that may use a tool for one host is not redirected to others.
func TestRedirectsStayOnAllowedHosts(t *testing.T) {
	for _, c := range []struct {
		allow, deny string
		want        bool
	}{
		{"http.request(domain:example.org)", "none", false},
		{"http.request(domain:example.org)", "http.request(domain:example.net)", false},
		{"http.request", "http.request(domain:example.net)", false},
		{"http.request", "none", true},
	} {
		_, err := steptest.Play{
			Settings: steptest.Settings{"tool": "http.request", "args": map[string]any{"url": "https://example.org"}},
			With: func(j *step.Job) {
				j.Workflow = &ir.Program{
					Tools: ir.Tools{Allow: []ir.Name{{Name: c.allow}}, Deny: []ir.Name{{Name: c.deny}}},
				}
				j.Tools = box(func(call seam.Call) (seam.Result, error) {
					if !call.MayReach("https://www.example.org/x") ||
						call.MayReach("https://www.example.net/x") != c.want {
						t.Errorf("%+v", c)
					}
					return seam.Result{}, nil
				})
			},
		}.Done(t, tool.Runner{}, &steptest.Log{}, &steptest.World{})
		if err != nil {
			t.Error(err)
		}
	}
}

// A failed request has no reply that a repeated call could use, and hides no later one.
func TestRepliesAfterAFailedRequestAreUsedAgain(t *testing.T) {
	request := seam.Sampling{Messages: []seam.SamplingMessage{{Text: "a haiku"}}}
	play := steptest.Play{Settings: call, With: func(j *step.Job) {
		j.Tools = box(func(call seam.Call) (seam.Result, error) {
			var said []string
			for range 2 { // replies to equal requests
				reply, err := call.Sample(t.Context(), request)
				if err != nil {
					reply, err = call.Sample(t.Context(), request)
				}
				if err != nil {
					return seam.Result{}, err
				}
				said = append(said, reply.Text)
			}
			return seam.Result{Output: step.JSON(said)}, nil
		})
	}}
	log := &steptest.Log{}
	world := &steptest.World{Replies: []steptest.Reply{{Fail: errors.New("down")}, {Text: "one"}, {Text: "two"}}}
	const want = `["one","two"]`
	if result, err := play.Done(t, tool.Runner{}, log, world); err != nil || string(result.Value) != want {
		t.Fatalf("%s, %v", result.Value, err)
	}
	samples := []string{journal.NoteToolCall, journal.NoteSample, journal.NoteSample, journal.NoteSample}
	if got := log.Kinds(); !slices.Equal(got[:len(got)-1], samples) {
		t.Fatalf("%q", got)
	}
	// The process ends before the result of the call.
	log, world = steptest.Resumed(log.Notes[:len(samples)]), &steptest.World{}
	result, err := play.Done(t, tool.Runner{}, log, world)
	if err != nil || string(result.Value) != want || len(world.Requests) != 0 {
		t.Errorf("%s, %v, %d requests", result.Value, err, len(world.Requests))
	}
}

// How reads become arguments.
func TestReadsBecomeArgumentsOfTheTool(t *testing.T) {
	const schema = `{"type":"object","properties":{"q":{"type":"string"},"n":{"type":"integer"}}}`
	read := func(pairs ...string) []step.Read {
		var out []step.Read
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, step.Read{Path: pairs[i], Value: json.RawMessage(pairs[i+1])})
		}
		return out
	}
	for name, c := range map[string]struct {
		args   map[string]any
		reads  []step.Read
		schema string
		want   string
		fails  string
	}{
		"one object": {reads: read("state.a", `{"q":"x","n":1}`), want: `{"n":1,"q":"x"}`},
		"one text":   {reads: read("state.q", `"x"`), want: `{"q":"x"}`},
		"several":    {reads: read("state.q", `"x"`, "input.n", `2`), want: `{"n":2,"q":"x"}`},
		"nothing":    {want: `{}`},
		"what no step has written": {
			reads: append(read("input.n", `2`), step.Read{Path: "state.n", Value: json.RawMessage("null"), Missing: true}),
			want:  `{"n":2}`,
		},
		"reduced to what it knows":  {reads: read("state.a", `{"q":"x","more":1}`), schema: schema, want: `{"q":"x"}`},
		"all if it knows nothing":   {reads: read("state.a", `{"q":"x","more":1}`), schema: `{}`, want: `{"more":1,"q":"x"}`},
		"arguments as given":        {args: map[string]any{"q": "y", "n": 3}, reads: read("state.q", `"x"`), schema: schema, want: `{"n":3,"q":"y"}`},
		"arguments are not reduced": {args: map[string]any{"q": "y", "z": 3}, schema: `{"properties":{"q":{}},"additionalProperties":false}`, fails: "z"},
		"a value":                   {args: map[string]any{"n": "{{state.n}}"}, reads: read("state.n", `7`), schema: schema, want: `{"n":7}`},
		"a value inside":            {args: map[string]any{"q": "{{ state.a.b.c }}"}, reads: read("state.a", `{"b":{"c":"deep"}}`), want: `{"q":"deep"}`},
		"the longest name":          {args: map[string]any{"q": "{{state.a.b}}"}, reads: read("state.a", `{"b":1}`, "state.a.b", `2`), want: `{"q":2}`},
		"text around":               {args: map[string]any{"q": "a {{state.q}} and {{state.n}}."}, reads: read("state.q", `"x"`, "state.n", `[1]`), want: `{"q":"a x and [1]."}`},
		"deep down":                 {args: map[string]any{"q": []any{map[string]any{"r": "{{state.n}}"}}}, reads: read("state.n", `1`), want: `{"q":[{"r":1}]}`},
		"what is not there is null": {args: map[string]any{"q": "{{state.a.z}}"}, reads: read("state.a", `1`), want: `{"q":null}`},
		"braces that do not close":  {args: map[string]any{"q": "{{state.a"}, want: `{"q":"{{state.a"}`},
		"what is not read":          {args: map[string]any{"q": "{{state.z}}"}, reads: read("state.a", `1`), fails: "state.z"},
		"what does not fit":         {args: map[string]any{"n": "x"}, schema: schema, fails: "n"},
	} {
		t.Run(name, func(t *testing.T) {
			settings := steptest.Settings{"tool": "search"}
			if c.args != nil {
				settings["args"] = c.args
			}
			log := &steptest.Log{}
			_, err := steptest.Play{Settings: settings, With: func(j *step.Job) { j.Reads = c.reads }}.Done(t,
				tool.Runner{}, log,
				&steptest.World{Tools: with(steptest.Tool{Spec: seam.Spec{Schema: json.RawMessage(c.schema)}, Answer: `1`})})
			if c.fails != "" {
				var failure *step.Error
				if !errors.As(err, &failure) || failure.Class != ir.ClassInput ||
					!strings.Contains(failure.Message, c.fails) || len(log.Notes) > 0 {
					t.Errorf("%v, %v", err, log.Kinds())
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var use journal.ToolUse
			if err := json.Unmarshal(log.Notes[0].Data, &use); err != nil || string(use.Input) != c.want {
				t.Errorf("got %s, %v", use.Input, err)
			}
		})
	}
}

func TestUnfinishedToolCallsAskAPerson(t *testing.T) {
	note := func(kind string, repeatable bool) journal.TaskNoted {
		return journal.TaskNoted{Kind: kind, Data: step.JSON(journal.ToolUse{Repeatable: repeatable})}
	}
	for name, c := range map[string]struct {
		history []journal.TaskNoted
		want    step.Recovery
	}{
		"not called":         {nil, step.Rerun},
		"called, acts":       {[]journal.TaskNoted{note(journal.NoteToolCall, false)}, step.Ask},
		"called, repeatable": {[]journal.TaskNoted{note(journal.NoteToolCall, true)}, step.Rerun},
		"returned": {
			[]journal.TaskNoted{note(journal.NoteToolCall, false), note(journal.NoteToolResult, false)}, step.Rerun,
		},
	} {
		if got := (tool.Runner{}).Recovery(nil, c.history); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// Values in code are data, whatever their source. A command that is one value is executed, unless its source is outside
// of the project.
func TestValuesInCodeAreData(t *testing.T) {
	reads := []step.Read{
		{Path: "state.tag", Value: json.RawMessage(`"v1; touch PWNED"`)},
		{Path: "input.x", Value: json.RawMessage(`"x; id"`)},
	}
	for _, c := range []struct {
		command   string
		untrusted bool
		want      string
		fails     string
	}{
		{command: `echo "{{state.tag}}"`, want: `echo "v1; touch PWNED"`},
		{command: `echo {{state.tag}}`, want: `__espalier_1='v1; touch PWNED'; echo ${__espalier_1}`},
		{command: `echo '{{input.x}}'`, want: `echo "x; id"`},
		{command: `echo {{input.x}}`, untrusted: true, want: `echo "x; id"`},
		{command: `sh -c {{input.x}}`, want: `sh -c x; id`}, // the person may run commands anyway
		{command: `sh -c {{input.x}}`, untrusted: true, fails: "step \"work\": "},
		{command: `sh -c "{{state.tag}}"`, fails: "step \"work\": "},
		{command: `{{state.tag}} --now`, fails: "step \"work\": "},
		{command: `{{state.tag}}`, want: "v1; touch PWNED"},
		{command: `{{input.x}}`, want: "x; id"},
		{command: `{{input.x}}`, untrusted: true, fails: "step \"work\": "},
		{command: `echo as it  is`, want: `echo as it  is`},
	} {
		var got string
		_, err := steptest.Play{
			Settings: steptest.Settings{
				"tool": "deploy.run", "args": map[string]any{"command": c.command, "note": "{{state.tag}}!"},
			},
			With: func(j *step.Job) {
				j.Reads, j.Untrusted, j.MayRunCommands = reads, c.untrusted, true
				j.Tools = coded{box(func(call seam.Call) (seam.Result, error) {
					var in struct{ Command, Note string }
					if err := json.Unmarshal(call.Input, &in); err != nil || in.Note != "v1; touch PWNED!" {
						t.Errorf("%s: %s, %v", c.command, call.Input, err)
					}
					got = in.Command
					return seam.Result{}, nil
				})}
			},
		}.Done(t, tool.Runner{}, &steptest.Log{}, &steptest.World{})
		switch {
		case c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)):
			t.Errorf("%s: %q, %v", c.command, got, err)
		case c.fails == "" && (err != nil || got != c.want):
			t.Errorf("%s: %q, want %q, %v", c.command, got, c.want, err)
		}
	}
}

// coded is a box whose tool executes its argument "command".
type coded struct{ box }

func (c coded) Tool(string) seam.Tool { return c }
func (c coded) Spec() seam.Spec       { return seam.Spec{Code: "command"} }
