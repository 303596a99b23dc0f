package check

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/stepkind"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Estimate computes the cost of a run of the program.
//
// Each block is a graph; its worst case is the longest path. Cycles are first contracted into components: a cycle that
// only limited edges close is passed as often as the limits allow; otherwise a run may enter each of its steps
// ir.VisitCap times. A step budget lowers the result to the cost of the most expensive walk with that number of steps.
func Estimate(p *ir.Program, kinds stepkind.Set) Report { return EstimateWith(p, kinds, Known{}) }

// Known is what is known about the models and tools of a program. Its functions may be nil.
type Known struct {
	// Program returns the name of the external agent that a model name selects, or "": such an agent makes calls by
	// itself, which nothing bounds.
	Program func(model string) string
	// Approval reports whether a person has to approve calls of a tool, and how long they have; 0 is for ever.
	Approval func(tool string) (timeout time.Duration, required bool)
}

// EstimateWith is Estimate for models and tools that are known.
func EstimateWith(p *ir.Program, kinds stepkind.Set, known Known) Report {
	e := newEstimator(p, kinds, newFlow(p), newDomains(p))
	e.known = known
	return e.report()
}

// estimator computes the cost of one program. It caches the costs of steps and blocks, which are asked for many times;
// child programs have estimators of their own.
type estimator struct {
	p       *ir.Program
	kinds   stepkind.Set
	flow    *flow
	domains *domains
	replies map[*ir.Step]*contract.Contract // cached contracts of replies
	bounds  map[*ir.Step]stepkind.Bound
	costs   map[*ir.Step]*stepCost
	blocks  map[ir.BlockID]*blockCost
	childs  map[childKey]*estimator
	known   Known
	// external reports that an external agent does a step of this program or of one that it calls. It is shared with
	// their estimators.
	external *bool
	// callerBound reports that a budget of the caller limits the steps of this program.
	callerBound bool
}

// childKey identifies a child workflow, and whether a budget of its caller limits its steps.
type childKey struct {
	child int
	bound bool
}

// stepCost is the cost of one step.
type stepCost struct {
	bound stepkind.Bound
	own   vector // one attempt, without nested steps
	base  vector // one visit without failures, with nested steps
	worst vector // one visit with all attempts, with nested steps
}

// blockCost is the cost of one activation of a block.
type blockCost struct {
	base, worst vector
	visits      map[*ir.Step]stepkind.Amount
}

// newEstimator returns an estimator for a program, without estimates yet.
func newEstimator(p *ir.Program, kinds stepkind.Set, f *flow, d *domains) *estimator {
	return &estimator{
		p: p, kinds: kinds, flow: f, domains: d,
		bounds: map[*ir.Step]stepkind.Bound{}, costs: map[*ir.Step]*stepCost{}, blocks: map[ir.BlockID]*blockCost{},
		childs: map[childKey]*estimator{}, external: new(bool),
	}
}

// block returns the cost of a block. A block that contains itself is unbounded; no format produces one.
func (e *estimator) block(b ir.BlockID) *blockCost {
	if c, ok := e.blocks[b]; ok {
		if c == nil {
			var endless vector
			return &blockCost{worst: endless.plus(unbounded("a block contains itself"))}
		}
		return c
	}
	if b < 0 || int(b) >= len(e.p.Blocks) || len(e.p.Blocks[b].Steps) == 0 {
		return &blockCost{}
	}
	e.blocks[b] = nil
	c := &blockCost{visits: map[*ir.Step]stepkind.Amount{}}
	c.worst = e.longest(b, c.visits)
	c.base = e.pass(e.flow.start[b], make([]passState, len(e.flow.members[b])))
	c.worst = c.worst.max(c.base)
	e.blocks[b] = c
	return c
}

// unbounded returns a cost without bounds, with the reason.
func unbounded(why string) vector {
	var v vector
	for i := range v {
		v[i].Unbounded = why
	}
	return v
}

