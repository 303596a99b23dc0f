package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/stepkind"
	"github.com/espalier-run/espalier/internal/xslices"
)

// agents reports references to agents that do not exist, and agents that no step uses.
func (c *checker) agents() {
	var there []string
	for i := range c.p.Agents {
		if !c.p.Agents[i].Implied {
			there = append(there, c.p.Agents[i].ID)
		}
	}
	used := map[string]bool{}
	reported := firstUses{list: &c.list}
	for _, t := range c.found {
		for _, a := range t.uses.Agents {
			used[a.Name] = true
			if c.p.Agent(a.Name) != nil {
				continue
			}
			used[diag.Nearest(a.Name, there)] = true // probably the intended agent
			at := cmp.Or(a.Span, t.step.Span)
			reported.report(a.Name, at, "also asked here", func() { c.noAgent(a.Name, at, there) })
		}
	}
	for i := range c.p.Agents {
		a := &c.p.Agents[i]
		// A workflow without steps has another diagnostic, and a step that was not read may use the agent.
		if !a.Implied && !used[a.ID] && len(c.found) > 0 && !c.p.Unread.Steps {
			c.missing(a.ID, CodeUnusedAgent, diag.Warning, a.Span,
				fmt.Sprintf("Name it in the step that it is meant for (\"agent: %s\"), or remove it.", a.ID),
				"No step uses agent %q.", a.ID)
		}
	}
}

// noAgent reports an agent that does not exist.
func (c *checker) noAgent(name string, at source.Span, there []string) {
	help := diag.DidYouMean(name, there)
	if len(there) == 0 {
		help = fmt.Sprintf("Define an agent %q with a role and a goal.", name)
	}
	near := diag.Nearest(name, there)
	found := c.missing(name, CodeNoAgent, diag.Error, at, help, "There is no agent %q.", name)
	found.Replace(name, near)
	if agent := c.p.Agent(near); agent != nil {
		found.Relate(agent.Span, "defined here")
	}
}

// tools reports tools that the workflow's own lists deny.
func (c *checker) tools() {
	c.toolNames()
	for _, t := range c.found {
		c.refusals(t.uses.Tools, diag.Error, t.step.Span, "Step %q cannot call %q: %s.", t.step.ID)
	}
	for i := range c.p.Agents {
		a := &c.p.Agents[i]
		c.refusals(a.Tools, diag.Warning, a.Span, "Agent %q will not get the tool %q: %s.", a.ID)
	}
	for _, deny := range c.p.Tools.Deny {
		for _, allow := range c.p.Tools.Allow {
			if allow.Name == deny.Name {
				c.add(CodeToolRefused, diag.Warning, deny.Span, "Take it off one of the two lists.",
					"%q is on the allowlist and on the denylist; the denylist wins.", deny.Name).
					Relate(allow.Span, "allowed here")
			}
		}
	}
	c.workers()
}

// refusals reports the tools of a step or an agent that the workflow's lists deny.
func (c *checker) refusals(tools []ir.Name, severity diag.Severity, user source.Span, message, id string) {
	for _, name := range tools {
		if why, at := c.refused(name.Name); why != "" {
			c.add(CodeToolRefused, severity, cmp.Or(name.Span, user), c.toolHelp(name.Name), message, id, name.Name,
				why).Relate(at, "refused here").Replace(name.Name, c.toolMeant(name.Name))
		}
	}
}

// toolNames reports invalid tool names in the lists of the workflow and of explicitly declared agents. An entry may end
// in a pattern, or restrict the tool in brackets.
func (c *checker) toolNames() {
	look := func(list []ir.Name) {
		for _, one := range list {
			name := one.Name
			if before, _, ok := strings.Cut(name, "("); ok && strings.HasSuffix(name, ")") {
				name = before
			}
			if name = strings.ReplaceAll(name, "*", "x"); !stepkind.IsToolName(name) {
				c.add(stepkind.CodeToolName, diag.Error, one.Span, stepkind.ToolNameHelp+".",
					"%q cannot be the name of a tool.", one.Name)
			}
		}
	}
	look(c.p.Tools.Allow)
	look(c.p.Tools.Deny)
	for i := range c.p.Agents {
		if !c.p.Agents[i].Implied {
			look(c.p.Agents[i].Tools)
		}
	}
}

// workers reports agents with tools that run in a branch, where tools are not available.
func (c *checker) workers() {
	if c.p.Tools.WorkersMayUse {
		return
	}
	for _, t := range c.found {
		if !c.inBranch(t.block) {
			continue
		}
		for _, name := range t.uses.Agents {
			if a := c.p.Agent(name.Name); a != nil && len(a.Tools) > 0 {
				c.add(CodeWorkerTools, diag.Warning, cmp.Or(name.Span, t.step.Span),
					"Set workers_can_call_tools to true under tools, or give the work to an agent without tools.",
					"Agent %q has tools, but as a worker it will not get them.", a.ID).Relate(a.Span, "the agent")
			}
		}
	}
}

// inBranch reports whether a block runs inside a fan-out, at any depth.
func (c *checker) inBranch(b ir.BlockID) bool {
	for up := range c.flow.around(b) {
		if !up.loop {
			return true
		}
	}
	return false
}

// onDenylist is a reason of refused that toolHelp recognizes.
const onDenylist = "it is on the denylist"

// refused returns why a tool may not be called, and the place of that rule.
func (c *checker) refused(name string) (why string, at source.Span) {
	t := &c.p.Tools
	for _, deny := range t.Deny {
		// An entry with arguments denies some calls, which is decided when the tool is called.
		if _, restricted := ir.ToolArguments(deny.Name); !restricted && ir.MatchesTool(deny.Name, name) {
			return onDenylist, deny.Span
		}
	}
	if !t.AllowAll && !slices.ContainsFunc(t.Allow, func(n ir.Name) bool { return ir.MatchesTool(n.Name, name) }) {
		return "it is not on the allowlist", source.Span{}
	}
	return "", source.Span{}
}

// toolMeant returns the allowed tool that was probably intended, or "".
func (c *checker) toolMeant(name string) string {
	allowed := xslices.Map(c.p.Tools.Allow, func(one ir.Name) string { return one.Name })
	return diag.Nearest(name, slices.DeleteFunc(allowed, func(one string) bool { return one == name }))
}

// toolHelp returns how to allow a refused tool.
func (c *checker) toolHelp(name string) string {
	if near := c.toolMeant(name); near != "" {
		return fmt.Sprintf("Did you mean %q?", near)
	}
	if why, _ := c.refused(name); why == onDenylist {
		return "Take it off the denylist, or do without it."
	}
	return fmt.Sprintf("Add %q to the allowlist, or do without it.", name)
}
