package project

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
)

// MaxFileSize is the maximum size of a file. Workflows are written by hand; larger files are something else.
const MaxFileSize = 4 << 20

// Workspace is what one invocation of Espalier can see: the working folder, the user's own folders, and the projects of
// the files that were named. Several goroutines may use it and its projects at once.
type Workspace struct {
	files             files
	dir, home, config string
	first             map[LookupKind][]string

	// mu guards the fields below and what the projects remember. Exported methods lock it.
	mu       sync.Mutex
	projects map[string]*Project
	roots    map[string]string // FindRoot by folder: it asks the disk a lot
}

// NewWorkspace returns the workspace of a working folder. home is the user's folder, and config has a folder for each
// LookupKind; either may be empty. unsaved has texts that count instead of the files at their paths, which need not
// exist.
func NewWorkspace(dir, home, config string, unsaved map[string]string) (*Workspace, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	w := &Workspace{
		files: files{map[string]string{}}, dir: dir, home: home, config: config,
		projects: map[string]*Project{}, roots: map[string]string{}, first: map[LookupKind][]string{},
	}
	for path, text := range unsaved {
		w.files.unsaved[resolve(w.abs(path))] = text
	}
	if w.dir, err = w.files.evalSymlinks(dir); err != nil {
		return nil, err
	}
	return w, nil
}

// Close closes every project that was opened.
func (w *Workspace) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var err error
	for _, p := range w.projects {
		err = errors.Join(err, p.close())
	}
	return err
}

// Here returns the project of the working folder.
func (w *Workspace) Here() (*Project, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.of(w.dir)
}

// At returns the project of a folder.
func (w *Workspace) At(dir string) (*Project, error) {
	real, err := w.realPath(w.abs(dir))
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.of(real)
}

// of returns the project that a folder, given by its real path, belongs to. A workflow of the user, outside of any
// project, belongs to the project of the working folder, which may then read from the folder of that workflow. w.mu is
// held.
func (w *Workspace) of(dir string) (*Project, error) {
	root, ok := w.roots[dir]
	if !ok {
		root = w.files.findRoot(dir)
		w.roots[dir] = root
	}
	outside := w.workflowRoot(dir)
	if outside == "" || inside(outside, w.dir) || inside(w.files.findRoot(w.dir), dir) {
		return w.at(root)
	}
	here, err := w.at(w.files.findRoot(w.dir))
	if err != nil {
		return nil, err
	}
	_, err = here.confine(outside)
	return here, err
}

// at returns the project with a root folder, and opens it the first time. w.mu is held.
func (w *Workspace) at(dir string) (*Project, error) {
	if p, ok := w.projects[dir]; ok {
		return p, nil
	}
	opened, err := w.files.openRoot(dir)
	if err != nil {
		return nil, err
	}
	p := &Project{
		Root: dir, space: w, files: map[string]*source.File{}, missing: map[missingFile]error{},
		roots: []*root{opened},
	}
	w.projects[dir] = p
	return p, nil
}

// File reads a file that the user named and opens its project. Failures are *source.RefError, unless the project itself
// cannot be opened.
func (w *Workspace) File(path string) (*Project, *source.File, error) {
	real, err := w.realPath(w.abs(path))
	if err != nil {
		return nil, nil, w.unreadable(path, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	dir := filepath.Dir(real)
	// A folder that is not on the disk is no project.
	for len(w.files.unsaved) > 0 && dir != w.dir && dir != filepath.Dir(dir) {
		if _, err := os.Stat(dir); err == nil {
			break
		}
		dir = filepath.Dir(dir)
	}
	p, err := w.of(dir)
	if err != nil {
		return nil, nil, err
	}
	if f, ok := p.files[real]; ok {
		return p, f, nil
	}
	info, err := w.files.stat(real)
	if err != nil {
		return nil, nil, w.unreadable(path, err)
	}
	text, err := readText(path, info, func() (fs.File, error) { return w.files.open(real) })
	if err != nil {
		return nil, nil, err
	}
	f := source.NewFile(w.typed(path, real), text)
	f.Abs = real
	p.files[real] = f
	return p, f, nil
}

// IsDir reports whether a path that the user named is a folder.
func (w *Workspace) IsDir(path string) bool {
	info, err := w.files.stat(w.abs(path))
	return err == nil && info.IsDir()
}

// Exists reports whether there is anything at a path that the user named.
func (w *Workspace) Exists(path string) bool {
	_, err := w.files.stat(w.abs(path))
	return err == nil
}

// mainFiles are the files that represent their folder, the first one found.
var mainFiles = []string{"workflow.yaml", skillFile}

// IsMain reports whether a file of this name represents its folder.
func IsMain(name string) bool { return slices.Contains(mainFiles, name) }

// Main returns the main file of a folder: workflow.yaml or SKILL.md, in exactly this spelling; "" if it has neither.
func (w *Workspace) Main(dir string) string {
	entries, err := w.files.readDir(w.abs(dir))
	if err != nil {
		return ""
	}
	for _, name := range mainFiles {
		if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == name && !e.IsDir() }) {
			return filepath.Join(dir, name)
		}
	}
	return ""
}

