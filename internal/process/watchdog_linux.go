package process

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// markName is the environment variable that identifies everything that a command
// has started. An Espalier process that runs inside a command adds its own
// marks to those that it inherits.
const markName = "ESPALIER_COMMAND"

// watchdogName is the environment variable that identifies watchdogs. A watchdog
// inside a command carries the command's mark, but must finish its work before
// it is killed.
const watchdogName = "ESPALIER_WATCHDOG"

// watchdogScript waits until this process is dead: it reads from a pipe whose
// other end only this process holds. Then it kills the groups in the table and
// every process that carries the mark. If no slot is in use, there is nothing
// to kill.
//
// If a whole group died together with this process, its ID may belong to another
// group by now, whose leader is alive and has no mark. A leader that is alive may
// also be ours and about to die. One look is therefore not enough, neither at
// group leaders nor at marked processes.
//
// A command that was being started is not in the table with its group. It dies
// with this process. If it has already started a process that has cleared its
// environment, that process is an orphan like the watchdog, in our session,
// younger than the slot's time, and in a group without a leader.
const watchdogScript = `# Ends what espalier has started, should espalier be killed.
mark=$1 session=$2 own=$3
trap '' HUP INT QUIT TERM PIPE TSTP TTIN TTOU
read -r _
groups=
busy=
begun=
while read -r entry since; do
	[ "$entry" = - ] || busy=1
	case $entry in
	- | 0) ;;
	+) [ "$begun" ] && [ "$begun" -le "$since" ] || begun=$since ;;
	*) groups="$groups $entry" ;;
	esac
done <&3
[ "$busy" ] || exit 0
kill_groups() {
	left=
	for group in $groups; do
		if [ ! -e "/proc/$group/exe" ] || grep -qsF "$mark" "/proc/$group/environ"; then
			kill -s KILL -- "-$group"
		else
			left="$left $group"
		fi
	done
	groups=$left
}
kill_begun() {
	read -r all <"/proc/$$/stat"
	set -- ${all##*) }
	reaper=$2
	for one in /proc/[0-9]*/stat; do
		read -r all <"$one" || continue
		set -- ${all##*) }
		[ "$2" = "$reaper" ] && [ "$4" = "$session" ] && [ "$3" != "$own" ] && [ "${20}" -ge "$begun" ] &&
			[ ! -e "/proc/$3/exe" ] && kill -s KILL -- "-$3"
	done
}
kill_marked() {
	found=
	for one in $(grep -lsF "$mark" /proc/[0-9]*/environ); do
		grep -qsF ` + watchdogName + `= "$one" && continue
		one=${one#/proc/}
		kill -s KILL "${one%/environ}" && found=1
	done
	[ "$found" ]
}
# A process that is just becoming another program shows neither words nor variables.
unsure() {
	for one in $(grep -Ls '' /proc/[0-9]*/cmdline); do
		[ -e "${one%cmdline}exe" ] && return
	done
	return 1
}
sure=0
for pause in 0 0.01 0.02 0.1 0.5; do
	sleep $pause
	doubt=
	unsure && doubt=1
	kill_groups
	tries=100
	while kill_marked && [ $((tries -= 1)) -gt 0 ]; do doubt=1; done
	[ "$begun" ] && kill_begun
	if [ "$groups$doubt" ]; then sure=0; else sure=$((sure + 1)); fi
	[ $sure -lt 2 ] || exit 0
done`

// watchdog is the child process that outlives this process to kill its commands.
//
// The table is memory shared with the watchdog process. Each entry is one aligned
// 64-bit word that is stored atomically, so the watchdog never reads half an
// entry, whenever this process is killed.
type watchdog struct {
	// starting is held for reading while a command is started, and for writing
	// while stray processes are looked for: a process that has just been forked
	// must not be mistaken for a stray.
	starting sync.RWMutex

	// mu guards everything below. watch and forget store into memory without
	// it: a slot belongs to one command from reserve to release.
	mu           sync.Mutex
	pid          int    // 0 when there is none
	lifetimePipe int    // the watchdog acts when this end is closed
	table        int    // a memfd with a line for each slot
	memory       []byte // the table, mapped
	mark         string // the prefix of all marks of this process
	free         []int  // slots
	count        int    // commands so far
	groups       []int  // led by commands, per slot; 0 is none
	replaced     int    // how often the watchdog was replaced
}

// commandWatchdog is the watchdog of this process. It starts with the first command.
var commandWatchdog watchdog

// A line of the table holds an entry and the time at which the command began.
const (
	lineSize  = 24
	entrySize = 8
	maxSlots  = 1 << 16

	entryFree   = "-"
	entryBegun  = "+" // the command has no group yet; later, the entry is the group
	entryReaped = "0" // the command has no group any more
)

// reserve returns a slot, and a mark whose carriers are killed if this process is.
func (w *watchdog) reserve() (slot int, mark string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pid == 0 { // if it has died since, the pump replaces it
		if err := w.ensureRunning(); err != nil {
			return 0, "", fmt.Errorf(
				"cannot start the watchdog, without which the command could outlive this process: %w", err)
		}
	}
	if n := len(w.free); n > 0 {
		slot, w.free = w.free[n-1], w.free[:n-1]
	} else if slot, err = w.add(); err != nil {
		return 0, "", err
	}
	// The time goes first: as soon as the entry says that the slot is in use, the time has to be right.
	w.setBegun(slot, ticks())
	w.store(slot, entryBegun)
	w.count++
	return slot, w.mark + strconv.Itoa(w.count) + ".", nil
}

