package explain

import (
	"strings"
	"testing"
)

func TestEveryPageParses(t *testing.T) {
	for _, code := range Codes() {
		raw, err := pages.ReadFile("pages/" + code + ".txtar")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parse(code, raw); err != nil {
			t.Error(err)
		}
	}
}

func TestLookupIgnoresCase(t *testing.T) {
	page, ok := Lookup("fmt001")
	if !ok || page.Code != "FMT001" || page.Title == "" {
		t.Errorf("got %+v, %v", page, ok)
	}
	for _, code := range []string{"", "NOPE001", "../explain", "FMT001.txtar"} {
		if _, ok := Lookup(code); ok {
			t.Errorf("%q has a page", code)
		}
	}
}

func TestIncompletePagesAreRejected(t *testing.T) {
	for name, c := range map[string]struct{ page, want string }{
		"no title": {"about it\n-- bad/a --\n-- good/a --\n", "# X001: title"},
		"no text":  {"# X001: t\n-- bad/a --\n-- good/a --\n", "the page lacks"},
		"no bad":   {"# X001: t\n\ntext\n-- good/a --\n", "the page lacks"},
		"no good":  {"# X001: t\n\ntext\n-- bad/a --\n", "the page lacks"},
		"neither":  {"# X001: t\n\ntext\n-- ugly/a --\n", "ugly/a"},
	} {
		if _, err := parse("X001", []byte(c.page)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
