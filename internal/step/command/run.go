package command

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/lazyregexp"
	"github.com/espalier-run/espalier/internal/private"
	"github.com/espalier-run/espalier/internal/process"
	"github.com/espalier-run/espalier/internal/shell"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/exec"
	"github.com/espalier-run/espalier/internal/stepkind/kinds"
)

// Runner runs tasks of kind "command".
type Runner struct {
	exec.Base[kinds.Command, settings]
}

var _ step.WriteAhead = Runner{}

type settings kinds.CommandSettings

var _ step.Settings = settings{}

// WriteAhead marks the runner: it notes the command before it starts, and
// preparing the command takes no time.
func (Runner) WriteAhead() {}

// Run runs the command.
func (s settings) Run(ctx context.Context, job *step.Job) (step.Result, error) {
	return job.LimitByTemplate(ctx, s.Timeout, func(ctx context.Context) (step.Result, error) {
		return s.run(ctx, job)
	})
}

func (s settings) run(ctx context.Context, job *step.Job) (step.Result, error) {
	r := newPreparer(job, job.Values(), s.Export, s.UntrustedRoots)
	defer r.Remove()
	p, err := r.prepare(s)
	if err != nil {
		return step.Result{}, err
	}
	if job.Simulated {
		p.Wants = kinds.Command{}.Explored(job.Workflow, job.Step, job.Task)
		job.Explore(&p.Wants)
		p.Ends = simulatedEnd
	}
	outcome, err := p.Run(ctx, job)
	if err != nil {
		return step.Result{}, err
	}
	state := kinds.State{
		Output: exec.Text(outcome.Stdout), Stderr: exec.Text(outcome.Stderr),
		ExitCode: outcome.Exit, Status: kinds.StateCompleted,
	}
	if outcome.Exit == 0 {
		return step.Result{Value: step.JSON(state)}, nil
	}
	state.Status, state.Error = kinds.StateFailed, failure(outcome)
	return step.Result{}, &step.Error{
		Class: ir.ClassCommand, Message: state.Error, Exit: outcome.Exit, Value: step.JSON(state),
	}
}

// simulatedEnd returns how a command ends that leaves the given state.
func simulatedEnd(result json.RawMessage, output string) process.Outcome {
	state := kinds.State{Output: output}
	_ = json.Unmarshal(result, &state) // it matches the contract
	if state.ExitCode == 0 && state.Status == kinds.StateFailed {
		state.ExitCode = 1
	}
	return process.Outcome{Stdout: []byte(state.Output), Stderr: []byte(state.Stderr), Exit: state.ExitCode}
}

// failure returns what a command wrote to standard error, or else how it ended.
func failure(o process.Outcome) string {
	return cmp.Or(strings.TrimSpace(exec.Text(o.Stderr)), exec.Exit(o))
}

// preparer prepares the commands of one step.
type preparer struct {
	exec.Files
	job            *step.Job
	values         expr.Values
	export         []string
	untrustedRoots []string
}

func newPreparer(job *step.Job, values expr.Values, export, untrustedRoots []string) *preparer {
	return &preparer{
		Files: exec.Files{Job: job}, job: job, values: values, export: export, untrustedRoots: untrustedRoots,
	}
}

// folder returns the job's folder, from values that are already decoded.
func (r *preparer) folder() string {
	if dir, ok := r.values[step.WorkingDir].(string); ok && dir != "" {
		return dir
	}
	return r.job.Dir
}

// prepare returns the command that the settings describe.
func (r *preparer) prepare(set settings) (*exec.Program, error) {
	job := r.job
	dir, untrusted, err := job.FillFolder(set.Dir, r.values, r.untrustedRoots)
	path := func(template string, parts bool) string {
		var filled string
		if err == nil {
			filled, err = job.FillPath(template, r.values, r.untrustedRoots, parts)
		}
		return filled
	}
	program, file := cmp.Or(path(set.Shell, false), userShell()), path(set.ScriptFile, true)
	if err != nil {
		return nil, err
	}
	script := set.Script
	if set.ScriptFile != "" {
		if script, err = readScript(file, set.Folder); err != nil {
			return nil, step.Errorf(ir.ClassMissing, "cannot read the script of step %q: %v", job.Step.ID, err)
		}
	}
	filled, err := r.fill(cmp.Or(set.Command, script), program, set.Command == "")
	if err != nil {
		return nil, err
	}
	c, err := r.command(filled.Command, program, set.Command == "")
	if err != nil {
		return nil, err
	}
	if c.Dir == job.Dir {
		if err := job.MakeDir(); err != nil {
			return nil, err
		}
	}
	if dir = home(dir); dir != "" {
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(r.folder(), dir)
		}
		c.Dir = dir
		if !job.Machine.IsFolder(dir) {
			return nil, exec.NoFolder(job, dir)
		}
		if untrusted && !job.Simulated && !r.isOwn(dir) {
			return nil, step.Errorf(ir.ClassInput,
				"step %q: a value chooses the folder of the command, and %q is neither in the project nor a private "+
					"temporary folder. Use {{raw …}} if you trust the value", job.Step.ID, dir)
		}
	}
	return &exec.Program{
		Name: fmt.Sprintf("the command of step %q", job.Step.ID), Reads: r.Paths,
		CommandSpec: step.CommandSpec{Command: c, Shown: filled.Read},
	}, nil
}

