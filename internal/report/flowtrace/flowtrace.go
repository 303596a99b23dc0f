package flowtrace

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
)

// Entry is one agent's turn.
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

// Attempt is one try of it.
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
	// Offline is "simulated" or "scripted" when no real model answered.
	Offline string `json:"offline,omitempty"`
}

// Policy is how an agent is asked again.
type Policy struct {
	MaxAttempts int      `json:"maxAttempts"`
	RetryOn     []string `json:"retryOn"`
}

// Directive is a tool that was called.
type Directive struct {
	Tool  string          `json:"tool"`
	Input json.RawMessage `json:"parameters"`
}

// Rule is a rule that was looked at, and what it came to.
type Rule struct {
	ID        string `json:"id"`
	From      string `json:"from"`
	To        string `json:"to,omitempty"`
	Condition string `json:"condition"`
	Result    bool   `json:"result"`
}

// Document is the whole of it. value reads what is kept by hash.
func Document(p *ir.Program, events iter.Seq2[journal.Event, error], value func(journal.Value) (json.RawMessage, error)) ([]byte, error) {
	t := &teller{p: p, value: value, context: map[string]json.RawMessage{}}
	for e, err := range events {
		if err != nil {
			return nil, err
		}
		if err := t.take(e); err != nil {
			return nil, err
		}
	}
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

// teller folds events into entries.
type teller struct {
	p       *ir.Program
	value   func(journal.Value) (json.RawMessage, error)
	input   map[string]json.RawMessage
	context map[string]json.RawMessage
	entries []*Entry
	ended   journal.Millis // of the attempt that is tried again
}

func (t *teller) take(e journal.Event) error {
	switch x := e.Fact.(type) {
	case journal.RunStarted:
		raw, err := t.value(x.Input)
		if err != nil {
			return err
		}
		_ = json.Unmarshal(raw, &t.input) // what is no object has no names
		return t.reset(x.Vars)
	case journal.Rewound:
		return t.reset(x.Vars)
	case journal.StateEdited:
		return t.set(x.Path, x.Value, "")
	case journal.TaskStarted:
		t.begin(e.At, x)
	case journal.TaskNoted:
		return t.noted(x)
	case journal.TaskEnded:
		return t.end(e.At, x)
	case journal.Routed:
		t.routed(x.Step, x.Tried)
	case journal.GateDecided:
		t.decided(x)
	}
	return nil
}

// reset begins the context anew; what the run was given comes first.
func (t *teller) reset(vars map[string]journal.Value) error {
	clear(t.context)
	for path, v := range vars {
		if err := t.set(path, v, ""); err != nil {
			return err
		}
	}
	maps.Copy(t.context, t.input)
	return nil
}

// set keeps a variable of the context.
func (t *teller) set(path string, v journal.Value, part string) error {
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
		name, raw = "__tools", laidOver(t.context["__tools"], agent, raw)
	}
	t.context[name] = raw
	return nil
}

