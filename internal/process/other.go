//go:build !unix

package process

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"sync"
)

// run runs a command on systems without process groups, where only the command
// itself is killed.
func run(ctx context.Context, c Command) (Outcome, error) {
	stdout, stderr := newCapture(c.MaxOutput, c.Stdout), newTailCapture(c.Stderr)
	bounded, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	cmd := exec.CommandContext(bounded, c.Path, c.Args...)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Dir, c.Env, bytes.NewReader(c.Stdin), stdout, stderr
	cmd.WaitDelay = killTimeout
	if err := cmd.Start(); err != nil {
		return Outcome{}, err
	}
	// Output beyond MaxOutput kills the command, and run returns ErrTooMuch.
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

// start implements Start on systems without process groups.
func start(ctx context.Context, c Command) (*Process, error) {
	bounded, stop := context.WithCancel(ctx)
	stopped := make(chan struct{})
	p := &Process{
		stderr: newTailCapture(c.Stderr), stop: sync.OnceFunc(func() { close(stopped) }), done: make(chan struct{}),
	}
	cmd := exec.CommandContext(bounded, c.Path, c.Args...)
	cmd.Dir, cmd.Env, cmd.Stderr, cmd.WaitDelay = c.Dir, c.Env, p.stderr, killTimeout
	read, write, err := os.Pipe()
	if err == nil {
		cmd.Stdout = write
		p.Stdout = read
		if p.Stdin, err = cmd.StdinPipe(); err == nil {
			err = cmd.Start()
		}
		write.Close()
		if err != nil {
			read.Close()
		}
	}
	if err != nil {
		stop()
		return nil, err
	}
	// The goroutine waits for the end of the command, or for Stop, and then for what Wait copies.
	go func() {
		defer close(p.done)
		defer stop()
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case err = <-ended:
		case <-stopped:
			stop()
			err = <-ended
		}
		p.outcome = Outcome{Stderr: p.stderr.bytes(), Exit: cmd.ProcessState.ExitCode()}
		var exit *exec.ExitError
		if ctx.Err() != nil {
			p.err = context.Cause(ctx)
		} else if err != nil && !errors.As(err, &exit) {
			p.err = err
		}
	}()
	return p, nil
}
