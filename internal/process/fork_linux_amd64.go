package process

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Go's own way to start a program takes back the handlers of some sixty signals
// one by one, and makes a pipe only to hear of errors. The kernel can do the
// former at a stroke, and memory that both share needs no pipe: so here is the
// same with a third of the work.

// birth is what a process needs that is to become a command. It is all written
// before there is one, because that one can do nothing but calls of the kernel.
type birth struct {
	clone  cloneArgs
	calls  [mostCalls]call
	failed uintptr // the error of the call that failed

	exit    int32  // a file that can be read once the process is dead
	signals uint64 // that are held back in this thread
	limit   unix.Rlimit
	text    []byte    // everything that is text, each with a zero at its end
	words   []uintptr // where arguments and variables are, a zero behind both
}

// call is one call of the kernel. It has to end well, and with what is wanted
// if anything is.
type call struct {
	number uintptr
	args   [4]uintptr
	want   uintptr
}

// mostCalls is what a birth may take.
const mostCalls = 10

// cloneArgs are the kernel's. What is nought leaves the stack as it is, and has
// nobody told of threads.
type cloneArgs struct {
	flags, pidfd, _, _, exitSignal, _, _, _ uint64
}

// fork3 makes a process that does the calls in turn, and waits until the last
// has made another program of it or one has failed. A number below zero is an
// error of fork3 itself.
func fork3(b *birth) (pid int)

// births do not move: the kernel is told where they are.
var births = sync.Pool{New: func() any { return new(birth) }}

// oldWay is set when the kernel, or whoever guards it, does not know this one.
var oldWay atomic.Bool

// spawn starts a program, on a thread that stays. exit is a file that can be
// read once it is dead; there are kernels that have none.
func spawn(path string, argv []string, dir string, env []string, f files) (pid, exit int, err error) {
	limit := watched.limit.Load()
	if limit == nil || oldWay.Load() || min(f[0], f[1], f[2]) < len(f) {
		return forkExec(path, argv, dir, env, f)
	}
	b := births.Get().(*birth)
	defer births.Put(b)
	if !b.prepare(path, argv, dir, env, f, *limit) {
		return forkExec(path, argv, dir, env, f) // says what is wrong
	}
	pid, err = b.bear()
	if errors.Is(err, errOldWay) {
		oldWay.Store(true)
		return forkExec(path, argv, dir, env, f)
	}
	return pid, int(b.exit), err
}

// prepare writes everything down. It is false when there is a text that no
// program can be given.
func (b *birth) prepare(path string, argv []string, dir string, env []string, f files, limit unix.Rlimit) bool {
	size := len(path) + len(dir) + 2
	for _, list := range [][]string{argv, env} {
		for _, one := range list {
			size += len(one) + 1
		}
	}
	b.text, b.words, b.limit = slices.Grow(b.text[:0], size), slices.Grow(b.words[:0], len(argv)+len(env)+2), limit
	whole := true
	write := func(text string) uintptr {
		whole = whole && strings.IndexByte(text, 0) < 0
		at := len(b.text)
		b.text = append(append(b.text, text...), 0) // has room, so it stays where it is
		return uintptr(unsafe.Pointer(&b.text[at]))
	}
	list := func(texts []string) uintptr {
		at := len(b.words)
		for _, one := range texts {
			b.words = append(b.words, write(one))
		}
		b.words = append(b.words, 0)
		return uintptr(unsafe.Pointer(&b.words[at]))
	}
	calls := append(b.calls[:0],
		call{number: unix.SYS_SETPGID},
		call{number: unix.SYS_PRCTL, args: [4]uintptr{unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL)}},
		call{number: unix.SYS_GETPPID, want: uintptr(ourselves())}, // or we died before it could have heard of it
	)
	if dir != "" {
		calls = append(calls, call{number: unix.SYS_CHDIR, args: [4]uintptr{write(dir)}})
	}
	for i, fd := range f {
		calls = append(calls, call{number: unix.SYS_DUP3, args: [4]uintptr{uintptr(fd), uintptr(i)}})
	}
	calls = append(calls,
		call{number: unix.SYS_PRLIMIT64, args: [4]uintptr{0, unix.RLIMIT_NOFILE, uintptr(unsafe.Pointer(&b.limit))}},
		call{number: unix.SYS_RT_SIGPROCMASK, args: [4]uintptr{unix.SIG_SETMASK, uintptr(unsafe.Pointer(&b.signals)), 0, unsafe.Sizeof(b.signals)}},
		call{number: unix.SYS_EXECVE, args: [4]uintptr{write(path), list(argv), list(env)}},
	)
	if &calls[0] != &b.calls[0] {
		panic("a birth takes more calls than there is room for")
	}
	return whole
}

var errOldWay = errors.New("no new way to make a process")

// bear makes the process. No signal may reach it while it has our memory: it
// would do what we do then.
func (b *birth) bear() (int, error) {
	b.failed, b.exit = 0, -1
	b.clone = cloneArgs{
		flags: unix.CLONE_VM | unix.CLONE_VFORK | unix.CLONE_PIDFD | unix.CLONE_CLEAR_SIGHAND,
		pidfd: uint64(uintptr(unsafe.Pointer(&b.exit))), exitSignal: uint64(unix.SIGCHLD),
	}
	all := ^uint64(0)
	syscall.ForkLock.Lock()
	unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&b.signals)), unsafe.Sizeof(all), 0, 0)
	pid := fork3(b)
	unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&b.signals)), 0, unsafe.Sizeof(all), 0, 0)
	syscall.ForkLock.Unlock()
	runtime.KeepAlive(b)
	if pid < 0 {
		switch err := unix.Errno(-pid); err {
		case unix.ENOSYS, unix.EINVAL, unix.EPERM:
			return 0, errOldWay
		default:
			return 0, err
		}
	}
	if b.failed != 0 {
		unix.Close(int(b.exit))
		_, _ = reap(pid)
		return 0, unix.Errno(b.failed)
	}
	return pid, nil
}
