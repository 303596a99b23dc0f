package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/report"
)

// Progress is the state of a run, as far as a screen shows it.
type Progress struct {
	run journal.RunID
	in  *report.Interpreter
	seq journal.Seq

	name            string
	started         journal.Millis
	offline         journal.Offline
	paused          bool
	stopping        bool
	exhaustedBudget string // the budget that is exhausted
	end             *Notice
	active          []*active   // open steps, in the order in which they started
	done            []Notice    // the last outermost steps that have finished
	ended           int         // how many there were
	failure         string      // error of the last step that failed
	shown           journal.Seq // the last event that an earlier console has shown
	out             []Notice
}

// maxDone is how many finished steps the summary shows.
const maxDone = 100

// active is an open step.
type active struct {
	step    *report.Step
	tokens  int64
	cost    int64 // in millionths of a dollar
	offline journal.Offline
	tools   []*running
	again   journal.Millis // time of the next call of a model that failed
	wait    *Notice
	retry   journal.Millis // time of the next attempt
	over    int            // finished branches, items or iterations
	// undecided reports that a notice about a stop condition without a value was sent.
	undecided bool
}

// activeOf returns the state of an open step; nil if it is not shown.
func activeOf(s *report.Step) *active {
	if s == nil {
		return nil
	}
	a, _ := s.Data.(*active)
	return a
}

// running is a tool call that has not returned.
type running struct {
	journal.ToolUse
	progress string // its progress, if it reports any
}

// tool returns the index of the running tool call with a name and an identifier, or -1.
func (a *active) tool(name, id string) int {
	return slices.IndexFunc(a.tools, func(one *running) bool { return one.CallID == id && one.Name == name })
}

// NewProgress returns the progress of a run that has not started. outline may be nil.
func NewProgress(run journal.RunID, outline func(definition string) (*report.Outline, error)) *Progress {
	return &Progress{run: run, in: report.NewInterpreter(run, outline).TrackBudgets()}
}

// Seq returns the sequence number of the last event.
func (p *Progress) Seq() journal.Seq { return p.seq }

// Apply applies the next event and returns its notices, which are valid until the next call.
func (p *Progress) Apply(e *journal.Event) ([]Notice, error) {
	p.out, p.seq = p.out[:0], e.Seq
	err := p.in.Interpret(e, func(ev *report.Event) error {
		a := activeOf(ev.Step)
		if a != nil {
			a.tokens += total(ev.Usage)
			a.cost += ev.Usage.MicroDollars
		}
		if ev.Note != nil {
			if a == nil {
				return nil
			}
			if a.again = 0; ev.Note.Unreadable {
				return nil
			}
		}
		if handle := handlers[ev.Type]; handle != nil {
			handle(p, ev)
		} else if handle := stepHandlers[ev.Type]; handle != nil && a != nil {
			handle(p, ev, a)
		}
		return nil
	})
	return p.out, err
}

// restore continues where the checkpoint was written. Notices of earlier steps are not known; the summary counts them.
// If the checkpoint cannot be used, nothing changes.
func (p *Progress) restore(c *report.Checkpoint) {
	run := &report.Run{}
	var open []*active
	err := p.in.Restore(c.State, report.ReaderData{
		RestoreRun: func(r *report.Run, _ json.RawMessage) (any, error) {
			if r.Parent == "" {
				run = r
			}
			return nil, nil
		},
		RestoreStep: func(s *report.Step, _ json.RawMessage) (any, error) {
			a := &active{step: s, tokens: total(s.Used), cost: s.Used.MicroDollars}
			open = append(open, a)
			return a, nil
		},
	})
	if err != nil {
		return
	}
	p.seq, p.name, p.started, p.offline, p.active = c.Seq, run.Name, run.Started, run.Offline, open
	if p.shown == 0 {
		p.ended = run.Steps
	}
	p.paused, p.exhaustedBudget = p.in.PauseState()
}

// add adds a notice about the event's step, or about the run if it has none.
func (p *Progress) add(ev *report.Event, event Event) *Notice {
	n := Notice{
		Seq: ev.Seq, At: Time{ev.At.Time()}, Run: p.run, Event: event, By: ev.By.User, Claimed: ev.By.As,
		place: p.name, root: p.run,
	}
	if s := ev.Step; s != nil {
		n.Run, n.Parent, n.Path, n.Iteration, n.Kind = s.Run.ID, s.Run.Parent, s.Path, s.Iteration(), s.Kind
		n.Agent, n.Child, n.place, n.color = s.Agent, s.Child, s.Label(), s.Color()
	}
	p.out = append(p.out, n)
	return &p.out[len(p.out)-1]
}

