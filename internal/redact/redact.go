package redact

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/jsonfast"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Rules are redaction rules. A nil *Rules redacts nothing. They are safe for concurrent use. Redaction cannot be
// undone: it is for what people see, and runs continue with the original values.
type Rules struct {
	rules []rule
	// members redacts the values of members with secret names.
	members bool
}

// New returns rules for personal data, for secrets, and for patterns, each of
// which is the name of a rule, in any case, or a regular expression. Invalid
// patterns are reported in the error; the valid ones still apply. It returns nil
// when there is nothing to redact.
func New(withPII, withSecrets bool, patterns ...string) (*Rules, error) {
	if !withPII && !withSecrets && len(patterns) == 0 {
		return nil, nil
	}
	var errs []error
	own := map[string]bool{}
	r := &Rules{members: withSecrets}
	all := builtin()
	for _, p := range patterns {
		if i := slices.IndexFunc(all, func(one rule) bool { return strings.EqualFold(one.name, p) }); i >= 0 {
			own[all[i].name] = true
			continue
		}
		// The author's patterns come first, since they are the most specific.
		re, err := regexp.Compile(p)
		if err != nil {
			errs = append(errs, fmt.Errorf("%q is neither the name of a rule nor a regular expression: %w", p, err))
			continue
		}
		r.rules = append(r.rules, rule{name: "pattern", find: func() *regexp.Regexp { return re }})
	}
	for _, one := range all {
		if own[one.name] || withPII && one.group == pii || withSecrets && one.group == secret {
			r.rules = append(r.rules, one)
		}
	}
	return r, errors.Join(errs...)
}

// ForAudits returns the rules that the audit settings of workflows select. With secrets, secrets are redacted even if
// the workflows do not ask for it.
func ForAudits(secrets bool, audits ...*ir.Audit) *Rules {
	var pii bool
	var patterns []string
	for _, a := range audits {
		pii, secrets = pii || a.RedactPII, secrets || a.RedactSecrets
		patterns = append(patterns, xslices.Map(a.RedactPatterns, func(name ir.Name) string { return name.Name })...)
	}
	// An invalid pattern was reported when the workflow was checked.
	rules, _ := New(pii, secrets, patterns...)
	return rules
}

// Text redacts a text, and reports whether a rule matched. Rules apply one after the other to the pieces that no
// earlier rule has replaced, so that a replacement is not redacted again.
func (r *Rules) Text(text string) (string, bool) {
	if r == nil || text == "" {
		return text, false
	}
	pieces, found := []piece{{text: text}}, false
	for i := range r.rules {
		if !r.rules[i].hinted(text) {
			continue
		}
		var next []piece
		for _, p := range pieces {
			if p.hidden {
				next = append(next, p)
				continue
			}
			split, some := r.rules[i].split(p.text)
			next, found = append(next, split...), found || some
		}
		pieces = next
	}
	if !found {
		return text, false
	}
	var b strings.Builder
	for _, p := range pieces {
		b.WriteString(p.text)
	}
	return b.String(), true
}

// hinted reports whether a text may have a match.
func (c *rule) hinted(text string) bool {
	return c.hints == nil || slices.ContainsFunc(c.hints,
		func(hint string) bool { return strings.Contains(text, hint) })
}

// piece is a part of a text: unchanged, or the replacement of a match.
type piece struct {
	text   string
	hidden bool
}

func (c *rule) split(text string) (out []piece, found bool) {
	at := 0
	for _, m := range c.find().FindAllStringSubmatchIndex(text, -1) {
		start, end := m[0], m[1]
		if c.group != "" && len(m) > 2 && m[2] >= 0 {
			start, end = m[2], m[3]
		}
		if start == end || c.real != nil && !c.real(text, start, end) {
			continue
		}
		out = append(out, piece{text: text[at:start]}, piece{text: mark(c.name), hidden: true})
		at, found = end, true
	}
	return append(out, piece{text: text[at:]}), found
}

func mark(name string) string { return marked + name + "]" }

// marked is how the replacement of a match starts.
const marked = "[redacted "

// Marked reports whether a text has replacements: it is not what the run has.
func Marked(text string) bool { return strings.Contains(text, marked) }

// JSON redacts the texts, names and long numbers of a value, and reports whether
// a rule matched.
func (r *Rules) JSON(raw json.RawMessage) (json.RawMessage, bool, error) {
	if r == nil || len(raw) == 0 {
		return raw, false, nil
	}
	in := json.NewDecoder(bytes.NewReader(raw))
	in.UseNumber()
	var v any
	if err := in.Decode(&v); err != nil {
		return nil, false, err
	}
	found := false
	v = r.value(v, &found)
	if !found {
		return raw, false, nil
	}
	out, err := jsonfast.Marshal(v)
	return out, err == nil, err
}

// value redacts a decoded value. Members are visited in the order of their names, so that the same value is redacted in
// the same way. Lists are changed in place, objects are copied, because their names can change.
func (r *Rules) value(v any, found *bool) any {
	switch x := v.(type) {
	case string:
		text, some := r.Text(x)
		*found = *found || some
		return text
	case json.Number:
		if text, some := r.Text(string(x)); some {
			*found = true
			return text
		}
	case []any:
		for i := range x {
			x[i] = r.value(x[i], found)
		}
	case map[string]any:
		out := make(map[string]any, len(x))
		for _, name := range slices.Sorted(maps.Keys(x)) {
			value := x[name]
			if text, ok := value.(string); r.members && ok && text != "" && secretName(name) {
				value, *found = mark("secret"), true
			} else {
				value = r.value(value, found)
			}
			hidden, some := r.Text(name)
			*found = *found || some
			for n := 2; some; n++ { // two names may have the same replacement
				if _, taken := out[hidden]; !taken {
					break
				}
				hidden = fmt.Sprintf("%s %d", strings.TrimSuffix(hidden, fmt.Sprintf(" %d", n-1)), n)
			}
			out[hidden] = value
		}
		return out
	}
	return v
}

// secretName reports whether the name of a member marks its value as secret.
func secretName(name string) bool {
	var b strings.Builder
	before := ' '
	for _, r := range name {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			r = ' '
		}
		if unicode.IsUpper(r) && unicode.IsLower(before) {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
		before = r
	}
	words := " " + strings.Join(strings.Fields(b.String()), " ")
	return slices.ContainsFunc(secretNames, func(one string) bool { return strings.HasSuffix(words, " "+one) })
}
