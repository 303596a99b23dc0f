package agent

import (
	"context"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/talk"
)

var _ step.Runner = Kind{}

// Recovery is to go on where the conversation stood, unless a tool was called
// that may have acted and did not return: then a person decides, and "rerun"
// calls that tool again.
func (Kind) Recovery(_ *ir.Task, history []journal.TaskNoted) step.Recovery {
	return talk.Recovery(history)
}

// Run lets the agent work until it has an answer.
func (Kind) Run(ctx context.Context, job *step.Job) (step.Result, error) {
	set, err := step.Decode[Settings](job.Task)
	if err != nil {
		return step.Result{}, step.Errorf(step.ClassInput, "%v", err)
	}
	a, err := job.Agent(set.Agent)
	if err != nil {
		return step.Result{}, err
	}
	return talk.Talk{
		Agent: a, Task: set.Task, Expected: set.Expected, MaxTurns: set.MaxTurns,
		Form: talk.Form{Contract: replies(job.Workflow, job.Step, set)},
	}.Run(ctx, job)
}
