package conversation_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/chat"
	"github.com/espalier-run/espalier/internal/step/conversation"
	"github.com/espalier-run/espalier/internal/step/steptest"
)

func TestConversationStepsKeepResultsWhenInterrupted(t *testing.T) {
	with := func(j *step.Job) {
		j.Reads = []step.Read{
			{Path: "input", Value: json.RawMessage(`{"who":"Ann"}`)},
			{Path: "states.first.Conversation", Value: json.RawMessage(`[{"role":"user","blocks":[{"type":"text","text":"Hi"}]},{"role":"assistant","blocks":[{"type":"text","text":"Ho"}]}]`)},
		}
	}
	notes := []string{journal.NotePrompt, journal.NoteReply}
	plays := []steptest.Play{
		{
			Name: "text", Settings: steptest.Settings{"agent": "plain", "prompt": "Greet {{.inputs.who}}"},
			Replies: []steptest.Reply{{Text: "Hello Ann"}},
			Value:   `{"Output":"Hello Ann","Stderr":"","ExitCode":0,"Status":"completed","Response":{},"TokensUsed":6,"TokensInput":3,"TokensOutput":3,"TokensEstimated":true}`,
			Notes:   notes,
		},
		{
			Name: "text that is an object", Settings: steptest.Settings{"agent": "plain", "prompt": "x"}, Replies: []steptest.Reply{{Text: `{"a": 1}`}},
			Value: `{"Output":"{\"a\": 1}","Stderr":"","ExitCode":0,"Status":"completed","Response":{"a":1},"TokensUsed":3,"TokensInput":1,"TokensOutput":2,"TokensEstimated":true}`,
		},
		{
			Name: "fenced JSON", Settings: steptest.Settings{"agent": "plain", "prompt": "x", "format": "json"},
			Replies: []steptest.Reply{{Text: "Here:\n```json\n{\"a\":1}\n```"}},
			Value:   `{"Output":"{\"a\":1}","Stderr":"","ExitCode":0,"Status":"completed","Response":{"a":1},"JSON":{"a":1},"TokensUsed":39,"TokensInput":32,"TokensOutput":7,"TokensEstimated":true}`,
		},
		{
			Name: "JSON after all", Settings: steptest.Settings{"agent": "plain", "prompt": "x", "format": "json"},
			Replies: []steptest.Reply{{Text: "no"}, {Text: "[1]"}},
			Value:   `{"Output":"[1]","Stderr":"","ExitCode":0,"Status":"completed","Response":[1],"JSON":[1],"TokensUsed":163,"TokensInput":161,"TokensOutput":2,"TokensEstimated":true}`,
		},
		{
			Name:     "going on",
			Settings: steptest.Settings{"agent": "plain", "prompt": "And?", "continue_from": "first", "keep": true},
			Replies:  []steptest.Reply{{Text: "Hm"}},
			Value: `{"Output":"Hm","Stderr":"","ExitCode":0,"Status":"completed","Response":{},"TokensUsed":3,"TokensInput":2,"TokensOutput":1,"TokensEstimated":true,"Conversation":[` +
				`{"role":"user","blocks":[{"type":"text","text":"Hi"}]},{"role":"assistant","blocks":[{"type":"text","text":"Ho"}]},` +
				`{"role":"user","blocks":[{"type":"text","text":"And?"}]},{"role":"assistant","blocks":[{"type":"text","text":"Hm"}]}]}`,
		},
		{Name: "nothing to go on with", Settings: steptest.Settings{
			"agent": "plain", "prompt": "x", "continue_from": "nowhere",
		}, Class: ir.ClassInput},
		{
			Name: "no time", Settings: steptest.Settings{"agent": "plain", "prompt": "x", "timeout": "{{.inputs.who}}"},
			Class: ir.ClassInput,
		},
		{
			Name: "unknown agent", Settings: steptest.Settings{"agent": "nobody", "prompt": "x"},
			Class: ir.ClassMissing,
		},
		{
			Name:     "a name that nothing has",
			Settings: steptest.Settings{"agent": "plain", "prompt": "{{.inputs.x}}"}, Class: ir.ClassInput,
		},
	}
	for i := range plays {
		plays[i].With = with
	}
	steptest.Runs(t, conversation.Runner{}, plays...)
}

