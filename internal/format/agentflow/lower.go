package agentflow

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
)

// levels are the layers of the specification.
var levels = []string{"Layer 0 (skill)", "Layer 1 (linear)", "Layer 2 (graph)", "Layer 3 (long-running)"}

// lowering compiles one document to a program.
type lowering struct {
	file  *source.File
	files format.Files
	doc   *document
	out   *diag.List
	p     *ir.Program

	steps    []*step          // in document order
	byID     map[string]*step // the first of each name
	bundles  map[string]*values
	used     map[string]bool // bundles that a step uses
	children map[string]int  // by path: index in Program.Children, or -1 if unusable
	names    nameTable

	late     bool         // a skill's frontmatter does not start on the first line
	base     *source.File // the skill that "extends" names, if it can be read
	baseUsed bool
}

// step is a step block while it is compiled to an ir.Step. References to other steps are resolved before any step is
// lowered, because whether a step is on the chain depends on the steps that refer to it.
type step struct {
	*values
	id    text.Text
	kind  string // its type; a subagent_bundle is a parallel
	index int
	// offChain steps are entered only as a fallback (F3), by a branch (F11) or by goto.
	offChain bool
	fallback *step
	jump     *step // goto
	arms     []arm
	ir       ir.Step
}

// arm is one branch of a decision.
type arm struct {
	key text.Text // in canonical form
	to  *step
	at  source.Span
}

// article prefixes a name with "a" or "an".
func article(name string) string {
	if strings.ContainsAny(name[:1], "aeiou") {
		return "an " + name
	}
	return "a " + name
}

// upper returns s with its first letter, which must be ASCII, in upper case.
func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// missing is report for diagnostics about an undefined name. It stays silent if an unreadable
// part of the file may define that name.
func (l *lowering) missing(
	name string, code diag.Code, severity diag.Severity, at source.Span, help, format string, args ...any,
) {
	if !l.doc.unread.Explains(severity, name) {
		l.out.Reportf(code, severity, at, help, format, args...)
	}
}

// add adds diagnostics of other packages.
func (l *lowering) add(list diag.List) { *l.out = append(*l.out, list...) }

// program compiles the document. The order matters: the contracts in the frontmatter and the keys that steps write
// determine what bare names in conditions mean; references between steps determine the chain, on which the edges
// depend; and the runtime block inserts waiting steps between connected ones.
func (l *lowering) program() *ir.Program {
	if !l.doc.workflow {
		return l.skill()
	}
	if l.doc.head == nil { // unreadable frontmatter, already reported
		l.doc.head = &values{shape: frontmatterShape, first: l.firstLine()}
	}
	l.children, l.used = map[string]int{}, map[string]bool{}
	head := l.doc.head
	l.p = &ir.Program{
		Format: Format{}.Name(), Level: l.level(),
		Name: head.word("name").Value, Version: head.word("version").Value, Description: head.word("description").Value,
		Blocks: make([]ir.Block, 1), Span: l.firstLine(),
	}
	if name := head.word("name"); name.Value != "" {
		l.p.Span = name.Span
		l.checkName(name, false)
	}
	l.frontmatter()
	l.agents()
	l.bundles = uniqueNames(l, l.doc.bundles, "name", "bundle")
	l.identifySteps()
	l.names = l.nameTable()
	l.overlayBase()
	l.resolveSteps()
	for _, s := range l.steps {
		l.lowerStep(s)
	}
	l.connect()
	l.checkSiblings()
	l.runtime()
	l.observability()
	l.overlayChanges()
	for _, b := range l.doc.bundles {
		name := b.word("name")
		if l.used[name.Value] {
			continue
		}
		if name.Value != "" && l.bundles[name.Value] == b {
			l.missing(name.Value, CodeUnusedBundle, diag.Warning, name.Span,
				fmt.Sprintf("Add \"bundle: %s\" to a parallel step, or remove the block.", name.Value),
				"Bundle %q is not used by any step.", name.Value)
		}
		l.doc.skip(&l.doc.unread.Warned, b.span) // an unused bundle explains missing names, too
	}
	l.p.Unread = l.doc.unread
	return l.p
}

// level infers the layer from the content, as the specification requires.
func (l *lowering) level() string {
	if l.doc.runtime != nil {
		return levels[3]
	}
	for _, s := range l.doc.steps {
		for _, key := range []string{"when", "branches", "bundle", "goto"} {
			if s.has(key) {
				return levels[2]
			}
		}
	}
	return levels[1]
}

