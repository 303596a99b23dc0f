package web

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/identity"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/price"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/xslices"
)

// ask is something that waits for a person: an open gate, a conversation that waits for a reply, a step whose outcome
// is unknown, or an exhausted budget.
type ask struct {
	app.Gate
	Run     api.Status
	Icon    string
	Title   string
	Step    string // the step that waits, as people know it
	About   string
	Input   string // of the run, in one line
	Since   time.Time
	Current bool
}

// Address returns the address of the item.
func (a *ask) Address() string {
	return "/inbox/" + url.PathEscape(a.Run.ID) + "/" + url.PathEscape(a.key())
}

// StepAddress returns the address of the step that waits.
func (a *ask) StepAddress() string {
	step := a.Gate.Step
	if a.Kind == journal.AskInput { // each turn of a conversation has a step of its own
		step = a.Gate.Event
	}
	step, _, _ = strings.Cut(step, "~")
	if strings.ContainsAny(step, "[.#/") { // inside another step, whose page lists it
		return runPath(a.Run.ID)
	}
	return runPath(a.Run.ID, "?step=", url.QueryEscape(step))
}

// key identifies the item within its run, in addresses. An exhausted budget belongs to no step.
func (a *ask) key() string {
	if a.Kind == journal.AskBudget {
		return "budget"
	}
	return a.Gate.Step
}

type inboxPage struct {
	shell
	Mine, Others []*ask
	Total        int
	First        bool   // no page with newer items
	Older        string // address of the page with older items
	Open         string // item or list: which of them a narrow screen shows
	Item         *askDetail
	Decided      *decidedView
	Recent       []decidedView // the latest decisions
	Problem      string        // why the last decision was refused
	Kept         string        // the comment of that decision
}

// askDetail is an item with everything that a decision needs.
type askDetail struct {
	*ask
	CanAct     bool
	Deadline   time.Time // zero if there is none
	Approve    string    // what follows an approval
	Reject     string
	RejectEnds bool        // a rejection ends the run
	Answer     []formField // of the answer that a tool asks for
	Evidence   []evidence
	Budget     string
	Limit      string
	Suggestion int64
	Unit       string
}

// evidence is one value that is decided on.
type evidence struct {
	Name      string
	Value     json.RawMessage
	Untrusted bool
	Writer    string
	Missing   bool   // no step has written it
	Edited    bool   // a person has changed it since
	File      string // path of the file that holds the value
	Size      int
	Diff      []diffLine
}

// decidedView is how an item was decided, if it is not open any more.
type decidedView struct {
	Run  api.Run
	Step string
	Name string // of the step, as people know it
	Word string
	How  string // a step with an unknown outcome was resolved; empty for other decisions
	By   string
	Note string
	At   time.Time

	answer report.Answer
}

// maxInbox is how many waiting runs a page of the inbox shows.
const maxInbox = 100

// asks returns what waits in the newest runs before a run, the oldest first, and the run before which there are more.
func (h *Handler) asks(r *request, before journal.RunID) (out []*ask, more journal.RunID, err error) {
	runs, more, err := h.o.App.Inbox(r.Context(), before, maxInbox)
	if errors.Is(err, journal.ErrUnknownRun) {
		return nil, "", errPageRemoved
	}
	if err != nil {
		return nil, "", err
	}
	for _, s := range runs {
		found, err := h.asksWithInput(r, s)
		if err != nil {
			return nil, "", err
		}
		out = append(out, found...)
	}
	slices.SortStableFunc(out, func(a, b *ask) int { return a.Since.Compare(b.Since) })
	return out, more, nil
}

// find returns an item by the id of its run and its key; nil if it is not open (any more).
func (h *Handler) find(r *request, run, key string) (*ask, error) {
	found, err := h.o.App.Find(r.Context(), run)
	if err != nil {
		return nil, err
	}
	full, err := h.o.App.Status(r.Context(), found.ID)
	if err != nil {
		return nil, err
	}
	all, err := h.asksWithInput(r, full)
	if i := slices.IndexFunc(all, func(a *ask) bool { return a.key() == key }); i >= 0 {
		return all[i], nil
	}
	return nil, err
}

