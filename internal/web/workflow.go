package web

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/check"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/explain"
	"github.com/espalier-run/espalier/internal/graph"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/price"
	"github.com/espalier-run/espalier/internal/redact"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/stepkind"
	"github.com/espalier-run/espalier/internal/xslices"
)

type workflowsPage struct {
	shell
	Workflows []workflowRow
	Root      string
}

type workflowRow struct {
	api.Workflow
	Triggers []string
	Last     *runRow
}

func (h *Handler) workflows(r *request) error {
	page := workflowsPage{shell: h.shell(r, "workflows", "Workflows")}
	found, err := h.o.App.Workflows(r.Context(), catalog.ReadOptions{})
	if err != nil {
		return err
	}
	page.Root = found.Root
	for _, w := range found.Workflows {
		row := workflowRow{Workflow: api.NewWorkflow(w)}
		if w.Analysis != nil && w.Analysis.Program != nil {
			for _, t := range w.Analysis.Program.Triggers {
				if words := triggerWords(t); words != "" && !slices.Contains(row.Triggers, words) {
					row.Triggers = append(row.Triggers, words)
				}
			}
		}
		last, err := h.page(r, app.Filter{Name: w.Name, Limit: 1})
		if err != nil {
			return err
		}
		if len(last) > 0 {
			row.Last = &runRow{Run: api.NewRun(&last[0])}
		}
		page.Workflows = append(page.Workflows, row)
	}
	return h.render(r, http.StatusOK, "workflows.html", page)
}

// Address returns the address of a workflow's page. It has the name, unless another workflow of the same name comes
// first; then it has the path, which is unique.
func (w workflowRow) Address() string {
	if w.ShadowedBy != "" {
		return "/workflows/" + url.PathEscape(w.Path)
	}
	return "/workflows/" + url.PathEscape(w.Name)
}

type workflowPage struct {
	shell
	api.Workflow
	ID       string // in the address
	Version  string
	Agents   int
	Steps    int
	Graph    template.HTML
	Source   []sourceLine
	Cut      bool
	Faults   []*diagView // the errors
	Form     []formField
	Text     bool // the input is one text
	TextIn   string
	Cost     []costLine
	Money    string
	Triggers []workflowTrigger
	History  *history
	LastRun  string
	Problems []string
	Missing  []app.MissingDependency
	Commands []string
	// Reports that the workflow has no errors, so that the page has a graph, costs and a form.
	Usable bool
}

// workflowTrigger is a trigger of a workflow, with the next times of a schedule.
type workflowTrigger struct {
	ir.Trigger
	Next []time.Time
}

// maxUpcoming is how many times of a schedule the page of a workflow shows.
const maxUpcoming = 3

// upcoming returns the next times at which a trigger fires; none if it is disabled or no schedule.
func upcoming(t ir.Trigger, now time.Time) []time.Time {
	if t.Kind != ir.OnSchedule || t.Off {
		return nil
	}
	schedule, err := times(t)
	if err != nil {
		return nil
	}
	var out []time.Time
	for at := schedule.Next(now); !at.IsZero() && len(out) < maxUpcoming; at = schedule.Next(at) {
		out = append(out, at)
	}
	return out
}

// sourceLine is a line of a workflow file, or a diagnostic below it.
type sourceLine struct {
	N    int
	Text string
	Hit  bool
	Diag *diagView
}

type diagView struct {
	Code, Severity, Message, Help string
	Page                          string
	Line                          int // that it is shown below
}

// costLine compares what a run can use with its limit.
type costLine struct {
	Title, Usual, Limit, Worst      string
	UsualShare, WorstShare, LimitAt float64
	Verdict                         check.Verdict // empty without a limit
}

// maxFaults is how many errors are listed above the source.
const maxFaults = 20

// maxSource is how many lines of a workflow file are shown.
const maxSource = 1500

func (h *Handler) workflow(r *request) error {
	page, fields, err := h.loadWorkflow(r)
	if err != nil {
		return err
	}
	if like := r.URL.Query().Get("like"); like != "" {
		input, err := h.inputOf(r, like)
		if err != nil {
			return err
		}
		// The form of the same input: an object fills fields, a text fills the one text field.
		fill(fields, input)
		if !redact.Marked(string(input)) {
			_ = json.Unmarshal(input, &page.TextIn) // an object fills the fields
		}
	}
	page.Form = fields
	return h.render(r, http.StatusOK, "workflow.html", page)
}

