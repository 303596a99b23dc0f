package flowtrace

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
)

// Entry is the turn of one agent.
type Entry struct {
	Step         int                        `json:"step"`
	AgentID      string                     `json:"agentId"`
	AgentName    string                     `json:"agentName"`
	Role         string                     `json:"role"`
	InputContext map[string]json.RawMessage `json:"inputContext"`
	StartedAt    string                     `json:"startedAt"`
	FinishedAt   string                     `json:"finishedAt,omitempty"`
	Status       string                     `json:"status"` // running, success, error
	AttemptCount int                        `json:"attemptCount"`
	Attempts     []Attempt                  `json:"attempts"`
	RetryPolicy  *Policy                    `json:"retryPolicy,omitempty"`
	Error        string                     `json:"error,omitempty"`
	RawOutput    string                     `json:"rawOutput,omitempty"`
	ParsedOutput json.RawMessage            `json:"parsedOutput,omitempty"`
	Directives   []Directive                `json:"toolDirectives,omitempty"`
	Tools        json.RawMessage            `json:"tools,omitempty"`
	Rules        []Rule                     `json:"rulesEvaluated"`
	SelectedRule string                     `json:"selectedRuleId,omitempty"`
	NextAgent    string                     `json:"nextAgentId,omitempty"`
}

// Attempt is one attempt of a turn.
type Attempt struct {
	Attempt     int    `json:"attempt"`
	Status      string `json:"status"` // success, error
	Model       string `json:"model,omitempty"`
	RawOutput   string `json:"rawOutput,omitempty"`
	Error       string `json:"error,omitempty"`
	ErrorClass  string `json:"errorClass,omitempty"` // transient, hard
	ErrorCode   string `json:"errorCode,omitempty"`
	ShouldRetry bool   `json:"shouldRetry"`
	RetryReason string `json:"retryReason,omitempty"`
	BackoffMS   int64  `json:"backoffAppliedMs,omitempty"`
	// Offline is set if no real model answered.
	Offline journal.Offline `json:"offline,omitempty"`
}

// Policy is the retry policy of an agent.
type Policy struct {
	MaxAttempts int        `json:"maxAttempts"`
	RetryOn     []ir.Class `json:"retryOn"`
}

// Directive is a tool call.
type Directive struct {
	Tool  string          `json:"tool"`
	Input json.RawMessage `json:"parameters"`
}

// Rule is a rule that was evaluated, and its result.
type Rule struct {
	ID        string `json:"id"`
	From      string `json:"from"`
	To        string `json:"to,omitempty"`
	Condition string `json:"condition"`
	Result    bool   `json:"result"`
}

// Document returns the final context of a run, with its trace under "__trace". value returns the JSON of a value, which
// may be stored by hash.
func Document(
	p *ir.Program, events iter.Seq2[journal.Event, error], value func(journal.Value) (json.RawMessage, error),
) ([]byte, error) {
	t := &tracer{p: p, value: value, context: map[string]json.RawMessage{}}
	for e, err := range report.NewInterpreter("", nil).Events(events) {
		if err == nil {
			err = t.event(e)
		}
		if err != nil {
			return nil, err
		}
	}
	t.complete()
	trace := t.entries
	if trace == nil {
		trace = []*Entry{}
	}
	raw, err := json.Marshal(trace)
	if err != nil {
		return nil, err
	}
	document := maps.Clone(t.context)
	document["__trace"] = raw
	return json.MarshalIndent(document, "", "  ")
}

// tracer builds the entries of a run.
type tracer struct {
	p       *ir.Program
	value   func(journal.Value) (json.RawMessage, error)
	input   map[string]json.RawMessage
	context map[string]json.RawMessage
	entries []*Entry
	ended   journal.Millis // of the attempt that another one follows
}

// event handles an event, if the trace has something for it.
func (t *tracer) event(ev *report.Event) error {
	if handle := handlers[ev.Type]; handle != nil {
		return handle(t, ev)
	}
	return nil
}

