package kinds

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// CommandSettings are the settings of a task of kind "command": one of Command, Script
// and ScriptFile. All texts are templates.
type CommandSettings struct {
	Command    string   `json:"command,omitempty"`
	Script     string   `json:"script,omitempty"`      // what a script file holds
	ScriptFile string   `json:"script_file,omitempty"` // read when the step runs
	Folder     string   `json:"folder,omitempty"`      // that the path of a script file starts in
	Dir        string   `json:"dir,omitempty"`         // to run in
	Shell      string   `json:"shell,omitempty"`       // empty: the user's
	Timeout    string   `json:"timeout,omitempty"`     // seconds, or a duration
	Export     []string `json:"export,omitempty"`      // inputs that it sees as environment variables
	// UntrustedRoots are "loop" and "inputs" if their values come from steps. Such values are data for the command,
	// never code, like the results of steps.
	UntrustedRoots []string `json:"doubts,omitempty"`
}

// Command is the step kind "command".
type Command struct{ stepkind.Base[CommandSettings] }

var _ stepkind.Explorer = Command{}

// Name returns "command".
func (Command) Name() string { return "command" }

// Traits returns those of a command.
func (k Command) Traits(*ir.Program, *ir.Task) ir.Traits {
	return ir.Traits{Nature: ir.Acts, Record: k.Name()}
}

// Uses returns the command.
func (Command) Uses(t *ir.Task) stepkind.Uses {
	set := stepkind.Lenient[CommandSettings](t)
	text := cmp.Or(set.Command, set.Script)
	if set.ScriptFile != "" {
		text = "script " + set.ScriptFile
	}
	return stepkind.Uses{Commands: []stepkind.CommandUse{{Text: text, Dir: set.Dir}}}
}

// Bound returns the time that a command may take.
func (Command) Bound(_ *ir.Program, s *ir.Step, _ *ir.Task, _ *contract.Contract) stepkind.Bound {
	return commandBound(s, unlimited)
}

var unlimited = stepkind.Amount{Unbounded: "a command has no time limit of its own"}

// Explored returns the contract of the state that the command leaves. A
// command that conditions ask for an exit code succeeds first.
func (Command) Explored(p *ir.Program, s *ir.Step, _ *ir.Task) contract.Contract {
	c := contract.Derive(p, s, contract.Spec{Schema: stateSchema})
	for i := range c.Probes {
		probe := &c.Probes[i]
		success := json.RawMessage(map[string]string{
			"ExitCode": "0", "Status": `"` + string(StateCompleted) + `"`,
		}[probe.At])
		if len(success) == 0 {
			continue
		}
		probe.Values = slices.DeleteFunc(slices.Clone(probe.Values), func(v json.RawMessage) bool {
			return bytes.Equal(v, success)
		})
		probe.Values = slices.Insert(probe.Values, 0, success)
	}
	return c
}

// commandBound returns the time that a command takes: at most the step's timeout, or
// limit if the step has none.
func commandBound(s *ir.Step, limit stepkind.Amount) stepkind.Bound {
	if s.Timeout > 0 {
		limit = stepkind.N(int64((s.Timeout + 999) / 1000))
	}
	base := stepkind.N(stepkind.UsualScriptSeconds)
	if !limit.Exceeds(base.N) {
		base = limit
	}
	return stepkind.Bound{Base: stepkind.Cost{Seconds: base}, Worst: stepkind.Cost{Seconds: limit}}
}
