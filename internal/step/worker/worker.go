package worker

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/step"
)

// Settings is what a task of this kind says.
type Settings struct {
	Agent   string   `json:"agent"`             // ID of the agent
	Command []string `json:"command,omitempty"` // program and arguments, instead of a model
}

// Contract is what every output must be.
const Contract = `{"type":"object","required":["recommendations","rules_applied","meta_insight"],"properties":{` +
	`"recommendations":{"type":"array","items":{"type":"object"}},"rules_applied":{"type":"array","items":{"type":"string"}},"meta_insight":{"type":"string"},` +
	`"analysis_data":{"type":"object"},"anti_patterns":{"type":"array"},"agent_metadata":{"type":"object"}}}`

// Kind is the step kind "worker".
type Kind struct{}

var _ step.Asker = Kind{}

// Name is "worker".
func (Kind) Name() string { return "worker" }

// Understands wants an agent.
func (Kind) Understands(t *ir.Task) error {
	set, err := step.Decode[Settings](t)
	if set.Agent == "" {
		err = errors.Join(err, errors.New("no agent is named"))
	}
	return err
}

// Check has nothing to say: formats look agents up themselves.
func (Kind) Check(*ir.Program, *ir.Step, *ir.Task) diag.List { return nil }

// Uses names the agent, and its command if it is one.
func (Kind) Uses(t *ir.Task) step.Uses {
	u := step.Uses{Agents: step.Named(t, "agent")}
	if command := step.Lenient[Settings](t).Command; len(command) > 0 {
		u.Commands = []step.CommandUse{{Text: strings.Join(command, " ")}}
	}
	return u
}

// Contract is the one that every agent of the format keeps to.
func (Kind) Contract(p *ir.Program, s *ir.Step, t *ir.Task) (contract.Contract, bool) {
	return replies(p, s), len(step.Lenient[Settings](t).Command) == 0
}

func replies(p *ir.Program, s *ir.Step) contract.Contract {
	return contract.Of(p, s, contract.Spec{Schema: output, From: "the output contract of agents"})
}

// Bound is one model call, and its repairs at worst; or the time of a command.
func (Kind) Bound(p *ir.Program, s *ir.Step, t *ir.Task, reply *contract.Contract) step.Bound {
	set := step.Lenient[Settings](t)
	return Bound(p, s, set, reply)
}

// Bound is what one call of an agent costs.
func Bound(p *ir.Program, s *ir.Step, set Settings, reply *contract.Contract) step.Bound {
	if len(set.Command) > 0 {
		return step.Bound{
			Base:  step.Cost{Seconds: step.N(step.UsualScriptSeconds)},
			Worst: step.Cost{Seconds: step.N(step.ScriptSeconds)},
		}
	}
	talk := step.Talk{Known: step.TextTokens(task), Reads: step.ReadTokens(p, s)}
	talk.Asks(reply)
	return talk.Bound(p.Agent(set.Agent))
}

const task = "Analyze the workload as your role describes and report the result."

var output = json.RawMessage(Contract)