// watch makes the watchdog kill a group if this process is killed.
func (w *watchdog) watch(slot, group int) { w.store(slot, strconv.Itoa(group)) }

// setGroup records which group the command of a slot leads; 0 is none.
func (w *watchdog) setGroup(slot, group int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.groups[slot] = group
}

// ticks returns the time in the unit of process start times in /proc.
func ticks() int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) // if it failed, every process would count as younger
	const perSecond = 100
	return now.Nano() / (int64(time.Second) / perSecond)
}

// forget removes a group from the table. It must be called before the group's
// ID can be reused.
func (w *watchdog) forget(slot int) { w.store(slot, entryReaped) }

// release frees a slot once nothing of its command is left.
func (w *watchdog) release(slot int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.store(slot, entryFree)
	w.free = append(w.free, slot)
}

// isStray reports whether a group belongs to no command, and whether only one
// command is running. While others run, a process without a mark may be theirs.
func (w *watchdog) isStray(group int) (stray, oneCommand bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	stray = !slices.Contains(w.groups, group) && group != w.pid && group != syscall.Getpgrp()
	return stray, len(w.groups)-len(w.free) == 1
}

// add adds a slot to the table.
func (w *watchdog) add() (slot int, err error) {
	if len(w.groups) == maxSlots {
		return 0, errors.New("too many commands at the same time")
	}
	text := bytes.Repeat([]byte(" "), lineSize)
	copy(text, entryFree)
	text[lineSize-1] = '\n'
	if _, err := unix.Pwrite(w.table, text, int64(len(w.groups))*lineSize); err != nil {
		return 0, err
	}
	w.groups = append(w.groups, 0)
	return len(w.groups) - 1, nil
}

// setBegun stores when the command of a slot began. The slot must be free.
func (w *watchdog) setBegun(slot int, at int64) {
	text := w.memory[slot*lineSize+entrySize : (slot+1)*lineSize-1]
	for i := len(strconv.AppendInt(text[:0], at, 10)); i < len(text); i++ {
		text[i] = ' '
	}
}

// store changes the entry of a slot atomically.
func (w *watchdog) store(slot int, entry string) {
	word := [entrySize]byte([]byte("        "))
	copy(word[:entrySize-1], entry)
	atomic.StoreUint64((*uint64)(unsafe.Pointer(&w.memory[slot*lineSize])), binary.NativeEndian.Uint64(word[:]))
}

// ensureRunning starts the watchdog process unless it is alive. w.mu must be held.
func (w *watchdog) ensureRunning() error {
	if w.alive() {
		return nil
	}
	if w.replaced > maxReplaced {
		return errors.New("it was killed too often")
	}
	// The table outlives a watchdog: a new one gets the same memory.
	if w.memory == nil {
		table, err := unix.MemfdCreate("espalier-commands", unix.MFD_CLOEXEC)
		if err != nil {
			return err
		}
		memory, err := unix.Mmap(table, 0, maxSlots*lineSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			unix.Close(table)
			return err
		}
		w.table, w.memory, w.mark = table, memory, rand.Text()+"."
	}
	// The watchdog reads the pipe as its standard input and the table as descriptor 3, and writes nowhere.
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(null)
	session, err := unix.Getsid(0)
	if err != nil {
		return err
	}
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	defer unix.Close(pipe[0])
	env := []string{
		"PATH=/usr/bin:/bin:/usr/local/bin:" + os.Getenv("PATH"), watchdogName + "=" + strconv.Itoa(os.Getpid()),
	}
	// A watchdog of an Espalier inside a command is found by the mark of that command.
	if outer := os.Getenv(markName); outer != "" {
		env = append(env, markName+"="+outer)
	}
	argv := []string{
		"sh", "-c", watchdogScript, "espalier-watchdog", w.mark, strconv.Itoa(session), strconv.Itoa(syscall.Getpgrp()),
	}
	pid, err := syscall.ForkExec("/bin/sh", argv, &syscall.ProcAttr{
		Dir: "/", Env: env, Files: []uintptr{uintptr(pipe[0]), uintptr(null), uintptr(null), uintptr(w.table)},
		Sys: &syscall.SysProcAttr{Setsid: true}, // signals of our terminal must not reach it
	})
	if err != nil {
		unix.Close(pipe[1])
		return err
	}
	w.pid, w.lifetimePipe = pid, pipe[1]
	return nil
}

// lifetimeFD returns a file descriptor that reports an error once the watchdog is
// dead, or -1 without a watchdog.
func (w *watchdog) lifetimeFD() int32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pid == 0 {
		return -1
	}
	return int32(w.lifetimePipe)
}

// maxReplaced is how often a watchdog is replaced before commands fail instead.
const maxReplaced = 100

// replace starts a new watchdog if the old one is dead.
func (w *watchdog) replace() {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.ensureRunning() // the next command tries again and reports the error
}

// alive reports whether there is a watchdog, and reaps a dead one. The pipe of a
// dead one stays open: other threads may be polling its descriptor.
func (w *watchdog) alive() bool {
	if w.pid == 0 {
		return false
	}
	fds := []unix.PollFd{{Fd: int32(w.lifetimePipe)}}
	if poll(fds, 0); fds[0].Revents == 0 {
		return true
	}
	_ = syscall.Kill(w.pid, syscall.SIGKILL) // without the pipe it is of no use, dead or not
	_, _ = wait(w.pid)
	w.pid = 0
	w.replaced++
	return false
}
