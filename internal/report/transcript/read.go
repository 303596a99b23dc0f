package transcript

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"
)

// MaxLine is the length of the longest line that is read; a longer one counts as damaged.
const MaxLine = 256 << 20

// LineError reports a line that is not an event.
type LineError struct {
	Line int // from 1
	// Torn reports that the file ends in the middle of the line: its writer was
	// interrupted, or has not finished yet.
	Torn bool
	Why  error
}

func (e *LineError) Error() string {
	if e.Torn {
		return fmt.Sprintf("line %d is not complete: %v", e.Line, e.Why)
	}
	return fmt.Sprintf("line %d is damaged: %v", e.Line, e.Why)
}

// Unwrap returns the reason.
func (e *LineError) Unwrap() error { return e.Why }

// Read returns the events of a transcript. Events of unknown types are included,
// with their payload as it is. A line that is not an event yields a *LineError,
// and reading continues after it; any other error ends the sequence. Read accepts
// files of Espalier and of the AWF program.
func Read(r io.Reader) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		in := bufio.NewReaderSize(r, 64<<10)
		var line []byte
		for n := 1; ; n++ {
			var err error
			var long bool
			line, long, err = readLine(in, line[:0])
			if err != nil && !errors.Is(err, io.EOF) {
				yield(Event{}, err)
				return
			}
			last := err != nil
			text := bytes.TrimSpace(line)
			switch {
			case last && len(line) == 0:
				return
			case len(text) == 0: // empty lines are skipped
			case long:
				why := fmt.Errorf("it is longer than %d bytes", MaxLine)
				if !yield(Event{}, &LineError{Line: n, Torn: last, Why: why}) {
					return
				}
			default:
				e, err := Decode(text)
				if err != nil {
					e, err = Event{}, &LineError{Line: n, Torn: last, Why: err}
				}
				if !yield(e, err) {
					return
				}
			}
			if last {
				return
			}
		}
	}
}

// readLine reads up to and including the next line feed. It keeps the start of a
// line that is too long.
func readLine(in *bufio.Reader, line []byte) (_ []byte, long bool, err error) {
	for {
		piece, err := in.ReadSlice('\n')
		if len(line)+len(piece) > MaxLine {
			long = true
		} else {
			line = append(line, piece...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, long, err
		}
	}
}

// Decode decodes one line.
func Decode(line []byte) (Event, error) {
	var raw struct {
		Event
		Type      *Type  `json:"type"`
		Timestamp string `json:"timestamp"`
	}
	if err := json.Unmarshal(line, &raw); err != nil {
		return Event{}, err
	}
	if raw.Type == nil {
		return Event{}, errors.New("it has no type")
	}
	e := raw.Event
	e.Type = *raw.Type
	// An invalid time is no reason to drop the event.
	e.Timestamp, _ = time.Parse(time.RFC3339Nano, raw.Timestamp)
	return e, nil
}

// Step decodes the payload of a run.* or step.* event.
func (e *Event) Step() (Step, error) { return payload[Step](e) }

// Message decodes the payload of a message.* event.
func (e *Event) Message() (Message, error) { return payload[Message](e) }

// Tool decodes the payload of a tool.* event.
func (e *Event) Tool() (Tool, error) { return payload[Tool](e) }

// payload decodes the payload of an event.
func payload[T any](e *Event) (T, error) {
	var out T
	if err := json.Unmarshal(e.Payload, &out); err != nil {
		return out, fmt.Errorf("payload of %s: %w", e.Type, err)
	}
	return out, nil
}
