package registry

import (
	"context"
	"encoding/json"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report/flowtrace"
)

// FlowTrace is a run of an AIFLOW file as the format's trace viewer reads it.
func (r *Runtime) FlowTrace(ctx context.Context, entry journal.Entry) ([]byte, error) {
	def, err := r.Engine.Definition(ctx, entry.Definition)
	if err != nil {
		return nil, err
	}
	return flowtrace.Document(def.Program, r.Store.Events(ctx, entry.ID, 0), func(v journal.Value) (json.RawMessage, error) {
		switch {
		case v.Hash != "":
			return r.Store.Blob(ctx, v.Hash)
		case len(v.JSON) == 0:
			return json.RawMessage("null"), nil
		}
		return v.JSON, nil
	})
}
