package otel

import (
	"encoding/hex"
	"strings"

	"github.com/espalier-run/espalier/internal/journal"
)

// TraceID is the ID of a trace in OpenTelemetry.
type TraceID [16]byte

// SpanID is the ID of a span in OpenTelemetry.
type SpanID [8]byte

// Link refers to a span of another trace.
type Link struct {
	Trace TraceID
	Span  SpanID
}

// TraceOf is the trace of a stream: the run's id, which the audit log calls trace_id, without its hyphens.
func TraceOf(root journal.RunID) TraceID { return journal.TraceID(root) }

// SpanOf is the id of a run's own span.
func SpanOf(root, run journal.RunID) SpanID { return journal.RunSpan(root, run) }

// spanID is the id of what has this label in a stream.
func spanID(root journal.RunID, label string) SpanID { return journal.SpanID(root, label) }

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
