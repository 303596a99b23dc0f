package audit

import (
	"encoding/json"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/report"
)

// Who decides.
const (
	person  = "person"
	agent   = "agent"
	program = "program"
	clock   = "clock"
)

// gateOpened tells that somebody is asked, and exactly what they are shown.
func (p *projector) gateOpened(e *journal.Event, step *report.Step, x *journal.GateOpened) error {
	v := p.visit(step)
	v.opened, v.at = x, e.At
	event := map[string]string{
		report.GatePerson: GateOpened, report.GateCall: GateOpened, report.GateEvent: WaitpointOpened, report.GateDoubt: DoubtOpened,
	}[x.Kind]
	return p.write(step.Run, step, event, e.At, func(f *fields) error {
		if g, ok := gateOf(step); ok && x.Kind != report.GateDoubt {
			f.text("waitpoint", g.Name)
			f.text("on_timeout", string(g.OnTimeout))
		}
		f.text("waiting_for", x.Event)
		if x.Due != 0 {
			f.text("due", x.Due.Time().Format(report.TimeFormat))
		}
		switch x.Kind {
		case report.GatePerson:
			f.text("method", plan.MethodPerson)
			question(f, step)
		case report.GateCall:
			f.text("method", plan.MethodPerson)
			f.text("question", callQuestion)
			f.text("call", x.Call)
		}
		f.text("digest", x.Digest)
		return p.shown(f, x)
	})
}

// question is what the author of the workflow wants to be decided.
func question(f *fields, s *report.Step) {
	if s.Info != nil {
		f.text("question", s.Info.Step.Description)
	}
}

// shown is what a person saw, in the form whose canonical JSON has the digest.
func (p *projector) shown(f *fields, x *journal.GateOpened) error {
	if x.Digest == "" { // nobody decides on content
		return nil
	}
	reads := make(map[string]json.RawMessage, len(x.Shows))
	for path, v := range x.Shows {
		raw, err := p.stream.Value(v)
		if err != nil {
			return err
		}
		reads[path] = raw
	}
	inner := fields{rules: f.rules}
	if x.Kind == report.GateCall { // a step may ask about several calls
		inner.text("gate", x.Call)
	} else {
		inner.text("gate", journal.Work{Place: x.Place}.Key())
	}
	inner.text("kind", x.Kind)
	inner.contents("reads", reads, shownBytes)
	inner.text("run", string(p.stream.Run))
	f.object("shown", &inner)
	return nil
}

// callQuestion is what a person is asked before a call of a tool.
const callQuestion = "May this call of a tool be made?"

// callDecided tells what a person said to a call of a tool. The step goes on.
func (p *projector) callDecided(e *journal.Event, step *report.Step, v *visit, x *journal.GateDecided) error {
	return p.write(step.Run, step, GateDecision, e.At, func(f *fields) error {
		f.text("question", callQuestion)
		answer := report.OutcomeRejected
		if x.Reason == plan.ReasonApproved {
			answer = report.OutcomeOK
		}
		f.text("result", result(answer, x.Method))
		answered(f, x)
		f.text("call", v.opened.Call)
		f.number("waited_ms", int64(e.At-v.at))
		return p.shown(f, v.opened)
	})
}

// answered tells how a question was answered, by whom, and why.
func answered(f *fields, x *journal.GateDecided) {
	f.text("method", x.Method)
	f.says("evidence", x.Note)
	f.text("digest", x.Digest)
	if x.Method == plan.MethodTimeout {
		f.text("actor", clock)
		f.text("actor_kind", clock)
	} else {
		f.actor(x.By)
		f.text("actor_kind", person)
	}
}

