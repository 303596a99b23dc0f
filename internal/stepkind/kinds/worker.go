package kinds

import (
	"strings"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// WorkerSettings are the settings of a task of kind "worker".
type WorkerSettings struct {
	Agent   string   `json:"agent"`             // ID of the agent
	Command []string `json:"command,omitempty"` // program and arguments, instead of a model
	// Output is what the caller reads from the output.
	Output []stepkind.OutputField `json:"output,omitempty"`
}

// Worker is the step kind "worker".
type Worker struct{ chatBase[WorkerSettings] }

// Name returns "worker".
func (Worker) Name() string { return "worker" }

// Uses returns the agent, and its command if it has one.
func (Worker) Uses(t *ir.Task) stepkind.Uses {
	u := stepkind.Uses{Agents: stepkind.Named(t, "agent")}
	if command := stepkind.Lenient[WorkerSettings](t).Command; len(command) > 0 {
		u.Commands = []stepkind.CommandUse{{Text: strings.Join(command, " ")}}
	}
	return u
}

// Ask returns the contract that every agent of the format keeps; false for a
// command.
func (s WorkerSettings) Ask(*ir.Program) (Ask, bool) {
	spec, writes := stepkind.OutputSpec(s.Agent, s.Output)
	return Ask{Agent: s.Agent, Texts: []string{WorkerTask}, Reply: spec, Writes: writes}, len(s.Command) == 0
}

// Bound returns the cost of the conversation, or the time of the command.
func (k Worker) Bound(p *ir.Program, s *ir.Step, t *ir.Task, reply *contract.Contract) stepkind.Bound {
	if len(stepkind.Lenient[WorkerSettings](t).Command) > 0 {
		return commandBound(s, stepkind.N(stepkind.ScriptSeconds))
	}
	return k.chatBase.Bound(p, s, t, reply)
}

// WorkerTask is what the agent is told to do.
const WorkerTask = "Work on the workload below, and report the result."
