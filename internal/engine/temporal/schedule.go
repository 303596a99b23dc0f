package temporal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/espalier-run/espalier/internal/engine"
)

// Every schedule of the project is a Schedule of Temporal. When it is due, Temporal starts a small workflow with one
// activity, which fires what the journal says is due: Temporal keeps the time, and the journal makes sure that every
// firing happens once, and decides about missed ones.

// The names under which workers register what they run.
const (
	scheduleName = "espalier.schedule"
	fireName     = "espalier.fire"
)

// firing is the input of the activity.
type firing struct {
	ID string    `json:"id"`
	At time.Time `json:"at"`
}

// scheduleQueue is the task queue of the workflows of schedules. Only processes that fire triggers serve it.
func (e *Engine) scheduleQueue() string { return e.c.TaskQueue + "-schedules" }

// schedulePrefix starts the ids of the schedules of this journal.
func (e *Engine) schedulePrefix() string { return e.c.TaskQueue + "/schedule/" }

// scheduleState is what this process knows about the schedules that it keeps.
type scheduleState struct {
	worker  worker.Worker     // nil before the first call
	applied map[string]string // the schedules that Temporal has, by id
	checked time.Time         // when they were compared with Temporal's
}

// scheduleInterval is how often schedules are compared with those of Temporal, which people may delete there.
const scheduleInterval = time.Minute

var _ engine.Scheduler = (*Engine)(nil)

// KeepSchedules implements engine.Scheduler.
func (e *Engine) KeepSchedules(ctx context.Context, all []engine.Schedule, fire engine.Fire) error {
	if err := e.connect(ctx); err != nil {
		return err
	}
	e.scheduling.Lock()
	defer e.scheduling.Unlock()
	s := &e.schedules
	if s.worker == nil {
		if err := e.serveSchedules(fire); err != nil {
			return err
		}
	}
	wanted, changed := map[string]string{}, s.applied == nil
	for i := range all {
		text, err := json.Marshal(all[i])
		if err != nil {
			return err
		}
		wanted[all[i].ID] = string(text)
		changed = changed || s.applied[all[i].ID] == ""
	}
	for id := range s.applied {
		changed = changed || wanted[id] == ""
	}
	// List the schedules of Temporal only if some appeared or disappeared since the last call.
	if changed {
		if err := e.deleteSchedules(ctx, wanted); err != nil {
			return err
		}
	}
	// Create or change those that differ, and from time to time all of them.
	again := time.Since(s.checked) > scheduleInterval
	for i := range all {
		one := &all[i]
		if again || s.applied[one.ID] != wanted[one.ID] {
			if err := e.keepSchedule(ctx, one, s.applied[one.ID] == wanted[one.ID]); err != nil {
				return fmt.Errorf("schedule %s in Temporal: %w", one.ID, err)
			}
		}
	}
	s.applied = wanted
	if again {
		s.checked = time.Now()
	}
	return nil
}

// serveSchedules starts the worker that fires schedules.
func (e *Engine) serveSchedules(fire engine.Fire) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return engine.ErrClosed
	}
	w := worker.New(e.conn, e.scheduleQueue(), worker.Options{
		WorkerStopTimeout: forever, DisableRegistrationAliasing: true,
	})
	w.RegisterWorkflowWithOptions(e.scheduleWorkflow, workflow.RegisterOptions{Name: scheduleName})
	w.RegisterActivityWithOptions(
		func(ctx context.Context, f firing) error { return e.fire(ctx, f, fire) },
		activity.RegisterOptions{Name: fireName},
	)
	if err := w.Start(); err != nil {
		return err
	}
	e.schedules.worker = w
	return nil
}

