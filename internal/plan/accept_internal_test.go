package plan

import (
	"encoding/json"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
)

// Conditions and contracts find the keys of ir in what a gate writes.
func TestGateWritesTheKeysOfTheIR(t *testing.T) {
	v := gateValue(ir.GateApproved, journal.MethodCritic, journal.Actor{}, "", 0, json.RawMessage(`{"score":1}`))
	var got map[string]json.RawMessage
	if err := json.Unmarshal(v.JSON, &got); err != nil {
		t.Fatal(err)
	}
	if string(got[ir.GateResultKey]) != `"approved"` || string(got[ir.GateReviewKey]) != `{"score":1}` {
		t.Errorf("%s", v.JSON)
	}
}
