package agentflow

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
	"github.com/espalier-run/espalier/internal/xslices"
)

// readOnlyTools are the tools of a skill that declares none (F26).
var readOnlyTools = []string{"Read", "Glob", "Grep"}

// The limits of the Agent Skills specification, in characters. Longer values are noted and accepted.
const (
	maxNameLength        = 64
	maxDescriptionLength = 1024
	maxCompatibility     = 500
)

// skill compiles a plain skill, Layer 0: one step performed by an agent with the skill's text
// as its instructions. Deviations from the rules are noted and accepted (F34).
func (l *lowering) skill() *ir.Program {
	body := strings.TrimSpace(strings.ReplaceAll(l.file.Text[l.doc.md.Body.Start:], "\r\n", "\n"))
	body, l.late = cutLate(body, l.doc.md.HasFrontmatter)
	start := l.firstLine()
	name, description := l.skillName(start), l.skillDescription(start, body)
	// The rules for skills do not define versions: a version in the file is only in Meta.
	p := &ir.Program{
		Format: Format{}.Name(), Level: levels[0], Name: name.Value, Description: description.Value,
		Tools:    ir.Tools{AllowAll: true},
		Triggers: []ir.Trigger{{Kind: ir.OnDemand}}, Span: name.Span,
	}
	l.skillMeta(p)

	step := ir.Step{
		ID: "skill", Type: "skill", Description: description.Value, Implied: true, Span: name.Span,
		Reads: []ir.Ref{{Path: "input"}}, Writes: []ir.Write{{Path: "output", Reducer: ir.Merge}},
	}
	var settings ir.Settings
	if n := l.doc.front.Get("disable-model-invocation"); n != nil && n.Value == "true" {
		settings.Put("mode", "text", n.Span) // F46
		settings.Put("text", body, l.bodySpan())
		step.Action = ir.Task{Kind: "transform", Settings: settings}
	} else {
		agent := ir.Agent{
			ID: name.Value, Role: description.Value, Instructions: body, Model: l.scalar("model").Value,
			Implied: true, Span: name.Span,
		}
		if granted := l.doc.front.Get("allowed-tools"); granted != nil {
			agent.Tools = named(toolNames(granted))
		} else {
			for _, tool := range readOnlyTools {
				agent.Tools = append(agent.Tools, ir.Name{Name: tool})
			}
		}
		if b, ok := l.files.(format.Bundler); ok {
			if dir, files := b.Bundle(l.file); len(files) > 0 {
				agent.Bundle = &ir.Bundle{Dir: dir, Files: files}
			}
		}
		p.Agents = []ir.Agent{agent}
		settings.Put("agent", agent.ID, name.Span)
		settings.Put("task", description.Value, description.Span)
		step.Action = ir.Task{Kind: "agent", Settings: settings}
	}
	p.Blocks = []ir.Block{{Steps: l.hooked(step), Span: l.bodySpan()}}
	return p
}

// hooked adds the hooks of a skill around its step. They run only where commands are allowed.
// The skill continues even if a hook is skipped or fails (F46).
func (l *lowering) hooked(skill ir.Step) []ir.Step {
	hooks := l.doc.front.Get("hooks")
	if hooks == nil || hooks.Kind != text.Map {
		return []ir.Step{skill}
	}
	hook := func(key, id, read string) []ir.Step {
		n := hooks.Get(key)
		if n == nil || n.Kind >= text.List || strings.TrimSpace(n.Value) == "" {
			return nil
		}
		t := ir.Task{Kind: "script"}
		t.Settings.Put("language", "sh", n.Span)
		t.Settings.Put("script", n.Value, n.Span)
		t.Settings.Put("on_leave", true, n.Span)
		if b, ok := l.files.(format.Bundler); ok {
			dir, _ := b.Bundle(l.file)
			t.Settings.PutSet("folder", dir, n.Span)
		}
		return []ir.Step{{
			ID: id, Type: ir.TypeHook, Description: "The hook " + key, Implied: true, Span: n.Span,
			Reads: []ir.Ref{{Path: read, Span: n.Span}}, Action: t, SkipOnError: true,
		}}
	}
	steps := slices.Concat(hook("onStart", "on_start", "input"), []ir.Step{skill},
		hook("onComplete", "on_complete", "output"))
	for i := range steps[:len(steps)-1] {
		steps[i].Next = []ir.Edge{{
			On: []ir.Outcome{ir.OK, ir.Skipped}, To: ir.Target{Step: steps[i+1].ID},
			Sequential: true,
		}}
	}
	return steps
}

