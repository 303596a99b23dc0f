package step

import "github.com/espalier-run/espalier/internal/diag"

// The codes of the step kinds stand together, because a reader knows the
// prefix and not the kind.
const (
	CodeSettings     diag.Code = "STEP001" // a setting that the kind cannot use
	CodeLanguage     diag.Code = "STEP002" // a script in a language that is not run
	CodeEmptyScript  diag.Code = "STEP003" // a script without a line of code
	CodeStrategy     diag.Code = "STEP004" // no such way to merge
	CodeConflict     diag.Code = "STEP005" // no such way to settle a conflict
	CodeNoCritic     diag.Code = "STEP006" // conflicts go to a critic that nobody is
	CodeEvenVoters   diag.Code = "STEP007" // a vote that can end in a tie
	CodeToolName     diag.Code = "STEP008" // not a tool's name
	CodeNothingToAsk diag.Code = "STEP009" // a model call without a word of what to do
)
