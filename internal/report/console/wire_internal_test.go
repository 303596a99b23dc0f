package console

import (
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
		color: "35", asks: journal.AskBudget, place: "a", root: "r", limits: journal.Limits{Steps: &steps}, needs: 5,
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
		if err != nil || n.asks != want {
			t.Errorf("%q: %q, %v", text, n.asks, err)
		}
	}
}