// maxInput is how many characters of a run's input an item shows.
const maxInput = 160

// oneLine returns the start of a run's input as one line: a text, or the members of an object.
func oneLine(input json.RawMessage) string {
	var object map[string]json.RawMessage
	if json.Unmarshal(input, &object) != nil {
		object = map[string]json.RawMessage{"": input}
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(object)) {
		text := strings.Join(strings.Fields(ir.PlainText(object[name])), " ")
		if name != "" {
			text = name + ": " + text
		}
		parts = append(parts, text)
	}
	text := []rune(visible(strings.Join(parts, " · ")))
	if len(text) > maxInput {
		return string(text[:maxInput]) + "…"
	}
	return string(text)
}

// asksWithInput returns the items of a run with its input.
func (h *Handler) asksWithInput(r *request, s *app.Status) ([]*ask, error) {
	input, err := h.inputOf(r, string(s.ID))
	if err != nil {
		return nil, err
	}
	all := asksOf(s)
	for _, a := range all {
		a.Input = oneLine(input)
	}
	return all, nil
}

// asksOf returns the items of a run.
func asksOf(s *app.Status) []*ask {
	st := api.NewStatus(s)
	return xslices.Map(s.Asks(), func(g app.Gate) *ask {
		a := newAsk(s, g)
		a.Run, a.Since = st, st.Updated
		return a
	})
}

// askWords are the symbol of each kind of what runs ask for, its words as the title of an item, which say what to do,
// and those in the list of runs. %s is what the run waits for.
var askWords = map[journal.AskKind]struct{ icon, title, waits string }{
	journal.AskApproval:     {"i-k-gate", "Decision: %s", "Waits for a decision about %s"},
	journal.AskToolApproval: {"i-k-tool", "Allow %s", "Waits for a decision about %s"},
	journal.AskEvent:        {"i-s-event", "Waits for the event %s", "Waits for the event %s"},
	journal.AskInput:        {"i-s-event", "Reply to %s", "Waits for a person to reply to %s"},
	journal.AskOutcome:      {"i-s-unknown", "Did %s take effect?", "The outcome of %s is unknown"},
	journal.AskBudget:       {"i-coin", "%s reached", "Has reached its %s"},
}

// newAsk describes what a run asks for.
func newAsk(s *app.Status, g app.Gate) *ask {
	name, words := visible(s.GateName(&g)), askWords[g.Kind]
	a := &ask{Gate: g, Icon: words.icon, Step: name, About: visible(g.Description)}
	of := name
	switch g.Kind {
	case journal.AskToolApproval:
		of = toolOf(g) + " in " + name
	case journal.AskEvent, journal.AskInput:
		of = visible(g.Event)
	case journal.AskOutcome:
		a.About = "The process ended while the step was running. It is unknown whether the step had an effect."
	case journal.AskBudget:
		of = sentence(journal.BudgetWords(s.Waiting.Name))
		a.Step, a.About = "", "Raise the limit to continue."
	}
	a.Title = fmt.Sprintf(words.title, of)
	return a
}

// toolOf returns the name of the tool that a gate asks about.
func toolOf(g app.Gate) string {
	var name string
	if json.Unmarshal(g.Shows["tool"], &name) != nil || name == "" {
		return "a tool call"
	}
	return visible(name)
}

// answerOf returns the fields of the answer that a tool asks for; nil if it asks for none, or not for fields. The
// schema of the answer is part of what the gate shows.
func answerOf(g app.Gate) []formField {
	fields := fieldsOf(g.Shows[app.AnswerSchema])
	for i := range fields {
		fields[i].NoFile = true
	}
	return fields
}

