package stepkind

import "github.com/espalier-run/espalier/internal/diag"

// The diagnostic codes of all step kinds, which share a prefix.
const (
	CodeLanguage    diag.Code = "STEP001" // a script in a language that cannot be run
	CodeEmptyScript diag.Code = "STEP002" // a script without a line of code
	CodeNoCritic    diag.Code = "STEP003" // conflicts go to a critic that is not named
	CodeEvenVoters  diag.Code = "STEP004" // a vote that can end in a tie
	CodeToolName    diag.Code = "STEP005" // not a tool's name
	CodeValueAsCode diag.Code = "STEP006" // a value that a tool would execute
)
