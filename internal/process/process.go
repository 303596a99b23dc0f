package process

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// Command is what to run.
type Command struct {
	Path string   // of the program
	Args []string // after the program's own name
	Dir  string
	Env  []string
	// Environ gives the environment, instead of Env, when it is needed.
	Environ func() []string
	Stdin   []byte
	// Grace is how long the command has to end by itself once it was asked
	// to; 0 is DefaultGrace.
	Grace time.Duration
	// MaxOutput is how much it may write; 0 is DefaultMaxOutput.
	MaxOutput int
	// Stderr is given what the command writes to its standard error, as it
	// comes; nil is nobody.
	Stderr io.Writer
	// Sandbox confines the command; nil leaves it what the user may do.
	Sandbox *Sandbox
	// Limits bounds what the command uses; only Linux enforces it.
	Limits Limits

	ready *ready // what was done for it before it is started; nil is nothing

	isolation isolation // the namespaces that it is started in
	filtered  bool      // it reads a seccomp filter from filterFD
}

// What holds when a command says nothing else.
const (
	DefaultGrace     = 2 * time.Second
	DefaultMaxOutput = 16 << 20
)

// MaxErrors is how much is kept of what a command writes to its standard
// error: the end of it.
const MaxErrors = 64 << 10

// How long the dead may take to be gone, and a pipe that somebody else holds
// open to be given up.
const (
	mostDying = 5 * time.Second
	mostDrain = time.Second
)

// Outcome is how a command ended.
type Outcome struct {
	Stdout []byte
	Stderr []byte // the end of it
	Exit   int    // 0 is well; that of a killed one is 128 and the signal
	Signal string // that killed it
}

// ErrTooMuch is returned for a command that was killed because it wrote more
// than it may.
var ErrTooMuch = errors.New("it wrote more than it may")

// ErrAlive is returned when a command was killed and is still there.
var ErrAlive = errors.New("it was killed and is still there")

// Run runs a command to its end. An error means that it could not be started,
// that the context ended, or one of those above; how it ended otherwise is in
// the outcome. When Run returns, nothing of the command is left.
func Run(ctx context.Context, c Command) (Outcome, error) {
	l := NewLaunch(c)
	return l.Run(ctx)
}

// complete is a command that leaves nothing open.
func (c Command) complete() Command {
	if c.Grace == 0 {
		c.Grace = DefaultGrace
	}
	if c.MaxOutput == 0 {
		c.MaxOutput = DefaultMaxOutput
	}
	if c.Environ != nil {
		c.Env = c.Environ()
	}
	if c.Sandbox != nil {
		c = c.Sandbox.confine(c)
	}
	return c
}

// Launch is a command that is about to be run.
type Launch struct {
	command  Command
	complete bool
}

// NewLaunch is a launch for which nothing has been done yet.
func NewLaunch(c Command) Launch { return Launch{command: c} }

func (l *Launch) settle() {
	if !l.complete {
		l.command, l.complete = l.command.complete(), true
	}
}

// Prepare does what can be done before the command is started, when there is
// time for it; Run does what is left. Who prepares drops the launch in the end.
func (l *Launch) Prepare() {
	l.settle()
	if l.command.ready == nil {
		l.command.ready = l.command.ahead()
	}
}

// Drop undoes what was prepared for nothing.
func (l *Launch) Drop() {
	l.command.ready.drop()
	l.command.ready = nil
}

// Run is Run for a launch, once.
func (l *Launch) Run(ctx context.Context) (Outcome, error) {
	if ctx.Err() != nil {
		return Outcome{}, context.Cause(ctx)
	}
	l.settle()
	c := l.command
	l.command.ready = nil // used from now on, or dropped by who cannot use it
	return run(ctx, c)
}

// Process is a command whose output is read as it comes.
type Process struct {
	Stdin  io.WriteCloser
	Stdout io.ReadCloser

	stderr  *kept
	stop    func() // may be called more than once
	done    chan struct{}
	outcome Outcome
	err     error
}

// Start starts a command and leaves its input and output to the caller. It is
// stopped when the context ends; whoever starts it has to wait for it.
func Start(ctx context.Context, c Command) (*Process, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return start(ctx, c.complete())
}

// Stop ends the process if it has not ended yet. It does not wait.
func (p *Process) Stop() { p.stop() }

// Wait returns when nothing of the command is left. Its output is read by then
// or never will be: what the pipe still holds stays readable until closed.
func (p *Process) Wait() (Outcome, error) {
	<-p.done
	return p.outcome, p.err
}

// Done is closed when nothing of the command is left.
func (p *Process) Done() <-chan struct{} { return p.done }

// Errors is the end of what the command has written to its standard error.
func (p *Process) Errors() []byte { return p.stderr.bytes() }

// kept is what a pipe delivered: the beginning or the end, up to a size.
type kept struct {
	mu       sync.Mutex
	data     []byte
	most     int
	end      bool // keep the end, not the beginning
	overflow chan struct{}
	once     sync.Once
	also     io.Writer // gets all of it
}

func (k *kept) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.also != nil {
		_, _ = k.also.Write(p) // whoever does not listen any more holds nobody up
	}
	switch {
	case k.end:
		k.data = append(k.data, p...)
		if len(k.data) > 2*k.most { // now and then, not with every line
			k.data = slices.Clone(k.data[len(k.data)-k.most:])
		}
	case len(k.data)+len(p) > k.most:
		k.data = append(k.data, p[:k.most-len(k.data)]...)
		k.once.Do(func() { close(k.overflow) })
	default:
		k.data = append(k.data, p...)
	}
	return len(p), nil
}

func (k *kept) bytes() []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.end && len(k.data) > k.most {
		return k.data[len(k.data)-k.most:]
	}
	return k.data
}

// Environment is what commands get to see of ours: what programs need to find
// themselves and each other, and nothing that could be a secret.
func Environment(environ []string, more ...string) []string {
	var out []string
	for _, one := range environ {
		if name, _, ok := strings.Cut(one, "="); ok && Harmless(name) {
			out = append(out, one)
		}
	}
	return append(out, more...)
}

// Harmless tells whether a variable of that name is no secret.
func Harmless(name string) bool {
	return slices.Contains(harmless, strings.ToUpper(name)) || strings.HasPrefix(name, "LC_")
}

var harmless = []string{
	"PATH", "HOME", "LANG", "TZ", "TMPDIR", "USER",
	// What programs on Windows cannot do without.
	"SYSTEMROOT", "COMSPEC", "PATHEXT", "TEMP", "TMP", "USERPROFILE",
}
