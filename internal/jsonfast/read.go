package jsonfast

import (
	"bytes"
	"encoding"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Read decodes data in the form that Append writes and reports whether it
// succeeded. If it did not, into is in an undefined state.
func (s *Shape) Read(data []byte, into reflect.Value) bool {
	r := reader{data: data}
	return r.read(s, into) && len(r.data) == 0
}

// ClosingQuote returns the index of the quote that closes the string at the
// start of b, or -1 if there is no complete string.
func ClosingQuote(b []byte) int {
	if len(b) == 0 || b[0] != '"' {
		return -1
	}
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

// reader decodes JSON in the exact form that Append writes. Its methods return
// false for any other form, including valid JSON.
type reader struct{ data []byte }

// skip consumes one byte if it is c.
func (r *reader) skip(c byte) bool {
	if len(r.data) == 0 || r.data[0] != c {
		return false
	}
	r.data = r.data[1:]
	return true
}

// literal consumes a word such as null if the data begins with it.
func (r *reader) literal(word string) bool {
	rest, ok := bytes.CutPrefix(r.data, []byte(word))
	if ok {
		r.data = rest
	}
	return ok
}

// read decodes the next value into v, which has the type of s. Data in another form than that of Append makes it return
// false; the caller then decodes everything with encoding/json, so read never has to be lenient.
func (r *reader) read(s *Shape, v reflect.Value) bool {
	switch s.kind {
	case pointer, list, table:
		if r.literal("null") {
			return true
		}
	}
	switch s.kind {
	case text:
		t, ok := r.text()
		v.SetString(t)
		return ok
	case number:
		n, ok := r.number()
		ok = ok && !v.OverflowInt(n)
		if ok {
			v.SetInt(n)
		}
		return ok
	case truth:
		is := r.literal("true")
		v.SetBool(is)
		return is || r.literal("false")
	case raw:
		value, ok := r.raw()
		if ok {
			v.SetBytes(bytes.Clone(value))
		}
		return ok
	case pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return r.read(s.elem, v.Elem())
	case list:
		v.Set(reflect.MakeSlice(v.Type(), 0, 0)) // an empty list is not nil
		return r.sequence('[', ']', func(n int) bool {
			v.Grow(1)
			v.SetLen(n + 1)
			return r.read(s.elem, v.Index(n))
		})
	case textual:
		t, ok := r.text()
		into, can := v.Addr().Interface().(encoding.TextUnmarshaler)
		return ok && can && into.UnmarshalText([]byte(t)) == nil
	case surrogate:
		to := v.Addr().Interface().(Surrogate)
		from := to.NewSurrogate()
		return r.read(s.elem, reflect.ValueOf(from).Elem()) && to.FromSurrogate(from) == nil
	case foreign:
		value, ok := r.raw()
		return ok && json.Unmarshal(value, v.Addr().Interface()) == nil
	case table:
		v.Set(reflect.MakeMap(v.Type()))
		item := reflect.New(v.Type().Elem()).Elem()
		return r.sequence('{', '}', func(int) bool {
			key, ok := r.text()
			item.SetZero()
			if !ok || !r.skip(':') || !r.read(s.elem, item) {
				return false
			}
			v.SetMapIndex(reflect.ValueOf(key).Convert(v.Type().Key()), item)
			return true
		})
	default:
		next := 0 // members appear in the order of the fields
		return r.sequence('{', '}', func(int) bool {
			for ; next < len(s.flat); next++ {
				m := &s.flat[next]
				if !r.key(m.name) {
					continue
				}
				next++
				field := v
				for _, i := range m.path {
					field = field.Field(i)
				}
				return r.read(m.shape, field)
			}
			return false
		})
	}
}

// sequence reads comma-separated items between brackets.
func (r *reader) sequence(begin, end byte, item func(n int) bool) bool {
	if !r.skip(begin) {
		return false
	}
	if r.skip(end) {
		return true
	}
	for n := 0; ; n++ {
		if !item(n) {
			return false
		}
		if r.skip(end) {
			return true
		}
		if !r.skip(',') {
			return false
		}
	}
}

// key consumes the member name and its colon if the name matches.
func (r *reader) key(name string) bool {
	d, n := r.data, len(name)
	if len(d) < n+3 || d[0] != '"' || string(d[1:n+1]) != name || d[n+1] != '"' || d[n+2] != ':' {
		return false
	}
	r.data = d[n+3:]
	return true
}

// text reads a string. A string with other escapes than \" and \\, or with characters outside of ASCII, is left to
// encoding/json, which also replaces invalid UTF-8.
func (r *reader) text() (string, bool) {
	end := ClosingQuote(r.data)
	if end < 0 {
		return "", false
	}
	quoted := r.data[:end+1]
	r.data = r.data[end+1:]
	escapes := false
	for i := 1; i < end; i++ {
		switch c := quoted[i]; {
		case c == '\\' && (quoted[i+1] == '"' || quoted[i+1] == '\\'): // the common escapes
			escapes = true
			i++
		case c == '\\', c < ' ', c >= utf8.RuneSelf:
			var t string
			err := json.Unmarshal(quoted, &t)
			return t, err == nil
		}
	}
	if escapes {
		return unescape(quoted[1:end]), true
	}
	return string(quoted[1:end]), true
}

// unescape removes the backslash from \" and \\, the only escapes in text.
func unescape(text []byte) string {
	var b strings.Builder
	b.Grow(len(text))
	for len(text) > 0 {
		at := bytes.IndexByte(text, '\\')
		if at < 0 {
			b.Write(text)
			break
		}
		b.Write(text[:at])
		b.WriteByte(text[at+1])
		text = text[at+2:]
	}
	return b.String()
}

// number reads an integer. It does not accept what encoding/json rejects, such as leading zeros.
func (r *reader) number() (int64, bool) {
	end := 0
	for end < len(r.data) && (r.data[end] == '-' || r.data[end] >= '0' && r.data[end] <= '9') {
		end++
	}
	digits := bytes.TrimPrefix(r.data[:end], []byte("-"))
	if len(digits) > 1 && digits[0] == '0' {
		return 0, false
	}
	n, err := strconv.ParseInt(string(r.data[:end]), 10, 64)
	r.data = r.data[end:]
	return n, err == nil
}

// raw reads one value of any kind without decoding it. The value must be inside of an object or a list: it ends before
// the comma or bracket that follows it.
func (r *reader) raw() ([]byte, bool) {
	depth := 0
	for i := 0; i < len(r.data); i++ {
		switch r.data[i] {
		case '"':
			end := ClosingQuote(r.data[i:])
			if end < 0 {
				return nil, false
			}
			i += end
		case '{', '[':
			depth++
		case ',':
			if depth == 0 {
				return r.take(i)
			}
		case '}', ']':
			if depth == 0 {
				return r.take(i)
			}
			depth--
		}
	}
	return nil, false
}

// take consumes n bytes as one value. It rejects white space around the value: Append writes none.
func (r *reader) take(n int) ([]byte, bool) {
	value := r.data[:n]
	r.data = r.data[n:]
	return value, json.Valid(value) && value[0] > ' ' && value[n-1] > ' '
}
