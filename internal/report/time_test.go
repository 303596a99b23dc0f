package report_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
)

func TestTimes(t *testing.T) {
	same := func(t interface{ Errorf(string, ...any) }, at journal.Millis) {
		if got, want := string(report.AppendTime(nil, at)), at.Time().Format(report.TimeFormat); got != want {
			t.Errorf("%d: %s, not %s", at, got, want)
		}
	}
	// Every day of a while that has all kinds of leap years, a millisecond
	// before it and in it.
	for day := time.Date(1896, 1, 1, 0, 0, 0, 0, time.UTC); day.Year() < 2105; day = day.AddDate(0, 0, 1) {
		same(t, journal.MillisOf(day))
		same(t, journal.MillisOf(day)-1)
	}
	for _, year := range []int{-1, 0, 1, 2, 4, 100, 400, 9998, 9999, 10_000, 10_001} {
		for month := range 12 {
			begins := journal.MillisOf(time.Date(year, time.Month(month+1), 1, 0, 0, 0, 0, time.UTC))
			same(t, begins)
			same(t, begins-1)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		same(t, journal.Millis(rapid.Int64Range(-80_000_000_000_000, 300_000_000_000_000).Draw(t, "at")))
	})
}