// isOwn reports whether a folder is in the project or in the folder of the run, or is a temporary folder that only this
// user can change. In other folders, programs may find the configuration of another user.
func (r *preparer) isOwn(dir string) bool {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	within := func(parent string) bool {
		parent, err := filepath.EvalSymlinks(parent)
		if err != nil {
			return false
		}
		rel, err := filepath.Rel(parent, real)
		return err == nil && filepath.IsLocal(rel)
	}
	return within(r.folder()) || within(r.job.Dir) || within(os.TempDir()) && private.Check(real) == nil
}

// fill renders a command, or a script for the program in its first line. Espalier does not know how programs
// other than shells parse a value: it is inserted verbatim if the run is trusted.
func (r *preparer) fill(template, path string, script bool) (expr.ShellText, error) {
	by := shell.Interpreter(template)
	if !script || by == "" || shell.IsShell(by) {
		return r.job.FillShell(template, cmp.Or(by, path), r.values, r.untrustedRoots)
	}
	if r.job.Untrusted && strings.Contains(template, "{{") {
		return expr.ShellText{}, step.Errorf(ir.ClassInput, "step %q inserts values into a script for %s, and the "+
			"input of this run is not trusted. Read the variables AWF_INPUT_… in the script instead", r.job.Step.ID, by)
	}
	text, err := r.job.Fill(template, r.values)
	return expr.ShellText{Command: shell.Command{Text: text}, Read: text}, err
}

// maxInputs bounds the size of all inputs in the environment. Systems limit the environment and the arguments
// together to as little as 1 MiB.
const maxInputs = 512 << 10

// command passes a text to a shell, or runs it as a script.
func (r *preparer) command(filled shell.Command, path string, script bool) (process.Command, error) {
	inputs, err := r.inputs()
	if err != nil {
		return process.Command{}, err
	}
	job := r.job
	text, values := filled.Pass(exec.MaxVariable, maxInputs)
	c := process.Command{Dir: r.folder(), Env: append(environment(job, inputs), values...), Path: path}
	switch {
	case script && strings.HasPrefix(text, "#!"):
		file, err := r.Add(".script-*", text)
		if err != nil {
			return c, err
		}
		c.Path, c.Args = interpreted(text, file, path)
	case len(text) > exec.MaxVariable:
		file, err := r.Add(".command-*", text)
		if err != nil {
			return c, err
		}
		c.Args = []string{file}
	default:
		c.Args = []string{"-c", text}
	}
	return c, nil
}

// interpreted returns the program that a script's first line names, and its arguments. The system would do so
// too, but not for a file that another process, which is just starting, still holds open for writing, nor in a
// folder mounted noexec.
func interpreted(text, path, shell string) (program string, args []string) {
	line, _, _ := strings.Cut(strings.TrimPrefix(text, "#!"), "\n")
	line = strings.TrimSpace(line)
	if line == "" {
		return shell, []string{path}
	}
	if blank := strings.IndexAny(line, " \t"); blank >= 0 {
		line, args = line[:blank], []string{strings.TrimSpace(line[blank:])} // one argument, as on Linux
	}
	return line, append(args, path)
}

// environment returns the variables of this process and those of the job and the
// inputs of the step.
func environment(job *step.Job, inputs []string) []string {
	own := slices.DeleteFunc(os.Environ(), func(one string) bool {
		return strings.HasPrefix(one, "AWF_INPUT_") || strings.HasPrefix(one, "__espalier_") ||
			strings.HasPrefix(one, "TRACEPARENT=")
	})
	return append(own, exec.Variables(job, inputs...)...)
}

// inputs returns the environment variables of the inputs that the step exports.
func (r *preparer) inputs() (env []string, err error) {
	total := 0
	for _, name := range r.export {
		v, ok := r.values.Lookup([]string{"input", name})
		if !ok || v == nil {
			continue
		}
		text := printed(v)
		if strings.ContainsRune(text, 0) {
			continue // no environment can hold it
		}
		upper := "AWF_INPUT_" + strings.Map(inName, strings.ToUpper(name))
		if len(text) > exec.MaxVariable || total+2*len(text) > maxInputs {
			path, err := r.Add(".input-*", text)
			if err != nil {
				return nil, err
			}
			env = append(env, upper+"_FILE="+path)
			continue
		}
		total += 2 * len(text)
		env = append(env, upper+"="+text)
		if ownName(name) {
			env = append(env, name+"="+text)
		}
	}
	return env, nil
}

// inName maps a character that shells do not allow in a variable's name.
func inName(r rune) rune {
	if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
		return r
	}
	return '_'
}

func printed(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return string(step.JSON(v))
}

// ownName reports whether an input may be an environment variable under its own name.
func ownName(name string) bool { return variable().MatchString(name) && !shell.Guarded(name) }

var variable = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)

// userShell returns the user's shell if it can be started.
func userShell() string {
	shell := os.Getenv("SHELL")
	if filepath.IsAbs(shell) {
		if info, err := os.Stat(shell); err == nil && info.Mode().IsRegular() {
			return shell
		}
	}
	return "/bin/sh"
}

func home(path string) string {
	if rest, ok := strings.CutPrefix(path, "~"); ok && (rest == "" || rest[0] == '/') {
		if dir, err := os.UserHomeDir(); err == nil {
			return dir + rest
		}
	}
	return path
}

// maxScript bounds the size of a script file.
const maxScript = 1 << 20

func readScript(path, folder string) (string, error) {
	path = home(path)
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > maxScript {
		return "", fmt.Errorf("%s is not a file of up to 1 MiB", path)
	}
	raw, err := os.ReadFile(path)
	return string(raw), err
}
