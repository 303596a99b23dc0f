package aiflow

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/lazyregexp"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
	"github.com/espalier-run/espalier/internal/xslices"
)

const (
	// defaultSteps bounds a flow with cycles.
	defaultSteps = 50
	// defaultAttempts is the number of model calls in the reference program.
	defaultAttempts = 2
	noTransition    = "no_transition"
)

// lowering compiles a document to a program.
type lowering struct {
	doc     *document
	files   format.Files
	out     *diag.List
	dialect expr.Dialect
	p       *ir.Program
	prompts map[string]bool // prompts that agents use
	inputs  []string        // names that prompts and conditions read and nothing sets
	inserts []string        // those that prompts insert
	// userObject is set if rules read members of the input "user".
	userObject bool
	taken      map[string]bool // step IDs in use, those of agents first
	none       string          // ID of the end for the case that no rule matches
}

// program compiles the document. Step IDs are assigned to agents first, so that implied steps give way.
func (l *lowering) program() *ir.Program {
	d := l.doc
	l.prompts = map[string]bool{}
	l.p = &ir.Program{
		Format: "aiflow", Dialect: d.generation, Version: d.version.Value, Description: d.about.Value,
		Name:  cmp.Or(d.name.Value, strings.TrimSuffix(path.Base(d.file.Path), ".aiflow")),
		Tools: ir.Tools{AllowAll: true}, MayIntervene: true,
		Budget: ir.Budget{Steps: &ir.Limit{Max: defaultSteps}},
		Span:   d.entry.Span,
	}
	if d.maxSteps != nil {
		l.p.Budget.Steps = d.maxSteps
	}
	if d.variables != nil {
		for _, p := range d.variables.Pairs {
			l.p.Vars = append(l.p.Vars, ir.Var{Path: "context." + p.Key.Value, Init: p.Value.JSON(), Span: p.Key.Span})
		}
	}
	// Prompts and rules may read the context and an output before any agent has replied.
	if d.variables.Get("flow") == nil {
		l.p.Vars = append(l.p.Vars, ir.Var{Path: "context.flow", Init: format.JSON(l.p.Name)})
	}
	l.p.Vars = append(l.p.Vars, ir.Var{Path: "output", Init: json.RawMessage("null")})
	l.taken = map[string]bool{}
	for _, a := range d.agents {
		l.taken[a.id.Value] = true
	}
	l.none = l.free(noTransition)
	reached := l.reached()
	body := l.p.AddBlock(ir.Block{})
	var steps []ir.Step
	for _, a := range reached {
		steps = append(steps, l.agentSteps(a)...)
	}
	if slices.ContainsFunc(steps, func(s ir.Step) bool {
		return slices.ContainsFunc(s.Next, func(e ir.Edge) bool { return e.To.Step == l.none })
	}) {
		steps = append(steps, ir.Step{
			ID: l.none, Type: "end", Implied: true, Description: "No rule matched",
			Action: ir.End{Message: noTransition},
		})
	}
	l.p.Blocks[body].Steps = steps
	l.unused()
	for _, t := range l.doc.tools {
		if def, ok := l.tool(t); ok {
			l.p.ToolDefs = append(l.p.ToolDefs, def)
		}
	}
	l.p.Input = l.inputContract()
	return l.p
}

// free returns a unique step ID. It is a single word because users type it.
func (l *lowering) free(id string) string {
	id = strings.Join(strings.Fields(id), "-")
	unique := id
	for n := 2; l.taken[unique]; n++ {
		unique = fmt.Sprintf("%s-%d", id, n)
	}
	l.taken[unique] = true
	return unique
}

// reached returns the reachable agents, the starting agent first and the others in file order,
// and reports the unreachable ones.
func (l *lowering) reached() []*agent {
	d := l.doc
	if len(d.agents) == 0 {
		return nil
	}
	first := cmp.Or(d.entry.Value, d.agents[0].id.Value) // a missing entry is reported already
	found := xslices.AppendNew([]string{first}, d.fallback.Value)
	for i := 0; i < len(found); i++ {
		for _, r := range d.rules {
			if r.from.Value == found[i] {
				found = xslices.AppendNew(found, r.to.Value) // "" if the flow ends
			}
		}
	}
	var out []*agent
	for _, a := range d.agents {
		switch {
		case a.id.Value == first:
			out = append([]*agent{a}, out...)
		case slices.Contains(found, a.id.Value):
			out = append(out, a)
		case d.entry.Value != "":
			l.out.Warnf(CodeUnreachable, a.id.Span, "Add a rule that leads to it, or remove it.",
				"Agent %q never runs: no rule leads to it.", a.id.Value)
		}
	}
	return out
}

