package audit_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/report/audit"
)

// Budgets have the names that --raise takes, and money is in dollars.
func TestPrettyBudgets(t *testing.T) {
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
