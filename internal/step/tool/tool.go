package tool

import (
	"encoding/json"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// Settings are the settings of a task.
type Settings struct {
	Tool string                     `json:"tool"`
	Args map[string]json.RawMessage `json:"args,omitempty"`
}

// Kind is the step kind "tool".
type Kind struct{ step.Base[Settings] }

var (
	_ step.Runner       = Kind{}
	_ stepkind.Explorer = Kind{}
	_ stepkind.Caller   = Kind{}
)

// Name returns "tool".
func (Kind) Name() string { return "tool" }

// Check reports names that no tool can have. Whether the tool exists is known
// only where the workflow runs.
func (k Kind) Check(p *ir.Program, s *ir.Step, t *ir.Task) diag.List {
	set := stepkind.Lenient[Settings](t)
	var list diag.List
	if set.Tool != "" && !stepkind.IsToolName(set.Tool) {
		list.Errorf(stepkind.CodeToolName, stepkind.At(s, t, "tool"),
			stepkind.ToolNameHelp+"; arguments go under args.", "%q cannot be the name of a tool.", set.Tool)
	}
	if ir.ToolName(set.Tool) == ir.ShellTool {
		list = append(list, k.CheckCode(p, s, t)...)
	}
	return list
}

// CheckCode reports values that the shell would execute.
func (Kind) CheckCode(_ *ir.Program, s *ir.Step, t *ir.Task) diag.List {
	var command string
	if json.Unmarshal(stepkind.Lenient[Settings](t).Args[ir.ShellArgument], &command) != nil {
		return nil
	}
	// The values are not known yet.
	list, err := parts(command, func(string) (json.RawMessage, error) { return nil, nil })
	if err != nil || isValue(list) {
		return nil
	}
	for i, p := range list {
		if p.isInput() { // it may become part of the command
			list[i] = part{text: "x"}
		}
	}
	var out diag.List
	if _, failed := insert(list, false); failed != nil {
		out.Add(stepkind.ValueAsCode(stepkind.At(s, t, "args"), failed.Message, valueHelp+"."))
	}
	return out
}

// Bound returns the cost of one call.
func (Kind) Bound(*ir.Program, *ir.Step, *ir.Task, *contract.Contract) stepkind.Bound {
	return stepkind.OneCallBound()
}

// Recovery asks a person if the call was made and may have acted.
func (Kind) Recovery(_ *ir.Task, history []journal.TaskNoted) step.Recovery {
	return step.OneCallRecovery(history)
}

// Explored returns the contract of the tool's answer.
func (Kind) Explored(p *ir.Program, s *ir.Step, _ *ir.Task) contract.Contract {
	return contract.Of(p, s, contract.Spec{})
}
