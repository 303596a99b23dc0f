package project

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// FileSystem is what a Workspace reads from. All names are absolute paths of the operating system. Failures are of the
// kinds of package io/fs.
type FileSystem interface {
	Stat(name string) (fs.FileInfo, error)
	Lstat(name string) (fs.FileInfo, error)
	ReadDir(name string) ([]fs.DirEntry, error)
	Open(name string) (fs.File, error)
	// EvalSymlinks returns the path of an existing file without symbolic links.
	EvalSymlinks(name string) (string, error)
	// OpenRoot opens a folder whose files cannot be left through symbolic links.
	OpenRoot(dir string) (Root, error)
}

// Root is a folder of a FileSystem. Names are relative to it.
type Root interface {
	Stat(name string) (fs.FileInfo, error)
	Open(name string) (fs.File, error)
	FS() fs.FS
	Close() error
}

// Disk is the file system of the operating system.
type Disk struct{}

// Stat calls os.Stat.
func (Disk) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

// Lstat calls os.Lstat.
func (Disk) Lstat(name string) (fs.FileInfo, error) { return os.Lstat(name) }

// ReadDir calls os.ReadDir.
func (Disk) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }

// Open calls os.Open.
func (Disk) Open(name string) (fs.File, error) { return os.Open(name) }

// EvalSymlinks calls filepath.EvalSymlinks.
func (Disk) EvalSymlinks(name string) (string, error) { return filepath.EvalSymlinks(name) }

// OpenRoot calls os.OpenRoot.
func (Disk) OpenRoot(dir string) (Root, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return diskRoot{root}, nil
}

type diskRoot struct{ *os.Root }

func (r diskRoot) Open(name string) (fs.File, error) { return r.Root.Open(name) }

// Overlay is a FileSystem in which some files have other texts than in the one below, such as the unsaved texts of an
// editor. Files may also exist in the overlay alone; without a file system below, nothing else exists. It is safe for
// concurrent use.
type Overlay struct {
	below FileSystem

	mu    sync.RWMutex
	texts map[string]string // by absolute path without symbolic links
}

// NewOverlay returns an overlay without texts. below may be nil.
func NewOverlay(below FileSystem) *Overlay {
	if below == nil {
		below = nothing{}
	}
	return &Overlay{below: below, texts: map[string]string{}}
}

// nothing is a FileSystem without files.
type nothing struct{}

func (nothing) Stat(name string) (fs.FileInfo, error)      { return nil, missing("stat", name) }
func (nothing) Lstat(name string) (fs.FileInfo, error)     { return nil, missing("lstat", name) }
func (nothing) ReadDir(name string) ([]fs.DirEntry, error) { return nil, missing("readdir", name) }
func (nothing) Open(name string) (fs.File, error)          { return nil, missing("open", name) }
func (nothing) EvalSymlinks(name string) (string, error)   { return "", missing("lstat", name) }
func (nothing) OpenRoot(dir string) (Root, error)          { return nil, missing("open", dir) }

func missing(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist} }

// Set makes text the content of a file.
func (o *Overlay) Set(name, text string) {
	name = o.key(name)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.texts[name] = text
}

// Unset removes the text of a file, so that the file below is visible again.
func (o *Overlay) Unset(name string) {
	name = o.key(name)
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.texts, name)
}

// key resolves the symbolic links of a path as far as it exists below.
func (o *Overlay) key(name string) string {
	if real, err := o.below.EvalSymlinks(name); err == nil {
		return real
	}
	if up := filepath.Dir(name); up != name {
		return filepath.Join(o.key(up), filepath.Base(name))
	}
	return name
}

// find returns what the overlay has at a path: a file, a folder of such files, or nil.
func (o *Overlay) find(name string) *overlaid {
	name = o.key(name)
	o.mu.RLock()
	defer o.mu.RUnlock()
	if text, ok := o.texts[name]; ok {
		return &overlaid{name: filepath.Base(name), size: int64(len(text)), Reader: strings.NewReader(text)}
	}
	for file := range o.texts {
		if inside(name, file) {
			return &overlaid{name: filepath.Base(name), mode: fs.ModeDir | 0o755, Reader: strings.NewReader("")}
		}
	}
	return nil
}