// agentSteps returns the agent's step and the gates of the rules that people decide.
func (l *lowering) agentSteps(a *agent) []ir.Step {
	d := l.doc
	rules := xslices.Filter(d.rules, func(r *rule) bool { return r.from.Value == a.id.Value })
	conditions := xslices.Map(rules, func(r *rule) *expr.Expr { return l.condition(r.condition) })
	constant := l.lintRules(a, rules, conditions)
	gates := make([]string, len(rules)) // of rules that can match
	for i, r := range rules {
		if r.human {
			gates[i] = l.free(a.id.Value + ":" + r.id)
		} else if constant[i] {
			break
		}
	}

	s := l.step(a)
	edges := func(from int, on ir.Outcome) []ir.Edge {
		var out []ir.Edge
		for i := from; i < len(rules); i++ {
			r := rules[i]
			e := ir.Edge{On: []ir.Outcome{on}, Label: r.id, Span: r.span, To: ir.Target{Step: r.to.Value}}
			if !constant[i] {
				e.When = conditions[i]
			}
			switch {
			case gates[i] != "":
				e.To.Step = gates[i]
			case r.to.Value == "":
				e.To = ir.Target{Exit: ir.ExitBlock}
			}
			out = append(out, e)
		}
		if len(rules) > 0 && !slices.Contains(constant[from:], true) {
			out = append(out, ir.Edge{
				On: []ir.Outcome{on}, To: ir.Target{Step: l.none, Reason: ir.NoTransition}, Label: "no rule matches",
			})
		}
		return out
	}
	s.Next = edges(0, ir.OK)
	if f := d.fallback.Value; f != "" && f != a.id.Value {
		s.Next = append(s.Next, ir.Edge{
			On: []ir.Outcome{ir.Failed}, To: ir.Target{Step: f}, Limit: 1,
			Label: "fallback", Span: d.fallback.Span,
		})
	}
	steps := []ir.Step{s}
	for i, r := range rules {
		if gates[i] == "" {
			continue
		}
		target, asks := ir.Target{Step: r.to.Value}, fmt.Sprintf("Continue with %q", r.to.Value)
		if r.to.Value == "" {
			target, asks = ir.Target{Exit: ir.ExitBlock}, "End the flow"
		}
		steps = append(steps, ir.Step{
			ID: gates[i], Type: "decision owner", Implied: true, Description: cmp.Or(r.about, asks), Span: r.span,
			Reads: []ir.Ref{{Path: "output", Span: r.span}}, Action: ir.Gate{Decider: ir.Person, Span: r.span},
			Next: append([]ir.Edge{{On: []ir.Outcome{ir.OK}, To: target, Label: r.id, Span: r.span}},
				edges(i+1, ir.Rejected)...),
		})
	}
	return steps
}

// condition parses the condition of a rule.
func (l *lowering) condition(t text.Text) *expr.Expr {
	e, list := expr.Parse(l.dialect, t.Value, t.Span)
	e.Names = map[string]string{"user": "context.user"} // the input "user", or a variable of the flow
	*l.out = append(*l.out, list...)
	for _, p := range e.Paths() {
		name := p.Written[0]
		switch name {
		case "context":
			l.checkContext(p)
		case "user":
			l.wantUser(p.Span)
		case "output", "agentId":
		default:
			l.want(name)
			written := strings.Join(p.Written, ".")
			found := l.out.Warnf(CodeBareName, p.Span, fmt.Sprintf("Use output.%s or context.%s.", name, name),
				"%q is resolved in the latest output, then in the context. The reference program does not resolve it.",
				written)
			found.Rewrite(p.Span, written, "output."+written)
			found.Rewrite(p.Span, written, "context."+written)
		}
	}
	if list.Errors() {
		never, _ := expr.Parse(l.dialect, "false", t.Span)
		return never
	}
	return e
}

