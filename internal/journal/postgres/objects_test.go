//go:build linux && objects

package postgres_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/bucket"
	"github.com/espalier-run/espalier/internal/journal/journaltest"
	"github.com/espalier-run/espalier/internal/journal/postgres"
	"github.com/espalier-run/espalier/internal/objecttest"
	"github.com/espalier-run/espalier/internal/pgtest"
)

func bucketOf(server *objecttest.Server, secret string) *bucket.Bucket {
	return bucket.New(bucket.Config{
		Endpoint: server.URL, Bucket: objecttest.Bucket, Prefix: "runs/", PathStyle: true,
		Keys: func(context.Context) (string, string, error) { return objecttest.AccessKey, secret, nil },
	})
}

// withObjects returns options of a store that keeps every value in a bucket.
func withObjects(server *objecttest.Server) postgres.Options {
	return postgres.Options{Lease: time.Hour, Objects: bucketOf(server, objecttest.SecretKey), ObjectsAbove: -1}
}

// The store keeps its promises with values in a bucket.
func TestStoreKeepsItsContractWithObjects(t *testing.T) {
	pgtest.Shared(t)
	server := objecttest.Start(t)
	s := subject()
	s.Open = func(t testing.TB, dir string, _ *journaltest.Processes) journal.Store {
		return openURL(t, asRole(t, schemaOf(dir)), withObjects(server))
	}
	journaltest.Run(t, s)
	if len(server.Objects(t)) == 0 {
		t.Error("no value was in the bucket")
	}
}

func valueOf(text string, n int) journal.Blob {
	data := bytes.Repeat([]byte(text), n)
	sum := sha256.Sum256(data)
	return journal.Blob{Hash: hex.EncodeToString(sum[:]), Data: data}
}

// startWith starts a run that has values.
func startWith(t *testing.T, s *postgres.Store, run journal.RunID, values ...journal.Blob) {
	t.Helper()
	b := journaltest.Start(run, s.ID())
	b.Blobs = append(b.Blobs, values...)
	journaltest.Append(t, s, b)
}

func remove(t *testing.T, s *postgres.Store, run journal.RunID) {
	t.Helper()
	journaltest.Append(t, s, journaltest.Finish(run, journal.FirstFence, 1))
	if err := s.Remove(t.Context(), journal.Removal{}, run); err != nil {
		t.Fatal(err)
	}
}

// Only values above the limit are objects. An object is removed with the last run that uses it, and no other.
func TestObjectsAreRemovedWithTheLastRunThatUsesThem(t *testing.T) {
	server := objecttest.Start(t)
	o := withObjects(server)
	o.ObjectsAbove, o.Log = 1000, slog.New(slog.NewTextHandler(t.Output(), nil))
	s := openURL(t, schemaURL(t, t.TempDir()), o)
	small, shared, own := valueOf("s", 1000), valueOf("shared", 1000), valueOf("own", 1000)
	startWith(t, s, "one", small, shared, own)
	startWith(t, s, "two", small, shared)
	names := server.Objects(t)
	if len(names) != 2 || !strings.HasPrefix(names[0], "runs/") {
		t.Fatalf("the bucket has %q", names)
	}
	remove(t, s, "one")
	if left := server.Objects(t); len(left) != 1 || !strings.Contains(left[0], shared.Hash) {
		t.Errorf("after the first run, the bucket has %q", left)
	}
	if data, err := s.Blob(t.Context(), shared.Hash); err != nil || !bytes.Equal(data, shared.Data) {
		t.Errorf("the value that the other run uses is gone: %v", err)
	}
	remove(t, s, "two")
	if left := server.Objects(t); len(left) != 0 {
		t.Errorf("after the last run, the bucket has %q", left)
	}
	// The same value again is another object.
	startWith(t, s, "three", shared)
	if data, err := s.Blob(t.Context(), shared.Hash); err != nil || !bytes.Equal(data, shared.Data) {
		t.Errorf("the value was not stored again: %v", err)
	}
	if names := server.Objects(t); len(names) != 1 {
		t.Errorf("the bucket has %q", names)
	}
}

