package graph

import (
	"encoding/json"
	"io"
)

// JSON writes the model for other programs.
func (g *Graph) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(g)
}
