package registry

import (
	"slices"
	"testing"
)

// The indentation of code is shown, but not so much that it hides the code.
func TestCommandLinesKeepIndentation(t *testing.T) {
	c := Command{Text: "for x in y:\n    print(x,   1)\n\tprint(2)\n\n" + "                                        hidden()\n"}
	want := []string{"for x in y:", "    print(x, 1)", "    print(2)", "                hidden()"}
	if got := c.Lines(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
