package process

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// talk is what goes to and fro between us and a command that runs: one thread
// waits for all of it at once, which costs a fraction of one goroutine each.
type talk struct {
	fds            [6]unix.PollFd // our ends; -1 when there is nothing to wait for
	theirs         files          // the other ends of what we read from, while we hold them
	input          []byte         // what the command has not got yet
	stdout, stderr *kept
}

// What the files of a talk are.
const (
	theExit = iota
	theAlarm
	theGuardian
	theOutput
	theErrors
	theInput
)

func run(ctx context.Context, c Command) (outcome Outcome, err error) {
	onThread(func() { outcome, err = runHere(ctx, c) })
	return outcome, err
}

func runHere(ctx context.Context, c Command) (Outcome, error) {
	t := talk{input: c.Stdin, stdout: &kept{most: c.MaxOutput, overflow: make(chan struct{})}, stderr: &kept{most: MaxErrors, end: true, also: c.Stderr}}
	l, unset, err := t.begin(ctx, c, len(c.Stdin) > 0)
	if err != nil {
		return Outcome{}, err
	}
	defer t.close()
	defer unset()
	stopped := t.untilEnd(ctx, l, c.Grace)
	outcome, err := l.end()
	if err != nil {
		return Outcome{}, errors.Join(err, stopped)
	}
	t.letGo()
	await(t.fds[theOutput:theErrors+1], 0)
	t.rest(theOutput, t.stdout)
	t.rest(theErrors, t.stderr)
	if t.tooMuch() {
		stopped = ErrTooMuch
	}
	outcome.Stdout, outcome.Stderr = t.stdout.bytes(), t.stderr.bytes()
	return outcome, stopped
}

// begin starts a command. It is heard of when the context ends until unset is
// called.
//
// We hold the ends that the command writes to until letGo: a command that dies
// closes them first, and whoever is told of that is woken only to wait again.
func (t *talk) begin(ctx context.Context, c Command, input bool) (l *live, unset func(), err error) {
	err = t.open(input)
	bell := -1
	if err == nil {
		bell, err = watched.silentAlarm(ctx)
	}
	if err != nil {
		c.ready.drop()
	} else {
		l, err = launch(c, t.theirs)
	}
	if err != nil {
		watched.keepAlarm(bell)
		t.close()
		return nil, nil, err
	}
	unset = alarm(ctx, bell)
	t.fds[theExit].Fd, t.fds[theAlarm].Fd = int32(l.exit), int32(bell)
	return l, unset, nil
}

// files are what a command gets to read from and write to.
type files [3]int

// close closes one of them, unless all commands share it.
func (f *files) close(i int) {
	if f[i] >= 0 && !isNothing(f[i]) {
		unix.Close(f[i])
	}
	f[i] = -1
}

// open makes the pipes. close closes what is left of them.
func (t *talk) open(input bool) (err error) {
	t.theirs = files{-1, -1, -1}
	for i := range t.fds {
		t.fds[i] = unix.PollFd{Fd: -1, Events: unix.POLLIN}
	}
	t.fds[theInput].Events = unix.POLLOUT
	t.fds[theGuardian].Events = 0 // it says nothing; we hear of its death
	if input {
		t.fds[theInput].Fd, t.theirs[0], err = pipe(true)
	} else {
		t.theirs[0], err = nothing()
	}
	if err == nil {
		t.fds[theOutput].Fd, t.theirs[1], err = spares.take()
	}
	if err == nil {
		t.fds[theErrors].Fd, t.theirs[2], err = spares.take()
	}
	return err
}

// nothing is what a command reads that is given nothing. It is not a pipe:
// there are programs that read from any that they have. All share one.
func nothing() (int, error) {
	null.Lock()
	defer null.Unlock()
	if null.fd == 0 {
		fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1, err // which may be better next time
		}
		null.fd = fd
	}
	return null.fd, nil
}

func isNothing(fd int) bool {
	null.Lock()
	defer null.Unlock()
	return fd == null.fd
}

var null struct {
	sync.Mutex
	fd int // 0 is none: it was somebody else's before
}

// pipe makes one that we write to, or read from. Our end never makes us wait,
// not even after a look at what is there: a command that opens its own output
// may take back what it wrote.
func pipe(write bool) (ours int32, theirs int, err error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return -1, -1, err
	}
	if write {
		ends[0], ends[1] = ends[1], ends[0]
	}
	// It has no other flags that could be set, so there is no need to ask for them.
	if _, err := unix.FcntlInt(uintptr(ends[0]), unix.F_SETFL, unix.O_NONBLOCK); err != nil {
		unix.Close(ends[0])
		unix.Close(ends[1])
		return -1, -1, err
	}
	return int32(ends[0]), ends[1], nil
}

// spare are pipes that nobody uses yet, and files that nobody uses any more: who
// prepares a command makes those that it needs, and closes those of the last.
type spare struct {
	mu    sync.Mutex
	pipes []ends
	used  []int
}

type ends struct {
	ours   int32
	theirs int
}

var spares spare

// What one command needs, and what it leaves.
const (
	mostSpare = 2
	mostUsed  = 3
)

// take gives a pipe to read from.
func (s *spare) take() (ours int32, theirs int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.pipes); n > 0 {
		p := s.pipes[n-1]
		s.pipes = s.pipes[:n-1]
		return p.ours, p.theirs, nil
	}
	return pipe(false)
}

// leave has a file closed, at once or soon. It must be one of which nobody can
// tell when that is.
func (s *spare) leave(fd int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.used) < mostUsed {
		s.used = append(s.used, fd)
		return
	}
	unix.Close(fd)
}

