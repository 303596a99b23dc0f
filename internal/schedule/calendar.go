package schedule

import (
	"time"

	"github.com/netresearch/go-cron"
)

// Calendar matches times whose fields are all in these lists. Empty lists of Year, Month, Day and Weekday match all.
type Calendar struct {
	Year, Month, Day, Weekday, Hour, Minute, Second []int
}

// Calendars returns calendars in the zone of the schedule that match all of its times within a year, except while
// clocks change: then they match the start of this period. An interval such as @every 90m has none.
func (s *Schedule) Calendars(now time.Time) []Calendar {
	fields, ok := s.times.(*cron.SpecSchedule)
	if !ok {
		return nil
	}
	list := func(set uint64, least, most int) (out []int) {
		for i := least; i <= most; i++ {
			if set&(1<<i) != 0 {
				out = append(out, i)
			}
		}
		return out
	}
	both := Calendar{
		Month: list(fields.Month, 1, 12), Day: list(fields.Dom, 1, 31), Weekday: list(fields.Dow, 0, 6),
		Hour: list(fields.Hour, 0, 23), Minute: list(fields.Minute, 0, 59), Second: list(fields.Second, 0, 59),
	}
	out := []Calendar{both}
	if fields.DowOrDom && (fields.Dom|fields.Dow)&star == 0 { // one of the two is enough
		byDay, byWeekday := both, both
		byDay.Weekday, byWeekday.Day = nil, nil
		out = []Calendar{byDay, byWeekday}
	}
	return append(out, s.changes(now)...)
}

// star is the bit of a field that was written as *.
const star = 1 << 63

// changes returns when the periods within a year start in which clocks change.
func (s *Schedule) changes(now time.Time) (out []Calendar) {
	for at := now.In(s.zone); ; {
		_, at = at.ZoneBounds()
		if at.IsZero() || at.After(now.AddDate(1, 1, 0)) {
			return out
		}
		at = at.In(s.zone)
		first := at.Add(-maxOffsetChange)
		out = append(out, Calendar{
			Year: []int{first.Year()}, Month: []int{int(first.Month())}, Day: []int{first.Day()},
			Hour: []int{first.Hour()}, Minute: []int{first.Minute()}, Second: []int{first.Second()},
		})
	}
}

// Changing reports whether clocks change at about a time, and until when. Programs disagree in these hours about when
// a wall-clock time is.
func (s *Schedule) Changing(at time.Time) (until time.Time, ok bool) {
	begins, ends := at.In(s.zone).ZoneBounds()
	switch {
	case !ends.IsZero() && ends.Sub(at) <= maxOffsetChange:
		return ends.Add(maxOffsetChange), true
	case !begins.IsZero() && at.Sub(begins) < maxOffsetChange:
		return begins.Add(maxOffsetChange), true
	}
	return time.Time{}, false
}

// Every returns the interval of a schedule such as @every 90m, and 0 for others.
func (s *Schedule) Every() time.Duration {
	if every, ok := s.times.(cron.ConstantDelaySchedule); ok {
		return every.Delay
	}
	return 0
}

// Zone returns the name of the time zone.
func (s *Schedule) Zone() string { return s.zone.String() }
