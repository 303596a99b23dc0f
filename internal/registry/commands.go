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
	"time"

	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/format/awf"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/lazyregexp"
	"github.com/espalier-run/espalier/internal/private"
	"github.com/espalier-run/espalier/internal/report/execution"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/stepkind"
	"github.com/espalier-run/espalier/internal/tool"
	"github.com/espalier-run/espalier/internal/trust"
	"github.com/espalier-run/espalier/internal/xslices"
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

// maxIndent is how much of the indentation of code is shown.
const maxIndent = 16

// Lines returns all lines of the command, because a person consents to all of it. Spaces within lines are collapsed and
// indentation is cut to maxIndent: wide gaps could hide text.
func (c Command) Lines() []string {
	var out []string
	for line := range strings.Lines(c.Text) {
		if words := strings.Fields(line); len(words) > 0 {
			line = strings.ReplaceAll(line, "\t", "    ")
			indent := len(line) - len(strings.TrimLeft(line, " "))
			out = append(out, strings.Repeat(" ", min(indent, maxIndent))+strings.Join(words, " "))
		}
	}
	return out
}

// String returns the step and the whole command, with further lines indented below the first.
func (c Command) String() string {
	return strings.Join(strings.Fields(c.Step), " ") + ": " + strings.Join(c.Lines(), "\n      ")
}

// Commands lists what a program, and what it calls, runs on this machine. The configuration gives names to tools; it
// may be nil. A person decides by this list, so it has to be complete: a command that is missing here would run without
// consent.
func Commands(p *ir.Program, c *config.Config) []Command {
	var out []Command
	for t := range tasks(p) {
		uses := t.kind.Uses(t.Task)
		covered := coveredByName(p, true) && coveredByName(t.program, true)
		found := xslices.Map(uses.Commands, func(one stepkind.CommandUse) Command {
			return Command{
				Step: t.prefix + t.step.Title(), Text: one.Text, Dir: one.Dir, Covered: covered, Optional: one.Optional,
			}
		})
		found = append(found, shellCommands(t, c, &uses)...)
		// A file that is called in several ways is several children. Hooks of the workflow run before each of its ends.
		if t.program != p || t.step.Implied {
			out = xslices.AppendNew(out, found...)
		} else {
			out = append(out, found...)
		}
	}
	return out
}

// shellCommands lists the calls of the shell tool that a step can make. People approve these commands one by one, or
// a model chooses them, so naming the file never covers them. For an agent whose list matches the tool only by a
// pattern, they are optional.
func shellCommands(t task, c *config.Config, uses *stepkind.Uses) []Command {
	var out []Command
	at := t.prefix + t.step.ID
	isShell := func(n ir.Name) bool { return runsShell(t.program, c, n.Name) }
	if slices.ContainsFunc(uses.Tools, isShell) {
		out = append(out, Command{Step: at, Text: shellCall(t.Task)})
	}
	for _, name := range uses.Agents {
		agent := t.program.Agent(name.Name)
		if agent == nil {
			continue
		}
		by := tool.Caller{Program: t.program, Step: t.step, Agent: agent}
		i := slices.IndexFunc(agent.Tools, func(n ir.Name) bool {
			return isShell(n) && by.Refusal(ir.ToolName(n.Name), nil) == ""
		})
		if i < 0 && by.Refusal(ir.ShellTool, nil) != "" {
			continue
		}
		called := ir.ShellTool
		if i >= 0 {
			called = ir.ToolName(agent.Tools[i].Name)
		}
		out = append(out, Command{
			Step: at, Text: fmt.Sprintf("commands that agent %q chooses, by the tool %s", agent.ID, called),
			Optional: i < 0,
		})
	}
	return out
}

// runsShell reports whether a tool is the shell tool, or a name that the workflow or the configuration gives to it.
func runsShell(p *ir.Program, c *config.Config, name string) bool {
	name = ir.ToolName(name)
	if c != nil {
		if set := c.Tool(name); set != nil {
			return !set.Off && (set.Use.Value == ir.ShellTool || set.Use.Value == "" && set.URL.Value == "" &&
				name == ir.ShellTool)
		}
	}
	if use := declaredUse(p, name); use != "" && use != name {
		return runsShell(nil, c, use)
	}
	return name == ir.ShellTool
}

// shellCall returns the command that a task passes to the shell tool, with its placeholders.
func shellCall(t *ir.Task) string {
	for _, setting := range []string{"args", "inputs"} {
		var args map[string]json.RawMessage
		var command string
		if json.Unmarshal(t.Settings.Get(setting), &args) == nil &&
			json.Unmarshal(args[ir.ShellArgument], &command) == nil && command != "" {
			if isValue().MatchString(command) {
				return "any command, by the tool " + ir.ShellTool + ": " + command
			}
			return command
		}
	}
	return "any command, by the tool " + ir.ShellTool // the command is a value of the run
}

// isValue matches a command that a value of the run provides as a whole.
var isValue = lazyregexp.New(`^\s*\{\{[^{}]*\}\}\s*$`)

