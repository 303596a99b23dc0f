package sqlite_test

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/journaltest"
	"github.com/espalier-run/espalier/internal/journal/sqlite"
)

// A reader of a long run has one page of it in memory, not the whole run.
func TestEventsOfALongRunAreReadInPages(t *testing.T) {
	s := openWith(t, t.TempDir(), sqlite.Options{Dead: everyone, Relaxed: true})
	defer s.Close()
	const appends, large = 2600, 4 << 10
	journaltest.Append(t, s, journaltest.Start("a", "me"))
	text := json.RawMessage(`"` + strings.Repeat("x", large) + `"`)
	done := make(chan error, appends)
	for i := range appends {
		b := journaltest.Steps("a", journal.FirstFence, journal.Seq(1+i), 1)
		b.Events[0].Fact = journal.TaskEnded{Outcome: "ok", Value: journal.Value{JSON: text}}
		s.Append(b, func(err error) { done <- err })
	}
	for range appends {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, err := range s.Events(t.Context(), "a", 0) {
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	runtime.ReadMemStats(&after)
	if got, most := after.TotalAlloc-before.TotalAlloc, uint64(appends*large/2); got > most {
		t.Errorf("the first event of %d MB takes %d MB of memory", appends*large>>20, got>>20)
	}
	for _, since := range []journal.Seq{0, 1, 255, 256, 257, 1000, appends - 256, appends - 1, appends, appends + 1} {
		if got := len(journaltest.Events(t, s, "a", since)); got != appends+1-int(since) {
			t.Errorf("%d events after %d", got, since)
		}
	}
}
