package web

import (
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/schedule"
)

type triggersPage struct {
	shell
	Days     []time.Time
	Lanes    []triggerLane
	Triggers []triggerRow
	Zone     string
}

// triggerLane is a schedule in the calendar.
type triggerLane struct {
	Workflow, Address, Words string
	Off                      bool
	Slots                    [][]time.Time // by day
	More                     []int         // how many times of a day are not shown
}

type triggerRow struct {
	Workflow, Address, Icon, Words string
	Next                           time.Time
	Off                            bool
	Problem                        string
}

// Limits of the calendar.
const (
	calendarDays = 7
	maxPerDay    = 6
)

func (h *Handler) triggers(r *request) error {
	found, err := h.o.App.Workflows(r.Context(), app.Reading{})
	if err != nil {
		return err
	}
	now := h.o.Now()
	page := triggersPage{shell: h.shell(r, "triggers", "Triggers"), Zone: zoneName(now)}
	today := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
	for i := range calendarDays {
		page.Days = append(page.Days, today.AddDate(0, 0, i))
	}
	for _, w := range found.Workflows {
		if w.Analysis == nil || w.Analysis.Program == nil || w.Analysis.Err() != nil {
			continue
		}
		for _, t := range w.Analysis.Program.Triggers {
			if t.Kind == ir.OnDemand { // a person starts it on the page of the workflow
				continue
			}
			row := triggerRow{
				Workflow: visible(w.Name), Address: "/workflows/" + url.PathEscape(w.Name), Words: triggerWords(t), Off: t.Off,
				Icon: triggerIcon(t),
			}
			if t.Kind == ir.OnSchedule {
				times, err := times(t)
				if err != nil {
					row.Problem = err.Error()
				} else {
					row.Next = times.Next(now)
					page.Lanes = append(page.Lanes, lanesOf(row, times, page.Days))
				}
			}
			page.Triggers = append(page.Triggers, row)
		}
	}
	slices.SortStableFunc(page.Triggers, func(a, b triggerRow) int {
		switch {
		case a.Next.IsZero() == b.Next.IsZero():
			return a.Next.Compare(b.Next)
		case a.Next.IsZero():
			return 1
		}
		return -1
	})
	return h.render(r, http.StatusOK, "triggers.html", page)
}

// zoneName returns the name of the server's time zone.
func zoneName(now time.Time) string {
	if name := now.Location().String(); name != "Local" {
		return name
	}
	name, _ := now.Zone()
	return name
}

func times(t ir.Trigger) (*schedule.Schedule, error) {
	zone, err := time.LoadLocation(t.Timezone)
	if err != nil {
		return nil, err
	}
	return schedule.Parse(t.Schedule, zone)
}

func lanesOf(row triggerRow, times *schedule.Schedule, days []time.Time) triggerLane {
	l := triggerLane{Workflow: row.Workflow, Address: row.Address, Words: row.Words, Off: row.Off}
	for _, start := range days {
		end := start.AddDate(0, 0, 1)
		var slot []time.Time
		more := 0
		// A schedule of every minute has 1,440 times a day: they are counted, not shown.
		for at := times.Next(start.Add(-time.Second)); !at.IsZero() && at.Before(end); at = times.Next(at) {
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

func triggerWords(t ir.Trigger) string {
	switch t.Kind {
	case ir.OnSchedule:
		words := "Schedule " + t.Schedule
		if t.Timezone != "" {
			words += ", " + t.Timezone
		} else {
			words += ", UTC"
		}
		return visible(words)
	case ir.OnEvent:
		return visible("Event " + t.Event)
	case ir.OnAPI:
		return "HTTP request"
	case ir.OnDemand:
		return "By hand"
	}
	return ""
}

func triggerIcon(t ir.Trigger) string {
	switch t.Kind {
	case ir.OnSchedule:
		return "i-clock"
	case ir.OnEvent:
		return "i-k-trigger"
	case ir.OnAPI:
		return "i-link"
	}
	return "i-user"
}
