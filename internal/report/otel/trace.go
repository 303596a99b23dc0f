package otel

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/report/redact"
)

// TracerOptions are what a Tracer works with.
type TracerOptions struct {
	Names Conventions
	// Content adds prompts, replies, the arguments and results of tools, and
	// the words of errors: what somebody may not want to have elsewhere.
	Content bool
	// MostBytes is how long one text of it may be; 0 is without limit.
	MostBytes int
	// Outline is of the definition that a run has pinned; nil does without.
	Outline func(definition string) (*report.Outline, error)
	// Origin is the span from which somebody began a run; nil is none.
	Origin func(journal.RunStarted) (Link, bool)
}

// Tracer makes the spans and the measurements of one stream. It holds what is
// open, nothing of what is over.
type Tracer struct {
	o       TracerOptions
	root    journal.RunID
	trace   TraceID
	trail   *report.Trail
	state   *plan.State
	started journal.RunStarted
	runs    map[journal.RunID]*openRun
	steps   map[*report.Step]*openStep
	tasks   map[string]*openTask // by frame: each has one at a time
	out     *Yield
}

// Yield is what came of events.
type Yield struct {
	Spans  []Span
	Points []Point
}

// Point is one measurement.
type Point struct {
	metric name
	value  float64
	attrs  []Attr
}

type openRun struct {
	run    *report.Run
	id     SpanID
	events []Event
	rules  *redact.Rules
}

type openStep struct {
	id       SpanID
	events   []Event
	attempts int
	gate     *journal.GateOpened
	method   string // by which a gate was decided
}

// openTask is an attempt at a task, through all its lives.
type openTask struct {
	work  journal.Work
	step  *report.Step
	who   []*actor // the task, and calls from inside of it, innermost last
	held  map[int]hold
	wait  journal.Millis // before the next call of the model begins
	tools map[string]openTool
	last  journal.Millis // when something was last heard of it
}

// actor is who asks models and calls tools: an agent, or a task without one.
type actor struct {
	id     SpanID
	parent SpanID
	at     journal.Millis
	key    string // of a call
	name   string // of the agent
	role   string
	model  string
	talks  bool // it has a span of its own
	used   journal.Usage
	system string
	asked  []message // since the last reply
}

// hold is what is set aside for a call that is being made.
type hold struct {
	seq    journal.Seq
	at     journal.Millis
	amount journal.Usage
	who    *actor
}

type openTool struct {
	seq journal.Seq
	at  journal.Millis
	who *actor
	use journal.ToolUse
}

// NewTracer begins before the first event of a run's stream.
func NewTracer(root journal.RunID, o TracerOptions) *Tracer {
	return &Tracer{
		o: o, root: root, trace: TraceOf(root), trail: report.NewTrail(root, o.Outline), state: &plan.State{Run: root},
		runs: map[journal.RunID]*openRun{}, steps: map[*report.Step]*openStep{}, tasks: map[string]*openTask{},
	}
}

// Take takes the next event and adds what ended with it.
func (t *Tracer) Take(e *journal.Event, out *Yield) error {
	t.out = out
	t.cost(e)
	if err := t.ahead(e); err != nil {
		return err
	}
	var moments []report.Moment
	if err := t.trail.Take(e, func(m *report.Moment) { moments = append(moments, *m) }); err != nil {
		return err
	}
	t.state.Fold([]journal.Event{*e})
	for i := range moments {
		t.moment(e, &moments[i])
	}
	t.behind(e)
	return nil
}

// cost measures what an event cost, unless it is a reply: that tells which model
// it was.
func (t *Tracer) cost(e *journal.Event) {
	if x, ok := e.Fact.(journal.TaskNoted); ok && x.Kind == journal.NoteReply {
		return
	}
	used := journal.Spent(e.Fact)
	if step := t.trail.StepOf(e.Fact); step != nil && used.MicroDollars > 0 {
		t.measure(costTotal, dollars(used), t.attrs(workflowName, step.Run.Name))
	}
}