// loadWorkflow loads the page of a workflow and the fields of its form; nil if its input is one text. Listed restricts
// names to the workflows of the project: an address must not make the server read other files.
func (h *Handler) loadWorkflow(r *request) (*workflowPage, []formField, error) {
	name := r.PathValue("workflow")
	p := &workflowPage{shell: h.shell(r, "workflows", ""), ID: name}
	an, err := h.o.App.Analyze(r.Context(), app.AnalyzeRequest{Workflow: name, Listed: true})
	if missing, ok := errors.AsType[*source.RefError](err); ok {
		return nil, nil, notFound(visible(missing.Error()))
	}
	if err != nil {
		return nil, nil, err
	}
	// Live events report a change of the files since this version.
	version := an.Version()
	counts := an.Counts()
	p.Title = visible(an.Name())
	p.Workflow = api.Workflow{
		Name: visible(an.Name()), Path: h.o.App.Display(an.File.Path), Format: an.Format, Errors: counts["errors"],
		Warnings: counts["warnings"],
	}
	p.Live += "&workflow=" + url.QueryEscape(name) + "&version=" + version
	p.Source, p.Cut = sourceOf(an)
	for _, line := range p.Source {
		if line.Diag != nil && line.Diag.Severity == diag.Error.String() && len(p.Faults) < maxFaults {
			p.Faults = append(p.Faults, line.Diag)
		}
	}
	if p.Errors > 0 || an.Program == nil {
		return p, nil, nil
	}
	p.Usable = true
	program := an.Program
	p.Description, p.Version = program.Description, program.Version
	for _, t := range program.Triggers {
		p.Triggers = append(p.Triggers, workflowTrigger{t, upcoming(t, h.o.Now())})
	}
	p.Agents = len(program.Agents)
	p.Steps = countSteps(program, ir.Body)
	svg, err := graph.NewCompact(program).
		SVG(graph.CompactOptions{Link: func(step string) string { return sourceLink(an, step) }})
	if err != nil {
		return nil, nil, err
	}
	p.Graph = inlineHTML(svg)
	if err := h.costs(p, an); err != nil {
		return nil, nil, err
	}
	if p.History, err = h.history(r, an.Name()); err != nil {
		return nil, nil, err
	}
	if p.History != nil {
		p.LastRun = p.History.last
	}
	fields := formOf(program)
	p.Text = fields == nil
	return p, fields, nil
}

// countSteps returns the number of steps of a block, as a budget counts them: without the workers of fan-outs, which
// have budgets of their own.
func countSteps(p *ir.Program, b ir.BlockID) (n int) {
	for i := range p.Blocks[b].Steps {
		s := &p.Blocks[b].Steps[i]
		if !s.Implied {
			n++
		}
		if loop, ok := s.Action.(ir.Loop); ok {
			n += countSteps(p, loop.Block)
		}
	}
	return n
}

// sourceLink returns the address of the line that declares a step, or of the source if the line is not shown.
func sourceLink(an *app.Analysis, path string) string {
	step := findStep(an.Program, path)
	if step == nil || step.Span.IsZero() || step.Span.File != an.File.Path || step.Span.Start > len(an.File.Text) {
		return "#source"
	}
	line := strings.Count(string(an.File.Text[:step.Span.Start]), "\n") + 1
	if line > maxSource {
		return "#source"
	}
	return "#line-" + strconv.Itoa(line)
}

// sourceOf returns the lines of a workflow file with the diagnostics below the lines that they are about; cut reports
// that the file has more than maxSource lines. A diagnostic without a place is shown below the first line.
func sourceOf(an *app.Analysis) (out []sourceLine, cut bool) {
	byLine := map[int][]*diagView{}
	for _, e := range diag.NewReport(an.Files, an.Diagnostics).Diagnostics {
		line, message := 1, e.Message
		switch {
		case e.Start == nil:
		case e.File == an.File.Path:
			line = e.Start.Line
		default: // of another file: it is shown where this one refers to it
			message = fmt.Sprintf("%s:%d: %s", e.File, e.Start.Line, message)
			for _, related := range e.Related {
				if related.Start != nil && related.File == an.File.Path {
					line = related.Start.Line
					break
				}
			}
		}
		d := &diagView{
			Code: string(e.Code), Severity: e.Severity.String(), Message: visible(message),
			Help: visible(e.Help), Line: line,
		}
		if page, ok := explain.Lookup(d.Code); ok {
			d.Page = page.Text
		}
		byLine[line] = append(byLine[line], d)
	}
	n := 0
	for text := range strings.Lines(string(an.File.Text)) {
		n++
		if n > maxSource {
			return out, true
		}
		out = append(out, sourceLine{N: n, Text: visible(strings.TrimRight(text, "\r\n")), Hit: byLine[n] != nil})
		for _, d := range byLine[n] {
			out = append(out, sourceLine{Diag: d})
		}
	}
	return out, false
}

