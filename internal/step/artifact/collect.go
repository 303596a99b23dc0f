package artifact

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/step"
)

// Collection is what a task of the kind "handover" says.
type Collection struct {
	Output    string    `json:"output"`              // the variable that is the output
	Directory string    `json:"directory,omitempty"` // that gets a copy of all products
	Products  []Product `json:"products"`
	Workflow  string    `json:"workflow"`
	Folder    string    `json:"folder"`
	Runs      string    `json:"runs,omitempty"`
}

// Product is what a step has produced, and where.
type Product struct {
	Read string `json:"read"`
	Path string `json:"path"`
}

// Collect is the step kind "handover".
type Collect struct{}

var (
	_ step.Kind   = Collect{}
	_ step.Runner = Collect{}
)

// Name is "handover".
func (Collect) Name() string { return "handover" }

// Understands wants to know what the output is.
func (Collect) Understands(t *ir.Task) error {
	set, err := step.Decode[Collection](t)
	if set.Output == "" {
		err = errors.Join(err, errors.New("nothing is to be collected"))
	}
	return err
}

// Check has nothing to say.
func (Collect) Check(*ir.Program, *ir.Step, *ir.Task) diag.List { return nil }

// Uses is nothing that a workflow declares.
func (Collect) Uses(*ir.Task) step.Uses { return step.Uses{} }

// Bound is next to nothing.
func (Collect) Bound(*ir.Program, *ir.Step, *ir.Task, *contract.Contract) step.Bound {
	return step.Bound{}
}

// Recovery is to do it again.
func (Collect) Recovery(*ir.Task, []journal.TaskNoted) step.Recovery { return step.Rerun }

// Run copies what there is.
func (Collect) Run(_ context.Context, job *step.Job) (step.Result, error) {
	set, err := step.Decode[Collection](job.Task)
	if err != nil {
		return step.Result{}, step.Errorf(step.ClassInput, "%v", err)
	}
	at := newPlace(job, where{set.Workflow, set.Folder, set.Runs})
	var output json.RawMessage
	for _, r := range job.Reads {
		if r.Path == set.Output && !r.Missing {
			output = r.Value
		}
		i := slices.IndexFunc(set.Products, func(p Product) bool { return p.Read == r.Path })
		if set.Directory == "" || i < 0 || r.Missing {
			continue
		}
		files := filesOf(r.Value)
		for _, name := range slices.Sorted(maps.Keys(files)) {
			// Below the folder as below outputs/, so that no two of one name meet.
			to := path.Join(set.Directory, strings.TrimPrefix(set.Products[i].Path, "outputs/"), name)
			if err := at.write(to, files[name]); err != nil {
				return step.Result{}, step.Errorf(step.ClassMissing, "the output cannot be written to %s: %v", to, err)
			}
		}
	}
	if output == nil {
		output = json.RawMessage("null")
	}
	return step.Result{Value: output}, nil
}
