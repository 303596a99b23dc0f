package artifact

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/stepkind/kinds"
)

// HandoverRunner runs tasks of kind "handover".
type HandoverRunner struct {
	step.Base[kinds.Handover, handoverSettings]
}

type handoverSettings kinds.HandoverSettings

var _ step.Settings = handoverSettings{}

// Run copies the products and returns the output.
func (s handoverSettings) Run(_ context.Context, job *step.Job) (step.Result, error) {
	at, err := newPlace(job)
	if err != nil {
		return step.Result{}, err
	}
	omit := cmp.Or(s.Omit, &storedOmit)
	var output json.RawMessage
	for _, r := range job.Reads {
		if r.Path == s.Output && !r.Missing {
			output = r.Value
		}
		i := slices.IndexFunc(s.Products, func(p kinds.HandoverProduct) bool { return p.Read == r.Path })
		if s.Directory == "" || i < 0 || r.Missing {
			continue
		}
		files := filesOf(r.Value)
		for _, name := range slices.Sorted(maps.Keys(files)) {
			if omitted(omit, files, name) {
				continue
			}
			// The structure below the run's folder is kept, so that products of the same name do not collide.
			to := path.Join(s.Directory, strings.TrimPrefix(s.Products[i].Path, at.layout.Outputs+"/"), name)
			if err := at.write(to, files[name]); err != nil {
				return step.Result{}, step.Errorf(ir.ClassMissing, "the output cannot be written to %s: %v", to, err)
			}
		}
	}
	if output == nil {
		output = json.RawMessage("null")
	}
	return step.Result{Value: output}, nil
}

// omitted reports whether a file of a folder is not copied.
func omitted(o *kinds.HandoverOmit, files map[string]string, name string) bool {
	if slices.Contains(o.Files, path.Base(name)) {
		return true
	}
	for other := range files {
		folder, file := path.Split(other)
		if strings.HasSuffix(file, o.Beside) && strings.HasPrefix(name, folder) {
			return true
		}
	}
	return false
}
