package project

import "github.com/espalier-run/espalier/internal/diag"

// What can be wrong with the files of a project, taken together.
const (
	CodeShadowed diag.Code = "PRJ001" // a skill is hidden by another one of the same name
)
