package check

import (
	"slices"

	"github.com/espalier-run/espalier/internal/ir"
)

// From returns the part of a program that can still run when it continues with a step of its body. That step is the
// first one. Steps that can no longer follow, and the blocks and children that only they run, are empty. Without such a
// step, it returns the program.
func From(p *ir.Program, step string) *ir.Program {
	if len(p.Blocks) == 0 || p.Step(ir.Body, step) == nil {
		return p
	}
	f := newFlow(p)
	kept := map[*ir.Step]bool{}
	first := f.named[ir.Body][step]
	todo := []int{first}
	if n, ok := f.named[ir.Body][p.OnCancel]; ok {
		todo = append(todo, n)
	}
	f.mark(todo, func(n int, push func(int)) {
		if f.nodes[n].block != ir.Body {
			return
		}
		kept[f.nodes[n].step] = true
		for _, w := range f.nodes[n].outgoing {
			push(w.to)
		}
	})

	out := *p
	out.Blocks, out.Children = slices.Clone(p.Blocks), slices.Clone(p.Children)
	body := []ir.Step{*f.nodes[first].step}
	for i := range p.Blocks[ir.Body].Steps {
		if s := &p.Blocks[ir.Body].Steps[i]; kept[s] && s != f.nodes[first].step {
			body = append(body, *s)
		}
	}
	out.Blocks[ir.Body].Steps = body
	for b := range out.Blocks {
		if ir.BlockID(b) != ir.Body && !kept[f.outerStep(ir.BlockID(b), ir.Body)] {
			out.Blocks[b].Steps = nil
		}
	}
	called := map[int]bool{}
	for s := range out.Steps() {
		if call, ok := s.Action.(ir.Call); ok {
			called[call.Child] = true
		}
	}
	for i := range out.Children {
		if !called[i] {
			out.Children[i] = ir.Program{Name: p.Children[i].Name, Blocks: make([]ir.Block, 1)}
		}
	}
	return &out
}
