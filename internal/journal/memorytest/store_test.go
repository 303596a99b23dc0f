package memorytest_test

import (
	"testing"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/journaltest"
	"github.com/espalier-run/espalier/internal/journal/memorytest"
)

func TestStoreKeepsItsPromises(t *testing.T) {
	journaltest.Run(t, journaltest.Subject{
		Open: func(_ testing.TB, _ string, alive *journaltest.Processes) journal.Store {
			return memorytest.NewShared(alive.Dead)
		},
		Tamper: func(_ testing.TB, s journal.Store, _ string, at journal.Pos, body, hash []byte) {
			s.(*memorytest.Store).Tamper(at, body, hash)
		},
	})
}
