package app

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/espalier-run/espalier/internal/protected"
)

// CheckTarget returns an *Error if a command must not write a result to a file, by its absolute path: a path in the
// project must lead neither out of it over a link, nor to configuration. Such a link may have come with a repository.
func (a *App) CheckTarget(path string) error {
	root, err := a.Root()
	if err != nil {
		return err
	}
	if root, err = filepath.EvalSymlinks(root); err != nil {
		return err
	}
	// The working folder may itself be reached over links, which are no concern of this check.
	if below, err := filepath.Rel(a.o.Dir, path); err == nil && filepath.IsLocal(below) {
		dir, err := filepath.EvalSymlinks(a.o.Dir)
		if err != nil {
			return err
		}
		path = filepath.Join(dir, below)
	}
	named, err := filepath.Rel(root, path)
	if err != nil || !filepath.IsLocal(named) {
		return nil // a person has chosen a place outside of the project
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil // such as a pipe: no file is written
	}
	at, err := leadsTo(path)
	if err != nil {
		return err
	}
	at, err = filepath.Rel(root, at)
	switch {
	case err == nil && at == named:
		return nil
	case err != nil || !filepath.IsLocal(at):
		return fail(InvalidRequest, "", "%q leads out of the project over a link", named).
			advise("Remove the link, or name another file.")
	}
	if err := protected.Path(at); err != nil {
		return fail(InvalidRequest, "", "%q leads over a link: %v", named, err).
			advise("Remove the link, or name another file.")
	}
	return nil
}

// leadsTo returns where writing to a path writes to. The file need not exist.
func leadsTo(path string) (string, error) {
	at, err := filepath.EvalSymlinks(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return at, err
	}
	if target, err := os.Readlink(path); err == nil {
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	return filepath.Join(dir, filepath.Base(path)), err
}
