package registry

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/espalier-run/espalier/internal/journal/owner"
	"github.com/espalier-run/espalier/internal/journal/sqlite"
)

// ReadOnly reports whether the storage folder cannot be written, so that runs can only be shown.
func (r *Runtime) ReadOnly() bool { return r.copied != "" }

// openCopy opens a storage folder that cannot be written, such as a backup on a read-only medium. What is shown comes
// from a copy in a temporary folder, where the records that the journal has and the folder lacks are written. The
// journal refuses every change.
func (r *Runtime) openCopy() (err error) {
	if r.copied, err = os.MkdirTemp("", "espalier-copy-"); err != nil { // with mode 0700
		return err
	}
	storage := filepath.Join(r.dir, "storage")
	if err := os.CopyFS(filepath.Join(r.copied, "storage"), os.DirFS(storage)); err != nil &&
		!errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := filepath.WalkDir(r.copied, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = os.Chmod(path, 0o700)
		} else if err == nil {
			err = os.Chmod(path, 0o600)
		}
		return err
	}); err != nil {
		return err
	}
	path := filepath.Join(r.copied, JournalFile)
	if err := sqlite.Copy(filepath.Join(r.dir, JournalFile), path); err != nil {
		return err
	}
	process := owner.Observe(filepath.Join(r.dir, "owners"))
	r.Process = process
	r.Store, err = sqlite.Open(path, sqlite.Options{Relaxed: true, Dead: process.Dead, Frozen: true})
	return err
}
