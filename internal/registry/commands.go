package registry

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/format/awf"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/report/execution"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/stepkind"
	"github.com/espalier-run/espalier/internal/tool"
	"github.com/espalier-run/espalier/internal/trust"
)

// Command is a command that a workflow runs on this machine.
type Command struct {
	Step string `json:"step"`
	Text string `json:"command"`
	Dir  string `json:"-"` // the folder that the command runs in, if the file names one
	// Covered commands need no further consent: naming the file is enough.
	Covered bool `json:"covered,omitempty"`
	// Optional commands are left out without consent.
	Optional bool `json:"optional,omitempty"`
}

// Lines returns the whole command: a person who consents has to see its end. Space within lines is reduced, because it
// could hide what follows.
func (c Command) Lines() []string {
	var out []string
	for line := range strings.Lines(c.Text) {
		if words := strings.Fields(line); len(words) > 0 {
			out = append(out, strings.Join(words, " "))
		}
	}
	return out
}

// String returns the step and the whole command, with further lines indented below the first.
func (c Command) String() string {
	return strings.Join(strings.Fields(c.Step), " ") + ": " + strings.Join(c.Lines(), "\n      ")
}

// Commands lists what a program, and what it calls, runs on this machine.
func Commands(p *ir.Program) []Command { return commands(p, "", coveredByName(p, true)) }

func commands(p *ir.Program, prefix string, named bool) []Command {
	kinds := Kinds()
	var out []Command
	for s := range p.Steps() {
		t := s.Task()
		if t == nil || kinds[t.Kind] == nil {
			continue
		}
		uses := kinds[t.Kind].Uses(t)
		for _, one := range uses.Commands {
			command := Command{
				Step: prefix + s.Title(), Text: one.Text, Dir: one.Dir, Covered: coveredByName(p, named),
				Optional: one.Optional,
			}
			// Hooks of the workflow run before each of its ends.
			if !s.Implied || !slices.Contains(out, command) {
				out = append(out, command)
			}
		}
		out = append(out, shellCommands(p, s, &uses, prefix)...)
	}
	for i := range p.Children {
		for _, one := range commands(&p.Children[i], prefix+p.Children[i].Name+".", named) {
			// A file that is called in several ways is several children.
			if !slices.Contains(out, one) {
				out = append(out, one)
			}
		}
	}
	return out
}

// shellTool is the tool that runs any command it is called with.
const shellTool = "Bash"

// shellCommands lists the calls of the shell tool that a step can make. A model
// chooses these commands, so naming the file never covers them. An agent whose
// list only matches the tool by a pattern does without it.
func shellCommands(p *ir.Program, s *ir.Step, uses *stepkind.Uses, prefix string) []Command {
	var out []Command
	if slices.ContainsFunc(uses.Tools, func(n ir.Name) bool { return ir.ToolName(n.Name) == shellTool }) {
		out = append(out, Command{Step: prefix + s.ID, Text: "any command, by the tool " + shellTool})
	}
	for _, name := range uses.Agents {
		agent := p.Agent(name.Name)
		if agent == nil || (tool.Caller{Program: p, Step: s, Agent: agent}).Refusal(shellTool, nil) != "" {
			continue
		}
		listed := func(n ir.Name) bool { return ir.ToolName(n.Name) == shellTool }
		out = append(out, Command{
			Step: prefix + s.ID, Text: fmt.Sprintf("commands that agent %q chooses, by the tool %s", agent.ID,
				shellTool),
			Optional: !slices.ContainsFunc(agent.Tools, listed),
		})
	}
	return out
}

// commandSteps are the steps of the commands, each once.
func commandSteps(p *ir.Program) []string {
	var out []string
	for _, c := range Commands(p) {
		if !slices.Contains(out, c.Step) {
			out = append(out, c.Step)
		}
	}
	return out
}

// commandFormat is the format of files that are lists of commands: naming one is
// the consent to run them.
const commandFormat = "awf"

// coveredByName reports whether naming a workflow's file is the consent to its
// commands. named says that a person has named the file, or one of the same
// format that calls it.
func coveredByName(p *ir.Program, named bool) bool { return named && p.Format == commandFormat }

// consents reports whether naming a file, or a workflow that uses it as a template, is consent to the commands in it.
func consents(path string, content []byte) bool {
	f := source.NewFile(path, string(content))
	found, _ := Formats().Detect(f) // what else is wrong with it does not matter
	return found != nil && found.Name() == commandFormat || awf.IsTemplate(f)
}

// NamedConsent reports whether running a program by its name is the consent to
// its commands.
func NamedConsent(p *ir.Program) bool { return coveredByName(p, true) }

// Consented reports whether a person has consented to all commands of a run's workflow as they are now.
func (t *Tools) Consented(o RunOptions) bool {
	return t.config.Allow.Shell || o.AllowShell && !slices.ContainsFunc(o.Approved, t.unapproved)
}

// unapproved reports whether a file has contents that no person has approved.
func (t *Tools) unapproved(f trust.File) bool {
	path := filepath.FromSlash(f.Path)
	if !filepath.IsAbs(path) {
		path = filepath.Join(t.root, path)
	}
	sum, err := trust.SumFile(path)
	if err != nil || sum == f.SHA256 {
		return err != nil
	}
	approved, err := trust.Open(t.getenv).Has(t.root, trust.File{Path: f.Path, SHA256: sum})
	return err != nil || !approved
}

// Unapproved lists the commands of a program that need consent and do not have
// it. A simulated run needs none. Naming a file is consent only if a person has
// named it: an event or a webhook has not.
func (t *Tools) Unapproved(p *ir.Program, o RunOptions) []Command {
	if t.Consented(o) || Simulates(o) {
		return nil
	}
	return slices.DeleteFunc(Commands(p), func(c Command) bool { return c.Covered && o.Named || c.Optional })
}

// Simulates reports whether a run starts nothing real.
func Simulates(o RunOptions) bool {
	script, err := scriptOf(o)
	if err != nil || script == nil {
		return o.Simulate
	}
	return o.Simulate || script.Simulates()
}

// Unconfined names the MCP servers that a program's steps need and that run as
// programs of the user, outside of any sandbox.
func (t *Tools) Unconfined(p *ir.Program) []string {
	var out []string
	for _, use := range toolUses(p, "") {
		name := ir.ToolName(use.name)
		if set := t.config.Tool(name); set != nil && set.Use.Value != "" {
			name = set.Use.Value
		}
		server, known := t.serverOf(name)
		if known && t.servers.known[server].Free() && !slices.Contains(out, server) {
			out = append(out, server)
		}
	}
	return out
}

// executions keeps the records that other programs look for beside what runs
// have produced.
func (r *Runtime) executions() *execution.Writer {
	return execution.New(execution.Options{
		Root: filepath.Dir(r.dir), Dir: r.executionDir(), Source: r.Store, Program: r.Program,
	})
}

// executionDir has checkpoints of these records.
func (r *Runtime) executionDir() string { return filepath.Join(r.records(), "executions") }
