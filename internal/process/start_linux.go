package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// onThread runs a function that starts a command and waits for it, on a thread
// that lives as long as the function.
//
// Pdeathsig is sent when the thread that forked the command ends, not when the
// process ends, so that thread has to stay. It is never the first thread: all
// children of the first thread are orphans that the process has adopted.
func onThread(do func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if syscall.Gettid() != os.Getpid() {
		do()
		return
	}
	done := make(chan struct{})
	go func() { // runs on another thread, because this one is locked
		defer close(done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		do()
	}()
	<-done
}

// viaShell runs a command that execve cannot: a script without an interpreter
// line, a program on the PATH, or a program that does not exist, which then
// ends as it does in a shell.
const viaShell = `exec "$@"`

// child is a command that has been started. It leads a process group.
//
// Its process ID, which is also the ID of the group, is valid until the child is
// reaped. Signals to the group are sent before that, and the watchdog's table
// does not contain the group any more when it is reaped.
type child struct {
	pid  int
	mark string
	slot int // in the watchdog's table
	exit int // a file descriptor that is readable once the command is dead

	cgroup *os.File // nil if there is none

	exited bool // the exit was observed
}

// untilExit returns what poll waits for until the command is dead.
func (ch *child) untilExit() []unix.PollFd {
	return []unix.PollFd{{Fd: int32(ch.exit), Events: unix.POLLIN}}
}

// startChild starts a command with the given files. From its first moment, the
// command and its group are killed if this process is.
func startChild(c Command, f files) (*child, error) {
	ch, err := fork(c, f, commandWatchdog.watch)
	if err != nil {
		return nil, err
	}
	if ch.exit < 0 { // the kernel has no pidfds
		if ch.exit, err = exitPipe(ch.pid); err != nil {
			_ = syscall.Kill(-ch.pid, syscall.SIGKILL)
			_, _ = ch.reap()
			removeCgroup(ch.cgroup)
			commandWatchdog.release(ch.slot)
			return nil, err
		}
	}
	return ch, nil
}

// fork starts a command, and calls started with its slot and its group.
func fork(c Command, f files, started func(slot, group int)) (*child, error) {
	becomeSubreaper()
	if c.EarlyLimits && c.Sandbox == nil { // a sandbox does that itself
		c = c.limited()
	}
	cgroup := commandCgroup(c.Limits) // before the watchdog starts: this process must be alone in its cgroup
	// From here on, the watchdog looks for processes with the mark if this process is killed.
	slot, mark, err := commandWatchdog.reserve()
	if err != nil {
		removeCgroup(cgroup)
		return nil, err
	}
	ch := &child{mark: mark, slot: slot, cgroup: cgroup}
	env := variables(c, markName+"="+inheritedMarks()+mark)
	// The lock keeps killStrays from killing the new process as a stray before its group is recorded.
	start := func(path string, argv ...string) error {
		commandWatchdog.starting.RLock()
		defer commandWatchdog.starting.RUnlock()
		if ch.pid, ch.exit, err = c.forkExec(path, argv, env, f, cgroup); err == nil {
			started(ch.slot, ch.pid)
			commandWatchdog.setGroup(ch.slot, ch.pid)
			if c.Sandbox == nil && !c.EarlyLimits { // otherwise the limits are set before the command begins
				applyLimits(c.Limits, ch.pid)
			}
		}
		return err
	}
	// Starting it directly saves a shell. If that fails for any reason, the shell tries, and its exit status and
	// message say what is wrong.
	if !strings.Contains(c.Path, "/") || start(c.Path, append([]string{c.Path}, c.Args...)...) != nil {
		err = start("/bin/sh", append([]string{"sh", "-c", viaShell, "sh", c.Path}, c.Args...)...)
	}
	if err != nil {
		removeCgroup(cgroup)
		commandWatchdog.release(slot)
		return nil, err
	}
	return ch, nil
}

// forkExec starts a program. exit is a file descriptor that is readable once the
// program is dead, or -1 on kernels without pidfds. The program starts in the cgroup, if there is one.
func (c *Command) forkExec(
	path string, argv, env []string, f files, cgroup *os.File,
) (pid, exit int, err error) {
	exit = -1
	attr := syscall.ProcAttr{
		Dir: c.Dir, Env: env,
		Files: []uintptr{uintptr(f[0]), uintptr(f[1]), uintptr(f[2])},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, PidFD: &exit},
	}
	// What confines a command is prepared before the fork: after it, Go runs only the new program.
	c.isolation.attributes(attr.Sys)
	if c.Sandbox != nil {
		if err := keepInherited(); err != nil {
			return 0, -1, err
		}
	}
	if c.filtered {
		file, err := filterFile(filter(filterOptions{Sockets: true, Attributes: true, SystemV: true}))
		if err != nil {
			return 0, -1, err
		}
		defer file.Close()
		attr.Files = append(attr.Files, file.Fd()) // becomes filterFD
	}
	// Start the command in its cgroup, so that its first moment counts.
	if cgroup != nil {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, int(cgroup.Fd())
		if pid, err = syscall.ForkExec(path, argv, &attr); err == nil {
			return pid, exit, nil
		}
		attr.Sys.UseCgroupFD = false // the kernel, or a filter of system calls, may not know it
	}
	pid, err = syscall.ForkExec(path, argv, &attr)
	return pid, exit, err
}

