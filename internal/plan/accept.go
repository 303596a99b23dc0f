package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Refusal is the error of an input that a run does not accept.
type Refusal struct {
	Code RefusalCode
	Why  string
	Step string // with the code Approved, the step to go back to; with OutcomeUnknown, the step
}

func (r *Refusal) Error() string { return r.Why }

// RefusalCode classifies refusals.
type RefusalCode string

// The codes of refusals.
const (
	TooLate        RefusalCode = "too-late"   // the run, task or gate has ended
	NoGate         RefusalCode = "no-gate"    // no gate is open, or not that one
	Ambiguous      RefusalCode = "ambiguous"  // several gates are open
	Changed        RefusalCode = "changed"    // the gate no longer shows what the decision is about
	WrongKind      RefusalCode = "wrong-kind" // the gate expects other answers
	OutcomeUnknown RefusalCode = "in-doubt"   // the outcome of the step is unknown, which takes other answers
	NotAllowed     RefusalCode = "not-allowed"
	Voted          RefusalCode = "voted" // the person has approved already
	Unknown        RefusalCode = "unknown"
	Approved       RefusalCode = "approved" // it would change what has been approved
)

// refusal returns a Refusal with a formatted text for people.
func refusal(code RefusalCode, format string, args ...any) *Refusal {
	return &Refusal{Code: code, Why: fmt.Sprintf(format, args...)}
}

// Check returns the *Refusal of an input that would be refused; nil if it would be accepted. It does not change the
// state.
func (s *State) Check(p *Program, in Input) error {
	if s.Finished != nil {
		return refusal(TooLate, "the run has finished: %s", journal.OutcomeWord(s.Finished.Outcome))
	}
	// Every other input, such as TakenOver, is accepted.
	switch x := in.(type) {
	case taskInput:
		return s.checkRunning(x.task())
	case GateDecision:
		_, err := s.gateFor(p, &x)
		return err
	case Signal:
		return s.checkSignal(p, &x)
	case Cancel:
		if s.Root().Canceled {
			return refusal(TooLate, "the run is being canceled already")
		}
	case Pause:
		switch {
		case s.Paused && s.Summary().Status == journal.Running:
			return refusal(TooLate, "the run is being paused already: its running steps finish first")
		case s.Paused:
			return refusal(TooLate, "the run is paused already")
		}
	case Continue:
		if !s.Paused {
			return refusal(TooLate, "the run is not paused")
		}
	case Raise:
		return s.checkRaise(&x)
	case Edit:
		return s.checkEdit(p, &x)
	case Rewind:
		return s.checkRewind(p, &x)
	}
	return nil
}

// checkRunning refuses the inputs of tasks that do not run, or run again by now.
func (s *State) checkRunning(w journal.TaskID, rerun int) error {
	if s.Running(w, rerun) == nil {
		return refusal(TooLate, "task %s is not running", w.Key())
	}
	return nil
}

// checkRaise refuses to raise a budget that does not exist or to a limit that is not higher than the present one.
func (s *State) checkRaise(x *Raise) error {
	if !slices.Contains(ir.Budgets, x.Budget) {
		return refusal(Unknown, "unknown budget %q: use one of %s", x.Budget, strings.Join(ir.Budgets, ", "))
	}
	what := journal.BudgetWords(x.Budget)
	switch now := s.Root().Ledger.Limit(x.Budget); {
	case now == nil:
		return refusal(NotAllowed, "the run has no %s to raise", what)
	case x.To <= *now && x.Budget == ir.BudgetMoney:
		return refusal(NotAllowed, "the %s is $%g already", what, float64(*now)/1e6)
	case x.To <= *now:
		return refusal(NotAllowed, "the %s is %d already", what, *now)
	}
	return nil
}

// busy returns the refusal of something that must not happen while a task runs.
func (s *State) busy() error {
	if s.Open == s.Stuck() {
		return refusal(NotAllowed, "a step waits for budget: raise it first, or cancel the run")
	}
	return refusal(NotAllowed, "a step is running; pause the run first")
}

