package schedule

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const layout = "2006-01-02 15:04 MST"

func TestSecondsAreOptional(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ spec, after, want string }{
		{"*/20 * * * * *", "2026-06-05T12:00:05Z", "12:00:20Z 12:00:40Z 12:01:00Z"},
		{"15 30 6 * * *", "2026-06-05T12:00:00Z", "04:30:15Z 04:30:15Z 04:30:15Z"},
		// Clocks go forward at 01:00 UTC: the skipped time fires at the change.
		{"15 30 2 * * *", "2026-03-28T12:00:00Z", "01:00:00Z 00:30:15Z 00:30:15Z"},
		// Every half minute follows elapsed time when clocks go back.
		{"30 59 * * * *", "2026-10-25T00:10:00Z", "00:59:30Z 01:59:30Z 02:59:30Z"},
	} {
		s, err := Parse(c.spec, berlin)
		if err != nil {
			t.Fatal(err)
		}
		after, err := time.Parse(time.RFC3339, c.after)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, at := range s.Upcoming(after, 3) {
			got = append(got, at.UTC().Format("15:04:05Z"))
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%q: %s, expected %s", c.spec, text, c.want)
		}
	}
}

// Spec: Agent Flow §2.4 timezone
func TestUpcomingAcrossDaylightSavingChanges(t *testing.T) {
	for _, c := range []struct{ name, spec, zone, after, want string }{
		{
			"a plain week", "0 6 * * 1-5", "UTC", "2026-06-05 12:00",
			"2026-06-08 06:00 UTC; 2026-06-09 06:00 UTC; 2026-06-10 06:00 UTC; 2026-06-11 06:00 UTC; 2026-06-12 " +
				"06:00 UTC",
		},
		{
			"the same wall time before and after clocks go forward", "0 6 * * *", "Europe/Berlin", "2026-03-27 12:00",
			"2026-03-28 06:00 CET; 2026-03-29 06:00 CEST; 2026-03-30 06:00 CEST; 2026-03-31 06:00 CEST; 2026-04-01 " +
				"06:00 CEST",
		},
		{
			"a skipped time fires at the change", "30 2 * * *", "Europe/Berlin", "2026-03-27 12:00",
			"2026-03-28 02:30 CET; 2026-03-29 03:00 CEST; 2026-03-30 02:30 CEST; 2026-03-31 02:30 CEST; 2026-04-01 " +
				"02:30 CEST",
		},
		{
			"two skipped times fire once", "0,30 2 * * *", "Europe/Berlin", "2026-03-28 12:00",
			"2026-03-29 03:00 CEST; 2026-03-30 02:00 CEST; 2026-03-30 02:30 CEST; 2026-03-31 02:00 CEST; 2026-03-31 " +
				"02:30 CEST",
		},
		{
			"a repeated time fires at its first occurrence", "30 2 * * *", "Europe/Berlin", "2026-10-23 12:00",
			"2026-10-24 02:30 CEST; 2026-10-25 02:30 CEST; 2026-10-26 02:30 CET; 2026-10-27 02:30 CET; 2026-10-28 " +
				"02:30 CET",
		},
		{
			"a repeated time does not fire again between its occurrences", "30 2 * * *", "Europe/Berlin",
			"2026-10-25 02:45",
			"2026-10-26 02:30 CET; 2026-10-27 02:30 CET; 2026-10-28 02:30 CET; 2026-10-29 02:30 CET; 2026-10-30 " +
				"02:30 CET",
		},
		{
			"New York goes forward", "15 2 * * *", "America/New_York", "2026-03-07 12:00",
			"2026-03-08 03:00 EDT; 2026-03-09 02:15 EDT; 2026-03-10 02:15 EDT; 2026-03-11 02:15 EDT; 2026-03-12 " +
				"02:15 EDT",
		},
		{
			"New York goes back", "15 1 * * *", "America/New_York", "2026-10-31 12:00",
			"2026-11-01 01:15 EDT; 2026-11-02 01:15 EST; 2026-11-03 01:15 EST; 2026-11-04 01:15 EST; 2026-11-05 " +
				"01:15 EST",
		},
		{
			"half an hour on Lord Howe", "15 2 * * *", "Australia/Lord_Howe", "2026-10-03 12:00",
			"2026-10-04 02:30 +11; 2026-10-05 02:15 +11; 2026-10-06 02:15 +11; 2026-10-07 02:15 +11; 2026-10-08 " +
				"02:15 +11",
		},
		{
			"every half hour follows elapsed time when clocks go forward", "*/30 * * * *", "Europe/Berlin",
			"2026-03-29 01:10",
			"2026-03-29 01:30 CET; 2026-03-29 03:00 CEST; 2026-03-29 03:30 CEST; 2026-03-29 04:00 CEST; 2026-03-29 " +
				"04:30 CEST",
		},
		{
			"every half hour follows elapsed time when clocks go back", "*/30 * * * *", "Europe/Berlin",
			"2026-10-25 01:50",
			"2026-10-25 02:00 CEST; 2026-10-25 02:30 CEST; 2026-10-25 02:00 CET; 2026-10-25 02:30 CET; 2026-10-25 " +
				"03:00 CET",
		},
		{
			"a descriptor", "@daily", "Asia/Tokyo", "2026-01-01 12:00",
			"2026-01-02 00:00 JST; 2026-01-03 00:00 JST; 2026-01-04 00:00 JST; 2026-01-05 00:00 JST; 2026-01-06 " +
				"00:00 JST",
		},
		{
			"leap days", "0 0 29 2 *", "UTC", "2026-01-01 00:00",
			"2028-02-29 00:00 UTC; 2032-02-29 00:00 UTC; 2036-02-29 00:00 UTC; 2040-02-29 00:00 UTC; 2044-02-29 " +
				"00:00 UTC",
		},
		{"never", "0 0 31 2 *", "UTC", "2026-01-01 00:00", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			zone, err := time.LoadLocation(c.zone)
			if err != nil {
				t.Fatal(err)
			}
			s, err := Parse(c.spec, zone)
			if err != nil {
				t.Fatal(err)
			}
			after, err := time.ParseInLocation("2006-01-02 15:04", c.after, zone)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, at := range s.Upcoming(after, 5) {
				got = append(got, at.Format(layout))
			}
			if text := strings.Join(got, "; "); text != c.want {
				t.Errorf("got  %s\nwant %s", text, c.want)
			}
		})
	}
}

