package plan

import (
	"testing"

	"github.com/espalier-run/espalier/internal/journal"
)

// A list that nothing was appended to is an empty list, never null.
func TestAppendToNothingIsAList(t *testing.T) {
	for _, c := range []struct{ before, more, want string }{
		{"", "[]", "[]"},
		{"[]", "[]", "[]"},
		{"null", "[]", "[]"},
		{"[1]", "[]", "[1]"},
		{"[1]", "[2]", "[1,2]"},
		{"[]", "null", "[]"},
		{`"a"`, `"b"`, `["a","b"]`},
	} {
		got := appended(journal.Value{JSON: []byte(c.before)}, journal.Value{JSON: []byte(c.more)})
		if string(got.JSON) != c.want {
			t.Errorf("%s and %s: got %s, want %s", c.before, c.more, got.JSON, c.want)
		}
	}
}