// handlers handle the events of a trace.
var handlers = map[report.EventType]func(*tracer, *report.Event) error{
	report.RunStarted:   (*tracer).runStarted,
	report.RunRewound:   func(t *tracer, ev *report.Event) error { return t.reset(ev.Fact.(journal.Rewound).Vars) },
	report.StateEdited:  (*tracer).stateEdited,
	report.TaskStarted:  (*tracer).taskStarted,
	report.TaskFinished: (*tracer).taskFinished,
	report.ModelReplied: (*tracer).modelReplied,
	report.ToolCalled:   (*tracer).toolCalled,
	report.StepRouted:   (*tracer).routed,
	report.GateDecided:  (*tracer).decided,
}

// runStarted takes the input of the root run.
func (t *tracer) runStarted(ev *report.Event) error {
	x, ok := ev.Fact.(journal.RunStarted)
	if !ok { // a child run, whose context is its own
		return nil
	}
	raw, err := t.value(x.Input)
	if err != nil {
		return err
	}
	_ = json.Unmarshal(raw, &t.input) // other inputs have no names
	return t.reset(x.Vars)
}

// stateEdited sets a variable that a person has changed.
func (t *tracer) stateEdited(ev *report.Event) error {
	x := ev.Fact.(journal.StateEdited)
	return t.set(x.Path, x.Value, "")
}

// reset sets the context to variables, which the input of the run overrides.
func (t *tracer) reset(vars map[string]journal.Value) error {
	clear(t.context)
	for path, v := range vars {
		if err := t.set(path, v, ""); err != nil {
			return err
		}
	}
	maps.Copy(t.context, t.input)
	return nil
}

// set stores a variable of the context.
func (t *tracer) set(path string, v journal.Value, part string) error {
	name, ok := strings.CutPrefix(path, "context.")
	if !ok {
		return nil
	}
	raw, err := t.value(v)
	if err != nil {
		return err
	}
	if part != "" {
		var parts map[string]json.RawMessage
		if json.Unmarshal(raw, &parts) != nil || parts[part] == nil {
			return nil
		}
		raw = parts[part]
	}
	if agent, ok := strings.CutPrefix(name, "__tools."); ok {
		name, raw = "__tools", overlay(t.context["__tools"], agent, raw)
	}
	t.context[name] = raw
	return nil
}

// overlay adds results of an agent's tools to those of all agents.
func overlay(all json.RawMessage, agent string, fresh json.RawMessage) json.RawMessage {
	agents := map[string]map[string]json.RawMessage{}
	var tools map[string]json.RawMessage
	_, _ = json.Unmarshal(all, &agents), json.Unmarshal(fresh, &tools) // other types add nothing
	if agents[agent] == nil {
		agents[agent] = map[string]json.RawMessage{}
	}
	maps.Copy(agents[agent], tools)
	raw, err := json.Marshal(agents)
	if err != nil {
		return all
	}
	return raw
}

// taskStarted opens an entry, or another attempt of it.
func (t *tracer) taskStarted(ev *report.Event) error {
	step := ev.Work.Step
	if last := t.last(step); last != nil && last.Status == "running" {
		if n := len(last.Attempts); n > 0 {
			last.Attempts[n-1].BackoffMS = int64(ev.At - t.ended)
		}
		return nil
	}
	if n := len(t.entries); n > 0 && t.entries[n-1].Status == "error" {
		t.entries[n-1].NextAgent = step // its fallback
	}
	t.complete()
	entry := &Entry{
		Step: len(t.entries) + 1, AgentID: step, InputContext: maps.Clone(t.context), StartedAt: timestamp(ev.At),
		Status: "running", Attempts: []Attempt{}, Rules: []Rule{},
	}
	if a := t.p.Agent(step); a != nil {
		entry.Role = a.Role
	}
	if s := t.p.Step(ir.Body, step); s != nil {
		entry.AgentName = s.Description
		if s.Retry != nil {
			entry.RetryPolicy = &Policy{MaxAttempts: s.Retry.MaxAttempts, RetryOn: s.Retry.On}
		}
	}
	t.entries = append(t.entries, entry)
	return nil
}

