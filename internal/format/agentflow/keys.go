package agentflow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
	"github.com/espalier-run/espalier/internal/xslices"
)

// leftovers are the entries of a map that did not bind to a field with a value.
type leftovers struct {
	what    string      // the map, in messages
	parent  *text.Shape // the enclosing shape, or nil
	blank   []text.Pair // keys without a value
	unknown []text.Pair // keys that are not in the shape
}

// report adds diagnostics about missing, empty and unknown keys of a map. A key that is
// present, but empty or misspelled, is one mistake and not two.
func (b *binder) report(v *values, rest *leftovers) {
	for i := range v.shape.Fields {
		if f := &v.shape.Fields[i]; f.Required && v.find(f.Name) == nil {
			b.need(v, rest, []string{f.Name}, v.first, fmt.Sprintf("The %s has no %q.", rest.what, f.Name))
		}
	}
	if v.shape == frontmatterShape && slices.ContainsFunc(rest.unknown,
		func(p text.Pair) bool { return p.Value.Value == workflowKind }) {
		b.need(v, rest, []string{"kind"}, v.first, "The frontmatter has no \"kind\".")
	}
	if v.shape == stepShape {
		kind := stepKind(v)
		for _, group := range findStepType(kind).needs {
			if v.hasOne(group) {
				continue
			}
			at := v.first
			if n := v.node("type"); n != nil {
				at = n.Span
			} else if id := v.word("id"); id.Value != "" {
				at = id.Span
			}
			b.need(v, rest, group, at, fmt.Sprintf("%s step needs %q.", upper(article(kind)), group[0]))
		}
	}
	if v.shape == contractShape && len(rest.unknown) > 0 {
		b.looseSchema(v, rest)
		return
	}
	for _, pair := range rest.blank {
		f := v.shape.Find(pair.Key.Value)
		outside := func(p text.Pair) bool { return f.Form == text.Object && f.Shape.Find(p.Key.Value) != nil }
		if !slices.ContainsFunc(rest.unknown, outside) { // those are reported with the section they belong to
			b.blank(v, f, pair.Key)
		}
	}
	if !v.shape.IsOpen || v.shape == frontmatterShape {
		b.unknownKeys(v, rest)
	}
}

// need reports that none of the given keys is present.
func (b *binder) need(v *values, rest *leftovers, keys []string, at source.Span, message string) {
	if b.cut || v.hasOne(keys) {
		return
	}
	found := diag.Diagnostic{
		Code: CodeMissing, Severity: diag.Error, Span: at, Message: message,
		Help: fmt.Sprintf("Add \"%s:\" with a value.", keys[0]),
	}
	empty := slices.IndexFunc(rest.blank, func(p text.Pair) bool { return slices.Contains(keys, p.Key.Value) })
	misspelled := slices.IndexFunc(rest.unknown, func(p text.Pair) bool {
		return slices.Contains(keys, diag.Nearest(p.Key.Value, v.shape.Names()))
	})
	switch {
	case empty >= 0:
		key := rest.blank[empty].Key
		found.Span = key.Span
		found.Message = fmt.Sprintf("The %[2]s has an empty %[1]q.", key.Value, rest.what)
		found.Help = fmt.Sprintf("Add a value after %s:.", key.Value)
		rest.blank = slices.Delete(rest.blank, empty, empty+1)
		if b.broken != nil {
			return // the syntax error may be in its value
		}
	case misspelled >= 0:
		pair := rest.unknown[misspelled]
		found.Span = pair.Key.Span
		near := diag.Nearest(pair.Key.Value, v.shape.Names())
		found.Help = fmt.Sprintf("Rename the key %q to %q.", pair.Key.Value, near)
		found.Replace(pair.Key.Value, near)
		b.unread = append(b.unread, pairSpan(pair))
		rest.unknown = slices.Delete(rest.unknown, misspelled, misspelled+1)
	}
	b.out.Add(found)
}

// hasOne reports whether at least one of some keys has a value.
func (v *values) hasOne(keys []string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { return v.find(key) != nil })
}

// blank reports a key without a value. It is an error if the key affects runs.
func (b *binder) blank(v *values, f *text.Field, key *text.Node) {
	severity := diag.Error
	if f.Remark {
		severity = diag.Warning
	}
	b.out.Reportf(CodeNoValue, severity, key.Span, fmt.Sprintf("Add a value after %s:, or remove the line.", f.Name),
		"%q has no value.", f.Name).RemoveEntry(f.Name, v.entry(f.Name))
}

