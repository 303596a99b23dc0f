package agentflow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
)

// leftovers is what a map has beside the keys that were read.
type leftovers struct {
	what    string      // the map, in messages
	parent  *shape      // around it, or nil
	blank   []text.Pair // keys without a value
	strange []text.Pair // keys that the shape does not have
}

// report says what a map lacks, and what is left over in it. A key that is
// there, but empty or misspelt, is one mistake and not two.
func (b *binder) report(v *values, rest *leftovers) {
	for i := range v.shape.fields {
		if f := &v.shape.fields[i]; f.required && v.find(f.name) == nil {
			b.need(v, rest, []string{f.name}, v.first, fmt.Sprintf("The %s has no %q.", rest.what, f.name))
		}
	}
	if v.shape == frontmatterShape && slices.ContainsFunc(rest.strange, func(p text.Pair) bool { return p.Value.Value == workflowKind }) {
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
		if !slices.ContainsFunc(rest.strange, outside) { // which are told where they belong
			b.blank(f, pair.Key)
		}
	}
	if !v.shape.open || v.shape == frontmatterShape {
		b.strange(v, rest)
	}
}

// need reports a key that must be there; one of several is enough.
func (b *binder) need(v *values, rest *leftovers, keys []string, at source.Span, message string) {
	if b.cut || v.hasOne(keys) {
		return
	}
	found := diag.Diagnostic{
		Code: CodeMissing, Severity: diag.Error, Span: at, Message: message,
		Help: fmt.Sprintf("Add a line with %s: and its value.", keys[0]),
	}
	empty := slices.IndexFunc(rest.blank, func(p text.Pair) bool { return slices.Contains(keys, p.Key.Value) })
	misspelt := slices.IndexFunc(rest.strange, func(p text.Pair) bool {
		return slices.Contains(keys, diag.Nearest(p.Key.Value, v.shape.names()))
	})
	switch {
	case empty >= 0:
		key := rest.blank[empty].Key
		found.Span = key.Span
		found.Message = fmt.Sprintf("%q of the %s is empty.", key.Value, rest.what)
		found.Help = fmt.Sprintf("Write a value after %s:.", key.Value)
		rest.blank = slices.Delete(rest.blank, empty, empty+1)
		if b.broken != nil {
			return // its value may be what is wrong
		}
	case misspelt >= 0:
		pair := rest.strange[misspelt]
		found.Span = pair.Key.Span
		found.Help = fmt.Sprintf("There is a key %q; rename it to %q.", pair.Key.Value, diag.Nearest(pair.Key.Value, v.shape.names()))
		b.unread = append(b.unread, pairSpan(pair))
		rest.strange = slices.Delete(rest.strange, misspelt, misspelt+1)
	}
	b.out.Add(found)
}

func (v *values) hasOne(keys []string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { return v.find(key) != nil })
}

// blank reports a key without a value: an error when a run would be another
// one without it.
func (b *binder) blank(f *field, key *text.Node) {
	severity := diag.Error
	if f.remark {
		severity = diag.Warning
	}
	b.out.Add(diag.Diagnostic{
		Code: CodeNoValue, Severity: severity, Span: key.Span,
		Message: fmt.Sprintf("%q has no value, so it says nothing.", f.name),
		Help:    fmt.Sprintf("Write a value after %s:, or remove the line.", f.name),
	})
}