// handlers update the progress and add the notices of each event.
var handlers = map[report.EventType]func(p *Progress, ev *report.Event){
	report.RunStarted:     (*Progress).runStarted,
	report.RunFinished:    (*Progress).runFinished,
	report.RunClaimed:     of(RunClaimed, func(*Notice, journal.Claimed) {}),
	report.RunPaused:      func(p *Progress, ev *report.Event) { p.paused = true; p.add(ev, Paused) },
	report.RunContinued:   func(p *Progress, ev *report.Event) { p.paused = false; p.add(ev, Continued) },
	report.RunRewound:     of(Rewound, func(n *Notice, x journal.Rewound) { n.Step = x.Step }),
	report.StateEdited:    of(StateEdited, func(n *Notice, x journal.StateEdited) { n.Variable = x.Path }),
	report.SignalReceived: of(SignalReceived, func(n *Notice, x journal.SignalReceived) { n.Signal = x.Event }),
	report.InputRefused: of(InputRefused,
		func(n *Notice, x journal.InputRefused) { n.Reason, n.Error = x.Input, x.Why }),
	report.BudgetRaised: of(BudgetRaised,
		func(n *Notice, x journal.BudgetRaised) { n.Budget, n.To = x.Budget, x.To }),
	report.CancelRequested: (*Progress).cancelRequested,
	report.DeadlineReached: (*Progress).deadlineReached,
	report.BudgetReserved:  func(p *Progress, _ *report.Event) { p.exhaustedBudget = "" },
	report.BudgetWaiting:   (*Progress).budgetWaiting,
	report.StepStarted:     (*Progress).stepStarted,
	report.StepSkipped:     func(p *Progress, ev *report.Event) { p.keep(p.add(ev, StepSkipped), ev.Step) },
	report.TaskLost:        of(StepLost, taskLost),
	report.BranchChosen:    (*Progress).branchChosen,
	report.MessagePrinted:  (*Progress).messagePrinted,
}

// stepHandlers do the same for events of a step that is open.
var stepHandlers = map[report.EventType]func(p *Progress, ev *report.Event, a *active){
	report.StepFinished:   (*Progress).stepFinished,
	report.StepRetrying:   (*Progress).stepRetrying,
	report.TaskStarted:    (*Progress).taskStarted,
	report.BranchFinished: (*Progress).branchFinished,
	report.GateOpened:     (*Progress).gateOpened,
	report.GateDecided:    (*Progress).gateDecided,
	report.ModelReplied:   (*Progress).modelReplied,
	report.ModelRetried:   (*Progress).modelRetried,
	report.ToolCalled:     (*Progress).toolCalled,
	report.ToolProgressed: (*Progress).toolProgressed,
	report.ToolReturned:   (*Progress).toolReturned,
	report.CommandStarted: (*Progress).commandStarted,
}

// of handles an event by one notice, filled from the event's fact.
func of[F journal.Fact](event Event, fill func(*Notice, F)) func(*Progress, *report.Event) {
	return func(p *Progress, ev *report.Event) { fill(p.add(ev, event), ev.Fact.(F)) }
}

// runStarted adds the notice of a run, or of a run that a step calls.
func (p *Progress) runStarted(ev *report.Event) {
	if ev.Run.Parent == "" {
		p.name, p.started = ev.Run.Name, ev.At
	}
	n := p.add(ev, RunStarted)
	n.Run, n.Parent, n.Name = ev.Run.ID, ev.Run.Parent, ev.Run.Name
	if from := ev.Run.From; from != nil {
		n.From, n.Step = from.Run, from.Step
	}
}

// runFinished adds the notice of the end of a run. That of the root run has what all runs used, and is kept for the
// summary.
func (p *Progress) runFinished(ev *report.Event) {
	n := p.add(ev, RunFinished)
	n.Run, n.Parent, n.Name, n.Outcome, n.Error = ev.Run.ID, ev.Run.Parent, ev.Run.Name, ev.Outcome, ev.Problem
	n.Millis = int64(ev.At - ev.Run.Started)
	n.result(ev.Value)
	if ev.Run.Parent != "" {
		return
	}
	used := ev.Budget.Used
	n.Steps, n.Tokens, n.MicroDollars, n.Lost, n.Offline = used.Steps, total(used), used.MicroDollars, used.Lost,
		p.offline
	n.Reason, n.Status = ev.Reason, ev.Status
	n.repeats = n.Error != "" && n.Error == p.failure
	end := *n
	p.end = &end
}

