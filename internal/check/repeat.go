package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/stepkind"
	"github.com/espalier-run/espalier/internal/xslices"
)

// component is a set of nodes of one block that can all reach each other.
type component struct {
	nodes  []int
	cyclic bool
}

// components returns the strongly connected components of a block, successors first. follow reports whether a way
// counts.
func (f *flow) components(b ir.BlockID, follow func(n int, w *flowEdge) bool) []component {
	members := f.members[b]
	next := make([][]int, len(members)) // by local position
	for at, n := range members {
		for i := range f.nodes[n].outgoing {
			w := &f.nodes[n].outgoing[i]
			if to := f.nodes[w.to]; to.block == b && follow(n, w) {
				next[at] = append(next[at], to.local)
			}
		}
	}
	return xslices.Map(ir.Components(next), func(c ir.Component) component {
		return component{xslices.Map(c.Nodes, func(at int) int { return members[at] }), c.Cyclic}
	})
}

// set returns a function that reports whether a node belongs to a component.
func (f *flow) set(c component) func(n int) bool {
	block := f.nodes[c.nodes[0]].block
	in := make([]bool, len(f.members[block]))
	for _, n := range c.nodes {
		in[f.nodes[n].local] = true
	}
	return func(n int) bool { return f.nodes[n].block == block && in[f.nodes[n].local] }
}

// repetitions reports repetitions that never end, or that only the engine's cap ends.
func (c *checker) repetitions() {
	for b := range c.p.Blocks {
		for _, comp := range c.flow.components(ir.BlockID(b), anyEdge) {
			if comp.cyclic && c.canRun(c.flow.nodes[comp.nodes[0]].step) {
				c.checkCycle(comp)
			}
		}
	}
	c.steps(func(_ ir.BlockID, s *ir.Step) {
		if loop, ok := s.Action.(ir.Loop); ok && c.canRun(s) {
			c.loop(s, loop)
		}
	})
}

// checkCycle checks a cycle of steps.
func (c *checker) checkCycle(comp component) {
	member := c.flow.set(comp)
	leaves, limited := false, true
	var back *ir.Edge
	var from *ir.Step
	for _, n := range comp.nodes {
		at := &c.flow.nodes[n]
		leaves = leaves || at.ends || at.closes
		for i := range at.outgoing {
			w := &at.outgoing[i]
			if !member(w.to) && w.on != ir.Failed {
				leaves = true
			}
			if member(w.to) && w.to <= n && w.edge != nil && (back == nil || !w.edge.Sequential && back.Sequential) {
				back, from = w.edge, at.step
			}
		}
	}
	rest := c.flow.components(c.flow.nodes[comp.nodes[0]].block, func(n int, w *flowEdge) bool {
		return member(n) && member(w.to) && (w.edge == nil || w.edge.Limit == 0)
	})
	for _, r := range rest {
		limited = limited && (!r.cyclic || c.asksForText(r))
	}
	if limited || c.p.Unread.Steps {
		return
	}
	names := c.cycleNames(comp)
	at, help := c.flow.nodes[comp.nodes[0]].step.Span,
		"Add a condition to one of its steps, so that the cycle ends when the work is done."
	if back != nil {
		at = cmp.Or(back.Span, from.Span)
	}
	switch {
	case !leaves && c.bounded():
		c.add(CodeEndless, diag.Warning, at, help,
			"%s, and no path leaves the cycle, so every run exhausts its budget.", names)
	case !leaves:
		c.add(CodeEndless, diag.Error, at, help, "%s. No path leaves the cycle, and no budget stops it.", names)
	case !c.bounded():
		c.add(CodeOnlyCap, diag.Warning, at,
			"Give the workflow a budget of steps or tokens, or a deadline; or repeat with a loop that has a limit.",
			"%s, and the cycle has no limit: only the cap of %s visits per step stops it.", names,
			stepkind.N(ir.VisitCap))
	}
}

// asksForText reports whether a component is a conversation: a person writes a text for each round.
func (c *checker) asksForText(comp component) bool {
	return slices.ContainsFunc(comp.nodes, func(n int) bool {
		gate, ok := c.flow.nodes[n].step.Action.(ir.Gate)
		return ok && gate.Text
	})
}

// cycleNames names the steps of a cycle in a sentence, at most four.
func (c *checker) cycleNames(comp component) string {
	inside := map[*ir.Step]bool{}
	for _, n := range comp.nodes {
		inside[c.flow.nodes[n].step] = true
	}
	var names []string
	c.steps(func(_ ir.BlockID, s *ir.Step) {
		if inside[s] {
			names = append(names, fmt.Sprintf("%q", s.ID))
		}
	})
	if len(names) > 4 {
		names = append(names[:3], fmt.Sprintf("%d others", len(names)-3))
	}
	last := len(names) - 1
	if last == 0 {
		return "Step " + names[0] + " leads back to itself"
	}
	return "Steps " + strings.Join(names[:last], ", ") + " and " + names[last] + " lead back to each other"
}

// bounded reports whether the file itself limits the work of a run, or may do so in an unreadable part.
func (c *checker) bounded() bool {
	b := c.p.Budget
	return c.p.Unread.Header || b.Steps != nil || b.Tokens != nil || b.ActiveSeconds != nil || b.MicroDollars != nil
}

// loop checks a step that repeats a block.
func (c *checker) loop(s *ir.Step, loop ir.Loop) {
	if loop.Max > 0 || loop.Each != nil || c.bounded() {
		return
	}
	at := cmp.Or(loop.Span, s.Span)
	if loop.While == nil && loop.BreakWhen == nil && loop.MaxExpr == nil && !c.leavesLoop(loop.Block) {
		c.add(CodeEndless, diag.Error, at, "Give it a limit, or a condition that ends it.",
			"Step %q repeats forever: it has no limit and no condition.", s.ID)
		return
	}
	c.add(CodeOnlyCap, diag.Warning, at, "Give it a limit.",
		"Step %q has no limit: only its condition and the cap of %s visits stop it.", s.ID,
		stepkind.N(ir.VisitCap))
}

// leavesLoop reports whether a step inside a loop can leave the loop for good.
func (c *checker) leavesLoop(b ir.BlockID) bool {
	for n := range c.flow.nodes {
		at := &c.flow.nodes[n]
		if !c.flow.isInside(at.block, b) {
			continue
		}
		if at.ends || slices.ContainsFunc(at.outgoing, func(w flowEdge) bool {
			return !c.flow.isInside(c.flow.nodes[w.to].block, b)
		}) {
			return true
		}
		if at.block == b && slices.ContainsFunc(at.step.Next,
			func(e ir.Edge) bool { return e.To.Exit == ir.ExitLoop }) {
			return true
		}
	}
	return false
}
