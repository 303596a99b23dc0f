package registry

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/step/artifact"
)

// Edited looks whether somebody has changed the files of what a gate shows,
// and gives the variables with what is in the files now.
func (r *Runtime) Edited(ctx context.Context, id journal.RunID, shows map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	var started *journal.RunStarted
	wrote := map[string]json.RawMessage{} // by the steps themselves
	for e, err := range r.Store.Events(ctx, id, 0) {
		if err != nil {
			return nil, err
		}
		switch x := e.Fact.(type) {
		case journal.RunStarted:
			started = &x
		case journal.TaskEnded:
			for _, w := range x.Writes {
				wrote[w.Path] = x.Value.JSON
			}
		}
	}
	if started == nil {
		return nil, nil
	}
	program, err := r.program(ctx, started.Definition)
	if err != nil {
		return nil, err
	}
	read := func(path string) string {
		raw := started.Vars[path].JSON
		if key, ok := strings.CutPrefix(path, "input."); ok {
			var input map[string]json.RawMessage
			if json.Unmarshal(started.Input.JSON, &input) == nil {
				raw = input[key]
			}
		}
		var text string
		if json.Unmarshal(raw, &text) != nil {
			return ""
		}
		return text
	}
	out := map[string]json.RawMessage{}
	for variable, was := range shows {
		now, changed, err := artifact.Edited(program, filepath.Dir(r.dir), variable, was, read)
		if err != nil {
			return nil, err
		}
		// Whoever has edited the variable and not its file wants the variable.
		if changed && len(wrote[variable]) > 0 {
			if _, changed, err = artifact.Edited(program, filepath.Dir(r.dir), variable, wrote[variable], read); err != nil {
				return nil, err
			}
		}
		if changed {
			out[variable] = now
		}
	}
	return out, nil
}
