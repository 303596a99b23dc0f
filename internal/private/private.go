package private

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Error reports that a path may be under the control of another user.
type Error struct {
	Path string
	Why  string // continues "PATH "
	Help string
}

func (e *Error) Error() string { return e.Path + " " + e.Why }

// Check returns an *Error if a path is a symbolic link, belongs to another user, or can be changed by others. A path
// that does not exist is accepted.
func Check(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		return &Error{
			Path: path, Why: "is a symbolic link",
			Help: "Remove the link; Espalier creates a folder instead.",
		}
	}
	return checkOwner(path, info)
}

// MakeFolder creates a folder that only its owner can access, or checks an existing one.
func MakeFolder(dir string) error {
	if err := Check(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return &Error{Path: dir, Why: "is not a folder", Help: fmt.Sprintf("Rename or remove %s.", dir)}
	}
	return Check(dir)
}
