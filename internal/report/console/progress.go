package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/report"
)

// Progress is where a run stands, as far as a screen shows it.
type Progress struct {
	run   journal.RunID
	trail *report.Trail
	// state is the plan's own fold: what counts as a step and what budgets have
	// left is decided there and nowhere else.
	state *plan.State
	seq   journal.Seq

	name     string
	began    journal.Millis
	now      journal.Millis // of the last event
	offline  string
	paused   bool
	stopping bool
	starved  string // the budget that is short
	end      *Notice
	active   []*active // steps that are open, in the order of their beginning
	byStep   map[*report.Step]*active
	parents  map[string]*active // the open step that a frame belongs to
	done     []Notice           // outermost steps that are over, the last of them
	ended    int                // how many there were
	out      []Notice
}

// maxDone is how many steps that are over the summary shows.
const maxDone = 100

// active is a step that is open.
type active struct {
	step    *report.Step
	tokens  int64
	cost    int64 // in millionths of a dollar
	offline string
	tools   []*running
	again   journal.Millis // when a model that failed is asked again
	failure string         // of the last attempt
	wait    *Notice
	retry   journal.Millis // when the next attempt begins
	total   int            // branches or items; 0 is not known
	over    int            // of them
	most    int            // iterations of a loop
	// undecided: people know that its condition to stop has no value.
	undecided bool
}

// running is a call of a tool that has not returned.
type running struct {
	journal.ToolUse
	far string // how far it has come, if it says so
}

func (a *active) tool(name, id string) int {
	return slices.IndexFunc(a.tools, func(one *running) bool { return one.CallID == id && one.Name == name })
}

// NewProgress begins before the first event of a run. outline may be nil.
func NewProgress(run journal.RunID, outline func(definition string) (*report.Outline, error)) *Progress {
	return &Progress{
		run: run, trail: report.NewTrail(run, outline), state: &plan.State{Run: run},
		byStep: map[*report.Step]*active{}, parents: map[string]*active{},
	}
}

// Seq is the last event that was taken.
func (p *Progress) Seq() journal.Seq { return p.seq }

// Over tells whether the run has finished.
func (p *Progress) Over() bool { return p.end != nil }

// Take takes the next event and returns what there is to tell. The notices
// are valid until the next call.
func (p *Progress) Take(e *journal.Event) ([]Notice, error) {
	p.out = p.out[:0]
	p.seq, p.now = e.Seq, e.At
	// What a fact says about a step is told while the step is open.
	switch x := e.Fact.(type) {
	case journal.RunStarted:
		p.name, p.began = x.Name, e.At
	case journal.TaskNoted:
		p.note(e, &x)
	case journal.TaskEnded:
		if a := p.use(x.Frame, x.Usage); a != nil {
			a.failure = cmp.Or(x.Error, x.Class)
		}
	case journal.GateDecided:
		p.decided(e, &x)
	case journal.FrameClosed:
		if a := p.parents[x.Frame]; a != nil {
			a.over++
			delete(p.parents, x.Frame)
			if x.Reason == plan.ReasonUndecided && !a.undecided { // once is enough: it will not get better
				a.undecided = true
				p.tell(e, StepSaid, a.step).Note = "goes on, because the condition to stop cannot be decided: " + x.Error
			}
		}
	}
	if err := p.trail.Take(e, func(m *report.Moment) { p.moment(e, m) }); err != nil {
		return nil, err
	}
	p.state.Fold([]journal.Event{*e})
	p.after(e)
	return p.out, nil
}

// ledger is what the run has used and may use.
func (p *Progress) ledger() *plan.Ledger {
	if p.state.Finished != nil {
		return p.state.Spent
	}
	return p.state.Root().Ledger
}

// tell adds a notice about a step, or about the run when there is none.
func (p *Progress) tell(e *journal.Event, event Event, step *report.Step) *Notice {
	n := Notice{Seq: e.Seq, At: Time{e.At.Time()}, Run: p.run, Event: event, place: p.name, root: p.run}
	if step != nil {
		n.Run, n.Parent, n.Path, n.Iteration, n.Kind = step.Run.ID, step.Run.Parent, step.Path, step.Iteration(), step.Kind
		n.Agent, n.Child, n.place = agentOf(step), step.Child, place(step)
	}
	p.out = append(p.out, n)
	return &p.out[len(p.out)-1]
}

