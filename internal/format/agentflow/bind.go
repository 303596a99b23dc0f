package agentflow

import (
	"fmt"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
)

// values is a map that was read by its shape. Values of the wrong type have
// been reported and count as absent.
type values struct {
	shape *shape
	found []value // the keys that are written down
	span  source.Span
	// first is where the map begins: its first key.
	first source.Span
}

// value is what stands after one key, usable or not; which parts are filled
// depends on its kind.
type value struct {
	field  *field
	key    source.Span
	node   *text.Node
	text   text.Text
	list   []text.Text
	number int64
	flag   bool
	ok     bool // the number or the flag is usable
	nested []*values
}

var workflowCodes = text.Codes{
	WrongType: CodeWrongType, Missing: CodeMissing, Unknown: CodeUnknownKey, BadValue: CodeBadValue,
	UnknownAs: diag.Warning,
}

// bind takes a map apart. A nil node counts as an empty map.
func bind(n *text.Node, s *shape, what string, out *diag.List) *values {
	r := text.Read(n, what, workflowCodes, out)
	v := &values{shape: s, span: r.Span(), first: r.Span()}
	unknown := false
	if n != nil && n.Kind == text.Map && len(n.Pairs) > 0 {
		v.first = n.Pairs[0].Key.Span
		v.found = make([]value, 0, len(n.Pairs))
		for _, pair := range n.Pairs {
			f := s.field(pair.Key.Value)
			if f == nil {
				unknown = true
			} else if pair.Value.Kind != text.Null && v.find(f.name) == nil {
				v.found = append(v.found, readValue(r, f, pair, what, out))
			}
		}
	}
	for i := range s.fields {
		if f := &s.fields[i]; f.required {
			if at := v.find(f.name); at == nil || at.node == nil || at.node.Kind == text.String && strings.TrimSpace(at.node.Value) == "" {
				r.Require(f.name)
			}
		}
	}
	if unknown && (!s.open || s == frontmatterShape) {
		for i := range s.fields {
			r.Node(s.fields[i].name) // known, so that they can be suggested
		}
		r.Done()
	}
	return v
}

func readValue(r *text.Reader, f *field, pair text.Pair, what string, out *diag.List) value {
	at := value{field: f, key: pair.Key.Span, node: pair.Value}
	switch f.kind {
	case word, release:
		at.text = r.String(f.name)
	case choice:
		at.text = r.Enum(f.name, f.choices...)
	case number:
		at.number, at.text.Span, at.ok = r.Int(f.name, int64(f.least))
	case flag:
		at.flag, at.text.Span, at.ok = r.Bool(f.name)
	case words:
		if at.node.Kind == text.String && strings.Contains(at.node.Value, ",") {
			out.Add(diag.Diagnostic{
				Code: CodeWrongType, Severity: diag.Error, Span: at.node.Span,
				Message: fmt.Sprintf("%q of the %s must be a list of texts, but this is one text with commas.", f.name, what),
				Help:    fmt.Sprintf("Write %s: [%s].", f.name, at.node.Value),
			})
			break
		}
		at.list = r.Strings(f.name)
	case numbers:
		at.list = wholeNumbers(r, f, at.node, what, out)
	case free, routes:
		at.node = r.Map(f.name)
	case object:
		if at.node = r.Map(f.name); at.node != nil {
			at.nested = []*values{bind(at.node, f.shape, f.name, out)}
		}
	case objects:
		for _, item := range r.List(f.name) {
			at.nested = append(at.nested, bind(item, f.shape, f.shape.what, out))
		}
	case tools:
		at.list = toolNames(at.node)
	case hint:
		at.text = joined(at.node)
	}
	return at
}

// wholeNumbers reads one number or a list of them, as the texts that they are
// written with.
func wholeNumbers(r *text.Reader, f *field, n *text.Node, what string, out *diag.List) []text.Text {
	if n.Kind != text.List {
		if _, at, ok := r.Int(f.name, int64(f.least)); ok {
			return []text.Text{{Value: n.Value, Span: at}}
		}
		return nil
	}
	var list []text.Text
	for _, item := range n.Items {
		one := &text.Node{Kind: text.Map, Span: item.Span, Pairs: []text.Pair{{Key: &text.Node{Kind: text.String, Value: f.name, Span: item.Span}, Value: item}}}
		if _, at, ok := text.Read(one, what, workflowCodes, out).Int(f.name, int64(f.least)); ok {
			list = append(list, text.Text{Value: item.Value, Span: at})
		}
	}
	return list
}

// find returns what is written down under a key, or nil.
func (v *values) find(name string) *value {
	for i := range v.found {
		if v.found[i].field.name == name {
			return &v.found[i]
		}
	}
	return nil
}

// at is like find, for keys that must be among those of the shape; an absent
// one is empty.
func (v *values) at(name string) *value {
	if found := v.find(name); found != nil {
		return found
	}
	v.mustKnow(name)
	return &absent
}

var absent value // never written to

func (v *values) mustKnow(name string) *field {
	f := v.shape.field(name)
	if f == nil {
		panic(fmt.Sprintf("agentflow: %s has no field %q", v.shape.what, name)) // a programming mistake
	}
	return f
}

// has reports whether the key is written down, with a usable value or not.
func (v *values) has(name string) bool {
	return v.at(name) != &absent
}

// key is where the key itself stands.
func (v *values) key(name string) source.Span { return v.at(name).key }

func (v *values) word(name string) text.Text    { return v.at(name).text }
func (v *values) words(name string) []text.Text { return v.at(name).list }
func (v *values) node(name string) *text.Node   { return v.at(name).node }
func (v *values) list(name string) []*values    { return v.at(name).nested }

// flag is the value of a true-or-false key, or what holds without it.
func (v *values) flag(name string, otherwise bool) bool {
	if at := v.at(name); at.ok {
		return at.flag
	}
	return otherwise
}

func (v *values) number(name string) (int64, source.Span, bool) {
	at := v.at(name)
	return at.number, at.text.Span, at.ok
}

// object is a nested map, an empty one when it is absent.
func (v *values) object(name string) *values {
	if at := v.at(name); len(at.nested) == 1 {
		return at.nested[0]
	}
	return &values{shape: v.mustKnow(name).shape}
}
