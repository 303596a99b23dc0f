package web

import (
	"fmt"
	"time"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
)

// dayPlot shows the states of the runs of the last 24 hours, by the half hour in which they started.
type dayPlot struct {
	OK, Open, Stopped, Failed int
	Most                      int // in half an hour
	Bars                      []dayBar
	Hours                     []hourMark
	Cut                       bool // older runs are not counted
}

// dayBar is a part of a bar; X and W are per cent of the width, Y and Height are pixels.
type dayBar struct {
	Class, X, W string
	Y, Height   float64
}

// hourMark is a label below the plot.
type hourMark struct{ X, Anchor, Label string }

// Sizes of the plot.
const (
	halfHours = 48
	dayTop    = 4.0
	dayBottom = 54.0
	maxDay    = 2000 // runs that are counted
	maxOld    = 50   // older runs among them, as an import adds them
)

// slot counts runs by their class. The classes are the indexes, in the order of the parts of a bar from below.
type slot [4]int

const (
	classOK = iota
	classOpen
	classStopped // by a person
	classFailed
)

var dayClasses = [len(slot{})]string{"ok", "wt", "off", "bad"}

func (s slot) sum() int { return s[classOK] + s[classOpen] + s[classStopped] + s[classFailed] }

// dayPlot counts the runs of the last 24 hours that match the filter; nil if there are none or if the filter asks for
// what the index does not know. The state and the period of the filter do not apply. It reads runs from the newest on
// and stops after some that are older than a day: runs are listed in the order in which they were added, and an import
// adds old ones among new ones.
func (h *Handler) dayPlot(r *request, f runFilter) (*dayPlot, error) {
	if f.By != "" || f.Cost != "" || f.Trigger != "" {
		return nil, nil
	}
	now := h.o.Now()
	f.State, f.Since = "", "" // the store has no index of times: it lists runs in the order in which they were added
	filter := f.index(now)
	filter.Limit = maxDay
	var slots [halfHours]slot
	n, old := 0, 0
	for e, err := range h.o.App.Entries(r.Context(), filter) {
		if err != nil {
			return nil, err
		}
		k := halfHours - 1 - int(now.Sub(e.Started.Time())/(30*time.Minute))
		if k < 0 {
			if old++; old == maxOld {
				break
			}
			continue
		}
		n++
		// A run that started in the future, by the clock of another machine, counts for the last half hour.
		slots[min(k, halfHours-1)][classOf(e.Status == journal.Finished, e.Outcome)]++
	}
	if n == 0 {
		return nil, nil
	}
	return newDayPlot(slots, now, n == maxDay), nil
}

// classOf returns the class of a run.
func classOf(over bool, outcome journal.Outcome) int {
	switch {
	case !over:
		return classOpen
	case outcome == journal.OutcomeOK:
		return classOK
	case outcome == journal.OutcomeFailed:
		return classFailed
	}
	return classStopped
}

// newDayPlot computes the bars of the plot: each half hour is a bar whose parts are stacked from below.
func newDayPlot(slots [halfHours]slot, now time.Time, cut bool) *dayPlot {
	out := &dayPlot{Cut: cut}
	for _, s := range slots {
		out.OK += s[classOK]
		out.Open += s[classOpen]
		out.Stopped += s[classStopped]
		out.Failed += s[classFailed]
		out.Most = max(out.Most, s.sum())
	}
	for i, s := range slots {
		y := dayBottom
		for class, n := range s {
			if n == 0 {
				continue
			}
			// A single run among thousands is still one pixel high.
			height := max((dayBottom-dayTop)*float64(n)/float64(out.Most), 1)
			y -= height
			out.Bars = append(out.Bars,
				dayBar{dayClasses[class], percent(100 * float64(i) / halfHours), "1.6%", y, height})
		}
	}
	for _, hours := range []int{24, 18, 12, 6, 0} {
		mark := hourMark{
			percent(100 - 100*float64(hours)/24), "middle",
			now.Add(-time.Duration(hours) * time.Hour).Format("15:04"),
		}
		switch hours {
		case 24:
			mark.Anchor = "start"
		case 0:
			mark.Anchor, mark.Label = "end", "now"
		}
		out.Hours = append(out.Hours, mark)
	}
	return out
}

// Label returns the text alternative of the plot.
func (p *dayPlot) Label() string {
	n := report.Number[int]
	return fmt.Sprintf(
		"Runs for each half hour: %s finished, %s open, %s stopped by a person, %s failed; at most %s in half an hour",
		n(p.OK), n(p.Open), n(p.Stopped), n(p.Failed), n(p.Most))
}
