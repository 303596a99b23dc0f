package scripted

import "github.com/espalier-run/espalier/internal/diag"

// Diagnostic codes of scripts.
const (
	CodeWrongType diag.Code = "PROV001" // a value of the wrong type
	CodeMissing   diag.Code = "PROV002" // a required key is missing
	CodeUnknown   diag.Code = "PROV003" // an unknown key
	CodeBadValue  diag.Code = "PROV004" // an invalid value
	CodeTogether  diag.Code = "PROV005" // mutually exclusive keys
	CodeNever     diag.Code = "PROV006" // an entry that is never used
	CodeNoSuch    diag.Code = "PROV007" // a name that does not exist in the workflow
)
