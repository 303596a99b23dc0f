package agentfile

import "github.com/espalier-run/espalier/internal/diag"

// The codes of this package.
const (
	CodeMissing     diag.Code = "AFILE001" // a key that must be there
	CodeWrongType   diag.Code = "AFILE002" // a value of the wrong type
	CodeUnknownKey  diag.Code = "AFILE003" // a key that means nothing here
	CodeBadValue    diag.Code = "AFILE004" // a value that cannot be
	CodeSpecVersion diag.Code = "AFILE005" // the version of the format is missing or not a text
	CodeStepKind    diag.Code = "AFILE006" // neither an agent step nor a shell step, or both
	CodeRepeated    diag.Code = "AFILE007" // two steps of one id
	CodeNoFile      diag.Code = "AFILE008" // an agent, skill, script or input that is not there
	CodeOutside     diag.Code = "AFILE009" // a path that leads out of the project
	CodeNoVariable  diag.Code = "AFILE010" // a $VARIABLE that nothing sets
	CodeNotMade     diag.Code = "AFILE011" // an input that no earlier step produces
	CodeNoSection   diag.Code = "AFILE012" // an agent or skill file without a section
	CodePlaceholder diag.Code = "AFILE013" // a {placeholder} that nothing fills in
	CodeExtension   diag.Code = "AFILE014" // a key that is not in the specification
	CodeOtherName   diag.Code = "AFILE015" // a name that is not the folder's
	CodeMadeTwice   diag.Code = "AFILE016" // two steps that produce the same file
)
