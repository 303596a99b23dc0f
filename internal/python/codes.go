package python

import "github.com/espalier-run/espalier/internal/diag"

// Diagnostic codes for Python code.
const (
	CodeSyntax  diag.Code = "PY001" // not Python
	CodeSubset  diag.Code = "PY002" // outside of the supported subset
	CodePrivate diag.Code = "PY003" // a name with two leading underscores, which may expose internals
)
