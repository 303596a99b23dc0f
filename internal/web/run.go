package web

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/graph"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/price"
	"github.com/espalier-run/espalier/internal/redact"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// runPage is the page of a run; each of its tabs is a page of its own.
type runPage struct {
	shell
	Run      api.Status
	By       string
	Release  string // version of the workflow
	From     *journal.Origin
	FromStep string // the step in From, as people know it
	Parent   string // the run that this one is a part of; empty if it is none
	Edited   []string
	Took     time.Duration
	Tab      string
	Workflow string // address of the workflow page; empty if the workflow is not there any more
	Why      *whyView
	Meters   []meter
	Graph    template.HTML
	Done     int
	Of       int
	Timeline timeline
	Step     *panel
	Budgets  []budgetOption
	MayEdit  bool
	Asks     []*ask
	Again    string // address of the form with the same input
	Example  string // name of the example that was run; the project has no such workflow
	Compare  string
	// Whether the audit logs are what the journal says; nil if that was not checked.
	Verified  *bool
	Records   any // content of the other tabs
	Search    string
	NextPage  string
	FirstPage string
	// run is the run of the page, which can be a child run; Run is how it is shown.
	run     *app.Run
	program *ir.Program
}

// whyView explains a failure and offers the way out.
type whyView struct {
	Step   string // the path of the step
	Name   string // the path, as people know it
	Error  string
	Class  string
	From   string
	Fields []setField
}

// setField is a variable that can be corrected before a retry.
type setField struct {
	Name, Value string
	Kind        string // text or json: how a new value is read
	Redacted    bool   // the value is not shown; the field is empty
	Long        bool
}

// meter shows a budget.
type meter struct {
	Name, Title, Used, Limit, Held, Worst string
	UsedShare, HeldShare                  float64
	Limited                               bool
}

// loadRun loads what all tabs of a run show. The status of a child run is that of its root run, except for what is said
// about the run itself; decisions about its gates are made on the page of the root run.
func (h *Handler) loadRun(r *request, tab string) (*runPage, error) {
	ctx := r.Context()
	frame := h.shell(r, "runs", "")
	run, err := h.o.App.Find(ctx, r.PathValue("run"))
	if err != nil {
		return nil, err
	}
	full, err := h.o.App.Status(ctx, cmp.Or(run.Root, run.ID))
	if err != nil {
		return nil, err
	}
	st, asking := api.NewStatus(full), full
	if run.Root != "" {
		st.Run, st.Gates, asking = api.NewRun(run), nil, &app.Status{Run: *run} // gates are on the page of the root
	} else {
		run = &full.Run // it may have finished since it was found
	}
	p := &runPage{
		shell: frame, Run: st, By: full.By.User, From: full.From, Tab: tab, run: run, Budgets: budgetOptions(),
	}
	p.Title = fmt.Sprintf("%s %s: %s", visible(st.Workflow), short(st.ID), stateOf(st.State, st.Outcome).Word())
	// Replaces the address that shell has set: this page follows one run, from the last fact that its status includes.
	p.Live = "/live?run=" + url.QueryEscape(st.ID) + "&after=" + strconv.FormatInt(int64(full.Seq), 10)
	if p.program, err = h.o.App.Program(ctx, run); err != nil {
		return nil, err
	}
	p.Release = visible(p.program.Version)
	titles := p.program.Labels()
	if p.From != nil {
		p.FromStep = cmp.Or(titles[p.From.Step], p.From.Step)
	}
	// Verifying derives the whole audit log again. For a larger run it would make each tab slow.
	if st.State == journal.StateFinished && run.Seq <= maxMarked {
		if p.Verified, err = h.verify(r, run); err != nil {
			return nil, err
		}
	}
	p.MayEdit = p.program.MayIntervene && p.MayOperate()
	p.Workflow = "/workflows/" + url.PathEscape(st.Workflow)
	p.Again = p.Workflow + "?like=" + url.QueryEscape(st.ID) + "#start"
	if p.Example, err = h.exampleOf(ctx, st.Workflow); err != nil {
		return nil, err
	}
	p.Compare = "/compare?a=" + url.QueryEscape(st.ID)
	end := h.o.Now()
	if st.State == journal.StateFinished {
		end = st.Updated
	}
	p.Took = end.Sub(st.Started)
	p.Parent, p.Icon = string(run.Parent), iconOf(st.State, st.Outcome)
	p.Asks = asksOf(asking)
	return p, nil
}

