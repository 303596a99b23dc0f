package awf

import (
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
)

// The outcomes after which edges of this format apply.
var (
	onSuccess = []ir.Outcome{ir.OK, ir.Skipped}
	onAny     = []ir.Outcome{ir.OK, ir.Skipped, ir.Failed}
	onFailure = []ir.Outcome{ir.Failed}
)

// steps compiles a state with its hooks and everything that follows from it. The first step of the result is the one at
// which the state is entered (see entry). The order of the additions matters: the post hooks take over the edges of the
// state, and the reply of a conversation copies what leads on from its first turn.
func (l *lowering) steps(s *state, at *place) []ir.Step {
	main := l.step(s, at)
	leaving := at.hooks
	at.hooks = nil
	if s.kind == kindTerminal {
		var failing *failure
		if end := main.Action.(ir.End); end.Failed {
			failing = &failure{State: s.name.Value, Message: end.Message, expr: end.MessageExpr}
		}
		return append(l.endHooks(s, s.name.Value, l.hooksOf(s), failing, s.name.Span), main)
	}
	main.Next = l.edges(s, at)
	out := append([]ir.Step{main}, l.noTransition(s, main.Next)...)
	if endsInline(s, at) && !at.branch {
		end := ir.End{Failed: true, Message: s.inline.message.Value, Status: int(s.inline.status)}
		end.MessageExpr = l.value(expr.AWFTemplate, s.inline.message)
		l.rejectFileReads(end.MessageExpr, diag.Warning, s.inline.message.Span, "The message")
		failing := &failure{State: s.name.Value, Message: s.inline.message.Value, expr: end.MessageExpr}
		out = append(out, l.endHooks(s, inlineName(s), l.doc.hooks[workflowError], failing, s.inline.at)...)
		out = append(out, ir.Step{
			ID: inlineName(s), Label: inlineTitle(s), Type: kindTerminal, Implied: true,
			Action: end, Span: s.inline.at,
		})
	}
	if len(s.post) > 0 {
		out = append(l.withPost(s, out), leaving...)
	}
	if s.agent != nil && s.agent.mode.Value == conversationMode {
		out = l.withReplies(s, out)
	}
	if len(s.pre) > 0 {
		// The state sees an earlier failure, too.
		pre := l.hookStep(s.name.Value+before, s.pre, hookSettings{again: true, state: s.name.Value}, s.name.Span)
		pre.Next = []ir.Edge{{On: onAny, To: ir.Target{Step: s.name.Value}, Sequential: true}}
		out = append([]ir.Step{pre}, out...)
	}
	return out
}

// Suffixes of the IDs of hook steps: before a state, after it, and after its failure.
const (
	before       = ":pre"
	after        = ":post"
	afterFailure = ":post-failed"
)

// workflowErrorStep is the name of the steps that run the hooks for a failure of the workflow.
const workflowErrorStep = "workflow:error"

// inlineName returns the ID of the end that an inline on_failure creates, as in AWF's own
// records. inlineTitle returns its display name.
func inlineName(s *state) string  { return "__inline_error_" + s.name.Value }
func inlineTitle(s *state) string { return s.name.Value + ":on_failure" }

// withPost inserts the post hooks of a state between it and its successors: once after success,
// and once after failure, where the failure then propagates.
func (l *lowering) withPost(s *state, steps []ir.Step) []ir.Step {
	main := &steps[0]
	set := hookSettings{again: true, state: s.name.Value}
	good := l.hookStep(s.name.Value+after, s.post, set, s.name.Span)
	bad := l.hookStep(s.name.Value+afterFailure, s.post, set, s.name.Span)
	for _, e := range main.Next {
		on := e.On
		if slices.Contains(on, ir.OK) {
			e.On = onAny
			good.Next = append(good.Next, e)
		}
		if slices.Contains(on, ir.Failed) {
			e.On = onFailure
			bad.Next = append(bad.Next, e)
		}
	}
	main.Next = []ir.Edge{
		{On: onSuccess, To: ir.Target{Step: good.ID}, Sequential: true},
		{On: onFailure, To: ir.Target{Step: bad.ID}, Sequential: true},
	}
	return append(steps, good, bad)
}

// entry returns the step at which a state is entered.
func (l *lowering) entry(name string) string {
	s := l.doc.byName[name]
	if s != nil && (len(s.pre) > 0 || s.kind == kindTerminal && len(l.hooksOf(s)) > 0) {
		return name + before
	}
	return name
}

