package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/journaltest"
	"github.com/espalier-run/espalier/internal/journal/sqlite"
)

func open(t testing.TB, dir string) journal.Store { return openWith(t, dir, sqlite.Options{}) }

func openWith(t testing.TB, dir string, o sqlite.Options) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(filepath.Join(dir, "espalier.db"), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) {
	journaltest.Run(t, journaltest.Subject{Open: open, Durable: true})
}

func TestRelaxedStore(t *testing.T) {
	journaltest.Run(t, journaltest.Subject{
		Open:    func(t testing.TB, dir string) journal.Store { return openWith(t, dir, sqlite.Options{Relaxed: true}) },
		Durable: true,
		Small:   true,
	})
}