// costs compares what a run can use with its budgets. Bars share a scale on which the largest of the usual amount, the
// worst amount and the limit is at 96 per cent; an unbounded amount fills the whole width.
func (h *Handler) costs(p *workflowPage, an *app.Analysis) error {
	cost, err := h.o.App.Cost(an, "")
	if err != nil {
		return err
	}
	add := func(title, budget string, r check.Range, show func(int64) string) {
		amount := func(a stepkind.Amount) string {
			if a.Unbounded != "" {
				return "unbounded"
			}
			return show(a.N)
		}
		line := costLine{Title: title, Usual: amount(r.Base), Worst: amount(r.Worst)}
		scale := float64(max(r.Worst.N, r.Base.N, 1))
		for _, b := range cost.Budgets {
			if b.Name == check.BudgetLineName(budget) && b.Scope == "" {
				scale = max(scale, float64(b.Limit))
				line.Verdict, line.Limit, line.LimitAt = b.Verdict, show(b.Limit), 96*float64(b.Limit)/scale
			}
		}
		line.UsualShare, line.WorstShare = 96*float64(r.Base.N)/scale, 96*float64(r.Worst.N)/scale
		if r.Worst.Unbounded != "" {
			line.WorstShare = 100
		}
		p.Cost = append(p.Cost, line)
	}
	add("Steps", ir.BudgetSteps, cost.Steps, report.Number[int64])
	add("Tool calls", ir.BudgetTools, cost.ToolCalls, report.Number[int64])
	add("Tokens (estimate)", ir.BudgetTokens, cost.Tokens, report.Number[int64])
	seconds := func(n int64) string { return report.Duration(time.Duration(n) * time.Second) }
	add("Active time at the limits of calls", ir.BudgetDeadline, cost.ActiveSeconds, seconds)
	p.Money = "at most " + price.Dollars(cost.Money.AtMost) + " (estimate)"
	if !cost.Money.Known {
		p.Money = "unknown: " + cost.Money.Because
	}
	return nil
}

// inputOf returns the input of a run.
func (h *Handler) inputOf(r *request, name string) (json.RawMessage, error) {
	run, err := h.o.App.Find(r.Context(), name)
	if err != nil {
		return nil, err
	}
	root := cmp.Or(run.Root, run.ID)
	j, err := h.o.App.Journal(r.Context(), root)
	if err != nil {
		return nil, err
	}
	started, err := report.Started(r.Context(), j, root)
	return started.Input.JSON, err
}

// startRun starts a run from the form of a workflow, or shows the form again with what is wrong. The run is simulated
// unless the form says otherwise: a request with a missing field must not cost money.
func (h *Handler) startRun(r *request) error {
	page, fields, err := h.loadWorkflow(r)
	if err != nil {
		return err
	}
	values, err := submitted(r, fields)
	if err != nil {
		return err
	}
	page.TextIn = normalized(r.PostFormValue("text"))
	if page.Text && page.TextIn != "" {
		values = []app.Field{{Text: page.TextIn}}
	}
	page.Form = fields
	simulate := r.PostFormValue("mode") != "run"
	missing := slices.ContainsFunc(fields, func(f formField) bool { return f.Error != "" })
	if !missing {
		// The page of the run shows replies while they arrive, so they are recorded.
		how := app.PrepareRequest{Fields: values, Options: app.RunOptions{Simulate: simulate, RecordStream: true}}
		as := app.AnalyzeRequest{Workflow: page.ID, Listed: true, Reading: catalog.ReadOptions{Run: true}}
		id, err := h.start(r, as, how)
		if err == nil {
			return h.redirect(r,
				runPath(string(id), "?done="+map[bool]string{true: "simulated", false: "started"}[simulate]))
		}
		var known *app.Error
		if !errors.As(err, &known) || known.Kind == app.Internal {
			return err
		}
		page.Problems = mark(fields, err)
		page.Missing = known.Missing
		page.Commands = xslices.Map(known.Commands, func(c app.Command) string { return visible(c.String()) })
		if known.Advice != "" {
			page.Problems = append(page.Problems, known.Advice)
		}
	}
	page.Title = "Cannot start " + page.Name
	return h.render(r, http.StatusUnprocessableEntity, "workflow.html", page)
}

// start analyzes a workflow, prepares a run and starts it. Everything that Prepare finds missing is one error.
func (h *Handler) start(r *request, what app.AnalyzeRequest, how app.PrepareRequest) (journal.RunID, error) {
	var err error
	if how.Workflow, err = h.o.App.Analyze(r.Context(), what); err != nil {
		return "", err
	}
	prepared, err := h.o.App.Prepare(r.Context(), how)
	if err != nil {
		return "", err
	}
	return h.o.App.Start(r.Context(), prepared, "", r.actor())
}

// history is what became of the latest runs of a workflow.
type history struct {
	Runs            int
	Success         string
	P50, P95        string
	Cost            string
	Days            []day
	Dots            []dot
	P50Line, P95Top string
	Most            int
	MostTook        string
	MostCost        string
	last            string
}

