package expr

import (
	"encoding/json"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// kind is the type of a value. Kinds are bits, so a kind can also be a set.
type kind uint8

const (
	kindNull kind = 1 << iota
	kindBool
	kindNumber
	kindText
	kindList
	kindObject
	kindForeign // any other Go value
	kindMissing // never set, for dialects that distinguish it from null

	anyKind = kindNull | kindBool | kindNumber | kindText | kindList | kindObject
	sized   = kindText | kindList | kindObject
)

// article returns the kind with its article, for messages.
func (k kind) article() string {
	switch k {
	case kindNull, kindMissing:
		return "null"
	case kindBool:
		return "true or false"
	case kindNumber:
		return "a number"
	case kindText:
		return "a string"
	case kindList:
		return "a list"
	case kindObject:
		return "an object"
	default:
		return "a value of an unknown type"
	}
}

// value is an unboxed value, so that operators do not allocate. The zero value has no kind and is invalid. A number
// beyond the exact range of float64 has its int64 in ref, besides the rounded num.
type value struct {
	kind kind
	num  float64 // a number; 1 for true
	str  string  // a text
	ref  any     // a []any, a map[string]any, a large int64, or a foreign value
}

// The constructors of values.
func number(f float64) value { return value{kind: kindNumber, num: f} }
func text(s string) value    { return value{kind: kindText, str: s} }
func null() value            { return value{kind: kindNull} }
func boolean(b bool) value {
	if b {
		return value{kind: kindBool, num: 1}
	}
	return value{kind: kindBool}
}

// of unboxes a Go value. Numbers of all Go types become numbers; a json.Number beyond the range of float64 becomes the
// largest one. Every other Go value is foreign. The common types come first, because reflection is slower.
func of(plain any) value {
	switch v := plain.(type) {
	case nil:
		return null()
	case bool:
		return boolean(v)
	case float64:
		return number(v)
	case string:
		return text(v)
	case []any:
		return value{kind: kindList, ref: plain} // boxing v again would allocate
	case map[string]any:
		return value{kind: kindObject, ref: plain}
	case json.Number:
		f, err := strconv.ParseFloat(string(v), 64)
		if err != nil && !math.IsInf(f, 0) {
			return value{kind: kindForeign, ref: v}
		}
		return number(min(max(f, -math.MaxFloat64), math.MaxFloat64))
	}
	switch v := reflect.ValueOf(plain); {
	case v.CanInt():
		n := v.Int()
		if n > exactly || n < -exactly {
			return value{kind: kindNumber, num: float64(n), ref: n}
		}
		return number(float64(n))
	case v.CanUint():
		return number(float64(v.Uint()))
	case v.CanFloat():
		return number(v.Float())
	}
	return value{kind: kindForeign, ref: plain}
}

// exactly is the limit up to which float64 represents all integers.
const exactly = 1 << 53

// digits formats a number. Integers that float64 would round keep their digits.
func (v value) digits() string {
	if n, large := v.ref.(int64); large {
		return strconv.FormatInt(n, 10)
	}
	return formatNumber(v.num)
}

// sameNumber reports whether two numbers are equal. Two large integers are compared exactly: IDs that differ only in
// their last digits would be equal as float64.
func sameNumber(a, b value) bool {
	x, large := a.ref.(int64)
	y, both := b.ref.(int64)
	if large && both {
		return x == y
	}
	return a.num == b.num
}

// boxed returns the boxed value; it is the inverse of of.
func (v value) boxed() any {
	switch v.kind {
	case kindBool:
		return v.num != 0
	case kindNumber:
		if v.ref != nil {
			return v.ref
		}
		return v.num
	case kindText:
		return v.str
	case kindList, kindObject:
		return v.ref
	}
	if v.kind == kindForeign && v.str != "" { // a function of JavaScript
		return v.str
	}
	return nil
}

// length returns the number of characters (code points, not bytes), elements or keys, or -1 for other kinds.
func (v value) length() int {
	switch v.kind {
	case kindText:
		return utf8.RuneCountInString(v.str)
	case kindList:
		return len(v.ref.([]any))
	case kindObject:
		return len(v.ref.(map[string]any))
	default:
		return -1
	}
}

// literal returns a constant in the syntax of expressions.
func (v value) literal() string {
	if v.kind == kindText {
		return quote(v.str)
	}
	s, _ := v.canonical()
	return s
}

// Limits on the result of text() in bytes, and on the levels and the number of values that comparisons and text()
// visit. Values come from models and servers, and evaluating a condition must end quickly for any of them.
const (
	maxResult = 1 << 20
	maxLevels = 200
	maxVisits = 1 << 20
)

// canonical returns the string form: true, false, null, the shortest form of a number, a text unchanged, lists and
// objects as compact JSON with sorted keys. It fails for values that are too large, nested too deeply or foreign.
func (v value) canonical() (string, Problem) {
	switch v.kind {
	case kindNull, kindMissing:
		return "null", ""
	case kindBool:
		return strconv.FormatBool(v.num != 0), ""
	case kindNumber:
		return v.digits(), ""
	case kindText:
		return v.str, ""
	case kindForeign:
		return "", ProblemType
	}
	raw, problem := appendJSON(nil, v, maxLevels)
	if problem != "" {
		return "", problem
	}
	return string(raw), ""
}

// appendJSON appends a value as compact JSON with sorted keys. It stops at the limits above, so the result may exceed
// maxResult by one text.
func appendJSON(b []byte, v value, levels int) ([]byte, Problem) {
	if levels == 0 || len(b) > maxResult {
		return b, ProblemSize
	}
	var problem Problem
	switch v.kind {
	case kindText:
		if len(v.str) > maxResult {
			return b, ProblemSize
		}
		b = append(b, quote(v.str)...)
	case kindList:
		b = append(b, '[')
		for i, item := range v.ref.([]any) {
			if i > 0 {
				b = append(b, ',')
			}
			if b, problem = appendJSON(b, of(item), levels-1); problem != "" {
				return b, problem
			}
		}
		b = append(b, ']')
	case kindObject:
		object := v.ref.(map[string]any)
		b = append(b, '{')
		for i, key := range slices.Sorted(maps.Keys(object)) {
			if i > 0 {
				b = append(b, ',')
			}
			if len(key) > maxResult {
				return b, ProblemSize
			}
			b = append(b, quote(key)...)
			b = append(b, ':')
			if b, problem = appendJSON(b, of(object[key]), levels-1); problem != "" {
				return b, problem
			}
		}
		b = append(b, '}')
	default:
		s, p := v.canonical()
		b, problem = append(b, s...), p
	}
	return b, problem
}

// formatNumber returns the shortest digits that parse to the same number, with an exponent only for very large and very
// small numbers.
func formatNumber(f float64) string {
	size := math.Abs(f)
	switch {
	case f == 0:
		return "0" // also for -0
	case size >= 1e21 || size < 1e-6:
		return strings.Replace(strconv.FormatFloat(f, 'e', -1, 64), "e-0", "e-", 1)
	default:
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
}

// quote returns a text as a JSON string, which is also valid in expressions.
func quote(s string) string {
	const hex = "0123456789abcdef"
	var b strings.Builder
	b.Grow(len(s) + 2)
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x20 || r == 0x7f:
			b.WriteString(`\u00`)
			b.WriteByte(hex[r>>4])
			b.WriteByte(hex[r&15])
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// Values is an Env of plain data. A key may be dotted: "state.approved" is the value of that variable, and a longer
// path descends into it. If several keys are prefixes of a path, the longest applies.
//
// Values are nil, bool, string, numbers of any Go type, json.Number, []any and map[string]any.
type Values map[string]any

// Lookup implements Env. It tries the longest prefix of the path first.
func (v Values) Lookup(path []string) (any, bool) {
	if len(path) == 1 {
		found, ok := v[path[0]]
		return found, ok
	}
	// The key is built on the stack to avoid an allocation per lookup.
	var room [96]byte
	key := room[:0]
	for i, segment := range path {
		if i > 0 {
			key = append(key, '.')
		}
		key = append(key, segment...)
	}
	for n := len(path); n > 0; n-- {
		if found, ok := v[string(key)]; ok {
			return Descend(found, path[n:])
		}
		key = key[:max(0, len(key)-len(path[n-1])-1)]
	}
	return nil, false
}

// Descend resolves a path in a value: keys of objects and indexes of lists.
func Descend(v any, path []string) (any, bool) {
	for _, segment := range path {
		switch at := v.(type) {
		case map[string]any:
			next, ok := at[segment]
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			i := index(segment)
			if i < 0 || i >= len(at) {
				return nil, false
			}
			v = at[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// index parses a list index, or returns -1. It must be cheap for other segments, which are the common case.
func index(s string) int {
	if s == "" || len(s) > 9 {
		return -1
	}
	n := 0
	for i := range len(s) {
		if !isDigit(s[i]) {
			return -1
		}
		n = 10*n + int(s[i]-'0')
	}
	return n
}
