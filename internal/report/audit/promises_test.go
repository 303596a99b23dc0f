package audit_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/auditevent"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/report/audit"
	"github.com/espalier-run/espalier/internal/report/reporttest"
)

// A run without a transcript has the same audit log, byte for byte.
//
// Spec: Agent Flow §7.1 always
func TestLogDoesNotDependOnTranscript(t *testing.T) {
	r := reporttest.Recorded(t, "gate-approved")
	want := reporttest.Together(undisturbed(t, r))
	started := r.Appends[0].Events[0].Fact.(journal.RunStarted)
	started.Options = json.RawMessage(`{"no_transcript":true}`)
	r.Appends[0].Events[0].Fact = started
	if got := reporttest.Together(undisturbed(t, r)); got != want {
		t.Error(got)
	}
}

// Each event that is required is written, also at a level that omits it otherwise.
//
// Spec: Agent Flow §7.2 required-events
func TestRequiredEventsAreWritten(t *testing.T) {
	count := func(name string, settings *ir.Audit) map[string]int {
		r := reporttest.Recorded(t, name)
		r.Program.Audit = settings
		for i := range r.Program.Children {
			r.Program.Children[i].Audit = settings
		}
		out := map[string]int{}
		for _, text := range undisturbed(t, r) {
			for _, one := range records(t, text) {
				out[one.Event]++
			}
		}
		return out
	}
	omitted := map[string]bool{}
	for _, name := range []string{"observed", "agent-with-tools", "interventions"} {
		full := count(name, &ir.Audit{Level: "full"})
		least := count(name, &ir.Audit{Level: "minimal"})
		for event, n := range full {
			omitted[event] = omitted[event] || least[event] < n
			settings := &ir.Audit{Level: "minimal", RequiredEvents: []ir.Name{{Name: event}}}
			if got := count(name, settings)[event]; got != n {
				t.Errorf("%s: required %s is written %d times, want %d", name, event, got, n)
			}
		}
	}
	for _, event := range []string{auditevent.ModelCall, auditevent.ToolCall, auditevent.GateOpened} {
		if !omitted[event] {
			t.Errorf("no recording shows that %s is omitted unless it is required", event)
		}
	}
}

// At a level other than full, events that the specification does not have are
// omitted unless required. required_events is a minimum: at the full level
// all events are written.
func TestAuditLevelSelectsEvents(t *testing.T) {
	r := reporttest.Recorded(t, "observed")
	r.Program.Audit = &ir.Audit{Level: "minimal", RequiredEvents: []ir.Name{{Name: "model_error"}}}
	r.Program.Children[0].Audit = r.Program.Audit
	seen := map[string]bool{}
	for _, text := range undisturbed(t, r) {
		for _, one := range records(t, text) {
			seen[one.Event] = true
		}
	}
	for event, want := range map[string]bool{
		auditevent.RunStart: true, auditevent.StepOutput: true, auditevent.GateDecision: true,
		auditevent.BudgetCheck: true, auditevent.RunComplete: true, auditevent.MergeConflict: true,
		auditevent.CheckpointSaved: true, auditevent.ModelError: true,
		auditevent.ToolCall: false, auditevent.GateOpened: false,
	} {
		if seen[event] != want {
			t.Errorf("%s: %t", event, seen[event])
		}
	}
}

// Suspensions and resumptions alternate, and no work is recorded in between.
func TestSuspendedRunsRecordNoWork(t *testing.T) {
	for _, r := range reporttest.All(t) {
		suspended := false
		for _, one := range records(t, undisturbed(t, r)[string(reporttest.Run)+audit.Ext]) {
			switch one.Event {
			case auditevent.RunSuspended:
				if suspended {
					t.Errorf("%s: record %d: suspended twice", r.Name, one.Seq)
				}
				suspended = true
			case auditevent.RunResumed:
				if !suspended && !strings.Contains(string(one.Data), "taken_over") {
					t.Errorf("%s: record %d: resumed without being suspended", r.Name, one.Seq)
				}
				suspended = false
			case auditevent.StepStart, auditevent.ModelCall, auditevent.ToolCall:
				if suspended {
					t.Errorf("%s: record %d: %s while suspended", r.Name, one.Seq, one.Event)
				}
			}
		}
	}
}

