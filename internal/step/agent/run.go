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
	t := talk.Talk{
		Agent: a, Task: set.Task, Expected: set.Expected, MaxTurns: set.MaxTurns,
		Form: talk.Form{Schema: set.Schema, Verdict: set.Verdict},
	}
	if !set.Verdict { // what a gate writes is made of the verdict, not the verdict itself
		t.Form.Parts, t.Choices = step.Parts(job.Step), job.Choices
		if len(t.Form.Schema) == 0 {
			t.Form.Schema, t.Form.Under = step.Promised(job.Workflow, job.Step), step.PromisedUnder(job.Step)
		}
	}
	return t.Run(ctx, job)
}