// gateFor returns the gate that a decision is about.
func (s *State) gateFor(p *Program, x *GateDecision) (*Frame, error) {
	// Find the gate by step and frame.
	open := s.OpenGates()
	found := xslices.Filter(open, func(f *Frame) bool {
		step := x.Step == "" || x.Step == f.Step || x.Step == f.Place().Key()
		return step && (x.Frame == "" || x.Frame == f.Path)
	})
	names := func(frames []*Frame) string {
		var keys, doubts []string
		for _, f := range frames {
			if key := f.Place().Key(); f.Gate.Kind == journal.GateOutcome {
				doubts = append(doubts, key) // hooks have outcomes of their own
			} else {
				keys = append(keys, key)
			}
		}
		return strings.Join(append(journal.PlaceNames(keys), doubts...), ", ")
	}
	switch {
	case len(open) == 0:
		return nil, refusal(NoGate, "nothing is waiting for a decision")
	case len(found) == 0:
		return nil, refusal(NoGate, "step %q is not waiting for a decision; %s is", x.Step, names(open))
	case len(found) > 1:
		return nil, refusal(Ambiguous, "several steps are waiting for a decision: name one of %s", names(found))
	}
	// Check the answer: gates about lost tasks take other answers than approvals.
	f := found[0]
	name := journal.StepName(f.Step)
	var takes []journal.Answer
	switch f.Gate.Kind {
	case journal.GateOutcome:
		takes = journal.OutcomeAnswers
	case journal.GatePerson, journal.GateToolCall:
		takes = []journal.Answer{journal.AnswerApprove, journal.AnswerReject}
	default:
		return nil, refusal(WrongKind, "step %q waits for the event %q, not for a decision", name, f.Gate.Event)
	}
	if !slices.Contains(takes, x.Answer) {
		answers := strings.Join(xslices.Map(takes, func(a journal.Answer) string { return string(a) }), " or ")
		refused := refusal(WrongKind, "step %q takes %s, not %s", name, answers, x.Answer)
		if f.Gate.Kind == journal.GateOutcome {
			refused.Code, refused.Step = OutcomeUnknown, journal.LocalID(f.Place().Key())
			refused.Why = fmt.Sprintf("step %q has an unknown outcome: it takes %s, not %s", name, answers, x.Answer)
		}
		return nil, refused
	}
	if x.Answer == journal.AnswerResult && !json.Valid(x.Value) {
		return nil, refusal(Unknown, "the result is not JSON")
	}
	// What the gate shows may have changed since the person has looked at it.
	if f.Gate.Kind != journal.GateOutcome {
		if _, digest := s.Shown(p, f); digest != x.Digest {
			return nil, refusal(
				Changed, "the gate of step %q changed after it was shown; look at it and decide again", name,
			)
		}
	}
	return f, s.Approvers(p, f).Check(name, x.By, x.Roles)
}

// checkSignal returns why an event cannot be sent to the run, or nil. A signal that no open gate receives is kept for a
// later gate, unless it names a step or brings an empty text, which would end a conversation before it begins.
func (s *State) checkSignal(p *Program, x *Signal) error {
	text, err := p.checkEvent(x)
	if err != nil {
		return err
	}
	var waiting, receivers, texts []string // keys
	// Every gate that would receive the signal must accept it.
	for _, f := range s.OpenGates() {
		name := f.Place().Key()
		if f.Gate.Event == x.Event {
			waiting = append(waiting, name)
		}
		if !x.reaches(f) {
			continue
		}
		receivers = append(receivers, name)
		if g, ok := s.StepOf(p, f).Action.(ir.Gate); ok && g.Text {
			texts = append(texts, name)
		}
		if f.Gate.Kind == journal.GatePerson {
			if err := s.checkApprovingSignal(p, f, x); err != nil {
				return err
			}
		}
	}
	// Refuse a signal whose receiver is missing or ambiguous.
	switch {
	case x.Step == "" && len(receivers) == 0 && text != "" && isEmptyText(x.Data):
		return refusal(NoGate, "step %q is not waiting for text yet, and an empty text would end the conversation",
			text)
	case x.Step != "" && len(receivers) == 0 && len(waiting) > 0:
		return refusal(NoGate, "step %q is not waiting for the event %q; name one of %s", x.Step, x.Event,
			listed(waiting))
	case x.Step != "" && len(receivers) == 0:
		return refusal(NoGate, "step %q is not waiting for the event %q", x.Step, x.Event)
	case x.Step != "" && len(receivers) > 1:
		return refusal(Ambiguous, "several steps are waiting for the event: name one of %s", listed(receivers))
	case len(texts) > 1: // a text is the reply to one of them
		return refusal(Ambiguous, "several steps are waiting for text: name one of %s", listed(texts))
	}
	return nil
}

