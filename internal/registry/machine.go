package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
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

// simulatedMark starts the output of simulated commands, and their text in records.
const simulatedMark = journal.SimulatedMark

// Find finds every program, because none is started.
func (simulatedMachine) Find(program string) (string, error) { return program, nil }

// IsFolder returns true, because a simulated command may have created the folder.
func (simulatedMachine) IsFolder(string) bool { return true }

// Shown marks the command.
func (simulatedMachine) Shown(command string) string { return simulatedMark + command }

// Absent returns a text if the workflow has commands, because a simulated one may have created the file.
func (simulatedMachine) Absent(job *step.Job, name string) (string, bool) {
	return simulatedMark + name, len(Commands(job.Workflow, nil)) > 0
}

// Start fails: a simulation cannot replace a process that a step talks to.
func (simulatedMachine) Start(context.Context, process.Command) (*process.Process, error) {
	return nil, errors.New("a simulated run starts no programs")
}

// Run returns what the script has for the step, or else simulates the output.
func (m simulatedMachine) Run(ctx context.Context, j *step.Job, w step.CommandSpec) (process.Outcome, error) {
	if ctx.Err() != nil {
		return process.Outcome{}, context.Cause(ctx)
	}
	purpose := provider.Purpose{
		Workflow: j.Workflow.Name, Step: j.Step.ID, Agent: w.Agent, Key: j.Key,
		Visit: j.Visit, Iteration: j.Iteration, Attempt: j.Attempt, Contract: w.Wants,
	}
	if m.script != nil {
		if answer, ok := m.script.Command(purpose); ok {
			switch {
			case answer.Fails:
				return process.Outcome{Exit: answer.Exit, Stderr: []byte(answer.Text)}, nil
			case answer.Exit != 0:
				return process.Outcome{Exit: answer.Exit, Stdout: []byte(answer.Text)}, nil
			}
			return prints(w, []byte(answer.Text))
		}
	}
	output := simulatedMark + w.Shown + "\n"
	if m.script == nil && j.SimulatesFailure(m.seed) {
		return process.Outcome{Exit: 1, Stdout: []byte(output), Stderr: []byte(failsOnPurpose(m.seed))}, nil
	}
	model := simulated.Model{Seed: m.seed}
	if w.Ends != nil {
		if result, err := model.Probed(purpose); err == nil && len(result) > 0 {
			return w.Ends(result, output), nil
		}
		return prints(w, []byte(output))
	}
	for _, form := range []json.RawMessage{w.Wants.Schema, nil} { // a schema that nothing fits is left out
		if out, err := model.Answer(purpose, form); err == nil && len(out) > 0 {
			return prints(w, out)
		}
	}
	return prints(w, []byte(output))
}

// failsOnPurpose explains a simulated failure.
func failsOnPurpose(seed uint64) string {
	return fmt.Sprintf("%sseed %d fails this step, to show how the workflow handles it", simulatedMark, seed)
}

// failingModel is a simulated model of a job that fails with some seeds, where the workflow handles the failure.
type failingModel struct {
	provider.Model
	job  *step.Job
	seed uint64
}

// Generate fails, or streams a simulated reply.
func (m failingModel) Generate(ctx context.Context, req provider.Request) iter.Seq2[provider.Chunk, error] {
	if !m.job.SimulatesFailure(m.seed) {
		return m.Model.Generate(ctx, req)
	}
	return func(yield func(provider.Chunk, error) bool) {
		yield(provider.Chunk{}, &provider.Error{Class: ir.ClassBadRequest, Message: failsOnPurpose(m.seed)})
	}
}

// prints returns the outcome of a command that printed a text and succeeded.
func prints(w step.CommandSpec, stdout []byte) (process.Outcome, error) {
	if w.Leave != nil {
		if err := w.Leave(string(bytes.TrimSpace(stdout))); err != nil {
			return process.Outcome{}, err
		}
	}
	return process.Outcome{Stdout: stdout}, nil
}
