package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/espalier-run/espalier/internal/journal"
)

// code returns SQLite's primary result code; 0 if the error is not SQLite's.
func code(err error) int {
	if e, ok := errors.AsType[*driver.Error](err); ok {
		return e.Code() & 0xff
	}
	return lib.SQLITE_OK
}

// isBusy reports whether another connection, of this process or another one, holds a lock.
func isBusy(err error) bool {
	c := code(err)
	return c == lib.SQLITE_BUSY || c == lib.SQLITE_LOCKED
}

// isSyncFailure reports whether SQLite could not sync a file.
func isSyncFailure(err error) bool {
	var e *driver.Error
	return errors.As(err, &e) && (e.Code() == lib.SQLITE_IOERR_FSYNC || e.Code() == lib.SQLITE_IOERR_DIR_FSYNC)
}

// explain wraps an error of SQLite or of the file system in the matching error of
// journal.
func explain(path string, err error) error {
	if err == nil {
		return nil
	}
	var meaning error
	// The primary codes of SQLite; PROTOCOL means that locking the WAL has failed repeatedly.
	switch code(err) {
	case lib.SQLITE_FULL:
		meaning = journal.ErrFull
	case lib.SQLITE_READONLY, lib.SQLITE_PERM, lib.SQLITE_CANTOPEN:
		meaning = journal.ErrReadOnly
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_PROTOCOL:
		meaning = journal.ErrBusy
	case lib.SQLITE_NOTADB:
		meaning = journal.ErrNotJournal
	case lib.SQLITE_CORRUPT:
		meaning = journal.ErrCorrupt
	case lib.SQLITE_OK:
		switch {
		case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
			meaning = journal.ErrReadOnly
		case errors.Is(err, syscall.ENOSPC):
			meaning = journal.ErrFull
		}
	}
	if meaning == nil {
		return fmt.Errorf("the journal %s: %w", path, err)
	}
	return fmt.Errorf("%w: %s: %w", meaning, path, err)
}
