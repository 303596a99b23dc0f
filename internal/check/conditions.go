package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
)

// condition is an expression of a step and its purpose.
type condition struct {
	expr  *expr.Expr
	after bool   // evaluated after the step's work rather than before
	first bool   // evaluated before the first iteration of a loop, too
	dead  string // what can never happen if the condition never holds; "" if that is harmless
}

// conditionsOf returns all expressions of a step.
func conditionsOf(s *ir.Step) []condition {
	var list []condition
	put := func(e *expr.Expr, after bool, dead string) {
		if e != nil {
			list = append(list, condition{expr: e, after: after, dead: dead})
		}
	}
	if s.When != nil {
		put(s.When, false, fmt.Sprintf("step %q never runs", s.ID))
	}
	if s.StopWhen != nil {
		put(s.StopWhen, true, fmt.Sprintf("step %q never ends the run early", s.ID))
	}
	for i := range s.Next {
		if e := &s.Next[i]; e.When != nil {
			way := fmt.Sprintf("the edge from step %q to %q is never taken", s.ID, e.To.Step)
			if e.Label != "" {
				way = fmt.Sprintf("branch %q of step %q is never taken", e.Label, s.ID)
			}
			put(e.When, true, way)
		}
	}
	if each := s.Each(); each != nil {
		put(each.Items, false, "")
	}
	switch a := s.Action.(type) {
	case ir.Parallel:
		for i := range a.Branches {
			if a.Branches[i].When != nil {
				put(a.Branches[i].When, false, fmt.Sprintf("branch %q of step %q never runs", a.Branches[i].Name, s.ID))
			}
		}
	case ir.Loop:
		put(a.MaxExpr, false, "")
		if a.While != nil {
			put(a.While, true, fmt.Sprintf("the loop %q never iterates", s.ID))
			list[len(list)-1].first = true
		}
		if a.BreakWhen != nil {
			put(a.BreakWhen, true, fmt.Sprintf("the loop %q never ends early", s.ID))
		}
	case ir.Call:
		for i := range a.Inputs {
			put(a.Inputs[i].Value, false, "")
		}
	case ir.End:
		put(a.MessageExpr, false, "")
		if a.Check != nil {
			put(a.Check, true, fmt.Sprintf("the final check of step %q always fails", s.ID))
		}
	}
	return list
}

// conditions reports conditions that are never true.
func (c *checker) conditions() {
	c.steps(func(_ ir.BlockID, s *ir.Step) {
		for _, cond := range conditionsOf(s) {
			if cond.dead == "" || len(cond.expr.Paths()) == 0 {
				continue // constants are reported by the parser
			}
			possible, sure, why := c.domains.canHold(cond.expr)
			if possible {
				continue
			}
			severity, help := diag.Warning, "Correct the condition, or remove what it guards."
			if !sure {
				severity, help = diag.Note, "This is fine if a setting in the file turns it on and off."
			}
			c.add(CodeNeverHolds, severity, cmp.Or(cond.expr.Span, s.Span), help,
				"This condition is never true, so %s%s.", cond.dead, why)
		}
	})
}

// decisions reports decisions without a path for some value.
func (c *checker) decisions() {
	c.steps(func(_ ir.BlockID, s *ir.Step) {
		if _, ok := s.Action.(ir.Route); !ok {
			return
		}
		var arms []*expr.Expr
		for i := range s.Next {
			e := &s.Next[i]
			if !slices.Contains(e.On, ir.OK) {
				continue
			}
			if e.When == nil && e.To.Exit != ir.ExitFail {
				return
			}
			if e.When != nil {
				arms = append(arms, e.When)
			}
		}
		if len(arms) == 0 || c.p.Unread.Steps || c.domains.alwaysOne(arms) || c.answered(s, arms) {
			return
		}
		c.add(CodeNoDefault, diag.Warning, s.Span, "Add a default branch for all other values.",
			"Decision %q has no default: the run fails when no branch matches.", s.ID)
	})
}
