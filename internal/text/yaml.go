package text

import (
	"encoding/json"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Kind is the type of a YAML node.
type Kind int

// The kinds. A date such as 2020-01-01 is a String.
const (
	Null Kind = iota
	Bool
	Int
	Float
	String
	List
	Map
)

// String returns the kind with its article, for messages: "a list".
func (k Kind) String() string {
	return [...]string{"empty", "a boolean", "an integer", "a number", "a string", "a list", "a map"}[k]
}

// Node is a YAML value with its span.
//
// An alias is the same Node as its anchor, so a Node may occur several times in a tree. There are no cycles.
type Node struct {
	Kind Kind
	// Value is the content of a scalar, without quotes and with escapes resolved.
	Value string
	Items []*Node // of a list
	Pairs []Pair  // of a map, in the order of the file
	// Span is the whole value. If the file contains a scalar's content verbatim, Span is that content without quotes,
	// so that len(Value) == Span.End-Span.Start and offsets in Value map to the file. Otherwise (escapes, folded lines)
	// the two lengths always differ.
	Span source.Span

	repeated []string // keys of a map that it, or a map merged into it, has again
}

// Pair is an entry of a map. The key is a scalar; its Value is its name, also if its Kind is not String (on, 2, null).
type Pair struct{ Key, Value *Node }

// Get returns the value of a key of a map, or nil.
func (n *Node) Get(key string) *Node { return n.pair(key).Value }

// Key returns the node of a key, or nil.
func (n *Node) Key(key string) *Node { return n.pair(key).Key }

// pair returns the entry with a key; the zero Pair if there is none.
func (n *Node) pair(key string) Pair {
	if n != nil {
		for _, p := range n.Pairs {
			if p.Key.Value == key {
				return p
			}
		}
	}
	return Pair{}
}

// Entry returns the place of a key of a map, for fixes; the zero Entry if the map itself does not have it, or only by
// an alias or by <<, or has it twice.
func (n *Node) Entry(key string) diag.Entry {
	var out diag.Entry
	if n == nil || slices.Contains(n.repeated, key) {
		return out
	}
	for _, p := range n.Pairs {
		switch {
		case p.Key.Span.File != n.Span.File || p.Key.Span.Start < n.Span.Start || p.Key.Span.End > n.Span.End:
		case p.Key.Value == key:
			out.In, out.Key, out.Value = n.Span, p.Key.Span, p.Value.Span
		case out.Key.IsZero():
			out.Previous = p.Value.Span
		case out.Next.IsZero():
			out.Next = p.Key.Span
		}
	}
	if out.Key.IsZero() {
		return diag.Entry{}
	}
	return out
}

// PlaceFor returns the place of the first key of a map, before which a fix can add another key. It is zero if the map
// is empty or has that key, perhaps without a value.
func (n *Node) PlaceFor(key string) diag.Entry {
	if n == nil || len(n.Pairs) == 0 || n.Key(key) != nil {
		return diag.Entry{}
	}
	return n.Entry(n.Pairs[0].Key.Value)
}

// ItemEntry returns the place of an entry of a list of texts, for fixes.
func ItemEntry(list []Text, i int) diag.Entry {
	out := diag.Entry{Value: list[i].Span}
	if i > 0 {
		out.Previous = list[i-1].Span
	}
	if i+1 < len(list) {
		out.Next = list[i+1].Span
	}
	return out
}

// Keys returns the names of a map's keys in the order of the file.
func (n *Node) Keys() []string {
	if n == nil {
		return nil
	}
	return xslices.Map(n.Pairs, func(p Pair) string { return p.Key.Value })
}

// Exact reports whether the file contains the scalar's content verbatim, so that offsets in Value are offsets in Span.
func (n *Node) Exact() bool {
	return n.Kind < List && len(n.Value) == n.Span.End-n.Span.Start
}

// JSON returns the value as JSON. Maps keep the order of the file and integers keep all their digits. The expansion of
// aliases is bounded by ParseYAML.
func (n *Node) JSON() json.RawMessage { return n.appendJSON(nil) }

// appendJSON appends the value as JSON. nil is null.
func (n *Node) appendJSON(b []byte) []byte {
	if n == nil {
		return append(b, "null"...)
	}
	switch n.Kind {
	case Bool:
		return strconv.AppendBool(b, isTrue(n.Value))
	case Int:
		return append(b, integerText(n.Value)...)
	case Float:
		return append(b, floatText(n.Value)...)
	case String:
		return appendJSONString(b, n.Value)
	case List:
		b = append(b, '[')
		for i, item := range n.Items {
			if i > 0 {
				b = append(b, ',')
			}
			b = item.appendJSON(b)
		}
		return append(b, ']')
	case Map:
		b = append(b, '{')
		for i, p := range n.Pairs {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendJSONString(b, p.Key.Value), ':')
			b = p.Value.appendJSON(b)
		}
		return append(b, '}')
	default:
		return append(b, "null"...)
	}
}

