package web

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
)

// timeline is a run as a chart of its steps over time: one row for each visit of a step.
type timeline struct {
	Rows    []lane
	Axis    []string
	Active  string // the active time, as the budget counts it
	Waited  string // empty if nothing has waited
	Since   string // if something waits: the time since which it would have, without a break
	Next    int    // row that the next page starts with; 0 on the last page
	First   int    // row that this page starts with
	Show    string
	Filters []stateCount // empty if all steps are in one state
	All     int
}

// stateCount is how many steps are in a state.
type stateCount struct {
	State stateView
	N     int
}

// filtered are the states that the steps of a run can be filtered by.
var filtered = []journal.State{
	journal.StateFailed, journal.StateUnknown, journal.StateWaiting, journal.StateRunning, journal.StateSleeping,
	journal.StateSkipped, journal.StateOK,
}

// filters counts the steps by their states.
func (s *story) filters() (out []stateCount, all int) {
	counts := map[journal.State]int{}
	for _, v := range s.steps {
		counts[v.State]++
	}
	for _, state := range filtered {
		if n := counts[state]; n > 0 {
			out = append(out, stateCount{stateView{state}, n})
		}
	}
	if len(out) < 2 {
		return nil, len(s.steps)
	}
	return out, len(s.steps)
}

// lane is one row of the chart.
type lane struct {
	Step     string
	Visit    int // 0: the last one
	Label    string
	Note     string
	State    stateView
	Sub      bool
	Current  bool
	Segments []segment
	Took     string
	Since    string // the time at which a step started that has not ended
	Show     string // the filter, which stays when the step is chosen
}

// Query returns the parameter that selects the step.
func (l lane) Query() string {
	query := "?step=" + url.QueryEscape(l.Step)
	if l.Visit > 0 {
		query += "&visit=" + strconv.Itoa(l.Visit)
	}
	if l.Show != "" {
		query += "&show=" + url.QueryEscape(l.Show)
	}
	return query
}

// segment is a bar in a row; X and W are per cent of the width.
type segment struct {
	Class string
	State journal.State
	X, W  string
	Hold  bool
}

// rowsPerPage is how many steps a page of the chart shows.
const rowsPerPage = 100

// timeline returns a page of the chart. With a state, it has the steps in that state alone, also those that are folded
// otherwise. Without one, it has the steps of the main line and those directly inside them, unless there are very many,
// and the step that the panel shows with its attempts and calls.
//
// Times become per cent of the time from the start of the run to its end, or to now.
func (s *story) timeline(now time.Time, chosen *stepView, show string, from int) timeline {
	scale := s.scale(now)
	t := timeline{First: from, Show: show, Axis: axis(scale.total), Active: report.Duration(s.Active)}
	t.Filters, t.All = s.filters()
	shown := 0
	for _, v := range s.steps {
		// Which rows are on this page: first the filter, then what is folded, then the pages before.
		switch {
		case show != "" && v.State != journal.State(show):
			continue
		case show == "" && v != chosen && (v.Depth > 1 || v.Parent != nil && folded(v.Parent)):
			continue
		}
		shown++
		if shown <= from {
			continue
		}
		if len(t.Rows) >= rowsPerPage {
			t.Next = from + rowsPerPage
			break
		}
		l := s.lane(v, scale)
		l.Current, l.Show = v == chosen, show
		t.Rows = append(t.Rows, l)
		if v == chosen && show == "" {
			t.Rows = append(t.Rows, v.parts(scale.bar)...)
		}
	}
	t.Waited, t.Since = s.waited(now, scale.end)
	return t
}

// waited returns how long the run has waited for people, events, retries, budget or a process, whichever steps the
// chart shows. If it waits now, since is the time from which the browser counts on, so that the page need not be
// requested for every second.
func (s *story) waited(now, end time.Time) (took, since string) {
	var waits []interval
	waiting := false // now
	for _, v := range s.steps {
		if v.Depth == 0 { // only the waits of the main lines of the run and its child runs count
			waits = append(waits, v.waitIntervals(end)...)
			waiting = waiting || !v.Waiting.IsZero() && s.Ended.IsZero()
		}
	}
	all := length(waits)
	if all > 0 {
		took = report.Duration(all)
	}
	if waiting {
		since = now.Add(-all).UTC().Format(time.RFC3339Nano)
	}
	return took, since
}

