package artifact

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// Edited reports whether the files that a step of the program has produced for a variable have changed, and returns
// their current content (G7). was is the variable's value; read returns other variables, which determine where the
// files are.
func Edited(p *ir.Program, root, variable string, was json.RawMessage,
	read func(path string) string,
) (now json.RawMessage, changed bool, err error) {
	for i := range p.Blocks[ir.Body].Steps {
		s := &p.Blocks[ir.Body].Steps[i]
		t := s.Task()
		if t == nil || t.Kind != (Kind{}).Name() || len(s.Writes) == 0 || s.Writes[0].Path != variable {
			continue
		}
		set, err := stepkind.Decode[Settings](t)
		if err != nil || set.Produces == "" {
			return nil, false, err
		}
		at := placeOf(root, where{set.Workflow, set.Folder, set.Runs}, read)
		before := filesOf(was)
		files, err := at.files(set.Produces, func(name string) bool {
			_, known := before[name]
			return known || visible(name) && !common(set.Produces)
		})
		if errors.Is(err, fs.ErrNotExist) {
			return nil, false, nil // a missing file is not a change
		}
		if err != nil {
			return nil, false, err
		}
		if maps.EqualFunc(before, files,
			func(a, b string) bool { return strings.TrimRight(a, "\n") == strings.TrimRight(b, "\n") }) {
			return nil, false, nil
		}
		return valueAt(set.Produces, files), true, nil
	}
	return nil, false, nil
}

// product returns the content of a path as the value of the step that produces it.
func (p *place) product(name string) (json.RawMessage, error) {
	if !isFolder(name) {
		text, err := p.read(name)
		return step.JSON(text), err
	}
	files, err := p.files(name, visible)
	return valueAt(name, files), err
}

// valueAt returns the value of a step: a text, or the files of a folder.
func valueAt(name string, files map[string]string) json.RawMessage {
	if isFolder(name) {
		return step.JSON(files)
	}
	return step.JSON(files[""])
}

// common reports whether steps, runs or workflows share a folder, so that other files in it do not belong to the
// product of a step.
func common(folder string) bool {
	return !strings.Contains(strings.TrimSuffix(folder, "/"), "/")
}

// files returns the files at a path, keyed by their names below it; in a folder, only those that wanted accepts.
func (p *place) files(name string, wanted func(name string) bool) (map[string]string, error) {
	base, below := p.locate(name)
	root, err := os.OpenRoot(base)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	below = filepath.FromSlash(below)
	if !isFolder(name) {
		text, err := readFile(root, below)
		return map[string]string{"": text}, err
	}
	return walk(root, below, wanted)
}

// visible reports whether a file is not hidden.
func visible(name string) bool { return !strings.HasPrefix(path.Base(name), ".") }

// walk reads the files below a folder that wanted accepts.
func walk(root *os.Root, below string, wanted func(name string) bool) (map[string]string, error) {
	files := map[string]string{}
	start := filepath.ToSlash(below)
	err := fs.WalkDir(root.FS(), start, func(at string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(strings.TrimPrefix(at, start), "/")
		if err != nil || !d.Type().IsRegular() || !wanted(name) {
			return err
		}
		files[name], err = readFile(root, filepath.FromSlash(at))
		return err
	})
	return files, err
}
