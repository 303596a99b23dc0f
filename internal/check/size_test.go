package check_test

import (
	"fmt"
	"testing"

	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/check"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
)

// A program is checked as a whole or, if that would take too long, not at all: with an error, so that it cannot run.
func TestHugeProgramsAreNotChecked(t *testing.T) {
	chain := func(steps, reads int) *ir.Program {
		p := &ir.Program{Blocks: []ir.Block{{}}}
		for i := range steps {
			s := ir.Step{ID: fmt.Sprint("s", i), Action: ir.End{}}
			for j := range reads {
				s.Reads = append(s.Reads, ir.Ref{Path: fmt.Sprint("state.v", j)})
			}
			p.Blocks[0].Steps = append(p.Blocks[0].Steps, s)
		}
		return p
	}
	for _, c := range []struct {
		steps, reads int
		tooLarge     bool
	}{
		{1000, 1, false}, {10_000, 0, true}, {1000, 300, true}, {10, 10_000, false},
	} {
		list := check.Program(chain(c.steps, c.reads), catalog.Kinds())
		refused := len(list) == 1 && list[0].Severity == diag.Error && list[0].Code == check.CodeTooLarge
		if refused != c.tooLarge {
			t.Errorf("%d steps with %d reads: %d diagnostics, refused %t", c.steps, c.reads, len(list), refused)
		}
	}
}
