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

	"github.com/espalier-run/espalier/internal/xslices"
)

// Schema is a compiled JSON Schema.
type Schema struct {
	root *Node
}

// Root returns the root node, for inspection.
func (s *Schema) Root() *Node { return s.root }

// Problem is one violation of a schema.
type Problem struct {
	// Path is the location in the value, such as "orders[2].amount". It is empty for the value itself.
	Path    string `json:"path"`
	Message string `json:"message"`
}

func (p Problem) String() string {
	if p.Path == "" {
		return p.Message
	}
	return p.Path + ": " + p.Message
}

// ErrTooMuch is returned when a validation was aborted because it exceeded the limits on work or nesting.
var ErrTooMuch = errors.New("validating the value against its schema takes too much work")

// Decode decodes one JSON value. Numbers become json.Number, which keeps their digits.
func Decode(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("unexpected data after the value")
	}
	return v, nil
}

// Check validates a value and returns all problems, sorted by path.
func (s *Schema) Check(value json.RawMessage) ([]Problem, error) {
	v, err := Decode(value)
	if err != nil {
		return nil, fmt.Errorf("the value is not JSON: %w", err)
	}
	var r evaluation
	r.check(s.root, v, nil, nil)
	if r.exceeded() {
		return nil, ErrTooMuch
	}
	out := xslices.Map(r.found, func(f failure) Problem { return Problem{Path: f.at.String(), Message: f.message} })
	slices.SortFunc(out, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Message, b.Message))
	})
	return slices.Compact(out), nil // several subschemas may report the same problem
}

// Fill sets missing properties of an object, and of objects nested in it, to the defaults of the schema. It returns
// other values unchanged.
func (s *Schema) Fill(value json.RawMessage) json.RawMessage {
	filled, _ := fill(s.root, value)
	return filled
}

// fill adds the defaults that an object lacks, also inside of its properties, and reports whether it changed the value.
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

// Types returns the JSON types allowed for a property of the root, or nil if the schema does not restrict them.
func (s *Schema) Types(property string) []string {
	if p := s.root.Properties[property]; p != nil {
		return p.Types
	}
	return nil
}
