package sqlite_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/sqlite"
)

// A store whose folder is replaced by an empty one says so, also if the first to notice is a reader with a new
// connection.
func TestReaderNoticesAReplacedFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s, err := sqlite.Open(filepath.Join(dir, "journal.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err = s.Entry(t.Context(), "00000000-0000-4000-8000-000000000001")
	var gone *journal.GoneError
	if !errors.As(err, &gone) {
		t.Errorf("got %v, want an error that says that the file was replaced", err)
	}
}
