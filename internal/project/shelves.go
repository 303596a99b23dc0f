package project

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/source"
)

// Shelf is a kind of files that AWF also finds outside of a project, by name: the
// name of its folder.
type Shelf = string

// The shelves.
const (
	Workflows Shelf = "workflows"
	Prompts   Shelf = "prompts"
	Scripts   Shelf = "scripts"
	Templates Shelf = "templates"
	Roles     Shelf = "roles"
	Skills    Shelf = "skills"
)

// SearchFirst names folders of a shelf that come before the project's own: what
// the user's environment says. Relative ones begin at the working folder.
func (w *Workspace) SearchFirst(shelf Shelf, dirs ...string) {
	for _, dir := range dirs {
		if dir != "" {
			w.first[shelf] = append(w.first[shelf], w.abs(dir))
		}
	}
}

// usual are the folders of a shelf that come after the project's own.
func (w *Workspace) usual(shelf Shelf) []string {
	var out []string
	if w.config != "" {
		out = append(out, filepath.Join(w.config, "awf", shelf))
	}
	if shelf == Roles && w.home != "" {
		out = append(out, filepath.Join(w.home, ".agents", "roles"))
	}
	return out
}

// Shelved finds a file by its name on a shelf: in folders that the environment
// names, in the project, in the user's own folders. Failures are
// *source.RefError.
func (p *Project) Shelved(shelf Shelf, name string) (*source.File, error) {
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return nil, &source.RefError{Ref: name, Problem: source.RefEscapes}
	}
	own := filepath.Join(p.Root, ".awf", shelf)
	missing := error(&source.RefError{Ref: name, Problem: source.RefMissing})
	for _, dir := range slices.Concat(p.space.first[shelf], []string{own}, p.space.usual(shelf)) {
		within, below := p.roots[0], filepath.Join(".awf", shelf)
		if dir != own {
			real, err := realPath(dir)
			if err != nil {
				continue
			}
			if within, err = p.confine(shelfRoot(real, shelf)); err != nil {
				continue
			}
			if below, err = filepath.Rel(within.dir, real); err != nil {
				continue
			}
		}
		f, err := p.open(within, filepath.Join(below, filepath.FromSlash(name)), name)
		var failed *source.RefError
		if err == nil || errors.As(err, &failed) && failed.Problem != source.RefMissing {
			return f, err
		}
		if dir == own {
			missing = err // it knows what is nearly called so
		}
	}
	return nil, missing
}

// ShelfFile is a file on a shelf.
type ShelfFile struct {
	Path  string // as shown
	First bool   // it comes before the project's own
}

// OnShelf lists the YAML files of a shelf outside of the project, in the order
// in which they are looked up.
func (w *Workspace) OnShelf(shelf Shelf) []ShelfFile {
	var out []ShelfFile
	for i, dirs := range [][]string{w.first[shelf], w.usual(shelf)} {
		for _, dir := range dirs {
			entries, err := os.ReadDir(dir)
			if err != nil {
				continue // most of these folders do not exist, which is all right
			}
			for _, e := range entries {
				info, err := fs.Stat(os.DirFS(dir), e.Name())
				if err == nil && info.Mode().IsRegular() && strings.HasSuffix(e.Name(), ".yaml") {
					out = append(out, ShelfFile{Path: w.Display(filepath.Join(dir, e.Name())), First: i == 0})
				}
			}
		}
	}
	return out
}

// shelfRoot is the folder that files of a shelf may refer to each other in: the
// one with all shelves, when the folder is one of several.
func shelfRoot(dir string, shelf Shelf) string {
	if filepath.Base(dir) == shelf {
		return filepath.Dir(dir)
	}
	return dir
}

// shelfOf is the root of the shelf that a folder, given by its real path, lies
// on; "" when it lies on none. Workflows there belong to nobody's project, so
// they run in that of the working folder.
func (w *Workspace) shelfOf(dir string) string {
	for _, one := range slices.Concat(w.first[Workflows], w.usual(Workflows)) {
		if real, err := realPath(one); err == nil && inside(real, dir) {
			return shelfRoot(real, Workflows)
		}
	}
	return ""
}

// confine opens a folder that may be read from.
func (p *Project) confine(dir string) (confined, error) {
	for _, r := range p.roots {
		if r.dir == dir {
			return r, nil
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return confined{}, err
	}
	p.roots = append(p.roots, confined{dir: dir, root: root})
	return p.roots[len(p.roots)-1], nil
}