// cutLate removes text that looks like frontmatter but follows empty lines, and reports whether
// it did.
func cutLate(body string, hasFrontmatter bool) (rest string, late bool) {
	inner, ok := strings.CutPrefix(body, "---\n")
	if !ok || hasFrontmatter {
		return body, false
	}
	block, rest, ok := strings.Cut(inner, "\n---")
	if !ok || !strings.Contains(block, ":") || rest != "" && rest[0] != '\n' {
		return body, false
	}
	return strings.TrimSpace(rest), true
}

// lateLine returns the span of the opening line of misplaced frontmatter.
func (l *lowering) lateLine() source.Span {
	at := strings.Index(l.file.Text, "---")
	return l.file.Span(at, at+3)
}

// scalar returns a value of a skill's frontmatter as text, whatever its YAML type; zero for
// lists and maps.
func (l *lowering) scalar(key string) text.Text {
	if n := l.doc.front.Get(key); n != nil && n.Kind != text.Null && n.Kind < text.List {
		return n.Text()
	}
	return text.Text{}
}

// skillName returns the name of a skill, which may come from its path. start is the place for diagnostics about
// something missing.
func (l *lowering) skillName(start source.Span) text.Text {
	name := l.scalar("name")
	folder, isSkill := l.folder()
	switch {
	case l.late:
		l.lenient(CodeNoFrontmatter, l.lateLine(), "Remove the lines above it.",
			"The frontmatter does not start on the first line, so it is ignored.")
	case !l.doc.md.HasFrontmatter:
		l.lenient(CodeNoFrontmatter, start,
			fmt.Sprintf(
				"Start the file with a line of ---, then \"name: %s\", \"description: …\" and another line of ---.",
				kebab(folder)),
			"The skill has no frontmatter. Its name comes from its path and its description from its text.")
	case strings.TrimSpace(name.Value) == "":
		found := l.lenient(CodeSkillName, start, fmt.Sprintf("Add \"name: %s\".", kebab(folder)),
			"The skill has no name. It is derived from its path.")
		if text.IsPlainWord(kebab(folder)) {
			found.AddEntry(l.doc.front.PlaceFor("name"), "name", kebab(folder))
		}
	}
	if strings.TrimSpace(name.Value) == "" {
		return text.Text{Value: folder, Span: start}
	}
	l.checkName(name, true)
	if isSkill && folder != name.Value {
		l.lenient(CodeFolderName, name.Span, "Use the same name for both: other programs find skills by their folder.",
			"The skill is named %q, but its folder %q.", name.Value, folder)
	}
	return name
}

// folder returns the name that the file's path implies: the folder of a SKILL.md, which the
// rules require as its name, or else the file's own name.
func (l *lowering) folder() (name string, rule bool) {
	at := l.file.Path
	if l.file.Abs != "" {
		at = filepath.ToSlash(l.file.Abs)
	}
	base := path.Base(at)
	if dir := path.Base(path.Dir(at)); base == skillFile && dir != "." && dir != "/" {
		return dir, true
	}
	return cmp.Or(strings.TrimSuffix(base, path.Ext(base)), "skill"), false // a file may be named ".md"
}

// checkName reports names that break the naming rules: a note in a skill, a warning in a
// workflow.
func (l *lowering) checkName(name text.Text, skill bool) {
	problem := ""
	switch {
	case skill && utf8.RuneCountInString(name.Value) > maxNameLength:
		problem = fmt.Sprintf("is longer than %d characters", maxNameLength)
	case !isKebab(name.Value):
		problem = "contains characters other than lowercase letters, digits and single hyphens"
	}
	if problem == "" {
		return
	}
	found := l.out.Warnf(CodeSkillName, name.Span, "Shorten the name.", "The name %q %s.", name.Value, problem)
	if better := kebab(name.Value); better == "" {
		folder, _ := l.folder()
		found.Help = "Use lowercase letters, digits and hyphens."
		if better = kebab(folder); better != "" {
			found.Help = fmt.Sprintf("Use %q, from its path.", better)
			if text.IsPlainWord(better) {
				found.WriteValue(name.Span, better)
			}
		}
	} else if better != name.Value {
		found.Help = fmt.Sprintf("Use %q.", better)
		if text.IsPlainWord(better) {
			found.Replace(name.Value, better)
		}
	}
	if skill {
		found.Severity, found.Lenient = diag.Note, true
	}
}

// isKebab reports whether a name follows the naming rules of skills and workflows.
func isKebab(s string) bool { return inCase(s, 'a', 'z', '-') }

// inCase reports whether s consists of words of digits and letters from first to last, joined
// by single separators.
func inCase(s string, first, last, separator byte) bool {
	between := false
	for i := range len(s) {
		switch c := s[i]; {
		case c >= first && c <= last || c >= '0' && c <= '9':
			between = true
		case c == separator && between:
			between = false
		default:
			return false
		}
	}
	return between
}