// ahead is what has to be done before a step that an event ends is over.
func (t *Tracer) ahead(e *journal.Event) error {
	open := t.steps[t.trail.StepOf(e.Fact)]
	if open == nil { // nothing is open there, or a call whose child has not begun
		return nil
	}
	switch x := e.Fact.(type) {
	case journal.TaskNoted:
		return t.note(e, &x)
	case journal.TaskEnded:
		t.taskEnded(e.At, x.Frame, x.Outcome, x.Class, x.Error)
	case journal.TaskLost:
		t.taskLost(e.At, &x)
		open.happened(e.At, "espalier.lost", t.attrs(attempt, int64(x.Attempt+1)))
	case journal.GateDecided:
		open.method = x.Method
		open.happened(e.At, "espalier.gate_decided", t.attrs(outcome, cmp.Or(x.Reason, x.Outcome), gateMethod, x.Method))
	}
	return nil
}

// behind is what comes after a step has begun.
func (t *Tracer) behind(e *journal.Event) {
	if x, ok := e.Fact.(journal.Claimed); ok && x.Owner != "" {
		if root := t.runs[t.root]; root != nil {
			root.events = append(root.events, Event{At: e.At, Name: "espalier.taken_over"})
		}
		return
	}
	step := t.trail.StepOf(e.Fact)
	open := t.steps[step]
	if open == nil {
		return
	}
	switch x := e.Fact.(type) {
	case journal.TaskStarted:
		t.taskStarted(e, &x, step)
	case journal.Reserved:
		if task := t.tasks[x.Frame]; task != nil && task.work == x.Work {
			task.held[x.N] = hold{seq: e.Seq, at: e.At + task.wait, amount: x.Amount, who: task.now()}
			task.wait = 0
		}
	case journal.RetrySet:
		attrs := t.attrs(attempt, int64(x.Attempt)+1, retryDelay, float64(x.Due-e.At)/1000)
		if f := t.state.Frames[x.Frame]; f != nil && !x.Continues {
			attrs = t.and(attrs, errorType, f.Tried.Class)
		}
		open.happened(e.At, "espalier.retry", attrs)
	case journal.GateOpened:
		open.gate = &x
		open.happened(e.At, "espalier.gate_opened", t.attrs(gateKind, x.Kind))
	case journal.BudgetWait:
		open.happened(e.At, "espalier.budget_wait", t.attrs(budgetName, x.Budget))
	case journal.BudgetRefused:
		open.happened(e.At, "espalier.budget_refused", t.attrs(budgetName, x.Budget))
	}
}

func (s *openStep) happened(at journal.Millis, what string, attrs []Attr) {
	s.events = append(s.events, Event{At: at, Name: what, Attrs: attrs})
}

func (t *Tracer) moment(e *journal.Event, m *report.Moment) {
	switch m.What {
	case report.RunBegan:
		if x, ok := e.Fact.(journal.RunStarted); ok {
			t.started = x
		}
		open := &openRun{run: m.Run, id: SpanOf(t.root, m.Run.ID)}
		if t.o.Content {
			open.rules = redact.Of(true, m.Run.Audits()...)
		}
		t.runs[m.Run.ID] = open
	case report.RunEnded:
		t.runEnded(e, m)
	case report.StepBegan:
		t.steps[m.Step] = &openStep{id: t.id("step", e.Seq)}
	case report.StepEnded:
		t.stepEnded(e, m)
	case report.StepSkipped:
		span := t.stepSpan(m, t.id("step", e.Seq))
		span.Attrs = t.and(span.Attrs, reasonCode, report.ReasonCondition, outcome, m.Outcome)
		t.emit(span)
	}
}

func (t *Tracer) runEnded(e *journal.Event, m *report.Moment) {
	open := t.runs[m.Run.ID]
	if open == nil {
		return
	}
	delete(t.runs, m.Run.ID)
	var reason string
	switch x := e.Fact.(type) {
	case journal.RunFinished:
		reason = x.Reason
	case journal.FrameClosed:
		reason = cmp.Or(x.Reason, x.Class)
	}
	code := report.ReasonCompleted
	if m.Outcome != report.OutcomeOK {
		code = report.FailCode(m.Outcome, reason)
	}
	span := Span{
		Trace: t.trace, ID: open.id, Name: invokeWorkflow + " " + m.Run.Name, Kind: Internal, Start: m.Run.Began, End: m.At, Events: open.events,
		Attrs: t.and(t.attrs(
			operation, invokeWorkflow, genAIWorkflow, m.Run.Name, workflowName, m.Run.Name, workflowVersion, version(m.Run), runID, string(m.Run.ID),
			parentRun, string(m.Run.Parent), outcome, m.Outcome, reasonCode, code,
		), append(t.usage(m.Run.Used), t.remaining()...)...),
	}
	duration := t.attrs(genAIWorkflow, m.Run.Name)
	if m.Run.At != nil {
		span.Parent = t.parentOf(m.Run.At, true)
	} else {
		span.Attrs = t.and(span.Attrs, format, t.started.Format)
		span.Links = t.links()
		t.measure(runCount, 1, t.attrs(workflowName, m.Run.Name, outcome, m.Outcome))
	}
	if m.Outcome == report.OutcomeFailed {
		t.fail(&span, code, m.Error, open.rules)
		duration = t.and(duration, errorType, code)
	}
	t.emit(span)
	t.measure(workflowDuration, seconds(m.Run.Began, m.At), duration)
}

