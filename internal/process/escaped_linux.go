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
	"unsafe"

	"golang.org/x/sys/unix"
)

// adopt makes orphans below us our own children, once for the life of this
// process: what leaves its command's group, and survives it, is found again.
//
// And it spares us the signal with which each of them dies. Nobody listens to
// it, but Go has a handler for it, for which a thread is woken each time. An
// error leaves it at that.
var adopt = sync.OnceFunc(func() {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) // without it, marks still find most of them
	var byDefault [4]uint64                                 // as the kernel has it: the default is nothing but zeros
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGCHLD), uintptr(unsafe.Pointer(&byDefault)), 0, 8, 0, 0)
})

// endEscaped kills what has left a command's group, and returns when it is
// gone. Whatever it started becomes ours when it dies, and is found next: so
// nothing is over before we have seen neither the living nor the dead.
func endEscaped(mark string, deadline time.Time) error {
	if firstThread.childless() {
		return nil
	}
	patience := deadline.Add(-mostDying / 2)
	for wait := shortest; ; wait = min(2*wait, longest) {
		living, dead := endStrangers(mark, time.Now().Before(patience))
		switch {
		case living+dead == 0:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("%w: %d processes that left their group", ErrAlive, living)
		case living > 0:
			time.Sleep(wait)
		}
	}
}

// endStrangers kills those who left a command's group, and buries the dead.
func endStrangers(mark string, patient bool) (living, dead int) {
	watched.starting.Lock() // nobody is a stranger who has only just been born
	defer watched.starting.Unlock()
	for _, pid := range firstThread.orphans() {
		s, ok := statOf(pid)
		if !ok {
			dead++ // and somebody else has buried it
			continue
		}
		stranger, alone := watched.stranger(s.group)
		if !stranger {
			continue
		}
		if s.dead && bury(pid) {
			dead++
			continue
		}
		environ, sure := environOf(pid)
		switch {
		case !sure && patient:
			living++
		case bytes.Contains(environ, []byte(mark)):
			living++
			// The guardian of a command that is one of us ends that one's
			// commands, and then itself.
			if !bytes.Contains(environ, []byte(guardianName+"=")) || !patient {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		case alone && !bytes.Contains(environ, []byte(markName+"=")):
			living++
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return living, dead
}

// How long we wait before we look again: the first time, and at most.
const (
	shortest = 100 * time.Microsecond
	longest  = 20 * time.Millisecond
)

// endGroup returns when a group is gone that was killed, and whose leader is
// reaped.
func endGroup(group int, deadline time.Time) error {
	if gone(group) {
		return nil
	}
	timer := time.After(time.Until(deadline))
	if !awaitGroup(group, timer) && !onlyDead(group) {
		return fmt.Errorf("%w: process group %d", ErrAlive, group)
	}
	for wait := shortest; !gone(group); wait = min(2*wait, longest) {
		// The dead count until somebody has asked after them, which in some
		// containers nobody does.
		if wait > shortest && onlyDead(group) {
			return nil
		}
		select {
		case <-time.After(wait):
		case <-timer:
			return fmt.Errorf("%w: process group %d", ErrAlive, group)
		}
	}
	return nil
}

func gone(group int) bool { return syscall.Kill(-group, 0) == syscall.ESRCH }

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

// bury takes note of a dead child that nobody else waits for, if it is dead
// with all its threads.
func bury(pid int) bool {
	var status syscall.WaitStatus
	found, err := syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
	return found == pid || errors.Is(err, syscall.ECHILD)
}

// environOf are the variables of a process. One that is just becoming another
// program, or about to be dead, shows neither words nor variables: then they
// are not sure.
func environOf(pid int) (environ []byte, sure bool) {
	words, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // of one that is gone there are none
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return environ, len(words) > 0 && err == nil || errors.Is(err, fs.ErrPermission)
}

// first is the list of the children of our first thread, who gets all orphans.
type first struct {
	once sync.Once
	list *os.File
}

var firstThread first

// open opens the list; false where the kernel has none.
func (f *first) open() bool {
	f.once.Do(func() {
		f.list, _ = os.Open(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid())) // nil where there is none
	})
	return f.list != nil
}

// childless is true when the list is empty, for sure.
func (f *first) childless() bool {
	if !f.open() {
		return false
	}
	var some [1]byte
	_, err := f.list.ReadAt(some[:], 0)
	return err == io.EOF
}

// children are those processes; false where the kernel has no such lists.
func (f *first) children() (pids []int, ok bool) {
	if !f.open() {
		return nil, false
	}
	raw, err := io.ReadAll(io.NewSectionReader(f.list, 0, math.MaxInt64))
	for _, field := range bytes.Fields(raw) {
		if n, err := strconv.Atoi(string(field)); err == nil {
			pids = append(pids, n)
		}
	}
	return pids, err == nil
}

// orphans are those that we adopted; where the kernel has no list of them, all
// our children.
func (f *first) orphans() []int {
	if orphans, ok := f.children(); ok {
		return orphans
	}
	var out []int
	for pid, s := range processes() {
		if s.parent == os.Getpid() {
			out = append(out, pid)
		}
	}
	return out
}

// onlyDead looks through /proc for living members of a group.
func onlyDead(group int) bool {
	for _, s := range processes() {
		if s.group == group && !s.dead {
			return false
		}
	}
	return true
}

// processes are all that can be seen.
func processes() iter.Seq2[int, stat] {
	return func(yield func(int, stat) bool) {
		entries, _ := os.ReadDir("/proc") // none without it
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
