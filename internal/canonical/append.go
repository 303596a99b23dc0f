package canonical

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Member is a member of an object. Its value is in canonical form.
type Member struct {
	Name  string
	Value []byte
}

// AppendObject appends an object in canonical form. It sorts the members, whose names must differ.
func AppendObject(b []byte, members []Member) []byte {
	slices.SortFunc(members, func(x, y Member) int { return compareNames(x.Name, y.Name) })
	b = append(b, '{')
	for i, m := range members {
		if i > 0 {
			b = append(b, ',')
		}
		b = AppendString(b, m.Name)
		b = append(b, ':')
		b = append(b, m.Value...)
	}
	return append(b, '}')
}

// compareNames compares names by their UTF-16 code units. The order of bytes is the same, except that in UTF-16 the
// characters from U+10000 come before those from U+E000 to U+FFFF.
func compareNames(x, y string) int {
	for i := range min(len(x), len(y)) {
		if x[i] == y[i] {
			continue
		}
		const fromE000, from10000 = 0xEE, 0xF0 // first bytes
		if min(x[i], y[i]) >= fromE000 && (x[i] >= from10000) != (y[i] >= from10000) {
			return cmp.Compare(y[i], x[i])
		}
		return cmp.Compare(x[i], y[i])
	}
	return cmp.Compare(len(x), len(y))
}

// AppendString appends a string in canonical form. Bytes that are not UTF-8 become U+FFFD.
func AppendString(b []byte, text string) []byte {
	b, _ = jsontext.AppendQuote(b, text) // the error reports bytes that were replaced
	return b
}

// AppendInt appends a number in canonical form, rounded to a double.
func AppendInt(b []byte, n int64) []byte {
	const exact = 1 << 53
	if -exact <= n && n <= exact {
		return strconv.AppendInt(b, n, 10)
	}
	form, _ := JSON(strconv.AppendInt(nil, n, 10)) // every int64 is in the range of a double
	return append(b, form...)
}
