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

var (
	well   = []ir.Outcome{ir.OK, ir.Skipped}
	always = []ir.Outcome{ir.OK, ir.Skipped, ir.Failed}
	failed = []ir.Outcome{ir.Failed}
)

// steps lowers a state with its hooks and everything that leads on from it.
func (l *lowering) steps(s *state, at *place) []ir.Step {
	main := l.step(s, at)
	leaving := at.hooks
	at.hooks = nil
	if s.kind == kindTerminal {
		var failing *failure
		if end := main.Action.(ir.End); end.Failed {
			failing = &failure{State: s.name.Value, Message: end.Message, filled: end.MessageExpr}
		}
		return append(l.endHooks(s, s.name.Value, l.hooksOf(s), failing, s.name.Span), main)
	}
	main.Next = l.edges(s, at)
	out := append([]ir.Step{main}, l.nowhere(s, main.Next)...)
	if s.inline != nil && !at.branch {
		end := ir.End{Failed: true, Message: s.inline.message.Value, Status: int(s.inline.status)}
		end.MessageExpr = l.value(expr.AWFTemplate, s.inline.message)
		l.fromFile(end.MessageExpr, diag.Warning, s.inline.message.Span, "The message")
		failing := &failure{State: s.name.Value, Message: s.inline.message.Value, filled: end.MessageExpr}
		hooks := l.endHooks(s, inlineName(s), l.doc.hooks[workflowError], failing, s.inline.at)
		for i := range hooks {
			hooks[i].Label = inlineTitle(s) + before
		}
		out = append(out, hooks...)
		out = append(out, ir.Step{ID: inlineName(s), Label: inlineTitle(s), Type: kindTerminal, Implied: true, Action: end, Span: s.inline.at})
	}
	if len(s.post) > 0 {
		out = append(l.withPost(s, out), leaving...)
	}
	if len(s.pre) > 0 {
		// What failed before is the state's to see, too.
		pre := l.hookStep(s.name.Value+before, s.pre, hookSettings{Again: true, State: s.name.Value}, s.name.Span)
		pre.Next = []ir.Edge{{On: always, To: ir.Target{Step: s.name.Value}, Sequential: true}}
		out = append([]ir.Step{pre}, out...)
	}
	return out
}

// The ends of the names of steps that run hooks: before a state, after it, and
// after it has failed.
const (
	before       = ":pre"
	after        = ":post"
	afterFailure = ":post-failed"
)

// inlineName is what AWF's records call the end that an inline on_failure is;
// inlineTitle is what people call it.
func inlineName(s *state) string  { return "__inline_error_" + s.name.Value }
func inlineTitle(s *state) string { return s.name.Value + ":on_failure" }

// withPost puts the hooks of a state between it and what follows: once for the
// case that it went well, once for the other, where the failure goes on
// afterwards.
func (l *lowering) withPost(s *state, steps []ir.Step) []ir.Step {
	main := &steps[0]
	good := l.hookStep(s.name.Value+after, s.post, hookSettings{Again: true, State: s.name.Value}, s.name.Span)
	bad := l.hookStep(s.name.Value+afterFailure, s.post, hookSettings{Again: true, State: s.name.Value}, s.name.Span)
	for _, e := range main.Next {
		if slices.Contains(e.On, ir.OK) {
			e.On = always
			good.Next = append(good.Next, e)
		}
	}
	for _, e := range main.Next {
		if slices.Contains(e.On, ir.Failed) {
			e.On = failed
			bad.Next = append(bad.Next, e)
		}
	}
	main.Next = []ir.Edge{
		{On: well, To: ir.Target{Step: good.ID}, Sequential: true},
		{On: failed, To: ir.Target{Step: bad.ID}, Sequential: true},
	}
	return append(steps, good, bad)
}

// entry is the step by which a state is entered.
func (l *lowering) entry(name string) string {
	s := l.doc.byName[name]
	if s != nil && (len(s.pre) > 0 || s.kind == kindTerminal && len(l.hooksOf(s)) > 0) {
		return name + before
	}
	return name
}