// exitPipe returns a file descriptor that is readable once a child is dead.
func exitPipe(pid int) (int, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return -1, err
	}
	// WNOWAIT leaves the child to be reaped by child.reap.
	go func() {
		defer unix.Close(p[1])
		for errors.Is(unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
		}
	}()
	return p[0], nil
}

// wait waits for a child and releases its process ID for reuse.
func wait(pid int) (status syscall.WaitStatus, err error) {
	for {
		if _, err = syscall.Wait4(pid, &status, 0, nil); !errors.Is(err, syscall.EINTR) {
			return status, err
		}
	}
}

// terminate asks the command to end.
func (ch *child) terminate() { _ = syscall.Kill(-ch.pid, syscall.SIGTERM) }

// end kills what is left of the command, including processes that have left its
// group, and returns when all of it is gone.
func (ch *child) end() (Outcome, error) {
	_ = syscall.Kill(-ch.pid, syscall.SIGKILL) // the ID is ours: the child is not reaped yet
	var deadline time.Time
	if !ch.exited {
		deadline = time.Now().Add(killTimeout)
		if !ch.dies(deadline) {
			go ch.reapLater()
			return Outcome{}, fmt.Errorf("%w: process %d", ErrAlive, ch.pid)
		}
	}
	// The leader is dead, but its ID stays ours until it is reaped.
	unix.Close(ch.exit)
	status, unknown := ch.reap()
	var err error
	// Killed members of the group may take a moment to end, and processes that have left the group may be among the
	// orphans.
	if !groupGone(ch.pid) || !orphans.empty() { // rare
		if deadline.IsZero() {
			deadline = time.Now().Add(killTimeout)
		}
		if err = awaitGroupEnd(ch.pid, deadline); err == nil {
			err = killEscaped(ch.mark, deadline)
		}
	}
	removeCgroup(ch.cgroup)
	if err == nil {
		commandWatchdog.release(ch.slot) // otherwise the watchdog still has to kill what is left
	}
	if unknown != nil {
		err = errors.Join(fmt.Errorf("the exit status of the command is lost: %w", unknown), err)
	}
	return ended(status), err
}

// dies waits until the command is dead, and reports whether it died in time.
func (ch *child) dies(deadline time.Time) bool {
	for fds := ch.untilExit(); fds[0].Revents == 0; {
		left := time.Until(deadline)
		if left <= 0 {
			return false
		}
		poll(fds, left)
	}
	return true
}

// reapLater reaps a command that did not die in time, whenever it does.
func (ch *child) reapLater() {
	poll(ch.untilExit(), forever)
	unix.Close(ch.exit)
	_, _ = ch.reap()
	removeCgroup(ch.cgroup)
}

// reap releases the IDs of a dead command and of its group. The watchdog must
// not know the group any more by then, because the kernel may reuse its ID.
func (ch *child) reap() (syscall.WaitStatus, error) {
	commandWatchdog.forget(ch.slot)
	defer commandWatchdog.setGroup(ch.slot, 0)
	return wait(ch.pid)
}

// forever is a timeout that never ends.
const forever = time.Duration(-1)

// poll waits until one of the files is ready or the time is over. With a
// timeout it may return earlier, and the caller checks its deadline again.
func poll(fds []unix.PollFd, timeout time.Duration) {
	milliseconds := -1
	if timeout >= 0 {
		milliseconds = int((timeout + time.Millisecond - 1) / time.Millisecond)
	}
	for {
		_, err := unix.Poll(fds, milliseconds)
		if !errors.Is(err, unix.EINTR) || timeout >= 0 {
			return
		}
	}
}

// cancelFD returns a file descriptor that becomes readable when the context
// ends, or -1 for a context that never ends. release closes it.
func cancelFD(ctx context.Context) (fd int, release func(), err error) {
	if ctx.Done() == nil {
		return -1, func() {}, nil
	}
	fd, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return -1, nil, err
	}
	written := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(written)
		_, _ = unix.Write(fd, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // the counter cannot overflow
	})
	return fd, func() {
		if !stop() {
			<-written
		}
		unix.Close(fd)
	}, nil
}

// inheritedMarks returns the marks of the commands that this process is itself
// a part of.
var inheritedMarks = sync.OnceValue(func() string {
	if outer := os.Getenv(markName); outer != "" {
		return outer + " "
	}
	return ""
})
