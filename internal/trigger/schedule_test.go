package trigger

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/schedule"
)

var day = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

func at(hour, minute int) time.Time {
	return day.Add(time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute)
}

func every(t interface{ Fatal(...any) }, cron string) Times {
	s, err := schedule.Parse(cron, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// hourly is a schedule that fires at each full hour, with state as of midnight.
func hourly(t *testing.T, overlap schedule.Overlap) (Schedule, State) {
	s := Schedule{Workflow: "a.md", Name: "0", Times: every(t, "0 * * * *"), Overlap: overlap, CatchUp: 3 * time.Hour}
	state, fire := s.Due(State{}, at(0, 0), 0)
	if len(fire) != 0 {
		t.Fatalf("a new schedule fired for the past: %v", fire)
	}
	return s, state
}

func times(fire []Firing) []string {
	var out []string
	for _, f := range fire {
		out = append(out, f.At.Format("15:04"))
	}
	return out
}

func TestScheduleFiresOncePerTime(t *testing.T) {
	s, state := hourly(t, schedule.Skip)
	state, fire := s.Due(state, at(0, 59), 0)
	if len(fire) != 0 {
		t.Fatalf("fired early: %v", fire)
	}
	if got := s.Wake(state); !got.Equal(at(1, 0)) {
		t.Errorf("wakes at %v", got)
	}
	after, fire := s.Due(state, at(1, 0), 0)
	if got := times(fire); !slices.Equal(got, []string{"01:00"}) {
		t.Fatal(got)
	}
	if _, again := s.Due(after, at(1, 1), 0); len(again) != 0 {
		t.Errorf("fired twice: %v", again)
	}
	// A server that crashed before it stored the state asks for the same run.
	_, again := s.Due(state, at(1, 5), 0)
	if len(again) != 1 || again[0].Run != fire[0].Run {
		t.Errorf("%v and then %v", fire, again)
	}
}

func TestOverlapPolicyDecidesDuringARun(t *testing.T) {
	for _, c := range []struct {
		overlap schedule.Overlap
		fire    []string
		queue   int
		missed  int
		cancel  bool
	}{
		{schedule.Skip, nil, 0, 1, false},
		{schedule.QueueOne, nil, 1, 1, false},
		{schedule.QueueAll, nil, 3, 0, false},
		{schedule.CancelOld, []string{"03:00"}, 0, 1, true},
		{schedule.Allow, []string{"01:00", "02:00", "03:00"}, 0, 0, false},
	} {
		t.Run(string(c.overlap), func(t *testing.T) {
			s, state := hourly(t, c.overlap)
			state, fire := s.Due(state, at(3, 30), 1)
			if got := times(fire); !slices.Equal(got, c.fire) || len(state.Queue) != c.queue ||
				len(state.Missed) != c.missed {
				t.Fatalf("fired %v, queued %v, missed %v", got, state.Queue, state.Missed)
			}
			if c.cancel && !fire[0].CancelOthers {
				t.Error("the previous run is not canceled")
			}
			if c.queue == 0 {
				return
			}
			state, fire = s.Due(state, at(3, 40), 0)
			if got := times(fire); !slices.Equal(got, []string{"01:00"}) || len(state.Queue) != c.queue-1 {
				t.Errorf("after the previous run: fired %v, queued %v", got, state.Queue)
			}
		})
	}
}

func TestFiringsBeyondTheCatchUpWindowAreMissed(t *testing.T) {
	s, state := hourly(t, schedule.Allow)
	state, fire := s.Due(state, at(10, 30), 0)
	if got := times(fire); !slices.Equal(got, []string{"08:00", "09:00", "10:00"}) {
		t.Fatal(got)
	}
	if len(state.Missed) != 1 || !state.Missed[0].At.Equal(at(1, 0)) || state.Missed[0].Until.IsZero() {
		t.Errorf("%+v", state.Missed)
	}
	// A year of seconds is skipped without looking at each of them.
	s.Times = counting{every(t, "@every 1s"), new(int)}
	_, _ = s.Due(state, at(24*365, 0), 1)
	if n := *s.Times.(counting).calls; n > 3*3600+10 {
		t.Errorf("looked at %d times", n)
	}
}

type counting struct {
	Times
	calls *int
}

func (c counting) Next(t time.Time) time.Time { *c.calls++; return c.Times.Next(t) }

func TestPausedSchedulesRecordWhatTheyMissed(t *testing.T) {
	s, state := hourly(t, schedule.Skip)
	state.Paused = true
	state, fire := s.Due(state, at(2, 30), 0)
	if len(fire) != 0 || len(state.Missed) != 1 || state.Missed[0].Reason != "the schedule was paused" {
		t.Fatalf("%v, %+v", fire, state.Missed)
	}
	state.Paused = false
	if _, fire = s.Due(state, at(3, 0), 0); len(fire) != 1 {
		t.Errorf("%v", fire)
	}
}

func TestJitterIsTheSameForOneTimeAndDiffersBetweenTimes(t *testing.T) {
	s, state := hourly(t, schedule.Skip)
	s.Jitter = 10 * time.Minute
	wake := s.Wake(state)
	if wake.Before(at(1, 0)) || !wake.Before(at(1, 10)) || !wake.Equal(s.Wake(state)) {
		t.Fatal(wake)
	}
	if _, fire := s.Due(state, wake.Add(-time.Millisecond), 0); len(fire) != 0 {
		t.Error("fired before its jitter")
	}
	if _, fire := s.Due(state, wake, 0); len(fire) != 1 {
		t.Error("did not fire")
	}
	if s.delay(at(1, 0)) == s.delay(at(2, 0)) {
		t.Error("two times have one delay")
	}
}

func TestClockThatWasAheadDoesNotStopTheSchedule(t *testing.T) {
	s, state := hourly(t, schedule.Skip)
	state, _ = s.Due(state, at(24*30, 0), 0) // the clock is a month ahead
	state, _ = s.Due(state, at(0, 30), 0)
	if _, fire := s.Due(state, at(1, 0), 0); len(fire) != 1 {
		t.Error("the schedule waits for the month to pass")
	}
}

// Several servers work on one store. Each reads the state, starts runs and
// stores the state, and may crash after any of these; clocks go back and forth.
func TestEachScheduledTimeStartsAtMostOneRun(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Schedule{
			Workflow: "a.md", Name: "0", Times: every(t, "* * * * *"), CatchUp: time.Hour,
			Overlap: rapid.SampledFrom(schedule.Overlaps).Draw(t, "overlap"),
			Jitter:  rapid.SampledFrom([]time.Duration{0, 30 * time.Second}).Draw(t, "jitter"),
		}
		stored, version := State{Handled: day}, 0
		runs := map[journal.RunID]time.Time{} // all that were ever started
		finished := map[journal.RunID]bool{}
		now := day
		type server struct {
			state   State
			version int
			fire    []Firing
			decided bool
		}
		servers := make([]server, 3)
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(-90, 150).Draw(t, "seconds")) * time.Second)
			sv := &servers[rapid.IntRange(0, len(servers)-1).Draw(t, "server")]
			switch {
			case rapid.IntRange(0, 9).Draw(t, "event") == 0: // it crashes
				*sv = server{}
			case rapid.IntRange(0, 3).Draw(t, "event") == 0: // a run ends
				for id := range runs {
					finished[id] = true
					break
				}
			case !sv.decided:
				sv.state, sv.fire = s.Due(stored, now, len(runs)-len(finished))
				sv.version, sv.decided = version, true
			case len(sv.fire) > 0:
				f := sv.fire[0]
				sv.fire = sv.fire[1:]
				if old, ok := runs[f.Run]; ok && !old.Equal(f.At) {
					t.Fatalf("%v and %v share a run", old, f.At)
				}
				runs[f.Run] = f.At
			default:
				if sv.version == version {
					stored, version = sv.state, version+1
				}
				*sv = server{}
			}
		}
		seen := map[time.Time]bool{}
		for _, at := range runs {
			if seen[at] {
				t.Fatalf("two runs for %v", at)
			}
			seen[at] = true
		}
	})
}

func TestRunIDsDistinguishTheirParts(t *testing.T) {
	ids := map[journal.RunID]bool{}
	for _, parts := range [][]string{
		{"a", "b", "c"}, {"ab", "", "c"}, {"a", "bc", ""}, {"a", "b", "c", ""}, {"a", "b", "", "c"},
	} {
		id := RunID(parts[0], parts[1], parts[2:]...)
		if ids[id] {
			t.Errorf("%q share an id with others", parts)
		}
		ids[id] = true
		if again := RunID(parts[0], parts[1], parts[2:]...); again != id {
			t.Errorf("%q have two ids", parts)
		}
	}
}
