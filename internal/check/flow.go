package check

import (
	"iter"
	"slices"

	"github.com/espalier-run/espalier/internal/ir"
)

// flow is a program as a graph of how its steps can follow each other. A step has one node for itself,
// and one more for each step that it is a fallback of, because a fallback continues where the failed step would have
// continued. The graph contains every path that a run can take, and some that it cannot: it does not evaluate
// conditions. It does not change after newFlow.
type flow struct {
	p       *ir.Program
	nodes   []node
	start   []int            // by block: the node of its first step; the nodes of a block are consecutive
	named   []map[string]int // by block: the nodes of its steps; the first one of equal names
	members [][]int          // by block: its nodes, including fallbacks
	inside  []container      // by block: the step that runs it
	nodesOf map[*ir.Step][]int
}

// container is the step that runs a block. The body has none.
type container struct {
	step  *ir.Step
	block ir.BlockID // the block that contains the step
	loop  bool
	name  string // the name of the branch, if any
}

// node is a step, or a step in its role as a fallback.
type node struct {
	step       *ir.Step
	block      ir.BlockID
	local      int // position among the members of its block
	fallbackOf int // the node that it is a fallback of, or -1
	outgoing   []flowEdge
	closes     bool // may end its block successfully, after running or being skipped
	fails      bool // may end its block with a failure
	ends       bool // may end the whole program successfully
}

// flowEdge is an edge from a node to another one.
type flowEdge struct {
	to    int
	on    ir.Outcome
	edge  *ir.Edge // nil if the target is a fallback of this node
	leaps bool     // leaves this node's block for an enclosing block
}

// noStep marks a target that does not exist.
const noStep = -1

// newFlow builds the graph in phases: nodes, the nesting of blocks, edges, and the jumps out of blocks. Each phase
// needs those before it to be complete for the whole program.
func newFlow(p *ir.Program) *flow {
	steps := 0
	for b := range p.Blocks {
		steps += len(p.Blocks[b].Steps)
	}
	f := &flow{
		p: p, start: make([]int, len(p.Blocks)), named: make([]map[string]int, len(p.Blocks)),
		members: make([][]int, len(p.Blocks)),
		inside:  make([]container, len(p.Blocks)), nodes: make([]node, 0, steps),
		nodesOf: make(map[*ir.Step][]int, steps),
	}
	for b := range p.Blocks {
		f.start[b], f.named[b] = len(f.nodes), make(map[string]int, len(p.Blocks[b].Steps))
		f.members[b] = make([]int, 0, len(p.Blocks[b].Steps))
		for i := range p.Blocks[b].Steps {
			s := &p.Blocks[b].Steps[i]
			at := f.add(node{step: s, block: ir.BlockID(b), fallbackOf: -1})
			if _, taken := f.named[b][s.ID]; !taken {
				f.named[b][s.ID] = at
			}
		}
	}
	seen := make([]bool, len(p.Blocks))
	if len(seen) > 0 {
		seen[ir.Body] = true
		f.recordNesting(ir.Body, seen)
	}
	// The loop adds nodes for fallbacks, so the list grows.
	for n := 0; n < len(f.nodes); n++ {
		f.connect(n)
	}
	f.liftJumps()
	return f
}

// liftJumps adds jumps that leave a block to the step that runs it: in its own block, that step is the source of the
// jump.
func (f *flow) liftJumps() {
	for n := range f.nodes {
		for _, w := range f.nodes[n].outgoing {
			if !w.leaps || f.nodes[n].block == f.nodes[w.to].block {
				continue
			}
			w.leaps = false
			for _, outer := range f.nodesOf[f.outerStep(f.nodes[n].block, f.nodes[w.to].block)] {
				f.nodes[outer].outgoing = append(f.nodes[outer].outgoing, w)
			}
		}
	}
}

// add adds a node and returns its index.
func (f *flow) add(n node) int {
	at := len(f.nodes)
	n.local = len(f.members[n.block])
	f.members[n.block] = append(f.members[n.block], at)
	f.nodes = append(f.nodes, n)
	f.nodesOf[n.step] = append(f.nodesOf[n.step], at)
	return at
}

// recordNesting records which step runs which block.
func (f *flow) recordNesting(b ir.BlockID, seen []bool) {
	for i := range f.p.Blocks[b].Steps {
		s := &f.p.Blocks[b].Steps[i]
		_, loop := s.Action.(ir.Loop)
		for inner, name := range f.blocksOf(s) {
			if seen[inner] {
				continue
			}
			seen[inner] = true
			f.inside[inner] = container{step: s, block: b, loop: loop, name: name}
			f.recordNesting(inner, seen)
		}
	}
}

