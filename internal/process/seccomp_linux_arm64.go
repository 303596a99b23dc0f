package process

import "golang.org/x/sys/unix"

// archDeniedCalls are the denied calls that not all architectures have.
var archDeniedCalls = []uintptr{unix.SYS_KEXEC_FILE_LOAD}

var archAttributeCalls []uintptr