// answer returns the value that a decision has beside its comment. The form has either one field "value" with JSON, or
// a field "i.NAME" for each property of the schema. nil is no value.
func (h *Handler) answer(r *request, run *app.Run, step string) (json.RawMessage, error) {
	if r.PostForm.Has("value") {
		return json.RawMessage(strings.TrimSpace(r.PostFormValue("value"))), nil
	}
	// The schema is read from the open gate, not from the form, which the browser could have changed. Send checks again
	// that the gate shows what the person has seen.
	a, err := h.find(r, string(run.ID), step)
	if err != nil || a == nil {
		return nil, err
	}
	fields := answerOf(a.Gate)
	if fields == nil {
		return nil, nil
	}
	values, err := submitted(r, fields)
	if err != nil {
		return nil, err
	}
	for i := range fields {
		if fields[i].Error != "" {
			return nil, invalid(fields[i].Error, "")
		}
	}
	return app.InputOf("", a.Gate.Shows[app.AnswerSchema], nil, values)
}

// budgetUnits are the units of the limits of budgets in forms. Other budgets count what they are named for.
var budgetUnits = map[string]string{ir.BudgetMoney: "dollars", ir.BudgetDeadline: "seconds"}

// budgetOption is a budget that can be raised, with the unit of its limit.
type budgetOption struct{ Name, Title string }

func budgetOptions() []budgetOption {
	var out []budgetOption
	for _, name := range app.Budgets() {
		title := sentence(journal.BudgetWords(name))
		if unit := budgetUnits[name]; unit != "" {
			title += " (" + unit + ")"
		}
		out = append(out, budgetOption{name, title})
	}
	return out
}

func (h *Handler) inbox(r *request) error { return h.showInbox(r, http.StatusOK, "", "") }

// showInbox renders the inbox. problem says why a decision was refused, and kept is the comment of that decision, which
// is shown again so that it is not lost. An item that the address names is opened even if it is on another page of the
// list or has been decided; without a name, the first item that the user can act on is opened.
func (h *Handler) showInbox(r *request, status int, problem, kept string) error {
	page := inboxPage{shell: h.shell(r, "inbox", "Inbox"), Open: "list", Problem: problem, Kept: kept}
	before, err := pageStart(r)
	if err != nil {
		return err
	}
	all, more, err := h.asks(r, before)
	if err != nil {
		return err
	}
	page.Total, page.First = len(all), before == ""
	if more != "" {
		page.Older = "/inbox?before=" + string(more)
	}
	run, step := r.PathValue("run"), r.PathValue("step")
	if run != "" {
		page.Open = "item"
	}
	var current *ask
	for _, a := range all {
		if current == nil && (run == "" && h.canAct(r, a) || run == a.Run.ID && step == a.key()) {
			current = a
			a.Current = true
		}
		if h.canAct(r, a) {
			page.Mine = append(page.Mine, a)
		} else {
			page.Others = append(page.Others, a)
		}
	}
	page.Title = "Inbox"
	if n := len(page.Mine); n > 0 {
		page.Title = "Inbox, " + report.Number(n) + " waiting"
	}
	if current == nil && run != "" { // it is on another page
		if current, err = h.find(r, run, step); err != nil {
			return err
		}
	}
	switch {
	case current != nil:
		if page.Item, err = h.detail(r, current); err != nil {
			return err
		}
	case run != "" && step != "":
		if page.Decided, err = h.decidedItem(r, run, step); err != nil {
			return err
		}
	}
	if before == "" {
		if page.Recent, err = h.recentDecisions(r); err != nil {
			return err
		}
	}
	return h.render(r, status, "inbox.html", page)
}

// canAct reports whether the user may act on an item. It only decides what is shown: handlers and app check permissions
// again. Events are sent by programs, so they are in the list of others.
func (h *Handler) canAct(r *request, a *ask) bool {
	switch {
	case a.Kind.Approves():
		return a.MayDecide(r.actor(), r.id.ApproverRoles())
	case a.Kind == journal.AskEvent:
		return false
	}
	return r.id.May(identity.Operate)
}

