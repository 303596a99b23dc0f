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
	reported := map[string]int{} // index into the diagnostics, by name
	for _, t := range c.found {
		for _, a := range t.uses.Agents {
			used[a.Name] = true
			if c.p.Agent(a.Name) != nil {
				continue
			}
			used[diag.Nearest(a.Name, there)] = true // probably the intended agent
			if i, ok := reported[a.Name]; ok {
				c.list[i].Related = append(c.list[i].Related,
					diag.Related{Span: cmp.Or(a.Span, t.step.Span), Message: "also asked here"})
				continue
			}
			before := len(c.list)
			c.noAgent(a.Name, cmp.Or(a.Span, t.step.Span), there)
			if len(c.list) > before {
				reported[a.Name] = before
			}
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
		for _, name := range t.uses.Tools {
			if why, at := c.refused(name.Name); why != "" {
				c.add(CodeToolRefused, diag.Error, cmp.Or(name.Span, t.step.Span), c.toolHelp(name.Name),
					"Step %q cannot call %q: %s.", t.step.ID, name.Name, why).Relate(at, "refused here").
					Replace(name.Name, c.toolMeant(name.Name))
			}
		}
	}
	for i := range c.p.Agents {
		a := &c.p.Agents[i]
		for _, name := range a.Tools {
			if why, at := c.refused(name.Name); why != "" {
				c.add(CodeToolRefused, diag.Warning, cmp.Or(name.Span, a.Span), c.toolHelp(name.Name),
					"Agent %q will not get the tool %q: %s.", a.ID, name.Name, why).Relate(at, "refused here").
					Replace(name.Name, c.toolMeant(name.Name))
			}
		}
	}
	for i := range c.p.Tools.Deny {
		deny := &c.p.Tools.Deny[i]
		for j := range c.p.Tools.Allow {
			if c.p.Tools.Allow[j].Name == deny.Name {
				c.add(CodeToolRefused, diag.Warning, deny.Span, "Take it off one of the two lists.",
					"%q is on the allowlist and on the denylist; the denylist wins.", deny.Name).
					Relate(c.p.Tools.Allow[j].Span, "allowed here")
			}
		}
	}
	c.workers()
}

// toolNames reports invalid tool names in the lists of the workflow and of explicitly declared agents. An entry may end
// in a pattern, or restrict the tool in brackets.
func (c *checker) toolNames() {
	look := func(list []ir.Name) {
		for i := range list {
			name := list[i].Name
			if before, _, ok := strings.Cut(name, "("); ok && strings.HasSuffix(name, ")") {
				name = before
			}
			if name = strings.ReplaceAll(name, "*", "x"); !stepkind.IsToolName(name) {
				c.add(stepkind.CodeToolName, diag.Error, list[i].Span, stepkind.ToolNameHelp+".",
					"%q cannot be the name of a tool.", list[i].Name)
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
	for up := c.flow.inside[b]; up.step != nil; up = c.flow.inside[up.block] {
		if !up.loop {
			return true
		}
	}
	return false
}

// refused returns why a tool may not be called, and the place of that rule.
func (c *checker) refused(name string) (why string, at source.Span) {
	t := &c.p.Tools
	for i := range t.Deny {
		// An entry with arguments denies some calls, which is decided when the tool is called.
		if _, restricted := ir.ToolArguments(t.Deny[i].Name); !restricted && ir.MatchesTool(t.Deny[i].Name, name) {
			return "it is on the denylist", t.Deny[i].Span
		}
	}
	if !t.AllowAll && !slices.ContainsFunc(t.Allow, func(n ir.Name) bool { return ir.MatchesTool(n.Name, name) }) {
		return "it is not on the allowlist", source.Span{}
	}
	return "", source.Span{}
}

// toolMeant returns the allowed tool that was probably intended, or "".
func (c *checker) toolMeant(name string) string {
	var allowed []string
	for i := range c.p.Tools.Allow {
		if one := c.p.Tools.Allow[i].Name; one != name {
			allowed = append(allowed, one)
		}
	}
	return diag.Nearest(name, allowed)
}

func (c *checker) toolHelp(name string) string {
	if near := c.toolMeant(name); near != "" {
		return fmt.Sprintf("Did you mean %q?", near)
	}
	if why, _ := c.refused(name); why == "it is on the denylist" {
		return "Take it off the denylist, or do without it."
	}
	return fmt.Sprintf("Add %q to the allowlist, or do without it.", name)
}
