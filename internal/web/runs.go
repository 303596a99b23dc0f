package web

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/identity"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/xslices"
)

// runFilter is the filter of the list, from the query of its address.
type runFilter struct {
	Workflow                       string
	State                          app.StateFilter
	Text, Since, By, Cost, Trigger string
}

// Query returns the address of the list with another state.
func (f runFilter) Query(state app.StateFilter) string {
	f.State = state
	return f.encode()
}

func (f runFilter) encode() string {
	v := url.Values{}
	for name, value := range map[string]string{
		"workflow": f.Workflow, "state": string(f.State), "q": f.Text, "since": f.Since, "by": f.By, "cost": f.Cost,
		"trigger": f.Trigger,
	} {
		if value != "" {
			v.Set(name, value)
		}
	}
	return v.Encode()
}

// Any reports whether the filter selects anything.
func (f runFilter) Any() bool { return f.encode() != "" }

// sinces are the periods of the filter.
var sinces = []choice{{"1h", "Last hour"}, {"24h", "Last 24 hours"}, {"168h", "Last 7 days"}, {"720h", "Last 30 days"}}

// costs are the thresholds of the filter, in dollars.
var costs = []choice{{"0.01", "$0.01 or more"}, {"0.1", "$0.10 or more"}, {"1", "$1 or more"}, {"10", "$10 or more"}}

type choice struct{ Value, Label string }

func (r *request) runFilter() runFilter {
	q := r.URL.Query()
	return runFilter{
		Workflow: q.Get("workflow"), State: app.StateFilter(q.Get("state")), Since: q.Get("since"),
		Text: strings.TrimSpace(q.Get("q")), By: strings.TrimSpace(q.Get("by")),
		Cost: q.Get("cost"), Trigger: q.Get("trigger"),
	}
}

// index returns the part of the filter that the index of the store answers. matches decides the rest for each run. A
// period that cannot be parsed selects all runs, as does an unknown cost: the address may have been typed.
func (f runFilter) index(now time.Time) app.Filter {
	out := f.State.Narrow(app.Filter{Name: f.Workflow, Text: f.Text})
	if d, err := time.ParseDuration(f.Since); err == nil {
		out.Since = journal.MillisOf(now.Add(-d))
	}
	return out
}

// Values of the filter by trigger; any other value is the ID of a trigger.
const (
	noTrigger  = "none"
	anyTrigger = "any"
)

// matches decides what the index does not know: who or what started the run, what it cost, and whether a process drives
// it. Each of these needs the status of the run.
func (f runFilter) matches(row *runRow) bool {
	if !f.State.Includes(row.State) {
		return false
	}
	switch f.Trigger {
	case "", row.Trigger:
	case noTrigger:
		if row.Trigger != "" {
			return false
		}
	case anyTrigger:
		if row.Trigger == "" {
			return false
		}
	default:
		return false
	}
	if f.By != "" && row.By != f.By {
		return false
	}
	least, err := strconv.ParseFloat(f.Cost, 64)
	return err != nil || float64(row.Cost) >= least*1e6
}

// runRow is a run in the list.
type runRow struct {
	api.Run
	What      string
	By        string
	Trigger   string // ID of the trigger that started the run; By is empty then
	Took      time.Duration
	Cost      int64 // millionths of a dollar
	Tokens    int64
	Simulated journal.Offline
	TookShare float64 // of the longest in the list
	CostShare float64
}

type runsPage struct {
	shell
	Filter    runFilter
	States    []stateChip
	Day       *dayPlot // nil if the filter has parts that the index does not answer, or no run started
	Triggers  []choice
	Sinces    []choice
	Costs     []choice
	Workflows []string
	Rows      []runRow
	Next      string // address of the next page
	First     bool   // it is the first page
	Partial   bool   // the search has stopped before the oldest run
	MayCancel bool   // the user can cancel some of the rows
}

// stateChip filters the list by a state. Count is how many runs are in the state now; empty for none, and for the
// states in which runs end.
type stateChip struct {
	State app.StateFilter
	View  stateView
	Count string
}

// maxCount is up to which number runs in a state are counted.
const maxCount = 100

