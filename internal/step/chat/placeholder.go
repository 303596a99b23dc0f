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

// A model sometimes fills in something that fits the form and means nothing.
// That is worse than no answer: later steps would take it for the truth. But
// nearly every word may be an answer, and to refuse one costs a call and, as the
// model says it again, the step. So what counts is a matter of form: "<div>" is
// an answer to a question about HTML, {"name": "<name>"} to none. Only where a
// model was asked to repair its reply, and is most tempted, some words that it had
// not said before are not taken either. What says "not known", such as "N/A", is
// an answer.

var (
	// dots stand for something that was left out.
	dots = lazyregexp.New(`^\s*(\.{3,}|…)\s*$`)
	// standIn is a text in brackets. ${API_KEY} and {{ image }} are not among
	// them: so are configurations and templates written.
	standIn = lazyregexp.New(`^\s*(?:<([^<>]*)>|\[([^\[\]]*)\])\s*$`)
	// emptyWord are texts that stand for a text.
	emptyWord = lazyregexp.New(
		`(?i)^\s*(<[^<>]*>|\{\{[^{}]*\}\}|\[(insert|your|todo|placeholder)[^\[\]]*\]|todo|tbd|placeholder|lorem ipsum.*)\s*$`)
)

// placeholders names the texts of a value that stand for an answer instead of
// being one. What the schema itself allows by name is none. before is the first
// reply, which had to be repaired; nil when this is it.
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
		about = plain(r.schema.Root())
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

// typeName as every text of a reply makes it a copy of the schema. One such
// text may be the answer, and so may each among others.
const typeName = "string"

type search struct {
	mended bool
	before string
	found  []string
	texts  int
	types  int // texts that are typeName, and are not about types
}

// look goes through a value together with everything in the schema that is
// about it.
func (s *search) look(at, key string, value any, about []*schema.Node) {
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
			s.look(fmt.Sprintf("%s%d: ", at, i), key, one, plain(of...))
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			var of []*schema.Node
			for _, n := range about {
				of = append(of, property(n, name)...)
			}
			s.look(at+name+": ", name, v[name], plain(of...))
		}
	}
}

// property returns what a schema says about one property.
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

// plain returns what schemas say about a value: themselves, and what they refer to
// or are combined of.
func plain(all ...*schema.Node) []*schema.Node {
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

func (s *search) isPlaceholder(key, text string, about []*schema.Node) bool {
	switch {
	case dots().MatchString(text), namesItself(key, text), echoes(about, text):
		return true
	}
	return s.mended && emptyWord().MatchString(text) && !s.saidBefore(text)
}

// saidBefore reports whether a text stood in the first reply, and so was not made
// up to repair it.
func (s *search) saidBefore(text string) bool {
	return strings.Contains(s.before, strings.TrimSpace(text))
}

// named reports whether a schema has the text among the values that it names.
func named(about []*schema.Node, text string) bool {
	return slices.ContainsFunc(about, func(n *schema.Node) bool {
		return n.Const != nil && *n.Const == text || n.Default != nil && *n.Default == text ||
			slices.Contains(n.Enum, any(text)) || slices.Contains(n.Examples, any(text))
	})
}

// echoes reports whether a text is what the schema says about it.
func echoes(about []*schema.Node, text string) bool {
	same := func(said string) bool {
		said = strings.TrimSpace(said)
		// One word may be the answer by chance.
		return strings.Contains(said, " ") && strings.EqualFold(said, strings.TrimSpace(text))
	}
	return slices.ContainsFunc(about, func(n *schema.Node) bool { return same(n.Description) || same(n.Title) })
}

// namesItself reports whether a text in brackets is about its own key:
// {"name": "<your name>"}.
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

// words returns the words of a text or a key, in small letters: customerName and
// customer_name are two.
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
