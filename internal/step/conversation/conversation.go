package conversation

import (
	"encoding/json"
	"errors"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/step"
)

// Settings is what a task of this kind says. Prompt and Provider are templates.
type Settings struct {
	Agent    string  `json:"agent"` // ID of the agent
	Prompt   string  `json:"prompt"`
	System   string  `json:"system,omitempty"`
	Skills   []Skill `json:"skills,omitempty"`
	Format   string  `json:"format,omitempty"`   // json: the reply must be JSON
	Provider string  `json:"provider,omitempty"` // in the place of the agent's own
	Timeout  string  `json:"timeout,omitempty"`  // seconds, or a duration
	// ContinueFrom is the step whose conversation this one goes on with.
	ContinueFrom string `json:"continue_from,omitempty"`
	// Keep puts what was said into the result, so that others can go on with it.
	Keep bool `json:"keep,omitempty"`
}

// Skill is text that goes before the prompt.
type Skill struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Kind is the step kind "conversation".
type Kind struct{}

var _ step.Asker = Kind{}

// Name is "conversation".
func (Kind) Name() string { return "conversation" }

// Understands wants an agent and something to say to it.
func (Kind) Understands(t *ir.Task) error {
	set, err := step.Decode[Settings](t)
	if set.Agent == "" {
		err = errors.Join(err, errors.New("no agent is named"))
	}
	return errors.Join(err, step.OneOf("format", set.Format, "", "json", "text"))
}

// Check has nothing to say: whether the agent exists is a question to the
// whole program.
func (Kind) Check(*ir.Program, *ir.Step, *ir.Task) diag.List { return nil }

// Uses names the agent.
func (Kind) Uses(t *ir.Task) step.Uses {
	return step.Uses{Agents: step.Named(t, "agent"), Verbatim: true}
}

// Contract is what the reply must be.
func (Kind) Contract(p *ir.Program, s *ir.Step, t *ir.Task) (contract.Contract, bool) {
	return replies(p, s, step.Lenient[Settings](t)), true
}

func replies(p *ir.Program, s *ir.Step, set Settings) contract.Contract {
	spec := contract.Spec{Within: []string{"Output", "JSON", "Response"}, Texts: []string{"Output"}}
	if set.Format == "json" {
		spec.Base = jsonForm
	}
	return contract.Of(p, s, spec)
}

// Bound is one model call at best; with tools as many as an agent may make.
func (Kind) Bound(p *ir.Program, s *ir.Step, t *ir.Task, reply *contract.Contract) step.Bound {
	set := step.Lenient[Settings](t)
	talk := step.Talk{Known: step.TextTokens(set.Prompt, set.System), Reads: step.ReadTokens(p, s)}
	for _, one := range set.Skills {
		talk.Known += step.TextTokens(one.Text)
	}
	talk.Asks(reply)
	return talk.Bound(p.Agent(set.Agent))
}

// jsonForm is any JSON but a mere text.
var jsonForm = json.RawMessage(`{"type":["object","array","number","boolean","null"]}`)
