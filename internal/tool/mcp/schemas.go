package mcp

import (
	"bytes"
	"encoding/json"
	"sync"
)

// schemas collects the input schemas of tools from the messages of a server while
// it starts. The SDK decodes schemas with float64 numbers, which cannot hold
// large integers.
type schemas struct {
	mu     sync.Mutex
	closed bool
	byTool map[string]json.RawMessage
}

// message adds the schemas of a message, which is one line of a program's output
// or of an HTTP response.
func (s *schemas) message(line []byte) {
	line = bytes.TrimPrefix(line, []byte("data:"))
	if !bytes.Contains(line, []byte(`"inputSchema"`)) {
		return
	}
	var message struct {
		Result struct {
			Tools []struct {
				Name        string          `json:"name"`
				InputSchema json.RawMessage `json:"inputSchema"`
			} `json:"tools"`
		} `json:"result"`
	}
	if json.Unmarshal(line, &message) != nil {
		return // the SDK reports it
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byTool == nil {
		s.byTool = map[string]json.RawMessage{}
	}
	for _, t := range message.Result.Tools {
		if string(t.InputSchema) != "null" {
			s.byTool[t.Name] = t.InputSchema
		}
	}
}

// of returns the schema of a tool as it was sent; nil if it was not seen.
func (s *schemas) of(tool string) json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byTool[tool]
}

// close ends the collection and frees the schemas.
func (s *schemas) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.byTool = true, nil
}

func (s *schemas) open() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closed
}