// place is a step's path behind those of the steps that called its run.
func place(s *report.Step) string {
	text := s.Path
	if s.Info != nil && s.Info.Step.Label != "" {
		text = strings.TrimSuffix(text, s.Name) + s.Info.Step.Label
	}
	if s.Loop {
		text += "[" + strconv.Itoa(s.Index) + "]"
	}
	if s.Run.At != nil {
		return place(s.Run.At) + " › " + text
	}
	return text
}

func agentOf(s *report.Step) string {
	if s.Info == nil {
		return ""
	}
	var t *ir.Task
	switch a := s.Info.Step.Action.(type) {
	case ir.Task:
		t = &a
	case ir.Gate:
		t = a.Verdict
	}
	if t == nil {
		return ""
	}
	var id string
	if raw := t.Settings.Get("agent"); raw != nil && json.Unmarshal(raw, &id) != nil {
		return ""
	}
	return id
}

// moment tells what runs and steps do.
func (p *Progress) moment(e *journal.Event, m *report.Moment) {
	switch m.What {
	case report.RunBegan:
		n := p.tell(e, RunStarted, nil)
		n.Run, n.Parent, n.Name = m.Run.ID, m.Run.Parent, m.Run.Name
		if x, ok := e.Fact.(journal.RunStarted); ok && x.From != nil {
			n.From, n.Step = x.From.Run, x.From.Step
		}
	case report.RunEnded:
		n := p.tell(e, RunFinished, nil)
		n.Run, n.Parent, n.Name, n.Outcome, n.Error = m.Run.ID, m.Run.Parent, m.Run.Name, m.Outcome, m.Error
		n.Millis = int64(e.At - m.Run.Began)
		n.result(m.Value)
		if m.Run.Parent == "" {
			used := p.ledger().Used
			n.Steps, n.Tokens, n.MicroDollars, n.Lost, n.Offline = used.Steps, total(used), used.MicroDollars, used.Lost, p.offline
			if x, ok := e.Fact.(journal.RunFinished); ok {
				n.Reason, n.Status = x.Reason, x.Status
			}
			end := *n
			p.end = &end
		}
	case report.StepBegan:
		a := &active{step: m.Step}
		if x, ok := e.Fact.(journal.StepEntered); ok {
			a.most = x.Max
		}
		p.active, p.byStep[m.Step] = append(p.active, a), a
		n := p.tell(e, StepStarted, m.Step)
		_, n.quiet = e.Fact.(journal.GateOpened)
	case report.StepSkipped:
		p.keep(p.tell(e, StepSkipped, m.Step), m.Step)
	case report.StepEnded:
		n := p.tell(e, StepFinished, m.Step)
		n.Outcome, n.Error, n.Millis = m.Outcome, m.Error, int64(e.At-m.Step.Began)
		n.result(m.Value)
		if m.Step.Info != nil {
			end, ok := m.Step.Info.Step.Action.(ir.End)
			n.badly = ok && end.Failed
		}
		if n.Kind == report.KindCommand {
			n.printed = printed(n.Result)
		}
		_, decided := e.Fact.(journal.GateDecided)
		n.quiet = decided || n.Outcome == report.OutcomeFailed && repeats(m.Step)
		if a := p.byStep[m.Step]; a != nil {
			n.Tokens, n.MicroDollars, n.Offline = a.tokens, a.cost, a.offline
			if _, reason := report.Ending(e.Fact); reason == plan.ClassLoopLimit && m.Outcome == report.OutcomeOK {
				n.Reason, n.Note = reason, fmt.Sprintf("it reached its limit of %d iterations", a.most)
			}
			p.drop(a)
		}
		p.keep(n, m.Step)
	}
}

// repeats tells whether a step ends as the one before it: hooks that do so have
// not failed themselves.
func repeats(s *report.Step) bool {
	if s.Kind != kindHook || s.Info == nil {
		return false
	}
	again := false
	t := s.Info.Step.Task()
	return t != nil && json.Unmarshal(t.Settings.Get("again"), &again) == nil && again
}

func (n *Notice) result(v journal.Value) {
	n.Result, n.ResultHash = v.JSON, v.Hash
}

// keep keeps the end of an outermost step for the summary.
func (p *Progress) keep(n *Notice, s *report.Step) {
	if s.Depth > 0 || s.Run.At != nil || n.quiet && n.Kind == kindHook || s.Kind == kindHook && n.Outcome == report.OutcomeOK {
		return
	}
	p.remember(n)
}

func (p *Progress) remember(n *Notice) {
	if len(p.done) == 2*maxDone { // moving them is cheaper now and then than each time
		p.done = p.done[:copy(p.done, p.done[maxDone:])]
	}
	kept := *n
	kept.Result = nil
	p.done = append(p.done, kept)
	p.ended++
}