// run shows the overview of a run. Picture and story are read one after the other, so one may be newer than the other.
// Both are at least as new as the status, which was read first and whose last fact is in the address of the stream:
// live events cover what happens in between.
func (h *Handler) run(r *request) error {
	p, err := h.loadRun(r, "overview")
	if err != nil {
		return err
	}
	ctx := r.Context()
	picture, _, err := h.o.App.CompactGraph(ctx, p.run)
	if err != nil {
		return err
	}
	path := r.URL.Query().Get("step")
	visit, _ := strconv.Atoi(r.URL.Query().Get("visit")) // any other value means the last visit
	// Only the conversation of the step that the panel shows is kept: the messages of a whole run can be very large.
	s, err := h.read(ctx, p.run, keepChosen(path, visit))
	if err != nil {
		return err
	}
	chosen := s.choose(path, visit)
	if path == "" && chosen != nil {
		path = chosen.Path
	}
	svg, err := picture.SVG(graph.CompactOptions{
		Link:    func(step string) string { return h.o.Base + runPath(p.Run.ID, "?step=", url.QueryEscape(step)) },
		Current: path,
	})
	if err != nil {
		return err
	}
	p.Graph, p.Edited = inlineHTML(svg), s.Edited
	p.Done, p.Of = s.doneOf(p.program, p.From)
	rest, err := h.o.App.Remaining(ctx, p.run)
	if err != nil {
		return err
	}
	p.meters(s, rest)
	if err := h.explain(r, p, s); err != nil {
		return err
	}
	from, _ := strconv.Atoi(r.URL.Query().Get("row")) // any other value means the first page
	p.Timeline = s.timeline(h.o.Now(), chosen, r.URL.Query().Get("show"), max(from, 0))
	if p.Step, err = h.panel(r, p, s, path, chosen); err != nil {
		return err
	}
	return h.render(r, http.StatusOK, "run.html", p)
}

// keepChosen selects the steps whose messages a page may show, while the story is being read and before it is known
// which step choose will select. If no step is chosen, that is any step of the main line, and their earlier visits and
// steps that have finished are dropped when the next one begins. So at most a few steps have messages in memory at
// once.
func keepChosen(path string, visit int) func(*stepView) bool {
	var last *stepView
	return func(v *stepView) bool {
		switch {
		case path == "" && v.Depth > 0, path != "" && v.Path != path, visit > 0 && v.Visit != visit:
			return false
		case last != nil && last != v && (last.Path == v.Path || last.State == journal.StateOK):
			last.Messages, last.output = nil, nil
		}
		last = v
		return true
	}
}

// choose returns the visit of a step that the page shows, nil if there is none. Without a path, that is a step that
// failed, waits or runs, or the last one.
func (s *story) choose(path string, visit int) *stepView {
	if path != "" {
		for _, v := range slices.Backward(s.steps) {
			if v.Path == path && (visit <= 0 || v.Visit == visit) {
				return v
			}
		}
		return nil
	}
	for _, state := range []journal.State{
		journal.StateFailed, journal.StateUnknown, journal.StateWaiting, journal.StateRunning,
	} {
		for _, v := range slices.Backward(s.steps) {
			if v.State == state && v.Depth == 0 {
				return v
			}
		}
	}
	for _, v := range slices.Backward(s.steps) {
		if !v.End && v.Depth == 0 {
			return v
		}
	}
	return nil
}

// doneOf returns how many steps of the main line have finished, and how many there are. Steps that the file does not
// have, such as the gate of an Agentfile step, do not count. A run that continues another one from a step inherits the
// steps in front of that step, which therefore count as done.
func (s *story) doneOf(p *ir.Program, from *journal.Origin) (done, of int) {
	finished := map[string]bool{}
	for _, v := range s.steps {
		if v.Depth == 0 && !v.Ended.IsZero() && v.State != journal.StateFailed {
			finished[v.Path] = true
		}
	}
	inherited := from != nil
	for i := range p.Blocks[ir.Body].Steps {
		step := &p.Blocks[ir.Body].Steps[i]
		inherited = inherited && step.ID != from.Step
		if step.Implied {
			continue
		}
		if of++; inherited || finished[step.ID] {
			done++
		}
	}
	return done, of
}

