package agentflow

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/auditevent"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/lazyregexp"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
)

// runtime compiles the runtime block. It runs after connect, because it changes the edges of finished steps.
func (l *lowering) runtime() {
	v := l.doc.runtime
	if v == nil {
		return
	}
	l.p.NoResume = !v.flag("resume_supported", true)
	l.p.MayIntervene = v.flag("human_in_the_loop", false)
	l.checkpoints(v)
	first := map[string]source.Span{}
	for _, w := range v.list("waitpoints") {
		l.waitpoint(w, first)
	}
	if v.flag("approval_required", false) {
		l.approveStart(v)
	} else if v.has("approvers") {
		found := l.out.Warnf(CodeApprovers, v.key("approvers"),
			"Add \"approval_required: true\", or move the approvers to a gate.",
			"\"approvers\" has no effect: the start of a run needs no approval.")
		if at := v.word("approval_required").Span; v.has("approval_required") {
			found.WriteValue(at, "true")
		} else if v.from.Key("approval_required") == nil {
			found.AddEntry(v.entry("approvers"), "approval_required", "true")
		}
	}
}

// checkpoints parses intervals such as 3_steps (F36).
func (l *lowering) checkpoints(v *values) {
	always := v.flag("checkpoint_after_each_step", false)
	if always {
		l.p.CheckpointEvery = 1
	}
	for _, c := range v.list("checkpoints") {
		every := c.word("every")
		if every.Value == "" {
			continue
		}
		count, isSteps := strings.CutSuffix(every.Value, "_steps")
		n, err := strconv.ParseUint(count, 10, 31)
		switch {
		case !isSteps || err != nil || n == 0:
			l.out.Errorf(CodeInterval, every.Span, "Use a number and _steps, such as \"3_steps\".",
				"%q is not a valid checkpoint interval.", every.Value)
		case always:
			found := l.out.Notef(CodeInterval, every.Span, "Remove it, or \"checkpoint_after_each_step\".",
				"The interval has no effect: there is a checkpoint after each step.")
			if len(v.list("checkpoints")) == 1 {
				found.RemoveEntry("checkpoints", v.entry("checkpoints"))
			}
			found.RemoveEntry("checkpoint_after_each_step", v.entry("checkpoint_after_each_step"))
		case l.p.CheckpointEvery == 0 || int(n) < l.p.CheckpointEvery:
			l.p.CheckpointEvery = int(n)
		}
	}
}

// waitpoint makes the run wait after a step. If the step is a person's gate, which waits
// already, the waitpoint adds an event and a timeout to it (F19).
func (l *lowering) waitpoint(w *values, first map[string]source.Span) {
	id, after := w.word("id"), w.word("after_step")
	if id.Value == "" || after.Value == "" {
		return
	}
	if at, ok := first[id.Value]; ok {
		l.duplicate(id, "waitpoint", at)
		return
	}
	first[id.Value] = id.Span
	l.checkID(id, "waitpoint")
	if other := l.byID[id.Value]; other != nil {
		l.duplicate(id, "step", other.id.Span)
		return
	}
	s := l.find(after)
	if s == nil {
		return
	}
	gate := ir.Gate{
		Decider: ir.Event, Event: w.word("event").Value, OnTimeout: timeouts[w.word("on_timeout").Value],
		Name: id.Value, Approvers: l.approvers(w), Span: id.Span,
	}
	if seconds, _, ok := w.number("timeout_seconds"); ok {
		gate.Timeout = ir.Millis(min(seconds, maxSeconds) * 1000)
	}
	if w.word("on_timeout").Value == "fallback" && s.fallback == nil {
		l.out.Errorf(CodeWaitpoint, w.word("on_timeout").Span,
			"Add \"fallback\" to that step, or choose another on_timeout.",
			"The waitpoint falls back on timeout, but step %q has no fallback.", s.id.Value).
			Relate(s.id.Span, "the step")
	}
	// Indexes of steps shift with every inserted waitpoint, so the step is searched for by its name.
	steps := &l.p.Blocks[ir.Body].Steps
	i := slices.IndexFunc(*steps, func(one ir.Step) bool { return one.ID == s.id.Value })
	own := &(*steps)[i]
	l.checkEscalation(w, gate)
	if g, ok := own.Action.(ir.Gate); ok && g.Decider == ir.Person && g.Name == "" {
		gate.Decider = ir.Person
		if g.Approvers != nil && gate.Approvers != nil {
			found := l.out.Errorf(CodeApprovers, w.key("approvers"), "Remove one of them.",
				"The gate %q has approvers, too.", s.id.Value)
			found.RemoveEntry("those of the waitpoint", w.entry("approvers"))
			found.RemoveEntry("those of the gate", s.entry("approvers"))
		}
		if gate.Approvers == nil {
			gate.Approvers = g.Approvers
			l.checkEscalation(s.values, gate)
		}
		own.Action = gate
		return
	}
	if gate.Approvers != nil {
		gate.Decider = ir.Person
	} else if gate.Event == "" && !w.has("event") {
		l.out.Errorf(CodeMissing, id.Span, "Add \"event:\" with the name of the event.",
			"The waitpoint has no \"event\".")
	}
	if _, ends := own.Action.(ir.End); ends {
		l.out.Warnf(CodeWaitpoint, after.Span, "Use a step before the end.",
			"The waitpoint is never reached: step %q ends the workflow.", s.id.Value)
		return
	}
	l.splice(s, gate)
}