// last are the steps that the summary shows, and how many there were before.
func (p *Progress) last() (shown []Notice, before int) {
	shown = p.done[max(0, len(p.done)-maxDone):]
	return shown, p.ended - len(shown)
}

func (p *Progress) drop(a *active) {
	delete(p.byStep, a.step)
	for i, one := range p.active {
		if one == a {
			p.active = append(p.active[:i], p.active[i+1:]...)
			return
		}
	}
}

func total(u journal.Usage) int64 { return u.InputTokens + u.OutputTokens }

// use counts what a step has used.
func (p *Progress) use(frame string, u journal.Usage) *active {
	a := p.byStep[p.trail.At(frame)]
	if a != nil {
		a.tokens += total(u)
		a.cost += u.MicroDollars
	}
	return a
}

func (p *Progress) note(e *journal.Event, x *journal.TaskNoted) {
	a := p.use(x.Frame, x.Usage)
	if a == nil {
		return
	}
	a.again = 0
	switch x.Kind {
	case journal.NoteReply:
		var r journal.Reply
		if journal.ReadNote(x.Data, &r) != nil {
			return
		}
		n := p.tell(e, ModelReplied, a.step)
		n.Model, n.Offline, n.Tokens, n.MicroDollars = r.Model, r.Offline, total(x.Usage), x.Usage.MicroDollars
		if r.Offline != "" {
			a.offline, p.offline = r.Offline, r.Offline
		}
	case journal.NoteModelRetry:
		var r journal.ModelRetry
		if journal.ReadNote(x.Data, &r) == nil {
			n := p.tell(e, ModelRetried, a.step)
			n.Error, n.Reason, n.Due = r.Message, r.Class, Time{(e.At + r.Wait).Time()}
			a.again = e.At + r.Wait
		}
	case journal.NoteSaid:
		var said journal.Said
		if journal.ReadNote(x.Data, &said) == nil {
			n := p.tell(e, StepSaid, a.step)
			n.Note = said.Text
			p.remember(n)
		}
	case journal.NoteCommand:
		var c journal.Command
		if journal.ReadNote(x.Data, &c) == nil && c.Script != "" {
			n := p.tell(e, ScriptRuns, a.step)
			n.Script, n.Command = c.Script, c.Command
			p.remember(n)
		}
	case journal.NoteToolCall:
		var t journal.ToolUse
		if journal.ReadNote(x.Data, &t) == nil {
			a.tools = append(a.tools, &running{ToolUse: t})
		}
	case journal.NoteProgress:
		var far journal.Progress
		if journal.ReadNote(x.Data, &far) == nil {
			n := p.tell(e, ToolProgress, a.step)
			n.Tool, n.Done, n.Total, n.Note = far.Name, far.Done, far.Total, far.Message
			if i := a.tool(far.Name, far.CallID); i >= 0 {
				a.tools[i].far = " " + howFar(far.Done, far.Total, far.Message)
			}
		}
	case journal.NoteToolResult:
		var t journal.ToolUse
		if journal.ReadNote(x.Data, &t) == nil {
			// Several may be running at the same time.
			if i := a.tool(t.Name, t.CallID); i >= 0 {
				a.tools = slices.Delete(a.tools, i, i+1)
			}
			n := p.tell(e, ToolFinished, a.step)
			n.Tool, n.Error, n.Reason, n.Offline = t.Name, t.Error, t.Class, t.Offline
			if t.Offline != "" {
				a.offline, p.offline = t.Offline, t.Offline
			}
		}
	}
}

func (p *Progress) decided(e *journal.Event, x *journal.GateDecided) {
	a := p.byStep[p.trail.At(x.Frame)]
	if a == nil {
		return
	}
	n := p.tell(e, WaitFinished, a.step)
	n.Outcome, n.Reason, n.Note, n.Signal = x.Outcome, x.Method, x.Note, x.Event
	n.by(x.By)
	if a.wait != nil {
		n.For, n.Tool = a.wait.For, a.wait.Tool
	}
	if n.Tool != "" { // the task goes on in any case; what was said is the reason
		n.Outcome = report.OutcomeRejected
		if x.Reason == plan.ReasonApproved {
			n.Outcome = report.OutcomeOK
		}
	}
	a.wait = nil
}

func (n *Notice) by(a journal.Actor) { n.By, n.Claimed = a.User, a.As }