// blocksOf is Step.Blocks without blocks that do not exist.
func (f *flow) blocksOf(s *ir.Step) iter.Seq2[ir.BlockID, string] {
	return func(yield func(ir.BlockID, string) bool) {
		for b, name := range s.Blocks() {
			if b >= 0 && int(b) < len(f.p.Blocks) && !yield(b, name) {
				return
			}
		}
	}
}

// find looks up a step in a block and, because jumps may leave blocks, in the enclosing blocks up to the nearest
// fan-out.
func (f *flow) find(b ir.BlockID, id string) (n int, leaps bool) {
	for {
		if at, ok := f.named[b][id]; ok {
			return at, leaps
		}
		up := f.inside[b]
		if up.step == nil || !up.loop {
			return noStep, false
		}
		b, leaps = up.block, true
	}
}

// outcomes returns how a step can end, as far as its own edges matter.
func outcomes(s *ir.Step) (list []ir.Outcome, fallback bool) {
	list = make([]ir.Outcome, 0, 4)
	if _, end := s.Action.(ir.End); !end {
		list = append(list, ir.OK)
	}
	skipped, failed := s.When != nil, false
	switch a := s.Action.(type) {
	case ir.Gate:
		if a.Decider != ir.Event {
			list = append(list, ir.Rejected)
		}
		failed = a.Decider == ir.Work || a.Timeout > 0
		skipped = skipped || a.OnTimeout == ir.TimeoutSkip
	case ir.Task, ir.Parallel, ir.Loop, ir.Call:
		failed = true
	case ir.End:
		failed = a.Work != nil
	}
	if s.Fallback != nil {
		if _, gate := s.Action.(ir.Gate); gate && s.When == nil && skipped {
			list = append(list, ir.Skipped) // after a timeout
		}
		return list, failed || skipped
	}
	if failed && s.SkipOnError {
		skipped, failed = true, false
	}
	if skipped {
		list = append(list, ir.Skipped)
	}
	if failed {
		list = append(list, ir.Failed)
	}
	return list, false
}

// connect adds the edges of a node. If the step has a fallback, it also adds a node for the fallback, which connect
// later visits like all others.
func (f *flow) connect(n int) {
	s, block := f.nodes[n].step, f.nodes[n].block
	if end, ok := s.Action.(ir.End); ok && !end.Failed {
		f.nodes[n].ends = true
	}
	if s.StopWhen != nil {
		f.nodes[n].ends = true
	}
	list, fallback := outcomes(s)
	for _, o := range list {
		f.follow(n, n, o, o)
	}
	if !fallback {
		return
	}
	to, _ := f.find(block, s.Fallback.Name)
	if to == noStep || f.nodes[to].block != block {
		f.nodes[n].fails = true
		return
	}
	for at := n; at >= 0; at = f.nodes[at].fallbackOf {
		if f.nodes[at].step == f.nodes[to].step {
			return // a cycle of fallbacks, which is reported elsewhere
		}
	}
	stand := f.add(node{step: f.nodes[to].step, block: block, fallbackOf: n})
	f.nodes[n].outgoing = append(f.nodes[n].outgoing, flowEdge{to: stand, on: ir.Failed})
}

// follow adds the edges of a node that ends with an outcome: along the edges of the step at another node, itself or one
// that it replaces, and then along those of the steps that this one replaces. Sequential edges count only for the first
// replaced step. ended is the outcome whose edges apply: after a success, Skipped for a step that was skipped.
func (f *flow) follow(n, at int, outcome, ended ir.Outcome) {
	s, replaced := f.nodes[at].step, f.nodes[at].fallbackOf
	for i := range s.Next {
		e := &s.Next[i]
		if e.Sequential && replaced >= 0 || !slices.Contains(e.On, ended) {
			continue
		}
		f.addEdge(n, outcome, e)
		if e.When == nil && e.Limit == 0 {
			return
		}
	}
	switch {
	case replaced >= 0:
		f.follow(n, replaced, outcome, outcome)
		if outcome == ir.OK && f.nodes[replaced].step.When != nil {
			f.follow(n, replaced, outcome, ir.Skipped)
		}
	case ended != outcome: // the first step was skipped and has no edge for that
		f.follow(n, at, outcome, outcome)
	case outcome == ir.OK || outcome == ir.Skipped:
		f.nodes[n].closes = true
	default:
		f.nodes[n].fails = true
	}
}

// addEdge adds an edge of a step to a node.
func (f *flow) addEdge(n int, on ir.Outcome, e *ir.Edge) {
	at := &f.nodes[n]
	switch e.To.Exit {
	case ir.ExitFail:
		at.fails = true
	case ir.ExitBlock, ir.ExitLoop:
		at.closes = true
	default:
		to, leaps := f.find(at.block, e.To.Step)
		w := flowEdge{to: to, on: on, edge: e, leaps: leaps}
		if to != noStep && !slices.Contains(at.outgoing, w) {
			at.outgoing = append(at.outgoing, w)
		}
	}
}

