package format

import "github.com/espalier-run/espalier/internal/diag"

// What can be wrong before a format reads a file, or between files.
const (
	CodeNoFormat       diag.Code = "FMT001" // no format recognises the file
	CodeSeveralFormats diag.Code = "FMT002" // several formats recognise the file
	CodeCycle          diag.Code = "FMT003" // workflows refer to each other in a circle
	CodeTooNested      diag.Code = "FMT004" // too many workflows inside workflows
)