// lane returns the row of a step.
func (s *story) lane(v *stepView, scale scale) lane {
	over := v.Ended
	if over.IsZero() {
		over = scale.end
	}
	l := lane{
		Step: v.Path, Label: visible(v.Place), State: stateView{v.State}, Sub: v.Depth > 0,
		Took: report.Duration(over.Sub(v.Started)),
	}
	if v.Ended.IsZero() && s.Ended.IsZero() { // the browser counts on from this time
		l.Since = v.Started.UTC().Format(time.RFC3339Nano)
	}
	if s.Visited[v.Path] > 1 {
		l.Visit = v.Visit
	}
	switch {
	case folded(v.StepVisit):
		l.Note = v.count()
	case v.Child != "":
		l.Note = "child run " + short(v.Child)
	}
	waits := v.waitIntervals(scale.end) // active time and waits alternate: each wait ends the bar before it
	start := v.Started
	for _, w := range waits {
		if w.Start.After(start) {
			l.Segments = append(l.Segments, scale.bar("w", v.State, start, w.Start))
		}
		l.Segments = append(l.Segments, scale.bar("hold", "", w.Start, w.End))
		start = w.End
	}
	if over.After(start) || len(waits) == 0 {
		l.Segments = append(l.Segments, scale.bar("w", v.State, start, over))
	}
	return l
}

// waitIntervals returns when a step has waited. The current wait, if any, lasts until end.
func (v *stepView) waitIntervals(end time.Time) []interval {
	if v.Waiting.IsZero() {
		return v.Waits
	}
	return append(v.Waits[:len(v.Waits):len(v.Waits)], interval{Start: v.Waiting, End: end})
}

// scale maps times of a run to the width of the chart.
type scale struct {
	start, end time.Time
	total      time.Duration // from start to end, at least a millisecond
}

// scale returns the scale of the run: until its end, or until now.
func (s *story) scale(now time.Time) scale {
	end := s.Ended
	if end.IsZero() {
		end = now
	}
	return scale{s.Started, end, max(end.Sub(s.Started), time.Millisecond)}
}

// at returns the position of a time in per cent; the zero time is the end.
func (c scale) at(x time.Time) float64 {
	if x.IsZero() {
		x = c.end
	}
	return min(100, max(0, 100*float64(x.Sub(c.start))/float64(c.total)))
}

// bar returns the bar between two times, which is wide enough to be seen, and to be hit by a pointer.
func (c scale) bar(class string, state journal.State, a, b time.Time) segment {
	x, y := c.at(a), c.at(b)
	return segment{class, state, percent(min(x, 99.5)), percent(max(y-x, 0.5)), class == "hold"}
}

// length returns the total time that is in at least one of the intervals. Several steps can wait at the same time,
// which counts once. It sorts list.
func length(list []interval) (sum time.Duration) {
	slices.SortFunc(list, func(a, b interval) int { return a.Start.Compare(b.Start) })
	var end time.Time
	for _, one := range list {
		if one.Start.Before(end) {
			one.Start = end
		}
		if one.End.After(one.Start) {
			sum += one.End.Sub(one.Start)
			end = one.End
		}
	}
	return sum
}

// axis returns the labels of the quarters of a duration. Those with the unit of the last one leave it out.
func axis(total time.Duration) []string {
	last := report.Duration(total)
	_, unit, _ := strings.Cut(last, " ")
	out := []string{"0"}
	for i := range 3 {
		label := report.Duration(total * time.Duration(i+1) / 4)
		if n, same := strings.CutSuffix(label, " "+unit); same && !strings.Contains(n, " ") {
			label = n
		}
		if label == out[i] || i == 2 && len(label)+len(last) > 12 { // it says nothing, or does not fit
			label = ""
		}
		out = append(out, label)
	}
	if len(out[1])+len(out[2]) > 12 { // they do not fit beside each other
		out[1] = ""
	}
	return append(out, last)
}

func percent(f float64) string { return fmt.Sprintf("%.3f%%", f) }

// count describes the steps inside a step.
func (v *stepView) count() string {
	text := report.Number(v.Items) + " steps"
	if v.Failed > 0 {
		text += ", " + report.Number(v.Failed) + " failed"
	}
	return text
}

// parts returns the attempts and calls of a step as rows.
func (v *stepView) parts(bar func(class string, state journal.State, a, b time.Time) segment) []lane {
	var out []lane
	add := func(label string, s segment, d time.Duration) {
		out = append(out, lane{
			Step: v.Path, Visit: v.Visit, Label: label, Sub: true, Segments: []segment{s}, Took: report.Duration(d),
		})
	}
	if len(v.Attempts) > 1 {
		for _, a := range v.Attempts {
			if a.Ended.IsZero() {
				continue
			}
			state := journal.StateFailed
			if a.OK {
				state = journal.StateOK
			}
			add(fmt.Sprintf("attempt %d", a.N), bar("w", state, a.Started, a.Ended), a.Ended.Sub(a.Started))
		}
	}
	shown := 0
	for _, c := range v.Calls {
		if c.End.IsZero() {
			continue
		}
		if shown++; shown > rowsPerPage/4 {
			break
		}
		label, kind := visible(c.Tool), "tl"
		if c.Model {
			label, kind = "model", "mdl"
		}
		add(label, bar(kind, "", c.Start, c.End), c.End.Sub(c.Start))
	}
	return out
}
