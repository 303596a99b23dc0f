package kinds

import (
	"path"
	"strings"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/xslices"
)

// ArtifactSettings are the settings of a task of kind "artifact".
type ArtifactSettings struct {
	Agent    string          `json:"agent"` // ID of the agent; its instructions are the unmodified system prompt
	Skill    string          `json:"skill,omitempty"`
	Goal     string          `json:"goal"`
	Inputs   []ArtifactInput `json:"inputs"`
	Produces string          `json:"produces,omitempty"` // a path; a trailing / denotes a folder
	Draft    string          `json:"draft,omitempty"`    // name of the rules that generate a draft for the model to improve
	Workflow string          `json:"workflow"`
	Folder   string          `json:"folder"`           // of the workflow
	Layout   *ArtifactLayout `json:"layout,omitempty"` // nil is the layout of stored programs
	Runs     string          `json:"runs,omitempty"`   // of stored programs
}

// ArtifactInput is material for the agent: a variable or a part of it, a file that is read when the step runs,
// or a text.
type ArtifactInput struct {
	Name string `json:"name"`
	Read string `json:"read,omitempty"`
	Part string `json:"part,omitempty"`
	File string `json:"file,omitempty"`
	Text string `json:"text,omitempty"`
}

// Artifact is the step kind "artifact".
type Artifact struct{ chatBase[ArtifactSettings] }

// Name returns "artifact".
func (Artifact) Name() string { return "artifact" }

// Ask returns the prompt. The reply for a .json file must be JSON; invalid parts of a folder are requested again.
func (s ArtifactSettings) Ask(*ir.Program) (Ask, bool) {
	ask := Ask{Agent: s.Agent, Texts: []string{s.Skill, s.Goal}, Checked: IsFolder(s.Produces)}
	if s.ProducesJSON() {
		ask.Reply = contract.Spec{Base: contract.AnyData, From: "the name of the file"}
	}
	ask.Texts = append(ask.Texts, xslices.Map(s.Inputs, func(in ArtifactInput) string { return in.Text })...)
	return ask, true
}

// IsFolder reports whether a path that a step produces names a folder.
func IsFolder(path string) bool { return strings.HasSuffix(path, "/") }

// ProducesJSON reports whether the step produces a .json file.
func (s ArtifactSettings) ProducesJSON() bool {
	return strings.EqualFold(path.Ext(s.Produces), ".json")
}

// ArtifactLayout says what the paths of a workflow's files mean. The format decides it.
type ArtifactLayout struct {
	// Run is the variable that holds the name of the run's folder.
	Run string `json:"run"`
	// Outputs is the first element of paths in the run's folder. Dir is that folder, relative to the root folder of the
	// project; {run} stands for its name.
	Outputs string `json:"outputs"`
	Dir     string `json:"dir"`
	// Shared are the first elements of paths that are relative to the root folder of the project. All other paths are
	// in the workflow's folder.
	Shared []string `json:"shared"`
	// Placeholders stand for parts of paths.
	Placeholders []ArtifactPlaceholder `json:"placeholders"`
}

// ArtifactPlaceholder is a name that stands in braces for a part of a path.
type ArtifactPlaceholder struct {
	Name    string `json:"name"`
	Read    string `json:"read"`    // the variable with its value
	Default string `json:"default"` // its value if the variable has none; {run} is the name of the run's folder
}
