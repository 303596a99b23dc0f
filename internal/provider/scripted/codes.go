package scripted

import "github.com/espalier-run/espalier/internal/diag"

// What can be wrong with a script.
const (
	CodeWrongType diag.Code = "PROV001" // a value of the wrong type
	CodeMissing   diag.Code = "PROV002" // something that must be there is not
	CodeUnknown   diag.Code = "PROV003" // a key that means nothing here
	CodeBadValue  diag.Code = "PROV004" // a value that is not possible
	CodeTogether  diag.Code = "PROV005" // keys that do not go together
	CodeNever     diag.Code = "PROV006" // an entry that never answers
	CodeNoSuch    diag.Code = "PROV007" // a name that the workflow does not have
)
