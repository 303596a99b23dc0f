package awf

import "github.com/espalier-run/espalier/internal/diag"

// The codes of this package.
const (
	CodeMissing     diag.Code = "AWF001" // a required key is missing
	CodeWrongType   diag.Code = "AWF002" // a value of the wrong type
	CodeUnknownKey  diag.Code = "AWF003" // an unknown key
	CodeBadValue    diag.Code = "AWF004" // an invalid value
	CodeNoState     diag.Code = "AWF005" // an undefined state
	CodeNoTerminal  diag.Code = "AWF006" // no terminal state
	CodeUnsupported diag.Code = "AWF007" // plugins, packs and their step types
	CodeNoEffect    diag.Code = "AWF008" // a key without effect
	CodeRepeated    diag.Code = "AWF009" // a duplicate name
	CodeNoWayOn     diag.Code = "AWF010" // no transition after success
	CodeNoProperty  diag.Code = "AWF011" // an unknown property of a step's state
	CodeNoWorkflow  diag.Code = "AWF012" // a called workflow that does not exist
	CodeNoFile      diag.Code = "AWF013" // a script, prompt, role or skill that does not exist
	CodeEither      diag.Code = "AWF014" // two keys that exclude each other
	CodeSeconds     diag.Code = "AWF015" // a number that means seconds
	CodeTooDeep     diag.Code = "AWF016" // workflows that call each other too deeply
	CodeContains    diag.Code = "AWF017" // a loop or parallel step that contains itself
	CodeTemplate    diag.Code = "AWF018" // an unusable workflow template
	CodeIgnoredWay  diag.Code = "AWF019" // a transition of a branch, which is ignored
	CodeKeyInFile   diag.Code = "AWF021" // an API key in plain text
	CodeAsCode      diag.Code = "AWF020" // step output that is executed as code
)