// stepStarted adds a step to those in the area. A gate has a line of its own, so its start is quiet.
func (p *Progress) stepStarted(ev *report.Event) {
	a := &active{step: ev.Step}
	ev.Step.Data, p.active = a, append(p.active, a)
	p.add(ev, StepStarted).quiet = ev.Step.Gate != nil
}

// stepFinished removes a step from the area. Its notice is quiet if another notice already says the same.
func (p *Progress) stepFinished(ev *report.Event, a *active) {
	n := p.add(ev, StepFinished)
	n.Outcome, n.Error, n.Millis = ev.Outcome, ev.Problem, int64(ev.At-ev.Step.Started)
	n.result(ev.Value)
	if ev.Step.Info != nil {
		end, ok := ev.Step.Info.Step.Action.(ir.End)
		n.markedFailed = ok && end.Failed
	}
	if n.Kind == report.KindCommand {
		n.printed = printed(n.Result)
	}
	_, decided := ev.Fact.(journal.GateDecided)
	n.quiet = decided || n.Outcome == journal.OutcomeFailed && repeats(ev.Step) ||
		n.Outcome == journal.OutcomeOK && n.Kind == kindDecision // BranchChosen has a line
	n.Tokens, n.MicroDollars, n.Offline = a.tokens, a.cost, a.offline
	if ev.Reason == string(ir.ClassLoopLimit) && ev.Outcome == journal.OutcomeOK {
		n.Reason, n.Note = ev.Reason, fmt.Sprintf("iteration limit (%d) reached", ev.Step.MaxRounds)
	}
	p.active = slices.DeleteFunc(p.active, func(one *active) bool { return one == a })
	if n.Outcome == journal.OutcomeFailed && !n.quiet {
		p.failure = n.Error
	}
	p.keep(n, ev.Step)
}

// repeats reports whether a step is a hook that repeats the failure before it.
func repeats(s *report.Step) bool {
	return s.Kind == ir.TypeHook && s.Info != nil && s.Info.Step.InheritOutcome
}

// result sets the result of a step or a run. A large one is only a hash.
func (n *Notice) result(v journal.Value) {
	n.Result, n.ResultHash = v.JSON, v.Hash
}

// keep remembers the end of an outermost step for the summary.
func (p *Progress) keep(n *Notice, s *report.Step) {
	outermost := s.Depth == 0 && s.Run.Caller == nil
	if outermost && (s.Kind != ir.TypeHook || !n.quiet && n.Outcome != journal.OutcomeOK) {
		whole := *n // with the steps inside, which the summary does not show
		whole.Tokens, whole.MicroDollars = total(s.Used), s.Used.MicroDollars
		if whole.Tokens > 0 {
			whole.Offline = cmp.Or(whole.Offline, p.offline)
		}
		p.remember(&whole)
	}
}

// remember keeps a notice for the summary, without its result. Notices that an earlier process has shown are left out.
func (p *Progress) remember(n *Notice) {
	if n.Seq <= p.shown {
		return
	}
	if len(p.done) == 2*maxDone { // rarely, since it moves all of them
		p.done = p.done[:copy(p.done, p.done[maxDone:])]
	}
	kept := *n
	kept.Result = nil
	p.done = append(p.done, kept)
	p.ended++
}

// last returns the steps that the summary shows, and the number of earlier ones.
func (p *Progress) last() (shown []Notice, before int) {
	shown = p.done[max(0, len(p.done)-maxDone):]
	return shown, p.ended - len(shown)
}

// total returns the tokens of a usage in both directions.
func total(u journal.Usage) int64 { return u.InputTokens + u.OutputTokens }

// taskStarted ends what a step waited for: a task starts only when its budget allows it.
func (p *Progress) taskStarted(_ *report.Event, a *active) {
	p.exhaustedBudget = ""
	a.retry, a.again, a.tools = 0, 0, nil
}

