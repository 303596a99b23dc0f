package transform

import (
	"fmt"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/step"
)

// Mode is what a transform does with what it reads.
type Mode string

// The modes.
const (
	Validate Mode = "validate" // check the input contract and pass it on
	Model    Mode = "model"    // a model call
	Text     Mode = "text"     // the result is the text itself
	Present  Mode = "present"  // {"approved": everything read is there and not null, false or empty}
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

var _ step.Kind = Kind{}

// Name is "transform".
func (Kind) Name() string { return "transform" }

// Check wants a mode that exists, and for a model something to do.
func (Kind) Check(_ *ir.Program, s *ir.Step, t *ir.Task) diag.List {
	set, list := step.Decode[Settings](s, t)
	switch set.Mode {
	case Validate, Text, Present:
	case Model:
		if strings.TrimSpace(set.Task+set.Expected) == "" {
			list.Add(diag.Diagnostic{
				Code: step.CodeNothingToAsk, Severity: diag.Warning, Span: step.At(s, t, "task"),
				Message: fmt.Sprintf("Step %q asks a model for nothing: it does not say what to do.", s.ID),
				Help:    "Describe what the step does with what it reads.",
			})
		}
	default:
		if !list.Errors() {
			list.Add(step.Misfit(s, t, "mode", fmt.Sprintf("there is no mode %q", set.Mode)))
		}
	}
	return list
}

// Uses is nothing: a transform works on what it reads.
func (Kind) Uses(*ir.Task) step.Uses { return step.Uses{} }

// Bound is one model call in mode "model" and nothing worth counting otherwise.
func (Kind) Bound(p *ir.Program, s *ir.Step, t *ir.Task) step.Bound {
	set, _ := step.Decode[Settings](s, t)
	if set.Mode != Model {
		return step.Bound{}
	}
	return step.Talk{
		Known: step.TextTokens(set.Task, set.Expected),
		Reads: step.ReadTokens(p, s),
		Turns: 1,
	}.Bound(nil)
}
