package artifact

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/step"
)

// Edited looks whether somebody has changed the files of a variable that a step
// of the program has produced, and gives what they hold now (G7). was is the
// variable's value, read gives others that tell where the files are.
func Edited(p *ir.Program, root, variable string, was json.RawMessage, read func(path string) string) (now json.RawMessage, changed bool, err error) {
	for i := range p.Blocks[ir.Body].Steps {
		s := &p.Blocks[ir.Body].Steps[i]
		t := s.Task()
		if t == nil || t.Kind != (Kind{}).Name() || len(s.Writes) == 0 || s.Writes[0].Path != variable {
			continue
		}
		set, err := step.Decode[Settings](t)
		if err != nil || set.Produces == "" {
			return nil, false, err
		}
		at := placeOf(root, set.Workflow, set.Folder, read)
		files, err := at.files(set.Produces)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, false, nil // a file that is gone changes nothing
		}
		if err != nil {
			return nil, false, err
		}
		before := filesOf(was)
		if maps.EqualFunc(before, files, func(a, b string) bool { return strings.TrimRight(a, "\n") == strings.TrimRight(b, "\n") }) {
			return nil, false, nil
		}
		if isFolder(set.Produces) {
			return step.JSON(files), true, nil
		}
		return step.JSON(files[""]), true, nil
	}
	return nil, false, nil
}

// files are the files at a path, by their names below it.
func (p *place) files(name string) (map[string]string, error) {
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
	return walk(root, below)
}

// walk reads the files below a folder, without hidden ones.
func walk(root *os.Root, below string) (map[string]string, error) {
	files := map[string]string{}
	start := filepath.ToSlash(below)
	err := fs.WalkDir(root.FS(), start, func(at string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.HasPrefix(d.Name(), ".") {
			return err
		}
		text, err := readFile(root, filepath.FromSlash(at))
		files[strings.TrimPrefix(strings.TrimPrefix(at, start), "/")] = text
		return err
	})
	return files, err
}
