//go:build !unix

package process

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
)

// run runs a command where there are no process groups: only the command
// itself is killed.
func run(ctx context.Context, c Command) (Outcome, error) {
	stdout, stderr := &kept{most: c.MaxOutput, overflow: make(chan struct{})}, &kept{most: MaxErrors, end: true}
	bounded, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	cmd := exec.CommandContext(bounded, c.Path, c.Args...)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Dir, c.Env, bytes.NewReader(c.Stdin), stdout, stderr
	cmd.WaitDelay = mostDying
	if err := cmd.Start(); err != nil {
		return Outcome{}, err
	}
	done := make(chan struct{})
	go func() {
		select {
		case <-stdout.overflow:
			stop(ErrTooMuch)
		case <-done:
		}
	}()
	err := cmd.Wait()
	close(done)
	outcome := Outcome{Stdout: stdout.bytes(), Stderr: stderr.bytes(), Exit: cmd.ProcessState.ExitCode()}
	var exit *exec.ExitError
	if err != nil && bounded.Err() != nil {
		return outcome, context.Cause(bounded)
	}
	if err != nil && !errors.As(err, &exit) {
		return outcome, err
	}
	return outcome, nil
}
