package registry_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/registry"
)

// Stores that earlier releases have written are migrated: their runs verify, and a run that waits continues to its end.
func TestStoresOfEarlierReleases(t *testing.T) {
	const waiting, finished journal.RunID = "00000000-0000-4000-8000-000000000001",
		"10000000-0000-4000-8000-000000000002"
	fixtures, err := filepath.Glob("testdata/stores/*.db.gz")
	if err != nil {
		t.Fatal(err)
	}
	migrations, err := filepath.Glob("../journal/sqlite/migrations/*.sql")
	if err != nil || len(migrations) == 0 {
		t.Fatalf("%d migrations, %v", len(migrations), err)
	}
	const first = 2 // of the first release
	for schema := first; schema <= len(migrations); schema++ {
		if fixture := fmt.Sprintf("testdata/stores/schema%d.db.gz", schema); !slices.Contains(fixtures, fixture) {
			t.Errorf("there is no store with schema %d: add %s, written by a program that has this schema",
				schema, fixture)
		}
	}
	for _, fixture := range fixtures {
		t.Run(filepath.Base(fixture), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), ".espalier")
			unpack(t, fixture, filepath.Join(dir, "espalier.db"))
			r, err := registry.OpenRuntime(dir, registry.RuntimeOptions{Getenv: func(string) string { return "" }})
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
			approve := plan.Decision{Step: "ok", Answer: plan.Approve, Digest: digest}
			if err := r.Engine.Send(t.Context(), waiting, approve, "ref"); err != nil {
				t.Fatal(err)
			}
			entry, err := r.Engine.Wait(t.Context(), waiting)
			if err != nil || entry.Outcome != journal.OutcomeOK {
				t.Errorf("%+v, %v", entry, err)
			}
			verify(waiting)
		})
	}
}

// unpack writes the content of a compressed file.
func unpack(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
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
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
