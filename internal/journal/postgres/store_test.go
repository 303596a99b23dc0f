//go:build linux

package postgres_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
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
func TestStoreKeepsItsPromises(t *testing.T) {
	pgtest.Shared(t)
	journaltest.Run(t, subject())
}

// An append is one statement, which the server does not plan again and again: planning takes longer than the append.
// The server plans a new statement five times before it compares.
func TestAppendIsOnePlannedStatement(t *testing.T) {
	s := openURL(t, schemaURL(t, t.TempDir()), postgres.Options{})
	const run, appends, tries = "run", 50, 5
	journaltest.Append(t, s, journaltest.Start(run, s.ID()))
	before, anew := postgres.Plans(t, s)
	for i := range appends {
		journaltest.Append(t, s, journaltest.Steps(run, journal.FirstFence, journal.Seq(i+1), 1))
	}
	executions, planned := postgres.Plans(t, s)
	if executions-before != appends || planned-anew > tries {
		t.Errorf("%d appends are %d statements, planned %d times", appends, executions-before, planned-anew)
	}
}

// A process that owns many runs also claims older runs of a dead process, whatever order an index returns them in.
func TestClaimNextSkipsNoOlderRun(t *testing.T) {
	const byIndex = "&enable_seqscan=off&enable_bitmapscan=off&jit=off"
	s := openURL(t, schemaURL(t, t.TempDir())+byIndex, postgres.Options{Lease: time.Hour})
	postgres.DropIndexes(t, s, "runs_by_status", "runs_unfinished") // so that the query uses the one by owner

	const dead = "~dead" // sorts after the name of every process
	postgres.Join(t, s, dead)
	journaltest.Append(t, s, journaltest.Start("old", dead))
	const own = 2 * postgres.ClaimPage
	for i := range own {
		journaltest.Append(t, s, journaltest.Start(journal.RunID(fmt.Sprint("own-", i)), s.ID()))
	}
	postgres.Leave(t, s, dead)
	got, err := s.ClaimNext(t.Context(), s.ID(), own+1, func(journal.RunID) bool { return false })
	if err != nil || len(got) != own+1 || !slices.Contains(got, "old") {
		t.Errorf("claimed %d runs, %v", len(got), err)
	}
}

// To the driver, as to libpq, a plus in a parameter is no space.
func TestParametersOfURLsReachTheServerUnchanged(t *testing.T) {
	got := postgres.RuntimeParams(t,
		"postgres://u@h/d?sch%65ma=s&options=-c%20jit%3Doff&lease=30s&application_name=a+b")
	if got["options"] != "-c jit=off" || got["application_name"] != "a+b" || got["schema"] != "" || got["lease"] != "" {
		t.Errorf("%q", got)
	}
}