// stateChips counts the runs in the states in which runs do not stay. Most of these states are offered only while runs
// are in them. A status of the index can stand for several states (a running run can be queued or interrupted), so runs
// are counted by their state, and "+" marks every state of a status of which more runs exist than were read.
func (h *Handler) stateChips(r *request, chosen app.StateFilter) ([]stateChip, error) {
	counts, more := map[app.StateFilter]int{}, map[app.StateFilter]bool{}
	for _, status := range []journal.Status{
		journal.Running, journal.Waiting, journal.Exceeded, journal.PausedAt, journal.Sleeping,
	} {
		runs, err := h.page(r, app.Filter{Status: status, Limit: maxCount})
		if err != nil {
			return nil, err
		}
		for i := range runs {
			state := app.StateFilter(runs[i].State())
			counts[state]++
			// There may be more runs with this status than were read.
			more[state] = more[state] || len(runs) == maxCount
		}
	}
	var out []stateChip
	for _, state := range app.StateFilters {
		chip := stateChip{State: state, View: stateView{journal.State(state)}}
		switch n := counts[state]; {
		case state == app.Unfinished, state == app.StateFilter(journal.StateFinished): // the outcomes are offered
			continue
		case n > 0:
			chip.Count = report.Number(n)
			if more[state] {
				chip.Count += "+"
			}
		case state.Outcome() == "" && state != chosen && !slices.Contains(commonStates, journal.State(state)):
			continue
		}
		out = append(out, chip)
	}
	return out, nil
}

// commonStates are offered even while no runs are in them.
var commonStates = []journal.State{journal.StateRunning, journal.StateWaiting}

// triggerChoices are the triggers that the list can be filtered by.
func (h *Handler) triggerChoices(r *request, f runFilter) ([]choice, error) {
	out := []choice{{"", "Any trigger"}, {noTrigger, "Started by people"}, {anyTrigger, "Started by triggers"}}
	found, err := h.o.App.Triggers(r.Context())
	if err != nil && !noRuns(err) {
		return nil, err
	}
	for i := range found {
		out = append(out, choice{found[i].ID, visible(found[i].Workflow) + ": " + triggerWords(found[i].Trigger)})
	}
	// The trigger may have been removed from its workflow; its runs remain.
	if !slices.ContainsFunc(out, func(c choice) bool { return c.Value == f.Trigger }) {
		out = append(out, choice{f.Trigger, visible(f.Trigger)})
	}
	return out, nil
}

// pageSize is how many runs a page shows. maxScan is how many runs are read at most for one page if the filter has
// parts that the index does not answer.
const (
	pageSize = 50
	maxScan  = 1000
)

// pageStart returns the run before which a page of a list starts; empty for the first page.
func pageStart(r *request) (journal.RunID, error) {
	cursor := r.URL.Query().Get("before")
	if cursor == "" {
		return "", nil
	}
	if _, err := uuid.Parse(cursor); err != nil {
		return "", invalid("the address of this page is not valid", "")
	}
	return journal.RunID(cursor), nil
}

// errPageRemoved reports that a list cannot be continued.
var errPageRemoved = invalid("the run that this page starts after has been removed",
	"Start again with the newest runs.")

// page returns runs for a list; none if the project has no runs yet.
func (h *Handler) page(r *request, filter app.Filter) ([]app.Run, error) {
	runs, err := h.o.App.Runs(r.Context(), filter)
	switch {
	case noRuns(err):
		return nil, nil
	case errors.Is(err, journal.ErrUnknownRun):
		return nil, errPageRemoved
	}
	return runs, err
}

