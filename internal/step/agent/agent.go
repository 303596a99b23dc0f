package agent

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/step"
)

// Settings is what a task of this kind says.
type Settings struct {
	Agent    string          `json:"agent"`              // ID of the agent
	Task     string          `json:"task,omitempty"`     // what to do
	Expected string          `json:"expected,omitempty"` // what the reply should be, in words
	Schema   json.RawMessage `json:"schema,omitempty"`   // what the reply must be, as JSON Schema
	Verdict  bool            `json:"verdict,omitempty"`  // the reply must have a boolean "approved"
	MaxTurns int             `json:"max_turns,omitempty"`
}

// Kind is the step kind "agent".
type Kind struct{}

var _ step.Asker = Kind{}

// Name is "agent".
func (Kind) Name() string { return "agent" }

// Understands wants an agent and no negative number of turns.
func (Kind) Understands(t *ir.Task) error {
	set, err := step.Decode[Settings](t)
	if set.Agent == "" {
		err = errors.Join(err, errors.New("no agent is named"))
	}
	if set.MaxTurns < 0 {
		err = errors.Join(err, fmt.Errorf("max_turns is %d", set.MaxTurns))
	}
	return err
}

// Check has nothing to say: whether the agent exists is a question to the
// whole program.
func (Kind) Check(*ir.Program, *ir.Step, *ir.Task) diag.List { return nil }

// Uses names the agent, and the schema of its reply.
func (Kind) Uses(t *ir.Task) step.Uses {
	u := step.Uses{Agents: step.Named(t, "agent")}
	if raw := t.Settings.Get("schema"); raw != nil {
		u.Schemas = append(u.Schemas, ir.Contract{Schema: raw, Span: t.Settings.At("schema")})
	}
	return u
}

// Contract is what the agent's reply must be.
func (Kind) Contract(p *ir.Program, s *ir.Step, t *ir.Task) (contract.Contract, bool) {
	return replies(p, s, step.Lenient[Settings](t)), true
}

func replies(p *ir.Program, s *ir.Step, set Settings) contract.Contract {
	spec := contract.Spec{Schema: set.Schema, Verdict: set.Verdict, Expected: []string{set.Expected}}
	if a := p.Agent(set.Agent); a != nil && set.Expected == "" {
		spec.Expected = []string{a.Expected}
	}
	return contract.Of(p, s, spec)
}

// Bound is one model call at best. At worst an agent with tools uses all its
// turns, calling a tool in each but the last, and a reply that must have a
// form is repaired as often as that is tried.
func (Kind) Bound(p *ir.Program, s *ir.Step, t *ir.Task, reply *contract.Contract) step.Bound {
	set := step.Lenient[Settings](t)
	talk := step.Talk{
		Known:    step.TextTokens(set.Task, set.Expected),
		Reads:    step.ReadTokens(p, s),
		MaxTurns: set.MaxTurns,
	}
	talk.Asks(reply)
	return talk.Bound(p.Agent(set.Agent))
}
