package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/jsonfast"
	"github.com/espalier-run/espalier/internal/process"
	"github.com/espalier-run/espalier/internal/shell"
	"github.com/espalier-run/espalier/internal/step"
)

var _ step.WriteAhead = Kind{}

// WriteAhead: the command is noted before it begins, and to find out what it
// is takes no time.
func (Kind) WriteAhead() {}

// Recovery is to ask a person, unless the command cannot have begun.
func (Kind) Recovery(_ *ir.Task, history []journal.TaskNoted) step.Recovery { return recovery(history) }

func recovery(history []journal.TaskNoted) step.Recovery {
	if slices.ContainsFunc(history, func(n journal.TaskNoted) bool { return n.Kind == journal.NoteCommand }) {
		return step.Ask
	}
	return step.Rerun
}

// State is what a command leaves behind.
type State struct {
	Output   string `json:"Output"`
	Stderr   string `json:"Stderr"`
	ExitCode int    `json:"ExitCode"`
	Status   string `json:"Status"`
	Error    string `json:"Error,omitempty"`
}

// How what a command notes and leaves behind is written.
var (
	commands = sync.OnceValue(jsonfast.New[journal.Command])
	states   = sync.OnceValue(jsonfast.New[State])
)

// Run runs the command.
func (Kind) Run(ctx context.Context, job *step.Job) (step.Result, error) {
	set, err := step.Decode[Settings](job.Task)
	if err != nil {
		return step.Result{}, step.Errorf(step.ClassInput, "%v", err)
	}
	return job.Within(ctx, set.Timeout, func(ctx context.Context) (step.Result, error) { return run(ctx, job, set) })
}

func run(ctx context.Context, job *step.Job, set Settings) (step.Result, error) {
	r := runner{job: job, values: job.Values(), export: set.Export, doubts: set.Doubts}
	defer r.close()
	text, command, err := r.prepare(set)
	if err != nil {
		return step.Result{}, err
	}
	if job.Noted(journal.NoteCommand) == 0 {
		data, err := commands().Append(nil, &journal.Command{Command: job.Machine.Shown(shortened(text))})
		if err == nil {
			err = job.Log.Note(ctx, step.Note{Kind: journal.NoteCommand, Data: json.RawMessage(data)})
		}
		if err != nil {
			return step.Result{}, err
		}
	}
	outcome, err := job.Machine.Run(ctx, job, step.Work{Command: command, Shown: text})
	switch {
	case errors.Is(err, process.ErrTooMuch):
		return step.Result{}, step.Errorf(step.ClassCommand, "the command of step %q was stopped: it wrote more than %d MiB", job.Step.ID, process.DefaultMaxOutput>>20)
	case err != nil && ctx.Err() != nil:
		return step.Result{}, err
	case err != nil && !job.Machine.IsFolder(command.Dir):
		return step.Result{}, noFolder(job, command.Dir)
	case err != nil:
		return step.Result{}, step.Errorf(step.ClassCommand, "the command of step %q: %v", job.Step.ID, err)
	}
	left := State{Output: readable(outcome.Stdout), Stderr: readable(outcome.Stderr), ExitCode: outcome.Exit, Status: "completed"}
	if outcome.Exit == 0 {
		value, err := states().Append(nil, &left)
		return step.Result{Value: value}, err
	}
	left.Status, left.Error = "failed", failure(outcome)
	return step.Result{}, &step.Error{Class: step.ClassCommand, Message: left.Error, Exit: outcome.Exit, Value: step.JSON(left)}
}

// failure says how a command ended: in its own words if it has any.
func failure(o process.Outcome) string {
	if said := strings.TrimSpace(readable(o.Stderr)); said != "" {
		return said
	}
	if o.Signal != "" {
		return fmt.Sprintf("it was ended by a signal (%s)", o.Signal)
	}
	return fmt.Sprintf("exit code %d", o.Exit)
}

