package jsonfast

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// appendTextMarshaler appends the text form of v as a JSON string. The text is
// appended directly to b and only copied if it needs escapes.
func appendTextMarshaler(b []byte, v reflect.Value) ([]byte, error) {
	if v.CanAddr() && v.Kind() != reflect.Pointer {
		v = v.Addr() // converting a pointer to an interface does not copy the value
	}
	as, ok := v.Interface().(encoding.TextAppender)
	if !ok {
		text, err := v.Interface().(encoding.TextMarshaler).MarshalText()
		return AppendString(b, string(text)), err
	}
	start := len(b)
	b, err := as.AppendText(append(b, '"'))
	for _, c := range b[start+1:] {
		if c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return AppendString(b[:start], string(b[start+1:])), err
		}
	}
	return append(b, '"'), err
}

// Append appends v, whose type must be the one s was made for. The output equals that of encoding/json with HTML
// escaping off.
func (s *Shape) Append(b []byte, v reflect.Value) ([]byte, error) {
	var err error
	switch s.kind {
	case raw, pointer, list, table:
		if v.IsNil() {
			return append(b, "null"...), nil
		}
	}
	switch s.kind {
	case text:
		return AppendString(b, v.String()), nil
	case number:
		return strconv.AppendInt(b, v.Int(), 10), nil
	case truth:
		return strconv.AppendBool(b, v.Bool()), nil
	case raw:
		return AppendRaw(b, v.Bytes())
	case pointer:
		return s.elem.Append(b, v.Elem())
	case list:
		b = append(b, '[')
		for i := range v.Len() {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = s.elem.Append(b, v.Index(i)); err != nil {
				return b, err
			}
		}
		return append(b, ']'), nil
	case table:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(x, y reflect.Value) int { return strings.Compare(x.String(), y.String()) })
		b = append(b, '{')
		for i, key := range keys {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(AppendString(b, key.String()), ':')
			if b, err = s.elem.Append(b, v.MapIndex(key)); err != nil {
				return b, err
			}
		}
		return append(b, '}'), nil
	case textual:
		return appendTextMarshaler(b, v)
	case surrogate:
		from := surrogateOf(v)
		to := from.NewSurrogate()
		if err := from.ToSurrogate(to); err != nil {
			return b, err
		}
		return s.elem.Append(b, reflect.ValueOf(to).Elem())
	case foreign:
		return appendForeign(b, v.Interface())
	default:
		if b, err = s.appendMembers(append(b, '{'), v); err != nil {
			return b, err
		}
		return append(b, '}'), nil
	}
}

// surrogateOf returns a value as a Surrogate, whose methods have pointer receivers. It copies a value without an
// address.
func surrogateOf(v reflect.Value) Surrogate {
	if v.CanAddr() {
		return v.Addr().Interface().(Surrogate)
	}
	of := reflect.New(v.Type())
	of.Elem().Set(v)
	return of.Interface().(Surrogate)
}

// Marshal is json.Marshal without escapes for <, > and &.
func Marshal(v any) ([]byte, error) { return marshal(v, "") }

// MarshalIndent is Marshal with each member and item on a line of its own, indented by two spaces for each level.
func MarshalIndent(v any) ([]byte, error) { return marshal(v, "  ") }

// marshal encodes a value without the line break that a json.Encoder adds.
func marshal(v any, indent string) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	err := e.Encode(v)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

// appendForeign appends a value of a type for which encoding/json does the work.
func appendForeign(b []byte, v any) ([]byte, error) {
	raw, err := Marshal(v)
	return append(b, raw...), err
}

// appendMembers appends the members of a struct without the braces. Those of an embedded struct follow in the same
// object: whether a comma is needed depends on the last byte of b.
func (s *Shape) appendMembers(b []byte, v reflect.Value) ([]byte, error) {
	var err error
	for i := range s.members {
		m := &s.members[i]
		field := v.Field(m.index)
		if m.embedded {
			if b, err = m.shape.appendMembers(b, field); err != nil {
				return b, err
			}
			continue
		}
		if m.optional && m.shape.empty(field) {
			continue
		}
		if b[len(b)-1] != '{' {
			b = append(b, ',')
		}
		b = append(b, m.quoted...)
		if b, err = m.shape.Append(b, field); err != nil {
			return b, err
		}
	}
	return b, nil
}

// empty reports whether omitempty or omitzero omits v. The two options are not
// told apart: no field of a supported type uses one where the other would
// behave differently.
func (s *Shape) empty(v reflect.Value) bool {
	switch s.kind {
	case text, raw, list, table:
		return v.Len() == 0
	case number:
		return v.Int() == 0
	case truth:
		return !v.Bool()
	case pointer:
		return v.IsNil()
	case object:
		for i := range s.members {
			if !s.members[i].shape.empty(v.Field(s.members[i].index)) {
				return false
			}
		}
		return true
	default:
		switch v.Kind() {
		case reflect.Map, reflect.Slice:
			return v.Len() == 0
		}
		return v.IsZero()
	}
}

// AppendRaw appends raw without insignificant white space, so that one record
// stays one line. It rejects invalid JSON: once stored, it would make the whole
// run unreadable.
func AppendRaw(b []byte, raw json.RawMessage) ([]byte, error) {
	if !json.Valid(raw) {
		return b, notJSON(raw)
	}
	b, last := appendCompact(b, raw)
	return append(b, raw[last:]...), nil
}

// Compact returns raw without insignificant white space. It returns raw itself
// if there is none.
func Compact(raw json.RawMessage) (json.RawMessage, error) {
	if !json.Valid(raw) {
		return nil, notJSON(raw)
	}
	b, last := appendCompact(nil, raw)
	if last == 0 {
		return raw, nil
	}
	return append(b, raw[last:]...), nil
}

// notJSON is the error for invalid JSON. It shows at most 40 characters.
func notJSON(raw json.RawMessage) error { return fmt.Errorf("%.40q is not JSON", raw) }

// appendCompact appends raw up to its last insignificant white space and
// returns the offset of the rest, which the caller appends.
func appendCompact(b []byte, raw json.RawMessage) (_ []byte, last int) {
	quoted := false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\':
			i++
		case c <= ' ' && !quoted:
			b = append(b, raw[last:i]...)
			last = i + 1
		}
	}
	return b, last
}

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string with the escapes of encoding/json:
// control characters, quotes and backslashes, U+2028 and U+2029 (which
// JavaScript does not allow in strings), and U+FFFD for invalid UTF-8.
func AppendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' {
				i++
				continue
			}
			b = append(b, s[start:i]...)
			switch c {
			case '"', '\\':
				b = append(b, '\\', c)
			case '\b':
				b = append(b, `\b`...)
			case '\f':
				b = append(b, `\f`...)
			case '\n':
				b = append(b, `\n`...)
			case '\r':
				b = append(b, `\r`...)
			case '\t':
				b = append(b, `\t`...)
			default:
				b = append(b, `\u00`...)
				b = append(b, hexDigits[c>>4], hexDigits[c&15])
			}
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			b = append(b, s[start:i]...)
			b = append(b, `\ufffd`...)
			start = i + size
		case r == '\u2028' || r == '\u2029':
			b = append(b, s[start:i]...)
			b = append(b, `\u202`...)
			b = append(b, hexDigits[r&15])
			start = i + size
		}
		i += size
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}
