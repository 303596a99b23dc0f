package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"

	"github.com/espalier-run/espalier/internal/jsonfast"
)

// Decode reads what Encode wrote. An error is an ErrCorrupt.
func Decode(body []byte) ([]Event, error) {
	events := make([]Event, 0, bytes.Count(body, []byte{'\n'}))
	for len(body) > 0 {
		end := bytes.IndexByte(body, '\n')
		if end < 0 {
			return nil, fmt.Errorf("%w: the last line is torn", ErrCorrupt)
		}
		var before *Event
		if n := len(events); n > 0 {
			before = &events[n-1]
		}
		e, err := decodeEvent(body[:end], before)
		if err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrCorrupt, len(events)+1, err)
		}
		events = append(events, e)
		body = body[end+1:]
	}
	return events, nil
}

// decodeEvent decodes a line. before is the event of the line before, or nil.
func decodeEvent(line []byte, before *Event) (Event, error) {
	var e Event
	kind, data, err := openEnvelope(line, &e, before)
	if err != nil {
		return e, err
	}
	e.Fact, err = decodeFact(kind, data)
	return e, err
}

// openEnvelope parses the envelope by hand, in the only order in which Encode
// writes it. A JSON decoder would scan the fact twice.
func openEnvelope(line []byte, e, before *Event) (kind, data []byte, err error) {
	rest, ok := bytes.CutPrefix(line, []byte(`{`))
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
	switch {
	case literal(`"q":`):
		e.Seq = Seq(number(','))
		ok = literal(`,"t":`)
		e.At = Millis(number(','))
		ok = literal(`,`)
	case before != nil:
		e.Seq, e.At = before.Seq+1, before.At
	default:
		ok = false
	}
	if literal(`"r":`) {
		// The run's ID is a quoted string. It may contain escapes, but no bare
		// quote.
		end := jsonfast.ClosingQuote(rest)
		if end < 0 || json.Unmarshal(rest[:end+1], &e.Run) != nil {
			return nil, nil, errEnvelope
		}
		rest = rest[end+1:]
		ok = literal(`,`)
	}
	ok = literal(`"k":"`)
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

func decodeFact(kind, data []byte) (Fact, error) {
	known, ok := factShapes().byName[string(kind)]
	if !ok {
		return nil, fmt.Errorf("there is no fact called %.40q", kind)
	}
	v := reflect.New(known.typ)
	if !known.shape.Read(data, v.Elem()) {
		// Not as Encode writes it: encoding/json decides whether it is valid.
		v = reflect.New(known.typ)
		if err := json.Unmarshal(data, v.Interface()); err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
	}
	return v.Elem().Interface().(Fact), nil
}
