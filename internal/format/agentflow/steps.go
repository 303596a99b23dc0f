package agentflow

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
	"github.com/espalier-run/espalier/internal/xslices"
)

// identifySteps assigns a unique name and a type to every step block.
func (l *lowering) identifySteps() {
	if len(l.doc.steps) == 0 && !l.doc.unread.Steps {
		l.out.Errorf(CodeNoSteps, l.doc.head.first,
			"Add a ```step block under \"## Steps\", or remove \"kind\" if this is a plain skill.",
			"The workflow has no steps.")
	}
	l.byID = map[string]*step{}
	for i, v := range l.doc.steps {
		s := &step{values: v, index: i, id: v.word("id"), kind: stepKind(v)}
		if s.id.Value == "" {
			s.id = text.Text{Value: fmt.Sprintf("step_%d", i+1), Span: v.first}
		} else {
			l.checkID(s.id, "step")
		}
		if other, ok := l.byID[s.id.Value]; ok {
			l.duplicate(s.id, "step", other.id.Span)
			s.id.Value = fmt.Sprintf("%s_%d", s.id.Value, i+1) // keeps the program well-formed
		} else {
			l.byID[s.id.Value] = s
		}
		l.checkFields(s)
		if s.kind == "subagent_bundle" {
			s.kind = "parallel"
		}
		l.steps = append(l.steps, s)
	}
}

// checkFields reports keys that the step's type does not use.
func (l *lowering) checkFields(s *step) {
	for i := range s.found {
		f := s.found[i].field
		if f.Types == nil || slices.Contains(f.Types, s.kind) {
			continue
		}
		l.out.Warnf(CodeNotForType, s.key(f.Name),
			fmt.Sprintf("Remove it, or use it in a step of type %s.", strings.Join(f.Types, ", ")),
			"%q has no effect in %s step.", f.Name, article(s.kind)).RemoveEntry(f.Name, s.entry(f.Name))
	}
}

// typeSpan returns the span of the type, or of the id if there is no type.
func (s *step) typeSpan() source.Span {
	if n := s.node("type"); n != nil {
		return n.Span
	}
	return s.id.Span
}

// applies reports whether the step has the key and its type uses it.
func (s *step) applies(key string) bool {
	if !s.has(key) {
		return false
	}
	types := s.find(key).field.Types
	return types == nil || slices.Contains(types, s.kind)
}

// find resolves the name of a step. If it is undefined, find reports it and returns the step
// with the nearest name, so that the rest can be checked.
func (l *lowering) find(name text.Text) *step {
	if s, ok := l.byID[name.Value]; ok {
		return s
	}
	if len(l.steps) == 0 || l.doc.unread.Explains(diag.Error, name.Value) {
		return nil // already reported
	}
	var ids []string
	for _, s := range l.steps {
		if s.word("id").Value == s.id.Value { // not an ID that replaces a missing or duplicate one
			ids = append(ids, s.id.Value)
		}
	}
	found := l.out.Errorf(CodeNoStep, name.Span, "", "Step %q is not defined.", name.Value)
	found.Suggest(name.Value, ids)
	meant := l.byID[diag.Nearest(name.Value, ids)]
	if meant != nil {
		found.Relate(meant.id.Span, "defined here")
	} else {
		l.doc.unread.Steps = true // the target is unknown
	}
	return meant
}

// resolveSteps resolves the references between steps, and determines which steps are off the
// chain.
func (l *lowering) resolveSteps() {
	for _, s := range l.steps {
		if name := s.word("goto"); name.Value != "" && s.applies("goto") {
			if s.jump = l.find(name); s.jump == s && name.Value != s.id.Value {
				s.jump = nil // a wrong guess, after the error
			}
		}
		l.resolveFallback(s)
		if s.kind == "decision" {
			l.resolveBranches(s)
		}
	}
}

