package aiflow

import (
	_ "embed" // for the schema below

	"github.com/espalier-run/espalier/internal/format"
)

//go:embed schema.json
var schema []byte

// Schemas returns the JSON Schema of files of all generations for editors.
func (Format) Schemas() []format.Schema {
	return []format.Schema{{Block: "aiflow", Schema: schema}}
}
