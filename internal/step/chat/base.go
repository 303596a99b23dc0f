package chat

import (
	"context"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/stepkind/kinds"
)

// NewConversation returns the conversation of a job that asks a model, without a task.
func NewConversation(job *step.Job, a *kinds.Ask) (*Conversation, error) {
	out := &Conversation{MaxTurns: a.MaxTurns, Form: Form{Contract: a.Contract(job.Workflow, job.Step)}}
	if a.Agent == "" {
		return out, nil
	}
	var err error
	out.Agent, err = job.Agent(a.Agent)
	return out, err
}

// Run holds the conversation of a job about a task.
func Run(ctx context.Context, job *step.Job, a *kinds.Ask, task, expected string) (step.Result, error) {
	c, err := NewConversation(job, a)
	if err != nil {
		return step.Result{}, err
	}
	c.Task, c.Expected = task, expected
	return c.Run(ctx, job)
}

// Base is step.Base for tasks that hold a conversation.
type Base[K step.Named, S step.Settings] struct{ step.Base[K, S] }

// Recovery continues the conversation, unless a tool call may have acted and
// did not return: then it asks a person, and "rerun" calls that tool again.
func (Base[K, S]) Recovery(_ *ir.Task, history []journal.TaskNoted) step.Recovery {
	return Recovery(history)
}
