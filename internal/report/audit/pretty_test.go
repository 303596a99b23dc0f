package audit_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/report/audit"
)

// Budgets have the names that --raise takes, and money is in dollars.
func TestPrettyShowsBudgetNamesAndDollars(t *testing.T) {
	const file = `{"event":"budget_wait","step_id":"ask","timestamp":"2026-01-02T03:04:05.000Z","data":{"budget":"micro_dollars"}}
{"event":"budget_raised","timestamp":"2026-01-02T03:04:06.000Z","data":{"actor":"eva","budget":"micro_dollars","to":3000000}}
{"event":"budget_raised","timestamp":"2026-01-02T03:04:07.000Z","data":{"actor":"eva","budget":"tokens","to":200000}}
{"event":"budget_refused","step_id":"ask","timestamp":"2026-01-02T03:04:08.000Z","data":{"budget":"micro_dollars"}}
damaged
`
	var got bytes.Buffer
	if err := audit.Pretty(&got, strings.NewReader(file), audit.PrettyOptions{}); err != nil {
		t.Fatal(err)
	}
	const want = `03:04:05  ask  waiting for the cost budget
03:04:06  cost budget raised to $3.00 by eva
03:04:07  token budget raised to 200,000 by eva
03:04:08  ask  refused, cost budget exhausted
line 5 is damaged: `
	if !strings.HasPrefix(got.String(), want) {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
}

// A call that reached no server is not charged. One that may have been billed is charged in full.
func TestPrettyCallsWithoutAReply(t *testing.T) {
	const file = `{"event":"model_error","step_id":"ask","timestamp":"2026-01-02T03:04:05.000Z","data":{"error":"connection refused","lost_model_calls":1,"model_calls":1}}
{"event":"model_error","step_id":"ask","timestamp":"2026-01-02T03:04:06.000Z","data":{"error":"cut","lost_model_calls":1,"lost_tokens":20,"model_calls":1}}
`
	var got bytes.Buffer
	if err := audit.Pretty(&got, strings.NewReader(file), audit.PrettyOptions{}); err != nil {
		t.Fatal(err)
	}
	const want = `03:04:05  ask  model: connection refused; not charged
03:04:06  ask  model: cut; no reply arrived, so it is charged in full: 20 tokens
`
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
}

// A step that calls a workflow names the called run, tool calls have their arguments, and workers follow their step in
// the table of costs, also if the step is repeated.
func TestPrettyNamesCallsAndArguments(t *testing.T) {
	const at = `"timestamp":"2026-01-02T03:04:05.000Z","data":`
	records := []string{
		`"event":"step_start","step_id":"assess",` + at +
			`{"type":"skill","child_run_id":"c692d724-0000-4000-8000-000000000000"}`,
		`"event":"tool_call","step_id":"look",` + at + `{"tool":"orders.lookup","input_summary":{"order":"A-7"}}`,
		`"event":"tool_call","step_id":"look",` + at +
			`{"tool":"orders.lookup","input_summary":{"shortened":{"begins":"{\"order\":\"B","bytes":9000}}}`,
		`"event":"tool_call","step_id":"look",` + at + `{"tool":"orders.list","input_summary":{}}`,
		`"event":"step_complete","step_id":"look",` + at + `{"status":"completed"}`,
		`"event":"step_complete","step_id":"review.policy",` + at + `{"status":"completed","model_calls":1}`,
		`"event":"step_complete","step_id":"review.tone",` + at + `{"status":"completed","model_calls":2}`,
		`"event":"step_complete","step_id":"review",` + at + `{"status":"completed","model_calls":3}`,
		`"event":"step_complete","step_id":"review.policy",` + at + `{"status":"completed","model_calls":4}`,
		`"event":"step_complete","step_id":"review",` + at + `{"status":"completed","model_calls":4}`,
		`"event":"step_complete","step_id":"open.inner",` + at + `{"status":"completed","model_calls":5}`,
	}
	file := "{" + strings.Join(records, "}\n{") + "}\n"
	var got bytes.Buffer
	if err := audit.Pretty(&got, strings.NewReader(file), audit.PrettyOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"assess  skill started, called run c692d724 (espalier audit c692d724)\n",
		"look  tool orders.lookup {\"order\":\"A-7\"}\n", "look  tool orders.lookup {\"order\":\"B…\n",
		"look  tool orders.list\n",
	} {
		if !strings.Contains(got.String(), want) {
			t.Errorf("no %q in\n%s", want, got.String())
		}
	}
	_, table, _ := strings.Cut(got.String(), "\n\n")
	var rows []string
	for line := range strings.Lines(table) {
		name, _, _ := strings.Cut(strings.TrimLeft(line, " "), " ")
		rows = append(rows, line[2:strings.Index(line, name)]+name)
	}
	want := []string{
		"step", "look", "review", "  review.policy", "  review.tone", "review", "  review.policy", "open.inner", "the",
	}
	if !slices.Equal(rows, want) {
		t.Errorf("rows %q, want %q", rows, want)
	}
}
