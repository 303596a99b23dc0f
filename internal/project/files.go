package project

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// files are those of the operating system, some of which have another text that is not saved yet, as in an editor. An
// unsaved file and its folders need not exist on the disk. All names are absolute. The map is not changed after the
// workspace is created.
type files struct {
	unsaved map[string]string // by path, as resolve returns it
}

// resolve resolves the symbolic links of a path as far as it exists on the disk; the rest stays as it is.
func resolve(name string) string {
	rest := ""
	for {
		real, err := filepath.EvalSymlinks(name)
		up := filepath.Dir(name)
		switch {
		case err == nil:
			return filepath.Join(real, rest)
		case up == name:
			return filepath.Join(name, rest)
		}
		name, rest = up, filepath.Join(filepath.Base(name), rest)
	}
}

// find returns the unsaved file at a path, or a folder of such files, or nil.
func (s files) find(name string) *unsavedFile {
	if len(s.unsaved) == 0 {
		return nil
	}
	name = resolve(name)
	if text, ok := s.unsaved[name]; ok {
		return newUnsavedFile(name, text)
	}
	for file := range s.unsaved {
		if inside(name, file) {
			return newUnsavedFolder(name)
		}
	}
	return nil
}

func (s files) stat(name string) (fs.FileInfo, error) {
	return prefer(s.find(name), func() (fs.FileInfo, error) { return os.Stat(name) })
}

// lstat describes what is on the disk, if there is anything: an unsaved text does not hide a symbolic link.
func (s files) lstat(name string) (fs.FileInfo, error) {
	info, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		if f := s.find(name); f != nil {
			return f, nil
		}
	}
	return info, err
}

func (s files) open(name string) (fs.File, error) {
	return prefer(s.find(name), func() (fs.File, error) { return os.Open(name) })
}

// prefer returns an unsaved file, or else what is on the disk, or else the folder of an unsaved file.
func prefer[T any](f *unsavedFile, disk func() (T, error)) (T, error) {
	if f == nil {
		return disk()
	}
	if f.IsDir() {
		if onDisk, err := disk(); err == nil {
			return onDisk, nil
		}
	}
	return any(f).(T), nil
}

// readDir returns the entries of a folder, sorted by name.
func (s files) readDir(name string) ([]fs.DirEntry, error) {
	entries, err := os.ReadDir(name)
	return s.addUnsaved(name, entries, err)
}

// addUnsaved adds the unsaved files of a folder to what reading it from the disk has returned.
func (s files) addUnsaved(dir string, entries []fs.DirEntry, err error) ([]fs.DirEntry, error) {
	if f := s.find(dir); f == nil || !f.IsDir() {
		return entries, err
	}
	known := map[string]bool{}
	for _, e := range entries {
		known[e.Name()] = true
	}
	dir = resolve(dir)
	for file, text := range s.unsaved {
		rel, err := filepath.Rel(dir, file)
		if err != nil || !filepath.IsLocal(rel) {
			continue
		}
		first, _, deeper := strings.Cut(rel, string(filepath.Separator))
		if known[first] {
			continue
		}
		known[first] = true
		entry := newUnsavedFile(first, text)
		if deeper {
			entry = newUnsavedFolder(first)
		}
		entries = append(entries, fs.FileInfoToDirEntry(entry))
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// evalSymlinks returns the path of an existing file without symbolic links.
func (s files) evalSymlinks(name string) (string, error) {
	if s.find(name) != nil {
		return resolve(name), nil
	}
	return filepath.EvalSymlinks(name)
}

// onlyUnsaved reports whether a folder exists only because a file in it is not saved yet.
func (s files) onlyUnsaved(dir string) bool {
	if s.find(dir) == nil {
		return false
	}
	_, err := os.Stat(dir)
	return err != nil
}

// root is a folder that cannot be left through symbolic links. Names are relative to it.
type root struct {
	files files
	dir   string // without symbolic links
	disk  *os.Root
}

// openRoot opens a folder, given by its path without symbolic links.
func (s files) openRoot(dir string) (*root, error) {
	disk, err := os.OpenRoot(dir)
	if err != nil && !s.onlyUnsaved(dir) {
		return nil, err
	}
	return &root{s, dir, disk}, nil
}

// find returns the unsaved file at a path, or a folder of such files, unless it is outside.
func (r *root) find(name string) *unsavedFile {
	full := filepath.Join(r.dir, filepath.FromSlash(name))
	if len(r.files.unsaved) == 0 || !filepath.IsLocal(filepath.FromSlash(name)) || !inside(r.dir, resolve(full)) {
		return nil
	}
	return r.files.find(full)
}

// Stat implements fs.StatFS.
func (r *root) Stat(name string) (fs.FileInfo, error) {
	return prefer(r.find(name), func() (fs.FileInfo, error) {
		if r.disk == nil {
			return nil, missing("stat", name)
		}
		return r.disk.Stat(name)
	})
}

// Open implements fs.FS.
func (r *root) Open(name string) (fs.File, error) {
	return prefer(r.find(name), func() (fs.File, error) {
		if r.disk == nil {
			return nil, missing("open", name)
		}
		return r.disk.Open(name)
	})
}

// ReadDir implements fs.ReadDirFS.
func (r *root) ReadDir(name string) (entries []fs.DirEntry, err error) {
	err = missing("open", name)
	if r.disk != nil {
		entries, err = fs.ReadDir(r.disk.FS(), name)
	}
	if r.find(name) == nil {
		return entries, err
	}
	return r.files.addUnsaved(filepath.Join(r.dir, filepath.FromSlash(name)), entries, err)
}

func (r *root) close() error {
	if r.disk == nil {
		return nil
	}
	return r.disk.Close()
}

// missing is the error of a file below a folder that is not on the disk.
func missing(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist} }

// unsavedFile is an unsaved file or the folder of one, open or only described.
type unsavedFile struct {
	*strings.Reader
	name string
	mode fs.FileMode
}

func newUnsavedFile(path, text string) *unsavedFile {
	return &unsavedFile{Reader: strings.NewReader(text), name: filepath.Base(path)}
}

func newUnsavedFolder(path string) *unsavedFile {
	return &unsavedFile{Reader: strings.NewReader(""), name: filepath.Base(path), mode: fs.ModeDir | 0o755}
}

func (f *unsavedFile) Stat() (fs.FileInfo, error) { return f, nil }
func (f *unsavedFile) Close() error               { return nil }
func (f *unsavedFile) Name() string               { return f.name }
func (f *unsavedFile) Size() int64                { return f.Reader.Size() }
func (f *unsavedFile) Mode() fs.FileMode          { return f.mode }
func (f *unsavedFile) ModTime() time.Time         { return time.Time{} }
func (f *unsavedFile) IsDir() bool                { return f.mode.IsDir() }
func (f *unsavedFile) Sys() any                   { return nil }
