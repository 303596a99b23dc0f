package check

import (
	"fmt"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
)

// names reports names that are given twice: jumps and settings could mean
// either.
func (c *checker) names() {
	for b := range c.p.Blocks {
		taken := map[string]source.Span{}
		for i := range c.p.Blocks[b].Steps {
			s := &c.p.Blocks[b].Steps[i]
			c.once(taken, "step", s.ID, s.Span)
			if par, ok := s.Action.(ir.Parallel); ok {
				branches := map[string]source.Span{}
				for j := range par.Branches {
					c.once(branches, "branch", par.Branches[j].Name, par.Branches[j].Span)
				}
			}
		}
	}
	taken := map[string]source.Span{}
	for i := range c.p.Agents {
		c.once(taken, "agent", c.p.Agents[i].ID, c.p.Agents[i].Span)
	}
}

func (c *checker) once(taken map[string]source.Span, what, name string, at source.Span) {
	first, ok := taken[name]
	if !ok {
		taken[name] = at
		return
	}
	c.add(CodeDuplicate, diag.Error, at,
		fmt.Sprintf("There is already %s %q.", article(what), name),
		"Give this one another name, and use that where it is meant.",
		diag.Related{Span: first, Message: "first defined here"})
}

func article(what string) string {
	if what == "agent" {
		return "an agent"
	}
	return "a " + what
}

// targets reports edges and fallbacks that lead to no step.
func (c *checker) targets() {
	c.steps(func(b ir.BlockID, s *ir.Step) {
		for i := range s.Next {
			e := &s.Next[i]
			if e.To.Exit != "" {
				continue
			}
			if to, _ := c.flow.find(b, e.To.Step); to == noStep {
				c.noTarget(b, s, e.To.Step, spanOr(e.Span, s.Span), "goes on to")
			}
		}
		if s.Fallback == nil {
			return
		}
		to, leaps := c.flow.find(b, s.Fallback.Name)
		if to == noStep || leaps {
			c.noTarget(b, s, s.Fallback.Name, spanOr(s.Fallback.Span, s.Span), "falls back to")
		}
	})
}

func (c *checker) noTarget(b ir.BlockID, s *ir.Step, name string, at source.Span, how string) {
	var there []string
	for {
		for i := range c.p.Blocks[b].Steps {
			if other := &c.p.Blocks[b].Steps[i]; other != s {
				there = append(there, other.ID)
			}
		}
		if up := c.flow.inside[b]; up.step != nil && up.loop {
			b = up.block
			continue
		}
		break
	}
	c.add(CodeNoTarget, diag.Error, at,
		fmt.Sprintf("There is no step %q, which step %q %s.", name, s.ID, how), diag.DidYouMean(name, there))
}

func spanOr(a, b source.Span) source.Span {
	if a.IsZero() {
		return b
	}
	return a
}

// fallbackCycles reports steps that stand in for each other in a circle.
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
		message := fmt.Sprintf("Step %q and its fallbacks stand in for each other in a circle.", s.ID)
		if len(chain) == 1 {
			message = fmt.Sprintf("Step %q falls back to itself.", s.ID)
		}
		c.add(CodeFallbackCycle, diag.Error, spanOr(s.Fallback.Span, s.Span), message,
			"Let the last step of the chain have no fallback; to try the same step again, use retry.")
	})
}

// reachability reports steps that nothing leads to; of a row of them only the
// first, since mending it mends the others.
func (c *checker) reachability() {
	c.reached = c.flow.walk(c.flow.entry(), anyWay)
	explained := make([]bool, len(c.flow.nodes))
	for n := range c.flow.nodes {
		at := &c.flow.nodes[n]
		if at.stands >= 0 || explained[n] || c.enters(at.step) {
			continue
		}
		if up := c.flow.inside[at.block]; at.block != ir.Body && (up.step == nil || !c.enters(up.step)) {
			continue // its whole block does not run, which is said once
		}
		more := 0
		for m, after := range c.flow.walk([]int{n}, anyWay) {
			other := &c.flow.nodes[m]
			if after && m != n && !explained[m] && !c.enters(other.step) {
				explained[m] = true
				if other.stands < 0 {
					more++
				}
			}
		}
		message := fmt.Sprintf("Step %q can never run: no other step leads to it.", at.step.ID)
		if more > 0 {
			message = fmt.Sprintf("Step %q can never run: no other step leads to it, nor to %s after it.", at.step.ID, count(more, "step"))
		}
		c.add(CodeUnreachable, diag.Warning, at.step.Span, message,
			"Lead to it from another step (a goto, a branch, a fallback), or remove it.")
	}
}

// enters reports whether a step can run at all, as itself or as a stand-in.
func (c *checker) enters(s *ir.Step) bool {
	for _, n := range c.flow.nodesOf[s] {
		if c.reached[n] {
			return true
		}
	}
	return false
}

func count(n int, what string) string {
	if n == 1 {
		return "the " + what
	}
	return fmt.Sprintf("the %d %ss", n, what)
}
