package ir

import "encoding/json"

// PlainText returns a JSON string as it is, and anything else as JSON.
func PlainText(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(value)
}