// checkEvent checks an event against the program, whatever the run does now: some gate must wait for it, and its data
// must be what that gate takes. It returns the name of the step for which the event carries text, if there is one.
func (p *Program) checkEvent(x *Signal) (text string, err error) {
	var known []string
	for _, u := range p.units {
		for s := range u.ir.Steps() {
			if g, ok := s.Action.(ir.Gate); ok && g.Event != "" {
				known = append(known, g.Event)
				if g.Text && g.Event == x.Event {
					text = journal.StepName(s.ID)
				}
			}
		}
	}
	if len(known) == 0 {
		return "", refusal(Unknown, "nothing in this workflow waits for an event")
	}
	if !slices.Contains(known, x.Event) {
		slices.Sort(known)
		return "", refusal(
			Unknown, "nothing in this workflow waits for the event %q; it waits for %s", x.Event,
			strings.Join(slices.Compact(known), ", "),
		)
	}
	if text != "" && x.Automated {
		return "", refusal(NotAllowed, "step %q waits for text of a person, which a program may not send", text)
	}
	if len(x.Data) > 0 && !json.Valid(x.Data) {
		return "", refusal(Unknown, "the data of the event is not JSON")
	}
	if written := ""; text != "" && len(x.Data) > 0 && json.Unmarshal(x.Data, &written) != nil {
		return "", refusal(WrongKind, "step %q waits for text: the data of the event must be a string", text)
	}
	return text, nil
}

// checkApprovingSignal returns why an event cannot decide an approval that waits for it, or nil.
func (s *State) checkApprovingSignal(p *Program, f *Frame, x *Signal) error {
	step := journal.StepName(f.Step)
	if _, ok := verdict(x.Data); !ok {
		return refusal(
			WrongKind, `step %q is an approval: the event must say {"approved": true} or {"approved": false}`, step,
		)
	}
	if x.By.Method != "" && len(x.Roles) == 0 { // authenticated, and no approver
		return refusal(
			NotAllowed, "%s may not decide step %q: an event that approves needs the role approver",
			x.By.Person(), step,
		)
	}
	return s.Approvers(p, f).Check(step, x.By, x.Roles)
}

// listed lists places for people.
func listed(keys []string) string { return strings.Join(journal.PlaceNames(keys), ", ") }

// reaches reports whether an open gate receives the signal.
func (x *Signal) reaches(f *Frame) bool {
	return f.Gate.Event == x.Event && (x.Step == "" || x.Step == f.Step || x.Step == f.Place().Key())
}

// isEmptyText reports whether the data of a signal is no text.
func isEmptyText(data json.RawMessage) bool {
	var text string
	return len(data) == 0 || json.Unmarshal(data, &text) == nil && strings.TrimSpace(text) == ""
}

// verdict decodes {"approved": true|false}. ok is false for anything else.
func verdict(raw json.RawMessage) (approved, ok bool) {
	var v struct {
		Approved *bool `json:"approved"`
	}
	if json.Unmarshal(raw, &v) != nil || v.Approved == nil {
		return false, false
	}
	return *v.Approved, true
}

// refuse records an input that was not accepted, and its author.
func (d *decider) refuse(in Input, err error) {
	refused := journal.InputRefused{Input: in.inputName(), Why: err.Error()}
	if r, ok := IsRefusal(err); ok {
		refused.Code, refused.Step = string(r.Code), r.Step
	}
	switch x := in.(type) {
	case GateDecision:
		refused.By = x.By
	case Signal:
		refused.By = x.By
	case Cancel:
		refused.By = x.By
	case Edit:
		refused.By = x.By
	}
	d.fact(nil, refused)
}

func (x Result) accept(d *decider)   { d.endTask(d.s.Frames[x.Work.Frame], &x) }
func (x Reserve) accept(d *decider)  { d.reserve(&x) }
func (x TaskLost) accept(d *decider) { d.loseTask(&x) }
func (x Ask) accept(d *decider)      { d.ask(&x) }
func (x Signal) accept(d *decider)   { d.signal(&x) }
func (x Rewind) accept(d *decider)   { d.rewind(&x) }

func (x Note) accept(d *decider) {
	if f := d.s.Frames[x.Work.Frame]; x.N > f.Notes { // a note may arrive twice
		d.fact(f, journal.TaskNoted{
			TaskID: x.Work, N: x.N, Kind: x.Kind, Data: x.Data, Settles: x.Settles, Usage: x.Usage,
		})
	}
}

