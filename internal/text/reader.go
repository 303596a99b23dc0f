package text

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Reader decodes a map key by key. It reports missing, mistyped and unknown keys with the codes of a format. A key
// whose value is null counts as absent, except that Require reports it as empty.
type Reader struct {
	node     *Node
	shape    *Shape // the keys that may be read; nil for all
	what     string
	codes    Codes
	out      *diag.List
	readKeys []string // keys that were read, possibly with duplicates
	wrong    bool     // the node is not a map, so missing keys are not reported
}

// Codes are the diagnostic codes that a Reader reports.
type Codes struct {
	WrongType, Missing, Unknown, BadValue diag.Code
	// UnknownAs is the severity of an unknown key; UnknownLenient makes it an error with --strict.
	UnknownAs      diag.Severity
	UnknownLenient bool
	// YesNo accepts yes, no, on and off as booleans, as YAML 1.1 does.
	YesNo bool
}

// Text is a string with its span.
type Text struct {
	Value string
	Span  source.Span
}

// IsZero reports whether the text has neither content nor span.
func (t Text) IsZero() bool { return t == Text{} }

// Values returns the contents of texts.
func Values(texts []Text) []string {
	return xslices.Map(texts, func(t Text) string { return t.Value })
}

// Contains reports whether one of the texts has this content.
func Contains(texts []Text, value string) bool {
	return slices.ContainsFunc(texts, func(t Text) bool { return t.Value == value })
}

// Text returns the content and the span of a scalar.
func (n *Node) Text() Text { return Text{Value: n.Value, Span: n.Span} }

// Read returns a Reader for n. what names it in messages, such as "step". A node that is not a map is reported and
// treated as an empty map; nil and Null are empty maps.
func Read(n *Node, what string, codes Codes, out *diag.List) *Reader {
	r := &Reader{node: n, what: what, codes: codes, out: out}
	if n == nil || n.Kind == Null {
		r.node = &Node{Kind: Map}
		if n != nil {
			r.node.Span = n.Span
		}
	} else if n.Kind != Map {
		r.out.Errorf(codes.WrongType, n.Span, `Write it as lines of "key: value".`,
			"The %s must be a map, but this is %s.", what, n.Kind)
		r.node, r.wrong = &Node{Kind: Map, Span: n.Span}, true
	}
	return r
}

// wrongType reports a value of the wrong type at its first line.
func (r *Reader) wrongType(key string, n *Node, wanted, help string) *diag.Diagnostic {
	return r.out.Errorf(r.codes.WrongType, n.headSpan(), help, "%q of the %s must be %s, but this is %s.", key, r.what,
		wanted, n.Kind)
}

// headSpan returns the span of a scalar, or of the first line of other nodes.
func (n *Node) headSpan() source.Span {
	if n.Kind == Map && len(n.Pairs) > 0 && n.Pairs[0].Key.Span.Start >= n.Span.Start {
		return source.Span{File: n.Span.File, Start: n.Span.Start, End: min(n.Pairs[0].Key.Span.End, n.Span.End)}
	}
	if n.Kind == List && len(n.Items) > 0 && n.Items[0].Span.Start >= n.Span.Start {
		return source.Span{File: n.Span.File, Start: n.Span.Start, End: min(n.Items[0].headSpan().End, n.Span.End)}
	}
	return n.Span
}

// Has reports whether the key has a value. It does not mark the key as known.
func (r *Reader) Has(key string) bool {
	n := r.node.Get(key)
	return n != nil && n.Kind != Null
}

// Node returns the value of a key, or nil, and marks the key as known.
func (r *Reader) Node(key string) *Node {
	r.markRead(key)
	if n := r.node.Get(key); n != nil && n.Kind != Null {
		return n
	}
	return nil
}

// KeySpan returns the span of the key itself, or the zero span.
func (r *Reader) KeySpan(key string) source.Span {
	if k := r.node.Key(key); k != nil {
		return k.Span
	}
	return source.Span{}
}

// Entry returns the place of a key with its value, for fixes.
func (r *Reader) Entry(key string) diag.Entry { return r.node.Entry(key) }

// PlaceFor returns where a fix can add a key; see Node.
func (r *Reader) PlaceFor(key string) diag.Entry { return r.node.PlaceFor(key) }

// Span returns the span of the map.
func (r *Reader) Span() source.Span { return r.node.Span }

// markRead marks a key as known. It panics if the shape does not declare the key, so that parsers and schemas for
// editors cannot disagree.
func (r *Reader) markRead(key string) {
	if r.shape != nil {
		r.shape.Field(key)
	}
	r.readKeys = append(r.readKeys, key)
}

