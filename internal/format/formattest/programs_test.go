package formattest

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/report/audit"
	"github.com/espalier-run/espalier/internal/report/reporttest"
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
	"failure", "review-loop", "typed-fan-out", "tool-approval", "budget-in-loop", "cost-in-loop",
	"failure-handler",
}

// expectation is the required result of a program in any format.
type expectation struct {
	outcome string          // ok, failed, rejected, cancelled, or budget if one stops it
	output  json.RawMessage // empty: not compared
	steps   []string        // that did work or asked, in starting order; "!" marks a failed attempt
}

// The same program in several formats takes the same path, yields the same output and leaves the same audit log.
func TestSameProgramInAllFormatsBehavesTheSame(t *testing.T) {
	table := map[string]map[string]string{}
	for _, program := range programs {
		table[program] = map[string]string{}
		dir := filepath.Join("testdata/programs", program)
		base, err := txtar.ParseFile(filepath.Join(dir, "program.txtar"))
		if err != nil {
			t.Fatal(err)
		}
		var audits [][]string
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
				if compare(t, format, base, a, &audits) {
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
//	reason CODE = THE PROGRAM'S CODE
//	output JSON                 (when the format has another form for it)
//	max cost MICRODOLLARS       (as --max-cost of "run" sets it, instead of a budget of the file)
func compare(t *testing.T, format string, base, own *txtar.Archive, records *[][]string) bool {
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
	tr := newTrial(all)
	names, leaveOut := map[string]string{}, []string{}
	reasons := map[string]string{"FALLBACK_USED": "COMPLETED"} // formats differ in what they call a fallback
	for _, line := range lines(string(own.Comment)) {
		words := strings.Fields(line)
		switch {
		case len(words) == 4 && words[0] == "step" && words[2] == "=":
			names[words[1]] = words[3]
		case len(words) == 3 && words[0] == "leave":
			leaveOut = append(leaveOut, words[2])
		case len(words) == 4 && words[0] == "reason" && words[2] == "=":
			reasons[words[1]] = words[3]
		case len(words) == 3 && words[0] == "max" && words[1] == "cost":
			most, err := strconv.ParseInt(words[2], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			tr.change = func(p *ir.Program) { p.Budget.MicroDollars = &ir.Limit{Max: most} }
		case words[0] == "output":
			expect.output = json.RawMessage(strings.TrimPrefix(line, "output"))
		}
	}
	h := tr.run(t)
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
	*records = append(*records, h.audit(t, func(step string) (string, bool) {
		if name, ok := names[step]; ok {
			step = name
		}
		return step, slices.ContainsFunc(expect.steps,
			func(s string) bool { return strings.TrimSuffix(s, "!") == step })
	}, reasons))
	if first, last := (*records)[0], (*records)[len(*records)-1]; !slices.Equal(first, last) {
		differs("audit", "\n"+strings.Join(last, "\n")+"\n", "as in the first format:\n"+strings.Join(first, "\n"))
	}
	return good
}

// audit returns the records of the audit log about the run and about steps of the program, as "EVENT STEP
// REASON". step returns the program's name of a step, and whether the program has it.
func (h *happened) audit(
	t *testing.T, step func(string) (name string, ok bool), reasons map[string]string,
) []string {
	t.Helper()
	shelf := &reporttest.RecordingReader{
		Pinned: h.program, Appends: []journal.Appended{{Pos: 1, Run: theRun, Events: h.events}},
	}
	audits := audit.New(audit.Options{
		Dir: t.TempDir(), Source: shelf, Program: shelf.Program, Log: slog.New(slog.DiscardHandler),
	})
	defer audits.Close()
	logs, err := reporttest.Rebuild(t.Context(), audits, theRun)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(logs[theRun])) {
		var record struct {
			Event string `json:"event"`
			Step  string `json:"step_id"`
			Data  struct {
				Reason string `json:"reason_code"`
				Result string `json:"result"`
				Tool   string `json:"tool"`
			} `json:"data"`
		}
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatal(err)
		}
		name, ok := record.Step[strings.LastIndexAny(record.Step, "/.")+1:], true
		if name != "" {
			name, ok = step(name)
		}
		ok = ok && record.Event != "step_output" // formats differ in what a failed step writes
		if reason := reasons[record.Data.Reason]; reason != "" {
			record.Data.Reason = reason
		}
		if ok {
			out = append(out, strings.Join(strings.Fields(fmt.Sprint(record.Event, " ",
				name, " ", record.Data.Tool, " ", record.Data.Reason, " ", record.Data.Result)), " "))
		}
	}
	return out
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
			failed[x.TaskID.Key()] = true
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
			if failed[x.TaskID.Key()] {
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
