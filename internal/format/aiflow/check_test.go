package aiflow_test

import (
	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/check"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/format"
)

// checked returns the diagnostics that apply to programs of any format.
func checked(r format.Result) diag.List { return check.Program(r.Program, catalog.Kinds()) }