// outgoing calls do for the outgoing edges of a node that stay inside its block.
func (e *estimator) outgoing(n int, do func(to int, w *flowEdge)) {
	at := &e.flow.nodes[n]
	for i := range at.outgoing {
		if w := &at.outgoing[i]; e.flow.nodes[w.to].block == at.block {
			do(w.to, w)
		}
	}
}

// longest returns the cost of the most expensive path through a block, in each dimension separately. Contracting cycles
// to components makes the graph acyclic, so one pass over the components, from the last to the first, is enough. It
// also adds to visits how often each reachable step can be entered.
func (e *estimator) longest(b ir.BlockID, visits map[*ir.Step]stepkind.Amount) vector {
	comps := e.flow.components(b, anyEdge)
	of := make([]int, len(e.flow.members[b])) // component by local position
	for i := range comps {
		for _, n := range comps[i].nodes {
			of[e.flow.nodes[n].local] = i
		}
	}
	reach := e.reach(b)
	best := make([]vector, len(comps)) // cost from a component to the end of the block
	// Components are sorted so that successors come first.
	for i := range comps {
		c := &comps[i]
		var onward vector
		for _, n := range c.nodes {
			e.outgoing(n, func(to int, _ *flowEdge) {
				if j := of[e.flow.nodes[to].local]; j != i {
					onward = onward.max(best[j])
				}
			})
		}
		inside, times := e.component(c)
		best[i] = inside.plus(onward)
		for _, n := range c.nodes {
			if reach[e.flow.nodes[n].local] {
				s := e.flow.nodes[n].step
				visits[s] = visits[s].Plus(times)
			}
		}
	}
	return best[of[0]]
}

// reach returns, by local position, which nodes of a block its first step leads to.
func (e *estimator) reach(b ir.BlockID) []bool {
	reach := make([]bool, len(e.flow.members[b]))
	reach[0] = true
	todo := []int{e.flow.start[b]}
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		e.outgoing(n, func(to int, _ *flowEdge) {
			if at := e.flow.nodes[to].local; !reach[at] {
				reach[at] = true
				todo = append(todo, to)
			}
		})
	}
	return reach
}

// component returns the cost of passing through a component, and how often each of its nodes can be visited. There are
// three cases: a single node is visited once; if every cycle contains a limited edge, each use of such an edge begins
// one more round, and a round costs the longest path without these edges; otherwise only the engine's cap of visits, or
// a budget of steps, ends the repetition.
func (e *estimator) component(c *component) (vector, stepkind.Amount) {
	if !c.cyclic {
		return e.step(e.flow.nodes[c.nodes[0]].step).worst, stepkind.N(1)
	}
	member := e.flow.set(*c)
	rounds := int64(1)
	counted := map[*ir.Edge]bool{}
	for _, n := range c.nodes {
		e.outgoing(n, func(to int, w *flowEdge) {
			if member(to) && w.edge != nil && !counted[w.edge] {
				counted[w.edge] = true
				rounds = stepkind.N(rounds).Plus(stepkind.N(int64(max(w.edge.Limit, 0)))).N
			}
		})
	}
	unlimited := func(n int, w *flowEdge) bool {
		return member(n) && member(w.to) && (w.edge == nil || w.edge.Limit == 0)
	}
	rest := e.flow.components(e.flow.nodes[c.nodes[0]].block, unlimited)
	if !slices.ContainsFunc(rest, func(r component) bool { return r.cyclic }) {
		best := map[int]vector{}
		var round vector
		for _, r := range rest { // components of one node each, successors first
			n := r.nodes[0]
			if !member(n) {
				continue
			}
			var onward vector
			e.outgoing(n, func(to int, w *flowEdge) {
				if unlimited(n, w) {
					onward = onward.max(best[to])
				}
			})
			best[n] = e.step(e.flow.nodes[n].step).worst.plus(onward)
			round = round.max(best[n])
		}
		return round.times(stepkind.N(rounds)), stepkind.N(rounds)
	}
	if e.stepsBound(e.flow.nodes[c.nodes[0]].block) {
		why := "only a budget of steps ends the repetition"
		return unbounded(why), stepkind.Amount{Unbounded: why}
	}
	var all vector
	seen := map[*ir.Step]bool{}
	for _, n := range c.nodes {
		if s := e.flow.nodes[n].step; !seen[s] { // visits count per step, also for its nodes as a fallback
			seen[s] = true
			all = all.plus(e.step(s).worst)
		}
	}
	return all.times(stepkind.N(ir.VisitCap)), stepkind.N(ir.VisitCap)
}

