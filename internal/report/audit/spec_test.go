package audit_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/auditevent"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/report/audit"
	"github.com/espalier-run/espalier/internal/report/reporttest"
)

var uuid = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// Records have the base fields of the specification, in chronological order, in files with its extension.
//
// Spec: Agent Flow §7.3 base-fields, §7.3 uuid, §7.3 timestamp, §7.2 required-ids
// Spec: Agent Flow §C lines, §C order, §C extension
func TestRecordsHaveTheBaseFieldsOfTheSpecification(t *testing.T) {
	for _, r := range reporttest.All(t) {
		for name, text := range undisturbed(t, r) {
			if !strings.HasSuffix(name, ".audit.ndjson") {
				t.Errorf("%s: the extension is not that of the specification", name)
			}
			var last time.Time
			for line := range strings.Lines(text) {
				var one struct {
					RunID   string          `json:"run_id"`
					TraceID string          `json:"trace_id"`
					StepID  string          `json:"step_id"`
					Event   string          `json:"event"`
					Time    string          `json:"timestamp"`
					Data    json.RawMessage `json:"data"`
				}
				if err := json.Unmarshal([]byte(line), &one); err != nil {
					t.Fatal(err)
				}
				at, err := time.Parse(time.RFC3339, one.Time)
				if err != nil || at.Before(last) {
					t.Errorf("%s: %v: not in order: %s", r.Name, err, line)
				}
				last = at
				if !uuid.MatchString(one.RunID) || !uuid.MatchString(one.TraceID) || one.Event == "" {
					t.Errorf("%s: a base field is missing: %s", r.Name, line)
				}
				if strings.HasPrefix(one.Event, "step_") && one.StepID == "" ||
					!strings.HasPrefix(string(one.Data), "{") {
					t.Errorf("%s: a base field is missing: %s", r.Name, line)
				}
			}
		}
	}
}

// Every event of the specification has its key data whenever there is any: version, reads, writes, summaries
// and evidence are omitted if they are empty. Reads and writes are those of the step. Every step that starts has
// an end, and each end is followed by a budget check.
//
// Spec: Agent Flow §7.4 run-start, §7.4 step-start, §7.4 step-output, §7.4 step-complete, §7.4 step-skipped
// Spec: Agent Flow §7.4 gate-decision, §7.4 budget-check, §7.4 run-complete, §7.4 run-failed, §6.2 audit
// Spec: Agent Flow §7.5 every-completion, §7.6 gate-record, §11 auditor
func TestEventsHaveTheKeyDataOfTheSpecification(t *testing.T) {
	type keys struct{ always, sometimes []string }
	want := map[string]keys{
		auditevent.RunStart:     {[]string{"workflow_name", "budgets"}, []string{"version", "input_summary"}},
		auditevent.StepStart:    {[]string{"step_id", "type"}, []string{"reads"}},
		auditevent.StepOutput:   {[]string{"step_id"}, []string{"writes", "output_summary"}},
		auditevent.StepComplete: {[]string{"step_id", "status", "duration_ms", "tokens", "reason_code"}, nil},
		auditevent.StepSkipped:  {[]string{"step_id", "condition", "reason_code"}, nil},
		auditevent.GateDecision: {[]string{"step_id", "result", "actor", "method"}, []string{"evidence"}},
		auditevent.BudgetCheck:  {[]string{"tokens_used", "tokens_remaining", "steps_used", "steps_remaining"}, nil},
		auditevent.RunComplete:  {[]string{"status", "total_duration_ms", "total_tokens"}, []string{"output_summary"}},
		auditevent.RunFailed:    {[]string{"error", "reason_code"}, []string{"last_step"}},
	}
	seen := map[string]bool{}
	for _, r := range reporttest.All(t) {
		for name, text := range undisturbed(t, r) {
			open, all := map[string]int{}, records(t, text)
			for i, one := range all {
				var data map[string]any
				if err := json.Unmarshal(one.Data, &data); err != nil {
					t.Fatal(err)
				}
				for _, key := range want[one.Event].always {
					if v, ok := data[key]; !ok || v == "" {
						t.Errorf("%s: record %d: %s has no %s", r.Name, one.Seq, one.Event, key)
					}
					seen[one.Event+" "+key] = true
				}
				for _, key := range want[one.Event].sometimes {
					if _, ok := data[key]; ok {
						seen[one.Event+" "+key] = true
					}
				}
				s := r.Program.Step(ir.Body, one.StepID)
				switch root := name == string(reporttest.Run)+audit.Ext; {
				case root && s != nil && one.Event == auditevent.StepStart:
					var declared []any
					for _, read := range s.Reads {
						declared = append(declared, read.Path)
					}
					if got, _ := data["reads"].([]any); !slices.Equal(got, declared) {
						t.Errorf("%s: record %d: step %s reads %v, want %v", r.Name, one.Seq, s.ID, got, declared)
					}
				case root && s != nil && one.Event == auditevent.StepOutput && len(s.Writes) > 0:
					if got, _ := data["writes"].([]any); len(got) != len(s.Writes) || got[0] != s.Writes[0].Path {
						t.Errorf("%s: record %d: step %s writes %v, want %v", r.Name, one.Seq, s.ID, got, s.Writes)
					}
				}
				switch one.Event {
				case auditevent.StepStart:
					open[one.StepID]++
				case auditevent.StepComplete:
					open[one.StepID]--
					if next := all[i+1]; next.Event != auditevent.BudgetCheck || next.StepID != one.StepID {
						t.Errorf("%s: record %d: %s follows step_complete", r.Name, one.Seq, next.Event)
					}
				}
			}
			if last := all[len(all)-1].Event; last == auditevent.RunComplete || last == auditevent.RunFailed {
				for id, n := range open {
					if n != 0 {
						t.Errorf("%s %s: step %s: %d more starts than ends", r.Name, name, id, n)
					}
				}
			}
		}
	}
	for event, k := range want {
		for _, key := range append(k.always, k.sometimes...) {
			if !seen[event+" "+key] {
				t.Errorf("no recording has %s with %s", event, key)
			}
		}
	}
}

