package registry_test

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/pgtest"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/registry"
)

// Stores that earlier releases have written are migrated: their runs verify, and a run that waits continues to its end.
func TestStoresOfEarlierReleases(t *testing.T) {
	const first = 2 // schema of the first release
	for schema := first; schema <= migrations(t, "sqlite"); schema++ {
		t.Run(fmt.Sprint(schema), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), ".espalier")
			text := fixture(t, fmt.Sprintf("schema%d.db.gz", schema))
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "espalier.db"), text, 0o600); err != nil {
				t.Fatal(err)
			}
			continues(t, dir, "")
		})
	}
}

// The same holds for databases. The fixtures are dumps: pg_dump --inserts --no-owner --no-privileges, without SET.
func TestDatabasesOfEarlierReleases(t *testing.T) {
	server, err := pgtest.Start("fsync=off")
	pgtest.Require(t, err)
	defer server.Remove()
	exec := func(database, text string) {
		t.Helper()
		conn, err := pgx.Connect(t.Context(), server.URL(database))
		if err != nil {
			t.Fatal(err)
		}
		_, err = conn.Exec(t.Context(), text, pgx.QueryExecModeSimpleProtocol)
		if err := errors.Join(err, conn.Close(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	for schema := 1; schema <= migrations(t, "postgres"); schema++ {
		t.Run(fmt.Sprint(schema), func(t *testing.T) {
			name := fmt.Sprintf("schema%d", schema)
			exec("postgres", "CREATE DATABASE "+name)
			exec(name, string(fixture(t, fmt.Sprintf("postgres-schema%d.sql.gz", schema))))
			continues(t, filepath.Join(t.TempDir(), ".espalier"), server.URL(name))
		})
	}
}

// migrations returns the number of migrations of a kind of store.
func migrations(t *testing.T, store string) int {
	t.Helper()
	found, err := filepath.Glob("../journal/" + store + "/migrations/*.sql")
	if err != nil || len(found) == 0 {
		t.Fatalf("%d migrations, %v", len(found), err)
	}
	return len(found)
}

// continues verifies the two runs of a store, and lets the one that waits continue to its end.
func continues(t *testing.T, dir, url string) {
	t.Helper()
	const waiting, finished journal.RunID = "00000000-0000-4000-8000-000000000001",
		"10000000-0000-4000-8000-000000000002"
	r, err := registry.OpenRuntime(dir, registry.RuntimeOptions{Getenv: func(name string) string {
		return map[string]string{registry.StoreVariable: url}[name]
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	verify := func(id journal.RunID) {
		t.Helper()
		if got, err := engine.Verify(t.Context(), r.Store, id); err != nil || len(got.Damage) > 0 {
			t.Errorf("run %s: %+v, %v", id, got.Damage, err)
		}
	}
	verify(finished)
	verify(waiting)
	state, program, _, err := r.Engine.Load(t.Context(), waiting)
	if err != nil {
		t.Fatal(err)
	}
	_, digest := state.Shown(program, state.OpenGates()[0])
	approve := plan.GateDecision{Step: "ok", Answer: journal.AnswerApprove, Digest: digest}
	if err := r.Engine.Send(t.Context(), waiting, approve, "ref"); err != nil {
		t.Fatal(err)
	}
	entry, err := r.Engine.Wait(t.Context(), waiting)
	if err != nil || entry.Outcome != journal.OutcomeOK {
		t.Errorf("%+v, %v", entry, err)
	}
	verify(waiting)
}

// fixture returns the content of a compressed file. Each schema has one, written by a program that has this schema.
func fixture(t *testing.T, name string) []byte {
	t.Helper()
	in, err := os.Open(filepath.Join("testdata", "stores", name))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	raw, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(raw)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
