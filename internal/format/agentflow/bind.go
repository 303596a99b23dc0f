package agentflow

import (
	"fmt"
	"math/big"
	"slices"
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
	// blank are the keys without a value. They were reported, too.
	blank []string
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

// binder reads maps by their shapes.
type binder struct {
	out *diag.List
	// unread is where keys and values stand that nothing could be made of;
	// warned is those that only a warning was given for.
	unread, warned []source.Span
	// broken is where the YAML has mistakes. What stands there was read
	// somehow, and nothing more is said about it.
	broken []source.Span
	cut    bool // the map ends before its time, so nothing is missing in it
}

// errorsIn is where the errors of a list are.
func errorsIn(list diag.List) []source.Span {
	var out []source.Span
	for _, d := range list {
		if d.Severity == diag.Error {
			out = append(out, d.Span)
		}
	}
	return out
}

func (b *binder) isBroken(p text.Pair) bool {
	at := pairSpan(p)
	return slices.ContainsFunc(b.broken, func(s source.Span) bool { return s.Start <= at.End && s.End >= at.Start })
}

// bind takes a map apart; parent is the shape around it, if there is one. A
// nil node counts as an empty map.
func (b *binder) bind(n *text.Node, s *shape, what string, parent *shape) *values {
	r := text.Read(n, what, workflowCodes, b.out)
	v := &values{shape: s, span: r.Span(), first: r.Span()}
	if n != nil && n.Kind != text.Map && n.Kind != text.Null {
		b.unread = append(b.unread, n.Span)
		return v
	}
	rest := leftovers{what: what, parent: parent}
	if n != nil && len(n.Pairs) > 0 {
		v.first = n.Pairs[0].Key.Span
		v.found = make([]value, 0, len(n.Pairs))
		for _, pair := range n.Pairs {
			f := s.field(pair.Key.Value)
			if b.broken != nil && (f == nil || f.shape == nil) && b.isBroken(pair) {
				b.unread = append(b.unread, pairSpan(pair))
				if f != nil {
					v.found = append(v.found, b.guess(n, f, pair, s))
				}
				continue
			}
			switch {
			case f == nil:
				rest.strange = append(rest.strange, pair)
			case v.find(f.name) != nil: // written twice, which was reported
			case isBlank(f, pair.Value):
				rest.blank = append(rest.blank, pair)
				v.blank = append(v.blank, f.name)
			default:
				before := len(*b.out)
				at := b.value(r, f, pair, what, s)
				if len(at.nested) == 0 {
					if len(*b.out) > before {
						b.unread = append(b.unread, pair.Value.Span)
					} else {
						b.stray(&at)
					}
				}
				v.found = append(v.found, at)
			}
		}
	}
	b.report(v, &rest)
	return v
}

// guess reads a value that the YAML has a mistake in, as far as names go.
func (b *binder) guess(n *text.Node, f *field, pair text.Pair, s *shape) value {
	quiet := &binder{out: new(diag.List)}
	at := quiet.value(text.Read(n, "", workflowCodes, quiet.out), f, pair, "", s)
	if pair.Value.Kind != text.List { // a list in brackets has been mended
		at.list = nil
	}
	if f.condition {
		at.text = text.Text{}
	}
	return at
}

// isBlank reports whether nothing is written after a key. About an empty
// condition its own language has something to say.
func isBlank(f *field, n *text.Node) bool {
	return n.Kind == text.Null || n.Kind == text.String && !f.condition && strings.TrimSpace(n.Value) == ""
}

func (b *binder) value(r *text.Reader, f *field, pair text.Pair, what string, s *shape) value {
	out := b.out
	at := value{field: f, key: pair.Key.Span, node: pair.Value}
	switch f.kind {
	case word, release:
		at.text = r.String(f.name)
	case choice:
		if at.text = r.Enum(f.name, f.choices...); at.text.IsZero() && at.node.Kind == text.String {
			// After the error, what was probably meant.
			at.text = text.Text{Value: diag.Nearest(at.node.Value, f.choices), Span: at.node.Span}
		}
	case number:
		at.number, at.text.Span, at.ok = r.Int(f.name, int64(f.least))
	case money:
		at.number, at.text.Span, at.ok = dollars(r, f, what, out)
	case flag:
		at.flag, at.text.Span, at.ok = r.Bool(f.name)
	case words:
		if at.node.Kind == text.String && strings.Contains(at.node.Value, ",") {
			out.Add(diag.Diagnostic{
				Code: CodeWrongType, Severity: diag.Error, Span: at.node.Span,
				Message: fmt.Sprintf("%q of the %s must be a list of texts, but this is one text with commas.", f.name, what),
				Help:    fmt.Sprintf("Write %s: [%s].", f.name, strings.Trim(at.node.Value, "[] ")),
			})
			at.list = pieces(at.node)
			break
		}
		at.list = r.Strings(f.name)
	case numbers:
		at.list = wholeNumbers(r, f, at.node, what, out)
	case free, routes:
		at.node = r.Map(f.name)
	case object:
		if at.node = r.Map(f.name); at.node != nil {
			at.nested = []*values{b.bind(at.node, f.shape, f.name, s)}
		}
	case objects:
		for _, item := range r.List(f.name) {
			at.nested = append(at.nested, b.bind(item, f.shape, f.shape.what, s))
		}
	case tools:
		at.list = toolNames(at.node)
	case hint:
		at.text = joined(at.node)
	}
	return at
}

// dollars reads a number of dollars in millionths.
func dollars(r *text.Reader, f *field, what string, out *diag.List) (int64, source.Span, bool) {
	n := r.Node(f.name)
	if n == nil {
		return 0, source.Span{}, false
	}
	found := diag.Diagnostic{Severity: diag.Error, Span: n.Span, Help: fmt.Sprintf("Write dollars without a sign, and with at most six places: %s: 0.50.", f.name)}
	if n.Kind != text.Int && n.Kind != text.Float {
		found.Code = CodeWrongType
		found.Message = fmt.Sprintf("%q of the %s must be a number, but this is %s.", f.name, what, n.Kind)
		out.Add(found)
		return 0, n.Span, false
	}
	value, ok := new(big.Rat).SetString(string(n.JSON()))
	if ok {
		value.Mul(value, big.NewRat(1_000_000, 1))
	}
	if !ok || value.Sign() <= 0 || !value.IsInt() || !value.Num().IsInt64() {
		found.Code = CodeBadValue
		found.Message = fmt.Sprintf("%q of the %s cannot be %s dollars.", f.name, what, n.Value)
		out.Add(found)
		return 0, n.Span, false
	}
	return value.Num().Int64(), n.Span, true
}

// pieces are the texts between the commas of a text that was meant as a list.
func pieces(n *text.Node) []text.Text {
	if !n.Exact() {
		return nil
	}
	var list []text.Text
	at := n.Span.Start
	for piece := range strings.SplitSeq(n.Value, ",") {
		if word := strings.Trim(piece, "[] \t"); word != "" {
			start := at + strings.Index(piece, word)
			list = append(list, text.Text{Value: word, Span: source.Span{File: n.Span.File, Start: start, End: start + len(word)}})
		}
		at += len(piece) + 1
	}
	return list
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
