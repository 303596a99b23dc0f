package report

import (
	"cmp"
	"strconv"

	"github.com/espalier-run/espalier/internal/ir"
)

// Outline finds the steps of a program and of its children by the names that
// events use. It is immutable, so that all runs of a definition share one.
type Outline struct {
	units map[string]*unit // "" is the program itself, "0.1" child 1 of child 0
}

// unit is one program of an outline: for each block, its steps by their names.
type unit struct {
	program *ir.Program
	blocks  []map[string]*StepInfo
}

// StepInfo is a step as its author wrote it.
type StepInfo struct {
	Step    *ir.Step
	Program *ir.Program
	Kind    string // as records name it
	Agent   string // that executes or judges the step; empty if there is none
}

// NewOutline indexes a program.
func NewOutline(p *ir.Program) *Outline {
	o := &Outline{units: map[string]*unit{}}
	o.add(p, "")
	return o
}

// add adds a program at a path, and the programs that it calls below it.
func (o *Outline) add(p *ir.Program, path string) {
	u := &unit{program: p, blocks: make([]map[string]*StepInfo, len(p.Blocks))}
	for b := range p.Blocks {
		steps := p.Blocks[b].Steps
		infos := make([]StepInfo, len(steps))
		u.blocks[b] = make(map[string]*StepInfo, len(steps))
		for i := range steps {
			infos[i] = StepInfo{Step: &steps[i], Program: p, Kind: kindOf(&steps[i]), Agent: agentOf(&steps[i])}
			u.blocks[b][steps[i].ID] = &infos[i]
		}
	}
	o.units[path] = u
	for i := range p.Children {
		child := strconv.Itoa(i)
		if path != "" {
			child = path + "." + child
		}
		o.add(&p.Children[i], child)
	}
}

// step returns a step, or nil if the program has none of that name.
func (u *unit) step(block int, id string) *StepInfo {
	if u == nil || block < 0 || block >= len(u.blocks) {
		return nil
	}
	return u.blocks[block][id]
}

// Kinds of steps that the transcript's specification names.
const (
	KindWorkflow  = "workflow"
	KindAgent     = "agent"
	KindCommand   = "command"
	KindOperation = "operation"
	KindTerminal  = "terminal"
	KindParallel  = "parallel"
	KindForEach   = "for_each"
	KindWhile     = "while"
	KindCall      = "call_workflow"
)

// kindOf returns the kind of a step in records: the specification's name if it
// has one, otherwise the type in the step's own format.
func kindOf(s *ir.Step) string {
	switch a := s.Action.(type) {
	case ir.Task:
		if name := a.Describe().Record; name != "" || s.Type == "" {
			return cmp.Or(name, a.Kind)
		}
	case ir.Parallel:
		return KindParallel
	case ir.Loop:
		if a.Each != nil {
			return KindForEach
		}
		return KindWhile
	case ir.Call:
		return KindCall
	case ir.End:
		return KindTerminal
	}
	if s.Type == "" {
		return ir.ActionName(s.Action)
	}
	return s.Type
}

// agentOf returns the agent of a step's task, or "".
func agentOf(s *ir.Step) string {
	if t := s.Task(); t != nil {
		return t.Describe().Agent
	}
	return ""
}
