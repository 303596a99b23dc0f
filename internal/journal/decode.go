package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"unicode/utf8"
)

// Decode reads what Encode wrote. An error is an ErrCorrupt.
func Decode(body []byte) ([]Event, error) {
	events := make([]Event, 0, bytes.Count(body, []byte{'\n'}))
	for len(body) > 0 {
		end := bytes.IndexByte(body, '\n')
		if end < 0 {
			return nil, fmt.Errorf("%w: the last line is torn", ErrCorrupt)
		}
		e, err := decodeEvent(body[:end])
		if err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrCorrupt, len(events)+1, err)
		}
		events = append(events, e)
		body = body[end+1:]
	}
	return events, nil
}

func decodeEvent(line []byte) (Event, error) {
	var e Event
	kind, data, err := openEnvelope(line, &e)
	if err != nil {
		return e, err
	}
	e.Fact, err = decodeFact(kind, data)
	return e, err
}

// openEnvelope takes the envelope apart by hand, in the one order in which
// Encode writes it: it is most of what a JSON decoder would do twice.
func openEnvelope(line []byte, e *Event) (kind, data []byte, err error) {
	rest, ok := bytes.CutPrefix(line, []byte(`{"q":`))
	number := func(before byte) (n int64) {
		end := bytes.IndexByte(rest, before)
		if !ok || end < 0 {
			ok = false
			return 0
		}
		n, err := strconv.ParseInt(string(rest[:end]), 10, 64)
		ok = err == nil
		rest = rest[end:]
		return n
	}
	literal := func(text string) bool {
		var found bool
		if ok {
			rest, found = bytes.CutPrefix(rest, []byte(text))
		}
		return found
	}
	e.Seq = Seq(number(','))
	ok = literal(`,"t":`)
	e.At = Millis(number(','))
	if literal(`,"r":`) {
		// The run's id is a quoted string; it may hold escapes, but no bare quote.
		end := closingQuote(rest)
		if end < 0 || json.Unmarshal(rest[:end+1], &e.Run) != nil {
			return nil, nil, errEnvelope
		}
		rest = rest[end+1:]
	}
	ok = literal(`,"k":"`)
	if end := bytes.IndexByte(rest, '"'); ok && end >= 0 {
		kind, rest = rest[:end], rest[end:]
	} else {
		ok = false
	}
	ok = literal(`","d":`)
	if !ok || len(rest) < 2 || rest[len(rest)-1] != '}' {
		return nil, nil, errEnvelope
	}
	return kind, rest[:len(rest)-1], nil
}

var errEnvelope = errors.New("it is not an event")

// closingQuote is where the string that begins b ends; -1 when b begins with
// none or it has no end.
func closingQuote(b []byte) int {
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

func decodeFact(kind, data []byte) (Fact, error) {
	known, ok := factShapes().byName[string(kind)]
	if !ok {
		return nil, fmt.Errorf("there is no fact called %.40q", kind)
	}
	v := reflect.New(known.typ)
	if r := (reader{data: data}); !r.read(known.shape, v.Elem()) || len(r.data) > 0 {
		// Not as Encode writes it: let encoding/json say whether and why it is wrong.
		v = reflect.New(known.typ)
		if err := json.Unmarshal(data, v.Interface()); err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
	}
	return v.Elem().Interface().(Fact), nil
}

// reader reads JSON in the one form in which Encode writes it, several times
// faster than encoding/json reads every form: a long run is folded from tens
// of thousands of facts. At anything else it gives up.
type reader struct{ data []byte }

func (r *reader) skip(c byte) bool {
	if len(r.data) == 0 || r.data[0] != c {
		return false
	}
	r.data = r.data[1:]
	return true
}

func (r *reader) read(s *shape, v reflect.Value) bool {
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
		rest, ok := bytes.CutPrefix(r.data, []byte("true"))
		if ok {
			r.data = rest
			v.SetBool(true)
		}
		return ok
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
		return r.sequence('[', ']', func(n int) bool {
			v.Grow(1)
			v.SetLen(n + 1)
			return r.read(s.elem, v.Index(n))
		})
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
		next := 0 // members come in order
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

// sequence reads what stands between brackets, item by item.
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

// key reads the name of a member if it is this one.
func (r *reader) key(name string) bool {
	d, n := r.data, len(name)
	if len(d) < n+3 || d[0] != '"' || string(d[1:n+1]) != name || d[n+1] != '"' || d[n+2] != ':' {
		return false
	}
	r.data = d[n+3:]
	return true
}

func (r *reader) text() (string, bool) {
	end := closingQuote(r.data)
	if end < 0 {
		return "", false
	}
	quoted := r.data[:end+1]
	r.data = r.data[end+1:]
	for _, c := range quoted[1:end] {
		if c == '\\' || c < ' ' || c >= utf8.RuneSelf {
			var t string
			err := json.Unmarshal(quoted, &t)
			return t, err == nil
		}
	}
	return string(quoted[1:end]), true
}

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

// raw finds the end of a value of any kind.
func (r *reader) raw() ([]byte, bool) {
	depth := 0
	for i := 0; i < len(r.data); i++ {
		switch r.data[i] {
		case '"':
			end := closingQuote(r.data[i:])
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

func (r *reader) take(n int) ([]byte, bool) {
	value := r.data[:n]
	r.data = r.data[n:]
	return value, json.Valid(value) && value[0] > ' ' && value[n-1] > ' '
}
