package registry

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/stepkind"
	"github.com/espalier-run/espalier/internal/tool"
)

// MissingDependency is something that steps need and that is not available.
type MissingDependency struct {
	Problem
	Steps []string `json:"steps"`
}

// modelUse is a model that a step calls.
type modelUse struct {
	step  string
	model string // its name in the workflow
	// options are those of the agent.
	options json.RawMessage
	late    bool // the model is known only when the step runs
	money   bool // a cost budget applies
	who     tool.Caller
}

// modelUses returns the models that the steps of a program, and of those that it calls, ask. A step whose bound has no
// model calls asks none, also if it names an agent.
func modelUses(p *ir.Program) []modelUse {
	var out []modelUse
	for t := range tasks(p) {
		bound := stepkind.BoundOf(t.kind, t.program, t.step, t.Task)
		if bound.Worst.ModelCalls == (stepkind.Amount{}) {
			continue
		}
		use := modelUse{
			step: t.prefix + t.place, who: tool.Caller{Program: t.program, Step: t.step},
			money: t.money || t.program.BranchCapsMoney(), // all prices must be known
		}
		names := t.kind.Uses(t.Task).Agents
		if len(names) == 0 {
			use.model = bound.Model
			out = append(out, use)
		}
		for _, name := range names {
			a := use
			if agent := t.program.Agent(name.Name); agent != nil {
				a.who.Agent = agent
				a.model, a.options, a.late = agent.ModelName(), agent.Options, agent.Late
			}
			out = append(out, a)
		}
	}
	return out
}

// Missing returns the models, keys and prices that a program's steps need and that are not available, without
// duplicates. With o.Unready, missing models and keys are accepted; consent and prices are not, because commands would
// run and budgets would not hold.
func (m *Models) Missing(p *ir.Program, o RunOptions) []MissingDependency {
	r := router{models: m, override: o.Model, fallback: o.DefaultModel, sandbox: o.Sandbox}
	var out []MissingDependency
	add := func(step string, t *Problem) { out = addMissing(out, step, *t) }
	for _, a := range modelUses(p) {
		if a.late && o.Model == "" {
			continue // not known yet
		}
		choice, problem := m.ChooseWith(r.name(a.model), a.options)
		if problem != nil {
			if !o.Unready {
				add(a.step, problem)
			}
			continue
		}
		if t := m.lacksKey(choice.server); t != nil && !o.Unready {
			add(a.step, t)
		}
		if c := choice.server.cli; c != nil {
			if t := m.lacksConsent(c, o.AllowShell); t != nil {
				add(a.step, t)
			}
			if _, problem := step.Grants(m.agentInfo(c, o.Sandbox), a.who); problem != "" {
				add(a.step, problemf("Give the agent other tools, or the step a model that is not a program: its "+
					"tools are called through Espalier.", "%s", problem))
			}
		}
		if _, known := m.Price(choice); a.money && !known {
			add(a.step, problemf(
				fmt.Sprintf("Add its price to %s: prices: {%s: {input: …, output: …}}.", config.FileName, choice),
				"the price of %s is not known, and there is a cost budget", choice))
		}
	}
	return out
}

// Billing reports whether the models that a run asks have known prices, and whether any of them can cost money. A model
// that is known only when its step runs has no known price.
func (m *Models) Billing(p *ir.Program, o RunOptions) (priced, billed bool) {
	r := router{models: m, override: o.Model, fallback: o.DefaultModel}
	priced = true
	for _, a := range modelUses(p) {
		choice, problem := m.ChooseWith(r.name(a.model), a.options)
		if problem != nil || a.late && o.Model == "" {
			priced, billed = false, true
			continue
		}
		rates, known := m.Price(choice)
		priced = priced && known
		billed = billed || !known || rates.Worst(1_000_000, 1_000_000) > 0
	}
	return priced, billed
}

// Ignored returns a sentence for each agent that sets options which its model does not have.
func (m *Models) Ignored(p *ir.Program, o RunOptions) []string {
	if len(p.Agents) == 0 && len(p.Children) == 0 {
		return nil
	}
	r := router{models: m, override: o.Model, fallback: o.DefaultModel}
	var out []string
	for _, a := range modelUses(p) {
		if a.who.Agent == nil || a.late && o.Model == "" {
			continue
		}
		choice, problem := m.ChooseWith(r.name(a.model), a.options)
		if problem != nil {
			continue
		}
		options := withoutAddress(a.options)
		names := keys(options) // programs take no options
		if choice.server.cli == nil {
			names = choice.optionNames().Ignored(options)
		}
		if len(names) == 0 {
			continue
		}
		text := fmt.Sprintf("The agent %q sets %s, which %s does not have: it is left out.", a.who.Agent.ID,
			strings.Join(names, ", "), choice)
		if !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}

// keys returns the names of an object, sorted.
func keys(object json.RawMessage) []string {
	var all map[string]json.RawMessage
	if json.Unmarshal(object, &all) != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(all))
}

// ApplyDefaults fills in the configured defaults of agents. It is done before a program is checked, priced and pinned,
// so that all of these agree.
func ApplyDefaults(p *ir.Program, c *config.Config) {
	for one := range p.All() {
		for i := range one.Agents {
			a := &one.Agents[i]
			a.MaxTokens = cmp.Or(a.MaxTokens, int(c.Defaults.MaxTokens))
			for _, tier := range c.Models.Tiers {
				if a.ModelName() == "" && a.Tier == tier.Name {
					a.Model = tier.Value.Value
				}
			}
		}
	}
}

// Text returns the dependency with its steps, for people.
func (l MissingDependency) Text() string {
	return fmt.Sprintf("%s (%s)", l.Message, strings.Join(l.Steps, ", "))
}
