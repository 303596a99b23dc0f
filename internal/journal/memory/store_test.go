package memory_test

import (
	"testing"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/journaltest"
	"github.com/espalier-run/espalier/internal/journal/memory"
)

func TestStoreKeepsItsPromises(t *testing.T) {
	journaltest.Run(t, journaltest.Subject{
		Open: func(testing.TB, string) journal.Store { return memory.New() },
	})
}