// meters adds a meter for each budget. Money is left out if nothing was spent and no limit is set.
func (p *runPage) meters(s *story, rest *app.Remaining) {
	used, held, limits := p.Run.Used, p.Run.Reserved, p.Run.Limits
	add := func(name, title string, u, hold int64, limit *int64, worst string, show func(int64) string) *meter {
		m := meter{Name: name, Title: title, Used: show(u), Worst: worst}
		if hold > 0 {
			m.Held = show(hold) + " reserved"
		}
		if limit != nil {
			m.Limited, m.Limit = true, show(*limit)
			m.UsedShare = min(100, 100*float64(u)/float64(max(*limit, 1)))
			// The bars of used and reserved amounts share a width of 100 per cent, also if a limit was lowered below
			// them.
			m.HeldShare = min(100-m.UsedShare, 100*float64(hold)/float64(max(*limit, 1)))
		}
		p.Meters = append(p.Meters, m)
		return &p.Meters[len(p.Meters)-1]
	}
	worst := func(most stepkind.Amount, estimate string) string {
		switch {
		case p.Run.State == journal.StateFinished:
			return ""
		case most.Unbounded != "":
			return "no bound on what is left"
		}
		return "at most " + report.Number(most.N) + " more" + estimate
	}
	tokens := func(u api.Usage) int64 { return u.InputTokens + u.OutputTokens }
	number := report.Number[int64]
	add(ir.BudgetTokens, "Tokens", tokens(used), tokens(held), limits.Tokens, worst(rest.Tokens, " (estimate)"), number)
	add(ir.BudgetSteps, "Steps", used.Steps, held.Steps, limits.Steps, worst(rest.Steps, ""), number)
	add(ir.BudgetTools, "Tool calls", used.ToolCalls, held.ToolCalls, limits.ToolCalls, worst(rest.ToolCalls, ""),
		number)
	// Providers and machines can always take longer.
	seconds := func(n int64) string { return report.Duration(time.Duration(n) * time.Second) }
	active := int64(s.Active.Seconds())
	add("seconds", "Active time", active, 0, limits.ActiveSeconds, "", seconds).Used = report.Duration(s.Active)
	if used.Dollars == 0 && limits.Dollars == nil {
		return
	}
	var limit *int64
	if limits.Dollars != nil {
		limit = new(price.MicroDollars(*limits.Dollars))
	}
	money := ""
	switch {
	case p.Run.Simulated != "":
		money = string(p.Run.Simulated) + ": not paid"
	case p.Run.State == journal.StateFinished:
	case rest.Money.Known:
		money = "at most " + price.Dollars(rest.Money.AtMost) + " more (estimate)"
	default:
		money = "what is left is unknown: " + visible(rest.Money.Because)
	}
	spent := price.MicroDollars(used.Dollars)
	reserved := price.MicroDollars(held.Dollars)
	add(ir.BudgetMoney, "Cost", spent, reserved, limit, money, price.Dollars).Used = price.Spent(spent)
}

// explain says why a run failed, and what can be corrected. The step is the last one that failed; end.From is the step
// to continue from, which can be an earlier one.
func (h *Handler) explain(r *request, p *runPage, s *story) error {
	if p.Run.State != journal.StateFinished || p.Run.Outcome != journal.OutcomeFailed || p.run.Root != "" {
		return nil
	}
	end, err := h.o.App.Ending(r.Context(), p.run)
	if err != nil {
		return err
	}
	w := &whyView{Error: end.Error, From: end.From}
	for _, v := range slices.Backward(s.steps) {
		if v.State == journal.StateFailed {
			w.Step, w.Name, w.Class = v.Path, v.Place, v.Class
			w.Error = cmp.Or(w.Error, v.Error)
			break
		}
	}
	w.Error = sentence(cmp.Or(w.Error, report.ReasonWords(end.Reason), "the run failed"))
	if p.MayEdit && end.From != "" {
		if w.Fields, err = h.correctable(r, p.run, end.From, s.Visited[end.From]); err != nil {
			return err
		}
	}
	p.Why = w
	return nil
}

// maxFields is how many variables the form of a retry offers.
const maxFields = 4

