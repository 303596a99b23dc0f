package process

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// DenyNamespaces keeps this thread, and what it executes, from creating
// namespaces and mounting, as the default profile of containers does. Root does
// not get no_new_privs by it, so that tests notice if a sandbox does not set it;
// for other users the kernel demands it.
func DenyNamespaces() error {
	deny := filter(filterOptions{Sockets: true, Attributes: true, SystemV: true})
	if os.Geteuid() != 0 {
		return applyFilter(deny)
	}
	program := unix.SockFprog{Len: uint16(len(deny)), Filter: &deny[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
}

// WithoutLateLimits keeps limits from being set after programs have begun, until it is undone.
func WithoutLateLimits() (undo func()) {
	before := applyLimits
	applyLimits = func(Limits, int) {}
	return func() { applyLimits = before }
}
