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

// onThread does what starts a command and waits for its end, on one thread. The
// kernel tells a process of the death of the thread that forked it, not of the
// whole process: so that thread has to stay. And it is not the first one, whose
// children are none but the orphans that we adopted.
func onThread(do func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if syscall.Gettid() != ourselves() {
		do()
		return
	}
	done := make(chan struct{})
	go func() { // gets another thread, because this one is taken
		defer close(done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		do()
	}()
	<-done
}

// ourselves is the number of this process, asked for once.
var ourselves = sync.OnceValue(os.Getpid)

// viaShell starts a command that the system could not: a script that does not
// name its interpreter, a program that has to be found, or one that is not
// there, which then ends as it does in a shell.
const viaShell = `exec "$@"`

// live is a command that has been started, and leads a group.
type live struct {
	pid  int
	mark string
	line int // in the guardian's table
	exit int // a file that can be read once the command is dead

	exited bool // we know that it is
}

// untilExit is what to wait for.
func (l *live) untilExit() []unix.PollFd {
	return []unix.PollFd{{Fd: int32(l.exit), Events: unix.POLLIN}}
}

// launch starts a command with the files given. It dies with us from its first
// moment on, and so does its group.
func launch(c Command, f files) (*live, error) {
	l, err := fork(c, f, watched.watch)
	if err != nil {
		return nil, err
	}
	if l.exit < 0 { // the kernel is older than such files
		if l.exit, err = awaitExit(l.pid); err != nil {
			_ = syscall.Kill(-l.pid, syscall.SIGKILL)
			_, _ = l.leave()
			watched.release(l.line)
			return nil, err
		}
	}
	return l, nil
}

// fork starts a command, on a thread that stays; started hears at once which
// group it leads.
func fork(c Command, f files, started func(line, group int)) (*live, error) {
	r, err := c.ready, error(nil)
	if r == nil {
		if r, err = c.prepare(); err != nil {
			return nil, err
		}
	}
	l := &live{mark: r.mark, line: r.line}
	start := func(path string, argv ...string) error {
		watched.starting.RLock()
		defer watched.starting.RUnlock()
		if l.pid, l.exit, err = c.forkExec(path, argv, r.env, f); err == nil {
			started(l.line, l.pid)
			watched.know(l.line, l.pid)
			c.Limits.apply(l.pid)
		}
		return err
	}
	if !strings.Contains(c.Path, "/") || start(c.Path, append([]string{c.Path}, c.Args...)...) != nil {
		err = start("/bin/sh", append([]string{"sh", "-c", viaShell, "sh", c.Path}, c.Args...)...)
	}
	if err != nil {
		r.drop()
		return nil, err
	}
	return l, nil
}

// ready is what a command has before it is started.
type ready struct {
	line int    // in the guardian's table
	mark string // of the command
	env  []string
}

// ahead prepares a command before its time, on any thread. The guardian would be
// a child of that one: so the first command brings it into being, on its own
// thread. What cannot be done is tried again then.
func (c *Command) ahead() *ready {
	if watched.leashed() < 0 {
		return nil
	}
	r, _ := c.prepare()
	spares.stock()
	return r
}

func (c *Command) prepare() (*ready, error) {
	adopt()
	line, mark, err := watched.reserve()
	if err != nil {
		return nil, err
	}
	return &ready{line: line, mark: mark, env: variables(*c, markName+"="+inherited()+mark)}, nil
}

// drop gives up what was prepared, if anything was.
func (r *ready) drop() {
	if r != nil {
		watched.release(r.line)
	}
}

// forkExec starts a program. exit is a file descriptor that can be read once the
// program is dead, or -1 on kernels without pidfds.
func (c *Command) forkExec(path string, argv, env []string, f files) (pid, exit int, err error) {
	exit = -1
	attr := syscall.ProcAttr{
		Dir: c.Dir, Env: env,
		Files: []uintptr{uintptr(f[0]), uintptr(f[1]), uintptr(f[2])},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, PidFD: &exit},
	}
	c.isolation.attributes(attr.Sys)
	if c.filtered {
		file, err := filterFile(filter(filterOptions{Sockets: true, Attributes: true, SystemV: true}))
		if err != nil {
			return 0, -1, err
		}
		defer file.Close()
		attr.Files = append(attr.Files, file.Fd()) // becomes filterFD
	}
	pid, err = syscall.ForkExec(path, argv, &attr)
	return pid, exit, err
}