// correctable returns the variables that a step has read in the last of so many visits and that a person can change.
// The input of the run is not among them: a run that continues has the input of the first one.
func (h *Handler) correctable(r *request, run *app.Run, step string, visits int) ([]setField, error) {
	last, err := h.execution(r, run.ID, step, visits, visits)
	if err != nil || last == nil {
		return nil, err
	}
	reads := last.Reads
	var out []setField
	for _, name := range slices.Sorted(maps.Keys(reads)) {
		if name == "input" || strings.HasPrefix(name, "input.") || len(out) == maxFields {
			continue
		}
		text := report.Readable(reads[name])
		field := setField{
			Name: name, Value: text, Kind: "json", Long: len(text) > 80 || strings.Contains(text, "\n"),
			Redacted: redact.Marked(text),
		}
		// A variable that holds text stays text after the edit, also if the new text looks like JSON.
		if bytes.HasPrefix(reads[name], []byte(`"`)) {
			field.Kind = "text"
		}
		if field.Redacted { // the step would get the replacement as its value
			field.Value = ""
		}
		out = append(out, field)
	}
	return out, nil
}

// record renders one of the other tabs of a run.
func (h *Handler) record(r *request, tab string, show func(*request, *runPage) error) error {
	p, err := h.loadRun(r, tab)
	if err != nil {
		return err
	}
	p.Search = strings.TrimSpace(r.URL.Query().Get("q"))
	if err := show(r, p); err != nil {
		return err
	}
	return h.render(r, http.StatusOK, "record.html", p)
}

// logLine is a line of a transcript or an audit log. Both are text files of JSON objects, one for each line.
type logLine struct {
	N     int
	At    time.Time
	Event string
	Path  string
	Raw   json.RawMessage

	reply string // the call of a model that the line is about; empty for other lines
	part  string // of the reply; empty for the whole reply
}

// fold adds a line to a page. A transcript has a line for each chunk of a streamed reply and then a line with the whole
// reply; the page shows the chunks as one line that grows, and replaces it by the whole reply when that follows.
func fold(lines []logLine, l logLine) []logLine {
	if l.reply == "" {
		return append(lines, l)
	}
	i := slices.IndexFunc(lines, func(o logLine) bool { return o.reply == l.reply && o.part != "" })
	switch {
	case l.part == "" && i >= 0:
		return append(slices.Delete(lines, i, i+1), l)
	case l.part == "" || i < 0:
		lines = append(lines, l)
		i = len(lines) - 1
	default:
		lines[i].part += l.part
	}
	if text := lines[i].part; text != "" {
		lines[i].Raw, _ = json.Marshal(map[string]string{"received": text}) // texts always encode
	}
	return lines
}

// linesPerPage is how many lines of a log a page shows.
const linesPerPage = 100

// page selects the lines that contain the search text, from a line on. Lines are counted from the start of the record,
// whether they are shown or not, so that the address of a page stays valid while the record grows. read fills in what
// is known of a line; a line that it cannot read is shown as it is.
func (p *runPage) page(
	r *request, name string, record io.Reader, read func(line []byte, out *logLine),
) ([]logLine, error) {
	from, _ := strconv.Atoi(r.URL.Query().Get("from")) // any other value means the first page
	var out []logLine
	needle := []byte(strings.ToLower(p.Search))
	n := 0
	for line, err := range report.Lines(record) {
		if err != nil {
			return nil, err
		}
		n++
		line = bytes.TrimSpace(line)
		if n <= from || len(line) == 0 || len(needle) > 0 && !bytes.Contains(bytes.ToLower(line), needle) {
			continue
		}
		if len(out) == linesPerPage {
			last := strconv.Itoa(out[len(out)-1].N)
			p.NextPage = runPath(p.Run.ID, "/", name, "?from=", last, "&q=", url.QueryEscape(p.Search))
			break
		}
		// report.Lines reuses its buffer.
		line = bytes.Clone(line)
		l := logLine{N: n, Raw: json.RawMessage(line)}
		read(line, &l)
		out = fold(out, l)
	}
	if from > 0 {
		p.FirstPage = runPath(p.Run.ID, "/", name, "?q=", url.QueryEscape(p.Search))
	}
	return out, nil
}

