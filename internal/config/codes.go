package config

import (
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/text"
)

// Diagnostic codes of the configuration.
const (
	CodeWrongType diag.Code = "CFG001" // a value of the wrong type
	CodeMissing   diag.Code = "CFG002" // a required key is missing
	CodeUnknown   diag.Code = "CFG003" // an unknown key
	CodeBadValue  diag.Code = "CFG004" // an invalid value
	CodeOpenKey   diag.Code = "CFG005" // a key or password in plain text
	CodeNoSecret  diag.Code = "CFG006" // a reference to an undeclared secret
	CodeSources   diag.Code = "CFG007" // mutually exclusive keys
	CodeTransport diag.Code = "CFG008" // an MCP server with a deprecated transport
	CodeSchema    diag.Code = "CFG009" // an invalid JSON Schema
)

var codes = text.Codes{
	WrongType: CodeWrongType, Missing: CodeMissing, Unknown: CodeUnknown, BadValue: CodeBadValue,
	UnknownAs: diag.Error,
}
