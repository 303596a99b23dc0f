package journal

import (
	"encoding/json"

	"github.com/espalier-run/espalier/internal/jsonfast"
)

// AppendString appends s as a JSON string, with the escapes of encoding/json
// but not its escapes for HTML.
func AppendString(b []byte, s string) []byte { return jsonfast.AppendString(b, s) }

// AppendRaw appends JSON without the space between its tokens; it refuses
// what is not JSON.
func AppendRaw(b []byte, raw json.RawMessage) ([]byte, error) { return jsonfast.AppendRaw(b, raw) }
