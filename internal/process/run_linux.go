package process

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// ioPump moves the input and output of one command, and waits for its end.
//
// A single thread polls all file descriptors, and only that thread uses the
// pump. Other goroutines reach it through the cancellation descriptor alone.
type ioPump struct {
	fds            [6]unix.PollFd // our ends; an Fd of -1 is not polled
	theirs         files          // the command's ends, as long as we hold them
	input          []byte         // what has not been written to the command yet
	stdout, stderr *capture       // stdout is nil when the caller reads it
}

// Indexes into ioPump.fds.
const (
	fdExit     = iota // readable when the command is dead
	fdCancel          // readable when the context has ended
	fdWatchdog        // reports an error when the watchdog is dead
	fdStdout
	fdStderr
	fdStdin
)

// run implements Run on Linux.
func run(ctx context.Context, c Command) (outcome Outcome, err error) {
	onThread(func() { outcome, err = runHere(ctx, c) })
	return outcome, err
}

// runHere runs a command on the current thread, which onThread keeps for it. Output that the command has left in the
// pipes is read after its group is dead, so that nothing is lost and nothing can be added.
func runHere(ctx context.Context, c Command) (Outcome, error) {
	p := ioPump{input: c.Stdin, stdout: newCapture(c.MaxOutput, c.Stdout), stderr: newTailCapture(c.Stderr)}
	ch, release, err := p.start(ctx, c, len(c.Stdin) > 0)
	if err != nil {
		return Outcome{}, err
	}
	defer p.close()
	defer release()
	stopped := p.untilExit(ctx, ch, c.Grace)
	outcome, err := ch.end()
	if err != nil {
		return Outcome{}, errors.Join(err, stopped)
	}
	p.drain(fdStdout, p.stdout)
	p.drain(fdStderr, p.stderr)
	if p.overflowed() {
		stopped = ErrTooMuch
	}
	outcome.Stdout, outcome.Stderr = p.stdout.bytes(), p.stderr.bytes()
	return outcome, stopped
}

// start starts a command. The pump is woken when the context ends, until release
// is called.
//
// The pump keeps the command's ends of the pipes open while the command runs.
// Otherwise a dying command, which closes its files first, would wake the pump
// once more than necessary.
func (p *ioPump) start(ctx context.Context, c Command, input bool) (ch *child, release func(), err error) {
	if err := p.open(input); err != nil {
		p.close()
		return nil, nil, err
	}
	canceled, release, err := cancelFD(ctx)
	if err != nil {
		p.close()
		return nil, nil, err
	}
	if ch, err = startChild(c, p.theirs); err != nil {
		release()
		p.close()
		return nil, nil, err
	}
	p.fds[fdExit].Fd, p.fds[fdCancel].Fd = int32(ch.exit), int32(canceled)
	return ch, release, nil
}

// files are the standard input, output and error of a command.
type files [3]int

// close closes the files that are open. It may be called twice.
func (f *files) close() {
	for i, fd := range f {
		if fd >= 0 {
			unix.Close(fd)
		}
		f[i] = -1
	}
}

// open creates the pipes. After an error, close closes those that exist.
func (p *ioPump) open(input bool) (err error) {
	p.theirs = files{-1, -1, -1}
	for i := range p.fds {
		p.fds[i] = unix.PollFd{Fd: -1, Events: unix.POLLIN}
	}
	p.fds[fdStdin].Events = unix.POLLOUT
	p.fds[fdWatchdog].Events = 0 // errors are always reported
	if input {
		p.fds[fdStdin].Fd, p.theirs[0], err = pipe(true)
	} else {
		// Not an empty pipe: some programs read from any pipe that they are given.
		p.theirs[0], err = unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}
	if err == nil {
		p.fds[fdStdout].Fd, p.theirs[1], err = pipe(false)
	}
	if err == nil {
		p.fds[fdStderr].Fd, p.theirs[2], err = pipe(false)
	}
	return err
}

// pipe creates a pipe that we write to or read from. Our end never blocks, not
// even when poll has reported it ready: a command that opens its own output can
// read back what it wrote.
func pipe(write bool) (ours int32, theirs int, err error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return -1, -1, err
	}
	if write {
		ends[0], ends[1] = ends[1], ends[0]
	}
	if err := unix.SetNonblock(ends[0], true); err != nil {
		unix.Close(ends[0])
		unix.Close(ends[1])
		return -1, -1, err
	}
	return int32(ends[0]), ends[1], nil
}

// close closes both ends of all pipes that are still ours.
func (p *ioPump) close() {
	p.theirs.close()
	for _, i := range []int{fdStdout, fdStderr, fdStdin} {
		p.closeEnd(i)
	}
}

// closeEnd closes our end of a pipe, and poll ignores it from then on.
func (p *ioPump) closeEnd(i int) {
	if fd := int(p.fds[i].Fd); fd >= 0 {
		unix.Close(fd)
	}
	p.fds[i].Fd = -1
}

