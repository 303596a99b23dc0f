package schedule

import (
	"fmt"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // not every machine knows the zones

	"github.com/netresearch/go-cron"
)

// Schedule is when something happens again and again.
type Schedule struct {
	times  cron.Schedule
	zone   *time.Location
	hourly bool // fires by distance, not by the time of day
}

// parser reads five fields, or a word such as @daily.
var parser = cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor | cron.DowOrDom)

// Parse reads a cron expression of five fields, or a word such as @daily. A nil
// zone is UTC.
func Parse(spec string, zone *time.Location) (*Schedule, error) {
	fields := strings.Fields(spec)
	if len(fields) != 5 && !strings.HasPrefix(spec, "@") {
		return nil, fmt.Errorf("it has %d fields, not five", len(fields))
	}
	times, err := parser.Parse(spec)
	if err != nil {
		return nil, err
	}
	if zone == nil {
		zone = time.UTC
	}
	hourly := slices.Contains([]string{"*", "*/1", "0-23"}, fields[min(1, len(fields)-1)])
	if strings.HasPrefix(spec, "@") {
		hourly = fields[0] == "@hourly" || fields[0] == "@every"
	}
	return &Schedule{times: times, zone: zone, hourly: hourly}, nil
}

// Next is the first time after a moment; the zero time when there is none.
func (s *Schedule) Next(after time.Time) time.Time {
	if s.hourly {
		return s.nextByDistance(after)
	}
	wall := wallClock(after.In(s.zone))
	// A time that fell into a gap may lie behind the moment already: the
	// clock has jumped over it. So begin well before, and take the first that fits.
	for at := s.times.Next(wall.Add(-longestChange)); !at.IsZero(); at = s.times.Next(at) {
		if t := s.instant(at); t.After(after) {
			return t
		}
	}
	return time.Time{}
}

// Upcoming are the next times after a moment, at most so many.
func (s *Schedule) Upcoming(after time.Time, most int) []time.Time {
	var out []time.Time
	for len(out) < most {
		next := s.Next(after)
		if next.IsZero() {
			break
		}
		out, after = append(out, next), next
	}
	return out
}

// longestChange is more than clocks are ever changed by at once, but for whole
// days that islands have skipped.
const longestChange = 3 * time.Hour

// wallClock is what the clock on the wall shows, on a clock that is never changed.
func wallClock(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

// instant is the moment when the clock of the zone first shows a time, or goes
// on over it.
func (s *Schedule) instant(wall time.Time) time.Time {
	t := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), 0, s.zone)
	if wallClock(t).Equal(wall) {
		// It may be the second time that the clock shows it.
		if begins, _ := t.ZoneBounds(); !begins.IsZero() {
			_, now := t.Zone()
			_, before := begins.Add(-time.Second).Zone()
			if first := t.Add(time.Duration(now-before) * time.Second); before > now && first.Before(begins) {
				return first
			}
		}
		return t
	}
	// The clock jumps over it: t lies on one side of the jump or on the other.
	begins, ends := t.ZoneBounds()
	if wallClock(t).Before(wall) {
		return ends
	}
	return begins
}

// nextByDistance follows real time: in each stretch without a change the clock
// is a plain one.
func (s *Schedule) nextByDistance(after time.Time) time.Time {
	stretch := after
	for range 10 { // stretches without any time in them: there are never that many
		here := stretch.In(s.zone)
		_, offset := here.Zone()
		_, ends := here.ZoneBounds()
		next := s.times.Next(after.In(time.FixedZone("", offset)))
		switch {
		case next.IsZero():
			return next
		case ends.IsZero() || next.Before(ends):
			return next.In(s.zone)
		}
		after, stretch = ends.Add(-time.Nanosecond), ends // the moment of the change counts
	}
	return time.Time{}
}
