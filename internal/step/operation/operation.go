package operation

import (
	"encoding/json"
	"slices"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// Settings are the settings of a task. Strings in the inputs are templates.
type Settings struct {
	Operation string          `json:"operation"` // the tool's name
	Inputs    json.RawMessage `json:"inputs,omitempty"`
	Timeout   string          `json:"timeout,omitempty"` // a template: seconds, or a duration
	// UntrustedRoots are "loop" and "inputs" if their values come from steps. Such values are data in the code that a
	// tool executes, like the results of steps.
	UntrustedRoots []string `json:"doubts,omitempty"`
}

// Kind is the step kind "operation".
type Kind struct{ step.Base[Settings] }

var (
	_ step.Runner     = Kind{}
	_ stepkind.Caller = Kind{}
)

// Name returns "operation".
func (Kind) Name() string { return "operation" }

// Uses returns the tool.
func (Kind) Uses(t *ir.Task) stepkind.Uses {
	return stepkind.Uses{Tools: stepkind.Named(t, "operation")}
}

// CheckCode reports values that the shell would execute.
func (Kind) CheckCode(_ *ir.Program, s *ir.Step, t *ir.Task) diag.List {
	set := stepkind.Lenient[Settings](t)
	var inputs map[string]json.RawMessage
	var command string
	if json.Unmarshal(set.Inputs, &inputs) != nil || json.Unmarshal(inputs[ir.ShellArgument], &command) != nil {
		return nil
	}
	values := expr.StepActions(command, slices.Contains(set.UntrustedRoots, "loop"))
	if len(values) == 0 {
		return nil
	}
	var out diag.List
	if failed := expr.CheckShell(ir.ToolShell, command, values); failed != nil {
		out.Add(stepkind.ValueAsCode(stepkind.At(s, t, "inputs"), failed.Message, failed.Help+"."))
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
