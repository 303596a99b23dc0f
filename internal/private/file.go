package private

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/espalier-run/espalier/internal/filelock"
)

// File is a JSON file of its owner that several processes read and change. The next call sees changes by other
// processes. It is safe for concurrent use. The zero value of T represents a file that does not exist.
type File[T any] struct {
	path string

	mu     sync.Mutex
	seen   fs.FileInfo // the version that cached holds
	cached T
}

// NewFile returns the file at a path. It does not access the disk.
func NewFile[T any](path string) *File[T] { return &File[T]{path: path} }

// Read returns the content, from memory if the file has not changed. Callers must not change it.
func (f *File[T]) Read() (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.load()
}

// load is Read for callers that hold f.mu.
func (f *File[T]) load() (none T, err error) {
	info, err := os.Stat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.seen, f.cached = nil, none
		return none, nil
	case err != nil:
		return none, err
	}
	if s := f.seen; s != nil && os.SameFile(s, info) && s.ModTime().Equal(info.ModTime()) && s.Size() == info.Size() {
		return f.cached, nil
	}
	if err := Check(f.path); err != nil {
		return none, err
	}
	raw, err := os.ReadFile(f.path)
	if err != nil {
		return none, err
	}
	var content T
	if err := json.Unmarshal(raw, &content); err != nil {
		return none, fmt.Errorf("%s is damaged: %w", f.path, err)
	}
	f.seen, f.cached = info, content
	return content, nil
}

// Update replaces the content under a lock between processes. The file is replaced atomically, so readers see the old
// or the new content. change returns a new value and must not modify the old one.
func (f *File[T]) Update(change func(T) (T, error)) error {
	if err := MakeFolder(filepath.Dir(f.path)); err != nil {
		return err
	}
	lock, err := filelock.Open(f.path + ".lock")
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := lock.Exclusive(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	content, err := f.load()
	if err != nil {
		return err
	}
	if content, err = change(content); err != nil {
		return err
	}
	raw, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		return err
	}
	return replaceFile(f.path, append(raw, '\n'))
}

// replaceFile atomically replaces a file with one that only its owner can read.
func replaceFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".tmp-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