// taskLost sets what is known about a task whose process died.
func taskLost(n *Notice, x journal.TaskLost) {
	n.Reason, n.Error = string(x.Policy), x.Why
	n.Tokens, n.MicroDollars = total(x.Charged), x.Charged.MicroDollars
}

// stepRetrying notes when a step is tried again.
func (p *Progress) stepRetrying(ev *report.Event, a *active) {
	x := ev.Fact.(journal.RetrySet)
	a.retry = x.Due
	n := p.add(ev, StepRetrying)
	n.Due, n.Error = Time{x.Due.Time()}, cmp.Or(ev.Error, string(ev.Class))
	if x.Continues {
		return
	}
	n.Attempt = x.Attempt + 1
	if ev.Step.Info != nil {
		n.Attempts = ev.Step.Info.Step.Attempts()
	}
}

// branchFinished counts a branch, an item or an iteration of a step.
func (p *Progress) branchFinished(ev *report.Event, a *active) {
	a.over++
	if ev.Reason == plan.ReasonUndecided && !a.undecided { // one notice is enough
		a.undecided = true
		p.add(ev, StepMessage).Note = "continues: the stop condition cannot be evaluated: " + ev.Error
	}
}

// branchChosen adds what a decision has chosen, also to the line of the step in the summary.
func (p *Progress) branchChosen(ev *report.Event) {
	of := *ev
	of.Step = ev.Decision
	n := p.add(&of, BranchChosen)
	n.quiet = ev.Decision.Kind != kindDecision // the step has a line
	n.Branch = ev.Name
	if ev.Next != nil {
		n.Next, n.next = ev.Next.Name, ev.Next.Title()
	}
	for i := range slices.Backward(p.done) {
		if done := &p.done[i]; done.Event == StepFinished && done.place == n.place {
			done.Branch, done.next = n.Branch, n.next
			return
		}
	}
}

// modelReplied adds the notice of a model call.
func (p *Progress) modelReplied(ev *report.Event, a *active) {
	r := report.Body[journal.Reply](ev.Note)
	n := p.add(ev, ModelReplied)
	n.Model, n.Offline, n.Tokens, n.MicroDollars = r.Model, r.Offline, total(ev.Usage), ev.Usage.MicroDollars
	p.answeredOffline(a, r.Offline)
}

// answeredOffline notes what has answered instead of a model or a tool. A real answer does not take the note back.
func (p *Progress) answeredOffline(a *active, offline journal.Offline) {
	if offline != "" {
		a.offline, p.offline = offline, offline
	}
}

// modelRetried notes that a model call failed, and when it is made again.
func (p *Progress) modelRetried(ev *report.Event, a *active) {
	r := report.Body[journal.ModelRetry](ev.Note)
	n := p.add(ev, ModelRetried)
	a.again = ev.At + r.Wait
	n.Error, n.Reason, n.Due = r.Message, string(r.Class), Time{a.again.Time()}
}

// messagePrinted adds a message of the workflow, which the summary has too.
func (p *Progress) messagePrinted(ev *report.Event) {
	n := p.add(ev, StepMessage)
	n.Note = report.Body[journal.LogLine](ev.Note).Text
	p.remember(n)
}

// commandStarted adds the notice of a script, so that a person sees what is executed.
func (p *Progress) commandStarted(ev *report.Event, a *active) {
	c := report.Body[journal.Command](ev.Note)
	if a.offline = cmp.Or(ev.Note.Offline(), a.offline); p.offline == "" {
		p.offline = a.offline
	}
	if c.Script != "" {
		n := p.add(ev, ScriptRuns)
		n.Script, n.Command = c.Script, c.Command
		p.remember(n)
	}
}

// toolCalled adds a call to those that are running.
func (p *Progress) toolCalled(ev *report.Event, a *active) {
	a.tools = append(a.tools, &running{ToolUse: *report.Body[journal.ToolUse](ev.Note)})
}

// toolProgressed shows the progress of a tool call that is running.
func (p *Progress) toolProgressed(ev *report.Event, a *active) {
	far := report.Body[journal.Progress](ev.Note)
	n := p.add(ev, ToolProgress)
	n.Tool, n.Done, n.Total, n.Note = far.Name, far.Done, far.Total, far.Message
	if i := a.tool(far.Name, far.CallID); i >= 0 {
		a.tools[i].progress = " " + toolProgress(far.Done, far.Total, far.Message)
	}
}

