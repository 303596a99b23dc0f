package step

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/process"
)

// Machine is the one way in which step kinds act on this machine. The run's
// host chooses it: a simulated run gets one that starts nothing.
type Machine interface {
	// Find returns the path of a program by its name.
	Find(program string) (string, error)
	// IsFolder reports whether a folder is there to run a command in.
	IsFolder(path string) bool
	// Shown returns a command as the records have it.
	Shown(command string) string
	// Absent returns a text in place of a file that is not there; false when
	// that is an error.
	Absent(job *Job, name string) (text string, ok bool)
	// Run runs a command to its end.
	Run(ctx context.Context, job *Job, w Work) (process.Outcome, error)
	// Start starts a command and leaves its input and output to the caller.
	Start(ctx context.Context, c process.Command) (*process.Process, error)
}

// Work is a command to run, and what a machine needs that runs nothing.
type Work struct {
	Command process.Command
	Shown   string // the command as people read it
	Agent   string // that the command is; "" when it is none
	// Wants is what the step needs the command to print, as JSON; the zero
	// value is any text.
	Wants contract.Contract
	// Ends converts a made-up result that meets Wants to the end of the command,
	// with the given output if the result has none. Nil prints the result.
	Ends func(result json.RawMessage, output string) process.Outcome
	// Leave makes the files that the command is expected to leave, of a text
	// in its place; nil when it leaves none. A real command makes its own.
	Leave func(text string) error
}

// Real is the Machine that runs commands.
type Real struct{}

// Find looks on the PATH.
func (Real) Find(program string) (string, error) { return exec.LookPath(program) }

// IsFolder asks the disk.
func (Real) IsFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// Shown returns the command as it is.
func (Real) Shown(command string) string { return command }

// Absent returns an error.
func (Real) Absent(*Job, string) (string, bool) { return "", false }

// Run runs the command in a process group.
func (Real) Run(ctx context.Context, _ *Job, w Work) (process.Outcome, error) {
	return process.Run(ctx, w.Command)
}

// Start starts the command in a process group.
func (Real) Start(ctx context.Context, c process.Command) (*process.Process, error) {
	return process.Start(ctx, c)
}