func readable(b []byte) string { return strings.ToValidUTF8(string(b), "�") }

// mostNoted is how much of a command is kept for the records.
const mostNoted = 64 << 10

func shortened(text string) string {
	if len(text) <= mostNoted {
		return text
	}
	return strings.ToValidUTF8(text[:mostNoted], "") + "…"
}

// runner prepares commands of one step.
type runner struct {
	job    *step.Job
	values expr.Values
	export []string
	doubts []string
	files  []string // to be removed
}

// folder is the job's, from the values that are read by now.
func (r *runner) folder() string {
	if dir, ok := r.values[step.WorkingDir].(string); ok && dir != "" {
		return dir
	}
	return r.job.Dir
}

func (r *runner) close() {
	for _, f := range r.files {
		os.Remove(f)
	}
}

// prepare makes a command of the settings; text is how people read it.
func (r *runner) prepare(set Settings) (text string, c process.Command, err error) {
	job := r.job
	fill := func(template string) string {
		var filled string
		if err == nil {
			filled, err = job.Fill(template, r.values)
		}
		return filled
	}
	path := func(template string, parts bool) string {
		var filled string
		if err == nil {
			filled, err = job.FillPath(template, r.values, r.doubts, parts)
		}
		return filled
	}
	dir, program, file := fill(set.Dir), cmp.Or(path(set.Shell, false), userShell()), path(set.ScriptFile, true)
	if err != nil {
		return "", c, err
	}
	script := set.Script
	if set.ScriptFile != "" {
		if script, err = readScript(file, set.Folder); err != nil {
			return "", c, step.Errorf(step.ClassMissing, "the script of step %q cannot be read: %v", job.Step.ID, err)
		}
	}
	filled, err := r.fill(cmp.Or(set.Command, script), program, set.Command == "")
	if err != nil {
		return "", c, err
	}
	text = filled.Read
	c, err = r.command(filled.Command, program, set.Command == "")
	if err != nil {
		return "", c, err
	}
	if c.Dir == job.Dir {
		if err := job.MakeDir(); err != nil {
			return "", c, err
		}
	}
	if dir = home(dir); dir != "" {
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(r.folder(), dir)
		}
		c.Dir = dir
		if !job.Machine.IsFolder(dir) {
			return "", c, noFolder(job, dir)
		}
	}
	if err := job.Secure(&c); err != nil {
		return "", c, err
	}
	if c.Sandbox != nil {
		c.Sandbox.Read = append(c.Sandbox.Read, r.files...)
	}
	return text, c, nil
}

func noFolder(job *step.Job, dir string) error {
	return step.Errorf(step.ClassMissing, "step %q is to run in %s, and there is no such folder", job.Step.ID, dir)
}

// fill renders a command, or a script for the program in its first line. How programs other than shells read a value
// is not known: it is inserted as it is if the run is trusted.
func (r *runner) fill(template, path string, script bool) (expr.ShellText, error) {
	by := shell.Interpreter(template)
	if !script || by == "" || shell.IsShell(by) {
		return r.job.FillShell(template, cmp.Or(by, path), r.values, r.doubts)
	}
	if r.job.Untrusted && strings.Contains(template, "{{") {
		return expr.ShellText{}, step.Errorf(step.ClassInput, "step %q inserts values into a script for %s, and the input "+
			"of this run is not trusted. Read the variables AWF_INPUT_… in the script instead", r.job.Step.ID, by)
	}
	text, err := r.job.Fill(template, r.values)
	return expr.ShellText{Command: shell.Command{Text: text}, Read: text}, err
}

// mostArgument is how long a command may be to be an argument: systems allow
// as little as 128 KiB.
const mostArgument = 96 << 10

// mostInputs is how much of the environment inputs may take up together: all of
// it, with the arguments, may be as little as 1 MiB.
const mostInputs = 512 << 10