// The recordings have the standard reason codes. Failed validation, which none of them has, is the code of
// invalid inputs and outputs.
//
// Spec: Agent Flow §7.5 completed, §7.5 failed-validation, §7.5 budget-exceeded, §7.5 timeout
// Spec: Agent Flow §7.5 fallback-used, §7.5 gate-approved, §7.5 gate-rejected, §7.5 skipped-condition
func TestStandardReasonCodes(t *testing.T) {
	for _, c := range []struct{ recording, event, step, code string }{
		{"linear", auditevent.StepComplete, "prepare", "COMPLETED"},
		{"budget", auditevent.RunSuspended, "", "BUDGET_EXCEEDED"},
		{"gate-timeout", auditevent.StepComplete, "sign_off", "TIMEOUT"},
		{"fallback", auditevent.StepComplete, "template", "FALLBACK_USED"},
		{"gate-approved", auditevent.StepComplete, "sign_off", "GATE_APPROVED"},
		{"gate-rejected", auditevent.GateDecision, "sign_off", "GATE_REJECTED"},
		{"skip", auditevent.StepSkipped, "b", "SKIPPED_CONDITION"},
	} {
		got, logs := "", undisturbed(t, reporttest.Recorded(t, c.recording))
		for _, one := range records(t, logs[string(reporttest.Run)+audit.Ext]) {
			if one.Event == c.event && one.StepID == c.step {
				var data struct {
					Code string `json:"reason_code"`
				}
				if err := json.Unmarshal(one.Data, &data); err != nil {
					t.Fatal(err)
				}
				got = data.Code
			}
		}
		if got != c.code {
			t.Errorf("%s: %s of %q has the code %q, want %s", c.recording, c.event, c.step, got, c.code)
		}
	}
	for _, class := range []ir.Class{ir.ClassInput, ir.ClassInvalid} {
		var ev report.Event
		ev.Outcome, ev.Class = journal.OutcomeFailed, class
		if code, _ := ev.ReasonCode(); code != "FAILED_VALIDATION" {
			t.Errorf("%s: %s", class, code)
		}
	}
}

// Waitpoints and the approval of the start are not steps: they have records of their own, but none that the
// specification has for steps.
func TestWaitpointsHaveNoStepRecords(t *testing.T) {
	r := reporttest.Recorded(t, "observed")
	step(t, r, "papers").Uncounted = true
	var got []string
	for _, one := range records(t, undisturbed(t, r)[string(reporttest.Run)+audit.Ext]) {
		if one.StepID == "papers" {
			got = append(got, one.Event)
		}
	}
	if want := []string{auditevent.WaitpointOpened, auditevent.WaitpointTimeout}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
