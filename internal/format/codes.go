package format

import "github.com/espalier-run/espalier/internal/diag"

// Codes of problems with the choice of a format, or between files.
const (
	CodeNoFormat       diag.Code = "FMT001" // no format recognizes the file
	CodeSeveralFormats diag.Code = "FMT002" // several formats recognize the file
	CodeCycle          diag.Code = "FMT003" // workflows refer to each other in a cycle
	CodeTooNested      diag.Code = "FMT004" // too many workflows inside workflows
)
