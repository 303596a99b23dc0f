package app

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/check"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/price"
	"github.com/espalier-run/espalier/internal/registry"
	"github.com/espalier-run/espalier/internal/stepkind"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Cost is the worst-case cost of a run.
type Cost struct {
	check.Report
	// Repeats is how often a model call is repeated at most if the provider fails. Repeated calls are not included.
	Repeats int       `json:"repeats_per_call"`
	Money   Money     `json:"money"`
	Quote   *ir.Quote `json:"quote,omitempty"`
}

// Money is the worst-case price of the model calls of a workflow. If that is unknown, it says why, rather than give a
// sum that could be wrong.
type Money struct {
	Known   bool   `json:"known"`
	Because string `json:"because,omitempty"`
	// AtMost is in millionths of a dollar.
	AtMost int64 `json:"at_most_micro_dollars,omitempty"`
	// Agents are the shares that are known.
	Agents map[string]int64 `json:"agents,omitempty"`
	Models []string         `json:"models,omitempty"`
	Prices string           `json:"prices_of,omitempty"` // date of the built-in prices, if one of them is used
	// Configured are the models whose prices the configuration sets.
	Configured []string `json:"configured_prices,omitempty"`
	// Limit is the budget of money, and Verdict how it compares.
	Limit   int64         `json:"limit_micro_dollars,omitempty"`
	Verdict check.Verdict `json:"verdict,omitempty"`
}

// Bound returns the most that a run can cost, in millionths of a dollar: by the estimate, or by the limit of money.
// Without either, it is not known.
func (m *Money) Bound() (micro int64, known bool) {
	switch {
	case m.Limit > 0 && (!m.Known || m.Limit < m.AtMost):
		return m.Limit, true
	case m.Known:
		return m.AtMost, true
	}
	return 0, false
}

// Cost returns what a run can cost with the project's configuration. A model replaces those that the steps name.
func (a *App) Cost(an *Analysis, model string) (*Cost, error) {
	env, err := a.environmentOf(an, simulating)
	if err != nil {
		return nil, err
	}
	c := &Cost{Quote: an.Program.Quote}
	chosen := func(asked string) string { return cmp.Or(model, asked) }
	c.Report = estimate(an.Program, env, chosen)
	c.Repeats = repeats(c.Report, env.models, model)
	c.Money = money(an.Program, c.Report, env.models, chosen)
	return c, nil
}

// Remaining is the worst-case use of the rest of a run.
type Remaining struct {
	Steps, ToolCalls, Tokens stepkind.Amount
	Money                    Money
}