// wantUser declares the object "user", which conditions can name without a prefix. It is an input of
// the run, unless the flow has a variable of this name.
func (l *lowering) wantUser(at source.Span) {
	if l.userObject || l.doc.variables.Get("user") != nil {
		return
	}
	l.userObject = true
	l.want("user")
	l.p.Vars = append(l.p.Vars, ir.Var{Path: "context.user", Span: at})
}

// checkContext checks a name of the context: one that the flow does not set must be an input,
// or is misspelled.
func (l *lowering) checkContext(p expr.Path) {
	if len(p.Written) < 2 {
		return
	}
	name := p.Written[1]
	if name == "user" {
		l.wantUser(p.Span)
		return
	}
	if name == "flow" || strings.HasPrefix(name, "output_") || strings.HasPrefix(name, "__") ||
		slices.Contains(l.inputs, name) {
		return
	}
	known := l.doc.variables.Keys()
	if slices.Contains(known, name) {
		return
	}
	help := fmt.Sprintf("Add it to \"variables\", or run with --input %s=….", name)
	near := diag.Nearest(name, known)
	if near != "" {
		help = fmt.Sprintf("Did you mean %q?", "context."+near)
	}
	l.out.Warnf(CodeMissingField, p.Span, help, "The flow does not set \"context.%s\", so it must be an input.", name).
		Replace(name, near)
	l.want(name)
	l.p.Vars = append(l.p.Vars, ir.Var{Path: "context." + name, Span: p.Span})
}

// lintRules checks the rules of one agent together. It returns which of them always match.
// After one that a person may reject, later rules still apply.
func (l *lowering) lintRules(a *agent, rules []*rule, conditions []*expr.Expr) []bool {
	constant := make([]bool, len(rules))
	always := -1
	seen := map[string]*rule{}
	for i, r := range rules {
		if always >= 0 {
			l.out.Warnf(CodeSeveralAlways, r.span, "Move the rule that always matches to the end.",
				"Rule %q never decides: an earlier rule always matches.", r.id).
				Relate(rules[always].span, "this rule always matches")
			continue
		}
		if len(conditions[i].Paths()) == 0 {
			if holds, err := conditions[i].Bool(nil); err == nil && holds {
				if constant[i] = true; !r.human {
					always = i
				}
				continue
			}
		}
		written := strings.Join(strings.Fields(r.condition.Value), " ")
		if other := seen[written]; other != nil && !other.human {
			l.out.Warnf(CodeSameCondition, r.span, "Change one of the conditions, or remove the rule.",
				"Rule %q is never used: an earlier rule has the same condition.", r.id).
				Relate(other.span, "the earlier rule")
		}
		seen[written] = r
	}
	if len(rules) > 0 && always < 0 && !complementary(conditions) {
		l.out.Notef(CodeNotExhaustive, a.id.Span,
			"Add a last rule with the condition \"always\", to \"end\" if nothing follows.",
			"The flow ends if no rule of agent %q matches.", a.id.Value)
	}
	return constant
}

// complementary reports whether one of two rules always matches: a name compared with true and
// with false, or a condition and its negation. Compound conditions are not analyzed.
func complementary(conditions []*expr.Expr) bool {
	all := map[string]bool{}
	for _, c := range conditions {
		words := strings.Fields(c.Text)
		if !slices.ContainsFunc(words, func(w string) bool {
			return strings.EqualFold(w, "and") || strings.EqualFold(w, "or") || w == "&&" || w == "||"
		}) {
			all[strings.Join(words, " ")] = true
		}
	}
	for text := range all {
		if before, ok := strings.CutSuffix(text, "== true"); ok && (all[before+"== false"] || all[before+"!= true"]) {
			return true
		}
		if not, rest, ok := strings.Cut(text, " "); ok && strings.EqualFold(not, "not") && all[rest] {
			return true
		}
	}
	return false
}

// retryClasses maps the format's error classes to Espalier's.
var retryClasses = map[string][]ir.Class{
	"transient":  {ir.ClassTimeout, ir.ClassRateLimit, ir.ClassAPI, ir.ClassInvalid},
	"timeout":    {ir.ClassTimeout},
	"rate_limit": {ir.ClassRateLimit},
	"network":    {ir.ClassAPI},
	// Permanent and unknown failures are never retried, even if a file requests it.
	"hard": nil, "unknown": nil,
}

