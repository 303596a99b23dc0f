package agent

import (
	"context"

	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/chat"
	"github.com/espalier-run/espalier/internal/stepkind/kinds"
)

// Runner runs tasks of kind "agent".
type Runner struct {
	chat.Base[kinds.Agent, settings]
}

type settings kinds.AgentSettings

var _ step.Settings = settings{}

// Run holds the conversation.
func (s settings) Run(ctx context.Context, job *step.Job) (step.Result, error) {
	ask, _ := kinds.AgentSettings(s).Ask(job.Workflow)
	return chat.Run(ctx, job, &ask, s.Task, s.Expected)
}
