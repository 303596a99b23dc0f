package process

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// apply sets the limits of a process that has just been started, and of
// whatever it has started since.
//
// Go cannot set resource limits between fork and exec, so they are set from
// here, microseconds after the program began. A child that is being forked at
// that very moment can miss them, which is why a sandbox sets its limits itself
// before it runs the command: see limited, confined.become and EarlyLimits.
func (l Limits) apply(pid int) {
	if l == (Limits{}) {
		return
	}
	set := l.resources()
	seen := map[int]bool{}
	for queue := []int{pid}; len(queue) > 0; queue = queue[1:] {
		if seen[queue[0]] {
			continue
		}
		seen[queue[0]] = true
		for _, one := range set {
			one.apply(queue[0])
		}
		queue = append(queue, childrenOf(queue[0])...)
	}
}

// applyLimits is a variable for tests.
var applyLimits = Limits.apply

// resource is a resource limit of the kernel.
type resource struct {
	number int
	limit  unix.Rlimit
}

// resources returns the limits in the form of the kernel.
func (l Limits) resources() []resource {
	var out []resource
	if l.Processes > 0 {
		// The kernel counts all processes of the user, not those of the command.
		most := uint64(threads() + l.Processes)
		out = append(out, resource{unix.RLIMIT_NPROC, unix.Rlimit{Cur: most, Max: most}})
	}
	if l.Memory > 0 {
		// Of the limits on memory, this is the one that does not count address
		// space that is only reserved, of which some runtimes take terabytes.
		out = append(out, resource{unix.RLIMIT_DATA, unix.Rlimit{Cur: uint64(l.Memory), Max: uint64(l.Memory)}})
	}
	if l.CPU > 0 {
		// The first limit sends SIGXCPU, the second one SIGKILL.
		seconds := uint64((l.CPU + time.Second - 1) / time.Second)
		out = append(out, resource{unix.RLIMIT_CPU, unix.Rlimit{Cur: seconds, Max: seconds + 1}})
	}
	return out
}

// apply lowers a limit of a process. It fails for a process that has ended, and
// for a program that runs as another user, such as sudo, whose limits this
// process may not set.
func (r resource) apply(pid int) {
	var now unix.Rlimit
	if unix.Prlimit(pid, r.number, nil, &now) == nil {
		limit := unix.Rlimit{Cur: min(now.Cur, r.limit.Cur), Max: min(now.Max, r.limit.Max)}
		_ = unix.Prlimit(pid, r.number, &limit, nil)
	}
}

// threads returns how many threads there are on the machine.
func threads() int64 {
	// "0.20 0.18 0.12 1/80 11206": runnable and all threads are the fourth field.
	raw, _ := os.ReadFile("/proc/loadavg") // without it, the command gets what it may add
	if fields := bytes.Fields(raw); len(fields) > 3 {
		_, all, _ := bytes.Cut(fields[3], []byte("/"))
		n, _ := strconv.ParseInt(string(all), 10, 64)
		return n
	}
	return 0
}

// childrenOf returns the children of all threads of a process.
func childrenOf(pid int) []int {
	tasks := fmt.Sprintf("/proc/%d/task", pid)
	threads, _ := os.ReadDir(tasks) // a process that has ended has none
	var out []int
	for _, thread := range threads {
		raw, _ := os.ReadFile(filepath.Join(tasks, thread.Name(), "children")) // empty if it has ended
		out = append(out, parsePIDs(raw)...)
	}
	return out
}

// limited returns the command with its limits set by a shell that becomes it.
func (c Command) limited() Command {
	var script strings.Builder
	for _, one := range c.Limits.resources() {
		// The options of shells differ. A limit that is lower already stays.
		switch one.number {
		case unix.RLIMIT_NPROC:
			n := one.limit.Cur
			fmt.Fprintf(&script, "command ulimit -u %d 2>/dev/null || command ulimit -p %d 2>/dev/null\n", n, n)
		case unix.RLIMIT_DATA:
			fmt.Fprintf(&script, "command ulimit -d %d 2>/dev/null\n", one.limit.Cur>>10)
		case unix.RLIMIT_CPU:
			fmt.Fprintf(&script, "command ulimit -H -t %d 2>/dev/null\n", one.limit.Max)
			fmt.Fprintf(&script, "command ulimit -S -t %d 2>/dev/null\n", one.limit.Cur)
		}
	}
	if script.Len() == 0 {
		return c
	}
	c.Args = append([]string{"-c", script.String() + viaShell, "sh", c.Path}, c.Args...)
	c.Path = "/bin/sh"
	return c
}
