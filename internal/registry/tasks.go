package registry

import (
	"iter"

	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// task is a task of a program, or of one that it calls.
type task struct {
	*ir.Task
	program *ir.Program
	step    *ir.Step
	kind    stepkind.Kind
	place   string // of the step in its program
	prefix  string // of place: the names of the called programs
	money   bool   // a budget of money applies to the program
}

// tasks returns the tasks of a program and of those that it calls, which kinds run.
func tasks(p *ir.Program) iter.Seq[task] {
	return func(yield func(task) bool) { visitTasks(task{program: p}, yield) }
}

// visitTasks visits the tasks of in.program, and then those of the programs that it calls. It returns false if yield
// has ended the visit. A program that is called in several ways is several children.
func visitTasks(in task, yield func(task) bool) bool {
	p, kinds, places := in.program, catalog.Kinds(), in.program.Places()
	in.money = in.money || p.Budget.MicroDollars != nil
	for in.step = range p.Steps() {
		if in.Task = in.step.Task(); in.Task == nil || kinds[in.Kind] == nil {
			continue
		}
		in.kind, in.place = kinds[in.Kind], places[in.step]
		if !yield(in) {
			return false
		}
	}
	for i := range p.Children {
		child := task{program: &p.Children[i], prefix: in.prefix + p.Children[i].Name + ".", money: in.money}
		if !visitTasks(child, yield) {
			return false
		}
	}
	return true
}