// String returns a text. Numbers and booleans are returned as written.
func (r *Reader) String(key string) Text {
	n := r.Node(key)
	if n == nil {
		return Text{}
	}
	if n.Kind >= List {
		help := fmt.Sprintf("Write %s: and the string after it.", key)
		if n.Kind == Map && len(n.Pairs) > 0 && n.Pairs[0].Key.Span.Start == n.Span.Start { // a block map
			help = fmt.Sprintf("Write %s: and the string after it, or %q if the string is on the lines below.", key,
				key+": |")
		}
		r.wrongType(key, n, "a string", help)
		return Text{}
	}
	return n.Text()
}

// Strings returns a list of strings. A single string is a list of one. Entries that are not strings are reported and
// omitted.
func (r *Reader) Strings(key string) []Text {
	n := r.Node(key)
	switch {
	case n == nil:
		return nil
	case n.Kind < List && strings.HasPrefix(n.Value, "-") && !n.Exact():
		// Lines such as "-one" are not entries but one folded text.
		r.wrongType(key, n, "a list of strings", "Put a space after the dash of each entry.")
		return nil
	case n.Kind < List:
		return []Text{n.Text()}
	case n.Kind == Map:
		r.wrongType(key, n, "a list of strings", fmt.Sprintf("Write %s: [one, two].", key))
		return nil
	}
	out := make([]Text, 0, len(n.Items))
	for _, item := range n.Items {
		switch {
		case item.Kind == Null:
			r.out.Errorf(r.codes.WrongType, item.Span, "Write a string there, or remove the entry.",
				"An entry of %q of the %s is empty.", key, r.what)
		case item.Kind >= List:
			r.out.Errorf(r.codes.WrongType, item.headSpan(),
				"Write one string per entry; put it in quotes if it contains a colon.",
				"An entry of %q of the %s must be a string, but this is %s.", key, r.what, item.Kind)
		default:
			out = append(out, item.Text())
		}
	}
	return out
}

// Int returns an integer that is at least least.
func (r *Reader) Int(key string, least int64) (n int64, at source.Span, ok bool) {
	node := r.Node(key)
	if node == nil {
		return 0, source.Span{}, false
	}
	value, whole := node.Integer()
	if node.Kind != Int && !whole {
		if n, ok := meantInt(key, node.Value); ok && n >= least {
			meant := strconv.FormatInt(n, 10)
			r.wrongType(key, node, "an integer", fmt.Sprintf("Write %s: %s.", key, meant)).WriteValue(node.Span, meant)
			return 0, node.Span, false
		}
		help := fmt.Sprintf("Write an integer, such as %s: %d.", key, max(least, 1))
		r.wrongType(key, node, "an integer", help)
		return 0, node.Span, false
	}
	switch {
	case value == nil || !value.IsInt64():
		r.out.Errorf(r.codes.BadValue, node.Span, "Write a number below 9223372036854775808.",
			"%q of the %s is too large.", key, r.what)
		return 0, node.Span, false
	case value.Cmp(big.NewInt(least)) < 0:
		r.out.Errorf(r.codes.BadValue, node.Span, fmt.Sprintf("Write %s: %d or more.", key, least),
			"%q of the %s must be at least %d.", key, r.what, least)
		return 0, node.Span, false
	}
	return value.Int64(), node.Span, true
}

// meantInt returns the integer that a text means: a number in quotes, or a duration such as 24h in the unit that the
// name of the key has, seconds or milliseconds.
func meantInt(key, value string) (n int64, ok bool) {
	if n, err := strconv.ParseInt(value, 10, 64); err == nil {
		return n, true
	}
	if days, found := strings.CutSuffix(value, "d"); found {
		if n, err := strconv.ParseInt(days, 10, 32); err == nil {
			value = fmt.Sprintf("%dh", 24*n)
		}
	}
	d, err := time.ParseDuration(value)
	switch {
	case err != nil:
		return 0, false
	case strings.Contains(key, "_seconds"):
		return int64(d / time.Second), d%time.Second == 0
	case strings.HasSuffix(key, "_ms"):
		return d.Milliseconds(), d%time.Millisecond == 0
	}
	return 0, false
}

// Bool returns a boolean.
func (r *Reader) Bool(key string) (b bool, at source.Span, ok bool) {
	n := r.Node(key)
	if n == nil {
		return false, source.Span{}, false
	}
	if r.codes.YesNo && n.Kind == String {
		if b, ok := ParseBool(n.Value); ok {
			return b, n.Span, true
		}
	}
	if n.Kind != Bool {
		meant := ""
		switch strings.ToLower(n.Value) {
		case "yes", "on", "y", "1", "true":
			meant = "true"
		case "no", "off", "n", "0", "false":
			meant = "false"
		}
		if meant == "" {
			r.wrongType(key, n, "a boolean", "Write true or false, without quotes.")
		} else {
			r.wrongType(key, n, "a boolean", fmt.Sprintf("Write %s: %s.", key, meant)).WriteValue(n.Span, meant)
		}
		return false, n.Span, false
	}
	return isTrue(n.Value), n.Span, true
}