// resolveFallback resolves the fallback of a step and checks it against on_error. Only a fallback below the step leaves
// the chain: one above it has already run in document order.
func (l *lowering) resolveFallback(s *step) {
	if !s.applies("fallback") && !s.applies("on_error") {
		return
	}
	policy, name := s.word("on_error"), s.word("fallback")
	if name.Value == "" {
		if policy.Value == "fallback" && !s.has("fallback") {
			l.out.Errorf(CodeOnError, policy.Span, "Add \"fallback\" with the id of the step to run instead.",
				"on_error is \"fallback\", but the step has no fallback.")
		}
		return
	}
	if policy.Value == "stop" || policy.Value == "skip" {
		found := l.out.Errorf(CodeOnError, policy.Span, "Use \"on_error: fallback\", or remove the fallback.",
			"on_error is %q, but the step has a fallback.", policy.Value).Relate(s.key("fallback"), "the fallback")
		found.WriteValue(policy.Span, "fallback")
		found.RemoveEntry("fallback", s.entry("fallback"))
	}
	target := l.find(name)
	switch {
	case target == nil:
	case target == s:
		l.out.Errorf(CodeOwnFallback, name.Span, "Use another step, or \"retry\" to repeat this one.",
			"Step %q is its own fallback.", s.id.Value)
	case target.index < s.index && target.id.Value != name.Value: // a guess, after the error
	case target.index < s.index:
		l.out.Warnf(CodeEarlyFall, name.Span, "Move it below this step to run it only as a fallback.",
			"The fallback %q precedes this step, so it also runs in document order.", target.id.Value).
			Relate(target.id.Span, "the fallback")
		s.fallback = target
	default:
		s.fallback, target.offChain = target, true
	}
}

// resolveBranches resolves the arms of a decision, with the default last. A target before the
// decision is a back edge and stays on the chain.
func (l *lowering) resolveBranches(s *step) {
	n := s.node("branches")
	if n == nil {
		return
	}
	seen := map[string]source.Span{}
	var otherwise []arm
	for _, pair := range n.Pairs {
		key := branchKey(pair.Key)
		if first, ok := seen[key]; ok {
			l.out.Errorf(CodeDuplicate, pair.Key.Span, "Remove one of the two. Branch values are compared as strings.",
				"Duplicate branch for %q.", key).Relate(first, "the first one").
				RemoveEntry("this branch", n.Entry(pair.Key.Value))
			continue
		}
		seen[key] = pair.Key.Span
		if pair.Value.Kind != text.String {
			l.out.Errorf(CodeWrongType, headOf(pair.Value), "Use the id of the next step.",
				"The branch %q is %s, not the id of a step.", key, pair.Value.Kind)
			l.doc.unread.Steps = true // the target is unknown
			continue
		}
		to := l.find(pair.Value.Text())
		if to == nil {
			continue
		}
		if to.index > s.index {
			to.offChain = true
		}
		one := arm{key: text.Text{Value: key, Span: pair.Key.Span}, to: to, at: pair.Value.Span}
		if key == "default" {
			otherwise = append(otherwise, one)
		} else {
			s.arms = append(s.arms, one)
		}
	}
	s.arms = append(s.arms, otherwise...)
	if len(n.Pairs) == 0 {
		l.out.Errorf(CodeMissing, s.key("branches"), "Add lines of \"value: step\", and a line \"default: step\".",
			"The decision has no branches.")
	}
}

// branchKey returns the string that a value is compared with: numbers and booleans in the form
// that the function text() returns (F10).
func branchKey(n *text.Node) string {
	switch n.Kind {
	case text.Null:
		return "null"
	case text.Bool:
		return strings.ToLower(n.Value)
	case text.Int, text.Float:
		if e, list := expr.ParseValue(expr.AgentFlow, "text("+n.Value+")", n.Span); !list.Errors() {
			if v, err := e.Eval(expr.Values{}); err == nil {
				return fmt.Sprint(v)
			}
		}
	}
	return n.Value
}

