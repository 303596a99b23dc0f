package journal

import "encoding/json"

// AppendString appends s as a JSON string, with the escapes of encoding/json
// but not its escapes for HTML.
func AppendString(b []byte, s string) []byte { return appendString(b, s) }

// AppendRaw appends JSON without the space between its tokens; it refuses
// what is not JSON.
func AppendRaw(b []byte, raw json.RawMessage) ([]byte, error) { return appendRaw(b, raw) }
