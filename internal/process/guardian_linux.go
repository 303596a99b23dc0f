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

// markName is the variable by which everything that a command has started can
// be told from everything else. One that is run by a command of ours adds its
// own marks to what it finds there.
const markName = "ESPALIER_COMMAND"

// guardianName is the variable by which guardians know each other. They are
// marked like all else below a command, but have to do their work before they
// go.
const guardianName = "ESPALIER_GUARDIAN"

// guardianScript waits until we are gone: it reads from a pipe whose other end
// only we hold. Then it kills the groups in the table, and whatever carries our
// mark. A table without an entry means that nothing ran.
//
// The number of a group can be somebody else's by now, if all of the group have
// died with us: who leads it then lives and has no mark. It may also be ours, and
// just about to die. So one look is not enough, neither at those who lead groups
// nor for those with a mark.
//
// Of a command that was just being started the group is not in the table. The
// command itself dies with us. If it has got so far as to start something and to
// have it forget its mark, that is an orphan like the guardian, of our session,
// younger than the entry in the table, and in a group that nobody leads.
const guardianScript = `# Ends what espalier has started, should espalier be killed.
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
		grep -qsF ` + guardianName + `= "$one" && continue
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

// guardian is the one child that survives us, to end our commands.
type guardian struct {
	// starting is held by those who start a command, and alone by those who
	// look for strangers among our children.
	starting sync.RWMutex

	mu       sync.Mutex
	pid      int    // 0 when there is none
	leash    int    // as long as we hold it, the guardian does nothing
	table    int    // a file with a line for each command
	memory   []byte // of the table
	mark     string // that all our commands carry
	free     []int  // lines that are empty
	count    int    // of the commands so far
	groups   []int  // that commands of ours lead, by their lines; 0 is none
	alarms   []int  // files that nobody uses just now
	replaced int
}

var watched guardian

// A line of the table is an entry, and when the command was begun. The entry is
// one word of memory, which is written at a stroke: whoever reads it when we are
// dead finds what was there or what is there now, and never half of each.
const (
	lineSize  = 24
	entrySize = 8
	mostLines = 1 << 16

	entryFree  = "-"
	entryBegun = "+" // it has no group yet; else the group stands there
	entryOver  = "0" // it has none any more
)

// reserve has everything that carries the mark it returns die with us.
func (g *guardian) reserve() (line int, mark string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pid == 0 { // should it have died, whoever waits for the command hears of it at once
		if err := g.begin(); err != nil {
			return 0, "", fmt.Errorf("nothing would end the command if this process were killed: %w", err)
		}
	}
	if n := len(g.free); n > 0 {
		line, g.free = g.free[n-1], g.free[:n-1]
	} else if line, err = g.add(); err != nil {
		return 0, "", err
	}
	g.begun(line, ticks())
	g.write(line, entryBegun)
	g.count++
	return line, g.mark + strconv.Itoa(g.count) + ".", nil
}

// watch has a group die with us.
func (g *guardian) watch(line, group int) {
	g.write(line, strconv.Itoa(group))
}

// know tells a group from those of strangers; 0 is none any more.
func (g *guardian) know(line, group int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.groups[line] = group
}

// ticks is the time now, as that in which the kernel says when processes began.
func ticks() int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) // every kernel has it; without, everything is younger
	const perSecond = 100
	return now.Nano() / (int64(time.Second) / perSecond)
}

// forget is called before the group's number may go to somebody else.
func (g *guardian) forget(line int) { g.write(line, entryOver) }

// release is called when nothing of a command is left.
func (g *guardian) release(line int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.write(line, entryFree)
	g.free = append(g.free, line)
}

// stranger tells whether a group is nobody's that we know. While other
// commands run, or are being started, one without a mark may be theirs.
func (g *guardian) stranger(group int) (stranger, alone bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !slices.Contains(g.groups, group) && group != g.pid && group != syscall.Getpgrp(), len(g.groups)-len(g.free) == 1
}

// add makes a new line. Only that takes a call of the kernel, and can fail.
func (g *guardian) add() (line int, err error) {
	if len(g.groups) == mostLines {
		return 0, errors.New("too many commands run at once")
	}
	text := bytes.Repeat([]byte(" "), lineSize)
	copy(text, entryFree)
	text[lineSize-1] = '\n'
	if _, err := unix.Pwrite(g.table, text, int64(len(g.groups))*lineSize); err != nil {
		return 0, err
	}
	g.groups = append(g.groups, 0)
	return len(g.groups) - 1, nil
}

// begun says when a command was begun, on a line that is free.
func (g *guardian) begun(line int, at int64) {
	text := g.memory[line*lineSize+entrySize : (line+1)*lineSize-1]
	for i := len(strconv.AppendInt(text[:0], at, 10)); i < len(text); i++ {
		text[i] = ' '
	}
}

// write changes the entry of a line.
func (g *guardian) write(line int, entry string) {
	word := [entrySize]byte([]byte("        "))
	copy(word[:entrySize-1], entry)
	atomic.StoreUint64((*uint64)(unsafe.Pointer(&g.memory[line*lineSize])), binary.NativeEndian.Uint64(word[:]))
}

// begin starts the guardian if there is none.
func (g *guardian) begin() error {
	if g.alive() {
		return nil
	}
	if g.replaced > mostReplaced {
		return errors.New("its guardian has been killed again and again")
	}
	if g.memory == nil {
		table, err := unix.MemfdCreate("espalier-commands", unix.MFD_CLOEXEC)
		if err != nil {
			return err
		}
		memory, err := unix.Mmap(table, 0, mostLines*lineSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			unix.Close(table)
			return err
		}
		g.table, g.memory, g.mark = table, memory, rand.Text()+"."
	}
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(null)
	var leash [2]int
	if err := unix.Pipe2(leash[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	defer unix.Close(leash[0])
	env := []string{"PATH=/usr/bin:/bin:/usr/local/bin:" + os.Getenv("PATH"), guardianName + "=" + strconv.Itoa(os.Getpid())}
	if outer := os.Getenv(markName); outer != "" {
		env = append(env, markName+"="+outer)
	}
	session, err := unix.Getsid(0)
	if err != nil {
		unix.Close(leash[1])
		return err
	}
	argv := []string{"sh", "-c", guardianScript, "espalier-guardian", g.mark, strconv.Itoa(session), strconv.Itoa(syscall.Getpgrp())}
	pid, err := syscall.ForkExec("/bin/sh", argv, &syscall.ProcAttr{
		Dir: "/", Env: env, Files: []uintptr{uintptr(leash[0]), uintptr(null), uintptr(null), uintptr(g.table)},
		Sys: &syscall.SysProcAttr{Setsid: true}, // what happens to our terminal is none of its business
	})
	if err != nil {
		unix.Close(leash[1])
		return err
	}
	g.pid, g.leash = pid, leash[1]
	return nil
}

// leashed is a file with which something is wrong when the guardian is dead.
func (g *guardian) leashed() int32 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pid == 0 {
		return -1
	}
	return int32(g.leash)
}

// mostReplaced is how often a guardian is replaced. If that is not enough, it is
// not somebody who kills it but something that is broken.
const mostReplaced = 100

// replace brings up a new guardian when somebody has killed it.
func (g *guardian) replace() {
	g.mu.Lock()
	defer g.mu.Unlock()
	_ = g.begin() // the next command tries again, and fails if it must
}

// alive tells whether there is a guardian, and buries one that is dead. Its
// leash stays as it is: others may be looking at it.
func (g *guardian) alive() bool {
	if g.pid == 0 {
		return false
	}
	fds := []unix.PollFd{{Fd: int32(g.leash)}}
	if await(fds, 0); fds[0].Revents == 0 {
		return true
	}
	_ = syscall.Kill(g.pid, syscall.SIGKILL) // who has let go of the leash is of no use
	_, _ = reap(g.pid)
	g.pid = 0
	g.replaced++
	return false
}