// edges returns the transitions of a state at a place. Conditional transitions apply after
// failures of every kind of step. AWF's reference program evaluates them only for commands and
// follows on_failure otherwise, which is also the default here if no condition is true. A
// transition without a condition applies after failures of commands only, as in AWF.
func (l *lowering) edges(s *state, at *place) []ir.Edge {
	if at.branch { // a branch is one state; the parallel step continues
		for _, t := range s.transitions {
			if t.when.Value != "" {
				l.condition(expr.AWF, t.when) // to report its mistakes
			}
		}
		return nil
	}
	var out []ir.Edge
	certain := false
	for _, t := range s.transitions {
		edge := ir.Edge{On: onAny, Span: t.to.Span}
		if t.when.Value != "" {
			edge.When = l.condition(expr.AWF, t.when)
			if edge.When == nil {
				l.p.Unread.Steps = true
				continue
			}
			edge.Label = t.when.Value
		} else {
			certain = true
			if s.kind != kindCommand {
				edge.On = onSuccess
			}
		}
		to, ok := l.target(s, t.to, at)
		if ok {
			edge.To = to
			out = append(out, edge)
		}
	}
	on := onSuccess
	if s.continueOnError {
		on = onAny
	}
	switch to, ok := l.target(s, s.success, at); {
	case ok && s.success.Value == "":
		out = append(out, ir.Edge{On: on, To: to, Sequential: true})
	case ok:
		out = append(out, ir.Edge{On: on, To: to, Span: s.success.Span})
	case s.success.Value == "" && !certain:
		if len(s.transitions) == 0 && s.kind != "" {
			l.out.Warnf(CodeNoWayOn, s.name.Span,
				fmt.Sprintf("Add \"%s:\" with the name of the next state.", successKey(s)),
				"State %q has no transition after success, so the run fails.", s.name.Value)
		}
		out = append(out, ir.Edge{On: onSuccess, To: ir.Target{Exit: ir.ExitFail, Reason: ir.NoTransition}})
	}
	if s.continueOnError {
		return out
	}
	switch {
	case s.inline != nil && !endsInline(s, at):
		// The loop fails, and its own on_failure applies.
	case s.inline != nil:
		to := inlineName(s)
		if len(l.doc.hooks[workflowError]) > 0 {
			to += before
		}
		out = append(out, ir.Edge{On: onFailure, To: ir.Target{Step: to}, Span: s.inline.at})
	case s.failure.Value == "":
	case at.loop != nil && !at.member(s.failure.Value) && s.failure.Value != at.loop.name.Value &&
		l.failsLoop(s, at.loop):
		// The loop fails, and its own on_failure applies.
	default:
		if to, ok := l.target(s, s.failure, at); ok {
			out = append(out, ir.Edge{On: onFailure, To: to, Span: s.failure.Span})
		}
	}
	return out
}

// failsLoop reports whether the failure of a body step fails the loop although its on_failure
// leaves the loop, as in AWF's program. An end as failed is entered if the loop does not handle its
// failure: the run fails in both cases, and the end has the author's message.
func (l *lowering) failsLoop(s, loop *state) bool {
	to := l.doc.byName[s.failure.Value]
	handled := handlesFailure(loop)
	if to == nil || handled && loop.failure.Value == s.failure.Value {
		return handled
	}
	if !handled && to.kind == kindTerminal && to.status.Value == "failure" {
		return false
	}
	help := fmt.Sprintf("Add \"on_failure: %s\" to %q.", s.failure.Value, loop.name.Value)
	if handled {
		help = fmt.Sprintf("Remove it: %q defines what follows its failure.", loop.name.Value)
	}
	found := l.out.Warnf(CodeIgnoredWay, s.failure.Span, help,
		"The transition is ignored: %q is in the body of %q, so its failure fails the loop.", s.name.Value,
		loop.name.Value)
	if handled {
		found.RemoveEntry("on_failure", s.from.Entry("on_failure"))
	} else if text.IsPlainWord(s.failure.Value) {
		found.AddEntry(loop.from.PlaceFor("on_failure"), "on_failure", s.failure.Value)
	}
	return true
}

// endsInline reports whether an inline on_failure ends the run. In the body of a loop that handles failures, it fails
// the loop instead, as any transition out of the loop does.
func endsInline(s *state, at *place) bool {
	return s.inline != nil && (at.loop == nil || !handlesFailure(at.loop))
}

// handlesFailure reports whether a state defines what follows its failure.
func handlesFailure(s *state) bool {
	return s.failure.Value != "" || s.inline != nil || s.continueOnError ||
		slices.ContainsFunc(s.transitions,
			func(t transition) bool { return t.when.Value != "" || s.kind == kindCommand })
}

// successKey returns the key that names the next state after success.
func successKey(s *state) string {
	if s.kind == kindForEach || s.kind == kindWhile {
		return "on_complete"
	}
	return "on_success"
}

