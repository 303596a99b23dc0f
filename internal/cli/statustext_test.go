package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/journal"
)

// A run that sleeps says until when.
func TestSleepingRunsSayUntilWhen(t *testing.T) {
	wake := time.Date(2026, 3, 1, 12, 0, 0, 0, time.Local)
	entry := app.Run{Entry: journal.Entry{Index: journal.Index{
		Status: journal.Sleeping, Waiting: journal.ParseWait("retry: a"),
		Wake: journal.Millis(wake.UnixMilli()),
	}}}
	if got := statusText(&entry); !strings.Contains(got, "sleeping until 2026-03-01 12:00:00 (retry: a)") {
		t.Error(got)
	}
}

// A step whose outcome is unknown is described in words.
func TestUnknownOutcomesAreDescribedInWords(t *testing.T) {
	entry := app.Run{Entry: journal.Entry{
		Index: journal.Index{Status: journal.Waiting, Waiting: journal.ParseWait("doubt: b")},
	}}
	if got := statusText(&entry); got != "unknown outcome: b" {
		t.Error(got)
	}
}
