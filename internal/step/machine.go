package step

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/process"
)

// Machine is the only way in which step kinds act on this machine. The run's host chooses it: in a simulated
// run it starts nothing.
type Machine interface {
	// Find returns the path of a program by its name.
	Find(program string) (string, error)
	// IsFolder reports whether a folder exists.
	IsFolder(path string) bool
	// Shown returns a command as records show it.
	Shown(command string) string
	// Absent returns a text in place of a missing file; false if that is an error.
	Absent(job *Job, name string) (text string, ok bool)
	// Run runs a command to its end.
	Run(ctx context.Context, job *Job, w CommandSpec) (process.Outcome, error)
	// Start starts a command and leaves its input and output to the caller.
	Start(ctx context.Context, c process.Command) (*process.Process, error)
}

// CommandSpec is a command to run, with what a machine needs to simulate it.
type CommandSpec struct {
	Command process.Command
	Shown   string // the command as people read it
	Agent   string // the agent that the command implements, or ""
	// Wants is the contract of the command's output, as JSON; the zero value accepts any text.
	Wants contract.Contract
	// Ends converts a simulated result that meets Wants to the end of the command, with the given output if the
	// result has none. Nil prints the result.
	Ends func(result json.RawMessage, output string) process.Outcome
	// Leave simulates the files that the command would write: it fills them with a text. Nil if there are none.
	Leave func(text string) error
}

// LocalMachine is the Machine that runs commands on this computer.
type LocalMachine struct{}

// Find looks on the PATH.
func (LocalMachine) Find(program string) (string, error) { return exec.LookPath(program) }

// IsFolder looks on the disk.
func (LocalMachine) IsFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// Shown returns the command as it is.
func (LocalMachine) Shown(command string) string { return command }

// Absent returns an error.
func (LocalMachine) Absent(*Job, string) (string, bool) { return "", false }

// Run runs the command in a process group.
func (LocalMachine) Run(ctx context.Context, _ *Job, w CommandSpec) (process.Outcome, error) {
	return process.Run(ctx, w.Command)
}

// Start starts the command in a process group.
func (LocalMachine) Start(ctx context.Context, c process.Command) (*process.Process, error) {
	return process.Start(ctx, c)
}