// accept makes the task wait. It keeps its attempt, and its rerun number grows, so that what the stopped execution
// still sends is refused.
func (x Sleep) accept(d *decider) {
	f := d.s.Frames[x.Work.Frame]
	d.fact(f, journal.RetrySet{TaskID: x.Work, Due: d.now + x.For, Continues: true, Why: x.Why})
}

// accept decides the gate. The error of gateFor is nil, because Check has just returned nil.
func (x GateDecision) accept(d *decider) {
	f, _ := d.s.gateFor(d.p, &x)
	if f.Gate.Kind != journal.GateToolCall {
		d.decideGate(f, &x)
		return
	}
	by, method := x.decidedBy()
	d.answerCall(f, journal.ToolAnswer{
		Approved: x.Answer == journal.AnswerApprove, By: by, Note: x.Note, Value: x.Value,
	}, method)
}

func (x Cancel) accept(d *decider)   { d.fact(nil, journal.CancelRequested{Reason: x.Reason, By: x.By}) }
func (x Pause) accept(d *decider)    { d.fact(nil, journal.Paused{By: x.By}) }
func (x Continue) accept(d *decider) { d.fact(nil, journal.Continued{By: x.By}) }
func (x Raise) accept(d *decider) {
	d.fact(nil, journal.BudgetRaised{Budget: x.Budget, To: x.To, By: x.By})
}
func (x TakenOver) accept(d *decider) { d.fact(nil, journal.Claimed{Owner: x.Owner}) }

func (x Edit) accept(d *decider) {
	d.fact(nil, journal.StateEdited{Path: x.Path, Value: journal.Value{JSON: x.Value}, By: x.By})
}

// accept records a jump only if it changes something: no clock of active time runs otherwise.
func (x ClockJump) accept(d *decider) {
	if d.s.clocksRun() {
		d.fact(nil, journal.ClockJumped{By: x.By})
	}
}

// writes returns the writes of a step's result, each with its reducer.
func (d *decider) writes(f *Frame, step *ir.Step) []journal.Write {
	if len(step.Writes) == 0 {
		return nil
	}
	out := make([]journal.Write, 0, len(step.Writes))
	for _, w := range step.Writes {
		reducer := cmp.Or(w.Reducer, d.declared(f, w.Path))
		if reducer == ir.Set {
			reducer = ""
		}
		out = append(out, journal.Write{
			Path: w.Path, Part: w.Part, Reducer: string(reducer), Under: w.Under, AsList: w.AsList,
			Flat: w.Flat, Bare: w.NonObjectKey,
		})
	}
	return out
}

// declared returns the reducer that a variable declares; "" for none.
func (d *decider) declared(f *Frame, path string) ir.Reducer {
	for _, v := range d.unit(f).ir.Vars {
		if v.Path == path {
			return v.Reducer
		}
	}
	return ""
}

// checked returns a result in the form in which it is written, or an error if it lacks a part that the step writes. A
// value that is split into parts, or merged with others now or later, must be inline, not a hash.
func (d *decider) checked(f *Frame, step *ir.Step, v journal.Value) (journal.Value, error) {
	gathers := func(r ir.Reducer) bool { return r != "" && r != ir.Set }
	whole := true
	for _, w := range step.Writes {
		whole = whole && w.Part == "" && !gathers(w.Reducer) && (v.Hash == "" || !gathers(d.declared(f, w.Path)))
	}
	if whole {
		return v, nil
	}
	raw, err := d.p.raw(v)
	if err != nil {
		return v, err
	}
	object := objectOf(raw)
	for _, w := range step.Writes {
		if w.Part == "" {
			continue
		}
		if object == nil {
			return v, fmt.Errorf("the result is not an object with the keys that step %q writes", step.ID)
		}
		if _, ok := object[w.Part]; !ok {
			return v, fmt.Errorf("the result has no %q, which step %q writes to %q", w.Part, step.ID, w.Path)
		}
	}
	return journal.Value{JSON: raw}, nil
}