// CheckCalls reports values that the shell tool would execute, under names that only the configuration gives to it.
func CheckCalls(p *ir.Program, c *config.Config) diag.List {
	kinds := catalog.Kinds()
	var out diag.List
	for s := range p.Steps() {
		t := s.Task()
		if t == nil {
			continue
		}
		caller, ok := kinds[t.Kind].(stepkind.Caller)
		if !ok {
			continue
		}
		for _, n := range caller.Uses(t).Tools {
			if ir.ToolName(n.Name) != ir.ShellTool && runsShell(p, c, n.Name) {
				out = append(out, caller.CheckCode(p, s, t)...)
			}
		}
	}
	return out
}

// Approval reports whether a person has to approve calls of a program's tool, and the timeout of approvals; 0 is none.
// A name that the program gives to a tool of the project requires the approval of that tool.
func Approval(p *ir.Program, c *config.Config, name string) (timeout time.Duration, required bool) {
	if c == nil {
		return 0, false
	}
	name = ir.ToolName(name)
	set := c.Tool(name)
	switch {
	case set != nil && set.RequiresApproval:
		return set.ApprovalTimeout, true
	case set != nil && (set.Use.Value != "" || set.URL.Value != ""):
		return 0, false
	}
	if use := declaredUse(p, name); use != "" {
		return Approval(nil, c, use)
	}
	return 0, false
}

// CallsTools reports whether a program, or one that it calls, calls tools, whose names the configuration defines.
func CallsTools(p *ir.Program) bool { return len(toolUses(p)) > 0 }

// commandSteps returns the steps with commands, each once.
func commandSteps(p *ir.Program, c *config.Config) []string {
	return xslices.AppendNew(nil, xslices.Map(Commands(p, c), func(c Command) string { return c.Step })...)
}

// coveredByName reports whether naming a workflow's file is the consent to its
// commands. named says that a person has named the file, or one of the same
// format that calls it.
func coveredByName(p *ir.Program, named bool) bool {
	return named && catalog.Formats().Conventions(p.Format).ConsentByName
}

// consents reports whether naming a file, or a workflow that uses it as a template, is consent to the commands in it.
func consents(path string, content []byte) bool {
	f := source.NewFile(path, string(content))
	found, _ := catalog.Formats().Detect(f) // other errors in the file do not matter
	return found != nil && catalog.Formats().Conventions(found.Name()).ConsentByName || awf.IsTemplate(f)
}

// NamedConsent reports whether running a program by its name is the consent to
// its commands.
func NamedConsent(p *ir.Program) bool { return coveredByName(p, true) }

// Consented reports whether a person has consented to all commands of a run's workflow as they are now. An approval of
// contents holds as long as each file has these contents, or others that are approved as well. The folder of the run,
// in which most commands start, must not contain other programs of the same names; it is "" before the run.
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

// writesFile has the hashes of the contents that runs have written into the project, one on each line. Processes append
// to it without a lock.
const writesFile = "writes"

// recordWrite records a content that a run writes into the project of a storage folder. It has to be called before the
// content is written: a crash in between leaves a hash too many, which is harmless.
func recordWrite(dir string, content []byte) error {
	f, err := os.OpenFile(filepath.Join(dir, writesFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(trust.Sum(content) + "\n")
	return errors.Join(err, f.Close())
}

// WrittenByRuns returns the files whose contents a run has written into the project of a storage folder. A person who
// names a workflow does not consent to programs that a model wrote. The folder may have come with the project, so it is
// untrusted.
func WrittenByRuns(dir string, files []trust.File) ([]trust.File, error) {
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
	return slices.DeleteFunc(Commands(p, t.config), func(c Command) bool { return c.Covered && o.Named || c.Optional })
}

// SideEffects returns the commands that a run of a program with these options starts, and the tools with side effects
// that it calls. It omits those that a script of replies simulates; a simulated run has none.
func (t *Tools) SideEffects(p *ir.Program, o RunOptions) []string {
	if Simulates(o) {
		return nil
	}
	script, err := scriptOf(o)
	if err != nil {
		return nil // it has been reported
	}
	box := t.box(o, script)
	var out []string
	seen := map[string]bool{}
	add := func(what string) {
		if !seen[what] {
			seen[what], out = true, append(out, what)
		}
	}
	calls := map[string]bool{} // the steps that call tools
	for _, use := range toolUses(p) {
		calls[use.where] = true
		name := ir.ToolName(use.name)
		if found := t.plain[name]; box.scripted[name] != nil || found != nil && !found.Spec().SideEffects {
			continue
		}
		add("the tool " + name)
	}
	for _, c := range Commands(p, t.config) {
		if !calls[c.Step] {
			add("the command of " + c.Step)
		}
	}
	return out
}

// Simulates reports whether a run starts nothing real: it is simulated, or its script simulates what it does not
// answer.
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
	for _, use := range toolUses(p) {
		name := ir.ToolName(use.name)
		if set := t.config.Tool(name); set != nil && set.Use.Value != "" {
			name = set.Use.Value
		}
		server, known := t.serverOf(name)
		if known && t.servers.known[server].Unconfined() && !slices.Contains(out, server) {
			out = append(out, server)
		}
	}
	return out
}

// executions returns the writer of the records that other programs expect next to the output of runs.
func (r *Runtime) executions() *execution.Writer {
	return execution.New(execution.Options{
		Root: filepath.Dir(r.dir), Dir: r.executionDir(), Source: r.Store, Program: r.Program,
	})
}

// executionDir returns the folder with checkpoints of these records.
func (r *Runtime) executionDir() string { return filepath.Join(r.records(), "executions") }
