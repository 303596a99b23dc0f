package builtin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/espalier-run/espalier/internal/process"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/provider/scripted"
	"github.com/espalier-run/espalier/internal/provider/simulated"
	"github.com/espalier-run/espalier/internal/step"
)

// simulatedMachine is the step.Machine of simulated runs: it starts nothing.
type simulatedMachine struct {
	seed   uint64
	script *scripted.Script // nil when there is none
}

var _ step.Machine = simulatedMachine{}

// simulatedMark begins what a simulated command prints, and its records.
const simulatedMark = "[simulated] "

// Find finds every program: none is run.
func (simulatedMachine) Find(program string) (string, error) { return program, nil }

// IsFolder is true: a command that was not run may have made it.
func (simulatedMachine) IsFolder(string) bool { return true }

// Shown marks the command.
func (simulatedMachine) Shown(command string) string { return simulatedMark + command }

// Absent is a text where the workflow has commands: one that was not run may have
// made the file.
func (simulatedMachine) Absent(job *step.Job, name string) (string, bool) {
	return simulatedMark + name, len(Commands(job.Workflow)) > 0
}

// Launch returns a command that ends at once.
func (m simulatedMachine) Launch(job *step.Job, w step.Work) step.Launch {
	return simulatedLaunch{m, job, w}
}

// Start fails: what talks with a process cannot be made up.
func (simulatedMachine) Start(context.Context, process.Command) (*process.Process, error) {
	return nil, errors.New("a simulated run starts no programs")
}

type simulatedLaunch struct {
	machine simulatedMachine
	job     *step.Job
	work    step.Work
}

func (simulatedLaunch) Prepare() {}
func (simulatedLaunch) Drop()    {}

// Run gives what the script has for the step, else makes it up.
func (l simulatedLaunch) Run(ctx context.Context) (process.Outcome, error) {
	if ctx.Err() != nil {
		return process.Outcome{}, context.Cause(ctx)
	}
	j, wants := l.job, l.work.Wants
	purpose := provider.Purpose{
		Workflow: j.Workflow.Name, Step: j.Step.ID, Agent: l.work.Agent, Key: j.Key,
		Visit: j.Visit, Iteration: j.Iteration, Attempt: j.Attempt, Keys: wants.Keys, Choices: wants.Choices,
	}
	if l.machine.script != nil {
		if answer, ok := l.machine.script.Command(purpose); ok {
			if answer.Fails {
				return process.Outcome{Exit: 1, Stderr: []byte(answer.Text)}, nil
			}
			return l.prints([]byte(answer.Text))
		}
	}
	// A command that has only one text to decide a loop by would never end it.
	if j.Visit > 0 && !slices.ContainsFunc(slices.Collect(maps.Values(wants.Choices)), func(texts []string) bool { return len(texts) > 1 }) {
		purpose.Choices = nil
	}
	model := simulated.Model{Seed: l.machine.seed}
	for _, form := range []json.RawMessage{wants.Schema, nil} { // a schema that nothing fits is left out
		if out, err := model.Answer(purpose, form); err == nil && len(out) > 0 {
			return l.prints(out)
		}
	}
	return l.prints([]byte(simulatedMark + l.work.Shown + "\n"))
}

// prints ends the command well.
func (l simulatedLaunch) prints(stdout []byte) (process.Outcome, error) {
	if l.work.Leave != nil {
		if err := l.work.Leave(string(bytes.TrimSpace(stdout))); err != nil {
			return process.Outcome{}, err
		}
	}
	return process.Outcome{Stdout: stdout}, nil
}
