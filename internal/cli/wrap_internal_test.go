package cli

import "testing"

func TestWrapTextKeepsCommandsAndQuotesWhole(t *testing.T) {
	for _, c := range []struct {
		name, text, want string
		columns          int
	}{
		{"not on a terminal", "one two three four", "one two three four", 0},
		{"fits", "one two", "one two", 7},
		{"words", "one two three four", "one two\nthree four", 10},
		{
			"quotes", `Review them; then run "espalier trust" or stop.`,
			"Review them; then run\n\"espalier trust\" or stop.", 30,
		},
		{
			"command", "espalier: run ab is waiting.\nTo continue with more: espalier resume ab --raise tokens=200000",
			"espalier: run ab is waiting.\nTo continue with more:\n  espalier resume ab --raise tokens=200000", 45,
		},
		{
			"two commands", "To decide: espalier approve cd24ce57   or   espalier reject cd24ce57",
			"To decide:\n  espalier approve cd24ce57\n  or\n  espalier reject cd24ce57", 40,
		},
		{"command of a line that fits", "To continue: espalier resume ab", "To continue: espalier resume ab", 40},
		{"indented", "Add:\n  a long line of a file", "Add:\n  a long line of a file", 10},
		{"path", "see /a/very/long/path/of/a/file now", "see\n/a/very/long/path/of/a/file\nnow", 10},
		{"prompt", "Pattern (one, two, three) [one]: ", "Pattern (one,\ntwo, three)\n[one]: ", 14},
		{"open quote", `the "one two three`, "the \"one\ntwo three", 10},
	} {
		if got := wrapText(c.text, c.columns); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
