package journal_test

import (
	"testing"

	"github.com/espalier-run/espalier/internal/journal"
)

// People know steps by the names of the file, without what the engine and the formats add to them.
func TestNamesForPeople(t *testing.T) {
	for _, c := range []struct{ key, id, name, place string }{
		{"draft", "draft", "draft", "draft"},
		{"draft~2", "draft", "draft", "draft"},
		{"draft:gate", "draft:gate", "draft", "draft"},
		{"draft:approve~12", "draft:approve", "draft", "draft"},
		{"each~2@1/0/review:gate~1", "review:gate", "review", "each/0/review"},
		{"a~b", "a~b", "a~b", "a~b"}, // a name of the file
		{"~1", "~1", "~1", "~1"},
		{":x", ":x", ":x", ":x"},
		{"", "", "", ""},
	} {
		if id, name, place := journal.StepID(c.key), journal.StepName(c.key), journal.PlaceName(c.key); id != c.id ||
			name != c.name || place != c.place {
			t.Errorf("%q: got %q, %q, %q", c.key, id, name, place)
		}
	}
	for waiting, want := range map[string]string{
		"approval: draft:gate~1":      "approval: draft",
		"approval: a/0/ok~1 (+2)":     "approval: a/0/ok (+2)",
		"retry: fetch~3":              "retry: fetch",
		"doubt: pay~1":                "unknown outcome: pay",
		"event: a:b~1":                "event: a:b~1", // a name of the author
		"budget: micro_dollars":       "cost budget",
		"budget: steps":               "step budget",
		"paused":                      "paused",
		"":                            "",
		"event: approval: sign_off~1": "event: approval: sign_off~1",
	} {
		if got := (journal.Index{Waiting: waiting}).WaitingWords(); got != want {
			t.Errorf("%q: got %q, want %q", waiting, got, want)
		}
	}
}
