package console_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/report/console"
)

// A command that does not fit behind its text on a terminal has a line of its own; elsewhere, a notice is one line.
func TestLinesKeepCommandsWhole(t *testing.T) {
	r := recorded(t, "waiting")
	for columns, want := range map[int]string{
		0:   "sign_off  waiting for approval: espalier approve 11111111 sign_off\n",
		100: "sign_off  waiting for approval: espalier approve 11111111 sign_off\n",
		60:  "sign_off  waiting for approval:\n  espalier approve 11111111 sign_off\n",
	} {
		o := r.options()
		if columns > 0 {
			o.Columns = func() int { return columns }
		}
		var out bytes.Buffer
		feed(t, console.NewLines(&out, o), r.Appends)
		if !strings.Contains(out.String(), want) {
			t.Errorf("%d columns: %s", columns, out.String())
		}
	}
}
