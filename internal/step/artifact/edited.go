package artifact

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/stepkind"
	"github.com/espalier-run/espalier/internal/stepkind/kinds"
)

// File is what the files of a variable hold.
type File struct {
	Path    string          // of the file or folder
	Now     json.RawMessage // what it holds, if Changed is set
	Changed bool            // it differs from the value of the variable
}

// FileOf returns the file or folder that a step of the program has produced as the
// value of a variable; nil if there is none. was is the variable's value, and
// read returns other variables, which determine where the file is.
func FileOf(
	p *ir.Program, root, variable string, was json.RawMessage, read func(path string) string,
) (*File, error) {
	for i := range p.Blocks[ir.Body].Steps {
		s := &p.Blocks[ir.Body].Steps[i]
		t := s.Task()
		if t == nil || t.Kind != (Runner{}).Name() || len(s.Writes) == 0 || s.Writes[0].Path != variable {
			continue
		}
		set, err := stepkind.Decode[settings](t)
		if err != nil || set.Produces == "" {
			return nil, err
		}
		at, err := placeOf(root, whereOf(t), read)
		if err != nil {
			return nil, err
		}
		base, below := at.locate(set.Produces)
		file := &File{Path: filepath.Join(base, filepath.FromSlash(below))}
		before := filesOf(was)
		files, err := at.files(set.Produces, func(name string) bool {
			_, known := before[name]
			return known || visible(name) && !common(set.Produces)
		})
		if errors.Is(err, fs.ErrNotExist) {
			return file, nil // a file that was removed changes nothing
		}
		if err != nil {
			return nil, err
		}
		if file.Changed = !maps.EqualFunc(before, files, sameText); file.Changed {
			file.Now = valueAt(set.Produces, files)
		}
		return file, nil
	}
	return nil, nil
}

// product returns the content of a path as the value of the step that produces it.
func (p *place) product(name string) (json.RawMessage, error) {
	if !kinds.IsFolder(name) {
		text, err := p.read(name)
		return step.JSON(text), err
	}
	files, err := p.files(name, visible)
	return valueAt(name, files), err
}

// valueAt returns the value of a step: a text, or the files of a folder.
func valueAt(name string, files map[string]string) json.RawMessage {
	if kinds.IsFolder(name) {
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
	if !kinds.IsFolder(name) {
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

// RunDir returns the folder below the root that the steps of a run write their files to; empty if the program has no
// such steps. read returns variables of the run.
func RunDir(p *ir.Program, root string, read func(path string) string) (string, error) {
	for i := range p.Blocks[ir.Body].Steps {
		t := p.Blocks[ir.Body].Steps[i].Task()
		if !writesFiles(t) {
			continue
		}
		at, err := placeOf(root, whereOf(t), read)
		if err != nil || at.run == "" {
			return "", err
		}
		return at.runDir(), nil
	}
	return "", nil
}

// writesFiles reports whether a task is of a kind of this package.
func writesFiles(t *ir.Task) bool {
	return t != nil && slices.Contains([]string{
		Runner{}.Name(), ShellRunner{}.Name(), HandoverRunner{}.Name(),
	}, t.Kind)
}
