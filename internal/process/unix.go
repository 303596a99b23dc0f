//go:build unix

package process

import (
	"bytes"
	"context"
	"crypto/rand"
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
// and holds none of the command's files. When it has to act it first looks for
// processes that have left the group and still carry the command's mark; it
// does not carry the mark itself.
const guard = `mark=$1; shift
(trap '' HUP INT QUIT TERM; {
read -r _
if [ -r /proc/self/environ ]; then
	tries=50
	while found=$(grep -lsF "$mark" /proc/[0-9]*/environ); [ -n "$found" ] && [ $((tries-=1)) -gt 0 ]; do
		for one in $found; do one=${one#/proc/}; kill -KILL "${one%/environ}"; done
	done
fi
kill -KILL 0; } <&3 >/dev/null 2>&1 &)
exec 3<&-
export ` + markName + `="$mark"
exec "$@"`

// markName is the variable by which everything that a command has started can
// be told from everything else.
const markName = "ESPALIER_COMMAND"

// live is a command that has been started.
type live struct {
	cmd    *exec.Cmd
	mark   string
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
	l := &live{mark: rand.Text(), leash: leash, exited: make(chan struct{})}
	l.cmd = exec.Command("/bin/sh", append([]string{"-c", guard, "sh", l.mark, c.Path}, c.Args...)...)
	l.cmd.Dir, l.cmd.Env = c.Dir, c.Env
	l.cmd.Stdin, l.cmd.Stdout, l.cmd.Stderr = in, out, errs
	l.cmd.ExtraFiles = []*os.File{leashRead}
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	adopt()
	if err := known.start(l.cmd); err != nil {
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
	deadline := time.Now().Add(mostDying)
	if err := l.endGroup(deadline); err != nil {
		return err
	}
	known.remove(l.group())
	return endEscaped(l.mark, deadline)
}

// endGroup kills what is left of the group and returns when it is gone. The
// watcher is always left, so the group's number cannot have gone to somebody
// else.
func (l *live) endGroup(deadline time.Time) error {
	_ = syscall.Kill(-l.group(), syscall.SIGKILL)
	timer := time.After(time.Until(deadline))
	select {
	case <-l.exited:
	case <-timer:
		return fmt.Errorf("%w: process %d", ErrAlive, l.group())
	}
	if !awaitGroup(l.group(), timer) && !gone(l.group(), true) {
		return fmt.Errorf("%w: process group %d", ErrAlive, l.group())
	}
	timer = time.After(time.Until(deadline))
	const first = 100 * time.Microsecond
	for wait := first; ; wait *= 2 {
		buryGroup(l.group())
		if gone(l.group(), wait > first) {
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
	stdout, stderr := &kept{most: c.MaxOutput, overflow: make(chan struct{})}, &kept{most: MaxErrors, end: true}
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
	outcome := ended(l.cmd.ProcessState)
	outcome.Stdout, outcome.Stderr = stdout.bytes(), stderr.bytes()
	return outcome, stopped
}

func start(ctx context.Context, c Command) (*Process, error) {
	stderr := &kept{most: MaxErrors, end: true}
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
			p := &Process{Stdin: inWrite, Stdout: outRead, stderr: stderr, stop: make(chan struct{}), done: make(chan struct{})}
			go p.watch(ctx, l, c.Grace, errRead, errDone)
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
func (p *Process) watch(ctx context.Context, l *live, grace time.Duration, errRead *os.File, errDone <-chan struct{}) {
	defer close(p.done)
	polite := true
	select {
	case <-l.exited:
		polite = false
	case <-ctx.Done():
		p.err = context.Cause(ctx)
	case <-p.stop:
	}
	if err := l.end(polite, grace); err != nil {
		p.err = errors.Join(err, p.err)
		return
	}
	_ = errRead.SetReadDeadline(time.Now().Add(mostDrain))
	<-errDone
	p.outcome = ended(l.cmd.ProcessState)
	p.outcome.Stderr = p.stderr.bytes()
}

func ended(state *os.ProcessState) Outcome {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return Outcome{Exit: 128 + int(status.Signal()), Signal: status.Signal().String()}
	}
	return Outcome{Exit: state.ExitCode()}
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
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if s, ok := statOf(pid); ok && s.group == group && !s.dead {
			return false
		}
	}
	return true
}

// stat is what /proc says about a process.
type stat struct {
	parent, group int
	dead          bool
}

// statOf looks at a process; false when it has ended and been buried.
func statOf(pid int) (stat, bool) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, false
	}
	// "pid (name) state parent group …", where the name may be anything.
	fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
	if len(fields) < 3 {
		return stat{}, false
	}
	parent, _ := strconv.Atoi(string(fields[1])) // the kernel's own figures
	group, _ := strconv.Atoi(string(fields[2]))
	return stat{parent: parent, group: group, dead: string(fields[0]) == "Z" || string(fields[0]) == "X"}, true
}