// whoMayDecide describes the approvers of a gate, which may be nil, for a person who is or is not one of them.
func whoMayDecide(a *app.Approvers, included bool) string {
	text := "People with the role approver"
	if a != nil && len(a.Roles) > 0 {
		text = "People with the role " + strings.Join(a.Roles, " or ")
	}
	if included {
		text += " (you are one)"
	}
	if a != nil && a.FourEyes {
		text += ", except the person who started the run"
	}
	return visible(text)
}

// detail adds what a decision needs: who may decide, what follows, and the values that the gate shows with their origin
// and their changes.
func (h *Handler) detail(r *request, a *ask) (*askDetail, error) {
	d := &askDetail{ask: a, CanAct: h.canAct(r, a) || a.Kind == journal.AskEvent && r.id.May(identity.Operate)}
	run, err := h.o.App.Find(r.Context(), a.Run.ID)
	if err != nil {
		return nil, err
	}
	if a.Kind == journal.AskBudget {
		return d, h.describeBudget(r, d, run)
	}
	program, err := h.o.App.Program(r.Context(), run)
	if err != nil {
		return nil, err
	}
	if a.Kind.Approves() {
		d.Approve, d.Reject, d.RejectEnds = following(program, a.Gate.Step)
		d.RejectEnds = d.RejectEnds && a.Kind == journal.AskApproval
	}
	origins, err := h.origins(r, run, a.Gate.Step)
	if err != nil {
		return nil, err
	}
	if !origins.opened.IsZero() {
		a.Since = origins.opened
	}
	d.Deadline, _ = time.Parse(time.RFC3339Nano, a.Gate.Until) // most gates have none
	d.Answer = answerOf(a.Gate)
	for _, name := range a.Names() {
		if name == app.AnswerSchema && d.Answer != nil { // the form shows it
			continue
		}
		value, known := a.Gate.Shows[name], origins.variables[name]
		e := evidence{
			Name: visible(name), Value: value, Size: len(value), File: visible(a.Gate.Files[name]),
			Edited: known.Edited, Missing: string(value) == "null",
			Untrusted: a.Run.Untrusted && app.FromInput(name),
		}
		// Text from outside of the project and the results of tools can contain instructions that aim at the person who
		// decides.
		if s := known.Step; s != nil {
			e.Writer, e.Untrusted = visible(s.Label()), e.Untrusted || callsTool(s)
		}
		before := known.Before
		if last := known.Value; e.File != "" && last != nil && !slices.Equal(lines(last), lines(value)) {
			before, e.Edited = last, true // the file counts as it is now
		}
		if before != nil {
			e.Diff = diffValues(before, value)
		}
		d.Evidence = append(d.Evidence, e)
	}
	return d, nil
}

// describeBudget describes an exhausted budget, with its limit and the least one with which the run continues, in the
// unit of the form: steps, tokens, seconds or dollars.
func (h *Handler) describeBudget(r *request, d *askDetail, run *app.Run) error {
	b, err := h.o.App.Exhausted(r.Context(), run.ID)
	if err != nil {
		return err
	}
	d.Budget, d.Unit = b.Name, cmp.Or(budgetUnits[b.Name], strings.ReplaceAll(b.Name, "_", " "))
	if b.Limit == nil {
		return nil
	}
	// Suggestion is a limit with which the run continues. Amounts of money are in millionths of a dollar; the form has
	// whole dollars, rounded up.
	d.Limit, d.Suggestion = report.Number(*b.Limit), b.Enough
	if b.Name == ir.BudgetMoney {
		d.Limit, d.Suggestion = price.Dollars(*b.Limit), (b.Enough+999_999)/1_000_000
	}
	return nil
}

