package sqlite

import (
	_ "embed"
	"errors"
	"os"
	"path/filepath"
)

// blank is a journal without runs, of the newest version. A file that begins
// with it is one write and one sync; made of an empty one by the migrations it
// takes eight, and as much time as reading a long workflow.
//
//go:embed blank.db
var blank []byte

var errLeftovers = errors.New("there are files of another journal")

// placeBlank makes a blank journal, whole or not at all. That there is a file
// already is an error, too: another process has been faster.
func placeBlank(path string) error {
	// What is left of a journal that somebody has deleted would be taken for a
	// part of this one. Of an empty file SQLite knows that it cannot be.
	for _, beside := range []string{"-wal", "-journal"} {
		if _, err := os.Lstat(path + beside); err == nil {
			return errLeftovers
		}
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+"-new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(blank)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	// A link never takes the place of a file, as renaming does. It lasts with the
	// first append, for which SQLite syncs the folder.
	return os.Link(f.Name(), path)
}