// Stat returns the description of a file.
func (o *Overlay) Stat(name string) (fs.FileInfo, error) {
	return o.stat(name, FileSystem.Stat)
}

// Lstat is Stat for files of the overlay.
func (o *Overlay) Lstat(name string) (fs.FileInfo, error) {
	return o.stat(name, FileSystem.Lstat)
}

func (o *Overlay) stat(name string, below func(FileSystem, string) (fs.FileInfo, error)) (fs.FileInfo, error) {
	f := o.find(name)
	if f == nil || f.IsDir() {
		if info, err := below(o.below, name); err == nil || f == nil {
			return info, err
		}
	}
	return f, nil
}

// Open opens a file for reading.
func (o *Overlay) Open(name string) (fs.File, error) {
	f := o.find(name)
	if f == nil || f.IsDir() {
		if file, err := o.below.Open(name); err == nil || f == nil {
			return file, err
		}
	}
	return f, nil
}

// ReadDir returns the entries of a folder, sorted by name.
func (o *Overlay) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := o.below.ReadDir(name)
	if err != nil && o.find(name) == nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, e := range entries {
		known[e.Name()] = true
	}
	name = o.key(name)
	o.mu.RLock()
	defer o.mu.RUnlock()
	for file, text := range o.texts {
		rel, err := filepath.Rel(name, file)
		if err != nil || !inside(name, file) || rel == "." {
			continue
		}
		first, _, deeper := strings.Cut(rel, string(filepath.Separator))
		if known[first] {
			continue
		}
		known[first] = true
		entry := &overlaid{name: first, size: int64(len(text))}
		if deeper {
			entry.mode = fs.ModeDir | 0o755
		}
		entries = append(entries, fs.FileInfoToDirEntry(entry))
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// EvalSymlinks returns the path of an existing file without symbolic links.
func (o *Overlay) EvalSymlinks(name string) (string, error) {
	if o.find(name) != nil {
		return o.key(name), nil
	}
	return o.below.EvalSymlinks(name)
}

// OpenRoot opens a folder. Files are inside if their own paths are, without symbolic links.
func (o *Overlay) OpenRoot(dir string) (Root, error) {
	if _, err := o.Stat(dir); err != nil {
		return nil, err
	}
	return overlayRoot{o, dir}, nil
}

type overlayRoot struct {
	overlay *Overlay
	dir     string
}

// path returns the path of a file in the folder.
func (r overlayRoot) path(op, name string) (string, error) {
	name = filepath.FromSlash(name)
	full := filepath.Join(r.dir, name)
	if !filepath.IsLocal(name) || !inside(r.overlay.key(r.dir), r.overlay.key(full)) {
		return "", &fs.PathError{Op: op, Path: name, Err: errors.New("path escapes from parent")}
	}
	return full, nil
}

func (r overlayRoot) Stat(name string) (fs.FileInfo, error) {
	full, err := r.path("stat", name)
	if err != nil {
		return nil, err
	}
	return r.overlay.Stat(full)
}

func (r overlayRoot) Open(name string) (fs.File, error) {
	full, err := r.path("open", name)
	if err != nil {
		return nil, err
	}
	return r.overlay.Open(full)
}

func (r overlayRoot) ReadDir(name string) ([]fs.DirEntry, error) {
	full, err := r.path("readdir", name)
	if err != nil {
		return nil, err
	}
	return r.overlay.ReadDir(full)
}

func (r overlayRoot) FS() fs.FS { return r }

func (overlayRoot) Close() error { return nil }

// overlaid is a file or a folder of an overlay, open or only described.
type overlaid struct {
	*strings.Reader
	name string
	mode fs.FileMode
	size int64
}

func (f *overlaid) Stat() (fs.FileInfo, error) { return f, nil }
func (f *overlaid) Close() error               { return nil }
func (f *overlaid) Name() string               { return f.name }
func (f *overlaid) Size() int64                { return f.size }
func (f *overlaid) Mode() fs.FileMode          { return f.mode }
func (f *overlaid) ModTime() time.Time         { return time.Time{} }
func (f *overlaid) IsDir() bool                { return f.mode.IsDir() }
func (f *overlaid) Sys() any                   { return nil }
