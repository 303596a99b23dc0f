package journal

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// TraceID returns the id of a run's trace: the run's own id, without hyphens.
func TraceID(root RunID) (id [16]byte) {
	text := strings.ReplaceAll(string(root), "-", "")
	if len(text) == 2*len(id) {
		if n, err := hex.Decode(id[:], []byte(text)); err == nil && n == len(id) && id != ([16]byte{}) {
			return id
		}
	}
	sum := sha256.Sum256([]byte(root)) // a name that is not a UUID
	copy(id[:], sum[:])
	return id
}

// SpanID returns the id of what has this label in a run's trace.
func SpanID(root RunID, label string) (id [8]byte) {
	sum := sha256.Sum256([]byte(string(root) + "/" + label))
	copy(id[:], sum[:])
	if id == ([8]byte{}) {
		id[7] = 1
	}
	return id
}

// RunSpan returns the id of the span of a run, or child run.
func RunSpan(root, run RunID) [8]byte { return SpanID(root, "run:"+string(run)) }

// TraceParent returns the W3C traceparent for what a run calls. Its parent is
// the span of the run.
func TraceParent(root, run RunID) string { return traceParent(root, RunSpan(root, run)) }

// ToolSpan returns the id of the span of a tool call. key is that of the task, or
// of the call inside of the task, that makes it.
func ToolSpan(root, run RunID, key, callID string) [8]byte {
	return SpanID(root, "tool:"+string(run)+":"+key+":"+callID)
}

// ToolTraceParent returns the W3C traceparent for what a tool calls. Its parent
// is the span of the tool call.
func ToolTraceParent(root, run RunID, key, callID string) string {
	return traceParent(root, ToolSpan(root, run, key, callID))
}

func traceParent(root RunID, span [8]byte) string {
	trace := TraceID(root)
	return fmt.Sprintf("00-%x-%x-01", trace[:], span[:])
}