// frontmatter compiles the frontmatter, and warns about keys that only skills have.
func (l *lowering) frontmatter() {
	head := l.doc.head
	if l.doc.front != nil && !head.has("version") && !slices.Contains(head.blank, "version") {
		at := head.first
		if head.has("kind") {
			at = head.key("kind")
		}
		l.out.Warnf(CodeNeedsVersion, at, "Add \"version: 1.0.0\" to the frontmatter.", "The workflow has no version.").
			AddEntry(head.from.PlaceFor("version"), "version", "1.0.0")
	}
	l.meta()
	budgets := head.object("budgets")
	l.p.Budget = ir.Budget{
		Steps: limit(budgets, "max_steps"), ToolCalls: limit(budgets, "max_tool_calls"),
		Tokens: limit(budgets, "max_tokens"), ActiveSeconds: limit(budgets, "deadline_seconds"),
		MicroDollars: limit(budgets, "max_cost_usd"),
	}
	tools := head.object("tools")
	l.p.Tools = ir.Tools{
		Allow: named(tools.words("allowlist")), AllowAll: !tools.has("allowlist"), Deny: named(tools.words("denylist")),
		WorkersMayUse: tools.flag("workers_can_call_tools", false),
	}
	l.triggers(head.object("triggers"))
	l.p.Input, l.p.Output = l.contract("input"), l.contract("output")
	for _, key := range []string{"allowed-tools", "agent", "context", "disable-model-invocation", "hooks"} {
		if head.has(key) {
			help := "Remove it."
			if key == "allowed-tools" {
				help = "Assign tools to agents with \"tools\", and restrict them with \"tools: allowlist\" in the " +
					"frontmatter."
			}
			found := l.out.Warnf(CodeSkillKey, head.key(key), help,
				"%q is a key of skills and has no effect in a workflow.", key)
			if key != "allowed-tools" {
				found.RemoveEntry(key, head.entry(key))
			}
		}
	}
}

// meta adds the frontmatter entries that the program does not hold elsewhere.
func (l *lowering) meta() {
	if l.doc.front == nil {
		return
	}
	for _, pair := range l.doc.front.Pairs {
		key, n := pair.Key.Value, pair.Value
		var raw json.RawMessage
		if f := frontmatterShape.Find(key); f != nil {
			switch {
			case f.Form == text.Object && key != "hooks":
				continue
			case f.Form == text.AString, key == argumentHint:
				// Conditions compare without conversion, so 1.0 must be a string here.
				raw = quoted(joined(n).Value)
			}
		}
		if raw == nil {
			raw = n.JSON()
		}
		l.p.Meta = append(l.p.Meta, ir.Meta{Name: key, Value: raw, Span: n.Span})
	}
	if l.doc.purpose.Value != "" {
		purpose := ir.Meta{Name: "purpose", Value: quoted(l.doc.purpose.Value), Span: l.doc.purpose.Span}
		l.p.Meta = append(l.p.Meta, purpose)
	}
	versions := map[string]string{}
	for _, b := range l.doc.bundles {
		if v := b.word("version"); v.Value != "" {
			if !isVersion(v.Value) {
				l.out.Warnf(CodeBadValue, v.Span, "Use three numbers separated by dots, such as \"1.0.0\".",
					"%q is not a valid bundle version.", v.Value)
			}
			versions[b.word("name").Value] = v.Value
		}
	}
	if len(versions) > 0 {
		l.p.Meta = append(l.p.Meta, ir.Meta{Name: "bundle_versions", Value: format.JSON(versions)})
	}
}

// isVersion reports whether s is one to three numbers separated by dots. The specification's
// own example of a bundle version is 1.0.
func isVersion(s string) bool {
	numbers := strings.Split(s, ".")
	return len(numbers) <= 3 && !slices.ContainsFunc(numbers,
		func(n string) bool { return n == "" || strings.Trim(n, "0123456789") != "" })
}

// quoted returns a text as JSON.
func quoted(s string) json.RawMessage {
	return (&text.Node{Kind: text.String, Value: s}).JSON()
}

// limit returns a number as a limit; nil if it is absent or unusable.
func limit(v *values, name string) *ir.Limit {
	n, at, ok := v.number(name)
	if !ok {
		return nil
	}
	return &ir.Limit{Max: n, Span: at}
}