// kebab converts a name to lower case with single hyphens.
func kebab(s string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(s) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			b.WriteRune(r)
		} else if b.Len() > 0 && !strings.HasSuffix(b.String(), "-") {
			b.WriteByte('-')
		}
	}
	return strings.TrimSuffix(b.String(), "-")
}

// skillDescription returns the description of a skill, or the first paragraph of its text.
func (l *lowering) skillDescription(start source.Span, body string) text.Text {
	description := l.scalar("description")
	if n := l.doc.front.Get("description"); n != nil && n.Kind >= text.List {
		l.lenient(CodeSkillType, headOf(n), "Use a single string, in quotes if it contains a colon.",
			"The description is %s, not a string.", n.Kind)
		description = text.Text{Value: l.file.Text[n.Span.Start:n.Span.End], Span: n.Span}
	}
	if strings.TrimSpace(description.Value) != "" {
		l.tooLong("description", description, maxDescriptionLength)
		return description
	}
	paragraph := firstParagraph(body)
	if l.doc.md.HasFrontmatter || paragraph == "" {
		l.out.Warnf(CodeNoDescription, start,
			"Add \"description: …\" to the frontmatter: what the skill does and when to use it.",
			"The skill has no description, so agents cannot tell when to use it.")
	}
	return text.Text{Value: paragraph, Span: start}
}

// tooLong notes a value with more characters than the rules for skills allow.
func (l *lowering) tooLong(key string, t text.Text, limit int) {
	if n := utf8.RuneCountInString(t.Value); n > limit {
		l.lenient(CodeTooLong, t.Span, "Shorten it.", "The %s has %d characters. Other programs allow %d.", key, n,
			limit)
	}
}

// firstParagraph returns the first paragraph of running text.
func firstParagraph(body string) string {
	var lines []string
	fenced := false
	for line := range strings.SplitSeq(body, "\n") {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") || strings.HasPrefix(line, "~~~") {
			fenced = !fenced
			line = ""
		}
		plain := strings.Trim(line, "-*_= ") != "" && !fenced && !strings.HasPrefix(line, "#") &&
			!strings.HasPrefix(line, "<!--")
		if plain {
			lines = append(lines, line)
		} else if lines != nil {
			break
		}
	}
	words := []rune(strings.Join(lines, " "))
	return string(words[:min(len(words), maxDescriptionLength)])
}

// skillMeta adds all frontmatter entries to the program's Meta, and notes deviations from the
// Agent Skills rules.
func (l *lowering) skillMeta(p *ir.Program) {
	if l.doc.front == nil {
		return
	}
	for _, pair := range l.doc.front.Pairs {
		key, n := pair.Key.Value, pair.Value
		if key != "allowed-tools" {
			p.Meta = append(p.Meta, ir.Meta{Name: key, Value: n.JSON(), Span: n.Span})
		}
		if frontmatterShape.Find(key) == nil {
			l.lenient(CodeSkillUnknownKey, pair.Key.Span, l.nearKey(key),
				"%q is not a key of skills. It is shown, but has no effect.", key)
			continue
		}
		l.skillValue(key, n)
	}
}

// nearKey returns help about an unknown key.
func (l *lowering) nearKey(key string) string {
	if near := diag.Nearest(key, frontmatterShape.Names()); near != "" {
		return fmt.Sprintf("Did you mean %q?", near)
	}
	return "Move it under \"metadata\"."
}

