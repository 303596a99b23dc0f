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

// guard leaves the watcher behind and becomes the command. The watcher is
// forked twice, so that it is nobody's child whom the command might wait for,
// and holds none of the command's files.
const guard = `(trap '' HUP INT QUIT TERM; { read -r _; kill -KILL 0; } <&3 >/dev/null 2>&1 &)
exec 3<&-
exec "$@"`

// live is a command that has been started.
type live struct {
	cmd    *exec.Cmd
	leash  *os.File // as long as we hold it, the watcher does nothing
	exited chan struct{}
}

// launch starts a command with the files given, which it closes here.
func launch(c Command, in, out, errs *os.File) (*live, error) {
	defer func() {
		for _, f := range []*os.File{in, out, errs} {
			f.Close()
		}
	}()
	leashRead, leash, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer leashRead.Close()
	l := &live{leash: leash, exited: make(chan struct{})}
	l.cmd = exec.Command("/bin/sh", append([]string{"-c", guard, "sh", c.Path}, c.Args...)...)
	l.cmd.Dir, l.cmd.Env = c.Dir, variables(c)
	l.cmd.Stdin, l.cmd.Stdout, l.cmd.Stderr = in, out, errs
	l.cmd.ExtraFiles = []*os.File{leashRead}
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := l.cmd.Start(); err != nil {
		leash.Close()
		return nil, err
	}
	go func() {
		_ = l.cmd.Wait() // how it ended is in the state
		close(l.exited)
	}()
	return l, nil
}

func (l *live) group() int { return l.cmd.Process.Pid }

// end stops the command, politely first if it still runs, and returns when
// nothing of it is left.
func (l *live) end(polite bool, grace time.Duration) error {
	defer l.leash.Close()
	if polite {
		_ = syscall.Kill(-l.group(), syscall.SIGTERM)
		select {
		case <-l.exited:
		case <-time.After(grace):
		}
	}
	return l.endGroup()
}

// endGroup kills what is left of the group and returns when it is gone. The
// watcher is always left, so the group's number cannot have gone to somebody
// else.
func (l *live) endGroup() error {
	_ = syscall.Kill(-l.group(), syscall.SIGKILL)
	timer := time.After(mostDying)
	select {
	case <-l.exited:
	case <-timer:
		return fmt.Errorf("%w: process %d", ErrAlive, l.group())
	}
	for wait := 100 * time.Microsecond; ; wait *= 2 {
		if gone(l.group()) {
			return nil
		}
		select {
		case <-time.After(wait):
		case <-timer:
			return fmt.Errorf("%w: process group %d", ErrAlive, l.group())
		}
	}
}

func run(ctx context.Context, c Command) (Outcome, error) {
	stdout, stderr := &kept{most: c.MaxOutput, overflow: make(chan struct{})}, &kept{most: MaxErrors, end: true, also: c.Stderr}
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
	l, err := launch(c, inRead, outWrite, errWrite)
	if err != nil {
		return Outcome{}, err
	}
	go func() {
		_, _ = io.Copy(inWrite, bytes.NewReader(c.Stdin)) // a command need not read what it is given
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
	// All that were in the group have let go of the pipes. Whoever else may
	// hold them is not waited for.
	for _, read := range []*os.File{outRead, errRead} {
		_ = read.SetReadDeadline(time.Now().Add(mostDrain))
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

func start(ctx context.Context, c Command) (*Process, error) {
	stderr := &kept{most: MaxErrors, end: true, also: c.Stderr}
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
		var l *live
		if l, err = launch(c, inRead, outWrite, errWrite); err == nil {
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

// watch waits for the end of a process and makes sure of it.
func (p *Process) watch(ctx context.Context, l *live, grace time.Duration, stopped <-chan struct{}, errRead *os.File, errDone <-chan struct{}) {
	defer close(p.done)
	polite := true
	select {
	case <-l.exited:
		polite = false
	case <-ctx.Done():
		p.err = context.Cause(ctx)
	case <-stopped:
	}
	if err := l.end(polite, grace); err != nil {
		p.err = errors.Join(err, p.err)
		return
	}
	_ = errRead.SetReadDeadline(time.Now().Add(mostDrain))
	<-errDone
	p.outcome = ended(l.cmd.ProcessState.Sys().(syscall.WaitStatus))
	p.outcome.Stderr = p.stderr.bytes()
}

// gone tells whether a group has no member.
func gone(group int) bool {
	err := syscall.Kill(-group, 0)
	return errors.Is(err, syscall.ESRCH) || runtime.GOOS == "darwin" && errors.Is(err, syscall.EPERM)
}

// pipe copies what is written to the file that it returns into k, until every
// holder has closed it. done is closed then.
func (k *kept) pipe() (write, read *os.File, done chan struct{}, err error) {
	read, write, err = os.Pipe()
	if err != nil {
		return nil, nil, nil, err
	}
	done = make(chan struct{})
	go func() {
		defer close(done)
		defer read.Close()
		_, _ = io.Copy(k, read) // an error is the end of it: the deadline, or a closed pipe
	}()
	return write, read, done, nil
}
