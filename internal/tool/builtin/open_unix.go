//go:build unix

package builtin

import "syscall"

// nonBlocking keeps a pipe that took a file's place from holding us.
const nonBlocking = syscall.O_NONBLOCK