// approvers compiles who may decide a gate; nil if that is not limited.
func (l *lowering) approvers(v *values) *ir.Approvers {
	if !v.has("approvers") {
		return nil
	}
	v = v.object("approvers")
	a := &ir.Approvers{Roles: l.roles(v.words("roles")), FourEyes: v.flag("four_eyes", false)}
	if n, _, ok := v.number("min"); ok {
		a.Min = int(min(n, maxApprovers))
	}
	if !v.has("escalate") {
		return a
	}
	escalate := v.object("escalate")
	if len(a.Roles) == 0 {
		l.out.Errorf(CodeApprovers, v.key("escalate"), "Add \"roles\" with the roles that decide first.",
			"The gate escalates, but anyone who may decide gates may decide it.")
		return a
	}
	seconds, _, _ := escalate.number("after_seconds")
	a.EscalateAfter, a.EscalateTo = ir.Millis(min(seconds, maxSeconds)*1000), l.roles(escalate.words("roles"))
	return a
}

// maxApprovers bounds the number of people that a gate can ask for.
const maxApprovers = 1000

// roleName is the form of an approver role, as in "espalier user add --role approver:NAME".
var roleName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// roles returns the names of approver roles, and reports those that no person can have.
func (l *lowering) roles(list []text.Text) []string {
	var out []string
	for _, t := range list {
		if !roleName().MatchString(t.Value) {
			l.out.Errorf(CodeApprovers, t.Span,
				"Use letters, digits, dots, hyphens and underscores, and at most 64 characters.",
				"%q is not a valid role.", t.Value)
		}
		out = append(out, t.Value)
	}
	return out
}

// checkEscalation warns about an escalation that comes too late.
func (l *lowering) checkEscalation(v *values, g ir.Gate) {
	if a := g.Approvers; a != nil && v.has("approvers") && g.Timeout > 0 && a.EscalateAfter >= g.Timeout {
		l.out.Warnf(CodeApprovers, v.object("approvers").key("escalate"), "Use a shorter \"after_seconds\".",
			"The gate never escalates: it times out after %s.", g.Timeout.Words())
	}
}

// maxSeconds prevents overflow in milliseconds.
const maxSeconds = int64(1) << 50

// timeouts maps on_timeout to its effect. Without it, the run fails.
var timeouts = map[string]ir.OnTimeout{
	"": ir.TimeoutFail, "stop": ir.TimeoutFail, "notify_then_stop": ir.TimeoutNotify, "skip": ir.TimeoutSkip,
	"fallback": ir.TimeoutFallback,
}

// splice inserts a waiting step between a step (and any earlier waiting steps after it) and its
// successors on success. A skipped step does not wait, and neither does a fallback that replaces
// it (F19). A fallback continues where its step would have continued, and so does the waiting
// step of a fallback.
func (l *lowering) splice(s *step, gate ir.Gate) {
	steps := &l.p.Blocks[ir.Body].Steps
	i := slices.IndexFunc(*steps, func(one ir.Step) bool { return one.ID == s.id.Value })
	for i+1 < len(*steps) && (*steps)[i+1].Implied {
		i++
	}
	wait := ir.Step{
		ID: gate.Name, Type: "waitpoint", Description: fmt.Sprintf("Wait for %s", gate.Event), Action: gate,
		Implied: true, Uncounted: true, Span: gate.Span,
	}
	if gate.Decider == ir.Person { // it shows what the step has written
		wait.Description = fmt.Sprintf("Approve the result of %s", s.id.Value)
		for _, w := range s.ir.Writes {
			wait.Reads = append(wait.Reads, ir.Ref{Path: w.Path, Optional: true, Span: gate.Span})
		}
	}
	if gate.OnTimeout == ir.TimeoutFallback {
		wait.Fallback = s.ir.Fallback
	}
	var stay []ir.Edge
	own := &(*steps)[i]
	leaving := (*steps)[i].Next
	if p := l.replacedBy(s); p != nil && (*steps)[i].ID == s.id.Value && s.jump == nil {
		leaving = l.edges(p)
	}
	// A fallback of a skipped step follows the edge for Skipped, if there is one: a skipped step does not jump (F12).
	replaced := own.Fallback != nil && own.When != nil &&
		!slices.ContainsFunc(leaving, func(e ir.Edge) bool { return slices.Contains(e.On, ir.Skipped) })
	for _, e := range leaving {
		if !slices.Contains(e.On, ir.OK) {
			stay = append(stay, e)
			continue
		}
		moved := e
		moved.On = []ir.Outcome{ir.OK, ir.Skipped}
		wait.Next = append(wait.Next, moved)
		rest := slices.DeleteFunc(slices.Clone(e.On), func(o ir.Outcome) bool { return o == ir.OK })
		if replaced && !slices.Contains(rest, ir.Skipped) {
			rest = append(rest, ir.Skipped)
		}
		if len(rest) > 0 {
			e.On = rest
			stay = append(stay, e)
		}
	}
	// The jump to the waitpoint is explicit, so a fallback follows it too.
	(*steps)[i].Next = append([]ir.Edge{{On: []ir.Outcome{ir.OK}, To: ir.Target{Step: wait.ID}, Span: gate.Span}},
		stay...)
	*steps = slices.Insert(*steps, i+1, wait)
}

