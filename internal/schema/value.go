package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// What keeps arithmetic with numbers quick.
const (
	mostDigits = 1_000
	mostZeros  = 400 // of an exponent
)

// number is a value as an exact number; nil when it is none, or one too large
// to be written out.
func number(v any) *big.Rat {
	n, ok := v.(json.Number)
	if !ok || len(n) > mostDigits {
		return nil
	}
	if e := strings.IndexAny(string(n), "eE"); e >= 0 {
		if size, err := strconv.Atoi(string(n[e+1:])); err != nil || size > mostZeros || size < -mostZeros {
			return nil
		}
	}
	r, ok := new(big.Rat).SetString(string(n))
	if !ok {
		return nil
	}
	return r
}

// decimal writes a number that came from JSON, with all its digits.
func decimal(r *big.Rat) string {
	digits, _ := r.FloatPrec()
	return r.FloatString(digits)
}

func isType(v any, name string) bool {
	switch v.(type) {
	case nil:
		return name == "null"
	case bool:
		return name == "boolean"
	case string:
		return name == "string"
	case []any:
		return name == "array"
	case map[string]any:
		return name == "object"
	}
	if name != "integer" {
		return name == "number"
	}
	n := number(v)
	return n != nil && n.IsInt()
}

// equal compares as JSON does: 1.0 is 1.
func equal(a, b any) bool {
	switch a := a.(type) {
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equal)
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for name := range a {
			if other, ok := b[name]; !ok || !equal(a[name], other) {
				return false
			}
		}
		return true
	case json.Number:
		x, y := number(a), number(b)
		if x == nil || y == nil {
			return a == b
		}
		return x.Cmp(y) == 0
	}
	switch b.(type) {
	case []any, map[string]any:
		return false
	}
	return a == b
}

// canonical writes a value so that equal ones are written alike.
func canonical(to []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(to, "null"...)
	case bool:
		return strconv.AppendBool(to, v)
	case string:
		return strconv.AppendQuote(to, v)
	case []any:
		to = append(to, '[')
		for _, one := range v {
			to = append(canonical(to, one), ',')
		}
		return append(to, ']')
	case map[string]any:
		to = append(to, '{')
		for _, name := range slices.Sorted(maps.Keys(v)) {
			to = append(strconv.AppendQuote(to, name), ':')
			to = append(canonical(to, v[name]), ',')
		}
		return append(to, '}')
	}
	if n := number(v); n != nil {
		return append(to, n.RatString()...)
	}
	return fmt.Append(to, v)
}

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "true or false"
	case string:
		return "text"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return "a number"
}

func typeList(names []string) string {
	var out []string
	for _, name := range names {
		word := name // null
		switch name {
		case "boolean":
			word = "true or false"
		case "string":
			word = "text"
		case "array":
			word = "a list"
		case "object":
			word = "an object"
		case "number":
			word = "a number"
		case "integer":
			word = "a whole number"
		}
		if !slices.Contains(out, word) {
			out = append(out, word)
		}
	}
	return strings.Join(out, " or ")
}

func several(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return strconv.Itoa(n) + " " + of + "s"
}

// What is shown of values: enough to recognise them.
const (
	shownBytes  = 60
	shownValues = 12
)

func show(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return "that" // what came from JSON goes back to JSON
	}
	if len(raw) > shownBytes {
		return strings.ToValidUTF8(string(raw[:shownBytes]), "") + "…"
	}
	return string(raw)
}

func showAll(list []any) string {
	var out []string
	for _, v := range list[:min(len(list), shownValues)] {
		out = append(out, show(v))
	}
	if len(list) > shownValues {
		out = append(out, "…")
	}
	return strings.Join(out, ", ")
}