// skillValue checks the values that the Agent Skills rules define.
func (l *lowering) skillValue(key string, n *text.Node) {
	switch key {
	case "compatibility":
		l.tooLong(key, n.Text(), maxCompatibility)
	case "metadata":
		if n.Kind != text.Map {
			l.lenient(CodeSkillType, headOf(n), "Use lines of \"name: text\" below it.",
				"%q is %s, not a map of names to strings.", key, n.Kind)
			return
		}
		for _, pair := range n.Pairs {
			if pair.Value.Kind != text.String {
				found := l.lenient(CodeSkillType, headOf(pair.Value), "Put the value in quotes.",
					"%q in \"metadata\" is %s, not a string.", pair.Key.Value, pair.Value.Kind)
				if v := pair.Value; v.Kind != text.Null && v.Exact() && !strings.ContainsAny(v.Value, "\"\\") {
					found.Rewrite(v.Span, v.Value, strconv.Quote(v.Value))
				}
			}
		}
	case "argument-hint":
		if n.Kind >= text.List {
			found := l.lenient(CodeSkillType, headOf(n), "Put it in quotes: argument-hint: \"[…]\".",
				"%q is %s in YAML, not a string.", key, n.Kind)
			written := l.file.Text[n.Span.Start:n.Span.End]
			if strings.HasPrefix(written, "[") && !strings.ContainsAny(written, "\"'\\\r\n&*#") {
				found.Write(n.Span, strconv.Quote(written))
			}
		}
	case "allowed-tools":
		if n.Kind == text.Map {
			l.lenient(CodeSkillType, headOf(n), "Separate the tools with spaces: allowed-tools: Read Grep.",
				"\"allowed-tools\" is a map, not a list, so no tool is allowed.")
		}
		for _, item := range n.Items {
			if item.Kind >= text.List {
				l.lenient(CodeSkillType, headOf(item), "Use one tool name per entry.",
					"An entry of \"allowed-tools\" is %s, not the name of a tool. It is ignored.", item.Kind)
			}
		}
		for _, tool := range toolNames(n) {
			if strings.Count(tool.Value, "(") > strings.Count(tool.Value, ")") {
				l.lenient(CodeSkillType, tool.Span, "Add a closing ).",
					"The parenthesis in %q is never closed, so the whole text is one tool.", tool.Value)
			}
		}
	case "kind":
		l.lenient(CodeOtherKind, n.Span,
			fmt.Sprintf("Use \"kind: %s\" for a workflow, or remove the line.", workflowKind),
			"The kind %q is not an Agent Flow kind, so the file is a plain skill.", n.Value).
			RemoveEntry("kind", l.doc.front.Entry(key))
	}
}

// toolNames parses a list of tools: a YAML list, or one string with commas or spaces between
// the names, outside parentheses (F34).
func toolNames(n *text.Node) []text.Text {
	var out []text.Text
	switch {
	case n.Kind == text.List:
		for _, item := range n.Items {
			if item.Kind < text.List && strings.TrimSpace(item.Value) != "" {
				out = append(out, item.Text())
			}
		}
	case n.Kind != text.Map && n.Kind != text.Null:
		depth, start := 0, -1
		for i := 0; i <= len(n.Value); i++ {
			separator := i == len(n.Value)
			if !separator {
				switch c := n.Value[i]; c {
				case '(':
					depth++
				case ')':
					depth = max(0, depth-1)
				case ' ', ',', '\t', '\n', '\r':
					separator = depth == 0
				}
			}
			switch {
			case separator && start >= 0:
				out = append(out, text.Text{Value: n.Value[start:i], Span: part(n, start, i)})
				start = -1
			case !separator && start < 0:
				start = i
			}
		}
	}
	return out
}

// joined returns a scalar, or the list that an unquoted [x] yields, as text.
func joined(n *text.Node) text.Text {
	if n.Kind < text.List {
		return n.Text()
	}
	items := xslices.Map(n.Items, func(item *text.Node) string { return item.Value })
	return text.Text{Value: "[" + strings.Join(items, ", ") + "]", Span: n.Span}
}

// part returns the span of some bytes of a scalar, or of all of it if its value differs from
// its source text.
func part(n *text.Node, start, end int) source.Span {
	if n.Exact() {
		return n.Span.Sub(start, end)
	}
	return n.Span
}

// headOf returns the span of a scalar, or of the beginning of a larger value up to its first
// entry.
func headOf(n *text.Node) source.Span {
	at, first := n.Span, n.Span
	switch {
	case n.Kind == text.Map && len(n.Pairs) > 0:
		first = n.Pairs[0].Key.Span
	case n.Kind == text.List && len(n.Items) > 0:
		first = headOf(n.Items[0])
	}
	if first.Start < at.Start { // an alias is defined elsewhere
		return first
	}
	at.End = min(at.End, max(first.End, at.Start))
	return at
}

// firstLine returns the position for diagnostics about something missing: the first key, or
// else the first line.
func (l *lowering) firstLine() source.Span {
	if l.doc.front != nil && len(l.doc.front.Pairs) > 0 {
		return l.doc.front.Pairs[0].Key.Span
	}
	return l.file.Span(0, len(l.file.Line(1)))
}

// bodySpan returns the span of everything after the frontmatter.
func (l *lowering) bodySpan() source.Span {
	return l.file.Span(l.doc.md.Body.Start, len(l.file.Text))
}

// lenient adds a note about a deviation that was accepted.
func (l *lowering) lenient(code diag.Code, at source.Span, help, format string, args ...any) *diag.Diagnostic {
	found := l.out.Notef(code, at, help, format, args...)
	found.Lenient = true
	return found
}

// named converts texts to names of the program.
func named(list []text.Text) []ir.Name {
	return xslices.Map(list, func(t text.Text) ir.Name { return ir.Name{Name: t.Value, Span: t.Span} })
}
