package journal

import (
	"encoding/json"

	"github.com/espalier-run/espalier/internal/jsonfast"
)

// AppendString appends s as a JSON string, with the escapes of encoding/json
// but not its escapes for HTML.
func AppendString(b []byte, s string) []byte { return jsonfast.AppendString(b, s) }

// AppendRaw appends JSON without white space between tokens. It returns an error
// for invalid JSON.
func AppendRaw(b []byte, raw json.RawMessage) ([]byte, error) { return jsonfast.AppendRaw(b, raw) }
