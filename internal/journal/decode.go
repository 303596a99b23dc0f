package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
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

// decodeFact knows every fact by its name.
func decodeFact(kind, data []byte) (Fact, error) {
	switch string(kind) {
	case "RunStarted":
		return decodeAs[RunStarted](data)
	case "RunFinished":
		return decodeAs[RunFinished](data)
	case "FrameOpened":
		return decodeAs[FrameOpened](data)
	case "FrameClosed":
		return decodeAs[FrameClosed](data)
	case "StepEntered":
		return decodeAs[StepEntered](data)
	case "StepLeft":
		return decodeAs[StepLeft](data)
	case "TaskStarted":
		return decodeAs[TaskStarted](data)
	case "TaskEnded":
		return decodeAs[TaskEnded](data)
	case "TaskLost":
		return decodeAs[TaskLost](data)
	case "TaskNoted":
		return decodeAs[TaskNoted](data)
	case "Reserved":
		return decodeAs[Reserved](data)
	case "BudgetWait":
		return decodeAs[BudgetWait](data)
	case "BudgetRaised":
		return decodeAs[BudgetRaised](data)
	case "RetrySet":
		return decodeAs[RetrySet](data)
	case "TimerFired":
		return decodeAs[TimerFired](data)
	case "GateOpened":
		return decodeAs[GateOpened](data)
	case "GateDecided":
		return decodeAs[GateDecided](data)
	case "InputRefused":
		return decodeAs[InputRefused](data)
	case "CancelRequested":
		return decodeAs[CancelRequested](data)
	case "Paused":
		return decodeAs[Paused](data)
	case "Continued":
		return decodeAs[Continued](data)
	case "StateEdited":
		return decodeAs[StateEdited](data)
	case "Claimed":
		return decodeAs[Claimed](data)
	}
	return nil, fmt.Errorf("there is no fact called %.40q", kind)
}

func decodeAs[F Fact](data []byte) (Fact, error) {
	var f F
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("%s: %w", f.factName(), err)
	}
	return f, nil
}