// command passes a text to a shell, or runs it as a script.
func (r *runner) command(filled shell.Command, path string, script bool) (process.Command, error) {
	inputs, err := r.inputs()
	if err != nil {
		return process.Command{}, err
	}
	job := r.job
	text, values := filled.Pass(mostArgument, mostInputs)
	c := process.Command{Dir: r.folder(), Env: append(environment(job, inputs), values...), Path: path}
	switch {
	case script && strings.HasPrefix(text, "#!"):
		file, err := r.file("script", text)
		if err != nil {
			return c, err
		}
		c.Path, c.Args = interpreted(text, file, path)
	case len(text) > mostArgument:
		file, err := r.file("command", text)
		if err != nil {
			return c, err
		}
		c.Args = []string{file}
	default:
		c.Args = []string{"-c", text}
	}
	return c, nil
}

// interpreted is the program that a script's first line names, and what it is
// given. Systems do that too, but not for a file that a process which is just
// being started still holds open, nor in folders that programs are not run from.
func interpreted(text, path, shell string) (program string, args []string) {
	line, _, _ := strings.Cut(strings.TrimPrefix(text, "#!"), "\n")
	line = strings.TrimSpace(line)
	if line == "" {
		return shell, []string{path}
	}
	if blank := strings.IndexAny(line, " \t"); blank >= 0 {
		line, args = line[:blank], []string{strings.TrimSpace(line[blank:])} // one, as Linux does it
	}
	return line, append(args, path)
}

// file puts a text where the command can read it.
func (r *runner) file(name, text string) (string, error) {
	dir, err := r.job.Scratch(text)
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp(dir, "."+name+"-*")
	if err != nil {
		return "", step.Errorf(step.ClassMissing, "the run's folder cannot be written to: %v", err)
	}
	r.files = append(r.files, f.Name())
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", step.Errorf(step.ClassMissing, "the run's folder cannot be written to: %v", err)
	}
	return f.Name(), nil
}

// environment is ours, with the inputs of the step in it.
func environment(job *step.Job, inputs []string) []string {
	ours := os.Environ()
	env := make([]string, 0, len(ours)+4+len(inputs))
	for _, one := range ours {
		if !strings.HasPrefix(one, "AWF_INPUT_") && !strings.HasPrefix(one, "__espalier_") &&
			!strings.HasPrefix(one, "TRACEPARENT=") {
			env = append(env, one)
		}
	}
	env = append(env, "ESPALIER_RUN_ID="+string(job.Run), "ESPALIER_STEP="+job.Step.ID, "ESPALIER_KEY="+job.Idempotency(job.Key), "TRACEPARENT="+job.TraceParent())
	return append(env, inputs...)
}

// inputs are the variables that hold what the step exports.
func (r *runner) inputs() (env []string, err error) {
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
		if len(text) > mostArgument || total+2*len(text) > mostInputs {
			path, err := r.file("input", text)
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

// inName keeps what names of variables can have, for shells to read them.
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

var variable = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`) })

// userShell is the user's shell if it is one that can be started.
func userShell() string {
	shell := os.Getenv("SHELL")
	if _, known := shells.Load(shell); known {
		return shell
	}
	if filepath.IsAbs(shell) {
		if info, err := os.Stat(shell); err == nil && info.Mode().IsRegular() {
			shells.Store(shell, true)
			return shell
		}
	}
	return "/bin/sh"
}

// shells are those that were there when we looked.
var shells sync.Map

func home(path string) string {
	if rest, ok := strings.CutPrefix(path, "~"); ok && (rest == "" || rest[0] == '/') {
		if dir, err := os.UserHomeDir(); err == nil {
			return dir + rest
		}
	}
	return path
}

// mostScript is how large a script file may be.
const mostScript = 1 << 20

func readScript(path, folder string) (string, error) {
	path = home(path)
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > mostScript {
		return "", fmt.Errorf("%s is not a file of up to 1 MiB", path)
	}
	raw, err := os.ReadFile(path)
	return string(raw), err
}
