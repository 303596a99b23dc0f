package chat

import (
	"context"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// Ask is what a task asks a model, as far as it is known before a run.
type Ask struct {
	Agent    string // ID of the agent; "" is a model without a role
	Reply    contract.Spec
	Writes   []ir.Write // where the reply goes; nil: where the step writes it
	Texts    []string   // of the prompt
	MaxTurns int        // 0 is the default
	// Checked says that a reply can be wrong although it meets its contract.
	Checked bool
}

// Contract returns the contract of the reply.
func (a *Ask) Contract(p *ir.Program, s *ir.Step) contract.Contract {
	if a.Writes != nil {
		within := *s
		within.Writes = a.Writes
		s = &within
	}
	return contract.Of(p, s, a.Reply)
}

// Bound returns the cost of the conversation: one model call at best; at worst
// all turns of an agent with tools, and all repairs of a reply that can be wrong.
func (a *Ask) Bound(p *ir.Program, s *ir.Step, reply *contract.Contract) stepkind.Bound {
	m := stepkind.ModelCallBound{
		Known: stepkind.TextTokens(a.Texts...), Reads: stepkind.ReadTokens(p, s), MaxTurns: a.MaxTurns,
	}
	m.Asks(reply)
	if a.Checked {
		m.Repairs = stepkind.RepairCalls
	}
	return m.Bound(p.Agent(a.Agent))
}

// Conversation returns the conversation of a job, without a task.
func (a *Ask) Conversation(job *step.Job) (*Conversation, error) {
	out := &Conversation{MaxTurns: a.MaxTurns, Form: Form{Contract: a.Contract(job.Workflow, job.Step)}}
	if a.Agent == "" {
		return out, nil
	}
	var err error
	out.Agent, err = job.Agent(a.Agent)
	return out, err
}

// Run holds the conversation about a task.
func (a *Ask) Run(ctx context.Context, job *step.Job, task, expected string) (step.Result, error) {
	c, err := a.Conversation(job)
	if err != nil {
		return step.Result{}, err
	}
	c.Task, c.Expected = task, expected
	return c.Run(ctx, job)
}

// Settings are the settings of a kind whose tasks hold one conversation.
type Settings interface {
	step.Settings
	// Ask returns what the task asks; false if it asks no model.
	Ask(p *ir.Program) (Ask, bool)
}

// Base is step.Base for kinds whose tasks hold one conversation.
type Base[S Settings] struct{ step.Base[S] }

// Contract returns the contract of the reply.
func (Base[S]) Contract(p *ir.Program, s *ir.Step, t *ir.Task) (contract.Contract, bool) {
	ask, ok := stepkind.Lenient[S](t).Ask(p)
	if !ok {
		return contract.Contract{}, false
	}
	return ask.Contract(p, s), true
}

// Bound returns the cost of the conversation.
func (Base[S]) Bound(p *ir.Program, s *ir.Step, t *ir.Task, reply *contract.Contract) stepkind.Bound {
	ask, ok := stepkind.Lenient[S](t).Ask(p)
	if !ok {
		return stepkind.Bound{}
	}
	return ask.Bound(p, s, reply)
}

// Recovery continues the conversation, unless a tool call may have acted and
// did not return: then it asks a person, and "rerun" calls that tool again.
func (Base[S]) Recovery(_ *ir.Task, history []journal.TaskNoted) step.Recovery {
	return Recovery(history)
}
