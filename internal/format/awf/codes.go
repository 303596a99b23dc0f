package awf

import "github.com/espalier-run/espalier/internal/diag"

// The codes of this package.
const (
	CodeMissing     diag.Code = "AWF001" // a key that must be there
	CodeWrongType   diag.Code = "AWF002" // a value of the wrong type
	CodeUnknownKey  diag.Code = "AWF003" // a key that means nothing here
	CodeBadValue    diag.Code = "AWF004" // a value that cannot be
	CodeNoState     diag.Code = "AWF005" // a state that does not exist
	CodeNoTerminal  diag.Code = "AWF006" // no way to end
	CodeUnsupported diag.Code = "AWF007" // plugins, packs and step types of them
	CodeNoEffect    diag.Code = "AWF008" // a key that does nothing here
	CodeRepeated    diag.Code = "AWF009" // a name that is given twice
	CodeNoWayOn     diag.Code = "AWF010" // success leads nowhere
	CodeNoProperty  diag.Code = "AWF011" // a property that a step's state does not have
	CodeNoWorkflow  diag.Code = "AWF012" // a workflow to call that is not there
	CodeNoFile      diag.Code = "AWF013" // a script, prompt, role or skill that is not there
	CodeEither      diag.Code = "AWF014" // two keys of which one is needed
	CodeSeconds     diag.Code = "AWF015" // a bare number of seconds
	CodeTooDeep     diag.Code = "AWF016" // workflows that call each other too deeply
	CodeContains    diag.Code = "AWF017" // a loop or parallel step that contains itself
	CodeTemplate    diag.Code = "AWF018" // a workflow template that cannot be used
	CodeIgnoredWay  diag.Code = "AWF019" // a way on from a branch, which nothing follows
	CodeKeyInFile   diag.Code = "AWF021" // a key that everybody can read
	CodeAsCode      diag.Code = "AWF020" // what a step gave is read as code
)