// links lead to where a run comes from.
func (t *Tracer) links() []Link {
	var out []Link
	if t.o.Origin != nil {
		if l, ok := t.o.Origin(t.started); ok {
			out = append(out, l)
		}
	}
	if from := t.started.From; from != nil {
		out = append(out, Link{Trace: TraceOf(from.Run), Span: SpanOf(from.Run, from.Run)})
	}
	return out
}

// stepSpan is a step's span without its end.
func (t *Tracer) stepSpan(m *report.Moment, id SpanID) Span {
	s := m.Step
	typ := s.Kind
	if s.Info != nil && s.Info.Step.Type != "" {
		typ = s.Info.Step.Type
	}
	who := agentOf(s)
	attrs := t.attrs(
		workflowName, s.Run.Name, workflowVersion, version(s.Run), runID, string(s.Run.ID), stepID, s.Path, stepType, typ,
		agentID, who.name, agentRole, who.role, standsInFor, s.For, childRun, string(s.Child),
	)
	if s.Loop {
		attrs = t.and(attrs, iteration, int64(s.Index))
	}
	return Span{Trace: t.trace, ID: id, Parent: t.parentOf(s, false), Name: "step " + s.Path, Kind: Internal, Start: s.Began, End: m.At, Attrs: attrs}
}

// parentOf is what a step lies in: the step around it, or its run. With inside
// it is the step itself.
func (t *Tracer) parentOf(s *report.Step, inside bool) SpanID {
	if !inside {
		if s.Up == nil || s.Up.Run != s.Run {
			return SpanOf(t.root, s.Run.ID)
		}
		s = s.Up
	}
	if open := t.steps[s]; open != nil {
		return open.id
	}
	return SpanOf(t.root, s.Run.ID)
}

func (t *Tracer) stepEnded(e *journal.Event, m *report.Moment) {
	open := t.steps[m.Step]
	if open == nil {
		return
	}
	class, reason := report.Ending(e.Fact)
	if at, ok := journal.PlaceOf(e.Fact); ok {
		// A task that was lost ends with what somebody decided about it.
		t.taskEnded(e.At, at.Frame, m.Outcome, class, m.Error)
	}
	delete(t.steps, m.Step)
	code, _ := report.ReasonCode(m, class, reason)
	span := t.stepSpan(m, open.id)
	span.Events = open.events
	span.Attrs = t.and(span.Attrs, append(append([]any{outcome, m.Outcome, reasonCode, code}, t.usage(m.Step.Used)...), t.remaining()...)...)
	if open.attempts > 1 {
		span.Attrs = t.and(span.Attrs, attempts, int64(open.attempts))
	}
	if g := open.gate; g != nil && (g.Kind == report.GatePerson || g.Kind == report.GateEvent) {
		span.Attrs = t.and(span.Attrs, gateKind, open.gate.Kind, gateMethod, open.method)
	}
	measured := t.attrs(workflowName, m.Step.Run.Name, stepID, m.Step.Path, stepType, value(span.Attrs, t.o.Names.of(stepType)), outcome, m.Outcome)
	if m.Outcome == report.OutcomeFailed {
		t.fail(&span, cmp.Or(class, code), m.Error, t.rules(m.Run))
		measured = t.and(measured, errorType, cmp.Or(class, code))
	}
	t.emit(span)
	t.measure(stepCount, 1, measured)
	t.measure(stepDuration, seconds(m.Step.Began, m.At), measured)
}

