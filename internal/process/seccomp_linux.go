package process

import (
	"bytes"
	"encoding/binary"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A seccomp filter sees the number and the arguments of a system call, but not
// the memory that they point to. It therefore denies whole system calls: those
// that reach around the file system view of a sandbox, or that an ordinary
// command has no use for and whose code in the kernel is a frequent target.

// auditArch maps GOARCH to the architecture constant that filters are given.
// Its keys are the architectures whose system call numbers are listed here.
var auditArch = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// seccompAvailable reports whether the kernel accepts filters and whether the
// system calls of this architecture are known.
func seccompAvailable() bool {
	_, known := auditArch[runtime.GOARCH]
	_, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0)
	return known && err == nil
}

// filterOptions selects what a filter denies besides deniedCalls.
type filterOptions struct {
	// Sockets permits sockets of the families in socketFamilies. Without it,
	// only pairs that lead back to the process itself can be created.
	Sockets bool
	// Attributes permits changes to file modes, owners and extended attributes.
	Attributes bool
	// SystemV permits System V shared memory, semaphores and message queues.
	SystemV bool
}

// deniedCalls are denied in every sandbox.
var deniedCalls = append([]uintptr{
	// The view of the file system.
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOUNT_SETATTR,
	unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
	unix.SYS_OPEN_BY_HANDLE_AT,
	// Namespaces; clone is denied by its flags, see filter.
	unix.SYS_UNSHARE, unix.SYS_SETNS,
	// Other processes.
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP,
	// Keys, which user namespaces do not separate completely.
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	// The kernel itself.
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_KEXEC_LOAD, unix.SYS_INIT_MODULE,
	unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT,
	unix.SYS_QUOTACTL, unix.SYS_SYSLOG, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME,
	unix.SYS_ADJTIMEX, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_USERFAULTFD, unix.SYS_FANOTIFY_INIT,
	unix.SYS_VHANGUP,
	// io_uring performs operations, such as opening sockets, that filters do not see.
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
}, archDeniedCalls...)

// attributeCalls change file modes, owners and extended attributes.
var attributeCalls = append([]uintptr{
	unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT,
	unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, sysSetxattrat,
	unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR, sysRemovexattrat,
	sysFileSetattr,
}, archAttributeCalls...)

// Newer than golang.org/x/sys; the numbers are the same on every architecture.
const (
	sysSetxattrat    = 463
	sysRemovexattrat = 466
	sysFileSetattr   = 469
)

// systemVCalls create or open System V objects, which an IPC namespace isolates.
var systemVCalls = []uintptr{unix.SYS_SHMGET, unix.SYS_SEMGET, unix.SYS_MSGGET}

// socketFamilies are those that a network namespace isolates. Others are not
// isolated: AF_VSOCK, for one, leads from a virtual machine to its host.
var socketFamilies = []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}

// newNamespaces are the flags of clone that create namespaces.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// Offsets in struct seccomp_data. Both architectures are little-endian, so the
// offset of an argument is that of its lower half.
const (
	offsetCall = 0
	offsetArch = 4
	offsetArg0 = 16
	offsetArg1 = 24
)

// x32Bit marks the system calls of the x32 ABI, a second set of numbers for the
// same calls on amd64.
const x32Bit = 0x40000000

// load returns the instruction that reads 32 bits of the system call's data at an offset.
func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

// and returns the instruction that keeps the bits in mask of the last value read.
func and(mask uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: mask}
}

// returnAction returns the instruction that ends the filter with an action.
func returnAction(action uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
}

// skipUnless returns the instruction that skips the next n instructions unless the last value read is value.
func skipUnless(value uint32, n int) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: value, Jf: uint8(n)}
}

// skipIf returns the instruction that skips the next n instructions if the last value read is value.
func skipIf(value uint32, n int) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: value, Jt: uint8(n)}
}

// deny returns the instruction that fails the system call with an error.
func deny(err unix.Errno) unix.SockFilter { return returnAction(unix.SECCOMP_RET_ERRNO | uint32(err)) }

var allow = returnAction(unix.SECCOMP_RET_ALLOW)

// filter assembles a filter.
func filter(o filterOptions) []unix.SockFilter {
	out := []unix.SockFilter{
		load(offsetArch),
		skipIf(auditArch[runtime.GOARCH], 1),
		// A program for another architecture, whose calls have other numbers.
		returnAction(unix.SECCOMP_RET_KILL_PROCESS),
		load(offsetCall),
		{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: x32Bit, Jf: 1},
		deny(unix.EPERM),
	}
	// on appends instructions for one call. They either return or leave the
	// call permitted.
	on := func(call uintptr, do ...unix.SockFilter) {
		out = append(append(out, skipUnless(uint32(call), len(do))), do...)
	}
	denied := deniedCalls
	if !o.Attributes {
		denied = append(denied[:len(denied):len(denied)], attributeCalls...)
	}
	if !o.SystemV {
		denied = append(denied[:len(denied):len(denied)], systemVCalls...)
	}
	for _, call := range denied {
		on(call, deny(unix.EPERM))
	}
	// The flags of clone3 are in memory. C libraries fall back to clone.
	on(unix.SYS_CLONE3, deny(unix.ENOSYS))
	on(unix.SYS_CLONE, load(offsetArg0), and(newNamespaces), skipUnless(0, 1), allow, deny(unix.EPERM))
	// Limits of the user's other processes: one on processor time ends them, as a signal would. 0 is the caller itself.
	on(unix.SYS_PRLIMIT64, load(offsetArg0), skipUnless(0, 1), allow, deny(unix.EPERM))
	// These push input into the terminal, where the shell of the user reads it.
	on(unix.SYS_IOCTL, load(offsetArg1), skipIf(unix.TIOCSTI, 2), skipIf(unix.TIOCLINUX, 1), allow, deny(unix.EPERM))
	if o.Sockets {
		families := []unix.SockFilter{load(offsetArg0)}
		for i, family := range socketFamilies {
			families = append(families, skipIf(family, len(socketFamilies)-i))
		}
		families = append(families, deny(unix.EPERM), allow)
		on(unix.SYS_SOCKET, families...)
	} else {
		on(unix.SYS_SOCKET, deny(unix.EPERM))
		// Pairs of other types can be connected elsewhere later.
		on(unix.SYS_SOCKETPAIR, load(offsetArg1), and(0xf), skipIf(unix.SOCK_STREAM, 2), skipIf(unix.SOCK_SEQPACKET, 1),
			deny(unix.EPERM), allow)
	}
	return append(out, allow)
}

// applyFilter applies a filter to this thread and to what it becomes. The
// caller has to lock the thread.
func applyFilter(filter []unix.SockFilter) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
}

// filterFile returns an open file that holds a filter, in the form that
// bubblewrap reads.
func filterFile(filter []unix.SockFilter) (*os.File, error) {
	fd, err := unix.MemfdCreate("seccomp", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "seccomp")
	var raw bytes.Buffer
	if err = binary.Write(&raw, binary.NativeEndian, filter); err == nil {
		if _, err = f.Write(raw.Bytes()); err == nil {
			_, err = f.Seek(0, 0)
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