// toolReturned removes a call from those that are running.
func (p *Progress) toolReturned(ev *report.Event, a *active) {
	t := report.Body[journal.ToolUse](ev.Note)
	if i := a.tool(t.Name, t.CallID); i >= 0 { // several may be running at the same time
		a.tools = slices.Delete(a.tools, i, i+1)
	}
	n := p.add(ev, ToolFinished)
	n.Tool, n.Error, n.Reason, n.Offline = t.Name, t.Error, string(t.Class), t.Offline
	p.answeredOffline(a, t.Offline)
}

// gateOpened adds the notice of a wait.
func (p *Progress) gateOpened(ev *report.Event, a *active) {
	x := &ev.Step.Gate.GateOpened
	n := p.add(ev, WaitStarted)
	n.Signal, n.Step = x.Event, x.Place.Key()
	if x.Due != 0 {
		n.Due = Time{x.Due.Time()}
	}
	n.about(ev.Step)
	wait := *n
	a.wait = &wait
}

// about sets what the open gate of a step asks for.
func (n *Notice) about(s *report.Step) {
	if n.For = s.Asks(); n.For == journal.AskToolApproval {
		n.Tool = cmp.Or(asked(s.Gate.Shows["tool"]), "a tool")
	}
}

// gateDecided adds the notice of a decision.
func (p *Progress) gateDecided(ev *report.Event, a *active) {
	x, d := ev.Fact.(journal.GateDecided), ev.Verdict()
	n := p.add(ev, WaitFinished)
	n.Outcome, n.Reason, n.Note, n.Signal = x.Outcome, string(x.Method), x.Note, x.Event
	n.about(ev.Step)
	if n.Tool != "" { // the task runs on in any case
		n.Outcome = callOutcomes[d.Answer]
	}
	a.wait = nil
}

// callOutcomes are the outcomes of tool calls that gates decide on.
var callOutcomes = map[report.Answer]journal.Outcome{
	report.Approved: journal.OutcomeOK, report.Rejected: journal.OutcomeRejected,
	report.TimedOut: journal.OutcomeFailed, // as a gate that is a step
}

// cancelRequested shows that the run is canceled. A request to cancel a part of it is not shown.
func (p *Progress) cancelRequested(ev *report.Event) {
	if x := ev.Fact.(journal.CancelRequested); x.Frame == "" && !x.Below {
		p.stopping = true
		n := p.add(ev, Canceling)
		n.Reason = x.Reason
	}
}

// budgetWaiting shows that a step waits for a budget. Several steps that wait for the same one make one notice.
func (p *Progress) budgetWaiting(ev *report.Event) {
	x := ev.Fact.(journal.BudgetWait)
	if p.exhaustedBudget == x.Budget { // another step waits for it already
		return
	}
	n := p.budgetExhausted(ev, x.Budget)
	if n.Path == "" {
		n.Path, n.place = x.Step, x.Step
	}
}

// budgetExhausted adds the notice of a wait for a budget, with what is needed and what is left.
func (p *Progress) budgetExhausted(ev *report.Event, budget string) *Notice {
	p.exhaustedBudget = budget
	n := p.add(ev, WaitStarted)
	n.For = journal.AskBudget
	n.Budget, n.limits = budget, p.in.Budget(ev.At).Limits
	n.needs, n.left = p.shortfall(budget)
	return n
}

// shortfall returns how much of a budget the request that waits for it needs, and how much is left.
func (p *Progress) shortfall(budget string) (next, left int64) {
	if _, waits := p.in.PauseState(); waits != budget {
		return 0, 0
	}
	return p.in.Shortfall()
}

// deadlineReached shows that the run has used up its time.
func (p *Progress) deadlineReached(ev *report.Event) {
	if ev.Fact.(journal.TimerFired).Run {
		p.budgetExhausted(ev, ir.BudgetDeadline)
	}
}

// asked returns the text of a value that a gate shows; "" when it is no text.
func asked(v journal.Value) string {
	var text string
	if json.Unmarshal(v.JSON, &text) != nil {
		return ""
	}
	return text
}

// elapsed returns how long the run has taken so far.
func (p *Progress) elapsed(now time.Time) time.Duration {
	if p.end != nil {
		return time.Duration(p.end.Millis) * time.Millisecond
	}
	return now.Sub(p.started.Time())
}
