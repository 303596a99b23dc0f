package formattest

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/samplingtest"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// examplePatterns are the endings of the workflows among the examples of each format.
var examplePatterns = map[string]string{
	"agent-flow": ".md", "aiflow": ".aiflow", "awf": ".yaml", "nof": ".nof.md", "agentfile": "workflow.yaml",
}

// eachExample calls do with a trial of every example of every format. All gates are approved.
func eachExample(t *testing.T, do func(t *testing.T, name string, tr trial)) {
	t.Helper()
	for format, pattern := range examplePatterns {
		all := exampleFiles(t, filepath.Join("..", "..", "..", "examples", format))
		for _, f := range all {
			if !strings.HasSuffix(f.Name, pattern) || strings.HasSuffix(f.Name, "README.md") ||
				format == "awf" && !strings.Contains(f.Name, "/workflows/") {
				continue
			}
			t.Run(f.Name, func(t *testing.T) {
				input := inputs[f.Name]
				switch format {
				case "aiflow":
					input = `{"text": "Roses", "ticket": "Money back!", "notes": "It rained."}`
				case "awf": // with the defaults
					input = `{"text": "Roses", "change": "a", "tries": 5, "hosts": "a.example, b.example", "version": "1.4.0",` +
						`"photos": "[\"beach.jpg\", \"blurred.jpg\", \"forest.jpg\", \"harbour.jpg\"]"}`
				case "agentfile":
					input = `{"AGENT_INPUT": "Roses", "TOPIC": "Roses"}`
				}
				do(t, f.Name,
					trial{files: append([]txtar.File{f}, without(all, f.Name)...), input: input, agreeable: true})
			})
		}
	}
}

// stepReply is one reply of a run: whose it is, and what its contract asks for.
type stepReply struct {
	work journal.TaskID
	turn int // from 1
	text string
	kind contract.Kind
}

// replies returns the replies of a run that call no tools.
func (h *happened) replies(t *testing.T) []stepReply {
	t.Helper()
	var out []stepReply
	turns := map[string]int{}
	for _, e := range h.events {
		note, ok := e.Fact.(journal.TaskNoted)
		if !ok || note.Kind != journal.NoteReply {
			continue
		}
		turns[note.Key()]++
		var reply journal.Reply
		if err := json.Unmarshal(note.Data, &reply); err != nil {
			t.Fatal(err)
		}
		one := stepReply{work: note.TaskID, turn: turns[note.Key()], kind: h.kindOf(note.Step)}
		calls := false
		for _, b := range reply.Blocks {
			calls = calls || b.Type == journal.BlockToolUse
			one.text += b.Text
		}
		if one.kind == "" && strings.HasPrefix(strings.TrimSpace(one.text), "{") {
			one.kind = contract.Object // of an agent that code calls
		}
		if !calls {
			out = append(out, one)
		}
	}
	return out
}

// kindOf returns what the contract of a step asks for; "" if that is not known before the run.
func (h *happened) kindOf(step string) contract.Kind {
	programs := []*ir.Program{h.program}
	for i := range h.program.Children {
		programs = append(programs, &h.program.Children[i])
	}
	for _, p := range programs {
		for b := range p.Blocks {
			s := p.Step(ir.BlockID(b), step)
			if s == nil || s.Task() == nil {
				continue
			}
			if asker, ok := catalog.Kinds()[s.Task().Kind].(stepkind.Asker); ok {
				c, _ := asker.Contract(p, s, s.Task())
				return c.Kind
			}
		}
	}
	return ""
}

// extraKey is a key that no contract of an example asks for.
const extraKey = "confidence_level"

// manners are the ways in which real models give a reply that is right.
var manners = map[string]func(stepReply) string{
	"fenced": func(s stepReply) string {
		if s.kind == contract.Object || s.kind == contract.List || s.kind == contract.JSON {
			return "```json\n" + s.text + "\n```"
		}
		return "```\n" + s.text + "\n```"
	},
	"prose around": func(s stepReply) string {
		switch s.kind {
		case contract.Boolean, contract.Number, contract.Integer, contract.Choice:
			return "Answer: " + s.text + "\n\nLet me know if you need anything else!"
		}
		return "Sure! Here is what you asked for:\n\n" + s.text + "\n\nLet me know if you need anything else!"
	},
	"number as a word": func(s stepReply) string {
		var value any
		if json.Unmarshal([]byte(s.text), &value) != nil {
			return s.text
		}
		changed := worded(value)
		if word, ok := changed.(string); ok {
			return word
		}
		return encoded(changed)
	},
	"extra key": func(s stepReply) string {
		var value map[string]any
		if json.Unmarshal([]byte(s.text), &value) != nil || s.kind != contract.Object {
			return s.text
		}
		value[extraKey] = "high"
		return encoded(value)
	},
	"apology first": func(s stepReply) string {
		return "I apologize for the confusion in my earlier message.\n\n```\n" + s.text + "\n```"
	},
}

