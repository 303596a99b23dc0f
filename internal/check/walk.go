package check

import (
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/stepkind"
	"github.com/espalier-run/espalier/internal/xslices"
)

// A step budget limits the length of a walk through the program. The most expensive walk of at most K steps is found by
// dynamic programming over the number of remaining steps. Loops and child workflows, whose steps count against the same
// budget, are part of the graph; the branches of a step are part of its cost.
//
// The walk ignores limits of edges and loops. The other estimate accounts for them, and the smaller one of the two
// applies.

// walkNode is one attempt of a step.
type walkNode struct {
	step *ir.Step
	cost vector // cost of the attempt, without steps that count against the same budget
	next []int  // what can follow after the attempt
	skip []int  // what can follow if the step is not started
	nth  int    // number of the attempt, from 1
}

// walker is the graph of all steps that count against one step budget.
type walker struct {
	nodes []walkNode
	start int
	// skips are the nodes that can be skipped, in groups of nodes that lead to each other, successors first.
	skips [][]int
	// work is steps × edges: what computing attempts for every step costs per step of the budget.
	work int64
}

// exits are the nodes that follow a block.
type exits struct{ ok, failed []int }

// newWalker returns the graph of a block and of the loops and children in it.
func (e *estimator) newWalker(b ir.BlockID) *walker {
	w := &walker{}
	w.start = e.addBlock(w, b, exits{}, map[int]int{})
	skip := xslices.Map(w.nodes, func(n walkNode) []int { return n.skip })
	for _, c := range ir.Components(skip) {
		if len(skip[c.Nodes[0]]) > 0 {
			w.skips = append(w.skips, c.Nodes)
		}
	}
	var steps, edges int64
	for i := range w.nodes {
		n := &w.nodes[i]
		edges += int64(1 + len(n.next) + len(n.skip))
		if n.nth == 1 {
			steps++
		}
	}
	w.work = steps * edges
	return w
}

// addBlock adds the nodes of a block and returns the first. at maps the nodes of enclosing blocks of the same program
// to their first attempts.
func (e *estimator) addBlock(w *walker, b ir.BlockID, out exits, at map[int]int) int {
	if first, ok := at[e.flow.start[b]]; ok { // a block that contains itself; no format produces one
		return first
	}
	for _, n := range e.flow.members[b] {
		s := e.flow.nodes[n].step
		at[n] = len(w.nodes)
		cost := e.step(s).own
		if par, ok := s.Action.(ir.Parallel); ok {
			cost = cost.plus(e.parallel(s, par))
		}
		cost[steps] = stepkind.N(1)
		for i := range min(s.Attempts(), maxWalk) {
			w.nodes = append(w.nodes, walkNode{step: s, cost: cost, nth: i + 1})
		}
	}
	for _, n := range e.flow.members[b] {
		e.connectWalk(w, n, out, at)
	}
	first := at[e.flow.start[b]]
	for _, n := range e.flow.members[b] { // a loop that is also a fallback has the block again, with other exits
		delete(at, n)
	}
	return first
}

// connectWalk adds the edges from a node to its successors.
func (e *estimator) connectWalk(w *walker, n int, out exits, at map[int]int) {
	node := &e.flow.nodes[n]
	var after, skipped []int
	for _, way := range node.outgoing {
		to, ok := at[way.to]
		if !ok {
			continue
		}
		if way.on != ir.Skipped || startsAndSkips(node.step) {
			after = append(after, to)
		}
		if way.on == ir.Skipped || way.edge == nil { // a fallback also replaces a skipped step
			skipped = append(skipped, to)
		}
	}
	if node.closes {
		after = append(after, out.ok...)
		skipped = append(skipped, out.ok...)
	}
	if node.fails || node.closes {
		after = append(after, out.failed...)
		skipped = append(skipped, out.failed...)
	}
	first, attempts := at[n], min(node.step.Attempts(), maxWalk)
	retries := make([]int, 0, attempts-1)
	for i := 1; i < attempts; i++ {
		retries = append(retries, first+i)
	}
	var inner []int
	switch a := node.step.Action.(type) {
	case ir.Loop:
		if a.Block >= 0 && int(a.Block) < len(e.p.Blocks) && len(e.p.Blocks[a.Block].Steps) > 0 {
			again := exits{failed: append(retries[:len(retries):len(retries)], after...)}
			again.ok = append(again.failed[:len(again.failed):len(again.failed)], len(w.nodes)) // another iteration
			inner = []int{e.addBlock(w, a.Block, again, at)}
		}
	case ir.Call:
		if child := e.child(a.Child, true); child != nil && len(child.p.Blocks) > 0 &&
			len(child.p.Blocks[ir.Body].Steps) > 0 {
			done, begin := append(retries[:len(retries):len(retries)], after...), len(w.nodes)
			inner = []int{child.addBlock(w, ir.Body, exits{ok: done, failed: done}, map[int]int{})}
			if child.p.Budget.Steps != nil {
				// Wherever its own budget is exhausted, the child ends, and the run continues after the call.
				for i := begin; i < len(w.nodes); i++ {
					w.nodes[i].next = append(w.nodes[i].next, done...)
				}
			}
		}
	}
	for i := range attempts {
		at := &w.nodes[first+i]
		at.next = append(at.next, after...)
		at.next = append(at.next, inner...)
		if i+1 < attempts {
			at.next = append(at.next, first+i+1)
		}
	}
	if node.step.When != nil {
		w.nodes[first].skip = skipped
	}
}

