package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/schema"
	"github.com/espalier-run/espalier/internal/text"
	"github.com/espalier-run/espalier/internal/xslices"
)

// fields reads the keys of one map and records them in a JSON Schema. One function for each section therefore defines
// what is read, what is checked and what editors know, and they cannot differ. Schema calls the same functions without
// a map: readers must not depend on values when they name keys.
type fields struct {
	r      *text.Reader
	what   string
	out    *diag.List
	schema map[string]any // JSON Schema of the map
}

func newFields(n *text.Node, what string, out *diag.List) *fields {
	return &fields{r: text.Read(n, what, codes, out), what: what, out: out, schema: map[string]any{
		"type": "object", "additionalProperties": false, "properties": map[string]any{},
	}}
}

// note adds a key to the schema.
func (f *fields) note(key, doc string, more map[string]any) {
	one := map[string]any{"description": doc}
	for k, v := range more {
		one[k] = v
	}
	f.schema["properties"].(map[string]any)[key] = one
}

// done reports the keys that were not read. It is called once, after all keys of the map.
func (f *fields) done() { f.r.Done() }

// require reports missing keys.
func (f *fields) require(keys ...string) {
	f.r.Require(keys...)
	f.schema["required"] = slices.Sorted(slices.Values(keys))
}

func (f *fields) text(key, doc string) text.Text {
	f.note(key, doc, map[string]any{"type": "string"})
	return f.r.String(key)
}

// texts reads a list of strings; a single string is a list of one.
func (f *fields) texts(key, doc string) []text.Text {
	f.note(key, doc, map[string]any{"anyOf": []any{
		map[string]any{"type": "string"}, map[string]any{"type": "array", "items": map[string]any{"type": "string"}},
	}})
	return f.r.Strings(key)
}

func (f *fields) choice(key, doc string, allowed ...string) string {
	f.note(key, doc, map[string]any{"enum": allowed})
	return f.r.Enum(key, allowed...).Value
}

func (f *fields) flag(key, doc string) bool {
	f.note(key, doc, map[string]any{"type": "boolean"})
	b, _, _ := f.r.Bool(key)
	return b
}

// number reads an integer from least to most; it returns 0 if the key is missing.
func (f *fields) number(key, doc string, least, most int64) int64 {
	f.note(key, doc, map[string]any{"type": "integer", "minimum": least, "maximum": most})
	n, at, ok := f.r.Int(key, least)
	if ok && n > most {
		f.out.Errorf(CodeBadValue, at, fmt.Sprintf("Write %s: %d or less.", key, most),
			"%q of the %s must be at most %d.", key, f.what, most)
		return 0
	}
	return n
}

// decimal reads a number in its original spelling; it returns "" if the key is missing.
func (f *fields) decimal(key, doc string) text.Text {
	f.note(key, doc, map[string]any{"type": "number", "minimum": 0})
	n := f.r.Node(key)
	switch {
	case n == nil:
		return text.Text{}
	case n.Kind != text.Int && n.Kind != text.Float:
		f.out.Errorf(CodeWrongType, n.Span, fmt.Sprintf("Write a number without quotes: %s: 3.75.", key),
			"%q of the %s must be a number, but this is %s.", key, f.what, n.Kind)
		return text.Text{}
	}
	return text.Text{Value: string(n.JSON()), Span: n.Span}
}

// duration reads a duration; it returns 0 if the key is missing.
func (f *fields) duration(key, doc string) time.Duration {
	return f.positive(key, doc, `^([0-9.]+(ms|s|m|h))+$`, time.ParseDuration, "500ms", "30s", "2m")
}

// age reads a duration that may be written in days or weeks.
func (f *fields) age(key, doc string) time.Duration {
	return f.positive(key, doc, `^([0-9]+[dw]|([0-9.]+(ms|s|m|h))+)$`, ParseAge, "30d", "2w", "12h")
}

