package process

import "golang.org/x/sys/unix"

// archDeniedCalls are the denied calls that only this architecture has.
var archDeniedCalls = []uintptr{
	unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_USELIB, unix.SYS_MODIFY_LDT,
	unix.SYS_CREATE_MODULE, unix.SYS_KEXEC_FILE_LOAD,
}

// archAttributeCalls are the calls that change attributes and that only this architecture has: newer ones have only the
// variants with a folder.
var archAttributeCalls = []uintptr{unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN}
