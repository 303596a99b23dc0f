//go:build unix

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
	"strconv"
	"syscall"
	"time"
)

// guard leaves the watcher behind and becomes the command. The watcher is
// forked twice, so that it is nobody's child whom the command might wait for,
// and holds none of the command's files.
const guard = `(trap '' HUP INT QUIT TERM; { read -r _; kill -KILL 0; } <&3 >/dev/null 2>&1 &)
exec 3<&-
exec "$@"`

func run(ctx context.Context, c Command) (Outcome, error) {
	var ours closers // our ends of the pipes
	defer ours.close()
	var theirs closers
	defer theirs.close()

	stdout, stderr := &kept{most: c.MaxOutput, overflow: make(chan struct{})}, &kept{most: MaxErrors, end: true}
	outWrite, outRead, outDone, err := stdout.pipe()
	if err != nil {
		return Outcome{}, err
	}
	theirs.add(outWrite)
	errWrite, errRead, errDone, err := stderr.pipe()
	if err != nil {
		return Outcome{}, err
	}
	theirs.add(errWrite)
	leashRead, leash, err := os.Pipe()
	if err != nil {
		return Outcome{}, err
	}
	theirs.add(leashRead)
	ours.add(leash)
	inRead, inWrite, err := os.Pipe()
	if err != nil {
		return Outcome{}, err
	}
	theirs.add(inRead)
	ours.add(inWrite)

	cmd := exec.Command("/bin/sh", append([]string{"-c", guard, "sh", c.Path}, c.Args...)...)
	cmd.Dir, cmd.Env = c.Dir, c.Env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inRead, outWrite, errWrite
	cmd.ExtraFiles = []*os.File{leashRead}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return Outcome{}, err
	}
	theirs.close()
	go func() {
		_, _ = io.Copy(inWrite, bytes.NewReader(c.Stdin)) // a command need not read what it is given
		inWrite.Close()
	}()

	group := cmd.Process.Pid
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended is in the state
		close(exited)
	}()
	var stopped error
	select {
	case <-exited:
	case <-ctx.Done():
		stopped = context.Cause(ctx)
	case <-stdout.overflow:
		stopped = ErrTooMuch
	}
	if stopped != nil {
		_ = syscall.Kill(-group, syscall.SIGTERM)
		select {
		case <-exited:
		case <-time.After(c.Grace):
		}
	}
	if err := end(group, exited); err != nil {
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
	outcome := ended(cmd.ProcessState)
	outcome.Stdout, outcome.Stderr = stdout.bytes(), stderr.bytes()
	return outcome, stopped
}

func ended(state *os.ProcessState) Outcome {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return Outcome{Exit: 128 + int(status.Signal()), Signal: status.Signal().String()}
	}
	return Outcome{Exit: state.ExitCode()}
}

// end kills what is left of a group and returns when it is gone. The watcher
// is always left, so the group's number cannot have gone to somebody else.
func end(group int, exited <-chan struct{}) error {
	_ = syscall.Kill(-group, syscall.SIGKILL)
	deadline := time.After(mostDying)
	select {
	case <-exited:
	case <-deadline:
		return fmt.Errorf("%w: process %d", ErrAlive, group)
	}
	const first = 100 * time.Microsecond
	for wait := first; !gone(group, wait > first); wait *= 2 {
		select {
		case <-time.After(wait):
		case <-deadline:
			return fmt.Errorf("%w: process group %d", ErrAlive, group)
		}
	}
	return nil
}

// gone tells whether a group has no living member. The dead count until
// somebody has asked after them, which in some containers nobody does: looking
// closely tells them from the living.
func gone(group int, closely bool) bool {
	err := syscall.Kill(-group, 0)
	if errors.Is(err, syscall.ESRCH) || runtime.GOOS == "darwin" && errors.Is(err, syscall.EPERM) {
		return true
	}
	return closely && runtime.GOOS == "linux" && onlyDead(group)
}

// onlyDead looks through /proc for living members of a group.
func onlyDead(group int) bool {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return false
	}
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it has ended meanwhile
		}
		// "pid (name) state parent group …", where the name may be anything.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) > 2 && string(fields[2]) == strconv.Itoa(group) && string(fields[0]) != "Z" && string(fields[0]) != "X" {
			return false
		}
	}
	return true
}

// closers are files to be closed once.
type closers []*os.File

func (c *closers) add(f *os.File) { *c = append(*c, f) }

func (c *closers) close() {
	for _, f := range *c {
		f.Close()
	}
	*c = nil
}