// after tells what facts say that no moment does.
func (p *Progress) after(e *journal.Event) {
	switch x := e.Fact.(type) {
	case journal.FrameOpened:
		if a := p.byStep[p.trail.At(x.Parent)]; a != nil && x.Child == "" {
			p.parents[x.Frame] = a
		}
	case journal.StepEntered:
		if a := p.byStep[p.trail.At(x.Frame)]; a != nil {
			a.total = x.Total
		}
	case journal.TaskStarted:
		p.starved = ""
		if a := p.byStep[p.trail.At(x.Frame)]; a != nil {
			a.retry, a.again, a.tools = 0, 0, nil
		}
	case journal.RetrySet:
		p.retry(e, &x)
	case journal.TaskLost:
		p.use(x.Frame, x.Charged)
		n := p.tell(e, StepLost, p.trail.At(x.Frame))
		n.Reason, n.Error = x.Policy, x.Why
		n.Tokens, n.MicroDollars = total(x.Charged), x.Charged.MicroDollars
	case journal.GateOpened:
		p.asks(e, &x)
	case journal.BudgetWait:
		if p.starved != x.Budget { // others may be waiting for it already
			p.starved = x.Budget
			n := p.tell(e, WaitStarted, p.trail.At(x.Frame))
			n.For, n.Budget = ForBudget, x.Budget
			if n.Path == "" {
				n.Path, n.place = x.Step, x.Step
			}
		}
	case journal.Reserved:
		p.starved = ""
	case journal.TimerFired:
		if x.Run {
			p.starved = "active_seconds"
			n := p.tell(e, WaitStarted, nil)
			n.For, n.Budget = ForBudget, p.starved
		}
	case journal.BudgetRaised:
		n := p.tell(e, BudgetRaised, nil)
		n.Budget, n.To = x.Budget, x.To
		n.by(x.By)
	case journal.Signalled:
		n := p.tell(e, Signalled, nil)
		n.Signal = x.Event
		n.by(x.By)
	case journal.InputRefused:
		n := p.tell(e, InputRefused, nil)
		n.Reason, n.Error = x.Input, x.Why
		n.by(x.By)
	case journal.CancelRequested:
		if x.Frame == "" && !x.Below {
			p.stopping = true
			n := p.tell(e, Cancelling, nil)
			n.Reason = x.Reason
			n.by(x.By)
		}
	case journal.Paused:
		p.paused = true
		p.tell(e, Paused, nil).by(x.By)
	case journal.Continued:
		p.paused = false
		p.tell(e, Continued, nil).by(x.By)
	case journal.StateEdited:
		n := p.tell(e, StateEdited, nil)
		n.Variable = x.Path
		n.by(x.By)
	case journal.Rewound:
		n := p.tell(e, Rewound, nil)
		n.Step = x.Step
		n.by(x.By)
	case journal.Claimed:
		p.tell(e, RunClaimed, nil)
	}
	// Routed is left to the audit: which step begins next says the same here.
}

func (p *Progress) retry(e *journal.Event, x *journal.RetrySet) {
	a := p.byStep[p.trail.At(x.Frame)]
	if a == nil {
		return
	}
	a.retry = x.Due
	n := p.tell(e, StepRetrying, a.step)
	if x.Continues {
		n.Due, n.Error = Time{x.Due.Time()}, x.Why
		return
	}
	n.Attempt, n.Due, n.Error = x.Attempt+1, Time{x.Due.Time()}, a.failure
	if a.step.Info != nil {
		n.Attempts = a.step.Info.Step.Attempts()
	}
}

func (p *Progress) asks(e *journal.Event, x *journal.GateOpened) {
	a := p.byStep[p.trail.At(x.Frame)]
	if a == nil {
		return
	}
	n := p.tell(e, WaitStarted, a.step)
	n.Signal, n.Step = x.Event, x.Place.Key()
	if x.Due != 0 {
		n.Due = Time{x.Due.Time()}
	}
	switch x.Kind {
	case report.GatePerson:
		n.For = ForApproval
	case report.GateCall:
		n.For, n.Tool = ForApproval, cmp.Or(asked(x.Shows["tool"]), "a tool")
	case report.GateDoubt:
		n.For = ForDecision
	default:
		n.For = ForEvent
	}
	wait := *n
	a.wait = &wait
}

// asked is the text of a value that a question shows; "" when it is none.
func asked(v journal.Value) string {
	var text string
	if json.Unmarshal(v.JSON, &text) != nil {
		return ""
	}
	return text
}

// elapsed is how long the run has been going.
func (p *Progress) elapsed(now time.Time) time.Duration {
	if p.end != nil {
		return time.Duration(p.end.Millis) * time.Millisecond
	}
	return now.Sub(p.began.Time())
}
