package otel

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/redact"
	"github.com/espalier-run/espalier/internal/report"
)

// TracerOptions configure a Tracer.
type TracerOptions struct {
	Names Conventions
	// Content adds prompts, replies, arguments and results of tools, and error texts, which may be confidential.
	Content bool
	// MaxBytes is the maximum length of a text in them; 0 is unlimited.
	MaxBytes int
	// Outline returns the outline of a pinned definition; nil if it is unknown.
	Outline func(definition string) (*report.Outline, error)
	// Origin returns the span from which a run was started; nil if there is none.
	Origin func(journal.RunStarted) (Link, bool)
}

// Tracer makes the spans and the measurements of one stream. Its state is what is open: it does not grow with what has
// finished.
type Tracer struct {
	o     TracerOptions
	root  journal.RunID
	trace TraceID
	in    *report.Interpreter
	out   *Yield

	origin *Link // span from which the run was started; nil if there is none
}

// Yield collects the spans and points of events.
type Yield struct {
	Spans  []*tracepb.Span
	Points []Point
}

// Point is one measurement.
type Point struct {
	metric name
	value  float64
	attrs  []*commonpb.KeyValue
}

// The types below are the Data of runs and steps that are open. Their JSON is part of checkpoints.

// openRun is the Data of a run that has not finished.
type openRun struct {
	ID     SpanID     `json:"id"`
	Events spanEvents `json:"events,omitempty"`
	rules  *redact.Rules
}

// openStep is the Data of a step that has not finished.
type openStep struct {
	ID       SpanID     `json:"id"`
	Events   spanEvents `json:"events,omitempty"`
	Attempts int        `json:"attempts,omitempty"`
	// Method is the one by which a gate was decided.
	Method journal.Method `json:"method,omitempty"`
	Task   *openTask      `json:"task,omitempty"` // nil unless one is running
}

// openOf returns the state of an open step; nil if it has none.
func openOf(s *report.Step) *openStep {
	if s == nil {
		return nil
	}
	open, _ := s.Data.(*openStep)
	return open
}

// openTask is an attempt at a task, reruns after crashes included.
type openTask struct {
	Work  journal.TaskID `json:"work"`
	step  *report.Step
	Who   []*actor            `json:"who"` // the task and the calls inside it, innermost last
	Held  map[int]hold        `json:"held"`
	Wait  journal.Millis      `json:"wait,omitempty"` // before the next model call
	Tools map[string]openTool `json:"tools"`
	Spans []SpanID            `json:"spans,omitempty"` // of its tool calls so far
	Last  journal.Millis      `json:"last"`            // time of its last event
}

// actor is the source of model and tool calls: an agent, or a task without one.
type actor struct {
	ID      SpanID         `json:"id"`
	Parent  SpanID         `json:"parent"`
	At      journal.Millis `json:"at"`
	Key     string         `json:"key,omitempty"`  // of a call
	Name    string         `json:"name,omitempty"` // of the agent
	Role    string         `json:"role,omitempty"`
	Model   string         `json:"model,omitempty"`
	HasSpan bool           `json:"has_span,omitempty"` // has its own span
	Used    journal.Usage  `json:"used"`
	System  string         `json:"system,omitempty"`
	Asked   []message      `json:"asked,omitempty"` // since the last reply
}

// hold is the reservation of a call in progress.
type hold struct {
	Seq    journal.Seq    `json:"seq"`
	At     journal.Millis `json:"at"`
	Amount journal.Usage  `json:"amount"`
	Who    *actor         `json:"who"`
}

// openTool is a tool call that has not returned.
type openTool struct {
	ID  SpanID          `json:"id"`
	At  journal.Millis  `json:"at"`
	Who *actor          `json:"who"`
	Use journal.ToolUse `json:"use"`
}

// NewTracer returns a Tracer for the stream of a root run.
func NewTracer(root journal.RunID, o TracerOptions) *Tracer {
	return &Tracer{o: o, root: root, trace: TraceOf(root), in: report.NewInterpreter(root, o.Outline).TrackBudgets()}
}

// Apply applies the next event and adds what ended with it to out.
func (t *Tracer) Apply(e *journal.Event, out *Yield) error {
	t.out = out
	return t.in.Interpret(e, t.event)
}

