package console

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/journal"
)

// The line of a notice is the same in the terminal of a client as in that of the server.
func TestNoticesKeepEverythingBetweenProcesses(t *testing.T) {
	steps := int64(3)
	n := Notice{
		Seq: 1, At: Time{time.UnixMilli(1_772_000_000_000).UTC()}, Event: "budget", Budget: "cost",
		color: "35", For: journal.AskBudget, place: "a", root: "r", limits: journal.Limits{Steps: &steps}, needs: 5,
		left: 7, printed: "p", next: "n", quiet: true, repeats: true, markedFailed: true,
	}
	for i, v := 0, reflect.ValueOf(n); i < v.NumField(); i++ {
		if f := v.Type().Field(i); !f.IsExported() && v.Field(i).IsZero() {
			t.Errorf("the test does not set %s", f.Name)
		}
	}
	raw, err := Encode(&n)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(*got, n) {
		t.Errorf("got  %+v\nwant %+v", *got, n)
	}
}

// A server before there were kinds of asks sends only what its JSON output has.
func TestNoticesOfOlderServersKeepWhatTheWaitIsFor(t *testing.T) {
	for text, want := range map[string]journal.AskKind{
		"approval": journal.AskApproval, "event": journal.AskEvent, "decision": journal.AskOutcome,
		"budget": journal.AskBudget, "": "",
	} {
		n, err := Decode([]byte(`{"event":"wait.started","for":"` + text + `"}`))
		if err != nil || n.For != want {
			t.Errorf("%q: %q, %v", text, n.For, err)
		}
	}
}

// A client of version 0.2 reads only what the JSON output had then.
func TestNoticesForOlderClientsHaveTheirNamesOfWaits(t *testing.T) {
	for kind, want := range map[journal.AskKind]string{
		journal.AskApproval: "approval", journal.AskToolApproval: "approval", journal.AskEvent: "event",
		journal.AskInput: "event", journal.AskOutcome: "decision", journal.AskBudget: "budget", "": "",
	} {
		raw, err := Encode(&Notice{For: kind})
		if err != nil {
			t.Fatal(err)
		}
		var sent struct {
			For string `json:"for"`
		}
		if err := json.Unmarshal(raw, &sent); err != nil || sent.For != want {
			t.Errorf("%q is sent as %q, %v", kind, sent.For, err)
		}
		if n, err := Decode(raw); err != nil || n.For != kind {
			t.Errorf("%q is read as %q, %v", kind, n.For, err)
		}
	}
}
