package format

import (
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
)

// Drifter is a Format whose files state the same facts in several places, which can come to disagree.
type Drifter interface {
	Format
	// Drift returns the diagnostics about places that disagree.
	Drift(list diag.List) diag.List
	// FixTopology returns the text of a file with its diagram regenerated from the rest of the
	// file.
	FixTopology(f *source.File, files Reader) (string, diag.List)
}