// edges are the ways on from a state in the place where it stands. Transitions
// are looked at after failures too, of every kind of step. AWF's program does so
// for commands only: whatever else fails goes the way of on_failure there, and so
// it does here unless a condition says otherwise.
func (l *lowering) edges(s *state, at *place) []ir.Edge {
	if at.branch { // a branch is one state; what follows is for the parallel step
		for _, t := range s.transitions {
			if t.when.Value != "" {
				l.condition(expr.AWF, t.when) // its mistakes are mistakes all the same
			}
		}
		return nil
	}
	var out []ir.Edge
	certain := false
	for _, t := range s.transitions {
		edge := ir.Edge{On: always, Span: t.to.Span}
		if t.when.Value != "" {
			edge.When = l.condition(expr.AWF, t.when)
			if edge.When == nil {
				l.p.Unread.Steps = true
				continue
			}
			edge.Label = t.when.Value
		} else {
			certain = true
			if s.kind != kindCommand && (s.failure.Value != "" || s.inline != nil || s.goesOn) {
				edge.On = well
			}
		}
		to, ok := l.way(s, t.to, at)
		if ok {
			edge.To = to
			out = append(out, edge)
		}
	}
	on := well
	if s.goesOn {
		on = always
	}
	switch to, ok := l.way(s, s.success, at); {
	case ok && s.success.Value == "":
		out = append(out, ir.Edge{On: on, To: to, Sequential: true})
	case ok:
		out = append(out, ir.Edge{On: on, To: to, Span: s.success.Span})
	case s.success.Value == "" && !certain:
		if len(s.transitions) == 0 && s.kind != "" {
			l.report(CodeNoWayOn, diag.Warning, s.name.Span, fmt.Sprintf("When state %q succeeds nothing follows, and the run fails.", s.name.Value),
				fmt.Sprintf("Add \"%s: \" with the name of the next state.", successKey(s)))
		}
		out = append(out, ir.Edge{On: well, To: ir.Target{Exit: ir.ExitFail, Reason: noWayOn}})
	}
	if s.goesOn {
		return out
	}
	switch {
	case s.inline != nil:
		to := inlineName(s)
		if len(l.doc.hooks[workflowError]) > 0 {
			to += before
		}
		out = append(out, ir.Edge{On: failed, To: ir.Target{Step: to}, Span: s.inline.at})
	case s.failure.Value == "":
	case at.loop != nil && !at.member(s.failure.Value) && s.failure.Value != at.loop.name.Value && fails(at.loop):
		// The loop fails, and says itself where that leads.
	default:
		if to, ok := l.way(s, s.failure, at); ok {
			out = append(out, ir.Edge{On: failed, To: to, Span: s.failure.Span})
		}
	}
	return out
}

const noWayOn = "NO_TRANSITION"

// fails tells whether a state says what follows its failure.
func fails(s *state) bool {
	return s.failure.Value != "" || s.inline != nil || s.goesOn || len(s.transitions) > 0
}

func successKey(s *state) string {
	if s.kind == kindForEach || s.kind == kindWhile {
		return "on_complete"
	}
	return "on_success"
}

// way is where the name of a state leads from a place; false when nowhere.
func (l *lowering) way(s *state, target text.Text, at *place) (ir.Target, bool) {
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
		return l.past(target, at)
	}
	through := at.loop // the outermost loop that is left
	for up := at.up; up != nil; through, up = up.loop, up.up {
		switch {
		case up.branch:
			l.report(CodeIgnoredWay, diag.Warning, target.Span, fmt.Sprintf("This leaves the loop, but not the branch of a parallel step that the loop is in: %q is not entered.", name),
				"Let the parallel step lead there.")
			return ir.Target{Exit: ir.ExitLoop}, true
		case up.loop != nil && up.loop.name.Value == name:
			return l.beyond(through, up, at), true
		case up.loop == nil || up.member(name):
			return ir.Target{Step: l.entry(name)}, true
		}
	}
	return ir.Target{}, false
}