// list returns one page of runs, and where the next one starts; next is empty after the oldest run. It asks for one run
// more than a page has, to know whether there is a next page without another query. The cursor is the id of the last
// run that was looked at, also if the filter has excluded it, so that the next page does not read it again. partial
// reports that maxScan runs were read before the page was full: the next page continues there.
func (h *Handler) list(r *request, f runFilter, before journal.RunID, size int) (
	rows []runRow, next journal.RunID, partial bool, err error,
) {
	filter := f.index(h.o.Now())
	filter.Before, filter.Limit = before, size+1
	for read := 0; ; {
		runs, err := h.page(r, filter)
		if err != nil {
			return nil, "", false, err
		}
		for i := range runs {
			if len(rows) == size {
				return rows, filter.Before, false, nil
			}
			row, err := h.row(r, &runs[i])
			if err != nil {
				return nil, "", false, err
			}
			filter.Before = runs[i].ID
			if f.matches(&row) {
				rows = append(rows, row)
			}
		}
		read += len(runs)
		if len(runs) < filter.Limit {
			return rows, "", false, nil
		}
		if read >= maxScan {
			return rows, filter.Before, true, nil
		}
	}
}

// row reads the status of a run for one row of a list. It costs a pass over the facts of the run.
func (h *Handler) row(r *request, run *app.Run) (runRow, error) {
	full, err := h.o.App.Status(r.Context(), run.ID)
	if err != nil {
		return runRow{}, err
	}
	st := api.NewStatus(full)
	row := runRow{
		Run: st.Run, By: full.By.User, Cost: full.Used.MicroDollars, Simulated: full.Offline,
		Tokens: full.Used.InputTokens + full.Used.OutputTokens,
	}
	if full.By.Method == app.ByTrigger {
		// The actor of a triggered run has the ID of the trigger in place of a name.
		row.By, row.Trigger = "", full.By.User
	}
	end := st.Updated
	if st.State == journal.StateRunning {
		end = h.o.Now()
	}
	row.Took = end.Sub(st.Started)
	switch {
	case st.Error != "":
		row.What = sentence(st.Error)
	case st.State == journal.StateRunning:
		names := xslices.Map(st.Steps, journal.PlaceName)
		switch len(names) {
		case 0:
		case 1:
			row.What = "At step " + names[0]
		default:
			row.What = "At steps " + strings.Join(names, ", ")
		}
	case st.State != journal.StateFinished:
		row.What = waitingWords(&st, full.Waiting)
	case st.Reason != "":
		row.What = sentence(report.ReasonWords(st.Reason))
	}
	if len(row.What) > 200 {
		row.What = strings.ToValidUTF8(row.What[:200], "") + "…"
	}
	return row, nil
}

// waitingWords describes what a run waits for. Events and replies of people are the same kind of Wait; the gates of the
// status tell them apart.
func waitingWords(st *api.Status, w journal.Wait) string {
	reply := func(g api.Gate) bool { return g.Kind == journal.AskInput && g.Event == w.Name }
	kind := w.Kind.Asks(slices.ContainsFunc(st.Gates, reply))
	name := journal.PlaceName(w.Name)
	switch kind {
	case journal.AskEvent, journal.AskInput:
		name = w.Name
	case journal.AskBudget:
		return fmt.Sprintf(askWords[kind].waits, journal.BudgetWords(w.Name))
	}
	if w.More > 0 {
		name += fmt.Sprintf(" (+%d)", w.More)
	}
	switch {
	case kind != "":
		return fmt.Sprintf(askWords[kind].waits, name)
	case w.Kind == journal.WaitRetry:
		return "Waits to retry " + name
	}
	return w.Words()
}

