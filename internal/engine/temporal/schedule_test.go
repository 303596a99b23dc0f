//go:build temporal

package temporal_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/engine/enginetest"
	"github.com/espalier-run/espalier/internal/engine/temporal"
	"github.com/espalier-run/espalier/internal/schedule"
	"github.com/espalier-run/espalier/internal/step"
)

// never is a Fire that has nothing to do.
func never(context.Context, string, time.Time) (time.Time, error) { return time.Time{}, nil }

// kept returns a schedule as the engine gets it.
func kept(t *testing.T, cron, zone string, now time.Time) (engine.Schedule, *schedule.Schedule) {
	t.Helper()
	place, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	times, err := schedule.Parse(cron, place)
	if err != nil {
		t.Fatal(err)
	}
	return engine.Schedule{
		ID: cron + " " + zone, Text: cron, Zone: times.Zone(), Times: times.Calendars(now), Every: times.Every(),
	}, times
}

// The server is due at all times of a schedule, except while clocks change: it is due when such a period starts. At
// other times of the year it is due at no others.
func TestServerKnowsTheTimesOfSchedules(t *testing.T) {
	e := newWorld(t).open(map[string]step.Runner{"test": enginetest.NewKind()})
	now := time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC)
	zones := []string{
		"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "America/Havana",
	}
	crons := []string{
		"0 6 * * *", "*/15 * * * *", "30 2 * * *", "15 1 * * *", "0 0 * * *", "0 0 13 * 5", "0 12 1-7 * MON",
		"5 4 * FEB-APR 1,3", "*/20 30 2 * * *", "0 9-17/2 * * 1-5", "@daily", "@hourly", "@weekly", "45 23 31 * *",
		"0 */6 * * *", "10 2,3 * * 7",
	}
	var all []engine.Schedule
	times := map[string]*schedule.Schedule{}
	for _, zone := range zones {
		for _, cron := range crons {
			one, exact := kept(t, cron, zone, now)
			all, times[one.ID] = append(all, one), exact
		}
	}
	interval, _ := kept(t, "@every 90m", "UTC", now)
	interval.Phase = 20 * time.Minute
	all = append(all, interval)
	if err := e.KeepSchedules(t.Context(), all, never); err != nil {
		t.Fatal(err)
	}
	c, err := e.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	server := func(id string, from, to time.Time) (out []time.Time) {
		got, err := c.WorkflowService().ListScheduleMatchingTimes(t.Context(),
			&workflowservice.ListScheduleMatchingTimesRequest{
				Namespace: "default", ScheduleId: e.ScheduleID(id),
				StartTime: timestamppb.New(from), EndTime: timestamppb.New(to),
			})
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range got.GetStartTime() {
			out = append(out, at.AsTime())
		}
		return out
	}
	windows := map[string][2]time.Time{"without a change": {now, now.AddDate(0, 0, 9)}}
	for _, day := range []string{"2026-03-08", "2026-03-29", "2026-04-05", "2026-10-04", "2026-10-25", "2026-11-01"} {
		at, err := time.Parse(time.DateOnly, day)
		if err != nil {
			t.Fatal(err)
		}
		windows[day] = [2]time.Time{at.AddDate(0, 0, -2), at.AddDate(0, 0, 2)}
	}
	for id, exact := range times {
		for name, w := range windows {
			due := server(id, w[0], w[1])
			n := 0
			for next := exact.Next(w[0]); !next.IsZero() && !next.After(w[1]); next = exact.Next(next) {
				at := next
				n++
				if until, changing := exact.Changing(at); changing {
					at = until.Add(-6 * time.Hour)
				}
				if !slices.ContainsFunc(due, at.Equal) {
					t.Errorf("%s, %s: the server is not due at %s", id, name, at)
				}
			}
			if name == "without a change" && len(due) != n {
				t.Errorf("%s: the server is due %d times instead of %d", id, len(due), n)
			}
		}
	}
	if due := server(interval.ID, now, now.Add(4*time.Hour)); fmt.Sprint(due) != fmt.Sprint([]time.Time{
		now.Add(20 * time.Minute), now.Add(110 * time.Minute), now.Add(200 * time.Minute),
	}) {
		t.Errorf("the interval is due at %v", due)
	}
}

