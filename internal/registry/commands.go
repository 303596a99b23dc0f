package registry

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/format/awf"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/private"
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
	isShell := func(n ir.Name) bool { return runsShell(p, n.Name) }
	if slices.ContainsFunc(uses.Tools, isShell) {
		out = append(out, Command{Step: prefix + s.ID, Text: shellCall(s.Task())})
	}
	for _, name := range uses.Agents {
		agent := p.Agent(name.Name)
		if agent == nil || (tool.Caller{Program: p, Step: s, Agent: agent}).Refusal(shellTool, nil) != "" {
			continue
		}
		out = append(out, Command{
			Step: prefix + s.ID, Text: fmt.Sprintf("commands that agent %q chooses, by the tool %s", agent.ID,
				shellTool),
			Optional: !slices.ContainsFunc(agent.Tools, isShell),
		})
	}
	return out
}

// runsShell reports whether a tool is the shell tool, or a name that the workflow gives to it.
func runsShell(p *ir.Program, name string) bool {
	name = ir.ToolName(name)
	return name == shellTool || slices.ContainsFunc(p.ToolDefs, func(d ir.ToolDef) bool {
		return d.Name == name && d.Use == shellTool
	})
}

// shellCall returns the command that a task calls the shell tool with. A command that contains values of the run can
// be any command.
func shellCall(t *ir.Task) string {
	var args struct{ Command string }
	_ = json.Unmarshal(t.Settings.Get("args"), &args) // without arguments, the command is a value of the run
	switch {
	case args.Command == "":
		return "any command, by the tool " + shellTool
	case strings.Contains(args.Command, "{{"):
		return "any command, by the tool " + shellTool + ": " + args.Command
	}
	return args.Command
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

// Consented reports whether a person has consented to all commands of a run's workflow as they are now. The folder of
// the run, in which most commands start, must not contain other programs of the same names; it is "" before the run.
func (t *Tools) Consented(o RunOptions, dir string) bool {
	return t.config.Allow.Shell || o.AllowShell && !slices.ContainsFunc(o.Approved, func(f trust.File) bool {
		path := filepath.FromSlash(f.Path)
		if filepath.IsAbs(path) {
			return t.unapproved(f, path)
		}
		if dir != "" {
			inRun := filepath.Join(dir, path)
			if _, err := os.Lstat(inRun); !errors.Is(err, fs.ErrNotExist) && t.unapproved(f, inRun) {
				return true
			}
		}
		return t.unapproved(f, filepath.Join(t.root, path))
	})
}

// unapproved reports whether the file at a path has contents that no person has approved for f.
func (t *Tools) unapproved(f trust.File, path string) bool {
	sum, err := trust.SumFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f.SHA256 != trust.Missing
	case err != nil || sum == f.SHA256:
		return err != nil
	}
	approved, err := trust.Open(t.getenv).Has(t.root, trust.File{Path: f.Path, SHA256: sum})
	return err != nil || !approved
}

// writesFile has the hashes of the contents that runs have written into the project, one on each line.
const writesFile = "writes"

// recordWrite records a content that a run writes into the project of a storage folder.
func recordWrite(dir string, content []byte) error {
	f, err := os.OpenFile(filepath.Join(dir, writesFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(trust.Sum(content) + "\n")
	return errors.Join(err, f.Close())
}

// Written returns the files whose contents a run has written into the project of a storage folder. A person who names
// a workflow does not consent to programs that a model wrote. The folder may have come with the project, so what is in
// it is not read without bounds.
func Written(dir string, files []trust.File) ([]trust.File, error) {
	if len(files) == 0 {
		return nil, nil
	}
	path := filepath.Join(dir, writesFile)
	for _, part := range []string{dir, path} {
		if err := private.Check(part); err != nil {
			return nil, err
		}
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	written := map[string]bool{}
	for _, one := range files {
		written[one.SHA256] = false
	}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := lines.Text()
		// A crash can leave the beginning of a hash before the next one.
		sum := line[max(0, len(line)-hex.EncodedLen(sha256.Size)):]
		if _, named := written[sum]; named {
			written[sum] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(files), func(f trust.File) bool { return !written[f.SHA256] }), lines.Err()
}

// Unapproved lists the commands of a program that need consent and do not have
// it. A simulated run needs none. Naming a file is consent only if a person has
// named it: an event or a webhook has not.
func (t *Tools) Unapproved(p *ir.Program, o RunOptions) []Command {
	if t.Consented(o, "") || Simulates(o) {
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
