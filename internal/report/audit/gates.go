package audit

import (
	"cmp"
	"encoding/json"

	"github.com/espalier-run/espalier/internal/auditevent"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
)

// Kinds of actors.
const (
	person  = "person"
	agent   = "agent"
	program = "program"
	clock   = "clock"
)

// gateOpenedNames are the records of the kinds of gates.
var gateOpenedNames = map[journal.GateKind]string{
	journal.GatePerson: auditevent.GateOpened, journal.GateToolCall: auditevent.GateOpened,
	journal.GateEvent: auditevent.WaitpointOpened, journal.GateOutcome: auditevent.UnknownOutcomeOpened,
}

// gateOpenedName returns the record of a gate that opens.
func gateOpenedName(ev *report.Event) string { return gateOpenedNames[ev.Step.Gate.Kind] }

// gateOpened records a question, and exactly what the person who decides is shown.
func (p *projector) gateOpened(ev *report.Event, f *fields) error {
	x := &ev.Step.Gate.GateOpened
	f.flag("not_a_step", !isStep(ev))
	if g, ok := gateOf(ev.Step); ok && x.Kind != journal.GateOutcome {
		f.text("waitpoint", g.Name)
		f.text("on_timeout", string(g.OnTimeout))
		approvers(f, g.Approvers)
	}
	f.text("waiting_for", x.Event)
	if x.Due != 0 {
		f.text("due", x.Due.Time().Format(report.TimeFormat))
	}
	switch x.Kind {
	case journal.GatePerson:
		f.text("method", string(journal.MethodPerson))
		question(f, ev.Step)
	case journal.GateToolCall:
		f.text("method", string(journal.MethodPerson))
		f.text("question", callQuestion)
		f.text("call", x.Call)
	}
	f.text("digest", x.Digest)
	return p.shown(f, x)
}

// approvers adds who may decide.
func approvers(f *fields, a *ir.Approvers) {
	if a == nil {
		return
	}
	f.texts("approver_roles", a.Roles)
	f.number("approvals_required", int64(a.Required()))
	f.flag("four_eyes", a.FourEyes)
	if a.EscalateAfter > 0 {
		f.number("escalates_after_ms", int64(a.EscalateAfter))
		f.texts("escalates_to", a.EscalateTo)
	}
}

// gateApproved records an approval of a gate that needs more of them.
func (p *projector) gateApproved(ev *report.Event, f *fields) error {
	x := ev.Fact.(journal.GateApproved)
	f.flag("not_a_step", !isStep(ev))
	f.text("method", string(x.Method))
	f.freeText("evidence", x.Note)
	f.text("digest", x.Digest)
	f.text("actor_kind", kindOf(x.Method))
	f.texts("actor_roles", x.Roles)
	f.text("event", x.Event)
	question(f, ev.Step)
	return p.waited(ev, f, x.Shows)
}

// waited adds how long a gate was open, and what it shows to the person who decides; others are what it shows by then.
func (p *projector) waited(ev *report.Event, f *fields, others map[string]journal.Value) error {
	gate := ev.Step.Gate
	if gate == nil {
		return nil
	}
	f.number("waited_ms", int64(ev.At-gate.At))
	seen := gate.GateOpened
	if len(others) > 0 {
		seen.Shows = others
	}
	return p.shown(f, &seen)
}

// gateEscalated records that more people may decide.
func gateEscalated(_ *projector, ev *report.Event, f *fields) error {
	f.flag("not_a_step", !isStep(ev))
	if g, ok := gateOf(ev.Step); ok && g.Approvers != nil {
		f.text("waitpoint", g.Name)
		f.texts("escalates_to", g.Approvers.EscalateTo)
	}
	return nil
}

// gateOf returns the gate of a step as its author wrote it. It returns false for a gate that the author did not write,
// such as one about a tool call, and if the definition is not known.
func gateOf(s *report.Step) (ir.Gate, bool) {
	if s.Info == nil {
		return ir.Gate{}, false
	}
	g, ok := s.Info.Step.Action.(ir.Gate)
	return g, ok
}

// gateExpired records that the time of a gate is over, and what then happens.
func gateExpired(_ *projector, ev *report.Event, f *fields) error {
	f.flag("not_a_step", !isStep(ev))
	f.text("reason_code", report.ReasonTimeout)
	if g, ok := gateOf(ev.Step); ok {
		f.text("waitpoint", g.Name)
		f.text("waiting_for", g.Event)
		f.text("on_timeout", string(g.OnTimeout))
	}
	return nil
}

// question adds what the author of the workflow wants to be decided.
func question(f *fields, s *report.Step) {
	if s.Info != nil {
		f.text("question", s.Info.Step.Description)
	}
}

// shown adds what a person saw, in the form whose canonical JSON has the digest.
func (p *projector) shown(f *fields, x *journal.GateOpened) error {
	if x.Digest == "" { // the decision is not about content
		return nil
	}
	reads := newFields(f.rules)
	for path, v := range x.Shows {
		raw, err := p.stream.Value(v)
		if err != nil {
			return err
		}
		reads.value(path, raw, shownBytes)
	}
	inner := newFields(f.rules)
	if x.Kind == journal.GateToolCall { // a step may ask about several calls
		inner.text("gate", x.Call)
	} else {
		inner.text("gate", journal.TaskID{Place: x.Place}.Key())
	}
	inner.text("kind", string(x.Kind))
	inner.object("reads", reads)
	inner.text("run", string(p.stream.Run))
	f.object("shown", inner)
	return nil
}

