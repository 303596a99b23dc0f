package tool

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
)

// Caller is the agent or step that calls a tool. Lists of a workflow restrict calls by the name of the tool and, in
// brackets, by its arguments.
type Caller struct {
	Program *ir.Program
	Step    *ir.Step
	Agent   *ir.Agent // nil if the step itself calls
}

// Refusal returns why a call is denied, or "" if it is allowed. An agent may call the tools that it lists, a step those
// that it names. The workflow's allowlist and denylist apply to both. Agents in branches of a parallel step may call
// tools only if the workflow allows it. If input is nil, Refusal returns why every call of the tool is denied, or "" if
// some call is allowed.
func (c Caller) Refusal(name string, input json.RawMessage) string {
	p := c.Program
	switch {
	case c.Agent != nil && c.Agent.ID == "":
		return fmt.Sprintf("tool %q: this step has no tools", name)
	case c.Agent != nil &&
		!slices.ContainsFunc(c.Agent.Tools, func(n ir.Name) bool { return ir.MatchesTool(n.Name, name) }):
		return fmt.Sprintf("agent %q has no tool %q", c.Agent.ID, name)
	case c.Agent != nil && !grants(c.Agent.Tools, name, input):
		return fmt.Sprintf("agent %q may call the tool %q only as in %s",
			c.Agent.ID, name, entries(c.Agent.Tools, name))
	case denies(p.Tools.Deny, name, input):
		return fmt.Sprintf("the workflow's denylist has the tool %q", name)
	case !p.Tools.AllowAll && !grants(p.Tools.Allow, name, input):
		return fmt.Sprintf("the workflow's allowlist does not have the tool %q", name)
	case c.Agent != nil && !p.Tools.WorkersMayUse && inBranch(p, c.Step):
		return fmt.Sprintf("tool %q: this workflow does not let parallel branches call tools", name)
	}
	return ""
}

// MayTouch reports whether a tool may access the path that an argument resolves to. The denylist applies to every
// spelling of the path; the allowlists apply if symbolic links were followed.
func (c Caller) MayTouch(name, path string, linked bool) bool {
	input, err := json.Marshal(map[string]string{"path": path})
	switch {
	case err != nil:
		return false
	case linked:
		return c.Refusal(name, input) == ""
	}
	return !denies(c.Program.Tools.Deny, name, input)
}

// grants reports whether an entry of an allowlist allows a call. A call that cannot be judged is not allowed.
func grants(list []ir.Name, name string, input json.RawMessage) bool {
	return slices.ContainsFunc(list, func(n ir.Name) bool {
		return ir.MatchesTool(n.Name, name) && (input == nil || parseEntry(n.Name).admits(ir.ToolName(name), input))
	})
}

// denies reports whether an entry of a denylist denies a call. A call that cannot be judged is denied: patterns of a
// denylist match generously, those of an allowlist strictly.
func denies(list []ir.Name, name string, input json.RawMessage) bool {
	return slices.ContainsFunc(list, func(n ir.Name) bool {
		if !ir.MatchesTool(n.Name, name) {
			return false
		}
		in := parseEntry(n.Name)
		return in.all || input != nil && in.mayMatch(ir.ToolName(name), input)
	})
}

// entries returns the entries of a list that match a tool, for messages.
func entries(list []ir.Name, name string) string {
	var out []string
	for _, n := range list {
		if ir.MatchesTool(n.Name, name) {
			out = append(out, n.Name)
		}
	}
	return strings.Join(out, ", ")
}

// argPattern is the pattern of arguments in a list entry, such as "git *" in "Bash(git *)".
type argPattern struct {
	all  bool // the entry has no pattern: all arguments match
	text string
}

func parseEntry(entry string) argPattern {
	text, restricted := ir.ToolArguments(entry)
	return argPattern{all: !restricted, text: text}
}

// fileTools are the tools whose patterns match a path.
var fileTools = []string{"Read", "Write", "Edit", "Glob", "Grep"}

// folderTools are the fileTools that search everything below the path.
var folderTools = []string{"Glob", "Grep"}

// admits reports whether arguments match the pattern of an allowlist entry. Unparseable arguments are denied.
func (n argPattern) admits(name string, input json.RawMessage) bool {
	if n.all {
		return true
	}
	in, ok := parseArguments(input)
	switch {
	case !ok:
		return false
	case name == "Bash":
		return n.plainCommand(in.command)
	case slices.Contains(fileTools, name):
		return n.path(in.path)
	case in.url != "":
		return n.host(in.url)
	}
	return false
}

// mayMatch reports whether arguments may match the pattern of a denylist entry. Unparseable arguments count as a match.
// A command matches if it has the text anywhere, without regard to quotes: a shell can be told to run it in many ways.
func (n argPattern) mayMatch(name string, input json.RawMessage) bool {
	in, ok := parseArguments(input)
	switch {
	case n.all || !ok:
		return true
	case name == "Bash":
		text, _ := n.command()
		return strings.Contains(withoutQuotes(in.command), withoutQuotes(text))
	case slices.Contains(fileTools, name):
		return n.mayReach(in.path, slices.Contains(folderTools, name))
	case in.url != "" && strings.HasPrefix(n.text, domain):
		_, err := url.Parse(in.url)
		return err != nil || n.host(in.url)
	}
	return true
}

// arguments holds the arguments that patterns can match.
type arguments struct{ command, path, url string }