func (t *Tracer) taskStarted(e *journal.Event, x *journal.TaskStarted, step *report.Step) {
	open := t.steps[step]
	open.attempts = max(open.attempts, x.Attempt+1)
	if task := t.tasks[x.Frame]; task != nil && task.work == x.Work {
		task.last = e.At // another life of the same attempt
		return
	}
	who := agentOf(step)
	who.id, who.parent, who.at, who.talks = t.id("agent", e.Seq), open.id, e.At, who.name != ""
	t.tasks[x.Frame] = &openTask{
		work: x.Work, step: step, who: []*actor{who}, held: map[int]hold{}, tools: map[string]openTool{}, last: e.At,
	}
}

// agentOf is the agent that the author wants to do a step; it may have no name.
func agentOf(s *report.Step) *actor {
	who := &actor{}
	if s.Info == nil {
		return who
	}
	task := s.Info.Step.Task()
	if task == nil || json.Unmarshal(task.Settings.Get("agent"), &who.name) != nil {
		return who
	}
	who.known(s)
	return who
}

// known fills in what the workflow says about an agent.
func (a *actor) known(s *report.Step) {
	if s.Info == nil || s.Info.Program == nil {
		return
	}
	if agent := s.Info.Program.Agent(a.name); agent != nil {
		a.role, a.model = agent.Role, agent.ModelName()
	}
}

// now is who is at work.
func (k *openTask) now() *actor { return k.who[len(k.who)-1] }

// taskEnded ends an attempt, with whatever is open in it.
func (t *Tracer) taskEnded(at journal.Millis, frame, result, class, text string) {
	task := t.tasks[frame]
	if task == nil {
		return
	}
	delete(t.tasks, frame)
	t.abandon(task, at, result, cmp.Or(class, result))
	for i := len(task.who) - 1; i >= 0; i-- {
		t.agentEnded(task, task.who[i], at, result, class, text)
	}
}

// abandon ends calls of which nobody will hear any more. What was set aside for
// one that was lost is charged.
func (t *Tracer) abandon(task *openTask, at journal.Millis, result, class string) {
	for _, n := range sorted(task.held) {
		if h := task.held[n]; h.amount.ModelCalls > 0 {
			var charged journal.Usage
			if result == lost {
				charged = h.amount
			}
			t.called(task, n, h, at, call{used: charged, class: class, failed: result != report.OutcomeCancelled && result != report.OutcomeOK})
		}
	}
	clear(task.held)
	if result == lost {
		return // a tool's call is made again, or decided about
	}
	for _, id := range sorted(task.tools) {
		open := task.tools[id]
		why := class
		if result == report.OutcomeOK {
			why = "" // whoever called it did not need to hear
		}
		t.toolEnded(task, open, at, &open.use, why, "")
	}
	clear(task.tools)
}

// lost is the class of a call that a process took with it.
const lost = "lost"

func (t *Tracer) taskLost(at journal.Millis, x *journal.TaskLost) {
	if task := t.tasks[x.Frame]; task != nil && task.work == x.Work {
		until := at
		if x.Until > 0 {
			until = x.Until
		}
		for _, one := range task.who {
			one.used = one.used.Plus(x.Charged)
		}
		t.abandon(task, until, lost, lost)
		task.last = at
	}
}

func (t *Tracer) agentEnded(task *openTask, who *actor, at journal.Millis, result, class, text string) {
	if !who.talks {
		return
	}
	label := who.name
	if label == "" {
		label = task.step.Name
	}
	span := Span{
		Trace: t.trace, ID: who.id, Parent: who.parent, Name: invokeAgent + " " + label, Kind: Internal, Start: who.at, End: at,
		Attrs: t.and(t.attrs(
			operation, invokeAgent, genAIAgent, label, agentID, who.name, agentRole, who.role, requestModel, bare(who.model),
			workflowName, task.step.Run.Name, runID, string(task.step.Run.ID), stepID, task.step.Path, attempt, int64(task.work.Attempt+1), outcome, result,
			inputTokens, who.used.InputTokens, outputTokens, who.used.OutputTokens,
		), t.usage(who.used)...),
	}
	measured := t.attrs(genAIAgent, label)
	if result == report.OutcomeFailed {
		t.fail(&span, cmp.Or(class, report.ReasonFailed), text, t.rules(task.step.Run))
		measured = t.and(measured, errorType, cmp.Or(class, report.ReasonFailed))
	}
	t.emit(span)
	t.measure(agentDuration, seconds(who.at, at), measured)
}

