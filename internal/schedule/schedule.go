package schedule

import (
	"fmt"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // not every system has a time zone database

	"github.com/netresearch/go-cron"
)

// Schedule is a parsed cron expression in a time zone.
type Schedule struct {
	times  cron.Schedule
	zone   *time.Location
	hourly bool // means an interval rather than a time of day
}

// parser accepts five fields, six fields of which the first is the second, or a descriptor such as @daily.
var parser = cron.MustNewParser(
	cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor | cron.DowOrDom)

// Parse parses a cron expression: five fields, optionally after a field for seconds, or a descriptor such as @daily. A
// nil zone means UTC.
func Parse(spec string, zone *time.Location) (*Schedule, error) {
	fields := strings.Fields(spec)
	named := strings.HasPrefix(spec, "@")
	if len(fields) != 5 && len(fields) != 6 && !named {
		return nil, fmt.Errorf("it has %d fields, not five or six", len(fields))
	}
	times, err := parser.Parse(spec)
	if err != nil {
		return nil, err
	}
	if zone == nil {
		zone = time.UTC
	}
	hourly := false
	if named {
		hourly = fields[0] == "@hourly" || fields[0] == "@every"
	} else {
		hourly = slices.Contains([]string{"*", "*/1", "0-23"}, fields[len(fields)-4])
	}
	return &Schedule{times: times, zone: zone, hourly: hourly}, nil
}

// Next returns the first time after the given one, or the zero time if there is none.
func (s *Schedule) Next(after time.Time) time.Time {
	if s.hourly {
		return s.nextByInterval(after)
	}
	wall := wallClock(after.In(s.zone))
	// The wall-clock time of a skipped occurrence can be earlier than that of after, so start well before and return
	// the first that is late enough.
	for at := s.times.Next(wall.Add(-maxOffsetChange)); !at.IsZero(); at = s.times.Next(at) {
		if t := s.instant(at); t.After(after) {
			return t
		}
	}
	return time.Time{}
}

// Upcoming returns up to limit times after the given one.
func (s *Schedule) Upcoming(after time.Time, limit int) []time.Time {
	var out []time.Time
	for len(out) < limit {
		next := s.Next(after)
		if next.IsZero() {
			break
		}
		out, after = append(out, next), next
	}
	return out
}

// maxOffsetChange exceeds every change of a time zone's offset, except for the whole days that a few islands have
// skipped.
const maxOffsetChange = 3 * time.Hour

// wallClock returns the wall-clock time of t as if it were UTC.
func wallClock(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

// instant returns when clocks in the zone first show a wall-clock time, or when they skip it.
func (s *Schedule) instant(wall time.Time) time.Time {
	t := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), 0, s.zone)
	if wallClock(t).Equal(wall) {
		// t may be the second occurrence of the wall-clock time.
		if begins, _ := t.ZoneBounds(); !begins.IsZero() {
			_, now := t.Zone()
			_, before := begins.Add(-time.Second).Zone()
			if first := t.Add(time.Duration(now-before) * time.Second); before > now && first.Before(begins) {
				return first
			}
		}
		return t
	}
	// The time is skipped; time.Date returns a time before or after the change.
	begins, ends := t.ZoneBounds()
	if wallClock(t).Before(wall) {
		return ends
	}
	return begins
}

// nextByInterval implements Next for hourly schedules: between two changes of the zone's offset it computes with a
// fixed offset.
func (s *Schedule) nextByInterval(after time.Time) time.Time {
	period := after
	for range 10 { // an hourly schedule fires within the first few periods
		here := period.In(s.zone)
		_, offset := here.Zone()
		_, ends := here.ZoneBounds()
		next := s.times.Next(after.In(time.FixedZone("", offset)))
		switch {
		case next.IsZero():
			return next
		case ends.IsZero() || next.Before(ends):
			return next.In(s.zone)
		}
		after, period = ends.Add(-time.Nanosecond), ends // the moment of the change is a candidate
	}
	return time.Time{}
}