// runs shows the list of runs. The bars of a row are relative to the longest and the most expensive run on the page.
// The plot of the day is on the first page alone.
func (h *Handler) runs(r *request) error {
	page := runsPage{
		shell: h.shell(r, "runs", "Runs"), Filter: r.runFilter(), Sinces: sinces, Costs: costs,
		First: !r.URL.Query().Has("before"),
	}
	var err error
	if page.States, err = h.stateChips(r, page.Filter.State); err != nil {
		return err
	}
	if page.Triggers, err = h.triggerChoices(r, page.Filter); err != nil {
		return err
	}
	if page.First {
		if page.Day, err = h.dayPlot(r, page.Filter); err != nil {
			return err
		}
	}
	found, err := h.o.App.Workflows(r.Context(), catalog.ReadOptions{})
	if err != nil {
		return err
	}
	page.Workflows = xslices.Map(found.Workflows, func(w app.Workflow) string { return w.Name })
	if page.Filter.Workflow != "" {
		page.Workflows = append(page.Workflows, page.Filter.Workflow)
	}
	slices.Sort(page.Workflows)
	page.Workflows = slices.Compact(page.Workflows)
	before, err := pageStart(r)
	if err != nil {
		return err
	}
	var next journal.RunID
	if page.Rows, next, page.Partial, err = h.list(r, page.Filter, before, pageSize); err != nil {
		return err
	}
	if next != "" {
		page.Next = "/runs?" + strings.TrimPrefix(page.Filter.encode()+"&before="+string(next), "&")
	}
	var longest time.Duration
	var dearest int64
	for i := range page.Rows {
		longest, dearest = max(longest, page.Rows[i].Took), max(dearest, page.Rows[i].Cost)
	}
	for i := range page.Rows {
		row := &page.Rows[i]
		page.MayCancel = page.MayCancel || page.MayOperate() && row.MayCancel()
		row.TookShare = 100 * float64(row.Took) / float64(max(longest, 1))
		row.CostShare = 100 * float64(row.Cost) / float64(max(dearest, 1))
	}
	return h.render(r, http.StatusOK, "runs.html", page)
}

// exportSize is how many runs an export reads at once, and how many a JSON document contains.
const exportSize = 500

// runsCSV sends all runs that match the filter. They are written while they are read, because there can be very many;
// the header of the response is therefore sent before an error can be known.
func (h *Handler) runsCSV(r *request) error {
	before, err := pageStart(r)
	if err != nil {
		return err
	}
	filter := r.runFilter()
	rows, next, _, err := h.list(r, filter, before, exportSize)
	if err != nil {
		return err
	}
	r.w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	r.w.Header().Set("Content-Disposition", `attachment; filename="runs.csv"`)
	w := csv.NewWriter(r.w)
	err = w.Write([]string{
		"run_id", "workflow", "state", "outcome", "started", "updated", "started_by", "trigger",
		"seconds", "tokens", "dollars",
	})
	for err == nil {
		for i := range rows {
			if err = w.Write(rows[i].record()); err != nil {
				break
			}
		}
		if w.Flush(); next == "" || err != nil || w.Error() != nil {
			break
		}
		rows, next, _, err = h.list(r, filter, next, exportSize)
	}
	// Without the abort, the file would look complete.
	if err = cmp.Or(err, w.Error()); err != nil { // the browser reports a download that is cut off
		h.o.Log.Error("export of runs", "error", err)
		panic(http.ErrAbortHandler)
	}
	return nil
}

// record returns the row of a run as CSV. Texts of people and files pass through cell.
func (row *runRow) record() []string {
	return []string{
		row.ID, cell(row.Workflow), string(row.State), string(row.Outcome), row.Started.Format(time.RFC3339),
		row.Updated.Format(time.RFC3339), cell(row.By), cell(row.Trigger),
		strconv.FormatFloat(row.Took.Seconds(), 'f', 3, 64),
		strconv.FormatInt(row.Tokens, 10), strconv.FormatFloat(float64(row.Cost)/1e6, 'f', 6, 64),
	}
}

// cell returns a text that controls no terminal, and that a spreadsheet does not take for a formula: OWASP's advice
// against CSV injection is a leading quote in front of = + - @, tab and carriage return.
func cell(text string) string {
	text = visible(text)
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}

func (h *Handler) runsJSON(r *request) error {
	before, err := pageStart(r)
	if err != nil {
		return err
	}
	rows, next, _, err := h.list(r, r.runFilter(), before, exportSize)
	if err != nil {
		return err
	}
	list := []api.Run{}
	for i := range rows {
		list = append(list, rows[i].Run)
	}
	return h.writeJSON(r, map[string]any{"runs": list, "next": next})
}

// MayCancel reports whether the row can be selected for canceling.
func (row runRow) MayCancel() bool { return row.State != journal.StateFinished }

// MayOperate reports whether the user can act on runs.
func (s shell) MayOperate() bool { return s.May[identity.Operate] }

// MayManage reports whether the user can manage the server.
func (s shell) MayManage() bool { return s.May[identity.Manage] }

// MayStart reports whether the user can start runs.
func (s shell) MayStart() bool { return s.May[identity.Start] }