// stepsBound reports whether a budget limits the steps of a block.
func (e *estimator) stepsBound(b ir.BlockID) bool {
	for up := range e.flow.enclosingSteps(b) {
		if par, ok := up.step.Action.(ir.Parallel); ok {
			branch := xslices.Find(par.Branches, func(one ir.Branch) bool { return one.Block == b })
			return branch.Budget.Steps != nil
		}
		b = up.block
	}
	return e.p.Budget.Steps != nil || e.callerBound
}

// pass returns the cost of the most expensive single pass from a node, without failures and repetitions.
func (e *estimator) pass(n int, seen []passState) vector {
	at := &seen[e.flow.nodes[n].local]
	if at.entered {
		return at.cost // a cycle; the cost is still zero
	}
	at.entered = true
	var onward vector
	e.outgoing(n, func(to int, w *flowEdge) {
		if w.on == ir.OK {
			onward = onward.max(e.pass(to, seen))
		}
	})
	at.cost = e.step(e.flow.nodes[n].step).base.plus(onward)
	return at.cost
}

// passState is the state of a node during the search of pass.
type passState struct {
	entered bool
	cost    vector // from here to the end of the block
}

// bound returns the bound that the step kind reports for one attempt of a step.
func (e *estimator) bound(s *ir.Step) stepkind.Bound {
	if b, ok := e.bounds[s]; ok {
		return b
	}
	var b stepkind.Bound
	if t := s.Task(); t != nil && e.kinds[t.Kind] != nil {
		kind := e.kinds[t.Kind]
		reply, known := e.replies[s]
		if !known {
			reply = stepkind.ContractOf(kind, e.p, s, t)
		}
		b = kind.Bound(e.p, s, t, reply)
	}
	if e.known.Program != nil && b.Worst.ModelCalls != (stepkind.Amount{}) {
		if name := e.known.Program(b.Model); name != "" {
			*e.external = true
			w := &b.Worst
			why := fmt.Sprintf("step %q runs the external agent %s, whose calls are not bounded", s.ID, name)
			for _, a := range []*stepkind.Amount{
				&w.ModelCalls, &w.ToolCalls, &w.PromptTokens, &w.ReplyTokens, &w.Seconds,
			} {
				*a = stepkind.Amount{Unbounded: why}
			}
		}
	}
	e.bounds[s] = b
	return b
}

// approvalTime returns how long a step can wait for the approval of its call of a tool.
func (e *estimator) approvalTime(s *ir.Step) (wait stepkind.Amount) {
	t := s.Task()
	if t == nil || e.known.Approval == nil || e.kinds[t.Kind] == nil {
		return wait
	}
	for _, n := range e.kinds[t.Kind].Uses(t).Tools {
		switch timeout, required := e.known.Approval(n.Name); {
		case required && timeout > 0:
			wait = wait.Plus(stepkind.N(int64(math.Ceil(timeout.Seconds()))))
		case required:
			why := fmt.Sprintf("step %q waits for the approval of its call without a timeout", s.ID)
			return stepkind.Amount{Unbounded: why}
		}
	}
	return wait
}

