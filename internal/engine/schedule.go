package engine

import (
	"context"
	"errors"
	"time"

	"github.com/espalier-run/espalier/internal/schedule"
)

// Scheduler is an Engine whose server keeps the time of schedules.
type Scheduler interface {
	// KeepSchedules makes the server keep these schedules of the project, and no others. When one of them is due, fire
	// is called in one of the processes that keep it. Call KeepSchedules repeatedly: it costs nothing if nothing has
	// changed.
	KeepSchedules(ctx context.Context, all []Schedule, fire Fire) error
}

// Fire fires what is due of a schedule. It returns the time of an extra call before the next scheduled time, or zero
// for none. at is the time that the server was waiting for. An unknown schedule is ErrUnknownSchedule.
type Fire func(ctx context.Context, id string, at time.Time) (again time.Time, err error)

// ErrUnknownSchedule means that a process does not have a schedule.
var ErrUnknownSchedule = errors.New("this process does not have the schedule")

// Schedule is a schedule as a server keeps it. It may be due at more times than there are firings: Fire decides.
type Schedule struct {
	ID    string
	Text  string // for people
	Zone  string // of the calendars; empty is UTC
	Times []schedule.Calendar
	// Every and Phase are an interval and its offset since 1970, if there are no calendars.
	Every, Phase time.Duration
	Paused       bool
}
