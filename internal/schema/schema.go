package schema

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// Schema is a compiled JSON Schema.
type Schema struct {
	compiled *jsonschema.Schema
	document any
}

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

// refuse is the loader of a compiler that may load nothing.
type refuse struct{}

func (refuse) Load(url string) (any, error) {
	return nil, fmt.Errorf("%q lies outside of the schema", url)
}

const self = "schema:///this"

// Compile reads a schema.
func Compile(raw json.RawMessage) (*Schema, error) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("the schema is not JSON: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(refuse{})
	c.AssertFormat()
	if err := c.AddResource(self, document); err != nil {
		return nil, err
	}
	compiled, err := c.Compile(self)
	if err != nil {
		return nil, err
	}
	return &Schema{compiled: compiled, document: document}, nil
}

// Check returns everything that is wrong with a value.
func (s *Schema) Check(value json.RawMessage) ([]Problem, error) {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return nil, fmt.Errorf("the value is not JSON: %w", err)
	}
	err = s.compiled.Validate(v)
	var invalid *jsonschema.ValidationError
	switch {
	case err == nil:
		return nil, nil
	case errors.As(err, &invalid):
		out := complaints(invalid, nil)
		slices.SortFunc(out, func(a, b Problem) int {
			return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Message, b.Message)) // the validator has no order
		})
		return slices.Compact(out), nil
	}
	return nil, err
}

var english = message.NewPrinter(language.English)

// complaints are the leaves of the tree of errors: what is really wrong.
func complaints(e *jsonschema.ValidationError, out []Problem) []Problem {
	if len(e.Causes) == 0 {
		return append(out, Problem{Path: location(e.InstanceLocation), Message: e.ErrorKind.LocalizedString(english)})
	}
	for _, cause := range e.Causes {
		out = complaints(cause, out)
	}
	return out
}

func location(tokens []string) string {
	var b strings.Builder
	for _, t := range tokens {
		if t != "" && strings.Trim(t, "0123456789") == "" {
			fmt.Fprintf(&b, "[%s]", t)
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(t)
	}
	return b.String()
}

// Fill puts the defaults of the schema's properties where an object has none,
// in objects inside it too. Anything else stays as it is.
func (s *Schema) Fill(value json.RawMessage) json.RawMessage {
	document, ok := s.document.(map[string]any)
	if !ok {
		return value
	}
	filled, changed := fill(document, value)
	if !changed {
		return value
	}
	return filled
}

func fill(schema map[string]any, value json.RawMessage) (json.RawMessage, bool) {
	properties, _ := schema["properties"].(map[string]any)
	var object map[string]json.RawMessage
	if len(properties) == 0 || json.Unmarshal(value, &object) != nil || object == nil {
		return value, false
	}
	changed := false
	for name, p := range properties {
		property, ok := p.(map[string]any)
		if !ok {
			continue
		}
		old, has := object[name]
		if !has {
			def, ok := property["default"]
			if !ok {
				continue
			}
			raw, err := json.Marshal(def)
			if err != nil {
				continue
			}
			object[name], changed = raw, true
			continue
		}
		if inner, did := fill(property, old); did {
			object[name], changed = inner, true
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
	document, _ := s.document.(map[string]any)
	properties, _ := document["properties"].(map[string]any)
	p, _ := properties[property].(map[string]any)
	switch t := p["type"].(type) {
	case string:
		return []string{t}
	case []any:
		var out []string
		for _, one := range t {
			if name, ok := one.(string); ok {
				out = append(out, name)
			}
		}
		return out
	}
	return nil
}