// ids returns the schedules that the server has of a task queue.
func ids(t *testing.T, w *world, e *temporal.Engine) (out []string) {
	t.Helper()
	c, err := e.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for token, more := []byte(nil), true; more; more = len(token) > 0 {
		found, err := c.WorkflowService().ListSchedules(t.Context(), &workflowservice.ListSchedulesRequest{
			Namespace: "default", MaximumPageSize: 100, NextPageToken: token,
		})
		if err != nil {
			t.Fatal(err)
		}
		token = found.GetNextPageToken()
		for _, s := range found.GetSchedules() {
			if id, ok := strings.CutPrefix(s.GetScheduleId(), w.config.TaskQueue+"/"); ok {
				out = append(out, id)
			}
		}
	}
	slices.Sort(out)
	return out
}

// A process deletes the schedules of its journal that it does not have, and no others. A schedule that was deleted in
// Temporal comes back, and one that no process has is deleted when it is due.
func TestSchedulesOfTheJournalAreKept(t *testing.T) {
	one, other := newWorld(t), newWorld(t)
	kinds := map[string]step.Runner{"test": enginetest.NewKind()}
	first, stranger := one.open(kinds), other.open(kinds)
	a, _ := kept(t, "0 6 * * *", "UTC", time.Now())
	b, _ := kept(t, "0 7 * * *", "UTC", time.Now())
	keep := func(e *temporal.Engine, fire engine.Fire, all ...engine.Schedule) {
		t.Helper()
		if err := e.KeepSchedules(t.Context(), all, fire); err != nil {
			t.Fatal(err)
		}
	}
	until := func(w *world, e *temporal.Engine, want ...string) { // the server lists schedules late
		t.Helper()
		for range 600 {
			if slices.Equal(ids(t, w, e), want) {
				return
			}
			time.Sleep(100 * time.Millisecond) // the server does not announce changes
		}
		t.Fatalf("the server has %v instead of %v", ids(t, w, e), want)
	}
	keep(stranger, never, a)
	keep(first, never, a, b)
	until(one, first, "schedule/"+a.ID, "schedule/"+b.ID)
	until(other, stranger, "schedule/"+a.ID)
	keep(first, never, b)
	until(one, first, "schedule/"+b.ID)
	until(other, stranger, "schedule/"+a.ID)
	enginetest.Stop(first)

	// Another process does not have it: it says so until it is deleted.
	second := one.open(kinds)
	c, err := second.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	unknown := func(context.Context, string, time.Time) (time.Time, error) {
		return time.Time{}, engine.ErrUnknownSchedule
	}
	keep(second, unknown, b)
	if err := c.ScheduleClient().GetHandle(t.Context(), second.ScheduleID(b.ID)).Trigger(
		t.Context(), client.ScheduleTriggerOptions{},
	); err != nil {
		t.Fatal(err)
	}
	until(one, second)
	second.CheckSchedules()
	keep(second, unknown, b)
	until(one, second, "schedule/"+b.ID)
}

// A schedule that is due is fired in one of the processes that keep it. It is called again as long as it asks for that,
// with the time that the server was waiting for.
func TestDueSchedulesAreFiredInOneProcess(t *testing.T) {
	w := newWorld(t)
	often, _ := kept(t, "*/2 * * * * *", "Europe/Berlin", time.Now())
	type call struct {
		process int
		id      string
		at      time.Time
	}
	calls := make(chan call, 100)
	for i := range 2 {
		asked := map[time.Time]bool{}
		var mu sync.Mutex
		fire := func(_ context.Context, id string, at time.Time) (again time.Time, err error) {
			mu.Lock()
			defer mu.Unlock()
			calls <- call{i, id, at}
			if !asked[at] {
				again = time.Now().Add(10 * time.Millisecond)
			}
			asked[at] = true
			return again, nil
		}
		e := w.open(map[string]step.Runner{"test": enginetest.NewKind()})
		if err := e.KeepSchedules(t.Context(), []engine.Schedule{often}, fire); err != nil {
			t.Fatal(err)
		}
	}
	var last call
	for i := range 8 {
		got := <-calls
		if got.id != often.ID || got.at.Truncate(2*time.Second) != got.at {
			t.Errorf("%q was fired for %s", got.id, got.at)
		}
		if i%2 == 0 && !got.at.After(last.at) || i%2 == 1 && got != last {
			t.Errorf("call %d is %v, after %v", i, got, last)
		}
		last = got
	}
}