// transcript shows the transcript. It is written in the background, so Flush waits until it has what has happened so
// far.
func (h *Handler) transcript(r *request, p *runPage) error {
	if err := h.o.App.Flush(r.Context()); err != nil {
		return err
	}
	reader, err := h.o.App.Transcript(r.Context(), p.run, nil)
	if known, ok := errors.AsType[*app.Error](err); ok && known.Reason == app.NoTranscript {
		p.Records = []logLine{}
		return nil
	}
	if err != nil {
		return err
	}
	defer reader.Close()
	titles := p.program.Labels()
	p.Records, err = p.page(r, "transcript", reader, func(line []byte, out *logLine) {
		var e struct {
			Type, Path string
			Iteration  int
			Child      string `json:"child_run_id"`
			Timestamp  time.Time
			Payload    json.RawMessage
		}
		if json.Unmarshal(line, &e) != nil {
			return
		}
		out.Event, out.Path, out.Raw, out.At = visible(e.Type),
			visible(report.Titled(e.Path, titles)), e.Payload, e.Timestamp
		if e.Type == "message.assistant" {
			var m struct{ Blocks []struct{ Chunk string } }
			_ = json.Unmarshal(e.Payload, &m) // another payload has no parts
			// Several branches stream at once: path, iteration and child run identify the call.
			out.reply = fmt.Sprint(e.Path, " ", e.Iteration, " ", e.Child)
			for _, b := range m.Blocks {
				out.part += b.Chunk
			}
		}
	})
	return err
}

// maxVerified is the number of facts up to which a run is verified whenever its audit log is shown; larger ones are
// verified on request.
const maxVerified = 5000

// maxMarked is the number of facts up to which a finished run is verified on each of its pages.
const maxMarked = 1000

// verify compares the audit logs of a run and of its child runs with the journal. It returns nil if one of them is
// missing. Without Flush, a log that is still being written would be reported as changed.
func (h *Handler) verify(r *request, run *app.Run) (*bool, error) {
	if err := h.o.App.Flush(r.Context()); err != nil {
		return nil, err
	}
	reports, err := h.o.App.VerifyAudit(r.Context(), run)
	if err != nil {
		return nil, err
	}
	// A log that was never written is no fault: it is derived when it is opened.
	if slices.ContainsFunc(reports, func(report app.AuditReport) bool { return report.Records == 0 }) {
		return nil, nil
	}
	verified := !slices.ContainsFunc(reports, func(report app.AuditReport) bool { return !report.OK })
	return &verified, nil
}

func (h *Handler) audit(r *request, p *runPage) error {
	log, err := h.o.App.AuditLog(r.Context(), p.run)
	if err != nil {
		return err
	}
	defer log.Close()
	if p.Verified == nil && (p.run.Seq <= maxVerified || r.URL.Query().Has("verify")) {
		if p.Verified, err = h.verify(r, p.run); err != nil {
			return err
		}
	}
	titles := p.program.Labels()
	p.Records, err = p.page(r, "audit", log, func(line []byte, out *logLine) {
		var e struct {
			Event     string
			StepID    string `json:"step_id"`
			Timestamp time.Time
		}
		if json.Unmarshal(line, &e) == nil {
			out.Event, out.Path, out.At = visible(e.Event), visible(report.Titled(e.StepID, titles)), e.Timestamp
		}
	})
	return err
}

// artifactView is a file that a run has written.
type artifactView struct {
	Path    string
	Size    int64
	Text    string
	JSON    json.RawMessage
	Diff    []diffLine
	Prose   []block
	IsImage bool
	Cut     bool
}

// Limits of what is shown of the files of a run.
const (
	maxArtifacts = 200
	maxPreview   = 64 << 10
)

// artifacts lists the files of a run with previews. The folder is opened as an os.Root, so that symbolic links that a
// step has made do not lead out of it.
func (h *Handler) artifacts(r *request, p *runPage) error {
	list := []artifactView{}
	p.Records = list
	root, err := h.o.App.Artifacts(r.Context(), p.run)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	dir := root.FS()
	err = fs.WalkDir(dir, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || len(list) == maxArtifacts {
			return nil //nolint:nilerr // a folder that cannot be read has no files to show
		}
		info, err := entry.Info()
		if err != nil {
			return nil //nolint:nilerr // it has been removed meanwhile
		}
		a := artifactView{Path: name, Size: info.Size(), IsImage: isImage(name)}
		if !a.IsImage {
			a.show(preview(dir, name))
		}
		list = append(list, a)
		return nil
	})
	p.Records = list
	return err
}

