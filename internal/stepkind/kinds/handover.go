package kinds

import "github.com/espalier-run/espalier/internal/stepkind"

// HandoverSettings are the settings of a task of kind "handover".
type HandoverSettings struct {
	Output    string            `json:"output"`              // the variable that holds the output
	Directory string            `json:"directory,omitempty"` // receives a copy of all products
	Products  []HandoverProduct `json:"products"`
	Omit      *HandoverOmit     `json:"omit,omitempty"` // nil is that of stored programs
	Workflow  string            `json:"workflow"`
	Folder    string            `json:"folder"`
	Layout    *ArtifactLayout   `json:"layout,omitempty"`
	Runs      string            `json:"runs,omitempty"`
}

// HandoverOmit says which files of folders are not copied.
type HandoverOmit struct {
	Files  []string `json:"files"`  // by their names
	Beside string   `json:"beside"` // all files of a folder with one whose name ends so
}

// HandoverProduct is a variable with files that a step has produced, and their path.
type HandoverProduct struct {
	Read string `json:"read"`
	Path string `json:"path"`
}

// Handover is the step kind "handover".
type Handover struct {
	stepkind.Base[HandoverSettings]
}

// Name returns "handover".
func (Handover) Name() string { return "handover" }