type day struct {
	Label    string
	X        float64
	Bars     []dayBar // without X and W
	P50, P95 float64
	HasTook  bool
	runs     slot
	took     []time.Duration
}

type dot struct{ X, Y float64 }

// Sizes of the plots.
const (
	historyRuns = 100
	plotTop     = 16.0
	plotBottom  = 100.0
	plotDays    = 7
)

// history summarizes the latest runs of a workflow; nil if there are none. Days are those of UTC. The success rate
// counts runs that finished or failed; runs that people ended say nothing about the workflow.
func (h *Handler) history(r *request, name string) (*history, error) {
	runs, err := h.page(r, app.Filter{Name: name, Limit: historyRuns})
	if err != nil || len(runs) == 0 {
		return nil, err
	}
	out := &history{Runs: len(runs), last: string(runs[0].ID)}
	today := h.o.Now().UTC().Truncate(24 * time.Hour)
	for i := range plotDays {
		start := today.AddDate(0, 0, i-plotDays+1)
		out.Days = append(out.Days, day{Label: start.Format("2"), X: 30 + float64(i)*38})
	}
	var durations []time.Duration
	var spent []int64
	var ended slot
	type placed struct {
		x    float64
		cost int64
	}
	var dots []placed
	for i := range runs {
		row, err := h.row(r, &runs[i])
		if err != nil {
			return nil, err
		}
		class := classOf(row.State == journal.StateFinished, row.Outcome)
		ended[class]++
		if row.State == journal.StateFinished {
			durations = append(durations, row.Took)
			spent = append(spent, row.Cost)
		}
		k := plotDays - 1 - int(today.Sub(row.Started.UTC().Truncate(24*time.Hour)).Hours()/24)
		if k < 0 || k >= plotDays {
			continue
		}
		d := &out.Days[k]
		d.runs[class]++
		if row.State == journal.StateFinished {
			d.took = append(d.took, row.Took)
			// Spread dots of one day, so that equal costs do not hide each other.
			dots = append(dots, placed{d.X + 11 + float64(i%9) - 4, row.Cost})
		}
	}
	// People end runs that are canceled or rejected.
	if ok, failed := ended[classOK], ended[classFailed]; ok+failed > 0 {
		out.Success = report.Number(100*ok/(ok+failed)) + " %"
	}
	p50, p95 := quantile(durations, 50), quantile(durations, 95)
	out.P50, out.P95 = report.Duration(p50), report.Duration(p95)
	slices.Sort(spent)
	var dearest int64
	if len(spent) > 0 {
		out.Cost, dearest = price.Spent(spent[len(spent)/2]), spent[len(spent)-1]
	}
	out.MostCost = price.Spent(dearest)
	for _, d := range dots {
		out.Dots = append(out.Dots,
			dot{d.x, plotBottom - (plotBottom-plotTop)*float64(d.cost)/float64(max(dearest, 1))})
	}
	out.scale()
	return out, nil
}

// scale computes the heights of the bars and the lines of durations. SVG coordinates grow downward: plotBottom is zero,
// and plotTop is the largest value.
func (out *history) scale() {
	var longest time.Duration
	for i := range out.Days {
		out.Most = max(out.Most, out.Days[i].runs.sum())
		longest = max(longest, quantile(out.Days[i].took, 95))
	}
	out.MostTook = report.Duration(longest)
	var lower, upper []string
	for i := range out.Days {
		d := &out.Days[i]
		top := plotBottom
		for class, n := range d.runs {
			height := (plotBottom - plotTop) * float64(n) / float64(max(out.Most, 1))
			top -= height
			d.Bars = append(d.Bars, dayBar{Class: dayClasses[class], Y: top, Height: height})
		}
		if len(d.took) == 0 {
			continue
		}
		y := func(t time.Duration) float64 {
			return plotBottom - (plotBottom-plotTop)*float64(t)/float64(max(longest, 1))
		}
		d.HasTook, d.P50, d.P95 = true, y(quantile(d.took, 50)), y(quantile(d.took, 95))
		lower = append(lower, point(d.X+11, d.P50))
		upper = append(upper, point(d.X+11, d.P95))
	}
	out.P50Line, out.P95Top = line(lower), line(upper)
}

// quantile returns the value at a share, in per cent, of the sorted values. It returns 0 for no values.
func quantile(values []time.Duration, share int) time.Duration {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, len(sorted)*share/100)]
}

func point(x, y float64) string {
	return strings.TrimSuffix(percent(x), "%") + " " + strings.TrimSuffix(percent(y), "%")
}

func line(points []string) string {
	if len(points) == 0 {
		return ""
	}
	return "M" + strings.Join(points, "L")
}