// callQuestion is the question before a tool call that needs approval.
const callQuestion = "May this call of a tool be made?"

// gateDecidedName returns the record of a decision. The timeout of a waitpoint
// has a record of its own.
func gateDecidedName(ev *report.Event) string {
	switch gate := ev.Step.Gate; {
	case gate == nil && ev.Outcome == journal.OutcomeRerun, gate != nil && gate.Kind == journal.GateOutcome:
		return auditevent.UnknownOutcomeDecided
	case gate != nil && gate.Kind == journal.GateEvent:
		if ev.Verdict().Method == journal.MethodTimeout {
			return ""
		}
		return auditevent.WaitpointPassed
	}
	return auditevent.GateDecision
}

// gateDecided records who decided, how, why and on what evidence. It precedes
// the completion of the gate's step.
func (p *projector) gateDecided(ev *report.Event, f *fields) error {
	x := ev.Fact.(journal.GateDecided)
	f.flag("not_a_step", !isStep(ev))
	switch gateDecidedName(ev) {
	case auditevent.UnknownOutcomeDecided:
		f.text("result", string(x.Outcome))
		f.text("method", string(x.Method))
		f.freeText("evidence", x.Note)
		return nil
	case auditevent.WaitpointPassed:
		if g, ok := gateOf(ev.Step); ok {
			f.text("waitpoint", g.Name)
		}
		f.text("event", x.Event)
		f.number("waited_ms", int64(ev.At-ev.Step.Gate.At))
		return p.value(f, "data", x.Value, someBytes)
	}
	answered(f, &x)
	f.text("result", result(ev.Verdict().Answer, x.Outcome))
	gate := ev.Step.Gate
	if gate != nil && gate.Kind == journal.GateToolCall && x.Outcome == journal.OutcomeRerun {
		f.text("question", callQuestion)
		f.text("call", gate.Call)
	} else {
		f.text("event", x.Event)
		p.verdict(ev, f)
		if err := p.review(f, x.Value); err != nil {
			return err
		}
	}
	return p.waited(ev, f, x.Shows)
}

// verdict adds the question and the reason code of a decision that ends its step.
func (p *projector) verdict(ev *report.Event, f *fields) {
	question(f, ev.Step)
	code, declared := ev.ReasonCode()
	f.text("reason_code", code)
	f.text("declared_reason_code", declared)
}

// answered adds how a question was answered, by whom, and why.
func answered(f *fields, x *journal.GateDecided) {
	f.text("method", string(x.Method))
	f.freeText("evidence", x.Note)
	f.text("digest", x.Digest)
	f.texts("actor_roles", x.Roles)
	if x.Method == journal.MethodTimeout {
		f.text("actor", clock)
	}
	f.text("actor_kind", kindOf(x.Method))
}

// kindOf returns what has decided by a method.
func kindOf(method journal.Method) string {
	switch method {
	case journal.MethodTimeout:
		return clock
	case journal.MethodAutoApprove:
		return program
	}
	return person
}

// result returns the answer in the specification's words.
func result(answer report.Answer, outcome journal.Outcome) string {
	if answer == report.TimedOut {
		return "timeout"
	}
	return cmp.Or(string(answer), string(outcome))
}

// review adds what came with a verdict: the data of an event, or a critic's review.
func (p *projector) review(f *fields, v journal.Value) error {
	raw, err := p.stream.Value(v)
	if err != nil {
		return err
	}
	var value struct {
		Review json.RawMessage `json:"review"`
	}
	if json.Unmarshal(raw, &value) == nil {
		f.value("review", value.Review, shownBytes)
	}
	return nil
}

// judgements are the answers of agents and programs.
var judgements = map[journal.Outcome]report.Answer{journal.OutcomeOK: report.Approved}

// gateJudged records the decision of an agent or of a program.
func (p *projector) gateJudged(ev *report.Event, f *fields) error {
	raw, err := p.stream.Value(ev.Value)
	if err != nil {
		return err
	}
	var value struct {
		Method   journal.Method `json:"method"`
		Actor    string         `json:"actor"`
		Evidence string         `json:"evidence"`
	}
	if err := json.Unmarshal(raw, &value); err != nil {
		return err
	}
	f.text("result", result(judgements[ev.Outcome], ev.Outcome))
	f.text("method", string(value.Method))
	f.text("actor", value.Actor)
	if value.Method == journal.MethodCritic {
		f.text("actor_kind", agent)
	} else {
		f.text("actor_kind", program)
	}
	f.freeText("evidence", value.Evidence)
	p.verdict(ev, f)
	f.usage("", ev.Step.Used)
	if prompt := visitOf(ev.Step).Prompt; len(prompt) > 0 {
		f.value("shown", prompt, shownBytes)
	}
	return p.review(f, ev.Value)
}