// A value is not lost if the bucket cannot be reached: it is stored in the database.
func TestUnreachableBucketLosesNoValue(t *testing.T) {
	server := objecttest.Start(t)
	for name, o := range map[string]postgres.Options{
		"wrong key": {Objects: bucketOf(server, "wrong"), ObjectsAbove: 1},
		"unreachable": {
			Objects: bucketOf(&objecttest.Server{URL: "http://127.0.0.1:1"}, objecttest.SecretKey), ObjectsAbove: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := openURL(t, schemaURL(t, t.TempDir()), o)
			value := valueOf("value", 1000)
			startWith(t, s, "run", value)
			if data, err := s.Blob(t.Context(), value.Hash); err != nil || !bytes.Equal(data, value.Data) {
				t.Errorf("the value is lost: %v", err)
			}
		})
	}
}

// Objects that are missing or were changed are errors of their values, which "espalier store check" reports.
func TestDamagedObjectsAreReported(t *testing.T) {
	server := objecttest.Start(t)
	dir := t.TempDir()
	s := openURL(t, schemaURL(t, dir), withObjects(server))
	changed, missing := valueOf("changed", 10), valueOf("missing", 10)
	startWith(t, s, "run", changed, missing)
	for _, name := range server.Objects(t) {
		switch {
		case strings.Contains(name, changed.Hash):
			server.Replace(t, name, []byte("else"))
		case strings.Contains(name, missing.Hash):
			server.Replace(t, name, nil)
		}
	}
	if _, err := s.Blob(t.Context(), changed.Hash); !errors.Is(err, journal.ErrCorrupt) {
		t.Errorf("a value that was changed: %v", err)
	}
	if _, err := s.Blob(t.Context(), missing.Hash); !errors.Is(err, journal.ErrUnknownBlob) {
		t.Errorf("a value that is missing: %v", err)
	}
	without := openURL(t, schemaURL(t, dir), postgres.Options{})
	if _, err := without.Blob(t.Context(), changed.Hash); !errors.Is(err, journal.ErrUnavailable) {
		t.Errorf("a value of a bucket that is not configured: %v", err)
	}
}

// The object of an append that is refused, or whose process dies before it commits, is removed with a later run.
func TestObjectsOfRefusedAppendsAreRemoved(t *testing.T) {
	server := objecttest.Start(t)
	s := openURL(t, schemaURL(t, t.TempDir()), withObjects(server))
	startWith(t, s, "run")
	before := len(server.Objects(t))
	refused := journaltest.Steps("run", journal.FirstFence, 7, 1)
	refused.Blobs = []journal.Blob{valueOf("refused", 1000)}
	if err := journal.Append(t.Context(), s, refused); !errors.Is(err, journal.ErrConflict) {
		t.Fatal(err)
	}
	if names := server.Objects(t); len(names) != before+1 {
		t.Fatalf("the bucket has %q", names)
	}
	startWith(t, s, "other")
	remove(t, s, "other")
	if names := server.Objects(t); len(names) != before+1 { // it may be about to be used
		t.Errorf("the bucket has %q", names)
	}
	postgres.Age(t, s)
	remove(t, s, "run")
	if names := server.Objects(t); len(names) != 0 {
		t.Errorf("the bucket still has %q", names)
	}
}

// Runs that are imported have their large values in the bucket, too.
func TestImportedValuesAreObjects(t *testing.T) {
	server := objecttest.Start(t)
	o := withObjects(server)
	o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	from, to := openURL(t, schemaURL(t, t.TempDir()), postgres.Options{}), openURL(t, schemaURL(t, t.TempDir()), o)
	definition := journaltest.Definition("a definition")
	b := journaltest.Start("run", from.ID())
	b.Events[0].Fact = journal.RunStarted{Name: "demo", Definition: definition.Hash}
	b.Blobs = []journal.Blob{definition}
	journaltest.Append(t, from, b)
	journaltest.Append(t, from, journaltest.Finish("run", journal.FirstFence, 1))
	if _, err := journal.Copy(t.Context(), from, to); err != nil {
		t.Fatal(err)
	}
	if names := server.Objects(t); len(names) != 1 {
		t.Errorf("the bucket has %q", names)
	}
}
