package kinds

import (
	"encoding/json"
	"slices"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// OperationSettings are the settings of a task of kind "operation". Strings in the inputs are templates.
type OperationSettings struct {
	Operation string          `json:"operation"` // the tool's name
	Inputs    json.RawMessage `json:"inputs,omitempty"`
	Timeout   string          `json:"timeout,omitempty"` // a template: seconds, or a duration
	// UntrustedRoots are "loop" and "inputs" if their values come from steps. Such values are data in the code that a
	// tool executes, like the results of steps.
	UntrustedRoots []string `json:"doubts,omitempty"`
}

// Operation is the step kind "operation".
type Operation struct {
	stepkind.Base[OperationSettings]
}

var _ stepkind.Caller = Operation{}

// Name returns "operation".
func (Operation) Name() string { return "operation" }

// Traits returns those of a call of a tool.
func (k Operation) Traits(_ *ir.Program, t *ir.Task) ir.Traits {
	return ir.Traits{Nature: ir.Acts, Tool: stepkind.Lenient[OperationSettings](t).Operation, Record: k.Name()}
}

// Uses returns the tool.
func (Operation) Uses(t *ir.Task) stepkind.Uses {
	return stepkind.Uses{Tools: stepkind.Named(t, "operation")}
}

// CheckCode reports values that the shell would execute.
func (Operation) CheckCode(_ *ir.Program, s *ir.Step, t *ir.Task) diag.List {
	set := stepkind.Lenient[OperationSettings](t)
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
func (Operation) Bound(*ir.Program, *ir.Step, *ir.Task, *contract.Contract) stepkind.Bound {
	return stepkind.OneCallBound()
}