// gateDecision tells who let a gate pass, or did not, how, why and on seeing
// what. It comes before the completion of the gate's step.
func (p *projector) gateDecision(e *journal.Event, m *report.Moment, v *visit) error {
	switch x := e.Fact.(type) {
	case journal.GateDecided:
		switch {
		case v.opened != nil && v.opened.Kind == report.GateDoubt:
			return p.doubtDecided(e, m.Step, &x)
		case v.opened != nil && v.opened.Kind == report.GateEvent:
			return p.waitpointPassed(e, m, v, &x)
		}
		return p.decided(e, m, v, &x)
	case journal.TaskEnded:
		if x.Part == plan.PartVerdict && (x.Outcome == report.OutcomeOK || x.Outcome == report.OutcomeRejected) {
			return p.judged(e, m, v, &x)
		}
	}
	return nil
}

func (p *projector) decided(e *journal.Event, m *report.Moment, v *visit, x *journal.GateDecided) error {
	return p.write(m.Run, m.Step, GateDecision, e.At, func(f *fields) error {
		question(f, m.Step)
		f.text("result", result(x.Outcome, x.Method))
		f.text("event", x.Event)
		answered(f, x)
		code, own := report.ReasonCode(m, x.Class, x.Reason)
		f.text("reason_code", code)
		f.text("declared_reason_code", own)
		if err := p.review(f, x.Value); err != nil {
			return err
		}
		if v.opened == nil {
			return nil
		}
		f.number("waited_ms", int64(e.At-v.at))
		seen := *v.opened
		if len(x.Shows) > 0 {
			seen.Shows = x.Shows
		}
		return p.shown(f, &seen)
	})
}

// result is the answer in the specification's words.
func result(outcome, method string) string {
	switch {
	case method == plan.MethodTimeout:
		return "timeout"
	case outcome == report.OutcomeOK:
		return "approved"
	}
	return outcome
}

// review adds what came with a verdict: the data of an event, a critic's words.
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

// judged is the decision of a critic or of a program.
func (p *projector) judged(e *journal.Event, m *report.Moment, v *visit, x *journal.TaskEnded) error {
	raw, err := p.stream.Value(x.Value)
	if err != nil {
		return err
	}
	var value struct {
		Method   string `json:"method"`
		Actor    string `json:"actor"`
		Evidence string `json:"evidence"`
	}
	if err := json.Unmarshal(raw, &value); err != nil {
		return err
	}
	return p.write(m.Run, m.Step, GateDecision, e.At, func(f *fields) error {
		question(f, m.Step)
		f.text("result", result(x.Outcome, value.Method))
		f.text("method", value.Method)
		f.text("actor", value.Actor)
		if value.Method == plan.MethodCritic {
			f.text("actor_kind", agent)
		} else {
			f.text("actor_kind", program)
		}
		f.says("evidence", value.Evidence)
		code, own := report.ReasonCode(m, x.Class, "")
		f.text("reason_code", code)
		f.text("declared_reason_code", own)
		f.usage("", m.Step.Used)
		if len(v.prompt) > 0 {
			f.value("shown", v.prompt, shownBytes)
		}
		return p.review(f, x.Value)
	})
}

// waitpointPassed tells that the event came which a waitpoint waited for, or
// that it did not.
func (p *projector) waitpointPassed(e *journal.Event, m *report.Moment, v *visit, x *journal.GateDecided) error {
	if x.Method == plan.MethodTimeout {
		return nil // waitpoint_timeout has told it
	}
	return p.write(m.Run, m.Step, WaitpointPassed, e.At, func(f *fields) error {
		if g, ok := gateOf(m.Step); ok {
			f.text("waitpoint", g.Name)
		}
		f.text("event", x.Event)
		f.actor(x.By)
		f.number("waited_ms", int64(e.At-v.at))
		return p.value(f, "data", x.Value, someBytes)
	})
}

// doubtDecided tells what a person said about a task that nobody knew the end of.
func (p *projector) doubtDecided(e *journal.Event, step *report.Step, x *journal.GateDecided) error {
	return p.write(step.Run, step, DoubtDecided, e.At, func(f *fields) error {
		f.text("result", x.Outcome)
		f.text("method", x.Method)
		f.actor(x.By)
		f.says("evidence", x.Note)
		return nil
	})
}
