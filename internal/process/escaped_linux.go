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
	mu   sync.Mutex
	open map[int]bool
}

var known groups

// start starts a command. Nobody may look for strangers in between: a child
// that is not known yet would be taken for one.
func (g *groups) start(cmd *exec.Cmd) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
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

// stranger tells whether a group is nobody's that we know. While other
// commands run, one without a mark may be theirs.
func (g *groups) stranger(group int) (stranger, alone bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.open[group] && group != syscall.Getpgrp(), len(g.open) == 0
}

// endEscaped kills what has left a command's group, and returns when it is
// gone. Whatever it started becomes ours when it dies, and is found next.
func endEscaped(mark string, deadline time.Time) error {
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
// waited for: the watcher, and orphans that stayed.
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

// children are the processes whose parent we are.
func children() []int {
	var out []int
	lists, _ := filepath.Glob("/proc/self/task/*/children") // the pattern is well-formed
	for _, list := range lists {
		raw, _ := os.ReadFile(list) // a thread that has ended has none
		for _, field := range bytes.Fields(raw) {
			if pid, err := strconv.Atoi(string(field)); err == nil {
				out = append(out, pid)
			}
		}
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
