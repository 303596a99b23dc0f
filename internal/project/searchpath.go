package project

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/source"
)

// LookupKind is a kind of file that AWF also finds by name outside of a project. Its value is the folder's name.
type LookupKind = string

// The lookup kinds.
const (
	Workflows LookupKind = "workflows"
	Prompts   LookupKind = "prompts"
	Scripts   LookupKind = "scripts"
	Templates LookupKind = "templates"
	Roles     LookupKind = "roles"
	Skills    LookupKind = "skills"
)

// SearchFirst adds folders that are searched before the project's own, from the user's environment. Relative paths
// start at the working directory. It must be called before any other method.
func (w *Workspace) SearchFirst(kind LookupKind, dirs ...string) {
	for _, dir := range dirs {
		if dir != "" {
			w.first[kind] = append(w.first[kind], w.abs(dir))
		}
	}
}

// userDirs returns the folders that are searched after the project's own.
func (w *Workspace) userDirs(kind LookupKind) []string {
	var out []string
	if w.config != "" {
		out = append(out, filepath.Join(w.config, kind))
	}
	if kind == Roles && w.home != "" {
		out = append(out, filepath.Join(w.home, ".agents", "roles"))
	}
	return out
}

// Lookup finds a file by name: in folders from the environment, in the project, then in the user's own folders.
// Failures are *source.RefError.
func (p *Project) Lookup(kind LookupKind, name string) (*source.File, error) {
	p.space.mu.Lock()
	defer p.space.mu.Unlock()
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return nil, &source.RefError{Ref: name, Problem: source.RefEscapes}
	}
	own := filepath.Join(p.Root, ".awf", kind)
	missing := error(&source.RefError{Ref: name, Problem: source.RefMissing})
	for _, dir := range p.SearchDirs(kind) {
		within, below := p.roots[0], filepath.Join(".awf", kind)
		if dir != own {
			real, err := p.space.realPath(dir)
			if err != nil {
				continue
			}
			if within, err = p.confine(lookupRoot(real, kind)); err != nil {
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
			missing = err // this error suggests similar names
		}
	}
	return nil, missing
}

// SearchDirs returns the folders that Lookup searches, in order. Most of them do not exist.
func (p *Project) SearchDirs(kind LookupKind) []string {
	return slices.Concat(p.space.first[kind], []string{filepath.Join(p.Root, ".awf", kind)}, p.space.userDirs(kind))
}

// Names returns the names of the YAML files of a kind, in the order in which Lookup searches.
func (p *Project) Names(kind LookupKind) []string {
	var names []string
	for _, dir := range p.SearchDirs(kind) {
		entries, err := p.space.files.readDir(dir)
		if err != nil {
			continue // Lookup skips it, too
		}
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), ".yaml") && !slices.Contains(names, e.Name()) {
				names = append(names, e.Name())
			}
		}
	}
	return names
}

// FoundFile is a file on the search path.
type FoundFile struct {
	Path  string // for display
	First bool   // searched before the project's own
}

// FilesOutside lists the YAML files of a kind outside of the project, in search order.
func (w *Workspace) FilesOutside(kind LookupKind) []FoundFile {
	var out []FoundFile
	for i, dirs := range [][]string{w.first[kind], w.userDirs(kind)} {
		for _, dir := range dirs {
			entries, err := w.files.readDir(dir)
			if err != nil {
				continue // most of these folders do not exist
			}
			for _, e := range entries {
				info, err := w.files.stat(filepath.Join(dir, e.Name()))
				if err == nil && info.Mode().IsRegular() && strings.HasSuffix(e.Name(), ".yaml") {
					out = append(out, FoundFile{Path: w.Display(filepath.Join(dir, e.Name())), First: i == 0})
				}
			}
		}
	}
	return out
}

// lookupRoot returns the folder in which files of the given folder may refer to each other: its parent if the folder is
// named after its kind.
func lookupRoot(dir string, kind LookupKind) string {
	if filepath.Base(dir) == kind {
		return filepath.Dir(dir)
	}
	return dir
}

// workflowRoot returns the lookup root that contains dir, given as a real path, or "". Workflows there belong to no
// project, so they run in the project of the working directory.
func (w *Workspace) workflowRoot(dir string) string {
	for _, one := range slices.Concat(w.first[Workflows], w.userDirs(Workflows)) {
		if real, err := w.realPath(one); err == nil && inside(real, dir) {
			return lookupRoot(real, Workflows)
		}
	}
	return ""
}

// confine opens a folder for reading, once, beside the root of the project. space.mu is held.
func (p *Project) confine(dir string) (*root, error) {
	for _, r := range p.roots {
		if r.dir == dir {
			return r, nil
		}
	}
	opened, err := p.space.files.openRoot(dir)
	if err != nil {
		return nil, err
	}
	p.roots = append(p.roots, opened)
	return opened, nil
}