// step returns the cost of one visit of a step.
func (e *estimator) step(s *ir.Step) *stepCost {
	if c, ok := e.costs[s]; ok {
		return c
	}
	c := &stepCost{}
	e.costs[s] = c // stored early, so that a block that contains itself terminates
	c.bound = e.bound(s)
	c.own = fromCost(c.bound.Worst)
	c.own[steps] = executions(s)
	if s.Timeout > 0 {
		c.own[activeSeconds] = c.own[activeSeconds].AtMost(seconds(s.Timeout))
	}
	if gate, ok := s.Action.(ir.Gate); ok && gate.Decider != ir.Work {
		c.own[waitSeconds] = stepkind.N(seconds(gate.Timeout))
		if gate.Timeout <= 0 {
			c.own[waitSeconds] = stepkind.Amount{Unbounded: fmt.Sprintf("step %q waits without a timeout", s.Title())}
		}
	}
	c.own[waitSeconds] = c.own[waitSeconds].Plus(e.approvalTime(s))
	c.base = fromCost(c.bound.Base)
	if s.Timeout > 0 {
		c.base[activeSeconds] = c.base[activeSeconds].AtMost(seconds(s.Timeout))
	}
	c.base = c.base.plus(e.insideBase(s))
	c.base[steps] = c.base[steps].Plus(executions(s))
	attempts := int64(s.Attempts())
	once := c.own.plus(e.inside(s))
	if s.Timeout > 0 {
		once[activeSeconds] = once[activeSeconds].AtMost(seconds(s.Timeout))
	}
	c.worst = once.times(stepkind.N(attempts))
	c.worst[activeSeconds] = c.worst[activeSeconds].Plus(stepkind.N(delays(s.Retry, attempts)))
	c.worst = c.worst.max(c.base)
	return c
}

// executions returns how many executions one attempt of a step counts as.
func executions(s *ir.Step) stepkind.Amount {
	if s.Uncounted {
		return stepkind.Amount{}
	}
	return stepkind.N(1)
}

// inside returns the worst-case cost of the blocks and children of a step in one attempt.
func (e *estimator) inside(s *ir.Step) vector {
	switch a := s.Action.(type) {
	case ir.Parallel:
		return e.parallel(s, a)
	case ir.Loop:
		return e.block(a.Block).worst.times(e.rounds(s, a))
	case ir.Call:
		if child := e.childOf(s, a); child != nil {
			worst, _ := child.limitedCost(ir.Body, child.p.Budget.Steps)
			return e.capped(worst, child.p.Budget)
		}
	}
	return vector{}
}

// insideBase is inside for a pass without failures.
func (e *estimator) insideBase(s *ir.Step) vector {
	switch a := s.Action.(type) {
	case ir.Parallel:
		list := xslices.Map(a.Branches, func(one ir.Branch) vector { return e.block(one.Block).base })
		if a.Each != nil {
			list = append(list, e.block(a.Each.Block).base)
		}
		return together(list, a.MaxConcurrent)
	case ir.Loop:
		return e.block(a.Block).base
	case ir.Call:
		if child := e.childOf(s, a); child != nil {
			return child.block(ir.Body).base
		}
	}
	return vector{}
}

// childOf returns the estimator of the child that a step calls, or nil if there is none.
func (e *estimator) childOf(s *ir.Step, call ir.Call) *estimator {
	nodes := e.flow.nodesOf[s]
	return e.child(call.Child, len(nodes) > 0 && e.stepsBound(e.flow.nodes[nodes[0]].block))
}

// child returns the estimator of a child program; nil if there is none. bound is set if a budget of the caller limits
// its steps, which makes a difference for repetitions without a limit of their own.
func (e *estimator) child(i int, bound bool) *estimator {
	if i < 0 || i >= len(e.p.Children) {
		return nil
	}
	key := childKey{i, bound}
	if e.childs[key] == nil {
		p := &e.p.Children[i]
		child := newEstimator(p, e.kinds, newFlow(p), newDomains(p))
		child.callerBound, child.known, child.external = bound, e.known, e.external
		e.childs[key] = child
	}
	return e.childs[key]
}

