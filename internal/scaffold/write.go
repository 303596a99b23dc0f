package scaffold

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/espalier-run/espalier/internal/xslices"
)

// A WriteError is the error of a file that cannot be written.
type WriteError struct {
	Name string // of the File
	Err  error
}

func (e *WriteError) Error() string { return fmt.Sprintf("%s cannot be written: %v", e.Name, e.Err) }

// Unwrap returns the cause.
func (e *WriteError) Unwrap() error { return e.Err }

// Create writes a file below a folder, whole or not at all, and the folders that it is in. It reports false if there is
// such a file already, which stays as it is: O_EXCL makes the check and the creation one step, and does not follow a
// symbolic link.
func Create(root string, file File) (created bool, err error) {
	full := filepath.Join(root, filepath.FromSlash(file.Name))
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		return false, &WriteError{file.Name, err}
	}
	f, err := os.OpenFile(full, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, &WriteError{file.Name, err}
	}
	_, err = f.WriteString(file.Text)
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(full)
		return false, &WriteError{file.Name, err}
	}
	return true, nil
}

// CreateAll writes files like Create, all or none: after an error, it removes what it has created. It returns the names
// of the new files, and of those that were there.
func CreateAll(root string, files []File) (created, kept []string, err error) {
	created = []string{}
	var missing []string
	for _, f := range files {
		missing = append(missing, missingFolders(root, f.Name)...)
		ok, err := Create(root, f)
		switch {
		case err != nil:
			for _, name := range created {
				err = errors.Join(err, os.Remove(filepath.Join(root, filepath.FromSlash(name))))
			}
			for _, folder := range slices.Backward(missing) {
				os.Remove(filepath.Join(root, filepath.FromSlash(folder))) // it stays if it is not empty
			}
			return nil, nil, err
		case ok:
			created = append(created, f.Name)
		default:
			kept = append(kept, f.Name)
		}
	}
	return created, kept, nil
}

// missingFolders returns the folders of a path that do not exist, the outermost first.
func missingFolders(root, file string) []string {
	return xslices.Filter(foldersOf(file), func(folder string) bool {
		_, err := os.Lstat(filepath.Join(root, filepath.FromSlash(folder)))
		return err != nil
	})
}
