package agentflow

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
)

// runtime lowers the runtime block.
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
	}
}

// checkpoints reads intervals such as 3_steps (F36).
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
			l.report(CodeInterval, diag.Error, every.Span, fmt.Sprintf("%q is not an interval of checkpoints.", every.Value), "Write a number and _steps, such as \"3_steps\".")
		case always:
			l.report(CodeInterval, diag.Note, every.Span, "This interval does nothing, because there is a checkpoint after each step.", "Remove it, or \"checkpoint_after_each_step\".")
		case l.p.CheckpointEvery == 0 || int(n) < l.p.CheckpointEvery:
			l.p.CheckpointEvery = int(n)
		}
	}
}

// waitpoint makes the run wait after a step. A person's gate already waits:
// the waitpoint gives it an event and a time limit (F19).
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
	gate := ir.Gate{Decider: ir.Event, Event: w.word("event").Value, OnTimeout: timeouts[w.word("on_timeout").Value], Name: id.Value, Span: id.Span}
	if seconds, _, ok := w.number("timeout_seconds"); ok {
		gate.Timeout = ir.Millis(min(seconds, maxSeconds) * 1000)
	}
	if w.word("on_timeout").Value == "fallback" && s.fallback == nil {
		l.report(CodeWaitpoint, diag.Error, w.word("on_timeout").Span, fmt.Sprintf("The waitpoint falls back when time is up, but the step %q has no fallback.", s.id.Value),
			"Add \"fallback\" to that step, or choose another on_timeout.", diag.Related{Span: s.id.Span, Message: "the step"})
	}
	steps := &l.p.Blocks[ir.Body].Steps
	i := slices.IndexFunc(*steps, func(one ir.Step) bool { return one.ID == s.id.Value })
	own := &(*steps)[i]
	if g, ok := own.Action.(ir.Gate); ok && g.Decider == ir.Person && g.Name == "" {
		gate.Decider = ir.Person
		own.Action = gate
		return
	}
	if gate.Event == "" && !w.has("event") {
		l.report(CodeMissing, diag.Error, id.Span, "The waitpoint has no \"event\" to wait for.", "Add a line with event: and its name.")
	}
	if _, ends := own.Action.(ir.End); ends {
		l.report(CodeWaitpoint, diag.Warning, after.Span, fmt.Sprintf("The waitpoint is never reached, because %q ends the workflow.", s.id.Value), "Name a step before the end.")
		return
	}
	l.splice(s, gate)
}

// maxSeconds keeps milliseconds far from overflow.
const maxSeconds = int64(1) << 50

var timeouts = map[string]ir.OnTimeout{
	"": ir.TimeoutFail, "stop": ir.TimeoutFail, "notify_then_stop": ir.TimeoutNotify, "skip": ir.TimeoutSkip, "fallback": ir.TimeoutFallback,
}

// splice puts a waiting step between a step (and what already waits after it)
// and where it goes when it ended well. A skipped step does not wait. A
// fallback goes on where its step would have gone on, so its waiting step does.
func (l *lowering) splice(s *step, gate ir.Gate) {
	steps := &l.p.Blocks[ir.Body].Steps
	i := slices.IndexFunc(*steps, func(one ir.Step) bool { return one.ID == s.id.Value })
	for i+1 < len(*steps) && (*steps)[i+1].Implied {
		i++
	}
	wait := ir.Step{
		ID: gate.Name, Type: "waitpoint", Description: fmt.Sprintf("Wait for %s", gate.Event), Action: gate, Implied: true, Span: gate.Span,
	}
	if gate.OnTimeout == ir.TimeoutFallback {
		wait.Fallback = s.ir.Fallback
	}
	var stay []ir.Edge
	leaving := (*steps)[i].Next
	if p := l.standsInFor(s); p != nil && (*steps)[i].ID == s.id.Value && s.jump == nil {
		leaving = l.edges(p)
	}
	for _, e := range leaving {
		if !slices.Contains(e.On, ir.OK) {
			stay = append(stay, e)
			continue
		}
		moved := e
		moved.On = []ir.Outcome{ir.OK, ir.Skipped}
		wait.Next = append(wait.Next, moved)
		if rest := slices.DeleteFunc(slices.Clone(e.On), func(o ir.Outcome) bool { return o == ir.OK }); len(rest) > 0 {
			e.On = rest
			stay = append(stay, e)
		}
	}
	// The jump is written down, in the waitpoint; so a fallback keeps to it too.
	(*steps)[i].Next = append([]ir.Edge{{On: []ir.Outcome{ir.OK}, To: ir.Target{Step: wait.ID}, Span: gate.Span}}, stay...)
	*steps = slices.Insert(*steps, i+1, wait)
}

// standsInFor is the step whose fallback s is; nil when there is none, or more
// than one.
func (l *lowering) standsInFor(s *step) *step {
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

// approveStart makes a run begin with somebody's approval (F21).
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
		ID: id, Type: "gate", Description: "Approve that the run begins", Implied: true, Span: at,
		Action: ir.Gate{Decider: ir.Person, Span: at}, Reads: []ir.Ref{{Path: "input"}},
		Next: []ir.Edge{{On: []ir.Outcome{ir.OK}, To: ir.Target{Step: (*steps)[0].ID}, Sequential: true, Span: at}},
	})
}

// observability lowers the observability block.
func (l *lowering) observability() {
	v := l.doc.observability
	if v == nil {
		return
	}
	redaction := v.object("redaction")
	l.p.Audit = &ir.Audit{
		Level: v.word("audit_level").Value, RequiredEvents: l.known(v.words("required_events"), "audit event", auditEvents),
		RequiredIDs: l.known(v.words("required_ids"), "id in audit events", recordIDs),
		RedactPII:   redaction.flag("pii", false), RedactSecrets: redaction.flag("secrets", false),
		RedactPatterns: l.patterns(redaction.words("patterns")), Span: v.first,
	}
}

// known keeps the names that exist and warns of the others.
func (l *lowering) known(list []text.Text, what string, names []string) []ir.Name {
	var out []ir.Name
	for _, t := range list {
		if !slices.Contains(names, t.Value) {
			l.report(CodeEvent, diag.Warning, t.Span, fmt.Sprintf("There is no %s %q, so it cannot be required.", what, t.Value), diag.DidYouMean(t.Value, names))
			continue
		}
		out = append(out, ir.Name{Name: t.Value, Span: t.Span})
	}
	return out
}

// patterns are names of detectors, else regular expressions (F31).
func (l *lowering) patterns(list []text.Text) []ir.Name {
	var out []ir.Name
	for _, t := range list {
		near := diag.Nearest(t.Value, detectors)
		_, err := regexp.Compile(t.Value)
		switch {
		case slices.Contains(detectors, t.Value):
		case err != nil:
			l.report(CodePattern, diag.Warning, t.Span, fmt.Sprintf("%q is neither a detector nor a regular expression, so it hides nothing.", t.Value), diag.DidYouMean(t.Value, detectors))
			continue
		case near != "":
			l.report(CodePattern, diag.Warning, t.Span, fmt.Sprintf("%q is not a detector; it is read as a regular expression.", t.Value), fmt.Sprintf("Did you mean %q?", near))
		default:
			l.report(CodePattern, diag.Note, t.Span, fmt.Sprintf("%q is not a detector; it is read as a regular expression.", t.Value), diag.DidYouMean(t.Value, detectors))
		}
		out = append(out, ir.Name{Name: t.Value, Span: t.Span})
	}
	return out
}
