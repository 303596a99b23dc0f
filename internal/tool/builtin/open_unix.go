//go:build unix

package builtin

import "syscall"

// nonBlocking keeps open from blocking if a pipe has replaced the file.
const nonBlocking = syscall.O_NONBLOCK
