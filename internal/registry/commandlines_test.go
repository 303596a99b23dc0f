package registry

import (
	"slices"
	"strings"
	"testing"
)

// The indentation of code is shown, but not so much that it hides the code.
func TestCommandLinesKeepIndentation(t *testing.T) {
	c := Command{Text: "for x in y:\n    print(x,   1)\n\tprint(2)\n\n" + strings.Repeat(" ", 40) + "hidden()\n"}
	want := []string{"for x in y:", "    print(x, 1)", "    print(2)", strings.Repeat(" ", 16) + "hidden()"}
	if got := c.Lines(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