// last returns the newest entry if it is of the given agent, otherwise nil.
func (t *tracer) last(agent string) *Entry {
	if n := len(t.entries); n > 0 && t.entries[n-1].AgentID == agent {
		return t.entries[n-1]
	}
	return nil
}

// modelReplied adds a reply to the attempt that it belongs to.
func (t *tracer) modelReplied(ev *report.Event) error {
	entry := t.last(ev.Work.Step)
	if entry == nil {
		return nil
	}
	if ev.Note.Unreadable {
		return fmt.Errorf("the reply to step %q cannot be read", ev.Work.Step)
	}
	reply := report.Body[journal.Reply](ev.Note)
	attempt := t.attempt(entry, ev.Work.Attempt)
	attempt.Model, attempt.Offline, attempt.RawOutput = reply.Model, reply.Offline, ""
	for _, b := range reply.Blocks {
		if b.Type == journal.BlockText {
			attempt.RawOutput += b.Text
		}
	}
	entry.RawOutput = attempt.RawOutput
	return nil
}

// toolCalled adds a tool call to the entry of its step.
func (t *tracer) toolCalled(ev *report.Event) error {
	entry := t.last(ev.Work.Step)
	if entry == nil {
		return nil
	}
	if ev.Note.Unreadable {
		return fmt.Errorf("a tool call of step %q cannot be read", ev.Work.Step)
	}
	use := report.Body[journal.ToolUse](ev.Note)
	entry.Directives = append(entry.Directives, Directive{Tool: use.Name, Input: use.Input})
	return nil
}

// attempt returns an attempt of an entry, and adds the ones up to it that are missing.
func (t *tracer) attempt(entry *Entry, n int) *Attempt {
	for len(entry.Attempts) <= n {
		entry.Attempts = append(entry.Attempts, Attempt{Attempt: len(entry.Attempts) + 1, Status: "running"})
	}
	return &entry.Attempts[n]
}

// taskFinished sets how an attempt ended.
func (t *tracer) taskFinished(ev *report.Event) error {
	entry := t.last(ev.Work.Step)
	if entry == nil {
		return nil
	}
	step := t.p.Step(ir.Body, ev.Work.Step)
	attempt := t.attempt(entry, ev.Work.Attempt)
	entry.AttemptCount = len(entry.Attempts)
	t.ended = ev.At
	if ev.Outcome != ir.OK {
		attempt.Status, attempt.Error, attempt.ErrorCode, attempt.ErrorClass = "error", ev.Error, string(ev.Class),
			"hard"
		if step != nil && step.Retry != nil && slices.Contains(step.Retry.On, ev.Class) {
			attempt.ErrorClass = "transient"
		}
		if attempt.ShouldRetry = !ev.Final(); attempt.ShouldRetry {
			attempt.RetryReason = fmt.Sprintf("%s can be tried again", ev.Class)
			return nil
		}
		entry.Status, entry.Error, entry.FinishedAt = "error", ev.Error, timestamp(ev.At)
		return nil
	}
	attempt.Status, entry.Status, entry.FinishedAt = "success", "success", timestamp(ev.At)
	for _, w := range ev.Writes {
		if err := t.set(w.Path, ev.Value, w.Part); err != nil {
			return err
		}
	}
	raw, err := t.value(ev.Value)
	if err != nil {
		return err
	}
	var parts struct {
		Output json.RawMessage `json:"output"`
		Tools  json.RawMessage `json:"tools"`
	}
	if json.Unmarshal(raw, &parts) == nil {
		entry.ParsedOutput, entry.Tools = parts.Output, parts.Tools
	}
	t.unconditional(entry, step, ir.OK)
	return nil
}

