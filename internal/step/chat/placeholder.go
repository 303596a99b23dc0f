package chat

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/espalier-run/espalier/internal/lazyregexp"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/schema"
)

// Models sometimes reply with placeholders that fit the schema, such as {"name": "<name>"}; later steps would
// take them for answers. The checks match form, not words, because a false positive costs a retry and may fail
// the step: "<div>" can be an answer. Words such as "TODO" are rejected only in a repaired reply, and only if
// the first reply did not contain them. "N/A" is an answer.

var (
	// dots matches an ellipsis in place of an answer.
	dots = lazyregexp.New(`^\s*(\.{3,}|…)\s*$`)
	// standIn matches a text in brackets, but not ${API_KEY} or {{ image }}, which occur in configurations and
	// templates.
	standIn = lazyregexp.New(`^\s*(?:<([^<>]*)>|\[([^\[\]]*)\])\s*$`)
	// emptyWord matches common placeholders.
	emptyWord = lazyregexp.New(
		`(?i)^\s*(<[^<>]*>|\{\{[^{}]*\}\}|\[(insert|your|todo|placeholder)[^\[\]]*\]|todo|tbd|placeholder|lorem ipsum.*)\s*$`)
)

// placeholders returns a problem for each placeholder in a value. Texts that the schema lists are no
// placeholders. before is the first reply if this one is its repair, otherwise nil.
func (r *reader) placeholders(value json.RawMessage, before *provider.Reply) []string {
	if !r.form.strict() || r.form.Plain {
		return nil
	}
	var all any
	if json.Unmarshal(value, &all) != nil {
		return nil
	}
	s := search{mended: before != nil}
	if s.mended {
		s.before = before.Text()
	}
	var about []*schema.Node
	if r.schema != nil {
		about = withReferred(r.schema.Root())
		var itself any
		if object, ok := all.(map[string]any); ok && len(object) > 0 && json.Unmarshal(r.form.Schema, &itself) == nil &&
			reflect.DeepEqual(all, itself) {
			return []string{"it is the schema itself and not an answer"}
		}
	}
	s.look("", "", all, about)
	if s.types > 0 && s.types == s.texts && (s.types > 1 || s.mended && !s.saidBefore(typeName)) {
		s.found = append(s.found, fmt.Sprintf("%q is the type of an answer and not an answer", typeName))
	}
	return s.found
}

// typeName is a placeholder if every text of a reply is equal to it: then the reply copies the schema. Among
// other texts it may be an answer.
const typeName = "string"

// search collects the placeholders in one reply. before is the text of the first reply if this one is its repair.
type search struct {
	mended bool
	before string
	found  []string
	texts  int
	types  int // texts that are typeName, and are not about types
}

// look checks a value against all schema nodes that describe it.
func (s *search) look(at, key string, value any, about []*schema.Node) {
	// Texts are checked; lists and objects are walked through with the schema nodes of their parts.
	switch v := value.(type) {
	case string:
		s.texts++
		switch {
		case named(about, v):
		case s.isPlaceholder(key, v, about):
			s.found = append(s.found, fmt.Sprintf("%s%q is a placeholder and not an answer", at, v))
		case strings.EqualFold(strings.TrimSpace(v), typeName) && !slices.Contains(words(key), "type"):
			s.types++
		}
	case []any:
		for i, one := range v {
			var of []*schema.Node
			for _, n := range about {
				if i < len(n.PrefixItems) {
					of = append(of, n.PrefixItems[i])
				} else {
					of = append(of, n.Items)
				}
			}
			s.look(fmt.Sprintf("%s%d: ", at, i), key, one, withReferred(of...))
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			var of []*schema.Node
			for _, n := range about {
				of = append(of, property(n, name)...)
			}
			s.look(at+name+": ", name, v[name], withReferred(of...))
		}
	}
}

// property returns the schema nodes of one property.
func property(n *schema.Node, name string) []*schema.Node {
	var out []*schema.Node
	if one := n.Properties[name]; one != nil {
		out = append(out, one)
	}
	for _, p := range n.PatternProperties {
		if p.Pattern.MatchString(name) {
			out = append(out, p.Schema)
		}
	}
	if out == nil {
		out = append(out, n.AdditionalProperties)
	}
	return out
}

// withReferred returns schema nodes together with those that they refer to or combine.
func withReferred(all ...*schema.Node) []*schema.Node {
	var out []*schema.Node
	for len(all) > 0 {
		n := all[0]
		all = all[1:]
		if n == nil || slices.Contains(out, n) {
			continue
		}
		out = append(out, n)
		all = slices.Concat(all, []*schema.Node{n.Ref, n.Then, n.Else}, n.AllOf, n.AnyOf, n.OneOf)
	}
	return out
}

// isPlaceholder reports whether a text under a key stands for an answer instead of being one.
func (s *search) isPlaceholder(key, text string, about []*schema.Node) bool {
	switch {
	case dots().MatchString(text), namesItself(key, text), echoes(about, text):
		return true
	}
	return s.mended && emptyWord().MatchString(text) && !s.saidBefore(text)
}

// saidBefore reports whether the first reply contains a text, so that the repair did not add it.
func (s *search) saidBefore(text string) bool {
	return strings.Contains(s.before, strings.TrimSpace(text))
}

// named reports whether a schema lists the text as a value.
func named(about []*schema.Node, text string) bool {
	return slices.ContainsFunc(about, func(n *schema.Node) bool {
		return n.Const != nil && *n.Const == text || n.Default != nil && *n.Default == text ||
			slices.Contains(n.Enum, any(text)) || slices.Contains(n.Examples, any(text))
	})
}

// echoes reports whether a text repeats a description in the schema.
func echoes(about []*schema.Node, text string) bool {
	same := func(said string) bool {
		said = strings.TrimSpace(said)
		// One word may be the answer by chance.
		return strings.Contains(said, " ") && strings.EqualFold(said, strings.TrimSpace(text))
	}
	return slices.ContainsFunc(about, func(n *schema.Node) bool { return same(n.Description) || same(n.Title) })
}

// namesItself reports whether a text in brackets names its own key: {"name": "<your name>"}.
func namesItself(key, text string) bool {
	inside := standIn().FindStringSubmatch(text)
	if inside == nil || key == "" {
		return false
	}
	const most = 6 // more is a sentence
	said := words(strings.Join(inside[1:], ""))
	wanted := words(key)
	if len(wanted) == 0 || len(said) > most {
		return false
	}
	for _, one := range wanted {
		if !slices.Contains(said, one) {
			return false
		}
	}
	return true
}

// words returns the words of a text or a key in lower case: customerName and customer_name are two.
func words(text string) []string {
	var spaced strings.Builder
	before := ' '
	for _, r := range text {
		if unicode.IsUpper(r) && unicode.IsLower(before) {
			spaced.WriteByte(' ')
		}
		spaced.WriteRune(r)
		before = r
	}
	return strings.FieldsFunc(strings.ToLower(spaced.String()),
		func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}
