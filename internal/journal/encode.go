package journal

import (
	"fmt"
	"reflect"
	"strconv"

	"github.com/espalier-run/espalier/internal/jsonfast"
)

// The form of a stored batch is one JSON object per event and line:
//
//	{"q":seq,"t":millis,"r":"child run","k":"TaskStarted","d":{…}}
//
// "r" is left out when it is empty. The short form also leaves out "q" and "t"
// if the event has the next number and the time of the line before; Decode reads
// both forms. The bytes are those of encoding/json (a
// test compares them) without its escapes for HTML, but they are written
// several times faster: every run writes facts at every step.

// Encode appends one line for each event to dst.
func Encode(dst []byte, events []Event) ([]byte, error) { return encode(dst, events, false) }

// EncodeShort is Encode in the short form. Releases that do not know it must not
// open a store that has it.
func EncodeShort(dst []byte, events []Event) ([]byte, error) { return encode(dst, events, true) }

func encode(dst []byte, events []Event, short bool) (_ []byte, err error) {
	for i := range events {
		e := &events[i]
		dst = append(dst, '{')
		if !short || i == 0 || e.Seq != events[i-1].Seq+1 || e.At != events[i-1].At {
			dst = append(dst, `"q":`...)
			dst = strconv.AppendInt(dst, int64(e.Seq), 10)
			dst = append(dst, `,"t":`...)
			dst = strconv.AppendInt(dst, int64(e.At), 10)
			dst = append(dst, ',')
		}
		if e.Run != "" {
			dst = append(dst, `"r":`...)
			dst = jsonfast.AppendString(dst, string(e.Run))
			dst = append(dst, ',')
		}
		dst = append(dst, `"k":"`...)
		if e.Fact == nil {
			return dst, fmt.Errorf("%w: event %d has no fact", ErrInvalid, e.Seq)
		}
		dst = append(dst, e.Fact.factName()...)
		dst = append(dst, `","d":`...)
		if dst, err = appendFact(dst, e.Fact); err != nil {
			return dst, fmt.Errorf("%w: event %d: %s: %w", ErrInvalid, e.Seq, e.Fact.factName(), err)
		}
		dst = append(dst, "}\n"...)
	}
	return dst, nil
}

func appendFact(b []byte, fact Fact) ([]byte, error) {
	shape := factShapes().byType[reflect.TypeOf(fact)]
	if shape == nil {
		return b, fmt.Errorf("%T is not a fact that can be stored", fact)
	}
	return shape.Append(b, reflect.ValueOf(fact))
}
