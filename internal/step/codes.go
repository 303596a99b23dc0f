package step

import "github.com/espalier-run/espalier/internal/diag"

// The codes of the step kinds stand together, because a reader knows the
// prefix and not the kind.
const (
	CodeLanguage    diag.Code = "STEP001" // a script in a language that is not run
	CodeEmptyScript diag.Code = "STEP002" // a script without a line of code
	CodeNoCritic    diag.Code = "STEP003" // conflicts go to a critic that nobody is
	CodeEvenVoters  diag.Code = "STEP004" // a vote that can end in a tie
	CodeToolName    diag.Code = "STEP005" // not a tool's name
)
