package worker

import (
	"strings"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/chat"
	"github.com/espalier-run/espalier/internal/step/exec"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// Settings are the settings of a task.
type Settings struct {
	Agent   string   `json:"agent"`             // ID of the agent
	Command []string `json:"command,omitempty"` // program and arguments, instead of a model
	// Output is what the caller reads from the output.
	Output []stepkind.OutputField `json:"output,omitempty"`
}

// Kind is the step kind "worker".
type Kind struct{ chat.Base[Settings] }

var _ step.Runner = Kind{}

// Name returns "worker".
func (Kind) Name() string { return "worker" }

// Uses returns the agent, and its command if it has one.
func (Kind) Uses(t *ir.Task) stepkind.Uses {
	u := stepkind.Uses{Agents: stepkind.Named(t, "agent")}
	if command := stepkind.Lenient[Settings](t).Command; len(command) > 0 {
		u.Commands = []stepkind.CommandUse{{Text: strings.Join(command, " ")}}
	}
	return u
}

// Ask returns the contract that every agent of the format keeps; false for a
// command.
func (s Settings) Ask(*ir.Program) (chat.Ask, bool) {
	spec, writes := stepkind.OutputSpec(s.Agent, s.Output)
	return chat.Ask{Agent: s.Agent, Texts: []string{task}, Reply: spec, Writes: writes}, len(s.Command) == 0
}

// Bound returns the cost of the conversation, or the time of the command.
func (k Kind) Bound(p *ir.Program, s *ir.Step, t *ir.Task, reply *contract.Contract) stepkind.Bound {
	if len(stepkind.Lenient[Settings](t).Command) > 0 {
		return exec.Bound(s, stepkind.N(stepkind.ScriptSeconds))
	}
	return k.Base.Bound(p, s, t, reply)
}

// Recovery continues a conversation, and asks a person about a command that may
// have run.
func (Kind) Recovery(_ *ir.Task, history []journal.TaskNoted) step.Recovery {
	if exec.Recovery(history) == step.Ask {
		return step.Ask
	}
	return chat.Recovery(history)
}

const task = "Work on the workload below, and report the result."
