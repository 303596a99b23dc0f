package exec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/process"
	"github.com/espalier-run/espalier/internal/step"
)

// Recovery asks a person if a command was noted, because it may have run.
func Recovery(history []journal.TaskNoted) step.Recovery {
	if slices.ContainsFunc(history, func(n journal.TaskNoted) bool { return n.Kind == journal.NoteCommand }) {
		return step.Ask
	}
	return step.Rerun
}

// Base is step.Base for tasks that run commands.
type Base[K step.Named, S step.Settings] struct{ step.Base[K, S] }

// Recovery asks a person if a command may have run.
func (Base[K, S]) Recovery(_ *ir.Task, history []journal.TaskNoted) step.Recovery {
	return Recovery(history)
}

// Program is a command that a task runs.
type Program struct {
	step.CommandSpec
	// Name is the command in messages, such as `the script of step "build"`.
	Name string
	// Script is the file of the command, if it has one that people know.
	Script string
	// Index counts the commands that the task runs before this one.
	Index int
	// Reads and Writes are further paths that the sandbox opens.
	Reads, Writes []string
}

// Run runs the program in the sandbox of the job and returns how it ended, also with an exit code other than 0.
// The program is noted before it starts, unless an earlier execution of this attempt has noted it.
func (p *Program) Run(ctx context.Context, job *step.Job) (process.Outcome, error) {
	none := process.Outcome{}
	if err := job.ApplySandbox(&p.Command, p.Writes...); err != nil {
		return none, err
	}
	if p.Command.Sandbox != nil {
		p.Command.Sandbox.Read = append(p.Command.Sandbox.Read, p.Reads...)
	}
	if job.NoteCount(journal.NoteCommand) <= p.Index {
		noted := journal.Command{Command: job.Machine.Shown(truncate(p.Shown)), Script: p.Script}
		if err := job.Log.Note(ctx, step.Note{Kind: journal.NoteCommand, Data: noted}); err != nil {
			return none, err
		}
	}
	work := p.CommandSpec
	end := func() error { return nil }
	if job.RecordStream {
		r := newRecorder(ctx, job.Log)
		work.Command.Stdout, work.Command.Stderr = r.stream(journal.Stdout), r.stream(journal.Stderr)
		end = r.close
	}
	outcome, err := job.Machine.Run(ctx, job, work)
	if noted := end(); noted != nil && err == nil {
		return none, noted
	}
	switch {
	case errors.Is(err, process.ErrTooMuch):
		return none, step.Errorf(ir.ClassCommand, "%s was stopped: it wrote more than %d MiB",
			p.Name, process.DefaultMaxOutput>>20)
	case err != nil && ctx.Err() != nil:
		return none, err
	case err != nil && !job.Machine.IsFolder(p.Command.Dir):
		return none, NoFolder(job, p.Command.Dir)
	case err != nil:
		return none, step.Errorf(ir.ClassCommand, "%s: %v", p.Name, err)
	}
	return outcome, nil
}

// Output runs the program and returns what it wrote to standard output. An exit code other than 0 is a failure.
func (p *Program) Output(ctx context.Context, job *step.Job) ([]byte, error) {
	outcome, err := p.Run(ctx, job)
	if err == nil && outcome.Exit != 0 {
		err = p.Failure(outcome)
	}
	return outcome.Stdout, err
}

// Failure returns the failure of a program that ended with an exit code other
// than 0, with the last lines that it wrote to standard error.
func (p *Program) Failure(o process.Outcome) *step.Error {
	const most = 20
	message := fmt.Sprintf("%s ended with %s", p.Name, Exit(o))
	lines := strings.Split(strings.TrimSpace(Text(o.Stderr)), "\n")
	if last := strings.Join(lines[max(0, len(lines)-most):], "\n"); last != "" {
		message += ": " + last
	}
	return &step.Error{Class: ir.ClassCommand, Message: message, Exit: o.Exit}
}

// Exit describes how a command ended: "exit code 2" or "signal: killed".
func Exit(o process.Outcome) string {
	if o.Signal != "" {
		return "signal: " + o.Signal
	}
	return fmt.Sprintf("exit code %d", o.Exit)
}

// NoFolder returns the failure of a step whose folder does not exist.
func NoFolder(job *step.Job, dir string) error {
	return step.Errorf(ir.ClassMissing, "step %q runs in %s, which does not exist", job.Step.ID, dir)
}

// Text returns what a command wrote as valid UTF-8.
func Text(b []byte) string { return strings.ToValidUTF8(string(b), "�") }

// Variables returns the environment variables that tell a command which run and
// step it belongs to.
func Variables(job *step.Job, more ...string) []string {
	return append([]string{
		"ESPALIER_RUN_ID=" + string(job.Run), "ESPALIER_STEP=" + job.Step.ID,
		"ESPALIER_KEY=" + job.Idempotency(job.Key), "TRACEPARENT=" + job.TraceParent(),
	}, more...)
}

// Environment returns the variables of this process that commands may see,
// followed by Variables.
func Environment(job *step.Job, more ...string) []string {
	return process.Environment(os.Environ(), Variables(job, more...)...)
}

// MaxVariable is the length from which a value goes into a file: systems limit
// a variable or an argument to as little as 128 KiB.
const MaxVariable = 96 << 10

// maxNoted is how much of a command the journal keeps.
const maxNoted = 64 << 10

func truncate(text string) string {
	if len(text) <= maxNoted {
		return text
	}
	return strings.ToValidUTF8(text[:maxNoted], "") + "…"
}

// Files are temporary files that a command reads.
type Files struct {
	Job   *step.Job
	Paths []string
}

// Add writes a text to a new file. pattern is that of os.CreateTemp.
func (f *Files) Add(pattern, text string) (string, error) {
	dir, err := f.Job.TempDir(text)
	if err != nil {
		return "", err
	}
	file, err := os.CreateTemp(dir, pattern)
	if err == nil {
		f.Paths = append(f.Paths, file.Name())
		_, err = file.WriteString(text)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return "", step.Errorf(ir.ClassMissing, "cannot write to the run's folder: %v", err)
	}
	return file.Name(), nil
}

// Remove removes the files.
func (f *Files) Remove() {
	for _, path := range f.Paths {
		os.Remove(path)
	}
}