// Choice returns one of the texts that the shape allows, or the zero Text.
func (r *Reader) Choice(key string) Text { return r.Enum(key, r.shape.Field(key).Choices...) }

// Enum returns one of the allowed texts, or the zero Text.
func (r *Reader) Enum(key string, allowed ...string) Text {
	t := r.String(key)
	if t.IsZero() || slices.Contains(allowed, t.Value) {
		return t
	}
	near := cmp.Or(diag.Nearest(t.Value, allowed), completion(t.Value, allowed))
	help := "Write one of: " + strings.Join(allowed, ", ") + "."
	if near != "" {
		help = fmt.Sprintf("Did you mean %q?", near)
	}
	r.out.Errorf(r.codes.BadValue, t.Span, help, "%q of the %s cannot be %q.", key, r.what, t.Value).
		Replace(t.Value, near)
	return Text{}
}

// completion returns the only candidate whose first words are the name: human_review for human.
func completion(name string, candidates []string) string {
	found := ""
	for _, c := range candidates {
		rest, ok := strings.CutPrefix(strings.ToLower(c), strings.ToLower(name))
		if !ok || len(name) < 3 || rest == "" || !strings.ContainsAny(rest[:1], "_-.") {
			continue
		}
		if found != "" {
			return ""
		}
		found = c
	}
	return found
}

// Map returns a map, or nil.
func (r *Reader) Map(key string) *Node {
	n := r.Node(key)
	if n != nil && n.Kind != Map {
		r.wrongType(key, n, "a map", fmt.Sprintf(`Write lines of "key: value", indented below %s:.`, key))
		return nil
	}
	return n
}

// List returns the entries of a list.
func (r *Reader) List(key string) []*Node {
	n := r.Node(key)
	if n == nil {
		return nil
	}
	if n.Kind != List {
		r.wrongType(key, n, "a list", fmt.Sprintf(`Begin each entry below %s: with "- ".`, key))
		return nil
	}
	return n.Items
}

// RequireDeclared is Require for all keys that the shape declares as required.
func (r *Reader) RequireDeclared() {
	r.Require(names(r.shape.Fields, func(f Field) bool { return f.Required })...)
}

// Require reports missing keys at the first key of the map, and empty keys at their own position.
func (r *Reader) Require(keys ...string) {
	for _, key := range keys {
		r.markRead(key)
		n := r.node.Get(key)
		switch {
		case r.wrong:
		case n == nil:
			near := diag.Nearest(key, r.unreadKeys(keys))
			help := fmt.Sprintf("Add a line with %s: and its value.", key)
			if near != "" {
				help = fmt.Sprintf("There is a key %q; rename it to %q.", near, key)
			}
			r.out.Errorf(r.codes.Missing, r.firstKey(), help, "The %s has no %q.", r.what, key).
				ReplaceAt(r.KeySpan(near), near, key)
		case n.Kind == Null || n.Kind == String && strings.TrimSpace(n.Value) == "":
			r.out.Errorf(r.codes.Missing, r.KeySpan(key), fmt.Sprintf("Write a value after %s:.", key),
				"%q of the %s is empty.", key, r.what)
		}
	}
}

// unreadKeys returns the keys of the map that were not read.
func (r *Reader) unreadKeys(required []string) []string {
	var out []string
	for _, p := range r.node.Pairs {
		if name := p.Key.Value; !slices.Contains(r.readKeys, name) && !slices.Contains(required, name) {
			out = append(out, name)
		}
	}
	return out
}

// firstKey returns the span of the first key, or of the map if it has none.
func (r *Reader) firstKey() source.Span {
	if len(r.node.Pairs) > 0 {
		return r.node.Pairs[0].Key.Span
	}
	return r.node.Span
}

// Done reports the keys that were not read. Call it after reading all known keys.
func (r *Reader) Done() {
	for _, p := range r.node.Pairs {
		if slices.Contains(r.readKeys, p.Key.Value) {
			continue
		}
		found := r.out.Reportf(r.codes.Unknown, r.codes.UnknownAs, p.Key.Span, "", "Unknown key %q in the %s.",
			p.Key.Value, r.what)
		found.Lenient = r.codes.UnknownLenient
		found.Suggest(p.Key.Value, r.readKeys, r.node.Keys()...)
		if r.shape == nil || diag.Nearest(p.Key.Value, r.readKeys) != "" {
			continue
		}
		if home, ok := r.shape.HomeOf(p, r.what, nil); ok {
			found.Help = home.Help
		}
	}
}
