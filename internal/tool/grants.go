package tool

import (
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
)

// Grant is a tool of its own that an external agent may use. Only and Never list the calls that it may and may not
// make, as entries such as "Bash(git *)". Empty Only allows every call; empty Never denies none.
type Grant struct {
	Tool        string
	Only, Never []string
}

// Granted returns which of an external agent's own tools a caller may use, by the rules of [Caller.Refusal]. If both
// the workflow and the agent restrict arguments, only the entries that they share are granted: the intersection of two
// patterns cannot be written as one.
func Granted(who Caller, own []string) []Grant {
	var out []Grant
	for _, name := range own {
		if who.Agent == nil || who.Refusal(name, nil) != "" {
			continue
		}
		g := Grant{Tool: name, Only: restrictions(who.Agent.Tools, name)}
		if p := who.Program; !p.Tools.AllowAll {
			switch allowed := restrictions(p.Tools.Allow, name); {
			case g.Only == nil:
				g.Only = allowed
			case allowed != nil:
				both := slices.DeleteFunc(g.Only, func(entry string) bool { return !slices.Contains(allowed, entry) })
				if len(both) == 0 {
					continue
				}
				g.Only = both
			}
		}
		for _, n := range who.Program.Tools.Deny {
			if ir.MatchesTool(n.Name, name) {
				g.Never = append(g.Never, entry(name, n.Name)) // one without brackets refuses the tool
			}
		}
		out = append(out, g)
	}
	return out
}

// Foreign returns the tools that an agent lists by name and may call, and that are not among its own tools.
func Foreign(who Caller, own []string) []string {
	var out []string
	if who.Agent == nil {
		return nil
	}
	for _, n := range Needed(who.Agent.Tools) {
		if !slices.Contains(own, n.Name) && who.Refusal(n.Name, nil) == "" && !slices.Contains(out, n.Name) {
			out = append(out, n.Name)
		}
	}
	return out
}

// restrictions returns the entries of a list that match a tool; nil if one of them allows all arguments.
func restrictions(list []ir.Name, name string) []string {
	var out []string
	for _, n := range list {
		if !ir.MatchesTool(n.Name, name) {
			continue
		}
		if parseEntry(n.Name).all {
			return nil
		}
		out = append(out, entry(name, n.Name))
	}
	return out
}

// entry returns a list entry, which may have a pattern of names, as an entry for one tool.
func entry(name, written string) string {
	in := parseEntry(written)
	if in.all {
		return name
	}
	return name + "(" + strings.TrimSpace(in.text) + ")"
}
