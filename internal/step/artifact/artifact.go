package artifact

import (
	"errors"
	"fmt"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/step"
)

// Settings is what a task of the kind "artifact" says.
type Settings struct {
	Agent    string  `json:"agent"` // ID of the agent; its instructions are the system prompt, as they are
	Skill    string  `json:"skill,omitempty"`
	Goal     string  `json:"goal"`
	Inputs   []Input `json:"inputs"`
	Produces string  `json:"produces,omitempty"` // a path; with / at its end, a folder
	Draft    string  `json:"draft,omitempty"`    // rules that make a draft for the model to improve
	Workflow string  `json:"workflow"`
	Folder   string  `json:"folder"`         // of the workflow
	Runs     string  `json:"runs,omitempty"` // folder of those of all runs, from the root; "" is that of the specification (G5)
}

// Input is something to work on: a variable or a part of it, a file that is
// read when the step runs, or a text.
type Input struct {
	Name string `json:"name"`
	Read string `json:"read,omitempty"`
	Part string `json:"part,omitempty"`
	File string `json:"file,omitempty"`
	Text string `json:"text,omitempty"`
}

// Kind is the step kind "artifact".
type Kind struct{}

var _ step.Kind = Kind{}

// Name is "artifact".
func (Kind) Name() string { return "artifact" }

// Understands wants an agent.
func (Kind) Understands(t *ir.Task) error {
	set, err := step.Decode[Settings](t)
	if set.Agent == "" {
		err = errors.Join(err, errors.New("no agent is named"))
	}
	return err
}

// Check knows the drafts that there are.
func (Kind) Check(_ *ir.Program, s *ir.Step, t *ir.Task) diag.List {
	set := step.Lenient[Settings](t)
	if set.Draft == "" || drafts[set.Draft] != nil {
		return nil
	}
	return diag.List{{
		Code: CodeNoDraft, Severity: diag.Error, Span: step.At(s, t, "draft"),
		Message: fmt.Sprintf("There is no draft %q.", set.Draft),
		Help:    diag.DidYouMean(set.Draft, draftNames()),
	}}
}

// Uses names the agent.
func (Kind) Uses(t *ir.Task) step.Uses { return step.Uses{Agents: step.Named(t, "agent")} }

// Bound is one model call; the parts of a folder may have to be asked for again.
func (Kind) Bound(p *ir.Program, s *ir.Step, t *ir.Task, _ *contract.Contract) step.Bound {
	set := step.Lenient[Settings](t)
	talk := step.Talk{Known: step.TextTokens(set.Skill, set.Goal), Reads: step.ReadTokens(p, s)}
	for _, in := range set.Inputs {
		talk.Known += step.TextTokens(in.Text)
	}
	if isFolder(set.Produces) {
		talk.Repairs = step.RepairCalls
	}
	return talk.Bound(p.Agent(set.Agent))
}