// laidOver adds results of an agent's tools to those of all agents.
func laidOver(all json.RawMessage, agent string, fresh json.RawMessage) json.RawMessage {
	agents := map[string]map[string]json.RawMessage{}
	var tools map[string]json.RawMessage
	_, _ = json.Unmarshal(all, &agents), json.Unmarshal(fresh, &tools) // both are ours; what is no object adds nothing
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

// begin opens an entry, or another attempt of it.
func (t *teller) begin(at journal.Millis, x journal.TaskStarted) {
	if last := t.last(x.Step); last != nil && last.Status == "running" {
		if n := len(last.Attempts); n > 0 {
			last.Attempts[n-1].BackoffMS = int64(at - t.ended)
		}
		return
	}
	if n := len(t.entries); n > 0 && t.entries[n-1].Status == "error" {
		t.entries[n-1].NextAgent = x.Step // stands in
	}
	entry := &Entry{
		Step: len(t.entries) + 1, AgentID: x.Step, InputContext: maps.Clone(t.context), StartedAt: moment(at), Status: "running",
		Attempts: []Attempt{}, Rules: []Rule{},
	}
	if a := t.p.Agent(x.Step); a != nil {
		entry.Role = a.Role
	}
	if s := t.p.Step(ir.Body, x.Step); s != nil {
		entry.AgentName = s.Description
		if s.Retry != nil {
			entry.RetryPolicy = &Policy{MaxAttempts: s.Retry.MaxAttempts, RetryOn: s.Retry.On}
		}
	}
	t.entries = append(t.entries, entry)
}

// last is the newest entry, if it is of that agent.
func (t *teller) last(agent string) *Entry {
	if n := len(t.entries); n > 0 && t.entries[n-1].AgentID == agent {
		return t.entries[n-1]
	}
	return nil
}

func (t *teller) noted(x journal.TaskNoted) error {
	entry := t.last(x.Step)
	if entry == nil {
		return nil
	}
	switch x.Kind {
	case journal.NoteReply:
		var reply journal.Reply
		if err := json.Unmarshal(x.Data, &reply); err != nil {
			return err
		}
		attempt := t.attempt(entry, x.Attempt)
		attempt.Model, attempt.Offline, attempt.RawOutput = reply.Model, reply.Offline, ""
		for _, b := range reply.Blocks {
			if b.Type == journal.BlockText {
				attempt.RawOutput += b.Text
			}
		}
		entry.RawOutput = attempt.RawOutput
	case journal.NoteToolCall:
		var use journal.ToolUse
		if err := json.Unmarshal(x.Data, &use); err != nil {
			return err
		}
		entry.Directives = append(entry.Directives, Directive{Tool: use.Name, Input: use.Input})
	}
	return nil
}

func (t *teller) attempt(entry *Entry, n int) *Attempt {
	for len(entry.Attempts) <= n {
		entry.Attempts = append(entry.Attempts, Attempt{Attempt: len(entry.Attempts) + 1, Status: "running"})
	}
	return &entry.Attempts[n]
}

func (t *teller) end(at journal.Millis, x journal.TaskEnded) error {
	entry := t.last(x.Step)
	if entry == nil {
		return nil
	}
	attempt := t.attempt(entry, x.Attempt)
	entry.AttemptCount = len(entry.Attempts)
	t.ended = at
	if x.Outcome != string(ir.OK) {
		attempt.Status, attempt.Error, attempt.ErrorCode, attempt.ErrorClass = "error", x.Error, x.Class, "hard"
		if s := t.p.Step(ir.Body, x.Step); s != nil && s.Retry != nil {
			for _, class := range s.Retry.On {
				if class == x.Class {
					attempt.ErrorClass = "transient"
				}
			}
		}
		if attempt.ShouldRetry = !x.Final; attempt.ShouldRetry {
			attempt.RetryReason = fmt.Sprintf("%s can be tried again", x.Class)
			return nil
		}
		entry.Status, entry.Error, entry.FinishedAt = "error", x.Error, moment(at)
		return nil
	}
	attempt.Status, entry.Status, entry.FinishedAt = "success", "success", moment(at)
	for _, w := range x.Writes {
		if err := t.set(w.Path, x.Value, w.Part); err != nil {
			return err
		}
	}
	raw, err := t.value(x.Value)
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
	t.unconditional(entry, t.p.Step(ir.Body, x.Step), ir.OK)
	return nil
}

// unconditional is the way on of a step whose first rule always holds: no
// condition is looked at, so none is recorded.
func (t *teller) unconditional(entry *Entry, s *ir.Step, outcome ir.Outcome) {
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

func (t *teller) routed(step string, tried []journal.Tried) {
	if len(t.entries) == 0 {
		return
	}
	entry := t.entries[len(t.entries)-1]
	s := t.p.Step(ir.Body, step)
	if s == nil {
		return
	}
	last := -1
	for _, one := range tried {
		if one.Of == "" && one.Edge < len(s.Next) {
			t.rule(entry, &s.Next[one.Edge], one.Held)
			last = one.Edge
		}
	}
	if n := len(tried); n > 0 && !tried[n-1].Held && last >= 0 && last+1 < len(s.Next) && s.Next[last+1].When == nil && s.Next[last+1].Label != "" {
		t.rule(entry, &s.Next[last+1], true) // the one that always holds
	}
}

func (t *teller) rule(entry *Entry, e *ir.Edge, held bool) {
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

// decided is a rule that a person owns: it was the last that was looked at.
func (t *teller) decided(x journal.GateDecided) {
	s := t.p.Step(ir.Body, x.Step)
	if s == nil || !s.Implied || len(t.entries) == 0 {
		return
	}
	entry := t.entries[len(t.entries)-1]
	if x.Outcome == string(ir.OK) {
		entry.NextAgent = s.Next[0].To.Step
		return
	}
	entry.SelectedRule = ""
	if n := len(entry.Rules); n > 0 {
		entry.Rules[n-1].Result = false
	}
	t.unconditional(entry, s, ir.Rejected)
}

func moment(at journal.Millis) string {
	return time.UnixMilli(int64(at)).UTC().Format("2006-01-02T15:04:05.000Z")
}
