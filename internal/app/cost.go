package app

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/espalier-run/espalier/internal/check"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/price"
	"github.com/espalier-run/espalier/internal/registry"
	"github.com/espalier-run/espalier/internal/stepkind"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Cost is what a run can cost.
type Cost struct {
	check.Report
	// Repeats is how often a model call is repeated at most if the provider fails. Repeated calls are not included.
	Repeats int       `json:"repeats_per_call"`
	Money   Money     `json:"money"`
	Quote   *ir.Quote `json:"quote,omitempty"`
}

// Money is what the models of a workflow can cost. If that is unknown, it says why, rather than give a sum that could
// be wrong.
type Money struct {
	Known   bool   `json:"known"`
	Because string `json:"because,omitempty"`
	// AtMost is in millionths of a dollar.
	AtMost int64            `json:"at_most_micro_dollars,omitempty"`
	Agents map[string]int64 `json:"agents,omitempty"`
	Models []string         `json:"models,omitempty"`
	Prices string           `json:"prices_of,omitempty"` // date of the built-in prices, if one of them is used
	// Configured are the models whose prices the configuration sets.
	Configured []string `json:"configured_prices,omitempty"`
	// Limit is the budget of money, and Verdict how it compares.
	Limit   int64         `json:"limit_micro_dollars,omitempty"`
	Verdict check.Verdict `json:"verdict,omitempty"`
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

// RunCost returns what a run can use in all with the models and the limits that it has.
func (a *App) RunCost(ctx context.Context, r *Run) (*Cost, error) {
	env, err := a.reader(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	state, program, _, err := env.Engine.Load(ctx, cmp.Or(r.Root, r.ID))
	if err != nil {
		return nil, err
	}
	limited := *program.Root()
	if root := state.Root(); root != nil && root.Ledger != nil {
		limited.Budget = budgetOf(root.Ledger.Limits)
	}
	return env.estimateRun(&limited, state.Options)
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
		return &Cost{Report: check.Estimate(p, registry.Kinds()), Money: Money{Known: true}}, nil
	}
	chosen := func(asked string) string { return cmp.Or(o.Model, asked, o.DefaultModel) }
	report := estimate(p, env, chosen)
	return &Cost{Report: report, Money: money(p, report, env.models, chosen)}, nil
}

// estimate computes what a run of a program can use. model returns the model that is used instead of the one that a
// step names.
func estimate(p *ir.Program, env *environment, model func(asked string) string) check.Report {
	return check.EstimateWith(p, registry.Kinds(), check.Known{
		Program: func(asked string) string {
			choice, trouble := env.models.Choose(model(asked))
			if trouble != nil {
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

// money adds up what models cost at worst. The shares of agents add up to no less than any run can cost. model returns
// the model that is used instead of the one that a step names.
func money(p *ir.Program, r check.Report, models *registry.Models, model func(asked string) string) Money {
	out := Money{Agents: map[string]int64{}}
	if limit := p.Budget.MicroDollars; limit != nil {
		out.Limit = limit.Max
	}
	rest := stepkind.Cost{PromptTokens: r.PromptTokens.Worst, ReplyTokens: r.ReplyTokens.Worst}
	limit, dearest := p.Budget.Tokens, int64(0) // what all tokens of the budget cost at the highest price
	add := func(name, asked string, prompt, reply stepkind.Amount) string {
		choice, trouble := models.Choose(model(asked))
		if trouble != nil {
			return trouble.Message
		}
		p, known := models.Price(choice)
		switch {
		case !known:
			return fmt.Sprintf("the price of %s is not known", choice)
		case prompt.Unbounded != "":
			return prompt.Unbounded
		case reply.Unbounded != "":
			return reply.Unbounded
		}
		worst := p.Worst(prompt.N, reply.N)
		if limit != nil {
			most := max(limit.Max, 0)
			dearest = max(dearest, p.Worst(most, 0), p.Worst(0, most))
		}
		out.AtMost += worst
		if name != "" {
			out.Agents[name] = worst
		}
		if !slices.Contains(out.Models, choice.String()) {
			out.Models = append(out.Models, choice.String())
			if _, ok := models.ConfiguredPrice(choice); ok {
				out.Configured = append(out.Configured, choice.String())
			} else {
				out.Prices = price.Date()
			}
		}
		return ""
	}
	for _, c := range r.PerAgent {
		if because := add(c.Agent, c.Model, c.PromptTokens, c.ReplyTokens); because != "" {
			return Money{Because: because, Limit: out.Limit}
		}
		rest.PromptTokens.N -= c.PromptTokens.N
		rest.ReplyTokens.N -= c.ReplyTokens.N
	}
	if rest.PromptTokens.N > 0 || rest.ReplyTokens.N > 0 { // of steps that have no agent
		rest.PromptTokens.N, rest.ReplyTokens.N = max(0, rest.PromptTokens.N), max(0, rest.ReplyTokens.N)
		if because := add("", "", rest.PromptTokens, rest.ReplyTokens); because != "" {
			return Money{Because: because, Limit: out.Limit}
		}
	}
	out.Known = true
	if limit != nil {
		out.AtMost = min(out.AtMost, dearest)
	}
	if p.Budget.MicroDollars != nil {
		out.Verdict = check.ShouldFit
		if out.AtMost > out.Limit {
			out.Verdict = check.MayExceed
		}
	}
	return out
}