// Invalid content does not prevent a record, and long values are replaced by
// their size, hash and start.
func TestLongAndInvalidContent(t *testing.T) {
	for name, c := range map[string]struct{ value, want string }{
		"long":           {`"` + strings.Repeat("é", 4000) + `"`, `"output_summary":{"shortened":{"begins":"\"é`},
		"half a pair":    {`"\ud800"`, "\"output_summary\":\"\uFFFD\""},
		"a member twice": {`{"a":1,"a":2}`, `"output_summary":{"a":2}`},
		"a huge number":  {`[1e999, 9007199254740993, 1.50]`, `"output_summary":["1e999","9007199254740993",1.5]`},
		"no JSON at all": {`{"a":`, `"output_summary":"{\"a\":"`},
	} {
		r := reporttest.Recorded(t, "linear")
		for _, a := range r.Appends {
			for i := range a.Events {
				if x, ok := a.Events[i].Fact.(journal.TaskEnded); ok {
					x.Value = journal.Value{JSON: json.RawMessage(c.value)}
					x.Writes = nil
					a.Events[i].Fact = x
				}
			}
		}
		text := undisturbed(t, r)[string(reporttest.Run)+audit.Ext]
		if !strings.Contains(text, c.want) {
			t.Errorf("%s: there is no %s in\n%.3000s", name, c.want, text)
		}
		records(t, text)
	}
}

// A note with invalid data still counts as a call, so that audit and transcript
// agree.
func TestNotesWithInvalidDataCountAsCalls(t *testing.T) {
	r := reporttest.Recorded(t, "bundle")
	for _, a := range r.Appends {
		for i := range a.Events {
			if x, ok := a.Events[i].Fact.(journal.TaskNoted); ok {
				x.Data = json.RawMessage(`"?"`)
				a.Events[i].Fact = x
			}
		}
	}
	text := undisturbed(t, r)[string(reporttest.Run)+audit.Ext]
	if n := strings.Count(text, `"event":"model_call"`); n != 2 || strings.Count(text, `"unreadable":true`) != 2 {
		t.Errorf("%d calls in %s", n, text)
	}
}

// docs/audit.md has every event.
func TestEventsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/audit.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range reporttest.All(t) {
		for _, text := range undisturbed(t, r) {
			for _, one := range records(t, text) {
				if !strings.Contains(string(page), "`"+one.Event+"`") {
					t.Errorf("%s is not in docs/audit.md", one.Event)
				}
			}
		}
	}
}

// The cost per item of a fan-out does not depend on the number of items.
func TestWideRunsStayLinear(t *testing.T) {
	text := func(n int) string {
		p := &ir.Program{Name: "wide", Blocks: []ir.Block{{Steps: []ir.Step{{
			ID: "map", Type: "parallel",
			Action: ir.Parallel{},
		}}}, {Steps: []ir.Step{{ID: "one", Type: "tool", Action: ir.Task{Kind: "tool"}}}}}}
		var events []journal.Event
		add := func(f journal.Fact) {
			events = append(events, journal.Event{Seq: journal.Seq(len(events) + 1), At: 1_772_000_000_000, Fact: f})
		}
		at := journal.Place{Step: "map"}
		work := func(i int) journal.TaskID {
			return journal.TaskID{Place: journal.Place{Frame: fmt.Sprintf("map/%d", i), Step: "one"}}
		}
		add(journal.RunStarted{Name: "wide", Definition: "d"})
		add(journal.StepEntered{
			Place: at, Mode: "parallel", Total: n,
			Items: journal.Value{JSON: json.RawMessage("[]")},
		})
		for i := range n {
			add(journal.FrameOpened{Frame: fmt.Sprintf("map/%d", i), Step: "map", Block: 1, Index: i})
		}
		for i := range n {
			add(journal.TaskStarted{TaskID: work(i), Kind: "tool"})
		}
		for i := range n {
			add(journal.TaskEnded{TaskID: work(i), Outcome: "ok", Final: true})
			add(journal.FrameClosed{Frame: fmt.Sprintf("map/%d", i), Outcome: "ok"})
		}
		add(journal.StepLeft{Place: at, Outcome: "ok"})
		add(journal.RunFinished{Outcome: "ok"})
		s := &reporttest.RecordingReader{
			Pinned: p, Appends: []journal.Appended{{Pos: 1, Run: reporttest.Run, Events: events}},
		}
		made, err := reporttest.Rebuild(t.Context(), writer(t.TempDir(), s), reporttest.Run)
		if err != nil {
			t.Fatal(err)
		}
		return string(made[reporttest.Run])
	}
	cost := func(n int) float64 { return testing.AllocsPerRun(1, func() { text(n) }) / float64(n) }
	if small, large := cost(100), cost(1000); large > 1.5*small {
		t.Errorf("%.0f allocations for each of 100 items, %.0f for each of 1000", small, large)
	}
	if got := strings.Count(text(100), `"event":"step_complete"`); got != 101 {
		t.Errorf("%d steps", got)
	}
}