// following returns the titles of the steps that follow a gate; ends reports that a rejection ends the run, which is so
// for a gate of the main line without an edge for rejections.
func following(p *ir.Program, key string) (approve, reject string, ends bool) {
	step := findStep(p, key)
	if step == nil {
		return "", "", false
	}
	title := func(id string) string {
		if next := findStep(p, id); next != nil {
			return visible(next.Title())
		}
		return visible(id)
	}
	ends = p.Step(ir.Body, key) == step
	for _, edge := range step.Next {
		if slices.Contains(edge.On, ir.OK) && approve == "" {
			approve = edge.To.Step
		}
		if slices.Contains(edge.On, ir.Rejected) && reject == "" {
			reject, ends = edge.To.Step, false
		}
	}
	return title(approve), title(reject), ends
}

// origins is where the values that a gate shows come from.
type origins struct {
	opened    time.Time
	variables report.Variables
}

// origins reads the events of a run up to now. A gate can open several times, as in a loop: opened is the last time.
func (h *Handler) origins(r *request, run *app.Run, gate string) (*origins, error) {
	_, events, err := h.interpret(r.Context(), run)
	if err != nil {
		return nil, err
	}
	out := &origins{variables: report.Variables{}}
	for e, err := range events {
		if err != nil {
			return nil, err
		}
		if run.Root != "" && e.Run.ID != run.ID {
			continue
		}
		if e.Type == report.GateOpened && e.Work.Place.Key() == gate {
			out.opened = e.At.Time()
		}
		out.variables.Apply(e)
	}
	return out, nil
}

// callsTool reports whether the task of a step is a call of a tool.
func callsTool(s *report.Step) bool {
	if s.Info == nil {
		return false
	}
	task, ok := s.Info.Step.Action.(ir.Task)
	return ok && task.Describe().Tool != ""
}

// Limits of the list of the latest decisions. The store has no index of decisions: they are looked for near the ends of
// the runs that have changed last.
const (
	maxLately   = 5
	latelyRuns  = 500 // newest runs among which the last changed ones are found
	latelyReads = 20
	latelyFacts = 100
)

