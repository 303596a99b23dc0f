package check

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/stepkind"
	"github.com/espalier-run/espalier/internal/xslices"
)

// need is the amount that the cheapest path through a block uses in any case, and for the largest call the step that
// makes it.
type need struct {
	n  int64
	at *ir.Step
}

// measure defines how a need adds up along a path.
type measure struct {
	of   func(s *ir.Step) need // need of a step that runs and succeeds
	join func(a, b need) need
	fail int64 // minimum need of a step that fails
}

// sum and larger join needs: those that add up, and those of which the largest counts. The bound prevents overflow.
func sum(a, b need) need { return need{n: min(a.n+b.n, 1<<60)} }

func larger(a, b need) need {
	if b.n > a.n {
		return b
	}
	return a
}

// cheapest returns the minimum need of a block until it succeeds or the program ends successfully; ok is false if
// neither can happen. It is a shortest-path search with a work list: whenever a cheaper way to a node is found, the
// node is looked at again.
func (e *estimator) cheapest(b ir.BlockID, m measure) (need, bool) {
	if b < 0 || int(b) >= len(e.p.Blocks) || len(e.p.Blocks[b].Steps) == 0 {
		return need{}, true
	}
	first := e.flow.start[b]
	known := make([]need, len(e.flow.members[b])) // need on arrival at a node, by its local position
	arrived := make([]bool, len(known))
	arrived[0] = true
	done, found := need{}, false
	finish := func(n need) {
		if !found || n.n < done.n {
			done, found = n, true
		}
	}
	todo := []int{first}
	// Needs only decrease between arrivals and are never negative, so the loop terminates. In practice each node is
	// visited once or twice.
	for len(todo) > 0 {
		n := todo[0]
		todo = todo[1:]
		at := &e.flow.nodes[n]
		here := known[at.local]
		well := m.join(here, m.of(at.step))
		skip := here
		if at.step.When == nil && !at.step.SkipOnError {
			skip = well
		}
		failed := m.join(here, need{n: m.fail, at: at.step})
		if at.step.When != nil {
			failed = here // the fallback of a step that was skipped
		}
		if at.ends {
			finish(well)
		}
		if at.closes {
			finish(skip)
		}
		e.outgoing(n, func(to int, w *flowEdge) {
			arrive := well
			switch w.on {
			case ir.Skipped:
				arrive = skip
			case ir.Failed:
				arrive = failed
			}
			if next := e.flow.nodes[to].local; !arrived[next] || arrive.n < known[next].n {
				arrived[next], known[next] = true, arrive
				todo = append(todo, to)
			}
		})
	}
	return done, found
}

// countSteps counts executions. The steps of branches count against the budget of the branch, those of a child against
// the caller's.
func (e *estimator) countSteps() measure {
	return measure{join: sum, fail: 1, of: func(s *ir.Step) need {
		n := need{n: executions(s).N}
		if call, ok := s.Action.(ir.Call); ok {
			if child := e.childOf(s, call); child != nil {
				if more, ok := child.cheapest(ir.Body, child.countSteps()); ok {
					n.n += more.n
				}
			}
		}
		return n
	}}
}

// countTools counts unavoidable tool calls.
func (e *estimator) countTools() measure {
	return e.nested(sum, func(e *estimator, s *ir.Step) need { return need{n: e.bound(s).Base.ToolCalls.N} })
}

// largestCall finds the largest unavoidable reservation.
func (e *estimator) largestCall() measure {
	return e.nested(larger, func(e *estimator, s *ir.Step) need { return need{n: e.bound(s).Reserve, at: s} })
}

// nested measures what a step needs itself, joined with the need of the blocks that always run in it.
func (e *estimator) nested(join func(a, b need) need, own func(*estimator, *ir.Step) need) measure {
	return measure{join: join, of: func(s *ir.Step) need {
		n := own(e, s)
		e.eachCertainBlock(s, func(in *estimator, b ir.BlockID) {
			if more, ok := in.cheapest(b, in.nested(join, own)); ok {
				n = join(n, more)
			}
		})
		return n
	}}
}

// eachCertainBlock calls do for each block that always runs when a step succeeds.
func (e *estimator) eachCertainBlock(s *ir.Step, do func(*estimator, ir.BlockID)) {
	switch a := s.Action.(type) {
	case ir.Parallel:
		if a.Join != ir.JoinAll && a.Join != ir.JoinSettle {
			return
		}
		for i := range a.Branches {
			b := &a.Branches[i]
			if b.When == nil && e.flow.owns(s, b.Block, b.Name) {
				do(e, b.Block)
			}
		}
	case ir.Call:
		if child := e.childOf(s, a); child != nil {
			do(child, ir.Body)
		}
	}
}

// bill is a budget, its scope and the known costs.
type bill struct {
	scope       string // the branch; empty for the run
	block       ir.BlockID
	budget      ir.Budget
	base, worst vector
}

// bills returns the budgets that a program declares, without costs.
func (e *estimator) bills() []bill {
	var list []bill
	if e.p.Budget != (ir.Budget{}) {
		list = append(list, bill{budget: e.p.Budget})
	}
	for b, s := range e.p.PlacedSteps() {
		par, _ := s.Action.(ir.Parallel)
		for _, branch := range par.Branches {
			if branch.Budget == (ir.Budget{}) || branch.Block < 0 || int(branch.Block) >= len(e.p.Blocks) {
				continue
			}
			scope := e.flow.path(b, s) + "/" + branch.Name
			list = append(list, bill{scope: scope, block: branch.Block, budget: branch.Budget})
		}
	}
	return list
}