// endTask records the end of a task: its result, or its failure and the next attempt. Facts contain the writes with
// their reducers, so that Apply needs no program.
func (d *decider) endTask(f *Frame, r *Result) {
	step := d.step(f)
	ended := journal.TaskEnded{
		TaskID: r.Work, Outcome: r.Outcome, Class: r.Class, Error: r.Error, Value: r.Value, Usage: r.Usage,
	}
	// A result that the step cannot use is a failure, which may be retried.
	if r.Outcome == journal.OutcomeOK {
		if f.Part == PartVerdict {
			d.judge(f, step, &ended)
		} else if value, err := d.checked(f, step, r.Value); err != nil {
			ended.Outcome, ended.Class, ended.Error = journal.OutcomeFailed, ir.ClassInvalid, err.Error()
		} else {
			ended.Value, ended.Writes = value, d.writes(f, step)
		}
	}
	retries := ended.Outcome == journal.OutcomeFailed && !f.Canceled && retryable(step, f.Attempt, ended.Class, r.Exit)
	// Writes of a failure are made only once, after the last attempt.
	ended.Final = !retries
	if (ended.Outcome == journal.OutcomeFailed || ended.Outcome == journal.OutcomeCanceled) && ended.Final {
		value, writes := d.failureValue(f, step, ended.Outcome, failing{
			Error: ended.Error, Class: ended.Class, Exit: r.Exit,
		})
		if ended.Writes = writes; writes != nil && r.Value.IsZero() {
			ended.Value = value
		}
	}
	d.fact(f, ended)
	if retries {
		next := r.Work
		next.Attempt++
		d.fact(f, journal.RetrySet{TaskID: next, Due: d.now + delay(step.Retry, d.s.Run, next)})
	}
}

// judge turns a verdict into an outcome. Anything that is not clearly a verdict is a failure: a gate never passes by
// accident.
func (d *decider) judge(f *Frame, step *ir.Step, ended *journal.TaskEnded) {
	raw, err := d.p.raw(ended.Value)
	approved, ok := verdict(raw)
	if err != nil || !ok {
		ended.Outcome, ended.Class = journal.OutcomeFailed, ir.ClassInvalid
		ended.Error = `the verdict has no "approved" that is true or false`
		return
	}
	method := journal.MethodAutomated
	by := step.Task().Describe()
	if by.Nature == ir.Asks {
		method = journal.MethodCritic
	}
	result := ir.GateApproved
	if !approved {
		ended.Outcome, result = journal.OutcomeRejected, ir.GateRejected
	}
	// The author of the verdict is the agent, the tool, or the kind of work.
	author := journal.Actor{User: cmp.Or(by.Agent, by.Tool, step.Task().Kind)}
	ended.Value = gateValue(result, method, author, evidence(raw), d.now, raw)
	ended.Writes = d.writes(f, step)
}

// evidence returns the evidence or the reason of a verdict, if it is text.
func evidence(raw json.RawMessage) string {
	var verdict struct {
		Evidence any `json:"evidence"`
		Reason   any `json:"reason"`
	}
	if json.Unmarshal(raw, &verdict) != nil {
		return ""
	}
	for _, one := range []any{verdict.Evidence, verdict.Reason} {
		if text, ok := one.(string); ok && text != "" {
			return text
		}
	}
	return ""
}

// gateValue returns what a gate writes. The actor is the operating-system user;
// the claimed identity is separate. before are the approvals of other people.
func gateValue(
	result ir.GateResult, method journal.Method, by journal.Actor, evidence string, at journal.Millis,
	review json.RawMessage, before ...Approval,
) journal.Value {
	type approval struct {
		Actor     string `json:"actor,omitempty"`
		Claimed   string `json:"claimed,omitempty"`
		Evidence  string `json:"evidence,omitempty"`
		DecidedAt string `json:"decided_at"`
	}
	date := func(at journal.Millis) string { return at.Time().Format("2006-01-02T15:04:05.000Z07:00") }
	var earlier []approval
	for _, one := range before {
		earlier = append(earlier, approval{one.By.User, one.By.As, one.Note, date(one.At)})
	}
	return journal.Value{JSON: mustJSON(struct {
		Result    ir.GateResult   `json:"gate_result"`
		Actor     string          `json:"actor,omitempty"`
		Claimed   string          `json:"claimed,omitempty"`
		Method    journal.Method  `json:"method"`
		Evidence  string          `json:"evidence,omitempty"`
		DecidedAt string          `json:"decided_at"`
		Review    json.RawMessage `json:"review,omitempty"`
		Approvals []approval      `json:"approvals,omitempty"`
	}{result, by.User, by.As, method, evidence, date(at), review, earlier})}
}

