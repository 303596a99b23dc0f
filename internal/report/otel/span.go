package otel

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/espalier-run/espalier/internal/journal"
)

// TraceID and SpanID are the ids of OpenTelemetry.
type (
	TraceID [16]byte
	SpanID  [8]byte
)

// Kind is the kind of a span, with OTLP's numbers.
type Kind int

// Kinds of spans.
const (
	Internal Kind = 1
	Client   Kind = 3
)

// Span is a span that has ended.
type Span struct {
	Trace      TraceID
	ID, Parent SpanID // zero for no parent
	Name       string
	Kind       Kind
	Start, End journal.Millis
	Attrs      []Attr
	Events     []Event
	Links      []Link
	Failed     bool
	Message    string // of a failure
}

// Attr is an attribute of a span, a point or a resource. Its value is a string,
// int64, float64, bool or []string.
type Attr struct {
	Key   string
	Value any
}

// Event is an event of a span.
type Event struct {
	At    journal.Millis
	Name  string
	Attrs []Attr
}

// Link refers to a span of another trace.
type Link struct {
	Trace TraceID
	Span  SpanID
}

// TraceOf returns the trace of a stream: the root run's id, the trace_id of audit
// logs, without its hyphens.
func TraceOf(root journal.RunID) TraceID {
	var id TraceID
	text := strings.ReplaceAll(string(root), "-", "")
	if len(text) == 2*len(id) {
		if _, err := hex.Decode(id[:], []byte(text)); err == nil && id != (TraceID{}) {
			return id
		}
	}
	sum := sha256.Sum256([]byte(root)) // the id is not a UUID
	copy(id[:], sum[:])
	return id
}

// SpanOf returns the id of a run's own span.
func SpanOf(root, run journal.RunID) SpanID { return spanID(root, "run:"+string(run)) }

// spanID returns the id of the span with a label in a stream.
func spanID(root journal.RunID, label string) SpanID {
	sum := sha256.Sum256([]byte(string(root) + "/" + label))
	var id SpanID
	copy(id[:], sum[:])
	if id == (SpanID{}) {
		id[7] = 1
	}
	return id
}

// ParseTraceParent parses a W3C traceparent: "00-<trace>-<span>-<flags>".
func ParseTraceParent(text string) (Link, bool) {
	var l Link
	parts := strings.Split(strings.TrimSpace(text), "-")
	if len(parts) < 4 || len(parts[0]) != 2 || len(parts[1]) != 32 || len(parts[2]) != 16 || len(parts[3]) != 2 {
		return l, false
	}
	if parts[0] == "ff" || parts[0] == "00" && len(parts) != 4 || strings.ToLower(text) != text {
		return l, false
	}
	var flags [1]byte
	for i, to := range [][]byte{l.Trace[:], l.Span[:], flags[:]} {
		if _, err := hex.Decode(to, []byte(parts[i+1])); err != nil {
			return Link{}, false
		}
	}
	if l.Trace == (TraceID{}) || l.Span == (SpanID{}) {
		return Link{}, false
	}
	return l, true
}
