package web

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
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

// interpret returns all events of the root run and its children, with their interpreter. A child run has no journal of
// its own: its facts are among those of its root run.
func (h *Handler) interpret(ctx context.Context, run *app.Run) (
	*report.Interpreter, iter.Seq2[*event, error], error,
) {
	root := cmp.Or(run.Root, run.ID)
	j, err := h.o.App.Journal(ctx, root)
	if err != nil {
		return nil, nil, err
	}
	in := report.NewInterpreter(root, j.Outline).TrackBudgets()
	return in, in.Events(j.Events(ctx, root, 0)), nil
}

// story is what has happened in a run, step by step. It is built by applying the events in order.
type story struct {
	*report.History
	steps []*stepView
	keep  func(*stepView) bool // reports whether the messages of a step are kept
}

// stepView is one visit of a step. A step in a loop, or one that a jump leads back to, has several.
type stepView struct {
	*report.StepVisit
	Name, Path, Kind, Agent string
	Title                   string // the name of the step, as people know it
	Place                   string // its path, as people know it
	Description             string
	Depth                   int // 0 in the main line of a run or child run
	End                     bool
	Messages                []message
	Used                    journal.Usage
	Child                   string
	Key                     string // names this visit in live events

	models bool   // a model was called
	live   string // chunks of the reply that is being received
	output []journal.Output
	info   *report.StepInfo
}

type interval = report.Interval

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
	Name          string
	Input, Output json.RawMessage
	Error         string
	Took          time.Duration
	Done          bool
	Offline       journal.Offline

	call *report.Call
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
	in, events, err := h.interpret(ctx, run)
	if err != nil {
		return nil, err
	}
	s := newStory(in, run.ID, keep)
	for e, err := range events {
		if err != nil {
			return nil, err
		}
		s.apply(e)
	}
	s.Until(h.o.Now(), run.Idle)
	return s, nil
}

func newStory(in *report.Interpreter, run journal.RunID, keep func(*stepView) bool) *story {
	return &story{History: report.NewHistory(in, run), keep: keep}
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
	visit, call := s.Apply(e)
	if visit == nil {
		return
	}
	v, _ := e.Step.Data.(*stepView)
	if v == nil {
		v = &stepView{
			StepVisit: visit, Name: e.Step.Name, Title: e.Step.Title(), Place: e.Step.Label(), Path: e.Step.Path,
			Kind: e.Step.Kind, Agent: e.Step.Agent, Depth: e.Step.Depth, Key: liveKey(e.Step),
		}
		if e.Step.Info != nil && e.Step.Info.Step != nil {
			v.info = e.Step.Info
			v.Description = e.Step.Info.Step.Description
			_, v.End = e.Step.Info.Step.Action.(ir.End)
		}
		e.Step.Data = v
		s.steps = append(s.steps, v)
	}
	v.Used, v.Child = e.Step.Used, string(e.Step.Child)
	if s.keep(v) {
		v.converse(e, call)
	}
}

// converse adds the messages of an event to the conversation of a step. Only the newest maxMessages are kept. A reply
// that is being received is in live until it is complete, fails or is asked for again. call is the call that the event
// starts or ends, if any.
func (v *stepView) converse(e *event, call *report.Call) {
	add := func(m message) {
		m.At = e.At.Time()
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
			Name: visible(use.Name), Input: use.Input, Offline: use.Offline, call: call,
		}})
	case report.ToolReturned:
		use := report.Body[journal.ToolUse](e.Note)
		for _, m := range slices.Backward(v.Messages) { // the call may have been dropped from the list
			if t := m.Tool; call != nil && t != nil && t.call == call {
				t.Output, t.Error, t.Offline, t.Done = use.Output, use.Error, use.Offline, true
				t.Took = call.End.Sub(call.Start)
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