// stock makes what is missing, and closes what is left. If there is something
// that cannot be made now, maybe it can when it is needed.
func (s *spare) stock() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, fd := range s.used {
		unix.Close(fd)
	}
	s.used = s.used[:0]
	for len(s.pipes) < mostSpare {
		ours, theirs, err := pipe(false)
		if err != nil {
			return
		}
		s.pipes = append(s.pipes, ends{ours, theirs})
	}
}

// letGo makes us hear of it when nobody writes any more.
func (t *talk) letGo() {
	for i := range t.theirs {
		t.theirs.close(i)
	}
}

func (t *talk) close() {
	t.letGo()
	for _, i := range []int{theOutput, theErrors, theInput} {
		t.hangUp(i)
	}
}

func (t *talk) hangUp(i int) {
	switch fd := int(t.fds[i].Fd); {
	case fd < 0:
	case t.deserted(i):
		spares.leave(fd)
	default:
		unix.Close(fd)
	}
	t.fds[i].Fd = -1
}

// deserted tells of something to read from that there is nothing in it, and
// nobody who could write to it.
func (t *talk) deserted(i int) bool { return t.fds[i].Revents == unix.POLLHUP }

// untilEnd goes on until the command is dead or has had the time to end after
// it was asked to. It returns why it was asked.
func (t *talk) untilEnd(ctx context.Context, l *live, grace time.Duration) (stopped error) {
	var deadline time.Time
	for {
		most := forever
		if stopped != nil {
			if most = time.Until(deadline); most <= 0 {
				return stopped
			}
		}
		t.fds[theGuardian].Fd = watched.leashed()
		for i := range t.fds {
			t.fds[i].Revents = 0
		}
		await(t.fds[:], most)
		if t.fds[theGuardian].Revents != 0 {
			watched.replace()
		}
		if l.exited = t.fds[theExit].Revents != 0; l.exited {
			return stopped
		}
		if t.fds[theOutput].Revents != 0 {
			t.receive(theOutput, t.stdout)
		}
		if t.fds[theErrors].Revents != 0 {
			t.receive(theErrors, t.stderr)
		}
		if t.fds[theInput].Revents != 0 {
			t.send()
		}
		if stopped == nil {
			switch {
			case t.fds[theAlarm].Revents != 0:
				stopped = context.Cause(ctx)
			case t.tooMuch():
				stopped = ErrTooMuch
			default:
				continue
			}
			t.fds[theAlarm].Fd = -1
			deadline = time.Now().Add(grace)
			l.askToEnd()
		}
	}
}

func (t *talk) tooMuch() bool {
	if t.stdout == nil {
		return false // somebody else reads it
	}
	select {
	case <-t.stdout.overflow:
		return true
	default:
		return false
	}
}

// receive reads once, so that whoever writes without end cannot keep us from
// all else. It tells how much there was.
func (t *talk) receive(i int, into *kept) int {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	n, err := unix.Read(int(t.fds[i].Fd), *buffer)
	for errors.Is(err, unix.EINTR) {
		n, err = unix.Read(int(t.fds[i].Fd), *buffer)
	}
	if n > 0 {
		_, _ = into.Write((*buffer)[:n]) // it takes everything
	} else if !errors.Is(err, unix.EAGAIN) {
		t.hangUp(i)
	}
	return max(n, 0)
}

var buffers = sync.Pool{New: func() any { return new(make([]byte, 64<<10)) }}

// rest reads what a dead command has left in a pipe. Whoever else may hold
// that is not waited for.
func (t *talk) rest(i int, into *kept) {
	if t.fds[i].Fd < 0 || t.deserted(i) {
		return
	}
	left, err := unix.IoctlGetInt(int(t.fds[i].Fd), unix.TIOCINQ)
	for err == nil && left > 0 {
		n := t.receive(i, into)
		if n == 0 {
			return // somebody else has read it
		}
		left -= n
	}
}

// send writes as much of the input as the command has room for. It need not
// read all that it is given.
func (t *talk) send() {
	n, err := unix.Write(int(t.fds[theInput].Fd), t.input)
	if err == nil {
		t.input = t.input[n:]
	}
	if len(t.input) == 0 || err != nil && !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
		t.hangUp(theInput)
	}
}

func start(ctx context.Context, c Command) (*Process, error) {
	ctx, stop := context.WithCancelCause(ctx)
	p := &Process{stderr: &kept{most: MaxErrors, end: true, also: c.Stderr}, stop: func() { stop(errStopped) }, done: make(chan struct{})}
	started := make(chan error, 1)
	go onThread(func() {
		defer close(p.done)
		defer stop(nil)
		t := &talk{stderr: p.stderr}
		l, unset, err := t.begin(ctx, c, true)
		if err != nil {
			started <- err
			return
		}
		defer t.close()
		defer unset()
		t.letGo() // whoever reads has to hear of the end
		p.Stdin, p.Stdout = t.file(theInput), t.file(theOutput)
		started <- nil
		stopped := t.untilEnd(ctx, l, c.Grace)
		if errors.Is(stopped, errStopped) {
			stopped = nil // as asked for
		}
		if p.outcome, err = l.end(); err != nil {
			p.err = errors.Join(err, stopped)
			return
		}
		t.rest(theErrors, t.stderr)
		p.outcome.Stderr, p.err = t.stderr.bytes(), stopped
	})
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

var errStopped = errors.New("it was stopped")

// file hands one of our ends over. Whoever waits for it can be interrupted.
func (t *talk) file(i int) *os.File {
	f := os.NewFile(uintptr(t.fds[i].Fd), "pipe")
	t.fds[i].Fd = -1
	return f
}