// target resolves a state name to the target of an edge. It returns false if there is none. An edge can only lead to a
// step of the same block or of an enclosing loop, so a transition out of nested loops may need an exit or a detour.
func (l *lowering) target(s *state, target text.Text, at *place) (ir.Target, bool) {
	name := target.Value
	known := l.doc.byName[name] != nil
	if at.loop == nil {
		return ir.Target{Step: l.entry(name)}, known
	}
	switch {
	case name == "" || name == at.loop.name.Value || !known:
		return l.following(s, at), true
	case at.member(name):
		return ir.Target{Step: l.entry(name)}, true
	}
	if len(at.loop.post) > 0 && !at.up.branch {
		return l.leaveViaHooks(target, at)
	}
	through := at.loop // the outermost loop that is left
	for up := at.up; up != nil; through, up = up.loop, up.up {
		switch {
		case up.branch:
			l.out.Warnf(CodeIgnoredWay, target.Span, "Add the transition to the parallel step.",
				"The transition leaves the loop, but not its parallel branch, so %q is not entered.", name)
			return ir.Target{Exit: ir.ExitLoop}, true
		case up.loop != nil && up.loop.name.Value == name:
			return l.leaveInto(through, up, at), true
		case up.loop == nil || up.member(name):
			return ir.Target{Step: l.entry(name)}, true
		}
	}
	return ir.Target{}, false
}

// leaveViaHooks leaves a loop through its post hooks.
func (l *lowering) leaveViaHooks(target text.Text, at *place) (ir.Target, bool) {
	to, ok := l.target(at.loop, target, at.up)
	if !ok {
		return to, false
	}
	id := at.loop.name.Value + after + ":" + target.Value
	if !slices.ContainsFunc(at.up.hooks, func(s ir.Step) bool { return s.ID == id }) {
		hooks := l.hookStep(id, at.loop.post, hookSettings{again: true, state: at.loop.name.Value}, at.loop.name.Span)
		hooks.Next = []ir.Edge{{On: onAny, To: to, Sequential: true}}
		at.up.hooks = append(at.up.hooks, hooks)
	}
	return ir.Target{Step: id}, true
}

// leaveInto leaves nested loops and continues after the outermost of them in the body of the
// enclosing loop. The edges of the inner loops do not apply.
func (l *lowering) leaveInto(left *state, around, at *place) ir.Target {
	following := l.following(left, around)
	if own, _ := l.target(left, left.success, around); left == at.loop && len(left.transitions) == 0 &&
		own == following {
		return ir.Target{Exit: ir.ExitLoop} // leads to the same step
	}
	if following.Step == "" {
		around.endsRound = true
		return ir.Target{Step: nextRound(around.loop)}
	}
	return following
}

// nextRound returns the ID of the step that ends an iteration for states of inner loops.
func nextRound(s *state) string { return s.name.Value + ":next" }

// following returns the next state of a loop's body.
func (l *lowering) following(s *state, at *place) ir.Target {
	if i := slices.Index(at.members, s.name.Value); i >= 0 && i+1 < len(at.members) {
		return ir.Target{Step: l.entry(at.members[i+1])}
	}
	return ir.Target{Exit: ir.ExitBlock}
}

// hookSettings are settings of the step kind "hook".
type hookSettings struct {
	strict  bool     // the step fails if a hook fails
	again   bool     // the step ends with the outcome of the previous step, so that its failure propagates
	files   []string // paths, as templates, that must exist
	failure *failure // the error that the hooks see if no earlier step failed
	state   string   // the state that the hooks belong to; they see it as the current one
}

// failure describes the failure of a run that a state ends as failed.
type failure struct {
	State   string `json:"state"`
	Message string `json:"message"` // a template
	expr    *expr.Expr
}

// hookSetting is one hook in the settings of a step.
type hookSetting struct {
	Log     string    `json:"log,omitempty"`
	Command string    `json:"command,omitempty"`
	Timeout ir.Millis `json:"timeout,omitempty"`
}

// hookStep returns a step that runs hooks.
func (l *lowering) hookStep(id string, hooks []hook, set hookSettings, at source.Span) ir.Step {
	var texts []text.Text
	list := []hookSetting{}
	for _, h := range hooks {
		list = append(list, hookSetting{Log: h.log.Value, Command: h.command.Value, Timeout: h.timeout})
		texts = append(texts, h.log, h.command)
		l.checkCode(h.command, "", false)
	}
	t := ir.Task{Kind: "hook"}
	t.Settings.Put("hooks", list, at)
	t.Settings.PutSet("strict", set.strict, at)
	t.Settings.PutSet("again", set.again, at)
	t.Settings.PutSet("files", set.files, at)
	t.Settings.PutSet("failure", set.failure, at)
	t.Settings.PutSet("state", set.state, at)
	t.Settings.PutSet("export", l.exports(), at)
	t.Settings.PutSet("doubts", l.untrustedNames(), at)
	out := ir.Step{ID: id, Type: ir.TypeHook, Implied: true, InheritOutcome: set.again, Action: t, Span: at}
	out.Reads = l.reads(texts...)
	l.commandReads(&out)
	out.Reads = append(out.Reads, ir.Ref{Path: "last"})
	return out
}