// lowerStep compiles everything but the edges.
func (l *lowering) lowerStep(s *step) {
	s.ir = ir.Step{
		ID: s.id.Value, Type: s.word("type").Value, Description: s.word("description").Value, Span: s.id.Span,
		When: l.condition(s.word("when")), Reads: l.reads(s), Writes: l.writes(s),
		ReasonOK: l.checkReason(s.word("reason_code")), ReasonFail: l.checkReason(s.word("reason_code_on_fail")),
	}
	s.ir.Type = cmp.Or(s.ir.Type, s.kind)
	if s.applies("output_files") {
		s.ir.Produces = named(l.inside(s.words("output_files")))
	}
	if s.applies("audit_output") {
		for _, file := range l.inside([]text.Text{s.word("audit_output")}) {
			s.ir.AuditFile = file.Value
		}
	}
	if s.applies("on_error") || s.applies("retry") {
		s.ir.SkipOnError = s.word("on_error").Value == "skip"
		s.ir.Retry = l.retry(s)
	}
	if s.fallback != nil {
		s.ir.Fallback = &ir.Name{Name: s.fallback.id.Value, Span: s.word("fallback").Span}
	}
	stop := l.condition(s.word("stop_condition"))
	if s.kind == "end" {
		s.ir.Action = l.end(s, stop)
		return
	}
	s.ir.StopWhen = stop
	switch s.kind {
	case "skill":
		s.ir.Action = l.skillStep(s)
	case "tool":
		s.ir.Action = l.toolTask(s)
	case "decision":
		s.ir.Action = ir.Route{}
		if reads := s.words("reads"); len(reads) > 1 {
			l.out.Warnf(CodeSelector, reads[1].Span, "Remove the other keys, or combine them in an earlier step.",
				"A decision uses only the first key that it reads.").Relate(reads[0].Span, "the key that decides")
		}
	case "gate":
		s.ir.Action = l.gate(s)
	case "parallel":
		s.ir.Action = l.parallel(s)
	default:
		s.ir.Action = l.transform(s)
	}
	l.checkFilesOfGate(s)
}

// checkFilesOfGate warns about files that a person's gate declares: no work creates them.
func (l *lowering) checkFilesOfGate(s *step) {
	if _, known := s.ir.Action.(ir.Gate); !known || s.ir.Task() != nil {
		return
	}
	for _, key := range []string{"output_files", "audit_output"} {
		if s.applies(key) {
			l.out.Warnf(CodeUnusedChoice, s.key(key),
				"Remove it, or move it to the step that does the work. The audit log contains the decision.",
				"%q has no effect: a gate that a person decides creates no files.", key).
				RemoveEntry(key, s.entry(key))
		}
	}
}

