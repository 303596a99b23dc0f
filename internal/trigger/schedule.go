package trigger

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/schedule"
)

// Times are the times of a schedule.
type Times interface {
	// Next returns the first time after the given one, or the zero time if there
	// is none.
	Next(after time.Time) time.Time
}

// Schedule is a schedule of a workflow.
type Schedule struct {
	Workflow string // the path of its file, which stays the same across edits
	Name     string // distinguishes the schedules of a workflow
	Times    Times
	Overlap  schedule.Overlap
	// CatchUp is how late a firing may be. Later ones are missed.
	CatchUp time.Duration
	// Jitter delays each firing by less than this, always by the same amount for
	// the same time.
	Jitter time.Duration
}

// RunID returns the id of the run for a scheduled time.
func (s Schedule) RunID(at time.Time) journal.RunID { return RunID(s.Workflow, s.Name, scheduled(at)) }

// State is what is stored about a schedule.
type State struct {
	// Handled is the time up to which all scheduled times have been dealt with.
	Handled time.Time `json:"handled"`
	Paused  bool      `json:"paused,omitempty"`
	// Queue holds the scheduled times whose runs start when the previous run is
	// over, oldest first.
	Queue []time.Time `json:"queue,omitempty"`
	// Missed are the latest firings that did not start a run, oldest first.
	Missed []Missed `json:"missed,omitempty"`
}

// Missed is a firing, or several of one reason, that started no run.
type Missed struct {
	At     time.Time `json:"at"`
	Until  time.Time `json:"until,omitzero"` // the last one, if there are several
	Reason string    `json:"reason"`
}

// Limits of what is stored about a schedule.
const (
	maxMissed = 50
	maxQueue  = 100
)

// Firing is a run to start.
type Firing struct {
	Run journal.RunID
	At  time.Time // the scheduled time
	// CancelOthers asks to cancel the other unfinished runs of the schedule.
	CancelOthers bool
}

// Due returns the runs to start now and the state after they have been started.
// Active is how many runs of the schedule are not over. A caller that fails to
// start a run or to store the state calls Due again with what is stored: the
// firings are the same, and runs that exist already are not started twice.
func (s Schedule) Due(state State, now time.Time, active int) (State, []Firing) {
	state.Queue, state.Missed = slices.Clone(state.Queue), slices.Clone(state.Missed)
	if state.Handled.IsZero() || state.Handled.After(now.Add(time.Minute)) {
		// A new schedule does not look back. If the clock was ahead when the
		// state was stored, times since then are handled again: their ids are
		// known.
		state.Handled = now
		if len(state.Queue) == 0 {
			return state, nil
		}
	}
	var fire []Firing
	start := func(at time.Time, cancel bool) {
		fire = append(fire, Firing{Run: s.RunID(at), At: at, CancelOthers: cancel})
		active++
	}
	for active == 0 && len(state.Queue) > 0 {
		start(state.Queue[0], false)
		state.Queue = state.Queue[1:]
	}
	s.skipLate(&state, now)
	for {
		at := s.Times.Next(state.Handled)
		if at.IsZero() || at.Add(s.delay(at)).After(now) {
			return state, fire
		}
		state.Handled = at
		busy := active > 0 || len(state.Queue) > 0
		switch {
		case state.Paused:
			state.Miss(at, "the schedule was paused")
		case !busy || s.Overlap == schedule.Allow:
			start(at, false)
		case s.Overlap == schedule.CancelOld:
			// Only the newest of several that are due together counts.
			for _, older := range fire {
				state.Miss(older.At, "a later firing replaced it")
			}
			fire = nil
			start(at, true)
		case s.Overlap == schedule.QueueOne && len(state.Queue) == 0,
			s.Overlap == schedule.QueueAll && len(state.Queue) < maxQueue:
			state.Queue = append(state.Queue, at)
		case s.Overlap == schedule.QueueAll:
			state.Miss(at, fmt.Sprintf("%d firings were already queued", maxQueue))
		case s.Overlap == schedule.QueueOne:
			state.Miss(at, "another firing was already queued")
		default:
			state.Miss(at, "the previous run had not finished")
		}
	}
}

// skipLate records the firings that are too late to catch up with. It looks at
// the first and the last of them only, however many there are.
func (s Schedule) skipLate(state *State, now time.Time) {
	edge := now.Add(-s.CatchUp)
	first := s.Times.Next(state.Handled)
	if first.IsZero() || !first.Before(edge) {
		return
	}
	reason := "no server was running"
	if state.Paused {
		reason = "the schedule was paused"
	}
	m := Missed{At: first, Reason: reason}
	if second := s.Times.Next(first); !second.IsZero() && second.Before(edge) {
		m.Until = edge
	}
	state.Missed = append(state.Missed, m)
	state.trim()
	state.Handled = edge.Add(-time.Nanosecond)
}

// Miss records a firing that started no run.
func (st *State) Miss(at time.Time, reason string) {
	if n := len(st.Missed); n > 0 && st.Missed[n-1].Reason == reason && !at.Before(st.Missed[n-1].At) {
		st.Missed[n-1].Until = at
		return
	}
	st.Missed = append(st.Missed, Missed{At: at, Reason: reason})
	st.trim()
}

func (st *State) trim() {
	if extra := len(st.Missed) - maxMissed; extra > 0 {
		st.Missed = slices.Delete(st.Missed, 0, extra)
	}
}

// Wake returns when Due has something to do next, or the zero time if it never
// has. Queued firings do not count: they start when a run ends.
func (s Schedule) Wake(state State) time.Time {
	at := s.Times.Next(state.Handled)
	if at.IsZero() {
		return at
	}
	return at.Add(s.delay(at))
}

// delay returns the jitter of a scheduled time.
func (s Schedule) delay(at time.Time) time.Duration {
	if s.Jitter <= 0 {
		return 0
	}
	sum := sha256.Sum256([]byte(s.Workflow + "\x00" + s.Name + "\x00" + scheduled(at)))
	return time.Duration(binary.BigEndian.Uint64(sum[:8]) % uint64(s.Jitter))
}
