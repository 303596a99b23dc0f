package registry

import (
	"context"

	"github.com/espalier-run/espalier/internal/cpython"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/step/node"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// PreparePython starts to load the interpreter of node code in the background if a program has such
// code. It reports whether that takes noticeable time, because it is the first use on the machine.
func PreparePython(p *ir.Program) (firstUse bool) {
	if !runsPython(p) {
		return false
	}
	firstUse = !cpython.IsCached()
	go func() { _ = cpython.Prepare(context.Background()) }() // a failure is reported by the step
	return firstUse
}

func runsPython(p *ir.Program) bool {
	for one := range p.All() {
		for s := range one.Steps() {
			t := s.Task()
			if t != nil && t.Kind == (node.Kind{}).Name() && !stepkind.Lenient[node.Settings](t).Python {
				return true
			}
		}
	}
	return false
}
