package step

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// JSON encodes plain data as people read it: <, > and & stay as they are.
func JSON(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(fmt.Sprintf("step: %v", err)) // a programming mistake: only plain data goes here
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
