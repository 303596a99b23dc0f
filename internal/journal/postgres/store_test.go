//go:build linux

package postgres_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/journaltest"
	"github.com/espalier-run/espalier/internal/journal/postgres"
	"github.com/espalier-run/espalier/internal/pgtest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	pgtest.StopShared()
	os.Exit(code)
}

// schemaURL returns the URL of a schema that belongs to a folder.
func schemaURL(t testing.TB, dir string) string {
	t.Helper()
	return pgtest.Shared(t).URL("postgres") + "&schema=" + schemaOf(dir)
}

func schemaOf(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return "j" + hex.EncodeToString(sum[:8])
}

func openURL(t testing.TB, url string, o postgres.Options) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(context.Background(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func subject() journaltest.Subject {
	return journaltest.Subject{
		Open: func(t testing.TB, dir string, _ *journaltest.Processes) journal.Store {
			// The suite decides when a process dies.
			return openURL(t, asRole(t, schemaOf(dir)), postgres.Options{Lease: time.Hour})
		},
		Owner: func(s journal.Store) journal.Owner { return s.(*postgres.Store).ID() },
		Join: func(t testing.TB, s journal.Store, o journal.Owner) {
			postgres.Join(t, s.(*postgres.Store), o)
		},
		Leave: func(t testing.TB, s journal.Store, o journal.Owner) {
			postgres.Leave(t, s.(*postgres.Store), o)
		},
		Tamper: func(t testing.TB, s journal.Store, _ string, at journal.Pos, body, hash []byte) {
			postgres.Tamper(t, s.(*postgres.Store), at, body, hash)
		},
		Durable: true, Shared: true,
	}
}

// The store keeps its promises with the privileges that the documentation grants to workers.
func TestStore(t *testing.T) {
	pgtest.Shared(t)
	journaltest.Run(t, subject())
}