func encoded(value any) string {
	raw, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		panic(err) // it was JSON
	}
	return string(raw)
}

// worded writes small whole numbers as words.
func worded(value any) any {
	words := []string{"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"}
	switch v := value.(type) {
	case float64:
		if v >= 0 && v <= 10 && v == float64(int(v)) {
			return words[int(v)]
		}
	case map[string]any:
		for key := range v {
			v[key] = worded(v[key])
		}
	case []any:
		for i := range v {
			v[i] = worded(v[i])
		}
	}
	return value
}

// withoutExtra removes the extra key from a value: a contract that allows other keys keeps it.
func withoutExtra(value any) any {
	switch v := value.(type) {
	case map[string]any:
		delete(v, extraKey)
		for key := range v {
			v[key] = withoutExtra(v[key])
		}
	case []any:
		for i := range v {
			v[i] = withoutExtra(v[i])
		}
	}
	return value
}

// end describes how a run ended: outcome, output and the steps that it took.
func (h *happened) end(t *testing.T) string {
	t.Helper()
	outcome, output := h.ending()
	var value any
	if len(output) > 0 {
		if err := json.Unmarshal(output, &value); err != nil {
			t.Fatal(err)
		}
	}
	text := strings.ReplaceAll(encoded(withoutExtra(value)), `\"`+extraKey+`\":\"high\",`, "") // in texts of commands
	return fmt.Sprintf("%s\n%s\n%s", outcome, text, strings.Join(h.trail(), "\n"))
}

// TestExamplesTakeSloppyReplies runs every example with the replies of a simulation, as a script, and then with the
// same replies as real models give them. Every run takes the same steps to the same output, and no reply is asked for
// again. Free texts stay as they are: the words around them would be part of the text.
func TestExamplesTakeSloppyReplies(t *testing.T) {
	wrapped := map[string]int{} // replies per manner that differ from the clean one
	eachExample(t, func(t *testing.T, _ string, tr trial) {
		for seed := range uint64(3) {
			if !samplingtest.Includes(int(seed), 3) {
				continue
			}
			tr.seed, tr.script = seed+1, "replies: []\notherwise: simulate\n"
			clean := tr.run(t)
			if clean.problems.Errors() {
				t.Fatal(clean.problems)
			}
			replies := clean.replies(t)
			for name, manner := range manners {
				sloppy := tr
				var entries []any
				for _, one := range replies {
					text := one.text
					if one.kind != contract.Text && one.kind != "" {
						text = manner(one)
					}
					if text != one.text {
						wrapped[name]++
					}
					entries = append(entries, map[string]any{"key": one.work.Key(), "turn": one.turn, "reply": text})
				}
				sloppy.script = encoded(map[string]any{"replies": entries, "otherwise": "simulate"})
				h := sloppy.run(t)
				if got, want := h.end(t), clean.end(t); got != want {
					t.Errorf("seed %d, %s: the run ends as\n%s\nwant\n%s\n%s", seed+1, name, got, want, sloppy.script)
				}
				if got := len(h.replies(t)); got != len(replies) {
					t.Errorf("seed %d, %s: %d replies, want %d\n%s", seed+1, name, got, len(replies), sloppy.script)
				}
			}
		}
	})
	for name := range manners {
		if wrapped[name] < 5 {
			t.Errorf("%s: only %d replies were changed", name, wrapped[name])
		}
	}
}

// TestTranslateExampleFollowsBooleans runs AIFLOW's translate example with a checker that says no once: the text is
// translated again, and the run ends after the yes.
func TestTranslateExampleFollowsBooleans(t *testing.T) {
	all := exampleFiles(t, filepath.Join("..", "..", "..", "examples", "aiflow"))
	i := slices.IndexFunc(all, func(f txtar.File) bool { return f.Name == "translate.aiflow" })
	for name, replies := range map[string][2]string{
		"JSON": {`{"ok": false, "remarks": "Too literal."}`, `{"ok": true}`},
		"words": {
			"```json\n{\"ok\": \"no\", \"remarks\": \"Too literal.\"}\n```", "Sorry for the delay. {\"ok\": \"Yes\"}",
		},
	} {
		tr := trial{files: append([]txtar.File{all[i]}, without(all, all[i].Name)...), input: `{"text": "Roses"}`}
		tr.script = encoded(map[string]any{"replies": []any{
			map[string]any{"step": "translator", "visit": 1, "reply": "Rozen?"},
			map[string]any{"step": "translator", "visit": 2, "reply": "Rozen"},
			map[string]any{"step": "checker", "visit": 1, "reply": replies[0]},
			map[string]any{"step": "checker", "visit": 2, "reply": replies[1]},
		}})
		h := tr.run(t)
		want := []string{"translator", "checker", "translator", "checker"}
		if outcome, _ := h.ending(); outcome != "ok" || !reflect.DeepEqual(h.trail(), want) {
			t.Errorf("%s: %s after %v\n%s", name, outcome, h.trail(), h.record(t, ""))
		}
	}
}