// event adds what an event ends to the output, and updates what is open.
func (t *Tracer) event(ev *report.Event) error {
	open := openOf(ev.Step)
	// The cost of a reply is measured with its model.
	if ev.Step != nil && ev.Usage.MicroDollars > 0 && ev.Type != report.ModelReplied {
		t.measure(costTotal, dollars(ev.Usage), t.attrs(workflowName, ev.Step.Run.Name))
	}
	if handle := handlers[ev.Type]; handle != nil {
		handle(t, ev)
	}
	if open == nil {
		return nil
	}
	switch handle := stepHandlers[ev.Type]; {
	case ev.Note != nil:
		t.note(ev, open.Task)
	case handle != nil:
		handle(t, ev, open)
	}
	if what := happenings[ev.Type]; what.attrs != nil {
		open.Events = append(open.Events, &tracepb.Span_Event{
			TimeUnixNano: nanos(ev.At), Name: what.name, Attributes: what.attrs(t, ev),
		})
	}
	return nil
}

// handlers update what is open and emit what has ended.
var handlers = map[report.EventType]func(t *Tracer, ev *report.Event){
	report.RunStarted:  (*Tracer).runStarted,
	report.RunFinished: (*Tracer).runFinished,
	report.RunClaimed:  (*Tracer).runClaimed,
	report.StepStarted: func(t *Tracer, ev *report.Event) { ev.Step.Data = &openStep{ID: t.id("step", ev.Seq)} },
	report.StepSkipped: (*Tracer).stepSkipped,
}

// stepHandlers do the same for events of a step that is open.
var stepHandlers = map[report.EventType]func(t *Tracer, ev *report.Event, open *openStep){
	report.StepFinished:   (*Tracer).stepFinished,
	report.TaskStarted:    (*Tracer).taskStarted,
	report.TaskFinished:   func(t *Tracer, ev *report.Event, open *openStep) { t.endTask(open, ev, ev.Error) },
	report.TaskLost:       (*Tracer).taskLost,
	report.BudgetReserved: (*Tracer).reserved,
	report.GateDecided:    func(_ *Tracer, ev *report.Event, open *openStep) { open.Method = ev.Verdict().Method },
}

// happenings are the events within spans.
var happenings = map[report.EventType]struct {
	name  string
	attrs func(t *Tracer, ev *report.Event) []*commonpb.KeyValue
}{
	report.TaskLost: {"espalier.lost", func(t *Tracer, ev *report.Event) []*commonpb.KeyValue {
		return t.attrs(attempt, int64(ev.Work.Attempt+1))
	}},
	report.StepRetrying: {"espalier.retry", func(t *Tracer, ev *report.Event) []*commonpb.KeyValue {
		delay := float64(ev.Fact.(journal.RetrySet).Due-ev.At) / 1000
		return t.attrs(attempt, int64(ev.Work.Attempt)+1, retryDelay, delay, errorType, string(ev.Class))
	}},
	report.GateOpened: {"espalier.gate_opened", func(t *Tracer, ev *report.Event) []*commonpb.KeyValue {
		return t.attrs(gateKind, ev.Step.Gate.Kind)
	}},
	report.GateApproved: {"espalier.gate_approved", func(t *Tracer, ev *report.Event) []*commonpb.KeyValue {
		return t.attrs(gateMethod, ev.Verdict().Method)
	}},
	report.GateEscalated: {"espalier.gate_escalated", func(*Tracer, *report.Event) []*commonpb.KeyValue { return nil }},
	report.GateDecided: {"espalier.gate_decided", func(t *Tracer, ev *report.Event) []*commonpb.KeyValue {
		return t.attrs(outcome, cmp.Or(ev.Reason, string(ev.Outcome)), gateMethod, ev.Verdict().Method)
	}},
	report.BudgetWaiting: {"espalier.budget_wait", func(t *Tracer, ev *report.Event) []*commonpb.KeyValue {
		return t.attrs(budgetName, ev.Fact.(journal.BudgetWait).Budget)
	}},
	report.BudgetRefused: {"espalier.budget_refused", func(t *Tracer, ev *report.Event) []*commonpb.KeyValue {
		return t.attrs(budgetName, ev.Fact.(journal.BudgetRefused).Budget)
	}},
}