func isImage(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".png", ".jpg", ".jpeg", ".gif", ".webp":
		return true
	}
	return false
}

// show chooses the form of a file's text by its name: a JSON tree, Markdown, a difference, or the text itself.
func (a *artifactView) show(text string, cut bool) {
	a.Cut = cut
	switch extension := strings.ToLower(path.Ext(a.Path)); {
	case extension == ".json" && !cut && json.Valid([]byte(text)):
		a.JSON = json.RawMessage(text)
	case extension == ".md":
		a.Prose = prose(text)
	case extension == ".diff" || extension == ".patch":
		a.Diff = patchLines(text)
	default:
		a.Text = text
	}
}

// preview returns the start of a file as visible text; empty for a file with NUL bytes, which is not text.
func preview(dir fs.FS, name string) (text string, cut bool) {
	f, err := dir.Open(name)
	if err != nil {
		return "", false
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxPreview+1))
	if err != nil || bytes.IndexByte(raw, 0) >= 0 {
		return "", false
	}
	if cut = len(raw) > maxPreview; cut {
		raw = raw[:maxPreview]
	}
	return visible(strings.ToValidUTF8(string(raw), "�")), cut
}

// artifact sends a file of a run. Only images are shown by the browser; everything else is downloaded, because a page
// or a drawing that a model wrote must not run as one of ours.
func (h *Handler) artifact(r *request, run *app.Run) error {
	root, err := h.o.App.Artifacts(r.Context(), run)
	if errors.Is(err, fs.ErrNotExist) {
		return notFound("the run has no files")
	}
	if err != nil {
		return err
	}
	defer root.Close()
	name := path.Clean(r.PathValue("file"))
	// Refuses "..", which os.Root would refuse as well, and absolute paths.
	if !fs.ValidPath(name) {
		return notFound("there is no such file")
	}
	raw, err := fs.ReadFile(root.FS(), name)
	if err != nil {
		return notFound("there is no such file")
	}
	kind := "application/octet-stream"
	if isImage(name) {
		kind = mime.TypeByExtension(strings.ToLower(path.Ext(name)))
	} else {
		file := map[string]string{"filename": path.Base(name)}
		r.w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", file))
	}
	r.w.Header().Set("Content-Type", kind)
	r.w.Write(raw) // the client may be gone
	return nil
}

// state shows the variables of a run.
func (h *Handler) state(r *request, p *runPage) error {
	s, err := h.read(r.Context(), p.run, noStep)
	if err != nil {
		return err
	}
	from, _ := strconv.Atoi(r.URL.Query().Get("from")) // any other value means the first page
	names := slices.Sorted(maps.Keys(s.Variables))
	from = min(max(from, 0), len(names))
	list := []evidence{}
	for _, name := range names[from:min(from+linesPerPage, len(names))] {
		list = append(list, evidence{Name: visible(name), Value: s.Variables[name].Value})
	}
	p.Records = list
	if from > 0 {
		p.FirstPage = runPath(p.Run.ID, "/state")
	}
	if next := from + linesPerPage; next < len(names) {
		p.NextPage = runPath(p.Run.ID, "/state?from=", strconv.Itoa(next))
	}
	return nil
}

// output shows the output of a finished run. A child run has no output of its own: it is the result of the step that
// called it.
func (h *Handler) output(r *request, p *runPage) error {
	if p.Run.State != journal.StateFinished || p.run.Root != "" {
		p.Records = []evidence{}
		return nil
	}
	end, err := h.o.App.Ending(r.Context(), p.run)
	if err != nil {
		return err
	}
	p.Records = members(end.Output)
	return nil
}

// members returns the members of an object, one by one; any other value as it is.
func members(raw json.RawMessage) []evidence {
	list := []evidence{}
	var object map[string]json.RawMessage
	switch {
	case len(raw) == 0 || string(raw) == "null":
	case json.Unmarshal(raw, &object) == nil:
		for _, name := range slices.Sorted(maps.Keys(object)) {
			list = append(list, evidence{Name: visible(name), Value: object[name]})
		}
	default:
		list = append(list, evidence{Name: "output", Value: raw})
	}
	return list
}