// ScopeName returns the scope of a BudgetLine as people know it: "extract.W1_ACTIONS".
func ScopeName(scope string) string { return strings.ReplaceAll(scope, "/", ".") }

// item is one line of a bill.
type item struct {
	line BudgetLine
	at   source.Span
	step *ir.Step // the step that alone exceeds the limit, if any
}

// items compares the budget of a bill with its costs, and with the minimum need of its block.
func (e *estimator) items(b *bill, perStep []StepCost) []item {
	var list []item
	put := func(budget string, d int, limit *ir.Limit, m *measure, because func(need) string) {
		if limit == nil {
			return
		}
		one := item{
			at: limit.Span,
			line: BudgetLine{
				Name: BudgetLineName(budget), Scope: b.scope, Limit: limit.Max, Base: b.base[d], Worst: b.worst[d],
				Verdict: Fits,
			},
		}
		// The size of prompts is an estimate, and nothing bounds the delays of providers. Tool calls are repeated after
		// a crash. Repeated attempts do not count as steps.
		if d != steps && b.worst[d] != stepkind.N(0) {
			one.line.Verdict = ShouldFit
		}
		if b.worst[d].Exceeds(limit.Max) {
			one.line.Verdict, one.line.Because = MayExceed, b.mainReason(d, perStep)
		}
		if m != nil {
			if least, ok := e.cheapest(b.block, *m); ok && least.n > limit.Max {
				one.line.Verdict, one.line.Because, one.step = CannotFinish, because(least), least.at
			}
		}
		list = append(list, one)
	}
	countSteps, countTools, largestCall := e.countSteps(), e.countTools(), e.largestCall()
	put(ir.BudgetSteps, steps, b.budget.Steps, &countSteps, func(n need) string {
		return fmt.Sprintf("the shortest path has %s steps", stepkind.N(n.n))
	})
	put(ir.BudgetTools, toolCalls, b.budget.ToolCalls, &countTools, func(n need) string {
		return fmt.Sprintf("every path makes at least %s tool calls", stepkind.N(n.n))
	})
	put(ir.BudgetTokens, tokens, b.budget.Tokens, &largestCall, func(n need) string {
		return fmt.Sprintf("one call of step %q reserves %s tokens, its prompt and its largest reply", n.at.ID,
			stepkind.N(n.n))
	})
	put(ir.BudgetDeadline, activeSeconds, b.budget.ActiveSeconds, nil, nil)
	return list
}

// mainReason returns the main reason for a high cost.
func (b *bill) mainReason(d int, perStep []StepCost) string {
	if why := b.worst[d].Unbounded; why != "" {
		return "unbounded because " + why
	}
	var name string
	var most stepkind.Amount
	for i := range perStep {
		s := &perStep[i]
		if b.scope != "" && s.Step != b.scope && !strings.HasPrefix(s.Step, b.scope+"/") {
			continue
		}
		if used := s.Worst.vector()[d]; name == "" || used.Exceeds(most.N) {
			name, most = cmp.Or(s.Label, s.Step), used
		}
	}
	switch {
	case most.N == 0:
		return ""
	case most.N < b.worst[d].N:
		return fmt.Sprintf("the steps can use %s, and %q alone can use %s", b.worst[d], name, most)
	}
	return fmt.Sprintf("step %q alone can use %s", name, most)
}

// compare returns the budget lines of the report.
func (e *estimator) compare(base, worst vector, perStep []StepCost) []BudgetLine {
	out := []BudgetLine{}
	for _, b := range e.bills() {
		b.base, b.worst = base, worst
		if b.scope != "" {
			b.base = e.block(b.block).base
			b.worst, _ = e.limitedCost(b.block, b.budget.Steps)
			b.worst[steps] = e.block(b.block).worst[steps]
		}
		out = append(out, xslices.Map(e.items(&b, perStep), func(i item) BudgetLine { return i.line })...)
	}
	return out
}

// budgets reports budgets that no path through the workflow fits.
func (c *checker) budgets() {
	if c.list.Errors() {
		return // figures for an invalid workflow would mislead
	}
	e := newEstimator(c.p, c.kinds, c.flow, c.domains)
	e.replies = c.replies
	for _, b := range e.bills() {
		for _, i := range e.items(&b, nil) {
			if i.line.Verdict != CannotFinish {
				continue
			}
			who := "This workflow"
			if b.scope != "" {
				who = fmt.Sprintf("Worker %q", ScopeName(b.scope))
			}
			what := i.line.Name
			if i.line.Limit == 1 {
				what = strings.TrimSuffix(what, "s")
			}
			found := c.add(CodeCannotFinish, diag.Error, i.at, "Raise the budget, or remove work from the workflow.",
				"%s cannot finish within its budget of %s %s: %s.", who, stepkind.N(i.line.Limit), what, i.line.Because)
			if i.step != nil {
				found.Relate(i.step.Span, "the step")
			}
		}
	}
}