// runStarted opens the span of a run. Its identifier follows from those of the runs, so that every process that
// delivers the run makes the same span.
func (t *Tracer) runStarted(ev *report.Event) {
	open := &openRun{ID: SpanOf(t.root, ev.Run.ID)}
	if t.o.Content {
		open.rules = redact.ForAudits(true, ev.Run.Audits()...)
	}
	ev.Run.Data = open
	if x, ok := ev.Fact.(journal.RunStarted); ok && t.o.Origin != nil {
		if link, ok := t.o.Origin(x); ok {
			t.origin = &link
		}
	}
}

// runClaimed notes on the span of a run that another process has taken it over.
func (t *Tracer) runClaimed(ev *report.Event) {
	if open, ok := ev.Run.Data.(*openRun); ok && ev.Fact.(journal.Claimed).Owner != "" {
		open.Events = append(open.Events, &tracepb.Span_Event{
			TimeUnixNano: nanos(ev.At), Name: "espalier.taken_over",
		})
	}
}

// runFinished ends the span of a run.
func (t *Tracer) runFinished(ev *report.Event) {
	run := ev.Run
	open, ok := run.Data.(*openRun)
	if !ok {
		return
	}
	code, _ := ev.ReasonCode()
	span := t.span(open.ID, invokeWorkflow+" "+run.Name, run.Started, ev.At, t.and(t.attrs(
		operation, invokeWorkflow, genAIWorkflow, run.Name, workflowName, run.Name, workflowVersion, version(run),
		runID, string(run.ID), parentRun, string(run.Parent), outcome, ev.Outcome, reasonCode, code,
	), append(t.usage(run.Used), remaining(ev.Budget)...)...))
	span.Events = open.Events
	duration := t.attrs(genAIWorkflow, run.Name)
	if run.Caller != nil {
		parent := t.parentOf(run.Caller, true)
		span.ParentSpanId = parent[:]
	} else {
		span.Attributes = t.and(span.Attributes, format, run.Format)
		span.Links = t.links(run)
		t.measure(runCount, 1, t.attrs(workflowName, run.Name, outcome, ev.Outcome))
	}
	if ev.Outcome != journal.OutcomeFailed {
		code = ""
	}
	t.end(span, run, code, ev.Problem, workflowDuration, duration)
}

// links returns the links to the origin of a run.
func (t *Tracer) links(run *report.Run) (out []*tracepb.Span_Link) {
	add := func(trace TraceID, span SpanID) {
		out = append(out, &tracepb.Span_Link{TraceId: trace[:], SpanId: span[:]})
	}
	if t.origin != nil {
		add(t.origin.Trace, t.origin.Span)
	}
	if from := run.From; from != nil {
		add(TraceOf(from.Run), SpanOf(from.Run, from.Run))
	}
	return out
}

// stepSpan returns the span of a step without its end.
func (t *Tracer) stepSpan(ev *report.Event, id SpanID) *tracepb.Span {
	s := ev.Step
	agent := agentOf(s)
	attrs := t.attrs(
		workflowName, s.Run.Name, workflowVersion, version(s.Run), runID, string(s.Run.ID),
		stepID, s.Path, stepType, typeOf(s),
		agentID, agent.Name, agentRole, agent.Role, standsInFor, s.FallbackFor, childRun, string(s.Child),
	)
	if s.Loop {
		attrs = t.and(attrs, iteration, int64(s.Index))
	}
	return t.child(t.parentOf(s, false), id, "step "+s.Path, s.Started, ev.At, attrs)
}

// typeOf returns the type of a step as its author wrote it, or its kind.
func typeOf(s *report.Step) string {
	if s.Info == nil {
		return s.Kind
	}
	return cmp.Or(s.Info.Step.Type, s.Kind)
}

// parentOf returns the span that contains a step: that of the enclosing step or of the run. With inside, it returns the
// span of the step itself.
func (t *Tracer) parentOf(s *report.Step, inside bool) SpanID {
	run := s.Run
	if !inside {
		if s = s.Parent; s != nil && s.Run != run {
			s = nil
		}
	}
	if open := openOf(s); open != nil {
		return open.ID
	}
	return SpanOf(t.root, run.ID)
}

// stepSkipped makes the span of a step that did not run.
func (t *Tracer) stepSkipped(ev *report.Event) {
	span := t.stepSpan(ev, t.id("step", ev.Seq))
	span.Attributes = t.and(span.Attributes, reasonCode, report.ReasonCondition, outcome, ev.Outcome)
	t.emit(span)
}

