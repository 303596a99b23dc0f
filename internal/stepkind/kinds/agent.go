package kinds

import (
	"cmp"
	"encoding/json"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// AgentSettings are the settings of a task of kind "agent".
type AgentSettings struct {
	Agent    string          `json:"agent"`              // ID of the agent
	Task     string          `json:"task,omitempty"`     // what to do
	Expected string          `json:"expected,omitempty"` // what the reply should be, in words
	Schema   json.RawMessage `json:"schema,omitempty"`   // what the reply must be, as JSON Schema
	Verdict  bool            `json:"verdict,omitempty"`  // the reply must have a boolean "approved"
	MaxTurns int             `json:"max_turns,omitempty"`
	// Required, Into and Items are those of contract.Spec, for workers.
	Required []string `json:"required,omitempty"`
	Into     string   `json:"into,omitempty"`
	Items    bool     `json:"items,omitempty"`
}

// Agent is the step kind "agent".
type Agent struct{ chatBase[AgentSettings] }

// Name returns "agent".
func (Agent) Name() string { return "agent" }

// Traits returns those of an agent that works.
func (k Agent) Traits(p *ir.Program, t *ir.Task) ir.Traits {
	traits := k.chatBase.Traits(p, t)
	traits.Record = k.Name()
	return traits
}

// Uses returns the agent, and the schema of its reply.
func (Agent) Uses(t *ir.Task) stepkind.Uses {
	u := stepkind.Uses{Agents: stepkind.Named(t, "agent")}
	if raw := t.Settings.Get("schema"); raw != nil {
		u.Schemas = append(u.Schemas, ir.Contract{Schema: raw, Span: t.Settings.At("schema")})
	}
	return u
}

// Ask returns the agent, its task and the contract of its reply.
func (s AgentSettings) Ask(p *ir.Program) (Ask, bool) {
	expected := s.Expected
	if a := p.Agent(s.Agent); a != nil {
		expected = cmp.Or(expected, a.Expected)
	}
	return Ask{
		Agent: s.Agent, Texts: []string{s.Task, s.Expected}, MaxTurns: s.MaxTurns,
		Reply: contract.Spec{
			Schema: s.Schema, Verdict: s.Verdict, Expected: []string{expected},
			Required: s.Required, Into: s.Into, Items: s.Items,
		},
	}, true
}
