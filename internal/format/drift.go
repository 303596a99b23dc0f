package format

import (
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
)

// Drifter is a Format whose files say the same thing in several places, which
// can come to disagree.
type Drifter interface {
	Format
	// Drift picks out the diagnostics about places that disagree.
	Drift(list diag.List) diag.List
	// FixTopology returns the text of a file with its diagram drawn anew from
	// what the rest of the file says.
	FixTopology(f *source.File, files Reader) (string, diag.List)
}