// retry returns how often an agent's step is retried, and after which errors; nil if never.
func (l *lowering) retry(a *agent) *ir.Retry {
	r := &ir.Retry{
		MaxAttempts: defaultAttempts, Backoff: ir.Constant, Delays: []ir.Millis{1000}, MaxDelay: 60_000,
		Span: a.id.Span,
	}
	switch {
	case a.attempts > 0:
		r.MaxAttempts = a.attempts
	case l.doc.retries != nil:
		r.MaxAttempts = *l.doc.retries + 1
	case a.isTool():
		return nil // a failed call may have had side effects, and the file requests no retry
	}
	on := []string{"transient"}
	if a.retryOn != nil {
		on = text.Values(a.retryOn)
	}
	for _, class := range on {
		r.On = xslices.AppendNew(r.On, retryClasses[class]...)
	}
	if r.MaxAttempts < 2 || len(r.On) == 0 {
		return nil
	}
	return r
}

// step returns the step of an agent.
func (l *lowering) step(a *agent) ir.Step {
	id := a.id.Value
	s := ir.Step{
		ID: id, Type: "agent", Description: a.name.Value, Span: a.id.Span, Retry: l.retry(a),
		Reads: l.reads(a),
		Writes: []ir.Write{
			{Path: "context.output_" + id, Part: "output", Span: a.id.Span},
			{Path: "output", Part: "output", Span: a.id.Span},
			{Path: "agentId", Part: "agent", Span: a.id.Span},
		},
	}
	l.checkTools(a)
	one := ir.Agent{
		ID: id, Role: cmp.Or(a.role.Value, a.name.Value), Instructions: l.instructions(a),
		Provider: providerName(a.provider.Value), Model: a.model.Value,
		MaxTokens: a.maxTokens, Span: a.id.Span,
	}
	if len(a.options) > 0 {
		one.Options = format.JSON(a.options)
	}
	for _, t := range a.tools {
		one.Tools = append(one.Tools, ir.Name{Name: t.Value, Span: t.Span})
	}
	task := ir.Task{Kind: "prompt"}
	if a.isTool() && len(a.tools) > 0 {
		s.Type = "tool"
		task.Settings.Put("tool", a.tools[0].Value, a.tools[0].Span)
		task.Settings.Put("name", id, a.id.Span)
	} else {
		l.p.Agents = append(l.p.Agents, one)
		template, at := l.prompt(a)
		task.Settings.Put("agent", id, a.id.Span)
		task.Settings.Put("template", template, at)
		task.Settings.Put("format", a.output.Value, a.output.Span)
		task.Settings.PutSet("memory", l.doc.memory, a.id.Span)
		for _, word := range words(template) {
			l.want(word)
			if word != "flow" { // the name of the flow is always there
				l.inserts = xslices.AppendNew(l.inserts, word)
			}
		}
		s.Mentions = parts(template, at)
	}
	if len(a.tools) > 0 {
		s.Writes = append(s.Writes, ir.Write{
			Path: "context.__tools." + id, Part: "tools", Reducer: ir.Merge,
			Span: a.id.Span,
		})
	}
	s.Action = task
	return s
}

// reads returns the variables that an agent reads. The starting agent reads no output, unless
// the flow returns to it.
func (l *lowering) reads(a *agent) []ir.Ref {
	out := []ir.Ref{{Path: "input", Span: a.id.Span}, {Path: "context", Span: a.id.Span}}
	first := a.id.Value == l.doc.entry.Value && a.id.Value != l.doc.fallback.Value &&
		!slices.ContainsFunc(l.doc.rules, func(r *rule) bool { return r.to.Value == a.id.Value })
	if !first {
		out = append(out, ir.Ref{Path: "output", Span: a.id.Span})
	}
	return out
}

// providerName returns the provider as Espalier names it.
func providerName(name string) string {
	if strings.EqualFold(name, "google") {
		return "gemini"
	}
	return strings.ToLower(name)
}

// promptText returns the text that the prompts of the file have under a key.
func (l *lowering) promptText(ref text.Text) (string, source.Span, bool) {
	for _, p := range l.doc.prompts {
		if p.Key.Value != ref.Value {
			continue
		}
		l.prompts[ref.Value] = true
		if p.Value.Kind == text.Map { // {"template": "…"} in some exports
			for _, key := range []string{"template", "text", "content"} {
				if n := p.Value.Get(key); n != nil && n.Kind == text.String {
					return n.Value, n.Span, true
				}
			}
		}
		if p.Value.Kind < text.List && p.Value.Kind != text.Null {
			return p.Value.Value, p.Value.Span, true
		}
		l.out.Errorf(CodeWrongType, head(p.Value), "Use a string.", "The prompt %q is %s, not a string.", ref.Value,
			p.Value.Kind)
		return "", ref.Span, true
	}
	return "", source.Span{}, false
}