// notRetried are the classes of errors that a retry does not help. A step that lists one of them explicitly is retried,
// except for budgets.
var notRetried = []ir.Class{
	ir.ClassBudget, ir.ClassDenied, ir.ClassMissing, ir.ClassInput, ir.ClassBadRequest,
	ir.ClassNoQuota, ir.ClassMerge,
}

// retryable reports whether a failed attempt is followed by another one. attempt counts from 0. Exit codes restrict the
// retries of commands only: other failures have exit 0.
func retryable(step *ir.Step, attempt int, class ir.Class, exit int) bool {
	if attempt+1 >= step.Attempts() || class == ir.ClassBudget {
		return false
	}
	on := step.Retry.On
	if len(on) > 0 && !slices.Contains(on, class) || len(on) == 0 && slices.Contains(notRetried, class) {
		return false
	}
	codes := step.Retry.ExitCodes
	return len(codes) == 0 || exit == 0 || slices.Contains(codes, exit)
}

// delay returns the time to wait before an attempt. Jitter is derived from the run and the task's key, so that deciding
// stays pure.
func delay(r *ir.Retry, run journal.RunID, next journal.TaskID) journal.Millis {
	if len(r.Delays) == 0 {
		return 0
	}
	n := next.Attempt // 1 is the first retry
	base := float64(r.Delays[0])
	switch r.Backoff {
	case ir.List:
		base = float64(r.Delays[min(n-1, len(r.Delays)-1)])
	case ir.Linear:
		base *= float64(n)
	case ir.Exponential:
		base *= math.Pow(cmp.Or(r.Multiplier, 2), float64(n-1))
	}
	if r.MaxDelay > 0 {
		base = min(base, float64(r.MaxDelay))
	}
	if r.Jitter > 0 {
		// All bits depend on the attempt and on the run: runs that fail together must not retry together.
		h := sha256.Sum256([]byte(string(run) + " " + next.Key()))
		base *= 1 + r.Jitter*(float64(binary.BigEndian.Uint64(h[:])>>11)/float64(1<<52)-1)
	}
	return journal.Millis(min(base, float64(math.MaxInt64/4)))
}

// reserve grants a reservation, refuses it, or queues it. It is refused only if a budget of a branch or a child will
// never have room for it.
func (d *decider) reserve(x *Reserve) {
	f := d.s.Frames[x.Work.Frame]
	waits := func(one BudgetWaiter) bool { return one.N == x.N && one.Work == x.Work }
	if _, has := f.Reserved[x.N]; has || slices.ContainsFunc(d.s.BudgetWaiters, waits) {
		return // a repeated request; it has been or will be answered
	}
	granted, budget, at, later := d.s.grant(f, x.Amount, x.Least)
	switch {
	case budget == "" && len(d.s.BudgetWaiters) == 0:
		d.fact(f, journal.Reserved{TaskID: x.Work, N: x.N, Amount: granted})
	case budget != "" && at.Path != "" && !later:
		d.fact(f, journal.BudgetRefused{TaskID: x.Work, N: x.N, Amount: x.Amount, Budget: budget})
	default:
		if budget == "" { // it would fit, but others wait in front of it
			budget = d.s.BudgetWaiters[0].Budget
		}
		d.fact(f, journal.BudgetWait{TaskID: x.Work, N: x.N, Amount: x.Amount, Least: x.Least, Budget: budget})
	}
}

// loseTask records that the outcome of a task is unknown. What it had reserved may have been spent, so it is charged.
func (d *decider) loseTask(x *TaskLost) {
	f := d.s.Frames[x.Work.Frame]
	var charged journal.Usage
	for _, amount := range f.Reserved {
		charged = charged.Plus(amount)
	}
	charged = charged.Unanswered()
	if x.Used != nil {
		charged = *x.Used
	}
	d.fact(f, journal.TaskLost{TaskID: x.Work, Why: x.Why, Policy: x.Policy, Charged: charged, Until: x.Until})
}

