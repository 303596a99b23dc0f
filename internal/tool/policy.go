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

// Caller is the agent or step that calls a tool.
type Caller struct {
	Program *ir.Program
	Step    *ir.Step
	Agent   *ir.Agent // nil outside of agents
}

// Refusal says why a tool must not be called, "" when it may be: an agent has
// the tools that it lists, all others are for steps that name them; the
// workflow's own lists hold for both, and branches of a parallel step may use
// tools only when the workflow says so (F26). Without an input it is about the
// tool as such: whether there is any call that may be made.
func (c Caller) Refusal(name string, input json.RawMessage) string {
	p := c.Program
	switch {
	case c.Agent != nil && c.Agent.ID == "":
		return fmt.Sprintf("there are no tools here, so no %q either", name)
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
		return fmt.Sprintf("workers may not call tools in this workflow, so not %q either", name)
	}
	return ""
}

// MayTouch reports whether a tool may be called with the path that an argument
// leads to: the denylist holds for it however the argument is written, and the
// lists that allow something hold for where symbolic links lead.
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

// grants reports whether an entry of a list lets a call be made.
func grants(list []ir.Name, name string, input json.RawMessage) bool {
	return slices.ContainsFunc(list, func(n ir.Name) bool {
		return ir.MatchesTool(n.Name, name) && (input == nil || narrow(n.Name).admits(ir.ToolName(name), input))
	})
}

// denies reports whether an entry of a list keeps a call from being made. One
// that is not understood keeps all of them.
func denies(list []ir.Name, name string, input json.RawMessage) bool {
	return slices.ContainsFunc(list, func(n ir.Name) bool {
		if !ir.MatchesTool(n.Name, name) {
			return false
		}
		in := narrow(n.Name)
		return in.all || input != nil && in.concerns(ir.ToolName(name), input)
	})
}

// entries returns those of a list that mean a tool, for people.
func entries(list []ir.Name, name string) string {
	var out []string
	for _, n := range list {
		if ir.MatchesTool(n.Name, name) {
			out = append(out, n.Name)
		}
	}
	return strings.Join(out, ", ")
}

// narrowing is what the brackets of an entry say about arguments.
type narrowing struct {
	all  bool // nothing
	text string
}

func narrow(entry string) narrowing {
	text, restricted := ir.ToolArguments(entry)
	return narrowing{all: !restricted, text: text}
}

// fileTools are those whose brackets are about a path.
var fileTools = []string{"Read", "Write", "Edit", "Glob", "Grep"}

// folderTools are those of them that go on to everything below the path.
var folderTools = []string{"Glob", "Grep"}

// admits reports whether arguments are what the brackets allow. What cannot be
// told is not allowed.
func (n narrowing) admits(name string, input json.RawMessage) bool {
	if n.all {
		return true
	}
	in, ok := read(input)
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

// concerns reports whether arguments may be what the brackets mean. What cannot
// be told is taken to be.
func (n narrowing) concerns(name string, input json.RawMessage) bool {
	in, ok := read(input)
	switch {
	case n.all || !ok:
		return true
	case name == "Bash":
		text, _ := n.command()
		return strings.Contains(bare(in.command), bare(text))
	case slices.Contains(fileTools, name):
		return n.mayReach(in.path, slices.Contains(folderTools, name))
	case in.url != "" && strings.HasPrefix(n.text, domain):
		_, err := url.Parse(in.url)
		return err != nil || n.host(in.url)
	}
	return true
}

// arguments are those that brackets can be about.
type arguments struct{ command, path, url string }

// read finds them by exactly these names, as servers do: Go itself would take
// "URL" for "url". It is false when one of them is not a text.
func read(input json.RawMessage) (in arguments, ok bool) {
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

// bare returns a command without what a shell passes over: quotes, and more spaces
// than one.
func bare(command string) string {
	return strings.Join(strings.Fields(strings.NewReplacer("'", "", `"`, "", `\`, "").Replace(command)), " ")
}

// command returns what a command has to be, or to begin with.
func (n narrowing) command() (text string, begins bool) {
	for _, suffix := range []string{":*", " *", "*"} {
		if prefix, ok := strings.CutSuffix(n.text, suffix); ok {
			return strings.TrimSpace(prefix), true
		}
	}
	return n.text, false
}

// plainCommand reports whether a command is the one that is meant, and nothing
// besides: no shell can make two commands of it.
func (n narrowing) plainCommand(command string) bool {
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

// path reports whether a path fits the pattern, by its name alone.
func (n narrowing) path(name string) bool {
	pattern := path.Clean(n.text)
	name = path.Clean(name)
	if name == "." || strings.HasPrefix(name, "..") {
		return false
	}
	return MatchPath(pattern, name)
}

// mayReach reports whether a path can lead to what the pattern means: written
// in other letters, from the root of the disk, or as a folder above.
func (n narrowing) mayReach(name string, folder bool) bool {
	pattern, name := strings.ToLower(path.Clean(n.text)), strings.ToLower(path.Clean(filepath.ToSlash(name)))
	if strings.HasPrefix(name, "..") {
		return true
	}
	switch absolute := filepath.IsAbs(name); {
	case absolute && !path.IsAbs(pattern):
		pattern = "**/" + pattern
	case !absolute && path.IsAbs(pattern):
		// The path begins somewhere on the pattern's way.
		for parts := strings.Split(pattern, "/")[1:]; len(parts) > 0; parts = parts[1:] {
			if parts[0] != "**" && reaches(strings.Join(parts, "/"), name, folder) {
				return true
			}
		}
		return false
	}
	return reaches(pattern, name, folder)
}

// reaches reports whether a path fits a pattern, or is a folder in which
// something may.
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

// domain begins brackets that are about hosts.
const domain = "domain:"

// host reports whether a URL leads to "domain:NAME" or a name below it.
func (n narrowing) host(text string) bool {
	name, ok := strings.CutPrefix(n.text, domain)
	u, err := url.Parse(text)
	if !ok || err != nil {
		return false
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	name = strings.ToLower(strings.TrimPrefix(strings.TrimSpace(name), "*."))
	return host == name || strings.HasSuffix(host, "."+name)
}

// MatchPath matches a path with slashes against a pattern in which ** stands
// for any folders, with a table instead of trying again: a pattern of many **
// takes no longer for it.
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
	holds := make([]bool, len(p.Blocks)) // blocks that are being looked at
	var within func(b ir.BlockID, branch bool) bool
	within = func(b ir.BlockID, branch bool) bool {
		if b < 0 || int(b) >= len(p.Blocks) || holds[b] {
			return false
		}
		holds[b] = true
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
