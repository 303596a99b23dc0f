package operation

import (
	"encoding/json"
	"errors"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/step"
)

// Settings is what a task of this kind says. Texts in the inputs are templates.
type Settings struct {
	Operation string          `json:"operation"` // the tool's name
	Inputs    json.RawMessage `json:"inputs,omitempty"`
	Timeout   string          `json:"timeout,omitempty"` // a template: seconds, or a duration
}

// Kind is the step kind "operation".
type Kind struct{}

var _ step.Kind = Kind{}

// Name is "operation".
func (Kind) Name() string { return "operation" }

// Understands wants the name of a tool, and an object for it.
func (Kind) Understands(t *ir.Task) error {
	set, err := step.Decode[Settings](t)
	if set.Operation == "" {
		err = errors.Join(err, errors.New("no operation is named"))
	}
	var object map[string]any
	if len(set.Inputs) > 0 && json.Unmarshal(set.Inputs, &object) != nil {
		err = errors.Join(err, errors.New("the inputs are no object"))
	}
	return err
}

// Check has nothing to say: which tools there are is known when a run begins.
func (Kind) Check(*ir.Program, *ir.Step, *ir.Task) diag.List { return nil }

// Uses names the tool.
func (Kind) Uses(t *ir.Task) step.Uses { return step.Uses{Tools: step.Named(t, "operation")} }

// Bound is one call.
func (Kind) Bound(*ir.Program, *ir.Step, *ir.Task, *contract.Contract) step.Bound {
	return step.Bound{
		Base:  step.Cost{ToolCalls: step.N(1), Seconds: step.N(step.UsualToolSeconds)},
		Worst: step.Cost{ToolCalls: step.N(1), Seconds: step.N(step.ToolCallSeconds)},
	}
}