// recentDecisions returns the latest decisions of people, newest first. It looks at the last latelyFacts facts of the
// latelyReads runs that have changed last, so a decision that lies further back is not listed.
func (h *Handler) recentDecisions(r *request) ([]decidedView, error) {
	var entries []journal.Entry
	for e, err := range h.o.App.Entries(r.Context(), app.Filter{Limit: latelyRuns}) {
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	slices.SortStableFunc(entries, func(a, b journal.Entry) int { return cmp.Compare(b.Updated, a.Updated) })
	var out []decidedView
	for _, e := range entries[:min(len(entries), latelyReads)] {
		j, err := h.o.App.Journal(r.Context(), e.ID)
		if err != nil {
			return nil, err
		}
		// The gate may have opened before these facts. Its kind is unknown then, and Decisions derives the answer from
		// the decision alone.
		for d, err := range report.Decisions(j.Events(r.Context(), e.ID, max(0, e.Seq-latelyFacts))) {
			if err != nil {
				return nil, err
			}
			if d.By.User != "" {
				out = append(out, newDecidedView(&app.Run{Entry: e}, &d))
			}
		}
	}
	slices.SortStableFunc(out, func(a, b decidedView) int { return b.At.Compare(a.At) })
	return out[:min(len(out), maxLately)], nil
}

// decisionWord returns the word for what was decided about a gate.
func decisionWord(d *report.Decision) string { return sentence(cmp.Or(string(d.Answer), "decided")) }

// decidedBy returns the name of the person who has decided; empty if the gate timed out.
func decidedBy(d *report.Decision) string {
	if d.Answer == report.TimedOut {
		return ""
	}
	return app.DescribeActor(d.By, d.Method, "")
}

// resolution returns how a person has resolved a step with an unknown outcome, for the end of a sentence; empty for
// other decisions.
func resolution(d *report.Decision) string {
	if d.Answer != report.Resolved {
		return ""
	}
	return ": " + report.ResolutionWords(d.Outcome)
}

// Address returns the address of the item.
func (d decidedView) Address() string {
	return "/inbox/" + url.PathEscape(d.Run.ID) + "/" + url.PathEscape(d.Step)
}

// Icon returns the name of the symbol of the decision.
func (d decidedView) Icon() string {
	if d.answer == report.Rejected || d.answer == report.TimedOut {
		return "i-x"
	}
	return "i-check"
}

// decidedItem returns how an item was decided that is not open any more, for example because another person was faster
// or the browser has an old address. A step that is gone without a decision is described as a run that has moved on.
func (h *Handler) decidedItem(r *request, name, step string) (*decidedView, error) {
	run, err := h.o.App.Find(r.Context(), name)
	if err != nil {
		return nil, err
	}
	executions, err := h.o.App.Executions(r.Context(), run.ID, step)
	known, ok := errors.AsType[*app.Error](err)
	switch {
	case ok && known.Kind == app.NotFound:
	case err != nil:
		return nil, err
	case executions[len(executions)-1].Decided != nil:
		d := newDecidedView(run, executions[len(executions)-1].Decided)
		return &d, nil
	}
	return &decidedView{
		Run: api.NewRun(run), Step: step, Name: journal.PlaceName(step), Word: "The run has moved on",
	}, nil
}

func newDecidedView(run *app.Run, d *report.Decision) decidedView {
	return decidedView{
		Run: api.NewRun(run), Step: d.Gate.Key(), Name: cmp.Or(d.Event, journal.PlaceName(d.Gate.Key())),
		Word: decisionWord(d), How: resolution(d), By: decidedBy(d), Note: d.Note, At: d.At.Time(),
		answer: d.Answer,
	}
}

// decisionFields are the fields of a decision. Those of an answer start with "i.".
var decisionFields = []string{"step", "digest", "note", "decision", "value"}

// decide approves or rejects a gate. The digest is that of what the form has shown: app refuses the decision if the
// gate shows something else now, so that a person never approves what they have not seen. A decision that is refused
// shows the inbox again, with the reason and the comment. Unknown fields are refused because a misspelled one would be
// a decision without a part of it.
func (h *Handler) decide(r *request, run *app.Run) error {
	step, note, digest := r.PostFormValue("step"), r.PostFormValue("note"), r.PostFormValue("digest")
	for name := range r.PostForm {
		if !slices.Contains(decisionFields, name) && !strings.HasPrefix(name, "i.") {
			return invalid(fmt.Sprintf("a decision has no field %q", visible(name)), "")
		}
	}
	if digest == "" {
		return invalid("a decision needs the digest of what was shown", "")
	}
	var message app.Message
	var err error
	done := "approved"
	switch r.PostFormValue("decision") {
	case "approve":
		value, wrong := h.answer(r, run, step)
		message, err = app.Approve{
			Step: step, Note: note, Digest: digest, Roles: r.id.ApproverRoles(), Value: value,
		}, wrong
	case "reject":
		message, done = app.Reject{Step: step, Note: note, Digest: digest, Roles: r.id.ApproverRoles()}, "rejected"
	default:
		return invalid("a decision is to approve or to reject", "")
	}
	if err == nil {
		_, err = h.o.App.Send(r.Context(), run.ID, r.actor(), message)
	}
	var known *app.Error
	if errors.As(err, &known) &&
		(known.Kind == app.Refused || known.Kind == app.Conflict || known.Kind == app.InvalidRequest) {
		status := http.StatusConflict
		if known.Kind == app.InvalidRequest {
			status = http.StatusUnprocessableEntity
		}
		// showInbox opens the item that the address names; the address of this request has no step.
		r.SetPathValue("run", string(run.ID))
		r.SetPathValue("step", step)
		return h.showInbox(r, status, strings.TrimSuffix(sentence(known.Message), ".")+".", note)
	}
	if err != nil {
		return err
	}
	return h.redirect(r, "/inbox?"+url.Values{"done": {done}, "run": {string(run.ID)}}.Encode())
}