// triggers compiles the triggers. A run can be started by hand unless "manual: false" forbids it, and through the API
// only if "api: true" allows it.
func (l *lowering) triggers(v *values) {
	manual := ir.Trigger{Kind: ir.OnDemand, Off: !v.flag("manual", true)}
	if v.has("manual") {
		manual.Span = v.word("manual").Span
	}
	l.p.Triggers, l.p.APIOptIn = []ir.Trigger{manual}, true
	zone := v.word("timezone")
	if schedule := v.word("schedule"); schedule.Value != "" {
		l.p.Triggers = append(l.p.Triggers, ir.Trigger{
			Kind: ir.OnSchedule, Schedule: schedule.Value, Span: schedule.Span, Timezone: zone.Value,
			TimezoneSpan: zone.Span,
		})
	} else if zone.Value != "" {
		l.out.Warnf(CodeTimezone, v.key("timezone"),
			"Add \"schedule\" with a cron expression, or remove the time zone.",
			"The time zone has no effect without a schedule.").RemoveEntry("timezone", v.entry("timezone"))
	}
	if v.has("api") {
		api := ir.Trigger{Kind: ir.OnAPI, Off: !v.flag("api", false), Span: v.word("api").Span}
		l.p.Triggers = append(l.p.Triggers, api)
	}
	if event := v.word("event"); event.Value != "" {
		l.p.Triggers = append(l.p.Triggers, ir.Trigger{Kind: ir.OnEvent, Event: event.Value, Span: event.Span})
	}
}

// agents compiles the agent blocks, with the frontmatter's model for those that name none.
func (l *lowering) agents() {
	first := uniqueNames(l, l.doc.agents, "id", "agent")
	for _, v := range l.doc.agents {
		id := v.word("id")
		if id.Value == "" || first[id.Value] != v {
			continue
		}
		agent := ir.Agent{
			ID: id.Value, Span: id.Span, Role: v.word("role").Value, Goal: v.word("goal").Value,
			Expected: v.word("expected_output").Value, Model: v.word("model").Value, Tools: named(v.words("tools")),
		}
		agent.Model = cmp.Or(agent.Model, l.doc.head.word("model").Value)
		if n, _, ok := v.number("max_tokens"); ok {
			agent.MaxTokens = int(n)
		}
		l.p.Agents = append(l.p.Agents, agent)
	}
}

// impliedAgent adds an agent for work that names none (F41), and returns its ID.
func (l *lowering) impliedAgent(name, role, expected string, at source.Span) string {
	id := name
	for l.p.Agent(id) != nil {
		id += "_worker"
	}
	l.p.Agents = append(l.p.Agents, ir.Agent{
		ID: id, Role: role, Expected: expected, Model: l.doc.head.word("model").Value, Implied: true, Span: at,
	})
	return id
}

// uniqueNames indexes blocks by name and reports duplicates.
func uniqueNames(l *lowering, blocks []*values, key, what string) map[string]*values {
	first := map[string]*values{}
	for _, v := range blocks {
		name := v.word(key)
		if name.Value == "" {
			continue
		}
		if other, ok := first[name.Value]; ok {
			l.duplicate(name, what, other.word(key).Span)
			continue
		}
		first[name.Value] = v
		l.checkID(name, what)
	}
	return first
}

// duplicate reports a second definition of a name.
func (l *lowering) duplicate(name text.Text, what string, first source.Span) {
	l.out.Errorf(CodeDuplicate, name.Span, "Rename one of the two.", "Duplicate %s %q.", what, name.Value).
		Relate(first, "first defined here")
}

// checkID checks that an id contains only characters that paths and records support, and notes
// deviations from snake_case.
func (l *lowering) checkID(id text.Text, what string) {
	if inCase(id.Value, 'a', 'z', '_') {
		return
	}
	odd := strings.IndexFunc(id.Value, func(r rune) bool {
		return r > 0x7e || !text.IsIdentByte(byte(r)) && r != '-'
	})
	better := strings.ReplaceAll(kebab(id.Value), "-", "_")
	switch {
	case odd >= 0:
		help := "Use letters, digits and underscores."
		known := better != "" && len(id.Value) == utf8.RuneCountInString(id.Value)
		if known {
			help = fmt.Sprintf("Use %q.", better)
		}
		l.doc.skip(&l.doc.unread.Texts, id.Span) // the correct spelling may be used elsewhere
		found := l.out.Errorf(CodeBadID, id.Span, help, "%q is not a valid id for %s.", id.Value, article(what))
		if known {
			l.renameID(found, id, better)
		}
	case what != "worker" && what != "waitpoint" && id.Value != better && better != "":
		found := l.out.Notef(CodeConvention, id.Span, fmt.Sprintf("Use %q.", better),
			"The id %q is not in snake_case.", id.Value)
		l.renameID(found, id, better)
	}
}

