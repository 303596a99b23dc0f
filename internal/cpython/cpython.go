package cpython

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/sys"
)

// Host is the program that runs the code of workflows, for any Python of version 3.9 or
// later. It reads a task and replies from standard input, and writes messages to
// standard output.
//
//go:embed host.py
var Host string

// Environment is the world as Host sees it.
type Environment struct {
	Stdin  io.Reader
	Stdout io.Writer
	// Now returns the time at which the clock of the program starts. It is called when
	// the program reads the clock for the first time; nil starts in 1970. The clock
	// advances with every reading and with time.sleep, which does not wait.
	Now func() time.Time
	// Seed determines all random numbers.
	Seed string
}

// MaxMemory is the number of bytes that a program can use. Beyond it, Python raises
// MemoryError.
const MaxMemory = 256 << 20

// Run runs Host to its end.
func Run(ctx context.Context, e Environment) error {
	m, err := prepared(ctx)
	if err != nil {
		return err
	}
	c := &clock{now: e.Now}
	config := wazero.NewModuleConfig().WithName("").WithStartFunctions().
		WithStdin(e.Stdin).WithStdout(e.Stdout).WithRandSource(rand.NewChaCha8(sha256.Sum256([]byte(e.Seed)))).
		WithWalltime(c.walltime, sys.ClockResolution(tick)).WithNanotime(c.nanotime, sys.ClockResolution(tick)).
		WithNanosleep(c.sleep)
	instance, err := m.runtime.InstantiateModule(ctx, m.compiled, config)
	if err != nil {
		return fmt.Errorf("the Python interpreter does not start: %w", err)
	}
	defer instance.Close(context.WithoutCancel(ctx))
	result, err := instance.ExportedFunction("call").Call(ctx, serveAddress, noArguments, 0)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var exit *sys.ExitError
	switch {
	case errors.As(err, &exit):
		return fmt.Errorf("the program ended with exit status %d", exit.ExitCode())
	case err != nil:
		reason, _, _ := strings.Cut(err.Error(), "\n")
		return fmt.Errorf("the Python interpreter failed: %s", reason)
	case result[0] == 0:
		return errors.New("the program raised an exception")
	}
	return nil
}

// tick is how far a clock advances with every reading.
const tick = time.Microsecond

// clock is the clock of one program. It depends only on its start and on what the
// program does.
type clock struct {
	now     func() time.Time
	start   time.Time
	started bool
	elapsed time.Duration
}

func (c *clock) read() time.Time {
	if !c.started {
		c.started, c.start = true, time.Unix(0, 0)
		if c.now != nil {
			c.start = c.now()
		}
	}
	c.elapsed += tick
	return c.start.Add(c.elapsed)
}

func (c *clock) walltime() (int64, int32) {
	t := c.read()
	return t.Unix(), int32(t.Nanosecond())
}

// nanotime is the monotonic clock, which starts at zero.
func (c *clock) nanotime() int64 {
	c.elapsed += tick
	return int64(c.elapsed)
}

func (c *clock) sleep(nanoseconds int64) { c.elapsed += time.Duration(nanoseconds) }
