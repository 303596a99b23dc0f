//go:build unix && !linux

package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// drainTimeout is how long to read from a pipe that a process outside of the
// command holds open.
const drainTimeout = time.Second

// watchdogScript starts a watchdog and becomes the command. The watchdog is forked
// twice, so that it is not a child that the command might wait for, and it holds
// none of the command's files.
const watchdogScript = `(trap '' HUP INT QUIT TERM; { read -r _; kill -KILL 0; } <&3 >/dev/null 2>&1 &)
exec 3<&-
exec "$@"`

// child is a command that has been started. It leads a process group.
type child struct {
	cmd          *exec.Cmd
	lifetimePipe *os.File // the watchdog kills the group when this end is closed
	exited       chan struct{}
}

// startChild starts a command with the given files, and closes them here.
func startChild(c Command, in, out, errs *os.File) (*child, error) {
	defer func() {
		for _, f := range []*os.File{in, out, errs} {
			f.Close()
		}
	}()
	lifetimeRead, lifetime, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer lifetimeRead.Close()
	l := &child{lifetimePipe: lifetime, exited: make(chan struct{})}
	l.cmd = exec.Command("/bin/sh", append([]string{"-c", watchdogScript, "sh", c.Path}, c.Args...)...)
	l.cmd.Dir, l.cmd.Env = c.Dir, variables(c)
	l.cmd.Stdin, l.cmd.Stdout, l.cmd.Stderr = in, out, errs
	l.cmd.ExtraFiles = []*os.File{lifetimeRead}
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := l.cmd.Start(); err != nil {
		lifetime.Close()
		return nil, err
	}
	go func() {
		_ = l.cmd.Wait() // the outcome is in ProcessState
		close(l.exited)
	}()
	return l, nil
}

// group returns the ID of the group, which is that of its leader.
func (l *child) group() int { return l.cmd.Process.Pid }

// end ends the command and returns when nothing of it is left. With terminate,
// the command is asked to end first.
func (l *child) end(terminate bool, grace time.Duration) error {
	defer l.lifetimePipe.Close()
	if terminate {
		_ = syscall.Kill(-l.group(), syscall.SIGTERM)
		select {
		case <-l.exited:
		case <-time.After(grace):
		}
	}
	return l.endGroup()
}

// endGroup kills what is left of the group and returns when it is gone. The
// watchdog is always left, so the group's ID cannot have been reused.
func (l *child) endGroup() error {
	_ = syscall.Kill(-l.group(), syscall.SIGKILL)
	timer := time.After(killTimeout)
	select {
	case <-l.exited:
	case <-timer:
		return fmt.Errorf("%w: process %d", ErrAlive, l.group())
	}
	for wait := 100 * time.Microsecond; ; wait *= 2 {
		if groupGone(l.group()) {
			return nil
		}
		select {
		case <-time.After(wait):
		case <-timer:
			return fmt.Errorf("%w: process group %d", ErrAlive, l.group())
		}
	}
}

// run implements Run. The group has closed its ends of the pipes when it is dead, so that what it has written is
// complete then.
func run(ctx context.Context, c Command) (Outcome, error) {
	stdout, stderr := newCapture(c.MaxOutput, c.Stdout), newTailCapture(c.Stderr)
	inRead, inWrite, err := os.Pipe()
	if err != nil {
		return Outcome{}, err
	}
	defer inWrite.Close()
	outWrite, outRead, outDone, err := stdout.pipe()
	if err != nil {
		inRead.Close()
		return Outcome{}, err
	}
	errWrite, errRead, errDone, err := stderr.pipe()
	if err != nil {
		inRead.Close()
		outWrite.Close()
		return Outcome{}, err
	}
	l, err := startChild(c, inRead, outWrite, errWrite)
	if err != nil {
		return Outcome{}, err
	}
	go func() {
		_, _ = io.Copy(inWrite, bytes.NewReader(c.Stdin)) // the command need not read all of it
		inWrite.Close()
	}()
	var stopped error
	select {
	case <-l.exited:
	case <-ctx.Done():
		stopped = context.Cause(ctx)
	case <-stdout.overflow:
		stopped = ErrTooMuch
	}
	if err := l.end(stopped != nil, c.Grace); err != nil {
		return Outcome{}, errors.Join(err, stopped)
	}
	// The group has closed the pipes. Other processes may hold them open for
	// drainTimeout.
	for _, read := range []*os.File{outRead, errRead} {
		_ = read.SetReadDeadline(time.Now().Add(drainTimeout))
	}
	<-outDone
	<-errDone
	select {
	case <-stdout.overflow:
		stopped = ErrTooMuch
	default:
	}
	outcome := ended(l.cmd.ProcessState.Sys().(syscall.WaitStatus))
	outcome.Stdout, outcome.Stderr = stdout.bytes(), stderr.bytes()
	return outcome, stopped
}

// start implements Start. startChild closes the command's ends of the pipes, also if it fails.
func start(ctx context.Context, c Command) (*Process, error) {
	stderr := newTailCapture(c.Stderr)
	inRead, inWrite, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		inRead.Close()
		inWrite.Close()
		return nil, err
	}
	errWrite, errRead, errDone, err := stderr.pipe()
	if err == nil {
		var l *child
		if l, err = startChild(c, inRead, outWrite, errWrite); err == nil {
			stopped := make(chan struct{})
			p := &Process{
				Stdin: inWrite, Stdout: outRead, stderr: stderr,
				stop: sync.OnceFunc(func() { close(stopped) }), done: make(chan struct{}),
			}
			go p.watch(ctx, l, c.Grace, stopped, errRead, errDone)
			return p, nil
		}
	} else {
		inRead.Close()
		outWrite.Close()
	}
	inWrite.Close()
	outRead.Close()
	return nil, err
}

// watch waits until the process ends or must end, and ends it.
func (p *Process) watch(
	ctx context.Context, l *child, grace time.Duration, stopped <-chan struct{},
	errRead *os.File, errDone <-chan struct{},
) {
	defer close(p.done)
	terminate := true
	select {
	case <-l.exited:
		terminate = false
	case <-ctx.Done():
		p.err = context.Cause(ctx)
	case <-stopped:
	}
	if err := l.end(terminate, grace); err != nil {
		p.err = errors.Join(err, p.err)
		return
	}
	_ = errRead.SetReadDeadline(time.Now().Add(drainTimeout))
	<-errDone
	p.outcome = ended(l.cmd.ProcessState.Sys().(syscall.WaitStatus))
	p.outcome.Stderr = p.stderr.bytes()
}

// groupGone reports whether a group has no members.
func groupGone(group int) bool {
	err := syscall.Kill(-group, 0)
	return errors.Is(err, syscall.ESRCH) || runtime.GOOS == "darwin" && errors.Is(err, syscall.EPERM)
}

// pipe returns a file whose content is copied into c until all its holders have
// closed it; done is closed then.
func (c *capture) pipe() (write, read *os.File, done chan struct{}, err error) {
	read, write, err = os.Pipe()
	if err != nil {
		return nil, nil, nil, err
	}
	done = make(chan struct{})
	go func() {
		defer close(done)
		defer read.Close()
		_, _ = io.Copy(c, read) // ends with the deadline or a closed pipe
	}()
	return write, read, done, nil
}