// Remaining returns what a run can still use with the models and the limits that it has: what the steps that can still
// run use at worst, but no more than its budgets leave, nor than the worst case of the whole run without what was used.
func (a *App) Remaining(ctx context.Context, r *Run) (*Remaining, error) {
	env, err := a.reader(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	state, program, _, err := env.Engine.Load(ctx, cmp.Or(r.Root, r.ID))
	if err != nil {
		return nil, err
	}
	root := state.Root()
	if root == nil || root.Ledger == nil {
		root = &plan.Frame{Ledger: &plan.Ledger{}}
	}
	limits, used := root.Ledger.Limits, root.Ledger.Used
	// Two bounds. First the worst case of the whole run, from which later is subtracted what was used; then the worst
	// case of the steps that can still run, with what is left of the budgets.
	whole := *program.Root()
	whole.Budget = budgetOf(limits)
	total, err := env.estimateRun(&whole, state.Options)
	if err != nil {
		return nil, err
	}
	left := whole
	left.Budget = budgetLeft(whole.Budget, used)
	rest, err := env.estimateRun(check.From(&left, position(root)), state.Options)
	if err != nil {
		return nil, err
	}
	out := &Remaining{rest.Steps.Worst, rest.ToolCalls.Worst, rest.Tokens.Worst, rest.Money}
	if !root.Rewound { // steps that run again count again
		// Calls without a reply are not part of the worst case.
		answered := used.Minus(journal.Usage{
			ToolCalls: used.Lost.ToolCalls, InputTokens: used.Lost.InputTokens, OutputTokens: used.Lost.OutputTokens,
			MicroDollars: used.Lost.MicroDollars,
		})
		without := func(most stepkind.Amount, used int64, rest *stepkind.Amount) {
			if most.Unbounded == "" {
				*rest = rest.AtMost(max(0, most.N-used))
			}
		}
		without(total.Steps.Worst, answered.Steps, &out.Steps)
		without(total.ToolCalls.Worst, answered.ToolCalls, &out.ToolCalls)
		without(total.Tokens.Worst, answered.InputTokens+answered.OutputTokens, &out.Tokens)
		if total.Money.Known {
			out.Money.AtMost = min(out.Money.AtMost, max(0, total.Money.AtMost-answered.MicroDollars))
		}
	}
	// What is left of the budget of money is a bound, too, unless an external agent makes calls that no budget bounds.
	if bound := limits.MicroDollars; bound != nil && !rest.External {
		left := max(0, *bound-used.MicroDollars)
		if !out.Money.Known || out.Money.AtMost > left {
			out.Money.Known, out.Money.AtMost = true, left
		}
	}
	return out, nil
}

// position returns the step that a frame is at. If a fallback runs, that is the step that it replaces.
func position(f *plan.Frame) string { return cmp.Or(f.For, f.Step) }

// budgetLeft returns what is left of a budget.
func budgetLeft(b ir.Budget, used journal.Usage) ir.Budget {
	less := func(limit *ir.Limit, used int64) *ir.Limit {
		if limit == nil {
			return nil
		}
		return &ir.Limit{Max: max(0, limit.Max-used)}
	}
	b.Steps, b.ToolCalls = less(b.Steps, used.Steps), less(b.ToolCalls, used.ToolCalls)
	b.Tokens = less(b.Tokens, used.InputTokens+used.OutputTokens)
	return b
}

// budgetOf returns the limits of a run, which may have been raised, as a budget.
func budgetOf(l journal.Limits) ir.Budget {
	limit := func(n *int64) *ir.Limit {
		if n == nil {
			return nil
		}
		return &ir.Limit{Max: *n}
	}
	return ir.Budget{
		Steps: limit(l.Steps), ToolCalls: limit(l.ToolCalls), Tokens: limit(l.Tokens),
		ActiveSeconds: limit(l.ActiveSeconds), MicroDollars: limit(l.MicroDollars),
	}
}

// estimateRun computes what a run of a program with recorded options can use.
func (env *environment) estimateRun(p *ir.Program, options json.RawMessage) (*Cost, error) {
	var o registry.RunOptions
	if len(options) > 0 {
		if err := json.Unmarshal(options, &o); err != nil {
			return nil, err
		}
	}
	if o.Simulate || o.Script != "" { // no external agent does a step
		return &Cost{Report: check.Estimate(p, catalog.Kinds()), Money: Money{Known: true}}, nil
	}
	chosen := func(asked string) string { return cmp.Or(o.Model, asked, o.DefaultModel) }
	report := estimate(p, env, chosen)
	return &Cost{Report: report, Money: money(p, report, env.models, chosen)}, nil
}

// estimate computes what a run of a program can use. model returns the model that is used instead of the one that a
// step names.
func estimate(p *ir.Program, env *environment, model func(asked string) string) check.Report {
	return check.EstimateWith(p, catalog.Kinds(), check.Known{
		Program: func(asked string) string {
			choice, problem := env.models.Choose(model(asked))
			if problem != nil {
				return ""
			}
			return choice.Program()
		},
		Approval: func(tool string) (time.Duration, bool) { return registry.Approval(p, env.settings.Config, tool) },
	})
}

// repeats returns how often a model call is repeated at most after failures of its provider.
func repeats(r check.Report, models *registry.Models, model string) int {
	most := 0
	names := xslices.Map(r.PerAgent, func(a check.AgentCost) string { return a.Model })
	for _, name := range append(names, "") { // "" is for steps that have no agent
		choice, _ := models.Choose(cmp.Or(model, name)) // an unknown provider has the usual limit
		most = max(most, choice.Retries())
	}
	return most
}

// money adds up what models cost at worst. The shares of agents add up to no less than any run can cost. A bound of all
// tokens, such as that of a budget, is a bound of money as well: all of them at the highest price. model returns the
// model that is used instead of the one that a step names.
func money(p *ir.Program, r check.Report, models *registry.Models, model func(asked string) string) Money {
	out := Money{Agents: map[string]int64{}}
	if limit := p.Budget.MicroDollars; limit != nil {
		out.Limit = limit.Max
	}
	var unpriced, unbounded string // why
	dearest := int64(0)            // what all tokens cost at the highest price
	add := func(name, asked string, prompt, reply stepkind.Amount) {
		choice, problem := models.Choose(model(asked))
		if problem != nil {
			unpriced = cmp.Or(unpriced, problem.Message)
			return
		}
		p, known := models.Price(choice)
		if !slices.Contains(out.Models, choice.String()) {
			out.Models = append(out.Models, choice.String())
			if _, ok := models.ConfiguredPrice(choice); ok {
				out.Configured = append(out.Configured, choice.String())
			} else if known {
				out.Prices = price.Date()
			}
		}
		if !known {
			unpriced = cmp.Or(unpriced, fmt.Sprintf("the price of %s is not known", choice))
			return
		}
		dearest = max(dearest, p.AnyTokens(r.Tokens.Worst.N))
		if because := cmp.Or(prompt.Unbounded, reply.Unbounded); because != "" {
			unbounded = cmp.Or(unbounded, because)
			return
		}
		worst := p.Worst(prompt.N, reply.N)
		out.AtMost += worst
		if name != "" {
			out.Agents[name] = worst
		}
	}
	// Add up the agents, and then the steps that ask a model without one.
	for _, c := range r.PerAgent {
		add(c.Agent, c.Model, c.PromptTokens, c.ReplyTokens)
	}
	var rest stepkind.Cost // of steps that have no agent
	for i := range r.PerStep {
		if s := &r.PerStep[i]; s.Bound.Agent == "" {
			rest.PromptTokens = rest.PromptTokens.Plus(s.Worst.PromptTokens)
			rest.ReplyTokens = rest.ReplyTokens.Plus(s.Worst.ReplyTokens)
		}
	}
	if rest != (stepkind.Cost{}) {
		add("", "", rest.PromptTokens, rest.ReplyTokens)
	}
	// The result is known only if every price is, and if each share has a bound or all tokens together have one.
	bounded := r.Tokens.Worst.Unbounded == ""
	switch {
	case unpriced != "":
		out.Because = unpriced
	case unbounded != "" && !bounded:
		out.Because = unbounded
	case unbounded != "":
		out.Known, out.AtMost = true, dearest
	default:
		out.Known = true
		if bounded {
			out.AtMost = min(out.AtMost, dearest)
		}
	}
	if !out.Known {
		out.AtMost = 0
		return out
	}
	if p.Budget.MicroDollars != nil {
		out.Verdict = check.ShouldFit
		if out.AtMost > out.Limit {
			out.Verdict = check.MayExceed
		}
	}
	return out
}