// past leaves a loop that has hooks for when it is over: these come first.
func (l *lowering) past(target text.Text, at *place) (ir.Target, bool) {
	to, ok := l.way(at.loop, target, at.up)
	if !ok {
		return to, false
	}
	id := at.loop.name.Value + after + ":" + target.Value
	if !slices.ContainsFunc(at.up.hooks, func(s ir.Step) bool { return s.ID == id }) {
		hooks := l.hookStep(id, at.loop.post, hookSettings{Again: true, State: at.loop.name.Value}, at.loop.name.Span)
		hooks.Next = []ir.Edge{{On: always, To: to, Sequential: true}}
		at.up.hooks = append(at.up.hooks, hooks)
	}
	return ir.Target{Step: id}, true
}

// beyond leaves loops, the outermost of which stands in the body of another one,
// for what comes after it there. The inner ones do not go where their ends lead.
func (l *lowering) beyond(left *state, around, at *place) ir.Target {
	following := l.following(left, around)
	if own, _ := l.way(left, left.success, around); left == at.loop && len(left.transitions) == 0 && own == following {
		return ir.Target{Exit: ir.ExitLoop} // which leads there, too
	}
	if following.Step == "" {
		around.closes = true
		return ir.Target{Step: nextRound(around.loop)}
	}
	return following
}

// nextRound is the step that closes a round of a loop for states of inner loops.
func nextRound(s *state) string { return s.name.Value + ":next" }

// following is the next state of a loop's body.
func (l *lowering) following(s *state, at *place) ir.Target {
	if i := slices.Index(at.members, s.name.Value); i >= 0 && i+1 < len(at.members) {
		return ir.Target{Step: l.entry(at.members[i+1])}
	}
	return ir.Target{Exit: ir.ExitBlock}
}

// hookSettings are what the step kind "hook" is told.
type hookSettings struct {
	Hooks []hookSetting `json:"hooks"`
	// Strict makes a hook that fails fail the step.
	Strict bool `json:"strict,omitempty"`
	// Again ends the step as the step before ended: its failure goes on.
	Again bool `json:"again,omitempty"`
	// Files are paths, as templates, that must be there.
	Files []string `json:"files,omitempty"`
	// Failure is the error that the hooks see when no step before has failed.
	Failure *failure `json:"failure,omitempty"`
	// State is the one that the hooks are of: to them it is the current one.
	State string `json:"state,omitempty"`
}

// failure is that of a run that a state ends as failed.
type failure struct {
	State   string `json:"state"`
	Message string `json:"message"` // a template
	filled  *expr.Expr
}

type hookSetting struct {
	Log     string    `json:"log,omitempty"`
	Command string    `json:"command,omitempty"`
	Timeout ir.Millis `json:"timeout,omitempty"`
}

// hookStep is a step that runs hooks.
func (l *lowering) hookStep(id string, hooks []hook, set hookSettings, at source.Span) ir.Step {
	var texts []text.Text
	set.Hooks = []hookSetting{}
	for _, h := range hooks {
		set.Hooks = append(set.Hooks, hookSetting{Log: h.log.Value, Command: h.command.Value, Timeout: h.timeout})
		texts = append(texts, h.log, h.command)
		l.asCode(h.command, false)
	}
	t := ir.Task{Kind: "hook"}
	t.Settings.Put("hooks", set.Hooks, at)
	if set.Strict {
		t.Settings.Put("strict", true, at)
	}
	if set.Again {
		t.Settings.Put("again", true, at)
	}
	if len(set.Files) > 0 {
		t.Settings.Put("files", set.Files, at)
	}
	if set.Failure != nil {
		t.Settings.Put("failure", set.Failure, at)
	}
	if set.State != "" {
		t.Settings.Put("state", set.State, at)
	}
	if l.exports() != nil {
		t.Settings.Put("export", l.exports(), at)
	}
	if l.doubtful {
		t.Settings.Put("doubts", []string{"loop"}, at)
	}
	out := ir.Step{ID: id, Type: "hook", Implied: true, InheritOutcome: set.Again, Action: t, Span: at}
	out.Reads = l.reads(texts...)
	l.commandReads(&out)
	out.Reads = append(out.Reads, ir.Ref{Path: "last"})
	return out
}