// parallel returns the cost of parallel branches: their costs add up, their times overlap.
func (e *estimator) parallel(s *ir.Step, par ir.Parallel) vector {
	var list []vector
	for i := range par.Branches {
		b := &par.Branches[i]
		worst, _ := e.limitedCost(b.Block, b.Budget.Steps)
		list = append(list, e.capped(worst, b.Budget))
	}
	sum := together(list, par.MaxConcurrent)
	if par.Each == nil {
		return sum
	}
	items := e.length(par.Each, fmt.Sprintf("step %q fans out over a list of unknown length", s.ID))
	one := e.block(par.Each.Block).worst
	all := one.times(items)
	all[steps] = stepkind.Amount{}
	switch {
	case par.MaxConcurrent <= 0:
		all[activeSeconds], all[waitSeconds] = one[activeSeconds], one[waitSeconds]
	case items.Unbounded == "":
		waves := (items.N + int64(par.MaxConcurrent) - 1) / int64(par.MaxConcurrent)
		all[activeSeconds], all[waitSeconds] = one[activeSeconds].Times(waves), one[waitSeconds].Times(waves)
	}
	return sum.plus(all)
}

// together adds up branches that run in parallel, at most so many at a time. The steps of branches count only against
// their own budgets.
func together(list []vector, most int) vector {
	var sum vector
	for _, v := range list {
		sum = sum.plus(v)
	}
	sum[steps] = stepkind.Amount{}
	for _, d := range []int{activeSeconds, waitSeconds} {
		sum[d] = makespan(list, d, most)
	}
	return sum
}

// makespan returns the time until the last branch is done, if each branch starts in order as soon as there is a free
// slot.
func makespan(list []vector, d, most int) stepkind.Amount {
	if most <= 0 || most > len(list) {
		most = len(list)
	}
	if most == 0 {
		return stepkind.Amount{}
	}
	busy := make([]int64, most)
	for _, v := range list {
		if v[d].Unbounded != "" {
			return v[d]
		}
		next := slices.Index(busy, slices.Min(busy))
		busy[next] = stepkind.N(busy[next]).Plus(v[d]).N
	}
	return stepkind.N(slices.Max(busy))
}

// capped lowers a cost to a budget, because a run never exceeds its budget. What an external agent uses is known only
// when it has finished, so budgets do not limit it.
func (e *estimator) capped(v vector, b ir.Budget) vector {
	lower := func(limit *ir.Limit, ds ...int) {
		if limit != nil {
			for _, d := range ds {
				v[d] = v[d].AtMost(max(limit.Max, 0))
			}
		}
	}
	lower(b.Steps, steps)
	if *e.external {
		return v
	}
	lower(b.ToolCalls, toolCalls)
	lower(b.Tokens, tokens, promptTokens, replyTokens)
	lower(b.ActiveSeconds, activeSeconds)
	return v
}

// rounds returns the maximum number of iterations of a loop.
func (e *estimator) rounds(s *ir.Step, loop ir.Loop) stepkind.Amount {
	n := stepkind.Amount{Unbounded: fmt.Sprintf("step %q repeats without a limit", s.ID)}
	if loop.Each != nil {
		n = e.length(loop.Each, fmt.Sprintf("step %q repeats for every item of a list of unknown length", s.ID))
	}
	if loop.Max > 0 {
		n = n.AtMost(int64(loop.Max))
	}
	return n
}

// length returns the maximum length of a list.
func (e *estimator) length(each *ir.Each, unknown string) stepkind.Amount {
	if each.Items == nil {
		return stepkind.Amount{}
	}
	paths := each.Items.Paths()
	if len(paths) == 0 {
		if v, err := each.Items.Eval(known{}); err == nil {
			if list, ok := v.([]any); ok {
				return stepkind.N(int64(len(list)))
			}
		}
	}
	if len(paths) == 1 && paths[0].String() == strings.TrimSpace(each.Items.Text) && paths[0].Segments[0] == inputRoot {
		at := e.domains.schema
		for _, name := range paths[0].Segments[1:] {
			at = at.property(name)
		}
		if most, ok := at["maxItems"].(float64); ok {
			return stepkind.N(int64(min(max(most, 0), 1<<53)))
		}
	}
	return stepkind.Amount{Unbounded: unknown}
}

