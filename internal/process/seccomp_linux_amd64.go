package process

import "golang.org/x/sys/unix"

var archDeniedCalls = []uintptr{
	unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_USELIB, unix.SYS_MODIFY_LDT,
	unix.SYS_CREATE_MODULE, unix.SYS_KEXEC_FILE_LOAD,
}

var archAttributeCalls = []uintptr{unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN}
