package tool

import (
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
)

// Grant is a tool that an agent outside may use by itself. Only are the calls
// that it may make, Never those that it may not, as entries such as
// "Bash(git *)"; none are all calls, and none.
type Grant struct {
	Tool        string
	Only, Never []string
}

// Granted returns those of an agent's own tools that a caller may use, as the gate
// would decide. What a list of the workflow and one of the agent say about
// arguments is granted where they say the same.
func Granted(who Caller, own []string) []Grant {
	var out []Grant
	for _, name := range own {
		if who.Agent == nil || who.Refusal(name, nil) != "" {
			continue
		}
		g := Grant{Tool: name, Only: narrowed(who.Agent.Tools, name)}
		if p := who.Program; !p.Tools.AllowAll {
			switch allowed := narrowed(p.Tools.Allow, name); {
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

// Foreign returns the tools that an agent asks for by name, may call and does not
// have among its own.
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

// narrowed returns the entries of a list that mean a tool; nil when one of them
// means it whatever the arguments.
func narrowed(list []ir.Name, name string) []string {
	var out []string
	for _, n := range list {
		if !ir.MatchesTool(n.Name, name) {
			continue
		}
		if narrow(n.Name).all {
			return nil
		}
		out = append(out, entry(name, n.Name))
	}
	return out
}

// entry returns an entry of a list about one tool, which may be spelt as a pattern.
func entry(name, written string) string {
	in := narrow(written)
	if in.all {
		return name
	}
	return name + "(" + strings.TrimSpace(in.text) + ")"
}