// completions returns the step_complete records of a run, by step.
func completions(t *testing.T, r *reporttest.Recording) map[string]map[string]any {
	t.Helper()
	out := map[string]map[string]any{}
	for _, one := range records(t, undisturbed(t, r)[string(reporttest.Run)+audit.Ext]) {
		if one.Event == auditevent.StepComplete {
			var data map[string]any
			if err := json.Unmarshal(one.Data, &data); err != nil {
				t.Fatal(err)
			}
			out[one.StepID] = data
		}
	}
	return out
}

// step returns a step of the program's body.
func step(t *testing.T, r *reporttest.Recording, id string) *ir.Step {
	t.Helper()
	s := r.Program.Step(ir.Body, id)
	if s == nil {
		t.Fatalf("there is no step %s", id)
	}
	return s
}

// A fallback has FALLBACK_USED and the declared reason code; the step that failed
// has its own.
//
// Spec: Agent Flow §3.2 reason-code, §7.5 own-codes
func TestFallbackUsedIsRecorded(t *testing.T) {
	r := reporttest.Recorded(t, "fallback")
	step(t, r, "draft").ReasonFail = "NO_DRAFT"
	step(t, r, "template").ReasonOK = "TEMPLATE_TAKEN"
	got := completions(t, r)
	if d := got["draft"]; d["reason_code"] != "NO_DRAFT" || d["status"] != "failed" {
		t.Error(d)
	}
	if d := got["template"]; d["reason_code"] != report.ReasonFallback ||
		d["declared_reason_code"] != "TEMPLATE_TAKEN" || d["fallback_for"] != "draft" {
		t.Error(d)
	}
}

// A failure that the author tolerates has a status of its own.
func TestSkipOnErrorIsRecorded(t *testing.T) {
	r := reporttest.Recorded(t, "fallback")
	s := step(t, r, "draft")
	s.SkipOnError, s.ReasonFail = true, "DRAFT_SKIPPED"
	if d := completions(t, r)["draft"]; d["status"] != "skipped_on_error" || d["reason_code"] != "DRAFT_SKIPPED" {
		t.Error(d)
	}
}

// The completion of a step has the code that its author declared for success or for failure.
//
// Spec: Agent Flow §3.2 reason-code, §3.2 reason-code-on-fail
func TestStepsCompleteWithTheirDeclaredReasonCodes(t *testing.T) {
	r := reporttest.Recorded(t, "linear")
	step(t, r, "prepare").ReasonOK = "PREPARED"
	if d := completions(t, r)["prepare"]; d["status"] != "completed" || d["reason_code"] != "PREPARED" {
		t.Error(d)
	}
	r = reporttest.Recorded(t, "fallback")
	step(t, r, "draft").ReasonFail = "DRAFT_IMPOSSIBLE"
	if d := completions(t, r)["draft"]; d["status"] != "failed" || d["reason_code"] != "DRAFT_IMPOSSIBLE" {
		t.Error(d)
	}
}

// step_start lists reads that no step has written.
func TestMissingReadsAreRecorded(t *testing.T) {
	r := reporttest.Recorded(t, "linear")
	for _, a := range r.Appends {
		for i := range a.Events {
			if x, ok := a.Events[i].Fact.(journal.TaskStarted); ok && x.Step == "greet" {
				x.MissingReads = []string{"state.pages"}
				a.Events[i].Fact = x
			}
		}
	}
	if text := undisturbed(t, r)[string(reporttest.Run)+audit.Ext]; strings.Count(text,
		`"missing_reads":["state.pages"]`) != 1 {
		t.Error(text)
	}
}

// Events that the specification requires without naming them have names.
//
// Spec: Agent Flow §8.4 records
func TestFurtherEventsAreRecorded(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range reporttest.All(t) {
		for _, text := range undisturbed(t, r) {
			for _, one := range records(t, text) {
				seen[one.Event] = true
			}
		}
	}
	for _, event := range []string{
		"checkpoint_saved", "run_suspended", "run_resumed", "waitpoint_timeout",
		"merge_conflict", "step_retry",
	} {
		if !seen[event] {
			t.Errorf("%s is never written", event)
		}
	}
}
