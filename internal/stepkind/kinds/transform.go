package kinds

import (
	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// TransformMode is what a transform does with its input.
type TransformMode string

// The modes.
const (
	TransformValidate TransformMode = "validate"  // check the input contract and pass it on
	TransformModel    TransformMode = "model"     // a model call
	TransformText     TransformMode = "text"      // the result is the text itself
	TransformHandOver TransformMode = "hand_over" // the result is that of a child workflow
	TransformPresent  TransformMode = "present"   // {"approved": no read is missing, null, false or empty}
)

// TransformSettings are the settings of a task of kind "transform".
type TransformSettings struct {
	Mode     TransformMode `json:"mode"`
	Task     string        `json:"task,omitempty"`     // TransformModel: what to do
	Expected string        `json:"expected,omitempty"` // TransformModel: what should come out, in words
	Text     string        `json:"text,omitempty"`     // TransformText: the result
}

// Transform is the step kind "transform".
type Transform struct{ chatBase[TransformSettings] }

var _ stepkind.Asker = Transform{}

// Name returns "transform".
func (Transform) Name() string { return "transform" }

// Traits returns those of a computation, also if a model makes it.
func (Transform) Traits(*ir.Program, *ir.Task) ir.Traits { return ir.Traits{Nature: ir.Computes} }

// Ask returns the task and the contract of the reply; false unless the mode is
// TransformModel.
func (s TransformSettings) Ask(*ir.Program) (Ask, bool) {
	return Ask{
		Texts: []string{s.Task, s.Expected}, Reply: contract.Spec{Expected: []string{s.Expected}},
	}, s.Mode == TransformModel
}
