package transform

import (
	"errors"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/step"
)

// Mode is what a transform does with what it reads.
type Mode string

// The modes.
const (
	Validate Mode = "validate"  // check the input contract and pass it on
	Model    Mode = "model"     // a model call
	Text     Mode = "text"      // the result is the text itself
	HandOver Mode = "hand_over" // the result is what a child workflow gave
	Present  Mode = "present"   // {"approved": everything read is there and not null, false or empty}
)

// Settings is what a task of this kind says.
type Settings struct {
	Mode     Mode   `json:"mode"`
	Task     string `json:"task,omitempty"`     // Model: what to do
	Expected string `json:"expected,omitempty"` // Model: what should come out, in words
	Text     string `json:"text,omitempty"`     // Text: the result
}

// Kind is the step kind "transform".
type Kind struct{}

var _ step.Asker = Kind{}

// Name is "transform".
func (Kind) Name() string { return "transform" }

// Understands wants a mode that exists.
func (Kind) Understands(t *ir.Task) error {
	set, err := step.Decode[Settings](t)
	return errors.Join(err, step.OneOf("mode", string(set.Mode), string(Validate), string(Model), string(Text), string(Present), string(HandOver)))
}

// Check has nothing to say: the modes are chosen by the format.
func (Kind) Check(*ir.Program, *ir.Step, *ir.Task) diag.List { return nil }

// Uses is nothing: a transform works on what it reads.
func (Kind) Uses(*ir.Task) step.Uses { return step.Uses{} }

// Contract is what the reply of a model must be.
func (Kind) Contract(p *ir.Program, s *ir.Step, t *ir.Task) (contract.Contract, bool) {
	set := step.Lenient[Settings](t)
	if set.Mode != Model {
		return contract.Contract{}, false
	}
	return replies(p, s, set), true
}

func replies(p *ir.Program, s *ir.Step, set Settings) contract.Contract {
	return contract.Of(p, s, contract.Spec{Expected: []string{set.Expected}})
}

// Bound is one model call in mode "model", with repairs when its reply must
// have a form, and nothing worth counting otherwise.
func (Kind) Bound(p *ir.Program, s *ir.Step, t *ir.Task, reply *contract.Contract) step.Bound {
	set := step.Lenient[Settings](t)
	if set.Mode != Model {
		return step.Bound{}
	}
	talk := step.Talk{
		Known: step.TextTokens(set.Task, set.Expected),
		Reads: step.ReadTokens(p, s),
	}
	talk.Asks(reply)
	return talk.Bound(nil)
}
