package artifact

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/step"
)

// Collection are the settings of a task of kind "handover".
type Collection struct {
	Output    string    `json:"output"`              // the variable that holds the output
	Directory string    `json:"directory,omitempty"` // receives a copy of all products
	Products  []Product `json:"products"`
	Omit      *Omit     `json:"omit,omitempty"` // nil is that of stored programs
	Workflow  string    `json:"workflow"`
	Folder    string    `json:"folder"`
	Layout    *Layout   `json:"layout,omitempty"`
	Runs      string    `json:"runs,omitempty"`
}

// Omit says which files of folders are not copied.
type Omit struct {
	Files  []string `json:"files"`  // by their names
	Beside string   `json:"beside"` // all files of a folder with one whose name ends so
}

// Product is a variable with files that a step has produced, and their path.
type Product struct {
	Read string `json:"read"`
	Path string `json:"path"`
}

// Collect is the step kind "handover".
type Collect struct{ step.Base[Collection] }

var _ step.Runner = Collect{}

// Name returns "handover".
func (Collect) Name() string { return "handover" }

// Run copies the products and returns the output.
func (s Collection) Run(_ context.Context, job *step.Job) (step.Result, error) {
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
		i := slices.IndexFunc(s.Products, func(p Product) bool { return p.Read == r.Path })
		if s.Directory == "" || i < 0 || r.Missing {
			continue
		}
		files := filesOf(r.Value)
		for _, name := range slices.Sorted(maps.Keys(files)) {
			if omit.has(files, name) {
				continue
			}
			// The structure below the run's folder is kept, so that products of the same name do not collide.
			to := path.Join(s.Directory, strings.TrimPrefix(s.Products[i].Path, at.layout.Outputs+"/"), name)
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

// has reports whether a file of a folder is not copied.
func (o *Omit) has(files map[string]string, name string) bool {
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