// unconditional adds the first edge of a step for an outcome if it has no condition: the journal records only the
// conditions that were evaluated.
func (t *tracer) unconditional(entry *Entry, s *ir.Step, outcome ir.Outcome) {
	if s == nil {
		return
	}
	for i := range s.Next {
		if slices.Contains(s.Next[i].On, outcome) {
			if s.Next[i].When == nil {
				t.rule(entry, &s.Next[i], true)
			}
			return
		}
	}
}

// routed adds the rules that were evaluated after a step.
func (t *tracer) routed(ev *report.Event) error {
	s := t.p.Step(ir.Body, ev.Work.Step)
	if len(t.entries) == 0 || s == nil {
		return nil
	}
	entry, tried := t.entries[len(t.entries)-1], ev.Fact.(journal.Routed).Tried
	last := -1
	for _, one := range tried {
		if one.Of == "" && one.Edge < len(s.Next) {
			t.rule(entry, &s.Next[one.Edge], one.Held)
			last = one.Edge
		}
	}
	if last < 0 || last+1 >= len(s.Next) || tried[len(tried)-1].Held {
		return nil
	}
	if next := &s.Next[last+1]; next.When == nil && next.Label != "" {
		t.rule(entry, next, true) // it has no condition
	}
	return nil
}

// complete adds the rules after the one that matched to the newest entry. The engine does not evaluate them, but the
// reference program does.
func (t *tracer) complete() {
	if len(t.entries) == 0 || t.entries[len(t.entries)-1].Status != "success" {
		return
	}
	entry := t.entries[len(t.entries)-1]
	s := t.p.Step(ir.Body, entry.AgentID)
	if s == nil {
		return
	}
	env := expr.Values{"agentId": entry.AgentID}
	for name, part := range map[string]any{"context": t.context, "input": t.input, "output": entry.ParsedOutput} {
		var value any
		if raw, err := json.Marshal(part); err == nil && json.Unmarshal(raw, &value) == nil {
			env[name] = value
		}
	}
	selected, next := entry.SelectedRule, entry.NextAgent
	for i := range s.Next {
		e := &s.Next[i]
		if !slices.Contains(e.On, ir.OK) ||
			slices.ContainsFunc(entry.Rules, func(r Rule) bool { return r.ID == e.Label }) {
			continue
		}
		holds := e.When == nil
		if !holds {
			result, err := e.When.Bool(env)
			holds = err == nil && result
		}
		t.rule(entry, e, holds)
	}
	entry.SelectedRule, entry.NextAgent = selected, next
}

// rule adds one rule and whether it held. A step that the translation added between two agents is left out.
func (t *tracer) rule(entry *Entry, e *ir.Edge, held bool) {
	one := Rule{ID: e.Label, From: entry.AgentID, To: e.To.Step, Condition: "always", Result: held}
	next := one.To
	if s := t.p.Step(ir.Body, one.To); s != nil && s.Implied {
		if _, end := s.Action.(ir.End); end {
			return // no rule held
		}
		one.To, next = s.Next[0].To.Step, "" // a person decides first
	}
	if e.When != nil {
		one.Condition = e.When.Text
	}
	entry.Rules = append(entry.Rules, one)
	if held {
		entry.SelectedRule, entry.NextAgent = e.Label, next
	}
}

// decided applies the decision of a person on the last rule that was evaluated.
func (t *tracer) decided(ev *report.Event) error {
	s := t.p.Step(ir.Body, ev.Work.Step)
	if s == nil || !s.Implied || len(t.entries) == 0 {
		return nil
	}
	entry := t.entries[len(t.entries)-1]
	if ev.Outcome == ir.OK {
		entry.NextAgent = s.Next[0].To.Step
		return nil
	}
	entry.SelectedRule = ""
	if n := len(entry.Rules); n > 0 {
		entry.Rules[n-1].Result = false
	}
	t.unconditional(entry, s, ir.Rejected)
	return nil
}

// timestamp returns a time in the format of all records.
func timestamp(at journal.Millis) string { return string(report.AppendTime(nil, at)) }