// startsAndSkips reports whether a step can end as skipped after it has started.
func startsAndSkips(s *ir.Step) bool {
	gate, ok := s.Action.(ir.Gate)
	return s.SkipOnError || ok && gate.OnTimeout == ir.TimeoutSkip
}

// maxWalk limits the step budgets, and the attempts of a step, for which walks are computed.
const maxWalk = 2000

// best returns the cost of the most expensive walk of at most k steps, where cost returns the cost of each attempt. Two
// rows of the table suffice: that for one remaining step less, and the current one. It takes time in proportion to k
// and the number of edges; beyond maxWalk steps, it returns a bound that is easier to compute, k times the most
// expensive attempt.
func (w *walker) best(k int64, cost func(*walkNode) stepkind.Amount) stepkind.Amount {
	if len(w.nodes) == 0 {
		return stepkind.Amount{}
	}
	costs := make([]int64, len(w.nodes))
	var dearest int64
	for i := range w.nodes {
		c := cost(&w.nodes[i])
		if c.Unbounded != "" {
			return c
		}
		costs[i] = c.N
		dearest = max(dearest, c.N)
	}
	if k > maxWalk {
		return stepkind.N(dearest).Times(k)
	}
	before, now := make([]int64, len(w.nodes)), make([]int64, len(w.nodes))
	for range k {
		for i := range w.nodes {
			var onward int64
			for _, to := range w.nodes[i].next {
				onward = max(onward, before[to])
			}
			now[i] = stepkind.N(costs[i] + onward).N
		}
		// A skipped step leads to its successors immediately.
		for _, group := range w.skips {
			var onward int64
			for _, i := range group {
				onward = max(onward, now[i])
				for _, to := range w.nodes[i].skip {
					onward = max(onward, now[to])
				}
			}
			for _, i := range group {
				now[i] = onward
			}
		}
		before, now = now, before
	}
	return stepkind.N(before[w.start])
}

// limitedCost returns the cost of a block whose steps count against a limit, and how often each step can be visited and
// attempted; nil if the limit has no effect.
func (e *estimator) limitedCost(b ir.BlockID, limit *ir.Limit) (vector, *walker) {
	v := e.block(b).worst
	if limit == nil {
		return v, nil
	}
	// A negative limit, which no format produces, counts as zero: an empty block has no walk.
	k := max(limit.Max, 0)
	if !v[steps].Exceeds(k) {
		return v, nil
	}
	w := e.newWalker(b)
	for d := range v {
		most := w.best(k, func(n *walkNode) stepkind.Amount { return n.cost[d] })
		if most.Unbounded != "" {
			v[d] = most
		} else {
			v[d] = v[d].AtMost(most.N)
		}
	}
	return v, w
}

// maxWalkWork bounds work × budget: beyond it, attempts computes no walks.
const maxWalkWork = 1 << 28

// attempts returns how often a step can be entered and started at most in a walk of at most k steps. If that would take
// too long for all steps of the graph, it returns k, which is a bound as well.
func (w *walker) attempts(s *ir.Step, k int64) (visits, tries stepkind.Amount) {
	if w.work > maxWalkWork/max(k, 1) {
		return stepkind.N(k), stepkind.N(k)
	}
	one := func(is bool) stepkind.Amount {
		if is {
			return stepkind.N(1)
		}
		return stepkind.Amount{}
	}
	visits = w.best(k, func(n *walkNode) stepkind.Amount { return one(n.step == s && n.nth == 1) })
	if s.Attempts() == 1 {
		return visits, visits
	}
	tries = w.best(k, func(n *walkNode) stepkind.Amount { return one(n.step == s) })
	return visits, tries
}
