package process

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Landlock closes TCP and files. It leaves UDP, and the sockets in the file
// system behind which programs do what they are asked: those of containers,
// of the desktop, of keys. So a confined process gets no sockets at all, but
// for pairs that lead only to itself.

// audited is how the kernel calls the kinds of machines whose system calls are
// known here.
var audited = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// socketless tells whether sockets can be kept from a process here.
func socketless() bool {
	_, known := audited[runtime.GOARCH]
	_, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0)
	return known && err == nil
}

// What the filter is shown of a call: struct seccomp_data.
const (
	callNumber   = 0
	callMachine  = 4
	secondOfPair = 24 // the second argument: the type of a socket
)

// otherCalls is where the numbers of x32 begin, a second set of the same calls.
const otherCalls = 0x40000000

// withoutSockets keeps sockets from this thread and what it will become. The
// thread has to be locked.
func withoutSockets() error {
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	give := func(what uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: what} }
	// Each jumps over so many of the lines that follow, if it is so or not.
	is := func(value uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: value, Jt: yes, Jf: no}
	}
	filter := []unix.SockFilter{
		load(callMachine),
		is(audited[runtime.GOARCH], 1, 0),
		give(unix.SECCOMP_RET_KILL_PROCESS), // a program for another machine, whose calls have other numbers
		load(callNumber),
		{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: otherCalls, Jt: 8},
		is(unix.SYS_SOCKET, 7, 0),
		is(unix.SYS_IO_URING_SETUP, 6, 0), // it can make sockets, too
		is(unix.SYS_SOCKETPAIR, 0, 4),
		load(secondOfPair),
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0xf},
		is(unix.SOCK_STREAM, 1, 0),
		is(unix.SOCK_SEQPACKET, 0, 1), // pairs of other types can be led elsewhere
		give(unix.SECCOMP_RET_ALLOW),
		give(unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)),
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
}
