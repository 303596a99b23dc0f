package analysis

import (
	"context"
	"sync"

	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/project"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// Analyzer analyzes the files of a workspace. It keeps each result until a file that the result
// depends on changes. It is safe for concurrent use.
type Analyzer struct {
	space   *project.Workspace
	overlay *project.Overlay
	formats format.Set
	kinds   stepkind.Set

	mu      sync.Mutex // guards space, which is not safe for concurrent use, and results
	results map[string]*Result
}

// NewAnalyzer returns an Analyzer for a working directory. All files are read through overlay, which
// must not be changed in other ways than with Edit and Discard from then on. home and config are the
// folders of the user and may be empty.
func NewAnalyzer(
	overlay *project.Overlay, dir, home, config string, formats format.Set, kinds stepkind.Set,
) (*Analyzer, error) {
	space, err := project.NewWorkspaceOn(overlay, dir, home, config)
	if err != nil {
		return nil, err
	}
	return &Analyzer{space: space, overlay: overlay, formats: formats, kinds: kinds, results: map[string]*Result{}}, nil
}

// File returns the result for a file. Failures to read it are *source.RefError; the other error is
// that of a context that is done.
func (a *Analyzer) File(ctx context.Context, path string) (*Result, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p, f, err := a.space.File(path)
	if err != nil {
		return nil, err
	}
	if r := a.results[f.Abs]; r != nil {
		return r, nil
	}
	r, err := Run(ctx, p, f, a.formats, a.kinds)
	if err != nil {
		return nil, err
	}
	a.results[f.Abs] = &r
	return &r, nil
}

// Edit sets the unsaved text of a file. It returns the absolute paths of the files whose results
// were discarded.
func (a *Analyzer) Edit(abs, text string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.overlay.Set(abs, text)
	return a.changed(abs)
}

// Discard removes the unsaved text of a file. It returns the same as Edit.
func (a *Analyzer) Discard(abs string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.overlay.Unset(abs)
	return a.changed(abs)
}

// Changed discards results after a file on the disk was changed, created or removed. It returns the same
// as Edit.
func (a *Analyzer) Changed(abs string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.changed(abs)
}

func (a *Analyzer) changed(abs string) []string {
	a.space.Changed(abs)
	if real, err := a.overlay.EvalSymlinks(abs); err == nil {
		abs = real
	}
	var out []string
	for file, r := range a.results {
		if r.DependsOn(abs) {
			delete(a.results, file)
			out = append(out, file)
		}
	}
	return out
}

// Close releases the workspace.
func (a *Analyzer) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.space.Close()
}