// A reply that is no JSON, also after it was asked for again, is left behind for
// the states that come next, with what it cost.
func TestRepliesThatCannotBeUsed(t *testing.T) {
	world := &steptest.World{Replies: []steptest.Reply{{Text: "no"}, {Text: "still no"}, {Text: "never"}}}
	p := steptest.Play{Settings: steptest.Settings{"agent": "plain", "prompt": "x", "format": "json"}}
	_, err := (conversation.Runner{}).Run(t.Context(), p.Job("conversation", t.TempDir(), &steptest.Log{}, world))
	var failed *step.Error
	if !errors.As(err, &failed) || failed.Class != ir.ClassInvalid {
		t.Fatal(err)
	}
	var got struct {
		Output, Status, Error string
		ExitCode              int
		TokensUsed            int64
	}
	if err := json.Unmarshal(failed.Value, &got); err != nil {
		t.Fatal(err)
	}
	if got.Output != "never" || got.Status != "failed" || got.Error != failed.Message ||
		got.ExitCode != -1 || got.TokensUsed == 0 {
		t.Errorf("%+v", got)
	}
}

// The model receives the author's prompt without additions.
func TestPromptIsSentVerbatim(t *testing.T) {
	world := &steptest.World{Replies: []steptest.Reply{{Text: "ok"}}}
	p := steptest.Play{Settings: steptest.Settings{
		"agent": "plain", "prompt": "Do it.", "system": "Be kind.",
		"skills": []map[string]string{{"name": "care", "text": "Take care.\n"}},
	}}
	job := p.Job("conversation", t.TempDir(), &steptest.Log{}, world)
	if _, err := (conversation.Runner{}).Run(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	request := world.Requests[0]
	if request.System != "Be kind." || len(request.Messages) != 1 || len(request.Messages[0].Blocks) != 1 ||
		request.Messages[0].Blocks[0].Text != "<skill_content name=\"care\">\nTake care.\n</skill_content>\n\nDo it." {
		t.Errorf("%+v", request)
	}
}

// Values that a prompt inserts as a whole are delimited, and the system prompt says what that means. What the function
// raw inserts and files that the author names are a part of the prompt.
func TestInsertedValuesAreData(t *testing.T) {
	for _, c := range []struct{ prompt, want string }{
		{"Sum up:\n{{.states.log.Output}}\nin {{.inputs.lang}}", "Sum up:\n<data>\none\ntwo\n</data>\nin French"},
		{"Sum up: {{trimSpace .states.log.Output}}", "Sum up:\n<data>\none\ntwo\n</data>"},
		{"{{range $k, $v := .inputs.map}}{{$k}} is {{$v}}; {{end}}", "a b is 1; "},
		{"Count {{json .inputs.map}}", `Count {"a b":"1"}`},
		{"Sum up:\n{{raw .states.log.Output}}", "Sum up:\none\ntwo"},
		{"Keep to this:\n{{readFile \"rules.txt\"}}", "Keep to this:\nBe\nbrief"},
		{"Sum up:\n{{readFile .inputs.file}}", "Sum up:\n<data>\nBe\nbrief\n</data>"},
		{"{{.states.log.Output}}", "one\ntwo"},
		{
			"{{if eq .inputs.lang \"French\"}}Answer in French:\n{{.inputs.lang}}{{end}}",
			"Answer in French:\n<data>\nFrench\n</data>",
		},
	} {
		world := &steptest.World{Replies: []steptest.Reply{{Text: "ok"}}}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "rules.txt"), []byte("Be\nbrief"), 0o600); err != nil {
			t.Fatal(err)
		}
		p := steptest.Play{
			Settings: steptest.Settings{"agent": "plain", "prompt": c.prompt, "system": "Be kind."},
			With: func(j *step.Job) {
				j.Reads = []step.Read{
					{Path: "input", Value: json.RawMessage(`{"lang":"French","map":{"a b":"1"},"file":"rules.txt"}`)},
					{Path: "states.log.Output", Value: json.RawMessage(`"one\ntwo"`)},
				}
			},
		}
		if _, err := (conversation.Runner{}).Run(t.Context(),
			p.Job("conversation", dir, &steptest.Log{}, world)); err != nil {
			t.Errorf("%s: %v", c.prompt, err)
			continue
		}
		system := "Be kind."
		if strings.Contains(c.want, "<data>") {
			system += "\n\n" + chat.AboutInserted
		}
		if got := world.Requests[0]; got.Messages[0].Blocks[0].Text != c.want || got.System != system {
			t.Errorf("%s: %q %q, want %q", c.prompt, got.System, got.Messages[0].Blocks[0].Text, c.want)
		}
	}
}

