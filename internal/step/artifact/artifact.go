package artifact

import (
	"fmt"
	"path"
	"strings"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/chat"
	"github.com/espalier-run/espalier/internal/stepkind"
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
type Kind struct{ chat.Base[Settings] }

var (
	_ stepkind.Asker = Kind{}
	_ step.Runner    = Kind{}
)

// Name returns "artifact".
func (Kind) Name() string { return "artifact" }

// Validate requires an agent.
func (s Settings) Validate() error { return stepkind.Require(s.Agent, "no agent is named") }

// Check reports a draft that does not exist.
func (Kind) Check(_ *ir.Program, s *ir.Step, t *ir.Task) diag.List {
	set := stepkind.Lenient[Settings](t)
	if set.Draft == "" || drafts[set.Draft] != nil {
		return nil
	}
	return diag.List{{
		Code: CodeNoDraft, Severity: diag.Error, Span: stepkind.At(s, t, "draft"),
		Message: fmt.Sprintf("There is no draft %q.", set.Draft),
		Help:    diag.DidYouMean(set.Draft, draftNames()),
	}}
}

// Ask returns the prompt. The reply for a .json file must be JSON; the parts of a
// folder may have to be asked for again.
func (s Settings) Ask(*ir.Program) (chat.Ask, bool) {
	ask := chat.Ask{Agent: s.Agent, Texts: []string{s.Skill, s.Goal}, Checked: isFolder(s.Produces)}
	if s.producesJSON() {
		ask.Reply = contract.Spec{Base: contract.AnyData, From: "the name of the file"}
	}
	for _, in := range s.Inputs {
		ask.Texts = append(ask.Texts, in.Text)
	}
	return ask, true
}

func (s Settings) producesJSON() bool { return strings.EqualFold(path.Ext(s.Produces), ".json") }