// replacedBy returns the step that has s as its fallback; nil if there is none, or more than
// one.
func (l *lowering) replacedBy(s *step) *step {
	var found *step
	for _, other := range l.steps {
		if other.fallback == s {
			if found != nil {
				return nil
			}
			found = other
		}
	}
	return found
}

// approveStart inserts a gate that a person must approve before the run starts (F21).
func (l *lowering) approveStart(v *values) {
	steps := &l.p.Blocks[ir.Body].Steps
	if len(*steps) == 0 {
		return
	}
	at := v.word("approval_required").Span
	id := "approve_start"
	for slices.ContainsFunc(*steps, func(s ir.Step) bool { return s.ID == id }) {
		id += "_first"
	}
	*steps = slices.Insert(*steps, 0, ir.Step{
		ID: id, Type: "gate", Description: "Approve the start of the run", Implied: true, Uncounted: true, Span: at,
		Action: ir.Gate{Decider: ir.Person, Approvers: l.approvers(v), Span: at}, Reads: []ir.Ref{{Path: "input"}},
		Next: []ir.Edge{{On: []ir.Outcome{ir.OK}, To: ir.Target{Step: (*steps)[0].ID}, Sequential: true, Span: at}},
	})
}

// observability compiles the observability block.
func (l *lowering) observability() {
	v := l.doc.observability
	if v == nil {
		return
	}
	redaction := v.object("redaction")
	l.p.Audit = &ir.Audit{
		Level: v.word("audit_level").Value, RequiredEvents: l.known(v.words("required_events"), "an audit event",
			auditevent.All),
		RequiredIDs: l.known(v.words("required_ids"), "an id in audit events", recordIDs),
		RedactPII:   redaction.flag("pii", false), RedactSecrets: redaction.flag("secrets", false),
		RedactPatterns: l.patterns(redaction.words("patterns")), Span: v.first,
	}
}

// known returns the names that exist, and warns about the others.
func (l *lowering) known(list []text.Text, what string, names []string) []ir.Name {
	var out []ir.Name
	for _, t := range list {
		if !slices.Contains(names, t.Value) {
			l.out.Warnf(CodeEvent, t.Span, "", "%q is not %s.", t.Value, what).Suggest(t.Value, names)
			continue
		}
		out = append(out, ir.Name{Name: t.Value, Span: t.Span})
	}
	return out
}

// patterns returns detector names and regular expressions (F31).
func (l *lowering) patterns(list []text.Text) []ir.Name {
	var out []ir.Name
	for _, t := range list {
		near := diag.Nearest(t.Value, detectors)
		_, err := regexp.Compile(t.Value)
		switch {
		case slices.Contains(detectors, t.Value):
		case err != nil:
			l.out.Warnf(CodePattern, t.Span, "",
				"%q is neither a detector nor a valid regular expression, so it redacts nothing.", t.Value).
				Suggest(t.Value, detectors)
			continue
		case near != "":
			l.out.Warnf(CodePattern, t.Span, fmt.Sprintf("Did you mean %q?", near),
				"%q is not a detector. It is used as a regular expression.", t.Value).Replace(t.Value, near)
		default:
			l.out.Notef(CodePattern, t.Span, "", "%q is not a detector. It is used as a regular expression.", t.Value).
				Suggest(t.Value, detectors)
		}
		out = append(out, ir.Name{Name: t.Value, Span: t.Span})
	}
	return out
}