// begins are the steps before the first state: files that inputs name, and
// the workflow's own hooks.
func (l *lowering) begins(first *state) []ir.Step {
	var out []ir.Step
	next := func(s ir.Step) {
		s.Next = []ir.Edge{{On: well, To: ir.Target{Step: l.entry(first.name.Value)}, Sequential: true}}
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
		s := l.hookStep("inputs:files", nil, hookSettings{Strict: true, Files: files}, l.doc.inputsAt)
		s.Reads = append(l.reads(texts...), s.Reads...)
		next(s)
	}
	if hooks := l.doc.hooks[workflowStart]; len(hooks) > 0 {
		next(l.hookStep("workflow:start", hooks, hookSettings{Strict: true, State: l.doc.initial.Value}, l.doc.first))
	}
	return out
}

// hooksOf are the workflow's hooks that run before a terminal state.
func (l *lowering) hooksOf(s *state) []hook {
	if s.status.Value == "failure" {
		return l.doc.hooks[workflowError]
	}
	return l.doc.hooks[workflowEnd]
}

// endHooks runs the workflow's hooks before a step that ends it at a state.
func (l *lowering) endHooks(s *state, end string, hooks []hook, failing *failure, at source.Span) []ir.Step {
	if len(hooks) == 0 {
		return nil
	}
	pre := l.hookStep(end+before, hooks, hookSettings{Again: true, Failure: failing, State: s.name.Value}, at)
	if failing != nil && failing.filled != nil {
		for _, r := range l.refs(nil, failing.filled) {
			if !slices.ContainsFunc(pre.Reads, func(had ir.Ref) bool { return had.Path == r.Path }) {
				r.Optional = true // the step that ends the run tells what is wrong with its message
				pre.Reads = append(pre.Reads, r)
			}
		}
	}
	pre.Next = []ir.Edge{{On: always, To: ir.Target{Step: end}, Sequential: true}}
	return []ir.Step{pre}
}

// catches sends failures that nothing takes care of through the hooks for them.
func (l *lowering) catches(steps []ir.Step) []ir.Step {
	hooks := l.doc.hooks[workflowError]
	if len(hooks) == 0 {
		return nil
	}
	const id = "workflow:error"
	used := false
	for i := range steps {
		if _, end := steps[i].Action.(ir.End); end || steps[i].Type == "hook" && !strings.HasSuffix(steps[i].ID, afterFailure) {
			continue
		}
		if !slices.ContainsFunc(steps[i].Next, func(e ir.Edge) bool { return e.When == nil && slices.Contains(e.On, ir.Failed) }) {
			steps[i].Next = append(steps[i].Next, ir.Edge{On: failed, To: ir.Target{Step: id}, Sequential: true})
			used = true
		}
	}
	if !used {
		return nil
	}
	return []ir.Step{l.hookStep(id, hooks, hookSettings{Again: true}, l.doc.first)}
}

// nowhere runs the hooks for failures before a run fails because nothing follows
// a state that went well.
func (l *lowering) nowhere(s *state, ways []ir.Edge) []ir.Step {
	hooks := l.doc.hooks[workflowError]
	i := slices.IndexFunc(ways, func(e ir.Edge) bool { return e.To.Reason == noWayOn })
	if i < 0 || len(hooks) == 0 {
		return nil
	}
	message := fmt.Sprintf("no way on from step %q", s.name.Value)
	end := ir.Step{ID: s.name.Value + ":nowhere", Type: kindTerminal, Implied: true, Action: ir.End{Failed: true, Message: message, Status: 1}, Span: s.name.Span}
	pre := l.endHooks(s, end.ID, hooks, &failure{State: s.name.Value, Message: message}, s.name.Span)
	ways[i].To = ir.Target{Step: pre[0].ID}
	return append(pre, end)
}
