package step

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
)

// Parts are the keys that a step's result must have, because the step writes
// them to different places (F8).
func Parts(s *ir.Step) []string {
	var out []string
	for _, w := range s.Writes {
		if w.Part != "" && !slices.Contains(out, w.Part) {
			out = append(out, w.Part)
		}
	}
	return out
}

// Promised is the schema of the program's output when this step alone writes
// all of it: then its result must fit, and whoever makes it had better know.
func Promised(p *ir.Program, s *ir.Step) json.RawMessage {
	if p.Output == nil || len(s.Writes) != 1 || s.Writes[0].Path != wholeOutput {
		return nil
	}
	writers := 0
	for b := range p.Blocks {
		for i := range p.Blocks[b].Steps {
			for _, w := range p.Blocks[b].Steps[i].Writes {
				if w.Path == wholeOutput || strings.HasPrefix(w.Path, wholeOutput+".") {
					writers++
				}
			}
		}
	}
	if writers != 1 {
		return nil
	}
	return p.Output.Schema
}

// PromisedUnder is the key of the output that a result which is plain text
// goes to, when the step's result must fit the output's schema.
func PromisedUnder(s *ir.Step) string {
	if len(s.Writes) != 1 {
		return ""
	}
	return s.Writes[0].Under
}

// wholeOutput is the variable that a program's result is read from.
const wholeOutput = "output"