// untilExit pumps until the command is dead, or until its grace period is over
// after it was asked to end. It returns why it was asked.
func (p *ioPump) untilExit(ctx context.Context, ch *child, grace time.Duration) (stopped error) {
	var deadline time.Time
	for {
		timeout := forever
		if stopped != nil {
			if timeout = time.Until(deadline); timeout <= 0 {
				return stopped
			}
		}
		// Another command may have replaced the watchdog, so its descriptor is read again in each round.
		p.fds[fdWatchdog].Fd = commandWatchdog.lifetimeFD()
		for i := range p.fds {
			p.fds[i].Revents = 0
		}
		poll(p.fds[:], timeout)
		if p.fds[fdWatchdog].Revents != 0 {
			commandWatchdog.replace()
		}
		if ch.exited = p.fds[fdExit].Revents != 0; ch.exited {
			return stopped
		}
		// POLLHUP and POLLERR count as ready, too: read and write find out what has happened.
		if p.fds[fdStdout].Revents != 0 {
			p.read(fdStdout, p.stdout)
		}
		if p.fds[fdStderr].Revents != 0 {
			p.read(fdStderr, p.stderr)
		}
		if p.fds[fdStdin].Revents != 0 {
			p.write()
		}
		// Ask the command to end, once. If it does not end within the grace period, child.end kills it.
		if stopped == nil {
			switch {
			case p.fds[fdCancel].Revents != 0:
				stopped = context.Cause(ctx)
			case p.overflowed():
				stopped = ErrTooMuch
			default:
				continue
			}
			// The descriptor stays readable and would make poll return at once.
			p.fds[fdCancel].Fd = -1
			deadline = time.Now().Add(grace)
			ch.terminate()
		}
	}
}

// overflowed reports whether the command has written more to its standard output than it may.
func (p *ioPump) overflowed() bool {
	if p.stdout == nil {
		return false
	}
	select {
	case <-p.stdout.overflow:
		return true
	default:
		return false
	}
}

// read reads once and returns how many bytes there were. It does not loop, so
// that a command that writes without end cannot starve everything else.
func (p *ioPump) read(i int, into *capture) int {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	n, err := unix.Read(int(p.fds[i].Fd), *buffer)
	for errors.Is(err, unix.EINTR) {
		n, err = unix.Read(int(p.fds[i].Fd), *buffer)
	}
	if n > 0 {
		_, _ = into.Write((*buffer)[:n]) // never fails
	} else if !errors.Is(err, unix.EAGAIN) {
		p.closeEnd(i)
	}
	return max(n, 0)
}

// buffers are as large as a pipe is by default, so that one read empties it.
var buffers = sync.Pool{New: func() any { return new(make([]byte, 64<<10)) }}

// drain reads what a dead command has left in a pipe. It does not wait for
// other processes that hold the pipe open.
func (p *ioPump) drain(i int, into *capture) {
	if p.fds[i].Fd < 0 {
		return
	}
	left, err := unix.IoctlGetInt(int(p.fds[i].Fd), unix.TIOCINQ)
	for err == nil && left > 0 {
		n := p.read(i, into)
		if n == 0 {
			return // another process has read it
		}
		left -= n
	}
}

// write writes as much of the input as fits into the pipe. The command need not
// read all of it.
func (p *ioPump) write() {
	n, err := unix.Write(int(p.fds[fdStdin].Fd), p.input)
	if err == nil {
		p.input = p.input[n:]
	}
	if len(p.input) == 0 || err != nil && !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
		p.closeEnd(fdStdin)
	}
}

// start implements Start on Linux. A goroutine with a thread of its own starts the command and waits for it; start
// returns when the command has been started.
func start(ctx context.Context, c Command) (*Process, error) {
	ctx, stop := context.WithCancelCause(ctx)
	proc := &Process{stderr: newTailCapture(c.Stderr), stop: func() { stop(errStopped) }, done: make(chan struct{})}
	started := make(chan error, 1)
	go onThread(func() {
		defer close(proc.done)
		defer stop(nil)
		// The caller reads the standard output and writes the standard input.
		p := &ioPump{stderr: proc.stderr}
		ch, release, err := p.start(ctx, c, true)
		if err != nil {
			started <- err
			return
		}
		defer p.close()
		defer release()
		p.theirs.close() // the reader has to see the end of the output
		proc.Stdin, proc.Stdout = p.file(fdStdin), p.file(fdStdout)
		started <- nil
		stopped := p.untilExit(ctx, ch, c.Grace)
		if errors.Is(stopped, errStopped) {
			stopped = nil // by the caller
		}
		if proc.outcome, err = ch.end(); err != nil {
			proc.err = errors.Join(err, stopped)
			return
		}
		p.drain(fdStderr, p.stderr)
		proc.outcome.Stderr, proc.err = p.stderr.bytes(), stopped
	})
	if err := <-started; err != nil {
		return nil, err
	}
	return proc, nil
}

// errStopped is the cause with which Process.Stop ends the context of a command.
var errStopped = errors.New("stopped")

// file hands one of our ends over to the caller.
func (p *ioPump) file(i int) *os.File {
	f := os.NewFile(uintptr(p.fds[i].Fd), "pipe")
	p.fds[i].Fd = -1
	return f
}
