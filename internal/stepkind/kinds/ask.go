package kinds

import (
	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/ir"
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
	return contract.Derive(p, s, a.Reply)
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

// chatBase is stepkind.Base for kinds whose tasks hold one conversation. Ask returns what a task asks; false if it asks
// no model.
type chatBase[S interface {
	Ask(p *ir.Program) (Ask, bool)
}] struct{ stepkind.Base[S] }

// Traits returns those of a task that asks, or that acts if it asks no model.
func (k chatBase[S]) Traits(p *ir.Program, t *ir.Task) ir.Traits {
	traits := k.Base.Traits(p, t)
	if _, asks := stepkind.Lenient[S](t).Ask(p); asks {
		traits.Nature = ir.Asks
	}
	return traits
}

// Contract returns the contract of the reply.
func (chatBase[S]) Contract(p *ir.Program, s *ir.Step, t *ir.Task) (contract.Contract, bool) {
	ask, ok := stepkind.Lenient[S](t).Ask(p)
	if !ok {
		return contract.Contract{}, false
	}
	return ask.Contract(p, s), true
}

// Bound returns the cost of the conversation.
func (chatBase[S]) Bound(p *ir.Program, s *ir.Step, t *ir.Task, reply *contract.Contract) stepkind.Bound {
	ask, ok := stepkind.Lenient[S](t).Ask(p)
	if !ok {
		return stepkind.Bound{}
	}
	return ask.Bound(p, s, reply)
}
