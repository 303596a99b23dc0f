package tool

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
	Tool string                     `json:"tool"`
	Args map[string]json.RawMessage `json:"args,omitempty"`
}

// Kind is the step kind "tool".
type Kind struct{}

var _ step.Kind = Kind{}

// Name is "tool".
func (Kind) Name() string { return "tool" }

// Understands wants a tool, whatever its name.
func (Kind) Understands(t *ir.Task) error {
	set, err := step.Decode[Settings](t)
	if set.Tool == "" {
		err = errors.Join(err, errors.New("no tool is named"))
	}
	return err
}

// Check wants a name that can be a tool's. Whether there is such a tool is
// known only where the workflow runs.
func (Kind) Check(_ *ir.Program, s *ir.Step, t *ir.Task) diag.List {
	set := step.Lenient[Settings](t)
	var list diag.List
	if set.Tool != "" && !step.IsToolName(set.Tool) {
		list.Add(diag.Diagnostic{
			Code: step.CodeToolName, Severity: diag.Error, Span: step.At(s, t, "tool"),
			Message: fmt.Sprintf("%q cannot be the name of a tool.", set.Tool),
			Help:    step.ToolNameHelp + "; arguments go under args.",
		})
	}
	return list
}

// Uses names the tool.
func (Kind) Uses(t *ir.Task) step.Uses { return step.Uses{Tools: step.Named(t, "tool")} }

// Bound is one call.
func (Kind) Bound(*ir.Program, *ir.Step, *ir.Task, *contract.Contract) step.Bound {
	return step.Bound{
		Base:  step.Cost{ToolCalls: step.N(1), Seconds: step.N(step.UsualToolSeconds)},
		Worst: step.Cost{ToolCalls: step.N(1), Seconds: step.N(step.ToolCallSeconds)},
	}
}