// stepFinished ends the span of a step and of its last attempt.
func (t *Tracer) stepFinished(ev *report.Event, open *openStep) {
	t.endTask(open, ev, ev.Problem) // one that was lost ends with the decision about it
	step := ev.Step
	code, _ := ev.ReasonCode()
	span := t.stepSpan(ev, open.ID)
	span.Events = open.Events
	span.Attributes = t.and(span.Attributes, outcome, ev.Outcome, reasonCode, code)
	span.Attributes = t.and(span.Attributes, append(t.usage(step.Used), remaining(ev.Budget)...)...)
	if open.Attempts > 1 {
		span.Attributes = t.and(span.Attributes, attempts, int64(open.Attempts))
	}
	if g := step.Gate; g != nil && (g.Kind == journal.GatePerson || g.Kind == journal.GateEvent) {
		span.Attributes = t.and(span.Attributes, gateKind, g.Kind, gateMethod, open.Method)
	}
	measured := t.attrs(workflowName, step.Run.Name, stepID, step.Path, stepType, typeOf(step), outcome, ev.Outcome)
	failed := ""
	if ev.Outcome == journal.OutcomeFailed {
		failed = cmp.Or(string(ev.Class), code)
	}
	t.measure(stepCount, 1, t.end(span, ev.Run, failed, ev.Problem, stepDuration, measured))
}

// taskStarted opens an attempt. An attempt that runs again after a crash stays open as it is.
func (t *Tracer) taskStarted(ev *report.Event, open *openStep) {
	open.Attempts = max(open.Attempts, ev.Work.Attempt+1)
	if open.Task.is(ev.Work) {
		open.Task.Last = ev.At // the same attempt runs again
		return
	}
	agent := agentOf(ev.Step)
	agent.ID, agent.Parent, agent.At, agent.HasSpan = t.id("agent", ev.Seq), open.ID, ev.At, agent.Name != ""
	open.Task = &openTask{
		Work: ev.Work, step: ev.Step, Who: []*actor{agent}, Last: ev.At,
		Held: map[int]hold{}, Tools: map[string]openTool{},
	}
}

// is reports whether the task is the given one; a nil task is none.
func (k *openTask) is(w journal.TaskID) bool { return k != nil && k.Work == w }

// reserved notes when a call begins: its budget is reserved right before it. After a failed call the wait for the next
// try comes in between.
func (t *Tracer) reserved(ev *report.Event, open *openStep) {
	if !open.Task.is(ev.Work) {
		return
	}
	x, task := ev.Fact.(journal.Reserved), open.Task
	task.Held[x.N] = hold{ev.Seq, ev.At + task.Wait, x.Amount, task.now()}
	task.Wait = 0
}

// agentOf returns the agent that the author chose for a step; its name may be empty.
func agentOf(s *report.Step) *actor {
	a := &actor{Name: s.Agent}
	a.known(s)
	return a
}

// known adds what the workflow defines for an agent.
func (a *actor) known(s *report.Step) {
	if s.Info == nil || s.Info.Program == nil {
		return
	}
	if agent := s.Info.Program.Agent(a.Name); agent != nil {
		a.Role, a.Model = agent.Role, agent.ModelName()
	}
}

// now returns the current actor.
func (k *openTask) now() *actor { return k.Who[len(k.Who)-1] }

// endTask ends the attempt of a step, with everything that is open in it.
func (t *Tracer) endTask(open *openStep, ev *report.Event, text string) {
	task := open.Task
	if task == nil {
		return
	}
	open.Task = nil
	t.abandon(task, ev.At, ev.Outcome, cmp.Or(ev.Class, ir.Class(ev.Outcome)))
	for _, one := range slices.Backward(task.Who) {
		t.agentEnded(task, one, ev.At, ev.Outcome, ev.Class, text)
	}
}

