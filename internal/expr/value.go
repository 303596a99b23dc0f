package expr

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// kind is the type of a value. Kinds are bits, so that a set of them is one.
type kind uint8

const (
	kindNull kind = 1 << iota
	kindBool
	kindNumber
	kindText
	kindList
	kindObject
	kindForeign // a Go value that is none of these
	kindMissing // what was never set, where a dialect tells it from null

	anyKind = kindNull | kindBool | kindNumber | kindText | kindList | kindObject
	sized   = kindText | kindList | kindObject
)

// article is the kind as a sentence has it.
func (k kind) article() string {
	switch k {
	case kindNull, kindMissing:
		return "null"
	case kindBool:
		return "true or false"
	case kindNumber:
		return "a number"
	case kindText:
		return "a text"
	case kindList:
		return "a list"
	case kindObject:
		return "an object"
	default:
		return "a value of an unknown type"
	}
}

// value is a value taken out of its interface, so that the results of
// operators need no allocation.
type value struct {
	kind kind
	num  float64 // a number; 1 for true
	str  string  // a text
	ref  any     // a []any, a map[string]any, or whatever a foreign value is
}

func number(f float64) value { return value{kind: kindNumber, num: f} }
func text(s string) value    { return value{kind: kindText, str: s} }
func null() value            { return value{kind: kindNull} }
func boolean(b bool) value {
	if b {
		return value{kind: kindBool, num: 1}
	}
	return value{kind: kindBool}
}

// of takes a Go value apart. Numbers of every Go type are one type here; a
// json.Number beyond the range of float64 is the largest there is.
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
		return value{kind: kindList, ref: plain} // v would be put into a new interface
	case map[string]any:
		return value{kind: kindObject, ref: plain}
	case json.Number:
		f, err := strconv.ParseFloat(string(v), 64)
		if err != nil && !math.IsInf(f, 0) {
			return value{kind: kindForeign, ref: v}
		}
		return number(min(max(f, -math.MaxFloat64), math.MaxFloat64))
	case int:
		return number(float64(v))
	case int64:
		if f := float64(v); v > exactly || v < -exactly {
			return value{kind: kindNumber, num: f, ref: plain}
		}
		return number(float64(v))
	case int32:
		return number(float64(v))
	case int16:
		return number(float64(v))
	case int8:
		return number(float64(v))
	case uint:
		return number(float64(v))
	case uint64:
		return number(float64(v))
	case uint32:
		return number(float64(v))
	case uint16:
		return number(float64(v))
	case uint8:
		return number(float64(v))
	case float32:
		return number(float64(v))
	default:
		return value{kind: kindForeign, ref: v}
	}
}

// exactly is the largest whole number up to which float64 has all of them.
const exactly = 1 << 53

// digits writes a number. One that float64 would round has its own.
func (v value) digits() string {
	if n, large := v.ref.(int64); large {
		return strconv.FormatInt(n, 10)
	}
	return formatNumber(v.num)
}

// sameNumber compares two numbers.
func sameNumber(a, b value) bool {
	x, large := a.ref.(int64)
	y, both := b.ref.(int64)
	if large && both {
		return x == y
	}
	return a.num == b.num
}

// plain is the way back.
func (v value) plain() any {
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
	default:
		return nil
	}
}

// length is how many characters, elements or keys there are; -1 for what has none.
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

// literal writes a constant as the grammar has it.
func (v value) literal() string {
	if v.kind == kindText {
		return quote(v.str)
	}
	s, _ := v.canonical()
	return s
}

// The bounds of what text() writes, and of how far values are looked into.
const (
	maxResult = 1 << 20
	maxLevels = 200
	maxVisits = 1 << 20
)

// canonical is the string form: true, false, null, numbers without needless
// digits, texts as they are, lists and objects as compact JSON with sorted
// keys. It fails for what is too large, too deep or foreign.
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

// formatNumber writes the shortest digits that read back as the same number,
// with an exponent only for the very large and the very small.
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

// quote writes a text as JSON does, which the grammar reads too.
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

// Values is an Env of plain data. A key may be dotted: "state.approved" holds
// the value of that variable, and a longer path descends into it. When several
// keys are the beginning of a path, the longest counts.
//
// Values are nil, bool, string, numbers of any Go type, json.Number, []any and
// map[string]any.
type Values map[string]any

// Lookup finds the value at a path.
func (v Values) Lookup(path []string) (any, bool) {
	if len(path) == 1 {
		found, ok := v[path[0]]
		return found, ok
	}
	// The key is built on the stack: looking a name up should cost nothing.
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

// Descend follows a path into a value: keys of objects, indexes of lists.
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

// index reads the position of a list's element, -1 when it is none. Most
// segments are none, so saying so must be cheap.
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
