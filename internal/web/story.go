package web

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
)

// event is an event of a run. It is valid only during the call that gets it.
type event = report.Event

// events interprets the facts of a run. A child run has no journal of its own: its facts are among those of its root
// run, of which events yields those of the child run alone.
func (h *Handler) events(ctx context.Context, run *app.Run, yield func(*event) error) error {
	_, err := h.interpret(ctx, run, func(_ *report.Interpreter, e *event) error {
		if run.Root != "" && e.Run.ID != run.ID {
			return nil
		}
		return yield(e)
	})
	return err
}

// interpret yields all events of the root run and its children, with the interpreter, which knows the budget. The
// interpreter is returned for questions about the state after the last event.
func (h *Handler) interpret(
	ctx context.Context, run *app.Run, yield func(*report.Interpreter, *event) error,
) (*report.Interpreter, error) {
	root := cmp.Or(run.Root, run.ID)
	j, err := h.o.App.Journal(ctx, root)
	if err != nil {
		return nil, err
	}
	in := report.NewInterpreter(root, j.Outline).TrackBudgets()
	for e, err := range in.Events(j.Events(ctx, root, 0)) {
		if err == nil {
			err = yield(in, e)
		}
		if err != nil {
			return nil, err
		}
	}
	return in, nil
}

// story is what has happened in a run, step by step. It is built by applying the events in order.
type story struct {
	steps []*stepView
	// The visits that have not ended. The interpreter has one report.Step for each visit, whose address is its
	// identity.
	open    map[*report.Step]*stepView
	visits  map[string]int       // of each step, by its path
	keep    func(*stepView) bool // reports whether the messages of a step are kept
	run     journal.RunID
	started time.Time
	ended   time.Time
	last    time.Time     // of the latest event
	before  time.Duration // active time of the root run when this run started
	active  time.Duration // of this run
	edits   []string      // variables that were edited at the start
	done    int
	// The last value of each variable that the run has written.
	writes map[string]json.RawMessage
}

// stepView is one visit of a step. A step in a loop, or one that a jump leads back to, has several.
type stepView struct {
	Name, Path, Kind, Agent string
	Title                   string // the name of the step, as people know it
	Place                   string // its path, as people know it
	Description             string
	Depth                   int // 0 in the main line of a run or child run
	End                     bool
	State                   journal.State
	Error, Class            string
	Started, Ended          time.Time
	Attempts                []attempt
	Waits                   []interval
	Calls                   []interval
	Messages                []message
	Used                    journal.Usage
	Child                   string
	Visit                   int             // of the step, from 1
	Items, Failed           int             // steps inside, and those that failed
	Key                     string          // names this visit in live events
	Offline                 journal.Offline // its models, tools or commands are simulated or scripted

	parent *stepView
	asked  time.Time // when the gate opened
	ask    time.Time // when the model or tool was called
	models bool      // a model was called
	live   string    // chunks of the reply that is being received
	output []journal.Output
	info   *report.StepInfo
}

// attempt is one try of a step.
type attempt struct {
	N              int
	Started, Ended time.Time
	Error, Class   string
	OK             bool
	Lost           bool // its process ended before it did
}

// interval is a part of the time of a step.
type interval struct {
	Label      string
	Kind       string // mdl, tl or hold
	Start, End time.Time
}

// message is one entry of a step's conversation.
type message struct {
	From    string // engine, model, tool, note or error
	Title   string
	Meta    string
	At      time.Time
	System  string
	Texts   []string
	Tool    *toolView
	Offline journal.Offline
}

type toolView struct {
	Name, CallID  string
	Input, Output json.RawMessage
	Error         string
	Took          time.Duration
	Done          bool
	Offline       journal.Offline
}

// mainInputs are names of arguments that say most about a tool call, the best first.
var mainInputs = []string{"path", "file_path", "command", "url", "query", "pattern", "to", "name", "id"}