// seconds converts to whole seconds, rounded up, so that bounds stay bounds.
func seconds(m ir.Millis) int64 { return (int64(m) + 999) / 1000 }

// delays returns the total delay between the attempts of a step, in seconds.
func delays(r *ir.Retry, attempts int64) int64 {
	if r == nil || len(r.Delays) == 0 {
		return 0
	}
	const maxCounted = 1000 // bounds the sum; no practical retry rule has more attempts
	var sum, delay float64
	delay = float64(r.Delays[0])
	for i := range min(attempts-1, maxCounted) {
		switch r.Backoff {
		case ir.List:
			delay = float64(r.Delays[min(int(i), len(r.Delays)-1)])
		case ir.Linear:
			delay = float64(r.Delays[0]) * float64(i+1)
		case ir.Exponential:
			if i > 0 {
				delay *= max(r.Multiplier, 1)
			}
		}
		if r.MaxDelay > 0 {
			delay = min(delay, float64(r.MaxDelay))
		}
		sum += max(delay, 0) * (1 + max(r.Jitter, 0))
	}
	const maxDelay = 1e15
	return seconds(ir.Millis(min(sum, maxDelay)))
}

// report assembles the Report.
func (e *estimator) report() Report {
	var r Report
	body := e.block(ir.Body)
	base, worst := body.base, body.worst
	var walk *walker
	if len(e.p.Blocks) > 0 && len(e.p.Blocks[ir.Body].Steps) > 0 {
		worst, walk = e.limitedCost(ir.Body, e.p.Budget.Steps)
	}
	// A run stops at its budget. The comparison with budgets uses the cost without them.
	most := e.capped(worst, e.p.Budget)
	at := func(d int) Range { return Range{Base: least(base[d], most[d]), Worst: most[d]} }
	r.Steps, r.ModelCalls, r.ToolCalls = at(steps), at(modelCalls), at(toolCalls)
	r.PromptTokens, r.ReplyTokens, r.Tokens = at(promptTokens), at(replyTokens), at(tokens)
	r.ActiveSeconds, r.WaitSeconds = at(activeSeconds), at(waitSeconds)
	r.External = *e.external
	r.PerStep = []StepCost{}
	e.perStep(ir.Body, prefix{}, stepkind.N(1), e.p.Budget.Steps, walk, &r.PerStep)
	r.PerAgent = perAgent(r.PerStep)
	worst[steps] = body.worst[steps]
	r.Budgets = e.compare(base, worst, r.PerStep)
	return r
}

// prefix names the enclosing steps of a block: in keys and, for people, in titles.
type prefix struct{ key, title string }

