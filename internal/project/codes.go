package project

import "github.com/espalier-run/espalier/internal/diag"

// Diagnostic codes of a project as a whole.
const (
	CodeShadowed diag.Code = "PRJ001" // a skill is hidden by another one of the same name
)