// visitSuccessors calls visit for every node that can directly follow a node along edges that take accepts; at the end
// of a block, it continues with the step that ran the block.
func (f *flow) visitSuccessors(n int, take func(n int, w *flowEdge) bool, visit func(int)) {
	for i := range f.nodes[n].outgoing {
		if take(n, &f.nodes[n].outgoing[i]) {
			visit(f.nodes[n].outgoing[i].to)
		}
	}
	if !f.nodes[n].closes && !f.nodes[n].fails {
		return
	}
	up := f.inside[f.nodes[n].block]
	if up.step == nil {
		return
	}
	if up.loop {
		visit(f.start[f.nodes[n].block])
	}
	for _, c := range f.nodesOf[up.step] {
		f.visitSuccessors(c, take, visit)
	}
}

// anyEdge accepts every edge.
func anyEdge(int, *flowEdge) bool { return true }

// walk marks all nodes that can run after the nodes in todo are entered. through decides by which edges a node may be
// left.
func (f *flow) walk(todo []int, through func(n int, w *flowEdge) bool) []bool {
	return f.mark(todo, func(n int, push func(int)) { f.visitSuccessorsAndBodies(n, through, push) })
}

// mark marks nodes, and the nodes that next visits for each marked one.
func (f *flow) mark(todo []int, next func(n int, push func(int))) []bool {
	marked := make([]bool, len(f.nodes))
	todo = slices.Clone(todo)
	push := func(n int) {
		if !marked[n] {
			todo = append(todo, n)
		}
	}
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !marked[n] {
			marked[n] = true
			next(n, push)
		}
	}
	return marked
}

// visitSuccessorsAndBodies is visitSuccessors that also visits the first nodes of the blocks that the step of a node
// runs.
func (f *flow) visitSuccessorsAndBodies(n int, take func(n int, w *flowEdge) bool, visit func(int)) {
	for inner := range f.blocksOf(f.nodes[n].step) {
		if len(f.p.Blocks[inner].Steps) > 0 {
			visit(f.start[inner])
		}
	}
	f.visitSuccessors(n, take, visit)
}

// leadsTo marks the nodes from which some path leads to one of these nodes, and the nodes themselves.
func (f *flow) leadsTo(nodes []int) []bool {
	before := make([][]int, len(f.nodes))
	for n := range f.nodes {
		f.visitSuccessorsAndBodies(n, anyEdge, func(to int) { before[to] = append(before[to], n) })
	}
	return f.mark(nodes, func(n int, push func(int)) {
		for _, from := range before[n] {
			push(from)
		}
	})
}

// entry returns the first node of the program, if there is one.
func (f *flow) entry() []int {
	if len(f.p.Blocks) == 0 || len(f.p.Blocks[ir.Body].Steps) == 0 {
		return nil
	}
	out := []int{f.start[ir.Body]}
	if last := f.p.Step(ir.Body, f.p.OnCancel); last != nil {
		out = append(out, f.nodesOf[last]...)
	}
	return out
}

// path returns the name of a step, preceded by the names of its enclosing steps.
func (f *flow) path(b ir.BlockID, s *ir.Step) string {
	up := f.inside[b]
	if up.step == nil {
		return s.ID
	}
	outer := f.path(up.block, up.step)
	if up.name != "" && up.name != s.ID {
		outer += "/" + up.name
	}
	return outer + "/" + s.ID
}

// enclosingSteps yields the steps that run a block, directly or through others, from the inside out.
func (f *flow) enclosingSteps(b ir.BlockID) iter.Seq[container] {
	return func(yield func(container) bool) {
		for up := f.inside[b]; up.step != nil && yield(up); {
			up = f.inside[up.block]
		}
	}
}

// isInside reports whether a block is outer or nested in it.
func (f *flow) isInside(b, outer ir.BlockID) bool { return b == outer || f.outerStep(b, outer) != nil }

// outerStep returns the step of the block outer that contains b, or nil if there is none.
func (f *flow) outerStep(b, outer ir.BlockID) *ir.Step {
	for up := range f.enclosingSteps(b) {
		if up.block == outer {
			return up.step
		}
	}
	return nil
}

// owns reports whether a step is the one that runs a block, as the branch of this name. Formats give each block to one
// step; walks must terminate for invalid programs, too.
func (f *flow) owns(s *ir.Step, b ir.BlockID, name string) bool {
	return b > ir.Body && int(b) < len(f.inside) && f.inside[b].step == s && f.inside[b].name == name
}
