package formattest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
)

// columns are the formats of the suite: each has a file for every program, or states why it
// cannot have one.
var columns = []string{
	"agentfile",
	"agent-flow",
	"aiflow",
	"awf",
	"nof",
}

// programs are in the order of the table.
var programs = []string{
	"linear", "condition", "loop", "parallel", "gate", "retry-fallback", "sub-workflow", "tool-call", "budget-stop",
	"failure",
}

// expectation is the required result of a program in any format.
type expectation struct {
	outcome string          // ok, failed, rejected, cancelled, or budget if one stops it
	output  json.RawMessage // empty: not compared
	steps   []string        // that did work or asked, in starting order; "!" marks a failed attempt
}

// The same program in several formats takes the same path and yields the same output.
func TestSameProgramInAllFormatsBehavesTheSame(t *testing.T) {
	table := map[string]map[string]string{}
	for _, program := range programs {
		table[program] = map[string]string{}
		dir := filepath.Join("testdata/programs", program)
		base, err := txtar.ParseFile(filepath.Join(dir, "program.txtar"))
		if err != nil {
			t.Fatal(err)
		}
		for _, format := range columns {
			t.Run(program+"/"+format, func(t *testing.T) {
				table[program][format] = "FAILS"
				why, err := os.ReadFile(filepath.Join(dir, format+".cannot.txt"))
				own := filepath.Join(dir, format+".txtar")
				if err == nil {
					if _, both := os.Stat(own); both == nil || strings.TrimSpace(string(why)) == "" {
						t.Errorf("%s: say why it cannot be expressed, or express it; not both, not neither", format)
						return
					}
					table[program][format] = "cannot: " + strings.Join(strings.Fields(string(why)), " ")
					return
				}
				a, err := txtar.ParseFile(own)
				if err != nil {
					t.Fatalf("there is neither a file nor a reason why not: %v", err)
				}
				if compare(t, format, base, a) {
					table[program][format] = "same"
				}
			})
		}
	}
	for _, program := range programs {
		for _, format := range columns {
			t.Logf("%-15s %-12s %s", program, format, table[program][format])
		}
	}
}

// compare runs a program in one format. The format's archive may have its own input, script or
// actions, and its comment may state how its words differ:
//
//	step NAME = THE PROGRAM'S NAME
//	leave out NAME              (a step that the format needs and the program does not have)
//	output JSON                 (when the format has another form for it)
func compare(t *testing.T, format string, base, own *txtar.Archive) bool {
	t.Helper()
	want, ok := section(base, "want")
	if !ok {
		t.Fatal("program.txtar does not say what must come of it")
	}
	expect := parseExpectation(t, want)
	all := &txtar.Archive{Files: slices.Clone(own.Files)}
	for _, f := range base.Files {
		if _, has := section(own, f.Name); !has && slices.Contains(special, f.Name) {
			all.Files = append(all.Files, f)
		}
	}
	names, leaveOut := map[string]string{}, []string{}
	for _, line := range lines(string(own.Comment)) {
		words := strings.Fields(line)
		switch {
		case len(words) == 4 && words[0] == "step" && words[2] == "=":
			names[words[1]] = words[3]
		case len(words) == 3 && words[0] == "leave":
			leaveOut = append(leaveOut, words[2])
		case words[0] == "output":
			expect.output = json.RawMessage(strings.TrimPrefix(line, "output"))
		}
	}
	h := newTrial(all).run(t)
	if h.problems.Errors() {
		t.Errorf("it does not compile: %v", h.problems)
		return false
	}
	if h.program.Format != format {
		t.Errorf("it was read as %s", h.program.Format)
	}
	outcome, output := h.ending()
	good := true
	differs := func(what string, got, want any) {
		good = false
		t.Errorf("%s: got %s, want %s\n%s", what, got, want, h.record(t, ""))
	}
	if outcome != expect.outcome {
		differs("outcome", outcome, expect.outcome)
	}
	if len(expect.output) > 0 && !sameJSON(output, expect.output) {
		differs("output", output, expect.output)
	}
	var steps []string
	for _, s := range h.trail() {
		bare, failed := strings.CutSuffix(s, "!")
		if slices.Contains(leaveOut, bare) {
			continue
		}
		if name, ok := names[bare]; ok {
			bare = name
		}
		if failed {
			bare += "!"
		}
		steps = append(steps, bare)
	}
	if !slices.Equal(steps, expect.steps) {
		differs("steps", strings.Join(steps, " "), strings.Join(expect.steps, " "))
	}
	return good
}

func parseExpectation(t *testing.T, text string) expectation {
	t.Helper()
	var e expectation
	for _, line := range lines(text) {
		key, rest, _ := strings.Cut(line, ":")
		switch rest = strings.TrimSpace(rest); key {
		case "outcome":
			e.outcome = rest
		case "output":
			e.output = json.RawMessage(rest)
		case "steps":
			e.steps = strings.Fields(rest)
		default:
			t.Fatalf("what is %q?", line)
		}
	}
	return e
}

func (h *happened) ending() (outcome string, output json.RawMessage) {
	if done := h.state.Finished; done != nil {
		return string(done.Outcome), done.Output.JSON
	}
	if h.entry.Status == journal.Exceeded {
		return "budget", nil
	}
	return fmt.Sprintf("%s (%s)", h.entry.Status, h.entry.Waiting), nil
}

// trail returns the steps that did work or asked a person, in starting order. Steps that only
// choose or collect are omitted, because formats differ in whether they need them.
func (h *happened) trail() []string {
	failed := map[string]bool{}
	for _, e := range h.events {
		if x, ok := e.Fact.(journal.TaskEnded); ok && x.Outcome == ir.Failed {
			failed[x.Work.Key()] = true
		}
	}
	var out []string
	for _, e := range h.events {
		switch x := e.Fact.(type) {
		case journal.TaskStarted:
			if x.Part == plan.PartCombine {
				continue
			}
			name := x.Step
			if failed[x.Work.Key()] {
				name += "!"
			}
			out = append(out, name)
		case journal.GateOpened:
			out = append(out, x.Step)
		}
	}
	return out
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
