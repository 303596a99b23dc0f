package web

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/identity"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/schedule"
)

type triggersPage struct {
	shell
	Days     []time.Time
	Lanes    []triggerLane
	Triggers []triggerRow
	Missed   []missedFiring
	Zone     string
}

// triggerLane is a schedule in the calendar.
type triggerLane struct {
	Workflow, Address, Words string
	Off                      string        // why it does not fire: disabled or paused
	Slots                    [][]time.Time // by day
	More                     []int         // how many times of a day are not shown
}

type triggerRow struct {
	ID, Workflow, Address, Icon, Words string

	Next        time.Time
	Off, Paused bool
	Queued      int
	Active      []navRun
	Problem     string
	Hook        string // address of a webhook
	Testable    bool   // starts with data
}

// missedFiring is a firing that started no run.
type missedFiring struct {
	Workflow, Address, Words, Reason string

	At, Until time.Time
}

// Limits of the page.
const (
	calendarDays = 7
	maxPerDay    = 6
	maxMissed    = 50
)

// triggers shows all triggers, a calendar of the schedules for a week, and the firings that started no run, the latest
// first.
func (h *Handler) triggers(r *request) error {
	page := triggersPage{shell: h.shell(r, "triggers", "Triggers"), Zone: zoneName(h.o.Now())}
	found, err := h.o.App.Triggers(r.Context())
	if err != nil {
		return err
	}
	now := h.o.Now()
	// Days begin at midnight of the server's time zone. AddDate keeps to midnight when daylight saving changes; adding
	// 24 hours would not.
	today := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
	for i := range calendarDays {
		page.Days = append(page.Days, today.AddDate(0, 0, i))
	}
	for i := range found {
		t := &found[i]
		row := h.triggerRow(r, t)
		if t.Kind == ir.OnSchedule {
			times, err := times(t.Trigger)
			if err != nil {
				row.Problem = err.Error()
			} else {
				page.Lanes = append(page.Lanes, laneOf(row, times, now, page.Days))
			}
		}
		page.Triggers = append(page.Triggers, row)
		for _, m := range t.Missed {
			page.Missed = append(page.Missed, missedFiring{
				Workflow: row.Workflow, Address: row.Address, Words: row.Words,
				Reason: m.Reason, At: m.At, Until: m.Until,
			})
		}
	}
	// Triggers with a next time come first, by that time; those without one keep their order.
	slices.SortStableFunc(page.Triggers, func(a, b triggerRow) int {
		switch {
		case a.Next.IsZero() == b.Next.IsZero():
			return a.Next.Compare(b.Next)
		case a.Next.IsZero():
			return 1
		}
		return -1
	})
	slices.SortStableFunc(page.Missed, func(a, b missedFiring) int { return b.At.Compare(a.At) })
	page.Missed = page.Missed[:min(len(page.Missed), maxMissed)]
	return h.render(r, http.StatusOK, "triggers.html", page)
}

func (h *Handler) triggerRow(r *request, t *app.Trigger) triggerRow {
	row := triggerRow{
		ID: t.ID, Workflow: visible(t.Workflow), Address: "/workflows/" + url.PathEscape(t.Workflow),
		Words: triggerWords(t.Trigger), Icon: triggerIcon(t.Trigger), Next: t.Next, Off: t.Off, Paused: t.Paused,
		Queued: len(t.Queue), Problem: t.Problem,
		Testable: t.Kind == ir.OnEvent || t.Kind == ir.OnWebhook,
	}
	if t.Kind == ir.OnWebhook {
		row.Hook = h.publicAddress(r) + "/hooks/" + url.PathEscape(t.Event)
	}
	for _, id := range t.Active {
		row.Active = append(row.Active, navRun{ID: string(id), Name: id.Short()})
	}
	return row
}

// publicAddress returns the address that the operator has set for the server, or else the one under which the browser
// reaches it, without a final slash. The Host header is trustworthy here: the guard of package server has compared it
// with the hosts that are served.
func (h *Handler) publicAddress(r *request) string {
	if public := h.o.App.PublicURL(); public != "" {
		return public
	}
	scheme := "http"
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
		scheme = "https"
	}
	return scheme + "://" + r.Host + h.o.Base
}

// actOnTrigger pauses or resumes a trigger, starts a run as it does, or tests it with data, in which case the run is
// simulated. Pausing needs the permission to manage, as in the API.
func (h *Handler) actOnTrigger(r *request) error {
	name, ctx := r.PostFormValue("trigger"), r.Context()
	start := func(done string, id journal.RunID, err error) error {
		if err != nil {
			return err
		}
		return h.redirect(r, runPath(string(id), "?done="+done))
	}
	switch do := r.PathValue("action"); do {
	case "pause", "resume":
		if !r.id.May(identity.Manage) {
			return refused(identity.Manage)
		}
		if _, err := h.o.App.PauseTrigger(ctx, name, do == "pause"); err != nil {
			return err
		}
		return h.redirect(r, "/triggers?done=trigger-"+do+"d")
	case "run":
		id, err := h.o.App.RunTrigger(ctx, name, r.actor())
		return start("started", id, err)
	case "test":
		var data json.RawMessage
		if text := strings.TrimSpace(r.PostFormValue("data")); text != "" {
			if data = json.RawMessage(text); !json.Valid(data) {
				return invalid("the data of the test is not JSON", "")
			}
		}
		id, err := h.o.App.TestTrigger(ctx, name, data, r.actor())
		return start("simulated", id, err)
	}
	return notFound("there is no such action")
}

// zoneName returns the name of the server's time zone.
func zoneName(now time.Time) string {
	if name := now.Location().String(); name != "Local" {
		return name
	}
	name, _ := now.Zone()
	return name
}

// times returns the schedule of a trigger in its time zone; an empty name is UTC.
func times(t ir.Trigger) (*schedule.Schedule, error) {
	zone, err := time.LoadLocation(t.Timezone)
	if err != nil {
		return nil, err
	}
	return schedule.Parse(t.Schedule, zone)
}

// laneOf returns the times at which a schedule will fire, by day. Today only has the times that are to come.
func laneOf(row triggerRow, times *schedule.Schedule, now time.Time, days []time.Time) triggerLane {
	l := triggerLane{Workflow: row.Workflow, Address: row.Address, Words: row.Words}
	switch {
	case row.Off:
		l.Off = "disabled"
	case row.Paused:
		l.Off = "paused"
	}
	for _, start := range days {
		end := start.AddDate(0, 0, 1)
		var slot []time.Time
		more := 0
		// A schedule of every minute has 1,440 times a day: they are counted, not shown.
		from := start.Add(-time.Second)
		if from.Before(now) {
			from = now
		}
		for at := times.Next(from); !at.IsZero() && at.Before(end); at = times.Next(at) {
			if len(slot) < maxPerDay {
				slot = append(slot, at.In(start.Location()))
			} else {
				more++
			}
		}
		l.Slots, l.More = append(l.Slots, slot), append(l.More, more)
	}
	return l
}

func triggerWords(t ir.Trigger) string { return visible(sentence(t.Words())) }

func triggerIcon(t ir.Trigger) string {
	switch t.Kind {
	case ir.OnSchedule:
		return "i-clock"
	case ir.OnEvent:
		return "i-k-trigger"
	case ir.OnAPI, ir.OnWebhook:
		return "i-link"
	case ir.OnFile:
		return "i-file"
	}
	return "i-user"
}
