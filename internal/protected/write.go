package protected

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// maxLinks is the maximum number of symbolic links on a path.
const maxLinks = 32

// Resolve returns where a path below root leads once its symbolic links are
// followed, with slashes. It returns an error when the path, at any point on
// the way, leaves root or names configuration. The last component is not
// followed: WriteFile replaces a link and does not write through it.
func Resolve(root *os.Root, name string) (string, error) {
	rest := path.Clean(filepath.ToSlash(name))
	for range maxLinks {
		if !filepath.IsLocal(filepath.FromSlash(rest)) {
			return "", fmt.Errorf("%q leads out of its folder", name)
		}
		if err := Path(rest); err != nil {
			return "", err
		}
		next, err := followFirst(root, rest)
		if err != nil || next == "" {
			return rest, err
		}
		rest = next
	}
	return "", fmt.Errorf("%q leads over too many links", name)
}

// followFirst returns a path with the first symbolic link among its folders replaced by its target; "" if there is
// none.
func followFirst(root *os.Root, name string) (string, error) {
	parts := strings.Split(name, "/")
	for i := range parts[:len(parts)-1] {
		at := path.Join(parts[:i+1]...)
		info, err := root.Lstat(filepath.FromSlash(at))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return "", nil
		case err != nil:
			return "", err
		case info.Mode()&fs.ModeSymlink == 0:
			continue
		}
		target, err := root.Readlink(filepath.FromSlash(at))
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(target) {
			if target, err = filepath.Rel(root.Name(), target); err != nil {
				return "", err
			}
		} else {
			target = filepath.Join(filepath.FromSlash(path.Dir(at)), target)
		}
		return path.Join(filepath.ToSlash(target), path.Join(parts[i+1:]...)), nil
	}
	return "", nil
}

// Options configures WriteFile.
type Options struct {
	File, Folder fs.FileMode // modes of new files and folders
	// Keep describes files that must not be changed.
	Keep Files
}

// Files describes files that a run must not change.
type Files struct {
	// Sums are the SHA-256 sums of the contents of files, in hexadecimal.
	Sums []string
	// Consents reports whether naming a file of this path and content is consent to the commands in it; nil if no file
	// is. A run neither changes nor creates such a file, because its commands would be those of a model.
	Consents func(path string, content []byte) bool
	// Record records a content before a run writes it into the project; nil records nothing.
	Record func(content []byte) error
}

// Allow returns an *Error if old, the content of the file at a path, must not be replaced, or if it must not be
// replaced by a new content. Otherwise it records the new content. old is nil if there is no such file.
func (f Files) Allow(path string, old, content []byte) error {
	if old != nil && len(f.Sums) > 0 {
		sum := sha256.Sum256(old)
		if slices.Contains(f.Sums, hex.EncodeToString(sum[:])) {
			return &Error{Path: path}
		}
	}
	if f.Consents != nil && (old != nil && f.Consents(path, old) || f.Consents(path, content)) {
		return &Error{Path: path, Consent: true}
	}
	if f.Record != nil {
		return f.Record(content)
	}
	return nil
}

// WriteFile writes a file below root atomically, and creates missing folders. It
// returns an *Error for a path that names configuration, also through a symbolic
// link, and for a file that Options.Keep protects.
func WriteFile(root *os.Root, name string, content []byte, o Options) (err error) {
	resolved, err := Resolve(root, name)
	if err != nil {
		return err
	}
	name = filepath.FromSlash(resolved)
	old, err := root.ReadFile(name)
	if err != nil {
		old = nil // it does not exist, or is not a file, which the rename below cannot replace
	}
	if err := o.Keep.Allow(resolved, old, content); err != nil {
		return err
	}
	if dir := filepath.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, o.Folder); err != nil {
			return err
		}
	}
	fresh := filepath.Join(filepath.Dir(name), "."+rand.Text()+".new")
	f, err := root.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_EXCL, o.File)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = root.Rename(fresh, name)
	}
	if err != nil {
		_ = root.Remove(fresh) // incomplete
	}
	return err
}