// promptFile returns the text of a file next to the flow.
func (l *lowering) promptFile(ref string) (string, error) {
	file, err := l.files.Read(l.doc.file, ref)
	if err != nil {
		return "", err
	}
	l.p.AddFile(file, "prompt")
	return file.Text, nil
}

// instructions returns the instructions of an agent, which are a key of the prompts, a file or the text
// itself, as its prompt is.
func (l *lowering) instructions(a *agent) string {
	ref := a.instructions
	if ref.Value == "" {
		return ""
	}
	if found, _, ok := l.promptText(ref); ok {
		return found
	}
	if !strings.ContainsAny(ref.Value, " \t\n") {
		if found, err := l.promptFile(ref.Value); err == nil {
			return found
		}
		// Exports of the editor name files that are not exported. A file name does not instruct a model.
		if slices.Contains([]string{".md", ".txt"}, strings.ToLower(path.Ext(ref.Value))) {
			l.out.Warnf(CodePromptMissing, ref.Span,
				fmt.Sprintf("Create the file %s, or write the text inline.", ref.Value),
				"%q is neither a prompt of this file nor a file, so agent %q has no instructions besides its prompt.",
				ref.Value, a.id.Value)
			return ""
		}
	}
	return ref.Value
}

// prompt returns the text of an agent's prompt: from the prompts, from a file, or the
// text itself.
func (l *lowering) prompt(a *agent) (string, source.Span) {
	generated := strings.TrimSpace("You are " +
		strings.Join(slices.DeleteFunc([]string{a.name.Value, a.role.Value}, func(s string) bool { return s == "" }),
			", ") + ".")
	if a.name.Value == "" && a.role.Value == "" {
		generated = fmt.Sprintf("You are the agent %q.", a.id.Value)
	}
	generated += " Do your part of the work."
	ref := a.prompt.Value
	if ref == "" {
		if a.instructions.Value == "" {
			l.out.Warnf(CodePromptMissing, a.id.Span, "Add \"prompt\" with the agent's instructions.",
				"Agent %q has no prompt. Espalier generates one from its name and role.", a.id.Value)
		}
		return generated, a.id.Span
	}
	if found, at, ok := l.promptText(a.prompt); ok {
		return found, at
	}
	spaced := strings.ContainsAny(strings.TrimSpace(ref), " \t\n")
	if !spaced {
		file, err := l.promptFile(ref)
		if err == nil {
			return file, a.prompt.Span
		}
		if refused, ok := errors.AsType[*source.RefError](err); ok && refused.Problem != source.RefMissing {
			l.out.Errorf(CodePromptMissing, a.prompt.Span, "Use a file inside the project.",
				"The prompt of agent %q cannot be read: %v.", a.id.Value, err)
			return generated, a.prompt.Span
		}
	}
	switch {
	case spaced:
		return ref, a.prompt.Span
	case l.doc.hasPrompts:
		keys := xslices.Map(l.doc.prompts, func(p text.Pair) string { return p.Key.Value })
		if l.dialect == expr.AIFlowReference {
			l.out.Errorf(CodeUnknownPrompt, a.prompt.Span, "", "Prompt %q is not defined.", ref).Suggest(ref, keys)
			break
		}
		l.out.Warnf(CodePromptMissing, a.prompt.Span, "",
			"Prompt %q is not defined. Espalier generates one from the agent's name and role.", ref).Suggest(ref, keys)
	default:
		l.out.Warnf(CodePromptMissing, a.prompt.Span, fmt.Sprintf("Create the file %s, or write the text inline.", ref),
			"%q is neither a prompt of this file nor a file. Espalier generates a prompt from the agent's name and "+
				"role.", ref)
	}
	return generated, a.prompt.Span
}

var word = lazyregexp.New(`\{\{\s*([A-Za-z_][A-Za-z0-9_.]*)\s*\}\}`)

