package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/xslices"
)

// Limits that keep exact arithmetic cheap.
const (
	maxDigits   = 1_000
	maxExponent = 400
)

// number returns the exact value of a number. It returns nil for other types and for numbers beyond the limits.
func number(v any) *big.Rat {
	n, ok := v.(json.Number)
	if !ok || len(n) > maxDigits {
		return nil
	}
	if e := strings.IndexAny(string(n), "eE"); e >= 0 {
		if size, err := strconv.Atoi(string(n[e+1:])); err != nil || size > maxExponent || size < -maxExponent {
			return nil
		}
	}
	r, ok := new(big.Rat).SetString(string(n))
	if !ok {
		return nil
	}
	return r
}

// decimal formats a number that came from JSON with all its digits.
func decimal(r *big.Rat) string {
	digits, _ := r.FloatPrec()
	return r.FloatString(digits)
}

// isType reports whether a value has the type that a schema calls name.
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

// Equal reports whether two JSON values are equal. Numbers are compared by value: 1.0 equals 1.
func Equal(a, b any) bool {
	switch a := a.(type) {
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, Equal)
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for name := range a {
			if other, ok := b[name]; !ok || !Equal(a[name], other) {
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

// canonical appends a form of the value that is the same for equal values.
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

// typeName returns the type of a value with its article.
func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case []any:
		return "an array"
	case map[string]any:
		return "an object"
	}
	return "a number"
}

// typeList joins types with their articles: "a string or null".
func typeList(types []string) string {
	var out []string
	for _, t := range types {
		switch t {
		case "boolean", "string", "number":
			t = "a " + t
		case "array", "object", "integer":
			t = "an " + t
		}
		if !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return strings.Join(out, " or ")
}

// plural formats a count: "1 item", "2 items".
func plural(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "y"):
		return strconv.Itoa(n) + " " + strings.TrimSuffix(noun, "y") + "ies"
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// Messages show only the beginning of long values and lists.
const (
	maxShownBytes  = 60
	maxShownValues = 12
)

// show returns a value as JSON for a message, shortened if it is long.
func show(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return "the expected value" // unreachable: the value was decoded from JSON
	}
	if len(raw) > maxShownBytes {
		return strings.ToValidUTF8(string(raw[:maxShownBytes]), "") + "…"
	}
	return string(raw)
}

// showAll returns the first values of a list for a message.
func showAll(list []any) string {
	out := xslices.Map(list[:min(len(list), maxShownValues)], show)
	if len(list) > maxShownValues {
		out = append(out, "…")
	}
	return strings.Join(out, ", ")
}
