package step

import (
	"encoding/json"
	"fmt"

	"github.com/espalier-run/espalier/internal/jsonfast"
)

// JSON encodes plain data without escaping <, > and &.
func JSON(v any) json.RawMessage {
	raw, err := Encode(v)
	if err != nil {
		panic(fmt.Sprintf("step: %v", err)) // a programming error: callers pass plain data
	}
	return raw
}

// Encode returns a value as JSON, without spaces and HTML escapes.
func Encode(v any) (json.RawMessage, error) {
	if raw, ok := v.(json.RawMessage); ok && len(raw) > 0 {
		return jsonfast.Compact(raw)
	}
	return jsonfast.Marshal(v)
}
