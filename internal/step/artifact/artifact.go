package artifact

import (
	"path"
	"strings"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/chat"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Settings are the settings of a task of kind "artifact".
type Settings struct {
	Agent    string  `json:"agent"` // ID of the agent; its instructions are the unmodified system prompt
	Skill    string  `json:"skill,omitempty"`
	Goal     string  `json:"goal"`
	Inputs   []Input `json:"inputs"`
	Produces string  `json:"produces,omitempty"` // a path; a trailing / denotes a folder
	Draft    string  `json:"draft,omitempty"`    // name of the rules that generate a draft for the model to improve
	Workflow string  `json:"workflow"`
	Folder   string  `json:"folder"`           // of the workflow
	Layout   *Layout `json:"layout,omitempty"` // nil is the layout of stored programs
	Runs     string  `json:"runs,omitempty"`   // of stored programs
}

// Input is material for the agent: a variable or a part of it, a file that is read when the step runs, or a text.
type Input struct {
	Name string `json:"name"`
	Read string `json:"read,omitempty"`
	Part string `json:"part,omitempty"`
	File string `json:"file,omitempty"`
	Text string `json:"text,omitempty"`
}

// Kind is the step kind "artifact".
type Kind struct{ chat.Base[Settings] }

var _ step.Runner = Kind{}

// Name returns "artifact".
func (Kind) Name() string { return "artifact" }

// Ask returns the prompt. The reply for a .json file must be JSON; invalid parts of a folder are requested again.
func (s Settings) Ask(*ir.Program) (chat.Ask, bool) {
	ask := chat.Ask{Agent: s.Agent, Texts: []string{s.Skill, s.Goal}, Checked: isFolder(s.Produces)}
	if s.producesJSON() {
		ask.Reply = contract.Spec{Base: contract.AnyData, From: "the name of the file"}
	}
	ask.Texts = append(ask.Texts, xslices.Map(s.Inputs, func(in Input) string { return in.Text })...)
	return ask, true
}

func (s Settings) producesJSON() bool { return strings.EqualFold(path.Ext(s.Produces), ".json") }
