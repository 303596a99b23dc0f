package agentflow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
)

// leftovers are the entries of a map that did not bind to a field with a value.
type leftovers struct {
	what    string      // the map, in messages
	parent  *shape      // the enclosing shape, or nil
	blank   []text.Pair // keys without a value
	strange []text.Pair // keys that are not in the shape
}

// report adds diagnostics about missing, empty and unknown keys of a map. A key that is
// present, but empty or misspelled, is one mistake and not two.
func (b *binder) report(v *values, rest *leftovers) {
	for i := range v.shape.fields {
		if f := &v.shape.fields[i]; f.required && v.find(f.name) == nil {
			b.need(v, rest, []string{f.name}, v.first, fmt.Sprintf("The %s has no %q.", rest.what, f.name))
		}
	}
	if v.shape == frontmatterShape && slices.ContainsFunc(rest.strange,
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
	if v.shape == contractShape && len(rest.strange) > 0 {
		b.looseSchema(v, rest)
		return
	}
	for _, pair := range rest.blank {
		f := v.shape.field(pair.Key.Value)
		outside := func(p text.Pair) bool { return f.kind == object && f.shape.field(p.Key.Value) != nil }
		if !slices.ContainsFunc(rest.strange, outside) { // those are reported with the section they belong to
			b.blank(f, pair.Key)
		}
	}
	if !v.shape.open || v.shape == frontmatterShape {
		b.strange(v, rest)
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
	misspelled := slices.IndexFunc(rest.strange, func(p text.Pair) bool {
		return slices.Contains(keys, diag.Nearest(p.Key.Value, v.shape.names()))
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
		pair := rest.strange[misspelled]
		found.Span = pair.Key.Span
		near := diag.Nearest(pair.Key.Value, v.shape.names())
		found.Help = fmt.Sprintf("Rename the key %q to %q.", pair.Key.Value, near)
		found.Replace(pair.Key.Value, near)
		b.unread = append(b.unread, pairSpan(pair))
		rest.strange = slices.Delete(rest.strange, misspelled, misspelled+1)
	}
	b.out.Add(found)
}

func (v *values) hasOne(keys []string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { return v.find(key) != nil })
}

// blank reports a key without a value. It is an error if the key affects runs.
func (b *binder) blank(f *field, key *text.Node) {
	severity := diag.Error
	if f.remark {
		severity = diag.Warning
	}
	b.out.Add(diag.Diagnostic{
		Code: CodeNoValue, Severity: severity, Span: key.Span,
		Message: fmt.Sprintf("%q has no value.", f.name),
		Help:    fmt.Sprintf("Add a value after %s:, or remove the line.", f.name),
	})
}

// strange reports unknown keys of a map, and where misplaced ones belong.
func (b *binder) strange(v *values, rest *leftovers) {
	var misplaced []*shape // sections that were moved here with all their keys
	for _, pair := range rest.strange {
		key := pair.Key.Value
		b.warned = append(b.warned, pairSpan(pair))
		if slices.ContainsFunc(misplaced, func(s *shape) bool { return s.field(key) != nil }) {
			continue
		}
		found := diag.Diagnostic{
			Code: CodeUnknownKey, Severity: diag.Warning, Span: pair.Key.Span,
			Message: fmt.Sprintf("Unknown key %[2]q in the %[1]s.", rest.what, key),
		}
		found.Suggest(key, v.shape.names(), v.keys()...)
		if rest.parent != nil && rest.parent.field(rest.what) != nil {
			found.Message = fmt.Sprintf("Unknown key %q under %q.", key, rest.what)
		}
		inner := slices.IndexFunc(v.shape.fields, func(f field) bool {
			return f.kind == object &&
				f.shape.field(key) != nil
		})
		sibling := -1 // the section beside this one that has the key
		if rest.parent != nil {
			sibling = slices.IndexFunc(rest.parent.fields, func(f field) bool {
				return f.kind == object &&
					f.shape != v.shape && f.shape.field(key) != nil
			})
		}
		near := v.shape.nearest(key)
		if near != nil && found.Fixes == nil {
			found.Help = fmt.Sprintf("Did you mean %q?", near.name)
		}
		guards := near != nil && (near.guards || v.shape.guards)
		switch {
		case near != nil:
		case rest.parent != nil && rest.parent.field(key) != nil:
			found.Help = fmt.Sprintf("Move it next to %q: give both the same indentation.", rest.what)
			guards = rest.parent.field(key).guards
			if f := rest.parent.field(key); f.kind == object && pair.Value.Kind == text.Null {
				misplaced = append(misplaced, f.shape)
				found.Help = fmt.Sprintf("Move it next to %q: give both the same indentation, and indent its keys more.",
					rest.what)
			}
		case sibling >= 0:
			misplaced = append(misplaced, rest.parent.fields[sibling].shape)
			guards = rest.parent.fields[sibling].shape.guards
			found.Help = fmt.Sprintf("Move it under %q; check the keys next to it, too.",
				rest.parent.fields[sibling].name)
		case inner >= 0:
			found.Help = fmt.Sprintf("Indent it below %q.", v.shape.fields[inner].name)
			guards = v.shape.fields[inner].shape.guards
		}
		if guards {
			found.Severity = diag.Error
		}
		b.out.Add(found)
	}
}

// nearest returns the field that was probably meant by an unknown key; nil if none is close. A part of a longer name,
// such as max_cost for max_cost_usd, is close to it.
func (s *shape) nearest(key string) *field {
	if near := diag.Nearest(key, s.names()); near != "" {
		return s.field(near)
	}
	for i := range s.fields {
		if f := &s.fields[i]; f.guards || s.guards {
			if strings.HasPrefix(f.name, key+"_") || strings.HasPrefix(key, f.name+"_") {
				return f
			}
		}
	}
	return nil
}

// looseSchema reports keys beside "schema" that probably belong in it. All of them are one
// mistake.
func (b *binder) looseSchema(v *values, rest *leftovers) {
	for _, pair := range rest.strange {
		b.warned = append(b.warned, pairSpan(pair))
	}
	key := rest.strange[0].Key
	found := diag.Diagnostic{
		Code: CodeUnknownKey, Severity: diag.Warning, Span: key.Span,
		Message: fmt.Sprintf("Unknown key %q under %q.", key.Value, rest.what),
		Help:    "Indent the keys of the JSON Schema below \"schema:\".",
	}
	if near := diag.Nearest(key.Value, v.shape.names()); near != "" {
		found.Help = fmt.Sprintf("Did you mean %q?", near)
		found.Replace(key.Value, near)
	}
	b.out.Add(found)
}

func pairSpan(p text.Pair) source.Span {
	at := p.Key.Span
	at.End = max(at.End, p.Value.Span.End)
	return at
}

// keys returns the known keys that are present.
func (v *values) keys() []string {
	keys := slices.Clone(v.blank)
	for i := range v.found {
		keys = append(keys, v.found[i].field.name)
	}
	return keys
}

// names returns the keys of a shape.
func (s *shape) names() []string {
	names := make([]string, len(s.fields))
	for i := range s.fields {
		names[i] = s.fields[i].name
	}
	return names
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
	"reads", "writes", "tools", "allowlist", "denylist", "retry_on", "required_events",
	"required_ids",
}

// stray warns about values that end in a quotation mark or bracket without its opening
// counterpart.
func (b *binder) stray(at *value) {
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
		b.out.Add(diag.Diagnostic{
			Code: CodeStray, Severity: diag.Warning, Span: t.Span,
			Message: fmt.Sprintf("The value ends with an unmatched %s, which becomes part of it.", last),
			Help:    "Add the matching character, or remove it.",
		})
	}
	switch at.field.kind {
	case word:
		if !at.field.condition && at.field.name != "id" { // ids have their own rules
			check(at.text)
		}
	case words:
		if slices.Contains(checkedNames, at.field.name) {
			return
		}
		for _, t := range at.list {
			check(t)
		}
	}
}
