package registry

import (
	"context"
	"slices"

	"github.com/espalier-run/espalier/internal/cpython"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/stepkind"
	"github.com/espalier-run/espalier/internal/stepkind/kinds"
)

// PreparePython starts to load the interpreter of node code in the background if a program has such
// code. It reports whether that takes noticeable time, because it is the first use on the machine.
func PreparePython(p *ir.Program) (firstUse bool) {
	isNode := func(t task) bool {
		return t.Kind == nodeKind && !stepkind.Lenient[kinds.NodeSettings](t.Task).Python
	}
	if !slices.ContainsFunc(slices.Collect(tasks(p)), isNode) {
		return false
	}
	firstUse = !cpython.IsCached()
	go func() { _ = cpython.Prepare(context.Background()) }() // a failure is reported by the step
	return firstUse
}
