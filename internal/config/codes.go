package config

import (
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/text"
)

// What can be wrong with the configuration.
const (
	CodeWrongType diag.Code = "CFG001" // a value of the wrong type
	CodeMissing   diag.Code = "CFG002" // something that must be there is not
	CodeUnknown   diag.Code = "CFG003" // a key that means nothing here
	CodeBadValue  diag.Code = "CFG004" // a value that is not possible
	CodeOpenKey   diag.Code = "CFG005" // a key that is written out
	CodeNoSecret  diag.Code = "CFG006" // a secret that is not declared
	CodeSources   diag.Code = "CFG007" // keys that exclude each other
	CodeTransport diag.Code = "CFG008" // an MCP server that speaks what is out of use
	CodeSchema    diag.Code = "CFG009" // a schema that is none
)

var codes = text.Codes{WrongType: CodeWrongType, Missing: CodeMissing, Unknown: CodeUnknown, BadValue: CodeBadValue, UnknownAs: diag.Error}
