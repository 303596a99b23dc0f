package node

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/espalier-run/espalier/internal/cpython"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/process"
	"github.com/espalier-run/espalier/internal/step"
)

// child runs the code in a real python3: isolated (-I), in the folder of the run, with
// the few environment variables that programs need, and confined to reading the
// project, unless the run was started without confinement.
func (h *host) child(
	ctx context.Context, confine func(string, ...string) (*process.Sandbox, error),
) (json.RawMessage, error) {
	path, err := h.job.Machine.Find("python3")
	if err != nil {
		return nil, step.Errorf(ir.ClassMissing,
			"--python needs python3, which was not found. Install Python 3, or run without --python.")
	}
	if err := h.job.MakeDir(); err != nil {
		return nil, err
	}
	command := process.Command{
		Path: path, Dir: h.job.Dir, Env: process.Environment(os.Environ()), Limits: h.job.Limits,
	}
	home, err := interpreter(ctx, h.job, &command)
	if err != nil {
		return nil, err
	}
	command.Args = []string{"-I", "-c", cpython.Host}
	if !h.set.Unconfined || h.job.Sandbox != nil {
		if confine == nil {
			confine = process.NewSandbox
		}
		box, err := confine(cmp.Or(h.job.Project, h.job.Dir), ".espalier", ".git", ".env")
		if err != nil {
			return nil, step.Errorf(ir.ClassMissing, "python3 was not started because it cannot be confined: %v. "+
				"Start the run with --python=unconfined if you trust the code.", err)
		}
		box = box.For(h.job.Dir)
		box.Read = append(box.Read, home...)
		command.Sandbox = box
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p, err := h.job.Machine.Start(ctx, command)
	if err != nil {
		return nil, step.Errorf(ir.ClassCommand, "python3 cannot be started: %v", err)
	}
	defer func() {
		p.Stop()
		_ = p.Stdin.Close()
		_, _ = p.Wait() // the code has reported its end itself
		_ = p.Stdout.Close()
	}()
	t := h.newTimer(cancel)
	value, err := h.converse(ctx, p.Stdin, p.Stdout, t)
	t.pause()
	if err != nil && h.ended == nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if errors.Is(err, errEnded) {
		err = endedEarly(p)
	}
	return value, err
}

// interpreter finds the program behind the name python3, which may be a script that
// chooses one, and the folders that it needs to read.
func interpreter(ctx context.Context, job *step.Job, c *process.Command) ([]string, error) {
	ask := *c
	ask.Args = []string{"-I", "-c", "import sys; print(sys.executable); print(sys.base_prefix); print(sys.prefix)"}
	outcome, err := job.Machine.Run(ctx, job, step.CommandSpec{Command: ask})
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSpace(string(outcome.Stdout)), "\n")
	if outcome.Exit != 0 || len(lines) != 3 {
		return nil, step.Errorf(ir.ClassMissing, "python3 failed to start: %.200s",
			strings.TrimSpace(string(outcome.Stderr)))
	}
	c.Path = lines[0]
	return append(lines[1:], filepath.Dir(lines[0])), nil
}

// endedEarly returns the error of a python3 that ended without a message.
func endedEarly(p *process.Process) error {
	p.Stop()
	outcome, err := p.Wait()
	if err != nil {
		return step.Errorf(ir.ClassCommand, "python3: %v", err)
	}
	text := strings.TrimSpace(strings.ToValidUTF8(string(p.Errors()), "�"))
	return step.Errorf(ir.ClassCommand, "python3 ended with exit code %d before the code was done: %s",
		outcome.Exit, text[strings.LastIndexByte(text, '\n')+1:])
}
