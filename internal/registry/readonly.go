package registry

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/espalier-run/espalier/internal/filelock"
	"github.com/espalier-run/espalier/internal/journal/owner"
	"github.com/espalier-run/espalier/internal/journal/sqlite"
)

// ReadOnly reports whether the storage folder cannot be written, so that runs can only be shown.
func (r *Runtime) ReadOnly() bool { return r.copied != "" }

// openCopy opens a storage folder that cannot be written, such as a backup on a read-only medium. What is shown comes
// from a copy in a temporary folder, where the records that the journal has and the folder lacks are written. The
// journal refuses every change.
func (r *Runtime) openCopy() (err error) {
	removeDeadCopies()
	if r.copied, err = os.MkdirTemp("", copyPrefix); err != nil { // with mode 0700
		return err
	}
	if r.copyLock, err = filelock.Open(filepath.Join(r.copied, copyLock)); err != nil {
		return err
	}
	if err := r.copyLock.Exclusive(); err != nil {
		return err
	}
	storage := filepath.Join(r.dir, "storage")
	if err := os.CopyFS(filepath.Join(r.copied, "storage"), os.DirFS(storage)); err != nil &&
		!errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := makePrivate(r.copied); err != nil {
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

// makePrivate makes the files and folders of a copy accessible to their owner alone. It removes links: what they lead
// to is not part of the copy.
func makePrivate(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.Chmod(path, 0o700)
		case d.Type().IsRegular():
			return os.Chmod(path, 0o600)
		}
		return os.Remove(path)
	})
}

const (
	copyPrefix = "espalier-copy-" // of the folders of copies
	copyLock   = ".lock"          // in a copy; its process holds it
)

// removeDeadCopies removes the copies of processes that were killed: those whose lock is free. A folder that cannot be
// removed is left to the next process.
func removeDeadCopies() {
	found, err := filepath.Glob(filepath.Join(os.TempDir(), copyPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range found {
		lock, err := filelock.OpenExisting(filepath.Join(dir, copyLock))
		if err != nil {
			continue // it belongs to another user, or its process is just starting
		}
		if free, err := lock.TryExclusive(); err == nil && free {
			os.RemoveAll(dir) // a failure leaves it to the next process
		}
		lock.Close()
	}
}