// perStep lists the steps of a block that can be entered often times. walk is the graph of the steps that count against
// a limit; it is nil if the limit has no effect.
func (e *estimator) perStep(
	b ir.BlockID, before prefix, often stepkind.Amount, limit *ir.Limit, walk *walker, into *[]StepCost,
) {
	if int(b) >= len(e.p.Blocks) {
		return
	}
	cost := e.block(b)
	for i := range e.p.Blocks[b].Steps {
		s := &e.p.Blocks[b].Steps[i]
		c := e.step(s)
		visits := cost.visits[s].By(often)
		attempts := int64(s.Attempts())
		tries := visits.Times(attempts)
		if walk != nil {
			entered, started := walk.attempts(s, max(limit.Max, 0))
			visits, tries = least(visits, entered), least(tries, started)
		}
		path, title := before.key+s.ID, before.title+s.Title()
		inside := prefix{path + "/", title + "."}
		label := ""
		if title != path {
			label = title
		}
		*into = append(*into, StepCost{
			Step: path, Label: label, Type: s.Type, Attempts: s.Attempts(), Visits: visits, Starts: tries,
			Bound: c.bound, Worst: c.own.times(tries).totals(),
		})
		switch a := s.Action.(type) {
		case ir.Loop:
			if e.flow.owns(s, a.Block, "") {
				e.perStep(a.Block, inside, tries.By(e.rounds(s, a)), limit, walk, into)
			}
		case ir.Parallel:
			for j := range a.Branches {
				branch := &a.Branches[j]
				inner := inside
				if !e.isNamedLikeOnlyStep(branch) {
					inner.key += branch.Name + "/"
				}
				if e.flow.owns(s, branch.Block, branch.Name) {
					e.perBranch(branch, inner, tries, into)
				}
			}
			if a.Each != nil && e.flow.owns(s, a.Each.Block, "") {
				often := tries.By(e.length(a.Each, "the list has no known length"))
				e.perStep(a.Each.Block, inside, often, nil, nil, into)
			}
		case ir.Call:
			if child := e.childOf(s, a); child != nil {
				inside.title = title + " › "
				if walk == nil { // its own budget may have an effect
					_, inner := child.limitedCost(ir.Body, child.p.Budget.Steps)
					child.perWalk(ir.Body, inside, tries, child.p.Budget.Steps, inner, into)
				} else {
					child.perStep(ir.Body, inside, tries, limit, walk, into)
				}
			}
		}
	}
}

// perBranch lists the steps of a branch.
func (e *estimator) perBranch(branch *ir.Branch, before prefix, often stepkind.Amount, into *[]StepCost) {
	_, walk := e.limitedCost(branch.Block, branch.Budget.Steps)
	e.perWalk(branch.Block, before, often, branch.Budget.Steps, walk, into)
}

// perWalk lists the steps of a block with its own budget, each activation of which may use the whole budget.
func (e *estimator) perWalk(
	b ir.BlockID, before prefix, often stepkind.Amount, limit *ir.Limit, walk *walker, into *[]StepCost,
) {
	if walk == nil {
		e.perStep(b, before, often, nil, nil, into)
		return
	}
	from := len(*into)
	e.perStep(b, before, stepkind.N(1), limit, walk, into)
	for i := from; i < len(*into); i++ {
		s := &(*into)[i]
		s.Visits, s.Starts = s.Visits.By(often), s.Starts.By(often)
		s.Worst = s.Worst.vector().times(often).totals()
	}
}

// least returns the smaller amount.
func least(a, b stepkind.Amount) stepkind.Amount {
	if b.Unbounded == "" && a.Exceeds(b.N) {
		return b
	}
	return a
}

// isNamedLikeOnlyStep reports whether a branch consists of one step of the same name, so that naming both would be
// redundant.
func (e *estimator) isNamedLikeOnlyStep(b *ir.Branch) bool {
	if b.Block < 0 || int(b.Block) >= len(e.p.Blocks) {
		return false
	}
	inner := e.p.Blocks[b.Block].Steps
	return len(inner) == 1 && inner[0].ID == b.Name
}

// perAgent adds up the costs of steps by their agents and models, in the order of the steps.
func perAgent(list []StepCost) []AgentCost {
	out := []AgentCost{}
	for i := range list {
		s := &list[i]
		if s.Bound.Agent == "" {
			continue
		}
		at := slices.IndexFunc(out,
			func(a AgentCost) bool { return a.Agent == s.Bound.Agent && a.Model == s.Bound.Model })
		if at < 0 {
			out = append(out, AgentCost{Agent: s.Bound.Agent, Model: s.Bound.Model})
			at = len(out) - 1
		}
		a := &out[at]
		a.ModelCalls = a.ModelCalls.Plus(s.Worst.ModelCalls)
		a.ToolCalls = a.ToolCalls.Plus(s.Worst.ToolCalls)
		a.PromptTokens = a.PromptTokens.Plus(s.Worst.PromptTokens)
		a.ReplyTokens = a.ReplyTokens.Plus(s.Worst.ReplyTokens)
		a.Tokens = a.Tokens.Plus(s.Worst.Tokens)
	}
	return out
}
