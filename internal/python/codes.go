package python

import "github.com/espalier-run/espalier/internal/diag"

// What can be wrong with Python code.
const (
	CodeSyntax  diag.Code = "PY001" // not Python
	CodeSubset  diag.Code = "PY002" // Python, but outside of the subset
	CodePrivate diag.Code = "PY003" // a name with two underscores, which leads behind the scenes
)
