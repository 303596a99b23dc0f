package journal_test

import (
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/journal"
)

// People know steps by the names of the file, without what the engine and the formats add to them.
func TestKeysBecomeReadableNames(t *testing.T) {
	for _, c := range []struct{ key, id, name, place string }{
		{"draft", "draft", "draft", "draft"},
		{"draft~2", "draft", "draft", "draft"},
		{"draft:gate", "draft:gate", "draft", "draft"},
		{"draft:approve~12", "draft:approve", "draft", "draft"},
		{"each~2@1/0/review:gate~1", "review:gate", "review", "each.review[0]"},
		{"split/left/review", "review", "review", "split.review"},
		{"outer/2/inner~1/0/split/left/one", "one", "one", "outer.inner.split.one[0]"},
		{"each/1/sub/call/one", "one", "one", "each.sub[1] › one"},
		{"each/1/sub/call/again/3/one~1", "one", "one", "each.sub[1] › again.one[3]"},
		{"read/write", "write", "write", "read/write"}, // a name with a slash
		{"a~b", "a~b", "a~b", "a~b"},                   // a name of the file
		{"~1", "~1", "~1", "~1"},
		{":x", ":x", ":x", ":x"},
		{"", "", "", ""},
	} {
		if id, name, place := journal.StepID(c.key), journal.StepName(c.key), journal.PlaceName(c.key); id != c.id ||
			name != c.name || place != c.place {
			t.Errorf("%q: got %q, %q, %q", c.key, id, name, place)
		}
	}
	for _, c := range [][2]string{
		{"a/0/ok, a/1/ok~2", "a.ok[0], a.ok[1]"},
		{"split/left/ok, split/right/ok", "split/left/ok, split/right/ok"}, // they have the same name
	} {
		if got := strings.Join(journal.PlaceNames(strings.Split(c[0], ", ")), ", "); got != c[1] {
			t.Errorf("%q: got %q", c[0], got)
		}
	}
	const inside = "each/1/sub/call/a/0/b:gate~1"
	if name, id := journal.LocalName(inside), journal.LocalID(inside); name != "a.b[0]" || id != "a.b:gate[0]" {
		t.Errorf("got %q, %q", name, id)
	}
	for waiting, want := range map[string]string{
		"approval: draft:gate~1":      "approval: draft",
		"approval: a/0/ok~1 (+2)":     "approval: a.ok[0] (+2)",
		"retry: fetch~3":              "retry: fetch",
		"doubt: pay~1":                "unknown outcome: pay",
		"event: a:b~1":                "event: a:b~1", // a name of the author
		"budget: micro_dollars":       "cost budget",
		"budget: steps":               "step budget",
		"paused":                      "paused",
		"":                            "",
		"event: approval: sign_off~1": "event: approval: sign_off~1",
		"event: (+1) (+02)":           "event: (+1) (+02)",
		"for you":                     "for you", // of no kind
	} {
		what := journal.ParseWait(waiting)
		if got := what.Words(); got != want {
			t.Errorf("%q: got %q, want %q", waiting, got, want)
		}
		if got, again := what.String(), journal.ParseWait(what.Label()); got != waiting || again != what {
			t.Errorf("%q becomes %q; its label is parsed as %+v", waiting, got, again)
		}
	}
}