// Main returns the argument that says most about the call; empty if none is a text.
func (t *toolView) Main() string {
	var input map[string]json.RawMessage
	if json.Unmarshal(t.Input, &input) != nil {
		return ""
	}
	for _, name := range slices.Concat(mainInputs, slices.Sorted(maps.Keys(input))) {
		var text string
		if json.Unmarshal(input[name], &text) == nil && text != "" {
			text, _, _ = strings.Cut(text, "\n")
			return visible(text)
		}
	}
	return ""
}

// maxMessages is how many messages of a step a page shows; the newest ones.
const maxMessages = 200

// read builds the story of a run. It keeps the messages of the steps that keep selects. Of a child run, it has the
// steps of that run; the budget is that of the root run, of which the child run has the time since it started.
func (h *Handler) read(ctx context.Context, run *app.Run, keep func(*stepView) bool) (*story, error) {
	s := newStory(run.ID, keep)
	in, err := h.interpret(ctx, run, func(in *report.Interpreter, e *event) error {
		if e.Type == report.RunStarted && e.Run.ID == run.ID {
			s.before = time.Duration(in.Budget(e.At).Active) * time.Millisecond
		}
		// A process has died, and another one has taken over: in between nothing has worked on the run, although there
		// is no fact that says when it stopped. The time since the latest event counts as a wait.
		if e.Type == report.RunResumed && e.Suspension.Cause == report.CauseTakenOver {
			s.idle(e.At.Time())
		}
		if run.Root == "" || e.Run.ID == run.ID {
			s.apply(e)
		}
		if e.Type != report.RunClaimed { // the process that claimed it has not done anything yet
			s.last = e.At.Time()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if !s.ended.IsZero() {
		return s, nil
	}
	now := h.o.Now()
	// No process drives the run: it has been idle since its latest event.
	if run.Idle {
		s.idle(now)
		now = s.last
	}
	if b := in.Budget(journal.MillisOf(now)); b != nil {
		s.count(b)
	}
	return s, nil
}

func newStory(run journal.RunID, keep func(*stepView) bool) *story {
	return &story{
		run: run, open: map[*report.Step]*stepView{}, visits: map[string]int{}, keep: keep,
		writes: map[string]json.RawMessage{},
	}
}

// count sets the active time from the budget of the root run, which is active while a child run is.
func (s *story) count(b *report.Budget) {
	s.active = time.Duration(b.Active)*time.Millisecond - s.before
}

// idle notes that no process has driven the run between the latest event and a time. A visit that waits already has
// that time in its wait.
func (s *story) idle(until time.Time) {
	for _, v := range s.open {
		if v.asked.IsZero() { // otherwise it waits anyway
			v.Waits = append(v.Waits, interval{"waits", "hold", s.last, until})
		}
	}
}

func everyStep(*stepView) bool { return true }

func noStep(*stepView) bool { return false }

// liveKey names a visit of a step in live events. The pages and the stream derive it independently, so it consists of
// what never changes: the path, the index and the time at which the visit started.
func liveKey(s *report.Step) string {
	return s.Path + "#" + strconv.Itoa(s.Index) + "@" + strconv.FormatInt(int64(s.Started), 10)
}

// path returns the path of a step with its title, for all rounds of a loop.
func (v *stepView) path() string { return strings.TrimSuffix(v.Path, v.Name) + v.Title }

// apply applies one event. The first event of a visit creates its view.
func (s *story) apply(e *event) {
	at := e.At.Time()
	if e.Budget != nil {
		s.count(e.Budget)
	}
	switch e.Type {
	case report.RunStarted:
		if e.Run.ID == s.run {
			s.started = at
		}
	case report.RunFinished:
		if e.Run.ID == s.run {
			s.ended = at
		}
	case report.StateEdited:
		// A run that continues another one starts with the edits of its variables.
		if changed, _ := e.Changes(); len(s.steps) == 0 {
			s.edits = append(s.edits, changed[0].Path)
		}
		s.wrote(e)
	}
	if e.Step == nil {
		return
	}
	v := s.open[e.Step]
	if v == nil {
		v = &stepView{
			Name: e.Step.Name, Title: e.Step.Title(), Place: e.Step.Label(), Path: e.Step.Path,
			Kind: e.Step.Kind, Agent: e.Step.Agent, Depth: e.Step.Depth, State: journal.StateRunning, Started: at,
			Key: liveKey(e.Step), parent: s.open[e.Step.Parent],
		}
		s.visits[v.Path]++
		v.Visit = s.visits[v.Path]
		if v.parent != nil {
			v.parent.Items++
		}
		if e.Step.Info != nil && e.Step.Info.Step != nil {
			v.info = e.Step.Info
			v.Description = e.Step.Info.Step.Description
			_, v.End = e.Step.Info.Step.Action.(ir.End)
		}
		s.open[e.Step] = v
		s.steps = append(s.steps, v)
	}
	v.Used, v.Child = e.Step.Used, string(e.Step.Child)
	s.step(e, v, at)
	if s.keep(v) {
		v.converse(e, at)
	}
}

// wrote records the values of the variables that an event changes.
func (s *story) wrote(e *event) {
	changed, value := e.Changes()
	for _, w := range changed {
		s.writes[w.Path] = value.JSON
	}
}

// step updates the view of a visit: its state, attempts, waits and calls.
func (s *story) step(e *event, v *stepView, at time.Time) {
	if e.Note != nil && !e.Note.Unreadable {
		v.Offline = cmp.Or(e.Note.Offline(), v.Offline)
	}
	v.State = cmp.Or(e.State(), v.State)
	switch e.Type {
	case report.StepFinished, report.StepSkipped:
		v.Ended, v.Error, v.Class = at, e.Error, string(e.Class)
		if v.Error == "" && v.State == journal.StateFailed {
			v.Error = e.Problem
		}
		v.closeWait(at)
		s.wrote(e)
		if v.parent != nil && v.State == journal.StateFailed {
			v.parent.Failed++
		}
		s.done++
		delete(s.open, e.Step)
	// No event of its own ends the wait before a retry: the next attempt does.
	case report.TaskStarted:
		v.closeWait(at)
		v.Attempts = append(v.Attempts, attempt{N: len(v.Attempts) + 1, Started: at})
	case report.TaskFinished:
		if n := len(v.Attempts); n > 0 {
			a := &v.Attempts[n-1]
			a.Ended, a.Error, a.Class, a.OK = at, e.Error, string(e.Class), e.Outcome == journal.OutcomeOK
		}
	case report.TaskLost:
		if n := len(v.Attempts); n > 0 {
			v.Attempts[n-1].Lost = true
		}
	// What makes a step wait. The next events end the wait: the next attempt, a decision, or a reservation.
	case report.StepRetrying, report.GateOpened, report.BudgetWaiting:
		v.asked = at
	case report.GateDecided, report.GateExpired, report.BudgetReserved:
		v.closeWait(at)
	case report.ModelPrompted, report.ToolCalled:
		v.ask = at
	case report.ModelReplied:
		v.call("model", "mdl", at)
	case report.ToolReturned:
		v.call(report.Body[journal.ToolUse](e.Note).Name, "tl", at)
	}
}

// closeWait ends the wait of the visit, if it waits.
func (v *stepView) closeWait(at time.Time) {
	if !v.asked.IsZero() {
		v.Waits = append(v.Waits, interval{"waits", "hold", v.asked, at})
		v.asked = time.Time{}
	}
}

// call ends a call of a model or a tool. Only one start is remembered: of calls that overlap, the one that ends first
// gets the start of the last one, and the others are not shown in the timeline.
func (v *stepView) call(label, kind string, at time.Time) {
	if !v.ask.IsZero() {
		v.Calls = append(v.Calls, interval{visible(label), kind, v.ask, at})
		v.ask = time.Time{}
	}
}

// converse adds the messages of an event to the conversation of a step. Only the newest maxMessages are kept. A reply
// that is being received is in live until it is complete, fails or is asked for again.
func (v *stepView) converse(e *event, at time.Time) {
	add := func(m message) {
		m.At = at
		v.Messages = append(v.Messages, m)
		if len(v.Messages) > maxMessages {
			v.Messages = v.Messages[1:]
		}
	}
	v.models = v.models || e.Type == report.ModelPrompted || e.Type == report.ModelReplied
	who := visible(v.Agent)
	switch {
	case who != "":
	case v.models:
		who = "Model"
	default:
		who = "Tool call"
	}
	switch e.Type {
	case report.ModelPrompted:
		p := report.Body[journal.Prompt](e.Note)
		v.live = ""
		m := message{From: "engine", Title: "Espalier asks", System: p.System}
		if all := texts(p.Blocks); len(all) > 0 {
			m.Texts = []string{strings.Join(all, "\n\n")}
		}
		add(m)
	case report.ModelReplied:
		r := report.Body[journal.Reply](e.Note)
		v.live = ""
		m := message{From: "model", Title: who, Texts: texts(r.Blocks), Offline: r.Offline}
		if r.Usage.Input+r.Usage.Output > 0 {
			m.Meta = report.Number(r.Usage.Input) + " tokens in, " + report.Number(r.Usage.Output) + " out"
		}
		if len(m.Texts) > 0 {
			add(m)
		}
	case report.ModelStreamed:
		v.live += report.Body[journal.Stream](e.Note).Chunk
	case report.ToolCalled:
		use := report.Body[journal.ToolUse](e.Note)
		add(message{From: "tool", Title: who, Tool: &toolView{
			Name: visible(use.Name), CallID: use.CallID, Input: use.Input, Offline: use.Offline,
		}})
	case report.ToolReturned:
		use := report.Body[journal.ToolUse](e.Note)
		// The result belongs to the newest open call with its id, which may have been dropped from the list.
		for i := len(v.Messages) - 1; i >= 0; i-- {
			if m := &v.Messages[i]; m.Tool != nil && m.Tool.CallID == use.CallID && !m.Tool.Done {
				m.Tool.Output, m.Tool.Error, m.Tool.Done = use.Output, use.Error, true
				m.Tool.Took, m.Tool.Offline = at.Sub(m.At), use.Offline
				return
			}
		}
		add(message{From: "tool", Title: who, Tool: &toolView{
			Name: visible(use.Name), Input: use.Input, Output: use.Output, Error: use.Error,
			Done: true, Offline: use.Offline,
		}})
	case report.ModelRetried, report.ModelFailed:
		why := report.Body[journal.ModelRetry](e.Note).Message
		v.live = ""
		add(message{From: "error", Title: "The model call failed", Texts: []string{why}})
	case report.MessagePrinted:
		add(message{From: "note", Title: "Message", Texts: []string{report.Body[journal.LogLine](e.Note).Text}})
	case report.CommandWrote:
		v.addOutput(*report.Body[journal.Output](e.Note))
	case report.CommandStarted:
		add(message{From: "note", Title: "Command", Texts: []string{report.Body[journal.Command](e.Note).Command}})
	case report.GateEscalated:
		add(message{From: "note", Title: "Escalated: more people may decide"})
	case report.GateApproved, report.GateDecided:
		d := e.Verdict()
		m := message{From: "note", Title: decisionWord(&d)}
		if by := decidedBy(&d); by != "" {
			m.Title += " by " + visible(by)
		}
		if e.Type == report.GateApproved {
			m.Title += "; more approvals are needed"
		} else {
			m.Title += resolution(&d)
		}
		if d.Note != "" {
			m.Texts = []string{d.Note}
		}
		add(m)
	}
}

// texts returns the texts of a message.
func texts(blocks []journal.Block) []string {
	var out []string
	for _, b := range blocks {
		if b.Type == journal.BlockText && b.Text != "" {
			out = append(out, b.Text)
		}
	}
	return out
}
