package agentfile

import "github.com/espalier-run/espalier/internal/diag"

// The codes of this package.
const (
	CodeMissing     diag.Code = "AFILE001" // a required key is missing
	CodeWrongType   diag.Code = "AFILE002" // a value of the wrong type
	CodeUnknownKey  diag.Code = "AFILE003" // an unknown key
	CodeBadValue    diag.Code = "AFILE004" // an invalid value
	CodeSpecVersion diag.Code = "AFILE005" // the format version is missing or not a string
	CodeStepKind    diag.Code = "AFILE006" // neither an agent step nor a shell step, or both
	CodeRepeated    diag.Code = "AFILE007" // two steps with the same id
	CodeNoFile      diag.Code = "AFILE008" // an agent, skill, script or input that does not exist
	CodeOutside     diag.Code = "AFILE009" // a path outside of the project
	CodeNoVariable  diag.Code = "AFILE010" // an undefined $VARIABLE
	CodeNotMade     diag.Code = "AFILE011" // an input that no earlier step produces
	CodeNoSection   diag.Code = "AFILE012" // an agent or skill file that lacks a section
	CodePlaceholder diag.Code = "AFILE013" // an unknown {placeholder}
	CodeExtension   diag.Code = "AFILE014" // a key that is not in the specification
	CodeOtherName   diag.Code = "AFILE015" // a name that differs from the folder's
	CodeMadeTwice   diag.Code = "AFILE016" // two steps that produce the same file
	CodeNoDraft     diag.Code = "AFILE017" // a draft for which there are no rules
	CodeStaged      diag.Code = "AFILE018" // a step that produces a workflow, which stays in the run's folder
	CodeUnpublished diag.Code = "AFILE019" // an output directory that receives nothing
)
