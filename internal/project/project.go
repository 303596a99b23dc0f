package project

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Project is a folder within which workflows may refer to each other. The mutex of its workspace guards it.
type Project struct {
	Root string // absolute, free of symbolic links

	space *Workspace
	// roots are the folders that may be read from, the project's first; the others are skills in the user's own
	// folders, each confined to itself.
	roots []*root
	files map[string]*source.File // by absolute path: one text is one File
	// missing are the errors of files that do not exist: all workflows of a folder may look for the same one, and
	// finding a name to suggest reads the folder.
	missing map[missingFile]error

	skills  []Skill
	skipped []Skipped
	scanned bool
}

type missingFile struct{ dir, name, ref string }

func (p *Project) close() error {
	var err error
	for _, r := range p.roots {
		err = errors.Join(err, r.close())
	}
	return err
}

// Read follows a reference as it is written in a file: from the file's own folder, then from the root that the file is
// confined to. Failures are *source.RefError.
func (p *Project) Read(from *source.File, ref string) (*source.File, error) {
	p.space.mu.Lock()
	defer p.space.mu.Unlock()
	switch {
	case ref == "":
		return nil, &source.RefError{Ref: ref, Problem: source.RefMissing}
	case strings.Contains(ref, "://"):
		return nil, &source.RefError{
			Ref: ref, Problem: source.RefEscapes,
			Detail: "only files of the project can be referred to",
		}
	case isAbsolute(ref):
		return nil, &source.RefError{Ref: ref, Problem: source.RefAbsolute}
	}
	within := p.confining(from)
	folder := "."
	if rel, err := filepath.Rel(within.dir, filepath.Dir(from.Abs)); err == nil && from.Abs != "" {
		folder = rel
	}
	var first error
	for _, name := range []string{filepath.Join(folder, ref), filepath.Clean(ref)} {
		f, err := p.open(within, name, ref)
		if err == nil {
			return f, nil
		}
		if failed, ok := errors.AsType[*source.RefError](err); ok && failed.Problem != source.RefMissing {
			return nil, err
		}
		first = cmp.Or(first, err)
	}
	return nil, first
}

// confining returns the innermost root that contains the file.
func (p *Project) confining(f *source.File) *root {
	best := p.roots[0]
	for _, r := range p.roots[1:] {
		if inside(r.dir, f.Abs) && (len(r.dir) > len(best.dir) || !inside(best.dir, f.Abs)) {
			best = r
		}
	}
	return best
}

// open reads a file by its name below a root. Each text is read once: a workflow that is read twice during a command is
// the same file, also if it changes meanwhile. space.mu is held.
func (p *Project) open(within *root, name, ref string) (*source.File, error) {
	if !filepath.IsLocal(name) {
		return nil, &source.RefError{Ref: ref, Problem: source.RefEscapes}
	}
	info, err := within.Stat(name)
	if err != nil {
		key := missingFile{within.dir, name, ref}
		if p.missing[key] == nil || !errors.Is(err, fs.ErrNotExist) {
			p.missing[key] = refused(within, name, ref, err)
		}
		return nil, p.missing[key]
	}
	abs, err := p.space.files.evalSymlinks(filepath.Join(within.dir, name))
	if err != nil {
		return nil, refused(within, name, ref, err)
	}
	if f, ok := p.files[abs]; ok {
		return f, nil
	}
	text, err := readText(ref, info, func() (fs.File, error) { return within.Open(name) })
	if err != nil {
		return nil, err
	}
	f := source.NewFile(p.space.Display(abs), text)
	f.Abs = abs
	p.files[abs] = f
	return f, nil
}

// refused converts an error of a Root to a RefError.
func refused(within *root, name, ref string, err error) error {
	failed := &source.RefError{Ref: ref, Problem: source.RefUnread, Detail: reason(err)}
	var number syscall.Errno
	switch {
	case errors.Is(err, fs.ErrNotExist):
		failed.Problem, failed.Detail = source.RefMissing, ""
		if entries, err := within.ReadDir(filepath.ToSlash(filepath.Dir(name))); err == nil {
			if near := diag.Nearest(filepath.Base(name), entryNames(entries)); near != "" {
				failed.Near = []string{path.Join(path.Dir(filepath.ToSlash(ref)), near)}
			}
		}
	case errors.As(err, &number):
		// A path component is a file, so nothing can exist below it.
		if errors.Is(err, syscall.ENOTDIR) {
			failed.Problem = source.RefMissing
		}
	default:
		// The operating system did not fail, so os.Root did: the path leaves it.
		failed.Problem, failed.Detail = source.RefEscapes, "a symbolic link on the way leads out of the project"
	}
	return failed
}