// decideGate records the decision of a person about an approval or about a lost task.
func (d *decider) decideGate(f *Frame, x *GateDecision) {
	step := d.step(f)
	decided := journal.GateDecided{Place: f.Place(), Note: x.Note}
	decided.By, decided.Method = x.decidedBy()
	// Approvals first; the other answers are about a lost task, as if it had ended that way.
	switch x.Answer {
	case journal.AnswerApprove, journal.AnswerReject:
		d.answerGate(f, &decided, x.Answer == journal.AnswerApprove, x.Roles, x.Value)
		return
	case journal.AnswerRerun:
		decided.Outcome = journal.OutcomeRerun
	case journal.AnswerSkip:
		decided.Outcome = journal.OutcomeSkipped
		decided.Value, decided.Writes = d.failureValue(f, step, journal.OutcomeSkipped, failing{})
		if last := &f.Last; step.InheritOutcome && last.failing() {
			decided.Outcome, decided.Class = journal.OutcomeFailed, last.Class
			decided.Error, decided.Value = last.Error, last.Value
		}
	case journal.AnswerFail:
		decided.Outcome, decided.Class = journal.OutcomeFailed, ir.ClassOutcomeUnknown
		decided.Error = "a person decided that it failed"
		decided.Value, decided.Writes = d.failureValue(f, step, journal.OutcomeFailed, failing{
			Error: decided.Error, Class: ir.ClassOutcomeUnknown, Exit: 1,
		})
	case journal.AnswerResult:
		decided.Outcome = journal.OutcomeOK
		if f.Part == PartVerdict {
			var ended journal.TaskEnded
			ended.Value, ended.Outcome = journal.Value{JSON: x.Value}, journal.OutcomeOK
			if d.judge(f, step, &ended); ended.Outcome == journal.OutcomeFailed {
				d.refuse(*x, errors.New(ended.Error))
				return
			}
			decided.Outcome, decided.Value, decided.Writes = ended.Outcome, ended.Value, ended.Writes
			break
		}
		value, err := d.checked(f, step, journal.Value{JSON: x.Value})
		if err != nil {
			d.refuse(*x, err)
			return
		}
		decided.Value, decided.Writes = value, d.writes(f, step)
	}
	d.fact(f, decided)
}

// answerGate records a person's answer. A rejection decides the gate at once, and
// an approval when enough people have approved.
func (d *decider) answerGate(
	f *Frame, decided *journal.GateDecided, approved bool, roles []string, data json.RawMessage,
) {
	reads, digest := d.s.Shown(d.p, f)
	decided.Digest = digest
	if digest != f.Gate.Digest {
		decided.Shows = d.s.shows(f, reads)
	}
	var before []Approval
	if a := d.s.Approvers(d.p, f); a != nil {
		decided.Roles, before = roles, a.Approvals
		if approved && len(before)+1 < a.Required {
			d.fact(f, journal.GateApproved{
				Place: decided.Place, Method: decided.Method, Event: decided.Event, By: decided.By, Roles: roles,
				Note: decided.Note, Digest: digest, Shows: decided.Shows,
			})
			return
		}
	}
	result := ir.GateApproved
	decided.Outcome = journal.OutcomeOK
	if !approved {
		decided.Outcome, result = journal.OutcomeRejected, ir.GateRejected
	}
	decided.Value = gateValue(result, decided.Method, decided.By, decided.Note, d.now, data, before...)
	decided.Writes = d.writes(f, d.step(f))
	d.fact(f, *decided)
}

// signal decides all gates that the signal reaches. Otherwise it is kept until a gate waits for it.
func (d *decider) signal(x *Signal) {
	passed := false
	for _, f := range d.s.OpenGates() {
		if x.reaches(f) {
			d.signalGate(f, x)
			passed = true
		}
	}
	if !passed {
		d.fact(nil, journal.SignalReceived{Event: x.Event, Data: x.Data, By: x.By})
	}
}

// signalGate decides a gate by a signal.
func (d *decider) signalGate(f *Frame, x *Signal) {
	decided := journal.GateDecided{
		Place: f.Place(), Outcome: journal.OutcomeOK, Method: journal.MethodEvent, Event: x.Event, By: x.By,
	}
	if f.Gate.Kind == journal.GatePerson {
		approved, _ := verdict(x.Data)
		d.answerGate(f, &decided, approved, x.Roles, x.Data)
		return
	}
	decided.Value, decided.Writes = journal.Value{JSON: orNull(x.Data)}, d.writes(f, d.step(f))
	d.fact(f, decided)
}

// IsRefusal returns the *Refusal in an error's chain.
func IsRefusal(err error) (*Refusal, bool) { return errors.AsType[*Refusal](err) }