// parseArguments returns the arguments with exactly these names, as servers read them: encoding/json alone would accept
// "URL" for "url". It returns false if one of them is not a string.
func parseArguments(input json.RawMessage) (in arguments, ok bool) {
	var all map[string]json.RawMessage
	if json.Unmarshal(input, &all) != nil {
		return in, false
	}
	for name, to := range map[string]*string{"command": &in.command, "path": &in.path, "url": &in.url} {
		if raw, has := all[name]; has && json.Unmarshal(raw, to) != nil {
			return in, false
		}
	}
	return in, true
}

// withoutQuotes returns a command without quotes and backslashes, and with single spaces.
func withoutQuotes(command string) string {
	return strings.Join(strings.Fields(strings.NewReplacer("'", "", `"`, "", `\`, "").Replace(command)), " ")
}

// command returns the command that the pattern matches; if begins is set, it matches every command with this prefix.
func (n argPattern) command() (text string, begins bool) {
	for _, suffix := range []string{":*", " *", "*"} {
		if prefix, ok := strings.CutSuffix(n.text, suffix); ok {
			return strings.TrimSpace(prefix), true
		}
	}
	return n.text, false
}

// plainCommand reports whether a command matches and is a single one: a shell cannot split it into several, and it has
// no substitutions. A pattern without "*" allows exactly its text, even one with shell syntax.
func (n argPattern) plainCommand(command string) bool {
	text, begins := n.command()
	command = strings.TrimSpace(command)
	if !begins {
		return command == text
	}
	if strings.ContainsAny(command, ";&|<>`$\n\r(){}\\") {
		return false
	}
	rest, ok := strings.CutPrefix(command, text)
	return ok && (rest == "" || rest[0] == ' ' || rest[0] == '\t')
}

// path reports whether a path matches the pattern. Links are not resolved: tools ask again with MayTouch for what a
// link leads to. Paths that lead out never match.
func (n argPattern) path(name string) bool {
	pattern := path.Clean(n.text)
	name = path.Clean(name)
	if name == "." || strings.HasPrefix(name, "..") {
		return false
	}
	return MatchPath(pattern, name)
}

// mayReach reports whether a path can lead to a file that the pattern matches: in another case, as an absolute path, or
// as a parent folder.
func (n argPattern) mayReach(name string, folder bool) bool {
	pattern, name := strings.ToLower(path.Clean(n.text)), strings.ToLower(path.Clean(filepath.ToSlash(name)))
	if strings.HasPrefix(name, "..") {
		return true
	}
	switch absolute := filepath.IsAbs(name); {
	case absolute && !path.IsAbs(pattern):
		pattern = "**/" + pattern
	case !absolute && path.IsAbs(pattern):
		// The relative path may start at any folder of the pattern.
		for parts := strings.Split(pattern, "/")[1:]; len(parts) > 0; parts = parts[1:] {
			if parts[0] != "**" && reaches(strings.Join(parts, "/"), name, folder) {
				return true
			}
		}
		return false
	}
	return reaches(pattern, name, folder)
}

// reaches reports whether a path matches a pattern, or is a folder that may contain a match.
func reaches(pattern, name string, folder bool) bool {
	if MatchPath(pattern, name) || folder && name == "." {
		return true
	}
	for above := path.Dir(pattern); folder && above != "." && above != "/"; above = path.Dir(above) {
		if MatchPath(above, name) {
			return true
		}
	}
	return false
}

// domain is the prefix of patterns that match hosts.
const domain = "domain:"

// host reports whether the host of a URL is the NAME in "domain:NAME" or a subdomain of it.
func (n argPattern) host(text string) bool {
	name, ok := strings.CutPrefix(n.text, domain)
	u, err := url.Parse(text)
	if !ok || err != nil {
		return false
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	name = strings.ToLower(strings.TrimPrefix(strings.TrimSpace(name), "*."))
	return host == name || strings.HasSuffix(host, "."+name)
}

// MatchPath reports whether a path with slashes matches a pattern in which ** matches any number of folders. It keeps
// the set of prefixes of the path that the pattern so far matches instead of backtracking, so patterns with many **
// stay fast.
func MatchPath(pattern, name string) bool {
	parts := strings.Split(name, "/")
	fits := make([]bool, len(parts)+1) // pattern so far against the first n parts
	fits[0] = true
	for p := range strings.SplitSeq(pattern, "/") {
		next := make([]bool, len(parts)+1)
		for n := range next {
			switch {
			case p == "**":
				next[n] = fits[n] || n > 0 && next[n-1]
			case n > 0 && fits[n-1]:
				ok, err := path.Match(p, parts[n-1])
				next[n] = ok && err == nil
			}
		}
		fits = next
	}
	return fits[len(parts)]
}

// inBranch reports whether a step belongs to a branch of a parallel step, also
// inside a loop there.
func inBranch(p *ir.Program, s *ir.Step) bool {
	visited := make([]bool, len(p.Blocks))
	var within func(b ir.BlockID, branch bool) bool
	within = func(b ir.BlockID, branch bool) bool {
		if b < 0 || int(b) >= len(p.Blocks) || visited[b] {
			return false
		}
		visited[b] = true
		for i := range p.Blocks[b].Steps {
			one := &p.Blocks[b].Steps[i]
			if one == s && branch {
				return true
			}
			switch a := one.Action.(type) {
			case ir.Parallel:
				for _, inner := range a.Branches {
					if within(inner.Block, true) {
						return true
					}
				}
				if a.Each != nil && within(a.Each.Block, true) {
					return true
				}
			case ir.Loop:
				if within(a.Block, branch) {
					return true
				}
			}
		}
		return false
	}
	return within(ir.Body, false)
}