// words returns the names that a template reads, except agents' outputs.
func words(template string) []string {
	var out []string
	for _, m := range word().FindAllStringSubmatch(template, -1) {
		name := strings.TrimPrefix(m[1], "context.")
		if name, _, _ = strings.Cut(name, "."); name != "output" && name != "agentId" &&
			!strings.HasPrefix(name, "output_") {
			out = append(out, name)
		}
	}
	return out
}

// parts returns the fields of agents' outputs that a template reads.
func parts(template string, at source.Span) []ir.Ref {
	var out []ir.Ref
	for _, m := range word().FindAllStringSubmatch(template, -1) {
		name := strings.TrimPrefix(m[1], "context.")
		if top, _, ok := strings.Cut(name, "."); ok && strings.HasPrefix(top, "output_") {
			out = append(out, ir.Ref{Path: "context." + name, Span: at})
		}
	}
	return out
}

// want records a name that the run's input should provide.
func (l *lowering) want(name string) { l.inputs = xslices.AppendNew(l.inputs, name) }

// inputContract returns the contract of the run's input: its variables, and the names that its
// prompts read. None is required, because a template keeps unknown names as they are.
func (l *lowering) inputContract() *ir.Contract {
	type property struct {
		Type        string          `json:"type,omitempty"`
		Description string          `json:"description,omitempty"`
		Default     json.RawMessage `json:"default,omitempty"`
	}
	properties := map[string]property{}
	places := map[string]source.Span{}
	if l.doc.variables != nil {
		for _, p := range l.doc.variables.Pairs {
			kind := map[text.Kind]string{
				text.Bool: "boolean", text.Int: "number", text.Float: "number",
				text.String: "string", text.List: "array", text.Map: "object",
			}[p.Value.Kind]
			properties[p.Key.Value] = property{Type: kind, Default: p.Value.JSON()}
			places["/properties/"+p.Key.Value] = p.Key.Span
		}
	}
	for _, name := range l.inputs {
		if _, ok := properties[name]; !ok {
			properties[name] = property{Description: "used by a prompt or a rule"}
			if name == "user" && l.userObject {
				properties[name] = property{Type: "object", Description: "used by a rule"}
			}
		}
	}
	if len(properties) == 0 {
		return nil
	}
	return &ir.Contract{
		Schema: format.JSON(map[string]any{"type": "object", "properties": properties}), Places: places,
		Inserted: l.inserts, Span: l.doc.entry.Span,
	}
}

// checkTools checks an agent's tools against those of the file.
func (l *lowering) checkTools(a *agent) {
	if len(a.tools) == 0 {
		return
	}
	known := xslices.Map(l.doc.tools, func(t *tool) string { return t.id.Value })
	if len(known) == 0 {
		l.out.Warnf(CodeToolsWithoutTools, a.tools[0].Span,
			"Declare them under \"tools\", or configure them in espalier.yaml.",
			"Agent %q lists tools, but the file declares none.", a.id.Value)
		return
	}
	for _, t := range a.tools {
		if slices.Contains(known, t.Value) {
			continue
		}
		l.out.Errorf(CodeUnknownTool, t.Span,
			"Declare it under \"tools\". For a tool that espalier.yaml configures, use {\"type\": \"project\"}.",
			"Tool %q is not declared in the file.", t.Value).SuggestNear(t.Value, known)
	}
}

// unused reports prompts and tools that no agent uses.
func (l *lowering) unused() {
	for _, p := range l.doc.prompts {
		if !l.prompts[p.Key.Value] && !slices.ContainsFunc(l.doc.agents,
			func(a *agent) bool {
				return a.prompt.Value == p.Key.Value || a.instructions.Value == p.Key.Value
			}) {
			l.out.Notef(CodePromptUnused, p.Key.Span, "Remove it, or use it in an agent.",
				"Prompt %q is not used by any agent.", p.Key.Value).
				RemoveEntry("the prompt", l.doc.promptMap.Entry(p.Key.Value))
		}
	}
	for _, t := range l.doc.tools {
		if !l.listed(t) {
			l.out.Notef(CodeToolUnused, t.span, "Remove it, or add it to an agent's \"tools\".",
				"Tool %q is not used by any agent.", t.id.Value).RemoveEntry("the tool", t.entry)
		}
	}
}

// listed reports whether an agent lists a tool.
func (l *lowering) listed(t *tool) bool {
	return slices.ContainsFunc(l.doc.agents, func(a *agent) bool {
		return text.Contains(a.tools, t.id.Value)
	})
}