// abandon ends calls without a result. The reservation of a lost one is charged.
func (t *Tracer) abandon(task *openTask, at journal.Millis, result journal.Outcome, class ir.Class) {
	for _, n := range slices.Sorted(maps.Keys(task.Held)) {
		if h := task.Held[n]; h.Amount.ModelCalls > 0 {
			var charged journal.Usage
			if result == lost {
				charged = h.Amount
			}
			failed := result != journal.OutcomeCanceled && result != journal.OutcomeOK
			t.called(task, n, h, at, call{used: charged, class: class, failed: failed})
		}
	}
	clear(task.Held)
	if result == lost {
		return // the tool call is repeated, or a person decides about it
	}
	for _, id := range slices.Sorted(maps.Keys(task.Tools)) {
		open := task.Tools[id]
		why := class
		if result == journal.OutcomeOK {
			why = "" // the task did not need the result
		}
		t.toolEnded(task, open, at, &open.Use, why, "")
	}
	clear(task.Tools)
}

// lost is the class of a call whose process died.
const lost = "lost"

// taskLost ends the calls of an attempt whose process died. The attempt stays open: it may run again.
func (t *Tracer) taskLost(ev *report.Event, open *openStep) {
	if !open.Task.is(ev.Work) {
		return
	}
	x, task := ev.Fact.(journal.TaskLost), open.Task
	for _, one := range task.Who {
		one.Used = one.Used.Plus(x.Charged)
	}
	t.abandon(task, cmp.Or(x.Until, ev.At), lost, lost)
	task.Last = ev.At
}

// agentEnded makes the span of an agent, unless the agent has none.
func (t *Tracer) agentEnded(task *openTask, who *actor, at journal.Millis, result journal.Outcome, class ir.Class,
	text string,
) {
	if !who.HasSpan {
		return
	}
	label := cmp.Or(who.Name, task.step.Name)
	span := t.child(who.Parent, who.ID, invokeAgent+" "+label, who.At, at, t.and(t.attrs(
		operation, invokeAgent, genAIAgent, label, agentID, who.Name, agentRole, who.Role,
		requestModel, modelBaseName(who.Model),
		workflowName, task.step.Run.Name, runID, string(task.step.Run.ID), stepID, task.step.Path,
		attempt, int64(task.Work.Attempt+1), outcome, result,
		inputTokens, who.Used.InputTokens, outputTokens, who.Used.OutputTokens,
	), t.usage(who.Used)...))
	failed := ""
	if result == journal.OutcomeFailed {
		failed = cmp.Or(string(class), report.ReasonFailed)
	}
	t.end(span, task.step.Run, failed, text, agentDuration, t.attrs(genAIAgent, label))
}

// note applies an event inside a task.
func (t *Tracer) note(ev *report.Event, task *openTask) {
	if !task.is(ev.Work) {
		return
	}
	for _, one := range task.Who {
		one.Used = one.Used.Plus(ev.Usage)
	}
	if h := noteHandlers[ev.Type]; h.handle != nil && (h.unreadable || !ev.Note.Unreadable) {
		h.handle(t, ev, task)
	}
	task.Last = ev.At
}

// noteHandlers handle events inside a task. Those of model calls also handle unreadable notes: the call was made.
var noteHandlers = map[report.EventType]struct {
	handle     func(t *Tracer, ev *report.Event, task *openTask)
	unreadable bool
}{
	report.ModelPrompted: {(*Tracer).modelPrompted, true},
	report.ModelReplied:  {(*Tracer).modelReplied, true},
	report.ModelFailed:   {(*Tracer).modelFailed, true},
	report.ModelRetried:  {(*Tracer).modelFailed, true},
	report.ToolCalled:    {(*Tracer).toolCalled, false},
	report.ToolReturned:  {(*Tracer).toolReturned, false},
	report.CallStarted:   {(*Tracer).callStarted, false},
	report.CallFinished:  {(*Tracer).callFinished, false},
}

// modelPrompted notes a prompt. Whatever calls a model has a span of its own, also without a name.
func (t *Tracer) modelPrompted(ev *report.Event, task *openTask) {
	agent := task.now()
	agent.HasSpan = true
	if t.o.Content && !ev.Note.Unreadable {
		agent.prompted(report.Body[journal.Prompt](ev.Note))
	}
}

// modelReplied makes the span of a model call with a reply.
func (t *Tracer) modelReplied(ev *report.Event, task *openTask) {
	t.called(task, ev.Note.Settles, t.held(task, ev), ev.At, call{
		reply: report.Body[journal.Reply](ev.Note), used: ev.Usage, failed: ev.Note.Unreadable, class: "unreadable",
	})
	task.now().Asked = nil
}

