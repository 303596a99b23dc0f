//go:build linux && upgrade

package main

import (
	"os"
	"slices"
	"testing"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/pgtest"
)

// Workers of the previous release and of this one share a database while machines are updated one after the other: runs
// that either of them starts finish, also if the worker that drives them is replaced by the other version.
func TestRollingUpgradeFinishesAllRuns(t *testing.T) {
	previous := os.Getenv("PREVIOUS")
	if previous == "" {
		t.Fatal("PREVIOUS must name the program of the previous release: use make test-upgrade")
	}
	server := pgtest.Shared(t)
	t.Cleanup(pgtest.StopShared)
	f := newFleet(t, server, 0)
	const runs = 8
	f.program = previous
	f.startRuns(runs) // which also creates the tables
	f.startWorker()
	f.waitUntil("the previous release has runs", func(e []journal.Entry) bool {
		_, held := f.runsOf(e, 0)
		return held > 0
	})
	f.program = ""
	f.startRuns(runs)
	f.startWorker()
	f.waitUntil("all runs of both releases rest",
		func(e []journal.Entry) bool { return len(e) == 2*runs && allIdle(e) })

	// Each version continues what the other had begun when it was killed.
	for n, next := range []string{previous, ""} {
		f.program = ""
		if n == 1 {
			f.program = previous
		}
		kill := func() {
			for _, w := range f.workers {
				_ = w.Process.Kill() // those of the first round have ended
				_ = w.Wait()
			}
		}
		kill() // a worker that is alive would finish each run before the next one starts
		f.startRuns(runs)
		f.startWorker()
		f.waitUntil("a worker has runs", func(e []journal.Entry) bool {
			return slices.ContainsFunc(e,
				func(e journal.Entry) bool { return e.Status == journal.Running && e.Owner != "" })
		})
		kill()
		f.program = next
		f.startWorker()
		all := (3 + n) * runs
		f.waitUntil("the other version continues", func(e []journal.Entry) bool { return len(e) == all && allIdle(e) })
	}
	f.checkExactlyOnce(f.waitUntil("all runs rest", allIdle), 4*runs)
}
