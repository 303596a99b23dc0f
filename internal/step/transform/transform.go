package transform

import (
	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/chat"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// Mode is what a transform does with its input.
type Mode string

// The modes.
const (
	Validate Mode = "validate"  // check the input contract and pass it on
	Model    Mode = "model"     // a model call
	Text     Mode = "text"      // the result is the text itself
	HandOver Mode = "hand_over" // the result is that of a child workflow
	Present  Mode = "present"   // {"approved": no read is missing, null, false or empty}
)

// Settings are the settings of a task.
type Settings struct {
	Mode     Mode   `json:"mode"`
	Task     string `json:"task,omitempty"`     // Model: what to do
	Expected string `json:"expected,omitempty"` // Model: what should come out, in words
	Text     string `json:"text,omitempty"`     // Text: the result
}

// Kind is the step kind "transform".
type Kind struct{ chat.Base[Settings] }

var (
	_ stepkind.Asker = Kind{}
	_ step.Instant   = Kind{}
)

// Name returns "transform".
func (Kind) Name() string { return "transform" }

// Instant reports whether the task asks no model.
func (Kind) Instant(t *ir.Task) bool { return stepkind.Lenient[Settings](t).Mode != Model }

// Ask returns the task and the contract of the reply; false unless the mode is
// Model.
func (s Settings) Ask(*ir.Program) (chat.Ask, bool) {
	return chat.Ask{
		Texts: []string{s.Task, s.Expected}, Reply: contract.Spec{Expected: []string{s.Expected}},
	}, s.Mode == Model
}
