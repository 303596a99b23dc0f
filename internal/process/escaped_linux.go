package process

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// becomeSubreaper makes orphaned descendants children of this process, once: a
// process that leaves its command's group and survives it is found again.
var becomeSubreaper = sync.OnceFunc(func() {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) // without it, marks still identify most of them
})

// killEscaped kills what has left a command's group, and returns when it is gone.
// The children of a killed process become ours and are found in the next round,
// so a round that finds neither living nor dead processes is the last.
func killEscaped(mark string, deadline time.Time) error {
	if orphans.empty() {
		return nil
	}
	patience := deadline.Add(-killTimeout / 2)
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		living, dead := killStrays(mark, time.Now().Before(patience))
		switch {
		case living+dead == 0:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("%w: %d processes that left their group", ErrAlive, living)
		case living > 0:
			time.Sleep(pause)
		}
	}
}

// killStrays kills the processes that have left a command's group, and reaps the
// dead. While it is patient, it spares processes that cannot be identified yet,
// and watchdogs.
func killStrays(mark string, patient bool) (living, dead int) {
	// No command may be forked meanwhile: see watchdog.starting.
	commandWatchdog.starting.Lock()
	defer commandWatchdog.starting.Unlock()
	for _, pid := range orphans.pids() {
		s, ok := statOf(pid)
		if !ok {
			dead++ // another command has reaped it
			continue
		}
		stray, oneCommand := commandWatchdog.isStray(s.group)
		if !stray {
			continue
		}
		if s.dead && reapDead(pid) {
			dead++
			continue
		}
		environ, known := environOf(pid)
		switch {
		case !known && patient:
			living++
		case bytes.Contains(environ, []byte(mark)):
			living++
			// The watchdog of an inner Espalier kills the inner commands and
			// then ends by itself.
			if !bytes.Contains(environ, []byte(watchdogName+"=")) || !patient {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		// A process that has cleared its environment belongs to the only command that runs, since all orphans descend
		// from commands.
		case oneCommand && !bytes.Contains(environ, []byte(markName+"=")):
			living++
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return living, dead
}

// How long to pause between rounds: at first, and at most.
const (
	minPause = 100 * time.Microsecond
	maxPause = 20 * time.Millisecond
)

// awaitGroupEnd returns when a group that was killed, and whose leader is reaped,
// has no living members.
func awaitGroupEnd(group int, deadline time.Time) error {
	if groupGone(group) {
		return nil
	}
	timer := time.After(time.Until(deadline))
	if !reapGroup(group, timer) && !onlyDead(group) {
		return fmt.Errorf("%w: process group %d", ErrAlive, group)
	}
	for pause := minPause; !groupGone(group); pause = min(2*pause, maxPause) {
		// Members that are dead but not reaped still count for kill. In
		// containers whose first process does not reap, they stay.
		if pause > minPause && onlyDead(group) {
			return nil
		}
		select {
		case <-time.After(pause):
		case <-timer:
			return fmt.Errorf("%w: process group %d", ErrAlive, group)
		}
	}
	return nil
}

// groupGone reports whether a group has no members, not even dead ones that are not reaped.
func groupGone(group int) bool { return syscall.Kill(-group, 0) == syscall.ESRCH }

// reapGroup waits for all members of a group that are children of this process.
// These are nearly all of them, because orphans are adopted. It reports whether
// they ended in time.
func reapGroup(group int, timer <-chan time.Time) bool {
	dead := make(chan struct{})
	go func() {
		defer close(dead)
		for {
			var status syscall.WaitStatus
			if _, err := syscall.Wait4(-group, &status, 0, nil); err != nil && !errors.Is(err, syscall.EINTR) {
				return // none are left
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

// reapDead reaps a dead child. It reports false if some of its threads still run.
func reapDead(pid int) bool {
	var status syscall.WaitStatus
	found, err := syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
	return found == pid || errors.Is(err, syscall.ECHILD)
}

// environOf returns the environment of a process. It is not known while the
// process executes a program or exits: both its arguments and its environment
// are empty then.
func environOf(pid int) (environ []byte, known bool) {
	args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // empty if the process is gone
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return environ, len(args) > 0 && err == nil || errors.Is(err, fs.ErrPermission)
}

// orphanList is the list of the children of our first thread. Orphans become
// its children, and it starts no commands itself (see onThread).
type orphanList struct {
	once sync.Once
	file *os.File // nil if the kernel has no such lists
}

// orphans is shared by all commands: the kernel has one list for the process.
var orphans orphanList

// open opens the list, once. The file is read again from its start each time.
func (o *orphanList) open() bool {
	o.once.Do(func() {
		o.file, _ = os.Open(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid())) // nil after an error
	})
	return o.file != nil
}

// empty reports whether there are certainly no orphans.
func (o *orphanList) empty() bool {
	if !o.open() {
		return false
	}
	var some [1]byte
	_, err := o.file.ReadAt(some[:], 0)
	return err == io.EOF
}

// pids returns the adopted orphans, or all our children if the kernel has no
// list of orphans.
func (o *orphanList) pids() []int {
	if o.open() {
		if raw, err := io.ReadAll(io.NewSectionReader(o.file, 0, math.MaxInt64)); err == nil {
			return parsePIDs(raw)
		}
	}
	var out []int
	for pid, s := range processes() {
		if s.parent == os.Getpid() {
			out = append(out, pid)
		}
	}
	return out
}

// parsePIDs parses a list of children.
func parsePIDs(raw []byte) []int {
	var out []int
	for _, field := range bytes.Fields(raw) {
		if n, err := strconv.Atoi(string(field)); err == nil {
			out = append(out, n)
		}
	}
	return out
}

// onlyDead reports whether no member of a group is alive.
func onlyDead(group int) bool {
	for _, s := range processes() {
		if s.group == group && !s.dead {
			return false
		}
	}
	return true
}

// processes yields all processes in /proc.
func processes() iter.Seq2[int, stat] {
	return func(yield func(int, stat) bool) {
		entries, _ := os.ReadDir("/proc") // empty if it is not mounted
		for _, e := range entries {
			pid, err := strconv.Atoi(e.Name())
			if err != nil {
				continue
			}
			if s, ok := statOf(pid); ok && !yield(pid, s) {
				return
			}
		}
	}
}

// stat is a part of /proc/PID/stat.
type stat struct {
	parent, group int
	dead          bool
}

// statOf reads the stat of a process. It reports false if the process is reaped.
func statOf(pid int) (stat, bool) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, false
	}
	// "pid (name) state parent group …"; the name may contain anything.
	fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
	if len(fields) < 3 {
		return stat{}, false
	}
	parent, _ := strconv.Atoi(string(fields[1])) // the kernel writes numbers
	group, _ := strconv.Atoi(string(fields[2]))
	return stat{parent: parent, group: group, dead: string(fields[0]) == "Z" || string(fields[0]) == "X"}, true
}
