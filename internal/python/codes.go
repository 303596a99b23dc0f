package python

import "github.com/espalier-run/espalier/internal/diag"

// Diagnostic codes for Python code.
const (
	CodeSyntax    diag.Code = "PY001" // not Python
	CodeModule    diag.Code = "PY002" // a module that the built-in interpreter does not have
	CodeName      diag.Code = "PY004" // an undefined name
	CodeAttribute diag.Code = "PY005" // an attribute that a module or an object does not have
	CodeForbidden diag.Code = "PY006" // a function that node code cannot use
	CodeArguments diag.Code = "PY007" // wrong arguments of a call
	CodeType      diag.Code = "PY008" // a value of a wrong type
)
