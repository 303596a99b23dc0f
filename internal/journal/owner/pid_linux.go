package owner

import (
	"errors"
	"os"
	"strings"
	"sync"
	"syscall"
)

// pidNamespace identifies what the ID of a process is unique in: a namespace of a
// kernel since it was booted. It is empty if that is unknown.
var pidNamespace = sync.OnceValue(func() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	namespace, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(boot)) + " " + namespace
})

// exists reports whether there is a process, including one that is dead but not
// reaped. Unlike /proc, the system call does not hide processes of other users.
func exists(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