// unknownKeys reports unknown keys of a map, and where misplaced ones belong.
func (b *binder) unknownKeys(v *values, rest *leftovers) {
	var misplaced []*text.Shape // sections that were moved here with all their keys
	for _, pair := range rest.unknown {
		key := pair.Key.Value
		b.warned = append(b.warned, pairSpan(pair))
		if slices.ContainsFunc(misplaced, func(s *text.Shape) bool { return s.Find(key) != nil }) {
			continue
		}
		found := b.out.Warnf(CodeUnknownKey, pair.Key.Span, "", "Unknown key %q in the %s.", key, rest.what)
		found.Suggest(key, v.shape.Names(), v.keys()...)
		if rest.parent != nil && rest.parent.Find(rest.what) != nil {
			found.Message = fmt.Sprintf("Unknown key %q under %q.", key, rest.what)
		}
		near := nearest(v.shape, key)
		guards := near != nil && (near.Guards || v.shape.Guards)
		if near != nil && found.Fixes == nil {
			found.Help = fmt.Sprintf("Did you mean %q?", near.Name)
		} else if home, ok := v.shape.HomeOf(pair, rest.what, rest.parent); ok && near == nil {
			found.Help, guards = home.Help, home.Guards
			if home.Section != nil {
				misplaced = append(misplaced, home.Section)
			}
		}
		if guards {
			found.Severity = diag.Error
		}
	}
}

// nearest returns the field that was probably meant by an unknown key; nil if none is close. A part of a longer name,
// such as max_cost for max_cost_usd, is close to it.
func nearest(s *text.Shape, key string) *text.Field {
	if near := diag.Nearest(key, s.Names()); near != "" {
		return s.Find(near)
	}
	for i := range s.Fields {
		if f := &s.Fields[i]; f.Guards || s.Guards {
			if strings.HasPrefix(f.Name, key+"_") || strings.HasPrefix(key, f.Name+"_") {
				return f
			}
		}
	}
	return nil
}

// looseSchema reports keys beside "schema" that probably belong in it. All of them are one
// mistake.
func (b *binder) looseSchema(v *values, rest *leftovers) {
	b.warned = append(b.warned, xslices.Map(rest.unknown, pairSpan)...)
	key := rest.unknown[0].Key
	b.out.Warnf(CodeUnknownKey, key.Span, "Indent the keys of the JSON Schema below \"schema:\".",
		"Unknown key %q under %q.", key.Value, rest.what).SuggestNear(key.Value, v.shape.Names())
}

// pairSpan returns the span from a key to the end of its value.
func pairSpan(p text.Pair) source.Span {
	at := p.Key.Span
	at.End = max(at.End, p.Value.Span.End)
	return at
}

// keys returns the known keys that are present.
func (v *values) keys() []string {
	return slices.Concat(v.blank, xslices.Map(v.found, func(one value) string { return one.field.Name }))
}

// stepKind returns a step's type. If it is missing or invalid, which is reported elsewhere,
// stepKind infers one from the step's keys.
func stepKind(v *values) string {
	if kind := v.word("type").Value; kind != "" {
		return kind
	}
	for _, guess := range []struct{ key, kind string }{
		{"bundle", "parallel"},
		{"branches", "decision"},
		{"gate_method", "gate"},
		{"tool", "tool"},
		{"agent", "skill"},
		{"skill_ref", "skill"},
	} {
		if v.has(guess.key) {
			return guess.kind
		}
	}
	return "transform"
}

// checkedNames are keys with names as entries, which are checked on their own: stray characters
// in them need no extra diagnostic.
var checkedNames = []string{
	"reads", "writes", "tools", "allowlist", "denylist", "retry_on", "required_events", "required_ids",
	allowedTools, argumentHint,
}

// warnUnmatchedDelimiter warns about values that end in a quotation mark or bracket without its opening
// counterpart.
func (b *binder) warnUnmatchedDelimiter(at *value) {
	check := func(t text.Text) {
		if t.Value == "" || strings.Contains(t.Value, "\n") {
			return
		}
		last := t.Value[len(t.Value)-1:]
		switch last {
		case `"`:
			if strings.Count(t.Value, last)%2 == 0 {
				return
			}
		case "]", "}":
			if strings.ContainsAny(t.Value, "[{") {
				return
			}
		default:
			return
		}
		b.out.Warnf(CodeStray, t.Span, "Add the matching character, or remove it.",
			"The value ends with an unmatched %s, which becomes part of it.", last)
	}
	switch at.field.Form {
	case text.AString:
		// Ids, versions and choices have their own rules.
		if f := at.field; !f.Condition && f.Choices == nil && f.Name != "id" && f.Name != "version" {
			check(at.text)
		}
	case text.OneOrStrings:
		if slices.Contains(checkedNames, at.field.Name) {
			return
		}
		for _, t := range at.list {
			check(t)
		}
	}
}