func TestTimesIncreaseAndDailyTimesAreNotRepeated(t *testing.T) {
	zones := []string{
		"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "America/Santiago",
		"Asia/Kolkata", "UTC",
	}
	specs := []string{"30 2 * * *", "0 0 * * *", "15 1,2,3 * * *", "0 3 * * 0", "*/20 * * * *"}
	rapid.Check(t, func(r *rapid.T) {
		zone, err := time.LoadLocation(rapid.SampledFrom(zones).Draw(r, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		s, err := Parse(rapid.SampledFrom(specs).Draw(r, "spec"), zone)
		if err != nil {
			r.Fatal(err)
		}
		after := time.Unix(rapid.Int64Range(1_700_000_000, 1_900_000_000).Draw(r, "after"), 0)
		seen := map[string]bool{}
		last := after
		for _, at := range s.Upcoming(after, 12) {
			if !at.After(last) {
				r.Fatalf("%s after %s", at, last)
			}
			if wall := at.Format("2006-01-02 15:04"); !s.hourly && seen[wall] {
				r.Fatalf("%s comes twice", wall)
			} else {
				seen[wall] = true
			}
			last = at
		}
		// Next from just before a time returns that time.
		if first := s.Next(after); !s.Next(first.Add(-time.Second)).Equal(first) {
			r.Fatalf("%s is not found from a second before", first)
		}
	})
}

func TestInvalidExpressionsAreRejected(t *testing.T) {
	for _, spec := range []string{
		"", "* * * *", "* * * * * * *", "60 * * * * *", "0 25 * * *", "@sometimes",
		"a b c d e",
	} {
		if _, err := Parse(spec, nil); err == nil {
			t.Errorf("%q was accepted", spec)
		}
	}
}

// Changing reports the three hours before and after a clock change.
func TestChangingCoversThreeHoursAroundClockChanges(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	s, err := Parse("30 2 * * *", berlin)
	if err != nil {
		t.Fatal(err)
	}
	change := time.Date(2026, 10, 25, 1, 0, 0, 0, time.UTC)
	for at, want := range map[time.Time]bool{
		change.Add(-3*time.Hour - time.Second): false, change.Add(-3 * time.Hour): true, change: true,
		change.Add(3*time.Hour - time.Second): true, change.Add(3 * time.Hour): false,
	} {
		until, got := s.Changing(at)
		if got != want || got && !until.Equal(change.Add(3*time.Hour)) {
			t.Errorf("%s: %v until %s", at, got, until)
		}
	}
	starts := s.Calendars(change.AddDate(0, -1, 0))[1:]
	if len(starts) != 2 || starts[0].Day[0] != 25 || starts[0].Hour[0] != 0 || starts[1].Hour[0] != 23 {
		t.Errorf("%+v", starts)
	}
	if s, err = Parse("@daily", nil); err != nil || len(s.Calendars(change)) != 1 {
		t.Errorf("UTC has changes: %v", err)
	}
}
