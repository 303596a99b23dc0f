package step

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// JSON encodes plain data as people read it: <, > and & stay as they are.
func JSON(v any) json.RawMessage {
	raw, err := encode(v)
	if err != nil {
		panic(fmt.Sprintf("step: %v", err)) // a programming mistake: only plain data goes here
	}
	return raw
}

func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
