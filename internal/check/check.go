package check

import (
	"cmp"
	"fmt"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// Program checks a program. Formats make only valid programs (see irtest.Sound); of others, Program checks as much as
// it can. It looks at child workflows only where they are called, because they are checked when they are compiled.
func Program(p *ir.Program, kinds stepkind.Set) diag.List {
	if d := tooLarge(p); d != nil {
		return diag.List{*d}
	}
	c := &checker{p: p, kinds: kinds, flow: newFlow(p), domains: newDomains(p)}
	c.tasks()
	c.fallbackCycles()
	c.reachability()
	c.data()
	c.conditions()
	c.decisions()
	c.replyUses()
	c.neverNull()
	c.repetitions()
	c.agents()
	c.tools()
	c.structure()
	c.header()
	c.budgets()
	return c.list
}

// maxWork bounds the checks that relate every read and write of a program to every step. It admits more than 4,000
// steps that each read and write one variable.
const maxWork = 50_000_000

// tooLarge returns a diagnostic for a program whose checks would take longer than a second or two; nil for all others.
func tooLarge(p *ir.Program) *diag.Diagnostic {
	steps, uses := 0, 0
	for s := range p.Steps() {
		steps++
		uses += 1 + len(s.Reads) + len(s.Writes)
	}
	if steps*uses <= maxWork {
		return nil
	}
	return &diag.Diagnostic{
		Code: CodeTooLarge, Severity: diag.Error, Span: p.Span,
		Message: fmt.Sprintf("The workflow is too large to check: it has %d steps with %d reads and writes.", steps,
			uses-steps),
		Help: "Divide it into several workflows that one workflow calls.",
	}
}

// checker is the state of Program. The order of its checks matters: tasks collects what later checks use, and budgets
// computes figures only if there was no error.
type checker struct {
	p       *ir.Program
	kinds   stepkind.Set
	flow    *flow
	domains *domains
	found   []usedTask // all tasks of the program
	replies map[*ir.Step]*contract.Contract
	reached []bool // by node: reports whether some path leads to it
	list    diag.List
}

// usedTask is a task, its step and the names it uses.
type usedTask struct {
	block ir.BlockID
	step  *ir.Step
	task  *ir.Task
	uses  stepkind.Uses
}

// add adds a diagnostic, at the program if the place is not known.
func (c *checker) add(
	code diag.Code, severity diag.Severity, at source.Span, help, format string, args ...any,
) *diag.Diagnostic {
	return c.list.Reportf(code, severity, cmp.Or(at, c.p.Span), help, format, args...)
}

// missing is add for diagnostics about an undefined name. It returns nil if an unreadable part of the file may define
// that name.
func (c *checker) missing(
	name string, code diag.Code, severity diag.Severity, at source.Span, help, format string, args ...any,
) *diag.Diagnostic {
	names := []string{name}
	if rootOf(name) == outputRoot {
		names = append(names, outputRoot) // a step may write the whole output
	}
	if c.p.Unread.Explains(severity, names...) {
		return nil
	}
	return c.add(code, severity, at, help, format, args...)
}

// steps calls do for every step of the program.
func (c *checker) steps(do func(b ir.BlockID, s *ir.Step)) {
	for b := range c.p.Blocks {
		for i := range c.p.Blocks[b].Steps {
			do(ir.BlockID(b), &c.p.Blocks[b].Steps[i])
		}
	}
}

// tasks lets each step kind check the settings of its tasks.
func (c *checker) tasks() {
	c.found = make([]usedTask, 0, len(c.flow.nodes))
	c.replies = make(map[*ir.Step]*contract.Contract, len(c.flow.nodes))
	c.steps(func(b ir.BlockID, s *ir.Step) {
		t := s.Task()
		if t == nil || c.kinds[t.Kind] == nil {
			return // the format reports an unknown kind
		}
		kind := c.kinds[t.Kind]
		c.list = append(c.list, kind.Check(c.p, s, t)...)
		c.replies[s] = stepkind.ContractOf(kind, c.p, s, t)
		uses := kind.Uses(t)
		c.found = append(c.found, usedTask{block: b, step: s, task: t, uses: uses})
		for i := range uses.Schemas {
			c.schema(&uses.Schemas[i], decoded(uses.Schemas[i].Schema), fmt.Sprintf("the reply of step %q", s.ID))
		}
	})
}