// modelFailed makes the span of a model call without a reply.
func (t *Tracer) modelFailed(ev *report.Event, task *openTask) {
	failed := report.Body[journal.ModelRetry](ev.Note) // without a class if it is unreadable
	t.called(task, ev.Note.Settles, t.held(task, ev), ev.At, call{
		used: ev.Usage, failed: true, class: failed.Class, text: failed.Message,
	})
	if ev.Type == report.ModelRetried {
		task.Wait = failed.Wait
	}
}

// held returns the reservation of a call. A call without one has lasted since the last event of the task.
func (t *Tracer) held(task *openTask, ev *report.Event) hold {
	if h, ok := task.Held[ev.Note.Settles]; ok && ev.Note.Settles > 0 {
		return h
	}
	return hold{Seq: ev.Seq, At: task.Last, Who: task.now()}
}

// call is the result of a model call.
type call struct {
	reply  *journal.Reply
	used   journal.Usage
	failed bool
	class  ir.Class
	text   string
}

// finishes maps stop reasons to those of the conventions.
var finishes = map[string]string{
	"done": "stop", "tool_use": "tool_calls", "max_tokens": "length", "refused": "content_filter",
}

// called ends a model call.
func (t *Tracer) called(task *openTask, n int, h hold, at journal.Millis, c call) {
	delete(task.Held, n)
	who, step := h.Who, task.step
	who.HasSpan = true
	asked, by := modelBaseName(who.Model), ""
	if i := strings.IndexByte(who.Model, '/'); i > 0 {
		by = who.Model[:i]
	}
	var answered string
	var offlineBy journal.Offline
	if c.reply != nil {
		answered, offlineBy = c.reply.Model, c.reply.Offline
		by = cmp.Or(string(c.reply.Offline), c.reply.Provider, by)
		asked = cmp.Or(asked, answered)
	}
	if known, ok := providers[by]; ok {
		by = known
	}
	begun := min(h.At, at)
	model := t.attrs(operation, chat, provider, by, requestModel, asked, responseModel, answered)
	span := t.child(who.ID, t.id("chat", h.Seq), strings.TrimSpace(chat+" "+asked), begun, at, t.and(t.attrs(
		operation, chat, provider, by, requestModel, asked, responseModel, answered, offline, offlineBy,
		agentID, who.Name, genAIAgent, who.Name,
		workflowName, step.Run.Name, runID, string(step.Run.ID), stepID, step.Path,
	), t.usage(c.used)...))
	span.Kind = tracepb.Span_SPAN_KIND_CLIENT
	if c.reply != nil {
		span.Attributes = t.and(span.Attributes, inputTokens, c.used.InputTokens, outputTokens, c.used.OutputTokens)
		if u := c.reply.Usage; u.CacheRead > 0 || u.CacheWrite > 0 {
			span.Attributes = t.and(span.Attributes, cacheReadTokens, u.CacheRead, cacheWriteTokens, u.CacheWrite)
		}
		span.Attributes = t.and(span.Attributes, responseID, c.reply.ID)
		if a := c.reply.RequestParams; a != nil {
			span.Attributes = t.and(span.Attributes, serverAddress, a.Server, outputType,
				map[bool]string{true: "json", false: "text"}[a.JSON])
			if a.MaxTokens > 0 {
				span.Attributes = t.and(span.Attributes, requestMaxTokens, a.MaxTokens)
			}
			if a.Temperature != nil {
				span.Attributes = t.and(span.Attributes, requestTemperature, *a.Temperature)
			}
		}
		if finish := cmp.Or(finishes[c.reply.Stop], c.reply.Stop); finish != "" {
			span.Attributes = t.and(span.Attributes, finishReasons, []string{finish})
		}
	}
	if t.o.Content {
		span.Attributes = append(span.Attributes, t.conversation(who, c.reply, t.rules(step.Run))...)
	}
	failed := ""
	if c.failed {
		failed = cmp.Or(string(c.class), report.ReasonFailed)
	}
	t.end(span, step.Run, failed, c.text, callDuration, slices.Clone(model))
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

// toolCalled opens the span of a tool call.
func (t *Tracer) toolCalled(ev *report.Event, task *openTask) {
	use := report.Body[journal.ToolUse](ev.Note)
	task.Tools[use.CallID] = openTool{t.toolSpan(ev, task, use), ev.At, task.now(), *use}
}

// toolSpan returns the id of the span of a tool call: the one that the tool has received as its parent, or another one
// if the task has already made a call with the same ID.
func (t *Tracer) toolSpan(ev *report.Event, task *openTask, use *journal.ToolUse) SpanID {
	key := cmp.Or(task.now().Key, task.Work.Key())
	id := SpanID(journal.ToolSpan(t.root, task.step.Run.ID, key, use.CallID))
	if slices.Contains(task.Spans, id) {
		return t.id("tool", ev.Seq)
	}
	task.Spans = append(task.Spans, id)
	return id
}

// toolReturned ends the span of a tool call.
func (t *Tracer) toolReturned(ev *report.Event, task *openTask) {
	use := report.Body[journal.ToolUse](ev.Note)
	open, ok := task.Tools[use.CallID]
	if !ok { // an external agent made the call and only reports its result
		open = openTool{ID: t.toolSpan(ev, task, use), At: ev.At, Who: task.now()}
	}
	delete(task.Tools, use.CallID)
	class := use.Class
	if use.Error != "" && class == "" {
		class = "tool_error" // it ran, and returned an error
	}
	t.toolEnded(task, open, ev.At, use, class, use.Error)
	if t.o.Content {
		open.Who.returned(use)
	}
}

// toolEnded makes the span of a tool call, below that of the agent or else of the step.
func (t *Tracer) toolEnded(task *openTask, open openTool, at journal.Millis, use *journal.ToolUse, class ir.Class,
	text string,
) {
	step := task.step
	parent := open.Who.ID
	if !open.Who.HasSpan {
		parent = open.Who.Parent
	}
	span := t.child(parent, open.ID, strings.TrimSpace(executeTool+" "+use.Name), open.At, at, t.attrs(
		operation, executeTool, toolName, use.Name, toolType, "function", toolCallID, use.CallID, offline, use.Offline,
		agentID, open.Who.Name,
		workflowName, step.Run.Name, runID, string(step.Run.ID), stepID, step.Path,
	))
	if use.Fidelity == journal.ByAgent {
		span.Attributes = t.and(span.Attributes, reportedBy, use.Fidelity)
	}
	if t.o.Content {
		rules := t.rules(step.Run)
		span.Attributes = t.and(span.Attributes,
			toolArguments, t.json(use.Input, rules), toolResult, t.json(use.Output, rules))
	}
	measured := t.attrs(toolName, use.Name)
	if class == ir.ClassDenied || class == ir.ClassMissing {
		measured = t.attrs(toolName, otherTool)
	}
	t.end(span, step.Run, string(class), text, toolDuration, measured)
}

// otherTool is the tool in measurements of calls that were not made. A model may invent any number of names, and each
// would be a series of a metric.
const otherTool = "_OTHER"

// callStarted opens the span of work that a task asks for: an agent within a node.
func (t *Tracer) callStarted(ev *report.Event, task *openTask) {
	c := report.Body[journal.Call](ev.Note)
	var request struct {
		Settings struct {
			Agent string `json:"agent"`
		} `json:"settings"`
	}
	_ = json.Unmarshal(c.Request, &request) // other kinds of work have no agent
	above := task.now()
	agent := &actor{ID: t.id("agent", ev.Seq), Parent: above.ID, At: ev.At, Key: c.Key, Name: request.Settings.Agent}
	if !above.HasSpan {
		agent.Parent = above.Parent
	}
	agent.HasSpan = agent.Name != ""
	agent.known(task.step)
	task.Who = append(task.Who, agent)
}

// callFinished ends the innermost call inside a task. The task itself, which is the only actor left, ends elsewhere.
func (t *Tracer) callFinished(ev *report.Event, task *openTask) {
	if len(task.Who) == 1 {
		return
	}
	c := report.Body[journal.CallEnd](ev.Note)
	result := journal.OutcomeOK
	if c.Class != "" || c.Error != "" {
		result = journal.OutcomeFailed
	}
	t.agentEnded(task, task.now(), ev.At, result, c.Class, c.Error)
	task.Who = task.Who[:len(task.Who)-1]
}

// id returns the id of the span that started with an event.
func (t *Tracer) id(what string, seq journal.Seq) SpanID {
	return spanID(t.root, fmt.Sprintf("%s:%d", what, seq))
}

// span returns a span without a parent.
func (t *Tracer) span(id SpanID, name string, start, end journal.Millis, attrs []*commonpb.KeyValue) *tracepb.Span {
	return &tracepb.Span{
		TraceId: t.trace[:], SpanId: id[:], Name: valid(name), Kind: tracepb.Span_SPAN_KIND_INTERNAL,
		StartTimeUnixNano: nanos(start), EndTimeUnixNano: nanos(end), Attributes: attrs,
	}
}

// child returns a span with a parent.
func (t *Tracer) child(parent, id SpanID, name string, start, end journal.Millis,
	attrs []*commonpb.KeyValue,
) *tracepb.Span {
	s := t.span(id, name, start, end, attrs)
	s.ParentSpanId = parent[:]
	return s
}

// emit adds a span to the output.
func (t *Tracer) emit(s *tracepb.Span) { t.out.Spans = append(t.out.Spans, s) }

// measure adds a measurement, unless the conventions in use do not have the metric.
func (t *Tracer) measure(metric name, value float64, attrs []*commonpb.KeyValue) {
	if t.o.Names.of(metric) != "" {
		t.out.Points = append(t.out.Points, Point{metric, value, attrs})
	}
}

// attrs returns attributes from names and values in turn, without empty values.
func (t *Tracer) attrs(pairs ...any) []*commonpb.KeyValue { return t.and(nil, pairs...) }

// and adds pairs of a name and a value to attributes. It leaves out texts that are empty and names that the conventions
// in use do not have.
func (t *Tracer) and(attrs []*commonpb.KeyValue, pairs ...any) []*commonpb.KeyValue {
	for i := 0; i < len(pairs); i += 2 {
		key := t.o.Names.of(pairs[i].(name))
		value := pairs[i+1]
		if v := reflect.ValueOf(value); v.Kind() == reflect.String {
			value = v.String() // outcomes, classes and gate kinds are named string types
		}
		if key == "" || value == "" {
			continue
		}
		attrs = append(attrs, attr(key, value))
	}
	return attrs
}

// usage returns the attributes of usage.
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

// remaining returns what the budget of the root run has left.
func remaining(b *report.Budget) []any {
	if b == nil {
		return nil
	}
	var out []any
	if most := b.Limits.Tokens; most != nil {
		out = append(out, budgetTokens, *most-b.Used.InputTokens-b.Used.OutputTokens)
	}
	if most := b.Limits.Steps; most != nil {
		out = append(out, budgetSteps, *most-b.Used.Steps)
	}
	return out
}

// end emits a span and measures how long it took. failed is the class of its failure, empty if it did not fail. It
// returns the attributes of the measurement.
func (t *Tracer) end(s *tracepb.Span, run *report.Run, failed, text string, took name,
	measured []*commonpb.KeyValue,
) []*commonpb.KeyValue {
	if failed != "" {
		t.fail(s, failed, text, t.rules(run))
		measured = t.and(measured, errorType, failed)
	}
	t.emit(s)
	milliseconds := (s.EndTimeUnixNano - s.StartTimeUnixNano) / 1_000_000
	t.measure(took, float64(milliseconds)/1000, measured)
	return measured
}

// fail marks a span as failed. Error texts may contain anything, and are content.
func (t *Tracer) fail(s *tracepb.Span, class, text string, rules *redact.Rules) {
	s.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: class}
	s.Attributes = t.and(s.Attributes, errorType, class)
	if t.o.Content && text != "" {
		s.Status.Message = t.text(text, rules)
	}
}

// rules returns the redaction rules for the content of a run; nil if content is not exported.
func (t *Tracer) rules(run *report.Run) *redact.Rules {
	if !t.o.Content {
		return nil
	}
	if open, ok := run.Data.(*openRun); ok {
		return open.rules
	}
	return redact.ForAudits(true, run.Audits()...)
}

// version returns the version of a run's workflow; "" if it is not known.
func version(run *report.Run) string {
	if run.Program == nil {
		return ""
	}
	return run.Program.Version
}

// dollars returns the cost of a usage in dollars.
func dollars(u journal.Usage) float64 { return float64(u.MicroDollars) / 1e6 }

// modelBaseName returns the name of a model without the name of its provider.
func modelBaseName(model string) string { return model[strings.IndexByte(model, '/')+1:] }
