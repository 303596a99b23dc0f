package agentflow

import (
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/lazyregexp"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
	"github.com/espalier-run/espalier/internal/xslices"
)

// values is a map that was parsed by its shape. Values of the wrong type have been reported and
// count as absent.
type values struct {
	shape *text.Shape
	from  *text.Node // nil if the map is absent
	found []value    // the keys that are present
	span  source.Span
	// first is the span of the map's first key.
	first source.Span
	// blank are the keys without a value, which have been reported.
	blank []string
}

// value is the value of one key, usable or not. Its kind determines which fields are set.
type value struct {
	field  *text.Field
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

// binder parses maps by their shapes. It reports each mistake once: what it could not read goes to unread and warned,
// which later checks for missing names consult (ir.Unread).
type binder struct {
	out *diag.List
	// unread are the spans of unusable keys and values; warned are those that were reported as
	// warnings only.
	unread, warned []source.Span
	// broken are the spans of YAML syntax errors. Values there were recovered as far as possible
	// and are not reported again.
	broken []source.Span
	cut    bool // the map is truncated, so no key is reported as missing
}

// errorsIn returns the spans of the errors in a list.
func errorsIn(list diag.List) []source.Span {
	var out []source.Span
	for _, d := range list {
		if d.Severity == diag.Error {
			out = append(out, d.Span)
		}
	}
	return out
}

// isBroken reports whether a syntax error touches a key or its value.
func (b *binder) isBroken(p text.Pair) bool {
	at := pairSpan(p)
	return slices.ContainsFunc(b.broken, func(s source.Span) bool { return s.Start <= at.End && s.End >= at.Start })
}

// bind parses a map. parent is the enclosing shape, or nil. A nil node counts as an empty map.
func (b *binder) bind(n *text.Node, s *text.Shape, what string, parent *text.Shape) *values {
	r := text.Read(n, what, workflowCodes, b.out)
	v := &values{shape: s, from: n, span: r.Span(), first: r.Span()}
	if n != nil && n.Kind != text.Map && n.Kind != text.Null {
		b.unread = append(b.unread, n.Span)
		return v
	}
	rest := leftovers{what: what, parent: parent}
	if n != nil && len(n.Pairs) > 0 {
		v.first = n.Pairs[0].Key.Span
		v.found = make([]value, 0, len(n.Pairs))
		for _, pair := range n.Pairs {
			f := s.Find(pair.Key.Value)
			if b.broken != nil && (f == nil || f.Shape == nil) && b.isBroken(pair) {
				b.unread = append(b.unread, pairSpan(pair))
				if f != nil {
					v.found = append(v.found, b.guess(n, f, pair, s))
				}
				continue
			}
			switch {
			case f == nil:
				rest.unknown = append(rest.unknown, pair)
			case v.find(f.Name) != nil: // a duplicate key, already reported
			case isBlank(f, pair.Value):
				rest.blank = append(rest.blank, pair)
				v.blank = append(v.blank, f.Name)
			default:
				before := len(*b.out)
				at := b.value(r, f, pair, what, s)
				if len(at.nested) == 0 {
					if len(*b.out) > before {
						b.unread = append(b.unread, pair.Value.Span)
					} else {
						b.warnUnmatchedDelimiter(&at)
					}
				}
				v.found = append(v.found, at)
			}
		}
	}
	b.report(v, &rest)
	return v
}

// guess parses a value with a YAML syntax error, to recover the names in it.
func (b *binder) guess(n *text.Node, f *text.Field, pair text.Pair, s *text.Shape) value {
	quiet := &binder{out: new(diag.List)}
	at := quiet.value(text.Read(n, "", workflowCodes, quiet.out), f, pair, "", s)
	if pair.Value.Kind != text.List { // a list in brackets has been repaired
		at.list = nil
	}
	if f.Condition {
		at.text = text.Text{}
	}
	return at
}

// isBlank reports whether a key has no value. An empty condition is not blank: the expression
// parser reports it.
func isBlank(f *text.Field, n *text.Node) bool {
	return n.Kind == text.Null || n.Kind == text.String && !f.Condition && strings.TrimSpace(n.Value) == ""
}

// value parses the value of a known key. s is the shape that the key belongs to.
func (b *binder) value(r *text.Reader, f *text.Field, pair text.Pair, what string, s *text.Shape) value {
	out := b.out
	at := value{field: f, key: pair.Key.Span, node: pair.Value}
	switch f.Form {
	case text.AString:
		if f.Choices == nil {
			at.text = r.String(f.Name)
		} else if at.text = r.Enum(f.Name, f.Choices...); at.text.IsZero() && at.node.Kind == text.String {
			// After the error, assume the nearest choice.
			at.text = text.Text{Value: diag.Nearest(at.node.Value, f.Choices), Span: at.node.Span}
		}
	case text.AnInt:
		at.number, at.text.Span, at.ok = r.Int(f.Name, int64(f.Min))
	case text.ANumber:
		at.number, at.text.Span, at.ok = dollars(r, f, what, out)
	case text.ABool:
		at.flag, at.text.Span, at.ok = r.Bool(f.Name)
	case text.OneOrStrings:
		switch {
		case f.Name == allowedTools:
			at.list = toolNames(at.node)
		case f.Name == argumentHint:
			at.text = joined(at.node)
		case at.node.Kind == text.String && strings.Contains(at.node.Value, ","):
			list := strings.Trim(at.node.Value, "[] ")
			found := out.Errorf(CodeWrongType, at.node.Span, fmt.Sprintf("Use %s: [%s].", f.Name, list),
				"%q of the %s is one string with commas, not a list.", f.Name, what)
			if at.list = pieces(at.node); len(at.list) > 0 && plainList().MatchString(list) {
				found.WriteValue(at.node.Span, "["+list+"]")
			}
		default:
			at.list = r.Strings(f.Name)
		}
	case text.OneOrInts:
		at.list = wholeNumbers(r, f, at.node, what, out)
	case text.AMap:
		at.node = r.Map(f.Name)
	case text.Object:
		if at.node = r.Map(f.Name); at.node != nil {
			at.nested = []*values{b.bind(at.node, f.Shape, f.Name, s)}
		}
	case text.Objects:
		for _, item := range r.List(f.Name) {
			at.nested = append(at.nested, b.bind(item, f.Shape, f.Shape.What, s))
		}
	}
	return at
}

// dollars parses a number of dollars and returns millionths. It computes with exact fractions, because float64 cannot
// represent most decimals: 0.07 dollars are 70000 millionths.
func dollars(r *text.Reader, f *text.Field, what string, out *diag.List) (int64, source.Span, bool) {
	n := r.Node(f.Name)
	if n == nil {
		return 0, source.Span{}, false
	}
	help := fmt.Sprintf("Use a positive number of dollars with at most six decimals: %s: 0.50.", f.Name)
	if n.Kind != text.Int && n.Kind != text.Float {
		out.Errorf(CodeWrongType, n.Span, help, "%q of the %s is %s, not a number.", f.Name, what, n.Kind)
		return 0, n.Span, false
	}
	value, ok := new(big.Rat).SetString(string(n.JSON()))
	if ok {
		value.Mul(value, big.NewRat(1_000_000, 1))
	}
	if !ok || value.Sign() <= 0 || !value.IsInt() || !value.Num().IsInt64() {
		out.Errorf(CodeBadValue, n.Span, help, "%q of the %s is not a valid amount: %s dollars.", f.Name, what, n.Value)
		return 0, n.Span, false
	}
	return value.Num().Int64(), n.Span, true
}

// plainList matches the entries of a list that need no quotes in brackets.
var plainList = lazyregexp.New(`^[A-Za-z_][\w.*-]*( *, *[A-Za-z_][\w.*-]*)*$`)

// pieces splits a string that was meant as a list at its commas.
func pieces(n *text.Node) []text.Text {
	if !n.Exact() {
		return nil
	}
	var list []text.Text
	at := n.Span.Start
	for piece := range strings.SplitSeq(n.Value, ",") {
		if word := strings.Trim(piece, "[] \t"); word != "" {
			start := at + strings.Index(piece, word)
			list = append(list, text.Text{Value: word, Span: source.Span{
				File: n.Span.File, Start: start,
				End: start + len(word),
			}})
		}
		at += len(piece) + 1
	}
	return list
}

// wholeNumbers parses an integer or a list of integers, and returns their source texts.
func wholeNumbers(r *text.Reader, f *text.Field, n *text.Node, what string, out *diag.List) []text.Text {
	if n.Kind != text.List {
		if _, at, ok := r.Int(f.Name, int64(f.Min)); ok {
			return []text.Text{{Value: n.Value, Span: at}}
		}
		return nil
	}
	var list []text.Text
	for _, item := range n.Items {
		one := &text.Node{
			Kind: text.Map, Span: item.Span,
			Pairs: []text.Pair{{Key: &text.Node{Kind: text.String, Value: f.Name, Span: item.Span}, Value: item}},
		}
		if _, at, ok := text.Read(one, what, workflowCodes, out).Int(f.Name, int64(f.Min)); ok {
			list = append(list, text.Text{Value: item.Value, Span: at})
		}
	}
	return list
}

// find returns the value of a key, or nil.
func (v *values) find(name string) *value {
	return xslices.FindPointer(v.found, func(one *value) bool { return one.field.Name == name })
}

// at is like find for keys of the shape; an absent one is empty.
func (v *values) at(name string) *value {
	if found := v.find(name); found != nil {
		return found
	}
	v.shape.Field(name) // panics if it is not declared
	return &absent
}

var absent value // never written to

// has reports whether the key is present, with a usable value or not.
func (v *values) has(name string) bool {
	return v.at(name) != &absent
}

// key returns the span of the key itself.
func (v *values) key(name string) source.Span { return v.at(name).key }

// entry returns the place of a key with its value, for fixes.
func (v *values) entry(name string) diag.Entry { return v.from.Entry(name) }

// The accessors of values. An absent or unusable value is empty.
func (v *values) word(name string) text.Text    { return v.at(name).text }
func (v *values) words(name string) []text.Text { return v.at(name).list }
func (v *values) node(name string) *text.Node   { return v.at(name).node }
func (v *values) list(name string) []*values    { return v.at(name).nested }

// put adds a setting with the text of a key, if it has one.
func (v *values) put(settings *ir.Settings, name, key string) {
	t := v.word(key)
	settings.PutSet(name, t.Value, t.Span)
}

// flag returns the value of a boolean key, or otherwise if it is absent.
func (v *values) flag(name string, otherwise bool) bool {
	if at := v.at(name); at.ok {
		return at.flag
	}
	return otherwise
}

// number returns the value and the place of a number, if it is there and usable.
func (v *values) number(name string) (int64, source.Span, bool) {
	at := v.at(name)
	return at.number, at.text.Span, at.ok
}

// object returns a nested map, empty if it is absent.
func (v *values) object(name string) *values {
	if at := v.at(name); len(at.nested) == 1 {
		return at.nested[0]
	}
	return &values{shape: v.shape.Field(name).Shape}
}
