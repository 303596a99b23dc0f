package sqlite

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/espalier-run/espalier/internal/journal"
)

// Copy copies a journal in a folder that cannot be written to a new file. SQLite needs files beside the original to
// read it, and creates them unless a process that can write has the journal open.
func Copy(path, to string) error {
	// With the shared-memory file, a reader can take part in the locking of the process that writes.
	if _, err := os.Stat(path + "-shm"); err == nil && vacuumInto(path, to) == nil {
		return nil
	}
	// A process elsewhere may write while the files are read. Then they are read again.
	const timeout = 10 * time.Second
	for end := time.Now().Add(timeout); ; time.Sleep(10 * time.Millisecond) {
		before, err := versions(path)
		if err != nil {
			return explain(path, err)
		}
		for _, suffix := range []string{"", "-wal"} {
			if err := copyFile(path+suffix, to+suffix); err != nil &&
				!(suffix != "" && errors.Is(err, fs.ErrNotExist)) {
				return explain(path, err)
			}
		}
		after, err := versions(path)
		switch {
		case err != nil:
			return explain(path, err)
		case before == after:
			return nil
		case time.Now().After(end):
			return fmt.Errorf("%w: %s changes while it is read", journal.ErrBusy, path)
		}
	}
}

// vacuumInto writes a consistent copy of a journal that other processes have open.
func vacuumInto(path, to string) error {
	c, err := connect(dsn(path, "mode=ro"))
	if err != nil {
		return err
	}
	_, err = c.exec("VACUUM INTO ?", to)
	return errors.Join(err, c.Close())
}

// versions describes the files of a journal: their sizes and times.
func versions(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	text := fmt.Sprint(info.Size(), info.ModTime())
	switch wal, err := os.Stat(path + "-wal"); {
	case err == nil:
		text += fmt.Sprint(wal.Size(), wal.ModTime())
	case !errors.Is(err, fs.ErrNotExist):
		return "", err
	}
	return text, nil
}

// copyFile copies a file, with access for its owner only.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
