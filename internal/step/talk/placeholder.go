package talk

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// A model sometimes fills in something that fits the form and means nothing.
// That is worse than no answer: later steps would take it for the truth. What
// counts as a placeholder is a matter of form wherever that is possible, because
// nearly every word may be an answer: "<div>" is one to a question about HTML,
// and {"name": "<name>"} never is. Only of a reply that had to be mended, where
// models are most tempted, some words are not taken either.

var (
	// dots stand for something that was left out.
	dots = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\s*(\.{3,}|…)\s*$`) })
	// standIn is a text in the brackets of templates.
	standIn = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^\s*(?:<([^<>]*)>|\{\{([^{}]*)\}\}|\$\{([^{}]*)\}|\[([^\[\]]*)\])\s*$`)
	})
	// emptyWord are texts that stand for a text.
	emptyWord = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)^\s*(<[^<>]*>|\{\{[^{}]*\}\}|\[(insert|your|todo|placeholder)[^\[\]]*\]|todo|tbd|placeholder|lorem ipsum.*|string|n/?a)\s*$`)
	})
)

// placeholders names the texts of a value that stand for an answer instead of
// being one. What the schema itself allows by name is none.
func (f Form) placeholders(value json.RawMessage, mended bool) []string {
	if !f.strict() || f.Plain {
		return nil
	}
	var all, schema any
	if json.Unmarshal(value, &all) != nil {
		return nil
	}
	if len(f.Schema) > 0 && json.Unmarshal(f.Schema, &schema) != nil {
		return nil // which has been told
	}
	if object, ok := all.(map[string]any); ok && len(object) > 0 && reflect.DeepEqual(all, schema) {
		return []string{"it is the schema itself and not an answer"}
	}
	s := search{mended: mended}
	s.look("", "", all, schema)
	return s.found
}

type search struct {
	mended bool
	found  []string
}

// look goes through a value together with the part of the schema that is about
// it, as far as that is plain to see.
func (s *search) look(at, key string, value, schema any) {
	about, _ := schema.(map[string]any)
	switch v := value.(type) {
	case string:
		if s.isPlaceholder(key, v, about) {
			s.found = append(s.found, fmt.Sprintf("%s%q is a placeholder and not an answer", at, v))
		}
	case []any:
		for i, one := range v {
			s.look(fmt.Sprintf("%s%d: ", at, i), key, one, about["items"])
		}
	case map[string]any:
		properties, _ := about["properties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(v)) {
			s.look(at+name+": ", name, v[name], properties[name])
		}
	}
}

func (s *search) isPlaceholder(key, text string, about map[string]any) bool {
	if named(about, text) {
		return false
	}
	switch {
	case dots().MatchString(text), namesItself(key, text):
		return true
	case echoes(about, text):
		return true
	}
	return s.mended && emptyWord().MatchString(text)
}

// named tells whether a schema has the text among the values that it names.
func named(about map[string]any, text string) bool {
	if about["const"] == text || about["default"] == text {
		return true
	}
	for _, list := range []string{"enum", "examples"} {
		if all, ok := about[list].([]any); ok && slices.Contains(all, any(text)) {
			return true
		}
	}
	return false
}

// echoes tells whether a text is what the schema says about it.
func echoes(about map[string]any, text string) bool {
	text = strings.TrimSpace(text)
	for _, key := range []string{"description", "title", "type"} {
		if said, _ := about[key].(string); said != "" && strings.EqualFold(strings.TrimSpace(said), text) {
			return key != "title" || strings.Contains(said, " ") // one word may be the answer by chance
		}
	}
	return false
}

// namesItself tells whether a text in brackets is about its own key:
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

// words are the words of a text or a key, in small letters: customerName and
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
	return strings.FieldsFunc(strings.ToLower(spaced.String()), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}
