package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// adopt makes orphans below us our own children, once for the life of this
// process: what leaves its command's group, and survives it, is found again.
var adopt = sync.OnceFunc(func() {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) // without it, marks still find most of them
})

// groups are those of the commands that run: a child of ours in any other
// group than these and our own is an orphan that we adopted.
type groups struct {
	mu       sync.Mutex
	open     map[int]bool
	guardian int
}

var known groups

// start starts a command, or the guardian. Nobody may look for strangers in between: a child
// that is not known yet would be taken for one.
func (g *groups) start(cmd *exec.Cmd, guardian bool) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	if guardian {
		g.guardian = cmd.Process.Pid
		return nil
	}
	if g.open == nil {
		g.open = map[int]bool{}
	}
	g.open[cmd.Process.Pid] = true
	return nil
}

func (g *groups) remove(group int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.open, group)
}

// all tells whether every one of these processes leads a group that we know,
// or is the guardian.
func (g *groups) all(pids []int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, pid := range pids {
		if !g.open[pid] && pid != g.guardian {
			return false
		}
	}
	return true
}

// stranger tells whether a group is nobody's that we know. While other
// commands run, one without a mark may be theirs.
func (g *groups) stranger(group int) (stranger, alone bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.open[group] && group != syscall.Getpgrp() && group != g.guardian, len(g.open) == 0
}

// endEscaped kills what has left a command's group, and returns when it is
// gone. Whatever it started becomes ours when it dies, and is found next.
func endEscaped(mark string, deadline time.Time) error {
	if adopted, ok := firstThreads(); ok && known.all(adopted) {
		return nil
	}
	const first = 100 * time.Microsecond
	for wait := first; ; wait *= 2 {
		living := 0
		for _, pid := range children() {
			s, ok := statOf(pid)
			if !ok {
				continue
			}
			stranger, alone := known.stranger(s.group)
			switch {
			case !stranger:
			case s.dead:
				bury(pid)
			case marked(pid, mark) || alone && !marked(pid, markName+"="):
				living++
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		switch {
		case living == 0:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("%w: %d processes that left their group", ErrAlive, living)
		}
		time.Sleep(wait)
	}
}

// buryGroup takes note of the dead of a group whose first process has been
// waited for: orphans that stayed.
func buryGroup(group int) {
	for {
		var status syscall.WaitStatus
		if pid, err := syscall.Wait4(-group, &status, syscall.WNOHANG, nil); err != nil || pid <= 0 {
			return
		}
	}
}

// awaitGroup waits for the death of those of a group that are our children, as
// nearly all are: what their parents leave behind is adopted. Being told is
// much faster than looking through all processes again and again. It is false
// when the time was up before.
func awaitGroup(group int, timer <-chan time.Time) bool {
	dead := make(chan struct{})
	go func() {
		defer close(dead)
		for {
			var status syscall.WaitStatus
			if _, err := syscall.Wait4(-group, &status, 0, nil); err != nil && !errors.Is(err, syscall.EINTR) {
				return // there are none left
			}
		}
	}()
	select {
	case <-dead:
		return true
	case <-timer:
		return false
	}
}

// bury takes note of a dead child that nobody else waits for.
func bury(pid int) {
	var status syscall.WaitStatus
	_, _ = syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
}

func marked(pid int, mark string) bool {
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && bytes.Contains(environ, []byte(mark))
}

// awaitExit returns when a command is dead, and leaves it unreaped.
func awaitExit(l *live) {
	for {
		err := unix.Waitid(unix.P_PID, l.group(), nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}

// firstThreads are the children of our first thread, who gets all orphans.
// Looking at it alone takes a fraction of the time that all threads take.
func firstThreads() (pids []int, ok bool) {
	raw, err := os.ReadFile(firstThread)
	return numbers(raw), err == nil
}

var firstThread = fmt.Sprintf("/proc/self/task/%d/children", os.Getpid())

func numbers(raw []byte) []int {
	var out []int
	for _, field := range bytes.Fields(raw) {
		if n, err := strconv.Atoi(string(field)); err == nil {
			out = append(out, n)
		}
	}
	return out
}

// children are the processes whose parent we are.
func children() []int {
	var out []int
	lists, _ := filepath.Glob("/proc/self/task/*/children") // the pattern is well-formed
	for _, list := range lists {
		raw, _ := os.ReadFile(list) // a thread that has ended has none
		out = append(out, numbers(raw)...)
	}
	if len(lists) > 0 {
		return out
	}
	entries, _ := os.ReadDir("/proc") // a kernel without such lists
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if s, ok := statOf(pid); ok && s.parent == os.Getpid() {
			out = append(out, pid)
		}
	}
	return out
}
