package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
)

// fallbackCycles reports fallbacks that form a cycle.
func (c *checker) fallbackCycles() {
	reported := map[*ir.Step]bool{}
	c.steps(func(b ir.BlockID, s *ir.Step) {
		var chain []*ir.Step
		at := s
		for at != nil && at.Fallback != nil && len(chain) <= len(c.p.Blocks[b].Steps) {
			chain = append(chain, at)
			at = c.p.Step(b, at.Fallback.Name)
			if at == s {
				break
			}
		}
		if at != s || len(chain) == 0 || reported[s] {
			return
		}
		for _, one := range chain {
			reported[one] = true
		}
		message := fmt.Sprintf("Step %q and its fallbacks form a cycle.", s.ID)
		if len(chain) == 1 {
			message = fmt.Sprintf("Step %q falls back to itself.", s.ID)
		}
		c.add(CodeFallbackCycle, diag.Error, cmp.Or(s.Fallback.Span, s.Span),
			"Let the last step of the chain have no fallback; to try the same step again, use retry.", "%s", message)
	})
}

// reachability reports unreachable steps; of several in a row only the first, because fixing it fixes the others.
func (c *checker) reachability() {
	c.reached = c.flow.walk(c.flow.entry(), anyEdge)
	explained := make([]bool, len(c.flow.nodes))
	for n := range c.flow.nodes {
		at := &c.flow.nodes[n]
		if at.fallbackOf >= 0 || explained[n] || c.canRun(at.step) || c.p.Unread.Steps {
			continue
		}
		if up := c.flow.inside[at.block]; at.block != ir.Body && (up.step == nil || !c.canRun(up.step)) {
			continue // its whole block never runs, which is reported once
		}
		more := 0
		for m, after := range c.flow.walk([]int{n}, anyEdge) {
			other := &c.flow.nodes[m]
			if after && m != n && !explained[m] && !c.canRun(other.step) {
				explained[m] = true
				if other.fallbackOf < 0 {
					more++
				}
			}
		}
		message := fmt.Sprintf("Step %q can never run: no other step leads to it.", at.step.ID)
		if more > 0 {
			message = fmt.Sprintf("Step %q can never run: no other step leads to it or to %s after it.", at.step.ID,
				count(more, "step"))
		}
		c.missing(at.step.ID, CodeUnreachable, diag.Warning, at.step.Span,
			"Lead to it from another step (a goto, a branch, a fallback), or remove it.", "%s", message)
	}
}

// canRun reports whether a step can run at all, by itself or as a fallback.
func (c *checker) canRun(s *ir.Step) bool {
	return slices.ContainsFunc(c.flow.nodesOf[s], func(n int) bool { return c.reached[n] })
}

// count returns a number of steps with its noun, for messages.
func count(n int, what string) string {
	if n == 1 {
		return "the " + what
	}
	return fmt.Sprintf("the %d %ss", n, what)
}
