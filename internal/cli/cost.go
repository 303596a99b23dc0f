package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/check"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/price"
	"github.com/espalier-run/espalier/internal/stepkind"
	"github.com/espalier-run/espalier/internal/xslices"
)

type costReport struct {
	Name string `json:"name"`
	Path string `json:"path"`
	*app.Cost
}

func (a *invocation) costCommand() *cobra.Command {
	var model string
	cmd := a.jsonFlag(a.ofWorkflow(&cobra.Command{
		Use:   "cost WORKFLOW [--model MODEL] [--json]",
		Short: "Compute the worst-case cost of a run",
		Long: `Compute what a run uses if every step succeeds at the first attempt (base), and
at most, over all paths, retries, fallbacks and loops (worst). The report lists
each step and each agent, and compares the totals with the declared budgets.
Tokens of prompts, and money, are estimates; other amounts are bounds. Times are
the sums of the timeouts of calls. Prices are those of the models that --model,
the workflow or the configuration names.`,
	}, func(an *app.Analysis) error {
		cost, err := a.app().Cost(an, model)
		if err != nil {
			return err
		}
		report := costReport{Name: an.Name(), Path: an.File.Path, Cost: cost}
		return a.print(report, func() { a.printCost(report) })
	}))
	cmd.Flags().StringVar(&model, "model", "", "compute with the prices of this `MODEL`")
	cmd.RegisterFlagCompletionFunc("model", offer(pricedModels))
	return cmd
}

// printCost prints a report. Bounds, estimates and sums of time limits are different things, so each has a section or a
// note that says which of them it is.
func (a *invocation) printCost(r costReport) {
	p := a.page()
	p.title(r.Name, "what a run can cost")
	p.tableSection("In all", amountsTable(r.Report))
	p.tableSection("Time", timesTable(r.Report))
	p.section("At worst, by step")
	p.table(perStepTable(r.PerStep))
	p.tableSection("At worst, by agent", perAgentTable(r.PerAgent, r.Money))
	if r.Quote != nil {
		p.section("By the price list of the format")
		p.table(quoteTable(r.Quote))
		for _, line := range quoteLines(r.Quote) {
			p.text(line)
		}
	}
	p.section("Budgets")
	if len(r.Budgets) == 0 && r.Money.Limit == 0 {
		p.text(fmt.Sprintf("No budget is declared: only the steps themselves bound a run, and the cap of %s visits "+
			"of each step.", stepkind.N(ir.VisitCap)))
	} else {
		p.table(budgetTable(r.Budgets, r.Money))
		for _, b := range r.Budgets {
			if b.Because != "" {
				name := strings.TrimSpace(check.ScopeName(b.Scope) + " " + b.Name)
				p.text(sentence(fmt.Sprintf("%s: %s", name, b.Because)))
			}
		}
	}
	p.section("Notes")
	for _, reason := range unboundedReasons(r.Report) {
		p.text("Unbounded: " + sentence(reason))
	}
	if slices.ContainsFunc(r.PerAgent, func(c check.AgentCost) bool { return c.ToolCalls != stepkind.Amount{} }) {
		p.text(fmt.Sprintf("An agent with tools makes up to %d model calls in one attempt of a step, unless the file "+
			"sets another number, with up to %d tool calls after each of them. Every call resends the conversation "+
			"so far. Replies that break their contract add up to %d calls.",
			stepkind.DefaultMaxTurns, stepkind.MaxCallsPerTurn, stepkind.RepairCalls))
	}
	if calls := r.ModelCalls.Worst; r.Repeats > 0 && calls.Unbounded == "" && calls.N > 0 {
		p.text(fmt.Sprintf("If the provider fails, each model call is repeated up to %d times; repeats are not "+
			"included: at most %s.", r.Repeats, calls.Times(int64(r.Repeats))))
	}
	switch m := r.Money; {
	case !m.Known:
		p.text("Money is unknown: " + sentence(m.Because))
	case len(m.Models) == 0:
		p.text("At most $0.00: no step calls a model.")
	default:
		text := fmt.Sprintf("At most %s (estimate), with %s.", price.Dollars(m.AtMost), pricesUsed(&m))
		if m.Limit > 0 {
			text += fmt.Sprintf(" The budget of %s %s.", price.Dollars(m.Limit),
				map[check.Verdict]string{
					check.ShouldFit: "should be enough", check.MayExceed: "may stop a run",
				}[m.Verdict])
		}
		p.text(text)
	}
	p.print()
}

