package expr

import (
	"bytes"
	"encoding/json"
	"math"
)

// Decode decodes JSON into the values of expressions. Integers that float64 would round become int64 if they fit.
func Decode(raw json.RawMessage) (any, error) {
	if hasLongNumber(raw) {
		return decodeExactly(raw)
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return nil, err
	}
	return value, nil
}

// hasLongNumber reports whether raw contains enough digits in a row for a number that float64 would round. The digits
// may also be part of a string.
func hasLongNumber(raw json.RawMessage) bool {
	const shortest = 16
	digits := 0
	for _, c := range raw {
		if c < '0' || c > '9' {
			digits = 0
		} else if digits++; digits == shortest {
			return true
		}
	}
	return false
}

// decodeExactly decodes JSON without rounding integers: IDs of other systems often exceed the precision of float64.
func decodeExactly(raw json.RawMessage) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, err
	}
	return exactNumbers(value), nil
}

// exactNumbers replaces each json.Number of a value, which it changes in place.
func exactNumbers(value any) any {
	switch x := value.(type) {
	case json.Number:
		if n, err := x.Int64(); err == nil && (n > exactly || n < -exactly) {
			return n
		}
		f, _ := x.Float64() // out of range: infinity, clamped below
		return min(max(f, -math.MaxFloat64), math.MaxFloat64)
	case []any:
		for i := range x {
			x[i] = exactNumbers(x[i])
		}
	case map[string]any:
		for key := range x {
			x[key] = exactNumbers(x[key])
		}
	}
	return value
}