// Display returns a path as it is shown: from the working folder when that is shorter, with forward slashes.
func (w *Workspace) Display(abs string) string {
	rel, err := filepath.Rel(w.dir, abs)
	if err != nil || len(rel) > len(abs) {
		return filepath.ToSlash(abs)
	}
	return filepath.ToSlash(rel)
}

func (w *Workspace) abs(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(w.dir, path)
}

// typed keeps the name under which the user knows a file.
func (w *Workspace) typed(path, real string) string {
	path = filepath.Clean(path)
	if _, unsaved := w.files.unsaved[real]; filepath.IsAbs(path) && !unsaved {
		return w.Display(real)
	}
	return filepath.ToSlash(path)
}

// unreadable returns the reason why a path that the user named cannot be used.
func (w *Workspace) unreadable(path string, err error) error {
	if _, direct := w.files.stat(w.abs(path)); direct != nil {
		err = direct // it explains cycles of links better than EvalSymlinks
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return &source.RefError{Ref: path, Problem: source.RefUnread, Detail: reason(err)}
	}
	if _, err := w.files.lstat(w.abs(path)); err == nil {
		return &source.RefError{Ref: path, Problem: source.RefUnread, Detail: "this symbolic link leads to nothing"}
	}
	near := &source.RefError{Ref: path, Problem: source.RefMissing}
	dir, base := filepath.Split(path)
	entries, err := w.files.readDir(w.abs(dir))
	if err != nil {
		return near
	}
	if one := diag.Nearest(base, entryNames(entries)); one != "" {
		near.Near = []string{filepath.ToSlash(dir + one)}
	}
	return near
}

// realPath returns a path that is absolute and free of symbolic links, so that one file has one path and one project.
func (w *Workspace) realPath(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return w.files.evalSymlinks(abs)
}

// readText reads a whole file. The kind of file is looked at before it is opened: opening a named pipe waits for a
// writer.
func readText(name string, info fs.FileInfo, open func() (fs.File, error)) (string, error) {
	if !info.Mode().IsRegular() {
		return "", &source.RefError{Ref: name, Problem: source.RefNotFile, Detail: kindOf(info)}
	}
	f, err := open()
	if err != nil {
		return "", &source.RefError{Ref: name, Problem: source.RefUnread, Detail: reason(err)}
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, MaxFileSize+1))
	if err != nil {
		return "", &source.RefError{Ref: name, Problem: source.RefUnread, Detail: reason(err)}
	}
	text := string(raw)
	return text, acceptable(name, text)
}

func acceptable(name, text string) error {
	switch {
	case len(text) > MaxFileSize:
		return &source.RefError{
			Ref: name, Problem: source.RefTooLarge,
			Detail: fmt.Sprintf("files may have up to %d MiB", MaxFileSize>>20),
		}
	case !utf8.ValidString(text):
		return &source.RefError{Ref: name, Problem: source.RefUnread, Detail: "it is not UTF-8 text"}
	}
	return nil
}

func kindOf(info fs.FileInfo) string {
	if info.IsDir() {
		return "it is a folder"
	}
	return "it is a special file"
}

// reason returns the message of the operating system without the path, which the surrounding message contains.
func reason(err error) string {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err.Error()
	}
	return err.Error()
}

func entryNames(entries []fs.DirEntry) []string {
	names := map[string]bool{}
	for _, e := range entries {
		names[e.Name()] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// inside reports whether path is dir or lies in it; both are real paths.
func inside(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}