// renameID adds a fix that renames an id, unless something else may refer to it or have the new name.
func (l *lowering) renameID(found *diag.Diagnostic, id text.Text, better string) {
	all := strings.ToLower(l.file.Text)
	if text.IsPlainWord(better) && strings.Count(all, strings.ToLower(id.Value)) == 1 &&
		!strings.Contains(all, strings.ToLower(better)) && id.Span.End-id.Span.Start == len(id.Value) {
		found.WriteValue(id.Span, better)
	}
}

// checkReason notes reason codes that are not in UPPER_SNAKE_CASE. It returns the code.
func (l *lowering) checkReason(t text.Text) string {
	if t.Value == "" || inCase(t.Value, 'A', 'Z', '_') {
		return t.Value
	}
	better := strings.ToUpper(strings.ReplaceAll(kebab(t.Value), "-", "_"))
	if better != "" {
		l.out.Notef(CodeConvention, t.Span, fmt.Sprintf("Use %q.", better),
			"The reason code %q is not in UPPER_SNAKE_CASE.", t.Value).Replace(t.Value, better)
	}
	return t.Value
}

// overlayBase resolves the base skill (F41).
func (l *lowering) overlayBase() {
	if ref := l.doc.head.word("extends"); ref.Value != "" {
		l.base = l.skillFileOf(ref, "base skill")
	}
}

// overlayChanges applies the override blocks and the text under "Base Skill".
func (l *lowering) overlayChanges() {
	extends := l.doc.head.word("extends")
	if extends.Value == "" {
		if l.doc.unread.Header {
			return // the unreadable header may contain it
		}
		const help = "Add \"extends\" with the path of the base skill to the frontmatter."
		for _, o := range l.doc.overrides {
			l.out.Warnf(CodeNoBase, o.first, help,
				"The override has no effect: the workflow does not extend a base skill.")
		}
		if l.doc.baseText.Value != "" {
			l.out.Warnf(CodeNoBase, l.doc.baseText.Span, help,
				"The text under \"Base Skill\" has no effect: the workflow does not extend a base skill.")
		}
		return
	}
	if l.base == nil {
		return // already reported
	}
	if !l.baseUsed {
		if l.doc.unread.Steps {
			return // an unreadable step may use it
		}
		l.out.Warnf(CodeUnusedBase, extends.Span,
			fmt.Sprintf("Add a step with \"type: skill\" and \"skill_ref: %s\".", extends.Value),
			"The base skill is not used by any step.")
		return
	}
	i := l.children[l.base.Path]
	if i < 0 {
		return
	}
	base := &l.p.Children[i]
	for _, o := range l.doc.overrides {
		l.override(base, o)
	}
	if l.doc.baseText.Value == "" {
		return
	}
	base.Agents = slices.Clone(base.Agents) // the compiled base may be shared
	for k := range base.Agents {
		if agent := &base.Agents[k]; agent.Implied && agent.Instructions != "" {
			agent.Instructions += "\n\n" + l.doc.baseText.Value
			return
		}
	}
	l.out.Warnf(CodeNoBase, l.doc.baseText.Span, "Move the text to that workflow, or extend a SKILL.md.",
		"The text under \"Base Skill\" cannot be added to %q, which is not a plain skill.", extends.Value)
}

// override replaces a contract of the base skill (F37).
func (l *lowering) override(base *ir.Program, o *values) {
	target, with := o.word("target"), o.word("replace_with")
	targets := map[string]**ir.Contract{"base_skill.output": &base.Output, "base_skill.input": &base.Input}
	slot, ok := targets[target.Value]
	switch {
	case target.Value == "" || with.Value == "": // already reported
	case !ok:
		l.out.Warnf(CodeTarget, target.Span, "", "%q cannot be overridden.", target.Value).
			Suggest(target.Value, []string{"base_skill.output", "base_skill.input"})
	default:
		c := l.schemaFile(with)
		if c == nil {
			return
		}
		*slot = c
		if slot == &base.Output {
			wrapOutput(base, c)
		}
	}
}

// wrapOutput makes the steps of a base skill store results that lack the only required property
// of the output contract under that property (F7).
func wrapOutput(base *ir.Program, c *ir.Contract) {
	base.CloneSteps() // the compiled base may be shared
	for s := range base.Steps() {
		if len(s.Writes) == 1 && s.Writes[0].Path == "output" {
			s.Writes = slices.Clone(s.Writes)
			storeUnder(&s.Writes[0], c)
		}
	}
}
