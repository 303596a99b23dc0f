package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

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

// Start fails: what talks with a process cannot be made up.
func (simulatedMachine) Start(context.Context, process.Command) (*process.Process, error) {
	return nil, errors.New("a simulated run starts no programs")
}

// Run returns what the script has for the step, or else simulates the output.
func (m simulatedMachine) Run(ctx context.Context, j *step.Job, w step.Work) (process.Outcome, error) {
	if ctx.Err() != nil {
		return process.Outcome{}, context.Cause(ctx)
	}
	purpose := provider.Purpose{
		Workflow: j.Workflow.Name, Step: j.Step.ID, Agent: w.Agent, Key: j.Key,
		Visit: j.Visit, Iteration: j.Iteration, Attempt: j.Attempt, Contract: w.Wants,
	}
	if m.script != nil {
		if answer, ok := m.script.Command(purpose); ok {
			if answer.Fails {
				return process.Outcome{Exit: 1, Stderr: []byte(answer.Text)}, nil
			}
			return prints(w, []byte(answer.Text))
		}
	}
	model := simulated.Model{Seed: m.seed}
	for _, form := range []json.RawMessage{w.Wants.Schema, nil} { // a schema that nothing fits is left out
		if out, err := model.Answer(purpose, form); err == nil && len(out) > 0 {
			return prints(w, out)
		}
	}
	return prints(w, []byte(simulatedMark+w.Shown+"\n"))
}

// prints returns the outcome of a command that printed a text and succeeded.
func prints(w step.Work, stdout []byte) (process.Outcome, error) {
	if w.Leave != nil {
		if err := w.Leave(string(bytes.TrimSpace(stdout))); err != nil {
			return process.Outcome{}, err
		}
	}
	return process.Outcome{Stdout: stdout}, nil
}