// A reply sends the whole conversation, and its result has only the new turn. An empty text ends
// the conversation without a model call.
func TestRepliesSendTheWholeConversation(t *testing.T) {
	turns := `[{"messages":[{"role":"user","blocks":[{"type":"text","text":"Hi"}]},` +
		`{"role":"assistant","blocks":[{"type":"text","text":"Ho"}]}],"reply":"Ho","input":10,"output":5}]`
	run := func(said string, world *steptest.World, set steptest.Settings) map[string]json.RawMessage {
		t.Helper()
		p := steptest.Play{Settings: set, With: func(j *step.Job) {
			j.Reads = []step.Read{
				{Path: "turns.chat", Value: json.RawMessage(turns)}, {Path: "said.chat", Value: json.RawMessage(said)},
			}
		}}
		result, err := (conversation.Runner{}).Run(t.Context(),
			p.Job("conversation", t.TempDir(), &steptest.Log{}, world))
		if err != nil {
			t.Fatal(err)
		}
		var out map[string]json.RawMessage
		if err := json.Unmarshal(result.Value, &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	set := steptest.Settings{"agent": "plain", "dialog": "chat", "reply": true}
	world := &steptest.World{Replies: []steptest.Reply{{}, {Text: "Fine"}}}
	out := run(`"And you?"`, world, set)
	if got := world.Requests[0]; len(got.Messages) != 3 || got.Messages[2].Blocks[0].Text != "And you?" ||
		got.For.Step != "chat" || got.For.Turn != 1 {
		t.Errorf("%+v", got)
	}
	var added []struct{ Messages []json.RawMessage }
	if err := json.Unmarshal(out["Turns"], &added); err != nil || len(added) != 1 || len(added[0].Messages) != 2 {
		t.Errorf("%v: %s", err, out["Turns"])
	}
	if string(out["Status"]) != `"waiting"` || string(out["TokensOutput"]) != "6" {
		t.Errorf("%s", out)
	}
	set["max_turns"] = 2
	if out := run(`"Last one"`, &steptest.World{Replies: []steptest.Reply{{}, {Text: "Bye"}}}, set); string(out["Status"]) !=
		`"completed"` {
		t.Errorf("%s", out)
	}
	set["keep"] = true
	world = &steptest.World{}
	for _, empty := range []string{`""`, `" "`, "null"} {
		out := run(empty, world, set)
		if len(world.Requests) != 0 || string(out["Status"]) != `"completed"` || string(out["Output"]) != `"Ho"` ||
			string(out["Turns"]) != "[]" || string(out["TokensUsed"]) != "15" || out["Conversation"] == nil {
			t.Errorf("%s", out)
		}
	}
}
