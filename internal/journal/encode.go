package journal

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The form of a stored batch is one JSON object per event and line:
//
//	{"q":seq,"t":millis,"r":"child run","k":"TaskStarted","d":{…}}
//
// "r" is left out when it is empty. The bytes are those of encoding/json (a
// test compares them) without its escapes for HTML, but they are written
// several times faster: every run writes facts at every step.

// Encode appends events to dst, a line for each.
func Encode(dst []byte, events []Event) ([]byte, error) {
	dst, _, err := EncodeExact(dst, events)
	return dst, err
}

// EncodeExact is Encode, and tells whether decoding gives the same events again.
// It does not when JSON had space between its tokens, or text was not UTF-8.
func EncodeExact(dst []byte, events []Event) (_ []byte, exact bool, err error) {
	var enc encoder
	for i := range events {
		e := &events[i]
		dst = append(dst, `{"q":`...)
		dst = strconv.AppendInt(dst, int64(e.Seq), 10)
		dst = append(dst, `,"t":`...)
		dst = strconv.AppendInt(dst, int64(e.At), 10)
		if e.Run != "" {
			dst = append(dst, `,"r":`...)
			dst = enc.text(dst, string(e.Run))
		}
		dst = append(dst, `,"k":"`...)
		if e.Fact == nil {
			return dst, false, fmt.Errorf("%w: event %d has no fact", ErrInvalid, e.Seq)
		}
		dst = append(dst, e.Fact.factName()...)
		dst = append(dst, `","d":`...)
		if dst, err = enc.fact(dst, e.Fact); err != nil {
			return dst, false, fmt.Errorf("%w: event %d: %s: %w", ErrInvalid, e.Seq, e.Fact.factName(), err)
		}
		dst = append(dst, "}\n"...)
	}
	return dst, !enc.changed, nil
}

// encoder writes events.
type encoder struct {
	changed bool // something was not written as it was
}

func (e *encoder) text(b []byte, s string) []byte {
	e.changed = e.changed || !utf8.ValidString(s)
	return appendString(b, s)
}

func (e *encoder) raw(b []byte, raw json.RawMessage) ([]byte, error) {
	before := len(b)
	b, err := appendRaw(b, raw)
	e.changed = e.changed || len(b)-before != len(raw)
	return b, err
}

func (e *encoder) fact(b []byte, fact Fact) ([]byte, error) {
	shape := factShapes().byType[reflect.TypeOf(fact)]
	if shape == nil {
		return b, fmt.Errorf("%T is not a fact that can be stored", fact)
	}
	return e.value(b, shape, reflect.ValueOf(fact))
}

// value writes a value of a shape.
func (e *encoder) value(b []byte, s *shape, v reflect.Value) ([]byte, error) {
	var err error
	switch s.kind {
	case text:
		return e.text(b, v.String()), nil
	case number:
		return strconv.AppendInt(b, v.Int(), 10), nil
	case truth:
		return strconv.AppendBool(b, v.Bool()), nil
	case raw:
		return e.raw(b, v.Bytes())
	case pointer:
		return e.value(b, s.elem, v.Elem())
	case list:
		b = append(b, '[')
		for i := range v.Len() {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = e.value(b, s.elem, v.Index(i)); err != nil {
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
			b = append(e.text(b, key.String()), ':')
			if b, err = e.value(b, s.elem, v.MapIndex(key)); err != nil {
				return b, err
			}
		}
		return append(b, '}'), nil
	default:
		if b, err = e.members(append(b, '{'), s, v); err != nil {
			return b, err
		}
		return append(b, '}'), nil
	}
}

func (e *encoder) members(b []byte, s *shape, v reflect.Value) ([]byte, error) {
	var err error
	for i := range s.members {
		m := &s.members[i]
		field := v.Field(m.index)
		if m.embedded {
			if b, err = e.members(b, m.shape, field); err != nil {
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
		if b, err = e.value(b, m.shape, field); err != nil {
			return b, err
		}
	}
	return b, nil
}

// empty is what omitempty and omitzero leave out; no field of a fact has the
// one where the other would differ.
func (s *shape) empty(v reflect.Value) bool {
	switch s.kind {
	case text, raw, list, table:
		return v.Len() == 0
	case number:
		return v.Int() == 0
	case truth:
		return !v.Bool()
	case pointer:
		return v.IsNil()
	default:
		if s.isValue { // as Value.IsZero, without a copy on the heap
			return v.Field(0).Len() == 0 && v.Field(1).Len() == 0
		}
		return v.IsZero()
	}
}

// appendRaw copies JSON without the space between its tokens, so that a line
// stays a line. JSON that is none is refused here: stored, it would make the
// whole run unreadable.
func appendRaw(b []byte, raw json.RawMessage) ([]byte, error) {
	if !json.Valid(raw) {
		return b, fmt.Errorf("%.40q is not JSON", raw)
	}
	start, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\':
			i++
		case c <= ' ' && !quoted:
			b = append(b, raw[start:i]...)
			start = i + 1
		}
	}
	return append(b, raw[start:]...), nil
}

const hexDigits = "0123456789abcdef"

// appendString quotes s with the escapes of encoding/json: controls, quotes
// and backslashes, the two line separators that JavaScript minds, and the
// replacement character for bytes that are not UTF-8.
func appendString(b []byte, s string) []byte {
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