// deleteSchedules deletes the schedules of this journal that are not wanted.
func (e *Engine) deleteSchedules(ctx context.Context, wanted map[string]string) error {
	list, err := e.client.ScheduleClient().List(ctx, client.ScheduleListOptions{PageSize: 1000})
	if err != nil {
		return err
	}
	for list.HasNext() {
		entry, err := list.Next()
		if err != nil {
			return err
		}
		id, ours := strings.CutPrefix(entry.ID, e.schedulePrefix())
		if _, keep := wanted[id]; ours && !keep {
			if err := e.deleteSchedule(ctx, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// deleteSchedule deletes a schedule. One that does not exist is no error.
func (e *Engine) deleteSchedule(ctx context.Context, id string) error {
	err := e.client.ScheduleClient().GetHandle(ctx, e.schedulePrefix()+id).Delete(ctx)
	if isNotFound(err) {
		return nil
	}
	return err
}

// keepSchedule creates or changes a schedule. If it is known to be unchanged, it is only created if it is missing.
func (e *Engine) keepSchedule(ctx context.Context, s *engine.Schedule, unchanged bool) error {
	schedules, id := e.client.ScheduleClient(), e.schedulePrefix()+s.ID
	spec := scheduleSpec(s)
	action := &client.ScheduleWorkflowAction{
		ID: e.c.TaskQueue + "/fire/" + s.ID, Workflow: scheduleName, Args: []any{s.ID}, TaskQueue: e.scheduleQueue(),
	}
	// While one workflow runs, a second one waits: it looks for what has become due since the first one has looked.
	const overlap = enumspb.SCHEDULE_OVERLAP_POLICY_BUFFER_ONE
	note := s.Text
	if s.Paused {
		note = pausedNote
	}
	_, err := schedules.Create(ctx, client.ScheduleOptions{
		ID: id, Spec: *spec, Action: action, Overlap: overlap, Paused: s.Paused, Note: note,
	})
	switch exists := errors.Is(err, temporal.ErrScheduleAlreadyRunning); {
	case !exists:
		return err
	case unchanged:
		return nil
	}
	return schedules.GetHandle(ctx, id).Update(ctx, client.ScheduleUpdateOptions{
		DoUpdate: func(in client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
			now := in.Description.Schedule
			now.Spec, now.Action, now.Policy = spec, action, &client.SchedulePolicies{Overlap: overlap}
			if now.State == nil {
				now.State = &client.ScheduleState{}
			}
			// A pause that a person has set in Temporal stays.
			if s.Paused || !now.State.Paused || now.State.Note == pausedNote {
				now.State.Paused, now.State.Note = s.Paused, note
			}
			return &client.ScheduleUpdate{Schedule: &now}, nil
		},
	})
}

// pausedNote is the note of a schedule that is paused in Espalier.
const pausedNote = "Paused by espalier triggers pause"

// scheduleSpec returns the times of a schedule for Temporal.
func scheduleSpec(s *engine.Schedule) *client.ScheduleSpec {
	spec := &client.ScheduleSpec{TimeZoneName: s.Zone}
	if s.Every > 0 {
		spec.Intervals = []client.ScheduleIntervalSpec{{Every: s.Every, Offset: s.Phase}}
	}
	for i := range s.Times {
		c := &s.Times[i]
		spec.Calendars = append(spec.Calendars, client.ScheduleCalendarSpec{
			Year: ranges(c.Year), Month: ranges(c.Month), DayOfMonth: ranges(c.Day), DayOfWeek: ranges(c.Weekday),
			Hour: ranges(c.Hour), Minute: ranges(c.Minute), Second: ranges(c.Second),
		})
	}
	return spec
}

// ranges returns sorted numbers as ranges.
func ranges(numbers []int) (out []client.ScheduleRange) {
	for _, n := range numbers {
		if last := len(out) - 1; last >= 0 && out[last].End == n-1 {
			out[last].End = n
		} else {
			out = append(out, client.ScheduleRange{Start: n, End: n})
		}
	}
	return out
}

// scheduledStart is the attribute with the time for which Temporal has started a workflow.
var scheduledStart = temporal.NewSearchAttributeKeyTime("TemporalScheduledStartTime")

// scheduleWorkflow fires a schedule.
func (e *Engine) scheduleWorkflow(ctx workflow.Context, id string) error {
	at, ok := workflow.GetTypedSearchAttributes(ctx).GetTime(scheduledStart)
	if !ok {
		at = workflow.Now(ctx)
	}
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: forever, HeartbeatTimeout: fireHeartbeat,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: 500 * time.Millisecond, MaximumInterval: 30 * time.Second},
	})
	return workflow.ExecuteActivity(ctx, fireName, firing{ID: id, At: at}).Get(ctx, nil)
}

const (
	// fireHeartbeat is after how long without a heartbeat another process fires a schedule.
	fireHeartbeat = 10 * time.Second
	// unknownAttempts is how many processes may not have a schedule before it is deleted.
	unknownAttempts = 5
)

// fire fires what is due of a schedule, until nothing is due before its next time.
func (e *Engine) fire(ctx context.Context, f firing, fire engine.Fire) error {
	for {
		again, err := fire(ctx, f.ID, f.At)
		if errors.Is(err, engine.ErrUnknownSchedule) && activity.GetInfo(ctx).Attempt >= unknownAttempts {
			// A process that has it creates it again.
			return e.deleteSchedule(ctx, f.ID)
		}
		if err != nil || again.IsZero() {
			return err
		}
		pause := max(min(again.Sub(e.c.Now()), time.Second), time.Millisecond)
		select {
		case <-time.After(pause):
		case <-activity.GetWorkerStopChannel(ctx):
			return engine.ErrClosed // another process continues
		case <-ctx.Done():
			return ctx.Err()
		}
		activity.RecordHeartbeat(ctx)
	}
}

// stopSchedules ends the worker that fires schedules. The schedules stay in Temporal.
func (e *Engine) stopSchedules() {
	e.scheduling.Lock()
	w := e.schedules.worker
	e.schedules.worker = nil
	e.scheduling.Unlock()
	if w != nil {
		w.Stop()
	}
}