// inside returns the file names that are inside the run folder, and reports the others.
func (l *lowering) inside(files []text.Text) []text.Text {
	var out []text.Text
	for _, file := range files {
		name := strings.ReplaceAll(file.Value, `\`, "/")
		drive := len(name) > 1 && name[1] == ':'
		if filepath.IsLocal(path.Clean(name)) && !drive && !strings.HasPrefix(name, "~") {
			out = append(out, file)
			continue
		}
		l.out.Errorf(CodeFileOutside, file.Span, "Use a relative path without .., such as reports/summary.md.",
			"%q is outside the run folder.", file.Value)
	}
	return out
}

// reads returns the usable keys that a step reads.
func (l *lowering) reads(s *step) []ir.Ref {
	var out []ir.Ref
	for _, r := range s.words("reads") {
		if l.checkKey(r, "read") {
			out = append(out, ir.Ref{Path: r.Value, Span: r.Span})
		}
	}
	return out
}

// writes assigns the whole result to a single write. With several writes, each stores the part
// that the last segment of its key names (F8). A write to output merges (F7).
func (l *lowering) writes(s *step) []ir.Write {
	if !s.applies("writes") {
		return nil
	}
	keys := s.words("writes")
	var out []ir.Write
	for _, key := range keys {
		if !l.checkKey(key, "write") {
			continue
		}
		w := ir.Write{Path: key.Value, Span: key.Span}
		if len(keys) > 1 {
			w.Part = key.Value[strings.LastIndexByte(key.Value, '.')+1:]
		}
		if key.Value == "output" {
			w.Reducer = ir.Merge
			if storeUnder(&w, l.p.Output); w.Under == "" {
				w.NonObjectKey = "result"
			}
		}
		out = append(out, w)
	}
	return out
}

// storeUnder makes a write to the output store a result without the only required property of
// the contract under that property. If the property is a list whose elements are not lists, the
// lists in the result are joined (F7).
func storeUnder(w *ir.Write, c *ir.Contract) {
	w.Under, w.AsList, w.Flat = "", false, false
	if c == nil {
		return
	}
	var schema struct {
		Required   []string `json:"required"`
		Properties map[string]struct {
			Type  any             `json:"type"`
			Items json.RawMessage `json:"items"`
		} `json:"properties"`
	}
	if json.Unmarshal(c.Schema, &schema) != nil || len(schema.Required) != 1 {
		return
	}
	w.Under = schema.Required[0]
	property := schema.Properties[w.Under]
	w.AsList = property.Type == "array"
	var element struct {
		Type string `json:"type"`
	}
	ok := json.Unmarshal(property.Items, &element) == nil
	w.Flat = w.AsList && ok && element.Type != "" && element.Type != "array"
}

// checkKey reports state keys that cannot be read or written.
func (l *lowering) checkKey(key text.Text, verb string) bool {
	space, rest, dotted := strings.Cut(key.Value, ".")
	known := space == "input" || space == "state" || space == "output"
	malformed := dotted && slices.ContainsFunc(strings.Split(rest, "."), func(segment string) bool {
		return segment == "" || strings.IndexFunc(segment,
			func(r rune) bool { return r < 0x80 && !text.IsIdentByte(byte(r)) && r != '-' }) >= 0
	})
	if strings.ContainsAny(key.Value, "[]{}\"'") {
		l.doc.skip(&l.doc.unread.Texts, key.Span)
		l.out.Errorf(CodeKey, key.Span, fmt.Sprintf("Use both brackets: %ss: [state.one, state.two].", verb),
			"%q is not a key that a step can %s.", key.Value, verb)
		return false
	}
	switch {
	case known && malformed, !known && strings.ContainsAny(key.Value, " \t"), key.Value == "":
		l.out.Errorf(CodeKey, key.Span, "Use letters, digits and underscores, separated by dots, such as state.report.",
			"%q is not a key that a step can %s.", key.Value, verb)
	case !known:
		meant := "state." + key.Value
		help := fmt.Sprintf("Use %q for data that steps pass on.", meant)
		if near := diag.Nearest(space, namespaces[:3]); near != "" && dotted {
			meant = near + "." + rest
			help = fmt.Sprintf("Did you mean %q?", meant)
		}
		l.out.Errorf(CodeKey, key.Span, help, "%q does not start with input, state or output.", key.Value).
			Replace(key.Value, meant)
	case verb == "write" && space == "input":
		meant := "state." + cmp.Or(rest, "request")
		l.out.Errorf(CodeWritesInput, key.Span, fmt.Sprintf("Use %q instead.", meant), "The input is read-only.").
			Replace(key.Value, meant)
	case verb == "write" && key.Value == "state":
		l.out.Errorf(CodeKey, key.Span, "List the keys that it writes, such as state.report.",
			"A step cannot write the whole state.")
	default:
		return true
	}
	return false
}

// defaultDelays are taken from the specification's example (F14).
var defaultDelays = []ir.Millis{500, 2000, 5000}

// defaultAttempts is how often a step is tried if its author only says that it is retried.
const defaultAttempts = 3

// retry parses the retry block. on_error: retry without one uses defaults (F14).
func (l *lowering) retry(s *step) *ir.Retry {
	policy := s.word("on_error")
	if !s.has("retry") {
		if policy.Value != "retry" {
			return nil
		}
		return &ir.Retry{
			MaxAttempts: defaultAttempts, Backoff: ir.List, Delays: slices.Clone(defaultDelays),
			Span: policy.Span,
		}
	}
	v := s.object("retry")
	r := &ir.Retry{MaxAttempts: defaultAttempts, Backoff: ir.List, Span: s.key("retry")}
	if n, _, ok := v.number("max_attempts"); ok {
		r.MaxAttempts = int(n)
	}
	for _, delay := range v.words("backoff_ms") {
		if n, err := strconv.ParseInt(delay.Value, 0, 64); err == nil {
			r.Delays = append(r.Delays, ir.Millis(n))
		}
	}
	if !v.has("backoff_ms") {
		r.Delays = slices.Clone(defaultDelays)
	}
	classes := v.words("retry_on")
	for i, class := range classes {
		switch {
		case class.Value == string(ir.ClassBudget):
			found := l.out.Warnf(CodeErrorClass, class.Span, "Remove BUDGET.",
				"A step that exhausted its budget is never retried.")
			if at := l.entry(classes, i); !at.IsZero() {
				found.Remove(class.Value, at)
			}
			continue
		case !slices.Contains(errorClasses, class.Value):
			l.out.Warnf(CodeErrorClass, class.Span, "", "%q is not an error class.", class.Value).
				Suggest(class.Value, errorClasses)
		}
		r.On = append(r.On, ir.Class(class.Value))
	}
	return r
}

// entry returns the span of an entry of a list and what separates it from the one before it or, if it is the first,
// after it. The span is zero if that cannot be removed: there is no other entry, or something else is between them.
func (l *lowering) entry(list []text.Text, i int) source.Span {
	if len(list) < 2 {
		return source.Span{}
	}
	at, latter := list[i].Span, max(i, 1)
	start, end := list[latter-1].Span.End, list[latter].Span.Start
	if at.File != l.file.Path || start > end || end > len(l.file.Text) {
		return source.Span{}
	}
	if between := strings.Trim(l.file.Text[start:end], "\r\n "); between != "," && between != "-" {
		return source.Span{}
	}
	at.Start, at.End = min(at.Start, start), max(at.End, end)
	return at
}

// describe adds the task and the expected output to the settings.
func (s *step) describe(settings *ir.Settings) {
	s.put(settings, "task", "description")
	s.put(settings, "expected", "expected_output")
}

// agentTask returns the work of an agent on the step's task.
func (s *step) agentTask(agent string, at source.Span) ir.Task {
	t := ir.Task{Kind: "agent"}
	t.Settings.Put("agent", agent, at)
	s.describe(&t.Settings)
	return t
}

// transform returns a script, the validation of the input contract, or a model call (F27).
func (l *lowering) transform(s *step) ir.Action {
	if s.has("code") {
		return l.script(s)
	}
	reads := s.words("reads")
	mode, at := "model", s.id.Span
	if len(reads) == 1 && reads[0].Value == "input" && l.p.Input != nil {
		mode, at = "validate", reads[0].Span
		if s.has("expected_output") {
			l.out.Notef(CodePassThrough, s.key("expected_output"),
				"To produce this with a model, use a step of type skill with an agent.",
				"A transform that reads the whole input validates it and passes it on. No model is called.")
		}
	}
	return s.transformTask(mode, at)
}

// transformTask returns a transform in one of the modes of its step kind.
func (s *step) transformTask(mode string, at source.Span) ir.Task {
	t := ir.Task{Kind: "transform"}
	t.Settings.Put("mode", mode, at)
	s.describe(&t.Settings)
	return t
}

// placeholder returns a task for work that could not be determined, after the error. The
// program stays well-formed and nothing is reported twice.
func (s *step) placeholder() ir.Task { return s.transformTask("model", s.id.Span) }

// script returns the code of a step as a task. Code has precedence over a tool.
func (l *lowering) script(s *step) ir.Task {
	if s.has("tool") {
		found := l.out.Warnf(CodeUnusedChoice, s.key("tool"), "Remove \"tool\" or \"code\".",
			"The tool is not called: the step has code.").Relate(s.key("code"), "the code")
		found.RemoveEntry("tool", s.entry("tool"))
		found.RemoveEntry("code", s.entry("code"))
	}
	v := s.object("code")
	t := ir.Task{Kind: "script"}
	language, script := v.word("language"), v.word("script")
	if language.Value == "" || script.Value == "" {
		return s.placeholder()
	}
	t.Settings.Put("language", language.Value, language.Span)
	t.Settings.Put("script", script.Value, script.Span)
	t.Settings.PutSet("dependencies", text.Values(v.words("dependencies")), v.key("dependencies"))
	return t
}

// toolTask returns the code or the tool of a step as a task.
func (l *lowering) toolTask(s *step) ir.Task {
	if s.has("code") {
		return l.script(s)
	}
	t := ir.Task{Kind: "tool"}
	tool := s.word("tool")
	if tool.Value == "" {
		return s.placeholder()
	}
	t.Settings.Put("tool", tool.Value, tool.Span)
	if args := s.node("args"); args != nil {
		t.Settings.Put("args", args.JSON(), args.Span)
	}
	return t
}

// skillStep runs an agent, another skill or workflow, the base skill, or an agent created for
// the step (F41).
func (l *lowering) skillStep(s *step) ir.Action {
	agent, ref := s.word("agent"), s.word("skill_ref")
	switch {
	case s.has("skill_ref"):
		if s.has("agent") {
			found := l.out.Warnf(CodeUnusedChoice, s.key("agent"), "Remove \"agent\" or \"skill_ref\".",
				"The agent has no effect: the step runs a skill.").Relate(s.key("skill_ref"), "the skill")
			found.RemoveEntry("agent", s.entry("agent"))
			found.RemoveEntry("skill_ref", s.entry("skill_ref"))
		}
		if ref.Value != "" {
			if f := l.skillFileOf(ref, "skill"); f != nil {
				return l.call(s, f, ref.Span)
			}
		}
	case s.has("agent"):
		return s.agentTask(agent.Value, agent.Span)
	case l.base != nil:
		return l.call(s, l.base, s.id.Span)
	case slices.Contains(s.blank, "agent") || slices.Contains(s.blank, "skill_ref"): // already reported
	case l.doc.head.word("extends").Value == "":
		l.out.Warnf(CodeGeneric, s.typeSpan(), "Add \"agent\" or \"skill_ref\".",
			"The step names neither an agent nor a skill, so a generic agent performs it.")
	}
	return l.genericTask(s)
}

// genericTask returns work for an agent created for the step.
func (l *lowering) genericTask(s *step) ir.Task {
	id := l.impliedAgent(s.id.Value, s.word("description").Value, s.word("expected_output").Value, s.id.Span)
	return s.agentTask(id, s.id.Span)
}

// call returns the run of another skill or workflow. at is the place of the reference, or of the step if it runs the
// base skill without naming it.
func (l *lowering) call(s *step, f *source.File, at source.Span) ir.Action {
	role, named := "skill", at
	if l.base != nil && f.Path == l.base.Path {
		role, l.baseUsed = "base", true
		if !s.has("skill_ref") {
			named = l.doc.head.word("extends").Span
		}
	}
	if i := l.child(f, role, named); i >= 0 {
		call := ir.Call{Child: i, PassReads: true, Span: at}
		if len(s.ir.Produces) > 0 || s.ir.AuditFile != "" { // F42
			call.Finish = &ir.Task{Kind: "transform"}
			call.Finish.Settings.Put("mode", "hand_over", at)
		}
		return call
	}
	// The child has errors. The placeholder keeps the program well-formed.
	return s.placeholder()
}

// gate determines how the gate is decided (F40).
func (l *lowering) gate(s *step) ir.Action {
	method, agent := s.word("gate_method"), s.word("agent")
	if method.Value == "" {
		method.Value, method.Span = "human_review", s.typeSpan()
		switch {
		case s.has("agent"):
			method.Value = "critic_agent"
		case s.has("gate_method") && (s.has("code") || s.has("tool")): // after an error, assume what fits the rest
			method.Value = "automated"
		}
	}
	g := ir.Gate{Span: method.Span}
	unused := func(key, why string) {
		if s.has(key) {
			l.out.Warnf(CodeUnusedChoice, s.key(key), "Remove it, or use another gate_method.", "%q has no effect: %s.",
				key, why).Relate(method.Span, "the method is chosen here").RemoveEntry(key, s.entry(key))
		}
	}
	switch method.Value {
	case "human_review":
		g.Decider = ir.Person
		for _, key := range []string{"agent", "tool", "code"} {
			unused(key, "a person decides")
		}
		g.Approvers = l.approvers(s.values)
		l.checkGateReads(s, "The gate shows nothing to the person who decides.")
	case "critic_agent":
		g.Decider = ir.Work
		for _, key := range []string{"tool", "code", "approvers"} {
			unused(key, "an agent decides")
		}
		if agent.Value == "" {
			if !slices.Contains(s.blank, "agent") {
				l.out.Errorf(CodeGateDecider, method.Span, "Add \"agent\" with the critic's id.",
					"The gate has no agent to decide it.")
			}
			agent = text.Text{
				Value: l.impliedAgent(s.id.Value, s.word("description").Value, "", method.Span),
				Span:  method.Span,
			}
		}
		l.checkGateReads(s, "The gate passes nothing to the critic.")
		verdict := s.agentTask(agent.Value, agent.Span)
		verdict.Settings.Put("verdict", true, method.Span)
		g.Verdict = &verdict
	default:
		g.Decider = ir.Work
		unused("agent", "a check decides")
		unused("approvers", "a check decides")
		verdict := l.check(s, method)
		g.Verdict = &verdict
	}
	return g
}

// checkGateReads warns about a gate that shows nothing to those who decide it.
func (l *lowering) checkGateReads(s *step, message string) {
	if len(s.words("reads")) == 0 && !slices.Contains(s.blank, "reads") {
		l.out.Warnf(CodeGateDecider, s.typeSpan(),
			"Add \"reads\" with the data to approve, such as reads: [state.draft].", "%s", message)
	}
}

// check returns the task that decides an automated gate: code, a tool, or a check that
// everything it reads is present.
func (l *lowering) check(s *step, method text.Text) ir.Task {
	if s.has("code") || s.has("tool") {
		return l.toolTask(s)
	}
	if len(s.words("reads")) == 0 {
		l.out.Errorf(CodeGateDecider, method.Span,
			"Add \"reads\" with the keys that must be present, or decide with \"code\" or \"tool\".",
			"The gate has nothing to check.")
	}
	t := ir.Task{Kind: "transform"}
	t.Settings.Put("mode", "present", method.Span)
	return t
}

// end ends the workflow. If it has writes, an agent must produce them.
func (l *lowering) end(s *step, check *expr.Expr) ir.Action {
	e := ir.End{Check: check}
	if len(s.ir.Writes) > 0 {
		l.out.Warnf(CodeGeneric, s.key("writes"),
			"Move the writes to a step of type skill or transform before the end.",
			"The end step has writes but no agent, so a generic agent produces them.")
		work := l.genericTask(s)
		e.Work = &work
	}
	return e
}

// connect adds the edges to every step and stores the steps in the program's body. Steps are values there: later
// changes to step.ir have no effect.
func (l *lowering) connect() {
	steps := make([]ir.Step, len(l.steps))
	for i, s := range l.steps {
		s.ir.Next = l.edges(s)
		steps[i] = s.ir
	}
	l.p.Blocks[ir.Body].Steps = steps
	l.p.Blocks[ir.Body].Span = l.bodySpan()
}

// following returns the next step on the chain, or nil.
func (l *lowering) following(s *step) *step {
	return xslices.Find(l.steps[s.index+1:], func(next *step) bool { return !next.offChain })
}

// edges returns the edges of a step, in the order in which they are tried.
func (l *lowering) edges(s *step) []ir.Edge {
	var out []ir.Edge
	var after []ir.Outcome // the outcomes after which document order applies
	switch {
	case len(s.arms) > 0:
		out = l.branches(s)
	case s.kind == "end":
	case s.jump != nil:
		out = append(out, ir.Edge{
			On: []ir.Outcome{ir.OK}, To: ir.Target{Step: s.jump.id.Value}, Label: "goto",
			Span: s.word("goto").Span,
		})
	default:
		after = append(after, ir.OK)
	}
	// A step that cannot be skipped needs no edge for that outcome.
	if after != nil || s.maySkip() {
		after = append(after, ir.Skipped)
	}
	next := l.following(s)
	if next == nil {
		if s.jump != nil && s.ir.When != nil && s.fallback != nil {
			// Without this edge, the fallback of a skipped step would follow the jump.
			out = append(out, ir.Edge{
				On: []ir.Outcome{ir.Skipped}, To: ir.Target{Exit: ir.ExitBlock}, Sequential: true,
				Span: s.word("goto").Span,
			})
		}
		return out
	}
	to := ir.Target{Step: next.id.Value}
	if after != nil {
		out = append(out, ir.Edge{On: after, To: to, Sequential: true, Span: next.id.Span})
	}
	if s.kind == "gate" && l.mentioned(s) {
		out = append(out, ir.Edge{
			On: []ir.Outcome{ir.Rejected}, To: to, Label: "rejected", Sequential: true,
			Span: next.id.Span,
		})
	}
	return out
}

// maySkip reports whether a step, or a fallback that replaces it, can be skipped.
func (s *step) maySkip() bool {
	seen := map[*step]bool{} // fallbacks may form a cycle, which is reported later
	for at := s; at != nil && !seen[at]; at = at.fallback {
		if at.ir.When != nil || at.ir.SkipOnError {
			return true
		}
		seen[at] = true
	}
	return false
}

// branches compares the first read with the key of each arm (F10).
func (l *lowering) branches(s *step) []ir.Edge {
	var out []ir.Edge
	on := []ir.Outcome{ir.OK}
	covered := false
	selector := "input" // after the error, if nothing is read
	if len(s.ir.Reads) > 0 {
		selector = s.ir.Reads[0].Path
	}
	for _, a := range s.arms {
		edge := ir.Edge{On: on, To: ir.Target{Step: a.to.id.Value}, Label: a.key.Value, Span: a.at}
		if a.key.Value == "default" {
			covered = true
		} else {
			edge.When, _ = expr.Parse(expr.AgentFlow, fmt.Sprintf("text(%s) == %s", selector, quoted(a.key.Value)),
				a.key.Span)
		}
		out = append(out, edge)
	}
	if !covered {
		out = append(out, ir.Edge{
			On: on, To: ir.Target{Exit: ir.ExitFail, Reason: "NO_BRANCH"}, Label: "no match",
			Span: s.key("branches"),
		})
	}
	return out
}

// mentioned reports whether a later condition or selector reads what the gate writes. Only then
// does a run continue after a rejection (F4).
func (l *lowering) mentioned(gate *step) bool {
	for _, w := range gate.ir.Writes {
		for _, s := range l.steps[gate.index+1:] {
			if s.kind == "decision" && len(s.ir.Reads) > 0 && ir.Overlap(w.Path, s.ir.Reads[0].Path) ||
				slices.ContainsFunc(s.ir.When.Paths(),
					func(p expr.Path) bool { return ir.Overlap(w.Path, strings.Join(p.Segments, ".")) }) {
				return true
			}
		}
	}
	return false
}

// checkSiblings warns about arms of several steps that do not end with a jump: document order
// leads them into the steps of the next arm (F11).
func (l *lowering) checkSiblings() {
	for _, decision := range l.steps {
		var starts []*step // the arms below the decision, in document order
		for _, a := range decision.arms {
			if a.to.index > decision.index && !slices.Contains(starts, a.to) {
				starts = append(starts, a.to)
			}
		}
		slices.SortFunc(starts, func(a, b *step) int { return a.index - b.index })
		for i := 0; i+1 < len(starts); i++ {
			l.checkArm(starts, i)
		}
	}
}

// checkArm follows one arm in document order until it jumps, ends or passes the start of the
// next arm.
func (l *lowering) checkArm(starts []*step, i int) {
	sibling, last := starts[i+1], starts[len(starts)-1]
	at := starts[i]
	for at.index < sibling.index {
		if at.jump != nil || at.kind == "end" || at.kind == "decision" {
			return
		}
		next := l.following(at)
		if next == nil {
			return
		}
		if next.index > sibling.index && next.index < last.index {
			l.out.Warnf(CodeSiblings, at.id.Span, "End the branch with \"goto\" and the step where the branches join.",
				"After %q the flow skips %q, another branch of the same decision, and continues at %q.", at.id.Value,
				sibling.id.Value, next.id.Value).Relate(sibling.id.Span, "the other branch starts here").
				Relate(next.id.Span, "the flow continues here")
			return
		}
		at = next
	}
}