// note is something that happened inside of a task.
func (t *Tracer) note(e *journal.Event, x *journal.TaskNoted) error {
	task := t.tasks[x.Frame]
	if task == nil || task.work != x.Work {
		return nil
	}
	defer func() { task.last = e.At }()
	who := task.now()
	for _, one := range task.who {
		one.used = one.used.Plus(x.Usage)
	}
	switch x.Kind {
	case journal.NotePrompt:
		who.talks = true
		if t.o.Content {
			who.prompted(x.Data)
		}
	case journal.NoteReply:
		var r journal.Reply
		bad := json.Unmarshal(x.Data, &r) != nil
		t.called(task, x.Settles, t.held(task, e, x), e.At, call{reply: &r, used: x.Usage, failed: bad, class: "unreadable"})
		who.asked = nil
	case journal.NoteModelError, journal.NoteModelRetry:
		var failed journal.ModelRetry
		_ = json.Unmarshal(x.Data, &failed) // what cannot be read has no class
		t.called(task, x.Settles, t.held(task, e, x), e.At, call{used: x.Usage, failed: true, class: failed.Class, text: failed.Message})
		if x.Kind == journal.NoteModelRetry {
			task.wait = failed.Wait
		}
	case journal.NoteToolCall:
		var use journal.ToolUse
		if json.Unmarshal(x.Data, &use) == nil {
			task.tools[use.CallID] = openTool{seq: e.Seq, at: e.At, who: who, use: use}
		}
	case journal.NoteToolResult:
		var use journal.ToolUse
		if json.Unmarshal(x.Data, &use) == nil {
			t.toolReturned(task, e, &use)
		}
	case journal.NoteCall:
		t.callBegan(task, e, x)
	case journal.NoteCallEnd:
		t.callEnded(task, e, x)
	}
	return nil
}

// held is what was set aside for a call; one that was made without lasted
// since the task was last heard of.
func (t *Tracer) held(task *openTask, e *journal.Event, x *journal.TaskNoted) hold {
	if h, ok := task.held[x.Settles]; ok && x.Settles > 0 {
		return h
	}
	return hold{seq: e.Seq, at: task.last, who: task.now()}
}

// call is how a call of a model ended.
type call struct {
	reply  *journal.Reply
	used   journal.Usage
	failed bool
	class  string
	text   string
}

// finishes are the conventions' words for why a model stopped.
var finishes = map[string]string{"done": "stop", "tool_use": "tool_calls", "max_tokens": "length", "refused": "content_filter"}

