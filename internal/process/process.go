package process

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/espalier-run/espalier/internal/xslices"
)

// Command is a program to run, and how.
type Command struct {
	Path string   // of the program
	Args []string // after the program's own name
	Dir  string
	Env  []string
	// Stdin is what the command reads from its standard input.
	Stdin []byte
	// Grace is how long the command may take to end after it was asked to;
	// 0 is DefaultGrace.
	Grace time.Duration
	// MaxOutput is how many bytes it may write to its standard output;
	// 0 is DefaultMaxOutput.
	MaxOutput int
	// Stdout and Stderr, if set, also receive what the command writes, as it is written.
	Stdout, Stderr io.Writer
	// Sandbox confines the command; nil runs it with all rights of the user.
	Sandbox *Sandbox
	// Limits bounds what the command uses; only Linux enforces it.
	Limits Limits
	// EarlyLimits sets the limits before the program begins, which takes a shell. A program may reserve more memory
	// than it is allowed before a later limit is set, and fail from then on; those made with Bun do.
	EarlyLimits bool

	isolation isolation // the namespaces that it is started in
	filtered  bool      // it reads a seccomp filter from filterFD
}

// Defaults of a Command.
const (
	DefaultGrace     = 2 * time.Second
	DefaultMaxOutput = 16 << 20
)

// MaxErrors is how many bytes at the end of the standard error are kept.
const MaxErrors = 64 << 10

// killTimeout is how long killed processes may take to disappear.
const killTimeout = 5 * time.Second

// Outcome is how a command ended.
type Outcome struct {
	Stdout []byte
	Stderr []byte // its last MaxErrors bytes
	Exit   int    // the exit status, or 128 plus the signal that killed the command
	Signal string // the name of that signal
}

// ErrTooMuch is returned for a command that was killed because it exceeded its
// MaxOutput.
var ErrTooMuch = errors.New("more output than allowed")

// ErrAlive is returned when a command was killed but has not ended.
var ErrAlive = errors.New("the command was killed but has not ended")

// Run runs a command to its end. An error means that the command could not be
// started, that the context ended, or one of the errors above. When Run returns
// without ErrAlive, nothing of the command is left.
func Run(ctx context.Context, c Command) (Outcome, error) {
	if ctx.Err() != nil {
		return Outcome{}, context.Cause(ctx)
	}
	return run(ctx, c.complete())
}

// complete returns the command with its defaults, in its sandbox.
func (c Command) complete() Command {
	c.Grace = cmp.Or(c.Grace, DefaultGrace)
	c.MaxOutput = cmp.Or(c.MaxOutput, DefaultMaxOutput)
	if c.Sandbox != nil {
		c = c.Sandbox.confine(c)
	}
	return c
}

// Process is a command whose output is read while it runs.
type Process struct {
	Stdin  io.WriteCloser
	Stdout io.ReadCloser

	stderr *capture
	stop   func() // may be called more than once
	done   chan struct{}
	// Written before done is closed, and read only afterward.
	outcome Outcome
	err     error
}

// Start starts a command and leaves its input and output to the caller. The
// command is stopped when the context ends. The caller must call Wait.
func Start(ctx context.Context, c Command) (*Process, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return start(ctx, c.complete())
}

// Stop ends the process if it has not ended yet. It does not wait.
func (p *Process) Stop() { p.stop() }

// Wait returns when nothing of the command is left. Output that is still in the
// pipe can be read until Stdout is closed.
func (p *Process) Wait() (Outcome, error) {
	<-p.done
	return p.outcome, p.err
}

// Done returns a channel that is closed when nothing of the command is left.
func (p *Process) Done() <-chan struct{} { return p.done }

// Errors returns the end of what the command has written to its standard error.
func (p *Process) Errors() []byte { return p.stderr.bytes() }

// capture keeps a part of what is written to it: the beginning, up to a size, or
// the end. It may be used by several goroutines.
type capture struct {
	overflow chan struct{} // closed when more than the size was written
	once     sync.Once

	mu   sync.Mutex
	data []byte
	size int
	tail bool      // keep the end
	also io.Writer // receives everything; may be nil
}

// newCapture returns a capture for the standard output of a command.
func newCapture(size int, also io.Writer) *capture {
	return &capture{size: size, overflow: make(chan struct{}), also: also}
}

// newTailCapture returns a capture for the standard error of a command.
func newTailCapture(also io.Writer) *capture {
	return &capture{size: MaxErrors, tail: true, also: also}
}

// Write implements io.Writer. It never fails, and keeps what fits.
func (c *capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.also != nil {
		_, _ = c.also.Write(p) // a failing reader must not stop the command
	}
	switch {
	case c.tail:
		c.data = append(c.data, p...)
		if len(c.data) > 2*c.size { // cut now and then, not with every line
			c.data = slices.Clone(c.data[len(c.data)-c.size:])
		}
	case len(c.data)+len(p) > c.size:
		c.data = append(c.data, p[:c.size-len(c.data)]...)
		c.once.Do(func() { close(c.overflow) })
	default:
		c.data = append(c.data, p...)
	}
	return len(p), nil
}

// bytes returns what is kept. The caller must not change it.
func (c *capture) bytes() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tail && len(c.data) > c.size {
		return c.data[len(c.data)-c.size:]
	}
	return c.data
}

// Environment returns the variables of environ that commands may see, followed by
// more. Commands see what programs need to run, and nothing that could be a secret.
func Environment(environ []string, more ...string) []string {
	out := xslices.Filter(environ, func(one string) bool {
		name, _, ok := strings.Cut(one, "=")
		return ok && NeverSecret(name)
	})
	return append(out, more...)
}

// NeverSecret reports whether a variable of that name never holds a secret.
func NeverSecret(name string) bool {
	return slices.Contains(nonSecretVariables, strings.ToUpper(name)) || strings.HasPrefix(name, "LC_")
}

// nonSecretVariables lists the names of variables that never hold secrets, in capital letters.
var nonSecretVariables = []string{
	"PATH", "HOME", "LANG", "TZ", "TMPDIR", "USER",
	// Programs on Windows need these.
	"SYSTEMROOT", "COMSPEC", "PATHEXT", "TEMP", "TMP", "USERPROFILE",
}