// isAbsolute reports whether a reference is an absolute path on any system, so that a workflow is equally invalid on
// all of them.
func isAbsolute(ref string) bool {
	if filepath.IsAbs(ref) || strings.HasPrefix(ref, "/") || strings.HasPrefix(ref, `\`) {
		return true
	}
	return len(ref) >= 2 && ref[1] == ':' && ('a' <= ref[0]|0x20 && ref[0]|0x20 <= 'z')
}

// Skipped is a file or folder that a search left out.
type Skipped struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// Searches are bounded, because users run `espalier list` in home folders and at the root of a disk.
const (
	maxDepth   = 16
	maxFolders = 20_000
)

// Candidates lists, by display path in sorted order, the files below a folder whose names could be workflows'. Hidden
// folders are left out, except those where workflows and skills are kept; symbolic links are not followed.
func (p *Project) Candidates(dir string) (paths []string, skipped []Skipped) {
	start, err := p.space.realPath(p.space.abs(dir))
	if err != nil {
		return nil, []Skipped{{Path: filepath.ToSlash(dir), Reason: reason(err)}}
	}
	files, _, skipped := p.walk(start)
	paths = xslices.Map(files, p.space.Display)
	slices.Sort(paths)
	return paths, skipped
}

// WorkflowFiles returns the files below a folder that Candidates lists, and all folders that it looks into, as absolute
// paths.
func (p *Project) WorkflowFiles(dir string) (files, folders []string) {
	start, err := p.space.realPath(p.space.abs(dir))
	if err != nil {
		return nil, nil
	}
	files, folders, _ = p.walk(start)
	return files, folders
}

// walk returns the files below a folder whose names could be workflows', the folders that it has read, and what it has
// left out because of limits or errors.
func (p *Project) walk(start string) (files, folders []string, skipped []Skipped) {
	full := false
	var walk func(at string, depth int)
	walk = func(at string, depth int) {
		if depth > maxDepth || len(folders) >= maxFolders {
			if !full {
				full = len(folders) >= maxFolders
				skipped = append(skipped,
					Skipped{Path: p.space.Display(at), Reason: "there are too many folders to look into them all"})
			}
			return
		}
		folders = append(folders, at)
		entries, err := p.space.files.readDir(at)
		if err != nil {
			skipped = append(skipped, Skipped{Path: p.space.Display(at), Reason: reason(err)})
		}
		for _, e := range entries {
			name := filepath.Join(at, e.Name())
			switch {
			case e.IsDir():
				if !leftOut(e.Name()) {
					walk(name, depth+1)
				}
			case e.Type().IsRegular() && CouldBeWorkflow(e.Name()):
				files = append(files, name)
			}
		}
	}
	walk(start, 0)
	return files, folders, skipped
}

// IsCandidate reports whether a path, which need not exist, is one that Candidates lists for the root of the project:
// inside of it, in no hidden folder, behind no symbolic link, and with the extension of a workflow.
func (p *Project) IsCandidate(path string) bool {
	abs := p.space.abs(path)
	abs = filepath.Join(resolve(filepath.Dir(abs)), filepath.Base(abs))
	rel, err := filepath.Rel(p.Root, abs)
	if err != nil || !filepath.IsLocal(rel) || !CouldBeWorkflow(rel) {
		return false
	}
	folders := strings.Split(filepath.ToSlash(filepath.Dir(rel)), "/")
	if folders[0] != "." && slices.ContainsFunc(folders, leftOut) {
		return false
	}
	info, err := p.space.files.lstat(abs)
	return errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode().IsRegular()
}

// leftOut reports whether a search does not enter a folder: it holds code of others, or files for tests.
func leftOut(folder string) bool {
	switch folder {
	case ".agents", ".claude", ".awf":
		return false
	case "node_modules", "vendor", "testdata":
		return true
	}
	return strings.HasPrefix(folder, ".")
}

// CouldBeWorkflow goes by the file extensions of the formats, so that searching need not open every file.
func CouldBeWorkflow(name string) bool {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".md", ".yaml", ".yml", ".aiflow":
		return true
	}
	return false
}
