package process

import "golang.org/x/sys/unix"

var archDeniedCalls = []uintptr{unix.SYS_KEXEC_FILE_LOAD}

var archAttributeCalls []uintptr