// pricesUsed says where the prices of models come from: the built-in ones have a date.
func pricesUsed(m *app.Money) string {
	var used []string
	builtIn := slices.DeleteFunc(slices.Clone(m.Models), func(model string) bool {
		return slices.Contains(m.Configured, model)
	})
	if len(builtIn) > 0 {
		used = append(used, fmt.Sprintf("the prices of %s as of %s", strings.Join(builtIn, ", "), m.Prices))
	}
	if len(m.Configured) > 0 {
		used = append(used, "your prices of "+strings.Join(m.Configured, ", "))
	}
	return strings.Join(used, " and ")
}

// quoteTable is the price of each agent, and of all.
func quoteTable(q *ir.Quote) table {
	t := table{
		header: []string{"AGENT", "TIER", "A CALL", "CALLS", "BASE", "AT MOST", "WORST"},
		right:  []int{2, 3, 4, 5, 6},
	}
	for _, line := range q.Lines {
		calls, worst := stepkind.N(line.Worst).String(), dollars(line.Price*line.Worst)
		if slices.Contains(q.Unbounded, line.Agent) {
			calls, worst = "unbounded", "unbounded"
		}
		t.add(line.Agent, line.Tier, dollars(line.Price), stepkind.N(line.Calls).String(),
			dollars(line.Price*line.Calls), calls, worst)
	}
	worst := dollars(q.Worst)
	if len(q.Unbounded) > 0 {
		worst = "unbounded"
	}
	t.add("in all", "", "", "", dollars(q.Base), "", worst)
	return t
}

// quoteLines compare the sum with what the file says.
func quoteLines(q *ir.Quote) []string {
	var out []string
	if len(q.Unpriced) > 0 {
		out = append(out, "Without a price: "+strings.Join(q.Unpriced, ", ")+".")
	}
	if len(q.Unbounded) > 0 {
		out = append(out, "The code has no bound for its calls, so there is no worst case: "+
			strings.Join(q.Unbounded, ", ")+".")
	} else if q.Stated != nil {
		verdict := "which is the worst case"
		if q.Stated.Max != q.Worst {
			verdict = "which is not the worst case"
		}
		out = append(out, fmt.Sprintf("The file states %s, %s.", dollars(q.Stated.Max), verdict))
	}
	for _, c := range q.Ceilings {
		verdict := "the worst case stays below it"
		if c.Max < q.Worst || len(q.Unbounded) > 0 {
			verdict = "the worst case exceeds it"
		}
		out = append(out, fmt.Sprintf("The prose names a ceiling of %s; %s.", dollars(c.Max), verdict))
	}
	return append(out, q.Notes...)
}

// dollars writes millionths of a dollar with as many digits as they have.
func dollars(micro int64) string {
	cents, rest := micro/10_000, strings.TrimRight(fmt.Sprintf("%04d", micro%10_000), "0")
	return fmt.Sprintf("$%d.%02d%s", cents/100, cents%100, rest)
}

func amountsTable(r check.Report) table {
	t := table{header: []string{"", "BASE", "WORST"}, right: []int{1, 2}}
	for _, line := range []struct {
		name string
		r    check.Range
	}{
		{"steps", r.Steps},
		{"model calls", r.ModelCalls},
		{"tool calls", r.ToolCalls},
		{"prompt tokens (estimate)", r.PromptTokens},
		{"reply tokens", r.ReplyTokens},
	} {
		t.add(line.name, line.r.Base.String(), line.r.Worst.String())
	}
	return t
}

// timesTable has the times apart from the amounts: they are sums of time limits, not bounds.
func timesTable(r check.Report) table {
	t := table{header: []string{"", "USUAL", "AT LIMITS"}, right: []int{1, 2}}
	t.add("active", amountOfTime(r.ActiveSeconds.Base), amountOfTime(r.ActiveSeconds.Worst))
	t.add("waiting for people and events", amountOfTime(r.WaitSeconds.Base), amountOfTime(r.WaitSeconds.Worst))
	return t
}