func (f *fields) positive(
	key, doc, pattern string, parse func(string) (time.Duration, error), examples ...string,
) time.Duration {
	f.note(key, doc, map[string]any{"type": "string", "pattern": pattern})
	t := f.r.String(key)
	if t.IsZero() {
		return 0
	}
	d, err := parse(t.Value)
	if err != nil || d <= 0 {
		help := "Write a number and its unit: " + key + ": " + strings.Join(examples, ", "+key+": ") + "."
		f.out.Errorf(CodeBadValue, t.Span, help, "%q is not a duration.", t.Value)
		return 0
	}
	return d
}

// contract reads a JSON Schema.
func (f *fields) contract(key, doc string) json.RawMessage {
	f.note(key, doc, map[string]any{"type": "object"})
	n := f.r.Map(key)
	if n == nil {
		return nil
	}
	_, err := schema.Compile(n.JSON())
	var problem *schema.Error
	if !errors.As(err, &problem) {
		return n.JSON()
	}
	at, where := f.r.KeySpan(key), ""
	if place, ok := n.Places()[problem.Pointer]; ok {
		at, where = place, " at "+problem.Pointer
	}
	help := "Correct the schema (JSON Schema draft 2020-12)."
	if near := diag.DidYouMean(problem.Got, problem.Allowed); len(problem.Allowed) > 0 && near != "" {
		help = near
	}
	f.out.Errorf(CodeSchema, at, help, "%q of the %s is not a JSON Schema%s: %s.", key, f.what, where, problem.Message)
	return nil
}

// object reads a nested map with its own keys.
func (f *fields) object(key, what, doc string, read func(*fields)) {
	inner := newFields(f.r.Map(key), what, f.out)
	read(inner)
	inner.done()
	f.note(key, doc, inner.schema)
}

// Named is an entry of a map that is keyed by name.
type Named[T any] struct {
	Name text.Text
	Is   T
}

// Names returns the names of the entries of a map, in the order of the file.
func Names[T any](all []Named[T]) []string {
	return xslices.Map(all, func(one Named[T]) string { return one.Name.Value })
}

// entry returns the entry of a name, or nil if there is none.
func entry[T any](all []Named[T], name string) *T {
	if i := slices.IndexFunc(all, func(one Named[T]) bool { return one.Name.Value == name }); i >= 0 {
		return &all[i].Is
	}
	return nil
}

// entries reads a map from names to maps, in the order of the file. read is called for each entry, and once more
// without a name, for the schema; mistakes that it reports then are discarded.
func entries[T any](f *fields, key, what, doc string, read func(name text.Text, f *fields) T) []Named[T] {
	var out []Named[T]
	if n := f.r.Map(key); n != nil {
		for _, pair := range n.Pairs {
			inner := newFields(pair.Value, what, f.out)
			one := Named[T]{Name: pair.Key.Text(), Is: read(pair.Key.Text(), inner)}
			inner.done()
			out = append(out, one)
		}
	}
	described := newFields(nil, what, new(diag.List))
	read(text.Text{}, described)
	f.note(key, doc, map[string]any{"type": "object", "additionalProperties": described.schema})
	return out
}

// lacks reports whether all of the keys are missing or empty. A key of the wrong type counts as present, because it is
// reported already.
func (f *fields) lacks(keys ...string) bool {
	return !slices.ContainsFunc(keys, func(key string) bool {
		n := f.r.Node(key)
		return n != nil && (n.Value != "" || n.Kind == text.Map || len(n.Items) > 0)
	})
}

// exclusive reports keys that are present together although only one of them may be.
func (f *fields) exclusive(keys ...string) {
	first := ""
	for _, key := range keys {
		switch {
		case !f.r.Has(key):
		case first == "":
			first = key
		default:
			f.out.Errorf(CodeSources, f.r.KeySpan(key), "Keep one of: "+strings.Join(keys, ", ")+".",
				"%q and %q of the %s exclude each other.", first, key, f.what)
		}
	}
}
