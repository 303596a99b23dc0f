package expr

import (
	"cmp"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// The loose profile converts values like JavaScript, because the reference program of AIFLOW evaluates conditions with
// JavaScript operators:
//   - two values that both convert to a number are compared as numbers; "",
//     null, true and [] convert, a missing value does not;
//   - other pairs are compared loosely: a missing value equals null, a list is
//     its elements joined by commas, two objects are equal only if they are
//     identical;
//   - "", 0, null, false and missing values are false, everything else is true.

// looseTruth converts like Boolean().
func looseTruth(v value) (bool, Problem) {
	switch v.kind {
	case kindNull, kindMissing:
		return false, ""
	case kindBool:
		return v.num != 0, ""
	case kindNumber:
		return v.num != 0 && !math.IsNaN(v.num), ""
	case kindText:
		return v.str != "", ""
	default:
		return true, ""
	}
}

// looseEqual compares as described above. No two values are an error.
func looseEqual(a, b value) (bool, Problem) {
	x, y := looseNumber(a), looseNumber(b)
	if !math.IsNaN(x) && !math.IsNaN(y) {
		return x == y, ""
	}
	absent := func(v value) bool { return v.kind == kindNull || v.kind == kindMissing }
	switch {
	case absent(a) || absent(b):
		return absent(a) && absent(b), ""
	case composite(a) && composite(b):
		return identical(a, b), ""
	case a.kind == kindNumber || b.kind == kindNumber || a.kind == kindBool || b.kind == kindBool:
		return false, "" // only one of them converts to a number
	}
	return looseText(a) == looseText(b), ""
}

// looseOrder compares texts like JavaScript: by UTF-16 code units, which differs from the order of code points beyond
// U+FFFF.
func looseOrder(a, b value) (int, bool, Problem) {
	x, y := looseNumber(a), looseNumber(b)
	if !math.IsNaN(x) && !math.IsNaN(y) {
		return cmp.Compare(x, y), true, ""
	}
	if plainly := func(v value) bool { return v.kind == kindText || composite(v) }; !plainly(a) || !plainly(b) {
		return 0, false, ""
	}
	return slices.Compare(utf16.Encode([]rune(looseText(a))), utf16.Encode([]rune(looseText(b)))), true, ""
}

// looseContains implements the function contains: an element of a list without conversion, or a part of a text.
func looseContains(whole, part value) (bool, Problem) {
	switch whole.kind {
	case kindText:
		return strings.Contains(whole.str, looseText(part)), ""
	case kindList:
		for _, item := range whole.ref.([]any) {
			one := of(item)
			if one.kind != part.kind {
				continue
			}
			if composite(one) && identical(one, part) || !composite(one) && one.num == part.num && one.str == part.str {
				return true, ""
			}
		}
	}
	return false, ""
}

// composite reports whether a value is an object in JavaScript, which has an identity.
func composite(v value) bool {
	return v.kind == kindList || v.kind == kindObject || v.kind == kindForeign
}

// identical reports whether two lists or objects are the same object.
func identical(a, b value) bool {
	if a.kind != b.kind || a.kind == kindForeign {
		return a.kind == b.kind && a.str == b.str
	}
	x, y := reflect.ValueOf(a.ref), reflect.ValueOf(b.ref)
	return x.Pointer() == y.Pointer() && x.Len() == y.Len()
}

// looseNumber converts like Number(); NaN means that it cannot.
func looseNumber(v value) float64 {
	switch v.kind {
	case kindNull:
		return 0
	case kindBool, kindNumber:
		return v.num
	case kindText:
		return numberOfText(v.str)
	case kindList:
		return numberOfText(looseText(v))
	default:
		return math.NaN()
	}
}

// numberOfText converts a text like Number(): without the white space around it, and with the literals that JavaScript
// knows.
func numberOfText(s string) float64 {
	s = strings.TrimFunc(s, func(r rune) bool {
		return r == '\uFEFF' || strings.ContainsRune(" \t\n\r\v\f\u00a0\u2028\u2029", r)
	})
	switch s {
	case "":
		return 0
	case "Infinity", "+Infinity":
		return math.Inf(1)
	case "-Infinity":
		return math.Inf(-1)
	}
	if len(s) > 2 && s[0] == '0' && strings.ContainsRune("xXoObB", rune(s[1])) {
		base := map[byte]int{'x': 16, 'o': 8, 'b': 2}[s[1]|0x20]
		if n, err := strconv.ParseUint(s[2:], base, 64); err == nil {
			return float64(n)
		}
		return math.NaN()
	}
	// ParseFloat also accepts nan, inf, hexadecimal numbers and underscores.
	if strings.IndexFunc(s, func(r rune) bool { return !strings.ContainsRune("0123456789+-.eE", r) }) >= 0 {
		return math.NaN()
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(f, 0) {
		return math.NaN()
	}
	return f
}

// looseText converts like String().
func looseText(v value) string {
	switch v.kind {
	case kindMissing:
		return "undefined"
	case kindNumber:
		if v.ref != nil {
			return v.digits()
		}
		return numberText(v.num)
	case kindList:
		var b strings.Builder
		writeJoined(&b, v, maxLevels)
		return b.String()
	case kindObject:
		return "[object Object]"
	case kindForeign:
		return v.str
	}
	s, _ := v.canonical()
	return s
}

// writeJoined writes the elements of a list, joined by commas as Array.prototype.join does. It stops at the limits
// instead of failing, because String() cannot fail.
func writeJoined(b *strings.Builder, list value, levels int) {
	for i, item := range list.ref.([]any) {
		if i > 0 {
			b.WriteByte(',')
		}
		if b.Len() > maxResult || levels == 0 {
			return
		}
		switch one := of(item); one.kind {
		case kindNull:
		case kindList:
			writeJoined(b, one, levels-1)
		default:
			b.WriteString(looseText(one))
		}
	}
}

// numberText formats a number like JavaScript.
func numberText(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	case f != 0 && (math.Abs(f) >= 1e21 || math.Abs(f) < 1e-6):
		s := strconv.FormatFloat(f, 'e', -1, 64)
		mantissa, exponent, _ := strings.Cut(s, "e")
		sign := exponent[:1]
		return mantissa + "e" + sign + strings.TrimLeft(exponent[1:], "0")
	}
	return strconv.FormatFloat(f+0, 'f', -1, 64)
}

// aiflowRoots are the names that conditions can use in the reference program.
var aiflowRoots = []string{"context", "output", "agentId", "user"}

// lookupAIFlow returns a lookup function. Unless exact, it looks for names without a root in the latest output and then
// in the context, which the reference program does not.
func lookupAIFlow(exact bool) func(env Env, path []string) value {
	return func(env Env, path []string) value {
		if slices.Contains(aiflowRoots, path[0]) || env == nil {
			return walkLoose(env, path, exact)
		}
		if exact {
			return inherited(path[0], path[1:])
		}
		for _, root := range []string{"output", "context"} {
			if v := walkLoose(env, append([]string{root}, path...), exact); v.kind != kindMissing {
				return v
			}
		}
		return value{kind: kindMissing}
	}
}

// bareAIFlow prefixes a name without a root with the root that is searched first.
func bareAIFlow(path []string) []string {
	if slices.Contains(aiflowRoots, path[0]) {
		return path
	}
	return append([]string{"output"}, path...)
}

// walkLoose resolves a path in the environment, then into texts and lists.
func walkLoose(env Env, path []string, exact bool) value {
	if env == nil {
		return value{kind: kindMissing}
	}
	// The input of a run is part of its context and takes precedence.
	if path[0] == "context" && len(path) > 1 {
		if v := walkLoose(env, append([]string{"input"}, path[1:]...), false); v.kind != kindMissing {
			return v
		}
	}
	for n := len(path); n > 0; n-- {
		found, ok := env.Lookup(path[:n])
		if !ok {
			continue
		}
		v := of(found)
		for i, segment := range path[n:] {
			next, ok := property(v, segment)
			if !ok {
				if exact && v.kind != kindNull && v.kind != kindMissing {
					return inherited(segment, path[n+i+1:])
				}
				return value{kind: kindMissing}
			}
			v = next
		}
		return v
	}
	if exact {
		return inherited(path[len(path)-1], nil)
	}
	return value{kind: kindMissing}
}

// property returns a property of a text or a list that Env does not know.
func property(v value, name string) (value, bool) {
	switch v.kind {
	case kindText:
		units := utf16.Encode([]rune(v.str))
		if name == lengthKey {
			return number(float64(len(units))), true
		}
		if i := index(name); i >= 0 && i < len(units) {
			if one := utf16.Decode(units[i : i+1]); one[0] != utf8.RuneError {
				return text(string(one)), true
			}
		}
	case kindList:
		if name == lengthKey {
			return number(float64(len(v.ref.([]any)))), true
		}
	}
	return value{}, false
}

// inherited returns the properties that every JavaScript object inherits. They are not documented; conditions that use
// them by accident behave as in the reference program.
func inherited(name string, rest []string) value {
	switch name {
	case "constructor", "toString", "toLocaleString", "valueOf", "hasOwnProperty", "isPrototypeOf",
		"propertyIsEnumerable",
		"__proto__", "__defineGetter__", "__defineSetter__", "__lookupGetter__", "__lookupSetter__":
		if len(rest) == 0 {
			return value{kind: kindForeign, str: "function " + name + "() { [native code] }"}
		}
	}
	return value{kind: kindMissing}
}
