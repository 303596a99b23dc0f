package check

import (
	"fmt"
	"slices"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/diag"
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
			c.add(CodeConflictingUses, diag.Warning, spanOr(one.Span, used.step.Span),
				fmt.Sprintf("%s is used as %s here and as %s elsewhere, so step %q cannot be told what to reply.",
					one.Path, article(one.Second), article(one.First), used.step.ID),
				"Use the value in one way, or let the step write two values.",
				diag.Related{
					Span:    spanOr(one.Related, used.step.Span),
					Message: fmt.Sprintf("used as %s here", article(one.First)),
				})
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
		c.add(CodeNeverReplied, diag.Warning, one.Span,
			fmt.Sprintf("%s is never %s: the reply that it comes from is %s.", one.Path, one.Compared, one.Allowed),
			"Correct the comparison, or what is declared about the reply.")
	}
}

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