// called ends a call of a model.
func (t *Tracer) called(task *openTask, n int, h hold, at journal.Millis, c call) {
	delete(task.held, n)
	who, step := h.who, task.step
	who.talks = true
	asked, by := bare(who.model), ""
	if i := strings.IndexByte(who.model, '/'); i > 0 {
		by = who.model[:i]
	}
	var answered, offlineBy string
	if c.reply != nil {
		answered, offlineBy = c.reply.Model, c.reply.Offline
		by = cmp.Or(c.reply.Offline, c.reply.Provider, by)
		asked = cmp.Or(asked, answered)
	}
	if known, ok := providers[by]; ok {
		by = known
	}
	begun := min(h.at, at)
	model := t.attrs(operation, chat, provider, by, requestModel, asked, responseModel, answered)
	span := Span{
		Trace: t.trace, ID: t.id("chat", h.seq), Parent: who.id, Name: strings.TrimSpace(chat + " " + asked), Kind: Client, Start: begun, End: at,
		Attrs: t.and(t.attrs(
			operation, chat, provider, by, requestModel, asked, responseModel, answered, offline, offlineBy, agentID, who.name, genAIAgent, who.name,
			workflowName, step.Run.Name, runID, string(step.Run.ID), stepID, step.Path,
		), t.usage(c.used)...),
	}
	if c.reply != nil {
		span.Attrs = t.and(span.Attrs, inputTokens, c.used.InputTokens, outputTokens, c.used.OutputTokens)
		if u := c.reply.Usage; u.CacheRead > 0 || u.CacheWrite > 0 {
			span.Attrs = t.and(span.Attrs, cacheReadTokens, u.CacheRead, cacheWriteTokens, u.CacheWrite)
		}
		if finish := cmp.Or(finishes[c.reply.Stop], c.reply.Stop); finish != "" {
			span.Attrs = t.and(span.Attrs, finishReasons, []string{finish})
		}
	}
	if t.o.Content {
		span.Attrs = append(span.Attrs, t.conversation(who, c.reply, t.rules(step.Run))...)
	}
	measured := model
	if c.failed {
		t.fail(&span, cmp.Or(c.class, report.ReasonFailed), c.text, t.rules(step.Run))
		measured = t.and(slices.Clone(model), errorType, cmp.Or(c.class, report.ReasonFailed))
	}
	t.emit(span)
	t.measure(callDuration, seconds(begun, at), measured)
	if c.reply == nil {
		return
	}
	t.measure(tokenUsage, float64(c.used.InputTokens), t.and(slices.Clone(model), tokenType, "input"))
	t.measure(tokenUsage, float64(c.used.OutputTokens), t.and(slices.Clone(model), tokenType, "output"))
	t.measure(inputTokensUsed, float64(c.used.InputTokens), model)
	t.measure(outputTokensUsed, float64(c.used.OutputTokens), model)
	if c.reply.Usage.CacheRead > 0 {
		t.measure(cacheReadTokensUsed, float64(c.reply.Usage.CacheRead), model)
	}
	if c.reply.Usage.CacheWrite > 0 {
		t.measure(cacheWriteTokensUsed, float64(c.reply.Usage.CacheWrite), model)
	}
	if c.used.MicroDollars > 0 {
		t.measure(costTotal, dollars(c.used), t.attrs(workflowName, step.Run.Name, provider, by, requestModel, asked))
	}
}

func (t *Tracer) toolReturned(task *openTask, e *journal.Event, use *journal.ToolUse) {
	open, ok := task.tools[use.CallID]
	if !ok { // it was made elsewhere, and only told
		open = openTool{seq: e.Seq, at: e.At, who: task.now()}
	}
	delete(task.tools, use.CallID)
	class := use.Class
	if use.Error != "" && class == "" {
		class = "tool_error" // it ran, and says that it did not work
	}
	t.toolEnded(task, open, e.At, use, class, use.Error)
	if t.o.Content {
		open.who.heard(use)
	}
}

func (t *Tracer) toolEnded(task *openTask, open openTool, at journal.Millis, use *journal.ToolUse, class, text string) {
	step := task.step
	parent := open.who.id
	if !open.who.talks {
		parent = open.who.parent
	}
	span := Span{
		Trace: t.trace, ID: t.id("tool", open.seq), Parent: parent, Name: strings.TrimSpace(executeTool + " " + use.Name), Kind: Internal, Start: open.at, End: at,
		Attrs: t.attrs(
			operation, executeTool, toolName, use.Name, toolType, "function", toolCallID, use.CallID, offline, use.Offline, agentID, open.who.name,
			workflowName, step.Run.Name, runID, string(step.Run.ID), stepID, step.Path,
		),
	}
	if use.Fidelity == journal.ByAgent {
		span.Attrs = t.and(span.Attrs, reportedBy, use.Fidelity)
	}
	if t.o.Content {
		rules := t.rules(step.Run)
		span.Attrs = t.and(span.Attrs, toolArguments, t.json(use.Input, rules), toolResult, t.json(use.Output, rules))
	}
	measured := t.attrs(toolName, use.Name)
	if class == classDenied || class == classMissing {
		measured = t.attrs(toolName, otherTool)
	}
	if class != "" {
		t.fail(&span, class, text, t.rules(step.Run))
		measured = t.and(measured, errorType, class)
	}
	t.emit(span)
	t.measure(toolDuration, seconds(open.at, at), measured)
}

// The classes of calls that were not made. A model may make up any number of
// names, and metrics have a series for each: these share one.
const (
	classDenied  = "NOT_ALLOWED"
	classMissing = "NOT_READY"
	otherTool    = "_OTHER"
)

