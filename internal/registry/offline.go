package registry

import (
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/provider/scripted"
	"github.com/espalier-run/espalier/internal/provider/simulated"
	"github.com/espalier-run/espalier/internal/source"
)

// Simulated returns the model that makes up its replies, the same ones for the
// same seed.
func Simulated(seed uint64) provider.Model { return simulated.Model{Seed: seed} }

// Script reads a file of replies. It is usable unless the list has an error.
func Script(f *source.File) (*scripted.Script, diag.List) { return scripted.Parse(f) }