// startSteps returns the steps before the first state: checks of files that inputs name, and
// the workflow's own hooks.
func (l *lowering) startSteps(first *state) []ir.Step {
	var out []ir.Step
	next := func(s ir.Step) {
		s.Next = []ir.Edge{{On: onSuccess, To: ir.Target{Step: l.entry(first.name.Value)}, Sequential: true}}
		if len(out) > 0 {
			out[len(out)-1].Next[0].To.Step = s.ID
		}
		out = append(out, s)
	}
	var files []string
	var texts []text.Text
	for _, in := range l.doc.inputs {
		if in.fileExists {
			files = append(files, "{{.inputs."+in.name.Value+"}}")
			texts = append(texts, text.Text{Value: "{{.inputs." + in.name.Value + "}}", Span: in.name.Span})
		}
	}
	if len(files) > 0 {
		s := l.hookStep("inputs:files", nil, hookSettings{strict: true, files: files}, l.doc.inputsAt)
		s.Reads = append(l.reads(texts...), s.Reads...)
		next(s)
	}
	if hooks := l.doc.hooks[workflowStart]; len(hooks) > 0 {
		next(l.hookStep("workflow:start", hooks, hookSettings{strict: true, state: l.doc.initial.Value}, l.doc.first))
	}
	return out
}

// hooksOf returns the workflow's hooks that run before a terminal state.
func (l *lowering) hooksOf(s *state) []hook {
	if s.status.Value == "failure" {
		return l.doc.hooks[workflowError]
	}
	return l.doc.hooks[workflowEnd]
}

// endHooks returns the step that runs the workflow's hooks before an end.
func (l *lowering) endHooks(s *state, end string, hooks []hook, failing *failure, at source.Span) []ir.Step {
	if len(hooks) == 0 {
		return nil
	}
	pre := l.hookStep(end+before, hooks, hookSettings{again: true, failure: failing, state: s.name.Value}, at)
	pre.Label = "workflow:end"
	if failing != nil {
		pre.Label = workflowErrorStep
	}
	if failing != nil && failing.expr != nil {
		for _, r := range l.refs(nil, failing.expr) {
			r.Optional = true // the end itself reports problems with its message
			pre.AddRead(r)
		}
	}
	pre.Next = []ir.Edge{{On: onAny, To: ir.Target{Step: end}, Sequential: true}}
	return []ir.Step{pre}
}

// catchFailures routes unhandled failures through the workflow's error hooks. It has to see all steps with their final
// edges. Of the hooks, it includes only those after a failed state, which propagate its failure.
func (l *lowering) catchFailures(steps []ir.Step) []ir.Step {
	hooks := l.doc.hooks[workflowError]
	if len(hooks) == 0 {
		return nil
	}
	const id = workflowErrorStep
	used := false
	for i := range steps {
		if _, end := steps[i].Action.(ir.End); end || steps[i].Type == ir.TypeHook &&
			!strings.HasSuffix(steps[i].ID, afterFailure) {
			continue
		}
		if !slices.ContainsFunc(steps[i].Next,
			func(e ir.Edge) bool { return e.When == nil && slices.Contains(e.On, ir.Failed) }) {
			steps[i].Next = append(steps[i].Next, ir.Edge{On: onFailure, To: ir.Target{Step: id}, Sequential: true})
			used = true
		}
	}
	if !used {
		return nil
	}
	return []ir.Step{l.hookStep(id, hooks, hookSettings{again: true}, l.doc.first)}
}

// noTransition runs the workflow's error hooks before a run fails because a successful state
// has no transition.
func (l *lowering) noTransition(s *state, edges []ir.Edge) []ir.Step {
	hooks := l.doc.hooks[workflowError]
	i := slices.IndexFunc(edges, func(e ir.Edge) bool { return e.To.Reason == ir.NoTransition })
	if i < 0 || len(hooks) == 0 {
		return nil
	}
	message := fmt.Sprintf("step %q has no matching transition", s.name.Value)
	end := ir.Step{
		ID: s.name.Value + ":nowhere", Type: kindTerminal, Implied: true,
		Action: ir.End{Failed: true, Message: message, Status: 1}, Span: s.name.Span,
	}
	pre := l.endHooks(s, end.ID, hooks, &failure{State: s.name.Value, Message: message}, s.name.Span)
	edges[i].To = ir.Target{Step: pre[0].ID, Reason: ir.NoTransition}
	return append(pre, end)
}