// callBegan is work that a task asks for: an agent within a node.
func (t *Tracer) callBegan(task *openTask, e *journal.Event, x *journal.TaskNoted) {
	var c journal.Call
	if json.Unmarshal(x.Data, &c) != nil {
		return
	}
	var request struct {
		Settings struct {
			Agent string `json:"agent"`
		} `json:"settings"`
	}
	_ = json.Unmarshal(c.Request, &request) // other kinds of work have no agent
	above := task.now()
	who := &actor{id: t.id("agent", e.Seq), parent: above.id, at: e.At, key: c.Key, name: request.Settings.Agent}
	if !above.talks {
		who.parent = above.parent
	}
	who.talks = who.name != ""
	who.known(task.step)
	task.who = append(task.who, who)
}

func (t *Tracer) callEnded(task *openTask, e *journal.Event, x *journal.TaskNoted) {
	var c journal.CallEnd
	if json.Unmarshal(x.Data, &c) != nil || len(task.who) == 1 {
		return
	}
	result := report.OutcomeOK
	if c.Class != "" || c.Error != "" {
		result = report.OutcomeFailed
	}
	t.agentEnded(task, task.now(), e.At, result, c.Class, c.Error)
	task.who = task.who[:len(task.who)-1]
}

// id is the id of what began with an event.
func (t *Tracer) id(what string, seq journal.Seq) SpanID {
	return spanID(t.root, fmt.Sprintf("%s:%d", what, seq))
}

func (t *Tracer) emit(s Span) { t.out.Spans = append(t.out.Spans, s) }

func (t *Tracer) measure(metric name, value float64, attrs []Attr) {
	if t.o.Names.of(metric) != "" {
		t.out.Points = append(t.out.Points, Point{metric, value, attrs})
	}
}

// attrs are names and values in turn; what is empty is left out.
func (t *Tracer) attrs(pairs ...any) []Attr { return t.and(nil, pairs...) }

func (t *Tracer) and(attrs []Attr, pairs ...any) []Attr {
	for i := 0; i < len(pairs); i += 2 {
		key := t.o.Names.of(pairs[i].(name))
		if text, ok := pairs[i+1].(string); key == "" || ok && text == "" {
			continue
		}
		attrs = append(attrs, Attr{key, pairs[i+1]})
	}
	return attrs
}

func value(attrs []Attr, key string) string {
	for _, a := range attrs {
		if a.Key == key {
			text, _ := a.Value.(string)
			return text
		}
	}
	return ""
}

// usage is what something cost.
func (t *Tracer) usage(u journal.Usage) []any {
	if u.ModelCalls == 0 && u.InputTokens == 0 && u.OutputTokens == 0 && u.MicroDollars == 0 {
		return nil
	}
	out := []any{tokensInput, u.InputTokens, tokensOutput, u.OutputTokens}
	if u.MicroDollars > 0 {
		out = append(out, cost, dollars(u))
	}
	return out
}

// remaining is what the run's budgets have left.
func (t *Tracer) remaining() []any {
	ledger := t.state.Spent
	if root := t.state.Root(); root != nil {
		ledger = root.Ledger
	}
	if ledger == nil {
		return nil
	}
	var out []any
	if most := ledger.Limits.Tokens; most != nil {
		out = append(out, budgetTokens, *most-ledger.Used.InputTokens-ledger.Used.OutputTokens)
	}
	if most := ledger.Limits.Steps; most != nil {
		out = append(out, budgetSteps, *most-ledger.Used.Steps)
	}
	return out
}

// fail says that a span did not end well. Words may hold anything, and need
// the same consent as content.
func (t *Tracer) fail(s *Span, class, text string, rules *redact.Rules) {
	s.Failed, s.Message = true, class
	s.Attrs = t.and(s.Attrs, errorType, class)
	if t.o.Content && text != "" {
		s.Message = t.text(text, rules)
	}
}

func (t *Tracer) rules(run *report.Run) *redact.Rules {
	if !t.o.Content {
		return nil
	}
	if open := t.runs[run.ID]; open != nil {
		return open.rules
	}
	return redact.Of(true, run.Audits()...)
}

func version(run *report.Run) string {
	if run.Program == nil {
		return ""
	}
	return run.Program.Version
}

func dollars(u journal.Usage) float64 { return float64(u.MicroDollars) / 1e6 }

func seconds(from, to journal.Millis) float64 { return float64(to-from) / 1000 }

// bare is a model's name without that of its provider.
func bare(model string) string { return model[strings.IndexByte(model, '/')+1:] }

func sorted[K cmp.Ordered, V any](m map[K]V) []K {
	out := make([]K, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
