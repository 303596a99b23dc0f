package schema

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Schema is a compiled JSON Schema.
type Schema struct {
	root *Node
}

// Root is the schema itself, to be looked into.
func (s *Schema) Root() *Node { return s.root }

// Problem is one thing that is wrong with a value.
type Problem struct {
	// Path is where in the value, as in "orders[2].amount"; empty is the value itself.
	Path    string `json:"path"`
	Message string `json:"message"`
}

func (p Problem) String() string {
	if p.Path == "" {
		return p.Message
	}
	return p.Path + ": " + p.Message
}

// ErrTooMuch says that a value was not checked to its end: the schema makes
// that more work than any honest one does.
var ErrTooMuch = errors.New("checking the value against its schema takes too much work")

// Decode reads one JSON value, whose numbers keep their digits.
func Decode(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the value")
	}
	return v, nil
}

// Check returns everything that is wrong with a value.
func (s *Schema) Check(value json.RawMessage) ([]Problem, error) {
	v, err := Decode(value)
	if err != nil {
		return nil, fmt.Errorf("the value is not JSON: %w", err)
	}
	var r run
	r.check(s.root, v, nil, nil)
	if r.tooMuch() {
		return nil, ErrTooMuch
	}
	var out []Problem
	for _, f := range r.found {
		out = append(out, Problem{Path: f.at.String(), Message: f.message})
	}
	slices.SortFunc(out, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Message, b.Message))
	})
	return slices.Compact(out), nil // several schemas may say the same
}

// Fill puts the defaults of the schema's properties where an object has none,
// in objects inside it too. Anything else stays as it is.
func (s *Schema) Fill(value json.RawMessage) json.RawMessage {
	filled, _ := fill(s.root, value)
	return filled
}

func fill(n *Node, value json.RawMessage) (json.RawMessage, bool) {
	var object map[string]json.RawMessage
	if len(n.Properties) == 0 || json.Unmarshal(value, &object) != nil || object == nil {
		return value, false
	}
	changed := false
	for name, property := range n.Properties {
		old, has := object[name]
		if has {
			if inner, did := fill(property, old); did {
				object[name], changed = inner, true
			}
			continue
		}
		if property.Default == nil {
			continue
		}
		if raw, err := json.Marshal(*property.Default); err == nil {
			object[name], changed = raw, true
		}
	}
	if !changed {
		return value, false
	}
	raw, err := json.Marshal(object)
	if err != nil {
		return value, false
	}
	return raw, true
}

// Types are the JSON types that a property of the schema may have; nil when
// it does not say.
func (s *Schema) Types(property string) []string {
	if p := s.root.Properties[property]; p != nil {
		return p.Types
	}
	return nil
}