// strange reports the keys that a map should not have, and where those belong
// that only stand in the wrong place.
func (b *binder) strange(v *values, rest *leftovers) {
	var strayed []*shape // sections that stand in here with all their keys
	for _, pair := range rest.strange {
		key := pair.Key.Value
		b.warned = append(b.warned, pairSpan(pair))
		if slices.ContainsFunc(strayed, func(s *shape) bool { return s.field(key) != nil }) {
			continue
		}
		found := diag.Diagnostic{
			Code: CodeUnknownKey, Severity: diag.Warning, Span: pair.Key.Span,
			Message: fmt.Sprintf("The %s has no key %q.", rest.what, key),
			Help:    diag.DidYouMean(key, v.shape.names()),
		}
		if rest.parent != nil && rest.parent.field(rest.what) != nil {
			found.Message = fmt.Sprintf("There is no key %q under %q.", key, rest.what)
		}
		inner := slices.IndexFunc(v.shape.fields, func(f field) bool { return f.kind == object && f.shape.field(key) != nil })
		aunt := -1 // the section beside this one that has the key
		if rest.parent != nil {
			aunt = slices.IndexFunc(rest.parent.fields, func(f field) bool { return f.kind == object && f.shape != v.shape && f.shape.field(key) != nil })
		}
		switch {
		case diag.Nearest(key, v.shape.names()) != "":
		case rest.parent != nil && rest.parent.field(key) != nil:
			found.Help = fmt.Sprintf("It belongs beside %q, not under it: indent it as little.", rest.what)
			if f := rest.parent.field(key); f.kind == object && pair.Value.Kind == text.Null {
				strayed = append(strayed, f.shape)
				found.Help = fmt.Sprintf("It belongs beside %q, not under it: indent it as little, and its keys below it more.", rest.what)
			}
		case aunt >= 0:
			strayed = append(strayed, rest.parent.fields[aunt].shape)
			found.Help = fmt.Sprintf("It belongs under %q, as other keys here may.", rest.parent.fields[aunt].name)
		case inner >= 0:
			found.Help = fmt.Sprintf("It belongs under %q: indent it below that key.", v.shape.fields[inner].name)
		}
		b.out.Add(found)
	}
}

// looseSchema reports keys beside "schema" that are probably meant to be in it:
// all of them are one mistake.
func (b *binder) looseSchema(v *values, rest *leftovers) {
	for _, pair := range rest.strange {
		b.warned = append(b.warned, pairSpan(pair))
	}
	key := rest.strange[0].Key
	found := diag.Diagnostic{
		Code: CodeUnknownKey, Severity: diag.Warning, Span: key.Span,
		Message: fmt.Sprintf("There is no key %q under %q.", key.Value, rest.what),
		Help:    "Write the keys of a JSON Schema below \"schema:\", and indent them more.",
	}
	if near := diag.Nearest(key.Value, v.shape.names()); near != "" {
		found.Help = fmt.Sprintf("Did you mean %q?", near)
	}
	b.out.Add(found)
}

func pairSpan(p text.Pair) source.Span {
	at := p.Key.Span
	at.End = max(at.End, p.Value.Span.End)
	return at
}

// names are the keys of a shape.
func (s *shape) names() []string {
	names := make([]string, len(s.fields))
	for i := range s.fields {
		names[i] = s.fields[i].name
	}
	return names
}

// stepKind is a step's type, or when it is missing or unusable, and reported,
// the one that its keys are made for.
func stepKind(v *values) string {
	if kind := v.word("type").Value; kind != "" {
		return kind
	}
	for _, guess := range []struct{ key, kind string }{
		{"bundle", "parallel"}, {"branches", "decision"}, {"gate_method", "gate"}, {"tool", "tool"}, {"agent", "skill"}, {"skill_ref", "skill"},
	} {
		if v.has(guess.key) {
			return guess.kind
		}
	}
	return "transform"
}

// checkedNames are keys whose entries must be names that exist, or that can be
// ones: a stray sign in them is reported as such.
var checkedNames = []string{"reads", "writes", "tools", "allowlist", "denylist", "retry_on", "required_events", "required_ids"}

// stray warns of a text that ends in a quotation mark or a bracket which it
// does not open: one of a pair was forgotten.
func (b *binder) stray(at *value) {
	look := func(t text.Text) {
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
			Message: fmt.Sprintf("This value ends with %s, but nothing opens it, so it is part of the value.", last),
			Help:    "Write the other one of the pair as well, or remove it.",
		})
	}
	switch at.field.kind {
	case word:
		if !at.field.condition && at.field.name != "id" { // ids have rules of their own
			look(at.text)
		}
	case words:
		if slices.Contains(checkedNames, at.field.name) {
			return
		}
		for _, t := range at.list {
			look(t)
		}
	}
}
