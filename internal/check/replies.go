package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
)

// replyUses reports uses of a model's reply that contradict each other, and comparisons that no reply can make true.
func (c *checker) replyUses() {
	type place struct{ path, text string }
	possible := map[place]bool{} // uses of another step's reply
	found := map[place]contract.Comparison{}
	var order []place
	for _, used := range c.found {
		reply := c.replies[used.step]
		if reply == nil {
			continue
		}
		for _, one := range reply.Conflicts {
			c.add(CodeConflictingUses, diag.Warning, cmp.Or(one.Span, used.step.Span),
				"Use the value in one way, or let the step write two values.",
				"%s is used as %s here and as %s elsewhere, so no reply of step %q can satisfy both uses.", one.Path,
				article(one.Second), article(one.First), used.step.ID).
				Relate(cmp.Or(one.Related, used.step.Span), fmt.Sprintf("used as %s here", article(one.First)))
		}
		for _, one := range reply.NeverTrue {
			at := place{fmt.Sprint(one.Span), one.Path + one.Compared}
			if _, known := found[at]; !known {
				found[at] = one
				order = append(order, at)
			}
		}
		for _, at := range reply.Possible {
			possible[place{fmt.Sprint(at.Span), at.Path + at.Compared}] = true
		}
	}
	order = slices.DeleteFunc(order, func(at place) bool { return possible[at] })
	for _, at := range order {
		one := found[at]
		help := "Correct the comparison, or the declaration of the reply."
		if one.Meant != "" {
			help = fmt.Sprintf("Use %s instead.", one.Meant)
		}
		c.add(CodeNeverReplied, diag.Warning, one.Span, help,
			"%s is never %s: the reply that it comes from is %s.", one.Path, one.Compared, one.Allowed)
	}
}

// answered reports whether every reply that the value of a decision can come from has a branch.
func (c *checker) answered(s *ir.Step, arms []*expr.Expr) bool {
	path := ""
	for _, arm := range arms {
		for _, p := range arm.Paths() {
			name := strings.Join(p.Segments, ".")
			if path != "" && path != name {
				return false
			}
			path = name
		}
	}
	return c.replied(s, path, func(reply *contract.Contract, at []string) bool {
		values := reply.Values(at)
		return len(values) > 0 && !slices.ContainsFunc(values, func(v any) bool {
			return !slices.ContainsFunc(arms, func(arm *expr.Expr) bool {
				ok, err := arm.Bool(known{path: v})
				return ok && err == nil
			})
		})
	})
}

// neverNull reports comparisons with null of values that replies always have.
func (c *checker) neverNull() {
	c.steps(func(_ ir.BlockID, s *ir.Step) {
		for _, cond := range conditionsOf(s) {
			for _, u := range cond.expr.Uses() {
				path := strings.Join(u.Path.Segments, ".")
				if u.Null && !u.Negated && c.replied(s, path, (*contract.Contract).NeverNull) {
					c.add(CodeNeverReplied, diag.Warning, cmp.Or(u.Path.Span, cond.expr.Span),
						"Correct the comparison, or the declaration of the reply.",
						"%s is never equal to null: the reply that it comes from always has a value.", path)
				}
			}
		}
	})
}

// replied reports whether a variable is part of a reply whenever a run comes to a step, and all such replies satisfy a
// condition. at is the place of the variable in the reply.
func (c *checker) replied(s *ir.Step, path string, satisfies func(reply *contract.Contract, at []string) bool) bool {
	w := c.written()
	writers := w.of(path)
	if path == "" || len(writers) == 0 || w.declared(path) || c.reachableWithout(s, writers) {
		return false
	}
	for _, from := range writers {
		reply := c.replies[from]
		if reply == nil {
			return false
		}
		for i := range from.Writes {
			write := &from.Writes[i]
			if !ir.Overlap(write.Path, path) {
				continue
			}
			rest, ok := strings.CutPrefix(path+".", write.Path+".")
			if !ok || write.Reducer != "" && write.Reducer != ir.Set || len(reply.Within) > 0 {
				return false
			}
			at := strings.FieldsFunc(write.Part+"."+rest, func(r rune) bool { return r == '.' })
			if !satisfies(reply, at) {
				return false
			}
		}
	}
	return true
}

// article returns a JSON type with its article, for messages.
func article(kind string) string {
	switch kind {
	case "boolean":
		return "a boolean"
	case "string":
		return "a string"
	case "array":
		return "a list"
	case "object":
		return "an object"
	}
	return "a " + kind
}