// awaitExit returns a file that can be read once a child of ours is dead.
func awaitExit(pid int) (int, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return -1, err
	}
	go func() {
		defer unix.Close(p[1])
		for errors.Is(unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
		}
	}()
	return p[0], nil
}

// reap gives up the number of a child, which others may get then.
func reap(pid int) (status syscall.WaitStatus, err error) {
	for {
		if _, err = syscall.Wait4(pid, &status, 0, nil); !errors.Is(err, syscall.EINTR) {
			return status, err
		}
	}
}

// askToEnd is the polite way.
func (l *live) askToEnd() { _ = syscall.Kill(-l.pid, syscall.SIGTERM) }

// end kills what is left of the command, the whole group and what has left it,
// and returns when it is gone.
func (l *live) end() (Outcome, error) {
	// The group's number is ours until the command is reaped, and out of the
	// guardian's table by then.
	_ = syscall.Kill(-l.pid, syscall.SIGKILL)
	var deadline time.Time
	if !l.exited {
		deadline = time.Now().Add(mostDying)
		if !l.dies(deadline) {
			go l.bury() // whenever it dies after all
			return Outcome{}, fmt.Errorf("%w: process %d", ErrAlive, l.pid)
		}
	}
	spares.leave(l.exit)
	status, unknown := l.leave()
	var err error
	if !gone(l.pid) || !firstThread.childless() { // hardly ever
		if deadline.IsZero() {
			deadline = time.Now().Add(mostDying)
		}
		if err = endGroup(l.pid, deadline); err == nil {
			err = endEscaped(l.mark, deadline)
		}
	}
	if err == nil {
		watched.release(l.line) // what is still there has to die with us at least
	}
	if unknown != nil {
		err = errors.Join(fmt.Errorf("nobody knows how it ended: %w", unknown), err)
	}
	return ended(status), err
}

// dies waits until the command is dead; it is false when the time was up before.
func (l *live) dies(deadline time.Time) bool {
	for fds := l.untilExit(); fds[0].Revents == 0; {
		left := time.Until(deadline)
		if left <= 0 {
			return false
		}
		await(fds, left)
	}
	return true
}

func (l *live) bury() {
	await(l.untilExit(), forever)
	unix.Close(l.exit)
	_, _ = l.leave() // nobody asks how it ended any more
}

// leave gives up the number of a command, and of its group. By then it is out
// of the guardian's table.
func (l *live) leave() (syscall.WaitStatus, error) {
	watched.forget(l.line)
	defer watched.know(l.line, 0)
	return reap(l.pid)
}

// forever is as long as it takes.
const forever = time.Duration(-1)

// await waits until one of the files is ready, or the time is over.
func await(fds []unix.PollFd, most time.Duration) {
	milliseconds := -1
	if most >= 0 {
		milliseconds = int((most + time.Millisecond - 1) / time.Millisecond)
	}
	for {
		_, err := unix.Poll(fds, milliseconds)
		if !errors.Is(err, unix.EINTR) {
			return
		}
		if most >= 0 {
			return // who has a deadline looks at it again
		}
	}
}

// alarm makes the end of a context known by a file from silentAlarm, until
// unset.
func alarm(ctx context.Context, fd int) (unset func()) {
	if fd < 0 {
		return func() {}
	}
	rung := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(rung)
		_, _ = unix.Write(fd, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // a counter that is far from full
	})
	return func() {
		if stop() {
			watched.keepAlarm(fd)
			return
		}
		<-rung
		unix.Close(fd)
	}
}

// mostAlarms is how many alarms are kept for the next commands.
const mostAlarms = 8

// silentAlarm is a file that can be read once it was rung. A context that never
// ends has none, which is -1.
func (g *guardian) silentAlarm(ctx context.Context) (int, error) {
	if ctx.Done() == nil {
		return -1, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if n := len(g.alarms); n > 0 {
		fd := g.alarms[n-1]
		g.alarms = g.alarms[:n-1]
		return fd, nil
	}
	return unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
}

// keepAlarm keeps one that was never rung.
func (g *guardian) keepAlarm(fd int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case fd < 0:
	case len(g.alarms) < mostAlarms:
		g.alarms = append(g.alarms, fd)
	default:
		unix.Close(fd)
	}
}

// inherited are the marks of those whose command we are ourselves.
var inherited = sync.OnceValue(func() string {
	if outer := os.Getenv(markName); outer != "" {
		return outer + " "
	}
	return ""
})
