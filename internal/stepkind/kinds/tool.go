package kinds

import (
	"encoding/json"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// ToolSettings are the settings of a task of kind "tool".
type ToolSettings struct {
	Tool string                     `json:"tool"`
	Args map[string]json.RawMessage `json:"args,omitempty"`
}

// Tool is the step kind "tool".
type Tool struct{ stepkind.Base[ToolSettings] }

var (
	_ stepkind.Explorer = Tool{}
	_ stepkind.Caller   = Tool{}
)

// Name returns "tool".
func (Tool) Name() string { return "tool" }

// Check reports names that no tool can have. Whether the tool exists is known
// only where the workflow runs.
func (k Tool) Check(p *ir.Program, s *ir.Step, t *ir.Task) diag.List {
	set := stepkind.Lenient[ToolSettings](t)
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
func (Tool) CheckCode(_ *ir.Program, s *ir.Step, t *ir.Task) diag.List {
	var command string
	if json.Unmarshal(stepkind.Lenient[ToolSettings](t).Args[ir.ShellArgument], &command) != nil {
		return nil
	}
	// The values are not known yet.
	list, err := ParseArgument(command, func(string) (json.RawMessage, error) { return nil, nil })
	if err != nil || list.IsValue() {
		return nil
	}
	for i, p := range list {
		if p.IsInput() { // it may become part of the command
			list[i] = ArgumentPart{Text: "x"}
		}
	}
	var out diag.List
	if _, failed := list.Command(false); failed != nil {
		out.Add(stepkind.ValueAsCode(stepkind.At(s, t, "args"), failed.Message, ArgumentHelp+"."))
	}
	return out
}

// Bound returns the cost of one call.
func (Tool) Bound(*ir.Program, *ir.Step, *ir.Task, *contract.Contract) stepkind.Bound {
	return stepkind.OneCallBound()
}

// Explored returns the contract of the tool's answer.
func (Tool) Explored(p *ir.Program, s *ir.Step, _ *ir.Task) contract.Contract {
	return contract.Of(p, s, contract.Spec{})
}
