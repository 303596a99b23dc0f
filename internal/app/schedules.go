package app

import (
	"context"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/schedule"
)

// keepSchedules makes the engine keep the time of the schedules until the context ends. Each is fired once when it is
// new to this process, for what was missed.
func (s *triggerService) keepSchedules(ctx context.Context) {
	tick := time.NewTicker(filePoll)
	defer tick.Stop()
	for last := ""; ; {
		err := s.syncSchedules(ctx)
		if err == nil {
			_, err = s.fireDue(ctx)
		}
		switch {
		case err == nil:
			last = ""
		case ctx.Err() == nil && err.Error() != last:
			last = err.Error()
			s.app.o.Log.Error("schedules", "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// syncSchedules passes the schedules of the project to the engine.
func (s *triggerService) syncSchedules(ctx context.Context) error {
	stored, err := s.env.Store.List(ctx, triggerPrefix)
	if err != nil {
		return err
	}
	states := map[string]triggerState{}
	for _, r := range stored {
		var state triggerState
		if err := r.Decode(&state); err != nil {
			return err
		}
		states[strings.TrimPrefix(r.Key, triggerPrefix)] = state
	}
	s.mu.Lock()
	declared, read := s.declared, s.read
	s.mu.Unlock()
	if !read {
		return nil
	}
	all := []engine.Schedule{}
	for _, d := range declared {
		t, ok := d.schedule()
		if !ok {
			continue
		}
		times, ok := t.Times.(*schedule.Schedule)
		if !ok || times.Next(s.env.now()).IsZero() {
			continue
		}
		state := states[d.id]
		one := engine.Schedule{
			ID: d.id, Text: strings.TrimSpace(d.spec.Schedule + " " + d.spec.Timezone), Zone: times.Zone(),
			Times: times.Calendars(s.env.now()), Every: times.Every(), Paused: state.Paused,
		}
		if one.Every > 0 && !state.Handled.IsZero() {
			// The interval counts from the last firing.
			one.Phase = time.Duration(state.Handled.UnixNano() % int64(one.Every)).Truncate(time.Second)
		}
		all = append(all, one)
	}
	return s.scheduler.KeepSchedules(ctx, all, s.fireScheduled)
}

// fireScheduled implements engine.Fire.
func (s *triggerService) fireScheduled(ctx context.Context, id string, at time.Time) (again time.Time, err error) {
	if _, err := s.reload(ctx); err != nil {
		return time.Time{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.declared {
		if _, ok := d.schedule(); !ok || d.id != id {
			continue
		}
		wake, err := s.fire(ctx, d)
		if err != nil || !d.rechecksHere(wake, s.env.now()) && !d.rechecksHere(wake, at) {
			return time.Time{}, err
		}
		return wake, nil
	}
	return time.Time{}, engine.ErrUnknownSchedule
}

// rechecksHere reports whether this process, not the server, checks a schedule again at wake: the scheduled time has
// passed and is queued or delayed by its jitter, or clocks differ. Servers may keep the time in whole seconds, and may
// not know it while the clocks of the zone change.
func (d *workflowTrigger) rechecksHere(wake, now time.Time) bool {
	t, _ := d.schedule()
	until := now.Add(queuePoll + t.Jitter)
	if times, ok := t.Times.(*schedule.Schedule); ok {
		if end, changing := times.Changing(now); changing {
			until = end.Add(t.Jitter)
		}
	}
	return !wake.IsZero() && !wake.After(until)
}