// maxPlaces limits the result of Places.
const maxPlaces = 500

// Places returns the spans of the parts of a value by their JSON pointers: the span of a scalar, or of the key of a
// list or map.
func (n *Node) Places() map[string]source.Span {
	all := map[string]source.Span{}
	n.addPlaces(all, "")
	return all
}

// addPlaces adds the places of the children of a value. Pointers are escaped as in RFC 6901.
func (n *Node) addPlaces(all map[string]source.Span, pointer string) {
	add := func(name string, child *Node, key source.Span) {
		if len(all) >= maxPlaces {
			return
		}
		at := pointer + "/" + name
		if child.Kind < List && child.Span.End > child.Span.Start {
			all[at] = child.Span
		} else if !key.IsZero() {
			all[at] = key
		}
		child.addPlaces(all, at)
	}
	for i, item := range n.Items {
		add(strconv.Itoa(i), item, source.Span{})
	}
	for _, p := range n.Pairs {
		name := p.Key.Value
		if strings.ContainsAny(name, "~/") {
			name = strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
		}
		add(name, p.Value, p.Key.Span)
	}
}

// appendJSONString appends a string as encoding/json encodes it.
func appendJSONString(b []byte, s string) []byte {
	if plainJSON(s) {
		b = append(b, '"')
		b = append(b, s...)
		return append(b, '"')
	}
	quoted, err := json.Marshal(s)
	if err != nil { // unreachable: strings can always be encoded
		return append(b, `""`...)
	}
	return append(b, quoted...)
}

// plainJSON reports whether s needs no escapes in JSON.
func plainJSON(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ', c >= 0x7F, c == '"', c == '\\', c == '<', c == '>', c == '&':
			return false
		}
	}
	return true
}

// ParseBool parses a boolean as people write it: true, yes, on and 1, false, no, off and 0, in lower or upper case.
func ParseBool(s string) (b, ok bool) {
	switch strings.ToLower(s) {
	case "true", "yes", "on", "1", "t":
		return true, true
	case "false", "no", "off", "0", "f":
		return false, true
	}
	return false, false
}

// IsPlainWord reports whether a word without quotes is text in YAML, in all versions and in any place. Words that begin
// with a digit are not: 1_5 and 2006-01-02 are a number and a time in YAML 1.1.
func IsPlainWord(s string) bool {
	_, isBool := ParseBool(s)
	return s != "" && s[0] > '9' && scalarKind(s) == String && !isBool && !strings.EqualFold(s, "y") &&
		!strings.EqualFold(s, "n") && !strings.ContainsFunc(s, func(r rune) bool {
		return r > 0x7e || !IsIdentByte(byte(r)) && r != '-'
	})
}

// isTrue reports whether a Bool is true.
func isTrue(s string) bool { return s == "true" || s == "True" || s == "TRUE" }

// parseInteger parses the integers of YAML 1.2: a leading zero has no meaning, and octal numbers begin with 0o.
func parseInteger(s string) (*big.Int, bool) {
	digits := strings.ReplaceAll(s, "_", "")
	sign := ""
	if digits != "" && (digits[0] == '+' || digits[0] == '-') {
		if digits[0] == '-' {
			sign = "-"
		}
		digits = digits[1:]
	}
	base := 10
	if len(digits) > 2 && digits[0] == '0' {
		switch digits[1] {
		case 'x':
			base = 16
		case 'o':
			base = 8
		case 'b':
			base = 2
		}
		if base != 10 {
			digits = digits[2:]
		}
	}
	if digits == "" || digits[0] == '+' || digits[0] == '-' {
		return nil, false
	}
	return new(big.Int).SetString(sign+digits, base)
}

// Integer returns the value of a number without a fraction. As in JSON Schema, 1000.0 and 1e3 are integers.
func (n *Node) Integer() (*big.Int, bool) {
	switch n.Kind {
	case Int:
		return parseInteger(n.Value)
	case Float:
		f, err := strconv.ParseFloat(strings.ReplaceAll(n.Value, "_", ""), 64)
		if err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return big.NewInt(int64(f)), true
		}
	}
	return nil, false
}

// integerText returns an integer of YAML as JSON.
func integerText(s string) string {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return strconv.FormatInt(n, 10)
	}
	if n, ok := parseInteger(s); ok {
		return n.String()
	}
	return "0"
}

// floatText keeps the digits of a number that is valid JSON, so that 1.10 does not become 1.1.
func floatText(s string) string {
	if json.Valid([]byte(s)) {
		return s
	}
	v, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	if err != nil {
		return "0"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return "0"
	}
	return string(text)
}