func perStepTable(steps []check.StepCost) table {
	t := table{
		header: []string{"STEP", "STARTS", "CALLS", "TOOLS", "PROMPT", "REPLY", "ACTIVE"},
		right:  []int{1, 2, 3, 4, 5, 6},
	}
	for _, s := range steps {
		t.add(cmp.Or(s.Label, s.Step), s.Starts.String(), orDash(s.Worst.ModelCalls),
			orDash(s.Worst.ToolCalls),
			orDash(s.Worst.PromptTokens), orDash(s.Worst.ReplyTokens), amountOfTime(s.Worst.ActiveSeconds))
	}
	return t
}

func perAgentTable(agents []check.AgentCost, m app.Money) table {
	t := table{
		header: []string{"AGENT", "MODEL", "CALLS", "TOOLS", "PROMPT", "REPLY", "TOKENS", "MONEY"},
		right:  []int{2, 3, 4, 5, 6, 7},
	}
	for _, c := range agents {
		t.add(c.Agent, c.Model, orDash(c.ModelCalls), orDash(c.ToolCalls), orDash(c.PromptTokens),
			orDash(c.ReplyTokens), orDash(c.Tokens), moneyOf(&m, &c))
	}
	return t
}

// moneyOf returns the share of an agent without budgets, as the other columns are.
func moneyOf(m *app.Money, c *check.AgentCost) string {
	share, known := m.Agents[c.Agent]
	switch {
	case known:
		return price.Dollars(share)
	case c.Tokens.Unbounded != "":
		return c.Tokens.String()
	}
	return "unknown"
}

func budgetTable(budgets []check.BudgetLine, money app.Money) table {
	t := table{header: []string{"BUDGET", "OF", "LIMIT", "BASE", "UNLIMITED", "VERDICT"}, right: []int{2, 3, 4}}
	for _, b := range budgets {
		of := cmp.Or(check.ScopeName(b.Scope), "the run")
		t.add(b.Name, of, stepkind.N(b.Limit).String(), b.Base.String(), b.Worst.String(), string(b.Verdict))
	}
	if money.Limit > 0 {
		worst := "unknown"
		if money.Known {
			worst = price.Dollars(money.AtMost)
		}
		t.add("cost", "the run", price.Dollars(money.Limit), "-", worst, cmp.Or(string(money.Verdict), "unknown"))
	}
	return t
}

// orDash returns an amount, or "-" for zero.
func orDash(a stepkind.Amount) string {
	if a == (stepkind.Amount{}) {
		return "-"
	}
	return a.String()
}

func amountOfTime(a stepkind.Amount) string {
	if a.Unbounded != "" {
		return a.String()
	}
	return seconds(a.N)
}

// seconds writes a time as people say it, in at most two units.
func seconds(n int64) string {
	if n == 0 {
		return "-"
	}
	units := []struct {
		name string
		size int64
	}{{"d", 86400}, {"h", 3600}, {"min", 60}, {"s", 1}}
	for i, u := range units {
		if n < u.size {
			continue
		}
		text := fmt.Sprintf("%s %s", stepkind.N(n/u.size), u.name)
		if rest := n % u.size; rest > 0 && i+1 < len(units) && rest/units[i+1].size > 0 {
			text += fmt.Sprintf(" %d %s", rest/units[i+1].size, units[i+1].name)
		}
		return text
	}
	return ""
}

// unboundedReasons lists why figures have no bound, each reason once.
func unboundedReasons(r check.Report) []string {
	var out []string
	for _, one := range []check.Range{
		r.Steps, r.ModelCalls, r.ToolCalls, r.PromptTokens, r.ReplyTokens, r.Tokens, r.ActiveSeconds, r.WaitSeconds,
	} {
		for _, amount := range []stepkind.Amount{one.Base, one.Worst} {
			if reason := amount.Unbounded; reason != "" {
				out = xslices.AppendNew(out, reason)
			}
		}
	}
	return out
}
